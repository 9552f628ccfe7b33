"""Lost records that remote storage keeps, and those that Kafka deletes there once the choice leads (J4)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.remote_log import LEADS, WHOLE, copied, leader, with_remote
from tests.support.scenario import written
from tests.support.snapshots import TOPIC, Replica

from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.plan_model import Plan
from replica_audit.model import TopicPartition
from replica_audit.report.plan_text import tell_decisions
from replica_audit.runner.in_process import audit_all

BLANK = Replica([], epochs=(), high_watermark=0)
SHORT = Replica(written(0, 50, 0), epochs=((0, 0),), high_watermark=50)
#: Began anew in epoch 1.
LATE = Replica(written(60, 65, 1), epochs=((1, 60),), first_base_offset=60, high_watermark=65)


def planned(path: Path, other: Replica, *segments: list[bytes], candidate: int | None = 2) -> Plan:
    with_remote(path, LEADS, *(segments or WHOLE), other=other, quiesced=True)
    return plan_elections(
        audit_all(str(path), Settings(topics=(TOPIC,)), asked=(TopicPartition(TOPIC, 0),)),
        asked=((TOPIC, 0),),
        candidate_id=candidate,
    )


@pytest.mark.parametrize(
    ("other", "segments", "numbers"),
    [
        (BLANK, WHOLE, (100, 100)),
        (SHORT, WHOLE, (50, 0)),
        (LATE, (*WHOLE[:2], copied(60, 100, (1, 60))), (95, 60)),
        (LATE, (WHOLE[0], copied(40, 80, (0, 40), (1, 60)), copied(80, 100, (1, 80))), (95, 40)),
    ],
    ids=["blank", "it has the first epoch", "it begins with a later epoch", "a segment reaches into its first epoch"],
)
def test_segments_of_epochs_before_the_leaders_first_are_deleted_as_it_leads(
    tmp_path: Path, other: Replica, segments: tuple[list[bytes], ...], numbers: tuple[int, int]
) -> None:
    plan = planned(tmp_path, other, *segments)
    (decision,) = plan.decisions
    assert (decision.chosen.remote_records, decision.chosen.remote_deleted) == numbers
    (kept,) = [one for one in decision.candidates if one.candidate_id == 1]
    assert (kept.remote_records, kept.remote_deleted) == (0, 0)
    steps = [one for one in plan.steps if one.action == "keep_remote"]
    copies = [one for one in steps if "bucket before broker 2 leads" in one.text]
    assert len(copies) == bool(numbers[1]) and len(steps) - len(copies) == (numbers[0] > numbers[1])
    if copies:
        (look,) = [one for one in plan.steps if one.action == "check_remote"]
        assert plan.steps[look.number] == copies[0] and f" {numbers[1]} records there" in copies[0].text


def test_the_decision_says_that_they_go(tmp_path: Path) -> None:
    (decided,) = tell_decisions(planned(tmp_path / "all", BLANK))
    told = " Kafka deletes what it has there once broker 2 leads, whatever retention is."
    assert told in decided.sentence, decided.sentence
    (decided,) = tell_decisions(planned(tmp_path / "some", LATE))
    assert " Kafka deletes 60 of these there once broker 2 leads" in decided.sentence, decided.sentence
    (decided,) = tell_decisions(planned(tmp_path / "none", SHORT))
    assert "Kafka deletes" not in decided.sentence, decided.sentence


def test_retention_goes_off_for_what_only_the_choice_loses(tmp_path: Path) -> None:
    """Nothing of it is lost under the present leader."""
    plan = planned(tmp_path, SHORT)
    (step,) = [one for one in plan.steps if one.action == "keep_remote"]
    assert step == plan.steps[0] and len(step.commands) == 2
    assert "has moved the leader's log start past them" in step.text and "for their age" not in step.text
    assert any("kafka-delete-records" in one and "uncleanly" in one for one in step.before)
    stays = planned(tmp_path / "stays", SHORT, candidate=1)
    assert not [one for one in stays.steps if one.action == "keep_remote"]


def test_a_leader_that_began_empty_is_deleting_them_now(tmp_path: Path) -> None:
    blank = leader((5, 0), start=0, end=20)
    with_remote(tmp_path, blank, *WHOLE[:2], quiesced=True)
    plan = plan_elections(audit_all(str(tmp_path), Settings(topics=(TOPIC,))))
    (decision,) = plan.decisions
    assert (decision.chosen.remote_records, decision.chosen.remote_deleted) == (60, 60)
    assert "bucket now: broker 1 leads, and Kafka deletes 60 records there" in plan.steps[0].text
    assert not [one for one in plan.steps if one.action == "check_remote"], "to copy them is to look"


def test_where_no_segment_is_known_the_look_needs_the_log_that_names_them(tmp_path: Path) -> None:
    """Only that the leader's files begin above its log start tells of them; a store alone would not say whose its objects are."""
    with_remote(tmp_path, LEADS, other=BLANK, quiesced=True)
    results = audit_all(str(tmp_path), Settings(topics=(TOPIC,)), asked=(TopicPartition(TOPIC, 0),))
    plan = plan_elections(results, asked=((TOPIC, 0),), candidate_id=2)
    (decided,) = tell_decisions(plan)
    told = "Remote storage still has at most 100 of them: no segment of them is known, only where the leader's files begin."
    assert told in decided.sentence, decided.sentence
    (look,) = [one for one in plan.steps if one.action == "check_remote"]
    assert "For 100 no segment is known either: first copy __remote_log_metadata" in look.text


def test_where_segments_are_known_the_look_needs_no_more(tmp_path: Path) -> None:
    (look,) = [one for one in planned(tmp_path, BLANK).steps if one.action == "check_remote"]
    assert "no object was seen for 100 records" in look.text and "__remote_log_metadata" not in look.text

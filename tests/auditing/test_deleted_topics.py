"""Directories of topics that the metadata log has deleted: told as that, and led by nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support import metadata_log as write
from tests.support.scenario import audit, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, make_uuid

from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.literals import OF_OTHER_TOPIC
from replica_audit.model import TopicPartition
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.runner.in_process import audit_all
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.storage import Snapshot

ALIKE = {number: Replica(written(0, 20, 0)) for number in (1, 2)}
ANOTHER_ID = make_uuid("another life")


def controller(*later: bytes) -> dict[int, bytes]:
    """The topic with two partitions, and what came later, ten seconds apart."""
    begin = [write.topic(TOPIC, TOPIC_ID)]
    begin += [write.partition(TOPIC_ID, (1, 2), 1, number=number) for number in (0, 1)]
    return {100: write.history(begin, *later, apart_ms=10_000)}


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("quiesced", [None, True])
def test_nobody_leads_a_topic_that_was_deleted(tmp_path, stopped, quiesced):
    brokers = {one: Replica(written(0, 20, 0), clean_shutdown=stopped) for one in (1, 2)}
    answer = audit(tmp_path, brokers, quiesced=quiesced, metadata=controller(write.remove_topic(TOPIC_ID)))
    row = answer.tables["partitions"][0]
    assert (row["leader_id"], row["isr"], row["under_replicated"]) == (None, None, None)
    assert answer.one("META-NO-LEADER")[:2] == ("info", "proven")
    (told,) = answer.found("META-NO-LEADER")
    assert told["message"].startswith(
        "the topic was deleted at 2023-11-14T22:13:30.000Z by record 4 of the metadata log"
    )
    assert answer.codes("info") == {"META-NO-LEADER"}, answer
    assert not answer.tables["elections"]


@pytest.mark.parametrize("asked", [(), (TopicPartition(TOPIC, 0),)])
def test_what_a_deleted_topic_had_lost_is_copied_and_nobody_is_elected(tmp_path, asked):
    """Nothing follows any more, and no election brings the topic back."""
    brokers = {1: Replica(written(0, 30, 0)), 2: Replica([*written(0, 20, 0), *written(20, 25, 1)])}
    elected = write.change(TOPIC_ID, leader=2, isr=(2,), recovering=True)
    audit(tmp_path, brokers, metadata=controller(elected, write.remove_topic(TOPIC_ID)))
    found = audit_all(str(tmp_path), Settings(), asked=asked)
    plan = plan_elections(found, asked=[(TOPIC, 0)] if asked else ())
    assert [one.reason.split(":")[0] for one in plan.conflicts] == ["the topic was deleted"]
    (step,) = plan.steps
    assert (step.action, step.brokers) == ("copy", (1,))
    assert "the topic was deleted" in step.text and "follows" not in step.text
    said = build_answer(found, build_verdict(found, "high")).headline
    assert f"deleted the topic of {TOPIC}-0" in said


def test_the_name_may_be_taken_again(tmp_path):
    """Then what is left is of another topic id than the present topic's."""
    again = write.new_topic(TOPIC, ANOTHER_ID, (1, 2), 2)
    brokers = {**ALIKE, 3: Replica(written(0, 9, 0), topic_id=ANOTHER_ID)}
    answer = audit(tmp_path, brokers, metadata=controller(write.remove_topic(TOPIC_ID), *again))
    assert not answer.found("META-NO-LEADER") and answer.found("META-TOPICID-MISMATCH", 1), answer


AGAIN = write.new_topic(TOPIC, ANOTHER_ID, (1, 2), 1)
STOPPED = {one: Replica(written(0, 20, 0), clean_shutdown=True) for one in (1, 2)}


def told_instead(path, answer):
    """Findings of the copies, whose directories lack nothing and are not asked for again; then the steps of the plan."""
    assert answer.verdict == "INCONCLUSIVE"
    assert answer.codes("medium") - {"META-STALE"} == {"META-TOPICID-MISMATCH"}, answer
    assert {row["severity"] for row in answer.found("CAP-MISSING-REPLICA")} == {"info"}
    captures = [row for row in answer.rows("captures") if row["topic"] == TOPIC]
    assert [(row["broker_id"], row["missing"], row["needed"]) for row in captures] == [
        (one, [OF_OTHER_TOPIC], None) for one in STOPPED
    ]
    return plan_elections(audit_all(str(path), Settings())).steps


@pytest.mark.parametrize("brokers", [{**ALIKE, 1: Replica(written(0, 10, 0))}, STOPPED])
def test_where_nothing_is_left_but_directories_of_an_earlier_topic_nothing_is_judged(tmp_path, brokers):
    """The new topic's leader and epochs say nothing of them."""
    answer = audit(tmp_path, brokers, metadata=controller(write.remove_topic(TOPIC_ID), *AGAIN))
    created = f"the metadata log names {ANOTHER_ID}, created at 2023-11-14T22:13:50.000Z; not compared"
    told = answer.messages("META-TOPICID-MISMATCH")
    assert len(told) == len(brokers) and all(created in one for one in told), told
    assert not answer.found("META-STALE"), answer
    (step,) = told_instead(tmp_path, answer)
    assert (step.action, step.commands) == ("mend", ()) and "-stray" in step.text


def test_directories_that_the_metadata_log_never_knew_show_that_it_is_the_older_one(tmp_path):
    """Brokers apply only what was committed: what they have is not to be set aside as -stray."""
    answer = audit(tmp_path, STOPPED, metadata={100: write.history(AGAIN)})
    (told,) = answer.messages("META-STALE")
    assert f"it does not know topic {TOPIC} (id {TOPIC_ID}), which nodes 1 and 2 applied" in told
    copy, mend = told_instead(tmp_path, answer)
    assert (copy.action, copy.controllers) == ("copy", (100,)) and "quorum SNAPSHOT" in copy.text
    assert copy.text.startswith("Start no controller and no broker until")
    assert (mend.action, mend.commands) == ("mend", ()) and "start nothing until replica-audit quorum" in mend.text


def test_one_directory_beside_those_that_the_metadata_log_knows_shows_it_too(tmp_path):
    brokers = {1: STOPPED[1], 2: replace(STOPPED[2], topic_id=ANOTHER_ID)}
    answer = audit(tmp_path, brokers, metadata={100: write.history(AGAIN)})
    assert len(answer.found("META-STALE")) == 1 and len(answer.found("META-TOPICID-MISMATCH", 1)) == 1, answer


def test_a_replica_of_the_present_topic_that_cannot_be_read_is_asked_for(tmp_path):
    """The broker with a directory of the earlier topic has none of this one."""
    unread = replace(STOPPED[2], topic_id=ANOTHER_ID, remove=(f"{0:020d}.log",))
    log = controller(write.remove_topic(TOPIC_ID), *AGAIN, write.change(ANOTHER_ID, leader=2, isr=(2,), elr=(1,)))
    answer = audit(tmp_path, {1: STOPPED[1], 2: unread}, metadata=log)
    told = [(row["broker_id"], row["state"], row["needed"]) for row in answer.rows("captures") if row["topic"] == TOPIC]
    assert told == [(1, "absent", None), (2, "partial", "leads")], told
    assert answer.rows("partitions")[0]["unread_replicas"] == [2]


@pytest.mark.parametrize(
    ("brokers", "metadata"),
    [
        pytest.param(ALIKE, write.history(AGAIN), id="copied while brokers ran"),
        pytest.param(
            STOPPED,
            write.MetadataLog({9: write.leader_change(9, 100, (100,))}, {(9, 1): write.snapshot(AGAIN)}),
            id="deleted before the log begins",
        ),
    ],
)
def test_a_metadata_log_that_may_be_the_later_one_is_not_stale(tmp_path, brokers, metadata):
    answer = audit(tmp_path, brokers, metadata={100: metadata})
    assert not answer.found("META-STALE"), answer
    (step,) = told_instead(tmp_path, answer)
    assert (step.action, step.commands) == ("mend", ()) and "start nothing until replica-audit quorum" in step.text


def test_a_deletion_that_no_majority_holds_did_not_happen(tmp_path):
    voters = (100, 101, 102)
    log = write.history(write.new_topic(TOPIC, TOPIC_ID, (1, 2), 1), voters=voters)
    deleted = log + write.batch(3, [write.remove_topic(TOPIC_ID)])
    answer = audit(tmp_path, ALIKE, metadata={**dict.fromkeys(voters, log), 100: deleted})
    assert answer.tables["partitions"][0]["leader_id"] == 1 and not answer.found("META-NO-LEADER")


def test_a_deleted_topic_of_which_nothing_is_left_is_not_told(tmp_path):
    left = {1: Replica([], topic_id=ANOTHER_ID)}
    audit(tmp_path, left, metadata=controller(write.remove_topic(TOPIC_ID)))
    assert discover(Snapshot.open(str(tmp_path))).leaderships == ()


def test_what_brokers_remove_already_is_no_lost_end_of_a_broker_that_was_away(tmp_path):
    """Broker 3 was down when the topic was deleted, and is behind."""
    gone = write.change(TOPIC_ID, isr=(1, 2))
    removed = {one: Replica(written(0, 25, 0), suffix=f".{'0' * 31}{one}-delete") for one in (1, 2)}
    brokers = {**removed, 3: Replica(written(0, 20, 0))}
    answer = audit(
        tmp_path, brokers, replicas=(1, 2, 3), quiesced=True, metadata=controller(gone, write.remove_topic(TOPIC_ID))
    )
    assert answer.codes("info") == {"META-NO-LEADER"} and answer.verdict == "CONSISTENT", answer
    assert answer.tables["partitions"][0]["lost_records"] == 0

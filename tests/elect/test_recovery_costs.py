"""Records that a candidate's next start would cut from its own log, by what is known about its stop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.encoder import encode_batch, encode_marker
from tests.support.report_rows import answers_of
from tests.support.scenario import Answer, audit, written
from tests.support.snapshots import Replica, manifest_text
from tests.support.some import some

from replica_audit.elect.election_plan import plan_elections
from replica_audit.report.plan_text import render_plan

WHOLE = written(0, 80, 0)
PRODUCER = {"producer_id": 7, "producer_epoch": 0}


class Loss(NamedTuple):
    records: int
    committed: int
    possible: int
    at_most: bool


NOTHING = Loss(0, 0, 0, at_most=False)


def bad_at(offset: int) -> list[bytes]:
    """The batches with a wrong checksum at `offset`."""
    at = offset // 5
    return [*WHOLE[:at], WHOLE[at][:-1] + bytes([WHOLE[at][-1] ^ 0xFF]), *WHOLE[at + 1 :]]


def audited(
    path: Path, brokers: dict[int, Replica], kind: str | None, *, leader: int | None = 1, isr: tuple[int, ...] = (1,)
) -> Answer:
    """With a manifest that calls every copy `kind`, or without one."""
    path.mkdir(parents=True, exist_ok=True)
    if kind is not None:
        places = {broker_id: f"broker-{broker_id}" for broker_id in brokers}
        (path / "manifest.json").write_text(manifest_text(places, quiesced=kind != "live", kind=kind))
    return audit(path, brokers, leader=leader, isr=isr)


def losses(answer: Answer) -> dict[int, Loss]:
    """By candidate."""
    names = ("lost_records", "lost_committed", "lost_possible", "lost_at_most")
    return {row["candidate_id"]: Loss(*(row[name] for name in names)) for row in answer.tables["elections"]}


BAD = Replica(bad_at(50), recovery_point=40)
SOUND = Replica(WHOLE, recovery_point=40)


@pytest.mark.parametrize("kind", ["killed", None])
@pytest.mark.parametrize("ends", [(56,), (), (48, 56)], ids=["after the damage", "not at all", "twice"])
def test_a_transaction_whose_marker_the_start_cuts_is_a_cost(tmp_path, kind, ends):
    """Found, the log has the marker; started, it ends before the damaged batch, and so do those that follow it."""
    begun, rest = (encode_batch(at, 3, 0, transactional=True, **PRODUCER) for at in (50, 53))
    early = [encode_marker(at, "COMMIT", 0, **PRODUCER) for at in ends if at < 50]
    late = [encode_marker(at, "COMMIT", 0, **PRODUCER) for at in ends if at > 50]
    head = [*written(0, 48, 0), *(early or written(48, 49, 0)), *written(49, 50, 0), begun]
    damaged = rest[:-1] + bytes([rest[-1] ^ 0xFF])
    sound, bad = (Replica([*head, one, *late], recovery_point=40) for one in (rest, damaged))
    rows = audited(tmp_path, {1: sound, 2: bad}, kind).rows("elections")
    cut = {row["candidate_id"]: row["cut_transactions"] for row in rows}
    assert cut == {1: 0, 2: 1}


@pytest.mark.parametrize("isr", [(1,), (1, 2)])
def test_what_the_start_may_cut_is_possible_where_nobody_says_how_the_broker_stopped(tmp_path, isr):
    brokers = {1: SOUND, 2: BAD}
    said = losses(audited(tmp_path / "killed", brokers, "killed", isr=isr))
    unsaid = losses(audited(tmp_path / "unsaid", brokers, None, isr=isr))
    assert said == {1: NOTHING, 2: Loss(30, 30, 0, at_most=False)}
    assert unsaid == {1: NOTHING, 2: Loss(30, 0, 30, at_most=True)}


@pytest.mark.parametrize(("kind", "flag"), [(None, True), ("live", False), ("stopped", True)])
def test_a_broker_that_is_up_or_stopped_cleanly_cuts_nothing(tmp_path, kind, flag):
    brokers = {one: replace(broker, clean_shutdown=flag) for one, broker in ((1, SOUND), (2, BAD))}
    assert losses(audited(tmp_path, brokers, kind))[2] == NOTHING


def test_a_stop_without_the_flag_was_not_clean_whatever_the_manifest_calls_it(tmp_path):
    assert losses(audited(tmp_path, {1: SOUND, 2: BAD}, "stopped"))[2] == Loss(30, 0, 30, at_most=True)


@pytest.mark.parametrize(
    ("recovery_point", "per_segment", "lost"),
    [(0, None, 30), (80, None, 30), (45, 2, 30), (59, 2, 30), (60, 2, 0), (80, 2, 0)],
)
def test_only_segments_that_reach_past_the_recovery_point_are_checked(tmp_path, recovery_point, per_segment, lost):
    """The last segment always; of two batches each the damaged one is [50, 60)."""
    brokers = {1: SOUND, 2: replace(BAD, recovery_point=recovery_point, per_segment=per_segment)}
    found = losses(audited(tmp_path, brokers, None))[2]
    assert found == (Loss(lost, 0, lost, at_most=True) if lost else NOTHING)


@pytest.mark.parametrize("kind", ["killed", None])
def test_the_leader_loses_what_its_own_start_cuts_as_its_followers_are_cut_to_it(tmp_path, kind):
    answer = audited(tmp_path, {1: BAD, 2: SOUND}, kind, isr=(1, 2))
    found, is_sure = losses(answer), kind == "killed"
    assert found == {1: Loss(30, 30 * is_sure, 30 * (not is_sure), at_most=not is_sure), 2: NOTHING}
    kept = {(row["candidate_id"], row["broker_id"]): row["kept_to"] for row in answer.tables["elections"]}
    assert kept == {(1, 1): 50, (1, 2): 50, (2, 1): 50 if is_sure else 80, (2, 2): 80}


def test_the_only_log_loses_it_too(tmp_path):
    found = losses(audited(tmp_path, {1: BAD}, None))[1]
    assert found.possible == found.records > 0 == found.committed and found.at_most


@pytest.mark.parametrize("kind", ["killed", None])
def test_the_plan_for_such_a_candidate_salvages_first_and_says_where_its_start_may_cut(tmp_path, kind):
    answer = audited(tmp_path, {1: SOUND, 2: BAD}, kind)
    plan = plan_elections(answers_of({}, answer.tables), candidate_id=2)
    actions = [step.action for step in plan.steps]
    assert actions.index("copy") < actions.index("salvage") < actions.index("start")
    (source,) = plan.decisions[0].salvage
    assert (source.broker_id, source.start_offset, source.end_offset) == (1, 50, 80)
    text = " ".join(render_plan(plan).split())
    assert "ends at 50; the start of broker 2 may cut its own log there" in text and "None" not in text


@pytest.mark.parametrize("offsets", [(50, 50), (50, 20), (20, 50), (75, 5)])
@pytest.mark.parametrize("leader", [1, 2, None])
def test_less_said_of_the_stop_is_never_a_surer_answer(tmp_path, offsets, leader):
    brokers = {one: replace(BAD, batches=bad_at(offset)) for one, offset in zip((1, 2), offsets, strict=True)}
    said = losses(audited(tmp_path / "killed", brokers, "killed", leader=leader, isr=(1, 2)))
    unsaid = losses(audited(tmp_path / "unsaid", brokers, None, leader=leader, isr=(1, 2)))
    for candidate, most in some(said.items()):
        assert unsaid[candidate].committed <= most.committed
        assert unsaid[candidate].committed + unsaid[candidate].possible >= most.committed + most.possible
        assert unsaid[candidate].records >= most.records

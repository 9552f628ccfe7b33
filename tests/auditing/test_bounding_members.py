"""Whose log end bounds the high watermark: not that of a member which was killed, nor a checkpoint of an older leadership."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.scenario import Answer, audit, written, written_legacy
from tests.support.scenes import FENCE, TWO, change, log, scene
from tests.support.snapshots import Replica, write_manifest

# --- eligible and in-sync members that are down


@pytest.mark.parametrize("elr", [1, 2, 3])
@pytest.mark.parametrize(("clean", "fenced"), [(True, True), (False, True), (False, False)])
def test_an_eligible_replica_that_was_killed_bounds_nothing(
    tmp_path: Path, elr: int, clean: bool, fenced: bool
) -> None:
    """It may have lost the end of its log, flushed or not; one that runs, or was stopped cleanly, has what it had."""
    leader = elr % 3 + 1
    brokers = {one: log(45, 40) for one in (1, 2, 3)}
    brokers[leader] = log(60, 40, ((0, 0), (1, 42)) if leader != 1 else ((0, 0),))
    brokers[elr] = log(40, 39, clean_shutdown=clean)
    begin = [] if leader == 1 else [change(leader=leader)]
    moves = [*begin, change(isr=(leader,), elr=(elr,)), *([FENCE[elr]] if fenced else [])]
    answer = scene(tmp_path, brokers, *moves, configs=TWO)
    # The leader's own end bounds, whoever else does.
    assert answer.interval == ((40, 60) if fenced and not clean else (40, 40)), answer
    assert answer.mark["exact"] is not (fenced and not clean)


def test_a_listing_does_not_tell_whether_an_eligible_replica_was_killed(tmp_path: Path) -> None:
    brokers = {1: log(60, 40), 2: log(40, 39)}
    shared = {"isr": (1,), "elr": (2,), "configs": TWO}
    assert audit(tmp_path / "open", brokers, **shared).interval == (40, 60)
    stopped = {**brokers, 2: log(40, 39, clean_shutdown=True)}
    assert audit(tmp_path / "stopped", stopped, **shared).interval == (40, 40)


@pytest.mark.parametrize("kind", ["killed", "stopped", "live"])
def test_the_manifest_tells_who_was_killed(tmp_path: Path, kind: str) -> None:
    write_manifest(tmp_path, {1: "live", 2: kind})
    answer = audit(tmp_path, {1: log(60, 40), 2: log(45, 40)})
    assert answer.interval == ((40, 60) if kind == "killed" else (40, 45))


@pytest.mark.parametrize("down", [(), (2,), (2, 3), (1, 2, 3)])
def test_a_member_of_the_isr_that_is_fenced_without_its_clean_flag_bounds_nothing(tmp_path: Path, down) -> None:
    """As after a power loss of the whole site, and while the leader has not heard of it yet."""
    ends = {1: 60, 2: 50, 3: 55}
    moves = [FENCE[one] for one in down]
    if 1 in down:
        moves.append(change(leader=-1))
    answer = scene(tmp_path, {one: log(end, 40) for one, end in ends.items()}, *moves)
    assert answer.interval == (40, min((end for one, end in ends.items() if one not in down), default=None))
    if down:
        assert "was killed or lost power" in answer.mark["upper_evidence"]
    stopped = {one: log(end, 40, clean_shutdown=one in down) for one, end in ends.items()}
    answer = scene(tmp_path / "stopped", stopped, *moves)
    assert answer.interval == ((40, 50) if 1 not in down else (40, 40))


# --- the checkpoint of a clean stop


def stopped(tmp_path: Path, checkpoint: int, start: int, end: int, leader: int = 2) -> Answer:
    """The leader of epoch 1, which began at `start`, alone in the ISR all the time; it and nobody else was stopped cleanly."""
    other = 1 if leader == 2 else 2
    brokers = {
        leader: log(end, checkpoint, ((0, 0), (1, start)), clean_shutdown=True),
        other: log(min(start, end), min(checkpoint, 10)),
        3: log(10, 10),
    }
    begin = [change(isr=(1, 2, 3)), change(leader=other)] if leader == 1 else []
    moves = [*begin, change(isr=(1, 2)), FENCE[other], change(leader=leader, isr=(leader,))]
    moves += [FENCE[leader], change(leader=-1)]
    return scene(tmp_path, brokers, *moves, configs=TWO)


@pytest.mark.parametrize(
    ("checkpoint", "start", "end", "interval"),
    [
        (10, 13, 13, (10, 13)),
        (12, 13, 20, (12, 13)),
        (13, 13, 13, (13, 13)),
        (13, 13, 20, (13, 13)),
        (15, 13, 20, (15, 15)),
    ],
)
def test_what_the_leader_wrote_as_it_stopped_is_exact_from_the_start_of_its_epoch_on(
    tmp_path: Path, checkpoint: int, start: int, end: int, interval: tuple[int, int]
) -> None:
    """Below it an earlier leader may have committed more than this one, which could not advance, ever heard of."""
    answer = stopped(tmp_path, checkpoint, start, end)
    assert answer.interval == interval, answer
    assert answer.mark["exact"] is (interval[0] == interval[1])


@pytest.mark.parametrize(("between", "interval"), [((), (10, 10)), ((change(leader=-1),), (10, 13))])
def test_an_epoch_that_the_same_leader_began_while_it_led_hides_nothing(tmp_path: Path, between, interval) -> None:
    """A change of the ISR began an epoch before 3.6. Where nobody led in between, the leader may have been restarted."""
    epoch = 1 + len(between)
    brokers = {1: log(13, 10, ((0, 0), (epoch, 13)), clean_shutdown=True), 2: log(13, 10), 3: log(10, 10)}
    moves = [change(isr=(1, 2)), change(isr=(1,)), *between, change(leader=1), FENCE[1], change(leader=-1)]
    assert scene(tmp_path, brokers, *moves, configs=TWO).interval == interval


def test_what_an_earlier_leader_may_have_committed_is_possibly_lost(tmp_path: Path) -> None:
    answer = stopped(tmp_path, 10, 13, 13)
    rows = {row["candidate_id"]: row for row in answer.tables["elections"] if row["broker_id"] == row["candidate_id"]}
    assert (rows[3]["lost_committed"], rows[3]["lost_possible"]) == (0, 3)
    assert rows[2]["lost_possible"] == 0


def test_a_mark_of_before_there_were_epochs_shows_that_there_was_more(tmp_path):
    """Whatever epoch the leader is said to lead in: the high watermark was said to be exactly 20."""
    brokers = {one: Replica(written_legacy(0, end), epochs=None) for one, end in ((1, 20), (2, 25))}
    answer = audit(tmp_path, brokers, isr=(1,), source="user", leader_epoch=1, protocol="high-watermark")
    assert answer.interval == (20, None), answer


@pytest.mark.parametrize(("make", "upper"), [(written, 20), (written_legacy, 30)])
def test_a_member_without_epochs_may_have_been_cut_below_what_was_committed(tmp_path, make, upper):
    """By a clean election, and it stayed in the ISR: records up to 25 were committed, and at most 20 by the end of its log."""
    more = {"epochs": None} if make is written_legacy else {}
    batches = {end: make(0, end) if make is written_legacy else make(0, end, 2) for end in (20, 30)}
    brokers = {one: Replica(batches[end], high_watermark=10, **more) for one, end in ((1, 30), (2, 20))}
    answer = audit(tmp_path, brokers, quiesced=True, protocol="kip-279")
    assert answer.interval == (10, upper), answer


def test_a_member_without_epochs_may_be_in_sync_with_other_records(tmp_path):
    """No truncation found them, and the leader counts the offset from which it fetches: the high watermark was exactly 10."""
    logs = {one: [*written_legacy(0, 10), *written_legacy(10, 20, mark)] for one, mark in ((1, "l"), (2, "x"))}
    brokers = {one: Replica(log, epochs=None, high_watermark=10) for one, log in logs.items()}
    assert audit(tmp_path, brokers, quiesced=True).interval == (10, 20)


@pytest.mark.parametrize(("batches", "upper"), [(written(0, 30, 0), 0), (written_legacy(0, 30), 30)])
def test_an_empty_member_of_a_partition_without_epochs_may_have_been_cut_to_its_start(tmp_path, batches, upper):
    """Before it had heard of a high watermark: it was said to be exactly 0."""
    file = ((0, 0),) if upper == 0 else None
    brokers = {1: Replica(batches, epochs=file, high_watermark=0), 2: Replica([], epochs=None, high_watermark=0)}
    answer = audit(tmp_path, brokers, quiesced=True, protocol="kip-279")
    assert answer.interval == (0, upper), answer


@pytest.mark.parametrize(("epochs", "upper"), [(((2, 10),), 20), (None, 30)])
def test_a_member_that_still_has_an_older_message_format_is_cut_without_epochs(tmp_path, epochs, upper):
    """Whatever it fetched from a leader whose format was raised before."""
    logs = {end: [*written_legacy(0, 10), *written(10, end, 2)] for end in (20, 30)}
    brokers = {
        1: Replica(logs[30], epochs=((2, 10),), high_watermark=10),
        2: Replica(logs[20], epochs=epochs, high_watermark=10),
    }
    answer = audit(tmp_path, brokers, quiesced=True, protocol="kip-279")
    assert answer.interval == (10, upper), answer

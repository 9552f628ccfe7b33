"""Logs whose records were deleted by DeleteRecords: nothing is wrong with them, and no epoch of theirs counts."""

from __future__ import annotations

import pytest
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica, log_end

from replica_audit.literals import PROTOCOLS

LOGS = {
    "one epoch": written(0, 40, 3),
    "two epochs": [*written(0, 20, 1), *written(20, 40, 4)],
    "after retention": written(30, 50, 7),
}
EPOCH_FILE = "orders-0/leader-epoch-checkpoint"


def _purged(log, state: str, **options) -> Replica:
    """`log` with all records deleted; `state` is that of its epoch file: of a running broker, or of a restarted one."""
    epoch, end = int.from_bytes(log[-1][12:16], "big"), log_end(log)
    files = {"running": f"0\n1\n{epoch} {end}\n", "restarted": "0\n0\n", "no bytes": ""}
    first = int.from_bytes(log[0][:8], "big")
    return Replica(log, log_start=end, first_base_offset=first, replace={EPOCH_FILE: files[state].encode()}, **options)


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
@pytest.mark.parametrize("states", [("restarted", "restarted"), ("running", "restarted"), ("restarted", "running")])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_log_that_was_purged_to_its_end_is_sound(tmp_path, log, states, protocol):
    brokers = {1: _purged(log, states[0]), 2: _purged(log, states[1], per_segment=2)}
    for source in ("topics_describe", "inferred"):
        answer = audit(tmp_path / source, brokers, source=source, protocol=protocol, quiesced=True)
        assert answer.codes() == set(), answer
        assert answer.verdict == "CONSISTENT"
        assert answer.cut(2, protocol)["truncate_to"] == log_end(log)
        assert [row["dropped_records"] for row in answer.tables["truncations"]] == [0] * 4
        assert answer.replica(2)["epochs"] == []


def test_a_follower_that_has_not_heard_of_the_deletion_keeps_its_log(tmp_path):
    log = LOGS["two epochs"]
    for state in ("running", "restarted"):
        for protocol in ("kip-101", "kip-279", "fetch"):
            brokers = {1: _purged(log, state), 2: Replica(log)}
            answer = audit(tmp_path / f"{state} {protocol}", brokers, protocol=protocol)
            assert answer.cut(2, protocol)["truncate_to"] == 40, answer
            loud = {"TRN-HW-FALLBACK"} if (state, protocol) == ("restarted", "kip-101") else set()
            assert answer.codes("medium") == loud, answer


def test_an_empty_epoch_file_is_corrupt_only_where_a_readable_batch_needs_an_entry(tmp_path):
    log = LOGS["one epoch"]
    answer = audit(tmp_path / "purged", {1: _purged(log, "no bytes"), 2: _purged(log, "no bytes")})
    assert answer.codes() == set(), answer
    # A log that is begun anew has a file without entries, but not without bytes.
    for name, content, ordered in (("bytes", b"", "high"), ("entries", b"0\n0\n", "medium")):
        half = Replica(log, log_start=25, replace={EPOCH_FILE: content})
        for in_order, severity in ((True, ordered), (False, "medium")):
            answer = audit(tmp_path / f"{name} {in_order}", {1: Replica(log), 2: half}, in_order=in_order)
            assert answer.one("EPO-FILE-CORRUPT", 2)[0] == severity, answer


@pytest.mark.parametrize(
    ("log_start", "state", "cut"),
    [(40, "running", 26), (40, "restarted", 26), (39, "not purged", 20), (25, "not purged", 20)],
)
@pytest.mark.parametrize("protocol", ["kip-101", "kip-279", "fetch"])
def test_only_records_that_can_be_read_are_cut_by_epochs(tmp_path, log_start, cut, state, protocol):
    """The leader was elected with a shorter log: a follower without epochs finds itself out of range, at its end."""
    leader = [*written(0, 20, 3), *written(20, 26, 5)]
    log = LOGS["one epoch"]
    purged = _purged(log, state) if log_start == 40 else Replica(log, log_start=log_start, epochs=[(3, log_start)])
    answer = audit(tmp_path, {1: Replica(leader), 2: purged}, isr=(1,), protocol=protocol)
    row = answer.cut(2, protocol)
    assert row["truncate_to"] == cut, answer
    assert row["reason"] == ("out_of_range_tail" if log_start == 40 else "epoch_match")
    # Whole batches above the log start; what lies below was deleted before.
    assert row["dropped_records"] == {40: 0, 39: 5, 25: 15}[log_start]
    assert not answer.found("EPO-CACHE-MISSING"), answer
    assert not answer.found("TRN-CACHE-DISAGREES"), answer


def test_a_log_start_between_two_epochs_needs_the_later_only(tmp_path):
    log = LOGS["two epochs"]
    brokers = {1: Replica(log, log_start=20, epochs=[(4, 20)]), 2: Replica(log, log_start=22, epochs=[(4, 22)])}
    answer = audit(tmp_path, brokers, quiesced=True)
    assert answer.codes() == set(), answer
    assert [answer.replica(broker)["epochs"] for broker in (1, 2)] == [[[4, 20]], [[4, 22]]]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_log_that_ends_below_its_own_start_begins_anew_there(tmp_path, protocol):
    """Records were deleted, and then the log lost its tail to below that point: Kafka's loader deletes all of it."""
    log = LOGS["two epochs"]
    lost = Replica(log[:3], high_watermark=40, recovery_point=0, log_start=40, epochs=((4, 40),))
    answer = audit(tmp_path, {1: Replica([*log, *written(40, 60, 4)]), 2: lost}, protocol=protocol)
    assert answer.cut(2, protocol)["truncate_to"] == 40, answer
    assert answer.cut(2, protocol)["dropped_records"] == 0, answer

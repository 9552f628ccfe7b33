"""Random histories of compacted partitions: DIV-KEY-STATE is told where states differ, and nowhere else."""

from __future__ import annotations

import os

import pytest
from tests.property.compaction import History
from tests.support.scenario import audit
from tests.support.snapshots import Replica

HISTORIES = int(os.environ.get("PROPERTY_HISTORIES", "120"))
_PARTS = 8


def _audit(path, history: History):
    brokers = {}
    for number, replica in history.replicas.items():
        batches = [batch.encode() for batch in replica.batches]
        brokers[number] = Replica(batches, first_base_offset=0, high_watermark=0, recovery_point=0)
    in_sync = [number for number, one in history.replicas.items() if one.end == history.replicas[history.leader].end]
    return audit(
        path, brokers, leader=history.leader, isr=in_sync, replicas=brokers, configs={"cleanup.policy": "compact"}
    )


def _check(path, seed: int) -> None:
    history = History(seed)
    answer = _audit(path, history)
    leader = history.replicas[history.leader]
    for number, follower in history.replicas.items():
        if number == history.leader:
            continue
        told = bool(answer.found("DIV-KEY-STATE", number))
        end = min(leader.end, follower.end)
        states = history.state(leader, end), history.state(follower, end)
        if leader.end == follower.end:
            assert told == (states[0] != states[1]), f"seed {seed}, broker {number}: {states}\n{answer}"
        elif told:
            # The longer log may have cleaned away what the shorter still needs; then the other must be wrong by itself.
            written = history.state(None, end)
            assert states != (written, written), f"seed {seed}, broker {number}\n{answer}"
        assert not answer.runs(number), f"seed {seed}, broker {number}\n{answer}"
    worse = {code for code in answer.codes("medium")} - {"DIV-KEY-STATE"}
    assert not worse, f"seed {seed}: {worse}\n{answer}"


@pytest.mark.parametrize("part", range(_PARTS))
def test_key_states_of_random_histories(tmp_path, part):
    for seed in range(part, HISTORIES, _PARTS):
        _check(tmp_path / str(seed), seed)


def test_the_histories_have_something_to_tell():
    differing = unlike = 0
    for seed in range(HISTORIES):
        history = History(seed)
        leader = history.replicas[history.leader]
        for follower in history.replicas.values():
            unlike += follower.batches != leader.batches[: len(follower.batches)]
            if follower.end == leader.end:
                differing += history.state(leader, leader.end) != history.state(follower, follower.end)
    assert differing >= HISTORIES // 20, "deleted keys came back"
    assert unlike > HISTORIES, "cleaners worked differently"

"""What is told of clean histories whose brokers were copied one after the other while they ran, and of true losses among them."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.property.history import HISTORIES
from tests.property.live_copies import LiveCopy, copy_live

COUNT = max(1, HISTORIES // 2)
#: What a clean history never has, whatever the moments of its copies.
ALARMS = ("COMMITTED_LOSS", "COMMITTED_DIVERGENCE")


def _clean(seed: int) -> LiveCopy:
    return copy_live(seed, unclean=False, lost_tails=False)


def test_a_clean_history_that_was_copied_live_has_lost_nothing():
    told = Counter()
    for seed in range(COUNT):
        found = _clean(seed)
        # Nothing tells a broker that went down while it was copied from one that was down before (C.2).
        if not found.went_down_midway:
            assert found.audit.verdict not in ALARMS, found.story
            assert not [one for one in found.audit.findings if one.severity == "critical"], found.story
        told[found.audit.verdict] += 1
    assert told["LAGGING"] and told["INCONCLUSIVE"], told


@pytest.mark.parametrize(
    ("seed", "was"),
    [
        (17, "a listing named a leader whose copy did not know the others' epoch: DIV-HIDDEN"),
        (45, "DeleteRecords had moved the log start after its checkpoint was copied: DIV-HIDDEN"),
        (60, "the leader's epoch file begins past the end of its log: HWM-LOSS and DIV-HIDDEN"),
        (216, "a leader went down after its log was copied: REP-LEADER-SHORTER"),
        (516, "a follower was copied before it was cut, and came in sync: HWM-ABOVE-ISR-PREFIX"),
        (654, "the leader was copied before it led, and cut since: HWM-LOSS"),
        (743, "the log of the leader, which is shorter than its epoch file says, may be older: TRN-BELOW-HW"),
        (1094, "the leader was copied before it led: HWM-LOSS"),
    ],
)
def test_histories_that_were_once_said_to_have_lost_records(seed: int, was: str):
    found = _clean(seed)
    assert found.audit.verdict not in ALARMS, f"{was}\n{found.story}"


@pytest.mark.parametrize("seed", [31, 53, 95, 103, 178, 267, 607])
def test_an_epoch_file_of_a_later_moment_than_its_log_is_not_damaged(seed: int):
    found = _clean(seed)
    damaged = [one for one in found.audit.findings if one.code in ("EPO-CACHE-MISSING", "EPO-FILE-CORRUPT")]
    assert not [one for one in damaged if one.severity == "high"], found.story


def test_what_an_unclean_election_lost_is_told_in_live_copies_as_well():
    told = Counter()
    for seed in range(COUNT):
        found = copy_live(seed, lost_tails=False)
        told[found.audit.verdict] += found.lost
    assert told["COMMITTED_LOSS"] > sum(told.values()) / 3, told

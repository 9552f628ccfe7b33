"""A leader whose log was not captured may have what the best of the others lacks; what is proven all the same (F.0)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.scenario import Answer, audit
from tests.support.scenes import FENCE, change, log, scene

#: Broker 1 has committed records of epoch 0 in whose place broker 2 has those of a later one; broker 3 leads, and is absent.
LEFT = {1: log(60, 60), 2: log(70, 50, ((0, 0), (1, 50)))}
UNCLEAN = (change(isr=(1,)), change(leader=2, isr=(2,), recovering=True))


def is_open(answer: Answer) -> bool:
    """True if the loss is told, and told to be undecided."""
    found = answer.found("HWM-LOSS", 1) + answer.found("TRN-BELOW-HW", 1)
    assert len(found) == 2 and len({row["severity"] for row in found}) == 1, answer
    undecided = found[0]["severity"] == "high"
    for row in found:
        assert ("broker 3, which leads, may have them" in row["message"]) is undecided, answer
        assert (row["severity"], row["confidence"]) == (("high", "suspect") if undecided else ("critical", "likely"))
    return undecided


@pytest.mark.parametrize("options", [{"source": "user", "leader_epoch": 5}, {}], ids=["a later epoch", "a listing"])
def test_a_leader_that_is_absent_may_be_of_the_history_of_the_one_that_has_them(tmp_path: Path, options: dict) -> None:
    answer = audit(tmp_path, LEFT, leader=3, isr=(3,), replicas=(1, 2, 3), **options)
    assert is_open(answer) and answer.verdict == "INCONCLUSIVE", answer


def test_a_leader_of_the_epoch_that_lacks_them_has_lost_them(tmp_path: Path) -> None:
    answer = audit(tmp_path, LEFT, leader=3, isr=(3,), replicas=(1, 2, 3), source="user", leader_epoch=1)
    assert not is_open(answer) and answer.verdict == "COMMITTED_LOSS", answer


@pytest.mark.parametrize(
    ("moves", "mark", "undecided"),
    [
        ((change(leader=3, isr=(3,), recovering=True),), 50, True),
        ((change(leader=3, isr=(3,), recovering=True),), 65, True),
        ((change(isr=(2, 3)), change(leader=3)), 50, False),
        # Who joins the ISR since the unclean election is cut to its winner's log first.
        ((change(isr=(1, 2, 3)), change(leader=1), change(leader=3)), 50, False),
        ((change(isr=(1, 2, 3)), change(leader=1), change(leader=3)), 65, False),
    ],
    ids=["uncleanly", "uncleanly, in place of what was committed", "it followed", "after another", "committed since"],
)
def test_elections_tell_what_it_has(tmp_path: Path, moves: tuple[bytes, ...], mark: int, undecided: bool) -> None:
    """It has what it followed into the ISR, and what was committed before clean elections."""
    brokers = LEFT | {2: log(70, mark, ((0, 0), (1, 50)))}
    answer = scene(tmp_path, brokers, *UNCLEAN, *moves)
    assert is_open(answer) is undecided, answer
    assert (answer.verdict == "COMMITTED_LOSS") is not undecided


@pytest.mark.parametrize(
    ("since", "undecided"),
    [
        ((change(leader=-1), change(leader=3)), False),
        ((change(leader=3),), False),
        ((change(leader=1, isr=(1,), recovering=True), change(leader=3, isr=(3,), recovering=True)), True),
    ],
    ids=["again", "on and on", "after another"],
)
def test_a_leader_that_wrote_what_is_in_their_place_has_it(
    tmp_path: Path, since: tuple[bytes, ...], undecided: bool
) -> None:
    """Broker 3 led in the epoch of broker 2's records, and leads in a later one, of which broker 2 has none as yet."""
    answer = scene(tmp_path, LEFT, change(isr=(1,)), change(leader=3, isr=(3,), recovering=True), *since)
    assert is_open(answer) is undecided, answer
    assert (answer.verdict == "COMMITTED_LOSS") is not undecided


@pytest.mark.parametrize("undecided", [True, False])
def test_nor_does_a_checkpoint_file_alone_prove_what_it_lost(tmp_path: Path, undecided: bool) -> None:
    """Broker 1 was in sync, and its directory is gone; broker 3 was in sync with it, and leads again after broker 2."""
    moves = [change(isr=(1, 3)), FENCE[1], change(leader=2, isr=(2,), recovering=True)]
    moves += [change(leader=3, isr=(3,), recovering=True)] if undecided else []
    gone = tmp_path / "broker-1" / "orders-0"
    answer = scene(tmp_path, LEFT, *moves, before_audit=lambda: shutil.rmtree(gone))
    (row,) = answer.found("HWM-LOSS", 1)
    assert ("broker 3, which leads, may have them" in row["message"]) is undecided, answer
    assert row["severity"] == ("high" if undecided else "critical")
    assert answer.verdict == ("INCONCLUSIVE" if undecided else "COMMITTED_LOSS"), answer

"""Records appended while the ISR was below min.insync.replicas were never committed since 3.7: nobody loses them (C.1, C.2)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.scenario import costs, loss_of
from tests.support.scenes import FENCE, TWO, change, log, scene
from tests.support.snapshots import Replica

#: Broker 3 leads epoch 1 alone, from 50 on, while broker 1 is eligible; then it was killed, and dropped as it came back.
ALONE = (change(isr=(1, 3)), FENCE[1], change(leader=3, isr=(3,), elr=(1,)))
DROPPED = (change(leader=-1, isr=(), elr=(1, 3), last_known_elr=(3,)), change(elr=(1,)))
LATER = ((0, 0), (1, 50))


def three(high_watermark: int = 50, second: Replica | None = None) -> dict[int, Replica]:
    return {1: log(50, 50), 2: second or log(50, 48), 3: log(55, high_watermark, LATER)}


@pytest.mark.parametrize("version", ["3.7.0", None])
def test_what_a_leader_wrote_below_the_minimum_is_no_loss(tmp_path: Path, version: str | None) -> None:
    """Without a version the eligible replicas tell that Kafka has the rule."""
    answer = scene(tmp_path, three(), *ALONE, *DROPPED, configs=TWO, quiesced=True, kafka_version=version)
    assert not answer.found("REP-LEADER-SHORTER"), answer
    assert loss_of(answer) == ("UNCOMMITTED_DIVERGENCE", 0, 0)
    assert answer.one("DIV-TAIL-PENDING", 3) == ("info", "proven", 50, 55)
    assert costs(answer, 1) == (5, 0, 0)
    assert answer.interval == (50, 50), "nothing past the start of that epoch was committed"


@pytest.mark.parametrize(
    ("configs", "version"),
    [({"min.insync.replicas": "1"}, "4.1.0"), (TWO, "3.6.2"), ({"cleanup.policy": "delete"}, "4.1.0")],
    ids=["one is enough", "before the rule", "not known"],
)
def test_where_one_in_sync_may_be_enough_it_is_told(tmp_path: Path, configs: dict, version: str) -> None:
    moves = (change(isr=(1, 3)), FENCE[1], change(leader=3, isr=(3,)), FENCE[3], change(leader=-1), change(isr=(1,)))
    answer = scene(tmp_path, three(), *moves, configs=configs, quiesced=True, kafka_version=version)
    assert answer.found("REP-LEADER-SHORTER", 3), answer
    assert loss_of(answer)[:2] == ("COMMITTED_LOSS", 5)
    assert sum(costs(answer, 1)[1:]) == 5
    assert answer.interval[1] is None or answer.interval[1] >= 55


@pytest.mark.parametrize("met", [True, False])
def test_a_later_epoch_of_the_same_lineage_decides(tmp_path: Path, met: bool) -> None:
    """Broker 3 was elected again, in epoch 2, with everything it had; perhaps broker 2 joined it there."""
    again = log(60, 50, (*LATER, (2, 55)))
    isr = (2, 3) if met else (3,)
    moves = (*ALONE, change(leader=3, isr=isr, elr=() if met else (1,)), change(isr=(3,), elr=(1,)))
    answer = scene(tmp_path, {**three(), 3: again}, *moves, *DROPPED, configs=TWO, quiesced=True, kafka_version="4.1.0")
    assert bool(answer.found("REP-LEADER-SHORTER", 3)) is met, answer
    assert costs(answer, 1) == ((10, 0, 10) if met else (10, 0, 0))


@pytest.mark.parametrize("second", [log(55, 53, LATER), log(53, 53, LATER)])
def test_a_checkpoint_that_proves_them_wins(tmp_path: Path, second: Replica) -> None:
    """Of the leader itself or of a replica that has the same records."""
    shared = {"configs": TWO, "quiesced": True, "kafka_version": "4.1.0"}
    own = scene(tmp_path / "own", three(high_watermark=53), *ALONE, *DROPPED, **shared)
    assert own.found("REP-LEADER-SHORTER", 3) and own.verdict == "COMMITTED_LOSS", own
    assert own.interval[1] is None or own.interval[1] >= 53
    other = scene(tmp_path / "other", three(second=second), *ALONE, *DROPPED, **shared)
    assert other.found("REP-LEADER-SHORTER", 3) and other.verdict == "COMMITTED_LOSS", other


# --- epochs that met the minimum for a while

#: Broker 3 leads epoch 1 with broker 1, which then stops: what came before and after is not told apart.
SHRUNK = (change(isr=(1, 3)), change(leader=3), FENCE[1], change(isr=(3,), elr=(1,)))


@pytest.mark.parametrize("version", ["3.7.0", None])
def test_where_the_isr_shrank_below_the_minimum_within_the_epoch_a_loss_is_possible(
    tmp_path: Path, version: str | None
) -> None:
    answer = scene(tmp_path, three(), *SHRUNK, *DROPPED, configs=TWO, quiesced=True, kafka_version=version)
    assert answer.one("REP-LEADER-SHORTER", 3) == ("high", "suspect", 50, 55)
    assert loss_of(answer) == ("WILL_LOSE_ON_TRUNCATION", 5, 0)
    assert costs(answer, 1) == (5, 0, 5)
    assert answer.interval[1] is None or answer.interval[1] >= 55


@pytest.mark.parametrize(
    ("moves", "configs", "version"),
    [
        ((*SHRUNK, *DROPPED), {"min.insync.replicas": "1"}, "4.1.0"),
        ((change(isr=(1, 3)), change(leader=3), FENCE[3], change(leader=-1), change(isr=(1,))), TWO, "4.1.0"),
        ((change(isr=(1, 3)), change(leader=3), change(isr=(3,)), change(leader=-1, isr=(1,))), TWO, "3.6.2"),
    ],
    ids=["one is enough", "met to the end", "before the rule"],
)
def test_where_it_did_not_the_loss_is_likely(tmp_path: Path, moves: tuple, configs: dict, version: str) -> None:
    answer = scene(tmp_path, three(), *moves, configs=configs, quiesced=True, kafka_version=version)
    assert answer.one("REP-LEADER-SHORTER", 3) == ("high", "likely", 50, 55)
    assert answer.verdict == "COMMITTED_LOSS", answer


@pytest.mark.parametrize("second", [log(55, 55, LATER), log(52, 52, LATER)])
@pytest.mark.parametrize("own", [50, 53])
def test_a_mark_that_proves_a_part_makes_it_a_loss(tmp_path: Path, second: Replica, own: int) -> None:
    brokers = three(high_watermark=own, second=second)
    answer = scene(tmp_path, brokers, *SHRUNK, *DROPPED, configs=TWO, quiesced=True, kafka_version="4.1.0")
    assert answer.one("REP-LEADER-SHORTER", 3)[:2] == ("high", "likely") and answer.verdict == "COMMITTED_LOSS"

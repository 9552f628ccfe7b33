"""Records left behind by an election: when they were not committed, and when they may have been (H.1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.scenario import Answer, audit, costs
from tests.support.scenes import FENCE, TWO, change, log, scene
from tests.support.snapshots import Replica


def two(second: Replica, epoch: int, high_watermark: int = 50) -> dict[int, Replica]:
    """Broker 1 ends at 60 in epoch 0; the new leader began `epoch` at 50 and has come further than that."""
    new = log(70, 65, ((0, 0), (epoch, 50)))
    return {1: log(60, high_watermark), 2: new, 3: second}


def left(answer: Answer) -> set[str]:
    return {row["code"] for row in answer.tables["findings"] if row["code"] in ("DIV-EPOCH", "DIV-TAIL-PENDING")}


@pytest.mark.parametrize("eligible", [False, True])
def test_the_present_leaders_high_watermark_proves_nothing_of_what_a_clean_election_left(
    tmp_path: Path, eligible: bool
) -> None:
    """It has passed the offsets of the old leader's tail, with records of its own."""
    if eligible:
        moves = (change(isr=(1, 2)), change(isr=(1,), elr=(2,)), change(leader=-1, isr=(), elr=(1, 2)))
        moves += (change(leader=2, isr=(2,), elr=(1,)), change(isr=(2, 3), elr=()))
    else:
        moves = (change(leader=2, isr=(2, 3)), FENCE[1])
    epoch = 2 if eligible else 1
    answer = scene(tmp_path, two(log(70, 60, ((0, 0), (epoch, 50))), epoch), *moves, configs=TWO)
    assert left(answer) == {"DIV-TAIL-PENDING"}, answer
    assert costs(answer, 2) == costs(answer, 3) == (10, 0, 0)
    assert answer.tables["partitions"][0]["lost_records"] == 0


@pytest.mark.parametrize("leader", [1, 2])
def test_a_sole_member_that_was_down_may_have_lost_what_it_had_committed(tmp_path: Path, leader: int) -> None:
    """Broker 3 had fetched its records; it came back without them, was elected, and went on in their place."""
    other = 3 - leader
    back = log(58, 55, ((0, 0), (2, 50)) if leader == 1 else ((0, 0), (1, 30), (3, 50)))
    before = ((0, 0),) if leader == 1 else ((0, 0), (1, 30))
    brokers = {leader: back, other: log(45, 40, before), 3: log(60, 50, before)}
    begin = () if leader == 1 else (change(leader=2),)
    moves = (*begin, change(isr=(leader,)), FENCE[leader], change(leader=-1), change(leader=leader))
    answer = scene(tmp_path, brokers, *moves)
    assert left(answer) == {"DIV-EPOCH"}, answer
    assert costs(answer, leader) == (10, 0, 10)
    assert answer.tables["partitions"][0]["lost_records"] == 10


def test_what_was_never_on_all_in_sync_was_not_committed(tmp_path: Path) -> None:
    """An unclean election of a broker that was in every ISR which was large enough."""
    brokers = {1: log(60, 50), 2: log(70, 65, ((0, 0), (1, 50))), 3: log(50, 50)}
    moves = (change(isr=(1, 2)), change(isr=(1,)), change(leader=2, isr=(2,), recovering=True), change(isr=(2, 3)))
    answer = scene(tmp_path, brokers, *moves, configs=TWO, kafka_version="4.1.0")
    assert left(answer) == {"DIV-EPOCH"} and costs(answer, 2) == (10, 0, 0), answer
    one = scene(tmp_path / "one", brokers, *moves, kafka_version="4.1.0")
    assert costs(one, 2)[2] == 10, one


def test_a_leader_of_a_stale_listing_bounds_only_where_nobody_else_may_lead(tmp_path: Path) -> None:
    """Broker 1 began epoch 2 at 50, which the listing does not know; broker 3 may lead by now."""
    brokers = {1: log(50, 50, ((0, 0), (2, 50))), 2: log(70, 70, ((0, 0), (1, 50)))}
    here = audit(tmp_path / "here", brokers | {3: log(50, 50)}, leader=3)
    assert here.interval == (50, 50) and here.rows("partitions")[0]["lost_records"] == 20, here
    absent = audit(tmp_path / "absent", brokers, leader=2, replicas=(1, 2, 3), isr=(1, 2, 3))
    assert absent.interval == (50, None) and not absent.mark["exact"], absent


def test_records_that_a_later_leader_still_had_were_lost_by_it_and_not_left_behind(tmp_path: Path) -> None:
    """Broker 3 led without them; broker 2, which had not followed it yet, led next, and then lost its tail."""
    brokers = {1: log(60, 50), 2: log(50, 50, ((0, 0), (2, 60))), 3: log(50, 50, ((0, 0), (1, 50)))}
    moves = (change(leader=3, isr=(2, 3)), change(leader=2, isr=(2,)), FENCE[2], change(leader=-1))
    answer = scene(tmp_path, brokers, *moves, quiesced=True)
    assert costs(answer, 2)[2] == 10, answer


#: Broker 3 led epoch 1 without them; broker 2, which had not followed it yet, led epoch 2 alone, and went down.
BROUGHT_BACK = (change(leader=3, isr=(2, 3)), change(leader=2, isr=(2,)), FENCE[2], FENCE[3])


@pytest.mark.parametrize(
    ("moves", "leader"),
    [
        ((change(leader=-1), change(leader=2)), 2),
        ((change(leader=-1, isr=(), last_known_elr=(2,)), change(leader=2, isr=(2,), recovering=True)), 2),
        ((change(leader=-1), change(leader=3, isr=(3,), recovering=True)), 3),
    ],
    ids=["it had been down", "the last known leader", "another one, uncleanly"],
)
def test_records_that_a_later_leader_may_have_had_may_have_been_committed_by_it(
    tmp_path: Path, moves: tuple, leader: int
) -> None:
    """Nothing shows any more where epoch 2 began: broker 2 came back with or without them."""
    began = ((0, 0), (1, 50))
    brokers = {1: log(60, 50), 2: log(50, 50), 3: log(52, 50, (*began, (4, 52)))}
    if leader == 2:
        brokers |= {2: log(50, 50, ((0, 0), (4, 50))), 3: log(50, 50, began)}
    answer = scene(tmp_path, brokers, *BROUGHT_BACK, *moves, quiesced=True)
    assert costs(answer, leader)[2] == 10, answer
    assert answer.verdict != "UNCOMMITTED_DIVERGENCE", answer

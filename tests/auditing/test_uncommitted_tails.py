"""Records past the reference's end that were or may never have been committed, by who is eligible and who led since (F.0)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.scenario import audit, costs, loss_of
from tests.support.scenes import FENCE, TWO, change, log, scene
from tests.support.snapshots import Replica

#: Broker 3 stops while 2 leads, which then is killed, and dropped as it comes back: 3 is eligible.
ELIGIBLE = (
    change(isr=(2,), elr=(3,)),
    FENCE[3],
    change(leader=-1, isr=(), elr=(2, 3), last_known_elr=(2,)),
    FENCE[2],
    change(elr=(3,)),
)
#: Before that broker 1 is killed, and 2 leads epoch 1.
MOVES = (change(leader=2, isr=(2, 3)), FENCE[1], *ELIGIBLE)
KAFKA = {"configs": TWO, "quiesced": True, "kafka_version": "4.1.0"}


def three(clean: bool = True, second: Replica | None = None, **first) -> dict[int, Replica]:
    """Broker 1 alone has what it wrote from 50 on. Broker 2 came back, which took the entry of epoch 1 out of its file."""
    return {
        1: log(55, **{"high_watermark": 50, **first}),
        2: second or log(50, 50),
        3: log(50, 50, clean_shutdown=clean),
    }


@pytest.mark.parametrize("quiesced", [True, None])
def test_what_an_eligible_replica_that_was_stopped_cleanly_lacks_was_never_committed(
    tmp_path: Path, quiesced: bool | None
) -> None:
    answer = scene(tmp_path, three(), *MOVES, **{**KAFKA, "quiesced": quiesced})
    assert not answer.found("REP-LEADER-SHORTER"), answer
    assert answer.one("DIV-TAIL-PENDING", 1) == ("info", "proven", 50, 55)
    assert loss_of(answer) == ("UNCOMMITTED_DIVERGENCE", 0, 0)
    assert costs(answer, 3) == (5, 0, 0)
    assert answer.interval == (50, 50)


@pytest.mark.parametrize("flushed", [50, 45])
def test_an_eligible_replica_that_was_stopped_during_the_copy_may_have_had_what_its_copy_lacks(
    tmp_path: Path, flushed: int
) -> None:
    """Its recovery point is of before the stop, so that its log may be, too."""
    brokers = {1: log(55, 50), 2: log(50, 50), 3: log(50, 50, clean_shutdown=True, recovery_point=flushed)}
    answer = scene(tmp_path, brokers, *MOVES, **{**KAFKA, "quiesced": None, "kafka_version": None})
    assert bool(answer.found("DIV-TAIL-PENDING", 1)) is (flushed == 50), answer


def test_one_that_was_killed_may_have_had_them(tmp_path: Path) -> None:
    """All had them and 2 and 3 lost the ends of their logs, or 2 and 3 never had them: the files are the same."""
    answer = scene(tmp_path, three(clean=False), *MOVES, **KAFKA)
    assert answer.one("REP-LEADER-SHORTER", 1) == ("high", "suspect", 50, 55)
    assert loss_of(answer) == ("WILL_LOSE_ON_TRUNCATION", 5, 0)
    assert costs(answer, 3) == (5, 0, 5)
    assert "broker 2 led in epoch 1 since" in answer.found("REP-LEADER-SHORTER")[0]["message"]


def test_where_a_checkpoint_proves_some_of_them_committed_all_may_have_been(tmp_path: Path) -> None:
    answer = scene(tmp_path, three(high_watermark=53), *MOVES, **KAFKA)
    assert answer.one("REP-LEADER-SHORTER", 1) == ("high", "likely", 50, 55), answer
    assert loss_of(answer) == ("COMMITTED_LOSS", 5, 3)


#: The entry of epoch 1, in which broker 2 led and wrote.
SHORTER, LONGER = ((0, 0), (1, 50)), ((0, 0), (1, 55))


def test_what_a_clean_winner_did_not_have_was_never_committed(tmp_path: Path) -> None:
    """Its log shows where it began, while the reference, which was killed, has not heard of it."""
    answer = scene(tmp_path, three(clean=False, second=log(52, 50, SHORTER)), *MOVES, **KAFKA)
    assert answer.tables["partitions"][0]["reference_id"] == 3
    assert not answer.found("REP-LEADER-SHORTER", 1), answer
    assert answer.one("DIV-TAIL-PENDING", 1) == ("info", "proven", 50, 55)
    assert "broker 2 did not have them" in answer.found("DIV-TAIL-PENDING", 1)[0]["message"]


def test_what_the_last_leader_had_is_likely_lost(tmp_path: Path) -> None:
    """The file of broker 2 has its epoch begin above them, and the reference, which was killed, lost them."""
    answer = scene(tmp_path, three(clean=False, second=log(57, 50, LONGER)), *MOVES, **KAFKA)
    assert answer.one("REP-LEADER-SHORTER", 1) == ("high", "likely", 50, 55), answer
    assert answer.verdict == "COMMITTED_LOSS"


def test_a_listing_does_not_tell_who_led_since(tmp_path: Path) -> None:
    answer = audit(tmp_path, three(), leader=None, isr=(), elr=(3,), replicas=(1, 2, 3), **KAFKA)
    assert answer.one("REP-LEADER-SHORTER", 1) == ("high", "likely", 50, 55), answer

"""Records past the reference's end that were or may never have been committed, by who is eligible and who led since (F.0)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.scenario import audit, costs, loss_of, written
from tests.support.scenes import FENCE, TWO, change, log, scene
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica

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


def three(end: int = 55, clean: bool = True, second: Replica | None = None, **first) -> dict[int, Replica]:
    """Broker 1 alone has what it wrote from 50 on. Broker 2 came back, which took the entry of epoch 1 out of its file."""
    return {
        1: log(end, **{"high_watermark": 50, **first}),
        2: second or log(50, 50),
        3: log(50, 50, clean_shutdown=clean),
    }


@pytest.mark.parametrize("end", [51, 55, 70])
@pytest.mark.parametrize("quiesced", [True, None])
def test_what_an_eligible_replica_that_was_stopped_cleanly_lacks_was_never_committed(
    tmp_path: Path, end: int, quiesced: bool | None
) -> None:
    answer = scene(tmp_path, three(end), *MOVES, **{**KAFKA, "quiesced": quiesced})
    assert not answer.found("REP-LEADER-SHORTER"), answer
    assert answer.one("DIV-TAIL-PENDING", 1) == ("info", "proven", 50, end)
    assert loss_of(answer) == ("UNCOMMITTED_DIVERGENCE", 0, 0)
    assert costs(answer, 3) == (end - 50, 0, 0)
    assert answer.interval == (50, 50)


@pytest.mark.parametrize("flushed", [50, 45])
def test_an_eligible_replica_that_was_stopped_during_the_copy_may_have_had_what_its_copy_lacks(
    tmp_path: Path, flushed: int
) -> None:
    """Its recovery point is of before the stop, so that its log may be, too."""
    brokers = {1: log(55, 50), 2: log(50, 50), 3: log(50, 50, clean_shutdown=True, recovery_point=flushed)}
    answer = scene(tmp_path, brokers, *MOVES, **{**KAFKA, "quiesced": None, "kafka_version": None})
    assert bool(answer.found("DIV-TAIL-PENDING", 1)) is (flushed == 50), answer


@pytest.mark.parametrize("end", [51, 55, 70])
def test_so_was_what_the_last_leader_wrote_past_it(tmp_path: Path, end: int) -> None:
    """Broker 2 had three in sync at first: whether it wrote before broker 3 had left, nothing else tells."""
    brokers = {1: log(50, 50), 2: log(end, 50, ((0, 0), (1, 50))), 3: log(50, 50, clean_shutdown=True)}
    answer = scene(tmp_path, brokers, *MOVES, **KAFKA)
    assert not answer.found("REP-LEADER-SHORTER"), answer
    assert costs(answer, 3) == (end - 50, 0, 0)


def test_one_that_was_killed_may_have_had_them(tmp_path: Path) -> None:
    """All had them and 2 and 3 lost the ends of their logs, or 2 and 3 never had them: the files are the same."""
    answer = scene(tmp_path, three(clean=False), *MOVES, **KAFKA)
    assert answer.one("REP-LEADER-SHORTER", 1) == ("high", "suspect", 50, 55)
    assert loss_of(answer) == ("WILL_LOSE_ON_TRUNCATION", 5, 0)
    assert costs(answer, 3) == (5, 0, 5)
    assert "broker 2 led in epoch 1 since" in answer.found("REP-LEADER-SHORTER")[0]["message"]


@pytest.mark.parametrize("clean", [True, False])
def test_where_a_checkpoint_proves_some_of_them_committed_all_may_have_been(tmp_path: Path, clean: bool) -> None:
    answer = scene(tmp_path, three(clean=clean, high_watermark=53), *MOVES, **KAFKA)
    assert answer.one("REP-LEADER-SHORTER", 1) == ("high", "likely", 50, 55), answer
    assert loss_of(answer) == ("COMMITTED_LOSS", 5, 3)


@pytest.mark.parametrize("clean", [True, False])
def test_where_its_own_checkpoint_lies_past_its_end_it_may_have_had_them(tmp_path: Path, clean: bool) -> None:
    brokers = {**three(), 3: log(50, 53, clean_shutdown=clean)}
    answer = scene(tmp_path, brokers, *MOVES, **KAFKA)
    assert answer.one("REP-LEADER-SHORTER", 1) == ("high", "likely", 50, 55), answer
    assert answer.verdict == "COMMITTED_LOSS"


@pytest.mark.parametrize("quiesced", [None, False])
def test_while_somebody_leads_more_may_have_been_committed_since(tmp_path: Path, quiesced: bool | None) -> None:
    """Broker 3 stopped, and then 1 joined the ISR of 2, which was not captured: the metadata log was copied before."""
    moves = (change(leader=2, isr=(2, 3)), change(isr=(2,), elr=(3,)), FENCE[3])
    brokers = {1: log(60, 50, ((0, 0), (1, 50))), 3: log(50, 50, clean_shutdown=True)}
    answer = scene(tmp_path, brokers, *moves, **{**KAFKA, "quiesced": quiesced})
    assert answer.tables["partitions"][0]["reference_id"] == 3
    assert not answer.found("DIV-TAIL-PENDING"), answer


UNCLEAN = (change(isr=(1,)), FENCE[1], change(leader=2, isr=(2,), recovering=True))
CAME_BACK = (change(leader=2, isr=(2,)), FENCE[1], change(leader=-1), change(leader=2))


@pytest.mark.parametrize("before", [UNCLEAN, CAME_BACK], ids=["unclean", "the winner had been down"])
def test_an_election_that_may_have_lost_them_leaves_it_open(tmp_path: Path, before: tuple) -> None:
    """Broker 3 follows 2 afterwards, and has what is committed since."""
    moves = (*before, change(isr=(2, 3), recovering=False), *ELIGIBLE)
    answer = scene(tmp_path, three(), *moves, **KAFKA)
    assert answer.found("REP-LEADER-SHORTER", 1), answer
    assert costs(answer, 3)[2] == 5


@pytest.mark.parametrize("before", [UNCLEAN, CAME_BACK], ids=["unclean", "the winner had been down"])
def test_an_election_before_them_does_not(tmp_path: Path, before: tuple) -> None:
    """Broker 1 leads again, in epoch 2 or later, and writes them."""
    moves = (*before, change(isr=(1, 2, 3), recovering=False), change(leader=1), *MOVES)
    epoch = 2 if before is UNCLEAN else 4
    answer = scene(tmp_path, {**three(), 1: log(55, 50, ((0, 0), (epoch, 50)))}, *moves, **KAFKA)
    assert not answer.found("REP-LEADER-SHORTER") and answer.verdict == "UNCOMMITTED_DIVERGENCE", answer


#: The entry of epoch 1, in which broker 2 led and wrote.
SHORTER, LONGER = ((0, 0), (1, 50)), ((0, 0), (1, 55))


def test_what_a_clean_winner_did_not_have_was_never_committed(tmp_path: Path) -> None:
    """Its log shows where it began, while the reference, which was killed, has not heard of it."""
    answer = scene(tmp_path, three(clean=False, second=log(52, 50, SHORTER)), *MOVES, **KAFKA)
    assert answer.tables["partitions"][0]["reference_id"] == 3
    assert not answer.found("REP-LEADER-SHORTER", 1), answer
    assert answer.one("DIV-TAIL-PENDING", 1) == ("info", "proven", 50, 55)
    assert "broker 2 did not have them" in answer.found("DIV-TAIL-PENDING", 1)[0]["message"]


@pytest.mark.parametrize("before", [UNCLEAN, CAME_BACK], ids=["unclean", "the winner had been down"])
def test_what_another_winner_did_not_have_may_have_been(tmp_path: Path, before: tuple) -> None:
    epoch = 1 if before is UNCLEAN else 3
    second = log(52, 50, ((0, 0), (epoch, 50)))
    moves = (*before, change(isr=(2, 3), recovering=False), *ELIGIBLE)
    answer = scene(tmp_path, three(clean=False, second=second), *moves, **KAFKA)
    assert answer.one("REP-LEADER-SHORTER", 1)[:2] == ("high", "suspect"), answer
    assert costs(answer, 3)[2] >= 5


def test_what_a_clean_winner_has_not_that_lost_its_end_may_have_been(tmp_path: Path) -> None:
    answer = scene(tmp_path, three(clean=False, second=log(52, 54, SHORTER)), *MOVES, **KAFKA)
    assert answer.found("REP-LEADER-SHORTER", 1), answer


def test_what_the_last_leader_had_is_likely_lost(tmp_path: Path) -> None:
    """The file of broker 2 has its epoch begin above them, and the reference, which was killed, lost them."""
    answer = scene(tmp_path, three(clean=False, second=log(57, 50, LONGER)), *MOVES, **KAFKA)
    assert answer.one("REP-LEADER-SHORTER", 1) == ("high", "likely", 50, 55), answer
    assert answer.verdict == "COMMITTED_LOSS"


def test_what_it_wrote_itself_it_lost(tmp_path: Path) -> None:
    """Broker 3 led epoch 1 and was stopped cleanly; somebody took the end of its log away."""
    epochs = ((0, 0), (1, 50))
    brokers = {1: log(55, 50, epochs), 2: log(50, 50), 3: log(50, 50, epochs, clean_shutdown=True)}
    moves = (change(leader=3), FENCE[3], change(leader=2, isr=(1, 2)), change(isr=(2,), elr=(1, 3)), *ELIGIBLE[2:])
    answer = scene(tmp_path, brokers, *moves, **KAFKA)
    assert answer.tables["partitions"][0]["reference_id"] == 3
    assert answer.found("REP-LEADER-SHORTER", 1), answer


def test_where_the_history_begins_later_it_may_have_been(tmp_path: Path) -> None:
    """With a snapshot in which broker 2 leads epoch 1: how it was elected, nothing tells."""
    state = [write.topic(TOPIC, TOPIC_ID), write.config(2, TOPIC, "min.insync.replicas", "2")]
    state += [write.partition(TOPIC_ID, (1, 2, 3), 2, isr=(2, 3), leader_epoch=1, partition_epoch=1)]
    later = b"".join(write.batch(90 + number, [one]) for number, one in enumerate(ELIGIBLE))
    metadata = write.MetadataLog({90: later}, {(90, 1): write.snapshot(state)})
    answer = audit(tmp_path, three(), metadata={100: metadata}, quiesced=True, kafka_version="4.1.0")
    assert answer.one("REP-LEADER-SHORTER", 1) == ("high", "suspect", 50, 55), answer
    assert "broker 2 led in epoch 1 since" in answer.found("REP-LEADER-SHORTER")[0]["message"]


def test_a_listing_does_not_tell_who_led_since(tmp_path: Path) -> None:
    answer = audit(tmp_path, three(), leader=None, isr=(), elr=(3,), replicas=(1, 2, 3), **KAFKA)
    assert answer.one("REP-LEADER-SHORTER", 1) == ("high", "likely", 50, 55), answer


@pytest.mark.parametrize("start", [50, 53])
def test_what_another_deleted_below_its_log_start_was_committed(tmp_path: Path, start: int) -> None:
    """Broker 2 has only what broker 1 has at its log start: what it deleted was what broker 1 has below."""
    second = Replica(written(start, 55, 0, step=1), high_watermark=None, log_start=start)
    answer = scene(tmp_path, three(second=second), *MOVES, **KAFKA)
    assert bool(answer.found("REP-LEADER-SHORTER")) == (start > 50), answer

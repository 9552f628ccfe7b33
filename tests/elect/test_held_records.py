"""The records of one replica as ranges: what identifies them, and up to where they were, or may have been, committed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.histories import history
from tests.support.made_cases import batch, case, compared, divergent, leadership, log

from replica_audit.auditing.compare.alignment import Alignment, CorruptPair, Difference
from replica_audit.auditing.compare.comparison import Tail
from replica_audit.auditing.compare.distinct_records import RecordRange
from replica_audit.auditing.compare.divergence_cause import Cause
from replica_audit.auditing.compare.divergent_ranges import DivergentRange
from replica_audit.auditing.leadership.high_watermark_bounds import HighWatermark
from replica_audit.auditing.remote_facts import RemoteFacts
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.batch_header import TRANSACTIONAL, Batch
from replica_audit.elect.held_records import CommittedRange, ReplicaRecords, holding
from replica_audit.model import ChunkDigest, OffsetRange, OpenTransaction
from replica_audit.protocol.election import Election
from replica_audit.segments.batch_rows import Batches

#: Committed up to 30, and at most up to 36.
MARK = HighWatermark(30, 36, 30, 30, "interval", "", "", "", None, True)
LEADER = log(1, (0, 0), (2, 20))
FOLLOWER = log(2, (0, 0), (1, 30))


def records(
    *batches: Batch,
    runs: tuple[DivergentRange, ...] = (),
    facts: ReplicaFacts = FOLLOWER,
    leader: ReplicaFacts = LEADER,
    mark: HighWatermark = MARK,
    item: dict[str, Any] | None = None,
    loaded: frozenset[int] = frozenset(),
    **known: Any,
) -> ReplicaRecords:
    """Of the follower, or of the leader if `facts` is."""
    follower = FOLLOWER if facts is leader else facts
    made = case(leader, compared(follower, *runs, **(item or {})), high_watermark=mark, **known)
    return holding(made, facts, Batches.of(batches), loaded)


def outline(found: ReplicaRecords) -> list[tuple]:
    """(start, end, identity, proven end, possible end) of each range, and True if it is past the reference's end."""
    return [
        (one.piece.start_offset, one.piece.end_offset, one.piece.identity, one.piece.committed_end, one.possible_end)
        + (True,) * one.is_ahead
        for one in found.marked
    ]


SHARED = batch(20, 24), batch(25, 29)
OWN = batch(30, 34, epoch=1), batch(35, 39, epoch=1)
RUN = divergent("epoch", batches=OWN)
SPARSE = batch(20, 24)._replace(record_count=3)
OTHER = batch(30, 34, epoch=1), batch(35, 39, 8, epoch=1)
CONTENT = divergent("content", batches=OTHER, leader=1)


@pytest.mark.parametrize(
    ("batches", "runs", "ranges"),
    [
        # What follows without a gap in one epoch is one range.
        (SHARED, (), [(20, 30, (0,), 30, 36)]),
        ((SHARED[0], batch(26, 29)), (), [(20, 25, (0,), 30, 36), (26, 30, (0,), 30, 36)]),
        ((SHARED[0], batch(25, 29, epoch=1)), (), [(20, 25, (0,), 30, 36), (25, 30, (1,), 30, 36)]),
        # One without a record at each offset is a range of its own.
        ((SPARSE, SHARED[1]), (), [(20, 25, (0,), 30, 36), (25, 30, (0,), 30, 36)]),
        # Markers and damaged batches have no records.
        ((SHARED[0], batch(25, 25, control=True), batch(26, 29)), (), [(20, 25, (0,), 30, 36), (26, 30, (0,), 30, 36)]),
        ((SHARED[0], SHARED[1]._replace(crc_valid=False)), (), [(20, 25, (0,), 30, 36)]),
        # Without an epoch the batch itself identifies them.
        ((batch(20, 24, epoch=-1),), (), [(20, 25, (None, 20, 24, 7), 30, 36)]),
        # In a conflict its own proof counts, and all of it may have been committed.
        ((*SHARED, *OWN), (RUN,), [(20, 30, (0,), 30, 36), (30, 40, (1,), -1, 40)]),
        (OWN, (RUN._replace(committed_end=33),), [(30, 40, (1,), 33, 40)]),
        (OWN, (divergent("hole_there", batches=OWN),), [(30, 40, (1,), 30, 36)]),
        # Other records in the same epoch have the checksum, too.
        (OTHER, (CONTENT,), [(30, 35, (1, 7), -1, 40), (35, 40, (1, 8), -1, 40)]),
        # A hole does not matter to what is there, wherever it begins and ends.
        (OWN, (divergent("hole_there", batches=OWN, start_offset=32, end_offset=37),), [(30, 40, (1,), 30, 36)]),
        # A run may begin or end within a batch, and a batch may be in two.
        (OWN, (RUN._replace(start_offset=32),), [(30, 32, (1,), 30, 36), (32, 40, (1,), -1, 40)]),
        (OWN, (RUN._replace(end_offset=37),), [(30, 37, (1,), -1, 37), (37, 40, (1,), 30, 36)]),
        (
            OWN[:1],
            (RUN._replace(end_offset=32, committed_end=32), RUN._replace(start_offset=33)),
            [(30, 32, (1,), 32, 32), (32, 33, (1,), 30, 36), (33, 35, (1,), -1, 40)],
        ),
        (
            OWN[:1],
            tuple(RUN._replace(start_offset=at, end_offset=at + 1, committed_end=at) for at in (30, 32, 34)),
            [(start, start + 1, (1,), *((start, start + 1) if start % 2 == 0 else (30, 36))) for start in range(30, 35)],
        ),
        # What the leader wrote again in its own epoch is one record with that.
        (OWN, (divergent("epoch", written_again=OWN),), [(30, 40, (2,), 30, 36)]),
        (
            (SHARED[1], *OWN),
            (divergent("epoch", batches=SHARED[1:], start_offset=25, end_offset=30), divergent("epoch", written_again=OWN)),
            [(25, 30, (0,), -1, 30), (30, 40, (2,), 30, 36)],
        ),
        (OWN, (divergent("epoch", batches=OWN[1:], written_again=OWN[:1]),), [(30, 35, (2,), 30, 36), (35, 40, (1,), -1, 40)]),
    ],
)  # fmt: skip
def test_the_ranges_of_a_followers_batches(
    batches: tuple[Batch, ...], runs: tuple[DivergentRange, ...], ranges: list[tuple]
) -> None:
    assert outline(records(*batches, runs=runs)) == ranges


AHEAD = batch(40, 44, epoch=2), batch(45, 49, epoch=2)
PAST = {"alignment": Alignment(ahead=Batches.of(AHEAD))}
LONGER = log(2, (0, 0), (2, 20), end=50)
MARKED_AT_45, MARKED_AT_55 = (
    replace(LONGER, directory=LONGER.directory._replace(high_watermark_checkpoint=at)) for at in (45, 55)
)


@pytest.mark.parametrize(
    ("facts", "leader", "item", "ranges"),
    [
        (LONGER, LEADER, {}, [(40, 45, (2,), 40, 45, True), (45, 50, (2,), 40, 50, True)]),
        (MARKED_AT_45, LEADER, {}, [(40, 45, (2,), 45, 45, True), (45, 50, (2,), 45, 50, True)]),
        # A mark past the end of its own log proves nothing of it, the leader's does.
        (MARKED_AT_55, LEADER, {}, [(40, 45, (2,), 40, 45, True), (45, 50, (2,), 40, 50, True)]),
        (LONGER, log(1, (0, 0), (2, 20), high_watermark_checkpoint=47), {}, [(40, 45, (2,), 47, 47, True), (45, 50, (2,), 47, 50, True)]),
        # What was never committed was not possibly so.
        (LONGER, LEADER, {"never_committed": Tail(45, "")}, [(40, 45, (2,), 40, 45, True), (45, 50, (2,), 40, 40, True)]),
        (LONGER, LEADER, {"never_committed": Tail(40, "")}, [(40, 50, (2,), 40, 40, True)]),
    ],
)  # fmt: skip
def test_the_ranges_past_the_leaders_end(
    facts: ReplicaFacts, leader: ReplicaFacts, item: dict[str, Any], ranges: list[tuple]
) -> None:
    assert outline(records(*AHEAD, facts=facts, leader=leader, item=PAST | item)) == ranges


#: Broker 1 took over from broker 2 cleanly, in epoch 3, which its copy does not know.
ELECTION = Election(3, 1, 3, 3, True, 2, (1, 2), (), (1, 2), False, False)
TERMS = history({"leader_id": 2}, {"leader_id": 2}, {"leader_id": 1}, {"leader_id": None, "leader_stopped": True})
STOPPED = {
    "said": leadership(leader_id=None, leader_epoch=4, history=TERMS),
    "leader": log(1, (0, 0), (2, 20), clean_shutdown=True, recovery_point_checkpoint=40),
}


@pytest.mark.parametrize(
    ("election", "known", "possible"),
    [
        (ELECTION, {"predates": True}, 40),
        # A broker that heard of its election, as it announced its stop, has led with another log.
        (ELECTION, STOPPED, 40),
        (ELECTION, {}, -1),
        (ELECTION._replace(leader_epoch=2), {"predates": True}, -1),
        (ELECTION._replace(leader_id=2), {"predates": True}, -1),
        (None, {"predates": True}, -1),
    ],
)
def test_a_clean_election_leaves_nothing_committed_behind_if_the_elected_log_is_here(
    election: Election | None, known: dict[str, Any], possible: int
) -> None:
    run = RUN._replace(committed_end=None, cause=Cause(election, clean=True, promised_records=0))
    assert [one.possible_end for one in records(*OWN, runs=(run,), **known).marked] == [possible]


def lineage(*starts: tuple[int, int], **changes: Any) -> ReplicaFacts:
    return log(1, *starts, **changes)


@pytest.mark.parametrize(
    ("known", "marks"),
    [
        ({}, (30, 36)),
        # Nothing bounds it, or the protocol cuts what was committed: up to the leader's end.
        ({"mark": MARK._replace(hw_upper=None)}, (30, 40)),
        ({"protocol": "kip-101"}, (30, 40)),
        ({"mark": MARK._replace(hw_upper=25)}, (30, 30)),
        # Below the leader's log start it may be of another history.
        ({"item": {"unproven_below_start": OffsetRange(12, 21)}}, (12, 36)),
        ({"item": {"unproven_below_start": OffsetRange(12, 20)}}, (30, 36)),
        ({"item": {"unproven_below_start": OffsetRange(12, 19)}}, (30, 36)),
        # The leader's cleaner has been there, and it has another epoch now.
        ({"leader": lineage((0, 0), (2, 20), compacted=True)}, (20, 36)),
        ({"leader": lineage((0, 0), (2, 21), compacted=True)}, (30, 36)),
        ({"leader": lineage((2, 21), compacted=True)}, (30, 36)),
        ({"leader": lineage((0, 0), (2, 20))}, (30, 36)),
    ],
)
@pytest.mark.parametrize("kind", ["sparse", "compacted"])
def test_up_to_where_what_both_have_was_committed(kind: str, known: dict[str, Any], marks: tuple[int, int]) -> None:
    facts = FOLLOWER if kind == "sparse" else replace(FOLLOWER, compacted=True)
    one = SPARSE if kind == "sparse" else SHARED[0]
    assert outline(records(one, facts=facts, **known)) == [(20, 25, (0,), *marks)]


def test_of_the_leader_itself_and_of_a_dense_range_the_same_holds() -> None:
    assert outline(records(*SHARED, *OWN, facts=LEADER)) == [(20, 30, (0,), 30, 36), (30, 40, (1,), 30, 36)]
    below = records(*SHARED, item={"unproven_below_start": OffsetRange(12, 21)})
    assert outline(below) == [(20, 30, (0,), 12, 36)]


@pytest.mark.parametrize(
    ("batches", "ranges"),
    [
        (SHARED, [(22, 30)]),
        ((SPARSE, SHARED[1]), [(22, 25), (25, 30)]),
        # All of it lies below.
        ((batch(17, 21), *SHARED[1:]), [(25, 30)]),
        ((batch(10, 19), *SHARED[1:]), [(25, 30)]),
        ((batch(17, 21)._replace(record_count=3),), []),
        ((batch(17, 22),), [(22, 23)]),
        ((batch(17, 22)._replace(record_count=3),), [(22, 23)]),
    ],
)
def test_a_log_has_what_is_above_its_log_start(batches: tuple[Batch, ...], ranges: list[tuple]) -> None:
    found = outline(records(*batches, facts=log(2, (0, 0), log_start_offset=22)))
    assert [one[:2] for one in found] == ranges


def test_in_a_compacted_log_each_batch_is_a_range() -> None:
    facts = replace(FOLLOWER, compacted=True)
    assert [one[:2] for one in outline(records(*SHARED, facts=facts))] == [(20, 25), (25, 30)]
    # Every cleaner writes batches of its own: their checksums tell nothing.
    told = outline(records(*OTHER, runs=(CONTENT,), facts=facts))
    assert [one[2] for one in told] == [(1, 0), (1, 0)]


TWIN = batch(50, 54, epoch=2)
SENT_AGAIN = Difference("epoch", 30, 35, 2, 1, Batches.of(OWN[:1]), twin=TWIN)
DAMAGED = OWN[0]._replace(crc_valid=False)
BLIND = CorruptPair("blind", 30, 35, 2, 1, 0, "", odd=OWN[0], right=OWN[0]._replace(leader_epoch=2))


@pytest.mark.parametrize(
    ("alignment", "ranges"),
    [
        (Alignment((SENT_AGAIN,)), [(35, 40, (1,), None), (50, 55, (2,), (30, 35))]),
        (Alignment((SENT_AGAIN._replace(twin=None),)), [(30, 40, (1,), None)]),
        # A header that was changed on its own disk counts as what it was.
        (Alignment(corrupt=(BLIND,)), [(30, 35, (2,), (30, 35)), (35, 40, (1,), None)]),
        (Alignment(corrupt=(BLIND._replace(bad_broker_id=1, good_broker_id=2),)), [(30, 40, (1,), None)]),
        (Alignment(corrupt=(BLIND._replace(odd=None),)), [(30, 40, (1,), None)]),
    ],
)
def test_what_the_leader_has_elsewhere_counts_as_the_leaders(alignment: Alignment, ranges: list[tuple]) -> None:
    found = records(*OWN, item={"alignment": alignment})
    assert [
        (one.piece.start_offset, one.piece.end_offset, one.piece.identity, one.place) for one in found.marked
    ] == ranges


def test_of_an_odd_batch_only_the_data_above_the_log_start_counts() -> None:
    item = {"alignment": Alignment((SENT_AGAIN,))}
    for start, ranges in ((34, [(35, 40), (50, 55)]), (35, [(35, 40)]), (36, [(36, 40)])):
        found = records(*OWN, facts=replace(FOLLOWER, log_start_offset=start), item=item)
        assert [tuple(one.span) for one in found.marked] == ranges
    # The leader has it undamaged.
    pair = {"alignment": Alignment(corrupt=(BLIND._replace(odd=DAMAGED),))}
    assert [tuple(one.span) for one in records(DAMAGED, item=pair).marked] == [(30, 35)]
    marker = batch(40, 40, epoch=2, control=True)
    assert not records(marker, facts=LONGER, item={"alignment": Alignment(ahead=Batches.of([marker]))}).marked


def test_a_run_below_the_log_start_is_left_out() -> None:
    runs = (RUN._replace(end_offset=32), RUN._replace(start_offset=33))
    assert outline(records(*OWN[:1], runs=runs, facts=replace(FOLLOWER, log_start_offset=33))) == [
        (33, 35, (1,), -1, 40)
    ]


def test_a_run_does_not_count_for_what_has_its_place_elsewhere() -> None:
    item = {"alignment": Alignment((SENT_AGAIN,))}
    assert outline(records(*OWN, runs=(RUN,), item=item)) == [(35, 40, (1,), -1, 40), (50, 55, (2,), 30, 36)]
    for twin in (batch(36, 39, epoch=2), batch(26, 29, epoch=2)):
        beside = {"alignment": Alignment((SENT_AGAIN._replace(twin=twin),))}
        found = outline(records(*OWN[:1], runs=(RUN._replace(start_offset=25),), item=beside))
        assert found == [(twin.base_offset, twin.end_offset, (2,), 30, 36)]
    same = {"alignment": Alignment(corrupt=(BLIND,))}
    assert outline(records(*OWN, runs=(RUN,), item=same))[0] == (30, 35, (2,), -1, 40)


CHUNK = ChunkDigest(0, 4, 15, 400, 5, 19, 99, None, None)
WITH_CHUNK = replace(FOLLOWER, chunks={0: CHUNK})


def test_a_chunk_that_all_have_alike_is_one_range_with_its_digest() -> None:
    (one,) = records(facts=WITH_CHUNK).marked
    assert one == CommittedRange(RecordRange(FOLLOWER.key, ("chunk", 0, 99), 5, 20, 15, 30, 99, exact=True), 36, None)
    cleaned = lineage((0, 0), (2, 3), compacted=True)
    assert [item.piece.committed_end for item in records(facts=WITH_CHUNK, leader=cleaned).marked] == [30]
    assert not records(facts=WITH_CHUNK, loaded=frozenset((0,))).marked
    assert not records(facts=replace(FOLLOWER, chunks={0: CHUNK._replace(record_count=0)})).marked
    assert not records(facts=replace(WITH_CHUNK, log_start_offset=20)).marked
    assert records(facts=replace(WITH_CHUNK, log_start_offset=19)).marked
    assert [len(some) for some in records(facts=WITH_CHUNK).parted(10)] == [0, 1], "its digest is of all of it"
    both = records(*SHARED, batch(0, 4), facts=WITH_CHUNK)
    assert [one[:2] for one in outline(both)] == [(0, 5), (5, 20), (20, 30)]


#: Something is in remote storage.
REMOTE = RemoteFacts(segments=(object(),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chunk", "starts", "remote", "identities"),
    [
        (CHUNK, ((0, 0), (1, 10)), REMOTE, [(5, 10, (0,), 0), (10, 20, (1,), 1)]),
        (CHUNK, ((0, 0), (1, 10)), RemoteFacts(), [(5, 20, ("chunk", 0, 99), None)]),
        (CHUNK._replace(record_count=14), ((0, 0), (1, 10)), REMOTE, [(5, 20, ("chunk", 0, 99), None)]),
        # Of its beginning no epoch is known.
        (CHUNK, ((1, 10),), REMOTE, [(5, 20, ("chunk", 0, 99), None)]),
        (CHUNK, ((1, 5),), REMOTE, [(5, 20, (1,), 1)]),
    ],
)
def test_where_remote_storage_may_have_them_too_a_chunk_is_parted_by_epoch(
    chunk: ChunkDigest, starts: tuple[tuple[int, int], ...], remote: RemoteFacts, identities: list[tuple]
) -> None:
    facts = replace(log(2, *starts), chunks={0: chunk})
    found = records(facts=facts, remote=remote).marked
    assert [(*one.span, one.piece.identity, one.leader_epoch) for one in found] == identities
    assert {(one.piece.committed_end, one.possible_end) for one in found} == {(30, 36)}


@pytest.mark.parametrize(
    ("batches", "cut", "kept", "dropped"),
    [
        (SHARED, 20, [], [(20, 30)]),
        (SHARED, 25, [(20, 25)], [(25, 30)]),
        # A batch across the cut is dropped whole.
        (SHARED, 26, [(20, 25)], [(25, 30)]),
        (SHARED, 24, [], [(20, 30)]),
        (SHARED, 30, [(20, 30)], []),
        (SHARED, 99, [(20, 30)], []),
        # In a hole nothing is dropped.
        ((SHARED[0], batch(28, 29)), 27, [(20, 25)], [(28, 30)]),
        ((SPARSE, SHARED[1]), 22, [], [(20, 25), (25, 30)]),
        ((SPARSE, SHARED[1]), 25, [(20, 25)], [(25, 30)]),
        ((), 25, [], []),
    ],
)
def test_what_a_cut_keeps_and_drops(
    batches: tuple[Batch, ...], cut: int, kept: list[tuple], dropped: list[tuple]
) -> None:
    found = records(*batches)
    assert [[tuple(one.span) for one in some] for some in found.parted(cut)] == [kept, dropped]
    assert found.dropped(cut).record_count == sum(one.record_count for one in batches if one.end_offset > cut)


def test_a_cut_below_the_log_start_drops_from_there() -> None:
    found = records(*SHARED, facts=log(2, (0, 0), log_start_offset=25))
    assert [len(some) for some in found.parted(0)] == [0, 1] and found.dropped(0).record_count == 5


def test_a_range_with_another_place_is_kept_where_it_lies() -> None:
    found = records(*OWN, item={"alignment": Alignment((SENT_AGAIN,))})
    assert [[tuple(one.span) for one in some] for some in found.parted(35)] == [[(50, 55)], [(35, 40)]]


DATA = batch(30, 34, epoch=1)._replace(attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0)
MARKER = batch(35, 35, epoch=1, control=True)._replace(producer_id=7, producer_epoch=0)
MARKER = MARKER._replace(attributes=MARKER.attributes | TRANSACTIONAL)
OPEN = OpenTransaction(7, 0, 0, 25, 29, 0)


@pytest.mark.parametrize(
    ("batches", "transaction", "cut", "runs", "part"),
    [
        # (its offset, possibly committed, past the leader's end, open before)
        ((DATA, MARKER), OPEN, 30, (), (30, True, False, True)),
        ((DATA, MARKER), OPEN, 35, (), (35, True, False, True)),
        ((DATA, MARKER), OPEN, 36, (), None),
        ((DATA,), OPEN._replace(producer_id=8), 30, (), None),
        # It begins above the cut, in the other log.
        ((DATA,), OPEN._replace(first_offset=31), 30, (), None),
        ((DATA,), OPEN._replace(first_offset=30), 30, (), None),
        ((MARKER,), OPEN._replace(first_offset=30), 30, (), (35, True, False, False)),
        ((DATA, MARKER), OPEN._replace(first_offset=30), 30, (), (35, True, False, False)),
        # Nothing of the run was committed.
        ((DATA,), OPEN, 30, (RUN._replace(end_offset=30, start_offset=25),), (30, True, False, True)),
    ],
)
def test_the_part_of_a_transaction_that_a_cut_drops(
    batches: tuple[Batch, ...], transaction: OpenTransaction, cut: int, runs: tuple[DivergentRange, ...], part: tuple | None
) -> None:  # fmt: skip
    found = records(*batches, runs=runs).cut_part(transaction, cut)
    told = found and (found.batch.base_offset, found.is_possible, found.is_ahead, found.was_open)
    assert told == part


def test_a_part_past_the_leaders_end_is_called_so_and_one_that_was_never_committed_is_not_possible() -> None:
    later = [one._replace(base_offset=one.base_offset + 10, last_offset=one.last_offset + 10) for one in (DATA, MARKER)]
    item = {"alignment": Alignment(ahead=Batches.of(later))}
    found = records(*later, facts=LONGER, item=item).cut_part(OPEN, 40)
    assert found is not None and found.is_ahead and found.is_possible
    never = records(*later, facts=LONGER, item=item | {"never_committed": Tail(40, "")}).cut_part(OPEN, 40)
    assert never is not None and never.is_ahead and not never.is_possible
    never = records(*later, facts=LONGER, item=item | {"never_committed": Tail(40, "")}).cut_part(OPEN, 45)
    assert never is not None and not never.is_possible


PLAIN = CommittedRange(RecordRange((2, "d"), (1,), 10, 20, 10, 12, 7, exact=True), 15, 1)


def test_a_plain_range_is_cut_and_any_other_is_taken_whole() -> None:
    assert PLAIN.above(9) == PLAIN.above(10) == PLAIN
    assert PLAIN.above(20) is PLAIN.above(25) is None
    above = PLAIN.above(13)
    assert above is not None and tuple(above.span) == (13, 20) and above.piece.record_count == 7
    for other in (
        PLAIN._replace(piece=PLAIN.piece._replace(record_count=9)),
        PLAIN._replace(piece=PLAIN.piece._replace(exact=False)),
        PLAIN._replace(leader_epoch=None),
        PLAIN._replace(place=(0, 10)),
    ):
        assert other.above(13) == other


@pytest.mark.parametrize(
    ("changes", "piece", "follows"),
    [
        ({}, {}, True),
        ({"possible_end": 16}, {}, False),
        ({"leader_epoch": 2}, {}, False),
        ({"is_ahead": True}, {}, False),
        ({"place": (0, 10)}, {}, False),
        ({}, {"committed_end": 13}, False),
        ({}, {"identity": (1, 7)}, False),
        ({}, {"start_offset": 21, "record_count": 9}, False),
        ({}, {"start_offset": 19, "record_count": 11}, False),
        ({}, {"exact": False}, False),
    ],
)
def test_what_differs_in_a_mark_does_not_go_on(changes: dict[str, Any], piece: dict[str, Any], follows: bool) -> None:
    after = PLAIN.piece._replace(start_offset=20, end_offset=30)._replace(**piece)
    assert PLAIN._replace(piece=after)._replace(**changes).follows(PLAIN) is follows
    sparse = PLAIN._replace(piece=PLAIN.piece._replace(record_count=9))
    assert not PLAIN._replace(piece=after).follows(sparse)


def test_nothing_is_proven_of_an_unproven_range() -> None:
    assert PLAIN.unproven() == PLAIN._replace(piece=PLAIN.piece._replace(committed_end=-1))
    assert PLAIN._replace(possible_end=11).unproven().possible_end == 12

"""Ranges of records in several copies, and the number of distinct records in them (F.0)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import CopyKey
    from replica_audit.batch_header import Batch

_Holder = TypeVar("_Holder", tuple[int, str], int)


class Count(NamedTuple):
    """Numbers of records, and of those proven committed."""

    records: int = 0
    committed: int = 0


#: Lost records that a holder has, and those that no other holder has.
Share = tuple[Count, Count]


class RecordRange(NamedTuple):
    """A batch or a part of it in one copy; ranges with the same `identity` hold the same records at equal offsets."""

    copy: CopyKey
    identity: tuple
    start_offset: int
    end_offset: int
    record_count: int
    committed_end: int
    """End of the records proven committed."""
    crc: int
    exact: bool
    """True if `record_count` is exact, False if it is a bound."""

    @property
    def dense(self) -> bool:
        return self.record_count == self.end_offset - self.start_offset

    def between(self, start: int, end: int) -> RecordRange:
        """Return the part of a dense range in [start, end)."""
        return RecordRange(self.copy, self.identity, start, end, end - start, self.committed_end, self.crc, self.exact)

    def committed_to(self, offset: int) -> RecordRange:
        """Return the range with the records below `offset` proven committed."""
        start = self.start_offset
        end = self.end_offset
        return RecordRange(self.copy, self.identity, start, end, self.record_count, offset, self.crc, self.exact)


_PLACE = attrgetter("start_offset", "end_offset")


def piece_of(copy: CopyKey, batch: Batch, start: int, end: int, committed_end: int) -> RecordRange:
    """Make a range of the part of a batch in [start, end), with the records below `committed_end` proven committed."""
    start = max(batch.base_offset, start)
    end = min(batch.end_offset, end)
    span = batch.end_offset - batch.base_offset
    dense = batch.record_count in (span, -1)
    whole = end - start == span
    count = end - start if dense else min(batch.record_count, end - start)
    # Without an epoch only the batch itself identifies its records.
    identity = (batch.epoch,) if batch.epoch is not None else (None, batch.base_offset, batch.last_offset, batch.crc)
    exact = batch.record_count >= 0 and (dense or whole)
    return RecordRange(copy, identity, start, end, count, committed_end, batch.crc, exact)


def has_data(batch: Batch) -> bool:
    """True if a batch is readable and has records sent by producers."""
    return batch.crc_valid and batch.record_count != 0 and not batch.is_control


#: Pieces by `identity`.
ByIdentity = Mapping[tuple, Sequence[RecordRange]]


def by_identity(pieces: Iterable[RecordRange]) -> ByIdentity:
    """Group `pieces` by identity."""
    grouped: dict[tuple, list[RecordRange]] = defaultdict(list)
    for piece in pieces:
        grouped[piece.identity].append(piece)
    return grouped


def count_beyond(pieces: Iterable[RecordRange], held: ByIdentity) -> tuple[Count, bool]:
    """Count the distinct records of `pieces` that none of `held` has; the flag is True for an upper bound."""
    records = committed = 0
    at_most = False
    for identity, wanted in by_identity(pieces).items():
        same = held.get(identity, ())
        kept = {id(piece) for piece in same}
        for cluster in _overlapping([*wanted, *same]):
            inside = [piece for piece in cluster if id(piece) in kept]
            if len(inside) == len(cluster):
                continue
            until = _committed_end(cluster)
            whole, bound = _union(cluster, until)
            rest, _ = _union(inside, until)
            more = max(0, whole.records - rest.records)
            records += more
            committed += max(0, whole.committed - rest.committed)
            at_most = at_most or (bound and more > 0)
    return Count(records, committed), at_most


def overlapping(pieces: Iterable[RecordRange]) -> Iterator[list[RecordRange]]:
    """Group ranges of one identity that overlap, directly or through others."""
    for same in by_identity(pieces).values():
        yield from _overlapping(same)


def _overlapping(same: Sequence[RecordRange]) -> Iterator[list[RecordRange]]:
    """`overlapping` of pieces of one identity, at least one."""
    cluster: list[RecordRange] = []
    end = -1
    for piece in sorted(same, key=_PLACE):
        if cluster and piece.start_offset >= end:
            yield cluster
            cluster = []
        cluster.append(piece)
        end = max(end, piece.end_offset)
    yield cluster


class ClusterCount(NamedTuple):
    """Numbers of distinct records of one cluster of overlapping ranges, and the share of each copy and broker."""

    total: Count
    at_most: bool
    copies: Mapping[CopyKey, Share]
    brokers: Mapping[int, Share]


def count_cluster(cluster: Sequence[RecordRange]) -> ClusterCount:
    """Count one cluster, by offsets if every offset has a record, else by the batches' record counts."""
    until = _committed_end(cluster)
    total, at_most = _union(cluster, until)
    of_copies = _shares(cluster, until, total, lambda piece: piece.copy)
    return ClusterCount(total, at_most, of_copies, _shares(cluster, until, total, lambda piece: piece.copy[0]))


def add_shares(counted: Iterable[Mapping[_Holder, Share]]) -> dict[_Holder, Share]:
    """Sum the shares of several clusters, in order of the holders."""
    found: dict[_Holder, list[Share]] = defaultdict(list)
    for shares in counted:
        for key, share in shares.items():
            found[key].append(share)
    return {
        key: (sum_counts(held for held, _ in found[key]), sum_counts(only for _, only in found[key]))
        for key in sorted(found)
    }


def sum_counts(counts: Iterable[Count]) -> Count:
    """Records and committed records of all `counts`."""
    records = committed = 0
    for one in counts:
        records += one.records
        committed += one.committed
    return Count(records, committed)


def _committed_end(cluster: Iterable[RecordRange]) -> int:
    """Offset below which the cluster's records are proven committed; no range proves anything past its own end."""
    return max(min(piece.committed_end, piece.end_offset) for piece in cluster)


def _shares(
    cluster: Sequence[RecordRange], until: int, total: Count, holder: Callable[[RecordRange], _Holder]
) -> dict[_Holder, Share]:
    """Share of each holder in one cluster: the records it holds, and those no other holds."""
    holders = {holder(piece) for piece in cluster}
    if len(holders) == 1:
        return dict.fromkeys(holders, (total, total))
    found = {}
    for key in holders:
        held, _ = _union([piece for piece in cluster if holder(piece) == key], until)
        rest, _ = _union([piece for piece in cluster if holder(piece) != key], until)
        found[key] = held, Count(max(0, total.records - rest.records), max(0, total.committed - rest.committed))
    return found


def _union(pieces: Sequence[RecordRange], until: int) -> tuple[Count, bool]:
    """Count the distinct records of overlapping ranges, those below `until` as committed; the flag is True for a bound."""
    if not pieces:
        return Count(), False
    first = pieces[0]
    start = first.start_offset
    end = first.end_offset
    is_dense = is_exact = True
    for piece in pieces:
        end = max(end, piece.end_offset)
        is_dense = is_dense and piece.dense
        is_exact = is_exact and piece.exact
    if is_dense:
        return Count(_covered(pieces, end), _covered(pieces, until)), not is_exact
    if all((piece.start_offset, piece.end_offset, piece.crc) == (start, end, first.crc) for piece in pieces):
        return Count(first.record_count, first.record_count if until > start else 0), not first.exact
    # Cleaners leave different records of a batch: at most as many as offsets, and as all ranges have together.
    most = min(_covered(pieces, end), sum(piece.record_count for piece in pieces))
    whole = any(piece.dense and (piece.start_offset, piece.end_offset) == (start, end) for piece in pieces)
    return Count(most, min(most, max(0, until - start))), not whole


def _covered(pieces: Sequence[RecordRange], until: int) -> int:
    """Number of offsets below `until` covered by `pieces`, which are sorted by start."""
    count = 0
    reached = -1
    for piece in pieces:
        low = max(piece.start_offset, reached)
        high = min(piece.end_offset, until)
        if low < high:
            count += high - low
            reached = high
    return count

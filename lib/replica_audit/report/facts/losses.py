"""Losses summed over partitions, and their holders, from the report tables (docs/semantics.md F.0)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import add
from typing import NamedTuple

from replica_audit.auditing.catalogue import leaves_commitment_open
from replica_audit.model import OffsetRange, TopicPartition, joined
from replica_audit.results import Results, place_of, present
from replica_audit.schema import DivergenceRow, FindingRow, LostHolder, PartitionRow


class Total(NamedTuple):
    """Lost records of several partitions, each counted once."""

    records: int
    committed: int
    at_most: bool
    """True for upper bounds: some input gives offsets but no number of records."""
    at_least: bool
    """True for lower bounds: a replica that may hold more was not captured."""
    places: tuple[TopicPartition, ...]
    """Partitions with lost records."""
    committed_places: tuple[TopicPartition, ...]
    """Partitions with lost committed records."""
    unknown: int
    """Number of partitions that may have lost records."""


class Holder(NamedTuple):
    """Lost records that one broker holds in any of its copies; several brokers may hold the same records."""

    broker_id: int
    partitions: int
    records: int
    committed: int
    only_here: int
    """Records that no other broker holds."""
    committed_only_here: int


def total_loss(partitions: Sequence[PartitionRow]) -> Total:
    """Sum the losses over rows of `partitions`."""
    lost = [row for row in partitions if row.lost_records]
    committed = [row for row in lost if row.lost_committed]
    return Total(
        records=sum(row.lost_records or 0 for row in lost),
        committed=sum(row.lost_committed or 0 for row in committed),
        at_most=any(row.lost_at_most for row in lost),
        at_least=any(row.lost_at_least for row in lost),
        places=tuple(place_of(row) for row in lost),
        committed_places=tuple(place_of(row) for row in committed),
        unknown=sum(row.lost_records is None for row in partitions),
    )


def find_holders(results: Results) -> dict[int, Holder]:
    """Lost records held by each broker over all partitions, by broker id, most committed records first."""
    found: dict[int, list[LostHolder]] = defaultdict(list)
    for row in results.partitions:
        for one in row.holders:
            found[one.broker_id].append(one)
    holders = [
        Holder(
            broker_id,
            len(held),
            sum(one.records for one in held),
            sum(one.committed for one in held),
            sum(one.only_here for one in held),
            sum(one.committed_only_here for one in held),
        )
        for broker_id, held in found.items()
    ]
    return _most_first(holders)


def join_holders(parts: Iterable[Mapping[int, Holder]]) -> dict[int, Holder]:
    """Sum holders over several parts of an audit."""
    found: dict[int, Holder] = {}
    for part in parts:
        for one in part.values():
            so_far = found.get(one.broker_id)
            sums = one[1:] if so_far is None else map(add, so_far[1:], one[1:])
            found[one.broker_id] = Holder(one.broker_id, *sums)
    return _most_first(found.values())


def _most_first(holders: Iterable[Holder]) -> dict[int, Holder]:
    ranked = sorted(holders, key=lambda one: (-one.committed, -one.records, one.broker_id))
    return {one.broker_id: one for one in ranked}


class AboutToGo(NamedTuple):
    """Lost records of one partition that exist in `.deleted` segments only."""

    place: TopicPartition
    records: int
    is_proven: bool
    """True if some of the lost records are proven committed."""
    directories: tuple[str, ...]
    """Directories of the snapshot that hold the segments."""


def find_about_to_go(results: Results) -> Iterator[AboutToGo]:
    """Find partitions with lost records in no file that Kafka keeps."""
    for row in results.partitions:
        place = place_of(row)
        holding = [one for one in results.at(place).replicas if one.lost_held]
        deleted = [one for one in holding if one.role == "deleted_segments"]
        # They may have the same records, so that none of them counts as the only holder.
        nowhere_else = len(deleted) == len(holding) > 1
        records = row.lost_records if nowhere_else else sum(one.lost_only_here or 0 for one in deleted)
        if records:
            directories = sorted(one.log_dir.rpartition("/")[0] for one in deleted)
            yield AboutToGo(place, records, bool(row.lost_committed), tuple(directories))


class PlaceLoss(NamedTuple):
    """Lost records of one partition: those that the reference lacks."""

    records: int
    committed: bool
    """True if these are the proven committed records; False if none is proven."""
    ranges: tuple[OffsetRange, ...]
    """Its offsets, joined if they touch."""
    brokers: tuple[int, ...]
    """Holders of all the records, or with `in_parts` of some."""
    in_parts: bool
    promised: int | None
    """Upper bound of the records acknowledged with acks=all; None if unknown."""


def is_likely(row: PartitionRow, findings: Iterable[FindingRow]) -> bool:
    """True if it is likely, not proven, that all of a partition's `lost_committed` were committed."""
    return bool(row.lost_committed) and any(map(leaves_commitment_open, present(findings)))


def loss_at(row: PartitionRow, runs: Sequence[DivergenceRow]) -> PlaceLoss | None:
    """Describe a partition's loss, of committed records if any are lost.

    None if no run of differing records shows it (the loss is a tail past the leader's end).
    """
    committed = bool(row.lost_committed)
    runs = [run for run in runs if (run.lost_committed if committed else run.lost_records)]
    if not runs:
        return None
    count = (row.lost_committed if committed else row.lost_records) or 0
    held = {one.broker_id: one.committed if committed else one.records for one in row.holders}
    whole = sorted(broker for broker, number in held.items() if number == count)
    promised = [run.promised_records for run in runs if run.promised_records is not None]
    return PlaceLoss(
        records=count,
        committed=committed,
        ranges=joined(OffsetRange(run.start_offset, run.end_offset) for run in runs),
        brokers=tuple(whole or sorted(broker for broker, number in held.items() if number)),
        in_parts=not whole,
        promised=None if len(promised) < len(runs) else min(count, sum(promised)),
    )

"""Check that a target holds every salvaged record once and in order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from replica_audit.model import TopicPartition
from replica_audit.restore.cluster import Cluster
from replica_audit.restore.restore import RestoreOptions, is_compacted, superseded_records
from replica_audit.restore.salvaged_records import SalvagedRecords, digest_of, expected_of, find_present, restored

#: Source and digest of a record, or its digest alone.
_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Check:
    """The records of one partition in its target."""

    target: TopicPartition
    records: int
    found: int
    """Distinct records found in the target."""
    repeated: int
    """Surplus copies of records found."""
    out_of_order: int
    """Records that follow one which was written later."""
    present: int
    """Records that were never lost: the leader of their own partition holds them."""
    changed: int
    """Records that name a source in the salvage but differ from the salvaged record."""
    superseded: int = 0
    """Records that are not there, and whose keys have later values."""

    @property
    def missing(self) -> int:
        return self.records - self.present - self.superseded - self.found

    @property
    def is_whole(self) -> bool:
        """True if each record is there once, unchanged and in order."""
        return not (self.missing or self.repeated or self.out_of_order or self.changed)

    def row(self) -> dict[str, object]:
        """The JSON object."""
        names = ("records", "found", "present", "superseded", "repeated", "out_of_order", "changed")
        place = {"topic": self.target.topic, "partition": self.target.partition}
        return {**place, **{name: getattr(self, name) for name in names}, "missing": self.missing}


def check_partition(
    records: SalvagedRecords, place: TopicPartition, target: TopicPartition, cluster: Cluster, options: RestoreOptions
) -> Check:
    """Compare `target` with the salvage: by source if records have source headers, else by content alone. Other records are ignored.

    Memory: a digest for each salvaged record.
    """
    present = find_present(records, place, cluster)
    left_out = set(present.values())
    every = [expected_of(record, records.cluster_id) for record in records.of_partition(place)]
    expected = [what for number, what in enumerate(every) if number not in left_out]
    stored = cluster.read(target.topic, target.partition)
    if options.headers:
        sources = {source for source, _ in every}
        found = [what for what in restored(stored, records.cluster_id, place) if what[0] in sources]
        check = _compare(target, expected, found, [every[number] for number in left_out])
        if options.skip_superseded and options.to_original and is_compacted(records, cluster, place):
            old = {every[number] for number in superseded_records(records, cluster, place) - left_out}
            check = replace(check, superseded=len(old.difference(found)))
        return check
    # Without source headers records may be equal; the target needs as many of each.
    contents = [digest for _, digest in expected]
    wanted = set(contents)
    added = ((one, digest_of(one, one.headers)) for one in stored)
    digests = [
        digest
        for one, digest in added
        if digest in wanted and (target != place or (one.offset, one.leader_epoch, digest) not in present)
    ]
    return _compare(target, contents, digests, [None] * len(left_out))


def _compare(
    target: TopicPartition, expected: Sequence[_Key], found: Iterable[_Key], present: Sequence[_Key | None]
) -> Check:
    """Compare found with expected records, both in order; those of `present` should not be there again."""
    places: dict[_Key, list[int]] = {}
    for index, what in enumerate(expected):
        places.setdefault(what, []).append(index)
    seen: dict[_Key, int] = {}
    repeated = out_of_order = changed = known = 0
    reached = -1
    again = set(present)
    for what in found:
        if what in again:
            repeated += 1
            continue
        at = places.get(what)
        if at is None:
            changed += 1
            continue
        times = seen.get(what, 0)
        seen[what] = times + 1
        if times >= len(at):
            repeated += 1
            continue
        known += 1
        if at[times] < reached:
            out_of_order += 1
        reached = max(reached, at[times])
    every = len(expected) + len(present)
    return Check(target, every, known, repeated, out_of_order, len(present), changed)

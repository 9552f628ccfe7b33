"""Whether a target holds every salvaged record once and in order, by reading it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replica_audit.model import TopicPartition
from replica_audit.restore.planned_restore import Cluster, Ways
from replica_audit.restore.presence import find_present
from replica_audit.restore.salvaged_records import SalvagedRecords
from replica_audit.restore.source_headers import digest_of, expected_of, restored


@dataclass(frozen=True, slots=True)
class Check:
    """What a target has of the records of one partition."""

    target: TopicPartition
    records: int
    found: int
    """Different records of the salvage that are there."""
    repeated: int
    """Times that one is there again."""
    out_of_order: int
    """Records that come after one which was written later."""
    present: int
    """Records of the salvage that were never lost: the leader of their own partition holds them."""
    changed: int
    """Records that name a source of the salvage and are not the record from there."""

    @property
    def missing(self) -> int:
        return self.records - self.present - self.found

    @property
    def is_whole(self) -> bool:
        """Each record is there once, as it was, in order."""
        return not (self.missing or self.repeated or self.out_of_order or self.changed)

    def row(self) -> dict[str, Any]:
        """As in the JSON answer."""
        names = ("records", "found", "present", "repeated", "out_of_order", "changed")
        place = {"topic": self.target.topic, "partition": self.target.partition}
        return {**place, **{name: getattr(self, name) for name in names}, "missing": self.missing}


def check_partition(
    records: SalvagedRecords, place: TopicPartition, target: TopicPartition, cluster: Cluster, ways: Ways
) -> Check:
    """Compare `target` with the salvage. With headers by what they name; without by contents alone. Other records are let be.

    Memory: a digest for each salvaged record.
    """
    present = find_present(records, place, cluster)
    left_out = set(present.values())
    every = [expected_of(record, records.cluster_id) for record in records.of_partition(place)]
    expected = [what for number, what in enumerate(every) if number not in left_out]
    stored = cluster.read(target.topic, target.partition)
    if ways.headers:
        sources = {source for source, _ in every}
        found = [what for what in restored(stored, records.cluster_id, place) if what[0] in sources]
        return _compare(target, expected, found, [every[number] for number in left_out])
    # Without headers two records may be equal; of these the target has to have as many.
    contents = [digest for _, digest in expected]
    wanted = set(contents)
    added = ((one, digest_of(one, one.headers)) for one in stored)
    digests = [
        digest
        for one, digest in added
        if digest in wanted and (target != place or (one.offset, one.leader_epoch, digest) not in present)
    ]
    return _compare(target, contents, digests, [None] * len(left_out))


def _compare(target: TopicPartition, expected: list, found: list, present: list) -> Check:
    """Lay what was found beside what should be there, both in their order; `present` should not be there again."""
    places: dict[Any, list[int]] = {}
    for index, what in enumerate(expected):
        places.setdefault(what, []).append(index)
    seen: dict[Any, int] = {}
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

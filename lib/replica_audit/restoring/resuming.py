"""How far an earlier run came: by the offset that it committed, else by what the target itself holds."""

from __future__ import annotations

from collections.abc import Collection

from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.restoring.cluster_records import Progress
from replica_audit.restoring.planned_restore import Cluster, Ways
from replica_audit.restoring.recognition import expected_of, restored
from replica_audit.restoring.salvaged_records import SalvagedRecords

#: What is committed with the progress, so that a restore goes on as it was begun.
WITH_HEADERS, WITHOUT_HEADERS = "with headers", "without headers"


def text_of(ways: Ways) -> str:
    """The text that is committed with the progress."""
    return WITH_HEADERS if ways.headers else WITHOUT_HEADERS


def find_place(
    records: SalvagedRecords,
    place: TopicPartition,
    target: TopicPartition,
    known: Progress | None,
    present: Collection[int],
    cluster: Cluster,
    ways: Ways,
) -> int:
    """How many records of `place` were dealt with: the first ones, which are in `target` or among `present`, by number.

    `known` is what the group has committed. Where that has expired, or was never there, the target's own records are
    read. Raises UsageError where nothing tells.
    """
    if known is not None:
        if known.text != text_of(ways):
            begun = "--no-headers" if known.text == WITHOUT_HEADERS else "headers"
            raise UsageError(f"{target}: this restore was begun with {begun}; go on in the same way")
        return known.offset
    start, end = cluster.bounds(target.topic, target.partition)
    if start == end or ways.from_start:
        return 0
    if not ways.headers:
        raise UsageError(
            f"{target} is not empty, and without headers nothing tells what of it was restored before; "
            "if nothing was, say so with --from-start"
        )
    return _place_by_headers(records, place, target, present, cluster, start)


def _place_by_headers(
    records: SalvagedRecords,
    place: TopicPartition,
    target: TopicPartition,
    present: Collection[int],
    cluster: Cluster,
    start: int,
) -> int:
    """By the sources that the target's records name: they have to be the first ones, in their order, each once.

    Those that are `present` may have been left out.
    """
    every = [expected_of(one, records.cluster_id) for one in records.of_partition(place)]
    numbers = [number for number in range(len(every)) if number not in present]
    expected = [every[number] for number in numbers]
    sources = {source for source, _ in expected}
    stored = cluster.read(target.topic, target.partition)
    found = [what for what in restored(stored, records.cluster_id, place) if what[0] in sources]
    if not found:
        return 0
    # Retention may have deleted the first ones; then the log start tells.
    first = expected.index(found[0]) if found[0] in expected else -1
    if first < 0 or expected[first : first + len(found)] != found or (first > 0 and start == 0):
        raise UsageError(
            f"{target} has records of {place} that are not the first of this salvage in their order, so the place to go on from "
            "is not known; restore --check says more"
        )
    return numbers[first + len(found) - 1] + 1

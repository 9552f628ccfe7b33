"""Counts over segments as the Spark stage makes them, here in plain Python: what that stage is compared with."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from replica_audit.auditing.quality import SEGMENT_COUNTS
from replica_audit.auditing.snapshot import open_snapshot
from replica_audit.formats.summary import summarise_segment
from replica_audit.model import SegmentSummary


def count_snapshot(uri: str) -> list[dict]:
    """Rows of counts of every replica of a snapshot that has segments."""
    snapshot, inventory = open_snapshot(uri, (), None)
    files = sorted(inventory.segments, key=lambda file: (_replica(file), file.base_offset))
    rows = []
    for replica, of_replica in groupby(files, _replica):
        summaries = []
        for file in of_replica:
            with snapshot.open_file(file.path) as stream:
                summaries.append(summarise_segment(stream, file.path, file.base_offset, file.size_bytes))
        names = dict(zip(("topic", "partition", "broker_id", "log_dir"), replica, strict=True))
        rows.append({**names, **count_segments(summaries)})
    return rows


def _replica(file) -> tuple:
    return file.topic, file.partition, file.broker_id, file.log_dir


def count_segments(summaries: Iterable[SegmentSummary]) -> dict[str, int]:
    """`SEGMENT_COUNTS` of one replica, its segments in order of base offset."""
    counts = dict.fromkeys(SEGMENT_COUNTS, 0)
    end = epoch = None
    for one in summaries:
        for kind, count in one.irregularity_counts.items():
            if kind in counts:
                counts[kind] += count
        if end is not None:
            counts["border_regression"] += one.first_base_offset is not None and one.first_base_offset < end
        first = one.first_leader_epoch
        counts["border_epoch_regression"] += epoch is not None and first is not None and 0 <= first < epoch
        own_end = one.base_offset if one.greatest_last_offset is None else one.greatest_last_offset + 1
        end = own_end if end is None else max(end, own_end)
        if one.last_leader_epoch is not None and one.last_leader_epoch >= 0:
            epoch = one.last_leader_epoch
    return counts

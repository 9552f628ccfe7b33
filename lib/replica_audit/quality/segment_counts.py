"""Counts over the segments of each replica, for the quality suites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from replica_audit.model import SegmentSummary
from replica_audit.quality.quality_facts import SEGMENT_COUNTS
from replica_audit.segments.summary import summary_from_json

_REPLICA = ("topic", "partition", "broker_id", "log_dir")


def segment_counts(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Topic, partition, broker_id, log_dir and `SEGMENT_COUNTS` of every replica; `rows` are those of `segments`, in the
    order of `in_order_of_replicas`, and one is held at a time.
    """
    return [
        {
            **dict(zip(_REPLICA, key, strict=True)),
            **count_segments(summary_from_json(row["summary"]) for row in of_replica),
        }
        for key, of_replica in groupby(rows, itemgetter(*_REPLICA))
    ]


def in_order_of_replicas(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows of `segments`, with or without summaries, replica by replica, each in order of base offset."""
    return sorted(rows, key=itemgetter(*_REPLICA, "base_offset"))


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

"""Writer of one cluster with the textbook samples as topics, each with many partitions: what a triage is measured on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from tests.support.samples import TEXTBOOK, sample_replica
from tests.support.snapshots import Listed, Replica, make_uuid, write_snapshot


def write_cluster(path: Path, partitions: int, samples: tuple[str, ...] = tuple(TEXTBOOK)) -> Path:
    """A snapshot at `path`, which is returned: every sample of `samples` is a topic of its name with `partitions` partitions."""
    held: dict[int, list[Replica]] = defaultdict(list)
    listed = []
    for name in samples:
        sample, named = TEXTBOOK[name], {"topic": name, "topic_id": make_uuid(name)}
        for broker_id in sample.brokers:
            first = sample_replica(sample, broker_id, **named)
            held[broker_id] += [replace(first, partition=number) for number in range(partitions)]
        first = Listed(sample.leader, tuple(sample.brokers), sample.isr, configs=sample.configs, **named)
        listed += [replace(first, partition=number) for number in range(partitions)]
    return write_snapshot(path, held, listed, cluster_id=make_uuid("many partitions"))

"""Writer of one cluster with the textbook samples as topics, each with many partitions: what a triage is measured on."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.support.logdirs import PartitionFiles, PartitionListing, TopicListing, make_uuid, write_brokers
from tests.support.samples import TEXTBOOK, sample_batches


def write_cluster(path: Path, partitions: int, samples: tuple[str, ...] = tuple(TEXTBOOK)) -> None:
    """A snapshot at `path` in which every sample of `samples` is a topic of its name with `partitions` partitions."""
    held: dict[int, list[PartitionFiles]] = defaultdict(list)
    topics = []
    for name in samples:
        sample = TEXTBOOK[name]
        for broker_id, broker in sample.brokers.items():
            batches = sample_batches(broker, sample.cuts)
            held[broker_id] += [
                PartitionFiles(
                    name,
                    number,
                    batches,
                    broker.epochs,
                    broker.high_watermark,
                    broker.log_end,
                    topic_id=make_uuid(name),
                    batches_per_segment=broker.batches_per_segment,
                )
                for number in range(partitions)
            ]
        listed = tuple(
            PartitionListing(number, sample.leader, tuple(sample.brokers), sample.isr) for number in range(partitions)
        )
        topics.append(TopicListing(name, make_uuid(name), listed, sample.configs))
    write_brokers(path, held, topics, cluster_id=make_uuid("many partitions"))

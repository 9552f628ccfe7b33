"""Consumer groups of a running cluster, by Kafka's own tools: what they committed, and where they go on reading."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
from tests.brokers.steered_cluster import SteeredCluster

#: A consumer that got nothing for so long is at the end.
_IDLE_MS = "10000"


def commit(cluster: SteeredCluster, group: str, topic: str, offsets: Sequence[int]) -> None:
    """Commit one offset for each partition, as an operator sets them: without epochs."""
    for partition, offset in enumerate(offsets):
        words = ["--group", group, "--topic", f"{topic}:{partition}", "--reset-offsets", "--to-offset", str(offset)]
        text = _checked(cluster, "kafka-consumer-groups", *words, "--execute")
        assert re.search(rf"^(\S+\s+)?{topic}\s+{partition}\s+{offset}\s*$", text, re.MULTILINE), text


def commit_with_epochs(
    cluster: SteeredCluster, group: str, topic: str, offsets: Sequence[int], epochs: Sequence[int]
) -> None:
    """Commit as a client does that read a record of an epoch last; the leader need not have it."""
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap.split(","),
        group_id=group,
        enable_auto_commit=False,
        request_timeout_ms=40000,
    )
    try:
        places = [TopicPartition(topic, partition) for partition in range(len(offsets))]
        consumer.assign(places)
        pairs = zip(offsets, epochs, strict=True)
        told = [OffsetAndMetadata(offset, "", epoch) for offset, epoch in pairs]
        consumer.commit(dict(zip(places, told, strict=True)))
    finally:
        consumer.close()


def read_all(cluster: SteeredCluster, group: str, topic: str) -> None:
    """A Java consumer reads everything and commits the end with the epochs of what it read."""
    _consume(cluster, group, topic)


def described(cluster: SteeredCluster) -> dict[tuple[str, int], tuple[int, int]]:
    """By group and partition: committed offset and log end, as the tool shows them. One topic is taken for granted."""
    text = _checked(cluster, "kafka-consumer-groups", "--describe", "--all-groups")
    lines = re.finditer(r"^(\S+)\s+(?:\S+)\s+(\d+)\s+(\d+)\s+(\d+)\s+-?\d+\s", text, re.MULTILINE)
    return {(line[1], int(line[2])): (int(line[3]), int(line[4])) for line in lines}


def first_read(cluster: SteeredCluster, group: str, topic: str) -> dict[int, int]:
    """By partition the offset of the first record that a Java consumer of the group gets; none where it is at the end."""
    found: dict[int, int] = {}
    for line in re.finditer(r"^Partition:(\d+)\s+Offset:(\d+)", _consume(cluster, group, topic), re.MULTILINE):
        found.setdefault(int(line[1]), int(line[2]))
    return found


def _consume(cluster: SteeredCluster, group: str, topic: str) -> str:
    words = ["--topic", topic, "--group", group, "--from-beginning", "--timeout-ms", _IDLE_MS]
    for name, value in (("offset", "true"), ("partition", "true"), ("value", "false")):
        words += ["--formatter-property", f"print.{name}={value}"]
    # It ends with 1 or 0 by version when nothing more comes.
    status, text = cluster.tool("kafka-console-consumer", "--bootstrap-server", cluster.bootstrap, *words)
    assert "Processed a total of" in text, (status, text[-1000:])
    return text


def _checked(cluster: SteeredCluster, script: str, *words: str) -> str:
    status, text = cluster.tool(script, "--bootstrap-server", cluster.bootstrap, *words)
    assert status == 0, text[-1000:]
    return text

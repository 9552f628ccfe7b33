"""Snapshots in which broker 2 holds records of topic orders that broker 1, the leader, does not have; and their salvage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.encoder import TIMESTAMP_MS, Record, encode_batch
from tests.support.led_by_first import CLUSTER_ID
from tests.support.snapshots import TOPIC, Listed, Replica, write_snapshot

from replica_audit.cli.main import main


def lost_record(partition: int, number: int) -> Record:
    """The lost record `number` of a partition: nulls and repeated headers come round."""
    key = None if number % 5 == 3 else f"k{number % 7}".encode()
    value = None if number % 4 == 1 else f"lost {partition} {number}".encode()
    headers = (("h", b"1"), ("h", None), ("h", b"")) if number % 3 == 0 else ()
    return Record(key, value, TIMESTAMP_MS + 10 * number, headers)


def write_lost_records(
    path: Path,
    counts: Mapping[int, int],
    *options: str,
    records: Sequence[Record] | None = None,
    configs: Mapping[str, str] | None = None,
    leader_records: Sequence[Record] = (),
    cluster_id: str = CLUSTER_ID,
    topic: str = TOPIC,
) -> Path:
    """A snapshot below `path` with so many lost records by partition, and the directory with what was salvaged of it."""
    leaders, followers = [], []
    for partition, count in counts.items():
        common = encode_batch(0, 10, 0)
        lost = [lost_record(partition, number) for number in range(count)] if records is None else list(records)
        tail = [encode_batch(10 + at, lost[at : at + 50], 0) for at in range(0, len(lost), 50)]
        own = [encode_batch(10, list(leader_records) or 3, 2, mark="leader")]
        named = {"topic": topic, "partition": partition, "high_watermark": 0, "recovery_point": 0}
        leaders.append(Replica((common, *own), **named))
        followers.append(Replica((common, *tail), **named))
    snapshot, target = path / "snapshot", path / "salvaged"
    listed = [Listed(1, (1, 2), (1,), configs=configs or {}, topic=topic, partition=one) for one in counts]
    write_snapshot(snapshot, {1: leaders, 2: followers}, listed, cluster_id=cluster_id)
    assert main(["salvage", str(snapshot), "--to", str(target), "--payloads", "--quiet", *options]) == 0
    return target

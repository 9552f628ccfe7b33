"""The captures of real clusters, each partition audited once per run of the tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from unittest.mock import patch

from tests.formats.captures import batches_of, scan_file
from tests.support.fixtures import CAPTURES, EXPECTED, FIXTURES, truth

from replica_audit.config import Settings
from replica_audit.formats.metadata.reading import MetadataReading
from replica_audit.local.audit import audit_one, open_snapshot
from replica_audit.model import TopicPartition
from replica_audit.results import Results

__all__ = ["CAPTURES", "EXPECTED", "FIXTURES", "audit_by_listing", "audit_capture", "batch_keys", "told", "truth"]


@cache
def audit_capture(capture: str, protocol: str = "fetch") -> dict[str, Results]:
    """The answers of every partition of a capture, by the partition's name."""
    uri = str(FIXTURES / capture)
    _, inventory = open_snapshot(uri, (), None)
    names = {one.topic_partition for one in inventory.replicas}
    names |= {TopicPartition(one.topic, one.partition) for one in inventory.leaderships}
    return {str(name): audit_one(uri, name, Settings(protocol=protocol)) for name in sorted(names)}


@cache
def audit_by_listing(capture: str) -> dict[str, Results]:
    """The same without the metadata log: leadership comes from the describe listing alone, and has no history."""
    with patch("replica_audit.formats.discovery.read_metadata", return_value=MetadataReading()):
        return audit_capture.__wrapped__(capture)


def told(results: Results) -> str:
    """Verdict and findings, one a line, for the message of a failed assertion."""
    rows = results.tables["findings"]
    lines = [f"{row['severity']} {row['code']} broker {row['broker_id']}: {row['message']}" for row in rows]
    return "\n".join([results.tables["partitions"][0]["verdict"], *lines])


def batch_keys(log_dir: Path, partition: str) -> list[tuple[int, int, int, int, int]]:
    """(base, last, epoch, crc, size) of every batch of one replica, in file order."""
    keys = []
    for path in sorted((log_dir / partition).glob("*.log")):
        rows = batches_of(scan_file(path))
        columns = (rows[name].tolist() for name in ("base_offset", "last_offset", "leader_epoch", "crc", "size"))
        keys += list(zip(*columns, strict=True))
    return keys

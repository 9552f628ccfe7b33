"""Peak memory of comparing the keys of a compacted log: `.venv/bin/python benchmarks/keys.py [--keys 5000000]`.

Two replicas of one partition, every key of which has another latest value: the leader's cleaner left the second half of the log, the
follower's the first, in batches of 500 records. The function that a task calls for a partition, in a process of its own. Ends
with status 1 above 300 MB, or when the answer is another.
"""

from __future__ import annotations

import argparse
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import google_crc32c
import numpy as np
from memory import peak_bytes

TARGET = 300e6
RECORDS, KEY_BYTES, VALUE_BYTES = 500, 10, 20
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_FROM = 21


def _zigzag(value: int) -> bytes:
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def write_log(path: Path, base: int, keys: int, end: int, value: bytes) -> None:
    """A segment with a record of each key from offset `base` on, and an empty batch that ends the log at `end`."""
    body, at = bytearray(), []
    for delta in range(RECORDS):
        record = b"\0" + _zigzag(0) + _zigzag(delta) + _zigzag(KEY_BYTES)
        head = len(_zigzag(len(record) + KEY_BYTES + 1 + VALUE_BYTES + 1)) + len(record)
        at.append(len(body) + head)
        whole = record + b"0" * KEY_BYTES + _zigzag(VALUE_BYTES) + value * VALUE_BYTES + _zigzag(0)
        body += _zigzag(len(whole)) + whole
    places = np.array(at)[:, None] + np.arange(KEY_BYTES)
    template, powers = np.frombuffer(bytes(body), np.uint8), 10 ** np.arange(KEY_BYTES - 1, -1, -1)
    with path.open("wb") as stream:
        for first in range(0, keys, RECORDS):
            records = template.copy()
            records[places] = np.arange(first, first + RECORDS)[:, None] // powers % 10 + ord("0")
            stream.write(_batch(base + first, RECORDS, records.tobytes()))
        if end > base + keys:
            stream.write(_batch(end - 1, 0, b""))


def _batch(base: int, count: int, records: bytes) -> bytes:
    span = max(count, 1) - 1
    time_ms = 1_700_000_000_000 if count else -1
    values = (base, 49 + len(records), 0, 2, 0, 0, span, time_ms, time_ms, -1, -1, -1, count)
    header = _HEADER.pack(*values)
    crc = google_crc32c.value(header[_CRC_FROM:] + records)
    return header[:17] + crc.to_bytes(4, "big") + header[_CRC_FROM:] + records


def write_snapshot(directory: Path, keys: int) -> None:
    """Brokers 1, the leader, and 2."""
    for broker, base, value in ((1, keys, b"b"), (2, 0, b"a")):
        place = directory / f"broker-{broker}" / "state-0"
        place.mkdir(parents=True)
        write_log(place / f"{0:020d}.log", base, keys, 2 * keys, value)
        (place / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        (place.parent / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=benchmark\n")
        for file in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
            (place.parent / file).write_text(f"0\n1\nstate 0 {2 * keys}\n")
    leadership = '[{"topic": "state", "partition": 0, "leader": 1, "leader_epoch": 0, "isr": [1, 2]}]'
    (directory / "leadership.json").write_text(leadership)


def compare(directory: Path, keys: int) -> None:
    """Audit the one partition of the snapshot in this process; prints what it took."""
    from replica_audit.auditing.conclude import conclude
    from replica_audit.auditing.evidence import AuditOptions
    from replica_audit.auditing.opened_snapshot import OpenedSnapshot
    from replica_audit.snapshot.opening import open_snapshot
    from replica_audit.snapshot.record_reader import RecordReader

    snapshot, inventory = open_snapshot(str(directory), (), None)
    opened = OpenedSnapshot.read(snapshot, inventory, AuditOptions(), ())
    (partition,) = opened.partitions
    examined = opened.examine(partition)
    before, begin = peak_bytes(), time.perf_counter()
    audited = conclude(examined.plan, opened.read_batches(examined), RecordReader(snapshot))
    took, peak = time.perf_counter() - begin, peak_bytes()
    (found,) = [item.compaction.keys for item in audited.case.comparisons]
    print(f"{found.differing} keys in {took:.1f} s: peak {peak / 1e6:.0f} MB, {before / 1e6:.0f} MB of it before")
    sys.exit(peak > TARGET or found.differing != keys)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--compare", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compare:
        compare(arguments.compare, arguments.keys)
    with tempfile.TemporaryDirectory() as directory:
        write_snapshot(Path(directory), arguments.keys)
        own = [sys.executable, __file__, "--keys", str(arguments.keys), "--compare", directory]
        return subprocess.run(own, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Measures what long logs cost the driver: `.venv/bin/python benchmarks/driver.py [--partitions 40] [--batches 3000]`.

Three equal replicas of each partition, in segments of 1,000 batches; once the batches have one offset each, once 65,536, so that each is
a chunk of its own and the summaries of segments (200 bytes a chunk) are as long as those of logs of so many times 65,536 records.
`run --no-quality`, each an empty warehouse and a cold process. Prints the size of all summaries and the peak of the driver's Python;
ends with status 1 when that grows by more than a tenth of what the summaries have grown by.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tempfile
from pathlib import Path

import google_crc32c
from large import REPLICAS
from partitions import ROOT, audit
from scan import make_segment

from replica_audit.model import CHUNK_OFFSETS

BATCH_BYTES, OF_SEGMENT = 200, 1000


def write_snapshot(directory: Path, partitions: int, batches: int, step: int) -> None:
    """Batches of `step` offsets each: only the headers say how many records they have."""
    batch = bytearray(make_segment(BATCH_BYTES, BATCH_BYTES)[0][:BATCH_BYTES])
    struct.pack_into(">i", batch, 23, step - 1)
    struct.pack_into(">i", batch, 57, step)
    struct.pack_into(">I", batch, 17, google_crc32c.value(bytes(batch[21:])))
    body = bytes(batch[8:])
    files = {
        first * step: b"".join(struct.pack(">q", number * step) + body for number in range(first, first + OF_SEGMENT))
        for first in range(0, batches, OF_SEGMENT)
    }
    end = len(files) * OF_SEGMENT * step
    for broker in range(REPLICAS):
        root = directory / f"broker-{broker}"
        for number in range(partitions):
            place = root / f"orders-{number}"
            place.mkdir(parents=True)
            for base, content in files.items():
                (place / f"{base:020d}.log").write_bytes(content)
            (place / "leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
        (root / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=benchmark\n")
        for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
            lines = "".join(f"orders {number} {end}\n" for number in range(partitions))
            (root / name).write_text(f"0\n{partitions}\n{lines}")
    leadership = [
        {"topic": "orders", "partition": number, "leader": 0, "leader_epoch": 3, "isr": list(range(REPLICAS))}
        for number in range(partitions)
    ]
    (directory / "leadership.json").write_text(json.dumps(leadership))


def summary_bytes(partitions: int, snapshot: Path) -> int:
    """Of all segments together, by those of one replica."""
    from scan import summarise_segment

    from replica_audit.segments.summary import summary_to_json

    total = 0
    for path in (snapshot / "broker-0" / "orders-0").glob("*.log"):
        with path.open("rb") as stream:
            total += len(summary_to_json(summarise_segment(stream, "", int(path.stem), path.stat().st_size)))
    return total * REPLICAS * partitions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=40)
    parser.add_argument("--batches", type=int, default=3000)
    arguments = parser.parse_args()
    found = []
    for step in (1, CHUNK_OFFSETS):
        with tempfile.TemporaryDirectory() as directory:
            snapshot = Path(directory)
            write_snapshot(snapshot, arguments.partitions, arguments.batches, step)
            of_summaries = summary_bytes(arguments.partitions, snapshot) / 1e6
            seconds, peak = audit(snapshot, ROOT, 0)
        found.append((of_summaries, peak))
        print(f"summaries {of_summaries:.1f} MB: {seconds:.1f} s, driver's Python {peak:.0f} MB", flush=True)
    (few, low), (many, high) = found
    return int(high - low > (many - few) / 10)


if __name__ == "__main__":
    sys.exit(main())

"""Measures how an audit grows: `.venv/bin/python benchmarks/growth.py [--mib 1536] [--batch-bytes 16384] [--partitions 1000]`.

`run --no-quality` of so many bytes and of twice as many, in as many segments of 128 MiB as they take, then of so many small
partitions and of twice as many; each cold, with an empty warehouse. The fixed cost, an audit of two partitions of two batches (the faster of
two), is left out. Ends with status 1 when doubling takes more than 2.1 times the time above it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from large import REPLICAS, audit, write_snapshot
from scan import MIB

TARGET = 2.1


def seconds(total_bytes: int, batch_bytes: int, partitions: int, directory: Path | None) -> float:
    with tempfile.TemporaryDirectory(dir=directory) as place:
        names = write_snapshot(Path(place), total_bytes, batch_bytes, partitions)
        os.sync()  # or the audit would share the machine with the writing of its files
        took = audit(Path(place))
    print(f"{len(names)} partitions, {total_bytes / MIB:.0f} MiB: {took:.1f} s", flush=True)
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1536)
    parser.add_argument("--batch-bytes", type=int, default=16 * 1024)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--directory", type=Path, help="where the snapshots are made, and removed again")
    arguments = parser.parse_args()
    of, small, where = arguments.batch_bytes, 1000, arguments.directory
    fixed = min(seconds(2 * 2 * REPLICAS * small, small, 2, where) for _ in range(2))
    sizes = [arguments.mib * MIB * factor for factor in (1, 2)]
    counts = [arguments.partitions * factor for factor in (1, 2)]
    missed = False
    for name, one, two in (
        ("bytes", *(seconds(size, of, 0, where) for size in sizes)),
        ("partitions", *(seconds(10 * REPLICAS * small * count, small, count, where) for count in counts)),
    ):
        ratio = (two - fixed) / (one - fixed)
        print(f"twice the {name}: {ratio:.2f} times the time above the fixed cost (goal {TARGET})")
        missed |= ratio > TARGET
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

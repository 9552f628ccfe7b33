"""Speed of the segment scan on one core, beside the checksums alone, and beside `kafka-dump-log`.

Run: `.venv/bin/python benchmarks/scan.py [--kafka JARS]`, JARS as in large.py. Prints ratios, and ends with status 1 when a
target is missed:

* batches of 16 KiB: rate of the scan as a share of plain CRC-32C's over the same bytes; at least 50 %;
* batches of 170 bytes: time of the scan as a multiple of a loop of `zlib.crc32` over the same batches; at most 4;
* with --kafka, batches of 170 bytes: processor time of `kafka-dump-log` on one core, its start left out, as a multiple of the
  scan's; at least 12.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import google_crc32c

from replica_audit.model import SegmentSummary
from replica_audit.process_start import keep_freed_memory
from replica_audit.segments.scan import scan_segment
from replica_audit.segments.summary import Summariser

MIB = 1 << 20
ROUNDS = 7


def make_segment(batch_bytes: int, total_bytes: int, seed: int = 1) -> tuple[bytes, list[int]]:
    """A segment of equal batches of magic 2 with right CRCs, and where each begins."""
    randomness = random.Random(seed)
    records = [randomness.randbytes(batch_bytes - 61) for _ in range(64)]
    parts, starts, position = [], [], 0
    for offset in range(total_bytes // batch_bytes):
        body = struct.pack(">hiqqqhii", 0, 0, 1_700_000_000_000 + offset, 1_700_000_000_000 + offset, -1, -1, -1, 1)
        body += records[offset % len(records)]
        header = struct.pack(">qiibI", offset, batch_bytes - 12, 3, 2, google_crc32c.value(body))
        parts.append(header + body)
        starts.append(position)
        position += batch_bytes
    return b"".join(parts), starts


def least_time(work: Callable[[], object]) -> float:
    """Processor seconds of the fastest of `ROUNDS` runs: what one core does when nothing else disturbs it."""
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def scan(data: bytes) -> int:
    """Scan all of `data`; returns the number of batches."""
    return sum(len(item) for item in scan_segment(io.BytesIO(data), len(data), 0))


def read_and_check(path: str) -> None:
    """Read a file and check its bytes: what no scan can do without."""
    window = bytearray(2 * MIB)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(window):
            google_crc32c.value(bytes(memoryview(window)[:count]))


def summarise_segment(stream: BinaryIO, path: str, base_offset: int, size_bytes: int) -> SegmentSummary:
    """Scan a segment and summarise it."""
    summariser = Summariser(path, base_offset, size_bytes)
    for item in scan_segment(stream, size_bytes, base_offset):
        summariser.add(item)
    return summariser.finish()


def summarise_file(path: str) -> None:
    """Scan a segment file and summarise it."""
    with open(path, "rb") as file:
        summarise_segment(file, path, 0, os.stat(path).st_size)


def main() -> int:
    """Measure, print, and say by the exit status whether the targets hold."""
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", type=Path, help="a directory with the JARs of Kafka's tools")
    arguments = parser.parse_args()
    large, _ = make_segment(16 * 1024, 256 * MIB)
    plain = least_time(lambda: google_crc32c.value(large))
    scanned = least_time(lambda: scan(large))
    summarised = least_time(lambda: summarise_segment(io.BytesIO(large), "large", 0, len(large)))
    share = plain / scanned
    print(f"16 KiB batches, {len(large) >> 20} MiB: plain CRC-32C {len(large) / plain / 1e9:.2f} GB/s, ", end="")
    print(f"scan {len(large) / scanned / 1e9:.2f} GB/s, scan and summary {len(large) / summarised / 1e9:.2f} GB/s")
    print(f"  scan runs at {share:.0%} of the plain checksum (target: at least 50 %)")

    with tempfile.NamedTemporaryFile() as file:
        file.write(large)
        file.flush()
        checked = least_time(lambda: read_and_check(file.name))
        summarised = least_time(lambda: summarise_file(file.name))
    print(f"  from a file in the page cache: read and CRC-32C {len(large) / checked / 1e9:.2f} GB/s, ", end="")
    print(f"scan and summary {len(large) / summarised / 1e9:.2f} GB/s, {checked / summarised:.0%} of it")

    small, starts = make_segment(170, 64 * MIB)

    def checksum_one_by_one() -> None:
        crc32 = zlib.crc32
        for start in starts:
            crc32(small[start : start + 170])

    one_by_one = least_time(checksum_one_by_one)
    scanned = least_time(lambda: scan(small))
    summarised = least_time(lambda: summarise_segment(io.BytesIO(small), "small", 0, len(small)))
    multiple = scanned / one_by_one
    count = len(starts)
    print(f"170-byte batches, {count}: zlib.crc32 one by one {one_by_one / count * 1e6:.2f} µs each, ", end="")
    print(f"scan {scanned / count * 1e6:.2f} µs, scan and summary {summarised / count * 1e6:.2f} µs")
    print(f"  scan takes {multiple:.1f} times as long as the checksums (target: at most 4)")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB, the input included")
    missed = share < 0.5 or multiple > 4
    if arguments.kafka is not None:
        dumped = dump_seconds(small, arguments.kafka) - dump_seconds(small[:170], arguments.kafka)
        print(
            f"  kafka-dump-log {dumped / count * 1e6:.2f} µs: {dumped / scanned:.1f} times the scan (target: at least 12)"
        )
        missed |= dumped < 12 * scanned
    return int(missed)


def dump_seconds(data: bytes, jars: Path) -> float:
    """Processor seconds that `kafka-dump-log` takes for a segment on one core."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, f"{0:020d}.log")
        path.write_bytes(data)
        command = [
            "java",
            "-cp",
            f"{jars}/*",
            "-Xmx256M",
            "org.apache.kafka.tools.DumpLogSegments",
            "--files",
            str(path),
        ]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        core = min(os.sched_getaffinity(0))
        subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())

"""Cost of collecting evidence, and of auditing from it, for each GiB of segments.

Run: `.venv/bin/python benchmarks/evidence.py [--mib N] [--java | --headers] [--memory]`. For batches of three sizes it prints, of the
collector at no limited rate with the file in memory: processor time, reads, bytes read, size of the archive and peak memory; and the
processor time of a scan and summary of the segment from its copy and from the evidence. With `--java` a JVM computes the checksums, as on
a host that has no library for it; with `--headers` none are computed, and it hops over what is larger than 256 KiB.

With `--memory` only peak memory is printed, of what is worst for it: a coordinator's log, messages of a format before 0.11 and garbage
of that size each, kept with `--raw`, and 100,000 files, collected twice, the second time `--after` the first.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from scan import make_segment

from replica_audit.cli.capture_plan_command import collector_text
from replica_audit.model import SegmentFile
from replica_audit.snapshot.segment_sources import summarise_source
from replica_audit.snapshot.storage import Snapshot

MIB = 1 << 20
LOG = "broker-1/t-0/00000000000000000000.log"


#: Put before the collector: has it say its peak memory, which its parent's would hide, and that of its JVM, in KiB.
_TELL_PEAK = """import atexit, re, resource, sys
def _tell():
    own = int(re.search("VmHWM:\\\\s*([0-9]+)", open("/proc/self/status").read()).group(1))
    sys.stderr.write("%d %d" % (own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
atexit.register(_tell)
"""
#: Put before the collector: no library computes CRC-32C.
_NO_LIBRARY = """import ctypes, sys
sys.modules["google_crc32c"] = None
def _none(name): raise OSError(name)
ctypes.CDLL = _none
"""


def _collect(log_dir: Path, archive: Path, before_it: str, *options: str) -> tuple[float, int, int]:
    """Processor seconds, and KiB of peak memory of the collector and of its JVM."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Which stand to each other as the default rates do: a read costs as much as 256 KiB.
    unlimited = ("--broker-id", "1", "--rate-mib", "1e6", "--iops", "4e6")
    command = [sys.executable, "-I", "-B", "-", "--log-dir", str(log_dir), *unlimited, *options]
    with archive.open("wb") as out:
        text = (_TELL_PEAK + before_it + collector_text()).encode()
        ended = subprocess.run(command, input=text, stdout=out, stderr=subprocess.PIPE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own, of_java = map(int, ended.stderr.split()[-2:])
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, own, of_java


def _read(archive: Path) -> tuple[int, int]:
    """Reads of the collector, and the bytes that it asked for."""
    with tarfile.open(archive) as tar:
        head = json.loads(tar.extractfile("evidence-1.json").read())  # type: ignore[union-attr]
    return head["reads"], head["bytes_read"]


def _audit(snapshot: Path, size: int) -> float:
    file = SegmentFile(1, "broker-1", "t", 0, LOG, 0, size)
    begin = time.process_time()
    summarise_source(Snapshot.open(snapshot), file)
    return time.process_time() - begin


def _print_memory(mib: int) -> None:
    """Peak memory of the collector for each of what is worst for it."""
    legacy = bytes(8) + (1014).to_bytes(4, "big") + bytes(4) + b"\1" + random.Random(1).randbytes(1009)
    pieces = {
        "a coordinator's log": ("__consumer_offsets-0", random.Random(2).randbytes(MIB)),
        "legacy messages": ("t-0", legacy * (MIB // len(legacy))),
        "garbage": ("t-0", random.Random(3).randbytes(MIB)),
    }
    for name, (directory, piece) in pieces.items():
        with tempfile.TemporaryDirectory() as place:
            path = Path(place, "broker-1", directory, "00000000000000000000.log")
            path.parent.mkdir(parents=True)
            with path.open("wb") as file:
                for _ in range(mib):
                    file.write(piece)
            _, memory, _ = _collect(Path(place, "broker-1"), Path(place, "evidence.tar"), "", "--raw")
            print(f"{name} of {mib} MiB: peak {memory / 1024:.0f} MiB")
    with tempfile.TemporaryDirectory() as place:
        data, _ = make_segment(170, 170)
        for number in range(100_000):
            path = Path(place, "broker-1", f"t-{number // 100}", f"{number % 100:020d}.log")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        time.sleep(2)
        first, second = Path(place, "evidence.tar"), Path(place, "again.tar")
        _, memory, _ = _collect(Path(place, "broker-1"), first, "")
        print(f"100,000 files: peak {memory / 1024:.0f} MiB")
        seconds, memory, _ = _collect(Path(place, "broker-1"), second, "", "--after", str(first))
        print(f"100,000 files that have not changed: peak {memory / 1024:.0f} MiB, {seconds:.0f} s")


def main() -> None:
    """Print a row for each size of batches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="size of the segments (default: %(default)s)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--java", action="store_true", help="have a JVM compute the checksums")
    how.add_argument("--headers", action="store_true", help="take headers alone")
    parser.add_argument("--memory", action="store_true", help="print peak memory for what is worst for it")
    arguments = parser.parse_args()
    if arguments.memory:
        _print_memory(arguments.mib)
        return
    mib = arguments.mib
    for batch_bytes in (170, 16 << 10, MIB):
        with tempfile.TemporaryDirectory() as place:
            copy, evidence = Path(place, "copy"), Path(place, "evidence")
            path = copy / LOG
            path.parent.mkdir(parents=True)
            evidence.mkdir()
            data, starts = make_segment(batch_bytes, mib * MIB)
            path.write_bytes(data)
            size, share = len(data), len(data) / (1 << 30)
            del data
            archive = evidence / "evidence-1.tar"
            options = ("--headers", "always") if arguments.headers else ()
            before_it = _NO_LIBRARY if arguments.java else ""
            seconds, memory, of_java = _collect(copy / "broker-1", archive, before_it, *options)
            reads, asked = _read(archive)
            written = os.path.getsize(archive)
            of_copy, of_evidence = (_audit(one, size) / share for one in (copy, evidence))
            print(
                f"batches of {batch_bytes} bytes, for each GiB: {seconds / share:.1f} s to collect in {reads / share:,.0f} reads "
                f"of {asked / share / MIB:,.1f} MiB, {written / share / MIB:.2f} MiB of "
                f"evidence ({written / len(starts):.1f} bytes a batch, {written / size:.2%}), peak {memory / 1024:.0f} MiB "
                f"and {of_java / 1024:.0f} MiB of the JVM; audit {of_copy:.2f} s from the copy, {of_evidence:.2f} s from the evidence"
            )


if __name__ == "__main__":
    main()

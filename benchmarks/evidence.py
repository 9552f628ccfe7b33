"""Cost of collecting evidence, and of auditing from it, for each GiB of segments.

Run: `.venv/bin/python benchmarks/evidence.py [--mib N] [--java]`. For batches of three sizes it prints, of the collector at no limited rate with
the file in the page cache: processor time, size of the archive and peak memory; and the processor time of a scan and summary of the
segment from its copy and from the evidence. With `--java` a JVM computes the checksums, as on a host that has no library for it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
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


def _collect(log_dir: Path, archive: Path, before_it: str) -> tuple[float, int, int]:
    """Processor seconds, and KiB of peak memory of the collector and of its JVM."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [
        sys.executable,
        "-I",
        "-B",
        "-",
        "--log-dir",
        str(log_dir),
        "--broker-id",
        "1",
        "--rate-mib",
        "1e9",
        "--iops",
        "1e9",
    ]
    with archive.open("wb") as out:
        text = (_TELL_PEAK + before_it + collector_text()).encode()
        ended = subprocess.run(command, input=text, stdout=out, stderr=subprocess.PIPE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own, of_java = map(int, ended.stderr.split())
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, own, of_java


def _audit(snapshot: Path, size: int) -> float:
    file = SegmentFile(1, "broker-1", "t", 0, LOG, 0, size)
    begin = time.process_time()
    summarise_source(Snapshot.open(snapshot), file)
    return time.process_time() - begin


def main() -> None:
    """Print a row for each size of batches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="size of the segments (default: %(default)s)")
    parser.add_argument("--java", action="store_true", help="have a JVM compute the checksums")
    arguments = parser.parse_args()
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
            seconds, memory, of_java = _collect(copy / "broker-1", archive, _NO_LIBRARY if arguments.java else "")
            written = os.path.getsize(archive)
            of_copy, of_evidence = (_audit(one, size) / share for one in (copy, evidence))
            print(
                f"batches of {batch_bytes} bytes, for each GiB: {seconds / share:.1f} s to collect, {written / share / MIB:.2f} MiB of "
                f"evidence ({written / len(starts):.1f} bytes a batch, {written / size:.2%}), peak {memory / 1024:.0f} MiB "
                f"and {of_java / 1024:.0f} MiB of the JVM; audit {of_copy:.2f} s from the copy, {of_evidence:.2f} s from the evidence"
            )


if __name__ == "__main__":
    main()

"""Cost of collecting evidence, and of auditing from it, for each GiB of segments.

Run: `.venv/bin/python benchmarks/evidence.py [--mib N]`. For batches of three sizes it prints, of the collector at no limited rate with
the file in the page cache: processor time, bytes and reads, size of the archive and peak memory; and the processor time of a scan
and summary of the segment from its copy and from the evidence.
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
from replica_audit.snapshot.segment_file import SegmentFile
from replica_audit.snapshot.segment_sources import summarise_source
from replica_audit.snapshot.storage import Snapshot

MIB = 1 << 20
LOG = "broker-1/t-0/00000000000000000000.log"


#: Put before the collector: has it say its peak memory, which its parent's would hide.
_TELL_PEAK = """import atexit, sys
atexit.register(lambda: sys.stderr.write(next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))))
"""


def _collect(log_dir: Path, archive: Path) -> tuple[float, int]:
    """Processor seconds and KiB of peak memory."""
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
        text = (_TELL_PEAK + collector_text()).encode()
        ended = subprocess.run(command, input=text, stdout=out, stderr=subprocess.PIPE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, int(ended.stderr.split()[1])


def _audit(snapshot: Path, size: int) -> float:
    file = SegmentFile(1, "broker-1", "t", 0, LOG, 0, size)
    begin = time.process_time()
    summarise_source(Snapshot.open(snapshot), file)
    return time.process_time() - begin


def main() -> None:
    """Print a row for each size of batches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="size of the segments (default: %(default)s)")
    mib = parser.parse_args().mib
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
            seconds, memory = _collect(copy / "broker-1", archive)
            written = os.path.getsize(archive)
            print(
                f"batches of {batch_bytes} bytes, for each GiB: {seconds / share:.1f} s to collect, {written / share / MIB:.2f} MiB of "
                f"evidence ({written / len(starts):.1f} bytes a batch, {written / size:.2%}), peak {memory / 1024:.0f} MiB; audit "
                f"{_audit(copy, size) / share:.2f} s from the copy, {_audit(evidence, size) / share:.2f} s from the evidence"
            )


if __name__ == "__main__":
    main()

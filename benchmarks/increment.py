"""Measures the next day's audit of a cluster in the warehouse that knows the first: bytes read, and time above the fixed cost.

`.venv/bin/python benchmarks/increment.py [--mib 3072] [--batch-bytes 16384] [--new PERCENT] [--runs N] [--directory DIR]`: three equal
replicas in segments of 32 MiB; on the next day (links to the same files where they did not change, as `rsync --link-dest` leaves
them) the last segment of each partition has grown. In turns, each a cold process with `run --no-quality`: a snapshot of a few KiB, the
first day in an empty warehouse, the next day in that warehouse, and the next day in full. The answers of the last two must be equal.

Ends with status 1 when more bytes are read than are new and 1 % of all, or when the next day takes more than a tenth of what the
first takes above the fixed cost.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from large import REPLICAS
from scan import MIB, make_segment

SEGMENT_BYTES = 32 * MIB
_SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def write_days(directory: Path, total_bytes: int, batch_bytes: int, new: float) -> tuple[Path, Path]:
    """Two days of a cluster, the second with a share `new` of bytes more."""
    partitions = max(1, total_bytes // REPLICAS // (256 * MIB))
    of_one = total_bytes // REPLICAS // partitions
    data, starts = make_segment(batch_bytes, int(of_one * (1 + new)))
    step = max(1, SEGMENT_BYTES // batch_bytes)
    days = directory / "day-1", directory / "day-2"
    for day, count in zip(days, (of_one // batch_bytes, len(starts)), strict=True):
        for broker in range(REPLICAS):
            root = day / f"broker-{broker}"
            for number in range(partitions):
                (root / f"orders-{number}").mkdir(parents=True)
                (root / f"orders-{number}" / "leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
                for first in range(0, of_one // batch_bytes, step):
                    is_last = first + step >= of_one // batch_bytes
                    end = count if is_last else first + step
                    file = root / f"orders-{number}" / f"{first:020d}.log"
                    before = days[0] / file.relative_to(day)
                    if day is days[1] and not is_last:
                        os.link(before, file)
                    else:
                        file.write_bytes(data[first * batch_bytes : end * batch_bytes])
            (root / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=benchmark\n")
            for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
                lines = "".join(f"orders {number} {count}\n" for number in range(partitions))
                (root / name).write_text(f"0\n{partitions}\n{lines}")
    return days


def audit(snapshot: Path, warehouse: Path, *more: str) -> tuple[float, str, dict]:
    """Seconds, what it said on stderr, and the answers without ids and times."""
    with tempfile.TemporaryDirectory() as report:
        command = [
            Path(sys.executable).with_name("replica-audit"),
            "run",
            snapshot,
            "--no-quality",
            "--fail-on",
            "never",
        ]
        before = time.perf_counter()
        places = ["--warehouse", warehouse, "--report", report]
        ran = subprocess.run(list(map(str, [*command, *places, *more])), capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - before
        if ran.returncode:
            raise SystemExit(f"the audit ended with {ran.returncode}:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        answers = json.loads(Path(report, "audit.json").read_text())
    for name in ("audit_id", "started", "finished"):
        del answers["audit"][name]
    return seconds, ran.stderr, answers


def read_bytes(said: str) -> float:
    """The bytes that a run says it read."""
    (size, unit), *_ = re.findall(r"read ([\d.]+) (\w+) of segments", said)
    return float(size) * _SIZES[unit]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=3072, help="size of all replicas together")
    parser.add_argument("--batch-bytes", type=int, default=16 * 1024)
    parser.add_argument("--new", type=float, default=1, help="new data in percent")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where the snapshots are made, and removed again")
    arguments = parser.parse_args()
    place = Path(tempfile.mkdtemp(dir=arguments.directory))
    seconds: dict[str, list[float]] = {"fixed": [], "first": [], "next": [], "full": []}
    try:
        small = write_days(place / "small", 3 * 4096, 1024, 0)[0]
        days = write_days(place / "large", arguments.mib * MIB, arguments.batch_bytes, arguments.new / 100)
        total = sum(file.stat().st_size for file in days[1].rglob("*.log"))
        for number in range(arguments.runs):
            warehouse = place / f"warehouse-{number}"
            seconds["fixed"].append(audit(small, place / f"small-{number}")[0])
            seconds["first"].append(audit(days[0], warehouse)[0])
            took, said, answers = audit(days[1], warehouse)
            seconds["next"].append(took)
            took, _, full = audit(days[1], place / f"full-{number}", "--full")
            seconds["full"].append(took)
            if answers != full:
                raise SystemExit("the answers of the next day are not those of a full run")
            share = read_bytes(said) / total
            print(
                " ".join(f"{name} {times[-1]:.1f} s" for name, times in seconds.items()),
                f"read {share:.2%}",
                flush=True,
            )
    finally:
        shutil.rmtree(place)
    fixed, first, following, _ = (min(times) for times in seconds.values())
    part = (following - fixed) / (first - fixed)
    print(f"bytes read {share:.2%}; above the fixed cost {part:.2f} of the first run (fastest of {arguments.runs})")
    return int(share > arguments.new / 100 + 0.01 or part > 0.1)


if __name__ == "__main__":
    sys.exit(main())

"""Measures what the quality checks add to an audit: `run` with and without them, one after the other, each a process.

`.venv/bin/python benchmarks/quality.py [--runs N] [--snapshot DIR]`: prints seconds of wall and processor time of each
run, then the medians; ends with status 1 when the checks add more than 30 % of wall time.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = 0.30
RUN = "import sys; from replica_audit.cli.main import main; sys.exit(main())"


def measure(snapshot: str, *flags: str) -> tuple[float, float]:
    """Wall and processor seconds of one audit of `snapshot` with an empty warehouse."""
    with tempfile.TemporaryDirectory() as directory:
        place = ["--warehouse", f"{directory}/warehouse", "--report", f"{directory}/report", "--fail-on", "never", "--quiet"]
        command = [sys.executable, "-c", RUN, "run", snapshot, *place, *flags]
        used, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=os.environ)
        wall = time.perf_counter() - begin
        if ran.returncode:
            raise SystemExit(f"run ended with {ran.returncode}:\n{ran.stderr[-2000:]}")
        if Path(directory, "report", "data_docs").is_dir() == ("--no-quality" in flags):
            raise SystemExit("Data Docs are there without quality checks, or are not there with them")
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="pairs of runs")
    parser.add_argument("--snapshot", default=str(ROOT / "data" / "samples" / "last-replica-standing"))
    arguments = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
    for number in range(arguments.runs):
        # Who goes first changes, since what else the machine does changes slowly.
        for name in ("without", "with") if number % 2 == 0 else ("with", "without"):
            found[name].append(measure(arguments.snapshot, *(("--no-quality",) if name == "without" else ())))
            wall, processor = found[name][-1]
            print(f"{name:8} quality  wall {wall:6.1f}  processor {processor:6.1f}", flush=True)
    wall = {name: statistics.median(one for one, _ in runs) for name, runs in found.items()}
    processor = {name: statistics.median(one for _, one in runs) for name, runs in found.items()}
    added = wall["with"] / wall["without"] - 1
    used = processor["with"] / processor["without"] - 1
    print(f"median   without {wall['without']:.1f}, with {wall['with']:.1f}: {added:+.0%} wall, {used:+.0%} processor")
    return 0 if added <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())

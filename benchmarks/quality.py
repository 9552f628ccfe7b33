"""Measures what the quality checks add to an audit: `run` with and without them, one after the other, each a process.

`.venv/bin/python benchmarks/quality.py [--runs N] [--snapshot DIR]`: prints seconds of each run, then the
medians; ends with status 1 when the checks add more than 30 % of wall time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = 0.30
RUN = "import sys; from replica_audit.cli.main import main; sys.exit(main())"


def measure(snapshot: str, *flags: str) -> float:
    """Seconds of one audit of `snapshot` with an empty warehouse."""
    with tempfile.TemporaryDirectory() as directory:
        place = [
            "--warehouse",
            f"{directory}/warehouse",
            "--report",
            f"{directory}/report",
            "--fail-on",
            "never",
            "--quiet",
        ]
        command = [sys.executable, "-c", RUN, "run", snapshot, *place, *flags]
        begin = time.perf_counter()
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=os.environ)
        wall = time.perf_counter() - begin
        if ran.returncode:
            raise SystemExit(f"run ended with {ran.returncode}:\n{ran.stderr[-2000:]}")
        if Path(directory, "report", "data_docs").is_dir() == ("--no-quality" in flags):
            raise SystemExit("Data Docs are there without quality checks, or are not there with them")
    return wall


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="pairs of runs")
    parser.add_argument("--snapshot", default=str(ROOT / "data" / "samples" / "last-replica-standing"))
    arguments = parser.parse_args()
    found: dict[str, list[float]] = {"without": [], "with": []}
    for number in range(arguments.runs):
        # Who goes first changes, since what else the machine does changes slowly.
        for name in ("without", "with") if number % 2 == 0 else ("with", "without"):
            found[name].append(measure(arguments.snapshot, *(("--no-quality",) if name == "without" else ())))
            print(f"{name:8} quality checks {found[name][-1]:6.1f} s", flush=True)
    median = {name: statistics.median(seconds) for name, seconds in found.items()}
    added = median["with"] / median["without"] - 1
    print(f"median: without {median['without']:.1f} s, with {median['with']:.1f} s: {added:+.0%}")
    return 0 if added <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())

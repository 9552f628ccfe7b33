"""Measures the start of commands that need no Spark: `.venv/bin/python benchmarks/start.py [--runs 20] [--beside CHECKOUT]`.

Each run is a process of its own, from its first instruction to its exit; with --beside the same by the code of another checkout, in
turns. Prints of each command the least and the median of the seconds and of the processor time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = str(ROOT / "data" / "samples" / "last-replica-standing")
COMMANDS = (["--help"], ["completion", "bash"], ["show", SAMPLE, "-q"])
PROGRAM = "from replica_audit.cli.start import entry_point; entry_point()"


def run(checkout: Path, words: list[str]) -> tuple[float, float]:
    """Seconds and processor time of one run."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(checkout / "lib")},
    )
    _, _, used = os.wait4(process.pid, 0)
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--beside", type=Path)
    arguments = parser.parse_args()
    checkouts = [ROOT, *([arguments.beside] if arguments.beside else [])]
    for words in COMMANDS:
        found: dict[Path, list[tuple[float, float]]] = {checkout: [] for checkout in checkouts}
        for number in range(arguments.runs + 1):
            for checkout in checkouts[:: -1 if number % 2 else 1]:
                found[checkout].append(run(checkout, words))
        for checkout, times in found.items():
            # The first run writes bytecode.
            seconds, busy = zip(*times[1:], strict=True)
            texts = (f"{min(some):.3f} (median {statistics.median(some):.3f})" for some in (seconds, busy))
            print(f"{checkout}: {' '.join(words)}: {' s, CPU '.join(texts)} s")


if __name__ == "__main__":
    main()

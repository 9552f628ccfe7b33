"""Measures a whole audit against what any Spark job pays: `run` on a sample, with and without quality checks, beside a bare
session, in turns.

`.venv/bin/python benchmarks/audit.py [--runs N] [--sample DIRECTORY]`: each run is a cold process and JVM. The bare session
(benchmarks/session.py) starts Spark with the same settings, writes and reads three small Delta tables and ends. Prints seconds
of wall time, one turn a line, and the ratios of the fastest runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BENCHMARKS = Path(__file__).parent
SAMPLES = BENCHMARKS.parent / "data" / "samples"


def seconds(command: list[str], expected: tuple[int, ...]) -> float:
    """Wall time of a process; SystemExit when it ends with another exit status than the `expected` ones."""
    before = time.perf_counter()
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if ended.returncode not in expected:
        raise SystemExit(f"{' '.join(command)}: exit status {ended.returncode}\n{ended.stdout}")
    return time.perf_counter() - before


def audit(sample: Path, *flags: str) -> float:
    """Seconds of one audit with an empty warehouse."""
    with tempfile.TemporaryDirectory() as directory:
        places = ["--warehouse", f"{directory}/warehouse", "--report", f"{directory}/report"]
        replica_audit = Path(sys.executable).with_name("replica-audit")
        # 1: findings at the level that fails a run, which the sample may well have.
        took = seconds([str(replica_audit), "run", str(sample), "--quiet", *places, *flags], (0, 1))
        if not Path(directory, "report", "verdict.json").is_file():
            raise SystemExit("the audit wrote no verdict")
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="turns of three processes")
    parser.add_argument("--sample", type=Path, default=SAMPLES / "last-replica-standing")
    arguments = parser.parse_args()
    found: dict[str, list[float]] = {"with quality checks": [], "without": [], "bare session": []}
    for _ in range(arguments.runs):
        found["bare session"].append(seconds([sys.executable, str(BENCHMARKS / "session.py")], (0,)))
        found["with quality checks"].append(audit(arguments.sample))
        found["without"].append(audit(arguments.sample, "--no-quality"))
        print("  ".join(f"{name} {of_one[-1]:.1f}" for name, of_one in found.items()), flush=True)
    least = {name: min(of_one) for name, of_one in found.items()}
    bare = least.pop("bare session")
    print(
        f"fastest: bare session {bare:.1f}",
        *(f"{name} {one:.1f} ({one / bare:.2f})" for name, one in least.items()),
        sep="  ",
    )


if __name__ == "__main__":
    main()

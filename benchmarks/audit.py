"""Measures a whole audit against what any Spark job pays: `run` on a sample beside a bare session, in turns.

`.venv/bin/python benchmarks/audit.py [--runs N] [--sample DIRECTORY]`: each run is a cold process and JVM. The bare session
(benchmarks/session.py) starts Spark with the same settings, writes and reads three small Delta tables and ends. Prints seconds
of wall time, one pair a line, and the ratio of the fastest runs.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="pairs of processes")
    parser.add_argument("--sample", type=Path, default=SAMPLES / "last-replica-standing")
    arguments = parser.parse_args()
    audits, sessions = [], []
    for _ in range(arguments.runs):
        sessions.append(seconds([sys.executable, str(BENCHMARKS / "session.py")], (0,)))
        with tempfile.TemporaryDirectory() as directory:
            places = ["--warehouse", f"{directory}/warehouse", "--report", f"{directory}/report"]
            replica_audit = Path(sys.executable).with_name("replica-audit")
            # 1: findings at the level that fails a run, which the sample may well have.
            audits.append(seconds([str(replica_audit), "run", str(arguments.sample), "--quiet", *places], (0, 1)))
            if not Path(directory, "report", "verdict.json").is_file():
                raise SystemExit("the audit wrote no verdict")
        print(
            f"audit {audits[-1]:.1f}  bare session {sessions[-1]:.1f}  ratio {audits[-1] / sessions[-1]:.2f}",
            flush=True,
        )
    print(
        f"fastest: audit {min(audits):.1f}  bare session {min(sessions):.1f}  ratio {min(audits) / min(sessions):.2f}"
    )


if __name__ == "__main__":
    main()

"""Where the time of a large audit goes: `.venv/bin/python benchmarks/profile_audit.py --py-spy PROGRAM [--mib 3072] [--batch-bytes 16384]
[--before REVISION]`.

`run --no-quality` on three equal replicas, once with Spark's event log and py-spy (https://github.com/benfred/py-spy, in a venv of its
own) beside every Python process. Prints the jobs and their seconds, and the shares of the samples, of threads that were running, by
process and by the innermost function of the project or the package that it called.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from large import write_snapshot
from partitions import ROOT, code_of
from scan import MIB

SHOWN = 8
_FRAME = re.compile(r"(\S+) \((.+?)(?::\d+)?\)$")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--py-spy", required=True, help="the program")
    parser.add_argument("--mib", type=int, default=3072)
    parser.add_argument("--batch-bytes", type=int, default=16 * 1024)
    parser.add_argument("--before", help="a revision to profile too, in the same way")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        write_snapshot(place / "snapshot", arguments.mib * MIB, arguments.batch_bytes)
        codes = {"now": ROOT}
        if arguments.before:
            codes[arguments.before] = code_of(arguments.before, place / "before")
        for name, code in codes.items():
            print(f"{name}:")
            (place / name).mkdir()
            profile(place / name, place / "snapshot", code, arguments.py_spy)


def profile(place: Path, snapshot: Path, code: Path, py_spy: str) -> None:
    """Run an audit by the code below `code`, with `place` for what it writes, and print where its time went."""
    (place / "events").mkdir()
    events = {"enabled": "true", "dir": (place / "events").as_uri(), "compress": "false"}
    settings = {f"spark.eventLog.{name}": value for name, value in events.items()}
    (place / "audit.yaml").write_text(json.dumps({"spark": settings}))
    spy = [py_spy, "record", "--subprocesses", "--format", "raw", "--rate", "50", "-o", str(place / "samples")]
    own = [str(Path(sys.executable).with_name("replica-audit")), "run", str(snapshot), "--no-quality", "--quiet"]
    begin = time.perf_counter()
    ran = subprocess.run(
        [*spy, "--", sys.executable, *own, "--config", "audit.yaml"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(code / "lib")},
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"{time.perf_counter() - begin:.1f} s in all, the profiler included")
    if not (place / "samples").is_file() or not (place / "replica-audit-report" / "verdict.json").is_file():
        raise SystemExit(ran.stdout[-2000:] + ran.stderr[-2000:])
    show_jobs(place / "events")
    show_samples((place / "samples").read_text())


def show_jobs(directory: Path) -> None:
    """How many jobs the event log has, and the seconds of the longest."""
    started: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for path in sorted(path for path in directory.rglob("*") if path.is_file() and path.name[0] != "."):
        for event in map(json.loads, path.read_text().splitlines()):
            if event["Event"] == "SparkListenerJobStart":
                started[event["Job ID"]] = event["Submission Time"]
            elif event["Event"] == "SparkListenerJobEnd":
                seconds[event["Job ID"]] = (event["Completion Time"] - started[event["Job ID"]]) / 1000
    print(f"{len(seconds)} jobs, {sum(seconds.values()):.1f} s of them")
    for job, took in sorted(seconds.items(), key=lambda item: -item[1])[:SHOWN]:
        print(f"  job {job}: {took:.1f} s")


def show_samples(text: str) -> None:
    """Shares of the samples of the driver and of the workers together."""
    found: dict[str, Counter] = defaultdict(Counter)
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        process = "workers" if any("pyspark/daemon" in frame or "worker.py" in frame for frame in frames) else "driver"
        found[process][_place(frames)] += int(count)
    total = sum(sum(of_one.values()) for of_one in found.values())
    for process, places in found.items():
        print(f"{process}: {sum(places.values()) / total:.0%} of {total} samples")
        for place, count in places.most_common(SHOWN):
            print(f"  {count / total:5.1%}  {place}")


def _place(frames: list[str]) -> str:
    """The innermost frame of the project, or the import that runs."""
    if any("importlib" in frame for frame in frames):
        return "imports"
    for frame in reversed(frames):
        match = _FRAME.match(frame)
        if match and "replica_audit" in match[2]:
            return f"{match[1]} ({match[2].rpartition('replica_audit/')[2]})"
    return "Spark and Python themselves"


if __name__ == "__main__":
    main()

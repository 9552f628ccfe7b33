"""Fuzzes the parsers, guided by what of them is executed: `make fuzz`.

Each target of tests/fuzz/targets.py runs under libFuzzer (atheris), in a process of its own, from the corpora below
build/fuzz/corpus, which begin with the kept seeds and keep what was found. The exit status is 1 after a crash; the input
is then in build/fuzz/crashes.

    make fuzz MINUTES=10
    make fuzz MINUTES=5 FUZZ_ARGS="segment metadata_log --jobs 1"
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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from tests.fuzz.seeds import CORPUS, ROOT, unpack
from tests.fuzz.targets import TARGETS

CRASHES = ROOT / "build" / "fuzz" / "crashes"
LOGS = ROOT / "build" / "fuzz" / "logs"
#: Executions of every process so far, one line each.
HISTORY = ROOT / "build" / "fuzz" / "executions.jsonl"
#: Seconds and megabytes that one small input may cost, on a busy machine.
_SLOWEST, _LARGEST = 20, 2048

_EXECUTED = re.compile(r"^(?:stat::number_of_executed_units: |#)(\d+)", re.MULTILINE)
_COVERED = re.compile(r"^#\d+\t(INITED|\w+)\s+cov: (\d+)", re.MULTILINE)


class Outcome(NamedTuple):
    """Outcome of one target: places in the code that the corpus covered before and after."""

    target: str
    executions: int
    covered: int
    new_coverage: int
    crashes: tuple[str, ...]


def fuzz(target: str, seconds: float) -> Outcome:
    """Run one target until a crash or the time is over, in several processes one after the other where it needs that."""
    for directory in (CORPUS / target, CRASHES, LOGS):
        directory.mkdir(parents=True, exist_ok=True)
    before = set(CRASHES.iterdir())
    end = time.monotonic() + seconds
    executions, covered, first, status = 0, 0, None, 0
    while not status and (left := round(end - time.monotonic())) > 0:
        status, text = _run(target, left)
        executions += max(map(int, _EXECUTED.findall(text)), default=0)
        reached = {word: int(number) for word, number in _COVERED.findall(text)}
        covered = max(covered, *reached.values()) if reached else covered
        first = reached.get("INITED", covered) if first is None else first
        with HISTORY.open("a", encoding="utf-8") as history:
            history.write(
                json.dumps({"target": target, "executions": max(map(int, _EXECUTED.findall(text)), default=0)}) + "\n"
            )
    crashes = sorted(path.name for path in set(CRASHES.iterdir()) - before)
    if status and not crashes:
        crashes = [f"exit status {status}"]
    return Outcome(target, executions, covered, covered - (first or 0), tuple(crashes))


def _run(target: str, seconds: int) -> tuple[int, str]:
    """Exit status and log of one process."""
    options = {
        "max_total_time": seconds,
        "runs": TARGETS[target].runs,
        "timeout": _SLOWEST,
        "rss_limit_mb": _LARGEST,
        "max_len": TARGETS[target].greatest,
        "artifact_prefix": f"{CRASHES}/{target}-",
        "print_final_stats": 1,
    }
    command = [sys.executable, "-m", "tests.fuzz.one", target, *(f"-{name}={one}" for name, one in options.items())]
    with tempfile.TemporaryDirectory(prefix="replica-audit-fuzz-") as place:
        environment = {**os.environ, "TMPDIR": place}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "errors": "backslashreplace"}
        done = subprocess.run(
            [*command, str(CORPUS / target)], cwd=ROOT, env=environment, text=True, check=False, **streams
        )
    (LOGS / f"{target}.log").write_text(done.stdout, encoding="utf-8")
    return done.returncode, done.stdout


def in_turn(targets: list[str], seconds: float, jobs: int) -> Iterator[Outcome]:
    """All targets, `jobs` at a time, each for its share of the seconds."""
    total = sum(TARGETS[target].share for target in targets)
    shares = [max(5, round(seconds * jobs * TARGETS[target].share / total)) for target in targets]
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(fuzz, targets, shares)


def main() -> int:
    """Fuzz, print a row a target; the exit status says whether nothing crashed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"all without one: {', '.join(TARGETS)}")
    parser.add_argument("--minutes", type=float, default=10, help="of all targets together")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    arguments = parser.parse_args()
    if unknown := set(arguments.targets) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}; targets are {', '.join(TARGETS)}")
    targets = arguments.targets or list(TARGETS)
    unpack()
    outcomes = []
    print(f"{'target':<24}{'executions':>12}{'covered':>9}{'new':>6}  crashes")
    for one in in_turn(targets, arguments.minutes * 60, arguments.jobs):
        outcomes.append(one)
        print(
            f"{one.target:<24}{one.executions:>12,}{one.covered:>9}{one.new_coverage:>6}  {', '.join(one.crashes) or '-'}"
        )
        sys.stdout.flush()
    crashes = sum(len(one.crashes) for one in outcomes)
    print(f"{'all':<24}{sum(one.executions for one in outcomes):>12,}{'':>15}  {crashes}")
    if crashes:
        print(f"inputs are in {CRASHES}, logs in {LOGS}", file=sys.stderr)
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())

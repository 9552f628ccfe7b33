"""Measures audits of many small partitions: `.venv/bin/python benchmarks/partitions.py [--partitions 10000] [--every 2] [--before REVISION]`.

Three replicas of each partition with one small segment; in every other partition, or every n-th, a follower's last batches are those
of a deposed leader. `run --no-quality` with 1 GiB for the driver's JVM, an empty warehouse and a cold process. With --before the same by the
code of that revision (`git archive`), after it. The fixed cost is an audit of three partitions. Prints seconds, the driver's peak
memory, the time for each partition above the fixed cost, and ends with status 1 when the audit takes more than a third of the
other's time. Equal files are links to one, so that a million partitions fit where there are inodes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from scan import make_segment

ROOT = Path(__file__).resolve().parents[1]
BROKERS, BATCH_BYTES, COMMON, OWN = 3, 250, 6, 4
#: Partitions next to each other whose logs all differ: nothing may be gained by what was done for another partition.
KINDS = 100
#: Of a file; ext4 allows 65,000.
LINKS = 60_000
HEAP = {"spark": {"spark.driver.memory": "1g"}}
#: As the console script starts, by the code that PYTHONPATH names.
RUN = "from replica_audit.cli.start import entry_point; entry_point()"


def with_epoch(batches: bytes, epoch: int, batch_bytes: int = BATCH_BYTES) -> bytes:
    """The same batches in another leader epoch, which no checksum covers."""
    changed = bytearray(batches)
    for start in range(0, len(batches), batch_bytes):
        changed[start + 12 : start + 16] = epoch.to_bytes(4, "big")
    return bytes(changed)


class Linked:
    """Equal files as links to one, as far as a file system allows: a million partitions fit on a small disk."""

    def __init__(self) -> None:
        self._written: dict[bytes, tuple[Path, int]] = {}

    def write(self, path: Path, content: bytes) -> None:
        first, links = self._written.get(content, (path, 0))
        if links % LINKS:
            os.link(first, path)
        else:
            path.write_bytes(content)
            first = path
        self._written[content] = first, links + 1


def two_logs(seed: int) -> tuple[bytes, bytes]:
    """The log of a leader, and that of a deposed one."""
    size = (COMMON + OWN) * BATCH_BYTES
    logs = [make_segment(BATCH_BYTES, size, seed + number)[0] for number in range(2)]
    cut = COMMON * BATCH_BYTES
    prefix = with_epoch(logs[0][:cut], 0)
    return prefix + with_epoch(logs[0][cut:], 1), prefix + with_epoch(logs[1][cut:], 0)


def write_snapshot(directory: Path, partitions: int, every: int = 2, *, is_listed: bool = False) -> None:
    """Broker 0 leads all in epoch 1; broker 2 has other records after the common ones in every n-th partition, the last of n. With
    `is_listed` there is a listing of the topics, which tells the assignment too, in place of leadership.json.
    """
    end = COMMON + OWN
    kinds = [two_logs(seed) for seed in range(1, 2 * KINDS, 2)]
    names = [("orders", number) for number in range(partitions)]
    linked = Linked()
    for broker in range(BROKERS):
        root = directory / f"broker-{broker}"
        for topic, number in names:
            is_deposed = broker == 2 and number % every == every - 1
            place = root / f"{topic}-{number}"
            place.mkdir(parents=True)
            linked.write(place / f"{0:020d}.log", kinds[number % KINDS][is_deposed])
            epochs = "1\n0 0\n" if is_deposed else f"2\n0 0\n1 {COMMON}\n"
            linked.write(place / "leader-epoch-checkpoint", f"0\n{epochs}".encode())
        (root / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=benchmark\n")
        for file, value in (("replication-offset-checkpoint", COMMON), ("recovery-point-offset-checkpoint", end)):
            lines = "".join(f"{topic} {number} {value}\n" for topic, number in names)
            (root / file).write_text(f"0\n{partitions}\n{lines}")
    if is_listed:
        lines = (
            f"\tTopic: {topic}\tPartition: {number}\tLeader: 0\tReplicas: 0,1,2\tIsr: 0,1\n" for topic, number in names
        )
        (directory / "kafka-topics-describe.txt").write_text("".join(lines))
        return
    leadership = [
        {"topic": topic, "partition": number, "leader": 0, "leader_epoch": 1, "isr": [0, 1]} for topic, number in names
    ]
    (directory / "leadership.json").write_text(json.dumps(leadership))


def code_of(revision: str, place: Path) -> Path:
    """The library of an earlier revision, below `place`; it runs with the packages of this one."""
    packed = subprocess.run(
        ["git", "archive", revision, "lib", "conf", "pyproject.toml"], cwd=ROOT, capture_output=True, check=True
    )
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-x", "-C", str(place)], input=packed.stdout, check=True)
    return place


class Family(threading.Thread):
    """Follows a process and all below it: of the driver's Python, the JVM and the workers the peak of memory (MB) and the CPU seconds;
    every minute a line with both.
    """

    def __init__(self, process: int) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._seconds: dict[int, tuple[str, float]] = {}
        self.peaks: dict[str, float] = {}

    def run(self) -> None:
        for number in count():
            held: Counter[str] = Counter()
            for process, name, seconds, megabytes in self._processes():
                kind = "driver" if process == self._process else "JVM" if name == "java" else "workers"
                held[kind] += megabytes
                self._seconds[process] = kind, seconds
            if not held:
                return
            self.peaks.update({kind: max(size, self.peaks.get(kind, 0)) for kind, size in held.items()})
            if number % 60 == 59:
                print(
                    f"  {number + 1} s: {', '.join(f'{kind} {size:.0f} MB' for kind, size in held.items())}; {self}",
                    flush=True,
                )
            time.sleep(1)

    def __str__(self) -> str:
        total: Counter[str] = Counter()
        for kind, seconds in self._seconds.values():
            total[kind] += seconds
        return ", ".join(f"{kind} {seconds:.1f} s of CPU" for kind, seconds in total.items())

    def _processes(self) -> Iterator[tuple[int, str, float, float]]:
        found = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                before, _, after = path.read_text().rpartition(") ")
                fields = after.split()
                seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                size = int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6
                found[int(path.parent.name)] = int(fields[1]), before.partition("(")[2], seconds, size
        own = {self._process}
        while more := {process for process, (parent, *_) in found.items() if parent in own} - own:
            own |= more
        return ((process, *found[process][1:]) for process in own & found.keys())


def audit(snapshot: Path, code: Path, diverged: int) -> tuple[float, float]:
    """Seconds of an audit by the code below `code`, and the peak of the driver's Python in MB."""
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "audit.yaml")
        config.write_text(json.dumps(HEAP))
        places = ["--config", config, "--warehouse", f"{directory}/warehouse", "--report", f"{directory}/report"]
        command = [sys.executable, "-c", RUN, "run", snapshot, "--no-quality", "--quiet", "--fail-on", "never", *places]
        environment = {**os.environ, "PYTHONPATH": str(code / "lib")}
        before = time.perf_counter()
        process = subprocess.Popen(
            list(map(str, command)),
            env=environment,
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        family = Family(process.pid)
        family.start()
        stdout, stderr = process.communicate()
        took = time.perf_counter() - before
        if process.returncode:
            raise SystemExit(f"the audit ended with {process.returncode}:\n{stdout[-2000:]}{stderr[-2000:]}")
        print(
            f"  peaks {', '.join(f'{kind} {size:.0f} MB' for kind, size in family.peaks.items())}; {family}", flush=True
        )
        report = Path(directory, "report")
        if (report / "audit.jsonl.gz").exists():
            with gzip.open(report / "audit.jsonl.gz", "rt") as lines:
                found = sum(len(json.loads(line).get("divergences", ())) for line in lines)
        else:
            found = len(json.loads((report / "audit.json").read_text())["divergences"])
        if found != diverged:
            raise SystemExit(f"{found} divergences, expected {diverged}")
        return took, family.peaks["driver"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=2, help="of so many partitions one has diverged")
    parser.add_argument("--before", help="a revision to compare with")
    parser.add_argument("--directory", type=Path, help="where the snapshots are made, and removed again")
    arguments = parser.parse_args()
    place = Path(tempfile.mkdtemp(dir=arguments.directory))
    seconds, each = {}, {}
    try:
        codes = {"now": ROOT}
        if arguments.before:
            codes["before"] = code_of(arguments.before, place / "before")
        write_snapshot(place / "few", 3)
        write_snapshot(place / "many", arguments.partitions, arguments.every)
        # Or the first of two audits would share the machine with the writing of so many small files.
        os.sync()
        for name, code in codes.items():
            fixed, _ = audit(place / "few", code, 1)
            took, peak = audit(place / "many", code, arguments.partitions // arguments.every)
            seconds[name], each[name] = took, (took - fixed) / arguments.partitions
            print(
                f"{name}: {took:.1f} s, fixed {fixed:.1f} s, {each[name] * 1e3:.2f} ms a partition; driver's Python {peak:.0f} MB",
                flush=True,
            )
    finally:
        shutil.rmtree(place)
    if "before" not in each:
        return 0
    ratio = seconds["now"] / seconds["before"]
    print(f"{ratio:.2f} of the time (goal 0.33); above the fixed cost {each['now'] / each['before']:.2f}")
    return int(ratio > 1 / 3)


if __name__ == "__main__":
    sys.exit(main())

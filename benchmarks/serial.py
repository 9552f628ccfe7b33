"""Measures what the driver does and holds itself: `.venv/bin/python benchmarks/serial.py [--partitions 2000] [--twice] [--bounded] [--listed]`.

Ingest, audit and report of the partitions of `partitions.py`, each task in a process of its own that ends with it, as on Spark's executors,
but without a JVM. Prints of each step the driver's processor time a partition, the peak of its memory, and the time of tasks by function;
with --twice also of twice as many partitions, and what a further partition adds. With --bounded the report is bounded as above 10,000
partitions: a fifth of the fewer partitions are told in detail. With --listed the snapshot tells the assignment, from which the plan works out
who would be elected.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from partitions import write_snapshot
from pyspark import cloudpickle

from replica_audit.config import Settings
from replica_audit.progress import Progress
from replica_audit.report.report_files import write_report
from replica_audit.runner.executor import InProcess
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.runner.task_planning import cut_stretches
from replica_audit.warehouse.answer_tables import load_results
from replica_audit.warehouse.delta_tables import Warehouse


class Forked(InProcess):
    """A process for each task; counts the bytes that go there and back, the tasks, and their processor time by function."""

    is_apart = True
    parallelism = 2

    def __init__(self) -> None:
        self.sent = self.got = self.tasks = 0
        self.seconds: Counter[str] = Counter()

    def cut(self, items, cost, least):
        return list(cut_stretches(items, cost, max(least, sum(map(cost, items)) // 4)))

    def map(self, tasks, work, ended=None):
        found = []
        for task in tasks:
            self.sent += len(cloudpickle.dumps((work, task)))
            self.tasks += 1
            answer, seconds = self._run(task, work)
            self.seconds[getattr(work, "func", work).__qualname__.rpartition(".")[2]] += seconds
            self.got += len(answer)
            found += pickle.loads(answer)
            if ended is not None:
                ended(task)
        return found

    def _run(self, task, work) -> tuple[bytes, float]:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            status = 1
            try:
                with os.fdopen(writing, "wb") as stream:
                    stream.write(pickle.dumps(list(work(task)), pickle.HIGHEST_PROTOCOL))
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading, "rb") as stream:
            answer = stream.read()
        _, status, used = os.wait4(child, 0)
        if status:
            raise SystemExit("a task failed")
        return answer, used.ru_utime + used.ru_stime


class Watch:
    """The processor time of each step, and the greatest memory seen in it, in MB."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.peaks: dict[str, float] = {}
        self._step = ""
        threading.Thread(target=self._look, daemon=True).start()

    def run(self, step, function):
        self._step = step
        before = time.process_time()
        answer = function()
        self.seconds[step] = time.process_time() - before
        self._note()
        return answer

    def _look(self) -> None:
        while True:
            self._note()
            time.sleep(0.02)

    def _note(self) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.peaks[self._step] = max(self.peaks.get(self._step, 0), pages * os.sysconf("SC_PAGE_SIZE") / 1e6)


def measure(partitions: int, *, is_listed: bool) -> Iterator[tuple[str, float, float, list[int], Counter[str]]]:
    """Each step with its processor time, its peak, and what `Forked` counted, in a process of its own: memory of a step before would
    hide what it needs.
    """
    settings = Settings()
    with tempfile.TemporaryDirectory() as directory:
        write_snapshot(Path(directory, "snapshot"), partitions, is_listed=is_listed)
        steps = {
            "ingest": lambda executor, warehouse: ingest(
                executor, warehouse, f"{directory}/snapshot", settings, Progress()
            ),
            "audit": lambda executor, warehouse: audit(executor, warehouse, None, settings, Progress()),
            "report": lambda executor, warehouse: write_report(
                load_results(warehouse, None, "high", executor), f"{directory}/report", "high"
            ),
        }
        for step, function in steps.items():
            reading, writing = os.pipe()
            if not os.fork():
                executor, watch = Forked(), Watch()
                watch.run(step, lambda: function(executor, Warehouse(f"{directory}/warehouse")))  # noqa: B023
                counts = [executor.sent, executor.got, executor.tasks]
                os.write(writing, pickle.dumps((watch.seconds[step], watch.peaks[step], counts, executor.seconds)))
                os._exit(0)
            os.close(writing)
            with os.fdopen(reading, "rb") as stream:
                yield step, *pickle.loads(stream.read())
            os.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("--bounded", action="store_true")
    parser.add_argument("--listed", action="store_true")
    arguments = parser.parse_args()
    if arguments.bounded:
        from replica_audit.auditing import detailed_partitions

        detailed_partitions.WHOLE = detailed_partitions.DETAILED = arguments.partitions // 5
    seen = []
    for partitions in (arguments.partitions, 2 * arguments.partitions)[: 1 + arguments.twice]:
        found = list(measure(partitions, is_listed=arguments.listed))
        seconds = {step: took for step, took, *_ in found}
        peaks = {step: peak for step, _, peak, *_ in found}
        sent, got, tasks = (sum(numbers) for numbers in zip(*(counts for *_, counts, _ in found)))
        of_tasks = {step: by_function for step, *_, by_function in found}
        seen.append((partitions, seconds, peaks))
        print(
            f"{partitions} partitions, {tasks} tasks; each {sent / partitions:.0f} B to tasks and {got / partitions:.0f} B back"
        )
        for step, took in seconds.items():
            parts = "".join(f", {name} {one / partitions * 1e3:.2f}" for name, one in of_tasks[step].items())
            print(
                f"  {step}: {took / partitions * 1e3:.2f} ms of CPU a partition, {peaks[step]:.0f} MB; tasks{parts}",
                flush=True,
            )
    if len(seen) > 1:
        (few, before, low), (many, after, high) = seen
        for step in before:
            more = (after[step] - before[step]) / (many - few) * 1e3, (high[step] - low[step]) / (many - few) * 1e3
            print(f"a further partition: {step} {more[0]:.2f} ms of CPU, {more[1]:.1f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

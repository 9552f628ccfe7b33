"""The stages of an audit on both executors: in tasks of Spark every capture has the answers that it has in this process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Condition
from typing import Any, TypeVar

from pyspark import cloudpickle
from tests.support.captures import CAPTURES, FIXTURES, audit_opened, audit_whole
from tests.support.report_rows import tables_of

from replica_audit.config import Settings
from replica_audit.results import Results
from replica_audit.runner.executor import Executor, InProcess, deal
from replica_audit.snapshot.opening import open_snapshot

Answer = TypeVar("Answer")


class Together:
    """Runs audits in a thread each; when all that go on have asked for tasks, these are one job."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._changed = Condition()
        self._running = 0
        self._asked: dict[str, list[bytes]] = {}
        self._found: dict[str, list[Any] | Exception] = {}
        self.jobs = 0

    def run(self, audits: Mapping[str, Callable[[Executor], Answer]]) -> dict[str, Answer]:
        """Answers of each audit with the given executor."""
        self._running = len(audits)
        with ThreadPoolExecutor(len(audits)) as pool:
            begun = {name: pool.submit(self._one, name, audit) for name, audit in audits.items()}
        return {name: one.result() for name, one in begun.items()}

    def ask(self, name: str, pickled: list[bytes]) -> list[Any]:
        """The results of the pickled (work, task) of one audit."""
        with self._changed:
            self._asked[name] = pickled
            self._start_if_all_wait()
            self._changed.wait_for(lambda: name in self._found)
            found = self._found.pop(name)
        if isinstance(found, Exception):
            raise found
        return found

    def _one(self, name: str, audit: Callable[[Executor], Answer]) -> Answer:
        try:
            return audit(_OfOne(self, name, self._executor))
        finally:
            with self._changed:
                self._running -= 1
                self._start_if_all_wait()

    def _start_if_all_wait(self) -> None:
        if not self._asked or len(self._asked) < self._running:
            return
        asked, self._asked = self._asked, {}

        # Spark's workers know nothing of tests: a function in a function is sent whole.
        def work(units: list[tuple[str, bytes]]) -> Iterator[tuple[str, Any]]:
            for name, pickled in units:
                own, task = pickle.loads(pickled)
                yield from ((name, one) for one in own(task))

        units = [(name, one) for name, of_one in asked.items() for one in of_one]
        self.jobs += 1
        try:
            results = self._executor.map(deal(units, 8), work)
        except Exception as error:
            self._found.update(dict.fromkeys(asked, error))
        else:
            self._found.update({name: [one for other, one in results if other == name] for name in asked})
        self._changed.notify_all()


class _OfOne(InProcess):
    """The executor of one of the audits; its tasks are cut as the shared one cuts them."""

    def __init__(self, together: Together, name: str, executor: Executor) -> None:
        self._together, self._name = together, name
        self.parallelism = executor.parallelism
        self.cut = executor.cut

    def map(
        self, tasks: Sequence[Any], work: Callable[[Any], Iterable[Any]], ended: Callable[[Any], None] | None = None
    ) -> list[Any]:
        if not tasks:
            return []
        return self._together.ask(self._name, [cloudpickle.dumps((work, task)) for task in tasks])


def _audit(capture: str, executor: Executor) -> Results:
    return audit_opened(*open_snapshot(str(FIXTURES / capture), (), None), Settings(), executor=executor)


def test_tasks_of_spark_have_the_answers_of_this_process(spark) -> None:
    from replica_audit.spark.tasks import SparkExecutor

    together = Together(SparkExecutor(spark))
    audits: dict[str, Callable[[Executor], Results]] = {capture: partial(_audit, capture) for capture in CAPTURES}
    found = together.run(audits)
    assert together.jobs <= 4, (
        "all partitions, the coordinator, those that waited for it, the coordinator for lost writers"
    )
    for capture, results in found.items():
        shown = audit_whole(FIXTURES / capture)
        assert tables_of(results) == tables_of(shown), capture
        times = ("started", "finished")
        assert {**results.audit, **dict.fromkeys(times)} == {**shown.audit, **dict.fromkeys(times)}, capture

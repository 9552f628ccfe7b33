"""The stages of an audit on both executors: in tasks of Spark every capture has the answers that it has in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.support.captures import CAPTURES, FIXTURES, audit_opened, audit_whole
from tests.support.together import Together

from replica_audit.auditing.opening import open_snapshot
from replica_audit.config import Settings
from replica_audit.results import Results
from replica_audit.runner.executor import Executor


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
        assert {table: results.rows(table) for table in results.tables} == shown.tables, capture
        times = ("started", "finished")
        assert {**results.audit, **dict.fromkeys(times)} == {**shown.audit, **dict.fromkeys(times)}, capture

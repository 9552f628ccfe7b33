"""What the DAG file needs of Airflow, as far as it can be had without it: names that write down how they were used.

It proves that the file runs, what it asks Airflow for and what its own functions do; that Airflow grants it is proven
by test_scheduled_runs.py. A name or parameter that is not here fails, as it would in an Airflow that lacks it.
"""

from __future__ import annotations

import logging
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch


class Recorded:
    """One thing that the file made: its kind, and what it was made with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs
        self.before: list[Any] = []

    def __rshift__(self, other: Any) -> Any:
        for one in other if isinstance(other, list) else [other]:
            one.before.append(self)
        return other

    def __rrshift__(self, others: list[Any]) -> Any:
        self.before += others
        return self

    def __hash__(self) -> int:
        return id(self)


class DAG(Recorded):
    def __enter__(self) -> DAG:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class Asset(Recorded):
    pass


class CronPartitionTimetable(Recorded):
    pass


class Param(Recorded):
    pass


class SparkSubmitOperator(Recorded):
    #: Parameters that Airflow fills in from Jinja templates (`template_fields` of the provider's operator).
    templated = {
        "application", "application_args", "conf", "env_vars", "files", "jars", "name", "packages", "properties_file",
        "py_files",
    }  # fmt: skip
    template_fields = tuple(sorted(templated))
    log = logging.getLogger("airflow")

    def execute(self, context: Any) -> None:
        """Run `context`, in place of spark-submit."""
        context()


class TaskCall(Recorded):
    """A call of a decorated function while the DAG is built: nothing is run, the arguments are kept."""

    def __init__(self, function: Any, options: dict[str, Any], /, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.function, self.options = function, options


class Task:
    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        self.function, self.options = function, options
        self.calls: list[TaskCall] = []
        self.given: dict[str, Any] = {}

    def override(self, **options: Any) -> Task:
        return Task(self.function, {**self.options, **options})

    def partial(self, **given: Any) -> Task:
        self.given = given
        return self

    def expand(self, **mapped: Any) -> TaskCall:
        return self(**self.given, **mapped)

    def __call__(self, *args: Any, **kwargs: Any) -> TaskCall:
        self.calls.append(TaskCall(self.function, self.options, *args, **kwargs))
        return self.calls[-1]


def task(function: Any = None, **options: Any) -> Any:
    return (lambda late: Task(late, options)) if function is None else Task(function, options)


# What the function returns is run by bash.
task.bash = task  # type: ignore[attr-defined]


class RetryPolicy:
    pass


class RetryDecision(Recorded):
    @classmethod
    def fail(cls, reason: str) -> RetryDecision:
        return cls("fail", reason)

    @classmethod
    def default(cls) -> RetryDecision:
        return cls("default")


class AirflowFailException(Exception):
    pass


class AirflowSkipException(Exception):
    pass


def load_dag(path: Path) -> dict[str, Any]:
    """Globals of the DAG file, run with the stand-ins in Airflow's place."""
    offered = {
        "airflow": {},
        "airflow.sdk": {"DAG": DAG, "Asset": Asset, "CronPartitionTimetable": CronPartitionTimetable, "Param": Param, "RetryDecision": RetryDecision,
                        "RetryPolicy": RetryPolicy, "task": task},
        "airflow.sdk.exceptions": {"AirflowFailException": AirflowFailException, "AirflowSkipException": AirflowSkipException},
        "airflow.providers": {},
        "airflow.providers.apache": {},
        "airflow.providers.apache.spark": {},
        "airflow.providers.apache.spark.operators": {},
        "airflow.providers.apache.spark.operators.spark_submit": {"SparkSubmitOperator": SparkSubmitOperator},
    }  # fmt: skip
    modules = {}
    for name, content in offered.items():
        modules[name] = ModuleType(name)
        modules[name].__path__ = []
        vars(modules[name]).update(content)
    with patch.dict(sys.modules, modules):
        return runpy.run_path(str(path))

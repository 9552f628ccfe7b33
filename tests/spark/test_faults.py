"""Faults of the engine in one sentence that says what to do. No JVM: the errors are as Spark and the system raise them."""

from __future__ import annotations

import errno
import io
import os
from collections import deque

import pytest

from replica_audit.config import Settings
from replica_audit.spark import jvm_stderr as relay_module
from replica_audit.spark.engine_errors import describe_fault

SETTINGS = Settings(warehouse="/w", report="/r")


def of_engine(name: str, text: str) -> Exception:
    """An error whose class lives in the engine's packages, with the text that it has there."""
    return type(name, (Exception,), {"__module__": "py4j.protocol" if name.startswith("Py4J") else "pyspark.errors"})(
        text
    )


TRACE = "\n\tat org.apache.spark.Job.run(Job.scala:1)\n" * 700

CASES = {
    "disk full in a task": (
        of_engine(
            "Py4JJavaError",
            "An error occurred while calling o1.save.\n: java.io.IOException: No space left on device" + TRACE,
        ),
        "no space is left on the disk: make room where the warehouse (/w), the report (/r) and the temporary directory are, and run again",
    ),
    "disk full in the report": (
        OSError(errno.ENOSPC, "No space left on device", "/r/.audit.tmp"),
        "no space is left on the disk (/r/.audit.tmp): make room",
    ),
    "read-only warehouse": (
        of_engine(
            "Py4JJavaError",
            "java.nio.file.FileSystemException: /w/batches/_delta_log/0.json: Read-only file system" + TRACE,
        ),
        "no permission to write or read (/w/batches/_delta_log/0.json): check the warehouse (/w)",
    ),
    "a table's file is gone": (
        of_engine(
            "PySparkRuntimeError",
            "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///w/batches/part-0.snappy.parquet. "
            "File does not exist." + TRACE,
        ),
        "the warehouse /w is damaged: /w/batches/part-0.snappy.parquet is missing; restore it, or move the warehouse away and run again",
    ),
    "a commit is cut short": (
        of_engine(
            "Py4JJavaError",
            "com.fasterxml.jackson.core.io.JsonEOFException: Unexpected end-of-input in file /w/audits/_delta_log/00000000000000000003.json"
            + TRACE,
        ),
        "the warehouse /w is damaged: /w/audits/_delta_log/00000000000000000003.json cannot be read; restore it",
    ),
    "Java is gone": (
        of_engine("Py4JNetworkError", "Answer from Java side is empty"),
        "the Java process ended unexpectedly",
    ),
    "Java's heap is full": (
        of_engine("Py4JJavaError", "java.lang.OutOfMemoryError: Java heap space" + TRACE),
        "Java ran out of memory: give it more with spark.driver.memory",
    ),
    "a task of ours": (
        of_engine(
            "PythonException",
            "An exception was thrown:\nTraceback (most recent call last):\n  File ...\nValueError: odd row\n",
        ),
        "the engine failed: ValueError: odd row",
    ),
    "something else": (
        of_engine("AnalysisException", "[NO_SUCH_THING] not there" + TRACE),
        "the engine failed: AnalysisException: [NO_SUCH_THING] not there",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_one_sentence_that_says_what_to_do(name: str) -> None:
    error, said = CASES[name]
    sentence = describe_fault(error, SETTINGS)
    assert sentence is not None and sentence.startswith(said)
    assert "\n" not in sentence and len(sentence) < 400 and "\tat " not in sentence


def test_what_caused_an_error_is_looked_at_too() -> None:
    try:
        try:
            raise of_engine("Py4JJavaError", "java.io.IOException: No space left on device")
        except Exception as error:
            raise RuntimeError("a stage failed") from error
    except RuntimeError as error:
        assert (describe_fault(error, SETTINGS) or "").startswith("no space is left")


def test_a_fault_of_the_program_is_none_of_the_engine() -> None:
    assert describe_fault(KeyError("x"), SETTINGS) is None


def test_what_java_logs_as_errors_is_held_back_with_its_traces(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(relay_module, "HELD_BACK", deque(maxlen=100))
    lines = [
        b"OpenJDK 64-Bit Server VM warning: odd",
        b"2026-11-22T16:28:41.781Z ERROR Executor: Exception in task 0.0",
        b"java.io.IOException: No space left on device",
        b"\tat java.base/java.io.FileOutputStream.write(Unknown Source)",
        b"2026-11-22T16:28:42.001Z WARN TaskSetManager: Lost task 0.0",
        b"2026-11-22T16:28:42.781Z ERROR TaskSetManager: Task 0 failed 1 times",
    ]
    relay = relay_module.Relay(io.BytesIO(b"\n".join(lines)))
    relay.thread.join()
    assert capfd.readouterr().err.encode().splitlines() == [lines[0], lines[4]]
    assert relay_module.logged_errors().encode().split(b"\n") == [*lines[1:4], lines[5]]
    assert relay.last_words().endswith("Task 0 failed 1 times") and os.fstat(2)

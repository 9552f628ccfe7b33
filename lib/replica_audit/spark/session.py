"""Starts the Spark session that every stage runs in: a fast local one, or the one that spark-submit provides.

A local session takes its JARs from the installation, its classes from the archive where there is one, and reaches no
network. A provided session keeps everything that it was given; only what Delta cannot do without is added.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO

from replica_audit.errors import EngineError
from replica_audit.scratch import scratch_directory
from replica_audit.spark.archive import archive_path
from replica_audit.spark.environment import check_jars, check_packages, check_worker_python, find_java, worker_python
from replica_audit.spark.installation import conf_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"

#: What the tables and the Python readers need, wherever the session runs.
ENGINE_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "spark.sql.extensions": DELTA_EXTENSION,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
)

#: A local audit is many small tables: what counts is the number of tasks and of classes, not throughput.
LOCAL_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "spark.master": "local[*]",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        # Delta replays a table's log in this many tasks, 50 unless told: most of the time of a small read.
        "spark.databricks.delta.snapshotPartitions": "2",
        # VACUUM lists a table's files in this many tasks, 10,000 unless told: minutes for the smallest table.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
        # Minima and maxima of every column cost more than the rows, and nothing here skips files by them.
        "spark.databricks.delta.stats.collect": "false",
        # Most queries here see a few rows once: compiling code for each costs more than running them without.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # A crash of a Python worker then says where it was.
        "spark.python.worker.faulthandler.enabled": "true",
    }
)

#: C1 and serial GC: a JVM that lives for seconds on few cores. Warnings of the JVM go where all others go.
LOCAL_JAVA_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    # C1 alone reserves 48 MB for code, which Spark fills; compilation then stops for good.
    "-XX:ReservedCodeCacheSize=256m",
    "-XX:+UseSerialGC",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
)

#: Settings that a caller adds to ours instead of replacing it, with what goes between.
_JOINED = {"spark.sql.extensions": ",", "spark.driver.extraJavaOptions": " ", "spark.driver.extraClassPath": os.pathsep}

#: Said by every JVM that spark-submit starts, since it asks for that module; nothing can be done about it.
_NOISE = (b"WARNING: Using incubator modules",)

#: The beginning of an entry of the JVM's log, as conf/log4j2.properties has it.
_LOG_ENTRY = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z ([A-Z]+) ")
_HELD_BACK: deque[bytes] = deque(maxlen=20_000)


def build_session(
    app_name: str, settings: Mapping[str, str] = MappingProxyType({}), local: bool | None = None
) -> SparkSession:
    """The Spark session called `app_name`, with Delta's tables in it.

    `settings` go before our own, but not before those of spark-submit. `local` None means: local unless spark-submit
    or a running session provides one. Raises EngineError, in one sentence, when Java, JARs, packages or the workers'
    interpreter do not fit, or the JVM does not start.
    """
    check_packages()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        session = running
        for key, value in settings.items():
            if session.conf.isModifiable(key):
                session.conf.set(key, value)
    elif local is False or (local is None and _is_provided()):
        session = _provided_session(app_name, settings)
    else:
        if SparkContext._active_spark_context is None:
            _start_local_context(app_name, settings)
        session = SparkSession.builder.getOrCreate()
    _check_delta(session)
    return session


def _is_provided() -> bool:
    """Whether spark-submit started this process (it hands over the port of its JVM), or a context is running."""
    from pyspark import SparkContext

    if "SPARK_REMOTE" in os.environ:
        raise EngineError("SPARK_REMOTE is set, but Spark Connect is not supported; unset it or use spark-submit")
    return "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._active_spark_context is not None


def local_settings(app_name: str, settings: Mapping[str, str]) -> dict[str, str]:
    """All settings of a local session: ours, then `settings`; Java flags, class path and extensions are joined.

    Raises EngineError where Java or JARs do not fit.
    """
    java, jars = find_java(), check_jars()
    flags = list(LOCAL_JAVA_FLAGS)
    logging = conf_file("log4j2.properties")
    if logging is not None:
        flags.append(f"-Dlog4j2.configurationFile={logging.as_uri()}")
    archive = archive_path(java, jars)
    if archive.is_file():
        flags.append(f'"-XX:SharedArchiveFile={archive}"')
    return _joined(
        {
            **ENGINE_SETTINGS,
            **LOCAL_SETTINGS,
            "spark.app.name": app_name,
            "spark.driver.extraJavaOptions": " ".join(flags),
            # Not spark.jars: those are copied at every start, and are loaded by a loader that no archive covers.
            "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        },
        settings,
    )


def _joined(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    merged = dict(ours)
    for key, value in theirs.items():
        separator = _JOINED.get(key)
        parts = [merged.get(key, ""), str(value)] if separator else [str(value)]
        if key == "spark.sql.extensions":
            parts = list(dict.fromkeys(name.strip() for part in parts for name in part.split(",")))
        merged[key] = (separator or "").join(filter(None, parts))
    return merged


def _start_local_context(app_name: str, settings: Mapping[str, str]) -> None:
    import pyspark
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    os.environ["JAVA_HOME"] = str(find_java().home)
    # Another Spark on the machine must not be mixed with this one's Python half.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    check_worker_python(worker_python(dict(os.environ), None), remote=False)
    chosen = local_settings(app_name, settings)
    scratch = scratch_directory()
    if chosen.get("spark.sql.catalogImplementation") != "hive":
        # Spark's own catalog makes a directory where the user works as soon as it is looked at.
        chosen.setdefault("spark.sql.warehouse.dir", str(scratch / "spark-warehouse"))
    flags = chosen["spark.driver.extraJavaOptions"]
    if "-Djava.io.tmpdir=" not in flags:
        # The JVM's files go with the process then, even when it is killed; its performance data lies elsewhere.
        chosen["spark.driver.extraJavaOptions"] = f'{flags} "-Djava.io.tmpdir={scratch}" -XX:-UsePerfData'
    conf = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
    # The JVM's own words go to stderr; stdout belongs to results.
    reader, writer = os.pipe()
    relay = _Relay(os.fdopen(reader, "rb", buffering=0))
    try:
        gateway = launch_gateway(conf, {"stdout": writer, "stderr": writer})
    except PySparkRuntimeError as error:
        os.close(writer)
        relay.thread.join(timeout=5)
        raise EngineError(f"Java did not start; it said: {relay.last_words() or 'nothing'}") from error
    os.close(writer)
    try:
        SparkContext(conf=conf, gateway=gateway)
    except Py4JJavaError as error:
        raise EngineError(f"Spark did not start: {error.java_exception.getMessage()}") from error


class _Relay:
    """Copies what the JVM writes to our stderr, line by line, without `_NOISE`.

    What it logs as errors, traces with them, is held back: whoever catches the error tells it in a sentence.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._lines: deque[bytes] = deque(maxlen=5)
        self._holding = False
        self.thread = threading.Thread(target=self._run, name="jvm-stderr", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        # Where stderr leads to now, not where it led at the start: at an interruption it leads nowhere.
        with os.fdopen(2, "wb", buffering=0, closefd=False) as target, self._source as source:
            rest = b""
            while block := source.read(1 << 16):
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    if not line.startswith(_NOISE):
                        self._pass_on(line, target)
            if rest:
                self._pass_on(rest, target)

    def _pass_on(self, line: bytes, target: BinaryIO) -> None:
        self._lines.append(line)
        if entry := _LOG_ENTRY.match(line):
            self._holding = entry[1] in (b"ERROR", b"FATAL")
        if self._holding:
            _HELD_BACK.append(line)
        else:
            target.write(line + b"\n")

    def last_words(self) -> str:
        return b" / ".join(self._lines).decode(errors="replace")


def logged_errors() -> str:
    """What the JVMs of this process logged as errors so far, traces included; the latest lines of very many."""
    return b"\n".join(_HELD_BACK).decode(errors="replace")


def _provided_session(app_name: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # Only with the JVM connected does a SparkConf hold what spark-submit was given.
    SparkContext._ensure_initialized()
    given = dict(SparkConf().getAll())
    remote = not given.get("spark.master", "local").startswith("local")
    check_worker_python(worker_python(dict(os.environ), given.get("spark.pyspark.python")), remote=remote)
    wanted = _joined(ENGINE_SETTINGS, settings)
    extensions = _joined(wanted, {key: value for key, value in given.items() if key == "spark.sql.extensions"})
    builder = SparkSession.builder.appName(given.get("spark.app.name", app_name))
    for key, value in {**wanted, **given, "spark.sql.extensions": extensions["spark.sql.extensions"]}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _check_delta(session: SparkSession) -> None:
    """Raise EngineError unless the session's JVM can load Delta and was started with its extension and catalog."""
    from py4j.protocol import Py4JJavaError

    loader = session._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(DELTA_EXTENSION)
    except Py4JJavaError as error:
        raise EngineError(
            f"the session's JVM has no class {DELTA_EXTENSION}; "
            "give spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 (or --jars with those of conf/jars.lock)"
        ) from error
    for key in ("spark.sql.extensions", "spark.sql.catalog.spark_catalog"):
        found, expected = session.conf.get(key, ""), ENGINE_SETTINGS[key]
        if expected not in (found or ""):
            raise EngineError(
                f"the running session has {key}={found!r}, expected {expected}; start it with conf/spark-defaults.conf"
            )

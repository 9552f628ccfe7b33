"""The Spark session that every stage runs in: a fast local one, or the one that spark-submit provides.

A local session takes its JARs from the installation, its classes from the archive if there is one, and uses no network. A
provided session keeps all its settings, and only what it lacks is added. A run needs jobs and no SQL, which takes two seconds
to start, so that half is started on first use.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from replica_audit.errors import EngineError
from replica_audit.install.environment import check_packages, check_worker_python, find_java, worker_python
from replica_audit.install.installation import check_delta_jar, check_spark
from replica_audit.install.session_settings import (
    DELTA_EXTENSION,
    DELTA_SETTINGS,
    ENGINE_SETTINGS,
    WORKER_DAEMON,
    joined_settings,
    local_settings,
)
from replica_audit.redaction import redact
from replica_audit.scratch import scratch_directory
from replica_audit.spark.jvm_stderr import Relay

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

#: Converters of numpy's values for Java, until SQL is used.
_aside: list[Any] = []

#: Default port of a Connect server.
_CONNECT_PORT = 15002


class LazySession:
    """A Spark session whose SQL half starts with the first use of anything but `sparkContext` and `stop`."""

    def __init__(self, context: SparkContext, settings: Mapping[str, str], delta: bool) -> None:
        self.sparkContext = context
        self._settings = settings
        self._delta = delta
        self._session: SparkSession | None = None

    def open(self) -> SparkSession:
        """The full session. Raises EngineError if it is to have Delta and does not."""
        from pyspark.sql import SparkSession

        if self._session is None:
            _take_numpy_back()
            builder = SparkSession.builder
            for key, value in self._settings.items():
                builder = builder.config(key, value)
            session = builder.getOrCreate()
            if self._delta:
                _check_delta(session)
            self._session = session
        return self._session

    def stop(self) -> None:
        # Spark's accumulator server checks once a second whether it is to end; nobody has to wait for that.
        server = getattr(self.sparkContext, "_accumulatorServer", None)
        if server is not None:
            # Its value before the first context starts, which pyspark's types leave out.
            self.sparkContext._accumulatorServer = None  # type: ignore[assignment]
            threading.Thread(target=server.shutdown, name="accumulators", daemon=True).start()
        (self._session or self.sparkContext).stop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.open(), name)


def start_session(
    app_name: str,
    settings: Mapping[str, str] = MappingProxyType({}),
    local: bool = False,
    meanwhile: Callable[[], object] | None = None,
    delta: bool = False,
) -> LazySession | SparkSession:
    """The Spark session called `app_name`; a running one is used as it is.

    `settings` override our own, but not those of spark-submit. The session is `local` unless spark-submit or a running session
    provides one, or SPARK_REMOTE names a Spark Connect server; with `local` it is anyway. `meanwhile` is called before a local JVM starts, once
    everything it needs is known to be there. With `delta` its SQL has Delta's tables. Raises EngineError, in one sentence, if
    Java, JARs, packages or the workers' interpreter do not fit, the JVM does not start, or no server answers.
    """
    check_packages()
    if "SPARK_REMOTE" in os.environ and not local:
        return _remote_session(settings)
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        for key, value in settings.items():
            if running.conf.isModifiable(key):
                running.conf.set(key, value)
        if delta:
            _check_delta(running)
        return running
    _put_numpy_aside()
    if not local and _is_provided():
        return _provided_session(app_name, settings, delta)
    context = SparkContext._active_spark_context or _start_local_context(app_name, settings, meanwhile)
    return LazySession(context, {}, delta)


def build_session(
    app_name: str, settings: Mapping[str, str] = MappingProxyType({}), local: bool = False
) -> SparkSession:
    """`start_session` with SQL and Delta's tables at once."""
    session = start_session(app_name, settings, local, delta=True)
    return session.open() if isinstance(session, LazySession) else session


def _remote_session(settings: Mapping[str, str]) -> SparkSession:
    """A session of its own on the Spark Connect server that SPARK_REMOTE names.

    Tables are written without Spark, so the server needs nothing of Delta unless they are in a catalog.
    """
    # Checked first: without them Spark ends the process of a `python -c`, with 0.
    if lacking := [name for name in ("grpc", "grpc_status") if importlib.util.find_spec(name) is None]:
        raise EngineError(
            f"SPARK_REMOTE is set, but this Python lacks {lacking[0]} of Spark Connect's client; "
            "pip install 'pyspark[connect]', or unset SPARK_REMOTE"
        )
    from pyspark.sql import SparkSession

    address = os.environ["SPARK_REMOTE"]
    try:
        # The client asks again for ten minutes.
        if parts := re.match(r"sc://(\[[^]]+\]|[^:/;]+)(?::(\d+))?", address):
            socket.create_connection((parts[1].strip("[]"), int(parts[2] or _CONNECT_PORT)), timeout=30).close()
        session = SparkSession.builder.remote(address).getOrCreate()
        session.conf.get("spark.sql.session.timeZone")
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        place = redact(address.partition(";")[0])
        raise EngineError(f"no Spark Connect server answers at {place} (SPARK_REMOTE): {reason}") from error
    for key, value in settings.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def _is_provided() -> bool:
    """True if spark-submit started this process (it passes the port of its JVM), or a context is running."""
    from pyspark import SparkContext

    return "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._active_spark_context is not None


def _start_local_context(
    app_name: str, settings: Mapping[str, str], meanwhile: Callable[[], object] | None
) -> SparkContext:
    import pyspark
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    # Another Spark on the machine must not be mixed with this one's Python half.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    check_worker_python(worker_python(dict(os.environ), None), remote=False)
    chosen = local_settings(app_name, settings, java)
    if os.environ["PYSPARK_PYTHON"] == sys.executable and "spark.pyspark.python" not in chosen:
        chosen.setdefault("spark.python.daemon.module", WORKER_DAEMON)
    scratch = scratch_directory()
    if chosen.get("spark.sql.catalogImplementation") != "hive":
        # Spark's own catalog makes a directory in the working directory as soon as it is used.
        chosen.setdefault("spark.sql.warehouse.dir", str(scratch / "spark-warehouse"))
    flags = chosen["spark.driver.extraJavaOptions"]
    if "-Djava.io.tmpdir=" not in flags:
        # The JVM's files then go with the process, even when it is killed; its performance data lies elsewhere.
        chosen["spark.driver.extraJavaOptions"] = f'{flags} "-Djava.io.tmpdir={scratch}" -XX:-UsePerfData'
    conf = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
    if meanwhile is not None:
        meanwhile()
    # The JVM's own output goes to stderr; stdout belongs to results.
    reader, writer = os.pipe()
    relay = Relay(os.fdopen(reader, "rb", buffering=0))
    ahead = threading.Thread(target=_import_ahead, name="imports")
    ahead.start()
    try:
        gateway = launch_gateway(conf, {"stdout": writer, "stderr": writer})
        ahead.join()
    except PySparkRuntimeError as error:
        os.close(writer)
        relay.thread.join(timeout=5)
        raise EngineError(f"Java did not start; it said: {relay.last_words() or 'nothing'}") from error
    os.close(writer)
    try:
        return SparkContext(conf=conf, gateway=gateway)
    except Py4JJavaError as error:
        raise EngineError(f"Spark did not start: {error.java_exception.getMessage()}") from error


def _put_numpy_aside() -> None:
    """No value of numpy goes to Java without SQL; pyspark's converters of them would import pandas when anything goes there."""
    from py4j.protocol import INPUT_CONVERTER
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

    _aside.extend(one for one in INPUT_CONVERTER if isinstance(one, (NumpyArrayConverter, NumpyScalarConverter)))
    INPUT_CONVERTER[:] = [one for one in INPUT_CONVERTER if one not in _aside]


def _take_numpy_back() -> None:
    from py4j.protocol import INPUT_CONVERTER

    # First, since an array would be taken for a Python list.
    INPUT_CONVERTER[:0] = _aside
    _aside.clear()


def _import_ahead() -> None:
    """Import, while Java or Spark starts, what takes about as long."""
    for name in ("replica_audit.api.answers", "replica_audit.spark.pipeline", "deltalake"):
        importlib.import_module(name)


def _provided_session(app_name: str, settings: Mapping[str, str], delta: bool) -> LazySession:
    from pyspark import SparkConf, SparkContext

    # A SparkConf has the settings of spark-submit only with the JVM connected.
    SparkContext._ensure_initialized()
    given = dict(SparkConf().getAll())
    remote = not given.get("spark.master", "local").startswith("local")
    check_worker_python(worker_python(dict(os.environ), given.get("spark.pyspark.python")), remote=remote)
    ours = {"spark.app.name": app_name, **ENGINE_SETTINGS, **(DELTA_SETTINGS if delta else {})}
    if remote:
        ours |= _daemon_settings(given.get("spark.submit.pyFiles", ""))
    chosen = joined_settings(joined_settings(ours, settings), given)
    ahead = threading.Thread(target=_import_ahead, name="imports")
    ahead.start()
    context = SparkContext.getOrCreate(SparkConf().setAll(list(chosen.items())))
    ahead.join()
    # A running context does not have them.
    return LazySession(context, chosen, delta)


def _daemon_settings(py_files: str) -> dict[str, str]:
    """Settings with which executors fork their workers from our daemon; it is imported before Spark adds `py_files` to the path."""
    settings = {"spark.python.daemon.module": WORKER_DAEMON}
    home = Path(__file__).parents[2].name
    if home in map(os.path.basename, py_files.split(",")):
        # An executor finds it in its working directory.
        settings["spark.executorEnv.PYTHONPATH"] = home
    return settings


def _check_delta(session: SparkSession) -> None:
    """Raise EngineError unless the session's JVM can load Delta and was started with its extension and catalog."""
    from py4j.protocol import Py4JJavaError

    jvm = session._jvm
    assert jvm is not None  # only a session of Spark Connect has none, and is not checked
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        found = loader.loadClass(DELTA_EXTENSION)
    except Py4JJavaError as error:
        raise EngineError(
            f"the session's JVM has no class {DELTA_EXTENSION}; "
            f"give spark-submit --packages {check_spark(session.version).package} (or --jars with those of conf/jars-*.lock)"
        ) from error
    source = found.getProtectionDomain().getCodeSource()
    if source is not None:
        check_delta_jar(session.version, source.getLocation().toString())
    for key, expected in DELTA_SETTINGS.items():
        has = session.conf.get(key, "")
        if expected not in (has or ""):
            raise EngineError(f"the running session has {key}={has!r}, expected {expected}; start it with that")

"""Settings that our Spark sessions start with: what workers and Delta need, and what makes a local session fast."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from replica_audit.install.environment import Java, check_jars
from replica_audit.install.installation import conf_file, share_directory


def archive_path(java: Java, jars: Sequence[Path]) -> Path:
    """Path of the class archive for this Java with these JARs; it need not exist.

    Its name is a digest of the Java's version and home and of name, size and time of every JAR on the class path.
    """
    import pyspark

    own = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    digest = hashlib.sha256(f"{java.version}\n{java.home}\n".encode())
    for path in [*jars, *own]:
        status = path.stat()
        digest.update(f"{path}\n{status.st_size}\n{status.st_mtime_ns}\n".encode())
    return share_directory() / "classes" / f"{digest.hexdigest()[:16]}.jsa"


DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
#: Needed by SQL on Delta tables: only tables in a catalog are such.
DELTA_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "spark.sql.extensions": DELTA_EXTENSION,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
)
#: Needed by SQL and by workers, wherever the session runs.
ENGINE_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "spark.sql.session.timeZone": "UTC",
        # As `process_start.use_systems_memory`.
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    }
)
#: A local audit has few jobs and small queries: the number of tasks and of classes counts, not throughput.
LOCAL_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "spark.master": "local[*]",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        # Delta replays a table's log in this many tasks, by default 50: most of the time of a small read.
        "spark.databricks.delta.snapshotPartitions": "2",
        # Most queries here see a few rows once: compiling code for each costs more than it saves.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # Shows where a Python worker crashed.
        "spark.python.worker.faulthandler.enabled": "true",
    }
)
#: Module that pyspark is to fork its workers from.
WORKER_DAEMON = "replica_audit.install.worker_daemon"
#: C1 and serial GC suit a JVM that lives for seconds on few cores, while the work is Python's.
JAVA_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    # With C1 alone the JVM reserves 48 MB for code, which Spark fills; compilation then stops for good.
    "-XX:ReservedCodeCacheSize=256m",
    "-XX:+UseSerialGC",
)
#: JVM warnings go to stderr with the others.
LOCAL_JAVA_FLAGS = (*JAVA_FLAGS, "-Xlog:disable", "-Xlog:all=error:stderr")
CLUSTER_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "spark.executor.extraJavaOptions": " ".join(JAVA_FLAGS),
        # A run tells its progress itself.
        "spark.ui.enabled": "false",
        # A small snapshot is one task: a second executor would start for nothing. More come while tasks wait.
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.initialExecutors": "1",
    }
)
#: Settings that a caller's value is appended to instead of replacing, with the separator.
_JOINED = {
    "spark.sql.extensions": ",",
    "spark.driver.extraJavaOptions": " ",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.executorEnv.PYTHONPATH": os.pathsep,
}


def local_settings(app_name: str, settings: Mapping[str, str], java: Java) -> dict[str, str]:
    """All settings of a local session on `java`: ours, overridden by `settings`; what `joined_settings` joins is joined.

    Raises EngineError where the JARs are not as locked.
    """
    ours = {**DELTA_SETTINGS, **ENGINE_SETTINGS, **LOCAL_SETTINGS, **_jvm_settings(java), "spark.app.name": app_name}
    logging = conf_file("log4j2.properties")
    if logging is not None:
        ours["spark.driver.extraJavaOptions"] += f" -Dlog4j2.configurationFile={logging.as_uri()}"
    return joined_settings(ours, settings)


def cluster_settings(java: Java) -> dict[str, str]:
    """Settings of spark-submit for a driver on this machine, with `java`, and executors anywhere.

    Executors get no JARs: they run Python, and read Parquet at most. Raises EngineError where the JARs are not as locked.
    """
    return {**CLUSTER_SETTINGS, **_jvm_settings(java), "spark.pyspark.driver.python": sys.executable}


def _jvm_settings(java: Java) -> dict[str, str]:
    """Flags and class path of a driver's JVM, which the class archive fits."""
    jars = check_jars()
    archive = archive_path(java, jars)
    flags = [*LOCAL_JAVA_FLAGS, *([f'"-XX:SharedArchiveFile={archive}"'] if archive.is_file() else [])]
    return {
        "spark.driver.extraJavaOptions": " ".join(flags),
        # Not spark.jars: those are copied at every start, and their loader uses no class archive.
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
    }


def joined_settings(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """`ours` overridden by `theirs`; extensions, Java flags, class path and module search path are joined."""
    merged = dict(ours)
    for key, value in theirs.items():
        separator = _JOINED.get(key)
        parts = [merged.get(key, ""), str(value)] if separator else [str(value)]
        if key == "spark.sql.extensions":
            parts = list(dict.fromkeys(name.strip() for part in parts for name in part.split(",")))
        merged[key] = (separator or "").join(filter(None, parts))
    return merged

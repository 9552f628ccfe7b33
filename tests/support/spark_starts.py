"""Settings of a short-lived Spark, by spark-submit or in a script: nothing that pays off only later."""

from __future__ import annotations

from replica_audit.install.session_settings import LOCAL_JAVA_FLAGS, LOCAL_SETTINGS

_FAST = (
    "spark.ui.enabled",
    "spark.databricks.delta.snapshotPartitions",
    "spark.sql.codegen.wholeStage",
    "spark.sql.codegen.factoryMode",
)

#: Arguments of spark-submit; what a test gives after them replaces them.
BRIEF_SPARK = [part for name in _FAST for part in ("--conf", f"{name}={LOCAL_SETTINGS[name]}")]
#: And those of a driver for which no properties file has them.
BRIEF_JAVA = ["--driver-java-options", " ".join(LOCAL_JAVA_FLAGS)]
#: Of the environment: the JVM that reads these arguments.
BRIEF_LAUNCHER = {"SPARK_LAUNCHER_OPTS": " ".join(LOCAL_JAVA_FLAGS)}
#: Of the environment of a script that makes a session of its own, to which nobody gives arguments.
BRIEF_SCRIPT = {
    **BRIEF_LAUNCHER,
    "SPARK_SUBMIT_OPTS": " ".join((*LOCAL_JAVA_FLAGS, *(f"-D{name}={LOCAL_SETTINGS[name]}" for name in _FAST))),
}

"""Settings of a short-lived Spark, by spark-submit or in a script: nothing that pays off only later."""

from __future__ import annotations

import os
import shlex

from replica_audit.install.environment import check_jars, find_java
from replica_audit.install.session_settings import LOCAL_JAVA_FLAGS, LOCAL_SETTINGS, archive_path

_FAST = (
    "spark.ui.enabled",
    "spark.databricks.delta.snapshotPartitions",
    "spark.sql.codegen.wholeStage",
    "spark.sql.codegen.factoryMode",
)

#: Arguments of spark-submit; what a test gives after them replaces them.
BRIEF_SPARK = [part for name in _FAST for part in ("--conf", f"{name}={LOCAL_SETTINGS[name]}")]
#: Classes that come from no archive are not verified, which is a ninth of such a start.
_UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
#: And those of a driver for which no properties file has them.
BRIEF_JAVA = ["--driver-java-options", " ".join((*LOCAL_JAVA_FLAGS, *_UNVERIFIED))]
#: Of the environment: the JVM that reads these arguments.
BRIEF_LAUNCHER = {"SPARK_LAUNCHER_OPTS": " ".join(LOCAL_JAVA_FLAGS)}


def archived_classes() -> tuple[str, str]:
    """The class path for which `replica-audit setup` made the class archive, and the flag that has a JVM map it: a start without
    it takes half as long again. Where there is none, the JVM loads its classes."""
    jars = check_jars()
    return os.pathsep.join(map(str, jars)), f'"-XX:SharedArchiveFile={archive_path(find_java(), jars)}"'


def brief_script() -> dict[str, str]:
    """Of the environment of a script that makes a session of its own, to which nobody gives arguments."""
    class_path, flag = archived_classes()
    settings = (f"-D{name}={LOCAL_SETTINGS[name]}" for name in _FAST)
    return {
        **BRIEF_LAUNCHER,
        "PYSPARK_SUBMIT_ARGS": f"--driver-class-path {shlex.quote(class_path)} pyspark-shell",
        "SPARK_SUBMIT_OPTS": " ".join((*LOCAL_JAVA_FLAGS, flag, *settings)),
    }

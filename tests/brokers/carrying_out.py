"""A plan of `elect` carried out on a cluster by its own commands, with placeholders filled in."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from tests.brokers.steered_cluster import SteeredCluster

#: Until a broker that is gone is fenced, and one that is back has followed.
_SETTLE_SECONDS = 7


def carry_out(plan: Mapping[str, Any], cluster: SteeredCluster) -> list[str]:
    """Every step in its order; what did not go as the plan says it must, in sentences."""
    wrong: list[str] = []
    for step in plan["steps"]:
        for name, content in step["files"].items():
            (cluster.out / name).write_text(content)
        for number, command in enumerate(step["commands"]):
            wrong += _run(step, number, command, cluster)
        if step["action"] in ("start", "stop", "elect", "reorder"):
            time.sleep(_SETTLE_SECONDS)
        if step["action"] in ("elect", "check") and cluster.up:
            wrong += _leaders(step, cluster)
    return wrong


def _run(step: Mapping[str, Any], number: int, command: str, cluster: SteeredCluster) -> list[str]:
    words = [word.replace("HOST:PORT", cluster.bootstrap) for word in shlex.split(command)]
    for node, directory in cluster.directories.items():
        words = [word.replace(f"LOG_DIR_OF_{node}", str(directory)) for word in words]
    script = words[0].rsplit("/", 1)[-1].removesuffix(".sh")
    if script == "kafka-server-stop":
        # Before 4.x the script has no option that names a node: it is called on the broker's own host, one after the other.
        cluster.stop(step["brokers"][number])
    elif script == "kafka-server-start":
        cluster.start(int(words[-1].removeprefix("SERVER_PROPERTIES_OF_")))
    elif script == "tar":
        subprocess.run(words, cwd=cluster.out, check=True, capture_output=True)
    elif script.startswith("kafka-"):
        status, text = cluster.tool(script, *words[1:])
        if status:
            return [f"step {step['number']}: {command} ended with {status}: {text[-400:]}"]
    elif script != "replica-audit":
        return [f"step {step['number']}: nobody knows how to run {command}"]
    return []


def _leaders(step: Mapping[str, Any], cluster: SteeredCluster) -> list[str]:
    """Partitions that do not have the leader that the plan says after a step."""
    found = cluster.leaders({one["topic"] for one in step["leaders"]})
    return [
        f"after step {step['number']} ({step['action']}) {one['topic']}-{one['partition']} is led by "
        f"{found.get((one['topic'], one['partition']))}, and the plan says {one['leader_id']}"
        for one in step["leaders"]
        if found.get((one["topic"], one["partition"])) != one["leader_id"]
    ]

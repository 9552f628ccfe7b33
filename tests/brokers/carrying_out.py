"""A plan of `elect` carried out as it is printed: its lines run by bash, with nothing but placeholders filled in.

Kafka's scripts and `replica-audit` are on the PATH.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.brokers.clients import PROGRAM, search_path
from tests.brokers.printed_plan import PrintedStep, as_words, planned_words, printed_steps
from tests.brokers.steered_cluster import SteeredCluster

#: Until a broker that is gone is fenced, and what is known of one that is back is no longer of before; and how long a leader
#: may take to be told.
_SETTLE_SECONDS, _LEADER_SECONDS = 3, 20
#: Longer than any session of the clusters here.
_SESSION_SECONDS = 15
#: What puts records back. Without these a plan leaves what its elections made of the logs.
PUT_BACK = ("salvage", "restore", "verify")
_PLACEHOLDER = re.compile(
    r"LOG_DIR_OF_\d+|CONTROLLER_LISTENER_OF_\d+|SERVER_PROPERTIES_OF_\d+|PID_OF_\d+|CONTROLLER:PORT|ZOOKEEPER:2181|HOST:PORT|BEFORE|AFTER"
)


class Operator:
    """Carries out the printed steps of one plan, in a directory of its own."""

    def __init__(self, cluster: SteeredCluster, version: str, before: Path) -> None:
        self.home = cluster.out / "operator"
        self.outputs: dict[int, str] = {}
        """What the commands of each step printed."""
        self._cluster, self._version, self._before = cluster, version, before
        self.home.mkdir(exist_ok=True)
        call = shlex.join([sys.executable, "-c", PROGRAM])
        script = self.home / "replica-audit"
        script.write_text(f'#!/bin/bash\nPYTHONPATH={shlex.quote(search_path())} exec {call} "$@"\n')
        script.chmod(0o755)

    @property
    def after(self) -> Path:
        """The copy of the log directories that was made where the plan says so."""
        return self._cluster.out / "after"

    def carry_out(
        self, text: str, plan: Mapping[str, Any], without: Iterable[str] = (), most: int | None = None
    ) -> list[str]:
        """Every step in its order but those of the actions in `without`, at `most` so many; what did not go as the plan says,
        in sentences."""
        (self.home / "plan.json").write_text(json.dumps(plan))
        printed = printed_steps(text)
        assert [as_words(one) for one in printed] == [planned_words(one) for one in plan["steps"]]
        wrong: list[str] = []
        for one, step in list(zip(printed, plan["steps"], strict=True))[:most]:
            if step["action"] not in without and not wrong:
                wrong = self._take(one, step)
        return wrong

    def do_first(self, text: str) -> list[str]:
        """The commands below `Do first`, as `show` prints them, but the one that prints the plan; what did not end with 0."""
        steps = [one for one in printed_steps(text, "Do first") if not any(map(_is_elect, one.commands))]
        return [wrong for printed in steps for wrong in self._run(printed)]

    def _take(self, printed: PrintedStep, step: Mapping[str, Any]) -> list[str]:
        if step["action"] == "verify":
            self._cluster.snapshot(self.after.name)
        if wrong := self._run(printed):
            return wrong
        if step["action"] in ("start", "stop"):
            for broker in step["brokers"]:
                self._cluster.await_start(broker) if step["action"] == "start" else self._cluster.await_end(broker)
        if step["action"] in ("start", "stop", "reorder"):
            time.sleep(_SETTLE_SECONDS)
        if step["action"] == "start":
            self._cluster.await_followers()
        if "wait for broker.session.timeout.ms" in " ".join(printed.text.split()):
            time.sleep(_SESSION_SECONDS)
        is_led = step["action"] in ("elect", "check") and step["brokers"] and self._cluster.up
        return self._leaders(step) if is_led else []

    def _run(self, printed: PrintedStep) -> list[str]:
        """The commands of a step that are for this version, by one bash that ends with the first that fails."""
        wanted = (one for one in printed.of_version(self._version) if self._is_wanted(one, printed))
        script = "\n".join(map(self._fill_in, wanted))
        path = os.pathsep.join([str(self.home), str(self._cluster.bin), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-e", "-u", "-c", script],
            env={**os.environ, "PATH": path},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        self.outputs[printed.number] = done.stdout + done.stderr
        if done.returncode:
            return [f"step {printed.number} ended with {done.returncode}:\n{printed.text}\n{done.stdout}{done.stderr}"]
        return []

    def _is_wanted(self, command: str, printed: PrintedStep) -> bool:
        """True if a start or stop that applies only to a broker which is down or up applies to this one."""
        found = re.search(r"(?:PROPERTIES_OF_|--node-id=|PID_OF_)(\d+)", command)
        is_up = found is not None and int(found[1]) in self._cluster.running
        text = " ".join(printed.text.split())
        return not (is_up and "unless it is up" in text) and not (
            found is not None and not is_up and re.search(r"where (it is|they are) up", text)
        )

    def _fill_in(self, command: str) -> str:
        words = [re.sub(r"^(\.|LOG_DIR_OF_\d+)/", "./", word) for word in shlex.split(command, comments=True)]
        named = [word.removeprefix("./") for word in words if word.startswith("./")]

        def fill(found: re.Match[str]) -> str:
            name, _, node = found[0].rpartition("_")
            if name == "LOG_DIR_OF":
                return shlex.quote(str(self._log_dir(int(node), named)))
            if name == "SERVER_PROPERTIES_OF":
                return shlex.quote(str(self._cluster.properties(int(node))))
            if name == "CONTROLLER_LISTENER_OF":
                return f"CONTROLLER://127.0.0.1:{self._cluster.controller_port(int(node))}"
            if name == "PID_OF":
                return str(self._cluster.pid(int(node)))
            if found[0] == "CONTROLLER:PORT":
                return ",".join(f"127.0.0.1:{self._cluster.controller_port(one)}" for one in self._cluster.controllers)
            if found[0] == "ZOOKEEPER:2181":
                return self._cluster.zookeeper
            return {"HOST:PORT": self._cluster.bootstrap, "BEFORE": str(self._before), "AFTER": str(self.after)}[
                found[0]
            ]

        return _PLACEHOLDER.sub(fill, command)

    def _log_dir(self, node: int, named: Iterable[str]) -> Path:
        """Log directory of a node with the first file that a command names besides meta.properties; else the first directory."""
        directories = self._cluster.log_dirs(node)
        first = next((name for name in named if name != "meta.properties"), "")
        return next((one for one in directories if (one / first).exists()), directories[0])

    def _leaders(self, step: Mapping[str, Any]) -> list[str]:
        """Partitions that do not have the leader that the plan says after a step."""
        until = time.monotonic() + _LEADER_SECONDS
        while wrong := self._wrong_leaders(step):
            if time.monotonic() > until:
                break
            time.sleep(1)
        return wrong

    def _wrong_leaders(self, step: Mapping[str, Any]) -> list[str]:
        found = self._cluster.leaders({one["topic"] for one in step["leaders"]})
        return [
            f"after step {step['number']} ({step['action']}) {one['topic']}-{one['partition']} is led by "
            f"{found.get((one['topic'], one['partition']))}, and the plan says {one['leader_id']}"
            for one in step["leaders"]
            if found.get((one["topic"], one["partition"])) != one["leader_id"]
        ]


def _is_elect(command: str) -> bool:
    return command.startswith("replica-audit elect ")

"""Steered cluster of 2.x brokers with ZooKeeper, whose content is rewritten from the capture's truth.json."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.brokers.captured_cluster import free_ports
from tests.brokers.steered_cluster import SteeredCluster
from tests.support.fixtures import FIXTURES, truth

_OF_ZOOKEEPER = {"zookeeper.session.timeout.ms": "4000", "zookeeper.connection.timeout.ms": "30000"}
_SECONDS = 60


class SteeredZooKeeper(SteeredCluster):
    """A ZooKeeper server and the brokers of one capture."""

    def __init__(self, capture: Path, out: Path, jars: Path, truth: Mapping[str, Any]) -> None:
        self._truth = truth
        (self._port,) = free_ports(1)
        self._server: subprocess.Popen | None = None
        super().__init__(capture, out, jars)

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        if self._server is not None:
            self._server.send_signal(signal.SIGKILL)
            self._server.wait()

    def _properties(self, node: int) -> Mapping[str, str]:
        kept = super()._properties(node)
        of_kraft = (
            "process.roles",
            "node.id",
            "controller.",
            "listener.security",
            "broker.heartbeat",
            "broker.session",
            "unclean.",
        )
        ours = {name: value for name, value in kept.items() if not name.startswith(of_kraft)}
        return {**ours, "broker.id": str(node), "zookeeper.connect": f"127.0.0.1:{self._port}", **_OF_ZOOKEEPER}

    @property
    def zookeeper(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start_quorum(self) -> None:
        """Start ZooKeeper and write what it held."""
        directory = self.out / "zookeeper"
        directory.mkdir()
        file = self.out / "zookeeper.properties"
        file.write_text(f"dataDir={directory}\nclientPort={self._port}\nadmin.enableServer=false\nmaxClientCnxns=0\n")
        log = (self.out / "zookeeper.log").open("wb")
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = self._java(main, str(file), quiet=False)
        self._server = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        nodes = list(self._nodes())
        commands = "".join(f"create {path} {value}\n" for path, value in nodes) + "quit\n"
        until = time.monotonic() + _SECONDS
        while True:
            # The shell takes commands before it is connected; those that failed are tried again.
            shell = self._java("org.apache.zookeeper.ZooKeeperMain", "-server", f"127.0.0.1:{self._port}")
            done = subprocess.run(shell, input=commands, capture_output=True, text=True, timeout=_SECONDS, check=False)
            lines = {line.strip() for line in (done.stdout + done.stderr).splitlines()}
            if all({f"Created {path}", f"Node already exists: {path}"} & lines for path, _ in nodes):
                return
            if time.monotonic() > until:
                raise RuntimeError(f"ZooKeeper did not take everything:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
            time.sleep(1)

    def states(self, topic: str, partitions: int) -> dict[str, Any]:
        """What ZooKeeper holds of a topic now, by path, as a user saves it."""
        places = [f"/brokers/topics/{topic}/partitions/{number}/state" for number in range(partitions)]
        found = {}
        for path in (f"/brokers/topics/{topic}", f"/config/topics/{topic}", *places):
            shell = self._java("org.apache.zookeeper.ZooKeeperMain", "-server", f"127.0.0.1:{self._port}", "get", path)
            done = subprocess.run(shell, capture_output=True, text=True, timeout=_SECONDS, check=True)
            (line,) = [one for one in done.stdout.splitlines() if one.startswith("{")]
            found[path] = json.loads(line)
        return found

    def _nodes(self) -> Iterator[tuple[str, str]]:
        """Every path with its content, parents first."""
        states = self._truth["zookeeper_partition_states"]
        first = next(iter(self.directories.values())) / "meta.properties"
        cluster = dict(line.split("=", 1) for line in first.read_text().splitlines() if "=" in line)["cluster.id"]
        for path in ("/cluster", "/brokers", "/brokers/topics", "/config", "/config/topics"):
            yield path, "null"
        yield "/cluster/id", _json({"version": "1", "id": cluster})
        for topic, known in self._truth["topics"].items():
            replicas = {str(number): ids for number, ids in enumerate(known["replica_assignment"])}
            named = {"version": 3, "partitions": replicas, "topic_id": self._topic_id(topic)}
            yield f"/brokers/topics/{topic}", _json({**named, "adding_replicas": {}, "removing_replicas": {}})
            yield f"/config/topics/{topic}", _json({"version": 1, "config": known["config"]})
            yield f"/brokers/topics/{topic}/partitions", "null"
            for number in replicas:
                yield f"/brokers/topics/{topic}/partitions/{number}", "null"
                yield f"/brokers/topics/{topic}/partitions/{number}/state", _json(states[f"{topic}-{number}"])
        yield "/controller_epoch", str(max(state["controller_epoch"] for state in states.values()))

    def _topic_id(self, topic: str) -> str:
        found = {
            file.read_text().split("topic_id:")[1].strip()
            for directory in self.directories.values()
            for file in directory.glob(f"{topic}-*/partition.metadata")
        }
        (only,) = found
        return only

    def snapshot(self, name: str) -> Path:
        """With the listing of the topics: nothing else says who leads."""
        target = super().snapshot(name)
        _, text = self.tool("kafka-topics", "--bootstrap-server", self.bootstrap, "--describe")
        (target / "kafka-topics-describe.txt").write_text(text)
        return target


def _json(content: Mapping[str, Any]) -> str:
    """Without spaces, as ZooKeeper's shell cuts its lines there."""
    return json.dumps(content, separators=(",", ":"))


def cluster_of(capture: str, out: Path, jars: Path) -> SteeredCluster:
    """The cluster of a capture, with ZooKeeper where it had one."""
    if capture.startswith("zk-"):
        return SteeredZooKeeper(FIXTURES / capture, out, jars, truth(capture))
    return SteeredCluster(FIXTURES / capture, out, jars)

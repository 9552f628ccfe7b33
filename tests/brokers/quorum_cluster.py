"""A real cluster of three controllers and two brokers, whose quorum is lost in one way or another; and who carries out a plan
of `quorum` as it is printed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.brokers.captured_cluster import free_ports
from tests.brokers.carrying_out import Operator
from tests.brokers.clients import produce_values
from tests.brokers.printed_plan import PrintedStep
from tests.brokers.steered_cluster import SteeredCluster
from tests.support.scanned import batches_of, scan_file

CONTROLLERS, BROKERS = (100, 101, 102), (0, 1)
_APART = {**dict.fromkeys(CONTROLLERS, "controller"), **dict.fromkeys(BROKERS, "broker")}
CLUSTER_ID = "Quorum-LostAAAAAAAAAAA"
_PATIENCE_SECONDS = 300
_PORTS = "ports.json"
#: What else ends for the load of a machine, and not for what was restored.
_PATIENT = {
    "controller.quorum.election.timeout.ms": "3000",
    "controller.quorum.fetch.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "12000",
    # Ten minutes by default.
    "producer.id.expiration.check.interval.ms": "1000",
}


class QuorumCluster(SteeredCluster):
    """`is_dynamic`: the controllers know each other by their directories (KIP-853). `is_apart`: metadata.log.dir lies beside
    two log.dirs."""

    def __init__(self, capture: Path, out: Path, jars: Path, *, is_dynamic: bool, is_apart: bool = False) -> None:
        self.is_dynamic, self.is_apart = is_dynamic, is_apart
        self.is_moving = False
        """On the way from a static quorum to a dynamic one: nodes know its addresses, and its voters by their ids."""
        super().__init__(capture, out, jars)

    def _choose_ports(self, capture: Path) -> dict[int, int]:
        """Those of before, where there was one: the log of a dynamic quorum names the addresses of its voters. Of a node that
        is broker and controller the second is that of the controller."""
        known = capture / _PORTS
        if known.exists():
            ports = json.loads(known.read_text())
        else:
            found = free_ports(2 * len(self.directories))
            ports = [[node, *found[2 * at : 2 * at + 2]] for at, node in enumerate(self.directories)]
        self._controller_ports = {node: own if self.roles[node] == "combined" else port for node, port, own in ports}
        return {node: port for node, port, _ in ports}

    def controller_port(self, node: int) -> int:
        """The port that a voter listens on for other nodes of the quorum."""
        return self._controller_ports[node]

    def _properties(self, node: int) -> Mapping[str, str]:
        known = dict(super()._properties(node))
        if self.is_dynamic or self.is_moving:
            known["controller.quorum.bootstrap.servers"] = self._controller_addresses
        if self.is_dynamic:
            del known["controller.quorum.voters"]
        if self.is_apart:
            metadata, *disks = self.log_dirs(node)
            known |= {"metadata.log.dir": str(metadata), "log.dirs": ",".join(map(str, disks))}
        return {**known, **_PATIENT}

    @property
    def _controller_addresses(self) -> str:
        return ",".join(f"127.0.0.1:{self.controller_port(one)}" for one in self.controllers)

    def log_dirs(self, node: int) -> list[Path]:
        """That of the metadata log first; each may be an empty disk."""
        directory = self.directories[node]
        return [directory / name for name in ("metadata", "disk-a", "disk-b")] if self.is_apart else [directory]

    def metadata_log(self, node: int) -> Path:
        """Where a node has its copy of the metadata log."""
        return self.log_dirs(node)[0] / "__cluster_metadata-0"

    def restore_backup(self, disks: Path, *nodes: int) -> None:
        """The metadata log of controllers as it was before topic late was created, in place of their own."""
        for node in nodes:
            shutil.rmtree(self.metadata_log(node))
            shutil.copytree(disks / f"stale-{node}", self.metadata_log(node))

    def format(self, node: int, *options: str) -> None:
        """Format a node's empty disk."""
        place = ("--cluster-id", CLUSTER_ID, "--config", str(self.properties(node)))
        status, text = self.tool("kafka-storage", "format", *place, *options)
        assert status == 0, text

    def lose_disk(self, *nodes: int) -> None:
        """An empty disk in place of a node's."""
        for node in nodes:
            shutil.rmtree(self.directories[node])
            for log_dir in self.log_dirs(node):
                log_dir.mkdir(parents=True)

    def start_all(self) -> None:
        """Controllers, then brokers."""
        self.start_quorum()
        for node in self.brokers:
            if node not in self.running:
                self.launch(node)
            self.await_start(node)

    def quorum_status(self, name: str) -> int:
        """A number that `describe --status` gives, once the quorum has a leader."""
        until = time.monotonic() + _PATIENCE_SECONDS
        asked = ("kafka-metadata-quorum", "--bootstrap-controller", self._controller_addresses, "describe", "--status")
        while not (found := re.search(rf"{name}:\s+(\d+)", text := self.tool(*asked, seconds=_PATIENCE_SECONDS)[1])):
            assert time.monotonic() < until, text
        return int(found[1])

    def change_quorum(self, script: str, *arguments: str) -> None:
        """Have a tool send the controllers a change of the quorum."""
        status, text = self.tool(script, "--bootstrap-controller", self._controller_addresses, *arguments)
        assert status == 0, text

    def directory_id(self, node: int) -> str:
        """By meta.properties."""
        lines = (self.log_dirs(node)[0] / "meta.properties").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)["directory.id"]

    def capture(self, name: str, without: tuple[int, ...] = ()) -> Path:
        """A copy of all disks but those that are gone; where nothing runs, all of one moment."""
        is_at_rest = not self.running
        before = self.snapshot(name)
        (before / "manifest.json").write_text(json.dumps({"schema_version": 1, "quiesced": is_at_rest}))
        for node in without:
            shutil.rmtree(before / self.directories[node].name)
        return before


def make_disks(
    out: Path, jars: Path, *, is_dynamic: bool, is_apart: bool = False, roles: Mapping[int, str] = _APART
) -> Path:
    """The disks of a sound cluster with topics early and late, and those of its controllers before late was created, as stale-N.

    Where metadata lies apart from two disks, topic late has a partition on each.
    """
    blank = out / "blank"
    for node, role in roles.items():
        directory = blank / f"{role}-{node}"
        directory.mkdir(parents=True)
        (directory / "meta.properties").write_text(f"node.id={node}\n")
    with QuorumCluster(blank, out / "made", jars, is_dynamic=is_dynamic, is_apart=is_apart) as cluster:
        ids = {node: f"Quorum{node:03d}AAAAAAAAAAAAA" for node in cluster.controllers}
        voters = ",".join(f"{node}@127.0.0.1:{cluster.controller_port(node)}:{ids[node]}" for node in ids)
        for node in cluster.directories:
            cluster.lose_disk(node)
            cluster.format(node, *(("--initial-controllers", voters) if node in ids and is_dynamic else ()))
        cluster.start_all()
        _create(cluster, "early")
        for node in cluster.controllers:
            shutil.copytree(
                cluster.metadata_log(node), out / "disks" / f"stale-{node}", ignore=shutil.ignore_patterns("*.tmp")
            )
        _create(cluster, "late", partitions=2 if is_apart else 1)
        time.sleep(3)
        # Brokers first: what they have, controllers have too.
        cluster.stop(*(node for node in cluster.brokers if node not in ids))
        cluster.kill(*cluster.controllers)
        for directory in cluster.directories.values():
            shutil.copytree(directory, out / "disks" / directory.name, ignore=shutil.ignore_patterns(".lock"))
        ports = [(node, cluster.ports[node], cluster.controller_port(node)) for node in cluster.directories]
        (out / "disks" / _PORTS).write_text(json.dumps(ports))
    return out / "disks"


def _create(cluster: QuorumCluster, topic: str, partitions: int = 1) -> None:
    replicas = ("--partitions", str(partitions), "--replication-factor", str(len(cluster.brokers)))
    status, text = cluster.tool(
        "kafka-topics", "--bootstrap-server", cluster.bootstrap, "--create", "--topic", topic, *replicas
    )
    assert status == 0, text
    for partition in range(partitions):
        produce_values(cluster.bootstrap, topic, partition, [f"{topic}-{number}" for number in range(5)])


class QuorumOperator(Operator):
    """Waits for a leader where the plan says to see that there is one. `has_no_order`: elect knows none, since disks are gone."""

    def __init__(self, cluster: QuorumCluster, version: str, before: Path, *, has_no_order: bool = False) -> None:
        super().__init__(cluster, version, before)
        self._has_no_order = has_no_order

    def _elect_who_is_up(self) -> None:
        """In a cluster of brokers that vote: the only one that has both roles."""
        (up,) = (node for node in self._cluster.brokers if "process.roles" not in self._cluster.command(node))
        self._cluster.await_start(up)
        everything = ("--election-type", "unclean", "--all-topic-partitions")
        place = f"127.0.0.1:{self._cluster.ports[up]}"
        self._cluster.tool("kafka-leader-election", "--bootstrap-server", place, *everything)

    def _raise_leader_epochs(self, least: int, printed: PrintedStep) -> None:
        """Have the best choice of elect lead early-0, and restart it until its leader epoch is high enough; `least` is that."""
        cluster, place = self._cluster, ("early", 0)
        best = int(re.search(r"\* broker (\d+)", self.outputs[printed.number])[1])
        cluster.start(best)
        if cluster.leaders(("early",)).get(place) != best:
            what = ("--election-type", "unclean", "--all-topic-partitions")
            cluster.tool("kafka-leader-election", "--bootstrap-server", cluster.bootstrap, *what)
        file = cluster.directories[best] / "early-0" / "leader-epoch-checkpoint"
        until = time.monotonic() + _PATIENCE_SECONDS
        while int(file.read_text().splitlines()[-1].split()[0]) < least:
            assert time.monotonic() < until, file.read_text()
            cluster.stop(best)
            cluster.start(best)
            time.sleep(4)
        cluster.stop(best)
        copy = ["tar", "-xzf", f"broker-{best}-ahead.tgz", "-C", str(cluster.directories[best])]
        subprocess.run([*copy, "--", f"./early-0/{file.name}"], cwd=self.home, check=True)
        cluster.start(best)

    def _metadata_end(self, node: int) -> int:
        """Log end of a node's metadata log on its disk."""
        segments = sorted(self._cluster.metadata_log(node).glob("*.log"))
        last = batches_of(scan_file(segments[-1]))[-1] if segments else None
        return 0 if last is None else int(last["last_offset"]) + 1

    def _take(self, printed: PrintedStep, step: Mapping[str, Any]) -> list[str]:
        if any("AFTER" in command for command in step["commands"]):
            shutil.rmtree(self.after, ignore_errors=True)
            self._cluster.snapshot(self.after.name)
        wrong = self._run(printed)
        if found := re.search(r"begins with (\d+) or more", " ".join(step["text"].split())):
            # Elect has no plan for these partitions, and says so.
            assert "The best choice would be" in " ".join(self.outputs[printed.number].split())
            self._raise_leader_epochs(int(found[1]), printed)
            wrong = []
        if "elect one that has it" in " ".join(step["text"].split()):
            self._elect_who_is_up()
        until = time.monotonic() + _PATIENCE_SECONDS
        if self._has_no_order and "replica-audit elect AFTER" in step["commands"]:
            wrong = []
        while wrong and step["action"] == "check" and time.monotonic() < until:
            time.sleep(2)
            wrong = self._run(printed)
        if wrong:
            return wrong
        if step["action"] == "forget_producers":
            time.sleep(3)
        ends = {one["broker_id"]: self._metadata_end(one["broker_id"]) for one in step["after"]}
        assert ends == {one["broker_id"]: one["log_end_offset"] for one in step["after"]}, printed.text
        for node in step["brokers"]:
            if step["action"] in ("start", "stop"):
                self._cluster.await_start(node) if step["action"] == "start" else self._cluster.await_end(node)
        if step["action"] == "stop":
            for node in step["controllers"]:
                self._cluster.await_end(node)
        if step["action"] == "start" and step["controllers"]:
            time.sleep(3)
        return []


def topics_of(cluster: QuorumCluster) -> dict[tuple[str, int], int | None]:
    """Who leads each partition of early and late."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while None in (found := cluster.leaders(("early", "late"))).values() or not found:
        if time.monotonic() > until:
            break
        time.sleep(1)
    return found

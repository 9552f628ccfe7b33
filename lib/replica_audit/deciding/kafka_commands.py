"""Commands of Kafka's own tools, by the version that they come with.

Options that changed names: kafka-leader-election.sh exists since 2.4 (KIP-460) and takes --admin.config, from 4.2 on
--command-config (KIP-1147); kafka-configs.sh alters topics through brokers since 2.5 (KIP-543), before that through
ZooKeeper; kafka-reassign-partitions.sh goes through brokers since 2.6 (KIP-455); kafka-server-stop.sh takes --node-id since
3.7 (KIP-979).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from replica_audit.deciding.present_state import UNCLEAN
from replica_audit.model import Place

#: kafka-leader-election.sh does not exist in earlier versions.
FIRST_VERSION = (2, 4)
#: Stands for what nobody said.
BOOTSTRAP, ZOOKEEPER = "HOST:PORT", "ZOOKEEPER:2181"

#: Ways to change a topic's setting.
BROKER, CONTROLLER, ZOOKEEPER_ITSELF = "broker", "controller", "zookeeper"


@dataclass(frozen=True, slots=True)
class Tools:
    """How to call the tools of one version against one cluster; a version that is not known counts as the newest."""

    kafka_version: tuple[int, ...] | None = None
    bootstrap: str = BOOTSTRAP
    client_config: str | None = None
    """File with the client's properties, for clusters that want TLS or SASL."""

    def has_elections(self) -> bool:
        """Whether the version has a tool for elections at all."""
        return self.kafka_version is None or self.kafka_version[:2] >= FIRST_VERSION

    def describe(self, topics: Iterable[str]) -> list[str]:
        """What shows leaders and ISR of each topic."""
        return [self._call("kafka-topics.sh", "--describe", "--topic", topic) for topic in sorted(set(topics))]

    def forbid_unclean(self, topics: Iterable[str], way: str) -> list[str]:
        """Unclean elections switched off for each topic, by a way that `way_to_configure` found."""
        return [self._configure(topic, "--add-config", f"{UNCLEAN}=false", way=way) for topic in sorted(set(topics))]

    def way_to_configure(self, mode: str | None, *, is_any_up: bool) -> str | None:
        """How a topic's setting is changed: through a broker, or where none is up through a controller (KRaft since 3.7,
        KIP-919) or ZooKeeper (before 3.0); None: not at all.
        """
        if is_any_up:
            return BROKER
        if mode != "kraft" and self.kafka_version is not None and self.kafka_version < (3, 0):
            return ZOOKEEPER_ITSELF
        return CONTROLLER if mode == "kraft" and self._since((3, 7)) else None

    def restore_unclean(self, topic: str, value: bool | None) -> str:
        """The topic's setting as it was; None: it had none of its own."""
        if value is None:
            return self._configure(topic, "--delete-config", UNCLEAN)
        return self._configure(topic, "--add-config", f"{UNCLEAN}={str(value).lower()}")

    def elect(self, kind: str, file: str) -> str:
        """An election, unclean or preferred, of the partitions in `file`."""
        config = "--command-config" if self._since((4, 2)) else "--admin.config"
        arguments = ("--election-type", kind, "--path-to-json-file", file)
        return self._call("kafka-leader-election.sh", *arguments, config_option=config)

    def reassign(self, file: str, *, verify: bool = False) -> str:
        """The assignment in `file` put into force, or looked after."""
        does = "--verify" if verify else "--execute"
        arguments = ("--reassignment-json-file", file, does)
        if not self._since((2, 6)):
            return shlex.join(["kafka-reassign-partitions.sh", "--zookeeper", ZOOKEEPER, *arguments])
        return self._call("kafka-reassign-partitions.sh", *arguments)

    def stop(self, broker_id: int) -> str:
        """A clean stop, on the broker's host."""
        return f"kafka-server-stop.sh --node-id={broker_id}" if self._since((3, 7)) else "kafka-server-stop.sh"

    @staticmethod
    def start(broker_id: int) -> str:
        """A start, on the broker's host, with the properties that it always has."""
        return f"kafka-server-start.sh -daemon SERVER_PROPERTIES_OF_{broker_id}"

    def _configure(self, topic: str, *change: str, way: str = "") -> str:
        arguments = ("--alter", "--entity-type", "topics", "--entity-name", topic, *change)
        if not self._since((2, 5)) or way == ZOOKEEPER_ITSELF:
            return shlex.join(["kafka-configs.sh", "--zookeeper", ZOOKEEPER, *arguments])
        if way == CONTROLLER:
            return self._call("kafka-configs.sh", *arguments, server=("--bootstrap-controller", "CONTROLLER:PORT"))
        return self._call("kafka-configs.sh", *arguments)

    def _call(
        self,
        tool: str,
        *arguments: str,
        config_option: str = "--command-config",
        server: tuple[str, str] | None = None,
    ) -> str:
        config = () if self.client_config is None else (config_option, self.client_config)
        return shlex.join([tool, *(server or ("--bootstrap-server", self.bootstrap)), *config, *arguments])

    def _since(self, version: tuple[int, ...]) -> bool:
        return self.kafka_version is None or self.kafka_version[: len(version)] >= version


def copy_command(broker_id: int, places: Iterable[Place]) -> str:
    """The copy of partitions' directories, on the broker's host."""
    names = [f"{topic}-{partition}" for topic, partition in places]
    return shlex.join(["tar", "-czf", f"broker-{broker_id}.tgz", "-C", f"LOG_DIR_OF_{broker_id}", *names])


def election_file(places: Iterable[Place]) -> str:
    """What kafka-leader-election.sh reads: the partitions, one a line."""
    return _file({}, [{"topic": topic, "partition": number} for topic, number in places])


def reassignment_file(assignments: Iterable[tuple[Place, tuple[int, ...]]]) -> str:
    """What kafka-reassign-partitions.sh reads: replicas in their order, a partition a line."""
    partitions = [
        {"topic": topic, "partition": number, "replicas": list(replicas)} for (topic, number), replicas in assignments
    ]
    return _file({"version": 1}, partitions)


def _file(head: dict[str, int], partitions: Iterable[dict]) -> str:
    begin = "".join(f"{json.dumps(name)}: {value}, " for name, value in head.items())
    lines = ",\n".join(f"  {json.dumps(one)}" for one in partitions)
    return f'{{{begin}"partitions": [\n{lines}\n]}}\n'

"""Command lines of Kafka's own tools, by version.

Options that changed names: kafka-leader-election.sh exists since 2.4 (KIP-460) and takes --admin.config, from 4.2 on
--command-config (KIP-1147); kafka-configs.sh alters topics through brokers since 2.5 (KIP-543), before that through ZooKeeper;
kafka-reassign-partitions.sh goes through brokers since 2.6 (KIP-455), kafka-topics.sh since 2.2 (KIP-377); kafka-server-stop.sh
takes --node-id since 3.7 (KIP-979); kafka-transactions.sh exists since 3.0 (KIP-664); kafka-consumer-groups.sh resets offsets since
0.11 (KIP-122).
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from replica_audit.literals import GroupKind
from replica_audit.model import MESSAGE_FORMAT, TIMESTAMP_TYPE, UNCLEAN, TopicPartition
from replica_audit.protocol.versions import PRESENT_FORMAT
from replica_audit.snapshot.log_dir_names import META_PROPERTIES, METADATA_PARTITION

#: First version whose clusters may run in KRaft mode.
_FIRST_KRAFT = (3, 0)
#: Most names in a command line, which is limited in length; more names go into a file that it reads.
MOST_NAMES = 100
#: Placeholders for unknown addresses.
BOOTSTRAP = "HOST:PORT"
ZOOKEEPER = "ZOOKEEPER:2181"

#: Ways to change a topic's setting.
BROKER = "broker"
CONTROLLER = "controller"
ZOOKEEPER_ITSELF = "zookeeper"
_TO_A_CONTROLLER = ("--bootstrap-controller", "CONTROLLER:PORT")
#: Meaning of the placeholder for a node that is started as a controller only.
LISTENERS = "CONTROLLER_LISTENER_OF_N is its entry of controller.listener.names in listeners; override advertised.listeners likewise if it is set"


class Tools(NamedTuple):
    """Kafka's tools of one version, for one cluster. If the version is unknown, commands that differ are given in both forms."""

    kafka_version: tuple[int, ...] | None = None
    bootstrap: str = BOOTSTRAP
    client_config: str | None = None
    """Client properties file, for clusters with TLS or SASL."""
    mode: str | None = None
    """kraft or zookeeper; None if unknown."""

    def has_elections(self) -> bool:
        """True unless the version is known and has no kafka-leader-election.sh."""
        return self._since((2, 4))

    def finds_hanging(self) -> bool:
        """True unless the version is known and its brokers do not report hanging transactions."""
        return self._since((3, 0))

    def describe(self, topics: Iterable[str], *, is_any_version: bool = False) -> list[str]:
        """Commands that show leaders and ISR of each topic, or of all topics if there are many; `is_any_version`: also in
        versions without a tool for elections."""
        names = sorted(set(topics))
        asked: list[tuple[str, ...]] = [("--describe", "--topic", topic) for topic in names]
        if len(names) > MOST_NAMES:
            asked = [("--describe",)]
        since = [self._call("kafka-topics.sh", *one) for one in asked]
        if not is_any_version:
            return since
        return self._by_version(
            (2, 2), since, [shlex.join(["kafka-topics.sh", "--zookeeper", ZOOKEEPER, *one]) for one in asked]
        )

    def set_unclean(self, topic: str, value: bool | None, way: str = BROKER, *, is_shown: bool = False) -> list[str]:
        """Commands that allow or forbid unclean elections of a topic, in the `way` that `way_to_configure` found; a `value` of None
        removes its setting. `is_shown`: the topic's own settings are shown first."""
        change = ("--delete-config", UNCLEAN) if value is None else ("--add-config", f"{UNCLEAN}={str(value).lower()}")
        calls = [_of_topic(topic, "--describe")] if is_shown else []
        return self._of_any_version(way, [*calls, _of_topic(topic, "--alter", *change)])

    def raise_format(self, topic: str) -> list[str]:
        """Commands that give a topic the first message format with transactions."""
        change = ("--alter", "--add-config", f"{MESSAGE_FORMAT}={PRESENT_FORMAT}")
        return self._of_any_version(BROKER, [_of_topic(topic, *change)])

    def set_timestamp_type(self, topic: str, kind: str) -> list[str]:
        """Commands that set whose time the records of a topic get: CreateTime or LogAppendTime."""
        return self._of_any_version(BROKER, [_of_topic(topic, "--alter", "--add-config", f"{TIMESTAMP_TYPE}={kind}")])

    def keep_remote(self, topic: str, way: str | None) -> list[str]:
        """Commands that show the topic's settings, then turn off its retention: neither age nor size moves its log start.

        Tiered topics exist since 3.6.
        """
        off = _of_topic(topic, "--alter", "--add-config", "retention.ms=-1,retention.bytes=-1")
        return [self._configs(way, *_of_topic(topic, "--describe")), self._configs(way, *off)]

    def way_to_configure(self, *, is_any_up: bool | None) -> str | None:
        """The way to change a topic's setting: through a broker or, if none is or may not be up (None), a controller (KRaft since 3.7,
        KIP-919) or ZooKeeper (before 3.0); None if impossible."""
        if is_any_up:
            return BROKER
        if self.mode != "kraft" and self.kafka_version is not None and self.kafka_version < (3, 0):
            return ZOOKEEPER_ITSELF
        if self.mode == "kraft" and self._since((3, 7)):
            return CONTROLLER
        return BROKER if is_any_up is None else None

    def elect(self, kind: str, file: str) -> list[str]:
        """Commands for an election, unclean or preferred, of the partitions in `file`."""
        arguments = ("--election-type", kind, "--path-to-json-file", file)
        options = ("--command-config", "--admin.config") if self.client_config else ("--command-config",)
        calls = [self._call("kafka-leader-election.sh", *arguments, config_option=one) for one in options]
        return self._by_version((4, 2), calls[:1], calls[-1:])

    def reassign(self, file: str, *, verify: bool = False) -> list[str]:
        """Commands that carry out the assignment in `file`, or check its progress."""
        does = "--verify" if verify else "--execute"
        arguments = ("--reassignment-json-file", file, does)
        before = shlex.join(["kafka-reassign-partitions.sh", "--zookeeper", ZOOKEEPER, *arguments])
        return self._by_version((2, 6), [self._call("kafka-reassign-partitions.sh", *arguments)], [before])

    def stop(self, broker_ids: Sequence[int]) -> list[str]:
        """Commands that stop brokers cleanly, one after the other, each on the broker's host. Before 3.7 the script stops every
        broker of the host.

        Both commands return before the broker has ended. The next step waits for that, since its copy would lack what the broker
        takes until then; so does the next stop, since the order in which brokers leave the ISR decides who may lead (KIP-966).
        """
        since, before = (
            [line for one in broker_ids for line in (command.format(one), f"tail --pid=PID_OF_{one} -f /dev/null")]
            for command in ("kafka-server-stop.sh --node-id={}", "kill -TERM PID_OF_{}")
        )
        return self._by_version((3, 7), since, before)

    def end_transaction(self, place: TopicPartition, start_offset: int) -> list[str]:
        """Commands that find a hanging transaction and abort it.

        Brokers before 3.0 do not report producers: only a later tool can end a transaction there, given the producer. A topic
        may begin with a dash.
        """
        partition = (f"--topic={place[0]}", "--partition", str(place[1]))
        whose = ("--producer-id", "PRODUCER_ID", "--producer-epoch", "PRODUCER_EPOCH", "--coordinator-epoch", "EPOCH")
        return self._by_version(
            (3, 0),
            [
                self._call("kafka-transactions.sh", "find-hanging", *partition),
                self._call("kafka-transactions.sh", "abort", *partition, "--start-offset", str(start_offset)),
            ],
            [
                "# with the tool of Kafka 3.0 or later:",
                self._call("kafka-transactions.sh", "abort", *partition, *whose),
            ],
        )

    def reset_offsets(
        self, kind: GroupKind, ends: Sequence[tuple[str, TopicPartition, int]]
    ) -> tuple[list[str], dict[str, str]]:
        """Commands that set each group of a kind to an offset of a partition; for many groups a single one that reads them from a file,
        and that file's content by its name. Names may begin with a dash. The tool for share groups takes a time only (4.3.1)."""
        tool, does = f"kafka-{kind}-groups.sh", ("--reset-offsets", "--execute")
        calls = [
            (
                f"--group={group}",
                f"--topic={place.topic}:{place.partition}",
                *(("--to-offset", str(end)) if kind == "consumer" else ("--to-datetime", f"TIME_AT_{end}")),
            )
            for group, place, end in ends
        ]
        if len(calls) <= MOST_NAMES:
            return [self._call(tool, *does, *one) for one in calls], {}
        file = f"{kind}-groups.txt"
        called = f"xargs --arg-file={file} -L 1 {self._call(tool, *does)}"
        return [called], {file: "".join(f"{shlex.join(one)}\n" for one in calls)}

    def expire_producers(self) -> list[str]:
        """Commands that have brokers forget producers that were silent for a second; the setting is dynamic since 3.5
        (`DynamicProducerStateManagerConfig`)."""
        setting = "producer.id.expiration.ms=1000"
        arguments = ("--entity-type", "brokers", "--entity-default", "--alter", "--add-config", setting)
        own = [f"# in server.properties of every broker, which is stopped and started then: {setting}"]
        return self._by_version((3, 5), [self._configs(BROKER, *arguments)], own)

    def describe_quorum(self) -> list[str]:
        """Commands that show the leader of the controllers' quorum and the progress of each node; controllers answer since 3.7
        (KIP-919)."""
        return [
            self._call("kafka-metadata-quorum.sh", "describe", what, server=self._controllers())
            for what in ("--status", "--replication")
        ]

    def replace_voter(self, node_id: int, old_directory_id: str) -> list[str]:
        """Commands that replace a voter from an old directory by one that was formatted anew (KIP-853, since 3.9).

        It is removed first: an id that is among the voters cannot be added. The second command is for its own host.
        """
        whose = ("--controller-id", str(node_id), "--controller-directory-id", old_directory_id)
        server = self._controllers()
        own_config = ("--command-config", f"SERVER_PROPERTIES_OF_{node_id}")
        add = ["kafka-metadata-quorum.sh", *server, *own_config, "add-controller"]
        return [self._call("kafka-metadata-quorum.sh", "remove-controller", *whose, server=server), shlex.join(add)]

    def _controllers(self) -> tuple[str, str]:
        if self._since((3, 7)):
            return _TO_A_CONTROLLER
        return "--bootstrap-server", self.bootstrap

    @staticmethod
    def format_voter(node_id: int, cluster_id: str, *, is_dynamic: bool) -> str:
        """Command that formats a voter's empty disk; in a dynamic quorum (KIP-853) without voters of its own. A formatted disk
        is left as it is."""
        own = ["--no-initial-controllers"] if is_dynamic else []
        place = ["--cluster-id", cluster_id, "--config", f"SERVER_PROPERTIES_OF_{node_id}"]
        return shlex.join(["kafka-storage.sh", "format", *place, "--ignore-formatted", *own])

    @staticmethod
    def start(broker_id: int) -> str:
        """Command that starts a broker, on its host, with its usual properties."""
        return f"kafka-server-start.sh -daemon SERVER_PROPERTIES_OF_{broker_id}"

    @staticmethod
    def start_as_controller(node_id: int) -> str:
        """Command that starts a combined node as a controller only."""
        listeners = f"--override listeners=CONTROLLER_LISTENER_OF_{node_id}"
        return f"{Tools.start(node_id)} --override process.roles=controller {listeners}"

    @staticmethod
    def restart(node_id: int) -> list[str]:
        """Commands that stop a node cleanly, whatever options it was started with, and start it with its usual properties."""
        # kafka-server-stop.sh does not find a node started with such options.
        return [f"kill -TERM PID_OF_{node_id}", f"tail --pid=PID_OF_{node_id} -f /dev/null", Tools.start(node_id)]

    def _of_any_version(self, way: str, calls: Sequence[Sequence[str]]) -> list[str]:
        """Calls of kafka-configs.sh, which takes topics' settings by a broker since 2.5."""
        before = [shlex.join(["kafka-configs.sh", "--zookeeper", ZOOKEEPER, *arguments]) for arguments in calls]
        if way == ZOOKEEPER_ITSELF:
            return before
        since = [self._configs(way, *arguments) for arguments in calls]
        return since if way == CONTROLLER else self._by_version((2, 5), since, before)

    def _configs(self, way: str | None, *arguments: str) -> str:
        server = _TO_A_CONTROLLER if way == CONTROLLER else None
        return self._call("kafka-configs.sh", *arguments, server=server)

    def _call(
        self,
        tool: str,
        *arguments: str,
        config_option: str = "--command-config",
        server: tuple[str, str] | None = None,
    ) -> str:
        config = () if self.client_config is None else (config_option, self.client_config)
        return shlex.join([tool, *(server or ("--bootstrap-server", self.bootstrap)), *config, *arguments])

    def _by_version(self, first: tuple[int, ...], since: list[str], before: list[str]) -> list[str]:
        """The commands for the version, `since` or `before` the version `first`; both, labelled, if it is unknown."""
        if self.kafka_version is not None or since == before:
            return since if self._since(first) else before
        if self.mode == "kraft" and first <= _FIRST_KRAFT:
            return since
        name = ".".join(map(str, first))
        return [f"# Kafka {name} and later:", *since, f"# before Kafka {name}:", *before]

    def _since(self, version: tuple[int, ...]) -> bool:
        return self.kafka_version is None or self.kafka_version[: len(version)] >= version


def _of_topic(topic: str, does: str, *change: str) -> list[str]:
    return [does, "--entity-type", "topics", "--entity-name", topic, *change]


def for_names(
    names: Collection[str], file: str, command: Callable[[str], Sequence[str]]
) -> tuple[list[str], dict[str, str]]:
    """`command` for each name; for many names a single one that reads them from `file`, and that file's content by its name."""
    if len(names) <= MOST_NAMES:
        return [one for name in names for one in command(name)], {}
    called = (one if one.startswith("#") else f"xargs --arg-file={file} -I TOPIC {one}" for one in command("TOPIC"))
    return list(called), {file: "".join(f"{name}\n" for name in names)}


def in_order(*groups: Sequence[str]) -> list[str]:
    """Groups of commands in sequence; a label for versions is ended where a group without one follows."""
    commands: list[str] = []
    is_labelled = False
    for group in filter(None, groups):
        if is_labelled and not group[0].startswith("#"):
            commands.append("# every version:")
        is_labelled = group[0].startswith("#")
        commands += group
    return commands


class Copies:
    """Commands that copy directories on a broker's host, each into its own archive."""

    def __init__(self, of: str = "") -> None:
        """`of` is part of the archives' names, to tell them from others."""
        self._of = f"-{of}" if of else ""
        self._archives: Counter[int] = Counter()
        self._files: dict[str, tuple[str, str]] = {}

    def of_partitions(self, broker_id: int, places: Iterable[TopicPartition], *, are_there: bool = True) -> str:
        """Command that copies partition directories; it passes over those that are not there unless `are_there`."""
        return self.of_directories(broker_id, map(str, places), are_there=are_there)

    def of_metadata(self, node_id: int, kind: str = "broker") -> str:
        """Command that copies a node's metadata log, with the file that identifies the node (node.id and directory.id)."""
        return self.of_directories(node_id, [META_PROPERTIES, str(METADATA_PARTITION)], kind)

    def of_directories(
        self, node_id: int, names: Iterable[str], kind: str = "broker", *, are_there: bool = True
    ) -> str:
        """Command that copies entries of a log dir; names may begin with a dash."""
        self._archives[node_id] += 1
        number = self._archives[node_id]
        archive = f"{kind}-{node_id}{self._of}{f'-{number}' if number > 1 else ''}.tgz"
        named = [f"./{name}" for name in names]
        begin = ["tar", "-czf", archive, "-C", f"LOG_DIR_OF_{node_id}"]
        begin += [] if are_there else ["--ignore-failed-read"]
        if len(named) <= MOST_NAMES:
            return shlex.join([*begin, "--", *named])
        file = f"{archive.removesuffix('.tgz')}.txt"
        # tar resolves the file's path from the current directory, and the names in it below -C.
        command = shlex.join([*begin, f"--files-from={file}"])
        self._files[command] = (file, "".join(f"{name}\n" for name in named))
        return command

    def files_of(self, commands: Iterable[str]) -> dict[str, str]:
        """Files that list what `commands` copy, for those with too many names for a command line."""
        return dict(self._files[command] for command in commands if command in self._files)


def election_file(places: Iterable[TopicPartition]) -> str:
    """Input of kafka-leader-election.sh: the partitions, one per line."""
    return _file({}, [{"topic": topic, "partition": number} for topic, number in places])


def reassignment_file(assignments: Iterable[tuple[TopicPartition, tuple[int, ...]]]) -> str:
    """Input of kafka-reassign-partitions.sh: one partition per line, with its replicas in order."""
    partitions = [
        {"topic": topic, "partition": number, "replicas": list(replicas)} for (topic, number), replicas in assignments
    ]
    return _file({"version": 1}, partitions)


def _file(head: dict[str, int], partitions: Iterable[dict]) -> str:
    begin = "".join(f"{json.dumps(name)}: {value}, " for name, value in head.items())
    lines = ",\n".join(f"  {json.dumps(one)}" for one in partitions)
    return f'{{{begin}"partitions": [\n{lines}\n]}}\n'

"""A real Kafka cluster on copies of a capture's directories: started, stopped and asked by the tools' own commands.

Everything is below one directory and on the loopback interface; what is changed of the copies are ports only.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.brokers.captured_cluster import free_ports

#: Of a broker on the captures' small logs: quick to notice who is gone, no retention, no cleaning, no election by itself.
_SETTINGS = {
    "log.index.size.max.bytes": "4096",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "replica.lag.time.max.ms": "4000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "replica.fetch.wait.max.ms": "200",
    "log.retention.check.interval.ms": "3600000",
    # The first check comes after 30 s whatever its interval, and the captures' records get old.
    "log.retention.ms": "-1",
    "log.cleaner.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "background.threads": "2",
}
_OF_KRAFT = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "unclean.leader.election.interval.ms": "86400000",
}

_LOG4J2 = """rootLogger.level=INFO
rootLogger.appenderRef.out.ref=OUT
appender.out.type=Console
appender.out.name=OUT
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%p %m (%c{1})%n
"""
_LOG4J1 = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%p %m (%c{1})%n
"""

#: The class behind each of the tools' scripts: since 3.x or 4.0 in `tools`, before in `core`.
_MAINS = {
    "kafka-topics": ("org.apache.kafka.tools.TopicCommand", "kafka.admin.TopicCommand"),
    "kafka-configs": ("org.apache.kafka.tools.ConfigCommand", "kafka.admin.ConfigCommand"),
    "kafka-leader-election": ("org.apache.kafka.tools.LeaderElectionCommand", "kafka.admin.LeaderElectionCommand"),
    "kafka-reassign-partitions": (
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "kafka.admin.ReassignPartitionsCommand",
    ),
    "kafka-consumer-groups": (
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "kafka.admin.ConsumerGroupCommand",
    ),
    "kafka-transactions": ("org.apache.kafka.tools.TransactionsCommand",),
    "kafka-delete-records": ("org.apache.kafka.tools.DeleteRecordsCommand",),
    "kafka-storage": ("kafka.tools.StorageTool",),
    "kafka-features": ("org.apache.kafka.tools.FeatureCommand", "kafka.admin.FeatureCommand"),
    "kafka-metadata-quorum": ("org.apache.kafka.tools.MetadataQuorumCommand", "kafka.admin.MetadataQuorumCommand"),
    "kafka-console-consumer": ("org.apache.kafka.tools.consumer.ConsoleConsumer", "kafka.tools.ConsoleConsumer"),
}
#: As Kafka's own do: they come back at once, and a stop is a SIGTERM to the node of that id.
_START = """#!/bin/bash
[ "$1" = -daemon ] || exit 64
node=$(sed -n 's/^\\(node\\|broker\\)\\.id=//p' "$2")
log={out}/node-$node.$$.log
: > "$log"
rm -f {out}/started-$node
# A shell that stays waits for it, so that it is no zombie to whoever looks whether it has ended.
(
  nohup {java} kafka.Kafka "${{@:2}}" > "$log" 2>&1 < /dev/null &
  printf '%s\\n' $! "$log" > {out}/starting-$node
  mv {out}/starting-$node {out}/started-$node
  wait
) > /dev/null 2>&1 < /dev/null &
until [ -e {out}/started-$node ]; do sleep 0.1; done
"""
_STOP = """#!/bin/bash
case "$1" in --node-id=*) ;; *) exit 64 ;; esac
kill -TERM "$(head -n 1 {out}/started-${{1#--node-id=}})"
"""
#: Time that a started cluster is given to elect leaders and to bring replicas in sync.
SETTLE_SECONDS = 8
_UP = {
    "broker": r"from STARTING to STARTED|\[KafkaServer id=\d+\] started",
    "controller": r"\[ControllerServer id=\d+\] (Finished|Waiting)|Kafka Server started",
}


class SteeredCluster:
    """The nodes of one capture; `with` ends them all."""

    def __init__(self, capture: Path, out: Path, jars: Path) -> None:
        self.out, self.jars = out, jars
        out.mkdir(parents=True)
        self.directories: dict[int, Path] = {}
        self.roles: dict[int, str] = {}
        for source in sorted(capture.iterdir()):
            if source.is_dir() and (found := re.fullmatch(r"(broker|controller|combined)(-\d+)?", source.name)):
                node = _node_id(source)
                self.roles[node] = found[1]
                self.directories[node] = out / "logs" / source.name
                shutil.copytree(source, self.directories[node], ignore=shutil.ignore_patterns(".lock"))
        for name, text in (("log4j2.properties", _LOG4J2), ("log4j.properties", _LOG4J1)):
            (out / name).write_text(text)
            (out / f"quiet-{name}").write_text(text.replace("=INFO", "=ERROR"))
        self.ports = self._choose_ports(capture)
        self.write_properties()
        self.bin = out / "bin"
        """Kafka's scripts, which are not among its JARs."""
        self.bin.mkdir()
        for script, mains in _MAINS.items():
            call = shlex.join(self._java(next((one for one in mains if _has_class(jars, one)), mains[0])))
            self._write_script(f"{script}.sh", f'#!/bin/bash\nexec {call} "$@"\n')
        places = {"out": shlex.quote(str(out)), "java": shlex.join(self._java(heap="400m", quiet=False))}
        self._write_script("kafka-server-start.sh", _START.format(**places))
        self._write_script("kafka-server-stop.sh", _STOP.format(**places))

    def __enter__(self) -> SteeredCluster:
        return self

    def __exit__(self, *_: object) -> None:
        for node in filter(self._is_up, self.directories):
            self.kill(node)

    @property
    def brokers(self) -> list[int]:
        return [node for node, role in self.roles.items() if role != "controller"]

    @property
    def controllers(self) -> list[int]:
        return [node for node, role in self.roles.items() if role != "broker"]

    def controller_port(self, node: int) -> int:
        """The port that a voter listens on for other nodes of the quorum."""
        return self.ports[node]

    @property
    def up(self) -> list[int]:
        """Brokers that run, in the order in which they were started."""
        return sorted(filter(self._is_up, self.brokers), key=lambda node: self._started(node).stat().st_mtime_ns)

    def _choose_ports(self, capture: Path) -> dict[int, int]:
        """The port that each node listens on."""
        del capture
        return dict(zip(self.directories, free_ports(len(self.directories)), strict=True))

    @property
    def running(self) -> list[int]:
        """Nodes that run, controllers too."""
        return list(filter(self._is_up, self.directories))

    def _properties(self, node: int) -> Mapping[str, str]:
        role = self.roles[node]
        listeners = [] if role == "controller" else [f"PLAINTEXT://127.0.0.1:{self.ports[node]}"]
        listeners += [] if role == "broker" else [f"CONTROLLER://127.0.0.1:{self.controller_port(node)}"]
        voters = ",".join(f"{one}@127.0.0.1:{self.controller_port(one)}" for one in self.controllers)
        replicas = str(min(3, len(self.brokers)))
        return {
            "process.roles": "broker,controller" if role == "combined" else role,
            "node.id": str(node),
            "listeners": ",".join(listeners),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": ",".join(map(str, self.log_dirs(node))),
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            **_SETTINGS,
            **_OF_KRAFT,
        }

    def _java(self, *arguments: str, heap: str = "256m", quiet: bool = True) -> list[str]:
        prefix = "quiet-" if quiet else ""
        return [
            "java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={self.out}/{prefix}log4j2.properties",
            f"-Dlog4j.configuration=file:{self.out}/{prefix}log4j.properties",
            "-cp", f"{self.jars}/*", *arguments,
        ]  # fmt: skip

    def properties(self, node: int) -> Path:
        """The properties with which a node is started."""
        return self.out / f"node-{node}.properties"

    def write_properties(self) -> None:
        """Write the properties of every node, for its next start."""
        for node in self.directories:
            text = "".join(f"{name}={value}\n" for name, value in self._properties(node).items())
            self.properties(node).write_text(text)

    def pid(self, node: int) -> int:
        """The process of a node's last run."""
        return int(self._started(node).read_text().split("\n")[0])

    def log(self, node: int) -> Path:
        """The log of a node's last run."""
        return Path(self._started(node).read_text().split("\n")[1])

    def log_dirs(self, node: int) -> list[Path]:
        """Log directories of a node."""
        return sorted({path.parent for path in self.directories[node].rglob("meta.properties")})

    def start(self, *nodes: int) -> None:
        """Start nodes one after the other; each is up when this returns."""
        for node in nodes:
            self.launch(node)
            self.await_start(node)

    def await_start(self, node: int, seconds: float = 240) -> None:
        """Wait until a node that was started is up."""
        until = time.monotonic() + seconds
        while not re.search(
            _UP["controller" if self.roles[node] == "controller" else "broker"],
            text := self.log(node).read_text(errors="replace"),
        ):
            if not self._is_up(node) or time.monotonic() > until:
                raise RuntimeError(f"node {node} did not start:\n{text[-2000:]}")
            time.sleep(0.3)

    def await_end(self, node: int, seconds: float = 60) -> None:
        """Wait until a node that was told to stop is gone."""
        until = time.monotonic() + seconds
        while self._is_up(node):
            if time.monotonic() > until:
                raise RuntimeError(f"node {node} did not stop:\n{self.log(node).read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)

    def start_quorum(self) -> None:
        """Start the controllers, which wait for each other."""
        for node in self.controllers:
            self.launch(node)
        time.sleep(5)

    def start_all(self, *brokers: int) -> None:
        """Start the controllers and then the brokers, and wait until leaders and ISRs have settled."""
        self.start_quorum()
        self.start(*brokers)
        time.sleep(SETTLE_SECONDS)

    def stop(self, *nodes: int) -> None:
        """Stop nodes with SIGTERM, one after the other."""
        for node in nodes:
            os.kill(self.pid(node), signal.SIGTERM)
            self.await_end(node)

    def kill(self, *nodes: int) -> None:
        """Kill nodes, all at once."""
        for node in nodes:
            os.kill(self.pid(node), signal.SIGKILL)
        for node in nodes:
            self.await_end(node)

    def launch(self, node: int) -> None:
        """Start a node and do not wait until it is up."""
        command = [str(self.bin / "kafka-server-start.sh"), "-daemon", str(self.properties(node))]
        subprocess.run(command, check=True)

    def command(self, node: int) -> str:
        """The command line of a node that runs."""
        return Path(f"/proc/{self.pid(node)}/cmdline").read_bytes().replace(b"\0", b" ").decode()

    def _started(self, node: int) -> Path:
        """Where a start leaves the process and the log."""
        return self.out / f"started-{node}"

    def _is_up(self, node: int) -> bool:
        """True if its process runs; one that ended and was not waited for is a zombie."""
        if not self._started(node).exists():
            return False
        process = Path(f"/proc/{self.pid(node)}")
        try:
            command, state = (
                (process / "cmdline").read_bytes(),
                (process / "stat").read_text().rpartition(")")[2].split()[0],
            )
        except (FileNotFoundError, ProcessLookupError):
            return False
        # While it becomes Java it has no command line for a moment; with another one it is not ours any more.
        return state not in "ZX" and (not command or str(self.properties(node)).encode() in command)

    def _write_script(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.ports[node]}" for node in self.up)

    @property
    def zookeeper(self) -> str:
        """Where ZooKeeper answers."""
        raise NotImplementedError

    def tool(self, script: str, *arguments: str, seconds: float = 90) -> tuple[int, str]:
        """Exit status and output of one of Kafka's tools, named as its script."""
        command = [str(self.bin / f"{script}.sh"), *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=seconds, cwd=self.out, check=False)
        return ran.returncode, ran.stdout + ran.stderr

    def leaders(self, topics: Iterable[str]) -> dict[tuple[str, int], int | None]:
        """Who leads each partition of `topics`, by `kafka-topics --describe`."""
        found: dict[tuple[str, int], int | None] = {}
        _, text = self.tool("kafka-topics", "--bootstrap-server", self.bootstrap, "--describe")
        for line in re.finditer(r"Topic:\s*(\S+)\s+Partition:\s*(\d+)\s+Leader:\s*(\S+)", text):
            if line[1] in set(topics):
                found[line[1], int(line[2])] = int(line[3]) if line[3].isdigit() else None
        return found

    def await_followers(self, seconds: float = 20) -> None:
        """Wait until every replica on a broker that runs is in sync, as far as its partition has a leader, or it is clear that
        one does not come: what is there in the end is judged, not how it came."""
        until = time.monotonic() + seconds
        while self.behind() and time.monotonic() < until:
            time.sleep(1)

    def behind(self) -> list[str]:
        """Partitions with a replica that is not in sync though its broker runs, as far as they have a leader."""
        up = set(map(str, self.up))
        _, text = self.tool("kafka-topics", "--bootstrap-server", self.bootstrap, "--describe")
        found = re.finditer(
            r"Topic:\s*(\S+)\s+Partition:\s*(\d+)\s+Leader:\s*(\d+)\s+Replicas:\s*(\S+)\s+Isr:\s*(\S*)", text
        )
        return [f"{one[1]}-{one[2]}" for one in found if set(one[4].split(",")) & up - set(one[5].split(","))]

    def snapshot(self, name: str) -> Path:
        """A copy of all log directories as they are now, checkpoints first, then logs, the controllers' last."""
        target = self.out / name
        nodes = sorted(self.directories, key=lambda node: (self.roles[node] == "controller", node))
        for node in nodes:
            shutil.copytree(self.directories[node], target / self.directories[node].name, ignore=_ignored)
        return target


def _ignored(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if name == ".lock" or name.endswith((".index", ".timeindex", ".tmp"))]


def _node_id(directory: Path) -> int:
    for file in sorted(directory.rglob("meta.properties")):
        fields = dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line)
        return int(fields.get("node.id", fields.get("broker.id", -1)))
    raise ValueError(f"{directory} has no meta.properties")


def _has_class(jars: Path, name: str) -> bool:
    path = f"{name.replace('.', '/')}.class"
    for file in jars.glob("kafka*.jar"):
        with zipfile.ZipFile(file) as jar:
            if path in jar.namelist():
                return True
    return False

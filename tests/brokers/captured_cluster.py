"""A real KRaft cluster on copies of a capture's log directories: other ports, and nothing else changed."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

_BUILD = Path(__file__).parents[2] / "build"
#: Kafka's JARs by version; make test-brokers brings them.
JARS = {"4.3.1": _BUILD / "kafka", "3.9.1": _BUILD / "kafka-3.9.1", "2.8.2": _BUILD / "kafka-2.8.2"}

#: Retention, cleaning and periodic elections are kept from running into a test.
_SETTINGS = """
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
replica.lag.time.max.ms=4000
log.retention.check.interval.ms=3600000
log.retention.ms=-1
log.cleaner.enable=false
auto.leader.rebalance.enable=false
unclean.leader.election.interval.ms=86400000
num.network.threads=2
num.io.threads=2
"""
_LOGGING = """rootLogger.level=INFO
rootLogger.appenderRef.out.ref=OUT
appender.out.type=Console
appender.out.name=OUT
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss.SSS} %p %m (%c{1})%n
"""
#: The same for Log4j 1, of brokers before 4.0.
_LOGGING_1 = """log4j.rootLogger=INFO, OUT
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p %m (%c{1})%n
"""
_STARTED = re.compile(r"from STARTING to STARTED")
_CONTROLLER_STARTED = re.compile(r"\[ControllerServer id=\d+\] (Finished|Waiting for all of the authorizer)")
_SECONDS = 120


class CapturedCluster:
    """Brokers and controllers of one capture. Use as a context: on leaving it every process that it started is ended."""

    def __init__(self, capture: Path, out: Path, jars: Path = JARS["4.3.1"]) -> None:
        self._jars, self._out = jars, out
        self._directories: dict[int, Path] = {}
        self._controllers: list[int] = []
        self._processes: dict[int, subprocess.Popen] = {}
        out.mkdir(parents=True)
        for source in sorted(capture.iterdir()):
            if source.is_dir() and re.fullmatch(r"(broker|controller)(-\d+)?", source.name):
                self._add(source)
        self._ports = dict(zip(self._directories, free_ports(len(self._directories)), strict=True))
        (out / "log4j2.properties").write_text(_LOGGING)
        (out / "log4j.properties").write_text(_LOGGING_1)
        voters = ",".join(f"{node}@127.0.0.1:{self._ports[node]}" for node in self._controllers)
        for node, directory in self._directories.items():
            self._configure(node, directory, voters)

    def __enter__(self) -> CapturedCluster:
        return self

    def __exit__(self, *exception: object) -> None:
        for node in list(self._processes):
            self.end(node, signal.SIGKILL)

    def start(self, *brokers: int) -> str:
        """Start the controllers, then `brokers` one after the other, the one that is to lead first; HOST:PORT of theirs."""
        return self.start_again(*self._controllers, *brokers)

    def start_again(self, *nodes: int) -> str:
        """Start nodes beside those that run; HOST:PORT of the brokers among them."""
        for node in nodes:
            log = (self._out / f"{node}.log").open("wb")
            command = [*self.java("384m"), "kafka.Kafka", str(self._out / f"{node}.properties")]
            self._processes[node] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            self._await(node, _CONTROLLER_STARTED if node in self._controllers else _STARTED)
        return ",".join(f"127.0.0.1:{self._ports[node]}" for node in nodes if node not in self._controllers)

    def end(self, node: int, number: signal.Signals = signal.SIGTERM) -> None:
        """End one node and wait for it."""
        process = self._processes.pop(node)
        process.send_signal(number)
        process.wait(_SECONDS)

    def send(self, node: int, number: signal.Signals) -> None:
        """Send a signal to one node."""
        self._processes[node].send_signal(number)

    def directory(self, node: int) -> Path:
        """The log directory of a node."""
        return self._directories[node]

    def tool(self, main: str, *arguments: str) -> str:
        """Output of one of Kafka's own tools; raises if it fails."""
        command = [*self.java("256m"), main, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _add(self, source: Path) -> None:
        text = (source / "meta.properties").read_text()
        node = int(re.search(r"^node\.id=(\d+)$", text, re.M)[1])
        if source.name.startswith("controller"):
            self._controllers.append(node)
        self._directories[node] = self._out / source.name
        shutil.copytree(source, self._directories[node], ignore=shutil.ignore_patterns(".lock"))

    def _configure(self, node: int, directory: Path, voters: str) -> None:
        role = "controller" if node in self._controllers else "broker"
        name = "CONTROLLER" if role == "controller" else "PLAINTEXT"
        lines = [
            f"process.roles={role}",
            f"node.id={node}",
            f"listeners={name}://127.0.0.1:{self._ports[node]}",
            f"controller.quorum.voters={voters}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            f"log.dirs={directory}",
        ]
        (self._out / f"{node}.properties").write_text("\n".join(lines) + _SETTINGS)

    def java(self, heap: str) -> list[str]:
        """The command that starts one of Kafka's programs."""
        options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Xmx{heap}"]
        options.append(f"-Dlog4j2.configurationFile={self._out}/log4j2.properties")
        options.append(f"-Dlog4j.configuration=file:{self._out}/log4j.properties")
        return ["java", *options, "-cp", f"{self._jars}/*"]

    def _await(self, node: int, pattern: re.Pattern[str]) -> None:
        log, deadline = self._out / f"{node}.log", time.monotonic() + _SECONDS
        while not pattern.search(text := log.read_text(errors="replace")):
            ended = self._processes[node].poll() is not None
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"node {node} did not come up:\n{text[-3000:]}")
            time.sleep(0.2)


def free_ports(number: int) -> Sequence[int]:
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports

"""A real cluster with a remote store: one controller, three brokers, and Kafka's own LocalTieredStorage on a directory."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.brokers.clients import produce_values, run
from tests.brokers.steered_cluster import SteeredCluster

CONTROLLER, BROKERS = 100, (0, 1, 2)
CLUSTER_ID = "Tiered-ClusterAAAAAAAA"
VERSION = "4.3.1"
JARS = Path(__file__).parents[2] / "build" / "kafka-tiered"
_PATIENCE_SECONDS = 120
#: Small segments, rolled by a full index: 4.x refuses a segment.bytes below 1 MiB.
_TOPIC = {"remote.storage.enable": "true", "segment.index.bytes": "64", "index.interval.bytes": "256"}
_SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "remote.log.storage.manager.impl.prefix": "rsm.config.",
    "rsm.config.delete.on.close": "false",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    # An unclean election is asked for, and not made by itself; a broker that is slow for the load of a machine stays.
    "broker.session.timeout.ms": "6000",
}


class TieredCluster(SteeredCluster):
    """Formatted and empty at first."""

    def __init__(self, out: Path) -> None:
        blank = out / "blank"
        for node in (CONTROLLER, *BROKERS):
            directory = blank / f"{'controller' if node == CONTROLLER else 'broker'}-{node}"
            directory.mkdir(parents=True)
            (directory / "meta.properties").write_text(f"node.id={node}\n")
        self._tier = out / "run" / "tier"
        super().__init__(blank, out / "run", JARS)
        for node, directory in self.directories.items():
            (directory / "meta.properties").unlink()
            status, text = self.tool(
                "kafka-storage", "format", "--cluster-id", CLUSTER_ID, "--config", str(self.properties(node))
            )
            assert status == 0, text

    def _properties(self, node: int) -> Mapping[str, str]:
        return {**super()._properties(node), **_SETTINGS, "rsm.config.dir": str(self._tier)}

    def log_dirs(self, node: int) -> list[Path]:
        """Its only one, which may be an empty disk."""
        return [self.directories[node]]

    @property
    def store(self) -> Path:
        """The directory of the remote store."""
        return self._tier / "kafka-tiered-storage"

    def create(self, topic: str, replicas: tuple[int, ...], **configs: str) -> None:
        """A tiered topic of one partition."""
        given = {**_TOPIC, **{name.replace("_", "."): value for name, value in configs.items()}}
        words = [word for name, value in given.items() for word in ("--config", f"{name}={value}")]
        assignment = ":".join(map(str, replicas))
        self.ask("kafka-topics", "--create", "--topic", topic, "--replica-assignment", assignment, *words)

    def ask(self, script: str, *arguments: str) -> str:
        """Output of one of the tools; raises if it fails."""
        status, text = self.tool(script, "--bootstrap-server", self.bootstrap, *arguments)
        assert status == 0, text
        return text

    def produce(self, topic: str, tag: str, number: int) -> list[str]:
        """Produce so many records with values of about 200 bytes, and return the values."""
        values = [f"{topic}-{tag}-{one:04d}-".ljust(200, "x") for one in range(number)]
        produce_values(self.bootstrap, topic, 0, values)
        return values

    def delete_records(self, topic: str, offset: int) -> None:
        """Move the log start up to an offset (DeleteRecords)."""
        places = [{"topic": topic, "partition": 0, "offset": offset}]
        file = self.out / "purge.json"
        file.write_text(json.dumps({"partitions": places, "version": 1}))
        self.ask("kafka-delete-records", "--offset-json-file", str(file))

    def objects(self, topic: str) -> list[Path]:
        """Segments of a topic in the store, oldest first."""
        return sorted(self.store.glob(f"{topic}-0-*/*.log"), key=lambda path: path.name)

    def local_start(self, broker: int, topic: str) -> int:
        """Base offset of the first segment on a broker's disk."""
        return min((int(path.stem) for path in (self.directories[broker] / f"{topic}-0").glob("*.log")), default=-1)

    def await_that(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < until, f"waited in vain for: {what}"
            time.sleep(0.3)

    def await_leader(self, topic: str, broker: int | None) -> None:
        """Wait until a broker leads, or nobody does."""
        self.await_that(f"{topic} led by {broker}", lambda: self.leaders((topic,)).get((topic, 0)) == broker)

    def in_sync(self, topic: str) -> set[int]:
        """The brokers in sync, by the tool."""
        text = self.ask("kafka-topics", "--describe", "--topic", topic)
        found = re.search(r"Isr:\s*(\S+)", text)
        return set() if found is None else set(map(int, found[1].split(",")))

    def await_in_sync(self, topic: str, *brokers: int) -> None:
        """Wait until just these brokers are in sync."""
        self.await_that(f"{topic} in sync on {brokers}", lambda: self.in_sync(topic) == set(brokers))

    def capture(self, name: str, *, quiesced: bool = False) -> Path:
        """A copy of all log directories; `quiesced` if nothing runs."""
        target = self.snapshot(name)
        manifest = {"schema_version": 1, "kafka_version": VERSION, **({"quiesced": True} if quiesced else {})}
        (target / "manifest.json").write_text(json.dumps(manifest))
        return target

    def copy_live(self, name: str) -> Path:
        """A copy by the script of capture-plan, which knows what retention deletes meanwhile; made again while it is incomplete."""
        brokers = [f"{one}={self.directories[one]}" for one in self.brokers]
        for attempt in range(5):
            target = self.out / f"{name}-{attempt}"
            script = run("capture-plan", *brokers, "--to", str(target), "--kafka-version", VERSION)
            copied = subprocess.run(["bash"], input=script, text=True, check=False, capture_output=True)
            if copied.returncode == 0:
                return target
        raise AssertionError(copied.stdout + copied.stderr)

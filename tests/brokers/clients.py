"""The command as a process of its own, and a consumer that shares no code with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

ROOT = Path(__file__).parents[2]
PROGRAM = "from replica_audit.cli.main import entry_point; entry_point()"


class Received(NamedTuple):
    """A record as a consumer of committed records gets it."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


def search_path() -> str:
    """Paths of the package, and of the client that `make test-brokers` installs."""
    return f"{ROOT / 'lib'}{os.pathsep}{ROOT / 'build' / 'restore'}"


def start(*arguments: str) -> subprocess.Popen[str]:
    """`replica-audit` with these arguments, with the client that `make test-brokers` brings."""
    environment = {**os.environ, "PYTHONPATH": search_path()}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def run(*arguments: str, status: int | None = 0) -> str:
    """Output of `replica-audit` on stdout and stderr; with None any exit status is accepted."""
    process = start(*arguments)
    out, err = process.communicate(timeout=300)
    assert status in (None, process.returncode), out + err
    return out + err


def received(bootstrap: str, topic: str, partition: int) -> list[Received]:
    """Every committed record of a partition, in order."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        isolation_level="read_committed",
        enable_auto_commit=False,
        consumer_timeout_ms=4000,
    )
    try:
        place = TopicPartition(topic, partition)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        return [Received(one.key, one.value, one.timestamp, tuple(one.headers)) for one in consumer]
    finally:
        consumer.close()


def produce_values(bootstrap: str, topic: str, partition: int, values: Sequence[str]) -> None:
    """Records with these values, each in a batch of its own, acknowledged by all in sync."""
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all")
    try:
        for value in values:
            producer.send(topic, value.encode(), partition=partition).get(60)
    finally:
        producer.close()


@contextmanager
def transaction(
    bootstrap: str, topic: str, partition: int, values: Sequence[str], transactional_id: str
) -> Iterator[Callable[[], None]]:
    """A transaction with records of these values, all acknowledged; what commits it is yielded."""
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), transactional_id=transactional_id)
    try:
        producer.init_transactions()
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value.encode(), partition=partition).get(60)
        yield producer.commit_transaction
    finally:
        producer.close(1)


def produce(bootstrap: str, topic: str, key: bytes, value: bytes | None) -> None:
    """One record, acknowledged."""
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","))
    try:
        producer.send(topic, value, key, partition=0).get(60)
    finally:
        producer.close()


def run_json(*arguments: str) -> dict[str, Any]:
    """The object that `replica-audit` prints with `--format json`."""
    return json.loads(run(*arguments, "--format", "json"))

"""Latency of a broker with and without a collection of its evidence at the default rate, in turns in one run.

Run, with Kafka's JARs of `make test-brokers` and kafka-python of `make install-cluster`:
`.venv/bin/python benchmarks/latency.py [--turns N] [--seconds N] [--mib N]`. A real broker gets a topic of that size; then one
client sends a record every 5 ms and waits for each, another reads them at the end of the log. In every other turn the collector
reads the broker's log directory again and again, each time as a process of its own. It prints, of all turns with and without it, the
latency of a produce request, and of a record from when it is sent until the reader has it, in ms: median, 99 % and greatest; and how much of
the broker's segments is in the page cache before and after each turn.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.brokers.captured_cluster import CapturedCluster  # noqa: E402
from tests.support.fixtures import FIXTURES  # noqa: E402

from replica_audit.cli.capture_plan_command import collector_text  # noqa: E402
from replica_audit.collect.collect import resident_pages  # noqa: E402

MIB = 1 << 20
_PLACE = TopicPartition("latency", 0)
_SENT = struct.Struct(">d")
#: Before the first turn: JIT, connections.
_WARM_UP = 10.0


class Clients:
    """A producer that waits for each record, and a reader at the end of the log, with what both measured."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._ended = threading.Event()
        self.produced: list[float] = []
        self.fetched: list[float] = []
        self._threads = [threading.Thread(target=one) for one in (self._fetch, self._produce)]

    def __enter__(self) -> Clients:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        for one in self._threads:
            one.join()

    def _produce(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self._bootstrap, acks="all", linger_ms=0)
        due = time.perf_counter()
        while not self._ended.is_set():
            begin = time.perf_counter()
            producer.send("latency", value=_SENT.pack(begin) + os.urandom(1000), partition=0).get(60)
            self.produced.append(time.perf_counter() - begin)
            due = max(due + 0.005, time.perf_counter() - 0.1)
            time.sleep(max(0.0, due - time.perf_counter()))
        producer.close()

    def _fetch(self) -> None:
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap, fetch_max_wait_ms=100)
        consumer.assign([_PLACE])
        consumer.seek_to_end(_PLACE)
        while not self._ended.is_set():
            for records in consumer.poll(timeout_ms=200).values():
                now = time.perf_counter()
                self.fetched += [now - _SENT.unpack_from(record.value)[0] for record in records]
        consumer.close()


def _fill(bootstrap: str, mib: int) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks=1, linger_ms=20, batch_size=256 << 10, max_request_size=2 * MIB
    )
    for _ in range(mib * 16):
        producer.send("filled", value=os.urandom(64 << 10), partition=0)
    producer.flush()
    producer.close()


def _forget(log_dir: Path) -> None:
    """Take the segments out of memory that are no longer written, as on a broker that has more of them than memory."""
    for path in sorted(log_dir.glob("filled-0/*.log"))[:-1]:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _cached(log_dir: Path) -> tuple[int, int]:
    """MiB of the segments in memory, and in all."""
    cached = size = 0
    for path in log_dir.rglob("*.log"):
        with path.open("rb") as file:
            length = path.stat().st_size
            cached += mmap.PAGESIZE * resident_pages(file.fileno(), 0, length).count(1)
            size += length
    return cached // MIB, size // MIB


def _collect(log_dir: Path, until: float) -> tuple[int, float]:
    """Collect at the default rate until that time; how often, and MiB read."""
    often, read = 0, 0
    while time.monotonic() < until:
        with tempfile.NamedTemporaryFile(suffix=".tar") as out:
            command = [sys.executable, "-I", "-B", "-", "--log-dir", str(log_dir), "--broker-id", "0", "--kind", "live"]
            subprocess.run(command, input=collector_text().encode(), stdout=out, check=True)
            with tarfile.open(out.name) as tar:
                read += json.loads(tar.extractfile("evidence-0.json").read())["bytes_read"]  # type: ignore[union-attr]
        often += 1
    return often, read / MIB


def _told(latencies: Sequence[float]) -> str:
    ordered = sorted(latencies)
    chosen = (ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], ordered[-1])
    return " / ".join(f"{1000 * one:.1f}" for one in chosen) + f" ms of {len(ordered):,}"


def _turns(
    clients: Clients, log_dir: Path, turns: int, seconds: float
) -> Iterator[tuple[bool, list[float], list[float]]]:
    """Whether the collector ran, and the latencies, of each turn."""
    for number in range(2 * turns):
        is_collecting = bool(number % 2)
        before, first, second = _cached(log_dir), len(clients.produced), len(clients.fetched)
        begin = time.monotonic()
        often, read = _collect(log_dir, begin + seconds) if is_collecting else (0, 0.0)
        time.sleep(max(0.0, begin + seconds - time.monotonic()))
        took = time.monotonic() - begin
        after = _cached(log_dir)
        what = f"{often} collections, {read / took:.0f} MiB/s" if is_collecting else "no collection"
        print(
            f"{what}, {took:.0f} s: {before[0]} of {before[1]} MiB cached before, {after[0]} of {after[1]} after",
            flush=True,
        )
        yield is_collecting, clients.produced[first:], clients.fetched[second:]


def main() -> None:
    """Print the latencies of both kinds of turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--turns", type=int, default=5, help="with the collector, and as many without (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=20, help="least length of a turn (default: %(default)s)")
    parser.add_argument("--mib", type=int, default=512, help="size of the filled topic (default: %(default)s)")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as place,
        CapturedCluster(FIXTURES / "healthy-running", Path(place, "run")) as cluster,
    ):
        bootstrap = cluster.start(0)
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        small = {"segment.bytes": str(64 * MIB)}
        names = ("latency", "filled")
        admin.create_topics([NewTopic(name, replica_assignments={0: [0]}, topic_configs=small) for name in names])
        _fill(bootstrap, arguments.mib)
        _forget(cluster.directory(0))
        found: dict[bool, tuple[list[float], list[float]]] = {False: ([], []), True: ([], [])}
        with Clients(bootstrap) as clients:
            time.sleep(_WARM_UP)
            print(
                f"load of the machine, of {os.cpu_count()} cores: {' '.join(f'{one:.1f}' for one in os.getloadavg())}"
            )
            for is_collecting, produced, fetched in _turns(
                clients, cluster.directory(0), arguments.turns, arguments.seconds
            ):
                found[is_collecting][0].extend(produced)
                found[is_collecting][1].extend(fetched)
            print(f"load at the end: {' '.join(f'{one:.1f}' for one in os.getloadavg())}")
    for is_collecting, (produced, fetched) in found.items():
        how = "with" if is_collecting else "without"
        print(f"{how} the collector: produce {_told(produced)}, until read {_told(fetched)} (median / 99 % / greatest)")


if __name__ == "__main__":
    main()

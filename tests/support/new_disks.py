"""Snapshots of brokers with a new, empty disk beside the one that they used before, or in its place."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.support import metadata_log as write
from tests.support.scenario import written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, make_uuid, write_log_dir, write_manifest, write_snapshot

BEHIND = Replica(written(0, 10, 0))


def add_disk(snapshot: Path, files: Iterable[str] = (), broker: int = 1) -> str:
    """A log dir of a broker without any partition."""
    new = snapshot / f"broker-{broker}-new"
    new.mkdir()
    (new / "meta.properties").write_text(f"version=1\nnode.id={broker}\n")
    for name in files:
        (new / name).write_text("0\n0\n")
    return new.name


def write_left_disk(path: Path) -> Path:
    """Those of `write_new_disks`; broker 1 ran with the empty one by a manifest."""
    write_new_disks(path)
    kinds = {"broker-1": "stopped", "broker-1-less": "stopped", "broker-1-new": "live"}
    said = [{"broker_id": 1, "log_dir": log_dir, "kind": kind} for log_dir, kind in kinds.items()]
    write_manifest(path, brokers=said)
    return path


def write_new_disks(path: Path) -> Path:
    """A healthy partition, one that broker 1 led alone, and one that broker 2 led alone, until both went down. Each has the disk with
    its longer log, one with a shorter log, and an empty one."""
    topics = {name: TOPIC_ID if name == TOPIC else make_uuid(name) for name in (TOPIC, "payments", "refunds")}
    used = {broker: make_uuid(f"disk {broker}") for broker in (1, 2, 3)}
    led = {TOPIC: 3, "payments": 1, "refunds": 2}
    begin = [write.register_broker(one, log_dirs=(used[one],)) for one in used]
    for topic, topic_id in topics.items():
        begin += write.new_topic(topic, topic_id, (1, 2, 3), led[topic], directories=(used[1], used[2], used[3]))
    later = [write.change(topics[topic], isr=(one,)) for topic, one in led.items() if topic != TOPIC]
    later += [write.change(topics[topic], leader=-1) for topic in led if topic != TOPIC]
    later += [write.registration_change(one, 1) for one in (1, 2)]

    def log(topic: str, end: int) -> Replica:
        return Replica(written(0, end, 0), topic=topic, topic_id=topics[topic])

    for broker in used:
        own = [log(topic, 20 if topic == TOPIC or led[topic] == broker else 10) for topic in topics]
        write_log_dir(path / f"broker-{broker}", broker, own, directory_id=used[broker])
        for topic in (one for one in led if one != TOPIC and led[one] == broker):
            write_log_dir(path / f"broker-{broker}-less", broker, [log(topic, 5)])
            add_disk(path, broker=broker)
    return write_snapshot(path, {}, metadata={100: write.history(begin, *later)})

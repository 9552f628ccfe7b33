"""A snapshot of two brokers with everything planted in it that an engine is apt to miss, and what has to be found."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from tests.support.encoder import Record, encode_batch
from tests.support.snapshots import Listed, Replica, make_uuid, write_snapshot

CLUSTER_ID = make_uuid("planted cluster")

#: In the key, value and headers of every record: nothing that is written may hold it.
MARKER = b"PLANTED-RECORD-CONTENT"

#: Names that engines and shells like to pass over, and names that are cut wrongly.
ODD_NAMES = ("__consumer_offsets", "_hidden", ".dotted", "with.dots_and-dashes", "UPPER")

#: A log over several chunks of 65,536 offsets, with one other batch in the second of them.
LONG = "long"
LONG_BATCHES, LONG_STEP = 250, 1000
LONG_DIVERGENCE = (100_000, 101_000)

#: Its second segment on broker 2 cannot be read; the first can.
BROKEN = "broken"

#: Nobody says who leads it but the user.
UNLED = "unled"

TOPICS = tuple(sorted((*ODD_NAMES, LONG, BROKEN, UNLED)))
DESCRIBED = tuple(topic for topic in TOPICS if topic != UNLED)


def marked_batch(base_offset: int, count: int, leader_epoch: int = 0, mark: bytes = b"") -> bytes:
    """A batch whose every record carries the marker three times."""
    records = [Record(MARKER + b"-key", MARKER + mark, headers=((MARKER.decode(), MARKER),)) for _ in range(count)]
    return encode_batch(base_offset, records, leader_epoch)


def moved(batch: bytes, base_offset: int) -> bytes:
    """The same batch elsewhere: neither base offset nor leader epoch are under the CRC."""
    return struct.pack(">q", base_offset) + batch[8:]


def _long_log(differing: bool) -> tuple[bytes, ...]:
    usual, other = marked_batch(0, LONG_STEP), marked_batch(0, LONG_STEP, mark=b"-other")
    return tuple(
        moved(other if differing and number * LONG_STEP == LONG_DIVERGENCE[0] else usual, number * LONG_STEP)
        for number in range(LONG_BATCHES)
    )


def _replica(topic: str, broker_id: int) -> Replica:
    usual = tuple(marked_batch(offset, 5) for offset in (0, 5, 10, 15))
    batches, step = (_long_log(broker_id == 2), 100) if topic == LONG else (usual, 2)
    return Replica(batches, topic=topic, topic_id=make_uuid(f"planted {topic}"), per_segment=step)


def write_planted(path: Path) -> Path:
    """The snapshot at `path`, which must not exist; returns it. Broker 1 leads everything, and was stopped cleanly."""
    both = (1, 2)
    listed = [Listed(1, both, both, topic=topic, topic_id=make_uuid(f"planted {topic}")) for topic in DESCRIBED]
    replicas = {broker_id: [_replica(topic, broker_id) for topic in TOPICS] for broker_id in both}
    write_snapshot(path, replicas, listed, manifest={}, cluster_id=CLUSTER_ID, disks="planted disk", clean=[1])
    segment = path / "broker-2" / f"{BROKEN}-0" / f"{10:020d}.log"
    segment.unlink()
    segment.symlink_to("nowhere")
    return path


def write_leadership(path: Path) -> Path:
    """A leadership file for the partition that nobody else speaks of."""
    path.write_text(json.dumps([{"topic": UNLED, "partition": 0, "leader": 2, "leader_epoch": 7, "isr": [1, 2]}]))
    return path


#: Where a chunk's number is not exact any more as a floating-point number, close to the end of a chunk.
FAR = 2**62 + 65_520


def write_far(path: Path) -> Path:
    """A snapshot of two brokers whose logs differ in one batch, at offsets that only integers tell apart."""
    usual, other = marked_batch(0, 5), marked_batch(0, 5, mark=b"-other")
    logs = {1: [usual] * 4, 2: [usual, usual, other, usual]}
    replicas = {
        broker_id: Replica([moved(one, FAR + 5 * at) for at, one in enumerate(log)], topic="far", topic_id=None)
        for broker_id, log in logs.items()
    }
    return write_snapshot(path, replicas, cluster_id=CLUSTER_ID)


def write_small(path: Path, topics: tuple[str, ...] = ("small",), batches: int = 1) -> Path:
    """A snapshot of one broker with a few records, for tests of the stages themselves."""
    content = [marked_batch(5 * number, 5) for number in range(batches)]
    replicas = [Replica(content, topic=topic, topic_id=None) for topic in topics]
    return write_snapshot(path, {1: replicas}, cluster_id=CLUSTER_ID)

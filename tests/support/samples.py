"""Writer of the textbook samples under data/samples: each a snapshot of one partition, with its expected answer.

`python -m tests.support.samples` writes them anew; a test holds that this changes no byte. The READMEs beside them are
written by hand, and so are the expected answers below: none of them was computed by the audit.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.support.encoder import TIMESTAMP_MS, Record, encode_batch
from tests.support.snapshots import TOPIC, Listed, Replica, make_uuid, write_snapshot

from replica_audit.literals import PROTOCOLS, CaptureKind

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"


@dataclass(frozen=True, slots=True)
class Broker:
    """One replica: log end, checkpointed high watermark, lines of its epoch file, and its answers as a follower."""

    log_end: int
    high_watermark: int
    epochs: tuple[tuple[int, int], ...] = ((0, 0),)
    batches_per_segment: int | None = None
    divergences: tuple[tuple[int, int], ...] = ()
    committed: tuple[tuple[int, int], ...] = ()
    truncate_to: tuple[int, int, int, int] | None = None
    """In the order of `PROTOCOLS`; None for the leader."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One instant of one partition and what the audit has to say of it."""

    brokers: dict[int, Broker]
    leader: int
    isr: tuple[int, ...]
    high_watermark: tuple[int, int]
    verdict: str
    exit_status: int
    cuts: tuple[int, ...] = ()
    """Offsets at which batches begin, besides multiples of five and the starts of epochs."""
    answers: dict[str, object] = field(default_factory=dict)
    """Further columns of `high_watermarks` that are settled."""
    codes: tuple[str, ...] = ()
    """Findings that must be among those of the partition."""
    configs: dict[str, str] = field(default_factory=lambda: {"min.insync.replicas": "1"})
    states: dict[int, CaptureKind] = field(default_factory=dict)
    """State of each broker while it was copied, if the story has it."""


TEXTBOOK = {
    "consumable-prefix": Sample(
        brokers={1: Broker(15, 8), 2: Broker(12, 7, truncate_to=(7, 12, 12, 12))},
        leader=1,
        isr=(1, 2),
        high_watermark=(8, 12),
        answers={"limiting_broker_id": 2},
        verdict="LAGGING",
        exit_status=0,
        cuts=(7, 8, 12),
        codes=("REP-LAG",),
        states={1: "live", 2: "live"},
    ),
    "isr-minimum": Sample(
        brokers={
            1: Broker(105, 100, batches_per_segment=8),
            2: Broker(104, 100, batches_per_segment=8, truncate_to=(100, 104, 104, 104)),
            3: Broker(100, 100, batches_per_segment=7, truncate_to=(100, 100, 100, 100)),
            4: Broker(85, 85, batches_per_segment=7, truncate_to=(85, 85, 85, 85)),
        },
        leader=1,
        isr=(1, 2, 3),
        high_watermark=(100, 100),
        answers={"limiting_broker_id": 3, "method": "bounds_meet"},
        verdict="LAGGING",
        exit_status=0,
        cuts=(104,),
        codes=("REP-UNDER-REPLICATED", "REP-LAG"),
        states=dict.fromkeys((1, 2, 3, 4), "live"),
    ),
    "hw-truncation-before": Sample(
        brokers={1: Broker(2, 2), 2: Broker(2, 1, truncate_to=(1, 2, 2, 2))},
        leader=1,
        isr=(1, 2),
        high_watermark=(2, 2),
        verdict="CONSISTENT",
        exit_status=0,
        cuts=(1,),
    ),
    "hw-truncation-lost": Sample(
        brokers={
            1: Broker(2, 2, divergences=((1, 2),), committed=((1, 2),), truncate_to=(1, 1, 1, 1)),
            2: Broker(1, 1, epochs=((0, 0), (1, 1))),
        },
        leader=2,
        isr=(2,),
        high_watermark=(1, 1),
        verdict="COMMITTED_LOSS",
        exit_status=1,
        cuts=(1,),
        codes=("HWM-LOSS",),
        states={1: "killed", 2: "live"},
    ),
    "hw-truncation-divergence": Sample(
        brokers={
            1: Broker(2, 2, divergences=((1, 2),), committed=((1, 2),), truncate_to=(2, 1, 1, 1)),
            2: Broker(2, 1, epochs=((0, 0), (1, 1))),
        },
        leader=2,
        isr=(2,),
        high_watermark=(1, 2),
        verdict="COMMITTED_LOSS",
        exit_status=1,
        cuts=(1,),
        codes=("HWM-LOSS",),
        states={1: "killed", 2: "live"},
    ),
    "fast-failover": Sample(
        brokers={
            1: Broker(12, 10, epochs=((0, 0), (2, 10)), divergences=((10, 12),), truncate_to=(10, 12, 10, 10)),
            2: Broker(20, 10, epochs=((0, 0), (1, 10), (3, 15))),
        },
        leader=2,
        isr=(2,),
        high_watermark=(10, 20),
        verdict="UNCOMMITTED_DIVERGENCE",
        exit_status=0,
        codes=("DIV-EPOCH", "EPO-UNKNOWN-TO-LEADER"),
    ),
    "zombie": Sample(
        brokers={
            1: Broker(60, 60, epochs=((0, 0), (1, 40), (2, 60)), batches_per_segment=6),
            2: Broker(
                60,
                60,
                epochs=((0, 0), (1, 50)),
                batches_per_segment=5,
                divergences=((40, 50),),
                truncate_to=(60, 60, 60, 60),
            ),
        },
        leader=1,
        isr=(1, 2),
        high_watermark=(60, 60),
        verdict="COMMITTED_DIVERGENCE",
        exit_status=1,
        codes=("DIV-HIDDEN", "EPO-START-MISMATCH"),
    ),
    "last-replica-standing": Sample(
        brokers={
            1: Broker(93, 93, epochs=((4, 0), (5, 93)), batches_per_segment=10),
            2: Broker(
                100,
                100,
                epochs=((4, 0),),
                batches_per_segment=10,
                divergences=((93, 100),),
                committed=((93, 100),),
                truncate_to=(93, 93, 93, 93),
            ),
        },
        leader=1,
        isr=(1,),
        high_watermark=(93, 93),
        verdict="COMMITTED_LOSS",
        exit_status=1,
        cuts=(93,),
        codes=("HWM-LOSS",),
        states={1: "live", 2: "killed"},
    ),
    "unclean-election": Sample(
        brokers={
            1: Broker(10, 8, divergences=((6, 10),), committed=((6, 8),), truncate_to=(8, 6, 6, 6)),
            2: Broker(9, 6, epochs=((0, 0), (1, 6))),
        },
        leader=2,
        isr=(2,),
        high_watermark=(6, 9),
        verdict="COMMITTED_LOSS",
        exit_status=1,
        cuts=(6, 8),
        codes=("HWM-LOSS",),
        configs={"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
        states={1: "killed", 2: "live"},
    ),
}


def sample_batches(broker: Broker, cuts: tuple[int, ...]) -> tuple[bytes, ...]:
    """The replica's log: what an epoch's leader wrote at an offset is the same on every replica that has it."""
    starts = [start for _, start in broker.epochs]
    bases = {0, *range(0, broker.log_end, 5), *cuts, *starts}
    bounds = sorted(base for base in bases if base < broker.log_end) + [broker.log_end]
    batches = []
    for base_offset, end_offset in zip(bounds, bounds[1:], strict=False):
        leader_epoch = max(epoch for epoch, start in broker.epochs if start <= base_offset)
        written = TIMESTAMP_MS + base_offset * 1000 + leader_epoch * 60_000
        records = [
            Record(
                key=f"order-{offset}".encode(),
                value=f'{{"order":{offset},"taken_in_epoch":{leader_epoch}}}'.encode(),
                timestamp_ms=written + offset - base_offset,
            )
            for offset in range(base_offset, end_offset)
        ]
        batches.append(encode_batch(base_offset, records, leader_epoch, timestamp_ms=written))
    return tuple(batches)


def sample_replica(sample: Sample, broker_id: int, **place: Any) -> Replica:
    """One replica of a sample, of the topic and partition of `place`."""
    broker = sample.brokers[broker_id]
    batches = sample_batches(broker, sample.cuts)
    mark, step = broker.high_watermark, broker.batches_per_segment
    return Replica(batches, broker.epochs, high_watermark=mark, per_segment=step, **place)


def expected_answer(sample: Sample) -> dict:
    """The machine-readable answer: the content of the sample's expected.json."""
    followers = {str(broker_id): broker for broker_id, broker in sample.brokers.items() if broker_id != sample.leader}
    low, high = sample.high_watermark
    return {
        "exit_status": sample.exit_status,
        "partitions": {
            f"{TOPIC}-0": {
                "verdict": sample.verdict,
                "leader_id": sample.leader,
                "isr": list(sample.isr),
                "leader_epoch": sample.brokers[sample.leader].epochs[-1][0],
                "high_watermark": [low, high],
                "exact": low == high,
                **sample.answers,
                "divergences": {key: [list(run) for run in broker.divergences] for key, broker in followers.items()},
                "committed": {key: [list(run) for run in broker.committed] for key, broker in followers.items()},
                "truncate_to": {
                    key: dict(zip(PROTOCOLS, broker.truncate_to, strict=True)) for key, broker in followers.items()
                },
                "codes": list(sample.codes),
            }
        },
    }


def answer_text(value: object, depth: int = 0) -> str:
    """JSON with one line for each field of a partition, since a line for each number is unreadable."""
    if depth == 4 or not isinstance(value, dict):
        text = json.dumps(value)
    else:
        inner = "  " * (depth + 1)
        fields = [
            f"{inner}{json.dumps(key)}: {answer_text(field_value, depth + 1)}" for key, field_value in value.items()
        ]
        text = "{\n" + ",\n".join(fields) + "\n" + "  " * depth + "}" if fields else "{}"
    return text if depth else text + "\n"


def write_sample(name: str, path: Path) -> None:
    """The log dirs, describe listing, manifest.json and expected.json of one textbook sample, in an existing directory `path`."""
    sample = TEXTBOOK[name]
    topic_id = make_uuid(f"{name} topic")
    replicas = {broker_id: sample_replica(sample, broker_id, topic_id=topic_id) for broker_id in sample.brokers}
    listed = Listed(sample.leader, sorted(sample.brokers), sample.isr, configs=sample.configs, topic_id=topic_id)
    write_snapshot(path, replicas, [listed], cluster_id=make_uuid(f"{name} cluster"), disks=f"{name} disk")
    if sample.states:
        brokers = ({"broker_id": one, "log_dir": f"broker-{one}", "kind": kind} for one, kind in sample.states.items())
        lines = ",\n  ".join(map(json.dumps, brokers))
        (path / "manifest.json").write_text(f'{{"schema_version": 1, "brokers": [\n  {lines}]}}\n')
    (path / "expected.json").write_text(answer_text(expected_answer(sample)))


def write_cluster(path: Path, partitions: int, samples: tuple[str, ...] = tuple(TEXTBOOK)) -> Path:
    """A snapshot at `path`, which is returned: every sample of `samples` is a topic of its name with `partitions` partitions."""
    held: dict[int, list[Replica]] = defaultdict(list)
    listed = []
    for name in samples:
        sample, named = TEXTBOOK[name], {"topic": name, "topic_id": make_uuid(name)}
        for broker_id in sample.brokers:
            first = sample_replica(sample, broker_id, **named)
            held[broker_id] += [replace(first, partition=number) for number in range(partitions)]
        first = Listed(sample.leader, tuple(sample.brokers), sample.isr, configs=sample.configs, **named)
        listed += [replace(first, partition=number) for number in range(partitions)]
    return write_snapshot(path, held, listed, cluster_id=make_uuid("many partitions"))


def main() -> None:
    """Write every textbook sample anew; READMEs and the captures of real clusters stay as they are."""
    for name, sample in TEXTBOOK.items():
        path = SAMPLES / name
        path.mkdir(parents=True, exist_ok=True)
        for broker_id in sample.brokers:
            shutil.rmtree(path / f"broker-{broker_id}", ignore_errors=True)
        write_sample(name, path)


if __name__ == "__main__":
    main()

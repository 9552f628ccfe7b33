"""Scenes: three replicas of one partition whose controller wrote one change of leader or ISR after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tests.support import metadata_log as write
from tests.support.scenario import Answer, audit, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, write_log_dir


def change(**fields) -> bytes:
    """A PartitionChangeRecord of the scene's partition."""
    return write.change(TOPIC_ID, **fields)


COMMON = written(0, 50, 0)
#: Broker 1 led alone, went down, and broker 2 was elected.
UNCLEAN_TO_2 = (change(isr=(1,)), write.registration_change(1, 1), change(leader=2, isr=(2,), recovering=True))
FENCE = {broker: write.registration_change(broker, 1) for broker in (1, 2, 3)}
TWO = {"min.insync.replicas": "2"}


def scene(
    path: Path,
    brokers: dict[int, Replica],
    *changes: bytes | Sequence[bytes],
    replicas=(1, 2, 3),
    configs=None,
    seen: Mapping[int, int] = MappingProxyType({}),
    also: Iterable[bytes] = (),
    apart_ms=1000,
    **options,
) -> Answer:
    """A cluster of three, led by broker 1 in epoch 0, whose controller then wrote `changes`, `apart_ms` apart.

    The brokers `seen` have own copies of the metadata log, with as many of the changes. `also`: records before the changes.
    """
    begin = write.new_topic(TOPIC, TOPIC_ID, replicas, 1)
    configs = {"min.insync.replicas": "1"} if configs is None else configs
    begin += [write.config(2, TOPIC, name, value) for name, value in configs.items()]
    begin += [*(write.register_broker(broker) for broker in replicas), *also]
    copies = {100: len(changes), **seen}
    metadata = {node: write.history(begin, *changes[:known], apart_ms=apart_ms) for node, known in copies.items()}
    return audit(path, brokers, metadata=metadata, **options)


def log(end: int, high_watermark: int, epochs: tuple[tuple[int, int], ...] = ((0, 0),), **options) -> Replica:
    """One record a batch; an epoch begins where `epochs` say so, in the file as well."""
    starts = [*(start for _, start in epochs), end]
    parts = [
        written(start, min(until, end), epoch, f"{epoch} ", step=1)
        for (epoch, start), until in zip(epochs, starts[1:])
        if start < min(until, end)
    ]
    batches = [batch for part in parts for batch in part]
    return Replica(batches, high_watermark=high_watermark, epochs=epochs, **options)


UNIQUE = "5ce01f624f974a48b95f875be0c0e41b"
NEW = Replica([*COMMON, *written(50, 60, 1, "new ")], high_watermark=50)
OLD = [*COMMON, *written(50, 56, 0, "old ")]


def beside(
    path: Path, broker: int, place: str, batches: list[bytes], topic_id: str | None = TOPIC_ID
) -> Callable[[], None]:
    """Writes a copy of broker `broker` beside its replica, or without one, on its second disk."""

    def write() -> None:
        suffix = "" if place == "duplicate" else f".{UNIQUE}-{place}"
        disk = path / f"broker-{broker}" / "b"
        write_log_dir(disk, broker, [Replica(batches, ((0, 0),), topic_id=topic_id, suffix=suffix)])
        for one in disk.glob("*-checkpoint"):
            one.unlink()

    return write

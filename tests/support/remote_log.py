"""Tiered topics for tests: a leader whose older segments are in remote storage, and the log that tells of them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.support.encoder import Record, encode_batch
from tests.support.metadata_log import uuid, uvarint
from tests.support.scenario import Answer, audit, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, make_uuid, write_manifest

TIERED = {"remote.storage.enable": "true"}
STARTED, FINISHED, DELETING, DELETED = range(4)


def leader(*epochs: tuple[int, int], start: int = 100, log_start: int = 0, end: int = 120) -> Replica:
    """Its files begin at `start`, the rest from `log_start` on is in remote storage; `epochs` are those of the file."""
    epoch = epochs[-1][0]
    return Replica(written(start, end, epoch), epochs=epochs, log_start=log_start, first_base_offset=start)


def tiered(path: Path, brokers: dict[int, Replica], configs: Mapping[str, str] = TIERED, **options) -> Answer:
    return audit(path, brokers, configs={**TIERED, **configs}, isr=(1,), **options)


def _id(name: str, topic_id: str) -> bytes:
    topic = TOPIC.encode()
    place = uvarint(len(topic) + 1) + topic + uuid(topic_id) + struct.pack(">i", 0) + b"\x00"
    return place + uuid(make_uuid(name)) + b"\x00"


def copied(
    start: int,
    end: int,
    *epochs: tuple[int, int],
    state: int = FINISHED,
    topic_id: str = TOPIC_ID,
    at: tuple[int, int] = (1, 2),
    by: tuple[int, int] = (0, 0),
    number: int = 0,
    size: int = 100,
    then: Sequence[tuple[int, int]] | None = None,
    latest: int = 1,
) -> list[bytes]:
    """The messages of one segment with the offsets [start, end).

    `at` and `by`: when, in ms, and by which broker its copy was begun, and it came to its state. Copies of one range have
    a `number` each. `then`: the states after the first, with the time of each. `latest`: of its records, in ms.
    """
    name = f"{start} {end} {epochs} {number}"
    body = struct.pack(">qqiqq", start, end - 1, by[0], latest, at[0]) + uvarint(len(epochs) + 1)
    body += b"".join(struct.pack(">iq", *entry) + b"\x00" for entry in epochs)
    first = b"\x01\x00\x00" + _id(name, topic_id) + body + struct.pack(">i", size) + b"\x00\x00\x00"
    states = [(one, at[1]) for one in range(FINISHED, state + 1)] if then is None else then
    return [
        first,
        *(
            b"\x01\x01\x00" + _id(name, topic_id) + struct.pack(">iq", by[1], time) + bytes([0, one, 0])
            for one, time in states
        ),
    ]


def with_remote(
    path: Path,
    leads: Replica,
    *segments: list[bytes],
    first: int = 0,
    quiesced: bool | None = None,
    other: Replica | None = None,
    told_by: int = 1,
    begun: int | None = None,
    kinds: tuple[str | None, str | None] = ("live", "live"),
    tail: bytes = b"",
    then: Callable[[], None] = lambda: None,
    **options,
) -> Answer:
    """Broker 1 leads broker 2, which is like it or the `other`. The segments are told on broker `told_by`.

    `begun`: broker 1 was copied within a minute, and broker 2 was begun so many seconds after the end of that; `kinds` of the two
    then. `then` may still change the files.
    """
    values = [value for segment in segments for value in segment]

    def write() -> None:
        folder = path / f"broker-{told_by}" / "__remote_log_metadata-0"
        folder.mkdir(parents=True)
        batches = [encode_batch(first + at, [Record(None, value)], 0) for at, value in enumerate(values)]
        (folder / f"{first:020d}.log").write_bytes(b"".join(batches) + tail)
        if begun is not None:
            times = {1: (1000, 1060), 2: (1060 + begun, 1100 + begun)}
            copies = [
                {"broker_id": one, "log_dir": f"broker-{one}", "started": _time(start), "finished": _time(end)}
                | ({} if kind is None else {"kind": kind})
                for (one, (start, end)), kind in zip(times.items(), kinds, strict=True)
            ]
            write_manifest(path, quiesced=quiesced, brokers=copies)
        then()

    return tiered(path, {1: leads, 2: other or leads}, before_audit=write, quiesced=quiesced, **options)


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(1_700_000_000 + seconds, UTC).isoformat().replace("+00:00", "Z")


WHOLE = (copied(0, 40, (0, 0)), copied(40, 60, (0, 40)), copied(60, 100, (1, 60)))
LEADS = leader((0, 0), (1, 60))

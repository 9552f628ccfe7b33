"""Small snapshots, made for one question each: broker 1 leads, and others hold what it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.encoder import encode_batch
from tests.support.snapshots import Listed, Replica, make_uuid, write_snapshot

CLUSTER_ID = make_uuid("cluster")


def replica(batches: Sequence[bytes], epochs: Sequence[tuple[int, int]], **more: Any) -> Replica:
    """One of whose records no checkpoint says that they were committed or flushed."""
    return Replica(tuple(batches), epochs, **{"high_watermark": 0, "recovery_point": 0, **more})


def led_by_first(
    path: Path,
    leader: Replica,
    *others: Replica,
    aside: Sequence[Replica] = (),
    configs: Mapping[str, str] | None = None,
    quiesced: bool | None = None,
) -> Path:
    """A snapshot in which broker 1 leads, alone in sync, and broker 2, 3, ... follow; `aside` lie beside its replica."""
    replicas = {1: [leader, *aside], **dict(enumerate(others, 2))}
    return write_snapshot(
        path,
        replicas,
        [Listed(1, tuple(replicas), (1,), configs=configs or {})],
        manifest=None if quiesced is None else {"quiesced": quiesced},
        cluster_id=CLUSTER_ID,
    )


COMMON = [encode_batch(0, 10, 0)]
#: Broker 1 was elected at 10 in epoch 1 and wrote others.
LEADER = replica([*COMMON, encode_batch(10, 5, 1, mark="leader")], ((0, 0), (1, 10)))
HEX = "0123456789abcdef0123456789abcdef"

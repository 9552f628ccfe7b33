"""Whole snapshots that stand on what is fuzzed, audited as `show` does it: an observation, and evidence of a partition that was
collected again.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.evidence import json_object, with_digests
from tests.fuzz.whole import audit
from tests.support.answering_brokers import write_observed
from tests.support.archives import Files, tar_bytes
from tests.support.collected import collect_into
from tests.support.encoder import encode_batch
from tests.support.snapshots import Replica, write_pair

from replica_audit.snapshot.observed import OBSERVED

#: When the partition was collected again, in ms; the first collection ended before.
_AGAIN_MS = "3000"
_FIRST = {"started": 1000, "finished": 2000}
_LATER = "evidence-1-2.tar"


@cache
def _observation() -> tuple[Path, bytes]:
    place = write_observed(_directory() / "observed")
    return place, (place / OBSERVED).read_bytes()


def show_observed(data: bytes) -> None:
    """The tables and the listing of an observation with `data` for what brokers answered."""
    place, _ = _observation()
    (place / OBSERVED).write_bytes(data)
    audit(place)


class _Collected(NamedTuple):
    """Evidence of two brokers, and the archive of one that was collected again."""

    place: Path
    parts: Files
    lines: bytes
    """Of its lists."""
    head: dict[str, object]


@cache
def _collected() -> _Collected:
    place = _directory()
    batches = [encode_batch(0, 2, 0), encode_batch(2, 2, 0)]
    sides = (Replica(batches[:1], high_watermark=4), Replica(batches, high_watermark=4))
    snapshot = write_pair(place / "snapshot", *sides)
    evidence = place / "evidence"
    evidence.mkdir()
    for broker in (1, 2):
        archive = evidence / f"evidence-{broker}.tar"
        given = ("--log-dir", f"{snapshot}/broker-{broker}=broker-{broker}", "--broker-id", str(broker))
        collect_into(archive, *given, "--kind", "live")
        *parts, (name, head) = _members(archive)
        content = json.loads(head)
        content["log_dirs"][0] |= _FIRST
        archive.write_bytes(tar_bytes({**dict(parts), name: json.dumps(content).encode()}))
    one = {"broker_id": 1, "log_dir": f"{snapshot}/broker-1", "path": "orders-0", "ranges": [], "bytes": 0, "why": []}
    wanted = place / "wanted.json"
    wanted.write_text(json.dumps({"format": 1, "bytes": 0, "wanted": [one | {"again": True}]}))
    collect_into(
        place / _LATER, *given[:1], f"{snapshot}/broker-1=broker-1", "--broker-id", "1", "--wanted", str(wanted)
    )
    members = dict(_members(place / _LATER))
    head = json.loads(members.popitem()[1])
    now = str(head["log_dirs"][0]["started"])
    _, lines = members.popitem()
    head["log_dirs"][0] |= {"as": f"again-{_AGAIN_MS}/broker-1", "started": 3000, "finished": 4000}
    parts = {name.replace(now, _AGAIN_MS): data for name, data in members.items()}
    return _Collected(evidence, parts, lines.replace(now.encode(), _AGAIN_MS.encode()), head)


def show_collected_again(data: bytes) -> None:
    """Evidence of two moments, the later of which has a head with what the first line says, and a list with the other lines."""
    given = _collected()
    first, _, rest = data.partition(b"\n")
    with suppress(ValueError, RecursionError):
        rest = b"\n".join(with_digests(line, given.parts) for line in rest.splitlines())
    name = f"evidence-1.bytes-{_AGAIN_MS}"
    lists = [[f"{name}.files-0.jsonl", len(rest), hashlib.sha256(rest).hexdigest()]]
    head = json.dumps({**given.head, "lists": lists, **json_object(first)}).encode()
    files = {**given.parts, f"{name}.files-0.jsonl": rest, f"{name}.json": head}
    (given.place / _LATER).write_bytes(tar_bytes(files))
    audit(given.place)


def first_stood_in() -> Iterator[tuple[str, bytes]]:
    """Seeds: as they are written, and with the changes that matter most."""
    _, observed = _observation()
    yield "observed_json", observed
    content = json.loads(observed)
    for changes in ({"end_offset": 5}, {"high_watermark": 2**63 - 1}, {"log_end_offset": -1}, {"read_from": 99}):
        one = {**content, "replicas": [content["replicas"][-1] | changes, *content["replicas"][:-1]]}
        yield "observed_json", json.dumps(one).encode()
    lines = _collected().lines
    for head in ("{}", '{"again": ["orders-0", "calm-0"]}', '{"again": []}', '{"kind": "stopped"}', '{"log_dirs": []}'):
        yield "evidence_again", head.encode() + b"\n" + lines
    yield "evidence_again", b"{}\n" + b"\n".join(lines.splitlines()[:3])
    yield "evidence_again", b"{}\n" + lines.replace(b"again-3000/broker-1", b"broker-1")


def _members(archive: Path) -> list[tuple[str, bytes]]:
    with tarfile.open(archive) as tar:
        return [(one.name, tar.extractfile(one).read()) for one in tar]  # type: ignore[union-attr]


def _directory() -> Path:
    return Path(tempfile.mkdtemp(prefix="replica-audit-fuzz-"))

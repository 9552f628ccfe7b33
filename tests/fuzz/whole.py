"""A whole small snapshot, changed as the bytes say, and audited as `show` does it."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import random
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.fuzz.memory import with_right_checksums
from tests.support import metadata_log
from tests.support.archives import Files, write_directory
from tests.support.bounds import check_rows
from tests.support.dump_lines import batch_line, listing
from tests.support.observations import observed
from tests.support.report_rows import tables_of

from replica_audit.config import Settings
from replica_audit.errors import ReplicaAuditError

ROOT = Path(__file__).parents[2]
SAMPLES = ("hw-truncation-divergence", "last-replica-standing", "kip279-1-before")
_SHARES = ROOT / "tests" / "snapshot" / "share_state" / "kafka-4.3.1-1.log.b64"
_OFFSETS = ROOT / "tests" / "snapshot" / "consumer_offsets" / "kafka-4.3.1.log.b64"
LOG = "00000000000000000000.log"
_MOST_CHANGES = 6
#: Names that a change may give a file, besides those that are there.
NEW_NAMES = (
    "leadership.json",
    "zookeeper.json",
    "kafka-topics-describe-2.txt",
    "replica_progress.csv",
    "batches.csv",
    "batches.jsonl",
    "broker-9.orders-0.dump.txt",
    "broker-1/state-change.log",
    f"broker-1/orders-0/{99:020d}.log",
    f"broker-1/orders-0/{LOG}.swap",
    f"broker-1/orders-0-delete.0/{LOG}",
    f"broker-2/orders-0-future/{LOG}",
    f"broker-3/orders-0/{LOG}",
    f"broker-2/__transaction_state-0/{LOG}",
)


@cache
def snapshots() -> tuple[Files, ...]:
    """Snapshots to change: two textbook cases, the first with everything that may be beside log dirs, and a capture."""
    found = []
    for name in SAMPLES:
        sample = ROOT / "data" / "samples" / name
        files = {one.relative_to(sample).as_posix(): one for one in sorted(sample.rglob("*")) if one.is_file()}
        found.append({path: one.read_bytes() for path, one in files.items() if one.suffix not in (".md", ".index")})
    records = metadata_log.new_topic("orders", "A" * 21 + "B", [1, 2], 1)
    dump = listing(f"/x/broker-3/orders-0/{LOG}", batch_line(0, 9, 0, 700), batch_line(10, 19, 700, 700, epoch=1))
    clock = "[2026-01-01 00:00:00,000] INFO"
    found[0] |= {
        "manifest.json": b'{"schema_version": 1, "kafka_version": "3.9.1", "brokers": [{"broker_id": 1, "state": "live"}]}',
        "broker-3.orders-0.dump.txt": dump.encode(),
        "replica_progress.jsonl": b"".join(
            json.dumps(row).encode() + b"\n"
            for step in range(3)
            for row in observed(step * 1000, {1: 4 + step, 2: 4}, [1, 2], 4, leader=1)
        ),
        "broker-1/server.log": (
            f"{clock} Leader orders-0 starts at leader epoch 1 from offset 3 with high watermark 2 ISR [1,2]\n"
            f"{clock} [Partition orders-0 broker=1] ISR updated to 1,2\n{clock} Truncating to offset 3 (orders-0)\n"
        ).encode(),
        f"broker-2/__consumer_offsets-0/{LOG}": base64.b64decode(_OFFSETS.read_bytes()),
        f"broker-2/__share_group_state-0/{LOG}": base64.b64decode(_SHARES.read_bytes()),
        f"controller-9/__cluster_metadata-0/{LOG}": metadata_log.batch(0, records),
        "controller-9/__cluster_metadata-0/quorum-state": b'{"leaderId": 9, "currentVoters": [{"voterId": 9}]}',
    }
    return tuple(found)


def show_changed_snapshot(data: bytes) -> None:
    """One execution: the first byte chooses the snapshot and how it is audited, the others say what is changed."""
    first = data[0] if data else 0
    number = first % len(SAMPLES)
    sound = snapshots()[number]
    files = changed(sound, data[1:])
    if first & 0x40:
        files = {path: with_right_checksums(one) if path.endswith(".log") else one for path, one in files.items()}
    place = _directory(number)
    touched = {path for path in {*files, *sound} if files.get(path) != sound.get(path)}
    _write({path: files.get(path) for path in touched}, place)
    try:
        _show(place) if first & 0x80 else audit(place)
    finally:
        _write({path: sound.get(path) for path in touched}, place)


def changed(sound: Files, data: bytes) -> Files:
    """The files after the changes that `data` lists: file, kind, position (2 bytes), count, and as many bytes."""
    files = dict(sound)
    names = [*sorted(sound), *NEW_NAMES]
    for _ in range(_MOST_CHANGES):
        if len(data) < 5:
            break
        name, kind, at, count = names[data[0] % len(names)], data[1] % 8, int.from_bytes(data[2:4], "big"), data[4]
        put, data = data[5 : 5 + count], data[5 + count :]
        old = files.get(name, b"")
        at %= len(old) + 1
        if kind == 0:
            files[name] = old[:at] + put + old[at + count :]
        elif kind == 1:
            files[name] = old[:at] + put + old[at:]
        elif kind == 2:
            files[name] = old[:at] + old[at + count :]
        elif kind == 3:
            files[name] = old[:at]
        elif kind == 4:
            files.pop(name, None)
        elif kind == 5:
            files[name] = put
        elif kind == 6:
            files[name] = files.get(names[count % len(names)], b"")
        else:
            files[name] = old[:at] + bytes(count * 16) + old[at + count * 16 :]
    return files


def first_changes() -> Iterator[bytes]:
    """Seeds: each kind of change of each file, at places that are chosen once and for all."""
    dice = random.Random(1)
    for number, sound in enumerate(snapshots()):
        for file in range(len(sound) + len(NEW_NAMES)):
            for kind in range(8):
                count = dice.choice((1, 4, 8, 40))
                size = 0 if kind in (2, 3, 4, 6, 7) else count
                first = number + 3 * dice.randrange(10) + dice.choice((0, 0x40, 0x80, 0xC0))
                yield bytes((first - (first - number) % 3, file, kind, *dice.randbytes(2), count)) + dice.randbytes(
                    size
                )


def audit(place: Path) -> None:
    """The audit behind `show`, without what is printed of it."""
    from replica_audit.runner.in_process import audit_all

    try:
        tables = tables_of(audit_all(str(place), Settings()))
    except ReplicaAuditError:
        return
    check_rows(tables, str(place))
    assert not [row for row in tables["findings"] if row["code"] == "CAP-NOT-AUDITED"], tables["findings"]


def _show(place: Path) -> None:
    # Imports nearly the whole library, which the other targets need not wait for.
    from replica_audit.cli.main import main

    out, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        status = main(["show", str(place), "--fail-on", "never", "--quiet"])
    text, errors = out.getvalue(), told.getvalue()
    (text + errors).encode("utf-8")
    assert status in (0, 2, 3) and "Traceback" not in errors, errors
    assert "CAP-NOT-AUDITED" not in text, text
    assert "\x1b" not in text + errors, "an escape sequence"


@cache
def _directory(number: int) -> Path:
    place = Path(tempfile.mkdtemp(prefix="replica-audit-fuzz-")) / SAMPLES[number]
    write_directory(snapshots()[number], place)
    return place


def _write(files: dict[str, bytes | None], place: Path) -> None:
    for name, content in files.items():
        path = place / name
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

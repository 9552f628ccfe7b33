"""Captures with what they were taken without: lines of brokers' logs, and positions of consumer groups."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from tests.support.encoder import Record, encode_batch
from tests.support.fixtures import FIXTURES, truth
from tests.support.share_groups import share_key, share_update

_LATER_MS = 3_600_000_000_000


def with_logs(capture: str, path: Path, place="logs/broker-{}/server.log") -> Path:
    """The capture with the lines of truth.json as its brokers' logs."""
    shutil.copytree(FIXTURES / capture, path, dirs_exist_ok=True)
    for broker, lines in truth(capture)["broker_log_lines"].items():
        file = path / place.format(broker.removeprefix("broker-"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def with_share_groups(capture: str, path: Path, *groups: tuple[str, str, int, int, int]) -> Path:
    """A capture whose share coordinators' log has (group, topic, partition, offset, epoch of the leader)."""
    shutil.copytree(FIXTURES / capture, path, dirs_exist_ok=True)
    records = []
    for group, topic, partition, offset, epoch in groups:
        said = next(path.glob(f"broker-*/{topic}-{partition}/partition.metadata")).read_text()
        topic_id = said.rpartition("topic_id:")[2].strip()
        records.append(Record(share_key(1, group, topic_id, partition), share_update(epoch, offset), _LATER_MS))
    for log_dir in path.glob("broker-*"):
        folder = log_dir / "__share_group_state-0"
        folder.mkdir()
        (folder / "00000000000000000000.log").write_bytes(encode_batch(0, tuple(records), 9))
    return path


def with_groups(capture: str, path: Path, *groups: tuple[str, str, int, int, int, int], note: str = "") -> Path:
    """A capture whose coordinators' log has (group, topic, partition, offset, epoch, ms)."""
    shutil.copytree(FIXTURES / capture, path, dirs_exist_ok=True)
    records = []
    for group, topic, partition, offset, epoch, ms in groups:
        key = struct.pack(">h", 1) + b"".join(struct.pack(">h", len(t)) + t.encode() for t in (group, topic))
        value = struct.pack(">hqih", 3, offset, epoch, len(note)) + note.encode() + struct.pack(">q", ms)
        records.append(Record(key + struct.pack(">i", partition), value))
    for folder in path.glob("broker-*/__consumer_offsets-0"):
        (folder / "00000000000000000000.log").write_bytes(encode_batch(0, tuple(records), 9))
    return path

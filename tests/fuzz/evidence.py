"""Evidence that is fuzzed: frames, and lists of files, with the digests and checksums that would hide every change put right."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, BinaryIO

from replica_audit.errors import FormatError
from replica_audit.model import SegmentFile
from replica_audit.segments.frames import MAGIC, FrameFile, FrameStream, NotCapturedError
from replica_audit.snapshot.evidence_lists import find_evidence
from replica_audit.snapshot.file_tree import Tree, TreeEntry
from replica_audit.snapshot.segment_sources import scan_source

#: What a frame is in an input: type, position, length, batches, bytes of the payload, which follow as they inflate.
_SHORT = struct.Struct(">cHHBH")
_FRAME = struct.Struct(">cQQIII")
_KINDS = b"VXRZUSH"
LOG = "broker-1/orders-0/00000000000000000000.log"


def shortened(part: bytes) -> bytes:
    """The input that stands for a part of small frames."""
    found, at = b"", len(MAGIC)
    while at < len(part):
        kind, position, length, count, size, _ = _FRAME.unpack_from(part, at)
        at += _FRAME.size
        payload = zlib.decompress(part[at : at + size]) if size else b""
        at += size
        found += _SHORT.pack(kind, position, length, count, len(payload)) + payload
    return found


def short_bytes(position: int, data: bytes) -> bytes:
    """The input that stands for a frame of bytes."""
    return _SHORT.pack(b"R", position, len(data), 0, len(data)) + data


def _framed(data: bytes) -> bytes:
    part, at = MAGIC, 0
    while at + _SHORT.size <= len(data):
        kind, position, length, count, size = _SHORT.unpack_from(data, at)
        at += _SHORT.size
        payload = zlib.compress(data[at : at + size], 1) if size else b""
        at += size
        kind = kind if kind in _KINDS else _KINDS[kind[0] % len(_KINDS) :][:1]
        part += _FRAME.pack(kind, position, length, count, len(payload), zlib.crc32(payload)) + payload
    return part


def read_frames(data: bytes) -> Any:
    """A segment of these frames, scanned, and read at some places; of an odd number of bytes the second half was brought later.
    Raises FormatError."""
    own, later = (data[: len(data) // 2], data[len(data) // 2 :]) if len(data) % 2 else (data, data)
    file, brought = (FrameFile(LOG, [lambda part=part: _framed(part)]) for part in (own, later))  # type: ignore[misc]
    size = max((frame.end for frame in file.frames), default=0)
    stream = FrameStream(file, size, [brought])
    source = scan_source(stream, SegmentFile(1, "broker-1", "orders", 0, LOG, 0, size))
    for item in source.items:
        source.summariser.add(item)
    summary = source.summariser.finish()
    for position in range(0, size, max(1, size // 20)):
        stream.seek(position)
        with suppress(OSError):
            assert len(stream.read(100)) == min(100, size - position)
    return summary.last_offset, summary.record_count, summary.damage, summary.tail_kind, stream.missing


_PARTS = {
    f"{LOG}.frames": MAGIC + _FRAME.pack(b"Z", 0, 100, 0, 0, 0),
    "broker-1/meta.properties": b"version=1\nnode.id=1\n",
}
_HEAD = {
    "format": 1,
    "broker_id": 1,
    "topics": [],
    "log_dirs": [{"log_dir": "/data", "as": "broker-1", "started": 1, "finished": 2}],
}


def read_lists(data: bytes) -> Any:
    """Evidence whose last file has what the first line says, and one list of the others; all its files are opened."""
    first, _, rest = data.partition(b"\n")
    with suppress(ValueError, RecursionError):
        rest = b"\n".join(with_digests(line, _PARTS) for line in rest.splitlines())
    listed = ["evidence-1.files-0.jsonl", len(rest), hashlib.sha256(rest).hexdigest()]
    head = json.dumps({**_HEAD, "lists": [listed], **json_object(first)}).encode()
    files = {**_PARTS, "evidence-1.files-0.jsonl": rest, "evidence-1.json": head}

    def open_file(path: str) -> BinaryIO:
        if path not in files:
            raise FileNotFoundError(f"{path}: no such file")
        return io.BytesIO(files[path])

    entries = tuple(TreeEntry(path, len(content), False) for path, content in sorted(files.items()))
    found = find_evidence([one for one in entries if "/" not in one.path], open_file)
    tree = found.overlay(Tree(entries, ()))
    for path in found.files:
        try:
            with found.open(path, open_file) as stream, suppress(NotCapturedError):
                stream.read(100)
        except (OSError, FormatError) as error:
            assert 0 < len(str(error)) < 1500
    return [one.path for one in tree.entries], [one.reason for one in tree.problems], found.incomplete


def json_object(text: bytes) -> Mapping[str, Any]:
    """The object that `text` is, or an empty one."""
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        return found if isinstance(found, dict) else {}
    return {}


def with_digests(text: bytes, parts: Mapping[str, bytes]) -> bytes:
    """A line of a list with the sizes and digests of those of its `parts` that there are. Raises ValueError and RecursionError."""
    line = json.loads(text)
    for part in line.get("parts", []) if isinstance(line, dict) and isinstance(line.get("parts"), list) else []:
        if isinstance(part, list) and len(part) == 3 and str(part[0]) in parts:
            content = parts[str(part[0])]
            part[1:] = [len(content), hashlib.sha256(content).hexdigest()]
    return json.dumps(line).encode()

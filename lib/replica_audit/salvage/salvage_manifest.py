"""manifest.json: what was salvaged, of what, from where; one line a record, so that it can be read a line at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from replica_audit.errors import UsageError
from replica_audit.parsing import fits
from replica_audit.salvage.private_files import new_file

NAME = "manifest.json"
SCHEMA_VERSION = 1

#: The line after which each line is one record, as an object.
_RECORDS = '"records": ['


def write_manifest(path: Path, head: Mapping[str, Any], lines: Iterable[bytes]) -> None:
    """Write the manifest: `head` (its `records` left out) and the lines (`json_line`) of the records, in their order."""
    text = json.dumps(head, indent=1, ensure_ascii=True, allow_nan=False)
    with new_file(path) as stream:
        stream.write(text[: text.rindex("\n}")].encode("ascii") + f",\n{_RECORDS}".encode("ascii"))
        separator = b"\n"
        for line in lines:
            stream.write(separator + line.removesuffix(b"\n"))
            separator = b",\n"
        stream.write(b"\n]\n}\n")


#: What restoring reads of the head, and what every record has.
_HEAD = {
    "schema_version": int,
    "payloads": bool,
    "snapshot": {"cluster_id": (str, None)},
    "totals": {"records": int},
    "files": [{"path": str, "sha256": str}],
    "partitions": [{"topic": str, "partition": int, "records": int, "compacted": (bool, None)}],
}
_RECORD = {
    "topic": str,
    "partition": int,
    "offset": int,
    "leader_epoch": (int, None),
}


@dataclass(frozen=True, slots=True)
class SalvageManifest:
    """A manifest that is there: its head, and its records when they are asked for."""

    path: Path
    head: Mapping[str, Any]
    digest: str
    """SHA-256 of the file, as hex digits."""
    starts: Mapping[bytes, int]
    """Where the records of each partition begin: the position of the first line, by what its lines have in common."""

    @classmethod
    def open(cls, directory: Path) -> SalvageManifest:
        """Read the head; raises UsageError where there is none of ours."""
        path = directory / NAME
        digest = hashlib.sha256()
        lines: list[bytes] | None = []
        starts: dict[bytes, int] = {}
        position = 0
        try:
            with path.open("rb") as stream:
                for line in stream:
                    digest.update(line)
                    if lines is None:
                        starts.setdefault(_partition_of(line), position)
                    else:
                        lines.append(line)
                        if line.startswith(_RECORDS.encode("ascii")):
                            head = json.loads(b"".join(lines) + b"]}")
                            lines = None
                    position += len(line)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}: give a directory that replica-audit salvage wrote") from error
        except (ValueError, RecursionError) as error:
            raise _foreign(path) from error
        if lines is not None or not fits(head, _HEAD) or head["schema_version"] != SCHEMA_VERSION:
            raise _foreign(path)
        return cls(path, head, digest.hexdigest(), starts)

    def records(self) -> Iterator[dict[str, Any]]:
        """The records in their order, a line at a time."""
        if self.head["totals"]["records"]:
            yield from self._records(min(self.starts.values()))

    def records_of(self, topic: str, partition: int) -> Iterator[dict[str, Any]]:
        """The records of one partition, which lie together."""
        common = _common(topic, partition)
        if common in self.starts:
            yield from takewhile(partial(_is_of, topic, partition), self._records(self.starts[common]))

    def _records(self, position: int) -> Iterator[dict[str, Any]]:
        with self.path.open("rb") as stream:
            stream.seek(position)
            for line in stream:
                if line.startswith(b"]"):
                    return
                try:
                    row = json.loads(line.rstrip(b",\n"))
                except (ValueError, RecursionError) as error:
                    raise _foreign(self.path) from error
                if not fits(row, _RECORD):
                    raise _foreign(self.path)
                yield row


def _is_of(topic: str, partition: int, row: Mapping[str, Any]) -> bool:
    return (row["topic"], row["partition"]) == (topic, partition)


def _common(topic: str, partition: int) -> bytes:
    """What the lines of a partition's records begin with."""
    row = {"topic": topic, "partition": partition}
    return json.dumps(row, separators=(",", ":")).encode("ascii").rstrip(b"}")


def _partition_of(line: bytes) -> bytes:
    return line.partition(b',"offset":')[0]


def _foreign(path: Path) -> UsageError:
    return UsageError(
        f"{path}: expected a manifest of version {SCHEMA_VERSION} as replica-audit salvage writes it, found another file"
    )

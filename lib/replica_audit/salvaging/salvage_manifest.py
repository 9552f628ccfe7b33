"""manifest.json: what was salvaged, of what, from where; one line a record, so that it can be read a line at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replica_audit.errors import UsageError
from replica_audit.salvaging.private_files import new_file

NAME = "manifest.json"
SCHEMA_VERSION = 1

#: The line after which each line is one record, as an object.
_RECORDS = '"records": ['
_GREATEST_LINE = 1 << 20


def write_manifest(path: Path, head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the manifest: `head` (its `records` left out) and the rows, in their order."""
    text = json.dumps(head, indent=1, ensure_ascii=True, allow_nan=False)
    with new_file(path) as stream:
        stream.write(text[: text.rindex("\n}")].encode("ascii") + f",\n{_RECORDS}".encode("ascii"))
        separator = "\n"
        for row in rows:
            stream.write((separator + json.dumps(row, separators=(",", ":"), allow_nan=False)).encode("ascii"))
            separator = ",\n"
        stream.write(b"\n]\n}\n")


@dataclass(frozen=True, slots=True)
class SalvageManifest:
    """A manifest that is there: its head, and its records when they are asked for."""

    path: Path
    head: Mapping[str, Any]
    digest: str
    """SHA-256 of the file, as hex digits."""

    @classmethod
    def open(cls, directory: Path) -> SalvageManifest:
        """Read the head; raises UsageError where there is none of ours."""
        path = directory / NAME
        digest = hashlib.sha256()
        lines: list[bytes] | None = []
        try:
            with path.open("rb") as stream:
                for line in stream:
                    digest.update(line)
                    if lines is not None:
                        lines.append(line)
                        if line.startswith(_RECORDS.encode("ascii")):
                            head = json.loads(b"".join(lines) + b"]}")
                            lines = None
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}: give a directory that replica-audit salvage wrote") from error
        except ValueError as error:
            raise _foreign(path) from error
        if lines is not None or not isinstance(head, dict) or head.get("schema_version") != SCHEMA_VERSION:
            raise _foreign(path)
        return cls(path, head, digest.hexdigest())

    def records(self) -> Iterator[dict[str, Any]]:
        """The records in their order, a line at a time."""
        with self.path.open("rb") as stream:
            for line in stream:
                if line.startswith(_RECORDS.encode("ascii")):
                    break
            for line in stream:
                if line.startswith(b"]"):
                    return
                yield json.loads(line.rstrip(b",\n"))


def _foreign(path: Path) -> UsageError:
    return UsageError(
        f"{path}: expected a manifest of version {SCHEMA_VERSION} as replica-audit salvage writes it, found another file"
    )

"""`wanted.json`: bytes that an audit of evidence would need, for the collector to bring (docs/evidence.md)."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import TypedDict

from replica_audit.auditing.finding_evidence import WANTED, joined_ranges
from replica_audit.errors import UsageError
from replica_audit.report.facts.by_partition import present
from replica_audit.report.layout import render_object
from replica_audit.report.whole_files import write_file
from replica_audit.results import Results
from replica_audit.snapshot.evidence_files import FORMAT, EvidenceFiles
from replica_audit.snapshot.storage import Snapshot


class WantedFile(TypedDict):
    """Bytes of one file of a broker."""

    broker_id: int | None
    log_dir: str
    """On the broker."""
    path: str
    """Below it."""
    ranges: list[tuple[int, int | None]]
    """Position and length; null: up to the end of the file."""
    bytes: int
    why: list[str]


def wanted_files(results: Results, evidence: EvidenceFiles) -> list[WantedFile]:
    """What the findings of an audit of `evidence` want, by path, as far as the files are part of it."""
    ranges: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    why: dict[str, set[str]] = defaultdict(set)
    for row in chain.from_iterable(present(part.findings) for part in results.parts(("findings",))):
        for item in row.evidence:
            if item.kind == WANTED and item.path in evidence.files and item.position is not None:
                size = evidence.files[item.path].size
                end = size if item.value is None else item.position + int(item.value)
                ranges[item.path].append((item.path, item.position, end))
                why[item.path].add(f"{row.code} {row.topic}-{row.partition}: {row.message}")
    found = []
    for path, of_file in sorted(ranges.items()):
        top = max((one for one in evidence.log_dirs if path.startswith(f"{one}/")), key=len)
        joined = [(start, end) for _, start, end in joined_ranges(of_file)]
        size = evidence.files[path].size
        found.append(
            WantedFile(
                broker_id=evidence.log_dirs[top].broker_id,
                log_dir=evidence.sources[top],
                path=path[len(top) + 1 :],
                ranges=[(start, None if end >= size else end - start) for start, end in joined],
                bytes=sum(end - start for start, end in joined),
                why=sorted(why[path]),
            )
        )
    return found


def render_wanted(results: Results, evidence: EvidenceFiles) -> str:
    """The content of `wanted.json`."""
    files = wanted_files(results, evidence)
    return render_object({"format": FORMAT, "bytes": sum(one["bytes"] for one in files), "wanted": files})


def write_wanted(path: str, results: Results, snapshot: str) -> None:
    """Write `wanted.json` of an audit of the snapshot at `snapshot` to `path`. Raises UsageError where it cannot be written."""
    try:
        write_file(path, render_wanted(results, Snapshot.open(snapshot).evidence))
    except OSError as error:
        raise UsageError(f"--wanted {path}: {error.strerror}") from error

"""`wanted.json`: bytes that an audit of evidence needs and the collector should bring (docs/evidence.md)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple, TypedDict

from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.finding import WANTED, Finding, joined_ranges
from replica_audit.errors import UsageError
from replica_audit.paths import check_outside
from replica_audit.report.facts.conditions import find_moved
from replica_audit.report.layout import render_object
from replica_audit.report.whole_files import write_file
from replica_audit.results import Results, place_of, present
from replica_audit.schema import FindingRow
from replica_audit.snapshot.evidence_files import FORMAT, EvidenceFiles
from replica_audit.snapshot.record_reader import RecordRequest
from replica_audit.snapshot.storage import Snapshot


class _WantedAgain(TypedDict, total=False):
    again: bool
    """True if `path` is a partition to be collected again completely."""


class WantedFile(_WantedAgain):
    """Bytes of one file of a broker."""

    broker_id: int | None
    log_dir: str
    """Log dir on the broker."""
    path: str
    """Path below `log_dir`."""
    ranges: list[tuple[int, int | None]]
    """Position and length; null means up to the end of the file."""
    bytes: int
    why: list[str]


class WantedRange(NamedTuple):
    """Bytes [start, end) of a file of the snapshot; `end` None means up to the end of the file."""

    path: str
    start: int
    end: int | None
    why: str


def ranges_of_findings(findings: Iterable[FindingRow | Finding], place: str | None = None) -> Iterator[WantedRange]:
    """Yield the ranges that findings want; `place` is the partition of findings that name none."""
    for one in findings:
        for item in one.evidence:
            if item.kind == WANTED and item.path is not None and item.position is not None:
                end = None if item.value is None else item.position + int(item.value)
                at = f"{one.topic}-{one.partition}" if isinstance(one, FindingRow) else place
                yield WantedRange(item.path, item.position, end, f"{one.code} {at}: {one.message}")


def wanted_files(wanted: Iterable[WantedRange], evidence: EvidenceFiles) -> list[WantedFile]:
    """Group the ranges by file; files outside the evidence are left out."""
    ranges: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    why: dict[str, set[str]] = defaultdict(set)
    for one in wanted:
        if one.path in evidence.files:
            end = evidence.files[one.path].size if one.end is None else one.end
            ranges[one.path].append((one.path, one.start, end))
            why[one.path].add(one.why)
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


def partitions_again(findings: Iterable[FindingRow], evidence: EvidenceFiles) -> Iterator[WantedFile]:
    """Yield partitions that moved during collection, in each collected log dir, since they may be in another one by now."""
    found = sorted(find_moved(findings), key=place_of)
    dirs = {(one.broker_id, evidence.sources[top]) for top, one in evidence.log_dirs.items()}
    for broker_id, log_dir in sorted(dirs):
        for row in found:
            yield WantedFile(
                broker_id=broker_id,
                log_dir=log_dir,
                path=f"{row.topic}-{row.partition}",
                ranges=[],
                bytes=0,
                why=[f"{row.code}: {row.message}"],
                again=True,
            )


def render_wanted(results: Results, evidence: EvidenceFiles) -> str:
    """Render `wanted.json` of an audit of `evidence`."""
    findings = list(chain.from_iterable(present(part.findings) for part in results.parts(("findings",))))
    return _render(ranges_of_findings(findings), evidence, partitions_again(findings, evidence))


def _render(wanted: Iterable[WantedRange], evidence: EvidenceFiles, again: Iterable[WantedFile] = ()) -> str:
    files = [*wanted_files(wanted, evidence), *again]
    return render_object({"format": FORMAT, "bytes": sum(one["bytes"] for one in files), "wanted": files})


def check_wanted(path: str, snapshot: str) -> None:
    """Check early that `wanted.json` can be written to `path`. Raises UsageError if it cannot."""
    check_outside("--wanted", path, snapshot)
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise UsageError(f"--wanted {path}: {folder} is not a directory")


def write_wanted(path: str, results: Results, snapshot: str) -> None:
    """Write `wanted.json` of an audit of the snapshot at `snapshot` to `path`. Raises UsageError if it cannot be written."""
    _write(path, render_wanted(results, Snapshot.open(snapshot).evidence))


def write_wanted_of_salvage(
    path: str, partitions: Iterable[PartitionAudit], requests: Iterable[RecordRequest], snapshot: Snapshot
) -> None:
    """Write `wanted.json` of a salvage: the ranges that findings want, and the batches it requested in vain. Raises UsageError
    if it cannot be written."""
    wanted = [WantedRange(one.path, one.position, one.position + one.size, "salvage") for one in requests]
    for audit in partitions:
        wanted += ranges_of_findings(audit.findings, str(audit.evidence.topic_partition))
    _write(path, _render(wanted, snapshot.evidence))


def _write(path: str, text: str) -> None:
    try:
        write_file(path, text)
    except OSError as error:
        raise UsageError(f"--wanted {path}: {error.strerror}") from error

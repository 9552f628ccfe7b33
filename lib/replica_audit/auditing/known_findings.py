"""Findings compared with known ones: those of an earlier audit (`--baseline`), or accepted ones."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from replica_audit.auditing.accepted_findings import Acceptance, read_accepted, with_acceptances
from replica_audit.config import Settings
from replica_audit.errors import FormatError, UsageError
from replica_audit.literals import VERDICTS, Status
from replica_audit.model import TopicPartition
from replica_audit.parsing import parse_json
from replica_audit.paths import local_path
from replica_audit.results import FindingPlace, Found, Given, Results, StoredRows, place_of, present, with_places
from replica_audit.row_classes import pack_rows, unpack_rows
from replica_audit.schema import FindingRow, QualityRow, ReportRows
from replica_audit.typed_json import ShapeError, from_object

_Row = TypeVar("_Row")


class AuditPart(NamedTuple):
    """The part of an earlier audit, or of some lines of its audit.jsonl, that an audit is compared with."""

    findings: list[FindingRow]
    """Findings that were present: new or known, not resolved."""
    quality: list[QualityRow]
    earlier: Earlier


def parse_baseline(text: str, path: str) -> AuditPart:
    """Parse the audit.json `text`. Raises UsageError, which names `path`, for any other text."""
    try:
        content = parse_json(text, path, "")
    except FormatError as error:
        expected = f"the audit.json of an earlier run, {error.expected}"
        raise UsageError(f"baseline {path}: expected {expected}, found {error.found}") from None
    if (
        not isinstance(content, dict)
        or content.get("schema_version") != 1
        or not isinstance(content.get("findings"), list)
    ):
        raise UsageError(f"baseline {path}: expected an audit.json of schema_version 1 with findings")
    if isinstance(elsewhere := content.get("partitions_elsewhere"), dict):
        raise UsageError(
            f"baseline {path}: it has the worst partitions only: give {elsewhere.get('file')}, which is beside it"
        )
    findings = _rows_of(content, "findings", FindingRow, path)
    quality = _rows_of(content, "quality", QualityRow, path)
    return AuditPart(present(findings), quality, earlier_of(content))


def _rows_of(content: Mapping[str, object], table: str, row_class: type[_Row], path: str) -> list[_Row]:
    """Rows of a table in an audit.json; empty if its version lacks the table. Raises UsageError for a malformed one."""
    rows = content.get(table, [])
    if not isinstance(rows, list):
        raise UsageError(f"baseline {path}: {table}: expected a list of rows")
    found = []
    for number, row in enumerate(rows):
        try:
            found.append(from_object(row_class, row))
        except ShapeError as error:
            raise UsageError(f"baseline {path}: {table}[{number}] is not a row as audit.json has it: {error}") from None
    return found


def compare_findings(
    findings: Sequence[FindingRow], baseline: Iterable[FindingRow], audited: Collection[TopicPartition]
) -> list[FindingRow]:
    """Return `findings` with their status, then those of `baseline` that are no longer present, as resolved.

    Findings are the same if their finding_id is; one known without the baseline stays known. Only findings on `audited`
    partitions can be resolved, so that a run on one topic does not resolve findings of others. Idempotent.
    """
    present = {row.finding_id for row in findings}
    known = set()
    resolved = []
    for item in baseline:
        known.add(item.finding_id)
        is_audited = item.partition is None or (item.topic, item.partition) in audited
        if item.finding_id not in present and is_audited:
            resolved.append(item._replace(status="resolved"))
    compared = (
        row._replace(status="known") if row.status == "new" and row.finding_id in known else row for row in findings
    )
    return [*compared, *resolved]


def compare_quality(rows: Iterable[QualityRow], baseline: Iterable[QualityRow]) -> list[QualityRow]:
    """Set the status of `quality` rows: a failure is known if the same expectation failed before on these rows.

    An additional row, or another value in one, makes it new. Met expectations and errors have no status.
    """
    known = {(row.suite, row.name): row for row in baseline if row.success is False}
    compared = []
    for row in rows:
        status: Status | None = None
        if not row.success and row.error is None:
            before = known.get((row.suite, row.name))
            status = "known" if before is not None and _covers(before, row) else "new"
        compared.append(row._replace(status=status))
    return compared


def _covers(before: QualityRow, row: QualityRow) -> bool:
    if (row.unexpected_count or 0) > (before.unexpected_count or 0):
        return False
    return set(row.failing or ()) <= set(before.failing or ()) and (
        row.unexpected_count is not None or row.observed == before.observed
    )


#: Findings that are packed together.
PACKED_TOGETHER = 1000


@dataclass(frozen=True, slots=True)
class PackedFindings:
    """Findings in the order of their file, packed some partitions at a time."""

    parts: tuple[bytes, ...] = ()
    ends: tuple[tuple[TopicPartition, TopicPartition] | None, ...] = ()
    """The least and the greatest partition of each part; None for a part without partitions."""

    @classmethod
    def of(cls, findings: Iterable[FindingRow]) -> PackedFindings:
        """Pack findings while they are read."""
        rows = iter(findings)
        parts = []
        ends = []
        while part := list(islice(rows, PACKED_TOGETHER)):
            places = [place for place, _ in with_places(part)]
            parts.append(pack_rows(part))
            ends.append((min(places), max(places)) if places else None)
        return cls(tuple(parts), tuple(ends))

    def __iter__(self) -> Iterator[FindingRow]:
        return chain.from_iterable(unpack_rows(part, FindingRow) for part in self.parts)

    def around(self, places: Sequence[TopicPartition]) -> PackedFindings:
        """The parts that may have findings of the sorted `places`."""
        found = (
            (part, ends)
            for part, ends in zip(self.parts, self.ends, strict=True)
            if places and ends is not None and ends[0] <= places[-1] and places[0] <= ends[1]
        )
        return PackedFindings(*zip(*found))


class Baseline(NamedTuple):
    """Findings and quality rows of an earlier audit, and accepted findings; `findings` is None without an earlier audit."""

    findings: PackedFindings | None = None
    quality: tuple[QualityRow, ...] = ()
    earlier: Earlier | None = None
    accepted: tuple[Acceptance, ...] = ()

    def compare(self, results: Results) -> Results:
        """Return `results` with the status (new, known or resolved) of findings and failed expectations."""
        if self.findings is None and not self.accepted:
            return results
        findings = self.compared_findings(results)
        quality = results.quality if self.findings is None else compare_quality(results.quality, self.quality)
        stored = None if results.stored is None else ComparedRows(results.stored, self)
        return replace(results, findings=findings, quality=quality, stored=stored)

    def compared_findings(self, rows: ReportRows, *, is_part: bool = False) -> list[FindingRow]:
        """Return the findings of `rows` with their status, and the resolved ones; if `rows` are a part, only those of its partitions."""
        findings = rows.findings
        if self.findings is not None:
            audited = {place_of(row) for row in rows.partitions}
            known = [one for one in self.findings if place_of(one) in audited] if is_part else self.findings
            findings = compare_findings(findings, known, audited)
        return with_acceptances(findings, self.accepted) if self.accepted else findings

    def unused(self, results: Results) -> list[str]:
        """Ids of accepted findings that are no longer present, so that their entries can be removed."""
        known = {row.finding_id for row in present(results.findings)}
        return [one.finding_id for one in self.accepted if one.finding_id not in known]


class ComparedRows(NamedTuple):
    """Stored rows whose findings are compared with a baseline as they are read (`results.StoredRows`)."""

    stored: StoredRows
    baseline: Baseline

    @property
    def places(self) -> Sequence[TopicPartition]:
        return self.stored.places

    @property
    def outlet(self) -> str | None:
        return self.stored.outlet

    def in_this_process(self) -> ComparedRows:
        return self._replace(stored=self.stored.in_this_process())

    def map(
        self,
        work: Callable[[ReportRows, Given], Found],
        tables: Collection[str],
        given: Callable[[Sequence[TopicPartition]], Given],
    ) -> Iterator[Found]:
        if "findings" not in tables:
            return self.stored.map(work, tables, given)
        compared = partial(_work_compared, work, tables)
        return self.stored.map(compared, {*tables, "partitions"}, lambda places: (self._known(places), given(places)))

    def _known(self, places: Sequence[TopicPartition]) -> Baseline:
        """The part of the baseline that may belong to `places`."""
        findings = self.baseline.findings
        return Baseline(findings and findings.around(places), accepted=self.baseline.accepted)


def _work_compared(
    work: Callable[[ReportRows, Given], Found],
    tables: Collection[str],
    rows: ReportRows,
    given: tuple[Baseline, Given],
) -> Found:
    known, more = given
    compared = replace(rows, findings=known.compared_findings(rows, is_part=True))
    return work(compared if "partitions" in tables else replace(compared, partitions=[]), more)


def read_baseline(settings: Settings) -> Baseline:
    """Read the baseline of `settings`; called first, since the file may not be an audit.json."""
    accepted = read_accepted(settings)
    if settings.baseline is None:
        return Baseline(accepted=accepted)
    path = local_path(settings.baseline) or settings.baseline
    try:
        if path.endswith(".gz"):
            with gzip.open(path, "rt", encoding="utf-8") as stream:
                found = _parse_parts(_join_lines(stream, settings.baseline))
        else:
            with open(path, encoding="utf-8") as stream:
                found = _parse_parts([(settings.baseline, stream.read())])
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise UsageError(f"baseline {settings.baseline}: {error}") from error
    return found._replace(accepted=accepted)


def _parse_parts(parts: Iterable[tuple[str, str]]) -> Baseline:
    """Parse parts of an audit, each with its name for messages, in the form of an audit.json; one is held at a time."""
    quality: list[QualityRow] = []
    earlier: list[Earlier] = []

    def findings() -> Iterator[FindingRow]:
        for name, text in parts:
            part = parse_baseline(text, name)
            quality.extend(part.quality)
            earlier.append(part.earlier)
            yield from part.findings

    packed = PackedFindings.of(findings())
    verdicts = {place: verdict for part in earlier for place, verdict in part.verdicts.items()}
    ids = ((place, one) for part in earlier for place, found in part.finding_ids.items() for one in found)
    audit_id, finished = earlier[0].audit_id, earlier[0].finished
    return Baseline(packed, tuple(quality), Earlier.of(audit_id, finished, verdicts, ids))


#: Lines of an audit.jsonl that are parsed together.
LINES_AT_ONCE = 1000


def _join_lines(lines: Iterable[str], path: str) -> Iterator[tuple[str, str]]:
    """Convert the lines of an audit.jsonl, some at a time, to audit.json with the compared parts, each with its name. Raises ValueError
    for a malformed line."""
    head: dict[str, object] = {}
    numbered = enumerate(lines, 1)
    # An empty file is a part too, which is refused.
    some = list(islice(numbered, LINES_AT_ONCE)) or [(1, "{}")]
    while some:
        rows: dict[str, list[object]] = {name: [] for name in ("partitions", "findings", "quality")}
        for number, line in some:
            content = json.loads(line)
            if not isinstance(content, dict) or not all(isinstance(content.get(name, []), list) for name in rows):
                raise ValueError(f"line {number} is not one of an audit.jsonl")
            if number == 1:
                head = {name: content[name] for name in ("schema_version", "audit") if name in content}
            for name in ("findings", "quality"):
                rows[name] += content.get(name, ())
            judged = (row for row in content.get("partitions", ()) if isinstance(row, dict))
            rows["partitions"] += (
                {name: row.get(name) for name in ("topic", "partition", "verdict")} for row in judged
            )
        yield f"{path}, from line {some[0][0]} on", json.dumps(head | rows)
        some = list(islice(numbered, LINES_AT_ONCE))


@dataclass(frozen=True, slots=True)
class Earlier:
    """The audit that this one is compared with: its end (ISO 8601), and its verdicts and finding ids by partition."""

    audit_id: str | None
    finished: str | None
    verdicts: Mapping[FindingPlace, str]
    finding_ids: Mapping[FindingPlace, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        audit_id: str | None,
        finished: str | None,
        verdicts: Mapping[FindingPlace, str],
        found: Iterable[tuple[FindingPlace, str]],
    ) -> Earlier:
        """Group `found`, pairs of a partition and a finding id."""
        ids: dict[FindingPlace, set[str]] = defaultdict(set)
        for place, finding_id in found:
            ids[place].add(finding_id)
        return cls(audit_id, finished, verdicts, {place: frozenset(of_place) for place, of_place in ids.items()})


def earlier_of(content: Mapping[str, object]) -> Earlier:
    """The earlier audit by its audit.json; rows without a name or a known verdict count as not audited."""
    audit = content.get("audit")
    audit = audit if isinstance(audit, dict) else {}
    verdicts = {
        place: VERDICTS[VERDICTS.index(row["verdict"])]
        for place, row in _placed(content, "partitions")
        if row.get("verdict") in VERDICTS
    }
    found = (
        (place, row["finding_id"])
        for place, row in _placed(content, "findings")
        if row.get("status") != "resolved" and isinstance(row.get("finding_id"), str)
    )
    return Earlier.of(_text_or_none(audit.get("audit_id")), _text_or_none(audit.get("finished")), verdicts, found)


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _list_of(content: Mapping, table: str) -> list:
    rows = content.get(table)
    return rows if isinstance(rows, list) else []


def _placed(content: Mapping, table: str) -> list[tuple[FindingPlace, Mapping]]:
    """Rows with their partitions; (None, None) for rows of no partition."""
    found: list[tuple[FindingPlace, Mapping]] = []
    for row in _list_of(content, table):
        if isinstance(row, dict):
            topic = row.get("topic")
            partition = row.get("partition")
            is_placed = isinstance(topic, str) and isinstance(partition, int)
            if is_placed or (topic is None and partition is None):
                found.append(((topic, partition), row))
    return found

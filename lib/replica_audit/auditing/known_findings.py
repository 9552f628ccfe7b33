"""Known findings: of an earlier audit (`--baseline`), or accepted with a reason until a date (`--accept`)."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from replica_audit.config import Settings
from replica_audit.errors import FormatError, UsageError
from replica_audit.literals import SEVERITIES, VERDICTS, Status
from replica_audit.model import TopicPartition
from replica_audit.parsing import INT64, is_whole, parse_json
from replica_audit.paths import local_path
from replica_audit.results import FindingPlace, Found, Given, Results, StoredRows, place_of, present, with_places
from replica_audit.row_classes import pack_rows, read_row, unpack_rows
from replica_audit.schema import REPORT_TABLES, Evidence, FindingRow, QualityRow, ReportRows
from replica_audit.text import now


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
    findings = []
    for number, row in enumerate(content["findings"]):
        try:
            findings.append(parse_finding(row))
        except ValueError as error:
            raise UsageError(
                f"baseline {path}: findings[{number}] is not a finding as audit.json has it: {error}"
            ) from None
    return AuditPart(present(findings), quality_of(content), earlier_of(content))


def parse_finding(row: object) -> FindingRow:
    """Parse an element of `findings` in an audit.json, ignoring columns of later versions.

    Raises ValueError, which names the column, for anything else.
    """
    if not isinstance(row, Mapping):
        raise ValueError("not a finding")
    for name in FindingRow._fields:
        if name not in row:
            raise ValueError(f"no column {name}")
        _check_kind(name, row[name], _KINDS.get(name, (str,)))
    if row["severity"] not in SEVERITIES:
        raise ValueError("severity is none of " + ", ".join(SEVERITIES))
    for one in row["evidence"] or ():
        _check_evidence(one)
    found = read_row(FindingRow, row)
    return found._replace(evidence=tuple(found.evidence or ()))


def _check_evidence(row: object) -> None:
    if not isinstance(row, Mapping) or not row.keys() >= set(Evidence._fields):
        raise ValueError(f"evidence without {', '.join(Evidence._fields)}")
    kinds = {"kind": (str,), "broker_id": _NUMBER, "position": _NUMBER}
    for name in Evidence._fields:
        _check_kind(f"evidence.{name}", row[name], kinds.get(name, _TEXT))


_NUMBER = (int, type(None))
_TEXT = (str, type(None))
#: Types of columns that are not always text.
_KINDS: dict[str, tuple[type, ...]] = {
    "topic": _TEXT,
    **dict.fromkeys(("partition", "broker_id", "start_offset", "end_offset"), _NUMBER),
    "evidence": (list, tuple, type(None)),
}


def _check_kind(name: str, value: object, kinds: tuple[type, ...]) -> None:
    # True and False are int instances in Python.
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise ValueError(f"{name} is {type(value).__name__}")
    if isinstance(value, int) and not -INT64 <= value <= INT64:
        raise ValueError(f"{name} is a number of {value.bit_length()} bits")


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


def quality_of(content: Mapping[str, object]) -> list[QualityRow]:
    """Rows of `quality` in an audit.json, without malformed ones; empty if its version lacks the table."""
    types = {column.name: column.type for column in REPORT_TABLES["quality"]}
    absent = dict.fromkeys(types)
    return [
        read_row(QualityRow, {**absent, **row})
        for row in _list_of(content, "quality")
        if isinstance(row, dict) and all(_fits(row[name], types[name]) for name in types if name in row)
    ]


def _fits(value: object, kind: str) -> bool:
    """True if a JSON value is null or has the column type `kind`."""
    if value is None:
        return True
    if kind == "array<string>":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if kind == "bigint":
        return is_whole(value, -INT64 - 1, INT64)
    return isinstance(value, {"string": str, "boolean": bool}[kind])


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


#: Kind of evidence with the reason and end of an acceptance.
KIND = "accepted"
_KEYS = {"finding", "reason", "until"}
_ID = re.compile(r"[0-9a-f]{16}")


class Acceptance(NamedTuple):
    """An entry of accept.yaml."""

    finding_id: str
    reason: str
    until: date
    """Last day on which the finding does not count."""


def parse_acceptances(content: Mapping[str, object], path: str) -> tuple[Acceptance, ...]:
    """Parse entries of the form `accepted: [{finding, reason, until}, ...]`.

    Raises UsageError, which names `path` and the entry, for an unknown key, a malformed id or date, a missing reason, or a
    duplicate finding.
    """
    if set(content) - {"accepted"}:
        raise UsageError(f"{path}: expected accepted, found {', '.join(sorted(map(str, set(content) - {'accepted'})))}")
    entries = content.get("accepted") or []
    if not isinstance(entries, list):
        raise UsageError(f"{path}: accepted: expected a list of entries with finding, reason and until")
    found: dict[str, Acceptance] = {}
    for number, entry in enumerate(entries):
        where = f"{path}: accepted[{number}]"
        if not isinstance(entry, dict) or set(entry) != _KEYS:
            raise UsageError(f"{where}: expected finding, reason and until, found {_found(entry)}")
        finding_id = str(entry["finding"])
        reason = entry["reason"]
        if not _ID.fullmatch(finding_id):
            expected = "an id of 16 hexadecimal digits in quotes"
            raise UsageError(f"{where}: finding: expected {expected}, found {finding_id!r}")
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError(f"{where}: reason: expected a text, found {reason!r}")
        if finding_id in found:
            raise UsageError(f"{where}: finding {finding_id} is accepted twice")
        found[finding_id] = Acceptance(finding_id, " ".join(reason.split()), _date(entry["until"], where))
    return tuple(found.values())


def with_acceptances(
    findings: Iterable[FindingRow], accepted: Sequence[Acceptance], today: date | None = None
) -> list[FindingRow]:
    """Set the status of accepted findings: known until the acceptance ends, new afterwards, independent of a baseline.

    The reason is added to the evidence. Idempotent.
    """
    today = today or date.fromisoformat(now()[:10])
    by_id = {one.finding_id: one for one in accepted}
    rows = []
    for row in findings:
        one = by_id.get(row.finding_id)
        if one is None or row.status == "resolved":
            rows.append(row)
            continue
        lasts = today <= one.until
        said = f"accepted until {one.until}" if lasts else f"was accepted until {one.until}, which is over"
        text = f"{said}: {one.reason}"
        kept = [evidence for evidence in row.evidence or () if evidence.kind != KIND]
        evidence = (*kept, Evidence(KIND, text=text, value=str(one.until)))
        rows.append(row._replace(status="known" if lasts else "new", evidence=evidence))
    return rows


def _date(value: object, where: str) -> date:
    if isinstance(value, datetime):
        value = value.date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise UsageError(f"{where}: until: expected a date such as 2026-12-31, found {value!r}") from None


def _found(entry: object) -> str:
    return ", ".join(sorted(map(str, entry))) if isinstance(entry, dict) else repr(entry)


#: Findings that are packed together.
PACKED_TOGETHER = 1000


@dataclass(frozen=True, slots=True)
class PackedFindings:
    """Findings in the order of their file, packed some partitions at a time."""

    parts: tuple[bytes, ...] = ()
    ends: tuple[tuple[TopicPartition, TopicPartition] | None, ...] = ()
    """Of each part the least and the greatest partition; None for a part without one."""

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
        """The parts that may have findings of `places`, which are sorted."""
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
        """Return the findings of `rows` with their status, and the resolved ones; those of no partition belong to no part."""
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
    accepted = _read_accepted(settings)
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


def _read_accepted(settings: Settings) -> tuple[Acceptance, ...]:
    """Read the entries of `settings.accept`; empty without it."""
    if settings.accept is None:
        return ()
    from replica_audit.yaml_file import parse_yaml_mapping  # PyYAML is loaded only if a file is given

    path = local_path(settings.accept) or settings.accept
    return parse_acceptances(parse_yaml_mapping(path, "--accept"), settings.accept)


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

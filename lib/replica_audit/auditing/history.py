"""History of a warehouse's audits: verdicts over time, and the first and last audit of each finding."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from replica_audit.auditing.catalogue import audit_verdict
from replica_audit.literals import SEVERITIES, VERDICTS, Severity
from replica_audit.schema import AttemptRow


class JudgedPartition(NamedTuple):
    """Verdicts on one partition of a cluster, as pairs with the index of the audit."""

    cluster_id: str | None
    topic: str
    partition: int
    verdicts: Sequence[tuple[int, str]]


class ToldFinding(NamedTuple):
    """A finding as one audit reported it: columns of `findings`."""

    audit_id: str
    finding_id: str
    code: str
    severity: Severity
    topic: str | None
    partition: int | None
    broker_id: int | None
    start_offset: int | None
    message: str


class SeenFinding(NamedTuple):
    """A finding as its last audit `told` it; `present` has its severity in each audit as (index of the audit, severity)."""

    cluster_id: str | None
    told: ToldFinding
    present: Sequence[tuple[int, str]]


class PastAudit(NamedTuple):
    """A past audit: its verdict, its counts, and the numbers of findings that appeared and disappeared with it."""

    audit_id: str | None
    cluster_id: str | None
    snapshot_id: str | None
    started: str
    finished: str | None
    tool_version: str
    table_versions: Mapping[str, int] | None
    verdict: str
    partitions: Mapping[str, int]
    findings: Mapping[str, int]
    new: int
    gone: int


class PastVerdict(NamedTuple):
    """A partition's verdict in an audit."""

    audit_id: str | None
    finished: str | None
    verdict: str


class VerdictChange(NamedTuple):
    """A partition whose verdict changed: its first verdict, and each one that differs from the one before."""

    cluster_id: str | None
    topic: str
    partition: int
    verdicts: Sequence[PastVerdict]


class PastFinding(NamedTuple):
    """A finding with its first and last audit, the number of audits with it, and the first audit after it without it."""

    finding_id: str
    code: str
    severity: str
    cluster_id: str | None
    topic: str | None
    partition: int | None
    broker_id: int | None
    start_offset: int | None
    message: str
    first_audit_id: str | None
    first_seen: str | None
    last_audit_id: str | None
    last_seen: str | None
    audits: int
    gone_since: str | None


class AuditHistory(NamedTuple):
    """`audits` oldest first, `changes` and `findings` worst first, then newest first."""

    audits: Sequence[PastAudit]
    changes: Sequence[VerdictChange]
    findings: Sequence[PastFinding]


#: Row type of each table of the history.
HISTORY_ROWS: dict[str, type] = {"audits": PastAudit, "changes": VerdictChange, "findings": PastFinding}


def build_history(
    audits: Sequence[AttemptRow],
    partitions: Iterable[JudgedPartition],
    findings: Iterable[SeenFinding],
    limit: int | None = None,
    selects: Callable[[str | None], bool] = lambda topic: True,
) -> AuditHistory:
    """Build the history of finished `audits`, oldest first; `partitions` and `findings` refer to them by index.

    A finding is gone when a later audit covered its partition (or, for one of no partition, its cluster) and did not find it.
    The latest `limit` audits are shown with their changes; earlier ones still determine what is new in them. `selects` filters
    the topics of changes and findings, not an audit's verdict and counts.
    """
    first = max(0, len(audits) - limit) if limit else 0
    judged = [one._replace(verdicts=sorted(one.verdicts)) for one in partitions]
    looked = {(one.cluster_id, one.topic, one.partition): [number for number, _ in one.verdicts] for one in judged}
    of_cluster: dict[str | None, list[int]] = defaultdict(list)
    for number, audit in enumerate(audits):
        of_cluster[audit.cluster_id].append(number)
    traced = [_trace(one, looked, of_cluster) for one in findings]
    traced.sort(key=lambda one: (one.gone is not None, *_rank(one.found)))
    return AuditHistory(
        list(_past_audits(audits, judged, traced))[first:],
        _changes(audits, [one for one in judged if selects(one.topic)], first),
        [
            _past_finding(one, audits)
            for one in traced
            if max(one.numbers[-1], one.gone or 0) >= first and selects(one.found.told.topic)
        ],
    )


def _changes(audits: Sequence[AttemptRow], judged: Iterable[JudgedPartition], first: int) -> list[VerdictChange]:
    """Partitions whose verdict changed in audit `first` or later, worst first."""
    changes = []
    for one in judged:
        steps = one.verdicts
        changed = [step for place, step in enumerate(steps) if place == 0 or step[1] != steps[place - 1][1]]
        number, verdict = changed[-1]
        if len(changed) > 1 and number >= first:
            verdicts = [PastVerdict(audits[at].audit_id, audits[at].finished, then) for at, then in changed]
            change = VerdictChange(one.cluster_id, one.topic, one.partition, verdicts)
            changes.append(((VERDICTS.index(verdict), -number, one.topic, one.partition), change))
    return [change for _, change in sorted(changes, key=lambda item: item[0])]


def _past_audits(
    audits: Sequence[AttemptRow], judged: Iterable[JudgedPartition], traced: Sequence[_Traced]
) -> Iterator[PastAudit]:
    verdicts: dict[int, Counter[str]] = defaultdict(Counter)
    for one in judged:
        for number, verdict in one.verdicts:
            verdicts[number][verdict] += 1
    severities: dict[int, Counter[str]] = defaultdict(Counter)
    unplaced: dict[int, set[str]] = defaultdict(set)
    for item in traced:
        for number, severity in item.found.present:
            severities[number][severity] += 1
            if item.found.told.topic is None:
                unplaced[number].add(item.found.told.code)
    new = Counter(item.numbers[0] for item in traced)
    gone = Counter(item.gone for item in traced if item.gone is not None)
    for number, audit in enumerate(audits):
        yield PastAudit(
            audit_id=audit.audit_id,
            cluster_id=audit.cluster_id,
            snapshot_id=audit.snapshot_id,
            started=audit.started,
            finished=audit.finished,
            tool_version=audit.tool_version,
            table_versions=dict(sorted((audit.table_versions or {}).items())) or None,
            verdict=audit_verdict(verdicts[number], unplaced[number]),
            partitions={verdict: verdicts[number][verdict] for verdict in VERDICTS},
            findings={severity: severities[number][severity] for severity in SEVERITIES},
            new=new[number],
            gone=gone[number],
        )


class _Traced(NamedTuple):
    """A finding, the indexes of the audits with it, and that of the first audit that no longer found it."""

    found: SeenFinding
    numbers: list[int]
    gone: int | None


def _trace(
    found: SeenFinding,
    looked: Mapping[tuple[str | None, str, int], list[int]],
    of_cluster: Mapping[str | None, list[int]],
) -> _Traced:
    found = found._replace(present=sorted(found.present))
    told = found.told
    present = [number for number, _ in found.present]
    if told.topic is None or told.partition is None:
        numbers = of_cluster[found.cluster_id]
    else:
        numbers = looked.get((found.cluster_id, told.topic, told.partition), present)
    return _Traced(found, present, next((number for number in numbers if number > present[-1]), None))


def _rank(found: SeenFinding) -> tuple[int, int, str, int, str, str]:
    """Sort key: worst first, then newest first."""
    told = found.told
    newest = -found.present[0][0]
    return SEVERITIES.index(told.severity), newest, told.topic or "", told.partition or 0, told.code, told.finding_id


def _past_finding(one: _Traced, audits: Sequence[AttemptRow]) -> PastFinding:
    told = one.found.told
    first = audits[one.numbers[0]]
    last = audits[one.numbers[-1]]
    return PastFinding(
        finding_id=told.finding_id,
        code=told.code,
        severity=told.severity,
        cluster_id=one.found.cluster_id,
        topic=told.topic,
        partition=told.partition,
        broker_id=told.broker_id,
        start_offset=told.start_offset,
        message=told.message,
        first_audit_id=first.audit_id,
        first_seen=first.finished,
        last_audit_id=last.audit_id,
        last_seen=last.finished,
        audits=len(one.numbers),
        gone_since=None if one.gone is None else audits[one.gone].finished,
    )

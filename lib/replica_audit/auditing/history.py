"""History of a warehouse's audits: verdicts over time, and the first and last audit of each finding."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from replica_audit.auditing.catalogue import SEVERITIES, VERDICTS, audit_verdict

Row = Mapping[str, Any]

#: A partition, and its verdicts in order: the number of the audit, and what it found.
_Judged = tuple[Row, Sequence[tuple[int, str]]]


@dataclass(frozen=True, slots=True)
class AuditHistory:
    """`audits`, oldest first, each as it was then; `changes`, partitions whose verdict was not always the same, and
    `findings`, both worst first, then newest first.
    """

    audits: Sequence[dict[str, Any]]
    changes: Sequence[dict[str, Any]]
    findings: Sequence[dict[str, Any]]


def build_history(
    audits: Sequence[Row],
    partitions: Iterable[Row],
    findings: Iterable[Row],
    limit: int | None = None,
    selects: Callable[[str | None], bool] = lambda topic: True,
) -> AuditHistory:
    """The history of `audits`: finished ones, oldest first, with audit_id, cluster_id, snapshot_id and times.

    `partitions` has cluster_id, topic, partition and `verdicts`, [(number, verdict)…]; `findings` cluster_id,
    finding_id, code, severity, topic, partition, broker_id, start_offset, message and `present`, [(number, severity)…]
    with the severity that it had then; a number is that of the audit in `audits`. A finding is gone when a later audit
    looked at its partition (or, where it belongs to none, at its cluster) and did not find it.

    The latest `limit` audits are shown, and what happened in them; what was before still says what is new in them.
    `selects` says of which topics changes and findings are shown; an audit's own verdict and counts are of all it had.
    """
    first = max(0, len(audits) - limit) if limit else 0
    judged = [(row, sorted(row["verdicts"])) for row in partitions]
    looked = {tuple(_place(row).values()): [number for number, _ in steps] for row, steps in judged}
    of_cluster: dict[str | None, list[int]] = defaultdict(list)
    for number, audit in enumerate(audits):
        of_cluster[audit["cluster_id"]].append(number)
    traced = [_trace(row, looked, of_cluster, audits) for row in findings]
    traced.sort(key=lambda item: (item.gone is not None, *item.key))
    return AuditHistory(
        list(_audit_rows(audits, judged, traced))[first:],
        _changes(audits, [(row, steps) for row, steps in judged if selects(row["topic"])], first),
        [item.row for item in traced if max(item.present[-1], item.gone or 0) >= first and selects(item.row["topic"])],
    )


def _changes(audits: Sequence[Row], judged: Iterable[_Judged], first: int) -> list[dict[str, Any]]:
    """Partitions whose verdict changed in the audit `first` or later, worst first."""
    rows = []
    for row, steps in judged:
        changed = [step for place, step in enumerate(steps) if place == 0 or step[1] != steps[place - 1][1]]
        if len(changed) > 1 and changed[-1][0] >= first:
            rows.append((changed[-1], {**_place(row), "verdicts": [_step(audits, *step) for step in changed]}))
    rows.sort(key=lambda item: (VERDICTS.index(item[0][1]), -item[0][0], item[1]["topic"], item[1]["partition"]))
    return [row for _, row in rows]


def _audit_rows(
    audits: Sequence[Row], judged: Iterable[_Judged], traced: Sequence[_Traced]
) -> Iterator[dict[str, Any]]:
    """Each audit as it was: its verdict, its counts, and which findings came and went."""
    verdicts: dict[int, Counter] = defaultdict(Counter)
    for _, steps in judged:
        for number, verdict in steps:
            verdicts[number][verdict] += 1
    severities: dict[int, Counter] = defaultdict(Counter)
    unplaced: dict[int, list[Row]] = defaultdict(list)
    for item in traced:
        for number, severity in item.severities:
            severities[number][severity] += 1
            if item.row["topic"] is None:
                unplaced[number].append(item.row)
    new = Counter(item.present[0] for item in traced)
    gone = Counter(item.gone for item in traced if item.gone is not None)
    for number, audit in enumerate(audits):
        yield {
            **_named(audit),
            "verdict": audit_verdict(verdicts[number], unplaced[number]),
            "partitions": {verdict: verdicts[number][verdict] for verdict in VERDICTS},
            "findings": {severity: severities[number][severity] for severity in SEVERITIES},
            "new": new[number],
            "gone": gone[number],
        }


def _named(audit: Row) -> dict[str, Any]:
    names = ("audit_id", "cluster_id", "snapshot_id", "started", "finished", "tool_version")
    versions = dict(sorted((audit.get("table_versions") or {}).items()))
    return {**{name: audit.get(name) for name in names}, "table_versions": versions or None}


class _Traced(NamedTuple):
    """A finding through the audits: the number of the audit in which it was gone, and those in which it was present, with severities."""

    gone: int | None
    key: tuple
    present: list[int]
    severities: list[tuple[int, str]]
    row: dict[str, Any]


def _trace(
    row: Row, looked: Mapping[tuple, list[int]], of_cluster: Mapping[str | None, list[int]], audits: Sequence[Row]
) -> _Traced:
    then = sorted(row["present"])
    present = [number for number, _ in then]
    if row["topic"] is None:
        numbers = of_cluster[row["cluster_id"]]
    else:
        numbers = looked.get((row["cluster_id"], row["topic"], row["partition"]), present)
    gone = next((number for number in numbers if number > present[-1]), None)
    first = audits[present[0]]
    last = audits[present[-1]]
    traced = {
        **{name: row[name] for name in ("finding_id", "code", "severity")},
        **_place(row),
        **{name: row[name] for name in ("broker_id", "start_offset", "message")},
        "first_audit_id": first["audit_id"],
        "first_seen": first["finished"],
        "last_audit_id": last["audit_id"],
        "last_seen": last["finished"],
        "audits": len(present),
        "gone_since": None if gone is None else audits[gone]["finished"],
    }
    key = (
        SEVERITIES.index(row["severity"]),
        -present[0],
        row["topic"] or "",
        row["partition"] or 0,
        row["code"],
        row["finding_id"],
    )
    return _Traced(gone, key, present, then, traced)


def _place(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("cluster_id", "topic", "partition")}


def _step(audits: Sequence[Row], number: int, verdict: str) -> dict[str, Any]:
    return {"audit_id": audits[number]["audit_id"], "finished": audits[number]["finished"], "verdict": verdict}

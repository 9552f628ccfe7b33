"""The audits of a warehouse as a history: verdicts over time, and when each finding was first and last there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replica_audit.auditing.catalogue import SEVERITIES, VERDICTS, audit_verdict

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class History:
    """`audits`, oldest first; `changes`, partitions whose verdict was not always the same; `findings`, newest first."""

    audits: Sequence[dict[str, Any]]
    changes: Sequence[dict[str, Any]]
    findings: Sequence[dict[str, Any]]


def build_history(audits: Sequence[Row], partitions: Iterable[Row], findings: Iterable[Row]) -> History:
    """The history of `audits`: finished ones, oldest first, with audit_id, cluster_id, snapshot_id and times.

    `partitions` has cluster_id, topic, partition and `verdicts`, [(number, verdict)…]; `findings` cluster_id,
    finding_id, code, severity, topic, partition, broker_id, start_offset, message and `present`, [number…]; a number
    is that of the audit in `audits`. A finding is gone when a later audit looked at its partition (or, where it belongs
    to none, at its cluster) and did not find it.
    """
    looked: dict[tuple, list[int]] = {}
    rows = []
    of_cluster: dict[str | None, list[int]] = defaultdict(list)
    for number, audit in enumerate(audits):
        of_cluster[audit["cluster_id"]].append(number)
    verdicts: dict[int, Counter] = defaultdict(Counter)
    for row in partitions:
        seen = sorted(row["verdicts"])
        looked[row["cluster_id"], row["topic"], row["partition"]] = [number for number, _ in seen]
        for number, verdict in seen:
            verdicts[number][verdict] += 1
        changed = [step for position, step in enumerate(seen) if position == 0 or step[1] != seen[position - 1][1]]
        if len(changed) > 1:
            rows.append((changed[-1][0], {**_place(row), "verdicts": [_step(audits, *step) for step in changed]}))
    rows.sort(key=lambda item: (-item[0], item[1]["topic"], item[1]["partition"]))
    traced = [_trace(row, looked, of_cluster, audits) for row in findings]
    traced.sort(key=lambda item: (item[0] is None, *item[1]))
    new = Counter(item[2] for item in traced)
    gone = Counter(item[0] for item in traced if item[0] is not None)
    severities: dict[int, Counter] = defaultdict(Counter)
    unplaced: dict[int, list[Row]] = defaultdict(list)
    for _, _, _, present, row in traced:
        for number in present:
            severities[number][row["severity"]] += 1
            if row["topic"] is None:
                unplaced[number].append(row)
    return History(
        [
            {
                **{
                    name: audit.get(name)
                    for name in ("audit_id", "cluster_id", "snapshot_id", "started", "finished", "tool_version")
                },
                "table_versions": dict(sorted((audit.get("table_versions") or {}).items())) or None,
                "verdict": audit_verdict(verdicts[number], unplaced[number]),
                "partitions": {verdict: verdicts[number][verdict] for verdict in VERDICTS},
                "findings": {severity: severities[number][severity] for severity in SEVERITIES},
                "new": new[number],
                "gone": gone[number],
            }
            for number, audit in enumerate(audits)
        ],
        [row for _, row in rows],
        [row for *_, row in traced],
    )


def _trace(
    row: Row, looked: Mapping[tuple, list[int]], of_cluster: Mapping[str | None, list[int]], audits: Sequence[Row]
) -> tuple:
    """(number of the audit since which it is gone or None, sort key, first number, all numbers, row)."""
    present = sorted(row["present"])
    if row["topic"] is None:
        numbers = of_cluster[row["cluster_id"]]
    else:
        numbers = looked.get((row["cluster_id"], row["topic"], row["partition"]), present)
    gone = next((number for number in numbers if number > present[-1]), None)
    first, last = audits[present[0]], audits[present[-1]]
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
        -present[0],
        SEVERITIES.index(row["severity"]),
        row["topic"] or "",
        row["partition"] or 0,
        row["code"],
        row["finding_id"],
    )
    return gone, key, present[0], present, traced


def _place(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("cluster_id", "topic", "partition")}


def _step(audits: Sequence[Row], number: int, verdict: str) -> dict[str, Any]:
    return {"audit_id": audits[number]["audit_id"], "finished": audits[number]["finished"], "verdict": verdict}

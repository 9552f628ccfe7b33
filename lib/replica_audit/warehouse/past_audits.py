"""Past audits of a cluster, out of the warehouse: their history, and the rows that a new audit compares with (HWM-GONE, HWM-UNSEEN,
`--since`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.arrow_rows import arrow_to_rows, values_to_arrow
from replica_audit.auditing.catalogue import codes_with
from replica_audit.auditing.history import AuditHistory, JudgedPartition, SeenFinding, build_history
from replica_audit.auditing.known_findings import Earlier, build_earlier
from replica_audit.errors import UsageError
from replica_audit.literals import VERDICTS
from replica_audit.results import AuditObject
from replica_audit.schema import AttemptRow, RawRow, to_dict
from replica_audit.warehouse.attempts import check_audits, check_committed, finished_attempts, latest_attempt, own_rows
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.segment_index import placed_segments

#: Only partitions of these verdicts can have had records that were committed, or left behind by an unclean election.
_LOSSES = VERDICTS[: VERDICTS.index("WILL_LOSE_ON_TRUNCATION") + 1]
#: Audits with partitions of these verdicts are looked into: INCONCLUSIVE is what HWM-UNSEEN asks for.
_TELLING = (*_LOSSES, "INCONCLUSIVE")
_RUN = (
    "audit_id", "topic", "partition", "broker_id", "start_offset", "end_offset", "replica_epoch", "record_count",
    "lost_records", "committed",
)  # fmt: skip
_FINDING = ("audit_id", "topic", "partition", "broker_id", "start_offset", "code", "severity", "finding_id", "evidence")


def earlier_rows(
    warehouse: Warehouse, cluster_id: str | None, known: Collection[tuple[str, int]]
) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Rows for `auditing.audits.gone.losses_of_rows`, by (topic, partition), of those in `known`.

    None of a cluster without a name: it may be another one. Audits in which nothing was lost are not looked into.
    """
    runs = [] if cluster_id is None else finished_attempts(warehouse, "audit", cluster_id=cluster_id)
    finished = {run.audit_id: run.finished for run in runs}
    if not finished:
        return {}
    names = ("audit_id", "topic", "partition", "verdict", "topic_id", "leader_epoch")
    telling = _is_one_of("verdict", _TELLING) & pc.field("topic_id").is_valid()
    partitions = {
        (row["audit_id"], row["topic"], row["partition"]): row
        for row in _selected(warehouse, runs, "partitions", names, telling)
        if (row["topic"], row["partition"]) in known
    }
    audits = sorted({audit_id for audit_id, _, _ in partitions})
    if not audits:
        return {}
    found: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    unclean = set()
    told = codes_with("earlier")
    looked_into = [run for run in runs if run.audit_id in audits]
    parted = _is_one_of("code", ["DIV-EPOCH"]) & _is_one_of("severity", ["high"])
    for row in _selected(warehouse, looked_into, "findings", _FINDING, _is_one_of("code", sorted(told)) | parted):
        place = (row["topic"], row["partition"])
        if row["code"] in told and place in known:
            found[place].append({"finding_id": row["finding_id"], "evidence": row["evidence"]})
        elif row["code"] == "DIV-EPOCH" and row["severity"] == "high":
            unclean.add((row["audit_id"], *place, row["broker_id"], row["start_offset"]))
    for row in _selected(warehouse, looked_into, "divergences", _RUN, pc.field("replica_epoch").is_valid()):
        place = (row["topic"], row["partition"])
        partition = partitions.get((row["audit_id"], *place))
        if partition is None:
            continue
        if row["committed"] or (row["audit_id"], *place, row["broker_id"], row["start_offset"]) in unclean:
            records = row["record_count"] if row["lost_records"] is None else row["lost_records"]
            more = {"finished": finished[row["audit_id"]], "records": records}
            found[place].append({**row, **more, **{name: partition[name] for name in ("topic_id", "leader_epoch")}})
    return dict(found)


def _selected(
    warehouse: Warehouse, audits: Sequence[AttemptRow], table: str, names: Sequence[str], which: pc.Expression
) -> Iterator[RawRow]:
    """Rows of the audits that an expression selects, of which those of one file are held at once.

    `names` begin with audit_id. Raises EngineError after the last where an audit committed others.
    """
    numbers: Counter[str] = Counter()
    for rows in warehouse.read_parts(table, names, audit_id=[run.audit_id for run in audits]):
        for one in rows["audit_id"].value_counts().to_pylist():
            numbers[one["values"]] += one["counts"]
        yield from arrow_to_rows(rows.filter(which))
    for finished in audits:
        check_committed(warehouse, finished, {table: numbers[str(finished.audit_id)]})


def _is_one_of(name: str, texts: Sequence[str]) -> pc.Expression:
    return pc.field(name).isin(values_to_arrow(texts, pa.string()))


#: With any other verdict something is left to look at again.
_WELL = ("CONSISTENT", "LAGGING")


def verified_rows(
    warehouse: Warehouse, audit_id: str, cluster_id: str | None
) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Rows for `verified_copies`, by (topic, partition), of partitions that the audit found well, with the places of their
    summaries (`read_summaries`).

    Raises UsageError when there is no such finished audit, or it is of another cluster.
    """
    audit = latest_attempt(warehouse, "audit", audit_id=audit_id)
    if audit.cluster_id != cluster_id:
        raise UsageError(
            f"--since {audit_id}: that audit is of cluster {audit.cluster_id or 'without a name'}, "
            f"the snapshot of {cluster_id or 'one without a name'}"
        )
    names = ("audit_id", "topic", "partition", "verdict")
    judged = _selected(warehouse, [audit], "partitions", names, _is_one_of("verdict", _WELL))
    well = {(row["topic"], row["partition"]) for row in judged}
    columns = ("topic", "partition", "broker_id", "log_dir")
    summary = ("summary_file", "summary_row")
    compared = pc.field("common_prefix_end").is_valid()
    replicas = _selected(warehouse, [audit], "replicas", ("audit_id", *columns, "common_prefix_end"), compared)
    ends = {
        tuple(row[name] for name in columns): row["common_prefix_end"]
        for row in replicas
        if (row["topic"], row["partition"]) in well
    }
    found: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in placed_segments(warehouse, **own_rows(audit)):
        end = ends.get(tuple(row[name] for name in columns))
        if end is not None:
            kept = {name: row[name] for name in (*columns, *summary)}
            found[row["topic"], row["partition"]].append({**kept, "common_prefix_end": end})
    return dict(found)


_SHOWN = ("code", "severity", "topic", "partition", "broker_id", "start_offset", "message")


def load_history(warehouse: Warehouse, topics: Sequence[str] = (), limit: int | None = None) -> AuditHistory:
    """The history of the finished audits, the latest `limit` of them; `topics` are patterns as in `--topic`.

    Raises UsageError when there is no finished audit.
    """
    latest_attempt(warehouse, "audit")
    # All of them, whatever is shown: what was before says what is new in an audit.
    audits = finished_attempts(warehouse, "audit")
    numbers = {run.audit_id: number for number, run in enumerate(audits)}
    clusters = {run.audit_id: run.cluster_id for run in audits}
    judged: dict[tuple[str | None, str, int], list[tuple[int, str]]] = defaultdict(list)
    present: dict[tuple[str | None, str], dict[int, str]] = defaultdict(dict)
    words: dict[tuple[str | None, str], RawRow] = {}
    verdicts = warehouse.read("partitions", ("audit_id", "topic", "partition", "verdict"), audit_id=list(numbers))
    check_audits(warehouse, audits, "partitions", verdicts)
    for row in verdicts:
        audit_id = row["audit_id"]
        judged[clusters[audit_id], row["topic"], row["partition"]].append((numbers[audit_id], row["verdict"]))
    found = warehouse.read("findings", ("audit_id", "finding_id", *_SHOWN), audit_id=list(numbers))
    check_audits(warehouse, audits, "findings", found)
    for row in found:
        audit_id = row["audit_id"]
        number, key = numbers[audit_id], (clusters[audit_id], row["finding_id"])
        if number > max(present[key], default=-1):
            # The words are those of the last audit that has it.
            words[key] = row
        present[key][number] = row["severity"]
    partitions = [JudgedPartition(*place, verdicts=steps) for place, steps in judged.items()]
    findings = [
        SeenFinding(*key, **{name: row[name] for name in _SHOWN}, present=list(present[key].items()))
        for key, row in words.items()
    ]
    return build_history(audits, partitions, findings, limit, lambda topic: _matches(topic, topics))


def load_earlier(warehouse: Warehouse, audit: AuditObject) -> Earlier | None:
    """The finished audit of the same cluster before `audit` (that of Results).

    None where there is no such audit, and where the cluster has no name: it may be another one.
    """
    if audit["cluster_id"] is None:
        return None
    runs = finished_attempts(warehouse, "audit", cluster_id=audit["cluster_id"])
    before = [run for run in runs if run.ended < audit["finished"]]
    if not before:
        return None
    names = {
        "partitions": ("topic", "partition", "verdict"),
        "findings": ("topic", "partition", "finding_id", "status"),
    }
    rows = {table: warehouse.read(table, names[table], audit_id=before[-1].audit_id) for table in names}
    check_committed(warehouse, before[-1], {table: len(rows[table]) for table in names})
    return build_earlier({"audit": to_dict(before[-1]), **rows})


def _matches(topic: str | None, patterns: Sequence[str]) -> bool:
    return not patterns or (topic is not None and any(fnmatchcase(topic, pattern) for pattern in patterns))

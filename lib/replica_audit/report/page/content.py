"""Data of the page: an overview of all partitions, and their details in pieces of a few hundred."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypedDict

from replica_audit.auditing.catalogue import CATALOGUE, code_text
from replica_audit.auditing.known_findings import Earlier
from replica_audit.elect.election_plan import advise
from replica_audit.elect.follow_up_steps import is_advised, name_remedy
from replica_audit.literals import SEVERITIES, VERDICTS
from replica_audit.model import TopicPartition
from replica_audit.report.facts.by_partition import (
    COPY_STATES,
    CopyState,
    copy_states,
    other_partitions,
    partition_ranges,
    rows_by_partition,
    served_rows,
    worst_finding,
)
from replica_audit.report.facts.changes import compare_place
from replica_audit.report.facts.cluster_events import EVENT_KINDS, find_timeline
from replica_audit.report.facts.conditions import whole_audit
from replica_audit.report.facts.finding_groups import group_facts
from replica_audit.report.facts.losses import is_likely
from replica_audit.report.facts.lost_writers import LostWriter, writers_of
from replica_audit.report.layout import name_bound
from replica_audit.report.page.columns import encode_column
from replica_audit.report.partition_story import tell_story
from replica_audit.report.plan_text import tell_decisions
from replica_audit.report.readers_and_writers import Hits, find_hits, hit_groups_of
from replica_audit.results import PartitionRows, Results, by_place, place_of, present
from replica_audit.row_classes import Row
from replica_audit.schema import FindingRow, PartitionRow

#: Number of partitions in one compressed piece of details; the page unpacks a piece when its first partition is opened.
PIECE = 256

#: Maximum number of characters of the list of partitions without details.
OTHERS_LIMIT = 3_000_000

#: Columns that no script of the page reads.
_LEFT_OUT = {
    "topic", "partition", "topic_id", "cluster_id", "configs", "directories", "fenced_since",
    # of replicas
    "loaded_log_end_offset", "batch_count", "unchecked_batches", "unexplained_gaps",
    "lost_held", "lost_committed_held", "lost_only_here", "lost_committed_only_here",
    # of high_watermarks and their timeline
    "leadership_source", "proven_lower", "exact", "method", "lower_evidence", "upper_evidence", "limiting_broker_id",
    "leader_log_end_offset", "waiting_since_ms", "lasting",
    # of partition_states
    "metadata_offset", "partition_epoch", "uncommitted", "last_known_elr", "recovering", "removing", "adding", "fenced",
    "down_when_copied", "sole_isr", "lacked_by", "overtaken", "leader_stopped", "crashed", "begun_anew", "perhaps_down", "offline",
    "inherits_unclean",
    # of divergences, truncations and elections
    "replica_epoch", "committed_records", "committed_evidence", "promised_records", "rounds", "lost_from", "lacked_records",
    "is_only_likely", "only_here", "hidden_records", "remote_records", "remote_unread", "remote_encrypted",
    "remote_deleted", "remote_basis",
    # of group_offsets, lost_producers and findings
    "committed_ms", "transactional", "finding_id",
}  # fmt: skip

#: Columns of offsets, stored as distances from the reference's log end.
_OFFSETS = {
    "local_start_offset",
    "log_end_offset",
    "recovered_log_end_offset",
    "high_watermark_checkpoint",
    "recovery_point_checkpoint",
    "common_prefix_end",
    "hw_lower",
    "hw_upper",
    "start_offset",
    "end_offset",
    "truncate_to",
    "kept_to",
    "record_count",
    "hw_recomputed",
    "hw_observed",
    "committed_offset",
    "parted_at",
}


#: Columns of a remote segment that the picture needs; a large log has thousands of segments.
_DRAWN = ("start_offset", "end_offset", "epochs", "state", "lineage", "parted_at")


def build_overview(results: Results, shown: Sequence[PartitionRow], earlier: Earlier | None) -> dict[str, object]:
    """Build the columns of the partitions `shown` in detail by which the table displays, filters and sorts."""
    plan = advise(results)
    told = {place: one.sentence for one in tell_decisions(plan) for place in one.places}
    decided = {place_of(one): one for one in plan.decisions}
    captures = by_place(results.captures)
    open_places = {place for step in plan.steps if step.action == "capture" for place in step.partitions}
    rows = [
        {
            **_overview_row(partition, rows, earlier, told),
            **_copies(copy_states(partition, rows, captures.get(place_of(partition), ()))),
            "choice": None if (one := decided.get(place_of(partition))) is None else one.candidate_id,
            "costs_open": (one is not None and bool(one.depends_on)) or place_of(partition) in open_places,
        }
        for partition, rows in rows_by_partition(results, shown)
    ]
    names = list(rows[0]) if rows else []
    return {name: encode_column([row[name] for row in rows]) for name in names}


def _copies(states: Mapping[int, CopyState]) -> dict[str, object]:
    """Brokers of a partition's replicas, and for each a digit: the index of its state in `COPY_STATES`."""
    return {"copies": list(states), "states": "".join(str(COPY_STATES.index(one)) for one in states.values())}


def build_timeline(results: Results, shown: Sequence[PartitionRow]) -> dict[str, object]:
    """Build the columns of the timeline over the overview's partitions, which are referred to by index."""
    copied = results.inputs.get("copied", ())
    times = [(one["broker_id"], one["started_ms"], one["finished_ms"]) for one in copied]
    timeline = find_timeline(results, shown, times)
    events = timeline.events
    return {
        "size": len(events),
        "step": timeline.step_ms,
        "time": encode_column([one.time_ms for one in events]),
        "broker": encode_column([one.broker_id for one in events]),
        "kind": encode_column([EVENT_KINDS.index(one.kind) for one in events]),
        "count": encode_column([one.partition_count for one in events]),
        "partitions": encode_column([one.partitions for one in events]),
    }


def build_pieces(results: Results, shown: Sequence[PartitionRow]) -> Iterator[dict[str, object]]:
    """Yield the details of `PIECE` partitions at a time, in the order of the overview."""
    protocol = results.protocol
    hits = find_hits(results)
    held: list[tuple[PartitionRow, PartitionRows]] = []
    for item in rows_by_partition(results, shown):
        held.append(item)
        if len(held) == PIECE:
            yield _piece(held, protocol, hits)
            held = []
    if held:
        yield _piece(held, protocol, hits)


class OtherPartitions(TypedDict):
    """Partitions of one verdict without details on the page."""

    verdict: str
    count: int
    topics: list[tuple[str, str]]
    """Topics with ranges of partition numbers."""
    unlisted: int
    """Number of partitions that `topics` leaves out."""


def build_others(results: Results, shown: Sequence[PartitionRow]) -> list[OtherPartitions]:
    """Partitions not `shown` in detail, by verdict."""
    found: dict[str, OtherPartitions] = {}
    left = OTHERS_LIMIT
    for one in partition_ranges(other_partitions(results, shown)):
        of_verdict = found.setdefault(one.verdict, {"verdict": one.verdict, "count": 0, "topics": [], "unlisted": 0})
        of_verdict["count"] += one.size
        left -= len(one.topic) + len(one.numbers)
        if left >= 0:
            of_verdict["topics"].append((one.topic, one.numbers))
        else:
            of_verdict["unlisted"] += one.size
    return list(found.values())


def number_facts(findings: Sequence[FindingRow]) -> list[dict[str, object]]:
    """`findings` in the order of the facts they report, each with its fact's number."""
    facts = enumerate(group_facts(findings))
    return [{**row._asdict(), "fact": number} for number, fact in facts for row in (*fact.same, *fact.other)]


def build_codes(results: Results) -> dict[str, dict[str, str]]:
    """Texts of the codes that occur, for the page's explanations."""
    names = {
        *(row.code for row in results.findings),
        *whole_audit(results).divergence_codes,
        *(row.code for row in results.quarantine),
    }
    told = ("summary", "meaning", "proof", "remedy", "traps")
    texts = {name: code_text(name)._asdict() for name in sorted(names) if name in CATALOGUE}
    return {name: {word: text[word] for word in told} for name, text in texts.items()}


def _overview_row(
    partition: PartitionRow, rows: PartitionRows, earlier: Earlier | None, told: Mapping[TopicPartition, str]
) -> dict[str, object]:
    found = present(rows.findings)
    worst = worst_finding(found)
    change = compare_place(place_of(partition), rows.findings, earlier)
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "verdict": VERDICTS.index(partition.verdict),
        "leader": partition.leader_id,
        "epoch": partition.leader_epoch,
        "hw_lower": partition.hw_lower,
        "hw_upper": partition.hw_upper,
        "lost": partition.lost_records,
        "lost_committed": partition.lost_committed,
        "bound": name_bound(at_most=partition.lost_at_most, at_least=partition.lost_at_least),
        "likely": is_likely(partition, found),
        "isr": None if partition.isr is None else list(partition.isr),
        "replicas": [row.broker_id for row in served_rows(rows.replicas)],
        "unread": list(partition.unread_replicas),
        "under": partition.under_replicated,
        "severity": None if worst is None else SEVERITIES.index(worst.severity),
        "code": None if worst is None else worst.code,
        "advice": _advice(worst, found, told.get(place_of(partition))),
        "codes": sorted({row.code for row in found}),
        "brokers": sorted({row.broker_id for row in found if row.broker_id is not None}),
        "new": change.new,
        "known": change.known,
        "resolved": change.resolved,
        "before": None if change.before is None else VERDICTS.index(change.before),
    }


def _advice(worst: FindingRow | None, found: Sequence[FindingRow], decision: str | None) -> str | None:
    """Decision on a partition, or else the remedy of its worst finding; None if that needs none, or this version lacks its code."""
    if worst is None or decision is not None:
        return decision
    if worst.code not in CATALOGUE or not is_advised(worst):
        return None
    return name_remedy(code_text(worst.code).remedy, [row.broker_id for row in found if row.code == worst.code])


def _piece(items: Sequence[tuple[PartitionRow, PartitionRows]], protocol: str, hits: Hits) -> dict[str, object]:
    bases = [_base(partition, rows) for partition, rows in items]
    details = [_detail(rows, hits.get(place_of(partition), {})) for partition, rows in items]
    tables: dict[str, object] = {}
    for table in PartitionRows._fields:
        counts = [len(rows[table]) for rows in details]
        if not any(counts):
            continue
        placed = [base for base, count in zip(bases, counts, strict=True) for _ in range(count)]
        columns = {
            name: encode_column(values, placed if name in _OFFSETS else None)
            for name, values in _columns([row for rows in details for row in rows[table]]).items()
            if name not in _LEFT_OUT
        }
        tables[table] = {"rows": encode_column(counts), "columns": columns}
    story = [[list(sentence) for sentence in tell_story(partition, rows, protocol)] for partition, rows in items]
    return {"bases": encode_column(bases), "tables": tables, "story": story}


_Told = Mapping[str, object]


def _columns(rows: Sequence[Row | _Told]) -> Mapping[str, Sequence[object]]:
    """Columns by name of rows of one table."""
    first = rows[0]
    if isinstance(first, Mapping):
        return {name: [row[name] for row in rows if isinstance(row, Mapping)] for name in first}
    return dict(zip(first._fields, zip(*rows, strict=True), strict=True))


def _detail(rows: PartitionRows, hits: Mapping[int, Collection[tuple[str, str]]]) -> dict[str, Sequence[Row | _Told]]:
    """Rows of one partition by table; of some tables other columns than their own."""
    tables: dict[str, Sequence[Row | _Told]] = rows._asdict()
    groups = hit_groups_of(rows.group_offsets, hits)
    writers = writers_of(rows.lost_producers)
    tables["findings"] = number_facts(rows.findings)
    there = [row for row in rows.remote_segments if row.state != "delete_finished"]
    tables["remote_segments"] = [{name: getattr(row, name) for name in _DRAWN} for row in there]
    tables["group_offsets"] = [{**one.offset._asdict(), "hit_by": one.hit_by} for one in groups]
    tables["lost_producers"] = list(map(_told_writer, writers))
    return tables


def _told_writer(writer: LostWriter) -> _Told:
    row = writer.records._asdict()
    del row["broker_id"]
    return {**row, "brokers": writer.brokers}


def _base(partition: PartitionRow, rows: PartitionRows) -> int:
    """Base of a partition's offsets: the reference's log end, if a browser can hold the number."""
    ends = [row.log_end_offset for row in served_rows(rows.replicas) if row.broker_id == partition.reference_id]
    return ends[0] if ends and ends[0] is not None and ends[0] <= 2**52 else 0


def count_findings(results: Results) -> Mapping[str, Mapping[str, int]]:
    """Findings by severity and status, worst severity first."""
    counts: dict[str, dict[str, int]] = {severity: {"new": 0, "known": 0, "resolved": 0} for severity in SEVERITIES}
    for row in results.findings:
        counts[row.severity][row.status] += 1
    return counts

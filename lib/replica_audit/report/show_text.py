"""Text of `show`: a table of all partitions and the findings, worst first, or everything about one partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from replica_audit.literals import UNSEEN, VERDICTS
from replica_audit.model import OffsetRange, joined
from replica_audit.report.answer import build_answer
from replica_audit.report.captures import HEADS, tell_captures
from replica_audit.report.facts.by_partition import rows_by_partition, worst_finding, worst_partitions
from replica_audit.report.facts.losses import is_likely
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.finding_text import render_facts, render_proven_facts
from replica_audit.report.layout import (
    align_columns,
    clean,
    cut_column,
    fit_columns,
    natural_width,
    paint,
    render_interval,
    render_lost,
    render_range,
    render_rest,
    text_width,
    wrap,
)
from replica_audit.report.plan_text import wrap_command
from replica_audit.report.sentences import plain_text
from replica_audit.results import Results, present
from replica_audit.schema import (
    DivergenceRow,
    FindingRow,
    HighWatermarkRow,
    HighWatermarkTimelineRow,
    PartitionRow,
    RemoteSegmentRow,
    ReplicaRow,
    TruncationRound,
    TruncationRow,
)
from replica_audit.text import (
    count,
    name_cut,
    name_remote_basis,
    name_remote_lineage,
    name_remote_state,
    name_source,
    render_time,
)

#: Maximum numbers of partitions and findings shown; audit.json has all.
PARTITION_LIMIT = 40
FINDING_LIMIT = 20

_HEAD = ("TOPIC", "PART", "VERDICT", "LEADER", "HIGH WATERMARK", "LOST", "DIVERGENT", "WORST FINDING")
_RIGHT = (1, 3, 4, 5)
#: Style of each verdict, worst first.
VERDICT_STYLES: dict[str, str] = dict(
    zip(VERDICTS, ("critical", "critical", "high", "high", "medium", "medium", "low", "good"), strict=True)
)

_TONES = {"bad": "critical", "warn": "medium", "unknown": "medium", "good": "good"}

#: Indexes of columns to move below the row if a table is too wide, first one first.
_GIVE_WAY = (6, 7, 5, 4)


def render_summary(results: Results) -> str:
    """Header, answer, partitions (worst first) and findings; no line is longer than `text_width()` on the screen."""
    audit = results.audit
    what = f"Audit {audit['audit_id']} of snapshot {audit['snapshot_id']}"
    if audit["audit_id"] is None:
        # Not in a warehouse: the audit has no id, only the snapshot's name.
        what = f"Snapshot {audit['inputs']['snapshot']}"
    lines = wrap(what + (f", cluster {audit['cluster_id']}" if audit["cluster_id"] else ""))
    lines += ["", *render_answer(results), "", *_partition_table(results)]
    findings = present(results.findings)
    if findings:
        lines += ["", paint("Findings, worst first (replica-audit explain CODE says more)", "head")]
        lines += render_facts(findings, FINDING_LIMIT)
    resolved = len(results.findings) - len(findings)
    if resolved:
        lines.append(f"{count(resolved, 'finding')} of the baseline resolved")
    if results.quarantine:
        pieces = count(len(results.quarantine), "piece")
        first = min(results.quarantine, key=lambda row: (row.path, row.reason))
        more = f", and {len(results.quarantine) - 1} more (table quarantine)" if len(results.quarantine) > 1 else ""
        lines += ["", *wrap(f"{pieces} of input could not be used: {clean(first.path)}: {clean(first.reason)}{more}")]
    return "\n".join(lines) + "\n"


def render_answer(results: Results) -> list[str]:
    """Render the page's headline, what the snapshot lacks, and what to do first."""
    answer = build_answer(results, build_verdict(results, "never"))
    lines = [paint(line, _TONES[answer.tone]) for line in wrap(answer.headline)]
    lines += _captures(results)
    if answer.todo.first:
        lines += ["", paint("Do first", "head")]
    for number, step in enumerate(answer.todo.first, 1):
        lines += wrap(plain_text(step.sentence), f"{number}. ", "   ")
        lines += (line for command in step.commands for line in wrap_command(command))
    return lines


def _captures(results: Results) -> list[str]:
    """Table of captured replicas; empty if none is missing."""
    told = tell_captures(results)
    if told is None:
        return []
    heads = [head.upper() for head in HEADS]
    table = fit_columns([heads, *told.rows], right=range(1, len(HEADS))) if told.rows else []
    lines = ["", paint("Replicas in the snapshot", "head"), *table]
    return lines + [line for sentence in told.lines for line in wrap(plain_text(sentence), "", "    ")]


def _partition_table(results: Results) -> list[str]:
    partitions = worst_partitions(results)
    if not partitions:
        return ["no partitions"]
    shown = rows_by_partition(results, partitions[:PARTITION_LIMIT])
    rows = [_cells(row, of_row.divergences, of_row.findings) for row, of_row in shown]
    return [*_lay_out(rows), *render_rest(len(partitions) - PARTITION_LIMIT)]


def _cells(row: PartitionRow, divergent: Sequence[DivergenceRow], findings: Sequence[FindingRow]) -> list[str]:
    lost = render_lost(row, row.lost_records)
    if row.lost_committed:
        lost += f" ({row.lost_committed} {'likely ' if is_likely(row, findings) else ''}committed)"
    by_broker: dict[int, list[OffsetRange]] = defaultdict(list)
    for item in divergent:
        by_broker[item.broker_id].append(OffsetRange(item.start_offset, item.end_offset))
    ranges = []
    for broker_id in sorted(by_broker):
        of_broker = joined(by_broker[broker_id])
        shown = " ".join(render_range(one.start_offset, one.end_offset) for one in of_broker[:3])
        more = f" and {len(of_broker) - 3} more" if len(of_broker) > 3 else ""
        ranges.append(f"broker {broker_id} {shown}{more}")
    worst = worst_finding(findings)
    return [
        clean(row.topic),
        str(row.partition),
        row.verdict,
        clean(row.leader_id),
        render_interval(row.hw_lower, row.hw_upper),
        lost,
        ", ".join(ranges),
        f"{worst.severity} {worst.code}" if worst else "",
    ]


def _lay_out(rows: list[list[str]]) -> list[str]:
    """Lines of the table; columns that do not fit go below their row, and a topic is shortened last."""
    table = [list(_HEAD), *rows]
    columns = list(range(len(_HEAD)))
    below: list[int] = []
    for column in _GIVE_WAY:
        if natural_width([[row[n] for n in columns] for row in table]) > text_width():
            columns.remove(column)
            below.append(column)
    shown = cut_column([[row[n] for n in columns] for row in table])
    lines = align_columns(shown, right=[columns.index(n) for n in _RIGHT if n in columns])
    answer = [paint(lines[0], "head")]
    before = max(len(row[0]) for row in shown)
    for line, row in zip(lines[1:], rows, strict=True):
        # After the topic, which may be named like a verdict.
        start = line.index(row[2], before)
        end = start + len(row[2])
        answer.append(f"{line[:start]}{paint(line[start:end], VERDICT_STYLES[row[2]])}{line[end:]}")
        for column in sorted(below):
            if row[column]:
                answer += wrap(f"{_HEAD[column].lower()}: {row[column]}", "    ", "      ")
    return answer


#: Maximum number of rows of a list; audit.json has all.
ROW_LIMIT = 50

#: Reason why a high watermark is not exact, by `method`.
_INEXACT = {"capture_skew": "not exact, since it moved while the copies were made"}

_REPLICA_HEAD = "BROKER ISR START LOCAL END LOADED RECOVERED CHECKPOINT PREFIX BATCHES TAIL STOPPED"


def render_partition(results: Results) -> str:
    """Render a block for each partition of `results`: replicas, lineages, high watermark, differences, truncations, findings.

    Findings of no partition come last, as they may concern each.
    """
    blocks = []
    for partition, rows in rows_by_partition(results):
        lines = [*_head(partition), "", *render_answer(results)]
        lines += _section("Replicas", _replicas(rows.replicas))
        lines += _section("Lineage (epoch:start offset)", _lineages(rows.replicas))
        if rows.remote_segments:
            lines += _section("Remote storage, by __remote_log_metadata", _remote(rows.remote_segments))
        lines += _section("High watermark", _high_watermark(rows.high_watermarks))
        if rows.high_watermark_timeline:
            lines += _section("High watermark over time (observations)", _timeline(rows.high_watermark_timeline))
        lines += _section("Divergences from the reference", _divergences(rows.divergences))
        lines += _section("Truncation, by protocol", _truncations(rows.truncations))
        lines += _section("Findings", render_proven_facts(rows.findings, ROW_LIMIT))
        blocks.append("\n".join(lines) + "\n")
    unplaced = [row for row in results.findings if row.topic is None]
    if blocks and unplaced:
        lines = [
            paint("Findings of the snapshot, not of one partition", "head"),
            *render_proven_facts(unplaced, ROW_LIMIT),
        ]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks) or "no such partition in the snapshot\n"


def _head(row: PartitionRow) -> list[str]:
    leader = f"leader {clean(row.leader_id)}"
    if row.reference_id != row.leader_id:
        known = "no leader known" if row.leader_id is None else leader
        leader = f"{known}, compared with {clean(row.reference_id)}"
    facts = f"{leader}, leader epoch {clean(row.leader_epoch)}, ISR {_isr(row.isr)}"
    if row.topic_id:
        facts += f", topic id {row.topic_id}"
    name = wrap(f"{row.topic}-{row.partition}  {row.verdict}")
    return [*(paint(line, "head") for line in name), *wrap(facts)]


def _isr(isr: Sequence[int] | None) -> str:
    return "unknown" if isr is None else ", ".join(map(str, isr)) or "none"


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", paint(title, "head"), *(lines or ["  none"])]


def _replicas(replicas: Sequence[ReplicaRow]) -> list[str]:
    table = [_REPLICA_HEAD.split()]
    for row in replicas:
        cells = [
            f"{clean(row.broker_id)}{'*' if row.is_leader else ''}",
            {True: "yes", False: "no", None: "?"}[row.in_isr],
            row.log_start_offset,
            row.local_start_offset,
            row.log_end_offset,
            row.loaded_log_end_offset,
            row.recovered_log_end_offset,
            row.high_watermark_checkpoint,
            row.common_prefix_end,
            row.batch_count,
            None if row.tail_kind is None else row.tail_kind.replace("_", "-"),
            {True: "clean", False: "no", None: "-"}[row.clean_shutdown],
        ]
        table.append([clean(cell) for cell in cells])
    is_tiered = any(row.local_start_offset > row.log_start_offset for row in replicas)
    if not is_tiered:
        for told in table:
            del told[3]
    lines = fit_columns(table, right=(0, *range(2, 9 + is_tiered)), indent="  ")
    note = (
        "* leads; end as found, loaded at the next start, recovered after a full recovery; checkpoint: its high watermark on disk; prefix: "
        "end of what it has in common with the reference; tail: bytes after its last sound batch; stopped: by its clean-shutdown flag"
    )
    return [*lines, *wrap(note + ("; below local its files have nothing" if is_tiered else ""), "  ")]


def _lineages(replicas: Sequence[ReplicaRow]) -> list[str]:
    lines = []
    for row in replicas:
        found = _lineage(row.epochs)
        written = _lineage(row.checkpoint_epochs)
        text = f"broker {row.broker_id}: {found}"
        if row.checkpoint_epochs is None:
            text += "; leader-epoch-checkpoint: none"
        elif written != found:
            text += f"; leader-epoch-checkpoint: {written}"
        lines += wrap(text, "  ", "    ")
    return lines


def _lineage(epochs: Sequence[Sequence[int]] | None) -> str:
    return " ".join(f"{epoch}:{start}" for epoch, start in epochs or ()) or "no epochs"


def _remote(rows: Sequence[RemoteSegmentRow]) -> list[str]:
    """Lines of the remaining segments, oldest first; deleted ones are counted."""
    kept = [row for row in rows if row.state != "delete_finished"]
    lines = []
    for row in kept[:ROW_LIMIT]:
        text = f"{render_range(row.start_offset, row.end_offset)} {name_remote_state(row.state)}, epochs {_lineage(row.epochs)}"
        text += f", {count(row.size_bytes, 'byte')}, id {row.segment_id}, by broker {row.updated_by} at {render_time(row.updated_ms)}"
        text += f": {name_remote_lineage(row.lineage, row.parted_at)}"
        seen = "" if row.basis is None or row.basis in UNSEEN else f"; {name_remote_basis(row.basis)}"
        lines += wrap(f"{text}{seen}", "  ", "    ")
    lines += render_rest(len(kept) - ROW_LIMIT, "  ", "segment")
    if deleted := len(rows) - len(kept):
        lines.append(f"  {count(deleted, 'segment')} deleted since")
    return lines


def _high_watermark(rows: Sequence[HighWatermarkRow]) -> list[str]:
    lines = []
    for row in rows:
        exact = "exact" if row.exact else _INEXACT.get(row.method, "not exact")
        text = f"{render_interval(row.hw_lower, row.hw_upper)}, {exact}"
        text += f", leader's log end {clean(row.leader_log_end_offset)}"
        text += f", leadership: {name_source(row.leadership_source)}"
        if row.limiting_broker_id is not None:
            text += f", limited by broker {row.limiting_broker_id}"
        lines += wrap(text, "  ", "    ")
        for name, evidence in (("lower", row.lower_evidence), ("upper", row.upper_evidence)):
            if evidence:
                lines += wrap(f"{name}: {evidence}", "  ", "    ")
    return lines


def _timeline(rows: Sequence[HighWatermarkTimelineRow]) -> list[str]:
    """Lines of observations that moved or deviate; the others are counted."""
    told = []
    before = None
    for row in rows:
        mark = (
            row.leader_id,
            row.leader_epoch,
            row.isr,
            row.hw_recomputed,
            row.hw_observed,
            row.deviation,
        )
        if mark != before:
            told.append(row)
        before = mark
    lines = []
    for row in told[:ROW_LIMIT]:
        text = (
            f"{render_time(row.time_ms)} {row.occasion}: leader {clean(row.leader_id)}, epoch {clean(row.leader_epoch)}"
        )
        text += f", ISR {_isr(row.isr)}"
        text += f", high watermark {clean(row.hw_observed)}, by the rule {clean(row.hw_recomputed)}"
        if row.limiting_broker_id is not None:
            text += f", limited by broker {row.limiting_broker_id}"
        lines += wrap(text + (f": {row.deviation}" if row.deviation else ""), "  ", "    ")
    lines += render_rest(len(told) - ROW_LIMIT, "  ", "move")
    if quiet := len(rows) - len(told):
        lines.append(f"  {count(quiet, 'observation')} at which nothing changed")
    return lines


def _divergences(rows: Sequence[DivergenceRow]) -> list[str]:
    lines = []
    for row in rows[:ROW_LIMIT]:
        text = f"broker {row.broker_id} {render_range(row.start_offset, row.end_offset)} {row.code}"
        # Records in a format without epochs and offsets without a record have no epoch.
        epoch = row.replica_epoch
        other = row.leader_epoch
        own = _epoch(epoch) if row.record_count else "no record"
        text += (
            f": {own} where the reference has {'no record' if other is None and epoch is not None else _epoch(other)}"
        )
        text += f", {count(row.record_count, 'record')}"
        if row.committed:
            known = row.committed_records
            text += ", committed" if known is None else f", {known} of them committed"
        if row.first_timestamp_ms is not None:
            text += f", written {render_time(row.first_timestamp_ms)} to {render_time(row.last_timestamp_ms)}"
        lines += wrap(text, "  ", "    ")
    return lines + render_rest(len(rows) - ROW_LIMIT, "  ")


def _truncations(rows: Sequence[TruncationRow]) -> list[str]:
    lines = []
    for row in rows[:ROW_LIMIT]:
        kept = f"keeps everything up to {clean(row.truncate_to)}"
        if row.reason != "none":
            kept = f"keeps up to {clean(row.truncate_to)} ({name_cut(row.reason)})"
        text = f"broker {row.broker_id} {row.protocol}: {kept}"
        if row.dropped_records:
            text += f", drops {count(row.dropped_records, 'record')}"
            text += f", {count(row.dropped_bytes, 'byte')}"
        if row.committed_dropped:
            text += f", {row.committed_dropped} of them committed"
        if row.common_prefix_end != row.truncate_to:
            text += f"; common prefix ends at {clean(row.common_prefix_end)}"
        lines += wrap(text, "  ", "    ")
        for number, step in enumerate(row.steps, 1):
            lines += wrap(f"{number}. {_step(step)}", "      ", "         ")
    return lines + render_rest(len(rows) - ROW_LIMIT, "  ")


def _epoch(epoch: int | None) -> str:
    return "records without an epoch" if epoch is None or epoch < 0 else f"epoch {epoch}"


def _step(step: TruncationRound) -> str:
    answer = "the leader does not know"
    if step.leader_end_offset is not None and step.leader_epoch is None:
        answer = f"the leader answers {step.leader_end_offset}"
    elif step.leader_end_offset is not None:
        answer = f"the leader's epoch {clean(step.leader_epoch)} ends at {step.leader_end_offset}"
    text = f"asks for epoch {clean(step.request_epoch)}: {answer}"
    if step.replica_end_offset is not None:
        text += f", here epoch {clean(step.replica_epoch)} ends at {step.replica_end_offset}"
    return f"{text}; keep up to {clean(step.truncate_to)}"

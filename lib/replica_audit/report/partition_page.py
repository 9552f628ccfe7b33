"""The terminal's answer for one partition: everything that is known of it, for `show`."""

from __future__ import annotations

from collections.abc import Sequence

from replica_audit.report.audit_summary import render_answer
from replica_audit.report.facts.by_partition import rows_by_partition
from replica_audit.report.finding_text import render_proven_facts
from replica_audit.report.layout import (
    align_columns,
    clean,
    paint,
    render_count,
    render_interval,
    render_range,
    render_rest,
    text_width,
    wrap,
)
from replica_audit.results import Results
from replica_audit.schema import (
    DivergenceRow,
    HighWatermarkRow,
    HighWatermarkTimelineRow,
    PartitionRow,
    ReplicaRow,
    TruncationRound,
    TruncationRow,
)
from replica_audit.text import name_cut, name_source, render_time

#: Rows of one list that a terminal shows; audit.json has them all.
LIMIT = 50

#: Reason why a high watermark is not exact, by `method`.
_INEXACT = {"capture_skew": "not exact, since it moved while the copies were made"}

_HEAD = "BROKER ISR START END LOADED RECOVERED CHECKPOINT PREFIX BATCHES TAIL STOPPED"


def render_partition(results: Results) -> str:
    """One block per partition of `results`: replicas, lineages, high watermark, differences, truncations, findings.

    What belongs to no partition comes last, as it may bear on every one.
    """
    blocks = []
    for partition, rows in rows_by_partition(results):
        lines = [*_head(partition), "", *render_answer(results)]
        lines += _section("Replicas", _replicas(rows.replicas))
        lines += _section("Lineage (epoch:start offset)", _lineages(rows.replicas))
        lines += _section("High watermark", _high_watermark(rows.high_watermarks))
        if rows.high_watermark_timeline:
            lines += _section("High watermark over time (observations)", _timeline(rows.high_watermark_timeline))
        lines += _section("Divergences from the reference", _divergences(rows.divergences))
        lines += _section("Truncation, by protocol", _truncations(rows.truncations))
        lines += _section("Findings", render_proven_facts(rows.findings, LIMIT))
        blocks.append("\n".join(lines) + "\n")
    unplaced = [row for row in results.findings if row.topic is None]
    if blocks and unplaced:
        lines = [
            paint("Findings of the snapshot, not of one partition", "head"),
            *render_proven_facts(unplaced, LIMIT),
        ]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks) or "no such partition in the snapshot\n"


def _head(row: PartitionRow) -> list[str]:
    isr = "unknown" if row.isr is None else ", ".join(map(str, row.isr)) or "none"
    leader = f"leader {clean(row.leader_id)}"
    if row.reference_id != row.leader_id:
        known = "no leader known" if row.leader_id is None else leader
        leader = f"{known}, compared with {clean(row.reference_id)}"
    facts = f"{leader}, leader epoch {clean(row.leader_epoch)}, ISR {isr}"
    if row.topic_id:
        facts += f", topic id {row.topic_id}"
    name = wrap(f"{row.topic}-{row.partition}  {row.verdict}")
    return [*(paint(line, "head") for line in name), *wrap(facts)]


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", paint(title, "head"), *(lines or ["  none"])]


def _replicas(replicas: Sequence[ReplicaRow]) -> list[str]:
    table = [_HEAD.split()]
    for row in replicas:
        cells = [
            f"{clean(row.broker_id)}{'*' if row.is_leader else ''}",
            {True: "yes", False: "no", None: "?"}[row.in_isr],
            row.log_start_offset,
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
    lines = align_columns(table, right=(0, *range(2, 9)), indent="  ")
    if any(len(line) > text_width() for line in lines):
        # Offsets of ten digits and more: one fact a line instead.
        lines = []
        for told in table[1:]:
            pairs = zip(table[0], told, strict=True)
            lines += wrap(", ".join(f"{name.lower()} {cell}" for name, cell in pairs), "  ", "    ")
    return [*lines, *wrap("* leads; end as found, loaded at the next start, recovered after a full recovery", "  ")]


def _lineages(replicas: Sequence[ReplicaRow]) -> list[str]:
    lines = []
    for row in replicas:
        batches = row.epochs
        file = row.checkpoint_epochs
        text = f"broker {row.broker_id}: {_lineage(batches)}"
        if file is None:
            text += "; leader-epoch-checkpoint: none"
        elif [list(entry) for entry in file] != [list(entry) for entry in batches or ()]:
            text += f"; leader-epoch-checkpoint: {_lineage(file)}"
        lines += wrap(text, "  ", "    ")
    return lines


def _lineage(epochs: Sequence[Sequence[int]] | None) -> str:
    return " ".join(f"{epoch}:{start}" for epoch, start in epochs or ()) or "no epochs"


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
    """Observations at which something moved or deviates; the others are counted."""
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
    for row in told[:LIMIT]:
        isr = "unknown" if row.isr is None else ", ".join(map(str, row.isr)) or "none"
        text = f"{render_time(row.time_ms)} {row.occasion}: leader {clean(row.leader_id)}, epoch {clean(row.leader_epoch)}, ISR {isr}"
        text += f", high watermark {clean(row.hw_observed)}, by the rule {clean(row.hw_recomputed)}"
        if row.limiting_broker_id is not None:
            text += f", limited by broker {row.limiting_broker_id}"
        lines += wrap(text + (f": {row.deviation}" if row.deviation else ""), "  ", "    ")
    lines += render_rest(len(told) - LIMIT, "  ", "move")
    quiet = len(rows) - len(told)
    return [*lines, *([f"  {render_count(quiet, 'observation')} at which nothing changed"] if quiet else [])]


def _divergences(rows: Sequence[DivergenceRow]) -> list[str]:
    lines = []
    for row in rows[:LIMIT]:
        text = f"broker {row.broker_id} {render_range(row.start_offset, row.end_offset)} {row.code}"
        # Neither records in a format without epochs nor an offset without a record have an epoch.
        epoch = row.replica_epoch
        other = row.leader_epoch
        own = _epoch(epoch) if row.record_count else "no record"
        text += (
            f": {own} where the reference has {'no record' if other is None and epoch is not None else _epoch(other)}"
        )
        text += f", {render_count(row.record_count, 'record')}"
        if row.committed:
            count = row.committed_records
            text += ", committed" if count is None else f", {count} of them proven committed"
        if row.first_timestamp_ms is not None:
            text += f", written {render_time(row.first_timestamp_ms)} to {render_time(row.last_timestamp_ms)}"
        lines += wrap(text, "  ", "    ")
    return lines + render_rest(len(rows) - LIMIT, "  ")


def _truncations(rows: Sequence[TruncationRow]) -> list[str]:
    lines = []
    for row in rows[:LIMIT]:
        kept = f"keeps everything up to {clean(row.truncate_to)}"
        if row.reason != "none":
            kept = f"keeps up to {clean(row.truncate_to)} ({name_cut(row.reason)})"
        text = f"broker {row.broker_id} {row.protocol}: {kept}"
        if row.dropped_records:
            text += f", drops {render_count(row.dropped_records, 'record')}"
            text += f", {render_count(row.dropped_bytes, 'byte')}"
        if row.committed_dropped:
            text += f", {row.committed_dropped} of them proven committed"
        if row.common_prefix_end != row.truncate_to:
            text += f"; common prefix ends at {clean(row.common_prefix_end)}"
        lines += wrap(text, "  ", "    ")
        for number, step in enumerate(row.steps or (), 1):
            lines += wrap(f"{number}. {_step(step)}", "      ", "         ")
    return lines + render_rest(len(rows) - LIMIT, "  ")


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

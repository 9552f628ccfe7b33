"""The terminal's answer for a whole audit: a table of partitions, then the findings, worst first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from replica_audit.auditing.catalogue import VERDICTS
from replica_audit.report.answer import build_answer
from replica_audit.report.captures import HEADS, tell_captures
from replica_audit.report.facts.by_partition import present, worst_first
from replica_audit.report.facts.losses import join_ranges
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.finding_text import render_facts
from replica_audit.report.layout import (
    align_columns,
    clean,
    elide,
    natural_width,
    paint,
    render_count,
    render_interval,
    render_lost,
    render_range,
    render_rest,
    text_width,
    wrap,
)
from replica_audit.report.plan_text import wrap_command
from replica_audit.report.sentences import plain_text
from replica_audit.results import Results, place_of
from replica_audit.schema import DivergenceRow, FindingRow, PartitionRow

#: Partitions and findings that a terminal shows; audit.json has them all.
PARTITION_LIMIT = 40
FINDING_LIMIT = 20

_HEAD = ("TOPIC", "PART", "VERDICT", "LEADER", "HIGH WATERMARK", "LOST", "DIVERGENT", "WORST FINDING")
_RIGHT = (1, 3, 4, 5)
#: Style of each verdict, worst first.
VERDICT_STYLES: dict[str, str] = dict(
    zip(VERDICTS, ("critical", "critical", "high", "high", "medium", "medium", "low", "good"), strict=True)
)

_TONES = {"bad": "critical", "warn": "medium", "unknown": "medium", "good": "good"}

#: Columns that give way when a table is too wide, first one first.
_GIVE_WAY = (6, 7, 5, 4)


def render_summary(results: Results) -> str:
    """Header, answer, partitions (worst verdict first) and findings; no line is longer than `text_width()` on the screen."""
    audit = results.audit
    what = f"Audit {audit['audit_id']} of snapshot {audit.get('snapshot_id') or '-'}"
    if not audit.get("audit_id"):
        # Not in a warehouse: what it is of has a name only.
        what = f"Snapshot {audit['inputs']['snapshot']}"
    lines = wrap(what + (f", cluster {audit['cluster_id']}" if audit.get("cluster_id") else ""))
    lines += ["", *render_answer(results), "", *_partition_table(results)]
    findings = present(results.findings)
    if findings:
        lines += ["", paint("Findings, worst first (replica-audit explain CODE says more)", "head")]
        lines += render_facts(findings, FINDING_LIMIT)
    resolved = len(results.findings) - len(findings)
    if resolved:
        lines.append(f"{render_count(resolved, 'finding')} of the baseline resolved")
    if results.quarantine:
        pieces = render_count(len(results.quarantine), "piece")
        lines += ["", f"{pieces} of input could not be used (quarantine in audit.json)"]
    return "\n".join(lines) + "\n"


def render_answer(results: Results) -> list[str]:
    """Lines of the page's headline, what is not in the snapshot, and what to do first."""
    answer = build_answer(results, build_verdict(results, "never"))
    lines = [paint(line, _TONES[answer.tone]) for line in wrap(answer.headline)]
    lines += _captures(results)
    if answer.todo.first:
        lines += ["", paint("Do first", "head")]
    for number, step in enumerate(answer.todo.first, 1):
        lines += wrap(plain_text(step.sentence), f"{number}. ", "   ")
        lines += (line for command in step.commands for line in wrap_command(command, "   "))
    return lines


def _captures(results: Results) -> list[str]:
    """Table of captured replicas; empty if none is missing."""
    told = tell_captures(results)
    if told is None:
        return []
    heads = [[head.upper() for head in HEADS]] if told.rows else []
    table = align_columns([*heads, *told.rows], right=range(1, len(HEADS)))
    lines = ["", paint("Replicas in the snapshot", "head"), *table]
    return lines + [line for sentence in told.lines for line in wrap(plain_text(sentence), "", "    ")]


def _partition_table(results: Results) -> list[str]:
    partitions = sorted(results.partitions, key=lambda row: (VERDICTS.index(row.verdict), row.topic, row.partition))
    if not partitions:
        return ["no partitions"]
    rows = []
    for row in partitions[:PARTITION_LIMIT]:
        of_row = results.at(place_of(row))
        rows.append(_cells(row, of_row.divergences, present(of_row.findings)))
    return [*_lay_out(rows), *render_rest(len(partitions) - PARTITION_LIMIT)]


def _cells(row: PartitionRow, divergent: Sequence[DivergenceRow], findings: Sequence[FindingRow]) -> list[str]:
    lost = render_lost(row, row.lost_records)
    if row.lost_committed:
        lost += f" ({row.lost_committed} committed)"
    by_broker: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for item in divergent:
        by_broker[item.broker_id].append((item.start_offset, item.end_offset))
    ranges = []
    for broker_id in sorted(by_broker):
        joined = join_ranges(by_broker[broker_id])
        shown = " ".join(render_range(*each) for each in joined[:3])
        more = f" and {len(joined) - 3} more" if len(joined) > 3 else ""
        ranges.append(f"broker {broker_id} {shown}{more}")
    worst = worst_first(findings)[0] if findings else None
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
    """The table; what does not fit beside the rest goes below its row, and a topic is cut last."""
    table = [list(_HEAD), *rows]
    columns = list(range(len(_HEAD)))
    below: list[int] = []
    for column in _GIVE_WAY:
        if natural_width([[row[n] for n in columns] for row in table]) > text_width():
            columns.remove(column)
            below.append(column)
    shown = [[row[n] for n in columns] for row in table]
    surplus = natural_width(shown) - text_width()
    if surplus > 0:
        longest = max(len(row[0]) for row in shown)
        for row in shown:
            row[0] = elide(row[0], max(9, longest - surplus))
    lines = align_columns(shown, right=[columns.index(n) for n in _RIGHT if n in columns])
    answer = [paint(lines[0], "head")]
    before = max(len(row[0]) for row in shown)
    for line, row in zip(lines[1:], rows, strict=True):
        # Behind the topic, which may be named like a verdict.
        start = line.index(row[2], before)
        end = start + len(row[2])
        answer.append(f"{line[:start]}{paint(line[start:end], VERDICT_STYLES[row[2]])}{line[end:]}")
        for column in sorted(below):
            if row[column]:
                answer += wrap(f"{_HEAD[column].lower()}: {row[column]}", "    ", "      ")
    return answer

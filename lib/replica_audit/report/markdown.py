"""summary.md: the answer for a ticket, a chat or a CI step summary, about a screen long."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice, starmap

from replica_audit.report.answer import Answer, build_answer
from replica_audit.report.captures import HEADS, tell_captures
from replica_audit.report.facts.by_partition import (
    inconsistent_partitions,
    new_findings,
    rows_by_partition,
    worst_finding,
    worst_partitions,
)
from replica_audit.report.facts.conditions import whole_audit
from replica_audit.report.facts.losses import is_likely
from replica_audit.report.facts.lost_writers import READER_LIMIT, LostWriter
from replica_audit.report.layout import clean, render_committed, render_interval, render_lost, render_range
from replica_audit.report.readers_and_writers import (
    HitGroup,
    find_hits,
    hit_groups_of,
    tell_group,
    tell_writer,
)
from replica_audit.report.sentences import Sentence
from replica_audit.report.verdict_object import VerdictObject, render_status_line
from replica_audit.report.what_to_do import WhatToDo
from replica_audit.results import Results, by_place, place_of
from replica_audit.schema import FindingRow, PartitionRow
from replica_audit.text import count

#: Maximum numbers of partitions and findings listed; the page and audit.json have all.
PARTITION_LIMIT = 20
FINDING_LIMIT = 20
_MARKS = {"bad": "❌", "warn": "⚠️", "unknown": "❓", "good": "✅"}
#: Text that GitHub and others turn into links or markup even if escaped; it is rendered as code.
_LINKED = re.compile(r"[@#<>&]|://|www\.|^GH-")
_SPECIAL = re.compile(r"[\\`*_\[\]|~$]")


def render_markdown(results: Results, verdict: VerdictObject) -> str:
    """Render summary.md of `results`; text from the snapshot is never interpreted as markup. `verdict` is the content of verdict.json."""
    answer = build_answer(results, verdict)
    blocks = [f"## {_MARKS[answer.tone]} {escape(answer.headline)}", *_cases(answer), *_captures(results)]
    if answer.todo.first:
        lines = [
            line
            for number, step in enumerate(answer.todo.first, 1)
            for line in (f"{number}. {_render(step.sentence)}", *_commands(step.commands))
        ]
        blocks.append("\n".join(["**Do first**", "", *lines]).rstrip())
    if answer.todo.goes_on:
        blocks.append(_what_to_do(answer.todo))
    blocks += _readers_and_writers(results)
    partitions = inconsistent_partitions(results)
    if partitions:
        blocks.append(_table(partitions, results))
    findings = new_findings(results.findings)
    if findings:
        blocks.append(_findings(findings))
    blocks.append(code_span(render_status_line(verdict)))
    audit = results.audit
    ids = f"audit {code_span(audit['audit_id'])} of snapshot {code_span(audit['snapshot_id'])}"
    finished = f"finished {escape(clean(audit['finished']))}"
    blocks.append(f"<sub>replica-audit {escape(clean(audit['tool_version']))}, {ids}, {finished}</sub>")
    return "\n\n".join(blocks) + "\n"


def _captures(results: Results) -> list[str]:
    """Table of captured replicas; empty if none is missing."""
    told = tell_captures(results)
    if told is None:
        return []
    rows = [HEADS, ("--:",) * len(HEADS), *told.rows] if told.rows else []
    table = ["\n".join(f"| {' | '.join(row)} |" for row in rows)] if rows else []
    return ["**Replicas in the snapshot**", *table, "\n".join(f"- {_render(line)}" for line in told.lines)]


def _what_to_do(todo: WhatToDo) -> str:
    """The choices, and in a folded section the steps with their commands and their numbers in the plan."""
    lines = ["**What to do next**", ""]
    for one in todo.choices:
        named = [code_span(str(place)) for place in one.places]
        more = f" and {count(one.more, 'more partition')}" if one.more else ""
        lines.append(f"- {', '.join(named)}{more}: {escape(one.sentence)}")
    if todo.left_out:
        lines.append(f"- and {count(todo.left_out, 'more partition')}: {code_span(todo.command)}")
    if not todo.steps:
        return "\n".join(lines)
    if todo.choices or todo.left_out:
        lines.append("")
    steps = count(todo.step_count, "more step" if todo.are_more else "step")
    lines += [f"<details><summary>{steps} of the plan, with commands</summary>", ""]
    for step in todo.steps:
        lines += [f"- Step {step.number}: {_render(step.sentence)}", *_commands(step.commands)]
    told = f"What must hold before each step, and what each log is after it: {code_span(todo.command)}"
    return "\n".join([*lines, "", told, "", "</details>"])


def _commands(commands: Sequence[str]) -> list[str]:
    """Lines of a code block with shell commands below a list item; empty without commands."""
    if not commands:
        return []
    fence = "`" * (max((len(run) for text in commands for run in re.findall("`+", text)), default=0) + 3)
    return ["", *(f"   {line}" for line in (f"{fence}sh", *commands, fence)), ""]


def _readers_and_writers(results: Results) -> list[str]:
    """Affected consumer groups and the producers of lost records, worst partition first; empty if there are none."""
    hits = find_hits(results)
    groups: list[tuple[PartitionRow, HitGroup]] = []
    writers = whole_audit(results).writers
    offsets = by_place(results.group_offsets)
    for row in worst_partitions(results):
        place = place_of(row)
        groups += ((row, one) for one in hit_groups_of(offsets.get(place, ()), hits.get(place, {})))
    blocks = []
    for title, table, found, lines in (
        ("Consumer groups that are hit", "group_offsets", len(groups), starmap(_group, groups)),
        ("Who wrote the lost records", "lost_producers", writers.total, starmap(_writer, writers.worst)),
    ):
        if found:
            left = found - READER_LIMIT
            more = [f"- and {left} more: {code_span(table)} in {code_span('audit.json')}"] if left > 0 else []
            blocks.append("\n".join([f"**{title}**", "", *islice(lines, READER_LIMIT), *more]))
    return blocks


def _group(row: PartitionRow, one: HitGroup) -> str:
    place = code_span(f"{row.topic}-{row.partition}")
    return f"- {place}: group {code_span(one.offset.group)} {escape(tell_group(one, row.reference_id))}"


def _writer(row: PartitionRow, one: LostWriter) -> str:
    id_ = one.records.transactional_id
    name = "" if id_ is None else f"transactional id {code_span(id_)}, "
    return f"- {code_span(f'{row.topic}-{row.partition}')}: {name}{escape(tell_writer(one))}"


def escape(text: str) -> str:
    """Escape `text` so that Markdown shows it unchanged and makes no links."""
    return " ".join(
        code_span(word) if _LINKED.search(word) else _SPECIAL.sub(r"\\\g<0>", word) for word in text.split(" ")
    )


def code_span(value: object) -> str:
    """Render `value` as code, with a fence longer than any run of backticks in it."""
    text = clean(value)
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") or not text.strip() else ""
    return f"{fence}{space}{text}{space}{fence}"


def _cell(value: object) -> str:
    return code_span(value).replace("|", "\\|")


def _cases(answer: Answer) -> list[str]:
    lines = [f"- {code_span(f'{case.topic}-{case.partition}')}: {escape(case.sentence)}" for case in answer.cases]
    cases = ["\n".join(lines)] if lines else []
    return cases + [_render(sentence) for sentence in answer.more]


def _render(sentence: Sentence) -> str:
    return "".join(
        f"**{escape(part)}**" if number % 2 and part else escape(part) for number, part in enumerate(sentence)
    )


def _table(partitions: Sequence[PartitionRow], results: Results) -> str:
    lines = [
        "| partition | verdict | leader | high watermark | lost | committed | worst finding |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    for row, rows in rows_by_partition(results, partitions[:PARTITION_LIMIT]):
        found = worst_finding(rows.findings)
        name = f"{row.topic}-{row.partition}"
        cells = [
            _cell(name),
            escape(row.verdict),
            clean(row.leader_id),
            escape(render_interval(row.hw_lower, row.hw_upper)),
            render_lost(row, row.lost_records),
            render_committed(row, is_likely=is_likely(row, rows.findings)),
            f"{found.severity} {_cell(found.code)}" if found else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    calm = len(results.partitions) - len(partitions)
    left = len(partitions) - PARTITION_LIMIT
    tail = [f"and {left} more" if left > 0 else "", f"{count(calm, 'partition')} CONSISTENT" if calm else ""]
    text = ", ".join(part for part in tail if part)
    return "\n".join(lines) + (f"\n\n{text}" if text else "")


def _findings(findings: Sequence[FindingRow]) -> str:
    lines = []
    for row in findings[:FINDING_LIMIT]:
        place = ""
        if row.topic is not None:
            place = f" {code_span(row.topic if row.partition is None else f'{row.topic}-{row.partition}')}"
        broker = "" if row.broker_id is None else f", broker {row.broker_id}"
        where = "" if row.start_offset is None else f", {escape(render_range(row.start_offset, row.end_offset))}"
        message = escape(clean(row.message))
        lines.append(f"- **{row.severity}** {code_span(row.code)}{place}{broker}{where}: {message}")
    left = len(findings) - FINDING_LIMIT
    more = f"\n\nand {left} more" if left > 0 else ""
    return (
        f"<details><summary>{count(len(findings), 'new finding')}, worst first</summary>\n\n"
        + "\n".join(lines)
        + more
        + "\n\n</details>"
    )

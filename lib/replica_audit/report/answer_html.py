"""The answer as an HTML fragment for a notebook: headline and worst partitions, without script or style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from replica_audit.report.answer import VERDICT_WORDS, build_answer
from replica_audit.report.facts.by_partition import worst_partitions
from replica_audit.report.layout import clean, render_interval, render_lost
from replica_audit.report.sentences import plain_text
from replica_audit.report.verdict_object import VerdictObject, render_status_line
from replica_audit.results import Results
from replica_audit.schema import PartitionRow
from replica_audit.text import count

#: Number of partitions listed; the page has all.
ROWS = 10

_COLOURS = {"bad": "#b3261e", "warn": "#9a6700", "unknown": "#57606a", "good": "#1a7f37"}
_HEADS = ("partition", "verdict", "leader", "high watermark", "lost")


def render_answer_html(results: Results, verdict: VerdictObject) -> str:
    """Render the answer to `results` as HTML, with every text of the snapshot escaped; `verdict` is the content of its verdict.json."""
    answer = build_answer(results, verdict)
    parts = [
        f'<p style="border-left:4px solid {_COLOURS[answer.tone]};padding-left:8px"><b>{_text(answer.headline)}</b></p>'
    ]
    cases = [
        f"<li><code>{_text(f'{case.topic}-{case.partition}')}</code> {_text(case.sentence)}</li>"
        for case in answer.cases
    ]
    parts += [f"<ul>{''.join(cases)}</ul>"] if cases else []
    parts += [f"<p>{_text(plain_text(sentence))}</p>" for sentence in answer.more]
    if answer.todo.first:
        steps = "".join(
            f"<li>{_text(plain_text(step.sentence))}{_commands(step.commands)}</li>" for step in answer.todo.first
        )
        parts.append(f"<p><b>Do first</b></p><ol>{steps}</ol>")
    partitions = worst_partitions(results)
    if partitions:
        heads = "".join(f"<th>{head}</th>" for head in _HEADS)
        rows = "".join(_row(row) for row in partitions[:ROWS])
        parts.append(f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>")
    if len(partitions) > ROWS:
        parts.append(f"<p>{count(len(partitions) - ROWS, 'more partition')} in <code>partitions</code>.</p>")
    parts.append(f"<p><code>{_text(render_status_line(verdict))}</code></p>")
    return f'<div class="replica-audit">{"".join(parts)}</div>'


def _commands(commands: Sequence[str]) -> str:
    lines = "\n".join(map(_text, commands))
    return f"<pre>{lines}</pre>" if lines else ""


def _row(row: PartitionRow) -> str:
    cells = (
        f"{row.topic}-{row.partition}",
        VERDICT_WORDS[row.verdict],
        "none" if row.leader_id is None else row.leader_id,
        render_interval(row.hw_lower, row.hw_upper),
        render_lost(row, row.lost_records),
    )
    return f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in cells)}</tr>"


def _text(value: object) -> str:
    return escape(clean(value))

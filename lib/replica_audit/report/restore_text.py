"""The terminal's words of a restore: what it will do, what it did, and what a check found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replica_audit.report.layout import align_columns, clean, wrap
from replica_audit.text import count

Rows = Sequence[Mapping[str, Any]]


def render_plan(plan: Mapping[str, Any], partitions: Rows, dry: bool) -> str:
    """The plan: `plan` with new_topics, notes and cluster_id, `partitions` with what is there already."""
    lines = wrap(f"Cluster {clean(plan['cluster_id'])}")
    table: list[tuple[str, ...]] = [("TARGET", "PART", "RECORDS", "THERE ALREADY", "NEVER LOST")]
    names = ("partition", "records", "before", "present")
    table += [(clean(row["topic"]), *(str(row[name]) for name in names)) for row in partitions]
    lines += ["", *align_columns(table, (1, 2, 3, 4)), ""]
    for topic in plan["new_topics"]:
        configs = ", ".join(f"{name}={value}" for name, value in sorted(topic["configs"].items()))
        lines += wrap(f"Topic {clean(topic['name'])} is created: {count(topic['partitions'], 'partition')}, {configs}.")
    for note in plan["notes"]:
        lines += wrap(note)
    left = sum(row["records"] - row["before"] - row["present"] for row in partitions)
    would = "would be produced" if dry else "will be produced"
    lines += wrap(f"{count(left, 'record')} {would}.")
    return "\n".join(lines) + "\n"


def render_outcomes(partitions: Rows) -> str:
    """Outcome of a restore."""
    lines = []
    for row in partitions:
        now = row["records"] - row["before"] - row["present"]
        more = f", {row['before']} were there before" if row["before"] else ""
        more += f", {row['present']} left out: they were never lost" if row["present"] else ""
        lines += wrap(f"{clean(row['topic'])}-{row['partition']}: {count(now, 'record')} produced{more}.")
    return "\n".join([*lines, "restore --check compares the target with the manifest."]) + "\n"


def render_checks(checks: Rows) -> str:
    """Comparison of the targets with the salvage."""
    lines = []
    for row in checks:
        place = f"{clean(row['topic'])}-{row['partition']}"
        wrong = [
            f"{row[name]} {words}"
            for name, words in (
                ("missing", "missing"),
                ("repeated", "there again"),
                ("out_of_order", "out of order"),
                ("changed", "changed"),
            )
            if row[name]
        ]
        if wrong:
            lines += wrap(f"DIFFERENT: {place}: of {count(row['records'], 'record')} {', '.join(wrong)}.")
        else:
            own = row["records"] - row["present"]
            more = f"; {row['present']} more were never lost" if row["present"] else ""
            are = "is" if own == 1 else "are"
            lines += wrap(f"OK: {place}: {count(own, 'record')} {are} there once, in order{more}.")
    return "\n".join(lines) + "\n"

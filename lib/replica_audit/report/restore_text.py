"""Text of `restore` in the terminal: its plan, its outcome, and the result of a check."""

from __future__ import annotations

from collections.abc import Sequence

from replica_audit.report.layout import align_columns, clean, wrap
from replica_audit.restore.checking import Check
from replica_audit.restore.restore import PlannedRestore, RestoredPartition
from replica_audit.text import count, verb


def render_plan(plan: PlannedRestore, partitions: Sequence[RestoredPartition], dry: bool) -> str:
    """Render the plan, with the records already in the targets."""
    lines = wrap(f"Cluster {clean(plan.cluster_id)}")
    table: list[tuple[str, ...]] = [("TARGET", "PART", "RECORDS", "THERE ALREADY", "NEVER LOST")]
    table += [
        (clean(one.target.topic), *map(str, (one.target.partition, one.records, one.before, one.present)))
        for one in partitions
    ]
    lines += ["", *align_columns(table, (1, 2, 3, 4)), ""]
    for topic in plan.new_topics:
        configs = ", ".join(f"{name}={value}" for name, value in sorted(topic.configs.items()))
        lines += wrap(f"Topic {clean(topic.name)} is created: {count(topic.partitions, 'partition')}, {configs}.")
    for note in plan.notes:
        lines += wrap(note)
    old = [one for one in partitions if one.superseded]
    if old:
        each = ", ".join(f"{clean(one.target)} {one.superseded} of {one.records}" for one in old)
        lines += wrap(f"Left out, since their keys have later values: {each}.")
    left = sum(one.left for one in partitions)
    lines += wrap(f"{count(left, 'record')} {'would' if dry else 'will'} be produced.")
    return "\n".join(lines) + "\n"


def render_outcomes(partitions: Sequence[RestoredPartition]) -> str:
    """Render for each target how many records were produced, were there before, and were left out."""
    lines = []
    for row in partitions:
        more = f", {row.before} were there before" if row.before else ""
        more += f", {row.present} left out: they were never lost" if row.present else ""
        more += f", {row.superseded} left out: their keys have later values" if row.superseded else ""
        lines += wrap(f"{clean(row.target)}: {count(row.left, 'record')} produced{more}.")
    return "\n".join([*lines, "restore --check compares the target with the manifest."]) + "\n"


def render_checks(checks: Sequence[Check]) -> str:
    """Render for each target whether it has every record of the manifest once and in order."""
    lines = []
    for row in checks:
        place = clean(row.target)
        counted = {
            "missing": row.missing,
            "there again": row.repeated,
            "out of order": row.out_of_order,
            "changed": row.changed,
        }
        wrong = [f"{number} {words}" for words, number in counted.items() if number]
        if wrong:
            lines += wrap(f"DIFFERENT: {place}: of {count(row.records, 'record')} {', '.join(wrong)}.")
        else:
            own = row.records - row.present - row.superseded
            more = f"; {row.present} more were never lost" if row.present else ""
            more += f"; the keys of {row.superseded} more have later values" if row.superseded else ""
            lines += wrap(f"OK: {place}: {count(own, 'record')} {verb(own, 'is', 'are')} there once, in order{more}.")
    return "\n".join(lines) + "\n"

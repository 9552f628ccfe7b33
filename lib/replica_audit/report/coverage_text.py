"""What is not in the snapshot, broker by partition: a row for brokers alike, and a sentence for partitions alike."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from replica_audit.auditing.leadership.needed_replicas import WHY_NEEDED
from replica_audit.literals import CaptureState, Need
from replica_audit.report.facts.coverage import MissingReplicas, find_matrix
from replica_audit.report.layout import clean, render_count
from replica_audit.report.sentences import (
    Sentence,
    Template,
    capitalise,
    join_some,
    name_nodes,
    name_partitions,
)
from replica_audit.results import Results
from replica_audit.schema import CaptureRow

NOT_HERE = Template("{what}: {places}.")
MORE_NOT_HERE = Template("Replicas of {count} are missing: captures in audit.json.")

#: Heads of the table: how many replicas of a broker are in the snapshot, and how.
HEADS = ("broker", "whole", "in part", "missing", "needed")

#: How many sentences there are at most, and files of one replica in them.
LINES = 5
_FILES = 3

#: What is said of brokers by the state of their replica; `files` are those that are missing.
_STATES = {
    "partial": "{nodes} captured without {files}",
    "named": "{nodes} not captured",
    "absent": "{nodes} captured without the partition",
}


@dataclass(frozen=True, slots=True)
class CaptureText:
    """The matrix in words: rows below `HEADS`, none where all replicas were captured, and what is missing in sentences."""

    rows: tuple[tuple[str, ...], ...]
    lines: tuple[Sentence, ...]


def tell_captures(results: Results) -> CaptureText | None:
    """What is not in the snapshot; None where nothing is missing."""
    matrix = find_matrix(results)
    if matrix is None:
        return None
    rows = []
    for one in matrix.brokers:
        whole, partial, named, absent = one.states
        rows.append((", ".join(map(str, one.brokers)), *map(str, (whole, partial, named + absent, one.needed))))
    lines = [_line(group, "broker") for group in matrix.missing[:LINES]]
    if left := matrix.missing[LINES:]:
        lines.append(MORE_NOT_HERE.say(count=render_count(sum(len(one.places) for one in left), "more partition")))
    lines += [_line(group, "controller") for group in matrix.controllers]
    return CaptureText(tuple(rows), tuple(lines))


def _line(group: MissingReplicas, noun: str) -> Sentence:
    alike: dict[tuple[CaptureState, tuple[str, ...], Need | None], list[CaptureRow]] = defaultdict(list)
    for row in group.rows:
        alike[row.state, tuple(row.missing), row.needed].append(row)
    clauses = []
    for (state, missing, needed), rows in alike.items():
        clause = _STATES[state].format(
            nodes=name_nodes(noun, [row.broker_id for row in rows]),
            files=join_some([clean(name) for name in missing], _FILES, "file"),
        )
        clauses.append(f"{clause}, and needed ({_why(needed, len(rows))})" if needed else clause)
    return NOT_HERE.say(places=name_partitions(group.places), what=capitalise("; ".join(clauses)))


def _why(needed: Need, count: int) -> str:
    """Why each of so many replicas is needed."""
    return WHY_NEEDED[needed] if count == 1 else re.sub(r"\bit\b", "each", WHY_NEEDED[needed])

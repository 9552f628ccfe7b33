"""Replicas that are missing in the snapshot: a table by broker, and sentences by partition."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from replica_audit.auditing.leadership.needed_replicas import WHY_NEEDED
from replica_audit.literals import CaptureState, Need
from replica_audit.model import Place
from replica_audit.report.facts.conditions import STATES, is_incomplete, is_of_voter, whole_audit
from replica_audit.report.layout import clean, render_count
from replica_audit.report.sentences import Sentence, Template, join_some, name_partitions
from replica_audit.results import Results, place_of
from replica_audit.schema import CaptureRow
from replica_audit.text import capitalise, name_nodes


@dataclass(frozen=True, slots=True)
class BrokerCaptures:
    """Number of replicas in each state on a broker, or on each of several, and how many missing ones are `needed`."""

    brokers: tuple[int, ...]
    states: tuple[int, ...]
    """In the order of `STATES`."""
    needed: int


@dataclass(frozen=True, slots=True)
class MissingReplicas:
    """Partitions whose replicas are missing on the same brokers in the same way (rows of `captures` in another state than whole)."""

    places: tuple[Place, ...]
    rows: tuple[CaptureRow, ...]
    """Rows of the first partition."""


@dataclass(frozen=True, slots=True)
class CaptureMatrix:
    """Broker by partition, equal rows once."""

    brokers: tuple[BrokerCaptures, ...]
    missing: tuple[MissingReplicas, ...]
    """Groups with a needed replica come first."""
    controllers: tuple[MissingReplicas, ...]
    """The voters whose copies of the metadata log are missing."""


def find_matrix(results: Results) -> CaptureMatrix | None:
    """The matrix of captures; None where every copy that anything names was captured whole.

    Where all replicas were and a voter's copy of the metadata log was not, it has no rows by broker.
    """
    everything = results.captures
    rows = [row for row in everything if not is_of_voter(row)]
    controllers = _missing([row for row in everything if is_of_voter(row)])
    if not is_incomplete(rows):
        return CaptureMatrix((), (), controllers) if controllers else None
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for (broker_id, state, is_needed), number in whole_audit(results).captures.items():
        counts[broker_id][state] += number
        counts[broker_id]["needed"] += number * is_needed
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for broker_id, count in sorted(counts.items()):
        alike[tuple(count[name] for name in (*STATES, "needed"))].append(broker_id)
    brokers = tuple(BrokerCaptures(tuple(ids), numbers[:-1], numbers[-1]) for numbers, ids in alike.items())
    return CaptureMatrix(brokers, _missing(rows), controllers)


def _missing(rows: Sequence[CaptureRow]) -> tuple[MissingReplicas, ...]:
    by_place: dict[Place, list[CaptureRow]] = defaultdict(list)
    for row in rows:
        if row.state != "whole":
            by_place[place_of(row)].append(row)
    groups: dict[tuple[object, ...], list[Place]] = defaultdict(list)
    for place, of_place in by_place.items():
        groups[tuple(_kind(row) for row in of_place)].append(place)
    missing = [MissingReplicas(tuple(places), tuple(by_place[places[0]])) for places in groups.values()]
    return tuple(sorted(missing, key=lambda one: all(row.needed is None for row in one.rows)))


def _kind(row: CaptureRow) -> tuple[object, ...]:
    return row.broker_id, row.state, tuple(row.missing), row.needed


NOT_HERE = Template("{what}: {places}.")
MORE_NOT_HERE = Template("Replicas of {count} are missing: captures in audit.json.")

#: Heads of the table: how many replicas of a broker are in the snapshot, and how.
HEADS = ("broker", "whole", "in part", "missing", "needed")

#: Most sentences, and most files that one of them names.
LINES = 5
_FILES = 3

#: Clause by state of the replica; `files` are those that are missing.
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
    """Replicas that are missing in the snapshot; None where all are there."""
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

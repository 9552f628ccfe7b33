"""Replicas missing in the snapshot: a table by broker, and sentences by partition."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from replica_audit.auditing.leadership.needed_replicas import WHY_NEEDED
from replica_audit.literals import OF_OTHER_TOPIC, CaptureState, Need
from replica_audit.model import TopicPartition
from replica_audit.report.facts.conditions import STATES, is_incomplete, is_of_voter, whole_audit
from replica_audit.report.layout import clean
from replica_audit.report.sentences import Sentence, join_some, name_partitions, say
from replica_audit.results import Results, place_of
from replica_audit.schema import CaptureRow
from replica_audit.text import capitalise, count, name_ids, verb

#: Headings of the table, which counts the replicas of each broker by capture state.
HEADS = ("broker", "whole", "in part", "missing", "needed")

#: Maximum number of sentences, and of files named in one of them.
LINES = 5
_FILES = 3

#: Predicate for each state of a replica; `files` are the missing ones, `these` words for the partitions.
_WAS = {
    "partial": "captured without {files}",
    "awaited": "collected without {files}",
    "named": "not captured",
    "absent": "captured without {these}",
}


class CaptureText(NamedTuple):
    """Rows below `HEADS` (empty if only controllers are missing), and sentences on what is missing."""

    rows: tuple[tuple[str, ...], ...]
    lines: tuple[Sentence, ...]


class MissingReplicas(NamedTuple):
    """Partitions with replicas missing on the same nodes in the same way, and the rows of the first of them."""

    places: list[TopicPartition]
    rows: list[CaptureRow]


def tell_captures(results: Results) -> CaptureText | None:
    """Describe the replicas, and the copies of the metadata log, that are missing in the snapshot; None if all are present."""
    replicas = [row for row in results.captures if not is_of_voter(row)]
    voters = [row for row in results.captures if is_of_voter(row)]
    controllers = [_tell(one, "controller") for one in _find_missing(voters)]
    if controllers and 2 * sum(row.state == "whole" for row in voters) <= len(voters):
        which = f"{results.command('quorum')} says which copy of the metadata log is the right one"
        controllers.append(say(f"If a majority of the controllers lost their disks, {which}."))
    if not is_incomplete(replicas):
        return CaptureText((), tuple(controllers)) if controllers else None
    missing = _find_missing(replicas)
    lines = [_tell(one, "broker") for one in missing[:LINES]]
    if left := sum(len(one.places) for one in missing[LINES:]):
        lines.append(say(f"Replicas of {count(left, 'more partition')} are missing: captures in audit.json."))
    return CaptureText(tuple(_table(results)), (*lines, *controllers))


def _table(results: Results) -> Iterator[tuple[str, ...]]:
    """Rows with the number of a broker's replicas in each state; brokers with equal numbers share a row."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for (broker_id, state, is_needed), number in whole_audit(results).captures.items():
        counts[broker_id][state] += number
        counts[broker_id]["needed"] += number * is_needed
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for broker_id, of_broker in sorted(counts.items()):
        alike[tuple(of_broker[name] for name in (*STATES, "needed"))].append(broker_id)
    for (whole, partial, awaited, named, absent, needed), brokers in alike.items():
        yield (", ".join(map(str, brokers)), *map(str, (whole, partial + awaited, named + absent, needed)))


def _find_missing(captures: Iterable[CaptureRow]) -> list[MissingReplicas]:
    """Group missing replicas, groups with a needed one first."""
    by_place: dict[TopicPartition, list[CaptureRow]] = defaultdict(list)
    for row in captures:
        if row.state != "whole":
            by_place[place_of(row)].append(row)
    groups: dict[tuple[object, ...], MissingReplicas] = {}
    for place, rows in by_place.items():
        kind = tuple((row.broker_id, row.state, tuple(row.missing), row.needed) for row in rows)
        groups.setdefault(kind, MissingReplicas([], rows)).places.append(place)
    return sorted(groups.values(), key=lambda one: all(row.needed is None for row in one.rows))


def _tell(group: MissingReplicas, noun: str) -> Sentence:
    alike: dict[tuple[CaptureState, tuple[str, ...], Need | None], list[int]] = defaultdict(list)
    for row in group.rows:
        alike[row.state, tuple(row.missing), row.needed].append(row.broker_id)
    these = verb(len(group.places), "this partition", "these partitions")
    clauses = []
    for (state, missing, needed), nodes in alike.items():
        number = len(nodes)
        files = join_some([clean(name) for name in missing], _FILES, "file")
        was = _WAS[state].format(files=files, these=these)
        if missing == (OF_OTHER_TOPIC,):
            was = f"captured with a directory of another topic id in place of {these}"
        clause = f"{name_ids(noun, nodes)} {verb(number, 'was', 'were')} {was}"
        if needed:
            clause += f" and {verb(number, 'is', 'are')} needed ({_why(needed, number)})"
        clauses.append(clause)
    return say(f"{capitalise('; '.join(clauses))}: {name_partitions(group.places)}.")


def _why(needed: Need, number: int) -> str:
    """Reason why the replicas, `number` of them, are needed."""
    if number == 1:
        return WHY_NEEDED[needed]
    return re.sub(r"\bits\b", "their", re.sub(r"\bit\b", "each", WHY_NEEDED[needed]))

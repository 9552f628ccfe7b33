"""Changes since an earlier audit: findings that are new, known or resolved, and verdicts that moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from replica_audit.auditing.known_findings import Earlier
from replica_audit.literals import VERDICTS
from replica_audit.model import TopicPartition
from replica_audit.report.facts.by_partition import worst_first
from replica_audit.results import FindingPlace, Results, place_of, present
from replica_audit.schema import FindingRow, PartitionRow


class ChangeSince(NamedTuple):
    """Numbers of findings at one place compared with the earlier audit; `before` is the verdict then, None if it was not audited."""

    new: int
    known: int
    resolved: int
    before: str | None


def compare_place(place: FindingPlace, findings: Sequence[FindingRow], earlier: Earlier | None) -> ChangeSince:
    """Compare a place with `earlier`, or without it by a baseline's marks; `findings` are those of the place."""
    found = present(findings)
    if earlier is None:
        new = sum(row.status == "new" for row in found)
        return ChangeSince(new, len(found) - new, len(findings) - len(found), None)
    ids = {row.finding_id for row in found}
    before = earlier.finding_ids.get(place, frozenset())
    return ChangeSince(len(ids - before), len(ids & before), len(before - ids), earlier.verdicts.get(place))


def is_compared(results: Results, earlier: Earlier | None) -> bool:
    """True if there is an earlier audit to compare with, or marks of a baseline."""
    return earlier is not None or has_baseline(results)


def has_baseline(results: Results) -> bool:
    """True if findings are marked against a baseline."""
    return any(row.status != "new" for row in results.findings)


class NewFindings(NamedTuple):
    """Findings of one code and severity that the earlier audit did not have, with the message of the first."""

    severity: str
    code: str
    message: str
    places: tuple[FindingPlace, ...]
    """Partitions of these findings, each once."""


def find_new(results: Results, earlier: Earlier | None) -> list[NewFindings]:
    """Findings that `compare_place` counts as new, grouped by code and severity, worst first."""
    grouped: dict[tuple[str, str], list[FindingRow]] = defaultdict(list)
    for row in worst_first(present(results.findings)):
        known = row.status != "new"
        if earlier is not None:
            known = row.finding_id in earlier.finding_ids.get(place_of(row), ())
        if not known:
            grouped[row.severity, row.code].append(row)
    return [
        NewFindings(*key, rows[0].message, tuple(dict.fromkeys(map(place_of, rows)))) for key, rows in grouped.items()
    ]


class Move(NamedTuple):
    """Partitions whose verdict changed in the same way."""

    before: str
    now: str
    places: tuple[TopicPartition, ...]
    is_worse: bool


def find_moves(changes: Sequence[tuple[PartitionRow, ChangeSince]]) -> list[Move]:
    """Partitions with another verdict than before, those that got worse first; in the order of `changes`."""
    moved: dict[tuple[str, str], list[TopicPartition]] = defaultdict(list)
    for partition, change in changes:
        if change.before not in (None, partition.verdict):
            moved[change.before, partition.verdict].append(place_of(partition))
    moves = [
        Move(before, now, tuple(places), VERDICTS.index(now) < VERDICTS.index(before))
        for (before, now), places in moved.items()
    ]
    return sorted(moves, key=lambda one: not one.is_worse)

"""Changes since an earlier audit: findings that are new, known or resolved, and verdicts that moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replica_audit.auditing.known_findings import Earlier
from replica_audit.literals import VERDICTS
from replica_audit.report.facts.by_partition import present
from replica_audit.results import Results, place_of
from replica_audit.schema import FindingRow, PartitionRow


class ChangeSince(NamedTuple):
    """One partition against the earlier audit; `before` is its verdict then, None when it was not audited."""

    new: int
    known: int
    resolved: int
    before: str | None


def compare_partition(partition: PartitionRow, findings: Sequence[FindingRow], earlier: Earlier | None) -> ChangeSince:
    """The change of one partition with its `findings`; without `earlier` by what a baseline has marked them."""
    found = present(findings)
    place = place_of(partition)
    if earlier is None:
        new = sum(row.status == "new" for row in found)
        return ChangeSince(new, len(found) - new, len(findings) - len(found), None)
    ids = {row.finding_id for row in found}
    before = earlier.finding_ids.get(place, frozenset())
    return ChangeSince(len(ids - before), len(ids & before), len(before - ids), earlier.verdicts.get(place))


def is_compared(results: Results, earlier: Earlier | None) -> bool:
    """True if there is something to compare with: an earlier audit, or the marks of a baseline."""
    return earlier is not None or has_baseline(results)


def has_baseline(results: Results) -> bool:
    """True if findings are marked against a baseline."""
    return any(row.status != "new" for row in results.findings)


def count_moves(changes: Sequence[tuple[PartitionRow, ChangeSince]]) -> tuple[int, int]:
    """Partitions whose verdict is worse, and better, than before."""
    steps = [
        VERDICTS.index(partition.verdict) - VERDICTS.index(change.before)
        for partition, change in changes
        if change.before is not None
    ]
    return sum(step < 0 for step in steps), sum(step > 0 for step in steps)

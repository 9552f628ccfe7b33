"""What a report says of all partitions together and that no row says by itself, gathered from some partitions at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from replica_audit.model import Place
from replica_audit.report.facts.conditions import Conditions, find_conditions, join_conditions
from replica_audit.report.facts.coverage import find_needed, is_of_voter
from replica_audit.report.facts.losses import Holder, find_holders, join_holders
from replica_audit.results import Results, place_of


@dataclass(frozen=True, slots=True)
class WholeAudit:
    """Sums and exceptions over all partitions; a calm partition adds to counts only."""

    conditions: Conditions
    holders: Mapping[int, Holder]
    """By broker id, most committed records first, what it holds of the lost records of all partitions."""
    untimed: frozenset[Place]
    """Partitions with divergent records without times."""
    divergence_codes: frozenset[str]
    captures: Counter[tuple[int, str, bool]]
    """Rows of `captures` by broker, state and whether the replica is needed, those of voters left out."""


def seen_parts(results: Results) -> Iterator[Results]:
    """`results.parts()`; whoever has gone through them all has what `whole_audit` gives."""
    conditions: list[Conditions] = []
    holders: list[Mapping[int, Holder]] = []
    untimed: set[Place] = set()
    codes: set[str] = set()
    captures: Counter[tuple[int, str, bool]] = Counter()
    for part in results.parts():
        conditions.append(find_conditions(part))
        holders = [join_holders([*holders, find_holders(part)])]
        codes.update(run.code for run in part.divergences)
        untimed.update(
            place_of(run) for run in part.divergences if run.code == "DIV-EPOCH" and run.first_timestamp_ms is None
        )
        captures.update(
            (row.broker_id, row.state, row.needed is not None) for row in part.captures if not is_of_voter(row)
        )
        yield part
    results.remembered["whole"] = WholeAudit(
        conditions=replace(join_conditions(conditions), needed=find_needed(results)),
        holders=join_holders(holders),
        untimed=frozenset(untimed),
        divergence_codes=frozenset(codes),
        captures=captures,
    )


def whole_audit(results: Results) -> WholeAudit:
    """What is said of all partitions of `results`. It is worked out once."""
    if "whole" not in results.remembered:
        for _ in seen_parts(results):
            pass
    found = results.remembered["whole"]
    assert isinstance(found, WholeAudit)
    return found

"""The leaders that a plan chose (plan.json of `elect`), and whether a snapshot is the one that it was made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from replica_audit.auditing.answer_rows import report_rows
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.elect.decisions import Matrix, rests_on
from replica_audit.elect.plan_check import moved_since
from replica_audit.elect.plan_model import PlannedPartition
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.results import Results
from replica_audit.schema import sort_rows
from replica_audit.text import count

#: The procedure of a decision that no step of the plan brings about.
UNPLANNED = "unplanned"


@dataclass(frozen=True, slots=True)
class PlannedLeader:
    """Whom a plan lets lead a partition."""

    candidate_id: int
    lost_records: int | None
    """How many records the plan says that this loses; None where it did not know."""


class PlannedLeaders:
    """A plan for the partitions of some topics, and what a snapshot says of these."""

    def __init__(self, plan: Mapping[str, Any], digest: str, topics: Sequence[str] = ()) -> None:
        """`plan` is the content of plan.json, checked, `digest` the file's SHA-256; `topics` are patterns, none for all."""
        self.digest = digest
        self._plan = {**plan, "rests_on": list(_of_topics(plan["rests_on"], topics))}
        decisions = list(_of_topics(plan["decisions"], topics))
        self.leaders = {_place(one): _leader(one) for one in decisions if one["procedure"] != UNPLANNED}
        self.without_steps = tuple(_place(one) for one in decisions if one["procedure"] == UNPLANNED)
        """Partitions whose choice the plan does not carry out: nothing tells who will lead them."""
        self.places = frozenset(map(_place, self._plan["rests_on"]))
        """Partitions that the plan rests on."""
        self._seen: list[PlannedPartition] = []

    def note(self, audit: PartitionAudit, states: Sequence[Mapping[str, Any]]) -> None:
        """Take down what the snapshot says of a partition; `states` are its rows of `partition_states`."""
        tables = {table: sort_rows(rows) for table, rows in report_rows(audit).items()}
        results = Results({}, {**tables, "partition_states": sort_rows(states)})
        place = audit.evidence.topic_partition
        self._seen += rests_on(results, Matrix(results), {(place.topic, place.partition)})

    def check(self, cluster_id: str | None) -> None:
        """Raises UsageError where anything that the plan rests on is another one in the snapshot."""
        changes = list(moved_since(self._plan, cluster_id, self._seen))
        if changes:
            more = f", and {count(len(changes) - 1, 'other thing')}" if len(changes) > 1 else ""
            raise UsageError(
                f"the plan was made from another snapshot: {_say(changes[0])}{more} (elect --check lists them); "
                "give the snapshot that it was made from, or make a new plan"
            )


def _of_topics(rows: Iterable[Mapping[str, Any]], topics: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    return (row for row in rows if not topics or any(fnmatchcase(row["topic"], pattern) for pattern in topics))


def _place(row: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(row["topic"], row["partition"])


def _leader(decision: Mapping[str, Any]) -> PlannedLeader:
    chosen = decision["candidate_id"]
    losses = (one["lost_records"] for one in decision["candidates"] if one["candidate_id"] == chosen)
    return PlannedLeader(chosen, next(losses, None))


def _say(change: Mapping[str, Any]) -> str:
    if change["topic"] is None:
        return f"it is of another {change['what']}"
    of_broker = "" if change["broker_id"] is None else f" on broker {change['broker_id']}"
    place = f"{change['topic']}-{change['partition']}{of_broker}"
    is_missing = change["what"] in ("partition", "replica")
    return f"{place} is {change['now']}" if is_missing else f"the {change['what']} of {place} is not the same"

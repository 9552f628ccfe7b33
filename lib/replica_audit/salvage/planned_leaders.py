"""The leaders that a plan of `elect` chose, and the check that it was made from this snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from replica_audit.auditing.answer_rows import report_rows
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.plan_model import Decision, Plan, PlannedPartition
from replica_audit.elect.premises import ChangedPremise, moved_since, rests_on
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.results import Results, place_of
from replica_audit.schema import PartitionStateRow
from replica_audit.text import count


class PlannedLeaders:
    """The part of a plan that is about some topics, and what a snapshot says of their partitions."""

    def __init__(self, plan: Plan, digest: str, topics: Sequence[str] = ()) -> None:
        """`digest` is the SHA-256 of plan.json; `topics` are shell patterns, none for all topics."""
        self.digest = digest
        decisions = [one for one in plan.decisions if _is_of(one.topic, topics)]
        self.leaders = {_place(one): one for one in decisions if one.procedure != "unplanned"}
        self.without_steps = tuple(_place(one) for one in decisions if one.procedure == "unplanned")
        """Partitions whose choice no step carries out: their future leader is unknown."""
        self._plan = replace(plan, rests_on=tuple(one for one in plan.rests_on if _is_of(one.topic, topics)))
        self.places = frozenset(map(_place, self._plan.rests_on))
        """Partitions that the plan is based on."""
        self._seen: list[PlannedPartition] = []

    def note(self, audit: PartitionAudit, states: list[PartitionStateRow]) -> None:
        """Record what the snapshot says of a partition; `states` are its rows of `partition_states`."""
        results = Results.of({}, replace(report_rows(audit), partition_states=states).in_order())
        place = audit.evidence.topic_partition
        self._seen += rests_on(results, Matrix(results), {place_of(place)})

    def check(self, cluster_id: str | None) -> None:
        """Raise UsageError if the snapshot contradicts anything that the plan is based on."""
        changes = list(moved_since(self._plan, cluster_id, self._seen))
        if changes:
            more = f", and {count(len(changes) - 1, 'other thing')}" if len(changes) > 1 else ""
            raise UsageError(
                f"the plan was made from another snapshot: {_say(changes[0])}{more} (elect --check lists them); "
                "give the snapshot that it was made from, or make a new plan"
            )


def _is_of(topic: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(topic, pattern) for pattern in patterns)


def _place(one: Decision | PlannedPartition) -> TopicPartition:
    return TopicPartition(one.topic, one.partition)


def _say(change: ChangedPremise) -> str:
    if change.topic is None:
        return f"it is of another {change.what}"
    of_broker = "" if change.broker_id is None else f" on broker {change.broker_id}"
    place = f"{change.topic}-{change.partition}{of_broker}"
    is_missing = change.what in ("partition", "replica")
    return f"{place} is {change.now}" if is_missing else f"the {change.what} of {place} is not the same"

"""Whether what a plan of `elect` predicted is what happened: leaders, cuts and log ends, offset for offset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from replica_audit.model import Place
from replica_audit.schema import SurpriseRow, VerificationRow
from replica_audit.verify.verification import Verification


@dataclass(slots=True)
class PredictedPartition:
    """What a plan says of one partition once all its steps are done."""

    leader_id: int | None = None
    leader_epoch: int | None = None
    """The least that it can be: a restart adds epochs."""
    replicas: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    """By broker id: where its log is cut (None: nowhere), and where it ends when it has followed."""


def outcomes_of(plan: Mapping[str, Any]) -> dict[Place, PredictedPartition]:
    """The end that a plan (the content of plan.json) predicts, by partition; of several cuts of one replica the lowest counts."""
    found: dict[Place, PredictedPartition] = defaultdict(PredictedPartition)
    for step in plan["steps"]:
        for one in step["leaders"]:
            found[one["topic"], one["partition"]].leader_id = one["leader_id"]
        for one in step["after"]:
            outcome = found[one["topic"], one["partition"]]
            if one["leader_epoch"] is not None:
                outcome.leader_epoch = max(one["leader_epoch"], outcome.leader_epoch or 0)
            earlier = outcome.replicas.get(one["broker_id"], (None, 0))[0]
            cuts = [cut for cut in (earlier, one["truncate_to"]) if cut is not None]
            outcome.replicas[one["broker_id"]] = min(cuts, default=None), one["log_end_offset"]
    return dict(found)


def with_plan(found: Verification, plan: Mapping[str, Any]) -> Verification:
    """`found` beside a plan: each replica with the cut that was predicted, and everything that came otherwise.

    A replica that lost committed records by a cut that the plan predicted did what it was asked to.
    """
    outcomes = outcomes_of(plan)
    rows = [_with_prediction(row, outcomes.get((row.topic, row.partition))) for row in found.verifications]
    replicas: dict[Place, dict[int, VerificationRow]] = defaultdict(dict)
    for row in rows:
        replicas[row.topic, row.partition][row.broker_id] = row
    surprises = [
        one
        for place, outcome in sorted(outcomes.items())
        for one in _surprises(found.leaders.get(place), replicas.get(place, {}), place, outcome)
    ]
    return replace(found, verifications=rows, surprises=surprises, planned=True)


def _with_prediction(row: VerificationRow, outcome: PredictedPartition | None) -> VerificationRow:
    if outcome is None or row.broker_id not in outcome.replicas:
        return row
    cut, _ = outcome.replicas[row.broker_id]
    predicted = row.end_before if cut is None else min(cut, row.end_before)
    return row._replace(predicted=predicted)


def _surprises(
    leader: tuple[int | None, int | None] | None,
    replicas: Mapping[int, VerificationRow],
    place: Place,
    outcome: PredictedPartition,
) -> Iterator[SurpriseRow]:
    def told(broker_id: int | None, what: str, predicted: Any, now: Any) -> SurpriseRow:
        return SurpriseRow(*place, broker_id, what, _text(predicted), _text(now))

    if leader is None:
        yield told(None, "partition", "in the later snapshot", "not in it")
        return
    leader_id, epoch = leader
    if leader_id != outcome.leader_id:
        yield told(None, "leader", outcome.leader_id, leader_id)
    if epoch is not None and outcome.leader_epoch is not None and epoch < outcome.leader_epoch:
        yield told(None, "leader epoch", f"{outcome.leader_epoch} or more", epoch)
    for broker_id, (_, end) in sorted(outcome.replicas.items()):
        row = replicas.get(broker_id)
        if row is None or row.end_after is None:
            yield told(broker_id, "replica", f"its log ends at {end}", "its log is not in both snapshots")
            continue
        if row.kept_to != row.predicted:
            yield told(broker_id, "kept to", row.predicted, row.kept_to)
        # What was written since makes a log longer, and no plan predicts that.
        if row.end_after < end:
            yield told(broker_id, "log end", end, row.end_after)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)

"""Compares the predictions of a plan with what happened: leaders, cuts and log ends, offset for offset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from replica_audit.elect.plan_model import Plan
from replica_audit.model import Place
from replica_audit.schema import SurpriseRow, VerificationRow
from replica_audit.verify.verification import Verification


@dataclass(slots=True)
class PredictedPartition:
    """A partition after all steps of a plan."""

    leader_id: int | None = None
    leader_epoch: int | None = None
    """The lowest possible: a restart adds epochs."""
    replicas: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    """By broker id: where its log is cut (None: nowhere), and its log end after it has followed."""


def outcomes_of(plan: Plan) -> dict[Place, PredictedPartition]:
    """The outcome that a plan predicts, by partition; of several cuts of one replica the lowest counts."""
    found: dict[Place, PredictedPartition] = defaultdict(PredictedPartition)
    for step in plan.steps:
        for topic, partition, leader_id in step.leaders:
            found[topic, partition].leader_id = leader_id
        for one in step.after:
            outcome = found[one.topic, one.partition]
            if one.leader_epoch is not None:
                outcome.leader_epoch = max(one.leader_epoch, outcome.leader_epoch or 0)
            earlier = outcome.replicas.get(one.broker_id, (None, 0))[0]
            cuts = [cut for cut in (earlier, one.truncate_to) if cut is not None]
            outcome.replicas[one.broker_id] = min(cuts, default=None), one.log_end_offset
    return dict(found)


def with_plan(found: Verification, plan: Plan) -> Verification:
    """`found` with the cut that `plan` predicted for each replica, and with everything that came out differently.

    A replica that lost committed records by a predicted cut did as planned.
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
    def told(broker_id: int | None, what: str, predicted: object, now: object) -> SurpriseRow:
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
        # Records written since make a log longer, which no plan predicts.
        if row.end_after < end:
            yield told(broker_id, "log end", end, row.end_after)


def _text(value: object) -> str | None:
    return None if value is None else str(value)

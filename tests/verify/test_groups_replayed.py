"""Which groups a plan says a choice of leader hits, beside where they stood when it was carried out (tests/brokers)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.brokers.groups_seen import recorded_groups
from tests.support.fixtures import FIXTURES, truth
from tests.support.some import some

from replica_audit.auditing.consumer_groups import (
    LostRange,
    group_position,
)
from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.plan_model import Plan
from replica_audit.model import GroupOffset as Committed
from replica_audit.protocol.lineage import Lineage
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all
from replica_audit.schema import GroupOffsetRow

SEEN = recorded_groups()
TOPIC = "ledger"


@pytest.fixture(scope="module")
def audited() -> dict[str, Results]:
    return {
        one["capture"]: audit_all(
            str(FIXTURES / one["capture"]),
            Settings(topics=tuple(truth(one["capture"])["topics"]), kafka_version=one["kafka"]),
        )
        for one in SEEN
    }


def _plan(results: Results, seen: dict[str, Any], groups: list[dict[str, Any]]) -> Plan:
    offsets = [
        GroupOffsetRow(
            one["group"],
            one["topic"],
            one["partition"],
            one["committed_offset"],
            one["leader_epoch"],
            committed_ms=0,
            effect="unaffected",
            parted_at=None,
        )
        for one in groups
    ]
    return plan_elections(replace(results, group_offsets=offsets), candidate_id=seen["candidate"], up=seen["up"])


def _hits(plan: Plan) -> dict[str, int | None]:
    return {str(one.partition): one.chosen.groups_hit for one in plan.decisions}


def test_groups_of_every_kind_are_recorded() -> None:
    kinds = {(one["leader_epoch"] is None, one["effect_after"]) for run in SEEN for one in run["groups"]}
    assert {
        (False, "unaffected"),
        (False, "epoch_differs"),
        (False, "past_end"),
        (True, "unaffected"),
        (True, "read_lost"),
    } <= kinds
    assert {run["candidate"] for run in SEEN} == {0, 1}


@pytest.mark.parametrize("seen", SEEN, ids=lambda one: f"{one['capture']}-{one['candidate']}")
def test_groups_stand_where_the_plan_says(seen: dict[str, Any], audited: dict[str, Results]) -> None:
    results = audited[seen["capture"]]
    plan = _plan(results, seen, seen["groups"])
    assert _hits(plan) == seen["hits"]
    ends = {str(one.partition): one.chosen.log_end_offset for one in plan.decisions}
    logs = {
        str(row["partition"]): _as_leader(row["epochs"], row["log_end_offset"], seen)
        for row in results.rows("replicas")
        if (row["topic"], row["broker_id"]) == (TOPIC, seen["candidate"])
    }
    for one in seen["groups"]:
        name, partition, at = one["group"], str(one["partition"]), one["committed_offset"]
        # No election moves what a group committed; the log below it is another one.
        assert (one["committed_after"], one["described"]) == (at, [at, ends[partition]]), (name, partition)
        hit = bool(_hits(_plan(results, seen, [one]))[partition])
        found = one["effect_after"], one["parted_after"], one["first_read"]
        lost = seen["leaders_after"][partition]["lost"]
        assert found == _expected(one, hit, logs[partition], ends[partition], lost), (name, partition)


def _as_leader(epochs: list[Any], end: int, seen: dict[str, Any]) -> Lineage:
    """The lineage of a log whose broker leads: its own epoch comes after all that there are, and begins at the end."""
    known = [epoch for epoch, _ in epochs] + [one["leader_epoch"] or 0 for one in seen["groups"]]
    return Lineage((*((epoch, start) for epoch, start in epochs), (max(known) + 1, end)))


def _expected(
    one: dict[str, Any], hit: bool, log: Lineage, end: int, lost: list[list[int]]
) -> tuple[str, int | None, int | None]:
    """Expected position of a group in the later log, from where it parts from what it read, and what a Java client reads next."""
    at, epoch = one["committed_offset"], one["leader_epoch"]
    goes_on = at if at < end else None
    passed = [start for start, _ in lost if start < at]
    if not hit:
        # It read this log; another replica may still have other records there.
        return ("read_lost", min(passed), goes_on) if passed else ("unaffected", None, goes_on)
    if epoch is None:
        # Neither the client nor an audit of logs that agree again notices: inside the log it goes on, and past its end it
        # begins anew as its reset policy says, here with the first record.
        return "unaffected", None, at if at < end else 0
    # The client asks where its epoch ends, and goes back to there (KIP-320). Of an epoch that the log never had, the
    # leader answers with the end of the one before it: that may be above where the logs part, or above the offset.
    (_, answered) = log.end_offset_for(epoch, end)
    if answered >= at:
        return "unaffected", None, goes_on
    return "past_end" if at > end else "epoch_differs", answered, answered if answered < end else None


@pytest.mark.parametrize("seen", SEEN, ids=lambda one: f"{one['capture']}-{one['candidate']}")
def test_positions_on_the_later_log_are_those_recorded(seen: dict[str, Any]) -> None:
    for one in some(seen["groups"]):
        leader = seen["leaders_after"][str(one["partition"])]
        lineage = _as_leader(leader["epochs"], leader["log_end_offset"], seen)
        lost = [LostRange(*part) for part in leader["lost"]]
        names = ("group", "topic", "partition", "committed_offset", "leader_epoch")
        offset = Committed(*(one[name] for name in names), committed_ms=0)
        found = group_position(offset, lineage, leader["log_end_offset"], lost, one_moment=False)
        assert (found.effect, found.parted_at) == (one["effect_after"], one["parted_after"]), one

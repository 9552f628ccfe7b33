"""What has to be done before a leader is chosen for a partition: each line of the table of `_why_undecided`, and what comes first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tests.elect.clusters import Part, captured, results_of
from tests.support.report_rows import change_rows, finding, objects

from replica_audit.auditing.finding import UNSEEN_TAIL, WANTED
from replica_audit.elect.election_plan import plan_elections
from replica_audit.model import TopicPartition
from replica_audit.report.plan_text import tell_decision
from replica_audit.schema import Evidence

PLACE = TopicPartition("orders", 0)
NO_LOSS = {"lost_records": 0, "lost_committed": 0}


def said(code: str, *evidence: Evidence, **values: Any) -> dict[str, Any]:
    """A finding on broker 2."""
    return finding(code, "medium", broker_id=2, evidence=evidence, **values)


MOVED = said("CAP-MOVED")
END = said("CAP-SKEW", Evidence(UNSEEN_TAIL, broker_id=2, value="11"), start_offset=11, end_offset=20)
ABOVE = said("CAP-ABOVE-HW")
UNCHECKED = said("CAP-UNCHECKED")
LACKS = said("CAP-NOT-CAPTURED", Evidence(WANTED, path="broker-2/0.log", position=0, value="7"))
AWAITED = captured("orders", 2, state="awaited", needed="isr", missing=[])
MISSING = captured("orders", 4, state="named", needed="isr", missing=[])


class Line(NamedTuple):
    """What is known of a partition, and how the clause begins; None: it is decided."""

    clause: str | None
    findings: tuple[dict[str, Any], ...] = ()
    captures: tuple[Any, ...] = ()
    costs: Mapping[str, Any] | None = NO_LOSS
    """Of every candidate; None: no costs."""
    occasion: str | None = None
    candidate: int | None = None
    up: tuple[int, ...] = (1, 2, 3)


LINES = {
    "moved, whatever else": Line("it moved while", (MOVED, END, ABOVE), costs=None),
    "deleted": Line("the topic was deleted", (ABOVE,), costs=None, occasion="deleted"),
    "no log": Line("no log of it here can be read", (ABOVE,), costs=None),
    "an open end": Line("nothing shows whether broker 2 lost", (END,)),
    "not captured": Line("what broker 2 may have above the high watermark was not captured", (ABOVE,)),
    "not captured, nor checked": Line("what broker 2 may have above", (ABOVE, UNCHECKED)),
    "checksums, and the leader stays": Line(None, (UNCHECKED,)),
    "checksums, and the leader loses": Line("the checksums of batches of", (UNCHECKED,), costs={}),
    "checksums, and a transaction is cut": Line(
        "the checksums of batches of", (UNCHECKED,), costs=NO_LOSS | {"cut_transactions": 1}
    ),
    "checksums, and records are hidden": Line(
        "the checksums of batches of", (UNCHECKED,), costs=NO_LOSS | {"hidden_records": 1}
    ),
    "checksums, and the leader is down": Line("the checksums of batches of", (UNCHECKED,), up=(2, 3)),
    "checksums, and no replica is assigned": Line(
        "the checksums of batches of", (UNCHECKED,), costs=NO_LOSS | {"choice": None}
    ),
    "checksums, and another is asked for": Line("the checksums of batches of", (UNCHECKED,), candidate=2),
    "bytes": Line("the cost of an election depends on 7 bytes of broker 2", (LACKS,), (AWAITED,)),
    "bytes, and a replica": Line(None, (LACKS,), (AWAITED, MISSING)),
    "nothing": Line(None),
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_the_first_line_that_holds_decides(line: Line) -> None:
    part = Part("orders", (1, 2, 3), 1, (1, 2), 1, calm=line.costs is None)
    found = results_of([part], None, "metadata_log")
    change_rows(found, "elections", lambda _: line.costs or {})
    change_rows(found, "partition_states", lambda _: {"occasion": line.occasion})
    found = replace(found, findings=objects("findings", line.findings), captures=[*line.captures])
    plan = plan_elections(found, asked=[PLACE], candidate_id=line.candidate, up=line.up)
    assert len(plan.decisions) == (line.clause is None)
    reasons = [one.reason for one in plan.conflicts]
    if line.clause is not None:
        assert [reason.startswith(line.clause) for reason in reasons] == [True], reasons
        # Collecting again serves where nothing but checksums is missing.
        assert ("without --headers" in reasons[0]) is line.clause.startswith("the checksums")


@pytest.mark.parametrize(
    ("equals", "least", "beside"),
    [
        ((2, 3), "brokers 1, 2 and 3", "broker 1 would lose the same"),
        ((), "broker 1", "broker 1 would lose the least"),
    ],
)
def test_who_loses_the_same_does_not_lose_more(equals: tuple[int, ...], least: str, beside: str) -> None:
    found = results_of([Part("orders", (1, 2, 3), None, (), 1, equals=equals)], None, "metadata_log")
    found = replace(found, captures=[MISSING])
    (undecided,) = plan_elections(found, asked=[PLACE], up=[1, 2, 3]).decisions
    assert f"Of the captured replicas {least} would lose the least" in tell_decision(undecided, None)
    (asked,) = plan_elections(found, asked=[PLACE], candidate_id=2, up=[1, 2, 3]).decisions
    assert asked.reason == f"broker 2 was asked for; {beside}"

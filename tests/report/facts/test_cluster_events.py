"""How each replica of a cluster is, what happened on it when, and what is new since the last audit."""

from __future__ import annotations

import pytest
from tests.support.report_rows import finding, partition, results, row

from replica_audit.auditing.known_findings import Earlier
from replica_audit.report.facts import cluster_events
from replica_audit.report.facts.by_partition import copy_states
from replica_audit.report.facts.changes import compare_place, find_moves, find_new
from replica_audit.report.facts.cluster_events import find_timeline
from replica_audit.results import place_of

PLACE = {"topic": "orders", "partition": 0}


def states_of(findings=(), captures=(), divergences=(), isr=(1, 2), unread=(), **replicas):
    """States of brokers given as `b1={...}`, with the rows beside them."""
    rows = [
        row("replicas", **PLACE, broker_id=int(name[1:]), role="compared", **values)
        for name, values in replicas.items()
    ]
    one = partition(isr=list(isr), unread_replicas=list(unread))
    found = results([one], list(findings), replicas=rows, divergences=list(divergences), captures=list(captures))
    return copy_states(found.partitions[0], found.at(("orders", 0)), found.captures)


def copy(broker, state, needed=None):
    return row("captures", **PLACE, broker_id=broker, state=state, needed=needed, named_by=[], missing=[])


def test_a_replica_has_the_worst_of_its_states() -> None:
    run = row("divergences", **PLACE, broker_id=3, start_offset=1, end_offset=2, code="DIV-EPOCH", record_count=1)
    damage = finding("LOG-CORRUPT-MID", "high", broker_id=1)
    assert states_of(b1={"in_isr": True}, b2={"in_isr": True}) == {1: "sound", 2: "sound"}
    found = states_of(
        [damage],
        [copy(1, "whole"), copy(4, "partial"), copy(5, "absent"), copy(6, "named", "isr")],
        [run],
        unread=(7,),
        b1={"in_isr": True},
        b2={"in_isr": True, "lost_held": 4},
        b3={"in_isr": False},
        b4={"in_isr": None},
        b8={"in_isr": False},
    )
    assert found == {1: "damaged", 2: "holds", 3: "differs", 4: "partial", 5: "missing", 6: "needed", 7: "missing", 8: "out"}  # fmt: skip


def test_put_aside_copies_and_resolved_damage_are_nobodys_state() -> None:
    gone = finding("LOG-CORRUPT-MID", "high", broker_id=1, status="resolved")
    harmless = finding("LOG-CORRUPT-MID", "low", broker_id=2)
    assert states_of([gone, harmless], b1={"in_isr": True}, b2={"in_isr": True}) == {1: "sound", 2: "sound"}
    stray = row("replicas", **PLACE, broker_id=9, role="stray")
    found = results([partition(isr=None)], replicas=[stray])
    assert copy_states(found.partitions[0], found.at(("orders", 0)), ()) == {}


def state(number, entry, time_ms, leader, isr, epoch=0, **values):
    return row(
        "partition_states", topic="orders", partition=number, source="metadata_log", entry=entry, time_ms=time_ms,
        leader_id=leader, leader_epoch=epoch, partition_epoch=entry, isr=isr, elr=[], last_known_elr=[],
        replicas=[1, 2, 3], configs={}, metadata_offset=entry, occasion="changed" if entry else "created", **values,
    )  # fmt: skip


def told(timeline):
    return [(one.time_ms, one.broker_id, one.kind, one.partition_count, one.partitions) for one in timeline.events]


def test_elections_and_changes_of_the_isr_are_events_of_their_broker_over_all_partitions() -> None:
    rows = [
        one
        for number in (0, 1)
        for one in (
            state(number, 0, 100, 1, [1, 2, 3]),
            state(number, 1, 200, 2, [2, 3], 1),
            state(number, 2, 300, 2, [1, 2, 3], 1),
            state(number, 3, 400, 1, [1], 2, uncommitted=True),
        )
    ]
    unclean = [state(2, 0, 100, 1, [1]), state(2, 1, 250, 3, [3], 1)]
    found = results([partition(number=number) for number in range(3)], partition_states=[*rows, *unclean])
    assert told(find_timeline(found, found.partitions, ())) == [
        (200, 1, "left", 2, (0, 1)),
        (200, 2, "elected", 2, (0, 1)),
        (250, 1, "left", 1, (2,)),
        (250, 3, "joined", 1, (2,)),
        (250, 3, "unclean", 1, (2,)),
        (300, 1, "joined", 2, (0, 1)),
    ]


def test_copies_and_lost_records_are_events_and_times_that_no_browser_shows_are_none() -> None:
    runs = [
        row("divergences", topic="orders", partition=number, broker_id=2, start_offset=1, end_offset=2, code="DIV-EPOCH",
            record_count=1, lost_records=1, last_timestamp_ms=last)
        for number, last in ((0, 77), (1, 2**62), (2, None))
    ]  # fmt: skip
    found = results([partition(number=number) for number in range(3)], divergences=runs)
    assert told(find_timeline(found, found.partitions, [(2, 500, 900)])) == [
        (77, 2, "lost", 1, (0,)), (500, 2, "captured", 0, ()), (900, 2, "captured", 0, ()),
    ]  # fmt: skip


def test_more_events_than_a_page_holds_are_rounded_to_steps_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_events, "MOST_EVENTS", 6)
    rows = [
        one
        for number in range(50)
        for one in (state(number, 0, 0, 1, [1, 2]), state(number, 1, 10_003 + number, 1, [1]))
    ]
    found = results([partition(number=number) for number in range(50)], partition_states=rows)
    timeline = find_timeline(found, found.partitions, ())
    assert timeline.step_ms == 10 and [one.time_ms for one in timeline.events] == [
        10_000,
        10_010,
        10_020,
        10_030,
        10_040,
        10_050,
    ]
    assert sum(one.partition_count for one in timeline.events) == 50
    assert timeline.events[1].partitions == tuple(range(7, 12))


def test_findings_that_an_audit_before_did_not_have_are_new_and_equal_ones_are_one() -> None:
    rows = [finding("HWM-LOSS", "critical", "orders", number, finding_id=f"{number}") for number in range(3)]
    rows += [finding("REP-LAG", "info", "orders", 0, finding_id="lag"), finding("CAP-UNREADABLE", "high", None, None)]
    rows.append(finding("DIV-EPOCH", "high", "orders", 1, finding_id="gone", status="resolved"))
    found = results([partition(number=0, verdict="COMMITTED_LOSS"), partition(number=1), partition(number=2)], rows)
    verdicts = {("orders", 0): "CONSISTENT", ("orders", 1): "LAGGING", ("orders", 2): "CONSISTENT"}
    earlier = Earlier.of(None, None, verdicts, [(("orders", 1), "1")])
    assert [(one.severity, one.code, one.places) for one in find_new(found, earlier)] == [
        ("critical", "HWM-LOSS", (("orders", 0), ("orders", 2))),
        ("high", "CAP-UNREADABLE", ((None, None),)),
        ("info", "REP-LAG", (("orders", 0),)),
    ]
    unplaced = Earlier.of(None, None, verdicts, [((None, None), found.findings[4].finding_id)])
    assert "CAP-UNREADABLE" not in {one.code for one in find_new(found, unplaced)}
    changes = [(one, compare_place(place_of(one), (), earlier)) for one in found.partitions]
    assert [tuple(one) for one in find_moves(changes)] == [
        ("CONSISTENT", "COMMITTED_LOSS", (("orders", 0),), True), ("LAGGING", "CONSISTENT", (("orders", 1),), False),
    ]  # fmt: skip
    known = [one._replace(status="known") for one in found.findings]
    found.findings[:] = known
    assert not find_new(found, None)

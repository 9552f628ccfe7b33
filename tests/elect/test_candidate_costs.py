"""The costs of each candidate in partitions put together by hand: what is lost, by whom it was held, and what is hidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.support.made_cases import batch, case, compared, divergent, leadership, log

from replica_audit.auditing.compare.alignment import Alignment
from replica_audit.auditing.compare.comparison import Comparison
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.finding import Finding, finding
from replica_audit.auditing.findings.hwm import HWM_LOSS
from replica_audit.auditing.findings.rep import REP_LEADER_SHORTER
from replica_audit.auditing.leadership.high_watermark_bounds import HighWatermark
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.batch_header import Batch
from replica_audit.elect.costs import CandidateCost, FollowerCost, candidate_costs, committed_ranges, greater_cost
from replica_audit.model import ChunkDigest, OffsetRange
from replica_audit.protocol.loading import LoadedLog
from replica_audit.segments.batch_rows import Batches

COMMON = tuple(batch(at, at + 9) for at in (0, 10, 20))
OURS, THEIRS = batch(30, 34, epoch=2), (batch(30, 34, epoch=1), batch(35, 39, epoch=1))
MARK = HighWatermark(30, 35, 30, 30, "interval", "", "", "", None, True)


class Held:
    """Replicas with their batches, all in one chunk."""

    def __init__(self) -> None:
        self.batches: dict[tuple[int, str], Any] = {}

    def log(self, broker: int, *batches: Batch, **changes: Any) -> ReplicaFacts:
        starts: dict[int, int] = {}
        for one in batches:
            starts.setdefault(one.leader_epoch, one.base_offset)
        end = batches[-1].end_offset if batches else 0
        facts = log(broker, *starts.items(), end=end, **{"high_watermark_checkpoint": 30, **changes})
        if batches:
            digest = hash(batches) % 2**63
            records = sum(one.record_count for one in batches)
            chunk = ChunkDigest(0, len(batches), records, 0, batches[0].base_offset, end - 1, digest, None, None)
            facts = replace(facts, chunks={0: chunk})
        self.batches[facts.key] = Batches.of(batches).rows
        return facts

    def costs(
        self, reference: ReplicaFacts, *comparisons: Comparison, findings: tuple[Finding, ...] = (), **known: Any
    ) -> dict[int, CandidateCost]:
        made = case(reference, *comparisons, **{"high_watermark": MARK, **known})
        audit = PartitionAudit(made.evidence, made, findings, "COMMITTED_LOSS")
        return {one.broker_id: one for one in candidate_costs(audit, self.batches)}


def numbers(costs: Mapping[int, CandidateCost]) -> dict[int, tuple[int, int, int, int, int]]:
    """(lost, committed, possible, hidden, only here) by candidate."""
    return {
        broker: (one.lost_records, one.lost_committed, one.lost_possible, one.hidden_records, one.only_here)
        for broker, one in costs.items()
    }


def test_without_a_case_there_are_no_costs() -> None:
    evidence = case(log(1, (0, 0))).evidence
    assert candidate_costs(PartitionAudit(evidence, None, (), "INCONCLUSIVE"), {}) == ()


def apart(committed_end: int | None = None, **known: Any) -> dict[int, CandidateCost]:
    """Broker 1 leads with five records of its own from 30 on, where broker 2 has ten others; broker 3 ends there."""
    held = Held()
    run = divergent("epoch", batches=THEIRS, committed_end=committed_end, committed_records=(committed_end or 30) - 30)
    return held.costs(
        held.log(1, *COMMON, OURS),
        compared(held.log(2, *COMMON, *THEIRS), run, cut=30),
        compared(held.log(3, *COMMON), cut=30),
        **known,
    )


@pytest.mark.parametrize(
    ("committed_end", "found"),
    [
        (None, {1: (10, 0, 10, 0, 5), 2: (5, 0, 5, 0, 10), 3: (15, 0, 15, 0, 0)}),
        (33, {1: (10, 3, 7, 0, 5), 2: (5, 0, 5, 0, 10), 3: (15, 3, 12, 0, 0)}),
        (40, {1: (10, 10, 0, 0, 5), 2: (5, 0, 5, 0, 10), 3: (15, 10, 5, 0, 0)}),
    ],
)
def test_what_no_log_has_any_more_is_lost(committed_end: int | None, found: dict[int, tuple]) -> None:
    assert numbers(apart(committed_end)) == found


def test_each_follower_says_what_it_keeps_and_drops() -> None:
    first = apart(33)[1]
    told = {
        one.broker_id: (one.kept_to, one.dropped.record_count, one.committed_dropped, one.lost_held, one.lost_from)
        for one in first.followers
    }
    assert told == {1: (35, 0, 0, 0, None), 2: (30, 10, 3, 10, 30), 3: (30, 0, 0, 0, None)}
    assert first.lost_acknowledged == 10 and not first.lost_at_most and not first.cut_transactions


@pytest.mark.parametrize(
    ("committed_end", "severity", "confidence", "likely"),
    [(33, "critical", "likely", {1, 3}), (33, "critical", "proven", set()), (33, "high", "likely", set()), (None, "critical", "likely", set())],
)  # fmt: skip
def test_what_a_finding_calls_likely_is_only_likely(
    committed_end: int | None, severity: Any, confidence: Any, likely: set[int]
) -> None:
    told = (finding(HWM_LOSS, "", broker_id=2, severity=severity, confidence=confidence),)
    costs = apart(committed_end, findings=told)
    assert {broker for broker, one in costs.items() if one.is_only_likely} == likely


AHEAD = (batch(30, 34, epoch=0), batch(35, 39, epoch=0))


@pytest.mark.parametrize(
    ("known", "findings", "lost"),
    [
        # The leader was copied earlier.
        ({}, (), (0, 0, 0)),
        # It has lost them, or may have.
        ({}, (finding(REP_LEADER_SHORTER, "", broker_id=2),), (10, 0, 10)),
        ({"said": leadership(leader_epoch=0, isr=(1, 2), perhaps_down={1})}, (), (10, 0, 10)),
        (
            {"said": leadership(source="metadata_log", leader_epoch=0, isr=(1, 2), fenced=(1,)), "leader_id": 1},
            (),
            (10, 0, 10),
        ),
        ({"leadership": None}, (), (0, 0, 0)),
        # Nobody leads, or another one does.
        ({"leader_id": None}, (), (10, 0, 10)),
        ({"leader_id": 2}, (), (10, 0, 10)),
        # They are of a later epoch than that of the leader.
        ({"said": leadership(leader_epoch=-1, isr=(1, 2))}, (), (10, 0, 10)),
    ],
)
def test_what_lies_past_the_end_of_a_leader_that_may_have_it_is_not_lost(
    known: dict[str, Any], findings: tuple[Finding, ...], lost: tuple[int, int, int]
) -> None:
    held = Held()
    ahead = Alignment(ahead=Batches.of(AHEAD))
    follower = held.log(2, *COMMON, *AHEAD)
    leader = held.log(1, *COMMON)
    costs = held.costs(
        leader, compared(follower, alignment=ahead, cut=30), findings=findings,
        **{"said": leadership(leader_epoch=0, isr=(1, 2)), "high_watermark": MARK._replace(hw_upper=30), **known},
    )  # fmt: skip
    assert numbers(costs)[1][:3] == lost
    assert numbers(costs)[2] == (0, 0, 0, 0, 10)


@pytest.mark.parametrize(
    ("own", "lost"),
    [(OURS, 0), (batch(29, 33, epoch=2), 10), (batch(25, 29, epoch=2), 10), (batch(20, 24, epoch=2), 10)],
)
def test_what_a_cleaner_may_have_removed_is_not_lost_unless_another_leader_wrote_some_of_it(
    own: Batch, lost: int
) -> None:
    held = Held()
    leader, follower = held.log(1, *COMMON[:2], own, compacted=True), held.log(2, *COMMON)
    costs = held.costs(leader, compared(follower, cut=min(own.base_offset, 20)))
    assert (costs[1].lost_records, costs[1].lost_at_most) == (lost, bool(lost))


LIMITED = MARK._replace(hw_upper=30, limiting_broker_id=2, bounding_brokers=frozenset({1, 2}))


@pytest.mark.parametrize(
    ("known", "changes", "possible"),
    [
        # Broker 2 may have fetched on: it has what was committed since, and broker 3 has not.
        ({}, {}, {1: 0, 2: 0, 3: 5}),
        # The leader was cut since: its copy has what an earlier one may have committed, and broker 2 lacks.
        ({"is_replaced": True}, {}, {1: 0, 2: 5, 3: 5}),
        ({"quiesced": True}, {}, {1: 0, 2: 0, 3: 0}),
        ({}, {"was_down": True}, {1: 0, 2: 0, 3: 0}),
        ({"high_watermark": LIMITED._replace(limiting_broker_id=None)}, {}, {1: 0, 2: 0, 3: 0}),
    ],
)
def test_what_an_in_sync_replica_may_have_fetched_since_its_copy_is_possibly_committed(
    known: dict[str, Any], changes: dict[str, Any], possible: dict[int, int]
) -> None:
    held = Held()
    leader = held.log(1, *COMMON, OURS)
    followers = compared(held.log(2, *COMMON, **changes), cut=30), compared(held.log(3, *COMMON), cut=30)
    costs = held.costs(leader, *followers, **{"high_watermark": LIMITED, **known})
    assert {broker: one.lost_possible for broker, one in costs.items()} == possible


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_candidate_in_sync_that_its_next_start_cuts_may_lose_what_was_committed_since(is_cut: bool) -> None:
    """Broker 3 was down with as much as the leader; broker 2, whose end is the bound, may have fetched on."""
    held = Held()
    down = held.log(3, *COMMON, OURS, killed=True)
    down = replace(down, loaded=LoadedLog(30 if is_cut else 35))
    followers = compared(held.log(2, *COMMON), cut=30), compared(down, cut=35)
    mark = LIMITED._replace(bounding_brokers=frozenset({1, 2, 3}))
    costs = held.costs(held.log(1, *COMMON, OURS), *followers, high_watermark=mark)
    assert costs[3].lost_possible == (5 if is_cut else 0)


@pytest.mark.parametrize(("stretches", "possible"), [((), 0), ((OffsetRange(30, 35),), 5)])
def test_a_candidate_in_sync_with_other_records_may_lack_what_was_committed_since(
    stretches: tuple[OffsetRange, ...], possible: int
) -> None:
    """It was copied before it was cut, or the leader was."""
    held = Held()
    follower = compared(held.log(2, *COMMON, THEIRS[0]), cut=30, stretches=stretches)
    costs = held.costs(held.log(1, *COMMON, OURS), follower, high_watermark=LIMITED)
    assert costs[2].lost_possible == possible


HOLED = (*COMMON[:1], *COMMON[2:])


@pytest.mark.parametrize("compacted", [(), (1,), (2,), (1, 2)])
def test_what_no_truncation_finds_is_hidden_from_whom_lacks_it(compacted: tuple[int, ...]) -> None:
    """Where a cleaner has been on either log it is not known which of them lacks anything."""
    held = Held()
    whole, holed = (
        held.log(one, *some, compacted=one in compacted, local_start_offset=0)
        for one, some in ((1, COMMON), (2, HOLED))
    )
    run = divergent("hole_here", start_offset=10, end_offset=20)
    costs = held.costs(whole, compared(holed, run, cut=30))
    hidden = 0 if compacted else 10
    assert numbers(costs) == {1: (0, 0, 0, 0, 0 if 2 in compacted else 10), 2: (0, 0, 0, hidden, 0)}
    assert [one.lacked_records for one in costs[1].followers] == [0, hidden]
    assert [one.lacked_records for one in costs[2].followers] == [0, 0]
    assert not any(one.lost_at_most for one in costs.values())


def test_a_batch_across_the_log_start_of_a_follower_is_not_lacked() -> None:
    held = Held()
    sparse = batch(10, 19)._replace(record_count=5)
    whole, late = held.log(1, sparse, COMMON[2]), held.log(2, COMMON[2], log_start_offset=15, local_start_offset=15)
    assert [one.lacked_records for one in held.costs(whole, compared(late, cut=30))[1].followers] == [0, 0]


def test_of_a_batch_that_is_lost_in_part_the_number_is_a_bound() -> None:
    held = Held()
    sparse = THEIRS[0]._replace(record_count=3)
    run = divergent("epoch", batches=(sparse,), start_offset=32, end_offset=35)
    costs = held.costs(held.log(1, *COMMON), compared(held.log(2, *COMMON, sparse), run, cut=30))
    assert (costs[1].lost_at_most, costs[2].lost_at_most) == (True, False)


def test_what_is_only_possibly_committed_makes_no_loss_likely() -> None:
    told = (finding(HWM_LOSS, "", broker_id=1, severity="critical", confidence="likely"),)
    assert not any(one.is_only_likely for one in apart(33, findings=told).values())


def test_below_its_local_log_start_a_follower_lacks_nothing() -> None:
    held = Held()
    leader, late = held.log(1, *COMMON), held.log(2, *COMMON[1:], log_start_offset=10)
    costs = held.costs(leader, compared(late, cut=30))
    assert [one.lacked_records for one in costs[1].followers] == [0, 0]
    assert numbers(costs) == {1: (0, 0, 0, 0, 10), 2: (0, 0, 0, 0, 0)}


#: A copy of broker 4 that Kafka has set aside, and the files that it deletes next.
STRAY = dict.fromkeys(("path", "log_dir"), f"broker-4/orders-0.{32 * '0'}-stray")
DELETED = {"path": "broker-4/orders-0", "log_dir": "broker-4/orders-0/*.deleted"}


def with_copy(
    copy: tuple[Batch, ...],
    where: dict[str, str],
    *,
    own: tuple[Batch, ...] = (*COMMON, OURS),
    item: dict[str, Any] | None = None,
    committed_end: int | None = None,
    changes: dict[int, dict[str, Any]] | None = None,
    findings: tuple[Finding, ...] = (),
    **known: Any,
) -> dict[int, CandidateCost]:
    """Costs of broker 1, which leads, and broker 3, which has of `own` what ends at 30; broker 4 has the copy, parted at 30. `changes` of
    the logs by broker."""
    held, of = Held(), changes or {}
    leader = held.log(1, *own, **of.get(1, {}))
    other = held.log(3, *(one for one in own if one.end_offset <= 30), **of.get(3, {}))
    put_aside = held.log(4, *copy, **where, **of.get(4, {}))
    runs = [divergent("epoch", batches=THEIRS, committed_end=committed_end)] if copy[-1] is THEIRS[-1] else []
    beside = compared(put_aside, *runs, cut=30, **(item or {}))._replace(reference=leader)
    made = case(leader, compared(other, cut=30), high_watermark=MARK, **known)
    made = replace(made, beside=(beside,), candidates=replace(made.candidates, beside=(put_aside,)))
    audit = PartitionAudit(made.evidence, made, findings, "COMMITTED_LOSS")
    return {one.broker_id: one for one in candidate_costs(audit, held.batches)}


@pytest.mark.parametrize("where", [STRAY, DELETED])
def test_a_copy_beside_the_replicas_that_holds_what_is_lost_is_named(where: dict[str, str]) -> None:
    costs = with_copy((*COMMON, *THEIRS), where)
    assert {broker: one.lost_records for broker, one in costs.items()} == {1: 10, 3: 15}
    assert [(one.facts.broker_id, one.span, one.lost_held) for one in costs[1].beside] == [(4, (30, 40), 10)]
    assert costs[1].only_here == 5 and costs[1].lost_possible == 10


@pytest.mark.parametrize(("where", "only_here"), [(STRAY, 0), (DELETED, 5)])
def test_a_copy_that_is_about_to_be_deleted_holds_nothing_for_others(where: dict[str, str], only_here: int) -> None:
    costs = with_copy((*COMMON, OURS), where)
    assert costs[1].only_here == only_here and not costs[1].beside
    assert [(one.span, one.lost_held) for one in costs[3].beside] == [((30, 35), 5)]


@pytest.mark.parametrize(("broker", "committed_end", "likely"), [(4, 33, {1, 3}), (4, None, set()), (3, 33, set())])
def test_what_a_copy_has_is_as_likely_as_the_finding_on_it(
    broker: int, committed_end: int | None, likely: set[int]
) -> None:
    told = (finding(HWM_LOSS, "", broker_id=broker, severity="critical", confidence="likely"),)
    costs = with_copy((*COMMON, *THEIRS), STRAY, committed_end=committed_end, findings=told)
    assert {one.broker_id for one in costs.values() if one.is_only_likely} == likely


@pytest.mark.parametrize(
    ("copy", "changes", "lost"),
    [
        # What fills a hole; nothing, where a cleaner has been.
        (COMMON, {}, 10),
        (COMMON, {1: {"compacted": True}}, 0),
        (COMMON, {4: {"compacted": True}}, 0),
        # Another history was not cleaned, nor what lies past its end.
        ((*HOLED, *THEIRS), {1: {"compacted": True}}, 10),
        # Below the local log start of the leader nothing is compared.
        (COMMON, {1: {"local_start_offset": 20}}, 0),
        (COMMON, {1: {"local_start_offset": 15}}, 5),
    ],
)
def test_what_a_copy_has_is_lost_unless_a_cleaner_removed_it(
    copy: tuple[Batch, ...], changes: dict[int, dict[str, Any]], lost: int
) -> None:
    costs = with_copy(copy, STRAY, own=HOLED, changes=changes, leader_id=None)
    assert costs[1].lost_records == sum(one.lost_held for one in costs[1].beside) == lost
    assert costs[1].lost_at_most is (bool(lost) and bool(changes.get(1, {}).get("compacted")))


@pytest.mark.parametrize(
    ("copy", "of_leader", "span", "lost"),
    [
        # A hole, alone and with a tail; a tail alone; what lies below the leader's log start is not lost.
        (COMMON, HOLED, (10, 20), 10),
        ((*COMMON, *THEIRS), HOLED, (10, 40), 20),
        ((*COMMON, *THEIRS), COMMON, (30, 40), 10),
        ((*COMMON, *THEIRS), COMMON[1:2], (20, 40), 20),
    ],
)
def test_a_copy_is_named_with_the_offsets_of_what_is_lost(
    copy: tuple[Batch, ...], of_leader: tuple[Batch, ...], span: tuple[int, int], lost: int
) -> None:
    costs = with_copy(copy, STRAY, own=of_leader, leader_id=None)
    assert [(one.span, one.lost_held) for one in costs[1].beside] == [(span, lost)]


@pytest.mark.parametrize(
    ("kept", "lost_from", "lost"), [(COMMON, 30, 10), ((*COMMON, THEIRS[0]), 35, 5), ((*COMMON, *THEIRS), None, 0)]
)
def test_a_follower_is_named_from_the_first_record_that_no_log_keeps(
    kept: tuple[Batch, ...], lost_from: int | None, lost: int
) -> None:
    """Broker 1 leads with `kept`; broker 2 has more of it, and is cut at 30 all the same."""
    held = Held()
    costs = held.costs(held.log(1, *kept), compared(held.log(2, *COMMON, *THEIRS), cut=30))
    assert [(one.lost_from, one.lost_held) for one in costs[1].followers][1] == (lost_from, lost)


LATER = batch(35, 39, epoch=2)
#: A copy that a follower moves to another of its disks.
FUTURE = dict.fromkeys(("path", "log_dir"), f"broker-4/orders-0.{32 * '0'}-future")


@pytest.mark.parametrize(
    ("where", "epoch", "known", "lost"),
    [
        (FUTURE, 2, {}, 0),
        (FUTURE, 2, {"leader_id": None}, 5),
        (FUTURE, 2, {"changes": {1: {"high_watermark_checkpoint": 36}}}, 5),
        # Of a later epoch than the leader's it has been written by another one since, or the leader was elected without it.
        (FUTURE, 3, {}, 5),
        # A directory that was set aside may be from before the broker led.
        (STRAY, 2, {}, 5),
    ],
)
def test_what_a_copy_has_past_the_end_of_the_leader_is_lost_if_that_may_not_have_it(
    where: dict[str, Any], epoch: int, known: dict[str, Any], lost: int
) -> None:
    later = LATER._replace(leader_epoch=epoch)
    item = {"alignment": Alignment(ahead=Batches.of([later]))}
    costs = with_copy((*COMMON, OURS, later), where, item=item, **known)
    assert (costs[1].lost_records, costs[1].lost_possible) == (lost, lost)
    assert [(one.span, one.lost_held) for one in costs[1].beside] == [((35, 40), 5)] * bool(lost)


def test_the_ranges_that_are_proven_committed() -> None:
    held = Held()
    run = divergent("epoch", batches=THEIRS, committed_end=33)
    leader, other = held.log(1, *COMMON, OURS), held.log(2, *COMMON, *THEIRS)
    made = case(leader, compared(other, run, cut=30), high_watermark=MARK)
    found = committed_ranges(made, held.batches)
    assert found == {leader.key: [(0, 30), (30, 30)], other.key: [(0, 30), (30, 33)]}


BASE = CandidateCost(log(1, (0, 0)), (FollowerCost(1, 40),), 10, 4, 2, False, 1, 0, 3)


@pytest.mark.parametrize(
    ("other", "lost"),
    [
        # (lost, committed, possible, cut transactions, hidden, at most)
        ({}, (10, 4, 2, 1, 3, False)),
        ({"lost_records": 9}, (10, 4, 2, 1, 3, False)),
        ({"lost_records": 12}, (12, 4, 2, 1, 3, True)),
        ({"lost_committed": 3}, (10, 3, 3, 1, 3, True)),
        ({"lost_committed": 5}, (10, 4, 3, 1, 3, True)),
        ({"lost_possible": 3}, (10, 4, 3, 1, 3, True)),
        ({"lost_possible": 1}, (10, 4, 2, 1, 3, False)),
        ({"cut_transactions": 2}, (10, 4, 2, 2, 3, True)),
        ({"hidden_records": 4}, (10, 4, 2, 1, 4, True)),
        ({"hidden_records": 2}, (10, 4, 2, 1, 3, False)),
        ({"lost_records": 12, "cut_transactions": 0, "hidden_records": 0}, (12, 4, 2, 0, 0, True)),
        ({"cut_transactions": 2, "hidden_records": 0}, (10, 4, 2, 2, 0, True)),
    ],
)
def test_of_two_possible_costs_the_greater_counts_and_what_both_lose_is_proven(
    other: dict[str, Any], lost: tuple
) -> None:
    elsewhere = BASE._replace(facts=log(1, (0, 0), killed=True), is_only_likely=True, **other)
    found = greater_cost(BASE, elsewhere)
    assert (
        found.lost_records, found.lost_committed, found.lost_possible, found.cut_transactions, found.hidden_records,
        found.lost_at_most,
    ) == lost  # fmt: skip
    assert found.facts is BASE.facts
    assert (found is BASE) is not lost[-1]

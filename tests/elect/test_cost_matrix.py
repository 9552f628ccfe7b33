"""What a plan reads of an audit: costs, cuts and logs by partition and broker, whether they are held or stored, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.report_rows import answers_of, finding, orders_row
from tests.support.some import some

from replica_audit.auditing.finding import KEPT_KEYS, UNSEEN_TAIL, WANTED, KeptKeys, UnseenTail
from replica_audit.auditing.leadership.needed_replicas import LOG_IN_USE, LOG_OF_FORMER_DISK, LOG_OF_LAST_TERM
from replica_audit.elect.cost_matrix import Matrix, pack_costs, remember_costs
from replica_audit.elect.plan_model import Candidate, Decision, SalvageSource
from replica_audit.model import TopicPartition
from replica_audit.results import Results
from replica_audit.schema import CaptureRow, Evidence
from replica_audit.warehouse.answer_parts import AnswerParts

PLACE, OTHER, CALM = TopicPartition("orders", 0), TopicPartition("x", 0), TopicPartition("y", 0)
Row = dict[str, Any]


def log(broker: int, end: int | None = 10, place: TopicPartition = PLACE, **said: Any) -> Row:
    known = {"role": "compared", "log_dir": f"broker-{broker}", "log_start_offset": 0, "clean_shutdown": False}
    return orders_row("replicas", broker_id=broker, log_end_offset=end, **{**known, **said}) | place._asdict()


def cost(candidate: int, broker: int, place: TopicPartition = PLACE, **said: Any) -> Row:
    known = {"kept_to": 10, "dropped_records": 0, "lost_held": 0, "lacked_records": 0, "lost_records": 0}
    return orders_row("elections", candidate_id=candidate, broker_id=broker, **{**known, **said}) | place._asdict()


def captured(broker: int, place: TopicPartition = PLACE, **said: Any) -> CaptureRow:
    known = {"needed": "isr", "missing": [], "log_dir": f"broker-{broker}"}
    return CaptureRow(**orders_row("captures", broker_id=broker, **{**known, **said}) | place._asdict())


def told(code: str, broker: int | None, *evidence: Evidence, severity: Any = "medium", **said: Any) -> Row:
    return finding(code, severity, broker_id=broker, evidence=evidence, **said)


def answers(
    replicas: Sequence[Row] = (),
    elections: Sequence[Row] = (),
    captures: Sequence[CaptureRow] = (),
    findings: Sequence[Row] = (),
    partitions: Sequence[Row] = (),
) -> Results:
    tables = {"replicas": replicas, "elections": elections, "findings": findings, "partitions": partitions}
    return replace(answers_of({}, {name: [*rows] for name, rows in tables.items()}), captures=[*captures])


def held(*parts: Results) -> list[Matrix]:
    """The matrix of all rows as they are held, and of the same rows as they are stored, a part for each of `parts`."""
    rows = {name: [row for part in parts for row in getattr(part, name)] for name in ("replicas", "elections")}
    whole = replace(parts[0], **rows)
    calm = [row for row in rows["replicas"] if not any(row[:2] == one[:2] for one in rows["elections"])]
    stored = replace(whole, replicas=calm, elections=[], stored=AnswerParts([*whole.partition_of], {}, ()))
    remember_costs(stored, [pack_costs(part, None) for part in parts])
    return [Matrix(whole), Matrix(stored)]


def matrices(**tables: Any) -> list[Matrix]:
    return held(answers(**tables))


def test_costs_and_cuts_are_found_by_partition_candidate_and_broker() -> None:
    first = answers(
        [log(1), log(2, 12)],
        [cost(1, 1, lost_records=2), cost(1, 2, kept_to=8, lost_held=2), cost(2, 2), cost(2, 1, kept_to=9)],
    )
    second = answers([log(1, place=OTHER), log(3, place=CALM)], [cost(1, 1, OTHER, lost_records=7)])
    for matrix in some(held(first, second)):
        assert (sorted(matrix.rows), len(matrix.rows), PLACE in matrix.rows, CALM in matrix.rows) == (
            [PLACE, OTHER],
            2,
            True,
            False,
        )
        assert sorted(matrix.replicas) == [PLACE, OTHER, CALM] and len(matrix.replicas) == 3
        assert CALM in matrix.replicas and [*matrix.replicas[CALM]] == [3]
        for _ in range(2):
            assert {one: row.lost_records for one, row in matrix.rows[PLACE].items()} == {1: 2, 2: 0}
            assert {one: row.lost_records for one, row in matrix.rows[OTHER].items()} == {1: 7}
        assert [row.kept_to for row in matrix.rows[PLACE].values()] == [10, 10], "the candidates' own"
        assert matrix.row(PLACE, 1) is matrix.rows[PLACE][1]
        assert matrix.row(PLACE, None) is matrix.row(PLACE, 3) is matrix.row(CALM, 3) is None
        cut = matrix.cut(PLACE, 1, 2)
        assert cut is not None and (cut.kept_to, cut.lost_held) == (8, 2)
        assert matrix.cut(PLACE, 1, 3) is matrix.cut(PLACE, 3, 1) is matrix.cut(CALM, 1, 2) is None
        assert matrix.cut_logs(PLACE, 1) == [2] and matrix.cut_logs(PLACE, 2) == [1]
        assert matrix.rows.get(CALM) is None


def test_a_log_that_ends_at_the_cut_is_not_cut_nor_one_whose_end_is_unknown() -> None:
    costs = [cost(1, one, kept_to=10) for one in (1, 2, 3, 4, 5)]
    for matrix in some(matrices(replicas=[log(1, 20), log(2, 10), log(3, None), log(5, 9)], elections=costs)):
        assert matrix.cut_logs(PLACE, 1) == []


def test_only_what_is_compared_is_a_replica_and_logs_beside_it_are_by_kind() -> None:
    beside = [
        log(2, role="duplicate", log_dir="old"),
        log(2, 30, role="future", log_dir="move"),
        log(1, role="earlier", log_dir="was"),
    ]
    for costs in ([cost(1, 1)], []):
        for matrix in some(matrices(replicas=[log(1), *beside], elections=costs)):
            assert [*matrix.replicas[PLACE]] == [1]
            assert [one.log_dir for one in matrix.other_disks(PLACE, 2)] == ["old"]
            assert matrix.future_copies(PLACE, 2) == ["move"]
            assert not matrix.other_disks(PLACE, 1) and not matrix.future_copies(PLACE, 1)
            assert not matrix.other_disks(OTHER, 2) and not matrix.future_copies(OTHER, 2)
            assert matrix.earlier == {"was/orders-0"}


def test_in_which_log_dirs_a_broker_has_partitions() -> None:
    rows = [
        log(1, log_dir="a"),
        log(1, log_dir="b", place=OTHER),
        log(1, log_dir="c", place=CALM, clean_shutdown=None),
        log(2, log_dir="d"),
    ]
    (matrix, _) = matrices(replicas=rows)
    assert matrix.log_dirs([PLACE, OTHER, TopicPartition("z", 0)], 1) == {"a", "b"}
    assert [matrix.log_dir(place, 1) for place in (PLACE, CALM, TopicPartition("z", 0))] == ["a", None, None]
    assert matrix.log_dir(PLACE, 3) is None


def test_who_holds_what_the_reference_lacks() -> None:
    rows = [log(2, place=OTHER, lost_held=1), log(3, lost_held=4), log(2, lost_held=2), log(1, lost_held=0)]
    (matrix, _) = matrices(replicas=rows)
    assert [(row.topic, row.broker_id) for row in matrix.holding()] == [("orders", 2), ("orders", 3), ("x", 2)]


@pytest.mark.parametrize(
    ("capture", "known"),
    [
        # (needed, other logs, left, absent, awaited)
        (captured(2), ([2], False, False, False, False)),
        (captured(2, needed=None), ([], False, False, False, False)),
        (captured(2, missing=[LOG_OF_LAST_TERM]), ([2], True, False, False, False)),
        (captured(2, missing=[LOG_OF_FORMER_DISK]), ([2], True, False, False, False)),
        (captured(2, missing=[LOG_IN_USE]), ([2], False, True, False, False)),
        (captured(2, missing=[LOG_IN_USE, LOG_OF_LAST_TERM]), ([2], True, False, False, False)),
        (captured(2, missing=[LOG_OF_LAST_TERM], state="absent"), ([2], True, False, False, False)),
        (captured(2, state="absent"), ([2], False, False, True, False)),
        (captured(2, state="awaited"), ([], False, False, False, True)),
        (captured(2, state="awaited", needed=None), ([], False, False, False, False)),
    ],
)
def test_what_is_missing_of_a_replica_that_is_needed(capture: CaptureRow, known: tuple) -> None:
    for matrix in some(matrices(captures=[capture])):
        place = (PLACE, 2)
        found = (place in matrix.other_logs, place in matrix.left, matrix.is_absent(*place), PLACE in matrix.awaited)
        assert (matrix.needed[PLACE], *found) == known


def test_a_broker_is_absent_only_if_nobody_has_a_copy() -> None:
    for matrix in some(matrices(replicas=[log(1)], captures=[captured(2, state="absent")])):
        assert matrix.needed[PLACE] == [2] and not matrix.is_absent(PLACE, 2)


CUT_FILES = ["leader-epoch-checkpoint", "replication-offset-checkpoint"]


@pytest.mark.parametrize(
    ("missing", "log_dir", "rows", "is_unmarked"),
    [
        (CUT_FILES, "broker-2", [log(2)], True),
        ([*CUT_FILES, "more"], "broker-2", [log(2)], True),
        (CUT_FILES[:1], "broker-2", [log(2)], False),
        (CUT_FILES[1:], "broker-2", [log(2)], False),
        # Of another log dir, or of no log that is used.
        (CUT_FILES, "old", [log(2)], False),
        (CUT_FILES, "a-old", [log(2)], False),
        (CUT_FILES, "broker-2", [log(1)], False),
        (CUT_FILES, "broker-2", [], False),
    ],
)
def test_without_either_file_nothing_shows_where_a_log_is_cut(
    missing: list[str], log_dir: str, rows: list[Row], is_unmarked: bool
) -> None:
    (matrix, _) = matrices(replicas=rows, captures=[captured(2, needed=None, missing=missing, log_dir=log_dir)])
    assert matrix.unmarked.get(2, []) == [PLACE] * is_unmarked


def test_findings_by_partition_and_broker() -> None:
    lacks = Evidence(WANTED, path="broker-2/0.log", position=0, value="7")
    keeps = Evidence(KEPT_KEYS, broker_id=1, value="3")
    (matrix, _) = matrices(
        findings=[
            told("CAP-MOVED", None), told("CAP-ABOVE-HW", 2), told("CAP-NOT-FROM-START", 2), told("CAP-UNCHECKED", 3),
            told("CAP-UNCHECKED", None), told("CAP-NOT-CAPTURED", 2, lacks), told("DIV-KEPT", 2, keeps), told("DIV-KEPT", 3),
            told("LOG-TAIL-GARBAGE", 2, confidence="suspect"), told("LOG-TAIL-GARBAGE", 3),
            told("CAP-MOVED", None, status="resolved", topic="x"),
        ]
    )  # fmt: skip
    assert matrix.moved == {PLACE}
    assert {trait: brokers for trait, brokers in matrix.unseen[PLACE].items() if brokers} == {
        "unseen_tail": [2], "unseen_head": [2], "unchecked": [3],
    }  # fmt: skip
    assert matrix.wanted == {PLACE: {2: 7}}
    assert matrix.kept_keys == {PLACE: {2: KeptKeys(1, 3)}}
    assert matrix.keeping_deleted(PLACE, 1) == (2,) and not matrix.keeping_deleted(PLACE, 2)
    assert not matrix.keeping_deleted(OTHER, 1) and not matrix.keeping_deleted(PLACE, 0)
    assert matrix.perhaps_damaged == {PLACE: {2}}


def test_who_is_surely_damaged_is_not_perhaps_so() -> None:
    (matrix, _) = matrices(
        findings=[told("LOG-TAIL-GARBAGE", 2), told("LOG-TAIL-GARBAGE", 2, severity="info", confidence="suspect")]
    )
    assert not matrix.perhaps_damaged and not matrix.moved and not matrix.unseen and not matrix.unseen_tails


TAIL = told("CAP-SKEW", 2, Evidence(UNSEEN_TAIL, broker_id=2, value="11"), start_offset=11, end_offset=20)
HELD_TAIL = told("CAP-SKEW", 2, Evidence(UNSEEN_TAIL, broker_id=2, value="20"), start_offset=11, end_offset=20)
OPEN = UnseenTail(2, 11, 20, 11, instead=None)


@pytest.mark.parametrize(
    ("tail", "costs", "asked", "open_"),
    [
        (TAIL, [cost(1, 1, choice="best")], None, [OPEN]),
        # Nobody is elected, or there is no such end.
        (TAIL, [], None, []),
        (None, [cost(1, 1, choice="best")], None, []),
        # Other replicas have it: it is open where the leader stays, which lacks it.
        (HELD_TAIL, [cost(1, 1, choice="best", standing="isr")], None, []),
        (HELD_TAIL, [cost(1, 1, choice="best", standing="leader", kept_to=20)], None, []),
        (HELD_TAIL, [cost(1, 1, choice="best", standing="leader", kept_to=15)], None, [(2, 11), (1, 15)]),
        (HELD_TAIL, [cost(1, 1, standing="leader", kept_to=15), cost(3, 3, choice="best")], None, []),
        (HELD_TAIL, [cost(1, 1, standing="leader", kept_to=15), cost(3, 3, choice="best")], 1, [(2, 11), (1, 15)]),
        (HELD_TAIL, [cost(1, 1, choice="best", standing="leader", kept_to=15), cost(3, 3)], 3, []),
        (HELD_TAIL, [cost(1, 1, choice="best", standing="leader", kept_to=15)], 9, [(2, 11), (1, 15)]),
        (HELD_TAIL, [cost(1, 1, standing="leader", kept_to=15)], None, []),
    ],
)
def test_ends_of_logs_that_leave_a_loss_open(
    tail: Row | None, costs: list[Row], asked: int | None, open_: list
) -> None:
    (matrix, _) = matrices(elections=costs, findings=[] if tail is None else [tail])
    found = matrix.open_tails(PLACE, asked)
    assert [(one.broker_id, one.start_offset) for one in found] == [tuple(one[:2]) for one in open_]
    assert matrix.all_open_tails(asked) == ({PLACE: found} if found else {})


def test_the_choice_is_who_was_asked_for_if_the_partition_has_it() -> None:
    (matrix, _) = matrices(elections=[cost(1, 1), cost(2, 2, choice="best")])
    assert [matrix.choice(PLACE, one) for one in (None, 1, 2, 3)] == [2, 1, 2, 2]
    assert matrix.best(OTHER) is matrix.choice(OTHER, 1) is None


def test_what_is_said_of_a_partition() -> None:
    (matrix, _) = matrices(partitions=[orders_row("partitions", reference_id=3, lost_records=4)])
    assert (matrix.reference(PLACE), matrix.lost(PLACE)) == (3, 4)
    assert matrix.reference(OTHER) is matrix.lost(OTHER) is None


def source(broker: int, start: int, end: int, records: int) -> SalvageSource:
    return SalvageSource(broker, f"broker-{broker}", start, end, records)


@pytest.mark.parametrize(
    ("rows", "cuts", "lost", "found"),
    [
        # Who holds most first; of equals the first broker; each record once.
        ([log(2, 14), log(3, 16)], {2: 4, 3: 6}, 10, [source(3, 10, 16, 6), source(2, 10, 14, 4)]),
        ([log(2, 14), log(3, 16)], {2: 4, 3: 6}, 6, [source(3, 10, 16, 6)]),
        ([log(2, 14), log(3, 16)], {2: 4, 3: 6}, 7, [source(3, 10, 16, 6), source(2, 10, 14, 4)]),
        ([log(3, 14), log(2, 14)], {2: 4, 3: 4}, 8, [source(2, 10, 14, 4)]),
        ([log(2, 14), log(3, 14)], {3: 4, 2: 4}, 8, [source(2, 10, 14, 4)]),
        ([log(2, 14), log(3, 15)], {2: 4, 3: 4}, 8, [source(2, 10, 14, 4), source(3, 10, 15, 4)]),
        ([log(2, 14)], {2: 0}, 4, []),
        ([log(2, None)], {2: 4}, 4, []),
        ([], {2: 4}, 4, []),
        ([log(2, 14)], {2: 4}, 0, []),
        # From where it holds them, above its log start and in its files.
        ([log(2, 14, log_start_offset=11)], {2: 4}, 4, [source(2, 11, 14, 4)]),
        ([log(2, 14, log_start_offset=5, local_start_offset=12)], {2: 4}, 4, [source(2, 12, 14, 4)]),
    ],
)
def test_from_which_replicas_lost_records_are_taken(
    rows: list[Row], cuts: Mapping[int, int], lost: int, found: list[SalvageSource]
) -> None:
    costs = [cost(1, 1, lost_records=lost), *(cost(1, one, lost_held=count) for one, count in cuts.items())]
    for matrix in some(matrices(replicas=rows, elections=costs)):
        assert matrix.sources(PLACE, 1) == tuple(found)


def test_records_are_taken_from_where_a_replica_parts_from_the_candidate_and_from_copies_beside() -> None:
    beside = [
        {"broker_id": 4, "log_dir": f"{name}/orders-0", "start_offset": 3, "end_offset": 9, "lost_held": 2}
        for name in ("was", "stray")
    ]
    copy = SalvageSource(4, "stray/orders-0", 3, 9, 2, "stray/orders-0")
    rows = [log(2, 14), log(4, role="earlier", log_dir="was")]
    for lost, replicas in ((4, [source(2, 8, 14, 4)]), (0, [])):
        own = cost(1, 1, lost_records=lost, beside=beside)
        for matrix in some(matrices(replicas=rows, elections=[own, cost(1, 2, lost_held=4, lost_from=8)])):
            assert matrix.sources(PLACE, 1) == (*replicas, copy)


def candidate(broker: int, lost: int = 0, hidden: int = 0) -> Candidate:
    return Candidate(
        broker, "isr", None, 10, lost, lost, 0, False, 0, hidden_records=hidden, groups_hit=None, damage=()
    )


def decision(*candidates: Candidate, place: TopicPartition = PLACE) -> Decision:
    """The first is chosen."""
    return Decision(
        *place, candidates[0].candidate_id, "", False, None, None, None, "elect", candidates=candidates, salvage=(), depends_on=()
    )  # fmt: skip


def test_a_pair_is_harmful_if_the_follower_loses_under_a_worse_leader_what_the_choice_keeps() -> None:
    costs = [
        cost(1, 2, lost_held=1), cost(2, 1, lost_held=2), cost(2, 2, lost_held=1), cost(2, 3, lost_held=1), cost(3, 1, lost_held=2),
        cost(1, 1, OTHER), cost(2, 1, OTHER, lost_held=2), cost(3, 1, OTHER, lost_held=2), cost(2, 3, OTHER, lost_held=1), cost(2, 1, CALM),
    ]  # fmt: skip
    (matrix, _) = matrices(elections=costs)
    worse = candidate(1), candidate(2, 5), candidate(3, 5)
    found = matrix.harmful([decision(*worse), decision(*worse, place=OTHER), decision(*worse, place=CALM)])
    assert found == dict.fromkeys((PLACE, OTHER), {(2, 1), (2, 3), (3, 1)}) and found[PLACE] is found[OTHER]
    assert matrix.harmful([decision(candidate(1), candidate(2), candidate(3))]) == {}
    assert matrix.harmful([decision(candidate(1, 5), candidate(2))]) == {}


KEEPS = told("DIV-KEPT", 3, Evidence(KEPT_KEYS, broker_id=1, value="3"))


@pytest.mark.parametrize(
    ("candidates", "rows", "findings", "holed"),
    [
        ((candidate(1), candidate(2, hidden=4)), [], [], {2: [PLACE]}),
        # Nobody lacks anything unseen, or the chosen one does.
        ((candidate(1), candidate(2)), [], [], {}),
        ((candidate(1, hidden=1), candidate(2, hidden=4)), [], [KEEPS], {}),
        # Or it keeps keys that the chosen one has deleted.
        ((candidate(1), candidate(2)), [], [KEEPS], {3: [PLACE]}),
        ((candidate(1), candidate(2, hidden=4)), [], [KEEPS], {2: [PLACE], 3: [PLACE]}),
        ((candidate(2), candidate(1)), [], [KEEPS], {}),
        # Nothing shows with which of two disks it starts.
        ((candidate(1), candidate(2, hidden=4)), [log(2, role="duplicate")], [KEEPS], {3: [PLACE]}),
        ((candidate(1), candidate(2, hidden=4)), [log(2, role="future")], [], {2: [PLACE]}),
    ],
)
def test_whose_log_differs_in_a_way_that_no_truncation_finds(
    candidates: tuple[Candidate, ...], rows: list[Row], findings: list[Row], holed: dict[int, list[TopicPartition]]
) -> None:
    costs = [cost(1, 1), cost(1, 2, lacked_records=4), cost(1, 3), cost(2, 1), cost(2, 3)]
    (matrix, _) = matrices(replicas=rows, elections=costs, findings=findings)
    lacking = decision(candidate(1, hidden=1), candidate(2, hidden=4))
    assert matrix.holed([lacking, decision(*candidates)]) == holed


def test_a_decision_for_another_candidate_has_what_follows_from_its_costs() -> None:
    costs = [cost(1, 1), cost(2, 2, lost_records=4), cost(2, 3, lost_held=4)]
    keeps = told("DIV-KEPT", 3, Evidence(KEPT_KEYS, broker_id=2, value="3"))
    (matrix, _) = matrices(replicas=[log(3, 14)], elections=costs, findings=[keeps])
    other = matrix.instead(decision(candidate(1), candidate(2, 4)), 2, "it was said")
    assert (other.candidate_id, other.salvage, other.keeps_deleted) == (2, (source(3, 10, 14, 4),), (3,))
    assert other.reason.endswith(". It was said")

"""The cost matrix of captures beside what was acknowledged, and of small clusters by hand."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.support.captures import FIXTURES, audit_capture, truth
from tests.support.coordinator_log import COMPLETE_COMMIT, ONGOING, OVER, PREPARE_COMMIT, log_value
from tests.support.coordinator_log import coordinator as write_coordinator
from tests.support.encoder import Record, encode_batch, encode_marker
from tests.support.histories import history
from tests.support.made_cases import case, compared, leadership, log, segment
from tests.support.report_rows import answers_of, tables_of
from tests.support.scanned import batches_of, scan_file
from tests.support.scenario import Answer, asked_costs, audit, written
from tests.support.scenes import change, scene
from tests.support.snapshots import TOPIC, Replica
from tests.support.some import some

from replica_audit.auditing.compare.distinct_records import RecordRange
from replica_audit.config import Settings
from replica_audit.elect.costs import lost_past_end, may_have_lost_tail
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.held_records import CommittedRange
from replica_audit.model import CHUNK_OFFSETS, TopicPartition
from replica_audit.report.plan_text import tell_decisions
from replica_audit.runner.in_process import audit_all
from replica_audit.segments.records import decode_records

#: Captures in which replicas hold different records, or nobody leads.
DECIDED = (
    "diverged-unclean",
    "diverged-multi",
    "diverged-multi2",
    "diverged-clean",
    "elr-leaderless",
    "elr-elected",
    "last-replica-elr-2-cut",
    "last-replica-standing-2-cut",
    "quorum3-1-unclean",
    "txn-failover-1-unclean",
    "kafka-3.6-diverged-unclean",
    "kafka-3.9-diverged-unclean",
    "zk-2.8-diverged-unclean",
)


class _Values:
    """In place of keyed hashes those that truth.json has: of the value alone."""

    nothing = bytes(8)

    def digest(self, *parts: bytes | None) -> bytes:
        return hashlib.sha256(parts[-1] or b"").digest()[:8]

    def digests(self, key: bytes | None, value: bytes | None) -> tuple[bytes, bytes]:
        return self.digest(key), self.digest(value)


def number_of(hexadecimal: str) -> int:
    """The first half of a hash as a row of decoded records has it."""
    return int.from_bytes(bytes.fromhex(hexadecimal), sys.byteorder)


@cache
def held(capture: str, broker: int, partition: str) -> frozenset[tuple[int, int]]:
    """(offset, hash of the value) of every record that one replica holds."""
    found = set()
    for directory in (FIXTURES / capture).glob(f"broker-{broker}/**/{partition}"):
        for path in directory.glob("*.log"):
            content = path.read_bytes()
            for batch in batches_of(scan_file(path)):
                start, size = int(batch["position"]), int(batch["size"])
                for record in decode_records(content[start : start + size], _Values()):
                    if not record["control"]:
                        found.add((int(record["offset"]), int(record["content"])))
    return frozenset(found)


@cache
def acknowledged(capture: str, promised: bool) -> dict[str, frozenset[tuple[int, int]]]:
    """Records acknowledged to producers, by partition; `promised` are those that Kafka promises to keep: acknowledged with
    acks=all, or written by a leader alone in sync."""
    found = defaultdict(set)
    for row in truth(capture)["produced"]:
        one = dict(zip(truth(capture)["produced_columns"], row, strict=True))
        name = f"{one['topic']}-{one['partition']}"
        if one["error"] is not None or one["offset"] is None or one["offset"] < 0:
            continue
        phase = truth(capture)["phases"].get(one["phase"]) or {}
        _, isr = (phase.get("leader_isr") or {}).get(name) or (None, None)
        least = int(truth(capture)["topics"][one["topic"]]["config"].get("min.insync.replicas", 1))
        if promised and one["acks"] != "all" and (isr is None or len(isr) > 1 or least > 1):
            continue
        value = one["value_sha256_16"] or hashlib.sha256(b"").hexdigest()[:16]
        found[name].add((one["offset"], number_of(value)))
    return {name: frozenset(items) for name, items in found.items()}


def elections(capture: str) -> list[tuple[str, list[dict]]]:
    """Partitions with their rows of the cost matrix."""
    answers = audit_capture(capture)
    return [(name, list(results.rows("elections"))) for name, results in answers.items() if results.rows("elections")]


@pytest.mark.parametrize("capture", DECIDED)
def test_the_best_choice_loses_no_more_acknowledged_records_than_any_other(capture: str) -> None:
    promised, told = acknowledged(capture, True), acknowledged(capture, False)
    decided = [(name, rows) for name, rows in elections(capture) if name in told]
    assert decided
    for name, rows in decided:
        own = [row for row in rows if row["candidate_id"] == row["broker_id"]]
        copies = {row["candidate_id"]: held(capture, row["candidate_id"], name) for row in own}
        everything = frozenset().union(*copies.values())
        kept = promised.get(name, frozenset()) & everything
        lost = {broker: len(kept - copy) for broker, copy in copies.items()}
        (best,) = [row["candidate_id"] for row in own if row["choice"] == "best"]
        assert lost[best] == min(lost.values()), (name, best, lost)
        for row in own:
            # Nothing that was acknowledged is missing from the number that the matrix gives.
            gone = (told[name] & everything) - copies[row["candidate_id"]]
            assert len(gone) <= row["lost_records"], (name, row)
            assert lost[row["candidate_id"]] <= row["lost_committed"] + row["lost_possible"], (name, row, lost)


@pytest.mark.parametrize("capture", DECIDED)
def test_the_matrix_of_the_leader_is_what_the_audit_says_of_it(capture: str) -> None:
    for name, results in some(audit_capture(capture).items()):
        (partition,) = results.rows("partitions")
        for row in results.rows("elections"):
            if row["candidate_id"] != partition["reference_id"] or row["broker_id"] == row["candidate_id"]:
                continue
            (told,) = [
                one
                for one in results.rows("truncations")
                if (one["broker_id"], one["protocol"]) == (row["broker_id"], "fetch")
            ]
            same = ("dropped_records", "dropped_bytes", "committed_dropped")
            assert row["kept_to"] == told["truncate_to"], name
            assert [row[key] for key in same] == [told[key] for key in same], name
            if partition["leader_id"] is not None:
                assert row["lost_committed"] == partition["lost_committed"], name
                # What a clean election left behind is gone too, though it does not count as a loss.
                pending = [one for one in results.rows("divergences") if one["code"] == "DIV-TAIL-PENDING"]
                assert row["lost_records"] == partition["lost_records"] or pending, name


def answers_with(snapshot: Path, up: tuple[int, ...] | None):
    """Answers where a user says who is up."""
    return Answer(tables_of(audit_all(str(snapshot), Settings(), asked=[TopicPartition(TOPIC, 0)], up=up)))


def own_rows(answer) -> dict[int, dict]:
    return {row["candidate_id"]: row for row in answer.tables["elections"] if row["candidate_id"] == row["broker_id"]}


def test_a_calm_partition_has_no_matrix(tmp_path: Path) -> None:
    same = Replica(written(0, 20, 1))
    assert audit(tmp_path, {1: same, 2: same}, isr=(1, 2)).rows("elections") == []


@pytest.mark.parametrize(
    ("source", "rights"),
    [
        ("topics_describe", {1: ("leader", True), 2: ("isr", True), 3: ("out_of_sync", False)}),
        ("inferred", dict.fromkeys((1, 2, 3), ("unknown", None))),
    ],
)
def test_each_candidate_has_its_right_and_the_best_has_the_reason(
    tmp_path: Path, source: str, rights: dict[int, tuple[str, bool | None]]
) -> None:
    whole = Replica(written(0, 60, 1), high_watermark=60)
    audit(tmp_path, {1: whole, 2: whole, 3: Replica(written(0, 30, 1))}, isr=(1, 2), source=source)
    rows = answers_with(tmp_path, None).tables["elections"]
    assert {row["candidate_id"]: (row["standing"], row["clean"]) for row in rows} == rights
    assert {(row["candidate_id"], row["choice"], row["reason"] is None) for row in rows} == {
        (1, "best", False),
        (2, None, True),
        (3, "worst", True),
    }


def test_the_same_records_on_two_brokers_are_lost_once(tmp_path: Path) -> None:
    leader = Replica([*written(0, 30, 1), *written(30, 40, 2, "new ")])
    old = Replica([*written(0, 30, 1), *written(30, 50, 1)], high_watermark=45)
    rows = own_rows(audit(tmp_path, {1: leader, 2: old, 3: old}, isr=(1,)))
    assert (rows[1]["lost_records"], rows[1]["lost_committed"]) == (20, 15)
    assert rows[2]["lost_records"] == rows[3]["lost_records"] == 10
    assert rows[2]["only_here"] == rows[3]["only_here"] == 0
    assert rows[1]["only_here"] == 10
    assert rows[2]["choice"] == "best" and rows[1]["choice"] == "worst"


@pytest.mark.parametrize(
    ("marks", "lost"),
    [({}, 0), ({"high_watermark": 36}, 6), ({"recovery_point": 36}, 6)],
    ids=["copied earlier", "high watermark", "recovery point"],
)
def test_a_leader_whose_own_checkpoint_lies_past_its_end_may_have_lost_what_the_others_have(
    tmp_path: Path, marks: dict, lost: int
) -> None:
    short = Replica(written(0, 30, 1), **{"high_watermark": 30, "recovery_point": 0, **marks})
    whole = Replica(written(0, 36, 1), high_watermark=30)
    answer = audit(tmp_path, {1: short, 2: whole, 3: Replica(written(0, 30, 1)[:-1])}, isr=(1, 2))
    rows = own_rows(answer)
    if not lost:
        assert rows == {} and answer.verdict == "LAGGING", answer
        return
    assert (rows[1]["lost_records"], rows[1]["lost_committed"], rows[1]["lost_possible"]) == (lost, 0, lost), answer
    assert rows[2]["lost_records"] == 0 and rows[2]["choice"] == "best"


def test_the_epoch_goes_before_length(tmp_path: Path) -> None:
    """Broker 2 is longer by records of an old epoch; broker 1 has those of the later one, and nobody leads."""
    later = Replica([*written(0, 30, 1), *written(30, 33, 3)], high_watermark=33)
    longer = Replica([*written(0, 30, 1), *written(30, 90, 2)], high_watermark=30)
    rows = own_rows(audit(tmp_path, {1: later, 2: longer}, leader=1, isr=(1,)))
    assert rows[1]["lost_committed"] == 0 and rows[2]["lost_committed"] == 3


def test_a_transaction_that_is_partly_lost_is_counted(tmp_path: Path) -> None:
    begun = encode_batch(30, 3, 1, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    rest = encode_batch(33, 3, 1, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    leader = Replica([*written(0, 30, 1), begun, *written(33, 36, 2)])
    other = Replica([*written(0, 30, 1), begun, rest, encode_marker(36, "COMMIT", 1, producer_id=7, producer_epoch=0)])
    rows = own_rows(audit(tmp_path, {1: leader, 2: other}, isr=(1,)))
    assert (rows[1]["cut_transactions"], rows[2]["cut_transactions"]) == (1, 0)


def _begun(base: int, epoch: int = 0, producer: int = 7, leader_epoch: int = 1, mark: str = "") -> bytes:
    return encode_batch(
        base,
        3,
        leader_epoch,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
        mark=f"{mark}{base} ",
    )


def _ended(base: int, outcome: str = "COMMIT", epoch: int = 0, producer: int = 7, leader_epoch: int = 1) -> bytes:
    return encode_marker(base, outcome, leader_epoch, producer_id=producer, producer_epoch=epoch)


def _aborted(base: int, outcome: str = "ABORT", producer: int = 7, leader_epoch: int = 1) -> list[bytes]:
    """A transaction of one batch, and its marker."""
    data = _begun(base, 1, producer, leader_epoch, f"{leader_epoch} ")
    return [data, _ended(base + 3, outcome, 1, producer, leader_epoch)]


#: A marker whose record says neither.
_UNREADABLE = encode_batch(33, [Record(b"", b"")], 2, producer_id=7, producer_epoch=0, transactional=True, control=True)


@pytest.mark.parametrize(
    ("tail", "cut"),
    [
        ([_ended(33)], 1),
        ([_ended(33, "ABORT", epoch=1)], 1),
        ([_ended(33, "COMMIT", epoch=1), _begun(34, epoch=1), _ended(37, "COMMIT", epoch=2)], 1),
        ([_begun(33), _ended(36)], 1),
        ([_begun(33, epoch=1), _ended(36, epoch=1)], 1),
        ([_begun(33, epoch=1)], 0),
        ([_begun(33, producer=8), _ended(36, producer=8)], 0),
        (written(33, 36, 1, "old "), 0),
    ],
    ids=[
        "marker",
        "aborted by the coordinator",
        "KIP-890",
        "data and marker",
        "of both",
        "next one",
        "another's",
        "no end",
    ],
)
def test_a_transaction_without_its_end_is_a_cost(tmp_path: Path, tail: list[bytes], cut: int) -> None:
    """The marker of a transaction is the next of its producer, of its epoch or a later one: also if another began before
    (`ProducerAppendInfo.append` keeps the first offset)."""
    leader = Replica([*written(0, 30, 1), _begun(30), *written(33, 36, 2)])
    old = Replica([*written(0, 30, 1), _begun(30), *tail])
    rows = own_rows(audit(tmp_path, {1: leader, 2: old}, isr=(1,)))
    assert (rows[1]["cut_transactions"], rows[2]["cut_transactions"]) == (cut, 0)


@pytest.mark.parametrize(
    ("tail", "prepared", "cut"),
    [
        ([_ended(33, epoch=1)], None, 1),
        ([_begun(33), _ended(36, epoch=1)], None, 1),
        ([_ended(33, epoch=1)], 2, 1),
        ([_ended(33, epoch=1)], 1, 0),
        (written(33, 36, 1, "old "), None, 0),
    ],
    ids=["marker", "data and marker", "the later one is about to end", "it is written again", "no end"],
)
def test_the_end_of_a_transaction_is_a_cost_though_its_producer_has_begun_another(
    tmp_path: Path, tail: list[bytes], prepared: int | None, cut: int
) -> None:
    """The marker of the later one ends both: what was committed is aborted with it."""
    leader = Replica([*written(0, 30, 1), _begun(30), *written(33, 36, 2), _begun(36, epoch=1, leader_epoch=2)])
    old = Replica([*written(0, 30, 1), _begun(30), *tail])
    states = [] if prepared is None else [log_value(7, prepared, PREPARE_COMMIT, {TOPIC: [0]}, updated=OVER)]
    options = {"before_audit": write_coordinator(tmp_path, *states)} if states else {}
    rows = own_rows(audit(tmp_path, {1: leader, 2: old}, isr=(1,), **options))
    assert rows[1]["cut_transactions"] == cut


@pytest.mark.parametrize(
    ("ours", "theirs", "cut"),
    [
        ([_ended(33, "ABORT", leader_epoch=2)], [_ended(33)], (1, 0)),
        ([_ended(33, "ABORT", epoch=1, leader_epoch=2)], [_ended(33)], (1, 0)),
        ([_ended(33, "ABORT", leader_epoch=2)], [_begun(33), _ended(36)], (1, 0)),
        ([_ended(33, "ABORT", leader_epoch=2)], [_begun(33)], (0, 1)),
        ([_ended(33, "ABORT", leader_epoch=2)], [_ended(33, "ABORT")], (0, 0)),
        ([_ended(33, "COMMIT", leader_epoch=2)], [_ended(33, "COMMIT")], (0, 0)),
        ([_ended(33, "COMMIT", leader_epoch=2)], [_ended(33, "ABORT")], (0, 1)),
        (
            [_ended(33, "COMMIT", leader_epoch=2), *_aborted(34, leader_epoch=2)],
            [_ended(33, "COMMIT"), _begun(34, mark="old "), _ended(37)],
            (0, 0),
        ),
        (
            [_ended(33, leader_epoch=2), *_aborted(34, leader_epoch=2, producer=8)],
            [_ended(33), *_aborted(34, "COMMIT", producer=8)],
            (0, 0),
        ),
        ([_UNREADABLE], [_ended(33)], (1, 0)),
    ],
    ids=[
        "marker",
        "aborted by the coordinator",
        "data and marker",
        "no end",
        "both abort",
        "both commit",
        "the other way",
        "next one",
        "another's",
        "unreadable",
    ],
)
def test_a_transaction_that_one_log_aborts_and_another_commits_is_a_cost(
    tmp_path: Path, ours: list[bytes], theirs: list[bytes], cut: tuple[int, int]
) -> None:
    """Readers do not see the records that both logs have, once the log leads that aborted them."""
    begun = [*written(0, 30, 1), _begun(30)]
    leader, old = Replica([*begun, *ours], high_watermark=30), Replica([*begun, *theirs], high_watermark=30)
    rows = own_rows(audit(tmp_path, {1: leader, 2: old}, isr=(1,)))
    assert (rows[1]["cut_transactions"], rows[2]["cut_transactions"]) == cut


def test_the_only_log_that_committed_a_transaction_is_copied_though_the_leader_stays(tmp_path: Path) -> None:
    """Its marker is gone as soon as its broker follows, and no record is."""
    begun = [*written(0, 30, 1), _begun(30)]
    leader = Replica([*begun, _ended(33, "ABORT", leader_epoch=2), *written(34, 40, 2)])
    answer = audit(tmp_path, {1: leader, 2: Replica([*begun, _ended(33)]), 3: Replica(begun)}, isr=(1,))
    results = answers_of({}, answer.tables)
    plan = plan_elections(results)
    assert [(one.candidate_id, one.procedure) for one in plan.decisions] == [(1, "confirm")]
    (step,) = [one for one in plan.steps if one.action == "copy"]
    assert step.brokers == (2,) and step.partitions == ((TOPIC, 0),)
    (decided,) = [one for one in tell_decisions(plan) if one.asks_for_something]
    assert "Broker 1 loses the end of 1 transaction" in decided.sentence


@pytest.mark.parametrize(
    "there", [written(30, 33, 2), [_begun(30, leader_epoch=2, mark="other ")]], ids=["lost", "other"]
)
@pytest.mark.parametrize(
    ("values", "cut"),
    [
        ([log_value(7, 1, COMPLETE_COMMIT, {}, updated=OVER)], 1),
        ([log_value(7, 0, ONGOING, {TOPIC: [0]}, updated=OVER)], 0),
        ([], 0),
    ],
    ids=["ended", "in progress", "not known"],
)
def test_a_marker_whose_data_the_leader_has_lost_is_a_cost_where_the_coordinator_has_ended_the_transaction(
    tmp_path: Path, values: list[bytes], cut: int, there: list[bytes]
) -> None:
    """Of a producer that goes on with the same epoch the marker may be another transaction's."""
    leader = Replica([*written(0, 30, 1), *there, _ended(33, epoch=1, leader_epoch=2)], high_watermark=34)
    old = Replica([*written(0, 30, 1), _begun(30)], high_watermark=33)
    options = {"before_audit": write_coordinator(tmp_path, *values)} if values else {}
    rows = own_rows(audit(tmp_path, {1: leader, 2: old}, isr=(1,), **options))
    assert (rows[1]["cut_transactions"], rows[2]["cut_transactions"]) == (0, cut)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(("later", "cut"), [(1, 1), (0, 0)])
def test_a_producer_that_goes_on_in_a_later_epoch_has_ended_what_it_began_in_an_earlier_one(
    tmp_path: Path, is_known: bool, later: int, cut: int
) -> None:
    values = [log_value(7, later, ONGOING, {TOPIC: [0]}, updated=OVER)] if is_known else []
    leader = Replica([*written(0, 30, 1), _ended(30, epoch=1, leader_epoch=2)], high_watermark=31)
    old = Replica([*written(0, 30, 1), _begun(30), _begun(33, epoch=later)], high_watermark=33)
    options = {"before_audit": write_coordinator(tmp_path, *values)} if values else {}
    rows = own_rows(audit(tmp_path, {1: leader, 2: old}, isr=(1,), **options))
    assert rows[2]["cut_transactions"] == cut


@pytest.mark.parametrize(
    ("tail", "values", "cut"),
    [
        ([_begun(33)], [log_value(7, 0, ONGOING, {TOPIC: [0]}, updated=OVER)], 0),
        ([_begun(33)], [log_value(7, 0, COMPLETE_COMMIT, {}, updated=OVER)], 1),
        ([_begun(33)], [], 1),
        ([_begun(33), _ended(36)], [log_value(7, 0, PREPARE_COMMIT, {TOPIC: [0]}, updated=OVER)], 0),
        ([_begun(33), _ended(36)], [log_value(7, 0, ONGOING, {TOPIC: [0]}, updated=OVER)], 1),
    ],
    ids=["in progress", "ended", "not known", "its marker comes again", "another is in progress"],
)
def test_a_transaction_that_loses_data_alone_is_no_cost_where_its_end_is_yet_to_come(
    tmp_path: Path, tail: list[bytes], values: list[bytes], cut: int
) -> None:
    """What is lost of it counts among the records."""
    begun = [*written(0, 30, 1), _begun(30)]
    logs = {1: Replica([*begun, *written(33, 36, 2)]), 2: Replica([*begun, *tail])}
    options = {"before_audit": write_coordinator(tmp_path, *values)} if values else {}
    rows = own_rows(audit(tmp_path, logs, isr=(1,), **options))
    assert (rows[1]["cut_transactions"], rows[2]["cut_transactions"], rows[1]["lost_records"]) == (cut, 0, 3)


def test_a_committed_marker_decides_between_candidates_that_lose_no_record(tmp_path: Path) -> None:
    short = Replica([*written(0, 30, 1), _begun(30)], epochs=[(1, 0), (2, 33)])
    whole = Replica([*written(0, 30, 1), _begun(30), _ended(33)], high_watermark=34)
    rows = own_rows(audit(tmp_path, {1: short, 2: whole}, isr=(1,)))
    assert (rows[1]["lost_records"], rows[1]["cut_transactions"]) == (0, 1)
    assert rows[2]["choice"] == "best"
    assert rows[2]["reason"] == "broker 2 loses nothing; broker 1 would lose the end of 1 transaction"


@pytest.mark.parametrize(
    ("epoch", "mark", "is_cut"),
    [(1, 30, False), (2, 30, True), (1, 34, True)],
    ids=["it may have it", "a later leader wrote it", "it may have lost it"],
)
def test_a_marker_past_the_end_of_a_leader_that_was_copied_earlier_is_lost_if_that_may_not_have_it(
    tmp_path: Path, epoch: int, mark: int, is_cut: bool
) -> None:
    short = Replica([*written(0, 30, 1), _begun(30)], high_watermark=mark)
    whole = Replica([*written(0, 30, 1), _begun(30), _ended(33, leader_epoch=epoch)], high_watermark=30)
    other = Replica(written(0, 30, 1, "other "), high_watermark=30)
    rows = own_rows(audit(tmp_path, {1: short, 2: whole, 3: other}, isr=(1,)))
    assert rows[1]["cut_transactions"] == is_cut


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_transaction_that_is_open_across_what_both_logs_have_alike_is_cut(tmp_path: Path, is_ended: bool) -> None:
    """It begins two chunks below the fork, and each leader ended it otherwise; not where it had ended between."""
    fork = 3 * CHUNK_OFFSETS + 100
    rest = [_ended(20_000, leader_epoch=0)] if is_ended else written(20_000, 20_001, 0)
    between = [*written(13, 20_000, 0, step=19_987), *rest, *written(20_001, fork, 0, step=30_000)]
    shared = [*written(0, 10, 0), _begun(10, leader_epoch=0), *between]
    ends = {1: _ended(fork, "ABORT", 1), 2: _ended(fork, epoch=1, leader_epoch=0)}
    logs = {one: Replica([*shared, end], high_watermark=fork + one - 1) for one, end in ends.items()}
    rows = own_rows(audit(tmp_path, logs, isr=(1,)))
    assert rows[1]["cut_transactions"] == (not is_ended)


def test_a_marker_that_a_clean_election_left_behind_is_written_again(tmp_path: Path) -> None:
    """The coordinator has no answer from a leader that was replaced, and sends the marker to the next one."""
    leader = Replica([*written(0, 30, 0), _begun(30, leader_epoch=0), *written(33, 36, 1, "new ")], high_watermark=30)
    old = Replica([*written(0, 30, 0), _begun(30, leader_epoch=0), _ended(33, leader_epoch=0)], high_watermark=30)
    moves = [change(leader=2, isr=(2, 3))]
    rows = own_rows(scene(tmp_path, {1: old, 2: leader, 3: leader}, *moves))
    assert rows and {row["cut_transactions"] for row in rows.values()} == {0}


def test_a_cluster_that_was_stopped_cleanly_has_nothing_to_decide() -> None:
    assert [name for name, _ in elections("healthy")] == []


@pytest.mark.parametrize(
    ("capture", "said"),
    [("zk-2.8-diverged-unclean", "34 likely committed records"), ("diverged-unclean", "45 committed records")],
)
def test_what_a_choice_loses_is_called_as_sure_as_the_finding_does(capture: str, said: str) -> None:
    results = audit_all(str(FIXTURES / capture), Settings())
    plan = plan_elections(results)
    assert plan.decisions[0].reason.endswith(f"broker 1, the next best, would lose {said}")
    held = next(step.text for step in plan.steps if step.action == "copy")
    is_likely = "likely" in said
    assert ("likely committed records" in held) == is_likely
    own = [row for row in results.elections if row.candidate_id == row.broker_id == 1]
    assert [row.is_only_likely for row in own][0] == is_likely
    # What broker 0 loses was the leader's.
    assert not any(row.is_only_likely for row in results.elections if row.candidate_id == 0)


def test_of_equals_the_replica_that_lacks_nothing_is_chosen() -> None:
    """Broker 2 lost 15 records in the middle of a segment, which no truncation finds."""
    ((_, rows),) = [one for one in elections("corrupted-middle-zeros") if one[1]]
    own = {row["candidate_id"]: row for row in rows if row["candidate_id"] == row["broker_id"]}
    assert {broker: row["hidden_records"] for broker, row in own.items()} == {0: 0, 2: 15}
    assert own[0]["choice"] == "best" and own[0]["reason"].endswith(
        "broker 2 would lose nothing more that the copies here have, but lacks 15 records, perhaps committed, that another replica has, a "
        "difference that no truncation finds"
    )


@pytest.mark.parametrize(
    ("is_clean", "up", "isr", "best"),
    [
        (False, None, (1, 2), 2),
        (False, None, (1,), 1),
        (True, None, (1, 2), 2),
        (True, None, (1,), 2),
        (True, (1,), (1,), 1),
        (False, (2,), (1,), 1),
        (False, (2,), (1, 2), 2),
    ],
    ids=[
        "running",
        "running, alone in sync",
        "stopped",
        "stopped, alone in sync",
        "up again",
        "down, perhaps since its copy, alone in sync",
        "down, perhaps since its copy",
    ],
)
def test_a_leader_with_a_hole_gives_way_to_a_whole_replica_that_loses_nothing(
    tmp_path: Path, is_clean: bool, up: tuple[int, ...] | None, isr: tuple[int, ...], best: int
) -> None:
    """Unless that one would be elected uncleanly in place of a leader that may have more than its copy."""
    batches = written(0, 60, 1)
    holed, whole = (
        Replica(some, high_watermark=60, clean_shutdown=is_clean) for some in ([*batches[:2], *batches[4:]], batches)
    )
    audit(tmp_path, {1: holed, 2: whole}, isr=isr)
    own = own_rows(answers_with(tmp_path, up))
    assert {broker: (row["lost_records"], row["hidden_records"]) for broker, row in own.items()} == {
        1: (0, 10),
        2: (0, 0),
    }
    assert [broker for broker, row in own.items() if row["choice"] == "best"] == [best], own[best]["reason"]
    passed_over = "Broker 2 could only be elected uncleanly, in place of a leader that may have more than its copy"
    assert (passed_over in own[best]["reason"]) == (best == 1)


@pytest.mark.parametrize(
    ("copied", "best"), [({"in_order": True}, 1), ({"quiesced": True}, 2)], ids=["perhaps before", "after it went"]
)
def test_a_leader_that_is_down_gives_way_uncleanly_only_where_it_was_down_as_it_was_copied(
    tmp_path: Path, copied: dict[str, bool], best: int
) -> None:
    """Else it may have written on since: files that are in order do not show that it had gone."""
    batches = written(0, 60, 1)
    brokers = {1: Replica([*batches[:2], *batches[4:]], high_watermark=60), 2: Replica(batches, high_watermark=60)}
    audit(tmp_path, brokers, isr=(1,), **copied)
    own = own_rows(answers_with(tmp_path, (2,)))
    assert [broker for broker, row in own.items() if row["choice"] == "best"] == [best], own[best]["reason"]


def test_numbers_do_not_tell_which_of_two_sides_is_right(tmp_path: Path) -> None:
    """One has a marker among the records in which they differ, and so fewer of them."""
    before, after = written(0, 30, 1), written(40, 60, 1)
    sent = encode_batch(30, 9, 1, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    marker = encode_marker(39, "COMMIT", 1, producer_id=5, producer_epoch=0)
    sides = {1: [sent, marker], 2: written(30, 40, 1, "other ")}
    own = own_rows(audit(tmp_path, {one: Replica([*before, *side, *after]) for one, side in sides.items()}, isr=(1, 2)))
    assert {broker: (row["hidden_records"], row["choice"]) for broker, row in own.items()} == {
        1: (10, "best"),
        2: (9, None),
    }


def test_a_leader_whose_files_are_of_different_moments_stays(tmp_path: Path) -> None:
    """By its flag it was stopped, but its log may be an earlier copy: nobody who was not in sync has what it wrote since."""
    log = written(0, 60, 1)
    apart = Replica(log, high_watermark=60, recovery_point=30, epochs=(), clean_shutdown=True)
    audit(tmp_path, {1: apart, 2: Replica(log, high_watermark=60, clean_shutdown=True)}, isr=(1,))
    rows = own_rows(answers_with(tmp_path, None))
    assert rows[1]["damage"] == ["EPO-FILE-CORRUPT"] and rows[1]["choice"] == "best", rows[2]["reason"]


@pytest.mark.parametrize(("is_clean", "best"), [(False, 1), (True, 2)], ids=["running", "stopped"])
def test_a_stopped_leader_with_damaged_files_gives_way_to_a_sound_replica(
    tmp_path: Path, is_clean: bool, best: int
) -> None:
    sound = Replica(written(0, 60, 1), high_watermark=60, clean_shutdown=is_clean)
    damaged = dataclasses.replace(sound, replace={f"{sound.name}/leader-epoch-checkpoint": b"0\n1\nno numbers\n"})
    audit(tmp_path, {1: damaged, 2: sound})
    rows = own_rows(answers_with(tmp_path, None))
    assert rows[1]["damage"] and rows[best]["choice"] == "best", rows[best]["reason"]


@pytest.mark.parametrize(
    ("tail_epoch", "source", "possible"),
    [(1, "topics_describe", 3), (1, "user", 3), (0, "topics_describe", 0), (0, "user", 0)],
)
def test_what_an_outsider_has_of_a_later_epoch_than_the_leader_knows_is_possibly_lost(
    tmp_path, tail_epoch, source, possible
):
    """Either the listing is older than the logs, or the leader was elected without these records; those of its own epoch it
    may have had after it was copied."""
    common = written(0, 19, 0)
    brokers = {1: Replica(common), 2: Replica([*common, *written(19, 22, tail_epoch)])}
    answer = audit(tmp_path, brokers, leader=1, isr=(1,), source=source, leader_epoch=0 if source == "user" else None)
    assert asked_costs(tmp_path) == {1: (possible, 0, possible), 2: (0, 0, 0)}
    assert answer.codes("medium") == ({"CAP-SKEW"} if possible else set()), answer
    assert (answer.verdict == "INCONCLUSIVE") is bool(possible)


@pytest.mark.parametrize("capture", ["old-formats", "old-upgraded"])
def test_equal_logs_of_old_formats_lose_nothing_whoever_leads_compacted_ones_too(capture):
    partitions = [TopicPartition("compact-v0", 0), TopicPartition("fmt-v0", 0), TopicPartition("mixed", 0)]
    settings = Settings(topics=("compact-v0", "fmt-v0", "mixed"))
    rows = audit_all(str(FIXTURES / capture), settings, asked=partitions).elections
    costs = [(row.lost_records, row.lost_committed, row.lost_possible) for row in rows]
    assert len(costs) == 4 * len(partitions) and set(costs) == {(0, 0, 0)}


LINEAGE = ((0, 0), (2, 20))
SHOWN_IN_PART = segment(0, 40, *LINEAGE, unproven=("rest",))


@pytest.mark.parametrize(
    ("copied", "known", "may_have_lost"),
    [
        ({}, {}, False),
        ({"killed": True}, {}, True),
        ({}, {"said": leadership(perhaps_down={1})}, True),
        ({}, {"said": leadership(perhaps_down={2})}, False),
        ({"checkpoint_epochs": (*LINEAGE, (3, 50))}, {}, True),
        ({"checkpoint_epochs": (*LINEAGE, (3, 50)), "is_live": True}, {}, False),
        ({"recovery_point_checkpoint": 41}, {}, True),
        ({"recovery_point_checkpoint": 39}, {}, False),
        ({"recovery_point_checkpoint": 41, "segments": [SHOWN_IN_PART]}, {}, False),
        ({"high_watermark_checkpoint": 45}, {}, True),
        ({}, {"predates": True}, True),
        ({}, {"predates": True, "history": history()}, False),
        # Somebody has led later than it is known to lead; of a file of its own that is later, its broker is the leader.
        ({}, {"later": {"checkpoint_epochs": (*LINEAGE, (3, 40))}}, True),
        ({"checkpoint_epochs": (*LINEAGE, (3, 40))}, {}, False),
    ],
)
def test_whether_the_leader_may_have_had_what_others_have_past_its_end(
    copied: dict[str, Any], known: dict[str, Any], may_have_lost: bool
) -> None:
    """If not, its copy is merely the earlier one."""
    other = log(2, *LINEAGE, **known.pop("later", {}))
    made = case(log(1, *LINEAGE, **copied), compared(other), **known)
    assert may_have_lost_tail(made) is may_have_lost


def test_an_empty_leader_may_have_lost_all_whatever_elections_were() -> None:
    blank = log(1, end=0, checkpoint_epochs=(), high_watermark_checkpoint=0)
    assert may_have_lost_tail(case(blank, compared(log(2, *LINEAGE)), history=history()))


PAST_END = CommittedRange(RecordRange((1, "d"), (0,), 10, 14, 4, 12, 0, exact=True), 14, 0, is_ahead=True)
BELOW = PAST_END._replace(is_ahead=False)


@pytest.mark.parametrize(
    ("item", "may_have", "is_doubtful", "counts"),
    [
        (BELOW, True, False, BELOW),
        (PAST_END, False, False, PAST_END),
        (PAST_END, True, False, None),
        (PAST_END, True, True, PAST_END.unproven()),
    ],
    ids=["not past the end", "the leader has it not", "it may have it", "it may, which is doubtful"],
)
def test_what_lies_past_the_leaders_end_counts_where_the_leader_cannot_have_it(item, may_have, is_doubtful, counts):
    assert lost_past_end(item, may_have, is_doubtful) == counts


def test_what_others_have_past_an_empty_leader_may_be_lost_though_its_copy_looks_older(tmp_path: Path) -> None:
    """Its epoch file is empty, too: it was copied before it led, or its disk lost both."""
    log = Replica([*written(0, 30, 1), *written(30, 40, 2)])
    audit(tmp_path, {1: Replica([], epochs=[]), 2: log, 3: log}, source="user", leader_epoch=2)
    assert asked_costs(tmp_path) == {1: (40, 0, 40), 2: (0, 0, 0), 3: (0, 0, 0)}
    plan = plan_elections(audit_all(str(tmp_path), Settings()))
    assert [step.action for step in plan.steps][:1] == ["copy"] and set(plan.steps[0].brokers) <= {2, 3}

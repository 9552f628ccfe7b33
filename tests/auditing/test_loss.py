"""Lost records are counted once, however many brokers hold them (F.0, lost records)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.captures import CAPTURES, audit_capture, truth
from tests.support.encoder import encode_batch, encode_marker
from tests.support.report_rows import tables_of
from tests.support.scenario import Answer, audit, written, written_legacy
from tests.support.snapshots import Replica
from tests.support.some import some

from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.markdown import render_markdown
from replica_audit.report.metrics import render_metrics

#: Epoch 2 leads from 30 on; the same tails of epoch 1 lie beyond it on others.
LEADER = Replica([*written(0, 30, 1), *written(30, 40, 2, "new ")])


def old_leader(end: int, high_watermark: int = 30, mark: str = "") -> Replica:
    return Replica([*written(0, 30, 1), *written(30, end, 1, mark)], high_watermark=high_watermark)


def lost(answer: Answer) -> tuple:
    row = answer.tables["partitions"][0]
    return row["lost_records"], row["lost_committed"], row["lost_at_most"]


def held(answer: Answer) -> dict[int, tuple]:
    """Broker id → what it holds of the loss, and what only it holds, each with what is committed of it."""
    names = ("lost_held", "lost_committed_held", "lost_only_here", "lost_committed_only_here")
    return {row["broker_id"]: tuple(row[name] for name in names) for row in answer.tables["replicas"]}


def test_two_brokers_that_hold_the_same_records_count_once(tmp_path: Path) -> None:
    answer = audit(tmp_path, {1: LEADER, 2: old_leader(50), 3: old_leader(50)}, isr=(1,))
    assert lost(answer) == (20, 0, False)
    assert held(answer) == {1: (0, 0, 0, 0), 2: (20, 0, 0, 0), 3: (20, 0, 0, 0)}
    assert answer.tables["partitions"][0]["dropped_records"] == 40


@pytest.mark.parametrize("ends", [(50, 45), (45, 50), (50, 35)])
def test_what_only_one_of_them_holds_is_told(tmp_path: Path, ends: tuple[int, int]) -> None:
    answer = audit(tmp_path, {1: LEADER, 2: old_leader(ends[0], 33), 3: old_leader(ends[1])}, isr=(1,))
    assert lost(answer) == (20, 3, False)
    longer, shorter = (2, 3) if ends[0] > ends[1] else (3, 2)
    common = min(ends) - 30
    assert held(answer)[longer] == (20, 3, 20 - common, 0)
    # The checkpoint of broker 2 proves the same records committed on broker 3.
    assert held(answer)[shorter] == (common, 3, 0, 0)


def test_records_of_other_epochs_at_the_same_offsets_are_others(tmp_path: Path) -> None:
    other = Replica([*written(0, 30, 1), *written(30, 38, 0 + 1, "x", step=8)])
    third = Replica([*written(0, 25, 1), *written(25, 33, 3)], epochs=[(1, 0), (3, 25)])
    leader = Replica([*written(0, 25, 1), *written(25, 40, 4, "new ")])
    answer = audit(tmp_path, {1: leader, 2: other, 3: third}, isr=(1,))
    assert lost(answer)[0] == 13 + 8
    assert [held(answer)[broker][2] for broker in (2, 3)] == [13, 8]


def test_control_batches_and_empty_batches_count_nothing(tmp_path: Path) -> None:
    producer = {"producer_id": 7, "producer_epoch": 0}
    tail = [
        encode_batch(30, 4, 1, **producer, base_sequence=0, transactional=True, mark="a"),
        encode_marker(34, "ABORT", 1, **producer),
        encode_batch(35, 3, 1, mark="b"),
    ]
    follower = Replica([*written(0, 30, 1), *tail], high_watermark=38)
    answer = audit(tmp_path, {1: LEADER, 2: follower}, isr=(1,))
    # The marker is no record of anybody; those of the aborted transaction were acknowledged like others.
    assert lost(answer) == (7, 7, False)
    (row,) = answer.tables["divergences"]
    assert (row["record_count"], row["lost_records"], row["lost_committed"]) == (8, 7, 7)


def test_records_without_epochs_are_told_apart_by_themselves(tmp_path: Path) -> None:
    def broker(mark: str) -> Replica:
        return Replica([*written_legacy(0, 10), *written_legacy(10, 15, mark)], epochs=None)

    answer = audit(tmp_path, {1: broker("l"), 2: broker("x"), 3: broker("x"), 4: broker("y")}, isr=(1,))
    assert lost(answer)[0] == 10
    assert [held(answer)[one][2] for one in (2, 3, 4)] == [0, 0, 5]


def test_lag_and_retention_are_no_loss(tmp_path: Path) -> None:
    purged = Replica(written(20, 40, 1), log_start=20)
    answer = audit(tmp_path, {1: purged, 2: Replica(written(0, 40, 1)), 3: Replica(written(0, 30, 1))}, isr=(1, 2, 3))
    assert lost(answer) == (0, 0, False)


@pytest.mark.parametrize(("quiesced", "count"), [(True, (10, 10)), (None, (0, 0))])
def test_what_the_leader_lost_counts_where_the_copies_are_of_one_moment(
    tmp_path: Path, quiesced: bool | None, count: tuple[int, int]
) -> None:
    short = Replica(written(0, 30, 1), high_watermark=30)
    full = Replica(written(0, 40, 1), high_watermark=40)
    answer = audit(tmp_path, {1: short, 2: full, 3: full}, quiesced=quiesced, source="user", leader_epoch=1)
    assert lost(answer)[:2] == count, answer
    assert bool(answer.found("REP-LEADER-SHORTER")) == (count != (0, 0))


def test_what_a_clean_election_left_behind_is_not_lost() -> None:
    rows = [results.rows("partitions")[0] for results in audit_capture("diverged-clean").values()]
    assert {(row["lost_records"], row["lost_committed"]) for row in rows} == {(0, 0)}
    assert any(row["dropped_records"] for row in rows)


def test_the_reports_say_the_number_of_the_table() -> None:
    # Two brokers hold the same 27: what followers will drop adds up to 54.
    results = audit_capture("last-replica-standing-2-cut")["transfers-1"]
    row = results.rows("partitions")[0]
    assert (row["lost_records"], row["lost_committed"], row["dropped_records"]) == (27, 27, 54)
    verdict = build_verdict(results, "high")
    metrics = render_metrics(results, verdict, "")
    assert "replica_audit_lost_records 27\n" in metrics and "replica_audit_lost_committed_records 27\n" in metrics
    assert "| 27 | 27 |" in render_markdown(results, verdict)
    roles = {row["broker_id"]: row["role"] for row in results.rows("replicas")}
    assert sorted(roles.values()) == ["compared", "compared", "leader"]


# --- captures: what clients were acknowledged

#: Nobody holds these any more: they were cut from the only replica that had them.
_NOWHERE = {"last-replica-standing-2-cut": ("leader alone",), "last-replica-elr-2-cut": ("leader alone",)}
#: A clean election left them behind, or nothing was lost.
_NOT_LOST = ("healthy", "lagging", "diverged-clean", "elr-elected")
_LOST = (
    *("diverged-unclean", "kafka-3.6-diverged-unclean", "kafka-3.9-diverged-unclean", "zk-2.8-diverged-unclean"),
    *("last-replica-standing-2-cut", "last-replica-elr-2-cut", "kip279-1-before", "quorum3-1-unclean"),
    # Committed by no proof: leaders that came back in turn.
    *("diverged-multi", "diverged-multi2"),
)


def acknowledged(capture: str, partition: str) -> int:
    """Records that a client was told are written and that some replica may still have."""
    topic, _, number = partition.rpartition("-")
    nowhere = _NOWHERE.get(capture, ())
    rows = [dict(zip(truth(capture)["produced_columns"], row)) for row in truth(capture)["produced"]]
    found = {
        (row["phase"], row["offset"])
        for row in rows
        if (row["topic"], row["partition"]) == (topic, int(number))
        and row["error"] is None
        and row["phase"] not in nowhere
    }
    return len(found)


@pytest.mark.parametrize("capture", _LOST)
def test_lost_records_are_those_that_were_acknowledged_and_that_the_leader_does_not_have(capture: str) -> None:
    total = 0
    for partition, results in audit_capture(capture).items():
        row = results.rows("partitions")[0]
        of_reference = [one for one in results.rows("replicas") if one["broker_id"] == row["reference_id"]]
        if partition.startswith("__") or not of_reference:
            continue
        lost_here = acknowledged(capture, partition) - of_reference[0]["record_count"]
        assert (row["lost_records"], row["lost_at_most"]) == (lost_here, False), partition
        assert row["lost_committed"] == (0 if capture.startswith("diverged-multi") else lost_here), partition
        assert sum(one["lost_only_here"] for one in results.rows("replicas")) <= lost_here
        total += lost_here
    assert total > 0


@pytest.mark.parametrize("capture", [name for name in CAPTURES if name.startswith(_NOT_LOST)])
def test_nothing_is_lost_where_nothing_was(capture: str) -> None:
    for partition, results in some(audit_capture(capture).items()):
        row = results.rows("partitions")[0]
        assert (row["lost_records"], row["lost_committed"]) in ((0, 0), (None, None)), partition
        assert row["lost_records"] is not None or any(one["compacted"] for one in results.rows("replicas")), partition


def test_markers_of_transactions_are_no_committed_records() -> None:
    for partition, count in (("wallet-0", 3), ("wallet-1", 4)):
        tables = tables_of(audit_capture("txn-failover-1-unclean")[partition])
        rows = tables["divergences"]
        # The log has a marker more there, which no producer wrote.
        assert sum(row["record_count"] for row in rows) == count + 1
        for name in ("committed_records", "promised_records", "lost_records", "lost_committed"):
            assert sum(row[name] for row in rows) == count, name
        losses = [row["message"] for row in tables["findings"] if row["code"] == "HWM-LOSS"]
        assert losses[0].startswith(f"{count} committed records at ")
        assert all(text.startswith("1 committed control batch at offset 16 is not on broker 1") for text in losses[1:])
        (cut,) = [row for row in tables["truncations"] if (row["broker_id"], row["protocol"]) == (0, "fetch")]
        assert (cut["dropped_records"], cut["committed_dropped"]) == (count + 1, count)


def _sent_again(path, again: Sequence[bytes], **options) -> Answer:
    """Broker 1 was elected in epoch 2; broker 2 still has [20, 35) of epoch 0, of which broker 1 got `again` anew."""
    common = written(0, 20, 0)
    brokers = {1: Replica([*common, *again]), 2: Replica([*common, *written(20, 35, 0, "x")])}
    return audit(path, brokers, isr=(1,), **options)


def test_records_that_their_producer_sent_again_to_the_next_leader_are_not_lost(tmp_path):
    answer = _sent_again(tmp_path, written(20, 35, 2, "x"))
    assert answer.runs(2) == [("DIV-EPOCH", 20, 35, 2, 0, False)], answer
    row, cut = answer.tables["partitions"][0], answer.cut(2)
    assert (row["verdict"], row["lost_records"], row["lost_committed"]) == ("UNCOMMITTED_DIVERGENCE", 0, 0)
    assert (cut["truncate_to"], cut["dropped_records"], cut["committed_dropped"]) == (20, 15, 0)
    assert not {"HWM-LOSS", "TRN-BELOW-HW"} & answer.codes("info"), answer
    (told,) = answer.found("DIV-EPOCH", 2)
    assert "offsets 20 to 34, which broker 1 has too, as records of epoch 2" in told["message"]
    assert {row["lost_records"] for row in answer.tables["elections"]} == {0}


def test_of_records_of_which_some_were_sent_again_the_others_are_lost(tmp_path):
    answer = _sent_again(tmp_path, [*written(20, 25, 2, "x"), *written(25, 35, 2, "other")])
    row = answer.tables["partitions"][0]
    assert (row["verdict"], row["lost_records"], row["lost_committed"]) == ("COMMITTED_LOSS", 10, 10), answer
    (told,) = answer.found("HWM-LOSS", 2)
    assert told["message"].startswith("10 committed records at offsets 20 to 34 are not on broker 1")
    assert answer.cut(2)["committed_dropped"] == 10
    by_candidate = {row["candidate_id"]: row["lost_records"] for row in answer.tables["elections"]}
    assert by_candidate == {1: 10, 2: 10}

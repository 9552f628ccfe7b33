"""REP-*: who is behind, ahead of the leader or too few, and what skew of the copies explains."""

from __future__ import annotations

import pytest
from tests.support import metadata_log as write
from tests.support.scenario import Answer, audit, written, written_legacy
from tests.support.scenes import change, scene
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica

from replica_audit.auditing.finding import finding
from replica_audit.auditing.findings.rep import REP_LAG, REP_LEADER_SHORTER, brokers_past_leader
from replica_audit.auditing.findings.trn import TRN_FULL

LOG = written(0, 30, 2)
OLD = written_legacy(0, 30)
SKEW = "; copies of a running cluster are of different moments, which explains it"


def told(answer: Answer, code: str) -> dict[int | None, str]:
    """Broker id → message of the findings of that code."""
    return {row["broker_id"]: row["message"] for row in answer.found(code)}


def test_brokers_past_the_leader_are_those_of_their_own_code_alone():
    codes = {1: REP_LAG, 2: REP_LEADER_SHORTER, 3: TRN_FULL, None: REP_LEADER_SHORTER}
    assert brokers_past_leader(finding(code, "m", broker_id=broker) for broker, code in codes.items()) == {2}


# --- past the leader's end

AHEAD = "broker 2 has offsets 20 to 29, past the end of broker 1 at 20"
LATER = ", of leader epoch {}, which is later than that of broker 1: the leadership given is older than the logs"
UNDECIDED = ", or the leader was elected without these records"
MAY_BE_SKEW = SKEW.replace("explains it", "may explain it, unless records were lost")

BLANK = ", which has neither a record nor a leader epoch"


@pytest.mark.parametrize(
    ("leader", "follower", "said"),
    [
        (LOG[:4], LOG, AHEAD + SKEW),
        (LOG[:4], [*LOG[:4], *written(20, 30, 3)], AHEAD + LATER.format(3) + UNDECIDED + MAY_BE_SKEW),
        (OLD[:20], OLD, AHEAD + SKEW),
        (LOG[:4], [*LOG[:4], *OLD[20:]], AHEAD + SKEW),
        (OLD[:20], [*OLD[:20], *written(20, 30, 0)], AHEAD + LATER.format(0) + SKEW),
    ],
    ids=["same epoch", "later epoch", "no epochs", "epochs gone", "epochs since"],
)
def test_a_tail_of_a_later_epoch_than_the_leaders_is_told_as_such(tmp_path, leader, follower, said):
    brokers = {1: Replica(leader, high_watermark=20), 2: Replica(follower, high_watermark=20)}
    answer = audit(tmp_path, brokers, isr=(1,))
    assert told(answer, "CAP-SKEW") == {2: said}
    assert not answer.found("REP-LAG")


@pytest.mark.parametrize(
    ("epoch", "later"),
    [(2, LATER.format(3) + UNDECIDED + MAY_BE_SKEW), (3, BLANK + MAY_BE_SKEW), (None, BLANK + MAY_BE_SKEW)],
    ids=["earlier", "same", "nobody says"],
)
def test_of_a_blank_log_only_an_epoch_that_is_said_can_be_earlier(tmp_path, epoch, later):
    brokers = {1: Replica([], high_watermark=0), 2: Replica(written(0, 10, 3), high_watermark=0)}
    answer = audit(tmp_path, brokers, isr=(1,), source="user", leader_epoch=epoch, in_order=True)
    found = told(answer, "CAP-SKEW")
    assert found.pop(2) == f"broker 2 has offsets 0 to 9, past the end of broker 1 at 0{later}"
    # An empty epoch file does not know the epoch in which its broker is said to lead.
    assert found.keys() == (set() if epoch is None else {1}), found


@pytest.mark.parametrize("epochs", [(), ((3, 20),)], ids=["no election", "an election"])
def test_what_lies_past_a_leader_is_undecided_where_another_copy_knows_a_later_epoch(tmp_path, epochs):
    """Only the epoch file of broker 3 shows that somebody was elected since the leader's copy, perhaps without these records."""
    early = Replica(LOG[:4], epochs=((2, 0), *epochs), high_watermark=15)
    brokers = {1: Replica(LOG[:4], high_watermark=15), 2: Replica(LOG, high_watermark=15), 3: early}
    answer = audit(tmp_path, brokers, isr=(1,))
    known = ", and another copy knows leader epoch 3, which is later than that of broker 1" if epochs else ""
    assert told(answer, "CAP-SKEW")[2].startswith(f"{AHEAD}{known}; copies of a running cluster"), answer
    assert (answer.verdict == "INCONCLUSIVE") is bool(epochs), answer


def test_at_rest_a_later_epoch_says_that_the_leader_is_not_the_leader(tmp_path):
    brokers = {1: Replica(LOG, high_watermark=20), 2: Replica([*LOG, *written(30, 35, 3)], high_watermark=20)}
    assert told(audit(tmp_path, brokers, isr=(1,), quiesced=True), "REP-LEADER-SHORTER") == {
        2: "broker 2 has offsets 30 to 34, past the end of broker 1 at 30, of leader epoch 3, which is later than that of "
        "broker 1; all copies were made while the cluster was at rest, so the reference lost its tail or is not the leader"
    }


@pytest.mark.parametrize(
    ("protocol", "said", "mark", "confidence"),
    [
        ("kip-101", {}, 30, "suspect"),
        ("kip-101", {}, 31, "likely"),
        ("kip-101", {"source": "user", "leader_epoch": 3}, 30, "likely"),
        ("kip-279", {}, 30, "likely"),
    ],
    ids=["nobody says the epoch", "it was committed", "the epoch is said", "the epoch would be in the file"],
)
def test_a_leader_that_noted_no_epoch_may_have_been_elected_after_a_tail(tmp_path, protocol, said, mark, confidence):
    """Before KAFKA-7415 a leader's epoch is in its file with its first record only: a clean election that left an uncommitted record
    behind was COMMITTED_LOSS."""
    brokers = {1: Replica(LOG, high_watermark=20), 2: Replica([*LOG, *written(30, 35, 3)], high_watermark=mark)}
    answer = audit(tmp_path, brokers, isr=(1,), quiesced=True, protocol=protocol, **said)
    assert answer.one("REP-LEADER-SHORTER")[1] == confidence, answer
    assert (answer.verdict == "COMMITTED_LOSS") == (confidence == "likely"), answer


@pytest.mark.parametrize(
    ("mark", "leaders", "confidence"),
    [(20, None, "suspect"), (31, None, "likely"), (20, (1,), "likely"), (20, (2, 1), "suspect")],
    ids=["nobody says who led", "it was committed", "one leader", "another led"],
)
def test_a_tail_without_epochs_may_be_of_a_leader_before(tmp_path, mark, leaders, confidence):
    """A clean election that left an uncommitted record behind was COMMITTED_LOSS."""
    brokers = {1: Replica(OLD, high_watermark=20), 2: Replica([*OLD, *written_legacy(30, 35)], high_watermark=mark)}
    metadata = None
    if leaders is not None:
        first, *later = leaders
        topic = write.new_topic(TOPIC, TOPIC_ID, (1, 2), first, isr=(1, 2), leader_epoch=0)
        elected = [write.change(TOPIC_ID, leader=one, isr=(one,)) for one in later]
        metadata = {100: write.history(topic, *elected)}
    answer = audit(tmp_path, brokers, isr=(1,), quiesced=True, protocol="kip-279", metadata=metadata)
    assert answer.one("REP-LEADER-SHORTER")[1] == confidence, answer
    assert (answer.verdict == "COMMITTED_LOSS") == (confidence == "likely"), answer


# --- in sync, and too short


@pytest.mark.parametrize(
    ("mark", "isr", "short"),
    [(21, (1, 2), True), (20, (1, 2), False), (15, (1, 2), False), (30, (1,), False)],
    ids=["below", "at", "above", "not in sync"],
)
@pytest.mark.parametrize(("quiesced", "code"), [(True, "REP-ISR-SHORT"), (None, "CAP-SKEW")])
def test_an_in_sync_replica_is_short_below_what_is_proven_and_only_there(tmp_path, mark, isr, short, quiesced, code):
    brokers = {1: Replica(LOG, high_watermark=mark), 2: Replica(LOG[:4], high_watermark=15)}
    answer = audit(tmp_path, brokers, isr=isr, quiesced=quiesced)
    found = [row for row in answer.tables["findings"] if row["code"] in ("REP-ISR-SHORT", "CAP-SKEW")]
    assert [(row["code"], row["broker_id"], row["start_offset"], row["end_offset"]) for row in found] == (
        [(code, 2, 20, mark)] if short else []
    ), answer


def test_a_damaged_end_is_told_as_damage_and_those_beside_it_as_short(tmp_path):
    """Of brokers 1, 2 and 3, all in sync and too short, the end of 2 cannot be read."""
    short = Replica(LOG[:5], high_watermark=15)
    damaged = Replica(LOG[:4], high_watermark=15, tail=b"\xff" * 100)
    answer = audit(tmp_path, {1: short, 2: damaged, 3: short, 4: Replica(LOG)}, leader=4, quiesced=True)
    assert set(told(answer, "REP-ISR-SHORT")) == {1, 3}
    assert answer.one("HWM-ABOVE-ISR-PREFIX")[2:] == (20, 30)


@pytest.mark.parametrize(("mark", "found"), [(20, {"REP-ISR-SHORT"}), (25, {"HWM-CP-ABOVE-LEO"}), (15, {"CAP-SKEW"})])
def test_a_log_without_epochs_that_ends_at_its_own_mark_was_cut_there(tmp_path, mark, found):
    answer = audit(tmp_path, {1: Replica(OLD), 2: Replica(OLD[:20], high_watermark=mark)})
    assert answer.codes("info") & {"REP-ISR-SHORT", "HWM-CP-ABOVE-LEO", "CAP-SKEW"} == found


AT_END = Replica(LOG[:4])
#: Its tail is lost, but its checkpoint knows how far the high watermark had come.
KNOWS_MORE = Replica(LOG[:4], high_watermark=30)


@pytest.mark.parametrize(
    ("other", "options", "short"),
    [
        (KNOWS_MORE, {"quiesced": True}, True),
        (KNOWS_MORE, {}, False),
        (KNOWS_MORE, {"quiesced": True, "isr": (9,), "elr": (1,)}, False),
        (KNOWS_MORE, {"quiesced": True, "leader": 1}, False),
        (KNOWS_MORE, {"quiesced": True, "leader": None}, False),
        (AT_END, {"quiesced": True}, False),
    ],
    ids=["short", "of different moments", "eligible only", "the leader", "no leader", "as long as the mark"],
)
def test_the_replica_that_stands_in_for_an_absent_leader_may_be_too_short_as_well(tmp_path, other, options, short):
    options = {"leader": 9, "isr": (1, 2, 9), "replicas": (1, 2, 9), **options}
    answer = audit(tmp_path, {1: AT_END, 2: other}, **options)
    assert told(answer, "REP-ISR-SHORT") == (
        {
            1: "broker 1 is in sync but ends at 20, and the high watermark had reached 30: if it leads next, committed records "
            "are gone"
        }
        if short
        else {}
    ), answer


# --- behind, and too few


@pytest.mark.parametrize(
    ("options", "behind"),
    [({}, True), ({"source": "inferred"}, True), ({"replicas": (1,)}, False)],
    ids=["assigned", "nobody says", "assigned no more"],
)
def test_a_replica_that_is_one_record_behind_is_behind(tmp_path, options, behind):
    answer = audit(tmp_path, {1: Replica([*LOG, *written(30, 31, 2)]), 2: Replica(LOG)}, isr=(1,), **options)
    assert told(answer, "REP-LAG") == ({2: "broker 2 is 1 offset and 75 bytes behind broker 1"} if behind else {})


def test_a_replica_whose_end_conflicts_is_not_merely_behind(tmp_path):
    brokers = {
        1: Replica(LOG, high_watermark=20),
        2: Replica([*LOG[:4], *written(20, 25, 1, "old ")], high_watermark=20),
    }
    answer = audit(tmp_path, brokers, isr=(1,))
    assert answer.runs(2) and not answer.found("REP-LAG")


@pytest.mark.parametrize(
    ("isr", "replicas", "said"),
    [
        ((), (1, 2, 3), "none of 3 assigned replicas is in sync"),
        ((1,), (1, 2), "1 of 2 assigned replicas is in sync: broker 1"),
        ((1, 2), (1, 2, 3), "2 of 3 assigned replicas are in sync: brokers 1 and 2"),
        ((1, 2), (1, 2), None),
        # While replicas are removed.
        ((1, 2), (1,), None),
    ],
)
def test_how_many_of_the_assigned_replicas_are_in_sync(tmp_path, isr, replicas, said):
    brokers = {1: Replica(LOG), 2: Replica(LOG)}
    answer = audit(tmp_path, brokers, leader=1 if isr else None, isr=isr, replicas=replicas)
    assert told(answer, "REP-UNDER-REPLICATED") == ({None: said} if said else {})


@pytest.mark.parametrize(("isr", "is_told"), [((1, 2, 3), False), ((1, 2, 4), False), ((1, 2), True)])
def test_what_a_reassignment_adds_is_not_missing_from_the_isr(tmp_path, isr, is_told):
    moved = change(replicas=(4, 1, 2, 3), adding=(4,), isr=isr)
    answer = scene(
        tmp_path, {broker: Replica(written(0, 10 if broker == 4 else 30, 0)) for broker in (1, 2, 3, 4)}, moved
    )
    assert bool(answer.found("REP-UNDER-REPLICATED")) == is_told


def test_who_is_in_sync_by_a_listing_that_is_older_than_the_logs_is_not_counted(tmp_path):
    deposed, leader = Replica(LOG, high_watermark=20), Replica([*LOG, *written(30, 40, 3)], high_watermark=20)
    answer = audit(tmp_path, {1: deposed, 2: leader}, isr=(1, 2), replicas=(1, 2, 3))
    assert answer.mark["isr"] is None and not answer.found("REP-UNDER-REPLICATED"), answer


def test_of_a_cluster_that_was_stopped_nobody_has_to_be_in_sync(tmp_path):
    brokers = {broker: Replica(LOG, clean_shutdown=True) for broker in (1, 2)}
    assert not audit(tmp_path, brokers, leader=None, isr=(1,)).found("REP-UNDER-REPLICATED")

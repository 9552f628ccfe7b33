"""Epoch files that look later than their log: what excuses a difference, and true losses that nothing may excuse (C.2)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.made_cases import log
from tests.support.scenario import Answer, audit, written
from tests.support.scenes import FENCE, change, scene
from tests.support.snapshots import Replica, write_manifest

from replica_audit.auditing.replicas.later_files import LaterEntry, later_entry

#: (start, end, epoch, mark) of a stretch of a log.
Part = tuple[int, int, int, str]


def of(*parts: Part, **options) -> Replica:
    return Replica([batch for part in parts for batch in written(*part)], **options)


def user(path: Path, one: Replica, two: Replica, epoch: int, **options) -> Answer:
    """Broker 1 leads in `epoch`, alone in sync, by a file of the user's; broker 3 has what broker 2 has."""
    return audit(path, {1: one, 2: two, 3: two}, isr=(1,), source="user", leader_epoch=epoch, **options)


#: What broker 1 has of epoch 0 from 45 on its own epoch file, and the log of the others, have of epoch 1.
CUT = of((0, 45, 0, ""), (45, 60, 0, "old "), epochs=((0, 0), (1, 45)), high_watermark=45)
OTHERS = of((0, 45, 0, ""), (45, 70, 1, "new "), high_watermark=65)
#: Broker 2 was elected uncleanly, then broker 1; nobody leads.
TWICE_UNCLEAN = (
    change(isr=(1,)),
    FENCE[1],
    change(leader=2, isr=(2,), recovering=True),
    write.registration_change(1, -1),
    FENCE[2],
    change(leader=1, isr=(1,), recovering=True),
    FENCE[3],
    FENCE[1],
    change(leader=-1),
)


def test_a_log_that_was_copied_before_it_was_cut_proves_no_loss(tmp_path):
    answer = user(tmp_path, CUT, OTHERS, 2)
    assert answer.verdict == "INCONCLUSIVE" and not answer.codes("critical"), answer
    assert [row["severity"] for row in answer.found("EPO-CACHE-MISSING", 1)] == ["info"], answer
    said = answer.found("CAP-SKEW", 1)[0]["message"]
    assert "as broker 2 has: its log was copied before it was cut there" in said, said


@pytest.mark.parametrize(("epoch", "is_later"), [(2, True), (1, False)])
def test_a_log_start_that_moved_since_may_have_hidden_where_the_log_was_cut(tmp_path, epoch, is_later):
    """By now the epoch file of broker 1 begins inside epoch 2, which broker 2 has from 45 on, or does not know."""
    one = of((0, 45, 0, ""), (45, 60, 0, "old "), epochs=((2, 50), (3, 70)), high_watermark=45)
    two = of((0, 45, 0, ""), (45, 50, epoch, "new "), high_watermark=45)
    answer = audit(tmp_path, {1: one, 2: two}, isr=(1,), replicas=(1, 2))
    told = [said for said in answer.messages("CAP-SKEW") if "which has epoch 2 from 45 on, as broker 2 has" in said]
    assert bool(told) is is_later, answer
    assert "DIV-HIDDEN" not in answer.codes("critical"), answer


@pytest.mark.parametrize(("epoch", "is_later"), [(2, True), (1, False)])
def test_a_cut_below_the_first_record_that_a_cleaner_left_is_a_cut_too(epoch, is_later):
    """A later epoch begins there by the file, and on the other log: HWM-ABOVE-ISR-PREFIX, proven."""
    one = log(1, (0, 5), end=50, checkpoint_epochs=((2, 1),))
    other = log(2, (epoch, 1), end=40)
    assert later_entry(one, (one, other)) == (LaterEntry(2, 1, 2) if is_later else None)


@pytest.mark.parametrize(
    "known",
    [{"seen": {1: 9}}, {"kind": "stopped"}, {"kind": "killed"}],
)
def test_the_files_of_a_broker_that_was_down_are_of_one_moment(tmp_path, known):
    """However it is known: by its own copy of the metadata log, or the manifest. A clean-shutdown flag beside such files is of another
    moment. By that log alone the broker may have gone down between the copies of its log and its epoch file."""
    kind = known.get("kind")
    if kind is not None:
        write_manifest(tmp_path, {1: kind})
    brokers = {1: CUT, 2: OTHERS, 3: OTHERS}
    answer = scene(tmp_path, brokers, *TWICE_UNCLEAN, seen=known.get("seen", {}))
    assert answer.verdict == "COMMITTED_LOSS" and len(answer.found("HWM-LOSS", 2)) == 2, answer
    assert [row["severity"] for row in answer.found("EPO-CACHE-MISSING", 1)] == ["high" if kind else "medium"], answer


@pytest.mark.parametrize("flag", [False, True])
def test_of_a_leader_that_may_have_gone_down_later_it_is_undecided(tmp_path, flag):
    answer = scene(tmp_path, {1: replace(CUT, clean_shutdown=flag), 2: OTHERS, 3: OTHERS}, *TWICE_UNCLEAN)
    assert {row["severity"] for row in answer.found("HWM-LOSS")} == {"high"}, answer
    assert answer.found("HWM-LOSS", 2)[0]["message"].endswith(
        "whoever leads next may have them, and the log of broker 1 was copied before it led, or before it was cut"
    ), answer


def test_a_leader_that_led_last_is_not_said_to_lead(tmp_path):
    answer = scene(tmp_path, {1: replace(CUT, epochs=((0, 0),)), 2: OTHERS, 3: OTHERS}, *TWICE_UNCLEAN)
    (told,) = answer.found("CAP-SKEW", 1)
    assert told["message"].startswith("broker 1 led last, in epoch 2, by the metadata log, but its own epoch file"), (
        told
    )


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("source", ["user", "topics_describe"])
def test_a_log_that_has_gone_past_an_epoch_was_not_copied_before_its_leader(tmp_path, source, in_order):
    """An unclean leader has written in its epoch, and its epoch file was mended with that of another broker, or is an older one."""
    one = of((0, 40, 0, ""), (40, 60, 0, "old "), (60, 70, 3, "new "), epochs=((0, 0), (1, 40)), high_watermark=70)
    two = of((0, 40, 0, ""), (40, 80, 1, "lost "), high_watermark=80)
    options = {"leader_epoch": 3} if source == "user" else {}
    answer = audit(tmp_path, {1: one, 2: two}, isr=(1,), replicas=(1, 2), source=source, in_order=in_order, **options)
    assert answer.verdict == "COMMITTED_LOSS" and answer.tables["partitions"][0]["lost_committed"] == 40, answer
    assert {row["severity"] for row in answer.found("HWM-LOSS")} == {"critical"}, answer
    severity = "high" if in_order else "medium"
    assert [row["severity"] for row in answer.found("EPO-CACHE-MISSING", 1)] == [severity], answer


# --- differences below records that both logs have


SHARED = (15, 60, 2, "both ")
HIDDEN = of((0, 10, 0, ""), (10, 15, 0, "old "), SHARED, high_watermark=60)
LEADS = of((0, 10, 0, ""), (10, 15, 1, "new "), SHARED, high_watermark=60)


def is_kept(answer: Answer) -> bool:
    """Said as what Kafka keeps, in words that say so."""
    told = answer.found("DIV-HIDDEN", 2)
    return answer.verdict == "COMMITTED_DIVERGENCE" and bool(told) and "so this stays" in told[0]["message"]


@pytest.mark.parametrize(
    ("leader", "other", "options"),
    [
        # Its epoch file does not know the epoch in which it leads.
        (LEADS, HIDDEN, {"source": "user", "leader_epoch": 3}),
        # A listing names it, and the follower, which is not in sync, has records of a later epoch.
        (
            LEADS,
            of((0, 10, 0, ""), (10, 15, 0, "old "), (15, 55, 2, "both "), (55, 60, 7, "later "), high_watermark=55),
            {},
        ),
        # A segment of the leader is an old one; its epoch file is as the others'.
        (replace(HIDDEN, epochs=((0, 0), (1, 10), (2, 15))), LEADS, {}),
    ],
)
def test_no_copy_of_another_moment_explains_a_difference_below_records_that_both_have(tmp_path, leader, other, options):
    answer = audit(tmp_path, {1: leader, 2: other}, isr=(1,), replicas=(1, 2), **options)
    assert is_kept(answer), answer


def test_what_a_cleaner_has_left_out_is_no_record_that_both_have(tmp_path):
    """The log of the leader was copied before it was cut at 5, as its epoch file shows: DIV-HIDDEN, proven."""
    leader = of((0, 16, 0, "old "), epochs=((0, 0), (2, 5)))
    other = of((6, 8, 2, ""), (13, 16, 2, ""), epochs=((0, 0), (2, 5)))
    answer = audit(
        tmp_path, {1: leader, 2: other}, isr=(1,), source="user", leader_epoch=2, configs={"cleanup.policy": "compact"}
    )
    assert answer.found("DIV-EPOCH", 2) and not answer.found("DIV-HIDDEN"), answer


@pytest.mark.parametrize(("quiesced", "kept"), [(None, False), (True, True)])
def test_an_epoch_file_that_begins_inside_an_epoch_excuses_only_a_running_broker(tmp_path, quiesced, kept):
    """DeleteRecords had moved its log start, which a stop writes down."""
    leader = replace(LEADS, epochs=((2, 40),))
    answer = audit(tmp_path, {1: leader, 2: HIDDEN}, isr=(1,), replicas=(1, 2), quiesced=quiesced)
    assert is_kept(answer) is kept, answer
    assert kept or "depends on what broker 1 has there by now" in answer.found("DIV-EPOCH", 2)[0]["message"], answer


# --- followers


@pytest.mark.parametrize(("seen", "code"), [({}, "CAP-SKEW"), ({2: 4}, "EPO-FILE-CORRUPT")])
def test_an_empty_epoch_file_of_a_follower_that_was_down_is_damaged(tmp_path, seen, code):
    leader = of((60, 70, 1, ""), high_watermark=65)
    emptied = of((0, 60, 0, ""), epochs=())
    moves = (change(isr=(1, 3)), FENCE[2], change(leader=3), change(leader=1))
    answer = scene(tmp_path, {1: leader, 2: emptied, 3: leader}, *moves, seen=seen)
    assert answer.found(code, 2), answer


@pytest.mark.parametrize(
    ("seen", "in_order", "code"),
    [
        ({}, (1, 3), "CAP-SKEW"),
        ({2: 4}, (1, 3), "HWM-ABOVE-ISR-PREFIX"),
        # The high watermark of either shows it.
        ({2: 4}, (3,), "HWM-ABOVE-ISR-PREFIX"),
        # Both may be of a moment when others have come in sync and it is not eligible any more.
        ({2: 4}, (), "CAP-SKEW"),
    ],
)
def test_an_eligible_replica_that_is_down_since_it_was_copied_was_not_cut_later(tmp_path, seen, in_order, code):
    leader = of((0, 40, 0, ""), (40, 60, 1, "new "), (60, 80, 2, "new "), high_watermark=80)
    other = of((0, 40, 0, ""), (40, 60, 0, "old "), high_watermark=40)
    moves = (change(leader=2), change(leader=1), FENCE[2], change(isr=(1, 3), elr=(2,)))
    times = {"started": "2026-01-31T10:00:00Z", "finished": "2026-01-31T10:01:00Z", "kind": "live"}
    write_manifest(tmp_path, brokers=[{"broker_id": one, "log_dir": f"broker-{one}", **times} for one in in_order])
    answer = scene(tmp_path, {1: leader, 2: other, 3: leader}, *moves, seen=seen)
    assert answer.found(code, 2) and (answer.verdict == "COMMITTED_DIVERGENCE") is (code != "CAP-SKEW"), answer


def test_a_longer_log_of_the_leader_has_no_other_records_below_its_end(tmp_path):
    """Its epoch file shows that its log went on; what conflicts with it below that is lost all the same."""
    leader = of((0, 30, 0, ""), (30, 40, 1, "new "), epochs=((0, 0), (1, 30), (2, 60)), high_watermark=30)
    other = of((0, 30, 0, ""), (30, 50, 0, "old "), high_watermark=45)
    answer = audit(tmp_path, {1: leader, 2: other}, isr=(1,), replicas=(1, 2))
    assert answer.one("TRN-BELOW-HW", 2)[0] == "critical" and "may have them" not in str(answer), answer


def test_what_goes_below_the_high_watermark_is_records_where_they_are(tmp_path):
    """Not 'the end of a transaction': the checkpoint lies past what the leader's copy has, which proves nothing of a part."""
    (told,) = user(tmp_path, CUT, OTHERS, 2).found("TRN-BELOW-HW", 2)
    assert "25 records would go with it, and everything below 65 was committed" in told["message"], told


# --- a leader that was copied before the epoch in which it leads now


@pytest.mark.parametrize(
    ("epochs", "kind", "lost"), [((), None, False), ((), "stopped", True), (((2, 0),), None, True)]
)
def test_an_empty_log_whose_file_lacks_its_leader_s_epoch_was_copied_before_it_led(tmp_path, epochs, kind, lost):
    """In order, too: a leader has that entry at once. A broker that was down had lost all: HWM-LOSS of both."""
    brokers = {1: Replica([], epochs=epochs, first_base_offset=0), 2: of((0, 15, 1, ""), high_watermark=10)}
    times = {"started": "2026-01-31T10:00:00Z", "finished": "2026-01-31T10:01:00Z"}
    listed = [
        {"broker_id": one, "log_dir": f"broker-{one}", **times} | ({"kind": kind} if kind else {}) for one in brokers
    ]
    write_manifest(tmp_path, brokers=listed)
    answer = audit(tmp_path, brokers, isr=(1,), source="user", leader_epoch=2)
    assert answer.verdict == ("COMMITTED_LOSS" if lost else "INCONCLUSIVE"), answer
    assert bool(answer.found("HWM-LOSS", 2)) is lost, answer


@pytest.mark.parametrize(("between", "lost"), [((), True), ((change(leader=2), change(leader=1)), False)])
def test_nobody_cuts_a_leader_that_led_all_the_time(tmp_path, between, lost):
    """It was elected uncleanly, wrote, was copied, and is elected again: only if another led meanwhile may it have what it lacked."""
    leader = of((0, 40, 0, ""), (40, 60, 2, "new "), high_watermark=40)
    other = of((0, 40, 0, ""), (40, 50, 0, "lost "), high_watermark=50)
    moves = (change(leader=2, isr=(2,)), FENCE[2], change(leader=1, isr=(1,), recovering=True))
    again = (change(leader=-1), write.registration_change(1, -1), change(leader=1))
    answer = scene(tmp_path, {1: leader, 2: other, 3: other}, *moves, *between, *again)
    assert (answer.verdict == "COMMITTED_LOSS") is lost and answer.found("HWM-LOSS", 2), answer
    where = "past its end" if lost else "in its place or past its end"
    assert f"so records of others {where} prove nothing" in answer.found("CAP-SKEW", 1)[0]["message"], answer


@pytest.mark.parametrize(("file", "hidden"), [((), False), (((2, 40),), True)], ids=["before it led", "since"])
def test_a_leader_that_came_back_may_have_lost_its_log_since_it_was_copied(tmp_path, file, hidden):
    """What a follower has of its present epoch below the old end was DIV-HIDDEN, proven, if the copy was older than that epoch."""
    leader = of((0, 40, 0, ""))
    brokers = {1: replace(leader, epochs=((0, 0), *file)), 2: of((0, 10, 2, "new "))}
    moves = (FENCE[2], change(leader=-1), write.registration_change(1, -1), change(leader=1))
    answer = scene(tmp_path, brokers, *moves)
    assert bool(answer.found("DIV-HIDDEN", 2)) is hidden, answer

"""Records left behind or lost by an unclean election in the metadata log, and the answer if that is unknown."""

from __future__ import annotations

import pytest
from tests.support import metadata_log as write
from tests.support.scenario import Answer, audit, written
from tests.support.scenes import COMMON, UNCLEAN_TO_2, change, scene
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica

from replica_audit.config import Settings
from replica_audit.elect.election_plan import advise, plan_elections
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.sentences import plain_text
from replica_audit.runner.in_process import audit_all
from replica_audit.text import capitalise

NEW = Replica([*COMMON, *written(50, 60, 1, "new ")])
NEWER = Replica([*COMMON, *written(50, 60, 2, "new ")])
#: Broker 3 led alone, went down, and broker 2 was elected.
UNCLEAN_FROM_3 = (
    change(leader=3, isr=(3,)),
    write.registration_change(3, 1),
    change(leader=2, isr=(2,), recovering=True),
)
#: Broker 1 led alone, went down, and came back as the last known leader.
CAME_BACK = (
    change(isr=(1,)),
    change(leader=-1, isr=(), elr=(), last_known_elr=(1,)),
    change(leader=1, isr=(1,), last_known_elr=()),
)
AT = "at 2023-11-14T22:13:{:02d}.000Z broker {} took over from broker {} uncleanly, in leader epoch {} (only broker {} was in sync)"


def told(answer: Answer) -> str:
    (row,) = answer.found("META-UNCLEAN-ELECTION")
    return row["message"]


def reasons(answer: Answer) -> list[str]:
    """Explanations considered, and the known facts on the loss."""
    (row,) = answer.found("META-UNCLEAN-ELECTION")
    return [one["text"] for one in row["evidence"] if one["kind"] in ("considered", "loss")]


# --- records that are still there


def test_all_that_is_said_of_what_it_left_behind(tmp_path):
    old = Replica([*COMMON, *written(50, 70, 0, "old ")], high_watermark=55)
    answer = scene(tmp_path, {1: old, 2: NEW, 3: NEW}, *UNCLEAN_TO_2)
    assert told(answer) == (
        f"{AT.format(23, 2, 1, 1, 1)}; it leads from offset 50; broker 1 still has 20 records from 50 on (5 likely "
        "committed, at most 20 promised by acks=all); broker 2 has none of them"
    )
    assert reasons(answer) == ["healed: no, they are cut as soon as their broker follows"]


@pytest.mark.parametrize("end", [55, 60, 62])
def test_a_deposed_leader_that_comes_back_leaves_records_below_its_new_epoch(tmp_path, end):
    """Broker 2 was elected in epoch 1 and wrote from 50 on; then broker 1 brought its own records to 60 back."""
    back = Replica([*COMMON, *written(50, 60, 0, "old "), *written(60, 65, 2)], high_watermark=50)
    left = Replica([*COMMON, *written(50, end, 1, "new ")], high_watermark=50)
    moves = [change(leader=2, isr=(2,)), change(leader=1, isr=(1,), recovering=True)]
    answer = scene(tmp_path, {1: back, 2: left}, *moves, replicas=(1, 2))
    assert f"; it leads from offset 60; broker 2 still has {end - 50} records from 50 on (none proven" in told(answer)
    # No range is said that would end before it begins.
    assert answer.one("META-UNCLEAN-ELECTION") == ("high", "proven", 60, 62 if end > 60 else None)


def test_what_was_promised_before_the_history_begins_is_not_said(tmp_path):
    """The metadata log begins in epoch 4; what was left behind is of epoch 0."""
    state = write.new_topic(TOPIC, TOPIC_ID, (1, 2), 1, isr=(1,), leader_epoch=4, partition_epoch=7)
    moved = write.batch(90, [change(leader=2, isr=(2,), recovering=True)])
    old = Replica([*COMMON, *written(50, 60, 0, "old "), *written(60, 65, 4)], high_watermark=50)
    new = Replica([*COMMON, *written(50, 60, 5, "new ")], high_watermark=50)
    metadata = write.MetadataLog({90: moved}, {(90, 1): write.snapshot(state)})
    answer = audit(tmp_path, {1: old, 2: new}, metadata={100: metadata})
    assert "broker 1 still has 15 records from 50 on (none proven committed); broker 2 has none of them" in told(answer)


# --- nothing is there any more


@pytest.mark.parametrize(
    ("brokers", "moves", "gone"),
    [
        ({2: NEW}, UNCLEAN_TO_2, 1),
        ({2: NEWER}, UNCLEAN_FROM_3, 3),
        ({2: NEW, 3: Replica(COMMON)}, (*UNCLEAN_TO_2, write.registration_change(3, 1)), 1),
        ({1: NEW, 2: NEW}, UNCLEAN_TO_2, None),
        ({2: Replica(COMMON)}, CAME_BACK, None),
    ],
    ids=["gone", "gone, of a greater id", "gone, and another is down", "it follows now", "it came back itself"],
)
def test_where_nothing_tells_what_was_lost(tmp_path, brokers, moves, gone):
    answer = scene(tmp_path, brokers, *moves)
    assert "it may have lost records, and these files cannot tell: no replica here still holds any" in told(answer)
    # An assigned replica that was in sync before, and has not followed since, is not here: it may hold what was lost.
    assert answer.verdict == "INCONCLUSIVE"
    assert reasons(answer) == [
        "loss: anything above that offset on the previous leader has been cut since; nothing shows how much there was"
        if gone is None
        else f"loss: not known, broker {gone}, which led before, is not in the snapshot"
    ]


def test_what_others_have_past_a_log_that_was_copied_before_its_unclean_election_may_be_lost(tmp_path):
    """It was skew that explains all, and broker 2 lost nothing: LAGGING."""
    old = Replica([*COMMON, *written(50, 60, 0)], high_watermark=55)
    answer = scene(tmp_path / "unclean", {1: old, 2: Replica(COMMON), 3: Replica(COMMON)}, *UNCLEAN_TO_2)
    assert answer.verdict == "INCONCLUSIVE" and answer.one("CAP-SKEW", 1)[0] == "medium", answer
    assert "it may have lost records, and these files cannot tell: the log of broker 2 was copied before" in told(
        answer
    )
    assert (
        "an election since then was unclean, so the winner may lack records that others have"
        in answer.found("CAP-SKEW", 2)[0]["message"]
    )
    plan = plan_elections(audit_all(str(tmp_path / "unclean"), Settings()))
    assert [step.action for step in plan.steps[:1]] == ["capture"] and not plan.decisions, plan.steps
    # In sync, broker 2 has them all as it is elected.
    clean = (write.registration_change(1, 1), change(leader=2, isr=(2, 3)))
    led = scene(tmp_path / "clean", {1: old, 2: Replica(COMMON), 3: Replica(COMMON)}, *clean)
    assert led.one("CAP-SKEW", 1)[0] == "info" and led.verdict == "LAGGING", led


def test_so_may_they_where_its_broker_had_been_down_since(tmp_path):
    """It was skew that explains all, and broker 1 lost nothing: LAGGING."""
    ahead = Replica([*COMMON, *written(50, 60, 0)], high_watermark=50)
    gone = (change(isr=(1,)), change(leader=-1), change(leader=1))
    answer = scene(tmp_path / "down", {1: Replica(COMMON), 2: ahead, 3: Replica(COMMON)}, *gone)
    assert answer.verdict == "INCONCLUSIVE" and answer.one("CAP-SKEW", 2)[0] == "medium", answer
    assert "an election since then chose a broker that had been down, so the winner may lack" in str(
        answer.found("CAP-SKEW", 1)
    )
    plan = plan_elections(audit_all(str(tmp_path / "down"), Settings()))
    assert [step.action for step in plan.steps[:1]] == ["capture"] and not plan.decisions, plan.steps


HOLE = [*COMMON[:4], *COMMON[5:]]
#: Broker 2 wrote nothing in epoch 1; in epoch 2 broker 3 was elected cleanly.
CLEAN_TO_3 = (change(isr=(2, 3)), change(leader=3, isr=(2, 3)))


@pytest.mark.parametrize(
    ("old", "new", "moves"),
    [
        (Replica(HOLE), NEW, ()),
        (Replica(COMMON), Replica(written(60, 70, 1, "new "), log_start=60, epochs=[(1, 60)]), ()),
        (NEWER, NEWER, CLEAN_TO_3),
    ],
    ids=["with a hole", "purged on the others", "followed a later leader"],
)
def test_an_old_leader_that_is_not_as_it_was_or_cannot_be_compared_shows_nothing(tmp_path, old, new, moves):
    answer = scene(tmp_path, {1: old, 2: new, 3: new}, *UNCLEAN_TO_2, *moves)
    assert "it may have lost records" in told(answer)


@pytest.mark.parametrize("was_in_sync", [False, True])
def test_what_was_written_while_the_only_holder_was_out_of_sync_may_be_lost_too(tmp_path, was_in_sync):
    """Broker 3 dropped out, brokers 1 and 2 went on and came back on empty disks (4.3.1: 60 acknowledged, 40 on broker 3)."""
    nobody = change(leader=-1, isr=(), elr=(), last_known_elr=(1,))
    moves = [change(isr=(1, 2, 3) if was_in_sync else (1, 2)), nobody, change(leader=1, isr=(1, 2), last_known_elr=())]
    empty = Replica([], epochs=((2, 0),))
    answer = scene(tmp_path, {1: empty, 2: empty, 3: Replica(COMMON)}, *moves)
    assert "broker 3 still has 50 records from 0 on" in told(answer)
    assert ("it may have lost more, and these files cannot tell" in told(answer)) != was_in_sync
    assert reasons(answer)[0].startswith("healed: no" if was_in_sync else "loss: ")
    whole = audit_all(str(tmp_path), Settings())
    more = " ".join(map(plain_text, build_answer(whole, build_verdict(whole, "high")).more))
    assert ("may have lost records in orders-0; these files cannot tell" in more) != was_in_sync, more
    (choice,) = advise(whole).decisions
    assert ("Broker 3 loses nothing that the copies here have" in capitalise(choice.reason)) != was_in_sync, (
        choice.reason
    )

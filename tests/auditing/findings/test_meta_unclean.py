"""META-UNCLEAN-ELECTION: a made case for each line of the table at `meta._unclean`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.made_cases import LINEAGE, batch, case, compared, divergent, found, leadership, log, texts

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.divergence_cause import Cause
from replica_audit.auditing.compare.divergent_ranges import CommitProof
from replica_audit.auditing.compare.remote_storage import RemoteOrphan
from replica_audit.auditing.finding import Finding
from replica_audit.auditing.findings import meta
from replica_audit.auditing.remote_facts import OtherHistory, RemoteFacts
from replica_audit.model import PartitionState
from replica_audit.protocol.election import elections
from replica_audit.segments.batch_rows import Batches
from replica_audit.snapshot.broker_logs import BrokerLogEvent
from replica_audit.snapshot.log_dir_names import deleted_in


def state(number: int, leader_id: int | None, epoch: int, isr: tuple[int, ...]) -> PartitionState:
    """State with brokers 1 and 2."""
    occasion = "changed" if number else "created"
    return PartitionState(
        number, number, occasion, leader_id, epoch, number, isr, (), (), (1, 2), (), (), (), False, {}
    )


#: Broker 1 led alone and went; broker 2 was elected in epoch 2, from offset 20 on.
HISTORY = (state(0, 1, 0, (1, 2)), state(1, 1, 0, (1,)), state(2, None, 1, (1,)), state(3, 2, 2, (2,)))
(ELECTION,) = elections(HISTORY)
LEFT = divergent(
    replica=0, cause=Cause(ELECTION, clean=False, promised_records=None, elections=(ELECTION,)), batches=[batch(30, 39)]
)
ABOUT_TO_GO = compared(log(1, (0, 0), log_dir=deleted_in("broker-1/orders-0")), LEFT)
#: Nobody is known to have led before.
LEFT_BY_NOBODY = LEFT._replace(cause=Cause(None, clean=False, promised_records=None, elections=elections(HISTORY[2:])))
PROMISED = Cause(ELECTION, clean=False, promised_records=7, elections=(ELECTION,))
PROOF = CommitProof("sole_isr", 1, "broker 1 was alone in the ISR", "0")
ORPHAN = RemoteOrphan(20, 30, 0, ("a segment",))
#: Broker 3 led, dropped out of the ISR, and was elected all the same.
AGAIN_3 = (state(0, 3, 0, (1, 3)), state(1, None, 1, (1,)), state(2, 3, 2, (3,)))
#: As above, and broker 3 led.
FROM_3 = tuple(one._replace(leader_id=3 if one.leader_id == 1 else one.leader_id) for one in HISTORY)


def made(
    *comparisons: Any, fenced: tuple[int, ...] = (1, 3), history: Any = HISTORY, lineage: Any = LINEAGE, **changes: Any
) -> Case:
    """Broker 2, the reference, was elected uncleanly."""
    said = leadership(leader_id=2, isr=(2,), history=history, fenced=fenced)
    return case(log(2, *lineage), *comparisons, said=said, **changes)


def elected(*comparisons: Any, **changes: Any) -> Finding:
    """The finding of that election."""
    (told,) = found(meta.judge(made(*comparisons, **changes)), "META-UNCLEAN-ELECTION")
    return told


FOLLOWED = compared(log(1, *LINEAGE), common_prefix_end=40)
STILL = "broker 1 still has 10 records from 30 on (none proven committed); broker 2 has none of them"


@pytest.mark.parametrize(
    ("comparisons", "changes", "severity", "verdict", "told"),
    [
        ([compared(log(1, (0, 0)), LEFT)], {}, "high", "WILL_LOSE_ON_TRUNCATION", STILL),
        (
            [compared(log(1, (0, 0)), LEFT)],
            {"beside": (ABOUT_TO_GO,)},
            "high",
            "WILL_LOSE_ON_TRUNCATION",
            STILL.partition(";")[0],
        ),
        (
            [FOLLOWED],
            {"beside": (ABOUT_TO_GO,)},
            "info",
            None,
            "it may have lost more, and these files cannot tell: the replicas that held more have been cut since",
        ),
        (
            [FOLLOWED],
            {"beside": (compared(log(1, (0, 0), log_dir="first", is_earlier=True), LEFT),)},
            "high",
            "WILL_LOSE_ON_TRUNCATION",
            "the first evidence of broker 1 (first) had 10 records from 30 on",
        ),
        (
            [FOLLOWED],
            {"remote": RemoteFacts(other=OtherHistory((ORPHAN,)))},
            "info",
            None,
            "it lost records: by __remote_log_metadata remote storage still has segments of an earlier epoch from 20 to 29; it may",
        ),
        (
            [FOLLOWED],
            {"remote": RemoteFacts(other=OtherHistory(begun=(ORPHAN,)))},
            "info",
            None,
            "it lost records: __remote_log_metadata names segments of an earlier epoch from 20 to 29; it may",
        ),
        (
            [FOLLOWED],
            {
                "remote": RemoteFacts(
                    other=OtherHistory((ORPHAN._replace(leader_epoch=2),), begun=(ORPHAN._replace(leader_epoch=3),))
                )
            },
            "info",
            None,
            "it may have lost records, and these files cannot tell",
        ),
        (
            [FOLLOWED],
            {
                "remote": RemoteFacts(
                    other=OtherHistory((ORPHAN._replace(leader_epoch=3),), begun=(ORPHAN._replace(leader_epoch=2),))
                )
            },
            "info",
            None,
            "it may have lost records, and these files cannot tell",
        ),
        ([FOLLOWED], {}, "info", None, "it may have lost records, and these files cannot tell"),
    ],
    ids=[
        "to be cut",
        "some to be cut",
        "about to go",
        "first evidence",
        "remote storage",
        "once there",
        "of its own epoch there",
        "once of its own there",
        "nothing",
    ],
)
def test_what_is_here_of_what_an_unclean_election_left_behind(
    comparisons: list[Any], changes: dict[str, Any], severity: str, verdict: str | None, told: str
) -> None:
    one = elected(*comparisons, **changes)
    assert (one.severity, one.verdict, one.broker_id, one.start_offset) == (severity, verdict, 2, 20)
    assert told in one.message
    assert one.message.startswith("at 1970-01-01T00:00:00.003Z broker 2 took over from broker 1 uncleanly")


GONE = "no replica here still holds any that it left behind"


@pytest.mark.parametrize(
    ("comparisons", "changes", "more"),
    [
        ([compared(log(1, (0, 0)), LEFT)], {}, False),
        ([compared(log(3, (0, 0)), LEFT)], {}, True),
        ([FOLLOWED], {}, False),
        ([compared(log(3, (0, 0)), LEFT_BY_NOBODY)], {"history": HISTORY[2:]}, False),
    ],
    ids=[
        *("who led", "another", "nobody", "another, and nobody known to have led"),
    ],
)
def test_whoever_was_out_of_sync_may_lack_some_of_what_was_left_behind(
    comparisons: list[Any], changes: dict[str, Any], more: bool
) -> None:
    assert meta.may_have_lost_unseen(made(*comparisons, **changes)) is more
    told = elected(*comparisons, **changes).message
    assert ("it may have lost more, and these files cannot tell: no replica that was in sync" in told) is more


def test_of_elections_that_were_clean_nothing_unseen_is_lost() -> None:
    history = (state(0, 1, 0, (1, 2)), state(1, 2, 2, (2,)))
    (clean,) = elections(history)
    run = LEFT._replace(cause=Cause(clean, clean=True, promised_records=None, elections=(clean,)))
    assert not meta.may_have_lost_unseen(made(compared(log(3, (0, 0)), run), history=history))
    assert not meta.may_have_lost_unseen(made(compared(log(3, (0, 0)), LEFT), history=()))


def test_an_election_of_which_no_log_was_compared_names_those() -> None:
    assert (
        "these files cannot tell: no log of broker 3 was compared"
        in elected(FOLLOWED, set_aside=(log(3, (0, 0)),)).message
    )


@pytest.mark.parametrize("winner", [1, 2, 3])
def test_a_log_that_was_copied_before_its_own_election_tells_nothing_of_that(winner: int) -> None:
    history = (
        *(one._replace(leader_id=one.leader_id and 4, isr=(4,)) for one in HISTORY[:3]),
        state(3, winner, 2, (winner,)),
    )
    told = elected(FOLLOWED, history=history, predates=True).message
    assert ("the log of broker 2 was copied before it was elected" in told) is (winner == 2)
    assert (GONE in told) is (winner != 2)


@pytest.mark.parametrize(
    ("comparisons", "changes", "open_since"),
    [
        ([FOLLOWED], {}, "anything above that offset on the previous leader has been cut since; nothing shows how much there was"),
        ([], {}, "not known, broker 1, which led before, is not in the snapshot"),
        ([], {"history": FROM_3}, "not known, broker 3, which led before, is not in the snapshot"),
        ([], {"set_aside": (log(1, (0, 0)),)}, "not known, the log of broker 1, which led before, was not compared"),
        ([FOLLOWED], {"set_aside": (log(1, (0, 0)),)}, "anything above that offset on the previous leader has been cut since"),
        ([], {"set_aside": (log(3, (0, 0)),)}, "not known, broker 1, which led before, is not in the snapshot"),
        ([], {"history": HISTORY[2:]}, "anything above that offset on the previous leader has been cut since"),
        ([], {"history": AGAIN_3}, "anything above that offset on the previous leader has been cut since"),
    ],
    ids=[
        *("here", "not here", "not here, of a greater id", "set aside", "here and set aside", "another set aside"),
        *("nobody is known to have led", "the elected one led before"),
    ],
)  # fmt: skip
def test_what_is_open_names_the_leader_before(comparisons: list[Any], changes: dict[str, Any], open_since: str) -> None:
    (why,) = texts(elected(*comparisons, **changes), "considered")
    assert why.startswith(f"loss: {open_since}")


@pytest.mark.parametrize(
    ("run", "lineage", "offsets"),
    [
        (LEFT, LINEAGE, (20, 40)),
        (LEFT._replace(start_offset=10, end_offset=20), LINEAGE, (20, None)),
        (LEFT._replace(start_offset=10, end_offset=19), LINEAGE, (20, None)),
        (LEFT, ((0, 0),), (None, None)),
    ],
    ids=["above its start", "up to its start", "below its start", "no start"],
)
def test_the_offsets_of_an_election_begin_where_it_leads_from(run: Any, lineage: Any, offsets: tuple) -> None:
    told = elected(compared(log(1, (0, 0)), run), lineage=lineage)
    assert (told.start_offset, told.end_offset) == offsets
    assert (f"; it leads from offset {offsets[0]}" in told.message) is (offsets[0] is not None)


@pytest.mark.parametrize(
    ("changes", "held"),
    [
        ({"committed_records": 10, "proof": PROOF}, "10 records from 30 on, all proven committed"),
        ({"committed_records": 4, "proof": PROOF}, "10 records from 30 on (4 proven committed)"),
        ({"committed_records": 10, "proof": PROOF._replace(certain=False)}, "10 records from 30 on, all likely committed"),
        ({"cause": PROMISED}, "10 records from 30 on (none proven committed, at most 7 promised by acks=all)"),
        ({"batches": [batch(30, 39, control=True)]}, "only transaction markers or empty batches from 30 on"),
        ({"batches": []}, None),
        ({"cause": Cause(None, clean=False, promised_records=None)}, None),
        ({"cause": None}, None),
    ],
    ids=["all", "some", "likely", "promised", "no record", "no batch", "of another election", "of none"],
)  # fmt: skip
def test_of_what_it_left_behind_is_told_how_much_was_committed(changes: dict[str, Any], held: str | None) -> None:
    cause = Cause(ELECTION, clean=False, promised_records=None, elections=(ELECTION,))
    run = divergent(replica=0, **{"cause": cause, "batches": [batch(30, 39)], **changes})
    told = elected(compared(log(1, (0, 0)), run)).message
    assert f"; broker 1 still has {held}; broker 2 has none of them" in told if held else "still has" not in told


@pytest.mark.parametrize(
    ("changes", "run", "doubt"),
    [
        ({}, {"committed_records": 4, "proof": PROOF}, ""),
        ({"is_leaders": False}, {"committed_records": 4, "proof": PROOF}, "; broker 2, which leads, may have them, and its log is not here"),
        ({"is_leaders": False}, {}, ""),
        ({"is_replaced": True}, {"committed_records": 4, "proof": PROOF}, "; unless broker 2 was cut since it was copied and has them by now"),
        ({"is_replaced": True}, {}, ""),
    ],
    ids=["none", "on the leader, perhaps", "none committed", "cut since, perhaps", "none committed there"],
)  # fmt: skip
def test_why_what_was_committed_may_not_be_lost_is_told(
    changes: dict[str, Any], run: dict[str, Any], doubt: str
) -> None:
    told = elected(compared(log(1, (0, 0)), LEFT._replace(**run)), **changes).message
    after = told.partition("has none of them")[2]
    assert after.startswith(doubt) and bool(after) is bool(doubt)


def test_without_a_committed_record_none_is_likely() -> None:
    told = elected(compared(log(1, (0, 0), in_any_order=True), LEFT)).message
    assert "(none proven committed)" in told


# --- by lines of brokers' logs


def line(kind: str, number: int, broker_id: int = 9, **said: Any) -> BrokerLogEvent:
    return BrokerLogEvent("orders", 0, broker_id, "controller.log", number, kind, number, None, **said)


FIRST = line("elected", 1, leader_id=1, leader_epoch=1, isr=(1,))
SAID = line("elected_uncleanly", 2, leader_id=2)
SECOND = line("elected", 3, leader_id=2, leader_epoch=2)
THIRD = line("elected", 3, leader_id=3, leader_epoch=2)
WITNESS = line("isr", 2, 1, isr=(1,))
DIFFERS = compared(log(1, (0, 0)), LEFT)
UNCLEAN = (
    "broker 2 was elected in epoch 2 though it was not in sync (only broker 1 was in sync); by controller.log line {}"
)
JOINED = "it had joined the ISR again: "
BUT = f"{JOINED}no line says so; but the log of broker 1, which led before, is not here"


@pytest.mark.parametrize(
    ("lines", "follower", "told", "start", "message", "looked_at"),
    [
        ((FIRST, SAID, SECOND), DIFFERS, ("high", "proven"), 20, UNCLEAN.format(2), f"{JOINED}no, a line says that no in-sync replica was alive"),
        ((FIRST, SAID, SECOND), FOLLOWED, ("info", "proven"), 20, UNCLEAN.format(2), f"{JOINED}no, a line says"),
        ((FIRST, WITNESS, SECOND), DIFFERS, ("high", "likely"), 20, UNCLEAN.format(3), f"{JOINED}no line says so"),
        ((FIRST, SECOND), DIFFERS, ("info", "likely"), 20, UNCLEAN.format(3), BUT),
        ((FIRST, WITNESS, THIRD), DIFFERS, ("info", "likely"), 20, UNCLEAN.format(3).replace("broker 2", "broker 3"), f"{JOINED}no line says so"),
        (
            (FIRST._replace(leader_id=3, isr=(3,)), WITNESS._replace(broker_id=3, isr=(3,)), SECOND._replace(leader_id=1)),
            DIFFERS,
            ("info", "likely"),
            20,
            "broker 1 was elected in epoch 2 though it was not in sync (only broker 3 was in sync); by controller.log line 3",
            f"{JOINED}no line says so",
        ),
        (
            (FIRST, SAID),
            DIFFERS,
            ("high", "proven"),
            None,
            "broker 2 was elected though it was not in sync (only broker 1 was in sync); by controller.log line 2",
            f"{JOINED}no, a line",
        ),
        (
            (SAID, SECOND),
            DIFFERS,
            ("high", "proven"),
            20,
            "broker 2 was elected in epoch 2 though it was not in sync (who was in sync is not known); by controller.log line 2",
            f"{JOINED}no, a line",
        ),
        ((FIRST, SAID, SECOND), compared(log(1, (0, 0)), LEFT._replace(batches=Batches.of(()))), ("info", "proven"), 20, UNCLEAN.format(2), JOINED),
        ((FIRST, SAID, SECOND), compared(log(1, (0, 0)), LEFT._replace(kind="hole_here")), ("info", "proven"), 20, UNCLEAN.format(2), JOINED),
    ],
    ids=[
        *("said, and the logs differ", "and they do not", "by the ISR", "by the ISR, whose leader's log is not here", "of another", "of a third"),
        *("said of no epoch", "of an unknown ISR", "a run without batches", "no conflict"),
    ],
)  # fmt: skip
def test_an_election_that_only_lines_of_logs_tell(lines, follower, told, start, message: str, looked_at: str) -> None:
    for leadership_known in (True, False):
        changes = {} if leadership_known else {"leadership": None}
        (one,) = found(meta.judge(made(follower, history=(), log_events=lines, **changes)), "META-UNCLEAN-ELECTION")
        assert (one.severity, one.confidence, one.start_offset) == (*told, start)
        assert one.message == message
        assert texts(one, "considered")[0].startswith(looked_at)
        assert ("; but" in texts(one, "considered")[0]) is (looked_at == BUT)
    assert "by controller.log" not in elected(follower, log_events=lines).message


def test_a_clean_election_has_no_finding() -> None:
    history = (state(0, 1, 0, (1, 2)), state(1, 2, 2, (2,)))
    clean = case(log(2, *LINEAGE), FOLLOWED, said=leadership(leader_id=2, isr=(2,), history=history))
    assert not found(meta.judge(clean), "META-UNCLEAN-ELECTION")

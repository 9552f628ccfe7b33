"""The election that left records behind, by histories in which broker 1 wrote ten of them, from offset 30 on, in epoch 0."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.histories import history
from tests.support.made_cases import batch, case, compared, divergent, leadership, log

from replica_audit.auditing.compare.divergence_cause import Cause
from replica_audit.auditing.compare.divergent_ranges import DivergentRange
from replica_audit.auditing.leadership.election_causes import PastElections, describe, were_in_sync, with_causes
from replica_audit.protocol.election import elections
from replica_audit.protocol.lineage import Lineage

OUT: dict[str, Any] = {"isr": (1,)}
CLEAN_TO_2: dict[str, Any] = {"leader_id": 2, "isr": (2, 3)}
UNCLEAN_TO_2: dict[str, Any] = {"leader_id": 2, "isr": (2,), "recovering": True}
CLEAN_TO_3: dict[str, Any] = {"leader_id": 3, "isr": (2, 3)}
UNCLEAN_TO_3: dict[str, Any] = {"leader_id": 3, "isr": (3,), "recovering": True}
NOBODY: dict[str, Any] = {"leader_id": None}
STOPPED: dict[str, Any] = {"leader_id": None, "leader_stopped": True}
JOINED: dict[str, Any] = {"isr": (2, 3), "recovering": False}
ALL_NEEDED = {"min.insync.replicas": "3"}
TWO_NEEDED = {"min.insync.replicas": "2"}
Starts = tuple[tuple[int, int], ...]


#: The ten records.
RUN = divergent("epoch", leader=1, replica=0, batches=(batch(30, 39),))


def cause_of(
    run: DivergentRange, changes: list[dict[str, Any]], reference: Starts, holder: Starts, other: Starts | None = None
) -> Cause | None:
    """The cause of a run of broker 1; a history whose first change is a snapshot begins with it."""
    states = history(*map(dict, changes))[int("occasion" in changes[0]) :]
    others = [] if other is None else [compared(log(3, *other))]
    made = case(log(2, *reference), compared(log(1, *holder), run), *others)
    known = leadership(source="metadata_log", history=states)
    (item, *_) = with_causes(made.comparisons, made.reference, known)
    return item.runs[0].cause


@pytest.mark.parametrize(
    "run", [RUN._replace(kind="hole_here"), RUN._replace(replica_epoch=None), RUN._replace(replica_epoch=-1)]
)
def test_no_election_left_behind_what_only_one_has_or_what_has_no_epoch(run: DivergentRange) -> None:
    assert cause_of(run, [OUT, UNCLEAN_TO_2], ((0, 0), (1, 30)), ((0, 0),)) is None


@pytest.mark.parametrize(
    ("isr", "said"),
    [
        ((), "nobody was"),
        ((1,), "only broker 1 was"),
        ((1, 2), "brokers 1 and 2 were"),
        ((1, 2, 3), "brokers 1, 2 and 3 were"),
    ],
)
def test_who_was_in_sync_before_an_election(isr: tuple[int, ...], said: str) -> None:
    assert were_in_sync(isr) == f"{said} in sync"


@pytest.mark.parametrize(
    ("changes", "reference", "holder", "other", "cause"),
    [
        # (clean, its epoch, those of all that left them behind, suspects, came back, promised)
        ([CLEAN_TO_2], ((0, 0), (1, 30)), ((0, 0),), None, (True, 1, [1], 1, False, 0)),
        ([OUT, UNCLEAN_TO_2], ((0, 0), (1, 30)), ((0, 0),), None, (False, 1, [1], 1, False, 10)),
        # Too few were in sync to commit anything.
        (
            [OUT | {"configs": ALL_NEEDED}, UNCLEAN_TO_2],
            ((0, 0), (1, 30)),
            ((0, 0),),
            None,
            (False, 1, [1], 1, False, 0),
        ),
        # Until broker 3 led, which may have had them; enough came in sync since.
        (
            [OUT | {"configs": TWO_NEEDED, "occasion": "snapshot"}, UNCLEAN_TO_3, JOINED],
            ((0, 0),),
            ((0, 0),),
            None,
            (False, 1, [1], 1, False, 10),
        ),
        # Nothing shows what broker 3 had as it led.
        ([CLEAN_TO_3, CLEAN_TO_2], ((0, 0), (2, 30)), ((0, 0),), None, (True, 2, [2], 2, False, 10)),
        ([OUT, UNCLEAN_TO_3, JOINED, CLEAN_TO_2], ((0, 0), (2, 30)), ((0, 0),), None, (False, 1, [1], 2, False, 10)),
        ([CLEAN_TO_3, {"isr": (3,)}, UNCLEAN_TO_2], ((0, 0), (2, 30)), ((0, 0),), None, (False, 2, [2], 2, False, 10)),
        # It had them, or lacked them, by its own log.
        ([CLEAN_TO_3], ((0, 0),), ((0, 0),), ((0, 0), (1, 40)), (None, None, [], 1, False, 10)),
        ([CLEAN_TO_3, CLEAN_TO_2], ((0, 0), (2, 30)), ((0, 0),), ((0, 0), (1, 40)), (True, 2, [2], 1, False, 0)),
        (
            [CLEAN_TO_3, CLEAN_TO_2],
            ((0, 0), (1, 30), (2, 35)),
            ((0, 0),),
            ((0, 0), (1, 30)),
            (True, 1, [1], 1, False, 0),
        ),
        # Its log begins above them.
        ([CLEAN_TO_3, CLEAN_TO_2], ((0, 0), (2, 30)), ((0, 0),), ((1, 41),), (True, 2, [2], 2, False, 10)),
        # Broker 1 brought them back, and they were left behind again.
        (
            [CLEAN_TO_2, {"leader_id": 1, "isr": (1,), "recovering": True}, UNCLEAN_TO_2],
            ((0, 0), (1, 30), (3, 40)),
            ((0, 0), (2, 40)),
            None,
            (False, 3, [1, 3], 1, False, 10),
        ),
        (
            [CLEAN_TO_2, {"leader_id": 1, "isr": (1,), "recovering": True}],
            ((0, 0), (1, 30)),
            ((0, 0), (2, 40)),
            None,
            (None, 1, [1], 1, False, 10),
        ),
        (
            [CLEAN_TO_2, {"leader_id": 1, "isr": (1, 2), "recovering": True}, CLEAN_TO_2 | {"recovering": False}],
            ((0, 0), (1, 30), (3, 40)),
            ((0, 0), (2, 40)),
            None,
            (True, 3, [1, 3], 1, False, 0),
        ),
        (
            [CLEAN_TO_3, CLEAN_TO_2, {"leader_id": 1, "isr": (1,), "recovering": True}, UNCLEAN_TO_2],
            ((0, 0), (2, 30), (4, 40)),
            ((0, 0), (3, 40)),
            None,
            (False, 4, [2, 4], 1, False, 10),
        ),
        (
            [CLEAN_TO_2 | {"isr": (1, 2)}, {"leader_id": 1}],
            ((0, 0), (1, 30)),
            ((0, 0), (2, 40)),
            None,
            (None, 1, [1], 1, False, 10),
        ),
        # Who led since may have had them: it had been down, or was out of sync; one in sync has what its leader had.
        ([CLEAN_TO_2, CLEAN_TO_3], ((0, 0), (1, 30)), ((0, 0),), None, (True, 1, [1], 1, False, 0)),
        ([CLEAN_TO_2, UNCLEAN_TO_3], ((0, 0), (1, 30)), ((0, 0),), None, (None, 1, [1], 1, False, 10)),
        ([CLEAN_TO_2, NOBODY, CLEAN_TO_3], ((0, 0), (1, 30)), ((0, 0),), None, (None, 1, [1], 1, False, 10)),
        (
            [CLEAN_TO_2, UNCLEAN_TO_3],
            ((0, 0), (1, 30)),
            ((0, 0),),
            ((0, 0), (1, 30), (2, 35)),
            (True, 1, [1], 1, False, 0),
        ),
        # The history begins after they were written.
        ([CLEAN_TO_2 | {"occasion": "snapshot"}], ((0, 0), (1, 30)), ((0, 0),), None, (None, None, [], 1, False, None)),
        (
            [CLEAN_TO_2 | {"occasion": "snapshot"}, CLEAN_TO_3],
            ((0, 0), (2, 30)),
            ((0, 0),),
            None,
            (None, 2, [2], 1, False, None),
        ),
        (
            [CLEAN_TO_2 | {"occasion": "snapshot"}, CLEAN_TO_3, CLEAN_TO_2],
            ((0, 0), (3, 30)),
            ((0, 0),),
            ((0, 0), (2, 40)),
            (True, 3, [3], 1, False, None),
        ),
        # The winner was in sync, and had crashed: its log may have ended lower than it did.
        (
            [{"crashed": (2,)}, CLEAN_TO_2 | {"crashed": ()}],
            ((0, 0), (1, 30)),
            ((0, 0),),
            None,
            (True, 1, [1], 1, False, 10),
        ),
        (
            [{"crashed": (3,)}, CLEAN_TO_2 | {"crashed": ()}],
            ((0, 0), (1, 30)),
            ((0, 0),),
            None,
            (True, 1, [1], 1, False, 0),
        ),
        # It was eligible, so it had stopped in order; or it was not, and was elected for want of others.
        (
            [OUT | {"crashed": (2,), "elr": (2,), "configs": TWO_NEEDED}, CLEAN_TO_2 | {"crashed": (), "elr": ()}],
            ((0, 0), (1, 30)),
            ((0, 0),),
            None,
            (True, 1, [1], 1, False, 0),
        ),
        (
            [OUT | {"crashed": (2,), "configs": TWO_NEEDED}, UNCLEAN_TO_2 | {"crashed": ()}],
            ((0, 0), (1, 30)),
            ((0, 0),),
            None,
            (False, 1, [1], 1, False, 10),
        ),
        (
            [
                {"crashed": (2,), "isr": (1, 3), "configs": ALL_NEEDED},
                {"crashed": (), "isr": (1, 2, 3)},
                CLEAN_TO_2,
            ],
            ((0, 0), (1, 30)),
            ((0, 0),),
            None,
            (True, 1, [1], 1, False, 0),
        ),
        (
            [NOBODY | {"isr": (2,)}, UNCLEAN_TO_2 | {"recovering": False}],
            ((0, 0), (2, 30)),
            ((0, 0),),
            None,
            (True, 2, [2], 1, True, 0),
        ),
        # It had crashed before it was elected, by the very record that elected it, or since.
        (
            [NOBODY | {"isr": (2,)}, {"leader_id": 2, "crashed": (2,)}],
            ((0, 0), (2, 30)),
            ((0, 0),),
            None,
            (True, 2, [2], 1, True, 10),
        ),
        ([CLEAN_TO_2, {"crashed": (2,)}], ((0, 0), (1, 30)), ((0, 0),), None, (True, 1, [1], 1, False, 0)),
        # Nothing shows what the only one that led since had.
        ([CLEAN_TO_3], ((0, 0),), ((0, 0),), None, (True, 1, [1], 1, False, 10)),
        # Nothing was acknowledged while nobody led.
        ([NOBODY | {"isr": (3,)}, UNCLEAN_TO_2], ((0, 0), (2, 30)), ((0, 0),), None, (False, 2, [2], 1, True, 0)),
        # Broker 1 leads again, and may have lost them; broker 3 does, and was not the one that wrote them.
        ([STOPPED | {"isr": (1,)}, {"leader_id": 1}], ((0, 0),), ((0, 0),), None, (True, 2, [2], 1, True, 10)),
        ([STOPPED | {"isr": (1,)}, {"leader_id": 1}], ((0, 0), (2, 30)), ((0, 0),), None, (True, 2, [2], 1, True, 10)),
        (
            [CLEAN_TO_3, STOPPED | {"isr": (3,)}, {"leader_id": 3}],
            ((0, 0),),
            ((0, 0),),
            None,
            (True, 3, [3], 2, False, 10),
        ),
        # The history begins in the epoch in which they were written.
        ([{"occasion": "snapshot"}, CLEAN_TO_2], ((0, 0), (1, 30)), ((0, 0),), None, (True, 1, [1], 1, False, 0)),
    ],
)
def test_the_election_that_left_records_behind(
    changes: list[dict[str, Any]], reference: Starts, holder: Starts, other: Starts | None, cause: tuple
) -> None:
    """Broker 2 is the reference and lacks them, broker 1 holds them; of broker 3 there is the log `other`, or none."""
    found = cause_of(RUN, changes, reference, holder, other)
    assert found is not None
    epoch = None if found.election is None else found.election.leader_epoch
    every = [one.leader_epoch for one in found.elections]
    assert (found.clean, epoch, every, found.suspects, found.came_back, found.promised_records) == cause


@pytest.mark.parametrize(
    ("isr", "configs", "committed", "promised"),
    [
        ((1,), {}, 0, 10),
        ((1,), ALL_NEEDED, 0, 0),
        # Some versions move the high watermark below min.insync.replicas, but acknowledge nothing with acks=all.
        ((1,), ALL_NEEDED, 4, 0),
        ((1, 3), ALL_NEEDED, 0, 0),
        ((1, 3), TWO_NEEDED, 0, 10),
        ((1, 2), {}, 0, 0),
        # A checkpoint shows more than the history does.
        ((1, 2), {}, 4, 4),
    ],
)
def test_no_more_was_promised_than_those_in_sync_in_the_term_of_its_leader_had(
    isr: tuple[int, ...], configs: dict[str, str], committed: int, promised: int
) -> None:
    """Broker 1 wrote them in epoch 2, after all had been stopped, and broker 2 had crashed."""
    run = RUN._replace(replica_epoch=2, committed_records=committed)
    stopped = STOPPED | {"isr": (1, 2), "crashed": (2,)}
    again = {"leader_id": 1, "isr": isr, "configs": configs, "crashed": ()}
    found = cause_of(run, [stopped, again, UNCLEAN_TO_2], ((0, 0), (2, 20), (3, 30)), ((0, 0), (2, 20)))
    assert found is not None and found.elections[0].leader_epoch == 3
    assert found.promised_records == promised


@pytest.mark.parametrize("epoch", [1, 2], ids=["in which nobody led", "later than the history"])
def test_nothing_shows_what_was_promised_in_an_epoch_that_the_history_has_no_leader_of(epoch: int) -> None:
    run = RUN._replace(replica_epoch=epoch)
    changes = [STOPPED | {"isr": (1,)}] + ([CLEAN_TO_3, CLEAN_TO_2] if epoch == 1 else [])
    found = cause_of(run, changes, ((0, 0), (3, 30)), ((0, 0), (epoch, 30)))
    assert found is not None and found.promised_records is None


@pytest.mark.parametrize(
    ("starts", "file"), [(((0, 0),), ((0, 0), (1, 30))), (((0, 0), (1, 30)), None)], ids=["by its file", "by its log"]
)
def test_what_a_leader_had_is_shown_by_its_epoch_file_or_by_its_log(starts: Starts, file: Starts | None) -> None:
    leader = log(2, *starts, end=30 if file else 40, checkpoint_epochs=file)
    made = case(leader, compared(log(1, (0, 0)), RUN))
    known = leadership(source="metadata_log", history=history({**CLEAN_TO_2}))
    (item,) = with_causes(made.comparisons, made.reference, known)
    assert item.runs[0].cause is not None and item.runs[0].cause.promised_records == 0


@pytest.mark.parametrize(
    ("offset", "epoch", "had"),
    [(45, 2, True), (45, 3, False), (45, 1, False), (30, 2, True), (30, 3, False), (30, 1, None), (65, 5, True)],
)
def test_what_a_leader_had_below_where_its_log_begins_is_of_no_later_epoch(
    offset: int, epoch: int, had: bool | None
) -> None:
    """Its log begins at 40, in epoch 2; it led in epoch 5, from 60 on."""
    past = PastElections((), -1, (), (Lineage(((2, 40), (5, 60))),))
    assert past.had(5, offset, epoch) is had
    assert past.had(4, offset, epoch) is None


def test_without_a_history_no_election_is_known() -> None:
    made = case(log(2, (0, 0), (1, 30)), compared(log(1, (0, 0)), RUN))
    for known in (None, leadership()):
        assert with_causes(made.comparisons, made.reference, known) == made.comparisons


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([CLEAN_TO_2], "took over from broker 1 cleanly, in leader epoch 1 (brokers 1, 2 and 3 were in sync)"),
        ([OUT, UNCLEAN_TO_2], "took over from broker 1 uncleanly, in leader epoch 1 (only broker 1 was in sync)"),
        (
            [NOBODY | {"isr": (2,)}, CLEAN_TO_2, NOBODY | {"isr": (2,)}, CLEAN_TO_2],
            "became leader cleanly, in leader epoch 4 (only broker 2 was in sync)",
        ),
        (
            [NOBODY | {"occasion": "snapshot", "isr": (2,)}, CLEAN_TO_2],
            "became leader cleanly, in leader epoch 2 (only broker 2 was in sync)",
        ),
        (
            [NOBODY | {"isr": (), "elr": (2, 3)}, CLEAN_TO_2 | {"elr": (3,)}],
            "took over from broker 1 cleanly, in leader epoch 2 (nobody was in sync, brokers 2 and 3 were eligible)",
        ),
        (
            [NOBODY | {"isr": (), "last_known_elr": (2,)}, UNCLEAN_TO_2],
            "took over from broker 1 uncleanly, as the last known leader, in leader epoch 2 (nobody was in sync)",
        ),
    ],
)
def test_an_election_in_words(changes: list[dict[str, Any]], said: str) -> None:
    states = history(*map(dict, changes))[int("occasion" in changes[0]) :]
    when = f"1970-01-01T00:00:01.{len(changes):03}Z"
    assert describe(elections(states)[-1]) == f"at {when} broker 2 {said}"

"""Costs of elections for records below the leader's log start, where nothing is left to compare them with (F.0).

They were committed if they are of the leader's own history, or if a high watermark of a log that has them proves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.scenario import asked_costs, audit, loss_of, written, written_legacy
from tests.support.snapshots import Replica

from replica_audit.api.elected import elect

#: Leaders whose history is epoch 1 up to 20, then epoch 4, and whose log begins at 40.
OLDER, NEWER = written(0, 20, 1), written(20, 40, 4)
LEADERS = {
    "DeleteRecords": Replica([*OLDER, *NEWER], log_start=40, epochs=[(4, 40)]),
    "DeleteRecords, restarted": Replica([*OLDER, *NEWER], log_start=40, epochs=[]),
    "DeleteRecords, written since": Replica([*OLDER, *NEWER, *written(40, 50, 4)], log_start=40, epochs=[(4, 40)]),
    "DeleteRecords, segments gone": Replica([], log_start=40, first_base_offset=40, epochs=[(4, 40)]),
    "retention": Replica(written(40, 50, 4), epochs=[(4, 40)]),
    "retention, no epoch file": Replica(written(40, 50, 4), epochs=None),
}
#: Where epoch 4 began can still be read.
TOLD = [name for name in LEADERS if name.startswith("DeleteRecords") and not name.endswith("gone")]
#: The next record is there.
GOES_ON = [name for name, leader in LEADERS.items() if leader.batches[-2:] == written(40, 50, 4)]
#: Another lineage: epoch 1 goes on.
OTHER = [*OLDER, *written(20, 40, 1, "other ")]
SHORT = Replica(OLDER[:1])


def costs(path: Path, brokers: Mapping[int, Replica]) -> dict[int, tuple[int, int]]:
    """By candidate, the records below 40 that are lost: proven committed, and possibly besides."""
    answer = audit(path, brokers, isr=(1,), in_order=True)
    found = {}
    for candidate, (lost, committed, possible) in asked_costs(path).items():
        assert lost == committed + possible, candidate
        ends = [answer.replica(broker)["log_end_offset"] for broker in (1, candidate)]
        # All of the leader's own above were committed.
        found[candidate] = committed - max(0, ends[0] - max(40, ends[1])), possible
    return found


def test_the_leaders_are_of_every_kind() -> None:
    assert len(TOLD) == len(GOES_ON) == 3


@pytest.mark.parametrize("name", LEADERS)
@pytest.mark.parametrize("mark", [10, 20, 26, 40])
def test_an_older_epoch_is_committed_as_far_as_it_is_the_leaders_or_was_recorded(
    tmp_path: Path, name: str, mark: int
) -> None:
    brokers = {1: LEADERS[name], 2: Replica(OTHER, high_watermark=mark), 3: SHORT}
    committed = max(mark, 20 if name in TOLD else 0)
    assert costs(tmp_path, brokers) == {1: (0, 0), 2: (0, 0), 3: (committed - 5, 40 - committed)}


@pytest.mark.parametrize("name", LEADERS)
@pytest.mark.parametrize("mark", [0, 26])
def test_the_leaders_own_epoch_is_committed(tmp_path: Path, name: str, mark: int) -> None:
    """Whoever has a record of it has what the leader had below."""
    brokers = {1: LEADERS[name], 2: Replica([*OLDER, *NEWER[:3]], high_watermark=mark), 3: SHORT}
    assert costs(tmp_path, brokers)[3] == (30, 0)


@pytest.mark.parametrize("name", GOES_ON)
def test_a_log_that_goes_on_as_the_leaders_tells_where_its_epoch_began(tmp_path: Path, name: str) -> None:
    follower = Replica([*OLDER, *NEWER, *written(40, 45, 4)], high_watermark=0)
    brokers = {1: LEADERS[name], 2: follower, 3: SHORT, 4: Replica(OTHER, high_watermark=0)}
    found = costs(tmp_path, brokers)
    assert (found[2], found[3]) == ((0, 20), (35, 20))


@pytest.mark.parametrize("goes_on", [True, False])
def test_of_logs_without_epochs_the_next_record_tells(tmp_path: Path, goes_on: bool) -> None:
    log = written_legacy(0, 50)
    brokers = {
        1: Replica(log[40:], epochs=None),
        2: Replica(log[: 45 if goes_on else 40], high_watermark=12, epochs=None),
        3: Replica(log[:5], high_watermark=5, epochs=None),
    }
    assert costs(tmp_path, brokers)[3] == ((35, 0) if goes_on else (7, 28))


@pytest.mark.parametrize(("end", "mark", "committed"), [(40, 33, 33), (35, 35, 35), (25, 33, 33), (20, 45, 40)])
def test_what_another_replica_recorded_of_that_epoch_proves_it(
    tmp_path: Path, end: int, mark: int, committed: int
) -> None:
    """Also where its log has lost its end since, as its recovery point shows."""
    witness = Replica(OTHER[: end // 5], high_watermark=mark, recovery_point=max(end, mark), epochs=[(1, 0)])
    brokers = {1: LEADERS["retention"], 2: Replica(OTHER, high_watermark=0), 3: SHORT, 4: witness}
    assert costs(tmp_path, brokers)[3] == (committed - 5, 40 - committed)


@pytest.mark.parametrize(("mark", "committed"), [(26, 0), (32, 2), (40, 10)])
def test_of_a_batch_that_a_log_start_goes_through_only_the_rest_is_lost(
    tmp_path: Path, mark: int, committed: int
) -> None:
    """The cut at 33 drops [30, 40); the leader's [30, 33) were deleted, so that those of nobody are missing there."""
    leader = Replica([*OLDER, *NEWER], log_start=33, epochs=[(4, 33)])
    answer = audit(tmp_path, {1: leader, 2: Replica(OTHER, high_watermark=mark)}, isr=(1,))
    row = next(row for row in answer.tables["elections"] if (row["candidate_id"], row["broker_id"]) == (1, 2))
    assert (row["kept_to"], row["dropped_records"], row["committed_dropped"]) == (33, 10, committed)
    assert (row["lost_records"], row["lost_committed"]) == (7, max(0, mark - 33))


#: A leader of epoch 2 from 20 on, beside a former leader of epochs 0 and 1 whose log begins at 25.
LATER = [*written(0, 20, 0), *written(20, 23, 2)]
FORMER = Replica([*written(0, 20, 0), *written(20, 30, 1)], log_start=25, epochs=[(1, 25)], high_watermark=30)


@pytest.mark.parametrize("begins", [25, 30])
def test_records_of_a_later_epoch_were_never_deleted_from_a_log_of_earlier_ones(tmp_path: Path, begins: int) -> None:
    """What the present leader acknowledged lies below the former one's log start, and was said not to be lost with it."""
    former = replace(FORMER, log_start=begins, epochs=[(1, begins)], batches=[*FORMER.batches, *written(30, 35, 1)])
    audit(tmp_path, {1: Replica(LATER, high_watermark=23), 2: former}, leader=1, isr=(1,))
    assert asked_costs(tmp_path)[2] == (3, 3, 0)
    (decision,) = elect(str(tmp_path), ["orders-0"], candidate=2).plan.decisions
    assert [(one.broker_id, one.start_offset, one.end_offset, one.records) for one in decision.salvage] == [
        (1, 20, 23, 3)
    ]


def test_records_of_the_epoch_at_the_log_start_or_before_were_deleted(tmp_path: Path) -> None:
    """Retention took what the leader had of them: a follower that slept through it loses nothing."""
    asleep = Replica([*written(0, 20, 0), *written(20, 23, 1)], high_watermark=20)
    audit(tmp_path, {1: FORMER, 2: asleep}, leader=1, isr=(1,))
    assert asked_costs(tmp_path)[1] == (0, 0, 0)


def test_a_later_leader_of_earlier_epochs_lacks_what_another_committed_below_its_log_start(tmp_path: Path) -> None:
    """Two unclean elections, and the second leader's log begins past what the first one wrote: the replicas were said to agree."""
    leader = replace(
        FORMER, batches=[*FORMER.batches, *written(30, 33, 3)], epochs=[(1, 25), (3, 30)], high_watermark=33
    )
    answer = audit(tmp_path, {1: leader, 2: Replica(LATER, high_watermark=23)}, leader=1, isr=(1,))
    assert loss_of(answer) == ("COMMITTED_LOSS", 3, 3)
    assert asked_costs(tmp_path) == {1: (3, 3, 0), 2: (8, 8, 0)}
    (found,) = answer.found("DIV-EPOCH")
    assert "at offsets 20 to 22, which broker 1 never had" in found["message"]


#: Epoch 1 up to 25, then epoch 2.
DELETED = [*written(0, 20, 0), *written(20, 25, 1), *written(25, 40, 2)]


@pytest.mark.parametrize(
    "log",
    [
        Replica(DELETED[:5], log_start=30, epochs=[(0, 0), (1, 20)]),
        Replica([], log_start=30, first_base_offset=30, epochs=[(0, 0), (1, 20)]),
    ],
    ids=["ends below it", "empty"],
)
def test_a_log_that_is_not_known_up_to_its_start_may_have_had_what_was_deleted_there(
    tmp_path: Path, log: Replica
) -> None:
    """Log or epoch file may be of before epoch 2: what DeleteRecords had removed was said to be lost."""
    answer = audit(tmp_path, {1: Replica(DELETED, high_watermark=40), 2: log}, leader=2, isr=(2,))
    assert not [one for one in answer.found("DIV-EPOCH") if "never had" in one["message"]]
    lost = asked_costs(tmp_path)[2][0]
    (decision,) = elect(str(tmp_path), ["orders-0"], candidate=2).plan.decisions
    told = [(one.start_offset, one.end_offset, one.records) for one in decision.salvage]
    assert (lost, told) == ((10, [(30, 40, 10)]) if log.batches else (0, []))

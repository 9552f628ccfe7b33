"""Controllers that lack what brokers have applied (META-STALE), and those that only lag or were copied earlier."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.controllers import APPLIED, LATE_ID, TIME_MS, TOPIC_ID, discovered
from tests.support.snapshots import Replica, write_manifest

from replica_audit.snapshot.inventory import Inventory

#: Of the records that a stale copy lacks.
LATER_MS = TIME_MS + 60_000


def log(voters: Sequence[int], *later: bytes) -> bytes:
    """Topic t, led by broker 1, and batches that came later."""
    return write.history(write.new_topic("t", TOPIC_ID, (1, 2), 1), voters=voters) + b"".join(later)


ELECTION = write.batch(3, [write.change(TOPIC_ID, leader=2, isr=(2,))], time_ms=LATER_MS)
SHRUNK = write.batch(3, [write.change(TOPIC_ID, isr=(2,))], time_ms=LATER_MS)
CREATED = write.batch(3, write.new_topic("late", LATE_ID, (2,), 2), time_ms=LATER_MS)


def copied(
    path: Path,
    logs: Mapping[int, bytes],
    *,
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
    late: bool = False,
    quiesced: bool | None = True,
    started_ms: int | Mapping[int, int] | None = None,
    clean: Collection[int] = (),
    kind: str | None = "left out",
    others: Sequence[Mapping[str, object]] = (),
) -> Inventory:
    """Controllers (from 100 on) and brokers with their copies of the metadata log; broker 2 has `epochs` of t-0 in its file.

    `late`: broker 2 has a directory of topic late too. `started_ms`: when the controllers' copies were begun. `clean`: brokers that were
    stopped cleanly. `kind`: of the controllers' copies. `others`: copies besides.
    """
    replicas = [Replica(epochs=epochs, topic="t", topic_id=TOPIC_ID)]
    replicas += [APPLIED] if late else []
    begun = started_ms if isinstance(started_ms, Mapping) else {node: started_ms for node in logs if node > 99}
    controllers = [
        {"broker_id": node, "log_dir": f"controller-{node}", "started": started}
        | ({} if kind == "left out" else {"kind": kind})
        for node, started in begun.items()
        if started is not None
    ]
    path.mkdir(exist_ok=True)
    write_manifest(path, quiesced=quiesced, brokers=[*controllers, *others])
    return discovered(path, logs, {2: replicas}, clean=clean)


def told(inventory: Inventory) -> list[tuple[str, int | None]]:
    return [(row.code, row.broker_id) for row in inventory.quarantine]


def leader(inventory: Inventory) -> int | None:
    return next(one.leader_id for one in inventory.leaderships if one.topic == "t")


def lacked_by(inventory: Inventory, topic: str = "t") -> tuple[int, ...]:
    return next(one.history[-1].lacked_by for one in inventory.leaderships if one.topic == topic)


def test_a_controller_from_a_backup_lacks_the_election_that_brokers_applied(tmp_path):
    stale, whole = log((100,)), log((100,), ELECTION)
    found = copied(tmp_path, {100: stale, 1: whole, 2: whole}, epochs=((0, 0), (1, 0)))
    assert told(found) == [("META-STALE", 100)]
    assert (leader(found), lacked_by(found)) == (2, (100,))
    (row,) = found.quarantine
    assert "it ends at offset 3, and the metadata log was committed at least to 4" in row.reason
    assert "broker 2 has leader epoch 1 of t-0, of record 3; nodes 1 and 2 have it, to 4" in row.reason


def test_a_topic_that_a_broker_has_a_directory_of_was_committed(tmp_path):
    stale, whole = log((100,)), log((100,), CREATED)
    found = copied(tmp_path, {100: stale, 2: whole}, late=True)
    assert told(found) == [("META-STALE", 100)] and lacked_by(found, "late") == (100,)
    assert not lacked_by(found), "nothing came of t"


def test_what_no_voter_has_at_rest_came_from_a_controller_all_the_same(tmp_path):
    """The ISR shrank, which leaves no trace in any file of a broker but its own copy."""
    found = copied(tmp_path / "rest", {100: log((100,)), 2: log((100,), SHRUNK)})
    assert told(found) == [("META-STALE", 100)] and lacked_by(found) == (100,)
    live = copied(tmp_path / "live", {100: log((100,)), 2: log((100,), SHRUNK)}, quiesced=None)
    assert told(live) == [] and lacked_by(live) == ()


@pytest.mark.parametrize(
    ("quiesced", "started_ms", "stale"),
    [
        (None, None, False),
        (False, None, False),
        (None, LATER_MS + 5_000, True),
        (None, LATER_MS - 5_000, False),
        (None, LATER_MS + 500, False),
        (True, LATER_MS - 5_000, True),
    ],
    ids=["not said", "live", "copied after", "copied before", "within what clocks differ by", "at rest"],
)
def test_a_copy_of_a_running_controller_is_stale_only_if_it_was_made_later(tmp_path, quiesced, started_ms, stale):
    voters = (100, 101, 102)
    logs = {**dict.fromkeys(voters, log(voters)), 2: log(voters, ELECTION)}
    found = copied(tmp_path, logs, epochs=((0, 0), (1, 0)), quiesced=quiesced, started_ms=started_ms)
    assert told(found) == [("META-STALE" if stale else "CAP-SKEW", node) for node in voters]
    assert leader(found) == 2, "what a broker applied was committed, whoever was copied when"


@pytest.mark.parametrize(("behind_ms", "late_ms", "stale"), [
    (0, 5_000, True), (0, -5_000, False), (10_000, 5_000, False), (10_000, 15_000, True), (-10_000, 5_000, True),
])  # fmt: skip
def test_when_a_record_was_written_is_told_by_the_leaders_clock(tmp_path, behind_ms, late_ms, stale):
    """It is behind those of the other nodes, whose copies end after its last record. Voters were copied `late_ms` after it by theirs."""
    voters = (100, 101, 102)
    whole = log(voters, ELECTION, write.batch(4, [write.no_op()], time_ms=LATER_MS + 60_000))
    logs = {100: whole, 101: log(voters), 102: log(voters), 2: whole}
    times = {"started": LATER_MS + 59_000, "finished": LATER_MS + 60_000}
    leader = {"broker_id": 100, "log_dir": "controller-100", **times}
    follower = {"broker_id": 2, "log_dir": "broker-2", **{name: time + behind_ms for name, time in times.items()}}
    found = copied(
        tmp_path,
        logs,
        epochs=((0, 0), (1, 0)),
        quiesced=None,
        started_ms={101: LATER_MS + late_ms, 102: LATER_MS + late_ms},
        others=[leader, follower],
    )
    assert told(found) == [("META-STALE" if stale else "CAP-SKEW", node) for node in (101, 102)]


@pytest.mark.parametrize("kind", ["image", None])
def test_an_image_of_a_controller_s_disk_that_was_copied_later_may_be_older(tmp_path, kind):
    voters = (100, 101, 102)
    logs = {**dict.fromkeys(voters, log(voters)), 2: log(voters, ELECTION)}
    found = copied(tmp_path, logs, epochs=((0, 0), (1, 0)), quiesced=None, started_ms=LATER_MS + 600_000, kind=kind)
    assert told(found) == [("CAP-SKEW", node) for node in voters]


@pytest.mark.parametrize(
    ("started_ms", "stale"), [(None, True), (LATER_MS + 5_000, True), (LATER_MS + 500, True), (LATER_MS - 5_000, False)]
)
@pytest.mark.parametrize("change", [ELECTION, SHRUNK], ids=["in its files", "in its copy alone"])
def test_that_brokers_were_stopped_does_not_show_when_controllers_were_copied(tmp_path, started_ms, stale, change):
    """Controllers may have been copied before that, while they ran."""
    voters = (100, 101, 102)
    logs = {**dict.fromkeys(voters, log(voters)), 2: log(voters, change)}
    epochs = ((0, 0), (1, 0)) if change == ELECTION else ((0, 0),)
    found = copied(tmp_path, logs, epochs=epochs, quiesced=None, started_ms=started_ms, clean=(2,))
    assert told(found) == [("META-STALE" if stale else "CAP-SKEW", node) for node in voters]


@pytest.mark.parametrize(
    ("holding", "lacking", "stale"),
    [
        ((100, 101), (102,), ()),
        ((100,), (101, 102), (101, 102)),
        ((), (100, 101, 102), (100, 101, 102)),
        ((100,), (101,), ()),
        ((), (101,), ()),
        ((), (100, 101), (100, 101)),
    ],
    ids=["a lagging voter", "a majority", "all", "a majority may have it", "one of three here", "two of three here"],
)
def test_a_voter_that_lags_behind_a_majority_is_healthy(tmp_path, holding, lacking, stale):
    """Three voters may have been seeded from one disk: their majority proves nothing against what brokers applied."""
    voters = (100, 101, 102)
    whole = log(voters, ELECTION)
    logs = {**dict.fromkeys(holding, whole), **dict.fromkeys(lacking, log(voters)), 2: whole}
    found = copied(tmp_path, logs, epochs=((0, 0), (1, 0)))
    assert told(found) == [("META-STALE", node) for node in stale]
    assert leader(found) == 2


def test_an_uncommitted_tail_that_nobody_applied_stays_tentative(tmp_path):
    voters = (100, 101, 102)
    whole = log(voters, ELECTION)
    found = copied(tmp_path, {100: whole, 101: log(voters), 102: log(voters), 2: whole})
    assert told(found) == [] and leader(found) == 1


def test_an_epoch_that_began_before_shows_nothing_of_what_came_after(tmp_path):
    voters = (100, 101, 102)
    elected = log(voters, ELECTION)
    tail = elected + write.batch(4, [write.change(TOPIC_ID, isr=(1, 2))], time_ms=LATER_MS + 1)
    logs = {100: tail, 101: elected, 102: elected, 2: tail}
    found = copied(tmp_path, logs, epochs=((0, 0), (1, 0)))
    (one,) = found.leaderships
    assert told(found) == [] and one.isr == (2,) and one.history[-1].uncommitted


def test_a_broker_that_lags_is_no_matter(tmp_path):
    found = copied(tmp_path, {100: log((100,), ELECTION), 1: log((100,)), 2: log((100,), ELECTION)})
    assert told(found) == [] and leader(found) == 2

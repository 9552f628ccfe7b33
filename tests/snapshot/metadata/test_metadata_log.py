"""Metadata logs of one and of several nodes, written for the test: state machine, transactions, quorum, damage."""

from __future__ import annotations

import pytest
from tests.support import metadata_log as write
from tests.support.controllers import BEGINNING, OTHER_ID, TOPIC_ID, VOTERS, discovered, first_batches
from tests.support.encoder import flip
from tests.support.metadata_log import MetadataLog
from tests.support.snapshots import Listed

from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.leadership_rows import leadership_of_rows, state_rows
from replica_audit.snapshot.metadata.metadata_log import MetadataReading, read_metadata
from replica_audit.snapshot.storage import Snapshot

TIME_MS = write.TIME_MS


def read(path) -> MetadataReading:
    snapshot = Snapshot.open(str(path))
    return read_metadata(snapshot, discover(snapshot).metadata_logs)


def read_one(path, *batches: bytes, snapshots=None, base: int = 0):
    write.write_metadata_log(path, 100, write.MetadataLog({base: b"".join(batches)}, snapshots or {}))
    reading = read(path)
    assert not reading.quarantine
    return {(one.topic, one.partition): one for one in reading.leaderships}


def test_a_leader_that_is_given_begins_an_epoch_even_if_it_is_the_same(tmp_path):
    (one,) = read_one(
        tmp_path,
        first_batches(),
        write.batch(3, [write.change(TOPIC_ID, isr=(1, 2))], time_ms=TIME_MS + 1),
        write.batch(4, [write.change(TOPIC_ID, leader=1, isr=(1,))], time_ms=TIME_MS + 2),
        write.batch(5, [write.change(TOPIC_ID, leader=-1, isr=(), elr=(1,), last_known_elr=(2,))], time_ms=TIME_MS + 3),
    ).values()
    told = [
        (s.time_ms - TIME_MS, s.metadata_offset, s.occasion, s.leader_id, s.leader_epoch, s.partition_epoch)
        for s in one.history
    ]
    assert told == [
        (0, 2, "created", 1, 0, 0),
        (1, 3, "changed", 1, 0, 1),
        (2, 4, "changed", 1, 1, 2),
        (3, 5, "changed", None, 2, 3),
    ]
    assert [state.isr for state in one.history] == [(1, 2, 3), (1, 2), (1,), ()]
    assert (one.leader_id, one.leader_epoch, one.isr, one.elr, one.last_known_elr) == (None, 2, (), (1,), (2,))
    assert (one.source, one.topic_id, one.replicas) == ("metadata_log", TOPIC_ID, (1, 2, 3))


def test_metadata_transactions_count_once_they_have_ended_and_never_when_aborted(tmp_path):
    found = read_one(
        tmp_path,
        first_batches(),
        write.batch(3, [write.begin(), write.change(TOPIC_ID, leader=2), write.abort()]),
        write.batch(6, [write.begin(), *write.new_topic("u", OTHER_ID, (1,), 1)]),
        write.batch(9, [write.end()]),
        write.batch(10, [write.begin(), write.change(TOPIC_ID, leader=3)]),
    )
    assert found["t", 0].leader_id == 1 and len(found["t", 0].history) == 1
    assert found["u", 0].leader_id == 1


def test_configs_of_the_topic_go_before_those_of_its_leader_and_of_the_cluster(tmp_path):
    found = read_one(
        tmp_path,
        first_batches(),
        write.batch(
            3,
            [write.config(4, "", "min.insync.replicas", "2"), write.config(4, "1", "log.cleanup.policy", "compact")],
            time_ms=TIME_MS + 1,
        ),
        write.batch(5, [write.config(2, "t", "min.insync.replicas", "3")]),
        write.batch(6, [write.config(4, "1", "ssl.keystore.password", "secret")]),
        write.batch(7, [write.change(TOPIC_ID, leader=2)]),
        write.batch(8, [write.config(2, "t", "min.insync.replicas", None)]),
    )["t", 0]
    assert [dict(state.configs) for state in found.history[-2:]] == [
        {"min.insync.replicas": "3"},
        {"min.insync.replicas": "2"},
    ]
    assert {"cleanup.policy": "compact", "min.insync.replicas": "2"} in [dict(state.configs) for state in found.history]
    assert "secret" not in repr(found)


def test_a_leader_does_not_say_whether_unclean_elections_are_allowed(tmp_path):
    name = "unclean.leader.election.enable"
    found = read_one(
        tmp_path,
        first_batches(),
        write.batch(3, [write.config(4, "", name, "true")], time_ms=TIME_MS + 1),
        write.batch(4, [write.config(4, "1", name, "false")]),
        write.batch(5, [write.config(2, "t", name, "false")]),
        write.batch(6, [write.config(2, "t", name, None), write.config(4, "1", name, None)]),
    )["t", 0]
    assert found.leader_id == 1
    assert [state.configs.get(name) for state in found.history[1:]] == ["true", None, "false", None, "true"]
    assert [state.inherits_unclean for state in found.history] == [False, True, False, False, False, True]


def test_a_topic_that_is_created_again_has_no_past(tmp_path):
    found = read_one(
        tmp_path,
        first_batches(),
        write.batch(3, [write.config(2, "t", "min.insync.replicas", "2"), write.change(TOPIC_ID, leader=3)]),
        write.batch(5, [write.remove_topic(TOPIC_ID), *write.new_topic("t", OTHER_ID, (2, 3), 2)]),
    )
    assert set(found) == {("t", 0)}
    assert (found["t", 0].topic_id, len(found["t", 0].history), dict(found["t", 0].configs)) == (OTHER_ID, 1, {})


def test_brokers_that_are_fenced_stopped_or_unknown(tmp_path):
    found = read_one(
        tmp_path,
        first_batches(),
        write.batch(3, [write.register_broker(1), write.register_broker(2), write.register_broker(3, fenced=True)]),
        write.batch(6, [write.registration_change(3, -1), write.registration_change(2, 1)]),
    )
    assert found["t", 0].fenced == (2,)


def test_brokers_whose_log_dir_with_the_partition_is_not_online(tmp_path):
    """KIP-858: of the directories assigned to the replicas, those that a broker's last registration lacks."""
    dirs = [letter * 21 + "A" for letter in "bcdef"]
    unassigned, lost = ("A" * 21 + letter for letter in "Qg")
    found = read_one(
        tmp_path / "now",
        write.batch(0, [write.topic("t", TOPIC_ID)]),
        write.batch(1, [
            write.partition(TOPIC_ID, (1, 2, 3), 1, directories=(dirs[0], dirs[1], unassigned)),
            *(write.register_broker(one, log_dirs=dirs) for one in (1, 2, 3)),
        ]),
        write.batch(5, [write.registration_change(2, log_dirs=(dirs[0], dirs[2])), write.registration_change(3, log_dirs=dirs[:1])]),
        write.batch(7, [write.registration_change(2, 1)]),
    )["t", 0]  # fmt: skip
    assert found.offline == leadership_of_rows(list(state_rows(found))).offline == (2,)
    back = read_one(
        tmp_path / "back",
        write.batch(0, write.new_topic("t", TOPIC_ID, (1, 2), 1, directories=(lost, dirs[1]))),
        write.batch(2, [write.register_broker(1, log_dirs=dirs), write.register_broker(2, log_dirs=dirs[:1])]),
        write.batch(4, [write.register_broker(2, log_dirs=dirs)]),
    )
    assert back["t", 0].offline == (1,)


def test_a_broker_that_registered_without_a_list_of_its_log_dirs_has_all_but_lost_ones_online(tmp_path):
    """`DirectoryId.isOnline`, KAFKA-16162: below metadata version 3.7-IV2 a registration lists none."""
    dirs, lost = [letter * 21 + "A" for letter in "bcd"], "A" * 21 + "g"
    found = read_one(
        tmp_path,
        write.batch(0, [
            *write.new_topic("t", TOPIC_ID, (1, 2, 3), 1, directories=(dirs[0], dirs[1], lost)),
            write.register_broker(1, log_dirs=dirs[1:]),
            write.register_broker(2),
        ]),
        write.batch(4, [write.register_broker(1), write.registration_change(1, -1)]),
    )["t", 0]  # fmt: skip
    assert found.offline == (3,)


def test_a_leader_that_is_stopped_is_told_from_one_that_is_fenced(tmp_path):
    """The order of records is that of 4.3.1: stopping before the leaderships are taken away, fenced after."""
    (one,) = read_one(
        tmp_path,
        first_batches(),
        write.batch(3, [write.register_broker(1), write.change(TOPIC_ID, isr=(1,))]),
        write.batch(5, [write.registration_change(1, stopping=1), write.change(TOPIC_ID, leader=-1)]),
        write.batch(7, [write.registration_change(1, 1), write.config(2, "t", "min.insync.replicas", "1")], time_ms=TIME_MS + 1),
        write.batch(9, [write.register_broker(1, fenced=True)]),
        write.batch(10, [write.registration_change(1, -1), write.change(TOPIC_ID, leader=1)]),
        write.batch(12, [write.change(TOPIC_ID, leader=-1), write.registration_change(1, 1)]),
    ).values()  # fmt: skip
    told = [(state.occasion, state.leader_id, state.leader_stopped) for state in one.history]
    assert told == [
        ("created", 1, False),
        ("changed", 1, False),
        ("changed", None, True),
        ("configured", None, True),
        ("changed", 1, False),
        ("changed", None, False),
    ]
    (again,) = [leadership_of_rows(list(state_rows(one)))]
    assert again.history == tuple(state._replace(batch_end=None) for state in one.history)


def test_a_replica_that_registers_again_without_having_announced_that_it_stops_crashed(tmp_path):
    (one,) = read_one(
        tmp_path,
        first_batches(),
        write.batch(3, [write.register_broker(1), write.register_broker(2), write.change(TOPIC_ID, isr=(1, 2))]),
        write.batch(6, [write.change(TOPIC_ID, isr=(1,)), write.registration_change(2, 1)]),
        write.batch(8, [write.register_broker(2, fenced=True)]),
        write.batch(9, [write.registration_change(2, -1)]),
        write.batch(10, [write.config(2, "t", "min.insync.replicas", "1")], time_ms=TIME_MS + 1),
        write.batch(11, [write.change(TOPIC_ID, isr=(1, 2))]),
        write.batch(12, [write.registration_change(2, stopping=1), write.change(TOPIC_ID, isr=(1,))]),
        write.batch(14, [write.registration_change(2, 1)]),
        write.batch(15, [write.register_broker(2, fenced=True), write.registration_change(2, -1)]),
        write.batch(17, [write.change(TOPIC_ID, isr=(1, 2))]),
        write.batch(18, [write.registration_change(2, 1)]),
        write.batch(19, [write.registration_change(2, -1), write.change(TOPIC_ID, isr=(1,))]),
        write.batch(21, [write.register_broker(1), write.register_broker(2), write.change(TOPIC_ID, leader=2, isr=(2,))]),
    ).values()  # fmt: skip
    told = [(state.metadata_offset, state.crashed) for state in one.history if state.crashed]
    # Told with the next state; after a controlled shutdown, and without a new process, nobody crashed.
    assert told == [(10, (2,)), (23, (1, 2))]
    assert leadership_of_rows(list(state_rows(one))).history == tuple(
        state._replace(batch_end=None) for state in one.history
    )


def test_eligible_leader_replicas_are_cleared_by_topic_or_for_all(tmp_path):
    found = read_one(
        tmp_path,
        first_batches(),
        write.batch(3, [write.change(TOPIC_ID, isr=(1,), elr=(2,), last_known_elr=(3,))]),
        write.batch(4, [write.clear_elr("another"), write.clear_elr("")]),
    )
    assert [(state.elr, state.last_known_elr) for state in found["t", 0].history[1:]] == [((2,), (3,)), ((), ())]


def test_batches_of_every_codec_are_read(tmp_path):
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        content = write.leader_change(0, 100, VOTERS) + write.batch(1, BEGINNING, codec=codec)
        assert read_one(tmp_path / codec, content)["t", 0].leader_id == 1


def test_a_snapshot_is_where_the_history_begins_when_the_log_does_not_reach_back(tmp_path):
    state = write.new_topic("t", TOPIC_ID, (1, 2), 2, leader_epoch=5, partition_epoch=9, recovering=True)
    log = write.batch(40, [write.change(TOPIC_ID, leader=1)]) + write.batch(41, [write.change(TOPIC_ID, isr=(1,))])
    found = read_one(tmp_path, log, base=40, snapshots={(41, 1): write.snapshot(state, time_ms=TIME_MS - 9)})["t", 0]
    assert [(s.occasion, s.time_ms - TIME_MS, s.leader_epoch, s.partition_epoch, s.isr) for s in found.history] == [
        ("snapshot", -9, 5, 9, (1, 2)),
        ("changed", 0, 5, 10, (1,)),
    ]
    assert found.history[0].recovering


def test_all_that_is_known_may_be_in_a_snapshot(tmp_path):
    found = read_one(tmp_path, base=41, snapshots={(41, 1): write.snapshot(BEGINNING)})
    assert found["t", 0].leader_id == 1


def test_a_snapshot_without_footer_is_not_used(tmp_path):
    log = b"".join(write.batch(40 + n, [write.change(TOPIC_ID, isr=(1, 2, 3)[: 3 - n])]) for n in range(2))
    snapshots = {(40, 1): write.snapshot(BEGINNING, footer=False), (41, 1): write.snapshot(BEGINNING)}
    assert [
        state.metadata_offset for state in read_one(tmp_path / "a", log, base=40, snapshots=snapshots)["t", 0].history
    ] == [41, 41]
    without = write.MetadataLog({40: log}, {(40, 1): write.snapshot(BEGINNING, footer=False)})
    write.write_metadata_log(tmp_path / "b", 100, without)
    reading = read(tmp_path / "b")
    assert reading.doubtful and not reading.leaderships
    assert [row.code for row in reading.quarantine] == ["CAP-UNREADABLE"]
    assert "complete .checkpoint file" in reading.quarantine[0].reason


def nodes(path, **logs: bytes | MetadataLog) -> MetadataReading:
    """Controllers c100, c101, … and brokers b1, … with one segment each, all beginning at 0."""
    for name, content in logs.items():
        write.write_metadata_log(path, int(name[1:]), content)
    return read(path)


def test_a_tail_that_no_majority_holds_is_tentative(tmp_path):
    tail = write.batch(3, [write.change(TOPIC_ID, leader=2)])
    reading = nodes(
        tmp_path, c100=first_batches() + tail, c101=first_batches(), c102=first_batches(), b1=first_batches() + tail
    )
    (one,) = reading.leaderships
    assert one.leader_id == 1
    assert [(state.leader_id, state.uncommitted) for state in one.history] == [(1, False), (2, True)]
    assert not reading.quarantine


def test_a_tail_that_a_majority_holds_is_not(tmp_path):
    tail = write.batch(3, [write.change(TOPIC_ID, leader=2)])
    (one,) = nodes(tmp_path, c100=first_batches() + tail, c101=first_batches() + tail, c102=first_batches()).leaderships
    assert (one.leader_id, one.history[-1].uncommitted) == (2, False)


def test_with_one_voter_of_three_nothing_is_tentative(tmp_path):
    tail = write.batch(3, [write.change(TOPIC_ID, leader=2)])
    (one,) = nodes(tmp_path, c100=first_batches() + tail).leaderships
    assert (one.leader_id, one.history[-1].uncommitted) == (2, False)


def test_the_old_tail_of_a_dead_controller_is_no_fork(tmp_path):
    new = write.leader_change(3, 101, VOTERS, epoch=2) + write.batch(4, [write.change(TOPIC_ID, leader=3)], epoch=2)
    old = write.batch(3, [write.topic("u", OTHER_ID)]) + write.batch(4, [write.partition(OTHER_ID, (1,), 1)])
    reading = nodes(tmp_path, c100=first_batches() + old, c101=first_batches() + new, c102=first_batches() + new)
    assert not reading.quarantine
    assert [(one.topic, one.leader_id) for one in reading.leaderships] == [("t", 3)]


def test_two_records_of_one_epoch_at_one_offset_are_a_fork(tmp_path):
    one, other = (write.batch(3, [write.change(TOPIC_ID, leader=leader)]) for leader in (2, 3))
    reading = nodes(tmp_path, c100=first_batches() + one, c101=first_batches() + one, c102=first_batches() + other)
    assert [(row.code, row.broker_id) for row in reading.quarantine] == [("META-FORK", 102)]
    assert "from offset 3" in reading.quarantine[0].reason


def test_an_old_tail_of_which_a_snapshot_was_taken_is_a_fork(tmp_path):
    new = write.leader_change(3, 101, VOTERS, epoch=2) + write.batch(4, [write.change(TOPIC_ID, leader=3)], epoch=2)
    old = write.batch(3, [write.change(TOPIC_ID, leader=2)])
    copy = write.MetadataLog({0: first_batches() + old}, {(4, 1): write.snapshot(BEGINNING)})
    write.write_metadata_log(tmp_path, 100, copy)
    reading = nodes(tmp_path, c101=first_batches() + new, c102=first_batches() + new)
    assert [(row.code, row.broker_id) for row in reading.quarantine] == [("META-FORK", 100)]


def test_what_a_majority_agrees_on_and_the_newest_lacks_is_a_fork(tmp_path):
    new = write.leader_change(3, 100, VOTERS, epoch=3)
    old = write.leader_change(3, 101, VOTERS, epoch=2) + write.batch(4, [write.change(TOPIC_ID, leader=2)], epoch=2)
    reading = nodes(tmp_path, c100=first_batches() + new, c101=first_batches() + old, c102=first_batches() + old)
    assert [row.code for row in reading.quarantine] == ["META-FORK"]
    assert "nodes 101 and 102" in reading.quarantine[0].reason


def test_logs_that_differ_from_their_first_record_on_agree_on_nothing(tmp_path):
    old = write.leader_change(0, 102, VOTERS) + write.batch(1, BEGINNING)
    older = old + write.batch(3, [write.change(TOPIC_ID, leader=2)])
    anew = write.leader_change(0, 100, VOTERS, epoch=2) + write.batch(1, BEGINNING, epoch=2)
    reading = nodes(tmp_path, c100=anew, c101=old, c102=older)
    assert [row.code for row in reading.quarantine] == ["META-FORK"]
    assert not reading.leaderships, "the newest log is on one of three voters"


def test_two_nodes_that_differ_from_their_first_record_on_are_no_majority(tmp_path):
    logs = {
        f"c{node}": write.leader_change(0, node, VOTERS, epoch=node) + write.batch(1, BEGINNING, epoch=node)
        for node in VOTERS
    }
    reading = nodes(tmp_path, **logs)
    assert not reading.quarantine and not reading.leaderships


def test_an_older_copy_tells_what_came_before_the_newest_begins(tmp_path):
    before = first_batches() + write.batch(3, [write.change(TOPIC_ID, leader=2)])
    after = write.batch(4, [write.change(TOPIC_ID, leader=3)])
    state = [BEGINNING[0], write.partition(TOPIC_ID, (1, 2, 3), 2, leader_epoch=1, partition_epoch=1)]
    write.write_metadata_log(tmp_path, 100, write.MetadataLog({4: after}, {(4, 1): write.snapshot(state)}))
    write.write_metadata_log(tmp_path, 1, before)
    (one,) = read(tmp_path).leaderships
    assert [(state.occasion, state.leader_id, state.leader_epoch) for state in one.history] == [
        ("created", 1, 0),
        ("changed", 2, 1),
        ("changed", 3, 2),
    ]


def test_a_torn_end_is_what_a_running_controller_leaves(tmp_path):
    whole = write.batch(3, [write.change(TOPIC_ID, leader=2)])
    reading = nodes(tmp_path, c100=first_batches() + whole[:-3])
    assert not reading.quarantine and not reading.doubtful
    assert reading.leaderships[0].leader_id == 1
    assert nodes(tmp_path / "zeros", c100=first_batches() + whole + bytes(4096)).leaderships[0].leader_id == 2


def test_damage_hides_what_came_after_it_unless_another_copy_has_it(tmp_path):
    whole = (
        first_batches()
        + write.batch(3, [write.change(TOPIC_ID, leader=2)])
        + write.batch(4, [write.change(TOPIC_ID, leader=3)])
    )
    damaged = flip(whole, len(first_batches()) + 70)
    reading = nodes(tmp_path / "alone", c100=damaged)
    assert reading.doubtful
    assert [row.code for row in reading.quarantine] == ["CAP-UNREADABLE"]
    assert reading.leaderships[0].leader_id == 1
    reading = nodes(tmp_path / "both", c100=damaged, b1=whole)
    assert not reading.doubtful
    assert [row.code for row in reading.quarantine] == ["INPUT-IGNORED"]
    assert reading.leaderships[0].leader_id == 3


LATE = write.batch(20, [write.change(TOPIC_ID, leader=2)])
CREATED = write.snapshot(write.new_topic("t", TOPIC_ID, (1, 2, 3), 1))


@pytest.mark.parametrize(
    ("copy", "path", "said"),
    [
        (
            MetadataLog({0: first_batches(), 20: LATE}),
            "00000000000000000003.log",
            "it is missing, and 00000000000000000020.log begins at offset 20",
        ),
        (
            MetadataLog({0: first_batches() + LATE}),
            "00000000000000000000.log",
            "expected offset 3, found 20: copy it again",
        ),
        # KAFKA-14238: the log was deleted past the last snapshot.
        (
            MetadataLog({20: LATE}, {(10, 1): CREATED}),
            "00000000000000000010.log",
            "it is missing, and 00000000000000000020.log begins at offset 20",
        ),
    ],
)
def test_records_behind_a_hole_may_be_newer_than_what_is_read(copy, path, said, tmp_path):
    reading = nodes(tmp_path, c100=copy)
    (row,) = reading.quarantine
    assert (row.code, row.path.rpartition("/")[2]) == ("CAP-UNREADABLE", path) and said in row.reason
    assert reading.doubtful and reading.leaderships[0].leader_id == 1
    whole = first_batches() + write.batch(3, [write.no_op()] * 17) + LATE
    others = nodes(tmp_path / "others", c100=copy, c101=whole, c102=whole)
    assert [row.code for row in others.quarantine] == ["INPUT-IGNORED"] and not others.doubtful
    assert others.leaderships[0].leader_id == 2


def test_what_a_snapshot_leads_up_to_or_has_left_behind_is_no_hole(tmp_path):
    for name, copy in {
        "to": MetadataLog(
            {10: write.batch(10, [write.no_op()]), 11: write.batch(11, [write.no_op()])}, {(11, 1): CREATED}
        ),
        "behind": MetadataLog({0: first_batches(), 8: write.batch(8, [write.no_op()])}, {(20, 1): CREATED}),
        "old segment": MetadataLog({0: first_batches(), 10: write.batch(10, [write.no_op()])}, {(10, 1): CREATED}),
    }.items():
        assert not nodes(tmp_path / name, c100=copy).quarantine, name


def test_a_newer_copy_that_cannot_be_understood_is_said_to_matter(tmp_path):
    unknown = write.batch(3, [write.message(3, 9, b"\x01\x02")])
    reading = nodes(tmp_path, c100=first_batches() + unknown, b1=first_batches())
    assert reading.doubtful
    assert [row.code for row in reading.quarantine] == ["CAP-UNREADABLE"]
    assert "PartitionRecord of version 9" in reading.quarantine[0].reason
    assert reading.leaderships[0].leader_id == 1


def test_a_listing_goes_before_a_metadata_log_of_which_the_newest_part_is_lost(tmp_path):
    damaged = bytearray(first_batches() + write.batch(3, [write.change(TOPIC_ID, leader=2)]))
    damaged[-1] ^= 1
    listed = Listed(3, (1, 2, 3), (3,), topic="t", topic_id=TOPIC_ID)
    (one,) = discovered(tmp_path, {100: bytes(damaged)}, listed=[listed]).leaderships
    assert (one.source, one.leader_id) == ("topics_describe", 3)


def test_damage_at_one_controllers_end_hides_nothing_when_a_majority_is_whole(tmp_path):
    whole = first_batches() + write.batch(3, [write.change(TOPIC_ID, leader=2)])
    reading = nodes(
        tmp_path, c100=whole + b"no batch at all, but more bytes than a header has" * 3, c101=whole, c102=whole
    )
    assert not reading.doubtful
    assert {row.code for row in reading.quarantine} <= {"INPUT-IGNORED"}
    assert reading.leaderships[0].leader_id == 2


def test_an_observer_cannot_make_up_for_the_only_controllers_lost_end(tmp_path):
    stale = first_batches()
    reading = nodes(tmp_path, c100=b"no batch at all, but more bytes than a header has" * 3, b1=stale)
    assert reading.doubtful
    assert {row.code for row in reading.quarantine} == {"CAP-UNREADABLE"}

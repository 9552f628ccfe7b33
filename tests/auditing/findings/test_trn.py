"""TRN-*: at which offsets and in which words a truncation is reported."""

from __future__ import annotations

import pytest
from tests.support.encoder import Record, encode_batch, flip
from tests.support.scenario import audit, costs, written, written_legacy
from tests.support.snapshots import Replica, write_manifest

SHARED = written(0, 20, 0)
LEADER = [*SHARED, *written(20, 40, 1, "new ")]
OLD = [*SHARED, *written(20, 50, 0, "old ")]


# --- beside the common prefix

BY_MARK = {"protocol": "high-watermark"}


def test_a_needless_cut_fetches_the_same_records_again(tmp_path):
    answer = audit(tmp_path, {1: Replica(LEADER), 2: Replica(LEADER, high_watermark=10)}, **BY_MARK)
    assert answer.messages("TRN-OVER-TRUNCATE") == [
        "broker 2 will cut its log at 10 under high-watermark, though it agrees up to 40; it fetches the same records again"
    ]
    assert answer.one("TRN-OVER-TRUNCATE") == ("low", "proven", 10, 40)


def test_older_segments_in_remote_storage_make_a_needless_cut_no_worse(tmp_path):
    """Broker 1 has the records from 15 on; those below, which the topic still has, are in remote storage."""
    brokers = {
        1: Replica(LEADER[3:], first_base_offset=15, log_start=0),
        2: Replica(LEADER, high_watermark=10),
    }
    answer = audit(tmp_path, brokers, configs={"remote.storage.enable": "true"}, **BY_MARK)
    assert answer.one("TRN-OVER-TRUNCATE") == ("low", "proven", 10, 40)


def _keyed_but(start: int, end: int, stop: int = 40) -> list[bytes]:
    """Records of one key each up to `stop`, but for those that the cleaner removed from `start` to `end`."""
    keyed = [
        encode_batch(base, [Record(f"k{offset}".encode(), b"v") for offset in range(base, base + 5)], 0)
        for base in range(0, 40, 5)
    ]
    return [batch for base, batch in zip(range(0, stop, 5), keyed) if not start <= base < end]


@pytest.mark.parametrize(
    ("gap", "leader_end", "told_of"),
    [
        ((20, 40), 40, False),
        ((15, 40), 40, False),
        ((20, 35), 25, False),
        ((20, 35), 40, True),
        ((25, 40), 40, True),
        ((10, 15), 40, True),
    ],
    ids=["all of it", "and more below", "and more above", "the first of it", "the last of it", "elsewhere"],
)
def test_a_cut_through_what_a_cleaner_removed_is_no_needless_one(tmp_path, gap, leader_end, told_of):
    """Broker 2 is cut at 20 and agrees up to the leader's end; of that nothing may be there."""
    follower = Replica([*_keyed_but(*gap), encode_batch(40, 5, 0)], high_watermark=20, cleaned_to=40)
    brokers = {1: Replica(_keyed_but(0, 0, leader_end), high_watermark=20), 2: follower}
    answer = audit(tmp_path, brokers, configs={"cleanup.policy": "compact"}, **BY_MARK)
    cut = answer.cut(2, "high-watermark")
    assert (cut["truncate_to"], cut["common_prefix_end"]) == (20, leader_end)
    assert bool(answer.found("TRN-OVER-TRUNCATE")) == told_of, answer


# --- below the high watermark


@pytest.mark.parametrize(
    ("own_end", "losses", "gone"),
    [
        (30, [("critical", 20, 30), ("high", 30, 38)], "10 committed records go with it"),
        (20, [("high", 20, 38)], "18 committed records would go with it"),
    ],
)
def test_one_run_that_is_lost_for_sure_decides_a_cut_below_the_high_watermark(tmp_path, own_end, losses, gone):
    """The leader's epoch file is empty: of what lies past its log's end nobody knows whether it has that by now."""
    leader = Replica([*SHARED, *written(20, own_end, 2)], epochs=[], high_watermark=18)
    follower = Replica([*SHARED, *written(20, 38, 1, "old ")])
    answer = audit(tmp_path, {1: leader, 2: follower}, isr=(1,), source="user", leader_epoch=2)
    found = [(row["severity"], row["start_offset"], row["end_offset"]) for row in answer.found("HWM-LOSS")]
    assert found == losses, answer
    assert answer.one("TRN-BELOW-HW", 2)[0] == losses[0][0] and gone in answer.messages("TRN-BELOW-HW")[0], answer


@pytest.mark.parametrize(
    ("mark", "gone"),
    [
        (None, None),
        (20, None),
        (21, "1 committed record goes"),
        (24, "4 committed records go"),
        (26, "6 committed records go"),
        (27, None),
    ],
    ids=["none", "at the cut", "just above it", "inside", "at the end of the log", "past it"],
)
def test_a_cut_is_below_the_high_watermark_where_that_lies_in_the_log_above_the_cut(tmp_path, mark, gone):
    """Broker 2 is cut at 20, where the leader goes on in another epoch."""
    follower = Replica([*SHARED, *written(20, 26, 0, "old ")], high_watermark=mark)
    answer = audit(tmp_path, {1: Replica(LEADER), 2: follower}, in_order=True)
    assert answer.cut(2)["truncate_to"] == 20
    told = f"broker 2 will cut its log at 20, below its own high watermark {mark}: {gone} with it; copy the replica before it follows"
    assert answer.messages("TRN-BELOW-HW") == ([told] if gone else []), answer
    if gone:
        assert answer.one("TRN-BELOW-HW") == ("critical", "proven", 20, mark)


def test_a_replica_that_follows_nobody_is_not_said_to_be_cut(tmp_path):
    """Broker 2 is not assigned the partition: H8."""
    follower = Replica([*SHARED, *written(20, 26, 0, "old ")], high_watermark=24)
    answer = audit(tmp_path, {1: Replica(LEADER), 2: follower}, isr=(1,), replicas=(1, 3), in_order=True)
    assert answer.messages("TRN-BELOW-HW") == [
        "broker 2 would cut its log at 20, below its own high watermark 24 if it were assigned the partition: 4 committed records would go "
        "with it; copy the replica before it follows"
    ]


@pytest.mark.parametrize(
    ("shared_to", "mark", "gone"),
    [(40, 30, None), (40, 40, None), (40, 41, "1 committed record goes"), (25, 30, "5 committed records go")],
    ids=["inside what both share", "at its end", "above it", "in a run"],
)
def test_what_the_leader_has_as_well_is_not_lost_by_a_cut(tmp_path, shared_to, mark, gone):
    """Broker 2 was killed, and its next start cuts its log at 20, at a batch that its disk has damaged; the leader has that batch,
    and all up to where the two part."""
    log = written(0, shared_to, 0)
    leader = Replica([*log, *written(shared_to, shared_to + 10, 1, "new ")])
    own = [*log, *written(shared_to, shared_to + 5, 0, "old ")]
    own[4] = flip(own[4])
    brokers = {1: leader, 2: Replica(own, high_watermark=mark, recovery_point=0)}
    answer = audit(tmp_path, brokers, isr=(1,), before_audit=lambda: _write_killed(tmp_path))
    assert answer.cut(2)["truncate_to"] == 20
    told = f"broker 2 will cut its log at 20, below its own high watermark {mark}: {gone} with it; copy the replica before it follows"
    assert answer.messages("TRN-BELOW-HW") == ([told] if gone else []), answer


# --- how it comes to its offset


def _write_killed(snapshot):
    """A manifest by which both brokers were killed before they were copied."""
    write_manifest(snapshot, {1: "killed", 2: "killed"}, quiesced=True)


def test_what_recovery_cuts_is_said_with_the_place_in_the_file(tmp_path):
    log = written(0, 40, 0)
    bad = flip(log[5])

    brokers = {1: Replica(log), 2: Replica([*log[:5], bad, *log[6:]], recovery_point=0)}
    answer = audit(tmp_path, brokers, isr=(1,), before_audit=lambda: _write_killed(tmp_path))
    at = sum(map(len, log[:5]))
    assert answer.messages("TRN-OVER-TRUNCATE") == [
        "broker 2 was killed, and its next start will cut its log at 25 "
        f"(broker-2/orders-0/00000000000000000000.log at byte {at}), though it agrees up to 40; it fetches the same records again"
    ]


LEGACY = written_legacy(0, 20)


@pytest.mark.parametrize(
    ("leader", "follower", "protocol", "cut"),
    [
        (LEGACY, Replica(LEGACY, epochs=None, high_watermark=12), "fetch", None),
        (SHARED, Replica(LEGACY, epochs=None, high_watermark=12), "kip-101", None),
        (SHARED, Replica([], epochs=[], high_watermark=0), "fetch", None),
        (LEGACY, Replica(SHARED, high_watermark=20), "kip-279", 20),
        (LEGACY, Replica(SHARED, high_watermark=20), "high-watermark", None),
        (SHARED, Replica(SHARED, high_watermark=12), "fetch", None),
        (SHARED, Replica(SHARED, epochs=None, high_watermark=12, clean_shutdown=True), "fetch", 12),
        (SHARED, Replica(SHARED, epochs=[], high_watermark=12, clean_shutdown=True), "kip-279", 12),
        (SHARED, Replica(SHARED, epochs=None, high_watermark=12), "fetch", None),
    ],
    ids=[
        "old format",
        "old format, new leader",
        "new",
        "no epochs on the leader",
        "before epochs",
        "epochs on both",
        "stopped without a file",
        "stopped with an empty file",
        "killed without a file",
    ],
)
def test_falling_back_to_the_high_watermark_is_told_where_epochs_are_missed(tmp_path, leader, follower, protocol, cut):
    answer = audit(tmp_path, {1: Replica(leader), 2: follower}, isr=(1,), protocol=protocol, in_order=True)
    assert not answer.found("TRN-FULL")
    assert answer.messages("TRN-HW-FALLBACK") == (
        [
            "broker 2 has no epoch that broker 1 can answer for, so it cuts its log at its own high watermark "
            f"{cut}, as before 0.11"
        ]
        if cut
        else []
    )


def test_without_epochs_and_a_checkpoint_all_is_fetched_again(tmp_path):
    """X, 4.3.1. The plan said so, and `truncations` that nothing is cut."""
    bare = Replica(SHARED, epochs=None, high_watermark=None, clean_shutdown=True)
    answer = audit(tmp_path, {1: Replica(SHARED), 2: bare}, isr=(1,))
    cut = answer.cut(2)
    assert (cut["truncate_to"], cut["reason"], cut["dropped_records"]) == (0, "hw_fallback", 20)
    assert costs(answer, 1) == (0, 0, 0)


@pytest.mark.parametrize(
    ("batch_end", "inside"), [(17, False), (18, True), (26, True)], ids=["its end", "its last record", "inside"]
)
@pytest.mark.parametrize("start", [12, 16])
def test_a_cut_inside_a_batch_is_told_with_its_bounds(tmp_path, start, batch_end, inside):
    """KIP-101 asks once: the leader's epoch 1 ends at 17."""
    common = written(0, start, 0, step=4)
    brokers = {
        1: Replica([*common, *written(start, 17, 1), *written(17, 25, 3)], high_watermark=12),
        2: Replica([*common, encode_batch(start, batch_end - start, 2, mark="x")], high_watermark=12),
    }
    answer = audit(tmp_path, brokers, isr=(1,), protocol="kip-101")
    assert answer.cut(2, "kip-101")["truncate_to"] == 17
    assert answer.messages("TRN-MID-BATCH") == (
        [
            f"broker 2 would be cut at 17, inside its batch {start} to {batch_end - 1}: the whole batch is removed, but the log end is "
            "still 17, which leaves a hole"
        ]
        if inside
        else []
    )


def test_a_cut_where_a_batch_begins_is_inside_of_none(tmp_path):
    brokers = {1: Replica(LEADER, high_watermark=20), 2: Replica(OLD, high_watermark=20)}
    answer = audit(tmp_path, brokers, isr=(1,))
    assert answer.cut(2)["truncate_to"] == answer.cut(2)["common_prefix_end"] == 20
    assert not {code for code in answer.codes("info") if code.startswith("TRN")}, answer


def test_a_follower_that_ends_below_the_leaders_start_empties_its_log(tmp_path):
    brokers = {1: Replica(written(30, 50, 0), first_base_offset=30), 2: Replica(SHARED)}
    assert audit(tmp_path, brokers, isr=(1,)).messages("TRN-FULL") == [
        "broker 2 ends at 20, below the leader's start: it empties its log and begins at 30"
    ]


def test_a_follower_that_ends_below_its_own_start_begins_anew_there(tmp_path):
    """And is emptied again where the leader starts later still."""
    leader = Replica(written(90, 100, 0), first_base_offset=90)
    follower = Replica(written(0, 60, 0), log_start=80)
    assert audit(tmp_path / "later", {1: leader, 2: follower}, isr=(1,)).messages("TRN-FULL") == [
        "broker 2 ends at 60, below its own start, and restarts at 80, below the leader's start: it empties its log and begins at 90"
    ]
    ends_there = Replica(written(0, 80, 0), log_start=80)
    assert audit(tmp_path / "there", {1: leader, 2: ends_there}, isr=(1,)).messages("TRN-FULL") == [
        "broker 2 ends at 80, below the leader's start: it empties its log and begins at 90"
    ]
    leader = Replica(written(70, 100, 0), first_base_offset=70)
    assert not audit(tmp_path / "earlier", {1: leader, 2: follower}, isr=(1,)).messages("TRN-FULL")


@pytest.mark.parametrize("end", [60, 80, 90])
def test_a_leader_that_ends_below_its_own_start_begins_anew_there(tmp_path, end):
    """What a follower has below that start it keeps."""
    brokers = {1: Replica(written(0, 60, 0), log_start=80), 2: Replica(written(0, end, 0))}
    answer = audit(tmp_path, brokers, isr=(1,))
    assert answer.cut(2)["truncate_to"] == 80
    assert answer.messages("TRN-FULL") == (
        ["broker 2 ends at 60, below the leader's start: it empties its log and begins at 80"] if end < 80 else []
    )


@pytest.mark.parametrize("start", [50, 60], ids=["above it", "at it"])
def test_a_cut_below_the_leaders_start_empties_a_log_that_does_not_end_below_it(tmp_path, start):
    own, later = written(start, start + 5, 0), written(start + 5, 100, 2)
    brokers = {
        1: Replica([*own, *later], first_base_offset=start, epochs=[(0, start), (2, start + 5)]),
        2: Replica([*written(0, 20, 0), *written(20, 60, 1)], high_watermark=20),
    }
    answer = audit(tmp_path, brokers, isr=(1,))
    assert answer.messages("TRN-FULL") == [
        f"broker 2 ends at 60, but agrees with the leader only below the leader's start: it empties its log and begins at {start}"
    ]


@pytest.mark.parametrize(
    ("own", "kept", "more"),
    [((12, 20), 12, " at offsets 12 to 14, and the difference below"), ((20,), 10, " at offsets 10 to 14")],
    ids=["beside what it keeps", "in all of it"],
)
def test_a_hole_that_a_cut_inside_a_batch_leaves_is_told_beside_what_differs_below_it(tmp_path, own, kept, more):
    """KIP-101 asks once: the leader's epoch 1 ends at 15, inside a batch of what broker 2 alone has from 10 on."""
    shared = written(0, 10, 0)
    bounds = zip((10, *own), own)
    brokers = {
        1: Replica([*shared, *written(10, 15, 1), *written(15, 25, 3)], high_watermark=10),
        2: Replica([*shared, *(encode_batch(one, end - one, 2, mark="x") for one, end in bounds)], high_watermark=10),
    }
    assert audit(tmp_path, brokers, isr=(1,), protocol="kip-101").messages("TRN-REPLAY-GAP") == [
        f"broker 2 keeps everything below {kept} under kip-101, but agrees with broker 1 only up to 10: a hole stays{more}"
    ]


@pytest.mark.parametrize(("mark", "told"), [(11, False), (15, False), (16, True)])
def test_a_mark_up_to_the_cut_loses_nothing_by_it_whatever_differs_below(tmp_path, mark, told):
    """As above."""
    shared = written(0, 10, 0)
    brokers = {
        1: Replica([*shared, *written(10, 15, 1), *written(15, 25, 3)], high_watermark=10),
        2: Replica([*shared, encode_batch(10, 2, 2, mark="x"), encode_batch(12, 8, 2, mark="x")], high_watermark=mark),
    }
    answer = audit(tmp_path, brokers, isr=(1,), protocol="kip-101")
    assert answer.cut(2, "kip-101")["truncate_to"] == 15
    assert bool(answer.found("TRN-BELOW-HW")) is told, answer


@pytest.mark.parametrize("parted", [10, 20], ids=["other records", "the same records"])
def test_a_cut_to_the_leaders_end_is_told_where_the_logs_differ(tmp_path, parted):
    """The leader can answer for no epoch as late as 5."""
    brokers = {
        1: Replica(SHARED, high_watermark=10),
        2: Replica([*written(0, parted, 0), *written(parted, 40, 5)], high_watermark=10),
    }
    answer = audit(tmp_path, brokers, isr=(1,))
    assert answer.cut(2)["reason"] == "out_of_range_tail"
    assert answer.messages("TRN-OUT-OF-RANGE") == (
        ["broker 2 ends at 40, past the leader's end: out of range, cut at 20"] if parted == 10 else []
    )


@pytest.mark.parametrize(
    ("batches", "epochs", "cuts"),
    [
        (OLD[:6], [(0, 0), (1, 5)], (30, 20)),
        (LEADER, [(0, 0)], (20, 40)),
        (OLD[:6], [(0, 0)], None),
        (LEADER, [(0, 0), (1, 20)], None),
    ],
    ids=["too high", "too low", "where the logs part", "nowhere"],
)
def test_files_that_would_have_the_follower_cut_elsewhere_are_told_with_both_offsets(tmp_path, batches, epochs, cuts):
    brokers = {1: Replica(LEADER), 2: Replica(batches, high_watermark=15, epochs=epochs)}
    assert audit(tmp_path, brokers, isr=(1,)).messages("TRN-CACHE-DISAGREES") == (
        [f"broker 2 would be cut at {cuts[0]} by the epoch files, but at {cuts[1]} by the batches"] if cuts else []
    )


@pytest.mark.parametrize(
    ("protocol", "cut", "reason"),
    [
        ("kip-101", 12, "none"),
        ("kip-279", 10, "stepped_back"),
        ("fetch", 10, "stepped_back"),
        ("high-watermark", 10, "hw_fallback"),
    ],
)
def test_a_difference_that_a_protocol_keeps_is_told_with_what_it_keeps(tmp_path, protocol, cut, reason):
    brokers = {
        1: Replica([*written(0, 10, 0), *written(10, 15, 1), *written(15, 20, 3)], high_watermark=10),
        2: Replica([*written(0, 10, 0), *written(10, 12, 2, "other ")], high_watermark=10),
    }
    answer = audit(tmp_path, brokers, isr=(1,), protocol=protocol)
    assert answer.messages("TRN-REPLAY-GAP") == (
        [
            "broker 2 keeps everything below 12 under kip-101, but agrees with broker 1 only up to 10: the difference stays for good"
        ]
        if cut == 12
        else []
    )
    assert (answer.cut(2, protocol)["reason"], bool(answer.runs(2))) == (reason, True)
    assert not answer.found("TRN-OUT-OF-RANGE")

"""The manifest's times tell a copy that was made too early from a leader that lost its tail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import made_cases as made
from tests.support import metadata_log as write
from tests.support.scenario import Answer, audit, costs, written, written_legacy
from tests.support.scenes import FENCE, beside, change, log, scene
from tests.support.snapshots import Replica, write_manifest

from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.auditing.opened_snapshot import OpenedSnapshot
from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.runner.in_process import audit_all
from replica_audit.snapshot.inventory import CopiedLogDir, LogDir, Manifest
from replica_audit.snapshot.manifest import with_own_names
from replica_audit.text import render_time

SHARED = written(0, 30, 1)


def copied_at(
    tmp_path,
    leader_copied,
    follower_copied,
    *,
    ahead=None,
    epoch=1,
    led=1,
    log_dirs=None,
    own=SHARED,
    brokers=None,
    **named,
):
    """Leader 1 of epoch `led` to 30, follower 2 with more after it, and when each was copied (minutes); `log_dirs`: their names in the
    manifest."""
    tmp_path.mkdir(exist_ok=True)
    if leader_copied is not None:
        copied = [
            {
                "broker_id": broker,
                "log_dir": f"broker-{broker}" if log_dirs is None else log_dirs[broker],
                "started": f"2024-01-31T10:{begin:02}:00Z",
                "finished": f"2024-01-31T10:{end:02}:00Z",
            }
            for broker, (begin, end) in ((1, leader_copied), (2, follower_copied))
        ]
        write_manifest(tmp_path, brokers=copied)
    more = written(30, 40, epoch) if ahead is None else ahead
    return audit(
        tmp_path,
        brokers or {1: Replica(own), 2: Replica([*SHARED, *more], high_watermark=30)},
        source="user",
        leader_epoch=led,
        **named,
    )


def test_a_leader_that_was_copied_first_is_behind_and_nothing_is_wrong(tmp_path):
    answer = copied_at(tmp_path, (0, 4), (5, 9))
    assert answer.one("CAP-SKEW")[0] == "info" and not answer.codes("low") - {"REP-UNDER-REPLICATED"}
    (row,) = answer.found("CAP-SKEW")
    assert "broker 2 was copied from 2024-01-31T10:05:00Z to 2024-01-31T10:09:00Z" in row["evidence"][0]["text"]


def test_nobody_is_asked_to_copy_a_busy_cluster_again_for_what_the_order_of_the_copies_explains(tmp_path):
    """In the documented order a follower is behind in every copy: to copy again was the first thing to do, each time."""
    copied = [
        {
            "broker_id": broker,
            "log_dir": f"broker-{broker}",
            "kind": "live",
            "started": f"{at}:00Z",
            "finished": f"{at}:30Z",
        }
        for broker, at in ((2, "2024-01-31T10:00"), (1, "2024-01-31T10:01"))
    ]
    write_manifest(tmp_path, brokers=copied)
    replicas = {1: Replica(written(0, 60, 1)), 2: Replica(written(0, 40, 1))}
    answer = audit(tmp_path, replicas, source="user", leader_epoch=1, isr=(1, 2))
    assert answer.verdict == "LAGGING" and answer.one("CAP-SKEW")[0] == "info", answer
    assert plan_elections(audit_all(str(tmp_path), Settings())).steps == ()


def test_a_leader_that_was_copied_later_lost_what_its_follower_has(tmp_path):
    answer = copied_at(tmp_path, (5, 9), (0, 4))
    assert answer.one("REP-LEADER-SHORTER") == ("high", "likely", 30, 40) and answer.verdict == "COMMITTED_LOSS"
    (row,) = answer.found("REP-LEADER-SHORTER")
    assert "broker 1 was copied from 2024-01-31T10:05:00Z" in row["evidence"][0]["text"]


@pytest.mark.parametrize(("own", "gone"), [(SHARED, 30), (SHARED[:5], 25)], ids=["its epoch", "more"])
def test_nor_was_its_file_copied_before_it_led_where_others_had_records_of_its_epoch_by_then(tmp_path, own, gone):
    """It lost the entry of epoch 2 with what it had written, or with more than that."""
    answer = copied_at(tmp_path / "later", (5, 9), (0, 4), epoch=2, led=2, own=own)
    assert answer.one("REP-LEADER-SHORTER")[:2] == ("high", "likely") and answer.verdict == "COMMITTED_LOSS"
    assert not answer.found("CAP-SKEW") and answer.cut(2)["truncate_to"] == gone, answer
    earlier = copied_at(tmp_path / "earlier", (0, 4), (5, 9), epoch=2, led=2, own=own)
    assert earlier.one("CAP-SKEW", 1)[0] == "medium" and not earlier.codes("high"), earlier


def test_a_follower_in_place_of_an_absent_leader_may_have_been_cut_after_its_log_was_copied(tmp_path):
    """Others had records of that leader by then, but its own log was not the leader's: DIV-HIDDEN."""
    epochs = [(1, 0), (2, 25)]
    other = Replica([*SHARED[:5], *written(25, 30, 2, "x ")], epochs=epochs, high_watermark=30)
    answer = copied_at(
        tmp_path,
        (5, 9),
        (0, 4),
        brokers={1: Replica(SHARED, epochs=epochs, high_watermark=25), 2: other},
        led=2,
        leader=9,
        isr=(9, 1),
        replicas=(1, 2, 9),
    )
    assert answer.verdict == "INCONCLUSIVE" and not answer.codes("critical"), answer
    assert "its log was copied before it was cut there" in answer.found("CAP-SKEW")[0]["message"]


@pytest.mark.parametrize("log_dirs", [{1: "/var/lib/kafka", 2: "/var/lib/kafka"}, {1: "", 2: ""}])
def test_times_under_another_name_are_those_of_a_broker_s_only_log_dir(tmp_path, log_dirs):
    answer = copied_at(tmp_path, (5, 9), (0, 4), log_dirs=log_dirs)
    assert answer.one("REP-LEADER-SHORTER") == ("high", "likely", 30, 40)
    assert not answer.codes() & {"INPUT-IGNORED"}


def test_times_and_kind_hold_for_texts_of_a_broker_without_a_log_dir(tmp_path):
    """The manifest names its directory on the broker."""
    text = tmp_path / "broker-1.orders-0.dump.txt"
    text.write_text(
        "Dumping /var/lib/kafka/orders-0/00000000000000000000.log\nLog starting offset: 0\n"
        "baseOffset: 0 lastOffset: 9 count: 10 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 "
        "partitionLeaderEpoch: 0 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 0 "
        "CreateTime: 1 size: 200 magic: 2 compresscodec: none crc: 1 isvalid: true\n"
    )
    brokers = [{"broker_id": 1, "log_dir": "/data/kafka", "started": 5, "finished": 6, "kind": "killed"}]
    write_manifest(tmp_path, brokers=brokers)
    opened = OpenedSnapshot.open(str(tmp_path), Settings())
    (directory,) = opened.inventory.replicas
    times = opened.options.times
    assert times.of_log_dir(1, directory.log_dir) == (5, 6) and times.was_killed(1, directory.log_dir)


def test_times_of_one_disk_are_not_those_of_another(tmp_path):
    """A broker has two disks here, and the manifest names one of them, or one that is not here."""
    log_dirs = [LogDir(f"broker-1/{disk}", 1, None, None, False, "broker") for disk in ("a", "b")]
    entry = CopiedLogDir(1, "broker-1/a", 5, 6, "killed")
    manifest, rows = with_own_names(Manifest(None, None, (entry,)), log_dirs)
    times = CaptureTimes(manifest.brokers)
    assert (times.of_log_dir(1, "broker-1/a"), times.of_log_dir(1, "broker-1/b"), rows) == ((5, 6), None, [])
    assert times.was_killed(1, "broker-1/a") and not times.was_killed(1, "broker-1/b")
    both, rows = with_own_names(Manifest(None, None, (entry._replace(log_dir="broker-1"),)), log_dirs)
    assert (CaptureTimes(both.brokers).of_log_dir(1, "broker-1/b"), rows) == ((5, 6), [])
    none, (row,) = with_own_names(Manifest(None, None, (entry._replace(log_dir="d/kafka"),)), log_dirs)
    assert none.brokers == () and (row.code, row.path, row.broker_id) == ("INPUT-IGNORED", "manifest.json", 1)
    assert 'expected broker-1/a or broker-1/b at brokers[0].log_dir of broker 1, found "d/kafka"' in row.reason


def test_times_of_a_disk_that_is_another_broker_s_are_nobody_s(tmp_path):
    """Disks were swapped: the script copied what is mounted at broker 1. The kind of broker 1 was that of the other disk."""
    log_dirs = [LogDir(f"broker-{3 - node}", node, None, None, False, "broker") for node in (1, 2)]
    entries = [CopiedLogDir(node, f"broker-{node}", 5, 6, kind) for node, kind in ((1, "live"), (2, "killed"))]
    manifest, rows = with_own_names(Manifest(None, None, tuple(entries)), log_dirs)
    assert manifest.brokers == () and [(row.code, row.broker_id) for row in rows] == [
        ("INPUT-IGNORED", 1),
        ("INPUT-IGNORED", 2),
    ]
    assert "expected 2 at brokers[0].broker_id" in rows[0].reason and "put them back" in rows[0].reason


@pytest.mark.parametrize(
    "copied",
    [((3, 9), (0, 4)), ((0, 9), (0, 9)), ((4, 9), (0, 4)), (None, None)],
    ids=["overlap", "together", "no longer than clocks differ", "no times"],
)
def test_copies_whose_order_is_not_certain_may_be_skewed(tmp_path, copied):
    answer = copied_at(tmp_path, *copied)
    assert answer.found("CAP-SKEW") and not answer.found("REP-LEADER-SHORTER")


def test_records_of_an_epoch_that_another_led_may_have_come_later(tmp_path):
    answer = copied_at(tmp_path, (5, 9), (0, 4), epoch=2)
    assert not answer.found("REP-LEADER-SHORTER")


# --- a broker that was down was not copied too early


@pytest.mark.parametrize(
    ("kind", "epoch", "lost"),
    [("killed", 1, True), ("stopped", 1, True), ("live", 1, False), ("killed", 2, False), ("stopped", 2, False)],
)
def test_a_leader_that_was_down_lost_what_others_have_of_its_epoch(tmp_path, kind, epoch, lost):
    """Of a later one somebody else may have written it, after the leader had gone."""
    write_manifest(tmp_path, {1: kind, 2: "live"})
    answer = copied_at(tmp_path, None, None, epoch=epoch)
    assert bool(answer.found("REP-LEADER-SHORTER")) is lost, answer
    assert bool(answer.found("CAP-SKEW")) is not lost and (answer.verdict == "COMMITTED_LOSS") is lost


def test_no_log_of_brokers_that_were_all_down_is_an_older_one(tmp_path):
    """Broker 2 has records of a later leader in place of broker 1's, and after them."""
    one, two = log(40, 20, ((1, 0),)), log(50, 38, ((1, 0), (2, 30)))
    for name, kind, is_older in (("down", "killed", False), ("up", "live", True)):
        (tmp_path / name).mkdir()
        write_manifest(tmp_path / name, {1: kind, 2: "killed"})
        answer = audit(tmp_path / name, {1: one, 2: two}, isr=(1,), source="user", leader_epoch=1)
        assert answer.one("HWM-LOSS", 2) == ("high", "suspect", 30, 38) and answer.verdict == "INCONCLUSIVE", answer
        said = {row["code"]: row["message"] for row in answer.tables["findings"] if row["broker_id"] == 2}
        assert ("its log, or the leadership file, is older" in said["HWM-LOSS"]) is is_older
        assert ("its copy may be older" in said["DIV-EPOCH"]) is is_older
        assert ("copies of a running cluster" in said["CAP-SKEW"]) is is_older
        if not is_older:
            why = "the leadership file is older than the logs, or broker 1 was elected without them"
            assert said["HWM-LOSS"].endswith(why), said["HWM-LOSS"]


def eligible_lost_its_tail(path: Path, mark: int = 50, fenced: bool = True, **options) -> Answer:
    """Broker 2 led after broker 1 lost power, is gone too, and came back; broker 1, eligible, would lead next."""
    path.mkdir(parents=True, exist_ok=True)
    moves = (
        *((FENCE[1],) if fenced else ()),
        change(leader=2, isr=(2,), elr=(1,)),
        change(leader=-1, isr=(), elr=(1,), last_known_elr=(2,)),
    )
    brokers = {1: log(30, mark), 2: log(50, 50, ((0, 0), (1, 50))), 3: log(50, 50)}
    return scene(path, brokers, *moves, configs={"min.insync.replicas": "2"}, **options)


def test_the_metadata_log_tells_that_it_was_down(tmp_path):
    answer = eligible_lost_its_tail(tmp_path / "down", in_order=True)
    assert answer.verdict == "COMMITTED_LOSS" and not answer.found("CAP-SKEW"), answer
    assert {row["broker_id"] for row in answer.found("REP-LEADER-SHORTER")} == {2, 3}
    assert "was down when it was copied" in answer.found("REP-LEADER-SHORTER", 3)[0]["message"]
    # Its checkpoint may be later than its log, where nothing says in which order they were copied.
    unordered = eligible_lost_its_tail(tmp_path / "any")
    assert unordered.verdict == "INCONCLUSIVE" and unordered.one("HWM-CP-ABOVE-LEO", 1)[0] == "medium", unordered
    up = eligible_lost_its_tail(tmp_path / "up", mark=30, fenced=False)
    assert up.found("CAP-SKEW", 3) and up.verdict == "LAGGING", up


def test_the_manifest_goes_before_it(tmp_path):
    """It may have been copied before it went down."""
    (tmp_path / "live").mkdir()
    write_manifest(tmp_path / "live", {1: "live", 2: "live", 3: "live"})
    answer = eligible_lost_its_tail(tmp_path / "live", mark=30)
    assert answer.found("CAP-SKEW", 3) and not answer.found("REP-LEADER-SHORTER"), answer


# --- a log that was copied before its own epoch file


def ends_before_its_epoch(path: Path, manifest: dict | None = None, mark: int = 35, **options) -> Answer:
    """Broker 1 ends at 40, in epoch 0, and its own file has epoch 2, in which it leads, begin at 60, as the others have it."""
    path.mkdir(parents=True, exist_ok=True)
    if manifest is not None:
        write_manifest(path, **manifest)
    others = log(80, 75, ((0, 0), (2, 60)))
    brokers = {1: log(40, mark, ((0, 0), (2, 60))), 2: others, 3: options.pop("third", others)}
    return scene(path, brokers, change(leader=2), change(leader=1), **options)


def of_kinds(one: str, times: tuple[tuple[int, int], ...] = ()) -> dict:
    """Broker 1 of that kind, the others live, copied in these minutes."""
    brokers = []
    for broker, kind in ((1, one), (2, "live"), (3, "live")):
        copied = {}
        if times:
            names = ("started", "finished")
            copied = {name: f"2024-01-31T10:{at:02}:00Z" for name, at in zip(names, times[broker - 1], strict=True)}
        brokers.append({"broker_id": broker, "log_dir": f"broker-{broker}", "kind": kind} | copied)
    return {"brokers": brokers}


def test_what_a_running_broker_had_when_its_epoch_file_was_copied_it_has_not_lost(tmp_path):
    answer = ends_before_its_epoch(tmp_path, of_kinds("live"))
    assert answer.verdict == "CONSISTENT" and not answer.codes("low"), answer
    assert not answer.runs(2) and answer.one("CAP-SKEW", 2) == ("info", "likely", 40, 80)
    assert answer.interval == (40, 80), answer


def test_nor_where_a_listing_names_it_without_its_epoch(tmp_path):
    write_manifest(tmp_path, **of_kinds("live"))
    others = log(80, 75, ((0, 0), (2, 60)))
    answer = audit(tmp_path, {1: log(40, 35, ((0, 0), (2, 60))), 2: others, 3: log(70, 65)})
    assert (answer.mark["reference_id"], answer.mark["leader_epoch"]) == (1, 2), answer
    assert answer.one("CAP-SKEW", 2) == ("info", "likely", 40, 80), answer
    assert [run[:5] for run in answer.runs(3)] == [("DIV-EPOCH", 60, 70, None, 0)], answer


def test_a_broker_that_was_killed_and_whose_epoch_file_is_ahead_of_its_log_lost_its_tail(tmp_path):
    """An epoch file is flushed with each entry, a log is not."""
    for name, options in {
        "killed": {"manifest": of_kinds("killed")},
        "at rest": {"manifest": {"quiesced": True}},
    }.items():
        answer = ends_before_its_epoch(tmp_path / name, **options)
        assert answer.verdict == "COMMITTED_LOSS", answer
        assert answer.one("REP-LEADER-SHORTER", 2)[::2] == ("high", 40), answer
        assert costs(answer, 1) == (40, 35, 5) and costs(answer, 2)[0] == 0, answer


def test_where_nothing_tells_whether_it_ran_that_is_open(tmp_path):
    answer = ends_before_its_epoch(tmp_path)
    assert answer.verdict == "INCONCLUSIVE" and answer.one("CAP-SKEW", 2)[::2] == ("medium", 40), answer


def test_a_running_leader_that_was_copied_after_what_it_wrote_in_its_epoch_lost_it(tmp_path):
    """Its follower's copy has records of that epoch, so the leader had all below when its own copy was begun."""
    late = ends_before_its_epoch(tmp_path / "late", of_kinds("live", ((5, 9), (0, 4), (0, 4))))
    assert late.verdict == "COMMITTED_LOSS" and late.one("REP-LEADER-SHORTER", 2)[::2] == ("high", 40), late
    beside = ends_before_its_epoch(tmp_path / "beside", of_kinds("live", ((0, 9), (0, 4), (0, 4))))
    assert not beside.codes("low"), beside
    # The election may have been while its files were copied.
    old = log(55, 50)
    early = ends_before_its_epoch(tmp_path / "early", of_kinds("live", ((5, 9), (5, 9), (0, 4))), third=old)
    assert not early.found("REP-LEADER-SHORTER", 3) and early.one("CAP-SKEW", 3)[0] == "info", early


def test_what_such_a_leader_has_lost_goes_with_the_next_cut_of_a_follower(tmp_path):
    """Broker 3 went on in epoch 0. Below its high watermark it has what the leader had when its own copy was begun, as broker 2's
    copy shows; where that is of no earlier moment nothing shows it."""
    cut = log(70, 55)
    told = "log at 40, below its own high watermark 55: 30 records {}go with it, and everything below 55 was committed; copy"
    for name, manifest, confidence in (
        ("late", of_kinds("live", ((5, 9), (0, 4), (0, 4))), "proven"),
        ("at rest", {"quiesced": True}, "proven"),
        ("killed", of_kinds("killed"), "likely"),
    ):
        late = ends_before_its_epoch(tmp_path / name, manifest, third=cut)
        assert late.one("TRN-BELOW-HW", 3) == ("critical", confidence, 40, 55) and late.verdict == "COMMITTED_LOSS", (
            late
        )
        assert f"will cut its {told.format('')}" in late.messages("TRN-BELOW-HW")[0]
        assert not late.found("TRN-OVER-TRUNCATE"), late
    for name, times in {"early": ((5, 9), (5, 9), (0, 4)), "first": ((0, 4), (5, 9), (5, 9))}.items():
        may_be_older = ends_before_its_epoch(tmp_path / name, of_kinds("live", times), third=cut)
        assert may_be_older.one("TRN-BELOW-HW", 3) == ("high", "suspect", 40, 55), may_be_older
        # Nor of what begins at its mark.
        up_to_it = ends_before_its_epoch(tmp_path / f"{name} up to it", of_kinds("live", times), third=log(70, 60))
        assert up_to_it.one("TRN-BELOW-HW", 3) == ("high", "suspect", 40, 60), up_to_it
        (message,) = may_be_older.messages("TRN-BELOW-HW")
        assert (
            f"would cut its {told.format('would ')}" in message and "may have been copied before it had them" in message
        )


def test_what_parts_from_the_epochs_of_that_file_conflicts_all_the_same(tmp_path):
    """Broker 3 went on in epoch 0 past where its leader's epoch begins: what is of epoch 0 below that the leader has had."""
    answer = ends_before_its_epoch(tmp_path, of_kinds("live"), third=log(70, 65))
    assert [run[:5] for run in answer.runs(3)] == [("DIV-EPOCH", 60, 70, None, 0)], answer
    assert answer.verdict == "COMMITTED_LOSS" and answer.found("TRN-BELOW-HW", 3), answer


@pytest.mark.parametrize("kind", [None, "live"])
def test_a_damaged_epoch_file_moves_no_epoch_past_the_log(tmp_path, kind):
    """Broker 1 has records of epoch 2 from 50 on; its file says 9999. What broker 2 has of epoch 1 above 50 conflicts."""
    if kind is not None:
        write_manifest(tmp_path, **of_kinds(kind))
    own = log(60, 55, ((0, 0), (1, 30), (2, 50)))
    brokers = {1: replace(own, epochs=((0, 0), (1, 30), (2, 9999))), 2: log(80, 75, ((0, 0), (1, 30))), 3: own}
    answer = audit(tmp_path, brokers, source="user", leader_epoch=2, isr=(1, 3))
    assert [run[1:3] for run in answer.runs(2)] == [(50, 60), (60, 80)], answer
    assert answer.verdict == "COMMITTED_LOSS" and not answer.found("CAP-SKEW", 2), answer
    assert costs(answer, 1) == (30, 25, 5) and answer.interval == (55, 60), answer


def test_below_where_its_file_begins_a_log_goes_on_in_its_last_epoch(tmp_path):
    """DeleteRecords has cut the file at 60: what broker 1 had below is of epoch 1, or of a later one."""
    old = log(80, 75)
    own = replace(log(40, 35, ((0, 0), (1, 30))), epochs=((2, 60),))
    third = log(80, 75, ((0, 0), (1, 30), (2, 60)))
    answer = audit(tmp_path, {1: own, 2: old, 3: third}, source="user", leader_epoch=2)
    assert [run[1:3] for run in answer.runs(2)] == [(30, 40), (40, 80)], answer
    assert not answer.runs(3) and answer.found("CAP-SKEW", 3), answer


# --- whether it was down


def gone_down(path: Path, *since: bytes, leader: Replica | None = None, **options) -> Answer:
    """Broker 1 led alone and is fenced where the metadata log ends; the copy of its log is to 40, what others have of it to 60."""
    path.mkdir(parents=True, exist_ok=True)
    brokers = {1: leader or log(40, 35), 2: log(60, 35), 3: log(55, 35)}
    moves = (change(isr=(1,)), FENCE[2], FENCE[3], FENCE[1], change(leader=-1), *since)
    return scene(path, brokers, *moves, **options)


def is_undecided(answer: Answer) -> bool:
    """Nothing is told as lost, nor as explained, and what would decide is said."""
    told = answer.found("CAP-SKEW", 2)
    return (
        answer.verdict == "INCONCLUSIVE"
        and not (answer.found("REP-LEADER-SHORTER") or answer.codes("high"))
        and answer.one("CAP-SKEW", 2) == ("medium", "likely", 40, 60)
        and answer.interval == (35, None)
        and "broker 1 is fenced where the metadata log ends, but nothing shows" in told[0]["message"]
        and "copy its log directories again, including __cluster_metadata-0" in told[0]["message"]
    )


def test_a_leader_that_may_have_gone_down_after_it_was_copied_is_not_said_to_have_lost_anything(tmp_path):
    """Copied while it ran, it has less than it wrote before it went down: nothing in the controller's log tells."""
    assert is_undecided(gone_down(tmp_path))


@pytest.mark.parametrize(("seconds", "known", "lost"), [(2, 4, True), (2, 3, True), (10, 3, True), (12, 3, False)])
def test_its_own_copy_of_the_metadata_log_tells_when_it_was_copied(tmp_path, seconds, known, lost):
    """A broker that goes down is fenced 9 seconds later; until then its copy of that log grows."""
    answer = gone_down(tmp_path, seen={1: known}, apart_ms=1000 * seconds)
    assert is_undecided(answer) is not lost and (answer.verdict == "COMMITTED_LOSS") is lost, answer
    assert bool(answer.found("REP-LEADER-SHORTER", 2)) is lost, answer
    told = [item["text"] for row in answer.found("REP-LEADER-SHORTER", 2) for item in row["evidence"]]
    assert any("if broker.session.timeout.ms is 9000 or more" in text for text in told) is lost, told


@pytest.mark.parametrize(("begun_s", "lost"), [(-1, False), (3, False), (9, True), (None, True)])
def test_one_that_went_down_while_it_was_copied_may_have_had_more_in_its_log(tmp_path, begun_s, lost):
    """Its own copy of the metadata log, which was copied last, has records of 4 s after `TIME_MS`."""
    brokers = [{"broker_id": one, "log_dir": f"broker-{one}"} for one in (1, 2, 3)]
    if begun_s is not None:
        brokers[0]["started"] = render_time(write.TIME_MS + 1000 * begun_s)
    write_manifest(tmp_path, brokers=brokers)
    answer = gone_down(tmp_path, seen={1: 4})
    assert is_undecided(answer) is not lost and (answer.verdict == "COMMITTED_LOSS") is lost, answer


@pytest.mark.parametrize(("known", "lost"), [(3, False), (5, True)])
def test_one_that_announced_its_stop_is_fenced_at_once(tmp_path, known, lost):
    """A copy that ends seconds earlier was made while it ran."""
    moves = (
        change(isr=(1,)),
        FENCE[2],
        FENCE[3],
        write.registration_change(1, stopping=1),
        FENCE[1],
        change(leader=-1),
    )
    brokers = {1: log(40, 35), 2: log(60, 35), 3: log(55, 35)}
    answer = scene(tmp_path, brokers, *moves, seen={1: known})
    assert is_undecided(answer) is not lost and bool(answer.found("REP-LEADER-SHORTER", 2)) is lost, answer


def test_a_broker_that_is_fenced_since_it_comes_up_again_may_run(tmp_path):
    """It registers as fenced, and recovers its logs: its copy of the metadata log is as late as that of one that is down."""
    assert is_undecided(gone_down(tmp_path, write.register_broker(1, fenced=True), seen={1: 4}))


def test_a_checkpoint_past_the_end_decides_where_nothing_else_does(tmp_path):
    """It is copied before the log, which had reached it."""
    answer = gone_down(tmp_path / "order", leader=log(40, 50), in_order=True)
    assert answer.verdict == "COMMITTED_LOSS" and answer.found("REP-LEADER-SHORTER", 2), answer
    unordered = gone_down(tmp_path / "any", leader=log(40, 50))
    assert unordered.verdict == "INCONCLUSIVE" and unordered.one("CAP-SKEW", 2)[0] == "medium", unordered
    assert not unordered.found("REP-LEADER-SHORTER") and not unordered.codes("high"), unordered


@pytest.mark.parametrize(("point", "lost"), [(40, True), (30, False)])
def test_a_log_that_was_flushed_to_its_end_by_a_clean_stop_is_whole(tmp_path, point, lost):
    """The recovery point is written as a broker stops; an earlier one was copied while it ran, and perhaps the log, too."""
    answer = gone_down(tmp_path, leader=log(40, 35, recovery_point=point, clean_shutdown=True))
    assert is_undecided(answer) is not lost and bool(answer.found("REP-LEADER-SHORTER", 2)) is lost, answer


@pytest.mark.parametrize("seen", [{}, {1: 4}])
def test_so_it_is_told_of_a_copy_that_was_moving_to_another_disk(tmp_path, seen):
    beside(tmp_path, 1, "future", written(0, 45, 0, "0 ", step=1))()
    answer = gone_down(tmp_path, seen=seen)
    (told,) = [row for row in answer.tables["findings"] if "-future" in row["message"] or "moving" in row["message"]]
    assert told["code"] == ("REP-LEADER-SHORTER" if seen else "CAP-SKEW"), answer


def test_an_entry_past_the_end_of_an_epoch_that_the_metadata_log_does_not_know_is_damage(tmp_path):
    """A broker has no epoch before the metadata log has it: `7 9999` is of no later moment of that file."""
    others = {2: log(70, 55), 3: log(60, 55)}
    for epoch in (1, 7):
        own = replace(log(60, 55), epochs=((0, 0), (epoch, 9999)))
        answer = scene(tmp_path / str(epoch), {1: own, **others}, change(leader=1, isr=(1,)))
        assert answer.interval == (55, None if epoch == 1 else 60), answer
        assert bool(answer.found("DIV-EPOCH", 2)) is (epoch == 7), answer
        assert bool(answer.found("CAP-SKEW", 2)) is (epoch == 1), answer


def test_a_log_that_may_be_of_another_topic_does_not_say_whether_the_reference_ran():
    """No replica of the topic reached its checkpoint, so that it lost its end while it was down; only the stranger did."""
    reference = made.log(1, (0, 0), end=40, high_watermark_checkpoint=60, recovery_point_checkpoint=0)
    stranger = made.compared(made.log(3, (0, 0), end=100))
    said = made.leadership(source="metadata_log", fenced=(1,))
    judged = made.compared(made.log(2, (0, 0), end=50))
    for strangers in ((), ((stranger, "another topic"),)):
        assert made.case(reference, judged, said=said, strangers=strangers).tail.state == "down"


# --- clocks that differ


def at_moments(
    path: Path,
    leader: tuple[int, int],
    follower: tuple[int, int],
    ahead_s: int = 0,
    heard: int | None = None,
    follower_ahead_s: int = 0,
) -> Answer:
    """Leader 1 to 40, follower 2 to 60, both running and copied in these seconds, each by a clock that is ahead; each copy of
    the metadata log, with an idle record a second, ends with its copying, or the leader's after `heard` seconds."""
    brokers = [
        {"broker_id": one, "log_dir": f"broker-{one}", "kind": "live"}
        | {name: write.TIME_MS + 1000 * (at + shift) for name, at in zip(("started", "finished"), copied, strict=True)}
        for one, copied, shift in ((1, leader, ahead_s), (2, follower, follower_ahead_s))
    ]
    write_manifest(path, brokers=brokers)
    idle = [write.no_op()] * 30
    seen = {1: leader[1] if heard is None else heard, 2: follower[1]}
    return scene(path, {1: log(40, 35), 2: log(60, 35)}, *idle, replicas=(1, 2), seen=seen)


@pytest.mark.parametrize("ahead_s", [-60, -5, 0, 5, 60])
def test_a_clock_that_is_off_makes_no_loss_of_a_leader_that_was_copied_first(tmp_path, ahead_s):
    answer = at_moments(tmp_path / "s", (0, 4), (7, 9), ahead_s)
    assert answer.found("CAP-SKEW", 2) and not answer.codes("high"), answer
    assert answer.verdict == at_moments(tmp_path / "right", (0, 4), (7, 9)).verdict == "CONSISTENT", answer
    clock = (
        f"by a clock that is {abs(ahead_s)} s {'ahead of' if ahead_s > 0 else 'behind'} its copy of the metadata log"
    )
    assert (clock in answer.found("CAP-SKEW", 2)[0]["evidence"][0]["text"]) is bool(ahead_s), answer


@pytest.mark.parametrize("ahead_s", [0, 5, 60])
def test_a_leader_that_was_copied_last_by_both_clocks_lost_its_tail(tmp_path, ahead_s):
    answer = at_moments(tmp_path / "s", (7, 9), (0, 4), ahead_s)
    assert answer.found("REP-LEADER-SHORTER", 2) and answer.verdict == "COMMITTED_LOSS", answer


@pytest.mark.parametrize(
    ("leader", "ahead_s", "heard"),
    [((7, 9), -60, None), ((7, 9), -5, None), ((0, 4), 0, 30)],
    ids=["a minute behind", "a little behind", "its metadata log was copied again"],
)
def test_a_leader_that_was_copied_last_by_the_controllers_clock_alone_may_have_lost_its_tail(
    tmp_path, leader, ahead_s, heard
):
    """Its clock is behind, or its metadata log was copied again later, as is advised where one cannot be read: the files are the same."""
    answer = at_moments(tmp_path / "s", leader, (0, 4) if heard is None else (7, 9), ahead_s, heard)
    (told,) = answer.found("CAP-SKEW", 2)
    assert answer.verdict == "INCONCLUSIVE" and "or its clock is slow" in told["message"], answer
    assert costs(answer, 1) == (20, 0, 20) and costs(answer, 2) == (0, 0, 0), answer


@pytest.mark.parametrize(
    ("follower_ahead_s", "verdict"),
    [
        (-60, "COMMITTED_LOSS"),
        (-30, "CONSISTENT"),
        (-1, "INCONCLUSIVE"),
        (1, "INCONCLUSIVE"),
        (60, "CONSISTENT"),
    ],
)
def test_a_leader_whose_clock_is_behind_is_only_later_than_a_copy_by_a_clock_that_is_not_off(
    tmp_path, follower_ahead_s, verdict
):
    """Or by one that is off like its own. A broker whose clock seems to be ahead may have lost the controllers, and then was copied later
    than its metadata log says."""
    answer = at_moments(tmp_path / "s", (7, 9), (0, 4), -60, follower_ahead_s=follower_ahead_s)
    assert answer.verdict == verdict, answer


def test_a_leader_whose_metadata_log_stood_still_is_not_known_to_have_been_copied_last(tmp_path):
    """It is cut off from the controllers, or its clock is ahead."""
    answer = at_moments(tmp_path / "s", (20, 22), (0, 4), heard=4)
    assert answer.found("CAP-SKEW", 2) and answer.verdict == "CONSISTENT", answer


@pytest.mark.parametrize("led", [None, 1])
def test_of_before_there_were_epochs_it_may_have_lost_that(tmp_path, led):
    """It was skew that explains all, though the copy of the leader is the later one: LAGGING."""
    brokers = {one: Replica(written_legacy(0, end), epochs=None, high_watermark=30) for one, end in ((1, 30), (2, 40))}
    how = {"brokers": brokers, "protocol": "high-watermark", "isr": [1], "led": led}
    answer = copied_at(tmp_path / "later", (5, 9), (0, 4), **how)
    assert answer.verdict == "INCONCLUSIVE" and costs(answer, 1) == (10, 0, 10), answer
    assert "the copy of broker 1 may be the later one, and then that log lost its end" in answer.messages("CAP-SKEW")[0]
    assert copied_at(tmp_path / "first", (0, 4), (5, 9), **how).verdict == "CONSISTENT"


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("legacy", [False, True])
def test_a_leader_without_a_record_or_an_epoch_was_copied_first_or_lost_its_disk(tmp_path, in_order, legacy):
    """A listing names it: that was skew which explains all, LAGGING, and no choice of leader would keep more."""
    has = Replica(written_legacy(0, 80), epochs=None) if legacy else Replica(written(0, 80, 3))
    blank = Replica((), epochs=None if legacy else (), high_watermark=0, recovery_point=0)
    answer = audit(tmp_path, {1: blank, 2: has, 3: has}, isr=[1], in_order=in_order)
    assert answer.verdict == "INCONCLUSIVE" and answer.one("CAP-SKEW", 2)[0] == "medium", answer
    assert "past the end of broker 1 at 0, which has neither a record nor a leader epoch" in str(answer)
    assert (costs(answer, 1), costs(answer, 2)) == ((80, 0, 80), (0, 0, 0))

"""A broker that was started on another disk, of which the old one was copied, too: what only that has is named, and nothing that an
older copy of the same disk has."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.report_rows import tables_of
from tests.support.scenario import Answer, asked_costs, written
from tests.support.snapshots import (
    TOPIC,
    TOPIC_ID,
    Listed,
    Replica,
    make_uuid,
    manifest_text,
    write_log_dir,
    write_snapshot,
)

from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_all, audit_one

LED = written(0, 50, 0)
LONGER = [*LED, *written(50, 60, 0)]
OF_1, OF_2, OLD = make_uuid("disk 1"), make_uuid("disk 2"), make_uuid("an old disk")


def audit_disks(
    path: Path,
    now: Replica,
    old: Replica,
    *,
    led: Replica | None = None,
    isr: tuple[int, ...] | None = (1, 2),
    leader: int | None = 1,
    is_named: bool = False,
    old_id: str | None = None,
    kinds: tuple[str | None, ...] = (),
    quiesced: bool | None = None,
    old_first: bool = False,
) -> Answer:
    """Broker 1 leads with LED; broker 2 has `now` on its disk, and `old` on another. By a listing, unless the metadata log names the disk
    of `now` (`is_named`), or `isr` is None: then nobody says anything. `kinds` of the three copies are those of a manifest, where the
    copy of `old` ended before the others began if `old_first`."""
    listed = [Listed(leader, (1, 2), isr)] if isr is not None and not is_named else ()
    metadata = {}
    if is_named:
        registered = [write.register_broker(1, log_dirs=(OF_1,)), write.register_broker(2, log_dirs=(OF_2,))]
        assigned = write.partition(TOPIC_ID, (1, 2), leader, isr=isr, directories=(OF_1, OF_2))
        metadata = {100: write.history([write.topic(TOPIC, TOPIC_ID), *registered, assigned])}
    write_snapshot(
        path,
        {1: Replica(LED) if led is None else led, 2: now},
        listed,
        metadata=metadata,
        disks="disk" if is_named else None,
    )
    write_log_dir(path / "broker-2-old", 2, [old], directory_id=OLD if is_named else old_id)
    if kinds or quiesced is not None:
        text = json.loads(
            manifest_text({1: "broker-1", 2: "broker-2", 3: "broker-2-old"}, quiesced=quiesced, kind=None)
        )
        for one, kind in zip(text["brokers"], kinds or (None, None, None)):
            one |= {} if kind is None else {"kind": kind}
        text["brokers"][2]["broker_id"] = 2
        if old_first:
            text["brokers"][2] |= {"started": "2023-11-14T22:00:00Z", "finished": "2023-11-14T22:01:00Z"}
        (path / "manifest.json").write_text(json.dumps(text))
    return Answer(tables_of(audit_one(str(path), TopicPartition(TOPIC, 0), Settings())))


@pytest.mark.parametrize("end", [0, 20, 50], ids=["empty", "behind", "caught up"])
@pytest.mark.parametrize(
    ("isr", "is_named"), [((1, 2), True), ((1,), True), ((1, 2), False), ((1,), False), (None, False)]
)
def test_what_only_the_old_disk_has_is_named(
    tmp_path: Path, end: int, isr: tuple[int, ...] | None, is_named: bool
) -> None:
    """The leader lost it, or was copied earlier: nothing tells which."""
    now = Replica(LED[: end // 5], epochs=[(0, 0)] if end else [])
    answer = audit_disks(tmp_path, now, Replica(LONGER), isr=isr, is_named=is_named)
    assert answer.verdict == "INCONCLUSIVE", answer
    (told,) = [one for one in answer.found("CAP-SKEW", 2) if one["severity"] == "medium"]
    assert told["message"].startswith(
        "broker-2-old of broker 2 has offsets 50 to 59, past the end of broker 1 at 50"
    ), told
    assert answer.replica(2)["log_end_offset"] == end
    (twice,) = answer.messages("META-DUP-DIR")
    assert "'broker-2-old/orders-0' was not used" in twice and ("nothing says which" in twice) != is_named
    # As long as broker 1 leads they may be lost; under broker 2 so is what it has not fetched yet.
    assert asked_costs(tmp_path) == {1: (10, 0, 10), 2: (60 - end, 60 - end, 0)}


@pytest.mark.parametrize("is_named", [True, False])
def test_a_leader_that_was_copied_after_the_old_disk_has_lost_it(tmp_path: Path, is_named: bool) -> None:
    for name, given in (
        ("at rest", {"quiesced": True}),
        ("later", {"kinds": ("live", "live", "stopped"), "old_first": True}),
    ):
        answer = audit_disks(tmp_path / name, Replica(LED), Replica(LONGER), is_named=is_named, **given)
        assert (answer.verdict, answer.rows("partitions")[0]["lost_committed"]) == ("COMMITTED_LOSS", 10), answer
        assert answer.one("HWM-LOSS", 2)[2:] == (50, 60)


def test_a_disk_with_an_epoch_that_the_longer_does_not_know_is_in_use(tmp_path: Path) -> None:
    """It leads with the empty one, and the other follows."""
    now = Replica([], epochs=[(1, 0)])
    answer = audit_disks(tmp_path, now, Replica(LONGER), led=now, leader=2)
    assert (answer.verdict, answer.rows("partitions")[0]["lost_committed"]) == ("COMMITTED_LOSS", 60), answer
    assert "broker-2-old of broker 2 still has them" in answer.messages("HWM-LOSS")[0]


@pytest.mark.parametrize(
    "given",
    [
        {"isr": (1, 2)},
        {"isr": (1, 2), "is_named": True},
        {"isr": (1,), "kinds": ("live", "live", None)},
        {"isr": (1,), "quiesced": True, "kinds": ("live", "live", "stopped")},
        {"isr": None, "kinds": ("live", "live", None)},
    ],
)
def test_an_older_copy_of_a_disk_is_not_used(tmp_path: Path, given: dict) -> None:
    answer = audit_disks(tmp_path, Replica(LED), Replica(LED[:4], high_watermark=15), **given)
    assert answer.verdict in ("CONSISTENT", "LAGGING") and answer.replica(2)["log_end_offset"] == 50, answer
    assert answer.codes("medium") == {"META-DUP-DIR"}
    assert asked_costs(tmp_path) == {1: (0, 0, 0), 2: (0, 0, 0)}


@pytest.mark.parametrize("order", permutations(range(3)))
def test_of_three_disks_the_order_of_their_names_says_nothing(tmp_path: Path, order: tuple[int, ...]) -> None:
    logs = [Replica(LED[:2]), Replica(LED[:4]), Replica([], epochs=[(1, 0)])]
    for number, one in enumerate(order):
        write_log_dir(tmp_path / f"broker-2-{number}", 2, [logs[one]])
    write_snapshot(tmp_path, {1: Replica(LED)}, [Listed(1, (1, 2), (1,))])
    answer = Answer(tables_of(audit_one(str(tmp_path), TopicPartition(TOPIC, 0), Settings())))
    told = sorted(answer.messages("META-DUP-DIR"))
    assert answer.replica(2)["log_end_offset"] == 0 and not any("nothing says" in one for one in told), told


def test_an_older_copy_of_the_only_long_log_is_no_loss(tmp_path: Path) -> None:
    """Nobody says who leads: whichever copy broker 2 uses, what the longer has is not lost to broker 1."""
    answer = audit_disks(tmp_path, Replica(LONGER), Replica(LED[:4]), isr=None, quiesced=True)
    assert answer.verdict == "INCONCLUSIVE" and not answer.found("REP-LEADER-SHORTER"), answer
    assert answer.rows("partitions")[0]["lost_records"] == 0


def test_an_older_copy_of_a_leaders_disk_is_not_used(tmp_path: Path) -> None:
    answer = audit_disks(tmp_path, Replica(LONGER), Replica(LED[:4]), leader=2, led=Replica(LONGER))
    assert answer.verdict == "CONSISTENT" and answer.codes("medium") == {"META-DUP-DIR"}, answer


@pytest.mark.parametrize(
    ("isr", "shorter", "end"),
    [
        ((2,), Replica(LED[:4]), 60),
        ((2,), Replica(LED[:4], epochs=[(0, 0), (1, 20)]), 20),
        ((1, 2), Replica(LED[:4]), 20),
        ((1,), Replica(LED[:4]), 20),
    ],
    ids=["alone in sync", "it has led again on the shorter", "not alone", "not in sync"],
)
def test_without_a_leader_the_longer_counts_of_the_only_one_in_sync(tmp_path: Path, isr, shorter, end) -> None:
    """It led last, and would have begun an epoch if it had led again on a disk from a backup."""
    answer = audit_disks(tmp_path, shorter, Replica(LONGER), led=Replica(LED[:6]), leader=None, isr=isr)
    assert answer.replica(2)["log_end_offset"] == end, answer
    if end == 60:
        plan = plan_elections(audit_all(str(tmp_path), Settings()))
        (start,) = (step for step in plan.steps if step.action == "start" and step.brokers == (2,))
        assert any("has as broker-2-old, or with a copy" in one and "broker-2 instead" in one for one in start.before)
        assert asked_costs(tmp_path)[2] == (0, 0, 0) and "CAP-SKEW" not in answer.codes("medium"), answer


def test_one_disk_copied_twice(tmp_path: Path) -> None:
    """The copy of the leader is of a moment in between."""
    write_log_dir(tmp_path / "broker-2", 2, [Replica(LED[:4])], directory_id=OF_2)
    write_log_dir(tmp_path / "broker-2b", 2, [Replica(LONGER)], directory_id=OF_2)
    write_snapshot(tmp_path, {1: Replica(LED)}, [Listed(1, (1, 2), (1, 2))])
    answer = Answer(tables_of(audit_one(str(tmp_path), TopicPartition(TOPIC, 0), Settings())))
    assert answer.verdict == "CONSISTENT" and answer.one("CAP-SKEW", 2)[0] == "info", answer


def test_a_log_that_moved_to_another_disk_of_a_running_broker(tmp_path: Path) -> None:
    """Both were copied while it ran, and the metadata log is of before the move."""
    kinds = ("live", "live", "live")
    answer = audit_disks(tmp_path, Replica(LED[:9]), Replica(LONGER), is_named=True, kinds=kinds)
    assert answer.verdict == "LAGGING" and answer.codes("medium") == {"META-DUP-DIR"}, answer
    led = audit_disks(
        tmp_path / "leads", Replica(LED[:9]), Replica(LONGER), led=Replica(LONGER), is_named=True, leader=2
    )
    assert "CAP-SKEW" not in led.codes("medium") and not led.found("HWM-LOSS"), led

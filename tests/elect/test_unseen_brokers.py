"""Brokers that nobody saw run while they were copied, as the capture script writes it (`"kind": null`): the metadata log has them up
after a loss of power, too, since nobody was left to fence them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.scenario import written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, write_log_dir, write_manifest, write_snapshot

from replica_audit.config import Settings
from replica_audit.elect.cluster_state import find_up
from replica_audit.elect.election_plan import advise
from replica_audit.elect.kafka_commands import BROKER, CONTROLLER, ZOOKEEPER_ITSELF, Tools
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all

_END_MS = write.TIME_MS + 60_000
"""Time of the last record of the metadata log."""
_LEFT_OUT = "left out"


def _log(end: int) -> Replica:
    """A log that ends at its own checkpoint, as after a loss of power."""
    return Replica(written(0, end, 0), high_watermark=end)


def _copied(
    path: Path, kinds: Mapping[int, Iterable[str | None]], finished_ms: int | None, fenced: int | None = None
) -> Results:
    """Answers on brokers 1, which leads, 2 and 3, by the kinds of their copies; broker 3 ends earlier."""
    begin = [*map(write.register_broker, (1, 2, 3)), write.topic(TOPIC, TOPIC_ID)]
    begin.append(write.partition(TOPIC_ID, (1, 2, 3), 1))
    last = write.config(4, "1", "log.cleaner.threads", "2")
    later = [write.registration_change(fenced, 1)] if fenced else [last]
    metadata = write.history(begin, *later, last, apart_ms=30_000)
    write_snapshot(path, {1: _log(40), 2: _log(40), 3: _log(30)}, metadata={100: metadata})
    times = {} if finished_ms is None else {"started": finished_ms - 1000, "finished": finished_ms}
    brokers = [
        {"broker_id": broker, "log_dir": f"broker-{broker}", **times, **({} if kind == _LEFT_OUT else {"kind": kind})}
        for broker, some in kinds.items()
        for kind in some
    ]
    write_manifest(path, brokers=brokers)
    return audit_all(str(path), Settings())


def _all(kind: str | None) -> dict[int, list[str | None]]:
    return {broker: [kind] for broker in (1, 2, 3)}


@pytest.mark.parametrize("finished_ms", [None, _END_MS + 12_000, _END_MS + 3_600_000])
def test_after_a_loss_of_power_nobody_is_taken_to_be_up(finished_ms: int | None, tmp_path: Path) -> None:
    results = _copied(tmp_path / "copied", _all(None), finished_ms)
    assert find_up(results) == {}
    plan = advise(results)
    assert plan.unknown == (1, 2, 3) and not plan.up
    assert [(one.candidate_id, one.procedure) for one in plan.decisions] == [(1, "confirm")]
    assert next(one for one in plan.decisions[0].candidates if one.candidate_id == 3).loss[0] == 10
    (step,) = [step for step in plan.steps if step.action == "check" and step.brokers]
    assert "If it is down, start it, and no other replica of it before it leads" in step.text
    assert not any(step.action == "start" and step.brokers for step in plan.steps)


@pytest.mark.parametrize("finished_ms", [_END_MS - 3_600_000, _END_MS, _END_MS + 10_000])
def test_where_the_controllers_wrote_until_then_brokers_were_up(finished_ms: int, tmp_path: Path) -> None:
    """They run where the script cannot see them, in containers."""
    results = _copied(tmp_path / "copied", _all(None), finished_ms)
    assert find_up(results) == {1: True, 2: True, 3: True}
    assert advise(results) == advise(_copied(tmp_path / "said", _all(_LEFT_OUT), finished_ms))


def test_a_disk_that_takes_longer_than_that_of_the_metadata_log_shows_nothing_of_a_broker(tmp_path: Path) -> None:
    """Nor does any disk where the broker was seen to run while others were copied: then it went down meanwhile, or lost the disk."""
    begin = [write.register_broker(1), *write.new_topic(TOPIC, TOPIC_ID, (1,), 1)]
    log = write.history(begin, write.config(4, "1", "log.cleaner.threads", "2"), apart_ms=60_000)
    own = {1: write.MetadataLog({0: log}, log_dir="broker-1/a")}
    found = []
    for name, kind in (("hidden", None), ("seen", "live")):
        write_snapshot(tmp_path / name, {}, metadata=own)
        write_log_dir(tmp_path / name / "broker-1" / "b", 1, [_log(40)])
        times = ((_END_MS, kind, "a"), (_END_MS + 3_600_000, None, "b"))
        brokers = [
            {"broker_id": 1, "log_dir": f"broker-1/{disk}", "started": at - 1000, "finished": at, "kind": said}
            for at, said, disk in times
        ]
        write_manifest(tmp_path / name, brokers=brokers)
        found.append(find_up(audit_all(str(tmp_path / name), Settings())).get(1))
    assert found == [True, None]


@pytest.mark.parametrize(("ahead_ms", "up"), [(3_600_000, None), (10_000, True), (-10_000, True)])
def test_the_clock_of_a_leader_that_is_ahead_shows_nobody_up(tmp_path: Path, ahead_ms: int, up: bool | None) -> None:
    """The metadata log has a record from an hour after the end of its copy: when it was written is not known."""
    begin = [write.register_broker(1), *write.new_topic(TOPIC, TOPIC_ID, (1,), 1)]
    log = write.history(begin, write.config(4, "1", "log.cleaner.threads", "2"), apart_ms=60_000)
    write_snapshot(tmp_path, {1: _log(40)}, metadata={1: write.MetadataLog({0: log}, log_dir="broker-1")})
    ended = _END_MS - ahead_ms
    write_manifest(
        tmp_path,
        brokers=[{"broker_id": 1, "log_dir": "broker-1", "started": ended - 1000, "finished": ended, "kind": None}],
    )
    assert find_up(audit_all(str(tmp_path), Settings())).get(1) is up


def test_where_nothing_is_said_the_metadata_log_counts(tmp_path: Path) -> None:
    results = _copied(tmp_path / "copied", _all(_LEFT_OUT), _END_MS + 3_600_000)
    assert find_up(results) == {1: True, 2: True, 3: True} and not advise(results).decisions


@pytest.mark.parametrize(
    ("kinds", "fenced", "up"),
    [
        (["live", "live"], None, True),
        # It has come back since, or the controllers do not have it as a broker.
        (["live", "live"], 1, None),
        # Seen on one disk, not on the other: it may have gone down in between.
        (["live", None], None, None),
        (["live", None], 1, None),
        (["live", _LEFT_OUT], 1, None),
        # Started while it was copied.
        (["killed", None], None, None),
        (["killed", None], 1, None),
        # Declared for one disk only: the metadata log has it up after a loss of power, too.
        (["killed", _LEFT_OUT], None, None),
        (["stopped", _LEFT_OUT], None, None),
        (["live", "killed"], None, None),
        (["live", "killed"], 1, False),
        (["stopped", "killed"], None, False),
        ([None, None], 1, False),
    ],
)
def test_disks_of_one_broker_that_do_not_agree_leave_it_open(
    kinds: list[str | None], fenced: int | None, up: bool | None, tmp_path: Path
) -> None:
    results = _copied(tmp_path / "copied", {1: kinds}, _END_MS + 3_600_000, fenced)
    assert find_up(results).get(1) is up


def test_a_short_leader_may_have_lost_what_others_have(tmp_path: Path) -> None:
    """It ends at its own checkpoint, and was copied before them: one that runs would have it by now."""

    def costs(kind: str | None) -> dict[int, tuple[int, int]]:
        path = tmp_path / str(kind)
        begin = [*map(write.register_broker, (1, 2)), write.topic(TOPIC, TOPIC_ID)]
        metadata = write.history([*begin, write.partition(TOPIC_ID, (1, 2), 1)])
        write_snapshot(path, {1: _log(30), 2: _log(40)}, metadata={100: metadata})
        at = {1: _END_MS, 2: _END_MS + 60_000}
        brokers = [
            {"broker_id": one, "log_dir": f"broker-{one}", "started": ms, "finished": ms + 1000, "kind": kind}
            for one, ms in at.items()
        ]
        write_manifest(path, brokers=brokers)
        rows = audit_all(str(path), Settings()).elections
        return {row.candidate_id: (row.lost_committed, row.lost_possible) for row in rows}

    assert costs(None) == {1: (0, 10), 2: (0, 0)}
    assert costs("killed") == {1: (10, 0), 2: (0, 0)}
    assert costs("live") == {}


@pytest.mark.parametrize(
    ("version", "mode", "way"),
    [
        ((4, 3), "kraft", CONTROLLER),
        ((3, 6), "kraft", BROKER),
        ((2, 8), "zookeeper", ZOOKEEPER_ITSELF),
        (None, None, BROKER),
    ],
)
def test_where_nobody_may_be_up_settings_are_changed_without_a_broker_if_that_is_possible(
    version: tuple[int, ...] | None, mode: str | None, way: str
) -> None:
    assert Tools(version, mode=mode).way_to_configure(is_any_up=None) == way
    assert Tools(version, mode=mode).way_to_configure(is_any_up=True) == BROKER

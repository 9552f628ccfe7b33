"""However often a restore is ended, at whatever step, every record is there once and in order in the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.fake_cluster import FakeCluster, Killed
from tests.support.lost_records import CLUSTER_ID, lost_record, write_lost_records

from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.restore.checking import check_partition
from replica_audit.restore.cluster import ConsumedRecord, RestoreProgress, Topic
from replica_audit.restore.restore import RestoreOptions, name_of, plan_restore, preview, restore
from replica_audit.restore.salvaged_records import NAMES, SalvagedRecords

COUNTS = {0: 25, 1: 5}
WITH_HEADERS = RestoreOptions()


def _run(
    records: SalvagedRecords, cluster: FakeCluster, options: RestoreOptions = WITH_HEADERS, together: int = 4
) -> int:
    """Restore; returns how many records this run produced."""
    plan = plan_restore(records, cluster, options)
    return sum(one.left for one in restore(records, plan, cluster, options, together))


def assert_each_once(
    cluster: FakeCluster, topic: str = "orders.salvaged", headers: bool = True, after: int = 0
) -> None:
    """Assert that the target has exactly the expected records `after` those that were there before."""
    for partition, count in COUNTS.items():
        found = cluster.logs["orders.salvaged", partition]
        expected = [lost_record(partition, number) for number in range(count)]
        assert [(one.key, one.value, one.timestamp_ms) for one in found] == [
            (one.key, one.value, one.timestamp_ms) for one in expected
        ]
        assert [one.headers[:-5] if headers else one.headers for one in found] == [one.headers for one in expected]


def test_the_target_is_created_and_filled(records: SalvagedRecords) -> None:
    cluster = FakeCluster(topics={"orders": Topic(6, 3)})
    assert _run(records, cluster) == 30
    assert_each_once(cluster)
    assert cluster.topics["orders.salvaged"] == Topic(6, 3)
    assert cluster.settings["orders.salvaged"]["retention.ms"] == "-1"
    last = dict(cluster.logs["orders.salvaged", 0][24].headers[-5:])
    values = (CLUSTER_ID.encode(), b"orders", b"0", b"34", b"0")
    assert last == dict(zip(NAMES, values, strict=True))


def test_a_second_run_produces_nothing(records: SalvagedRecords) -> None:
    cluster = FakeCluster()
    assert (_run(records, cluster), _run(records, cluster)) == (30, 0)
    assert_each_once(cluster)


def test_a_run_that_is_ended_at_any_step_is_taken_up_there(records: SalvagedRecords) -> None:
    whole = FakeCluster()
    _run(records, whole)
    for step in range(1, whole.steps + 1):
        cluster = FakeCluster(kill_at=step)
        with pytest.raises(Killed):
            _run(records, cluster)
        cluster.kill_at = None
        _run(records, cluster)
        assert_each_once(cluster)


@pytest.mark.parametrize("headers", [True, False])
def test_runs_that_are_ended_again_and_again_come_to_an_end(records: SalvagedRecords, headers: bool) -> None:
    for distance in (5, 6, 7):
        cluster, options, runs = FakeCluster(), RestoreOptions(headers=headers), 0
        while True:
            cluster.kill_at, runs = cluster.steps + distance, runs + 1
            try:
                _run(records, cluster, options)
                break
            except Killed:
                assert runs < 100
        assert runs > 3
        assert_each_once(cluster, headers=headers)


def test_where_progress_has_expired_the_place_is_found_from_the_target(records: SalvagedRecords) -> None:
    whole = FakeCluster()
    _run(records, whole)
    for step in range(2, whole.steps + 1):
        cluster = FakeCluster(kill_at=step)
        with pytest.raises(Killed):
            _run(records, cluster)
        cluster.kill_at = None
        cluster.committed.clear()
        _run(records, cluster)
        assert_each_once(cluster)


def test_without_headers_it_is_refused_then(records: SalvagedRecords) -> None:
    cluster, options = FakeCluster(kill_at=6), RestoreOptions(headers=False)
    with pytest.raises(Killed):
        _run(records, cluster, options)
    cluster.kill_at = None
    cluster.committed.clear()
    before = {place: list(log) for place, log in cluster.logs.items()}
    with pytest.raises(UsageError, match="--from-start"):
        _run(records, cluster, options)
    assert cluster.logs == before


def test_from_start_is_no_way_around_progress_that_is_known(records: SalvagedRecords) -> None:
    cluster = FakeCluster()
    _run(records, cluster)
    assert _run(records, cluster, RestoreOptions(from_start=True)) == 0


def test_a_target_that_lacks_first_records_is_refused(records: SalvagedRecords) -> None:
    cluster = FakeCluster()
    _run(records, cluster)
    cluster.committed.clear()
    del cluster.logs["orders.salvaged", 0][:3]
    with pytest.raises(UsageError, match="not the first"):
        _run(records, cluster)


def test_unless_retention_has_deleted_them(records: SalvagedRecords) -> None:
    cluster = FakeCluster()
    _run(records, cluster)
    cluster.committed.clear()
    cluster.starts["orders.salvaged", 0] = 3
    assert _run(records, cluster) == 0


@pytest.mark.parametrize("change", ["swap", "twice", "value"])
def test_a_target_that_is_not_as_it_was_left_is_refused(change: str, records: SalvagedRecords) -> None:
    cluster = FakeCluster()
    _run(records, cluster)
    cluster.committed.clear()
    log = cluster.logs["orders.salvaged", 0]
    if change == "swap":
        log[4], log[6] = log[6], log[4]
    elif change == "twice":
        log.insert(5, log[4])
    else:
        log[4] = ConsumedRecord(4, 0, log[4].timestamp_ms, log[4].key, b"another", log[4].headers)
    with pytest.raises(UsageError, match="restore --check"):
        _run(records, cluster)


def test_headers_are_not_changed_on_the_way(records: SalvagedRecords) -> None:
    cluster = FakeCluster(kill_at=6)
    with pytest.raises(Killed):
        _run(records, cluster)
    cluster.kill_at = None
    with pytest.raises(UsageError, match="was begun with headers"):
        _run(records, cluster, RestoreOptions(headers=False))


def test_progress_past_the_salvage_is_refused(records: SalvagedRecords) -> None:
    cluster = FakeCluster(topics={"orders.salvaged": Topic(2, 1)})
    cluster.committed[name_of(records), "orders.salvaged", 0] = RestoreProgress(26, "with headers")
    with pytest.raises(UsageError, match="the progress that is committed is 26"):
        _run(records, cluster)


def test_a_look_writes_nothing(records: SalvagedRecords) -> None:
    cluster = FakeCluster()
    plan = plan_restore(records, cluster, RestoreOptions())
    assert [one.before for one in preview(records, plan, cluster, RestoreOptions())] == [0, 0]
    assert (cluster.steps, cluster.topics, cluster.logs) == (0, {}, {})


def test_a_second_salvage_into_the_same_target_does_not_disturb(records: SalvagedRecords, tmp_path: Path) -> None:
    cluster = FakeCluster()
    _run(records, cluster)
    again = SalvagedRecords(write_lost_records(tmp_path, {0: 60}, cluster_id="other"))
    assert _run(again, cluster) == 60
    for one in (records, again):
        place = TopicPartition("orders", 0)
        check = check_partition(one, place, TopicPartition("orders.salvaged", 0), cluster, RestoreOptions())
        assert check.is_whole and check.records == (25 if one is records else 60)


ORIGINAL = RestoreOptions(to_original=True)


@pytest.mark.parametrize(("count", "more"), [(25, 0), (10, 0), (40, 15)])
def test_what_another_salvage_put_back_is_not_put_back_again(
    count: int, more: int, records: SalvagedRecords, tmp_path: Path
) -> None:
    """The same records are found missing, and salvaged again, as long as the leader lacks them at their own offsets."""
    cluster = FakeCluster(CLUSTER_ID, topics={"orders": Topic(2, 1)})
    assert _run(records, cluster, ORIGINAL) == 30
    again = SalvagedRecords(write_lost_records(tmp_path, {0: count}))
    assert again.digest != records.digest
    assert _run(again, cluster, ORIGINAL) == more
    assert len(cluster.logs["orders", 0]) == 25 + more
    # Without headers nothing tells.
    with pytest.raises(UsageError, match="--from-start"):
        _run(SalvagedRecords(write_lost_records(tmp_path / "b", {0: 12})), cluster, replace(ORIGINAL, headers=False))


@pytest.mark.parametrize("other", [True, False])
def test_records_that_retention_may_not_have_deleted_are_not_passed_over(other: bool, records: SalvagedRecords) -> None:
    """A salvage with records before those that another one put back, in a log that begins past 0 as any old one does."""
    cluster = FakeCluster(CLUSTER_ID, topics={"orders": Topic(2, 1)})
    own = [ConsumedRecord(5, 0, 1, b"k", b"own", ())]
    _run(records, cluster, ORIGINAL)
    cluster.committed.clear()
    cluster.starts["orders", 0] = 5
    log = cluster.logs["orders", 0]
    log[:6] = [log[0]] * 5 + (own if other else [log[5]])
    if other:
        with pytest.raises(UsageError, match="not the first"):
            _run(records, cluster, ORIGINAL)
    else:
        assert _run(records, cluster, ORIGINAL) == 0


def _check(records: SalvagedRecords, cluster: FakeCluster, options: RestoreOptions = WITH_HEADERS):
    return check_partition(records, TopicPartition("orders", 0), TopicPartition("orders.salvaged", 0), cluster, options)


@pytest.mark.parametrize("headers", [True, False])
def test_a_check_counts_what_is_wrong(headers: bool, records: SalvagedRecords) -> None:
    options = RestoreOptions(headers=headers)
    cluster = FakeCluster()
    _run(records, cluster, options)
    log = cluster.logs["orders.salvaged", 0]
    whole = list(log)
    assert _check(records, cluster, options).is_whole
    log[:] = whole[:20]
    assert _check(records, cluster, options).missing == 5
    log[:] = [*whole, whole[2]]
    assert _check(records, cluster, options).repeated == 1
    log[:] = [*whole[:4], whole[6], *whole[4:6], *whole[7:]]
    assert _check(records, cluster, options).out_of_order == 2
    log[:] = [*whole[:4], ConsumedRecord(4, 0, 1, b"k", b"another", whole[4].headers), *whole[5:]]
    check = _check(records, cluster, options)
    assert (check.missing, check.changed) == (1, 1 if headers else 0) and not check.is_whole

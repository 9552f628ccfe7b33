"""Records that were never lost: the leader of their own partition holds them, and a restore does not put them there twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.fake_cluster import FakeCluster, Killed
from tests.support.lost_records import CLUSTER_ID, lost_record

from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.restore.checking import Check, check_partition
from replica_audit.restore.cluster import ConsumedRecord, Topic
from replica_audit.restore.restore import RestoredPartition, RestoreOptions, plan_restore, preview, restore
from replica_audit.restore.salvaged_records import SalvagedRecords

PLACE = TopicPartition("orders", 0)
#: The salvage has 25 records of orders-0 from offset 10 on in epoch 0, and 5 of orders-1.
FIRST = 10


def _stored(number: int, **changes: object) -> ConsumedRecord:
    record = lost_record(0, number)
    one = ConsumedRecord(FIRST + number, 0, record.timestamp_ms, record.key, record.value, record.headers)
    return replace(one, **changes)


def _before(offset: int) -> ConsumedRecord:
    return ConsumedRecord(offset, 0, 1, b"k", b"before", ())


def _cluster(*numbers: int, **more: object) -> FakeCluster:
    """A cluster whose leader of orders-0 holds these of the salvaged records."""
    log = [*(_before(offset) for offset in range(FIRST)), *(_stored(number) for number in numbers)]
    return FakeCluster(id=CLUSTER_ID, topics={"orders": Topic(2, 3)}, logs={("orders", 0): log}, epoch=7, **more)


def _run(
    records: SalvagedRecords, cluster: FakeCluster, options: RestoreOptions, together: int = 4
) -> list[RestoredPartition]:
    return restore(records, plan_restore(records, cluster, options), cluster, options, together)


@pytest.mark.parametrize("to_original", [True, False])
def test_it_stops_before_anything_is_produced_and_says_how_many(records: SalvagedRecords, to_original: bool) -> None:
    cluster, options = _cluster(0, 1, 5), RestoreOptions(to_original=to_original)
    plan = plan_restore(records, cluster, options)
    before = {place: list(log) for place, log in cluster.logs.items()}
    for step in (preview, restore):
        with pytest.raises(UsageError, match=r"3 of 30 records are not lost.*orders-0 3 of 25.*--skip-present"):
            step(records, plan, cluster, options)
        assert cluster.logs == before


@pytest.mark.parametrize("to_original", [True, False])
def test_they_are_left_out_when_told_so(records: SalvagedRecords, to_original: bool) -> None:
    cluster, options = _cluster(0, 1, 5), RestoreOptions(to_original=to_original, skip_present=True)
    first, second = _run(records, cluster, options)
    assert ((first.records, first.before, first.present, first.left), second.left) == ((25, 0, 3, 22), 5)
    found = cluster.logs["orders" if to_original else "orders.salvaged", 0]
    values = [one.timestamp_ms for one in found if one.value != b"before"]
    assert sorted(values) == sorted(
        lost_record(0, number).timestamp_ms for number in range(25) if to_original or number not in (0, 1, 5)
    )
    check = check_partition(records, PLACE, first.target, cluster, options)
    assert check == Check(first.target, 25, 22, 0, 0, 3, 0) and check.is_whole and check.missing == 0


@pytest.mark.parametrize(
    "change", [{"leader_epoch": 1}, {"leader_epoch": None}, {"value": b"other"}, {"timestamp_ms": 5}, {"headers": ()}]
)
def test_another_record_at_the_offset_does_not_count(records: SalvagedRecords, change: dict[str, object]) -> None:
    cluster = _cluster()
    cluster.logs["orders", 0].append(_stored(0, **change))
    assert [one.left for one in _run(records, cluster, RestoreOptions(to_original=True))] == [25, 5]


def test_the_same_record_at_another_offset_does_not_count(records: SalvagedRecords) -> None:
    cluster = _cluster()
    cluster.logs["orders", 0] += [_before(10), _stored(0, offset=11)]
    assert [one.left for one in _run(records, cluster, RestoreOptions(to_original=True))] == [25, 5]


@pytest.mark.parametrize("headers", [True, False])
def test_a_killed_run_is_taken_up_and_nothing_is_left_out_but_these(records: SalvagedRecords, headers: bool) -> None:
    options = RestoreOptions(to_original=True, headers=headers, from_start=not headers, skip_present=True)
    whole = _cluster(2, 3, 24)
    _run(records, whole, options)
    for step in range(1, whole.steps + 1):
        cluster = _cluster(2, 3, 24, kill_at=step)
        with pytest.raises(Killed):
            _run(records, cluster, options)
        cluster.kill_at = None
        if headers and step % 2:
            cluster.committed.clear()
        _run(records, cluster, options)
        assert [one.timestamp_ms for one in cluster.logs["orders", 0]] == [
            one.timestamp_ms for one in whole.logs["orders", 0]
        ]


def test_what_an_earlier_run_put_where_it_was_is_no_reason_to_stop(records: SalvagedRecords) -> None:
    """Without headers, and led in the same epoch, a restored record may come to lie at its own offset."""
    cluster, options = _cluster(kill_at=6), RestoreOptions(to_original=True, headers=False, from_start=True)
    cluster.epoch = 0
    with pytest.raises(Killed):
        _run(records, cluster, options)
    cluster.kill_at = None
    assert 0 < sum(one.value != b"before" for one in cluster.logs["orders", 0]) < 25
    _run(records, cluster, options)
    assert [one.timestamp_ms for one in cluster.logs["orders", 0]][FIRST:] == [
        lost_record(0, number).timestamp_ms for number in range(25)
    ]


def test_a_check_tells_what_was_restored_though_it_is_there(records: SalvagedRecords) -> None:
    cluster, options = _cluster(), RestoreOptions(to_original=True)
    _run(records, cluster, options)
    log = cluster.logs["orders", 0]
    cluster.logs["orders", 0] = [
        *log[:FIRST],
        _stored(0),
        *(replace(one, offset=one.offset + 1) for one in log[FIRST:]),
    ]
    check = check_partition(records, PLACE, PLACE, cluster, options)
    assert (check.present, check.repeated, check.missing, check.is_whole) == (1, 1, 0, False)


def test_where_nobody_leads_it_is_said_that_nothing_tells(records: SalvagedRecords) -> None:
    cluster = _cluster(0, 1)
    cluster.topics["orders"] = Topic(2, 3, frozenset({0}))
    plan = plan_restore(records, cluster, RestoreOptions())
    assert plan.notes == ("Nobody leads orders-0 now, so that nothing tells whether its log holds these records.",)
    assert not plan.present[PLACE]

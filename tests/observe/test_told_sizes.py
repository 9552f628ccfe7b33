"""How much there is to be read: as brokers tell it (DescribeLogDirs) where the client may describe the cluster, else by first batches."""

from __future__ import annotations

import pytest
from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.consumer import FetchRequest
from tests.support.answering_brokers import AnsweringBrokers, batches_of, in_sync
from tests.support.encoder import encode_batch, make_records

from replica_audit.observe.planning import Asked
from replica_audit.report.observe_text import render_plan

PLACE, OTHER = ("orders", 0), ("moved", 0)


@pytest.fixture
def cluster() -> AnsweringBrokers:
    first = [encode_batch(at * 10, make_records(10), 0) for at in range(200)]
    long = [encode_batch(2000 + at, make_records(1, "x" * 200_000), 0) for at in range(20)]
    replicas = {PLACE: in_sync([*first, *long]), OTHER: in_sync(batches_of(0, 0))}
    return AnsweringBrokers(replicas, dict.fromkeys(replicas, 1), hides_sizes=False, newest={FetchRequest: 12})


def _size(cluster: AnsweringBrokers, broker: int) -> int:
    return sum(len(batch) for copies in cluster.replicas.values() for batch in copies[broker].batches)


def _told(cluster: AnsweringBrokers) -> str:
    return " ".join(render_plan(cluster.plan(), 1 << 20).split())


def test_what_brokers_tell_is_the_estimate(cluster: AnsweringBrokers) -> None:
    plan = cluster.plan()
    assert plan.size_bytes == pytest.approx(3 * _size(cluster, 1), abs=10)
    assert "Log sizes on brokers 1, 2 and 3 are as the brokers report them." in _told(cluster)
    assert not plan.refused


def test_what_is_above_the_high_watermark_is_not_in_it(cluster: AnsweringBrokers) -> None:
    cluster.replicas[PLACE][2].high_watermark = 1010
    two = next(one for one in cluster.plan().replicas if (one.broker_id, one.partition.topic) == (2, "orders"))
    assert two.size_bytes == pytest.approx(_size(cluster, 2) / 2, rel=0.01)


def test_of_the_last_offsets_it_is_their_share(cluster: AnsweringBrokers) -> None:
    plan = cluster.plan(Asked(("orders",), 202))
    log = sum(map(len, cluster.replicas[PLACE][1].batches))
    assert plan.size_bytes == pytest.approx(3 * log / 10, rel=0.01)


def test_a_log_without_offsets_takes_nothing(cluster: AnsweringBrokers) -> None:
    cluster.replicas = {PLACE: in_sync([])}
    assert cluster.plan().size_bytes == 0


@pytest.mark.parametrize("newest", [5, 2])
def test_where_that_is_refused_first_batches_are_the_estimate(newest: int, cluster: AnsweringBrokers) -> None:
    cluster.hides_sizes, cluster.newest = True, {FetchRequest: 12, DescribeLogDirsRequest: newest}
    plan = cluster.plan()
    assert plan.untold == dict.fromkeys((1, 2, 3), "CLUSTER_AUTHORIZATION_FAILED") and not plan.refused
    assert 0 < plan.size_bytes < 3 * _size(cluster, 1) / 10
    told = _told(cluster)
    assert "are as the broker" not in told
    assert (
        "Log sizes on brokers 1, 2 and 3 are estimated from the first batches of each log, since the brokers do not report them: "
        "CLUSTER_AUTHORIZATION_FAILED." in told
    )
    # Nobody is asked again for each 500 partitions.
    assert [name for _, name in cluster.sent].count("DescribeLogDirsRequest") == 6


def test_brokers_that_do_not_know_the_request(cluster: AnsweringBrokers) -> None:
    cluster.newest[DescribeLogDirsRequest] = -1
    assert set(cluster.plan().untold) == {1, 2, 3} and cluster.plan().size_bytes > 0


def test_copies_on_their_way_and_log_dirs_that_failed_are_told_and_not_counted(cluster: AnsweringBrokers) -> None:
    before = cluster.plan().size_bytes
    cluster.moving, cluster.offline = {2: PLACE}, {3: "/d9"}
    plan = cluster.plan()
    assert plan.size_bytes == before and not plan.refused
    told = _told(cluster)
    assert "Not read: broker 2: the copy of orders-0 that is moving to log dir /d2." in told
    assert "Not read: broker 3: log dir /d9: KAFKA_STORAGE_ERROR." in told


def test_of_many_copies_on_their_way_some_are_named(cluster: AnsweringBrokers) -> None:
    plan = cluster.plan()
    plan.hidden = [f"broker 1: the copy of orders-{number} that is moving to log dir /d1" for number in range(5000)]
    told = " ".join(render_plan(plan, 1 << 20).split())
    assert told.count("the copy of") == 10 and told.endswith("Not read: 4990 more.")


def test_one_broker_is_told_as_one(cluster: AnsweringBrokers) -> None:
    plan = cluster.plan()
    plan.untold = {1: "CLUSTER_AUTHORIZATION_FAILED", 3: "CLUSTER_AUTHORIZATION_FAILED"}
    told = " ".join(render_plan(plan, 1 << 20).split())
    assert "Log sizes on broker 2 are as the broker reports them." in told
    assert "Log sizes on brokers 1 and 3 are estimated" in told

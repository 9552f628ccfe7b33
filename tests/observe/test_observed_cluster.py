"""A cluster observed through its protocol: what is written, what an audit says of it, and what is left open."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.support.answering_brokers import ALL, AnsweringBrokers, Replica, batches_of, in_sync

from replica_audit.auditing.catalogue import at_or_above
from replica_audit.config import Settings
from replica_audit.observe import reading
from replica_audit.observe.observing import Observed
from replica_audit.observe.planning import Asked
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all

PLACE = ("orders", 0)


def _observe(cluster: AnsweringBrokers, path: Path, asked: Asked = ALL) -> tuple[Observed, Results]:
    return cluster.observe(path, asked), audit_all(str(path), Settings(quiet=True))


def _codes(results: Results, severity: str = "medium") -> set[str]:
    return {row.code for row in results.findings if at_or_above(row.severity, severity)}


def test_a_sound_cluster_is_quiet_and_says_what_it_does_not_show(tmp_path: Path) -> None:
    cluster = AnsweringBrokers({PLACE: in_sync(batches_of(0, 0, 1))}, {PLACE: 2})
    found, results = _observe(cluster, tmp_path / "s")
    assert (len(found.replicas), found.unread, found.refused) == (3, (), ())
    (partition,) = results.partitions
    assert (partition.verdict, partition.leader_id, partition.hw_lower) == ("CONSISTENT", 2, 30)
    assert {row.code for row in results.findings} == {"CAP-SECOND-HAND"} and not _codes(results)
    assert all("leader-epoch-checkpoint" in row.missing and row.state == "partial" for row in results.captures)
    assert {row.topic_id for row in results.partitions} == {"AAAAAAAAAAAAAAAAAAASNA"}
    assert results.audit["cluster_id"] == "c1"


def test_the_table_has_headers_with_their_checksums_and_no_record(tmp_path: Path) -> None:
    batches = batches_of(0, 1, mark="SECRET")
    cluster = AnsweringBrokers({PLACE: in_sync(batches)}, {PLACE: 1})
    _observe(cluster, tmp_path / "s")
    tables = sorted((tmp_path / "s" / "batches").iterdir())
    assert len(tables) == 3
    rows = pq.read_table(tables[0]).to_pylist()
    assert [(row["base_offset"], row["last_offset"], row["leader_epoch"], row["size"]) for row in rows] == [
        (0, 9, 0, len(batches[0])),
        (10, 19, 1, len(batches[1])),
    ]
    assert all(row["crc_valid"] for row in rows)
    assert not any(b"SECRET" in path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file())


def test_a_divergence_below_the_high_watermark_is_found(tmp_path: Path) -> None:
    copies = in_sync(batches_of(0, 1))
    copies[3].batches[0] = batches_of(0, mark="other")[0]
    _, results = _observe(AnsweringBrokers({PLACE: copies}, {PLACE: 1}), tmp_path / "s")
    assert results.partitions[0].verdict == "COMMITTED_DIVERGENCE"
    critical = {(row.code, row.broker_id) for row in results.findings if row.severity == "critical"}
    assert ("DIV-CONTENT", 3) in critical and {broker for _, broker in critical} == {3}


def test_a_batch_with_the_wrong_checksum_is_found_where_it_is(tmp_path: Path) -> None:
    copies = in_sync(batches_of(0, 1))
    copies[3].batches[0] = copies[3].batches[0][:-1] + b"\xff"
    _, results = _observe(AnsweringBrokers({PLACE: copies}, {PLACE: 1}), tmp_path / "s")
    assert {row.broker_id for row in results.findings if row.code in ("LOG-CORRUPT-MID", "DIV-CORRUPT")} == {3}
    assert "DIV-CONTENT" not in _codes(results)


def test_ends_above_the_high_watermark_are_named_and_make_nobody_lag(tmp_path: Path) -> None:
    copies = {broker: Replica(batches_of(0, 0, 1), mark) for broker, mark in ((1, 30), (2, 20), (3, 20))}
    _, results = _observe(AnsweringBrokers({PLACE: copies}, {PLACE: 1}), tmp_path / "s")
    assert results.partitions[0].verdict == "CONSISTENT" and not _codes(results)
    named = [row for row in results.findings if row.code == "CAP-ABOVE-HW"]
    assert {(row.broker_id, row.start_offset, row.end_offset, row.severity) for row in named} == {
        (2, 20, 30, "info"),
        (3, 20, 30, "info"),
    }
    missing = {row.broker_id: row.missing for row in results.captures}
    assert "records above the high watermark" in missing[2] and "records above the high watermark" not in missing[1]


def test_a_follower_that_is_really_behind_lags(tmp_path: Path) -> None:
    copies = {1: Replica(batches_of(0, 0, 1), 30), 2: Replica(batches_of(0, 0, 1), 30), 3: Replica(batches_of(0), 10)}
    cluster = AnsweringBrokers({PLACE: copies}, {PLACE: 1}, isr={PLACE: [1, 2]})
    _, results = _observe(cluster, tmp_path / "s")
    assert [(row.code, row.broker_id) for row in results.findings if row.code == "REP-LAG"] == [("REP-LAG", 3)]


def test_an_end_that_a_broker_does_not_tell_stays_open(tmp_path: Path) -> None:
    copies = {1: Replica(batches_of(0, 1), 20), 2: Replica(batches_of(0, 1), 20, hides_end=True)}
    _, results = _observe(AnsweringBrokers({PLACE: copies}, {PLACE: 1}), tmp_path / "s")
    (row,) = [row for row in results.findings if row.code == "CAP-ABOVE-HW"]
    assert (row.broker_id, row.end_offset) == (2, None) and "may go on past 20" in row.message


def test_a_partition_without_a_leader_is_read_and_never_concluded(tmp_path: Path) -> None:
    copies = {1: Replica(batches_of(0, 0, 1), 20), 2: Replica(batches_of(0, 0, 1), 20), 3: Replica([], 0)}
    cluster = AnsweringBrokers({PLACE: copies}, isr={PLACE: []}, elr={PLACE: [3]}, down={3})
    found, results = _observe(cluster, tmp_path / "s")
    assert [(one.broker_id, one.end_offset, one.log_end_offset, one.last_epoch) for one in found.replicas] == [
        (1, 20, 30, 1),
        (2, 20, 30, 1),
    ]
    assert results.partitions[0].verdict == "INCONCLUSIVE"
    assert {row.broker_id for row in results.findings if row.code == "CAP-ABOVE-HW" and row.severity == "medium"} == {
        1,
        2,
    }
    assert {row.broker_id for row in results.findings if row.code == "CAP-MISSING-REPLICA"} == {3}
    assert tuple(results.partition_states[0].elr) == (3,)


def test_an_empty_log_is_one(tmp_path: Path) -> None:
    found, results = _observe(AnsweringBrokers({PLACE: in_sync([])}, {PLACE: 1}), tmp_path / "s")
    assert not found.unread and not list((tmp_path / "s" / "batches").iterdir())
    assert results.partitions[0].verdict == "CONSISTENT" and not _codes(results)
    assert {row.log_end_offset for row in results.replicas} == {0}


def test_a_hole_that_a_cleaner_left_at_the_end_is_no_lack(tmp_path: Path) -> None:
    copies = {broker: Replica(batches_of(0, 0), 25) for broker in (1, 2)}
    cluster = AnsweringBrokers({PLACE: copies}, {PLACE: 1}, configs={"cleanup.policy": "compact"})
    found, results = _observe(cluster, tmp_path / "s")
    assert {one.end_offset for one in found.replicas} == {20}
    assert {row.log_end_offset for row in results.replicas} == {25} and not _codes(results)


@dataclass
class _Silent(AnsweringBrokers):
    """Brokers of which one answers, once the plan is made, with neither records nor an error."""

    silent: int | None = None

    def _answer_FetchRequest(self, node: int, request: Any) -> Any:
        answer = super()._answer_FetchRequest(node, request)
        for topic in answer.responses if node == self.silent else ():
            for one in topic.partitions:
                one.records = b""
        return answer


@pytest.mark.parametrize("broker", [1, 2], ids=["the leader", "a follower"])
@pytest.mark.parametrize("configs", [{"cleanup.policy": "delete"}, {}], ids=["delete", "unknown"])
def test_a_broker_that_sends_nothing_below_the_high_watermark_is_given_up(
    configs: dict[str, str], broker: int, tmp_path: Path
) -> None:
    cluster = _Silent({PLACE: in_sync(batches_of(0, 0, 1))}, {PLACE: 1}, configs=configs)
    plan = cluster.plan()
    cluster.silent = broker
    found = cluster.observe(tmp_path / "s", plan=plan)
    nothing = "it sends nothing from offset 0 on, though its high watermark is 30"
    assert [(one.broker_id, one.problem) for one in found.unread] == [(broker, nothing)]
    results = audit_all(str(tmp_path / "s"), Settings(quiet=True))
    assert results.partitions[0].verdict == "INCONCLUSIVE"
    assert ("CAP-UNREADABLE", broker) in {(row.code, row.broker_id) for row in results.findings}


def test_an_empty_answer_where_segments_left_the_disk_is_read_anew(tmp_path: Path) -> None:
    copies = in_sync(batches_of(0, 0, 1))
    cluster = _Silent({PLACE: copies}, {PLACE: 1})
    plan = cluster.plan()
    cluster.silent = 2

    def leave(broker: int, offset: int) -> None:
        # A remote read that times out is answered with nothing; then the local log begins later.
        if broker == 2 and offset == 20:
            cluster.silent = None
        if broker == 2:
            cluster.local_start = 20

    cluster.before = leave
    found = cluster.observe(tmp_path / "s", plan=plan)
    assert not found.unread
    assert [(one.broker_id, one.read_from, one.end_offset) for one in found.replicas if one.broker_id == 2] == [
        (2, 20, 30)
    ]


def test_batches_that_do_not_go_on_are_given_up(tmp_path: Path) -> None:
    cluster = AnsweringBrokers({PLACE: in_sync(batches_of(0, 0, 1))}, {PLACE: 1})
    plan = cluster.plan()
    sent = cluster._answer_FetchRequest

    def again(node: int, request: Any) -> Any:
        for one in request.topics[0].partitions if node == 3 else ():
            one.fetch_offset = 0
            one.partition_max_bytes = 1
        return sent(node, request)

    cluster._answer_FetchRequest = again  # type: ignore[method-assign]
    found = cluster.observe(tmp_path / "s", plan=plan)
    assert [(one.broker_id, one.problem) for one in found.unread] == [
        (3, "asked for offset 10, it sends batches that end below")
    ]


def test_a_batch_that_never_comes_whole_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "GREATEST_FETCH", 1 << 21)
    cluster = AnsweringBrokers({PLACE: in_sync(batches_of(0))}, {PLACE: 1})
    plan = cluster.plan()
    sent = cluster._answer_FetchRequest

    def half(node: int, request: Any) -> Any:
        answer = sent(node, request)
        answer.responses[0].partitions[0].records = answer.responses[0].partitions[0].records[:50]
        return answer

    cluster._answer_FetchRequest = half  # type: ignore[method-assign]
    found = cluster.observe(tmp_path / "s", plan=plan)
    assert {one.problem for one in found.unread} == {"the batch at offset 0 did not come whole in 2097152 bytes"}


def test_a_log_that_a_cleaner_emptied_is_read_to_its_end(tmp_path: Path) -> None:
    cluster = AnsweringBrokers(
        {PLACE: {broker: Replica([], 25) for broker in (1, 2)}}, {PLACE: 1}, configs={"cleanup.policy": "compact"}
    )
    for copy in cluster.replicas[PLACE].values():
        copy.log_end = 25
    found, results = _observe(cluster, tmp_path / "s")
    assert {(one.problem, one.read_from, one.end_offset, one.high_watermark) for one in found.replicas} == {
        (None, 0, 0, 25)
    }
    assert {(row.log_start_offset, row.log_end_offset) for row in results.replicas} == {(0, 25)}
    assert results.partitions[0].verdict == "CONSISTENT" and not _codes(results)


def test_what_is_refused_is_told(tmp_path: Path) -> None:
    replicas = {PLACE: in_sync(batches_of(0)), ("secret", 0): in_sync(batches_of(0))}
    cluster = AnsweringBrokers(
        replicas,
        {PLACE: 1},
        refused_topics={"secret"},
        configs={},
        groups={"a": {}, "b": {PLACE: (7, 0)}},
        refused_groups={"a"},
    )
    cluster.replicas[PLACE][2].error = 29
    found, results = _observe(cluster, tmp_path / "s", Asked(("orders", "secret", "nothing*")))
    assert set(found.refused) == {
        "topic secret: TOPIC_AUTHORIZATION_FAILED",
        "the configuration of topic orders: TOPIC_AUTHORIZATION_FAILED",
        "the offsets of group a: GROUP_AUTHORIZATION_FAILED",
    }
    assert [(one.broker_id, one.problem) for one in found.unread] == [(2, "TOPIC_AUTHORIZATION_FAILED")]
    assert ("CAP-UNREADABLE", 2) in {(row.code, row.broker_id) for row in results.findings}
    assert results.partitions[0].verdict == "INCONCLUSIVE"
    assert json.loads((tmp_path / "s" / "observed.json").read_text())["refused"] == list(found.refused)
    assert [(row.group, row.committed_offset) for row in results.group_offsets] == [("b", 7)]


def test_a_broker_that_goes_away_while_it_is_read(tmp_path: Path) -> None:
    cluster = AnsweringBrokers({PLACE: in_sync(batches_of(0, 0, 1))}, {PLACE: 1})
    plan = cluster.plan()
    cluster.down.add(3)
    found = cluster.observe(tmp_path / "s", plan=plan)
    assert [one.broker_id for one in found.unread] == [3] and "does not answer" in (found.unread[0].problem or "")
    assert len(list((tmp_path / "s" / "batches").iterdir())) == 2
    results = audit_all(str(tmp_path / "s"), Settings(quiet=True))
    assert results.partitions[0].verdict == "INCONCLUSIVE"


def test_a_log_that_expires_while_it_is_read_is_read_anew(tmp_path: Path) -> None:
    copies = in_sync(batches_of(0, 0, 1))
    cluster = AnsweringBrokers({PLACE: copies}, {PLACE: 1})
    plan = cluster.plan()
    for copy in copies.values():
        copy.log_start, copy.batches = 20, copy.batches[2:]
    found = cluster.observe(tmp_path / "s", plan=plan)
    assert {(one.read_from, one.log_start_offset, one.end_offset) for one in found.replicas} == {(20, 20, 30)}
    assert not _codes(audit_all(str(tmp_path / "s"), Settings(quiet=True)))


def test_a_log_that_is_cut_while_it_is_read_is_read_anew(tmp_path: Path) -> None:
    copies = in_sync(batches_of(0, 0, 1))
    cluster = AnsweringBrokers({PLACE: copies}, {PLACE: 1})
    plan = cluster.plan()
    copies[3] = Replica(batches_of(0), 10)
    found = cluster.observe(tmp_path / "s", plan=plan)
    assert {(one.broker_id, one.end_offset) for one in found.replicas} == {(1, 30), (2, 30), (3, 10)}


def test_what_is_appended_meanwhile_is_not_read(tmp_path: Path) -> None:
    copies = in_sync(batches_of(0, 0))
    cluster = AnsweringBrokers({PLACE: copies}, {PLACE: 1})
    plan = cluster.plan()
    for copy in copies.values():
        copy.batches, copy.high_watermark = batches_of(0, 0, 0, 0), 40
    found = cluster.observe(tmp_path / "s", plan=plan)
    assert {(one.end_offset, one.high_watermark) for one in found.replicas} == {(20, 20)}


@pytest.mark.parametrize(
    ("asked", "start"),
    [(Asked(last=15), 15), (Asked(since_ms=1_000_000), 20), (Asked(since_ms=1 << 50), 30), (ALL, 0)],
)
def test_only_the_last_offsets_or_those_since_a_time(asked: Asked, start: int, tmp_path: Path) -> None:
    from tests.support.encoder import encode_batch, make_records

    batches = [encode_batch(at, make_records(10), 0, timestamp_ms=at * 50_000) for at in (0, 10, 20)]
    found, results = _observe(AnsweringBrokers({PLACE: in_sync(batches)}, {PLACE: 1}), tmp_path / "s", asked)
    assert {one.read_from for one in found.replicas} == {start // 10 * 10}
    assert {(one.log_start_offset, one.end_offset) for one in found.replicas} == {(0, 30)}
    assert not _codes(results)


def test_the_last_offsets_reach_down_to_the_end_of_whoever_is_behind(tmp_path: Path) -> None:
    copies = {1: Replica(batches_of(0, 0, 0), 30), 2: Replica(batches_of(0), 10)}
    cluster = AnsweringBrokers({PLACE: copies}, {PLACE: 1}, isr={PLACE: [1]})
    found, results = _observe(cluster, tmp_path / "s", Asked(last=5))
    assert {(one.broker_id, one.read_from) for one in found.replicas} == {(1, 10), (2, 10)}
    (lag,) = [row for row in results.findings if row.code == "REP-LAG"]
    assert "never gets" not in lag.message


def test_a_quota_is_waited_for_and_is_no_end_of_the_log(tmp_path: Path) -> None:
    cluster = AnsweringBrokers({PLACE: in_sync(batches_of(0, 0, 1))}, {PLACE: 1})
    plan = cluster.plan()
    cluster.throttled = 5
    found = cluster.observe(tmp_path / "s", plan=plan, rate=1 << 18)
    assert {one.end_offset for one in found.replicas} == {30} and cluster.throttled == 0


def test_brokers_without_a_tier_and_without_eligible_replicas(tmp_path: Path) -> None:
    from kafka.protocol.admin import DescribeTopicPartitionsRequest
    from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

    cluster = AnsweringBrokers({PLACE: in_sync(batches_of(0, 1))}, {PLACE: 1})
    cluster.newest = {DescribeTopicPartitionsRequest: -1, ListOffsetsRequest: 5, FetchRequest: 11}
    found, results = _observe(cluster, tmp_path / "s")
    assert not found.unread and not found.refused and not _codes(results)


def test_brokers_whose_followers_answer_nobody(tmp_path: Path) -> None:
    from kafka.protocol.consumer import FetchRequest

    cluster = AnsweringBrokers({PLACE: in_sync(batches_of(0, 1))}, {PLACE: 1}, newest={FetchRequest: 10})
    found, _ = _observe(cluster, tmp_path / "s")
    assert len(found.unread) == 3


def test_nothing_has_the_name_of_the_snapshot_before_it_is_whole(tmp_path: Path) -> None:
    cluster = AnsweringBrokers({PLACE: in_sync(batches_of(0))}, {PLACE: 1})
    plan = cluster.plan()
    cluster.before = lambda broker, offset: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        cluster.observe(tmp_path / "s", plan=plan)
    assert not list(tmp_path.iterdir())


def test_the_estimate_is_about_right(tmp_path: Path) -> None:
    cluster = AnsweringBrokers({PLACE: in_sync(batches_of(*[0] * 100, size=50))}, {PLACE: 1})
    plan = cluster.plan()
    sent = sum(len(one) for one in cluster.replicas[PLACE][1].batches)
    assert plan.size_bytes == pytest.approx(3 * sent, rel=0.05)
    assert {name for _, name in cluster.sent} <= {
        "MetadataRequest",
        "DescribeLogDirsRequest",
        "DescribeTopicPartitionsRequest",
        "ListOffsetsRequest",
        "FetchRequest",
    }


def test_long_batches_are_in_the_estimate_though_short_ones_come_first(tmp_path: Path) -> None:
    from kafka.protocol.consumer import FetchRequest
    from tests.support.encoder import encode_batch, make_records

    short = [encode_batch(at * 10, make_records(10), 0) for at in range(200)]
    long = [encode_batch(at, make_records(1, "x" * 200_000), 0) for at in range(20)]
    replicas = {("a", number): in_sync(short, [1]) for number in range(3)} | {
        ("z", number): in_sync(long, [1]) for number in range(3)
    }
    cluster = AnsweringBrokers(replicas, dict.fromkeys(replicas, 1), newest={FetchRequest: 12})
    plan = cluster.plan()
    assert plan.size_bytes == pytest.approx(3 * sum(map(len, [*short, *long])), rel=0.05)
    asked = [name for _, name in cluster.sent].count("FetchRequest")
    assert asked == 2  # all at once, and of one partition of `z` alone


def test_offsets_since_a_time_are_asked_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    from replica_audit.observe import planning

    monkeypatch.setattr(planning, "TIMES_AT_ONCE", 4)
    monkeypatch.setattr(planning, "TIMES_PAUSE_SECONDS", 0.0)
    replicas = {("orders", number): in_sync(batches_of(0)) for number in range(10)}
    cluster = AnsweringBrokers(replicas, {place: 1 + place[1] % 2 for place in replicas})
    cluster.plan()
    without = [name for _, name in cluster.sent].count("ListOffsetsRequest")
    cluster.sent.clear()
    plan = cluster.plan(Asked(since_ms=1 << 50))
    # Two brokers lead five partitions each.
    assert [name for _, name in cluster.sent].count("ListOffsetsRequest") == without + 4
    assert {one.start_offset for one in plan.replicas} == {10}


def test_a_setting_that_the_listing_cannot_hold_is_named(tmp_path: Path) -> None:
    cluster = AnsweringBrokers({PLACE: in_sync(batches_of(0))}, {PLACE: 1})
    cluster.configs["leader.replication.throttled.replicas"] = "0:1, 0:2"
    found, results = _observe(cluster, tmp_path / "s")
    (refused,) = found.refused
    assert refused.startswith(
        "the configuration leader.replication.throttled.replicas of topic orders: its value has a"
    )
    assert "0:2" not in refused and not _codes(results)
    assert "min.insync.replicas=2" in (tmp_path / "s" / "observed-topics-describe.txt").read_text()


def test_plans_ask_followers_before_leaders() -> None:
    cluster = AnsweringBrokers({PLACE: in_sync(batches_of(0))}, {PLACE: 2})
    asked: list[int] = []
    cluster.before = lambda broker, offset: asked.append(broker)
    plan = cluster.plan()
    assert asked == [1, 3, 2]
    assert [one.broker_id for one in plan.replicas] == [1, 2, 3]


def test_an_interruption_ends_all_readers_at_once(tmp_path: Path) -> None:
    cluster = AnsweringBrokers({PLACE: in_sync(batches_of(0, 0, 0, 0))}, {PLACE: 1})
    plan = cluster.plan()
    others = threading.Event()

    def interrupt(broker: int, offset: int) -> None:
        if broker == 3 and offset == 0:
            others.set()
        if broker == 1:
            assert others.wait(30)
            raise KeyboardInterrupt

    cluster.before = interrupt
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        # At a byte a second the others would wait for minutes.
        cluster.observe(tmp_path / "s", plan=plan, rate=1)
    assert time.monotonic() - began < 60

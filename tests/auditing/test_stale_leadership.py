"""Leadership that is older than the logs: who leads by the newest evidence, and when that is META-STALE (F.0, F.7)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.report_rows import tables_of
from tests.support.scenario import Answer, audit, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Listed, Replica, write_snapshot

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_one

COMMON = written(0, 50, 0)
OLD = Replica([*COMMON, *written(50, 72, 1, "old ")], high_watermark=72)
#: Elected after `OLD` had led, and has written nothing since.
ELECTED = Replica(COMMON, epochs=[(0, 0), (2, 50)], high_watermark=50)
LAGGING = Replica(COMMON, high_watermark=50)
AHEAD = Replica([*COMMON, *written(50, 70, 1)], high_watermark=70)


#: Broker 0 leads in epoch 0, by a controller's copy that knows no more.
BEGIN = write.new_topic(TOPIC, TOPIC_ID, (0, 1, 2), 0)
CONTROLLER = {100: write.history(BEGIN)}


def zookeeper(path: Path) -> Callable[[], object]:
    """The same leadership from ZooKeeper."""
    state = {"leader": 0, "leader_epoch": 0, "isr": [0, 1, 2]}
    assigned = {"partitions": {"0": [0, 1, 2]}}
    znodes = {f"/brokers/topics/{TOPIC}/partitions/0/state": state, f"/brokers/topics/{TOPIC}": assigned}
    return lambda: (path / "zookeeper.json").write_text(json.dumps(znodes))


def by(path: Path, source: str, brokers: dict[int, Replica], quiesced: bool | None) -> Answer:
    """Audited with broker 0 as the leader of epoch 0, all in sync, by `source`."""
    path.mkdir(parents=True)
    options = {"leader": 0, "isr": (0, 1, 2), "quiesced": quiesced}
    if source in ("topics_describe", "user"):
        return audit(path, brokers, source=source, leader_epoch=0 if source == "user" else None, **options)
    if source == "metadata_log":
        return audit(path, brokers, metadata=CONTROLLER, **options)
    return audit(path, brokers, source="inferred", before_audit=zookeeper(path), **options)


SOURCES = ("metadata_log", "zookeeper", "topics_describe", "user")


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_that_the_logs_have_overtaken_names_no_leader_and_nobody_in_sync(tmp_path, source):
    """Committed since: offsets 50 to 69, which broker 0 lacks."""
    brokers = {0: LAGGING, 1: AHEAD, 2: AHEAD}
    at_rest, running = (by(tmp_path / str(one), source, brokers, one) for one in (True, None))
    for answer in (at_rest, running):
        row = answer.tables["partitions"][0]
        assert (row["leader_id"], row["leader_epoch"], row["isr"]) == (1, 1, None), answer
        assert answer.mark["leadership_source"] == "inferred"
    assert at_rest.one("META-STALE")[:2] == ("high", "proven")
    elects = source in ("metadata_log", "zookeeper")
    assert at_rest.verdict == ("WILL_LOSE_ON_TRUNCATION" if elects else "INCONCLUSIVE")
    assert running.one("CAP-SKEW")[0] == "info" and not running.codes("high"), running
    assert not at_rest.found("CAP-SKEW") and not running.found("META-STALE")


@pytest.mark.parametrize("named", [0, 1, 2])
def test_who_was_elected_last_leads_though_it_wrote_nothing_whomever_a_listing_names(tmp_path, named):
    """Broker 0 led epoch 1 and had 22 records committed; broker 1 was elected without them."""
    answer = audit(tmp_path, {0: OLD, 1: ELECTED, 2: LAGGING}, leader=named)
    row = answer.tables["partitions"][0]
    assert (row["leader_id"], row["leader_epoch"], row["lost_records"]) == (1, 2, 22), answer
    assert answer.verdict == "COMMITTED_LOSS" and answer.interval != (72, 72)


@pytest.mark.parametrize("source", ["topics_describe", "user"])
def test_leaders_move_as_brokers_are_stopped_after_a_listing(tmp_path, source):
    stopped = {
        0: Replica(COMMON, clean_shutdown=True),
        1: Replica([*COMMON, *written(50, 60, 1)], clean_shutdown=True),
        2: Replica([*COMMON, *written(50, 60, 1)], clean_shutdown=True),
    }
    answer = by(tmp_path / "rest", source, stopped, True)
    assert answer.found("CAP-SKEW") and not answer.found("META-STALE"), answer
    idle = {one: Replica(COMMON, epochs=[(0, 0), (1, 50)], clean_shutdown=True) for one in range(3)}
    assert not by(tmp_path / "idle", source, idle, True).codes("medium")


def test_one_changed_header_deposes_nobody(tmp_path):
    changed = Replica([*COMMON[:-1], *written(45, 50, 6)], epochs=[(0, 0)])
    answer = audit(tmp_path, {0: Replica(COMMON), 1: changed, 2: Replica(COMMON)}, leader=0, quiesced=True)
    assert answer.tables["partitions"][0]["leader_id"] == 0
    assert not answer.found("META-STALE")


def two_copies(*later: bytes) -> dict[int, bytes]:
    """A controller's copy, and broker 1's with what came `later`."""
    return {**CONTROLLER, 1: write.history(BEGIN, *later, apart_ms=1)}


def test_a_controller_that_lacks_an_election_is_told_of_each_partition_and_of_its_copy(tmp_path):
    """Broker 1 leads by its own copy; a cluster that started with the controller's would cut 20 committed records."""
    moves = write.change(TOPIC_ID, leader=1, isr=(1, 2))
    brokers = {0: LAGGING, 1: AHEAD, 2: AHEAD}
    answer = audit(tmp_path, brokers, quiesced=True, metadata=two_copies(moves))
    row = answer.tables["partitions"][0]
    assert (row["leader_id"], row["leader_epoch"], row["isr"]) == (1, 1, [1, 2]), answer
    assert answer.verdict == "WILL_LOSE_ON_TRUNCATION"
    of_copy, of_partition = sorted(answer.found("META-STALE"), key=lambda one: one["topic"] is not None)
    assert (of_copy["severity"], of_copy["broker_id"], of_copy["topic"]) == ("high", 100, None)
    assert of_partition["message"].startswith(
        "controller 100 lacks the newest metadata of this partition: broker 1 leads in leader epoch 1, with brokers 1 and 2 in "
        "sync; by its copy, broker 0 leads in leader epoch 0"
    )


def test_a_config_that_a_controller_lacks_concerns_its_copy_only(tmp_path):
    moves = write.config(2, TOPIC, "min.insync.replicas", "2")
    brokers = {0: LAGGING, 1: LAGGING, 2: LAGGING}
    answer = audit(tmp_path, brokers, leader=0, quiesced=True, metadata=two_copies(moves))
    assert [row["topic"] for row in answer.found("META-STALE")] == [None], answer


# --- another partition of the same listing tells that it is older

#: By partition and broker, its epochs and log end. Partition 1 was elected twice; partition 0 names the right leader.
ELECTED_TWICE = {
    0: (((0, 0), (1, 40)), 60),
    1: (((0, 0), (2, 40)), 70),
    2: (((0, 0), (2, 40)), 70),
}
ONCE = {0: (((0, 0),), 79), 1: (((0, 0), (1, 34)), 52), 2: (((0, 0), (1, 34)), 52)}
QUIET = dict.fromkeys(range(3), (((0, 0),), 50))


def of_epochs(epochs: tuple[tuple[int, int], ...], end: int) -> list[bytes]:
    starts = [*(start for _, start in epochs[1:]), end]
    return [one for (epoch, start), until in zip(epochs, starts) for one in written(start, until, epoch, f"{epoch} ")]


def two_partitions(path: Path, first: dict, second: dict, source: str, leaders: tuple[int, int] = (0, 1)) -> Answer:
    """All in sync and led by `leaders`, by a listing or states; the answer on partition 1."""
    brokers = (0, 1, 2)
    replicas = {
        broker: [
            Replica(of_epochs(*logs[broker]), logs[broker][0], recovery_point=0, topic_id=None, partition=number)
            for number, logs in enumerate((first, second))
        ]
        for broker in brokers
    }
    listed = [Listed(leader, brokers, brokers, partition=number) for number, leader in enumerate(leaders)]
    write_snapshot(path, replicas, listed if source == "topics_describe" else ())
    if source == "zookeeper":
        states = {
            f"/brokers/topics/{TOPIC}/partitions/{number}/state": {
                "leader": leader,
                "leader_epoch": 2 * number,
                "isr": [0, 1, 2],
            }
            for number, leader in enumerate(leaders)
        }
        znodes = {**states, f"/brokers/topics/{TOPIC}": {"partitions": {"0": [0, 1, 2], "1": [0, 1, 2]}}}
        (path / "zookeeper.json").write_text(json.dumps(znodes))
    return Answer(tables_of(audit_one(str(path), TopicPartition(TOPIC, 1), Settings())))


@pytest.mark.parametrize("source", ["topics_describe", "zookeeper"])
def test_who_is_in_sync_is_not_taken_from_a_source_that_another_partition_has_overtaken(tmp_path, source):
    answer = two_partitions(tmp_path, ONCE, ELECTED_TWICE, source)
    row = answer.tables["partitions"][0]
    assert (row["leader_id"], row["isr"]) == (1, None), answer
    assert not answer.found("HWM-ABOVE-ISR-PREFIX") and answer.found("HWM-LOSS", 0), answer
    assert "is older than the logs" in answer.found("META-ISR-UNKNOWN")[0]["message"]


@pytest.mark.parametrize("source", ["topics_describe", "zookeeper"])
def test_it_is_taken_from_one_that_no_partition_has_overtaken(tmp_path, source):
    answer = two_partitions(tmp_path, QUIET, ELECTED_TWICE, source)
    assert answer.tables["partitions"][0]["isr"] == [0, 1, 2]
    # Nothing says that the brokers were copied at one moment, and broker 0 does not know the leader's epoch.
    assert answer.found("CAP-SKEW", 0)[0]["message"].startswith("broker 0 counts as in sync but has other records"), (
        answer
    )


@pytest.mark.parametrize(
    "changed",
    [
        {**QUIET, 1: (((0, 0), (9, 33)), 50)},  # one damaged epoch file
        {**QUIET, 1: (((0, 0), (1, 50)), 50), 2: (((0, 0), (1, 50)), 50)},  # elected, as brokers were stopped
        {**ONCE, 0: (((0, 0), (1, 34)), 52)},  # the leader that is named knows the epoch
    ],
    ids=["one file", "no records", "known"],
)
def test_what_proves_no_later_epoch_overtakes_nothing(tmp_path, changed):
    answer = two_partitions(tmp_path, changed, ELECTED_TWICE, "topics_describe")
    assert answer.tables["partitions"][0]["isr"] == [0, 1, 2], answer

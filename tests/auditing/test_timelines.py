"""Observations in a snapshot, through `show`: the textbook rows, and the findings that an operator reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.observations import TIME_MS, observed, write_observations
from tests.support.report_rows import tables_of
from tests.support.snapshots import write_manifest

from replica_audit.auditing.leadership.timeline_deviations import GREATEST_RUNS
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_one

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
ORDERS = TopicPartition("orders", 0)


def show(path, rows, version=None, partition=ORDERS):
    write_observations(path, rows)
    return tables_of(audit_one(str(path), partition, Settings(kafka_version=version)))


def joined(*observations):
    return [row for rows in observations for row in rows]


@pytest.mark.parametrize(
    ("name", "ends", "isr", "caught_up", "mark", "limiting"),
    [
        ("isr-minimum", {0: 105, 1: 104, 2: 100, 3: 85}, [0, 1, 2], {}, 100, 2),
        ("slowest-in-sync", {0: 5, 1: 3, 2: 4}, [0, 1, 2], {}, 3, 1),
        ("catching-up-outsider", {0: 10, 1: 10, 2: 8}, [0, 1], {2: -9_000}, 8, 2),
        ("lagging-outsider", {0: 10, 1: 10, 2: 8}, [0, 1], {2: -31_000}, 10, None),
        ("consumable-prefix", {0: 15, 1: 12}, [0, 1], {}, 12, 1),
    ],
)
def test_a_textbook_state_has_the_mark_of_the_textbook(tmp_path, name, ends, isr, caught_up, mark, limiting):
    (row,) = show(tmp_path, observed(0, ends, isr, None, caught_up=caught_up, eligible=True))["high_watermark_timeline"]
    assert (row["hw_recomputed"], row["limiting_broker_id"], row["deviation"]) == (mark, limiting, None), name


def test_isr_shrink_moves_the_mark_with_no_new_record(tmp_path):
    ends = {0: 9, 1: 7, 2: 6}
    rows = show(tmp_path, joined(observed(0, ends, [0, 1, 2], 6), observed(10, ends, [0, 1], 7)))[
        "high_watermark_timeline"
    ]
    assert [(row["occasion"], row["hw_recomputed"], row["hw_observed"], row["deviation"]) for row in rows] == [
        ("start", 6, 6, None),
        ("isr", 7, 7, None),
    ]


@pytest.mark.parametrize("base", [0, 10])
def test_two_rounds_of_propagation(tmp_path, base):
    steps = [
        (base, base, base, base),
        (base + 1, base, base, base),
        (base + 1, base, base + 1, base),
        (base + 1, base + 1, base + 1, base + 1),
    ]
    seen = joined(
        *(
            observed(n, {0: end, 1: own}, [0, 1], mark, known={1: known})
            for n, (end, known, own, mark) in enumerate(steps)
        )
    )
    tables = show(tmp_path, seen)
    assert [row["hw_recomputed"] for row in tables["high_watermark_timeline"]] == [base, base, base, base + 1]
    assert [row["occasion"] for row in tables["high_watermark_timeline"]] == ["start", "append", "none", "fetch"]
    assert not [row for row in tables["findings"] if row["code"].startswith("HWM-")]


def test_stuck_is_told_since_when_by_whom_and_how_many_wait(tmp_path):
    shutil.copytree(SAMPLES / "isr-minimum", tmp_path, dirs_exist_ok=True)
    known = {"leader": 1, "lag_time_ms": 30_000}
    healthy = [observed(0, {1: 20, 2: 20}, [1, 2], 20, **known)]
    held = [observed(1_000 * n, {1: 20 + n, 2: 20}, [1, 2], 20, **known) for n in range(1, 61)]
    tables = show(tmp_path, joined(*healthy, *held))
    (row,) = [row for row in tables["findings"] if row["code"] == "HWM-STUCK"]
    assert (row["severity"], row["broker_id"], row["start_offset"], row["end_offset"]) == ("medium", 2, 20, 80)
    for text in ("since 2023-11-14T22:13:21.000Z", "broker 2 limits it", "60 offsets wait above it"):
        assert text in row["message"], row["message"]
    assert row["evidence"][0]["kind"] == "timeline" and tables["partitions"][0]["verdict"] == "LAGGING"


def test_one_reading_below_the_rule_is_a_row_and_no_finding(tmp_path):
    seen = joined(
        observed(0, {0: 20, 1: 20}, [0, 1], 20),
        observed(1, {0: 30, 1: 25}, [0, 1], 20),
        observed(2, {0: 30, 1: 25}, [0, 1], 25),
    )
    tables = show(tmp_path, seen)
    assert [row["deviation"] for row in tables["high_watermark_timeline"]] == [None, "stuck", None]
    assert not [row for row in tables["findings"] if row["code"].startswith("HWM-")]


def test_ahead_is_critical_suspect_and_inconclusive(tmp_path):
    shutil.copytree(SAMPLES / "isr-minimum", tmp_path, dirs_exist_ok=True)
    seen = joined(observed(0, {1: 20, 2: 20}, [1, 2], 20, leader=1), observed(1, {1: 30, 2: 25}, [1, 2], 28, leader=1))
    tables = show(tmp_path, seen)
    (row,) = [row for row in tables["findings"] if row["code"] == "HWM-AHEAD"]
    assert (row["severity"], row["confidence"], row["start_offset"], row["end_offset"]) == (
        "critical",
        "suspect",
        25,
        28,
    )
    assert tables["partitions"][0]["verdict"] == "INCONCLUSIVE"


def test_a_mark_that_goes_back_within_one_leadership(tmp_path):
    seen = [observed(0, {0: 20, 1: 20}, [0, 1], 20), observed(1, {0: 21, 1: 20}, [0, 1], 12)]
    (row,) = [row for row in show(tmp_path, joined(*seen))["findings"] if row["code"] == "HWM-REGRESSED"]
    assert (row["severity"], row["start_offset"], row["end_offset"]) == ("medium", 12, 20)
    other = observed(1, {0: 21, 1: 20}, [0, 1], 12, leader=1, leader_epoch=4, known={0: -1})
    assert not [row for row in show(tmp_path, joined(seen[0], other))["findings"] if row["code"].startswith("HWM-")]


def test_the_version_decides_below_min_isr(tmp_path):
    first = observed(0, {0: 5, 1: 5, 2: 5}, [0, 1, 2], 5, min_insync_replicas=2)
    for version, marks in (("3.6", [5, 9]), ("3.7", [5, 5])):
        then = observed(1, {0: 9, 1: 5, 2: 5}, [0], marks[1], min_insync_replicas=2)
        rows = show(tmp_path, joined(first, then), version)["high_watermark_timeline"]
        assert [(row["hw_recomputed"], row["deviation"]) for row in rows] == [(mark, None) for mark in marks]
    then = observed(1, {0: 9, 1: 5, 2: 5}, [0], 9, min_insync_replicas=2)
    assert show(tmp_path, joined(first, then), "3.7")["high_watermark_timeline"][1]["deviation"] == "ahead"


def test_the_manifest_tells_the_version(tmp_path):
    write_manifest(tmp_path, kafka_version="3.7.0")
    first = observed(0, {0: 5, 1: 5}, [0, 1], 5, min_insync_replicas=2)
    then = observed(1, {0: 9, 1: 5}, [0], 9, min_insync_replicas=2)
    assert show(tmp_path, joined(first, then))["high_watermark_timeline"][1]["deviation"] == "ahead"


def test_more_stretches_than_anybody_reads_are_counted(tmp_path):
    seen = []
    for n in range(GREATEST_RUNS + 20):
        end = 20 + 10 * n
        seen += [
            observed(4 * n, {0: end, 1: end}, [0, 1], end, leader_epoch=n),
            observed(4 * n + 1, {0: end + 5, 1: end}, [0, 1], end + 3, leader_epoch=n),
        ]
    rows = [row for row in show(tmp_path, joined(*seen))["findings"] if row["code"] == "HWM-AHEAD"]
    assert len(rows) == GREATEST_RUNS and "20 more stretches" in rows[0]["evidence"][-1]["text"]


def test_a_partition_that_is_only_observed_is_judged_by_that(tmp_path):
    tables = show(tmp_path, observed(0, {0: 5, 1: 3}, [0, 1], 3))
    assert tables["partitions"][0]["verdict"] == "CONSISTENT" and len(tables["high_watermark_timeline"]) == 1
    assert [(row["code"], row["severity"]) for row in tables["findings"]] == [("CAP-MISSING-REPLICA", "info")]
    ahead = show(tmp_path, joined(observed(0, {0: 5, 1: 3}, [0, 1], 3), observed(1, {0: 5, 1: 3}, [0, 1], 4)))
    assert ahead["partitions"][0]["verdict"] == "INCONCLUSIVE"
    with pytest.raises(UsageError, match="orders-1 is not in"):
        audit_one(str(tmp_path), TopicPartition("orders", 1), Settings())


def test_times_and_offsets_of_any_size(tmp_path):
    seen = joined(*(observed(2**62 + n, {0: 2**62, 1: 2**62}, [0, 1], 2**62 - 5 * (n > 0)) for n in range(3)))
    tables = show(tmp_path, seen)
    assert [row["time_ms"] - TIME_MS for row in tables["high_watermark_timeline"]] == [2**62, 2**62 + 1, 2**62 + 2]
    assert {row["code"] for row in tables["findings"]} >= {"HWM-REGRESSED"}

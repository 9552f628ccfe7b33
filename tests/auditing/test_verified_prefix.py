"""Batches verified by an earlier audit are not compared again, unless they have changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.encoder import Record, encode_batch
from tests.support.planted import moved
from tests.support.report_rows import tables_of
from tests.support.scenario import audit
from tests.support.snapshots import Replica

from replica_audit.auditing.answer_rows import report_rows
from replica_audit.auditing.compare.wanted_chunks import verified_copies
from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import conclude
from replica_audit.auditing.evidence import AuditOptions
from replica_audit.auditing.opened_snapshot import OpenedSnapshot
from replica_audit.model import CHUNK_OFFSETS, TopicPartition
from replica_audit.results import Results
from replica_audit.snapshot.opening import open_snapshot
from replica_audit.snapshot.record_reader import RecordReader
from replica_audit.warehouse.answer_tables import REPORTED_TABLES

STEP, PLACE = 1000, 10_000
RECORDS = [Record(b"k%d" % number, b"v%d" % number) for number in range(STEP)]
ODD = [*RECORDS[:7], Record(b"k7", b"odd"), *RECORDS[8:]]
#: What an election would cost is computed apart.
TABLES = [table for table in REPORTED_TABLES if table != "elections"]
DELETE, COMPACT = {"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}


WHOLE, OTHER = encode_batch(0, RECORDS, 0), encode_batch(0, ODD, 0)
HALVES = [encode_batch(0, RECORDS[:500], 0), encode_batch(0, RECORDS[500:], 0)]


def log(count: int, rebatched: bool = False, odd: int | None = None) -> list[bytes]:
    """Batches of 1,000 records over chunks of 65,536; some in halves in the first chunk; at `odd` another record."""
    batches = [moved(OTHER if base == odd else WHOLE, base) for base in range(0, STEP * count, STEP)]
    if rebatched:
        place = PLACE // STEP
        batches[place : place + 1] = [moved(half, PLACE + 500 * number) for number, half in enumerate(HALVES)]
    return batches


class Day:
    """A snapshot of two brokers, examined as `show` does."""

    def __init__(self, path, leader, follower, configs=DELETE, log_start=None):
        brokers = {1: Replica(leader), 2: Replica(follower, log_start=log_start)}
        self.answer = audit(path, brokers, configs=configs)
        snapshot, inventory = open_snapshot(str(path), (), None)
        self.opened = OpenedSnapshot.read(snapshot, inventory, AuditOptions(), ())
        self.examined = self.opened.examine(TopicPartition("orders", 0))
        self.read = RecordReader(str(path))
        self.rows = {table: self.answer.tables[table] for table in TABLES}

    def verified(self):
        ends = {row["broker_id"]: row["common_prefix_end"] for row in self.answer.tables["replicas"]}
        return verified_copies(
            ((directory.broker_id, directory.log_dir), ends[directory.broker_id], summary)
            for directory, summaries in self.examined.plan.evidence.copies
            for summary in summaries
        )

    def since(self, day):
        """(chunks wanted of the follower, report rows) of an audit since that of `day`."""
        evidence = self.examined.plan.evidence
        plan = ComparisonPlan(replace(evidence, side=evidence.side._replace(verified=day.verified())))
        rows = report_rows(conclude(plan, self.opened.read_chunks(self.examined, plan.batches), self.read))
        return compared(plan), tables_of(Results.of({}, rows.in_order()))


def compared(plan):
    """Chunks in which the follower is compared batch by batch."""
    return set().union(*(pair.chunks for pair in plan.grouping.pairs))


def codes(rows):
    return {row["code"] for row in rows["findings"]}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    day = Day(tmp_path_factory.mktemp("first") / "s", log(200), log(200, rebatched=True))
    assert day.answer.verdict == "CONSISTENT" and day.answer.codes() == {"DIV-BATCHING"}
    assert compared(day.examined.plan) >= {0}
    return day


def test_what_was_verified_is_not_compared_again(first, tmp_path):
    day = Day(tmp_path / "s", log(210), log(209, rebatched=True))
    wanted, rows = day.since(first)
    assert 0 not in wanted and 0 in compared(day.examined.plan)
    assert codes(rows) == codes(day.answer.tables) - {"DIV-BATCHING"}
    for table in ("replicas", "truncations", "high_watermarks", "divergences"):
        assert rows[table] == day.answer.tables[table]


def test_what_differs_above_is_found(first, tmp_path):
    day = Day(tmp_path / "s", log(210), log(210, rebatched=True, odd=205_000))
    wanted, rows = day.since(first)
    assert 0 not in wanted and rows["divergences"] == day.answer.tables["divergences"] != []
    assert rows["partitions"][0]["verdict"] == day.answer.verdict == "COMMITTED_DIVERGENCE"


@pytest.mark.parametrize("odd", [3000, PLACE + 5000, 100_000])
def test_a_log_that_changed_below_is_compared_whole(first, tmp_path, odd):
    """As after a truncation that went deeper than anybody thought, or on a disk that rots."""
    day = Day(tmp_path / "s", log(210), log(210, rebatched=True, odd=odd))
    wanted, rows = day.since(first)
    assert wanted >= {0, odd // CHUNK_OFFSETS} and {table: rows[table] for table in TABLES} == day.rows
    assert [row["start_offset"] for row in rows["divergences"]] == [odd + 7]


def test_retention_below_does_not_undo_what_was_verified(first, tmp_path):
    leader, follower = log(210), log(210, rebatched=True)
    leader, follower = leader[70:], follower[71:]
    day = Day(tmp_path / "s", leader, follower, log_start=70_000)
    wanted, rows = day.since(first)
    # The chunk that the log begins in is not the one that was verified, and is compared.
    assert wanted <= {1, 3} and {table: rows[table] for table in TABLES} == day.rows


def test_compacted_logs_are_compared_whole(tmp_path):
    leader, follower = log(70), log(70, rebatched=True)
    day = Day(tmp_path / "s", leader, follower, configs=COMPACT)
    wanted, _ = day.since(day)
    assert 0 in wanted

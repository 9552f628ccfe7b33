"""The audit of each sample gives the whole of its expected answer, column by column."""

from __future__ import annotations

import json

import pytest
from tests.support.samples import SAMPLES
from tests.support.some import some

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_one

EXPECTED = {
    (path.parent.name, name): partition
    for path in sorted(SAMPLES.glob("*/expected.json"))
    for name, partition in json.loads(path.read_text())["partitions"].items()
}


@pytest.fixture(scope="module", params=sorted(EXPECTED), ids="/".join)
def answer(request: pytest.FixtureRequest) -> tuple[dict, Results]:
    sample, name = request.param
    return EXPECTED[request.param], audit_one(str(SAMPLES / sample), TopicPartition.parse(name), Settings())


def _of_broker(results: Results, table: str, broker: str) -> list[dict]:
    return [row for row in results.rows(table) if row["broker_id"] == int(broker)]


def test_there_are_nine_textbook_partitions_and_six_captured_ones():
    assert len(EXPECTED) == 9 + 3 + 2 + 1


def test_verdict_leader_and_isr(answer):
    expected, results = answer
    (partition,) = results.rows("partitions")
    for column in ("verdict", "leader_id", "leader_epoch", "isr"):
        assert partition[column] == expected[column], column


def test_high_watermark_with_everything_that_is_settled_about_it(answer):
    expected, results = answer
    (mark,) = results.rows("high_watermarks")
    assert [mark["hw_lower"], mark["hw_upper"]] == expected["high_watermark"]
    for column in ("exact", "method", "limiting_broker_id"):
        if column in expected:
            assert mark[column] == expected[column], column


def test_divergences_and_what_of_them_was_proven_committed(answer):
    expected, results = answer
    for broker, runs in some(expected["divergences"].items()):
        rows = _of_broker(results, "divergences", broker)
        assert [[row["start_offset"], row["end_offset"]] for row in rows] == runs
        committed = expected["committed"][broker]
        assert [row["committed"] for row in rows] == [any(s <= run[0] < e for s, e in committed) for run in runs]
        assert sum(row["committed_records"] or 0 for row in rows) == sum(e - s for s, e in committed)


def test_truncation_under_every_protocol(answer):
    expected, results = answer
    for broker, cuts in some(expected["truncate_to"].items()):
        assert {row["protocol"]: row["truncate_to"] for row in _of_broker(results, "truncations", broker)} == cuts


def test_the_findings_that_must_be_there_are_there(answer):
    expected, results = answer
    assert set(expected["codes"]) <= {row["code"] for row in results.rows("findings")}


def test_only_a_sample_with_exit_status_1_has_a_finding_of_high_or_worse():
    for path in some(sorted(SAMPLES.glob("*/expected.json"))):
        sample = json.loads(path.read_text())
        severities = {
            row["severity"]
            for name in sample["partitions"]
            for row in audit_one(str(path.parent), TopicPartition.parse(name), Settings()).rows("findings")
        }
        assert bool(severities & {"critical", "high"}) == (sample["exit_status"] == 1), path.parent.name

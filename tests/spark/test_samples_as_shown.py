"""The stages on the samples: the answers of their expected.json, and row by row those of `show`.

The textbook samples, all of a topic `orders`, are put together to one cluster with a topic each: one pass for all.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.support.logdirs import checkpoint_text, make_uuid
from tests.support.samples import DESCRIBE, TEXTBOOK, TOPIC

from replica_audit.model import TopicPartition
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.runner.in_process import audit_one
from replica_audit.schema import REPORT_TABLES

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
CAPTURES = sorted({path.parent.name for path in SAMPLES.glob("*/expected.json")} - set(TEXTBOOK))


def ranges(rows):
    return [[row["start_offset"], row["end_offset"]] for row in rows]


def in_order(rows):
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def assert_expected(results, name, expected):
    """One partition's rows say what `expected` (of expected.json) says."""
    at = TopicPartition.parse(name)
    place = (at.topic, at.partition)
    of = {
        table: [row for row in results.rows(table) if (row.get("topic"), row.get("partition")) == place]
        for table in REPORT_TABLES
    }
    (partition,) = of["partitions"]
    (mark,) = of["high_watermarks"]
    assert [mark["hw_lower"], mark["hw_upper"]] == expected["high_watermark"]
    for column in ("verdict", "leader_id", "isr", "leader_epoch"):
        assert partition[column] == expected[column], column
    for column in ("exact", "method", "limiting_broker_id"):
        if column in expected:
            assert mark[column] == expected[column], column
    followers = sorted(int(broker) for broker in expected["truncate_to"])
    assert sorted({row["broker_id"] for row in of["truncations"]}) == followers
    for broker in followers:
        rows = [row for row in of["divergences"] if row["broker_id"] == broker]
        assert ranges(rows) == expected["divergences"][str(broker)]
        lost = [row for row in of["findings"] if row["broker_id"] == broker and row["code"] == "HWM-LOSS"]
        assert ranges(lost) == expected["committed"][str(broker)]
        kept = {row["protocol"]: row["truncate_to"] for row in of["truncations"] if row["broker_id"] == broker}
        assert kept == expected["truncate_to"][str(broker)]
    assert set(expected["codes"]) <= {row["code"] for row in of["findings"]}


def expected_of(name):
    return json.loads((SAMPLES / name / "expected.json").read_text())


def assert_as_shown(audited, name):
    """The rows of one partition are those of `show`, in every table that has partitions."""
    one = TopicPartition.parse(name)
    shown = audit_one(str(audited.path), one, audited.settings)
    for table, columns in REPORT_TABLES.items():
        if "topic" not in {column.name for column in columns}:
            continue
        own, theirs = (
            [row for row in found.rows(table) if (row["topic"], row["partition"]) == (one.topic, one.partition)]
            for found in (audited.results, shown)
        )
        assert in_order(own) == in_order(theirs), (table, name)
    return shown


def write_together(path):
    """The textbook samples as topics of one cluster: their files as they are, the checkpoints of a broker joined."""
    checkpoints = {}
    listing = []
    for name in sorted(TEXTBOOK):
        for log_dir in sorted((SAMPLES / name).glob("broker-*")):
            own = path / log_dir.name
            shutil.copytree(log_dir / f"{TOPIC}-0", own / f"{name}-0")
            for file in log_dir.glob("*-offset-checkpoint"):
                lines = file.read_text().splitlines()[2:]
                renamed = [line.replace(f"{TOPIC} ", f"{name} ", 1) for line in lines]
                checkpoints.setdefault(own / file.name, []).extend(renamed)
            identity = (log_dir / "meta.properties").read_text().splitlines()
            kept = [line for line in identity if not line.startswith(("cluster.id", "directory.id"))]
            (own / "meta.properties").write_text("\n".join([*kept, f"cluster.id={make_uuid('together')}", ""]))
        listing.append((SAMPLES / name / DESCRIBE).read_text().replace(f"Topic: {TOPIC}", f"Topic: {name}"))
    for file, lines in checkpoints.items():
        file.write_text(checkpoint_text(lines) if lines else "")
    (path / DESCRIBE).write_text("".join(listing))
    return path


@pytest.fixture(scope="module")
def together(run_stages, tmp_path_factory):
    return run_stages(write_together(tmp_path_factory.mktemp("together")))


@pytest.fixture(scope="module")
def captures(run_stages):
    """Each capture of a real cluster, audited by the first test that asks for it."""
    found = {}

    def audited(name):
        if name not in found:
            found[name] = run_stages(SAMPLES / name)
        return found[name]

    return audited


def test_there_are_samples_of_both_kinds():
    assert len(TEXTBOOK) >= 9 and len(CAPTURES) >= 2


@pytest.mark.parametrize("name", sorted(TEXTBOOK))
def test_a_textbook_sample_gets_its_expected_answer_and_that_of_show(name, together):
    (expected,) = expected_of(name)["partitions"].values()
    assert_expected(together.results, f"{name}-0", expected)
    assert_as_shown(together, f"{name}-0")


def test_every_textbook_sample_is_audited_once(together):
    assert [row["topic"] for row in together.results.rows("partitions")] == sorted(TEXTBOOK)


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_gets_its_expected_answer_and_that_of_show(name, captures):
    audited, expected = captures(name), expected_of(name)
    for partition, answer in expected["partitions"].items():
        assert_expected(audited.results, partition, answer)
    for row in audited.results.rows("partitions"):
        assert_as_shown(audited, f"{row['topic']}-{row['partition']}")
    assert build_verdict(audited.results, "high")["exit_status"] == expected["exit_status"]


def test_findings_of_no_partition_and_the_quarantine_are_those_of_show_too(sample):
    expected = expected_of("last-replica-standing")
    shown = assert_as_shown(sample, f"{TOPIC}-0")
    for table in ("findings", "quarantine"):
        assert in_order(sample.results.rows(table)) == in_order(shown.rows(table))
    assert build_verdict(sample.results, "high")["exit_status"] == expected["exit_status"] == 1

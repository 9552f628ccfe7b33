"""The audit of captures of real clusters against what an independent script, the clients and the brokers said."""

from __future__ import annotations

import json

import pytest
from tests.support.captures import (
    CAPTURES,
    EXPECTED,
    FIXTURES,
    QUIET,
    audit_by_listing,
    audit_capture,
    audit_whole,
    told,
    truth,
)
from tests.support.report_rows import tables_of
from tests.support.some import some

from replica_audit.auditing.catalogue import at_or_above
from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.report.facts.by_partition import served_rows
from replica_audit.row_classes import to_dict
from replica_audit.runner.in_process import audit_one
from replica_audit.schema import REPORT_TABLES, FindingRow
from replica_audit.typed_json import from_object

#: What is wrong there is told, by tests of its own: keys that came back, and transactions that hang.
NOT_QUIET = {
    ("compacted-skewed-2", "zombies-0"),
    ("txn-failover-2-healed", "wallet-0"),
    ("txn-failover-2-healed", "wallet-1"),
}
PARTITIONS = [(capture, partition) for capture, of_capture in EXPECTED.items() for partition in of_capture]


def test_the_captures_are_all_here():
    assert len(CAPTURES) > 100
    assert set(EXPECTED) <= set(CAPTURES)
    assert set(QUIET) <= set(CAPTURES)


@pytest.mark.parametrize(("capture", "partition"), PARTITIONS)
def test_leadership_ends_and_verdict_are_those_of_the_independent_script(capture, partition):
    # The script read files and listing; what the metadata log adds is held by test_history.
    results, answer = audit_by_listing(capture)[partition], EXPECTED[capture][partition]
    row = results.rows("partitions")[0]
    assert (row["leader_id"], row["reference_id"]) == (answer["leader"], answer["reference"])
    assert row["leader_epoch"] == answer["leader_epoch"]
    assert row["isr"] == sorted(answer["isr"])
    assert row["verdict"] == answer["verdict"], told(results)
    ends = {row.broker_id: row.log_end_offset for row in served_rows(results.replicas)}
    assert ends[answer["reference"]] == answer["log_end_offset"]
    for broker, follower in answer["followers"].items():
        assert ends[int(broker)] == follower["log_end_offset"]


@pytest.mark.parametrize(("capture", "partition"), PARTITIONS)
def test_the_high_watermark_is_that_of_the_independent_script(capture, partition):
    answer = EXPECTED[capture][partition]["high_watermark"]
    row = audit_by_listing(capture)[partition].rows("partitions")[0]
    if answer is None:
        assert capture.startswith("live"), "only copies of different moments have no answer"
        assert row["hw_lower"] <= row["hw_upper"]
    else:
        assert [row["hw_lower"], row["hw_upper"]] == answer


@pytest.mark.parametrize(("capture", "partition"), PARTITIONS)
def test_differences_and_cuts_are_those_of_the_independent_script(capture, partition):
    tables, answer = tables_of(audit_by_listing(capture)[partition]), EXPECTED[capture][partition]
    compared = {row["broker_id"] for row in tables["truncations"]}
    assert compared == {int(broker) for broker in answer["followers"]}
    for broker, follower in answer["followers"].items():
        runs = [row for row in tables["divergences"] if row["broker_id"] == int(broker)]
        bounds = [([row["start_offset"], row["end_offset"]], row) for row in runs]
        # A hole has no records of the replica; records without an epoch have none either, but their content differs.
        holes = [pair for pair, row in bounds if row["replica_epoch"] is None and row["code"] != "DIV-CONTENT"]
        assert holes == follower["holes"]
        assert [pair for pair, _ in bounds if pair not in holes] == follower["divergences"]
        assert [pair for pair, row in bounds if row["committed"]] == follower["committed"]
        cuts = {row["protocol"]: row["truncate_to"] for row in tables["truncations"] if row["broker_id"] == int(broker)}
        assert follower["truncate_to"] in ({}, None, cuts)


def test_the_comparison_has_something_to_compare():
    followers = [one for of in EXPECTED.values() for answer in of.values() for one in answer["followers"].values()]
    assert sum(bool(one["divergences"]) for one in followers) >= 20
    assert sum(bool(one["truncate_to"]) for one in followers) >= 100
    assert any(one["holes"] for one in followers)
    assert any(one["committed"] for one in followers)


def _client_watermarks() -> list[tuple[str, str, int]]:
    found = []
    for capture in CAPTURES:
        for partition, row in (truth(capture).get("watermarks_from_clients") or {}).items():
            if row.get("high_watermark") is not None and row["high_watermark"] >= 0:
                found.append((capture, partition, row["high_watermark"]))
    return found


@pytest.mark.parametrize(("capture", "partition", "high_watermark"), _client_watermarks())
def test_the_high_watermark_that_a_client_was_told_lies_in_the_interval(capture, partition, high_watermark):
    row = audit_capture(capture)[partition].rows("partitions")[0]
    assert high_watermark <= row["hw_upper"]
    # Clients asked before a live copy was made, and the high watermark moved on.
    if not capture.startswith("live"):
        assert row["hw_lower"] <= high_watermark


@pytest.mark.parametrize("capture", ["diverged-unclean", "txn-failover-1-unclean", "tiered-2-follower", "jbod-moving"])
def test_one_partition_is_answered_alike_whether_it_is_looked_for_alone_or_found_among_all(capture):
    for partition, results in some(audit_capture(capture).items()):
        alone = audit_one(str(FIXTURES / capture), TopicPartition.parse(partition), Settings())
        assert tables_of(alone) == tables_of(results), partition


def test_clients_were_asked_about_many_partitions():
    assert len(_client_watermarks()) >= 150


@pytest.mark.parametrize("capture", QUIET)
def test_nothing_above_low_is_said_where_nothing_is_wrong(capture):
    audits = audit_capture(capture)
    assert audits
    for partition, results in audits.items():
        if (capture, partition) in NOT_QUIET:
            continue
        alarms = [row for row in results.rows("findings") if at_or_above(row["severity"], "medium")]
        assert not alarms, f"{capture} {partition}\n{told(results)}"
        assert results.rows("partitions")[0]["verdict"] in ("CONSISTENT", "LAGGING"), f"{partition}\n{told(results)}"


@pytest.mark.parametrize("capture", [name for name in CAPTURES if name.startswith("tiered")])
def test_a_tiered_log_misses_no_segment(capture):
    codes = {row["code"] for results in audit_capture(capture).values() for row in results.rows("findings")}
    assert not codes & {"CAP-MISSING-SEGMENT", "LOG-GAP", "EPO-CACHE-MISSING"}


@pytest.mark.parametrize(
    ("capture", "partition", "broker", "code", "start", "end"),
    [
        ("kip101-isr-4-healed", "kip101-0", 0, "DIV-CONTENT", 19, 23),
        ("old-silent-2-healed", "silent-0", 0, "DIV-CONTENT", 11, 15),
        ("old-silent-2-healed", "silent-1", 0, "DIV-CONTENT", 5, 9),
        ("kip279-2-healed", "kip279-0", 0, "DIV-HIDDEN", 12, 17),
        ("kip279-2-healed", "kip279-1", 0, "DIV-HIDDEN", 8, 13),
    ],
)
def test_what_old_protocols_left_different_for_good_is_found(capture, partition, broker, code, start, end):
    results = audit_capture(capture)[partition]
    rows = results.rows("divergences")
    assert [(row["broker_id"], row["code"], row["start_offset"], row["end_offset"]) for row in rows] == [
        (broker, code, start, end)
    ], told(results)
    found = [row for row in results.rows("findings") if row["code"] == code and row["severity"] == "critical"]
    assert [(row["broker_id"], row["start_offset"], row["end_offset"]) for row in found] == [(broker, start, end)]
    assert results.rows("partitions")[0]["verdict"] in ("COMMITTED_LOSS", "COMMITTED_DIVERGENCE")


def test_the_loss_of_0_10_is_seen_only_once_it_happened():
    before = audit_capture("kip101-isr-1-before")["kip101-0"].rows("partitions")[0]
    assert before["verdict"] in ("CONSISTENT", "LAGGING")
    short = audit_capture("kip101-isr-2-truncated")["kip101-0"]
    assert {"REP-ISR-SHORT"} <= {row["code"] for row in short.rows("findings")}, told(short)
    # The checkpoint of broker 0 proves what broker 2 has as well, until that one is cut.
    for capture, brokers in (("kip101-isr-3-lost", (0, 2)), ("kip101-isr-4-healed", (0,))):
        results = audit_capture(capture)["kip101-0"]
        assert results.rows("partitions")[0]["verdict"] == "COMMITTED_LOSS", told(results)
        losses = [row for row in results.rows("findings") if row["code"] == "HWM-LOSS"]
        assert [(row["broker_id"], row["start_offset"], row["end_offset"]) for row in losses] == [
            (broker, 19, 23) for broker in brokers
        ]
        assert {row["severity"] for row in losses} == {"critical"}


@pytest.mark.parametrize(
    ("capture", "lost"),
    [
        ("diverged-unclean", {"ledger-0": (34, 79), "ledger-1": (41, 58), "ledger-2": (50, 72)}),
        ("last-replica-standing-2-cut", {"transfers-0": (34, 38), "transfers-1": (11, 38), "transfers-3": (25, 42)}),
    ],
)
def test_a_loss_is_given_as_the_range_that_brokers_warned_about(capture, lost):
    audits = audit_capture(capture)
    found = {}
    for partition, results in audits.items():
        rows = [row for row in results.rows("findings") if row["code"] == "HWM-LOSS"]
        if rows:
            found[partition] = (min(row["start_offset"] for row in rows), max(row["end_offset"] for row in rows))
    assert found == lost


@pytest.mark.parametrize("capture", CAPTURES)
def test_no_partition_called_lagging_or_consistent_has_a_finding_of_high_or_worse(capture):
    for partition, results in some(audit_capture(capture).items()):
        if results.rows("partitions")[0]["verdict"] in ("LAGGING", "CONSISTENT"):
            worst = [row for row in results.rows("findings") if at_or_above(row["severity"], "high")]
            assert not worst, f"{capture} {partition}\n{told(results)}"


@pytest.mark.parametrize("capture", ["diverged-multi2", "live-torn", "corrupted-batch-baseoffset-changed"])
def test_an_audit_says_the_same_every_time(capture):
    again = tables_of(audit_whole.__wrapped__(FIXTURES / capture))
    assert again == tables_of(audit_whole(FIXTURES / capture))
    assert str(FIXTURES) not in str(again), "paths are relative to the snapshot"


@pytest.mark.parametrize("capture", CAPTURES)
def test_every_finding_has_an_id_of_its_own(capture):
    ids = [row["finding_id"] for results in audit_capture(capture).values() for row in results.rows("findings")]
    # A finding of a whole log dir is told with each of its partitions when these are audited one by one.
    whole = {
        row["finding_id"]
        for results in audit_capture(capture).values()
        for row in results.rows("findings")
        if row["topic"] is None
    }
    ids = [one for one in ids if one not in whole]
    assert len(ids) == len(set(ids))


def test_every_finding_comes_back_from_its_row():
    rows = [
        row for capture in CAPTURES for results in audit_capture(capture).values() for row in results.rows("findings")
    ]
    assert len(rows) > 500
    assert len({row["code"] for row in rows}) > 30
    for row in rows:
        stored = json.loads(json.dumps(row))
        found = from_object(FindingRow, stored)
        assert to_dict(found) == row == stored
        assert list(to_dict(found)) == [column.name for column in REPORT_TABLES["findings"]]

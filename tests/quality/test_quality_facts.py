"""The facts that quality suites look at, and the built-in suites against the captures of real clusters."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial

import pytest
from tests.support.captures import CAPTURES, FIXTURES, QUIET, audit_capture, told
from tests.support.report_rows import finding, orders_row, partition, results, row
from tests.support.samples import SAMPLES
from tests.support.snapshots import write_manifest
from tests.support.some import some

from replica_audit.auditing.catalogue import at_or_above
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.model import SegmentSummary
from replica_audit.quality.quality_facts import (
    CountsByReplica,
    SegmentCounts,
    count_lineage_conflicts,
    count_segments,
    find_facts,
    name_place,
    segment_counts,
)
from replica_audit.quality.suites import load_plan
from replica_audit.row_classes import to_dict
from replica_audit.schema import FACT_TABLES
from replica_audit.snapshot.opening import open_snapshot
from replica_audit.snapshot.segment_sources import summarise_source


def count_snapshot(uri: str) -> CountsByReplica:
    """Counts of every replica of a snapshot that has segments."""
    snapshot, inventory = open_snapshot(uri, (), None)
    manifest = inventory.manifest
    times = CaptureTimes(manifest.brokers if manifest else ())
    return segment_counts(inventory.segments, partial(summarise_source, snapshot), times)


#: What the expectations of type "between" ask, which all on facts are.
EXPECTATIONS = [
    (suite.table, one) for suite in load_plan().suites for one in suite.expectations if suite.table in FACT_TABLES
]


def broken(facts: dict) -> list[tuple[str, str, str | None, int | None, int | None]]:
    """(severity, name, topic, partition, broker) of every row that does not meet a built-in expectation."""
    found = []
    for table, one in EXPECTATIONS:
        for fact in facts[table]:
            value = fact[one.kwargs["column"]]
            low, high = one.kwargs.get("min_value", value), one.kwargs.get("max_value", value)
            if value is not None and not low <= value <= high:
                found.append((one.severity, one.name, fact["topic"], fact["partition"], fact.get("broker_id")))
    return found


@pytest.mark.parametrize("capture", CAPTURES)
def test_what_the_suites_refuse_in_a_capture_is_a_finding_there_too(capture):
    """An expectation must not be a second opinion: what makes the exit status 1 by default was judged with its traps."""
    counts = count_snapshot(str(FIXTURES / capture))
    for name, answer in some(audit_capture(capture).items()):
        facts = {table: [to_dict(row) for row in rows] for table, rows in find_facts(answer, counts)._asdict().items()}
        assert all(
            set(fact) == {column.name for column in FACT_TABLES[table]} for table in facts for fact in facts[table]
        )
        severe = {
            finding["broker_id"] for finding in answer.rows("findings") if at_or_above(finding["severity"], "high")
        }
        for severity, expectation, _, _, broker in broken(facts):
            if expectation.endswith("-finding"):
                continue
            if capture in QUIET:
                assert not at_or_above(severity, "medium"), (name, expectation, told(answer))
            if at_or_above(severity, "high"):
                assert broker in severe or broker is None and severe, (name, expectation, told(answer))


def replica(**values):
    defaults = {
        "topic": "orders", "partition": 0, "broker_id": 2, "log_dir": "broker-2", "compacted": False, "in_isr": True,
        "log_start_offset": 10, "log_end_offset": 20, "high_watermark_checkpoint": 20, "recovery_point_checkpoint": 20,
        "unexplained_gaps": 0, "epochs": [[0, 10]], "checkpoint_epochs": [[0, 10]], "tail_kind": "clean",
        "unchecked_batches": 0,
    }  # fmt: skip
    return row("replicas", **{**defaults, **values})


def mark(**values):
    return row(
        "high_watermarks",
        **{"topic": "orders", "partition": 0, "hw_lower": 20, "hw_upper": 20, "method": "bounds_meet", **values},
    )


def fact(values=(), counts=(), **marked):
    """The only row of replica_facts."""
    answer = results(replicas=[replica(**dict(values))], high_watermarks=[mark(**marked)])
    of_replica = {("orders", 0, 2, "broker-2"): SegmentCounts(**dict(counts))} if counts else {}
    answer = replace(answer, audit={**answer.audit, "started": "2026-01-01T00:00:10.000Z"})
    (only,) = find_facts(answer, of_replica).replica_facts
    return to_dict(only)


def test_a_sound_replica_has_nothing_but_zeros():
    only = fact()
    numbers = [name for name, kind in FACT_TABLES["replica_facts"][12:] if kind == "bigint"]
    times = ("timestamps_ahead_ms", "capture_age_ms")
    assert {only[name] for name in numbers if name not in times} == {0}
    assert {only[name] for name in times} == {None}, "nothing says when it was copied"
    assert only["place"] == "orders-0 broker 2"


def test_counts_of_segments_and_of_their_borders_are_added():
    only = fact(counts={"crc": 3, "regression": 1, "duplicate": 1, "border_regression": 1,
                        "epoch_regression": 4, "border_epoch_regression": 0})  # fmt: skip
    assert [only[name] for name in ("wrong_crcs", "offset_regressions", "epoch_regressions")] == [3, 3, 4]


def test_checksums_that_nobody_computed_are_not_met_by_none_that_is_wrong():
    one = fact({"unchecked_batches": 2}, counts={})
    assert (one["wrong_crcs"], one["unchecked_batches"]) == (None, 2)
    facts = {table: [one] if table == "replica_facts" else [] for table in FACT_TABLES}
    assert broken(facts) == [("low", "crc-computed", "orders", 0, 2)]
    assert not broken({**facts, "replica_facts": [fact()]})


def test_sequences_that_are_left_out_count_where_no_cleaner_was_at_work():
    assert fact(counts={"sequence_gap": 2})["sequence_gaps"] == 2
    assert fact({"compacted": True}, counts={"sequence_gap": 2})["sequence_gaps"] is None


@pytest.mark.parametrize(
    ("segments", "gaps"),
    [
        # (base offset, end, first sequences, last sequences)
        ([(0, 10, {7: 0}, {7: 9}), (10, 20, {7: 10}, {7: 19})], 0),
        ([(0, 10, {7: 0}, {7: 9}), (10, 20, {7: 12}, {7: 19})], 1),
        # It wrote nothing into the second, and a second producer only there.
        ([(0, 10, {7: 0}, {7: 9}), (10, 20, {8: 40}, {8: 49}), (20, 30, {7: 11, 8: 50}, {7: 12, 8: 57})], 1),
        # Begun anew, or after the greatest.
        ([(0, 10, {7: 0}, {7: 9}), (10, 20, {7: 0}, {7: 9})], 0),
        ([(0, 10, {7: 0}, {7: (1 << 31) - 1}), (10, 20, {7: 0}, {7: 9})], 0),
        # A segment is missing in between, as a finding says.
        ([(0, 10, {7: 0}, {7: 9}), (20, 30, {7: 20}, {7: 29})], 0),
        ([(0, 10, {7: 0}, {7: 9}), (10, None, {}, {}), (10, 20, {7: 12}, {7: 19})], 1),
    ],
)
def test_sequences_go_on_across_the_borders_of_segments(segments, gaps):
    summaries = [
        SegmentSummary(
            f"{base}.log", base, 1, first_base_offset=None if end is None else base, greatest_last_offset=None if end is None else end - 1,
            first_sequences=tuple((producer, 0, one) for producer, one in first.items()),
            last_sequences=tuple((producer, 0, one) for producer, one in last.items()),
        )
        for base, end, first, last in segments
    ]  # fmt: skip
    assert count_segments(summaries, None).border_sequence_gap == gaps
    assert fact(counts={"sequence_gap": 2, "border_sequence_gap": gaps})["sequence_gaps"] == 2 + gaps


def test_times_are_measured_from_the_end_of_the_copy():
    copied = 1767225600000  # 2026-01-01T00:00:00Z
    early = fact(counts={"copied_ms": copied, "latest_timestamp_ms": copied - 1})
    late = fact(counts={"copied_ms": copied, "latest_timestamp_ms": copied + 7})
    assert [(one["timestamps_ahead_ms"], one["capture_age_ms"]) for one in (early, late)] == [(0, 10000), (7, 10000)]
    assert fact(counts={"copied_ms": copied})["timestamps_ahead_ms"] is None, "a log without records"


def test_segments_tell_times_and_where_they_begin(tmp_path):
    shutil.copytree(SAMPLES / "last-replica-standing", tmp_path, dirs_exist_ok=True)
    copies = [{"broker_id": 1, "log_dir": "broker-1", "started": 1700000400000, "finished": 1700000500000}]
    write_manifest(tmp_path, brokers=copies)
    found = count_snapshot(str(tmp_path))
    told = {key[2]: (one.copied_ms, one.latest_timestamp_ms, list(one.base_offsets)) for key, one in found.items()}
    assert told == {1: (1700000500000, 1700000330002, [0, 50]), 2: (None, 1700000335004, [0, 50, 95])}


@pytest.mark.parametrize(
    ("others", "once"),
    [
        ([(0, 30)], 0),
        # A part of the second segment and what is above it.
        ([(0, 15)], 2),
        # Deleted from the others, whole and in part.
        ([(10, 30)], 1),
        ([(4, 30)], 1),
        # Each segment on another one, and one on none.
        ([(0, 10), (10, 30)], 0),
        ([(0, 9), (10, 30)], 1),
        # What is not proven committed need not be there.
        ([(0, 25)], 0),
        ([(0, None)], None),
        ([], None),
    ],
)
def test_segments_that_no_other_replica_holds_are_counted(others, once):
    rows = [
        row(
            "replicas",
            **{"topic": "orders", "partition": 0, "broker_id": broker, "log_dir": "d", "role": role},
            **{"log_start_offset": start, "log_end_offset": 30, "common_prefix_end": end},
        )
        for broker, (role, start, end) in enumerate(
            [("leader", 0, None), *(("compared", start, end) for start, end in others)], 1
        )
    ]
    found = results(
        [partition()],
        replicas=rows,
        high_watermarks=[mark(reference_id=1, hw_lower=25, proven_lower=25)],
    )
    counts = {("orders", 0, 1, "d"): SegmentCounts(base_offsets=(0, 10, 20))}
    (facts,) = find_facts(found, counts).partition_facts
    assert facts.segments_held_once == once


def test_gaps_are_those_that_the_findings_do_not_explain():
    assert fact({"compacted": True, "unexplained_gaps": 0})["offset_gaps"] == 0
    assert fact({"compacted": True, "unexplained_gaps": 2})["offset_gaps"] == 2


def test_checkpoints_outside_the_log():
    only = fact({"high_watermark_checkpoint": 25, "recovery_point_checkpoint": 22})
    assert (only["high_watermark_above_end"], only["recovery_point_above_end"], only["high_watermark_below_start"]) == (
        5,
        2,
        0,
    )
    assert fact({"high_watermark_checkpoint": 4})["high_watermark_below_start"] == 6
    absent = fact({"high_watermark_checkpoint": None, "recovery_point_checkpoint": None})
    assert (
        absent["high_watermark_above_end"]
        is absent["high_watermark_below_start"]
        is absent["recovery_point_above_end"]
        is None
    )


@pytest.mark.parametrize(
    ("values", "marked", "shortfall"),
    [
        ({"log_end_offset": 17}, {}, 3),
        ({"log_end_offset": 17, "in_isr": False}, {}, None),
        ({"log_end_offset": 17, "in_isr": None}, {}, None),
        ({"log_end_offset": 17}, {"method": "capture_skew"}, None),
        ({"log_end_offset": 17}, {"hw_lower": None}, None),
        ({"log_end_offset": 25}, {}, 0),
    ],
)
def test_a_member_of_the_isr_reaches_the_proven_high_watermark(values, marked, shortfall):
    assert fact(values, **marked)["isr_shortfall"] == shortfall


@pytest.mark.parametrize(("confidence", "shortfall"), [("likely", 3), ("suspect", None)])
def test_a_member_of_the_isr_whose_copy_may_be_older_falls_short_of_nothing(confidence, shortfall):
    short = finding("REP-ISR-SHORT", "medium", confidence=confidence, broker_id=2)
    answer = results(replicas=[replica(log_end_offset=17)], high_watermarks=[mark()], findings=[short])
    (only,) = find_facts(answer, {}).replica_facts
    assert only.isr_shortfall == shortfall


@pytest.mark.parametrize(
    ("epochs", "file", "conflicts"),
    [
        ([[0, 0], [2, 40]], [[0, 0], [2, 40]], 0),
        ([[0, 0], [2, 40]], [[0, 0], [1, 40], [2, 50]], 1),
        ([[0, 0], [2, 40]], [[0, 0], [1, 30], [2, 40]], 0),
        ([[0, 0], [1, 10], [2, 40]], [[0, 0], [2, 40]], 1),
        ([[0, 0], [2, 40]], [[0, 0]], 0),
        ([[0, 0], [2, 40]], [[0, 20], [2, 40]], 0),
        ([[0, 0]], None, None),
        ([], [], 0),
        (None, [[3, 0]], 0),
    ],
)
def test_the_lineage_file_against_the_batches(epochs, file, conflicts):
    assert count_lineage_conflicts(epochs, file) == conflicts


def test_partitions_count_new_findings_and_those_without_a_partition_have_a_row():
    found = [
        finding("HWM-LOSS", "critical"), finding("LOG-GAP", "medium", status="known"), finding("LOG-GAP", "medium"),
        finding("CAP-UNREADABLE", "high", None, None), finding("REP-LAG", "info", status="resolved"),
    ]  # fmt: skip
    rows = [to_dict(row) for row in find_facts(results([partition(hw_lower=5, hw_upper=9)], found), {}).partition_facts]
    levels = ("critical", "high", "medium", "low", "info")
    counts = [[one[f"{level}_findings"] for level in levels] for one in rows]
    assert counts == [[1, 0, 1, 0, 0], [0, 1, 0, 0, 0]]
    assert [one["place"] for one in rows] == ["orders-0", "no partition"]
    assert [one["hw_width"] for one in rows] == [4, None]


@pytest.mark.parametrize(
    ("prefixes", "values", "held"),
    [
        ([10, 10], {}, 3),
        ([10, 4], {}, 2),
        ([4, 4], {}, 1),
        ([4, None], {}, None),
        ([], {}, None),
        ([4], {"method": "capture_skew"}, None),
        ([4], {"proven_lower": 3}, 2),
    ],
)
def test_replicas_that_hold_what_is_proven_committed_are_counted(prefixes, values, held):
    mark = {"reference_id": 1, "hw_lower": 10, "proven_lower": 10, "method": "bounds_meet", **values}
    replicas = [
        orders_row(
            "replicas", broker_id=broker, role=role, log_start_offset=0, log_end_offset=12, common_prefix_end=end
        )
        for broker, (role, end) in enumerate([("leader", None), *(("compared", end) for end in prefixes)], 1)
    ]
    # A copy that is put aside is no replica that serves.
    replicas.append({**replicas[0], "broker_id": 9, "role": "stray", "common_prefix_end": 10})
    found = results(
        [partition()],
        replicas=replicas,
        high_watermarks=[orders_row("high_watermarks", **mark)],
        captures=[
            orders_row("captures", broker_id=broker, state=state)
            for broker, state in enumerate(("whole", "named", "partial", "absent"))
        ],
    )
    (facts,) = find_facts(found, {}).partition_facts
    assert (facts.committed_copies, facts.uncaptured_replicas) == (held, 3)


def test_a_row_is_named_by_what_it_has():
    assert name_place("a", 1, 3, "x/y") == "a-1 broker 3 x/y"
    assert name_place(None, None, None, "x/y") == "x/y"

"""The summary and the partition page: what they say, and that they fit."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.support.in_colour import in_colour
from tests.support.report_rows import finding, partition, results, row

from replica_audit.auditing.catalogue import CATALOGUE
from replica_audit.report.explain_text import render_explanation
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.layout import (
    WIDTH,
    align_columns,
    clean,
    cut_column,
    elide,
    fit_columns,
    render_size,
    set_text_width,
)
from replica_audit.report.show_text import FINDING_LIMIT, PARTITION_LIMIT, render_partition, render_summary
from replica_audit.report.verdict_object import render_status_line
from replica_audit.results import Results
from replica_audit.text import render_time

HUGE = 9_223_372_036_854_775_807


def assert_fits(text: str) -> None:
    """No line is wider than the terminal but those that are one long word of a command."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    too_long = [line for line in lines if len(line) > WIDTH and not re.fullmatch(r" {5}\S+( \\)?", line)]
    assert not too_long, too_long


def _loss(topic: str = "ledger", scale: int = 1) -> Results:
    divergence = {
        "topic": topic,
        "partition": 0,
        "broker_id": 1,
        "reference_id": 2,
        "leader_epoch": 1,
        "replica_epoch": 0,
    }
    step = {"request_epoch": 0, "leader_epoch": 0, "leader_end_offset": 6 * scale}
    step |= {"replica_epoch": 0, "replica_end_offset": 10 * scale, "truncate_to": 6 * scale}
    truncation = {"topic": topic, "partition": 0, "broker_id": 1, "leader_id": 2, "protocol": "fetch", "rounds": 1}
    replica = {"topic": topic, "partition": 0, "log_start_offset": 0, "epochs": [[0, 0], [1, 6 * scale]]}
    evidence = {
        "kind": "checkpoint",
        "broker_id": 1,
        "path": "broker-1/replication-offset-checkpoint",
        "position": None,
    }
    evidence |= {"value": str(8 * scale), "text": "high watermark that broker 1 had written"}
    skew = dict.fromkeys(("broker_id", "path", "position", "value")) | {
        "kind": "considered",
        "text": "capture skew: no",
    }
    return results(
        [
            partition(
                topic,
                0,
                "COMMITTED_LOSS",
                leader_id=2,
                reference_id=2,
                hw_lower=6 * scale,
                hw_upper=9 * scale,
                dropped_records=8 * scale,
                committed_dropped=4 * scale,
                lost_records=4 * scale,
                lost_committed=2 * scale,
                lost_at_most=False,
                isr=[2],
                leader_epoch=1,
            )
        ],
        [
            finding("REP-LAG", "info", topic, 0, broker_id=3),
            finding(
                "HWM-LOSS",
                "critical",
                topic,
                0,
                broker_id=1,
                start_offset=6 * scale,
                end_offset=8 * scale,
                evidence=[evidence, skew],
            ),
        ],
        divergences=[
            row(
                "divergences",
                **divergence,
                start_offset=6 * scale,
                end_offset=8 * scale,
                code="DIV-EPOCH",
                committed=True,
                record_count=2 * scale,
                committed_records=2 * scale,
                first_timestamp_ms=0,
                last_timestamp_ms=HUGE,
            ),
            row(
                "divergences",
                **divergence,
                start_offset=8 * scale,
                end_offset=10 * scale,
                code="DIV-EPOCH",
                committed=False,
                record_count=2 * scale,
            ),
        ],
        truncations=[
            row(
                "truncations",
                **truncation,
                truncate_to=6 * scale,
                reason="epoch_match",
                steps=[step],
                dropped_records=4 * scale,
                dropped_bytes=400 * scale,
                common_prefix_end=6 * scale,
                committed_dropped=2 * scale,
            ),
        ],
        replicas=[
            row(
                "replicas",
                **replica,
                broker_id=broker,
                is_leader=broker == 2,
                role="leader" if broker == 2 else "compared",
                lost_held=4 * scale if broker == 1 else 0,
                lost_committed_held=2 * scale if broker == 1 else 0,
                log_end_offset=9 * scale,
                tail_kind="clean",
                loaded_log_end_offset=9 * scale,
                recovered_log_end_offset=9 * scale,
                high_watermark_checkpoint=8 * scale,
                common_prefix_end=6 * scale,
                batch_count=3 * scale,
            )
            for broker in (1, 2)
        ],
        high_watermarks=[
            row(
                "high_watermarks",
                topic=topic,
                partition=0,
                leader_id=2,
                reference_id=2,
                hw_lower=6 * scale,
                hw_upper=9 * scale,
                exact=False,
                method="interval",
                leadership_source="topics_describe",
                lower_evidence="checkpoint of broker 2",
                upper_evidence="log end of broker 2",
                limiting_broker_id=2,
                leader_log_end_offset=9 * scale,
            )
        ],
    )


def test_the_summary_shows_verdict_leader_bounds_ranges_losses_and_the_worst_finding() -> None:
    text = render_summary(_loss())
    line = next(line for line in text.splitlines() if line.startswith("ledger"))
    assert line.split() == (
        ["ledger", "0", "COMMITTED_LOSS", "2", "[6,", "9]", "4", "(2", "committed)", "critical", "HWM-LOSS"]
    )
    assert "    divergent: broker 1 [6, 10)\n" in text
    assert_fits(text)


def test_findings_come_worst_first_each_with_its_sentence() -> None:
    text = render_summary(_loss())
    worst, harmless = text.index("critical  HWM-LOSS ledger-0 broker 1 [6, 8)"), text.index("info      REP-LAG")
    assert worst < text.index("What HWM-LOSS says.") < harmless < text.index("What REP-LAG says.")


@pytest.mark.parametrize("scale", [1, 10**6, HUGE // 400])
@pytest.mark.parametrize("topic", ["t", "a-topic.with_a-name.of-some-length", "x" * 249])
@pytest.mark.parametrize("colour", [False, True])
def test_no_line_is_too_long(topic: str, scale: int, colour: bool) -> None:
    answers = _loss(topic, scale)
    for render in (render_summary, render_partition):
        assert_fits(in_colour(render, answers) if colour else render(answers))


def test_columns_line_up() -> None:
    rows = [partition("a", 0), partition("a-longer-name", 12, "UNCOMMITTED_DIVERGENCE", hw_upper=99)]
    lines = render_summary(results(rows)).splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith("TOPIC"))
    table = lines[head : head + 3]
    column = table[0].index("VERDICT")
    assert [line[column:].split()[0] for line in table[1:]] == ["UNCOMMITTED_DIVERGENCE", "CONSISTENT"]


def test_a_table_that_is_too_wide_has_what_is_alike_below_it_or_a_row_as_a_sentence() -> None:
    rows = [["NAME", "PLACE", "SIZE"], ["one", "x" * 50, "1"], ["two", "x" * 50, "22"]]
    assert fit_columns(rows, right=[2], indent="  ") == align_columns(rows, right=[2], indent="  ")
    set_text_width(60)
    try:
        assert fit_columns(rows, right=[2], indent="  ")[:3] == ["  NAME  SIZE", "  one      1", "  two     22"]
        assert " ".join(" ".join(fit_columns(rows)[3:]).split()) == f"in each row: place {'x' * 50}"
        rows[1][1] = "y" * 50
        assert [line for line in fit_columns(rows) if len(line) > 60] == []
        told = " ".join(" ".join(fit_columns(rows)).split())
        assert told == f"name one, place {'y' * 50}, size 1 name two, place {'x' * 50}, size 22"
        assert [row[1] for row in cut_column(rows, 1)] == [
            "PLACE",
            elide("y" * 50, 48),
            elide("x" * 50, 48),
        ]
    finally:
        set_text_width(None)


def test_long_lists_end_with_how_many_more_there_are() -> None:
    rows = [partition("t", number) for number in range(PARTITION_LIMIT + 3)]
    findings = [
        finding("REP-LAG", "info", "t", number, message=f"{number} behind") for number in range(FINDING_LIMIT + 2)
    ]
    text = render_summary(results(rows, findings))
    assert "and 3 more (--format json has all)" in text and "and 2 more (--format json has all)" in text


def test_what_holds_of_many_partitions_is_one_line_with_their_number() -> None:
    """Not where sentence, severity or brokers differ, nor where it belongs to no partition."""
    alike = [finding("META-NO-LEADER", "info", "t", number, message="no leader") for number in range(9)]
    other = finding("META-NO-LEADER", "info", "u", 0, message="no leader", broker_id=2)
    worse = finding("META-NO-LEADER", "medium", "v", 0, message="no leader")
    unplaced = [finding("META-FORK", "critical", None, None, message="one fork", broker_id=node) for node in (1, 2)]
    text = render_summary(results([partition("t", number) for number in range(9)], [*alike, other, worse, *unplaced]))
    assert "info      META-NO-LEADER t-0, t-1, t-2, t-3 and 5 more partitions\n          no leader\n" in text
    assert "info      META-NO-LEADER u-0 broker 2\n" in text and "medium    META-NO-LEADER v-0\n" in text
    assert text.count("          no leader\n") == 3 and "critical  META-FORK brokers 1 and 2\n" in text


def test_the_worst_partition_is_first_also_when_the_list_is_cut() -> None:
    rows = [partition("t", number) for number in range(PARTITION_LIMIT + 5)]
    rows.append(partition("z", 0, "COMMITTED_LOSS"))
    lines = render_summary(results(rows)).splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith("TOPIC"))
    assert lines[head + 1].startswith("z ")


def test_of_equal_verdicts_what_lost_most_is_first_as_on_the_page() -> None:
    rows = [partition("t", number, "COMMITTED_LOSS", lost_records=number % 7) for number in range(PARTITION_LIMIT + 5)]
    shown = render_summary(results(rows)).split("Findings")[0]
    assert re.findall(r"^t +(\d+) ", shown, re.MULTILINE)[:3] == ["6", "13", "20"]


def test_the_partition_page_shows_every_section() -> None:
    text = render_partition(_loss())
    for part in (
        "ledger-0  COMMITTED_LOSS",
        "leader 2, leader epoch 1, ISR 2",
        "broker 1: 0:0 1:6; leader-epoch-checkpoint: none",
        "[6, 9], not exact, ",
        "lower: checkpoint of broker 2",
        "broker 1 [6, 8) DIV-EPOCH: epoch 0 where the reference has epoch 1, 2 records, 2 of them committed",
        "broker 1 fetch: keeps up to 6 (the epochs agree up to there), drops 4 records, 400 bytes, 2 of them committed",
        "1. asks for epoch 0: the leader's epoch 0 ends at 6, here epoch 0 ends at 10; keep up to 6",
        "- checkpoint: broker 1 broker-1/replication-offset-checkpoint: 8; high watermark",
        "- considered: capture skew: no",
    ):
        assert part in re.sub(r"\s+", " ", text) or part in text, part


@pytest.mark.parametrize(
    ("epoch", "other", "count", "text"),
    [
        (0, 1, 2, "epoch 0 where the reference has epoch 1"),
        (0, None, 2, "epoch 0 where the reference has no record"),
        (None, 1, 0, "no record where the reference has epoch 1"),
        (None, None, 2, "records without an epoch where the reference has records without an epoch"),
        (None, None, 0, "no record where the reference has records without an epoch"),
    ],
)
def test_offsets_without_a_record_are_told_from_records_without_an_epoch(
    epoch: int | None, other: int | None, count: int, text: str
) -> None:
    answer = _loss()
    first = answer.divergences[0]._replace(replica_epoch=epoch, leader_epoch=other, record_count=count)
    page = render_partition(replace(answer, divergences=[first]))
    assert f": {text}, {count} records" in re.sub(r"\s+", " ", page)


def test_names_from_disk_cannot_steer_the_terminal() -> None:
    assert clean("a\x1b[2Jb\r\n\udcff") == "a\\x1b[2Jb\\r\\n\\udcff"
    assert "\x1b" not in render_summary(
        results([partition("evil\x1b]0;x\x07")], [finding("LOG-GAP", "low", "e\x1b[0m")])
    )


def test_a_cut_name_keeps_both_ends() -> None:
    assert elide("abcdefghij", 7) == "ab...ij" and elide("abc", 7) == "abc"


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_every_code_explains_itself_within_the_width(code: str) -> None:
    text = render_explanation(CATALOGUE[code])
    assert_fits(text)
    assert text.startswith(code) and "What to do" in text


def test_times_are_utc_and_any_int64_is_taken() -> None:
    assert render_time(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert render_time(-1) == "1969-12-31T23:59:59.999Z"
    assert render_time(HUGE) == f"{HUGE} ms" and render_time(None) == "-"
    assert render_time(1_700_000_000_999, "seconds") == "2023-11-14T22:13:20Z"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (4_402_341_478, "4.1 GiB"), (2**70, "1048576.0 PiB")],
)
def test_sizes_have_units(size: int, text: str) -> None:
    assert render_size(size) == text


def test_the_answer_and_what_to_do_first_come_before_the_table() -> None:
    lines = render_summary(_loss()).splitlines()
    table = next(number for number, line in enumerate(lines) if line.startswith("TOPIC"))
    told = " ".join(lines[:table])
    assert (
        "2 committed records are missing from the leader in the only partition; broker 1 still has them." in told
        and "Do first" in told
    )
    assert_fits("\n".join(lines))


LAGGING = results([partition("LAGGING", 0, "LAGGING"), partition("orders", 1)])


@pytest.mark.parametrize(
    ("render", "answer"),
    [
        (render_summary, _loss()),
        (render_partition, _loss()),
        (render_summary, LAGGING),
        (render_status_line, build_verdict(LAGGING, "high")),
    ],
)
def test_colour_changes_nothing_but_colour(render, answer) -> None:
    plain = render(answer)
    painted = in_colour(render, answer)
    assert "\x1b" in painted and "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain


def test_a_verdict_is_painted_and_not_the_topic_of_that_name() -> None:
    (line,) = [line for line in in_colour(render_summary, LAGGING).splitlines() if line.startswith("LAGGING ")]
    assert line.count("\x1b[36mLAGGING\x1b[0m") == 1

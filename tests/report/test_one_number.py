"""The number of lost records is the same in every text: headline, terminal, page, summary.md, metrics and JUnit."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree

import pytest
from tests.support.captures import audit_whole
from tests.support.fixtures import FIXTURES
from tests.support.samples import SAMPLES

from replica_audit.report.answer import build_answer
from replica_audit.report.facts.by_partition import worst_partitions
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.junit import render_junit
from replica_audit.report.markdown import render_markdown
from replica_audit.report.metrics import render_metrics
from replica_audit.report.page.columns import encode_column
from replica_audit.report.page.content import build_overview
from replica_audit.report.show_text import render_summary
from replica_audit.results import Results

#: (capture, lost records, those of them that are committed, brokers that hold them)
LOSSES = (
    ("diverged-unclean", 84, 84, {0}),
    ("txn-failover-1-unclean", 15, 15, {0}),
    ("last-replica-standing-2-cut", 48, 48, {1, 2}),
    ("kip101-isr-3-lost", 4, 4, {0, 2}),
    ("diverged-multi", 93, 0, set()),
    ("healthy", 0, 0, set()),
)


def answers(capture: str) -> Results:
    return audit_whole(FIXTURES / capture)


@pytest.mark.parametrize(("capture", "records", "committed", "brokers"), LOSSES, ids=[loss[0] for loss in LOSSES])
def test_every_text_has_the_same_number(capture: str, records: int, committed: int, brokers: set[int]) -> None:
    found = answers(capture)
    verdict = build_verdict(found, "high")
    rows = found.rows("partitions")
    assert sum(row["lost_records"] or 0 for row in rows) == records
    assert sum(row["lost_committed"] or 0 for row in rows) == committed

    headline = build_answer(found, verdict).headline
    told = re.match(r"([\d,]+) (committed )?records?\b", headline)
    assert (int(told[1]) if told else 0) == (committed or records), headline
    assert bool(told and told[2]) == (committed > 0)

    metrics = dict(line.rsplit(" ", 1) for line in render_metrics(found, verdict, "").splitlines() if line[0] != "#")
    assert metrics["replica_audit_lost_records"] == str(records)
    assert metrics["replica_audit_lost_committed_records"] == str(committed)

    suites = ElementTree.fromstring(render_junit(found, verdict))
    lines = re.findall(r"lost_records (\d+), lost_committed (\d+)", "\n".join(suites.itertext()))
    assert (sum(int(one) for one, _ in lines), sum(int(other) for _, other in lines)) == (records, committed)

    markdown = render_markdown(found, verdict)
    cells = [line.split("|")[5:7] for line in markdown.splitlines() if line.startswith("| `")]
    assert tuple(
        sum(int(cell[column].split()[0]) for cell in cells if cell[column].strip() != "-") for column in (0, 1)
    ) == (
        records,
        committed,
    )

    overview = build_overview(found, worst_partitions(found), None)
    for column, name in (("lost", "lost_records"), ("lost_committed", "lost_committed")):
        assert overview[column] == encode_column([getattr(row, name) for row in worst_partitions(found)])

    held = Counter()
    for row in found.rows("replicas"):
        held[row["broker_id"]] += row["lost_committed_held"] or 0
    assert +held == dict.fromkeys(brokers, committed)


@pytest.mark.parametrize(("capture", "records", "committed", "brokers"), LOSSES, ids=[loss[0] for loss in LOSSES])
def test_the_terminal_adds_up_to_the_headline(capture: str, records: int, committed: int, brokers: set[int]) -> None:
    text = render_summary(answers(capture))
    table = text[text.index("TOPIC") :].split("\n\n")[0]
    assert sum(int(number) for number in re.findall(r"\((\d+) (?:likely )?committed\)", table)) == committed


def test_the_only_partition_with_a_loss_is_not_summed_up() -> None:
    found = audit_whole(SAMPLES / "zombie")
    text = render_markdown(found, build_verdict(found, "high"))
    assert "10 records at offsets 40 to 49 exist only on broker 2" in text and "In all" not in text


@pytest.mark.parametrize(
    ("sample", "records", "likely"), [("kip279-1-before", 9, True), ("last-replica-standing", 7, False)]
)
def test_every_table_says_of_a_loss_that_it_is_likely(sample: str, records: int, likely: bool) -> None:
    found = audit_whole(SAMPLES / sample)
    verdict = build_verdict(found, "high")
    assert f"{records} ({records} {'likely ' if likely else ''}committed)" in render_summary(found)
    told = f"{records} likely" if likely else f"{records}"
    assert f"| {records} | {told} |" in render_markdown(found, verdict)
    assert f"lost_records {records}, lost_committed {told}\n" in render_junit(found, verdict)
    overview = build_overview(found, worst_partitions(found), None)
    assert overview["likely"] == encode_column([likely for _ in found.partitions])

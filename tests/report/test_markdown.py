"""summary.md: short, complete, and nothing in it is taken for markup that came from the snapshot."""

from __future__ import annotations

import pytest
from tests.support.report_rows import AUDIT, finding, partition, results, row
from tests.support.samples import SAMPLES

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.markdown import FINDING_LIMIT, PARTITION_LIMIT, code_span, escape, render_markdown
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_one


def markdown(found: Results) -> str:
    return render_markdown(found, build_verdict(found, "high"))


def html(text: str) -> str:
    """HTML that a Markdown engine makes of it (mistune comes with the quality gate's packages)."""
    mistune = pytest.importorskip("mistune")
    return mistune.create_markdown(plugins=["table"])(text)


def test_the_answer_comes_first_then_what_to_do_then_the_table() -> None:
    found = audit_one(str(SAMPLES / "last-replica-standing"), TopicPartition("orders", 0), Settings())
    text = markdown(found)
    assert text.splitlines()[0] == (
        "## ❌ 7 committed records are missing from the leader in the only partition; broker 2 still has them."
    )
    told = "- `orders-0`: 7 committed records at offsets 93 to 99 are not on the leader, broker 1; "
    told += "broker 2 still has them."
    assert told in text.splitlines()
    order = [
        text.index(part)
        for part in (
            told,
            "**Do not start broker 2 until its log directory is copied**: it holds 7 committed records",
            "2. **orders-0**: Elect broker 2. Broker 2 loses nothing; broker 1 would lose 7 committed records.",
            "**What to do next**",
            "<details><summary>7 more steps of the plan, with commands</summary>",
            "- Step 2: Stop broker 1 with SIGTERM",
            "   kafka-leader-election.sh --bootstrap-server HOST:PORT --election-type unclean",
            "| partition |",
            "<details><summary>4 new findings",
            "`CRITICAL: 1 partition",
        )
    ]
    assert order == sorted(order)
    rendered = html(text)
    assert rendered.count("<tr>") == 2 and rendered.count("<table>") == 1


def test_long_audits_are_cut_and_say_by_how_much() -> None:
    partitions = [partition("orders", number, "LAGGING") for number in range(PARTITION_LIMIT + 7)] + [partition("calm")]
    findings = [finding("REP-UNDER-REPLICATED", "low", "orders", number) for number in range(FINDING_LIMIT + 3)]
    text = markdown(results(partitions, findings))
    assert "and 7 more, 1 partition CONSISTENT" in text and "and 3 more" in text
    assert len(text) < 10_000


def test_names_and_messages_are_text() -> None:
    name = "a|b`c`*d*_e_<img src=x>"
    found = results(
        [partition(name, 0, "COMMITTED_LOSS")],
        [
            finding(
                "HWM-LOSS",
                "critical",
                name,
                0,
                message="see @all #12 <b>x</b> https://example.org [a](b) *x* ~y~ $z$ | w",
            )
        ],
    )
    rendered = html(markdown(found))
    assert not any(tag in rendered for tag in ("<img", "<b>x", "<em>", "<a "))
    assert "@all" not in rendered.replace("<code>@all</code>", "")
    assert rendered.count("<tr>") == 2 and rendered.count("<td") == 7


@pytest.mark.parametrize(
    ("value", "span"), [("a", "`a`"), ("a`b", "``a`b``"), ("`a", "`` `a ``"), (None, "`-`"), ("", "`  `")]
)
def test_code_spans_have_a_fence_that_fits(value: str | None, span: str) -> None:
    assert code_span(value) == span


def test_words_that_would_be_links_are_code_and_special_characters_escaped() -> None:
    assert escape("by @me in a_b: [1, 2)") == "by `@me` in a\\_b: \\[1, 2)"


def test_a_calm_audit_and_one_of_nothing_are_one_screen() -> None:
    calm = markdown(results([partition(), partition("b")]))
    assert calm.startswith("## ✅ All is well: both partitions are consistent.") and len(calm.splitlines()) < 8
    assert markdown(Results(AUDIT)).startswith("## ❓ No partition was found")


def test_records_that_two_brokers_hold_are_counted_once() -> None:
    place = {"topic": "orders", "partition": 0}
    runs = [
        row("divergences", **place, broker_id=b, reference_id=1, start_offset=5, end_offset=6, code="DIV-EPOCH",
            record_count=1, committed=True, lost_records=1, lost_committed=1)
        for b in (2, 3)
    ]  # fmt: skip
    replicas = [
        row("replicas", **place, broker_id=b, role="compared", log_dir=f"broker-{b}", clean_shutdown=True,
            lost_held=1, lost_committed_held=1)
        for b in (2, 3)
    ]  # fmt: skip
    cuts = [row("truncations", **place, broker_id=b, protocol="fetch", truncate_to=5) for b in (2, 3)]
    lost = partition(verdict="COMMITTED_LOSS", lost_records=1, lost_committed=1)
    text = markdown(results([lost], divergences=runs, replicas=replicas, truncations=cuts))
    assert "1 committed record is missing from the leader in the only partition; brokers 2 and 3 still have it." in text
    assert "1 committed record at offset 5 is not on the leader, broker 1; brokers 2 and 3 still have it." in text
    assert (
        "**Do not start broker 2 or 3 until the log directory of one of them is copied**: each holds the same 1" in text
    )

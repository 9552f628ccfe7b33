"""One fact is told once: findings with one code on several brokers, and several codes about the same records."""

from __future__ import annotations

from tests.support.report_rows import finding, objects
from tests.support.samples import SAMPLES

from replica_audit.config import Settings
from replica_audit.model import OffsetRange, TopicPartition
from replica_audit.report.facts.finding_groups import group_facts
from replica_audit.report.finding_text import render_facts, render_proven_facts
from replica_audit.runner.in_process import audit_one


def told(findings):
    return [
        (fact.head.code, fact.brokers, fact.ranges, [row.code for row in fact.other]) for fact in group_facts(findings)
    ]


def test_one_code_on_seven_brokers_is_one_fact():
    rows = objects("findings", [finding("EPO-CACHE-MISSING", "high", broker_id=broker) for broker in range(7)])
    assert told(rows) == [("EPO-CACHE-MISSING", tuple(range(7)), (), [])]


def test_loss_divergence_and_truncation_of_the_same_records_are_one_fact():
    found = audit_one(str(SAMPLES / "diverged-unclean"), TopicPartition("ledger", 0), Settings()).findings
    facts = told(found)
    assert sum(len(fact.same) + len(fact.other) for fact in group_facts(found)) == len(found)
    assert facts[0] == ("HWM-LOSS", (0,), (OffsetRange(34, 79),), ["TRN-BELOW-HW", "DIV-EPOCH", "DIV-EPOCH"])
    assert len(facts) < len(found) and "REP-UNDER-REPLICATED" in [code for code, *_ in facts]


def test_what_differs_in_place_status_or_records_is_told_apart():
    rows = [
        finding("DIV-EPOCH", "high", broker_id=1, start_offset=0, end_offset=5),
        finding("HWM-LOSS", "critical", broker_id=1, start_offset=20, end_offset=30),
        finding("HWM-LOSS", "critical", broker_id=1, start_offset=20, end_offset=30, status="resolved"),
        finding("DIV-EPOCH", "high", number=1, broker_id=1, start_offset=0, end_offset=5),
        finding("DIV-CORRUPT", "high", broker_id=2, start_offset=20, end_offset=30),
        finding("LOG-CRC", "high", broker_id=1, start_offset=20, end_offset=30),
    ]
    rows = objects("findings", rows)
    assert len(group_facts(rows)) == 6
    assert group_facts(rows)[-1].head.status == "resolved"


def test_a_later_finding_joins_what_was_two():
    rows = [
        finding("TRN-BELOW-HW", "critical", broker_id=1, start_offset=5, end_offset=9),
        finding("DIV-EPOCH", "high", broker_id=2, start_offset=5, end_offset=9),
        finding("DIV-EPOCH", "high", broker_id=1, start_offset=5, end_offset=9),
        finding("TRN-HW-FALLBACK", "low", broker_id=2, start_offset=3, end_offset=None),
    ]
    assert told(objects("findings", rows)) == [
        ("TRN-BELOW-HW", (1,), (OffsetRange(5, 9),), ["DIV-EPOCH", "DIV-EPOCH", "TRN-HW-FALLBACK"])
    ]


def test_a_terminal_tells_a_fact_once_and_names_its_brokers():
    rows = [
        finding("EPO-CACHE-MISSING", "high", broker_id=broker, message=f"broker {broker} has no epochs")
        for broker in range(7)
    ]
    lines = render_facts(objects("findings", rows), 20)
    assert lines == [
        "high      EPO-CACHE-MISSING orders-0 brokers 0, 1, 2, 3, 4, 5 and 6",
        "          broker 0 has no epochs",
        "          broker 1 has no epochs",
        "          and 5 more like these",
    ]
    assert (
        render_facts(objects("findings", [*rows, finding("REP-LAG", "info")]), 1)[-1]
        == "and 1 more (--format json has all)"
    )


def test_a_terminal_names_the_other_codes_of_a_fact_and_whose_they_are():
    rows = [
        finding("HWM-LOSS", "critical", broker_id=broker, start_offset=5, end_offset=9, message="lost")
        for broker in (1, 2)
    ] + [
        finding("DIV-EPOCH", "medium", broker_id=1, start_offset=5, end_offset=9),
        finding("TRN-BELOW-HW", "critical", broker_id=2, start_offset=5, end_offset=9, confidence="likely"),
        finding("DIV-EPOCH", "medium", broker_id=2, start_offset=5, end_offset=9),
    ]
    assert render_facts(objects("findings", rows), 20) == [
        "critical  HWM-LOSS orders-0 brokers 1 and 2 [5, 9)",
        "          lost",
        "          same records: TRN-BELOW-HW (broker 2) and DIV-EPOCH",
    ]


def test_of_one_partition_every_finding_is_told_with_its_evidence():
    found = audit_one(str(SAMPLES / "diverged-unclean"), TopicPartition("ledger", 0), Settings()).findings
    text = "\n".join(render_proven_facts(found, 500))
    words = " ".join(text.split())
    assert all(" ".join(row.message.split()) in words and row.code in text for row in found)
    assert sum(line.startswith("  critical  HWM-LOSS") for line in text.splitlines()) == 1
    assert text.count("- ") >= sum(len(row.evidence) for row in found)
    few = render_proven_facts(found, 2)
    assert few[-1] == f"  and {len(found) - 2} more (--format json has all)"

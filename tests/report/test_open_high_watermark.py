"""A high watermark that no log end bounds (`hw_upper` null) goes through every report."""

from __future__ import annotations

import json

import pytest
from tests.support.audit_json_text import audit_json_text
from tests.support.fixtures import ATTACKS

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.quality.quality_facts import find_facts
from replica_audit.report.facts.by_partition import rows_by_partition
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.junit import render_junit
from replica_audit.report.layout import render_interval
from replica_audit.report.markdown import render_markdown
from replica_audit.report.metrics import render_metrics
from replica_audit.report.page.document import render_page
from replica_audit.report.partition_story import tell_story
from replica_audit.report.sentences import plain_text
from replica_audit.report.show_text import render_partition, render_summary
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_one

#: The listing names a leader that has no readable files here and was alone in the ISR.
SNAPSHOT = ATTACKS / "04-leader-has-no-files" / "describe"


@pytest.fixture(scope="module")
def found() -> Results:
    return audit_one(str(SNAPSHOT), TopicPartition("t", 0), Settings())


def test_the_answer_is_a_lower_bound_only(found):
    (mark,), (place,) = found.rows("high_watermarks"), found.rows("partitions")
    assert (mark["hw_lower"], mark["hw_upper"], mark["proven_lower"]) == (30, None, 30)
    assert (mark["exact"], mark["method"], mark["limiting_broker_id"]) == (False, "interval", None)
    assert (place["hw_lower"], place["hw_upper"]) == (30, None)
    assert (
        "no log end bounds it" in mark["upper_evidence"]
        and "no usable log of broker 3 is here" in mark["upper_evidence"]
    )
    assert json.loads(audit_json_text(found))["high_watermarks"][0]["hw_upper"] is None


def test_the_terminal_the_story_and_the_summaries_say_at_least(found):
    ((place, rows),) = rows_by_partition(found)
    told = [plain_text(sentence) for sentence in tell_story(place, rows, "fetch")]
    assert any(sentence.startswith("The high watermark is at least 30") for sentence in told)
    verdict = build_verdict(found, "high")
    assert "at least 30, not exact, leader's log end -," in render_partition(found)
    assert "leader 3, compared with 1, leader epoch 2" in " ".join(render_partition(found).split())
    for text in (render_summary(found), render_markdown(found, verdict), render_page(found, verdict)):
        assert "at least 30" in text
    assert "None" not in render_metrics(found, verdict, "") + render_junit(found, verdict)


def test_quality_does_not_ask_how_wide_it_is(found):
    facts = find_facts(found, {})
    (place,) = facts.partition_facts
    assert (place.hw_lower, place.hw_upper, place.hw_width) == (30, None, None)
    assert {row.isr_shortfall for row in facts.replica_facts} == {None}


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [(30, None, "at least 30"), (30, 30, "30"), (30, 31, "[30, 31]"), (None, None, "-"), (0, None, "at least 0")],
)
def test_an_interval_in_words(lower, upper, text):
    assert render_interval(lower, upper) == text

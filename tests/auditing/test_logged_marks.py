"""High watermarks in leaders' own lines: each condition under which one counts, once for and once against."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.made_cases import LINEAGE, case, leadership, log

from replica_audit.auditing.leadership.broker_log_evidence import of_present_topic, place, tighten_by_logs
from replica_audit.auditing.leadership.high_watermark_bounds import HighWatermark
from replica_audit.snapshot.broker_logs import BrokerLogEvent

MARK = HighWatermark(10, 40, 10, 10, "interval", "proof", "lower", "upper", 2, True)
#: Broker 1 begins epoch 2 where the reference has it begin, at 20.
LED = BrokerLogEvent(
    "orders", 0, 1, "state-change.log", 3, "starts", 3, None,
    leader_epoch=2, partition_epoch=2, offset=20, high_watermark=15, leads=True,
)  # fmt: skip


def tightened(*events: BrokerLogEvent, mark: HighWatermark = MARK, **known: Any) -> HighWatermark:
    return tighten_by_logs(mark, case(log(1, *LINEAGE), **known).reference, events)


@pytest.mark.parametrize(
    ("changes", "lower"),
    [
        ({}, 15),
        ({"high_watermark": 20}, 20),
        # A leader has no mark past its end.
        ({"high_watermark": 21}, 10),
        ({"high_watermark": None}, 10),
        # Below what is known already.
        ({"high_watermark": 5}, 10),
        ({"high_watermark": 10}, 10),
        # A follower, another start, another epoch.
        ({"leads": False}, 10),
        ({"offset": 21}, 10),
        ({"leader_epoch": 3}, 10),
    ],
)
def test_a_leaders_mark_counts_where_the_reference_has_its_epoch_begin_there(
    changes: dict[str, Any], lower: int
) -> None:
    found = tightened(LED._replace(**changes))
    if lower == 10:
        assert found == MARK
    else:
        text = f"high watermark {lower} with which broker 1 began to lead in epoch 2 at 20 (state-change.log line 3)"
        assert found == MARK._replace(
            hw_lower=lower, proven_lower=lower, reached=lower, proof=text, lower_evidence=text
        )


@pytest.mark.parametrize(
    ("mark", "interval"),
    [
        ({}, (15, 40, 15, "interval")),
        ({"reached": 30}, (15, 40, 30, "interval")),
        ({"hw_upper": None}, (15, None, 15, "interval")),
        ({"hw_upper": 15}, (15, 15, 15, "bounds_meet")),
        ({"hw_upper": 14}, (10, 14, 10, "interval")),
        ({"method": "capture_skew"}, (10, 40, 10, "capture_skew")),
        ({"lowest_suffix": (2, 8)}, (10, 40, 10, "interval")),
    ],
)
def test_it_raises_the_lower_bound_within_the_interval(mark: dict[str, Any], interval: tuple) -> None:
    found = tightened(LED, mark=MARK._replace(**mark))
    assert (found.hw_lower, found.hw_upper, found.reached, found.method) == interval


def test_the_greatest_counts_and_none_if_the_logs_are_later_than_who_is_said_to_lead() -> None:
    greater = LED._replace(broker_id=0, high_watermark=18)
    assert tightened(LED, greater, LED).hw_lower == 18
    assert tightened(LED, outdated=leadership()) == MARK


ONE, OTHER = "one", "other"


def event(line: int, clock: int | None, path: str = "a.log", topic_id: str | None = None) -> BrokerLogEvent:
    return BrokerLogEvent("orders", 0, 1, path, line, "cut", clock, None, topic_id=topic_id)


@pytest.mark.parametrize(
    ("topic_id", "events", "lines"),
    [
        # By time, those without one first; then by file and line.
        (ONE, [event(1, 9), event(2, 0), event(3, None)], [3, 2, 1]),
        (ONE, [event(1, 5, "b.log"), event(3, 5), event(2, 5)], [2, 3, 1]),
        # Another topic had the name before.
        (ONE, [event(1, 1), event(2, 2, topic_id=OTHER), event(3, 3), event(4, 4, topic_id=ONE)], [3, 4]),
        (ONE, [event(1, 1, topic_id=OTHER), event(2, 2), event(3, 3, topic_id=OTHER), event(4, 4)], [4]),
        (ONE, [event(1, 1, topic_id=ONE), event(2, 2)], [1, 2]),
        (None, [event(1, 1, topic_id=OTHER), event(2, 2)], [1, 2]),
    ],
)
def test_lines_of_the_present_topic_in_order(
    topic_id: str | None, events: list[BrokerLogEvent], lines: list[int]
) -> None:
    assert [one.line for one in of_present_topic(events, topic_id)] == lines


def test_the_place_of_a_line() -> None:
    assert place(LED._replace(time="10:00")) == "state-change.log line 3, 10:00"

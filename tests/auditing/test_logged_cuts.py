"""Truncations in lines of brokers' own logs: one for each line of the table of `logged_cuts`."""

from __future__ import annotations

from typing import Any

import pytest

from replica_audit.auditing.leadership.broker_log_evidence import logged_cuts
from replica_audit.snapshot.broker_logs import BrokerLogEvent


def line(
    kind: str, number: int, offset: int | None = None, broker_id: int | None = 1, path: str = "server.log", **said: Any
):
    return BrokerLogEvent("orders", 0, broker_id, path, number, kind, number, None, offset=offset, **said)


LOADED = line("loaded", 1, 60)
CUT = line("cut", 3, 40)
BELOW = line("cut_below_mark", 3, 40, high_watermark=50)
ASKED = line("asked_to_cut", 2, 40, leader_epoch=3)


def cuts(*events: BrokerLogEvent) -> list[tuple[int | None, int, int | None, BrokerLogEvent | None]]:
    return [(one.event.line, one.truncate_to, one.high_watermark, one.asked) for one in logged_cuts(events)]


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([LOADED, ASKED, CUT], [(3, 40, None, ASKED)]),
        ([LOADED, line("asked_to_cut", 2, 41), CUT], [(3, 40, None, None)]),
        ([LOADED, BELOW, line("cut", 4, 40)], [(3, 40, 50, None)]),
        ([LOADED, BELOW, line("cut", 4, 39)], [(3, 40, 50, None), (4, 39, None, None)]),
        ([LOADED, CUT, line("cut_below_mark", 4, 40, high_watermark=50)], [(3, 40, None, None), (4, 40, 50, None)]),
        ([LOADED, CUT, line("cut", 4, 40)], [(3, 40, None, None), (4, 40, None, None)]),
        ([LOADED, CUT, line("no_cut", 5, 40)], []),
        ([LOADED, CUT, line("no_cut", 6, 40)], [(3, 40, None, None)]),
        ([LOADED, CUT, line("no_cut", 5, 41)], [(3, 40, None, None)]),
        ([LOADED, CUT, line("no_cut", 5, 40, path="server.log.1")], [(3, 40, None, None)]),
        ([LOADED, CUT, line("mark_went_back", 4, 40, high_watermark=55)], [(3, 40, 55, None)]),
        ([LOADED, BELOW, line("mark_went_back", 4, 40, high_watermark=45)], [(3, 40, 50, None)]),
        ([LOADED, CUT, line("mark_went_back", 4, 41, high_watermark=55)], [(3, 40, None, None)]),
        ([LOADED, line("cut", 3)], []),
    ],
)
def test_the_effect_of_a_line_by_the_lines_before_it(events: list[BrokerLogEvent], found: list[tuple]) -> None:
    assert cuts(*events) == found


@pytest.mark.parametrize(
    ("before", "is_cut"),
    [
        ([], False),
        ([line("loaded", 1, 0)], False),
        ([LOADED], True),
        ([line("starts", 1, 0, high_watermark=5)], True),
        ([line("isr", 1)], True),
        ([line("elected", 1)], True),
    ],
)
def test_a_log_that_never_had_anything_is_not_cut(before: list[BrokerLogEvent], is_cut: bool) -> None:
    assert bool(cuts(*before, line("cut", 3, 0))) == is_cut


def test_cuts_are_by_broker_those_of_an_unknown_one_first() -> None:
    events = [
        line(kind, number, offset, broker_id=broker)
        for number, (kind, offset) in enumerate((("loaded", 60), ("cut", 40)))
        for broker in (2, None, 1)
    ]
    assert [one.event.broker_id for one in logged_cuts(events)] == [None, 1, 2]

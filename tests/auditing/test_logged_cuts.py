"""Truncations in lines of brokers' own logs: one for each line of the table of `logged_cuts`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.made_cases import LINEAGE, case, log

from replica_audit.auditing.leadership.broker_log_evidence import (
    LoggedCut,
    LoggedElection,
    led_after,
    logged_cuts,
    losing_cuts,
)
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
        ([LOADED, line("asked_to_cut", 2, 39), CUT], [(3, 40, None, None)]),
        ([LOADED, BELOW, line("cut", 4, 40)], [(3, 40, 50, None)]),
        ([LOADED, BELOW, line("cut", 4, 39)], [(3, 40, 50, None), (4, 39, None, None)]),
        ([LOADED, CUT, line("cut_below_mark", 4, 40, high_watermark=50)], [(3, 40, None, None), (4, 40, 50, None)]),
        ([LOADED, BELOW, BELOW._replace(line=4)], [(3, 40, 50, None), (4, 40, 50, None)]),
        ([LOADED, line("cut", 2, 50), BELOW, line("cut", 4, 40)], [(2, 50, None, None), (3, 40, 50, None)]),
        ([LOADED, CUT, line("cut", 4, 40)], [(3, 40, None, None), (4, 40, None, None)]),
        ([LOADED, CUT, line("no_cut", 5, 40)], []),
        ([LOADED, CUT, line("no_cut", 6, 40)], [(3, 40, None, None)]),
        ([LOADED, CUT, line("no_cut", 5, 41)], [(3, 40, None, None)]),
        ([LOADED, CUT, line("no_cut", 5, 40, path="server.log.1")], [(3, 40, None, None)]),
        ([LOADED, CUT, line("no_cut", 5, 40, path="a.log")], [(3, 40, None, None)]),
        ([LOADED, CUT, line("starts", 5, 40, high_watermark=55)], [(3, 40, None, None)]),
        ([LOADED, CUT, line("mark_went_back", 4, 40, high_watermark=55)], [(3, 40, 55, None)]),
        ([LOADED, BELOW, line("mark_went_back", 4, 40, high_watermark=45)], [(3, 40, 50, None)]),
        ([LOADED, CUT, line("mark_went_back", 4, 41, high_watermark=55)], [(3, 40, None, None)]),
        (
            [LOADED, line("cut", 2, 50), CUT, line("mark_went_back", 4, 40, high_watermark=55)],
            [(2, 50, None, None), (3, 40, 55, None)],
        ),
        ([LOADED, CUT, line("loaded", 4, 40, high_watermark=55)], [(3, 40, None, None)]),
        ([LOADED, line("cut", 2, 50), CUT, line("no_cut", 4, 40)], [(2, 50, None, None)]),
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
        for broker in (16, None, 9)
    ]
    assert [one.event.broker_id for one in logged_cuts(events)] == [None, 9, 16]


@pytest.mark.parametrize(
    ("offset", "mark", "loses"),
    [(20, 21, True), (20, 20, False), (20, 19, False), (20, None, False), (19, 21, False), (0, 21, False)],
)
def test_a_cut_below_the_mark_loses_where_the_reference_goes_on_in_a_later_epoch(
    offset: int, mark: int | None, loses: bool
) -> None:
    reference = case(log(2, *LINEAGE)).reference
    found = losing_cuts([LOADED, line("cut", 3, offset, high_watermark=mark)], reference)
    assert [one.truncate_to for one in found] == [offset] * loses


def test_without_an_entry_nothing_shows_where_the_reference_goes_on() -> None:
    assert not [*losing_cuts([LOADED, BELOW], case(log(2)).reference)]


OF_1, OF_2 = (line("isr", 4, isr=isr) for isr in ((1, 2), (2,)))
LED, LED_AGAIN = (line("elected", number, leader_id=1) for number in (6, 8))


@pytest.mark.parametrize(
    ("lines", "elected", "found"),
    [
        ([CUT, LED], [(1, LED)], LED),
        ([CUT, LED], [(0, LED)], None),
        ([CUT, LED], [(2, LED)], None),
        ([LED, CUT], [(1, LED)], None),
        ([LED, CUT, LED_AGAIN], [(1, LED), (1, LED_AGAIN)], LED_AGAIN),
        # It joined the ISR in between, or before, or after; another one did; nobody is named.
        ([CUT, OF_1, LED], [(1, LED)], None),
        ([OF_1, CUT, LED, OF_1], [(1, LED)], LED),
        ([CUT, OF_2, LED], [(1, LED)], LED),
        ([CUT, line("isr", 4), LED], [(1, LED)], LED),
        ([CUT, line("starts", 4, isr=(1, 2)), line("elected", 5, isr=(1, 2)), LED], [(1, LED)], LED),
        ([CUT, OF_1, LED, LED_AGAIN], [(1, LED), (1, LED_AGAIN)], None),
    ],
)
def test_who_led_out_of_sync_after_its_log_was_cut(lines: list, elected: list[tuple], found: Any) -> None:
    elections = [LoggedElection(one, broker, None, None, None, said=True, witnessed=True) for broker, one in elected]
    after = led_after(LoggedCut(CUT, 40, None, None), elections, lines)
    assert (after and after.event) is found

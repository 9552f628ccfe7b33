"""Unclean elections in lines of brokers' own logs: every line of the table of `unclean_elections`."""

from __future__ import annotations

from typing import Any

import pytest

from replica_audit.auditing.leadership.broker_log_evidence import unclean_elections
from replica_audit.snapshot.broker_logs import BrokerLogEvent


def line(kind: str, number: int, broker_id: int | None = 9, **said: Any) -> BrokerLogEvent:
    return BrokerLogEvent("orders", 0, broker_id, "controller.log", number, kind, number, None, **said)


def elected(number: int, epoch: int | None, leader: int, isr: tuple[int, ...] | None = None) -> BrokerLogEvent:
    return line("elected", number, leader_id=leader, leader_epoch=epoch, isr=isr)


def said(number: int, leader: int | None) -> BrokerLogEvent:
    return line("elected_uncleanly", number, leader_id=leader)


FIRST = elected(1, 4, 1, (1, 2))


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        # Said, of the next election of that replica, of none, and of nobody.
        ([FIRST, said(2, 3), elected(3, 5, 2), elected(4, 6, 3)], [(3, 6, 2, None, True)]),
        ([FIRST, said(2, 3)], [(3, None, 1, (1, 2), True)]),
        ([FIRST, said(2, None)], []),
        # Who is in sync: by the leader's lines, and by no other broker's.
        ([FIRST, line("isr", 2, 1, isr=(1, 3)), elected(3, 5, 2)], [(2, 5, 1, (1, 3), False)]),
        ([FIRST, line("isr", 2, 2, isr=(1, 3)), elected(3, 5, 2)], []),
        ([FIRST, line("isr", 2, 0, isr=(1, 3)), elected(3, 5, 2)], []),
        ([FIRST, elected(2, 5, -1), line("isr", 3, None, isr=(1, 3)), elected(4, 6, 2)], []),
        # Without an epoch, or of an earlier one.
        ([FIRST, elected(2, None, 2), elected(3, 3, 2), elected(4, 5, 3)], [(3, 5, 1, (1, 2), False)]),
        ([FIRST, elected(2, None, 3), elected(3, 3, 3)], []),
        # The same epoch again, and nobody: the ISR is what `elected` says last.
        ([FIRST, elected(2, 4, 1, (1, 3)), elected(3, 5, 2)], [(2, 5, 1, (1, 3), False)]),
        ([FIRST, line("starts", 2, 1, leads=True, leader_epoch=4, isr=(1, 3)), elected(3, 5, 2)], []),
        ([FIRST, elected(2, 5, -1, (1,)), elected(3, 6, 2)], [(2, 6, None, (1,), False)]),
        ([FIRST, elected(2, 5, -1), elected(3, 6, 2)], []),
        (
            [*(elected(number, 4, 0, (0, 2)) for number in (1, 2)), line("isr", 3, 0, isr=(0, 3)), elected(4, 5, 2)],
            [(2, 5, 0, (0, 3), False)],
        ),
        # Not in sync in the next epoch, by the controller's line and by the broker's own; a later epoch; in sync; not known.
        ([FIRST, elected(2, 5, 3)], [(3, 5, 1, (1, 2), False)]),
        ([FIRST, elected(2, 5, 3, ())], [(3, 5, 1, (1, 2), False)]),
        ([FIRST, elected(2, 5, 0)], [(0, 5, 1, (1, 2), False)]),
        ([elected(1, 0, 1, (1, 2)), elected(2, 1, 3)], [(3, 1, 1, (1, 2), False)]),
        ([FIRST, line("starts", 2, 3, leads=True, leader_epoch=5)], [(3, 5, 1, (1, 2), False)]),
        ([FIRST, line("starts", 2, 3, leads=False, leader_epoch=5)], []),
        # Elected uncleanly it would be alone in the ISR: a reassignment ended with the election of who joined last (KAFKA-19212).
        ([FIRST, line("starts", 2, 3, leads=True, leader_epoch=5, isr=(2, 3))], []),
        ([FIRST, elected(2, 5, 3, (1, 2, 3))], []),
        ([FIRST, line("starts", 2, 3, leads=True, leader_epoch=5, isr=(3,))], [(3, 5, 1, (1, 2), False)]),
        ([FIRST, elected(2, 6, 3)], []),
        ([FIRST, elected(2, 5, 2)], []),
        ([elected(1, 4, 1), elected(2, 5, 3)], []),
        ([elected(1, 0, 3, (3,))], []),
    ],
)
def test_an_election_is_unclean_by_the_lines_before_it(lines: list[BrokerLogEvent], found: list[tuple]) -> None:
    elections = unclean_elections(lines)
    told = [(one.leader_id, one.leader_epoch, one.previous_leader_id, one.previous_isr, one.said) for one in elections]
    assert told == found


@pytest.mark.parametrize(
    ("lines", "is_witnessed"),
    [
        ([FIRST, elected(2, 5, 3)], False),
        # Its own lines as the controller do not.
        ([FIRST._replace(broker_id=1), elected(2, 5, 3)], False),
        ([FIRST, line("isr", 2, 1, isr=(1, 2)), elected(3, 5, 3)], True),
        ([FIRST, elected(2, 5, -1), elected(3, 6, 3)], True),
        ([FIRST, said(2, 3)], True),
    ],
)
def test_the_log_of_the_leader_before_would_show_the_isr_grow(lines: list[BrokerLogEvent], is_witnessed: bool) -> None:
    (one,) = unclean_elections(lines)
    assert one.witnessed == is_witnessed

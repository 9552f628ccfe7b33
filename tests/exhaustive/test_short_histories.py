"""A slice of what `make test-exhaustive` asks: states that a few events lead to, audited as snapshots, and judged by the model."""

from __future__ import annotations

from functools import cache

import pytest
from tests.exhaustive.asking import ask, narrate
from tests.exhaustive.partition import State
from tests.exhaustive.states import after, reachable, walks

#: Of the states of up to four events every so manieth.
STRIDE = 150


@cache
def states_of_four_events() -> list[State]:
    return reachable(4)


def wrong(states: list[State], quiesced: bool | None) -> str:
    """Wrong answers, in words."""
    found = ask((state, quiesced) for state in states)
    return "\n\n".join(narrate(failure) for failure in found.nearest.values())


@pytest.mark.parametrize("quiesced", [True, None], ids=["at rest", "not known to be at rest"])
def test_every_so_manieth_state_of_up_to_four_events_is_answered_rightly(quiesced):
    first = 0 if quiesced else STRIDE // 2
    states = states_of_four_events()[first::STRIDE]
    assert len(states) > 80
    assert not (told := wrong(states, quiesced)), told


@pytest.mark.parametrize("events", [5, 6, 7])
def test_random_histories_of_more_events_are_answered_rightly(events):
    assert not (told := wrong(list(walks(events, events, 70)), events % 2 == 1 or None)), told


#: Histories that were answered wrongly once, with min.insync.replicas and whether there are eligible leader replicas.
STORIES = {
    "a tail that the eligible replica never had": (
        2,
        True,
        ("write", "broker 0 is killed, broker 1 leads", "broker 2 stops", "broker 1 is killed", "broker 1 starts"),
    ),
    "a tail that a killed eligible replica may have had": (
        2,
        True,
        ("write", "broker 0 is killed, broker 1 leads", "broker 2 is killed", "broker 1 is killed", "broker 1 starts"),
    ),
    "the same beside a checkpoint past its end": (
        2,
        True,
        (
            *("write", "broker 0 stops, broker 1 leads", "broker 2 is killed"),
            *("broker 1 loses power and its log from 2 on", "broker 1 starts"),
        ),
    ),
    "a tail that was lost by an eligible replica, which led without it": (
        2,
        True,
        (
            *("write", "all catch up", "broker 0 is killed, broker 2 leads"),
            *("broker 2 loses power and its log from 4 on, broker 1 leads", "broker 1 is killed"),
            *("broker 2 starts", "broker 2 is elected uncleanly"),
        ),
    ),
    "the same without eligible replicas": (
        2,
        False,
        (
            *("write", "all catch up", "broker 0 is killed, broker 2 leads"),
            *("broker 2 loses power and its log from 4 on, broker 1 leads", "broker 1 is killed"),
            *("broker 2 starts", "broker 2 is elected uncleanly"),
        ),
    ),
    "a tail that was lost by a follower, which led without it": (
        2,
        False,
        (
            *("broker 1 is killed", "write", "all catch up", "broker 2 loses power and its log from 4 on"),
            *("broker 0 is killed", "broker 2 starts", "broker 2 is elected uncleanly"),
        ),
    ),
    "a tail that was left behind, brought back cleanly, committed and lost": (
        1,
        True,
        (
            *("write", "broker 2 fetches", "broker 0 is killed, broker 1 leads", "broker 1 is killed, broker 2 leads"),
            *("broker 2 loses power and its log from 4 on", "broker 2 starts"),
        ),
    ),
    "a tail of an older epoch below a log start that is the end": (
        1,
        False,
        (
            *("broker 1 loses power and its log from 2 on", "write", "broker 0 is killed, broker 2 leads"),
            *("broker 0 starts", "write", "DeleteRecords up to the high watermark", "checkpoints are written"),
        ),
    ),
}


@pytest.mark.parametrize("quiesced", [True, None], ids=["at rest", "not known to be at rest"])
@pytest.mark.parametrize("name", STORIES)
def test_histories_that_were_answered_wrongly_once(name, quiesced):
    assert not (told := wrong([after(*STORIES[name])], quiesced)), told

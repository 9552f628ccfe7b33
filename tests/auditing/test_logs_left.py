"""Logs on disks that their brokers left, of which the leader may lack records: each line of the table of `_may_be_lacked`, and each
condition of `logs_left`, once for and once against."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.histories import history
from tests.support.made_cases import leadership, log

from replica_audit.auditing.leadership.needed_replicas import logs_left
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts

Changes = list[dict[str, Any]]
BEFORE: dict[str, Any] = {"directories": ("1", "2", "3")}
#: Broker 2 has the partition on another disk; the states after it.
ANEW: dict[str, Any] = {"directories": ("1", "4", "3"), "begun_anew": (2,)}
THEN: dict[str, Any] = {"begun_anew": ()}
ALONE: dict[str, Any] = BEFORE | {"leader_id": 2, "isr": (2,)}
NOBODY: dict[str, Any] = {"leader_id": None}
TO_2: dict[str, Any] = THEN | {"leader_id": 2}
UNCLEAN_TO_2: dict[str, Any] = THEN | {"leader_id": 2, "isr": (2,), "recovering": True}
UNCLEAN_TO_3: dict[str, Any] = THEN | {"leader_id": 3, "isr": (3,), "recovering": True}
OUT: dict[str, Any] = THEN | {"isr": (1, 3)}
WITHOUT_3: dict[str, Any] = BEFORE | {"isr": (1, 2)}

#: The new log of broker 2, without any epoch of the former one, and with those in which that was led.
NEW, COPY = log(2, end=0), log(2, (0, 0), (1, 20))
OF_1, OF_3 = (log(broker, (0, 0)) for broker in (1, 3))


@pytest.mark.parametrize(
    ("changes", "copies", "lacked"),
    [
        # Nobody was elected since.
        ([ALONE, NOBODY | ANEW], [NEW], True),
        ([ALONE, NOBODY | ANEW], [COPY], False),
        ([ALONE, NOBODY | ANEW], [log(2, end=0, checkpoint_epochs=((1, 20),))], False),
        ([ALONE, NOBODY | ANEW], [log(2, (0, 0), (1, 20), checkpoint_epochs=())], False),
        ([ALONE, NOBODY | ANEW], [log(2, (0, 0))], True),
        ([ALONE, NOBODY | ANEW], [log(2, (2, 20))], True),
        ([ALONE | {"isr": (2, 3)}, NOBODY | ANEW], [NEW], False),
        ([ALONE | {"elr": (3,)}, NOBODY | ANEW], [NEW], False),
        ([BEFORE, ANEW], [NEW], False),
        # The first election is a clean one of the new log, which was in sync or eligible.
        ([BEFORE, ANEW, TO_2], [NEW], True),
        ([BEFORE | {"isr": (1,), "elr": (2,)}, ANEW, TO_2 | {"elr": ()}], [NEW], True),
        ([BEFORE, ANEW, TO_2], [log(2, (0, 0))], False),
        ([BEFORE | {"leader_id": 1, "isr": (1,), "elr": (2,)}, ANEW, TO_2 | {"elr": ()}], [log(2, (0, 0))], True),
        # Another one was elected cleanly, or uncleanly though one that is here had all and has not followed since.
        ([BEFORE, ANEW, THEN | {"leader_id": 3}], [NEW], False),
        ([BEFORE | {"leader_id": 3}, ANEW, THEN | {"leader_id": 1}], [NEW], False),
        ([BEFORE, ANEW, THEN | {"leader_id": 3}, {"leader_id": 2}], [NEW], False),
        ([WITHOUT_3, ANEW, UNCLEAN_TO_3], [NEW], True),
        ([WITHOUT_3, ANEW, UNCLEAN_TO_3], [NEW, OF_1], False),
        ([WITHOUT_3, ANEW, UNCLEAN_TO_3], [NEW, OF_3], True),
        ([WITHOUT_3, ANEW, UNCLEAN_TO_3, {"isr": (1, 3)}], [NEW, OF_1], True),
        ([WITHOUT_3, ANEW, UNCLEAN_TO_3, {"leader_id": 1}, {"isr": (3,)}], [NEW, OF_1], True),
        # The winner was the new log.
        ([WITHOUT_3, ANEW, OUT, UNCLEAN_TO_2], [NEW], True),
        ([WITHOUT_3, ANEW, OUT, UNCLEAN_TO_2], [log(2, (0, 0))], False),
        ([WITHOUT_3, ANEW, UNCLEAN_TO_3], [log(2, (0, 0))], True),
        ([BEFORE | {"leader_id": 3, "isr": (2, 3)}, ANEW, UNCLEAN_TO_3 | {"leader_id": 1, "isr": (1,)}], [COPY], True),
        # The new log has followed before.
        ([BEFORE, ANEW, OUT, {"isr": (1, 2, 3)}, UNCLEAN_TO_3], [NEW], False),
        ([BEFORE, ANEW, OUT, UNCLEAN_TO_2], [NEW], True),
        ([BEFORE, ANEW, OUT, UNCLEAN_TO_2], [NEW, OF_1], False),
        # It had followed before it was begun anew only, or has not left the ISR since.
        ([BEFORE | {"isr": (1, 3)}, {"isr": (1, 2, 3)}, ANEW, UNCLEAN_TO_3], [NEW], True),
        ([BEFORE, ANEW, THEN, UNCLEAN_TO_3], [NEW], True),
        # An election before the former log was led, or in the state in which it was.
        ([UNCLEAN_TO_3 | BEFORE, {"isr": (2, 3)}, ANEW], [NEW], False),
        ([UNCLEAN_TO_3 | BEFORE | {"isr": (2, 3)}, ANEW], [NEW], False),
        # It led on in the epoch, and so wrote it in the new log.
        ([ALONE, ANEW], [COPY], True),
        ([ALONE, ANEW | {"leader_id": 2}], [COPY], False),
        # It was not in sync; the former log is here, or is of another broker.
        ([BEFORE | {"isr": (1,)}, ANEW, UNCLEAN_TO_3], [NEW], True),
        ([ALONE, NOBODY | ANEW], [NEW, log(2, (0, 0), directory_id="2")], False),
        ([ALONE, NOBODY | ANEW], [NEW, log(3, (0, 0), directory_id="2")], True),
        ([ALONE, NOBODY | ANEW], [], True),
        ([ALONE, NOBODY | ANEW], [NEW, log(1, (0, 0), (1, 20))], True),
        ([ALONE | {"replicas": (3, 2, 1)}, NOBODY | ANEW], [NEW], True),
        ([ALONE | {"replicas": (2, 1, 3), "directories": ("2", "1", "3")}, NOBODY | ANEW], [NEW], True),
        ([ALONE, NOBODY | ANEW | {"begun_anew": (1, 2)}], [NEW, log(1, (0, 0), directory_id="1")], True),
    ],
)
def test_whether_the_leader_may_lack_what_a_log_has_that_its_broker_left(
    changes: Changes, copies: list[ReplicaFacts], lacked: bool
) -> None:
    states = history(*map(dict, changes))
    found = list(logs_left(leadership(history=states), copies))
    (anew,) = [one for one in states if one.begun_anew]
    assert found == [(2, "2", anew)] * lacked


def test_a_log_that_never_was_in_sync_has_nothing_that_the_leader_lacks() -> None:
    states = history({"isr": (1, 3), **BEFORE}, ANEW, UNCLEAN_TO_3)
    assert not [*logs_left(leadership(history=(states[0]._replace(isr=(1, 3)), *states[1:])), [NEW])]
    assert not [*logs_left(None, [NEW])]

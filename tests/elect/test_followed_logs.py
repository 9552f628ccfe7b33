"""Every line of the decision table of `follow`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.made_cases import case, log

from replica_audit.auditing.compare.distinct_records import RecordRange
from replica_audit.auditing.compare.remote_storage import RemoteHoles
from replica_audit.auditing.remote_facts import RemoteFacts
from replica_audit.elect.costs import follow
from replica_audit.elect.held_records import CommittedRange, Places, ReplicaRecords
from replica_audit.model import OffsetRange
from replica_audit.protocol.lineage import Lineage
from replica_audit.segments.batch_rows import NO_BATCHES

#: What the follower has: offsets 10 to 19 of epoch 0, proven committed.
RECORDS = CommittedRange(RecordRange((2, "d"), (0,), 10, 20, 10, 20, 0, exact=True), 20, 0)
HOLE = OffsetRange(10, 20)
#: Epochs of a candidate whose log begins at 20, before any that the follower has.
EARLIER = Lineage(((-1, 20),))
#: By the line of the table: facts of the candidate, holes in remote storage, the cut, and what the records are.
LINES: list[tuple[str, dict[str, Any], tuple[OffsetRange, ...], int, set[str]]] = [
    ("where nobody else has any, and it begins anew", {"local_start_offset": 30}, (HOLE,), 20, {"dropped"}),
    ("where nobody else has any, and it goes on", {"local_start_offset": 20}, (HOLE,), 20, {"held", "hidden"}),
    ("below the log start, where it never had them", {"log_start_offset": 20, "lineage": EARLIER}, (), 5, {"dropped"}),
    ("below the cut", {}, (), 20, {"held", "hidden"}),
    ("above the cut, below the candidate's log start", {"log_start_offset": 20}, (), 5, set()),
    ("above the cut, where a cleaner has been", {"compacted": True}, (), 5, set()),
    ("above the cut", {}, (), 5, {"dropped"}),
]


@pytest.mark.parametrize(("line", "facts", "holes", "cut", "are"), LINES, ids=[line for line, *_ in LINES])
def test_a_line_of_the_table(
    line: str, facts: dict[str, Any], holes: tuple[OffsetRange, ...], cut: int, are: set[str]
) -> None:
    candidate = replace(log(1, (0, 0)), **facts)
    made = replace(case(candidate), remote=RemoteFacts(holes=RemoteHoles(holes)))
    held = ReplicaRecords(made, log(2, (0, 0)), NO_BATCHES, frozenset(), (RECORDS,), Places.of(None, NO_BATCHES))
    found = follow(made, candidate, held, cut, may_have=False, is_doubtful=False)
    assert {name for name in ("held", "hidden", "dropped") if getattr(found, name)} == are
    assert all(getattr(found, name) == [RECORDS] for name in are)


def span(one: CommittedRange) -> tuple[int, int]:
    return one.piece.start_offset, one.piece.end_offset


SECOND = CommittedRange(RecordRange((2, "d"), (0,), 20, 30, 10, 25, 0, exact=True), 30, 0)
PAST_END = SECOND._replace(is_ahead=True)


@pytest.mark.parametrize(
    ("facts", "known", "cut", "held", "hidden", "dropped", "committed"),
    [
        # The candidate, what it follows with, the cut; what is held, hidden and dropped, and how much of that was committed.
        ({}, {}, 30, [(10, 20), (20, 30)], [(10, 20), (20, 30)], [], 0),
        ({}, {}, 20, [(10, 20)], [(10, 20)], [(20, 30)], 5),
        ({}, {}, 0, [], [], [(10, 20), (20, 30)], 15),
        # Of a batch that its log start goes through the rest is dropped, and above its local log start the rest is hidden.
        ({"log_start_offset": 14}, {}, 0, [], [], [(14, 20), (20, 30)], 15),
        ({"local_start_offset": 14}, {}, 30, [(10, 20), (20, 30)], [(14, 20), (20, 30)], [], 0),
        # A cleaner has been on either log; what its log did not reach it has not cleaned.
        ({"compacted": True}, {}, 30, [(10, 20), (20, 30)], [], [], 0),
        ({"compacted": True}, {}, 0, [], [], [], 15),
        ({"compacted": True, "log_end_offset": 29}, {}, 0, [], [], [(20, 30)], 15),
        ({"compacted": True, "lineage": Lineage(((0, 0), (1, 20)))}, {}, 0, [], [], [(20, 30)], 15),
        ({}, {"log": {"compacted": True}}, 30, [(10, 20), (20, 30)], [], [], 0),
        ({}, {"log": {"compacted": True}}, 0, [], [], [], 15),
        # Below the log start only what was never there is dropped, with all that is cut.
        ({"log_start_offset": 20, "lineage": EARLIER}, {}, 30, [(20, 30)], [(20, 30)], [(10, 20)], 10),
        ({"log_start_offset": 20, "lineage": EARLIER}, {}, 25, [(20, 25)], [(20, 25)], [(10, 20), (25, 30)], 10),
        (
            {"compacted": True, "starts": ((0, 25),), "log_start_offset": 0},
            {"second": SECOND._replace(leader_epoch=None)},
            0,
            [],
            [],
            [(10, 20), (20, 30)],
            15,
        ),
        # What nobody else has is dropped beside what is cut, if it is.
        ({"local_start_offset": 20}, {"holes": (HOLE,)}, 25, [(10, 20), (20, 25)], [(10, 20), (20, 25)], [(25, 30)], 0),
        ({"local_start_offset": 35}, {"holes": (HOLE,)}, 25, [(20, 25)], [], [(10, 20), (25, 30)], 10),
        # A leader that may have what lies past its end lacks nothing there.
        ({}, {"second": PAST_END, "may_have": True}, 30, [(10, 20), (20, 30)], [(10, 20)], [], 0),
        ({}, {"second": PAST_END}, 30, [(10, 20), (20, 30)], [(10, 20), (20, 30)], [], 0),
        ({}, {"second": PAST_END, "may_have": True}, 20, [(10, 20)], [(10, 20)], [], 5),
        ({}, {"second": PAST_END, "may_have": True, "is_doubtful": True}, 20, [(10, 20)], [(10, 20)], [(20, 30)], 5),
        # The candidate itself keeps what its own start does not cut.
        ({}, {"broker": 1}, 20, [], [], [(20, 30)], 5),
        ({"local_start_offset": 35}, {"broker": 1, "holes": (HOLE,)}, 25, [], [], [(25, 30)], 0),
    ],
)
def test_what_a_replica_keeps_and_loses(
    facts: dict[str, Any], known: dict[str, Any], cut: int, held: list, hidden: list, dropped: list, committed: int
) -> None:
    candidate = replace(
        log(1, *facts.get("starts", ((0, 0),))), **{one: facts[one] for one in facts if one != "starts"}
    )
    remote = RemoteFacts(holes=RemoteHoles(known.get("holes", ())))
    made = case(candidate, remote=remote)
    own = log(known.get("broker", 2), (0, 0), **known.get("log", {}))
    records = ReplicaRecords(
        made, own, NO_BATCHES, frozenset(), (RECORDS, known.get("second", SECOND)), Places.of(None, NO_BATCHES)
    )
    found = follow(made, candidate, records, cut, known.get("may_have", False), known.get("is_doubtful", False))
    told = [sorted(map(span, some)) for some in (found.held, found.hidden, found.dropped)]
    assert (*told, found.committed_dropped) == (held, hidden, dropped, committed)


def test_the_table_has_the_lines_that_are_tried() -> None:
    lines = [line for line in (follow.__doc__ or "").splitlines() if line.strip().startswith("|")][2:]
    assert len(lines) == len(LINES)

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


def test_the_table_has_the_lines_that_are_tried() -> None:
    lines = [line for line in (follow.__doc__ or "").splitlines() if line.strip().startswith("|")][2:]
    assert len(lines) == len(LINES)

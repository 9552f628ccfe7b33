"""Which marker ends the transaction of a record: of its producer, and of its epoch or the next one."""

from __future__ import annotations

import numpy as np
import pytest

from replica_audit.salvage.partition_salvage import OUTCOMES, decide
from replica_audit.segments.records import ABORT, COMMIT, RECORD_DTYPE


def _rows(*entries: tuple[int, int, int | None]) -> np.ndarray:
    """(offset, producer epoch, marker or None) of producer 7."""
    rows = np.zeros(len(entries), RECORD_DTYPE)
    for row, (offset, epoch, marker) in zip(rows, entries, strict=True):
        row["offset"], row["producer_id"], row["producer_epoch"], row["transactional"] = offset, 7, epoch, True
        row["control"], row["marker"] = marker is not None, -1 if marker is None else marker
    return rows


@pytest.mark.parametrize(
    ("own", "theirs", "outcome"),
    [
        ([(12, 3, COMMIT)], [], "committed"),
        ([(12, 4, ABORT)], [], "aborted"),
        ([(12, 5, COMMIT)], [], "open"),
        ([(12, 2, COMMIT)], [], "open"),
        ([(9, 3, COMMIT)], [(20, 4, ABORT)], "aborted"),
        ([], [(20, 3, COMMIT)], "committed"),
        ([], [(20, 5, COMMIT)], "open"),
    ],
)
def test_the_marker_of_a_transaction(own: list[tuple], theirs: list[tuple], outcome: str) -> None:
    found = decide(_rows((10, 3, None)), _rows(*own), _rows(*theirs))
    assert OUTCOMES[found.outcome[0]] == outcome

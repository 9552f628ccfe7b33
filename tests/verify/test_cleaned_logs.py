"""`verify` on compacted logs: a leader that was cleaned sends nothing in place of what a follower cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica

from replica_audit.config import Settings
from replica_audit.verify.verification import verify_snapshots

COMPACT = {"cleanup.policy": "compact"}
#: Leads from 48 on in epoch 2; its cleaner left nothing below 57.
LEADER = Replica([*written(0, 25, 0), *written(57, 83, 2, "new ")], epochs=[(0, 0), (2, 48)])
COMMON = [*written(0, 45, 0), *written(45, 48, 0)]
OLD = Replica([*COMMON, *written(48, 68, 0)], high_watermark=68)


@pytest.mark.parametrize(
    ("left", "verdict", "kept_to"),
    [
        ([], "lost_committed", 48),
        (written(48, 53, 0), "under_truncated", 53),
    ],
    ids=["cut", "still there"],
)
def test_what_is_kept_is_judged_by_the_records_that_are_there(
    tmp_path: Path, left: list[bytes], verdict: str, kept_to: int
) -> None:
    """The follower's epoch file begins epoch 2 where the first batch came, at 57: by it alone epoch 0 goes on to there."""
    follower = Replica([*COMMON, *left, *written(57, 83, 2, "new ")], epochs=[(0, 0), (2, 57)])
    audit(tmp_path / "before", {1: LEADER, 2: OLD}, isr=(1,), configs=COMPACT)
    audit(tmp_path / "after", {1: LEADER, 2: follower}, configs=COMPACT)
    found = verify_snapshots(str(tmp_path / "before"), str(tmp_path / "after"), Settings())
    (row,) = [row for row in found.verifications if row.broker_id == 2]
    assert row.verdict == verdict, row
    if not left:
        assert (row.kept_to, row.lost_committed) == (48, 20)
        gone = [(row.start_offset, row.end_offset, row.committed) for row in found.gone_records]
        assert gone == [(48, 68, "proven")]
    else:
        assert row.kept_to >= kept_to

"""Records that were in a log before and end in a hole of remote storage: no files, and no segment, have them now."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.remote_log import LEADS, WHOLE, copied, leader, with_remote
from tests.support.scenario import written
from tests.support.snapshots import TOPIC, Replica

from replica_audit.config import Settings
from replica_audit.verify.verification import Verification, verify_snapshots

ALL = Replica([*written(0, 60, 0), *written(60, 120, 1)], epochs=((0, 0), (1, 60)), log_start=0, high_watermark=120)


def verified(path: Path, *segments: list[bytes], other: Replica | None = None, leads: Replica = LEADS) -> Verification:
    """Both brokers had all of it in their files; then the leader kept what is above 100, and the segments are told."""
    with_remote(path / "before", ALL, *WHOLE[:1], quiesced=True)
    with_remote(path / "after", leads, *segments, other=other, quiesced=True)
    return verify_snapshots(str(path / "before"), str(path / "after"), Settings(topics=(TOPIC,)))


def gone(found: Verification) -> list[tuple[int, int, str]]:
    return [(row.start_offset, row.end_offset, row.committed) for row in found.gone_records]


def test_what_was_copied_is_not_gone(tmp_path: Path) -> None:
    found = verified(tmp_path, *WHOLE)
    assert gone(found) == [] and found.exit_status == 0


@pytest.mark.parametrize(
    ("segments", "ranges"),
    [
        ((WHOLE[0], WHOLE[2]), [(40, 60, "proven")]),
        (WHOLE[:2], [(60, 100, "proven")]),
        ((WHOLE[0], copied(43, 58, (0, 43)), WHOLE[2]), [(40, 43, "proven"), (58, 60, "proven")]),
    ],
    ids=["between two segments", "up to the local start", "parts of batches"],
)
def test_what_no_segment_has_is_gone(
    tmp_path: Path, segments: tuple[list[bytes], ...], ranges: list[tuple[int, int, str]]
) -> None:
    found = verified(tmp_path, *segments)
    assert gone(found) == ranges and found.exit_status == 1
    assert {row.broker_ids == [1, 2] for row in found.gone_records} == {True}


def test_what_a_follower_still_has_is_not_gone(tmp_path: Path) -> None:
    found = verified(tmp_path, WHOLE[0], WHOLE[2], other=ALL)
    assert gone(found) == []


def test_below_the_log_start_nothing_is_gone(tmp_path: Path) -> None:
    leads = leader((0, 50), (1, 60), log_start=50)
    assert gone(verified(tmp_path, WHOLE[2], leads=leads)) == [(50, 60, "proven")]
    leads = leader((1, 60), log_start=60)
    assert gone(verified(tmp_path / "all", WHOLE[2], leads=leads)) == []


@pytest.mark.parametrize(
    "epochs", [((0, 0), (1, 60)), ((1, 100),)], ids=["in its epoch file", "cut from its epoch file"]
)
def test_what_a_follower_had_of_a_later_epoch_below_the_local_start_is_gone(
    epochs: tuple[tuple[int, int], ...], tmp_path: Path
) -> None:
    """It began anew at the local start of a leader that never had its epoch; the log start that passed is in the leader's
    epoch file at once, and in its checkpoint within a minute."""
    leads = leader(*epochs, start=100)
    later = Replica(written(0, 20, 5), epochs=((5, 0),), high_watermark=20)
    with_remote(tmp_path / "before", leads, *WHOLE, other=later, quiesced=True)
    with_remote(tmp_path / "after", leads, *WHOLE, quiesced=True)
    found = verify_snapshots(str(tmp_path / "before"), str(tmp_path / "after"), Settings(topics=(TOPIC,)))
    assert [(row.start_offset, row.end_offset, row.broker_ids) for row in found.gone_records] == [(0, 20, [2])]
    assert found.exit_status == 1


def test_a_disk_that_is_put_back_from_before_kept_no_more_than_it_has(tmp_path: Path) -> None:
    """It ends below the local start of its leader, below which nothing of the two is compared."""
    older = Replica(written(0, 40, 0), epochs=((0, 0),), high_watermark=40)
    with_remote(tmp_path / "before", ALL, *WHOLE, quiesced=True)
    with_remote(tmp_path / "after", LEADS, *WHOLE, other=older, quiesced=True)
    found = verify_snapshots(str(tmp_path / "before"), str(tmp_path / "after"), Settings(topics=(TOPIC,)))
    (row,) = [one for one in found.verifications if one.broker_id == 2]
    assert (row.verdict, row.kept_to, row.end_after) == ("over_truncated", 40, 40)

"""The table `remote_segments`: what `__remote_log_metadata` names, beside the log of the reference."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.support.captures import FIXTURES, audit_whole
from tests.support.remote_log import DELETED, DELETING, LEADS, STARTED, WHOLE, copied, leader, with_remote
from tests.support.snapshots import Replica, make_uuid

from replica_audit.config import Settings
from replica_audit.report.show_text import render_partition
from replica_audit.runner.in_process import audit_all

ANOTHER = make_uuid("another")


@pytest.mark.parametrize(
    ("capture", "segments"),
    [
        ("tiered-1", {("all-in-tier", 0): 4, ("tiers", 0): 3, ("tiers", 1): 3}),
        ("tiered-2-follower", {("all-in-tier", 0): 5, ("tiers", 0): 3, ("tiers", 1): 4}),
        ("tiered-3-last-tiered", {("all-in-tier", 0): 6, ("tiers", 0): 3, ("tiers", 1): 4}),
    ],
)
def test_segments_of_real_clusters_cover_what_is_not_local_and_are_of_the_leaders_log(
    capture: str, segments: dict[tuple[str, int], int]
) -> None:
    results = audit_whole(FIXTURES / capture)
    rows = results.remote_segments
    assert Counter((row.topic, row.partition) for row in rows) == segments
    assert {(row.state, row.lineage, row.parted_at, row.told_whole) for row in rows} == {
        ("copy_finished", "own", None, True)
    }
    for place in segments:
        own = [row for row in rows if (row.topic, row.partition) == place]
        assert own[0].start_offset == 0
        # In tiers-1 brokers 1 and 2 copied the same offsets, in segments of other lengths (KAFKA-15168).
        assert all(one.end_offset >= two.start_offset for one, two in zip(own, own[1:], strict=False))
        assert all(0 < one.max_timestamp_ms <= one.started_ms <= one.updated_ms for one in own)
        assert {one.copied_by for one in own} == {one.updated_by for one in own} <= {0, 1, 2}
        assert all(one.epochs[0][1] == one.start_offset and one.size_bytes > 0 for one in own)
        assert len({one.segment_id for one in own}) == len(own)


@pytest.mark.parametrize(
    ("segment", "lineage", "parted_at"),
    [
        (copied(60, 100, (1, 60), state=DELETED), "own", None),
        (copied(60, 75, (0, 60)), "left", 60),
        (copied(40, 75, (0, 40)), "left", 60),
        (copied(40, 75, (0, 40), state=STARTED), "left", 60),
        (copied(100, 120, (1, 100)), "own", None),
        (copied(100, 125, (1, 100)), "past_end", 120),
        (copied(60, 130, (1, 60), (4, 110)), "past_end", 110),
        (copied(0, 20, (0, 0), state=DELETING), "below_start", None),
        (copied(10, 30, (0, 10), state=DELETING), "own", None),
        (copied(60, 75, (0, 60), topic_id=ANOTHER), "other_topic", None),
    ],
    ids=["own", "left", "left inside", "left unfinished", "to the end", "past the end", "later leader"]
    + ["below the log start", "across the log start", "of another topic"],
)
def test_how_a_segment_lies_to_the_log(
    tmp_path: Path, segment: list[bytes], lineage: str, parted_at: int | None
) -> None:
    answer = with_remote(tmp_path, leader((0, 0), (1, 60), log_start=20), segment)
    (row,) = answer.tables["remote_segments"]
    assert (row["lineage"], row["parted_at"]) == (lineage, parted_at)


def test_without_a_log_of_the_partition_nothing_is_said_of_the_lineage(tmp_path: Path) -> None:
    leads = Replica([], epochs=(), log_start=0)
    answer = with_remote(tmp_path, leads, WHOLE[0], leader=3, replicas=(1, 2, 3))
    (row,) = answer.tables["remote_segments"]
    assert (row["lineage"], row["start_offset"], row["end_offset"]) == ("unknown", 0, 40), row


def test_a_segments_last_message_gives_its_state_time_and_broker(tmp_path: Path) -> None:
    answer = with_remote(tmp_path, LEADS, copied(60, 100, (1, 60), state=DELETING, at=(1_000, 2_000), by=(2, 1)))
    (row,) = answer.tables["remote_segments"]
    assert (row["state"], row["started_ms"], row["updated_ms"]) == ("delete_started", 1_000, 2_000)
    assert (row["copied_by"], row["updated_by"], row["size_bytes"]) == (2, 1, 100)


def test_show_names_segments_with_their_ids_and_counts_the_deleted_ones(tmp_path: Path) -> None:
    with_remote(tmp_path, LEADS, *WHOLE, copied(60, 75, (0, 60)), copied(75, 90, (0, 75), state=DELETED))
    results = audit_all(str(tmp_path), Settings())
    text = " ".join(render_partition(results).split())
    left = next(row for row in results.remote_segments if row.lineage == "left" and row.state == "copy_finished")
    assert f"[60, 75) copied, epochs 0:60, 100 bytes, id {left.segment_id}, by broker" in text
    assert "of another history from offset 60 on" in text and "1 segment deleted since" in text

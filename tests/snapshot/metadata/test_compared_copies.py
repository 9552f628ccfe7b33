"""Rows of `metadata_logs`: every copy with its epochs, where it parts from the one that is used, and how it stands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support import metadata_log as write
from tests.support.controllers import APPLIED, BEGIN, LATE, VOTERS, discovered, elected, moved
from tests.support.metadata_log import MetadataLog
from tests.support.snapshots import make_uuid

from replica_audit.schema import MetadataLogRow

WHOLE = BEGIN + LATE
DAY_MS = 86_400_000


def rows(
    path: Path, metadata: Mapping[int, MetadataLog | bytes], **options: object
) -> dict[int | None, MetadataLogRow]:
    logs = {
        node: MetadataLog({0: one}, voters=VOTERS, leader_epoch=1) if isinstance(one, bytes) else one
        for node, one in metadata.items()
    }
    return {one.broker_id: one for one in discovered(path, logs, {1: APPLIED}, **options).metadata_copies}


def test_epochs_and_checkpoints_of_copies_that_agree(tmp_path: Path) -> None:
    log = BEGIN + elected(3, 101, 2) + moved(4, epoch=2) + elected(5, 102, 7)
    behind = MetadataLog({0: BEGIN + elected(3, 101, 2)}, {(3, 1): write.snapshot([])}, VOTERS)
    written = MetadataLog({0: log}, voters=VOTERS, leader_epoch=7)
    found = rows(tmp_path / "1", {100: written, 101: written, 102: behind, 1: log}, clean=(1,))
    assert [(*one,) for one in found[100].epochs] == [(1, 0, 3), (2, 3, 5), (7, 5, 6)]
    assert [(*one,) for one in found[102].epochs] == [(1, 0, 3), (2, 3, 4)] and found[102].checkpoints == (3,)
    standings = {node: one.standing for node, one in found.items()}
    assert standings == {1: "used", 100: "agrees", 101: "agrees", 102: "agrees"}
    assert {one.history for one in found.values()} == {1} and {one.parts_at for one in found.values()} == {None}
    assert (found[100].proven_end, found[102].proven_end) == (6, 4)
    assert (found[100].is_voter, found[1].is_voter, found[100].seen_epoch) == (True, False, 7)
    # Voters that never noted the epochs of their logs were given these: they are no majority (R5).
    seeded = rows(tmp_path / "2", {100: log, 101: log, 102: behind, 1: log}, clean=(1,))
    assert (seeded[100].proven_end, seeded[102].proven_end) == (3, 3)


def test_a_tail_of_its_own_and_a_fork_that_lacks_what_was_applied(tmp_path: Path) -> None:
    tail = rows(
        tmp_path / "1", {100: WHOLE + moved(5), 101: WHOLE + elected(5, 101, 2), 102: WHOLE + elected(5, 101, 2)}
    )
    assert (tail[100].standing, tail[100].parts_at, tail[100].history, tail[100].proven_end) == ("apart", 5, 2, 5)
    assert (tail[101].standing, tail[102].standing, tail[102].history) == ("used", "agrees", 1)
    seeded = BEGIN + moved(3) + elected(4, 102, 2, write.TIME_MS + DAY_MS)
    forked = rows(tmp_path / "2", {100: WHOLE, 101: seeded, 102: seeded, 1: WHOLE}, clean=(1,))
    assert {node: one.standing for node, one in forked.items()} == {
        1: "used",
        100: "agrees",
        101: "refused",
        102: "refused",
    }
    assert forked[102].parts_at == 3 and "does not know topic late" in forked[102].refused[0]
    assert [forked[node].history for node in (1, 100, 101, 102)] == [2, 2, 1, 1]


def test_stale_blank_and_unreadable_copies(tmp_path: Path) -> None:
    stale = rows(tmp_path / "1", {100: WHOLE, 101: BEGIN, 102: BEGIN, 1: WHOLE}, clean=(1,))
    assert [stale[node].standing for node in (1, 100, 101, 102)] == ["used", "agrees", "stale", "stale"]
    damaged = WHOLE[:20] + b"xxxx" + WHOLE[24:]
    other = rows(tmp_path / "2", {100: WHOLE, 101: damaged, 102: b"", 1: WHOLE}, clean=(1,))
    assert [other[node].standing for node in (101, 102)] == ["unreadable", "empty"]
    assert (other[101].history, other[102].epochs) == (None, ())
    unread = rows(tmp_path / "3", {100: damaged})
    assert unread[100].standing == "unreadable" and unread[100].is_voter is None


def test_a_voter_that_was_formatted_anew_may_not_vote(tmp_path: Path) -> None:
    ids = {node: make_uuid(f"directory {node}") for node in VOTERS}
    dynamic = write.leader_change(0, 100, VOTERS) + write.voters_record(1, ids)
    own = {node: MetadataLog({0: dynamic}, voters=VOTERS, directory_id=ids[node]) for node in (100, 101)}
    anew = MetadataLog({0: b""}, voters=VOTERS, directory_id=make_uuid("new"))
    found = rows(tmp_path, own | {102: anew})
    assert [found[node].may_vote for node in VOTERS] == [True, True, False]


def test_a_log_that_begins_within_a_batch_of_another_parts_there(tmp_path: Path) -> None:
    """Batches are replicated whole, so that it is another history, although no two batches begin at one offset."""
    begun = MetadataLog({4: moved(4)}, {(4, 1): write.snapshot([])}, VOTERS)
    found = rows(tmp_path / "within", {100: WHOLE, 101: begun, 102: WHOLE, 1: WHOLE}, clean=(1,))
    assert (found[100].parts_at, found[101].parts_at, found[101].start_offset) == (None, 4, 4)
    at_batch = MetadataLog({3: LATE}, {(3, 1): write.snapshot([])}, VOTERS)
    found = rows(tmp_path / "at", {100: WHOLE, 101: at_batch, 102: WHOLE, 1: WHOLE}, clean=(1,))
    assert (found[101].parts_at, found[101].standing) == (None, "agrees")

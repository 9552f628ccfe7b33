"""Tiered topics: a leader's local start is not its log start, and what `__remote_log_metadata` tells (F.7, T1, T2, T7)."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import metadata_log as write
from tests.support.captures import FIXTURES, audit_capture
from tests.support.remote_log import (
    DELETED,
    DELETING,
    LEADS,
    STARTED,
    WHOLE,
    copied,
    leader,
    tiered,
    with_remote,
)
from tests.support.remote_stores import plain_path, write_listing
from tests.support.report_rows import tables_of
from tests.support.scenario import Answer, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, make_uuid, write_manifest
from tests.support.some import some

from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.model import TopicPartition
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.plan_text import tell_decisions
from replica_audit.runner.in_process import audit_all

# --- epochs below the local start


def test_records_below_the_leaders_local_start_are_compared_by_epochs(tmp_path: Path) -> None:
    follower = Replica([*written(0, 55, 0), *written(55, 58, 1)], high_watermark=58)
    answer = tiered(tmp_path, {1: leader((0, 0), (2, 50)), 2: follower})
    assert [run[1:5] for run in answer.runs(2)] == [(50, 55, 2, 0), (55, 58, 2, 1)]
    (partition,) = answer.tables["partitions"]
    assert (answer.verdict, partition["lost_records"], partition["lost_committed"]) == ("COMMITTED_LOSS", 8, 8)
    cut = answer.cut(2)
    assert (cut["truncate_to"], cut["reason"], cut["dropped_records"], cut["committed_dropped"]) == (
        *(100, "tiered_restart", 8, 8),
    )
    own = {row["candidate_id"]: row for row in answer.tables["elections"] if row["candidate_id"] == row["broker_id"]}
    assert (own[1]["lost_records"], own[1]["lost_committed"]) == (8, 8)


@pytest.mark.parametrize("epoch_start", [51, 53, 54])
def test_a_leader_epoch_that_begins_inside_a_batch_parts_them_there(tmp_path: Path, epoch_start: int) -> None:
    follower = Replica(written(0, 55, 0), high_watermark=55)
    answer = tiered(tmp_path, {1: leader((0, 0), (2, epoch_start)), 2: follower})
    assert [run[1:3] for run in answer.runs(2)] == [(epoch_start, 55)]
    assert answer.tables["partitions"][0]["lost_records"] == 55 - epoch_start


@pytest.mark.parametrize(
    ("follower", "epochs"),
    [
        (Replica(written(0, 50, 0)), ((0, 0), (1, 60))),
        (Replica([*written(0, 60, 0), *written(60, 70, 1)]), ((0, 0), (1, 60))),
        (Replica([*written(0, 60, 0), *written(60, 110, 1)]), ((0, 0), (1, 60))),
        (Replica(written(30, 50, 0), first_base_offset=30, log_start=0), ((0, 0), (1, 60))),
    ],
    ids=["behind", "at a later epoch", "in the local part", "tiered itself"],
)
def test_equal_epochs_below_the_local_start_are_nothing_to_tell(tmp_path: Path, follower: Replica, epochs) -> None:
    answer = tiered(tmp_path, {1: leader(*epochs), 2: follower})
    assert answer.runs(2) == [] and answer.verdict == "LAGGING", answer
    assert answer.tables["partitions"][0]["lost_records"] == 0
    assert answer.cut(2)["dropped_records"] == 0


def test_records_below_the_leaders_log_start_are_deleted_and_not_lost(tmp_path: Path) -> None:
    follower = Replica([*written(0, 55, 0), *written(55, 58, 1)], high_watermark=58)
    answer = tiered(tmp_path, {1: leader((2, 70), log_start=70), 2: follower})
    assert answer.runs(2) == [] and answer.tables["partitions"][0]["lost_records"] == 0


@pytest.mark.parametrize(("end", "cut", "reason"), [(50, 100, "tiered_restart"), (105, 105, "none")])
def test_a_follower_behind_the_local_start_begins_there(tmp_path: Path, end: int, cut: int, reason: str) -> None:
    follower = Replica([*written(0, min(end, 60), 0), *written(60, end, 1)], high_watermark=end)
    answer = tiered(tmp_path, {1: leader((0, 0), (1, 60)), 2: follower})
    row = answer.cut(2)
    assert (row["truncate_to"], row["reason"], row["committed_dropped"]) == (cut, reason, 0)
    assert answer.messages("TRN-FULL") == (
        [
            "broker 2 ends at 50, below the leader's local start: it empties its log and begins at 100; earlier records are read from "
            "remote storage"
        ]
        if reason == "tiered_restart"
        else []
    )
    assert answer.cut(2, "kip-279")["reason"] == "none"


# --- __remote_log_metadata


@pytest.mark.parametrize(
    ("follower", "is_lost"),
    [
        (Replica([], epochs=[(0, 0), (2, 20)], log_start=0, first_base_offset=100, high_watermark=110), False),
        (Replica(written(100, 105, 2), epochs=[(0, 0), (2, 20)], log_start=0, high_watermark=110), True),
    ],
    ids=["emptied", "cut nowhere"],
)
def test_a_follower_that_began_again_from_remote_storage_lost_no_end(
    tmp_path: Path, follower: Replica, is_lost: bool
) -> None:
    """Its checkpoint is of before an unclean election cut its log, below what remote storage has: HWM-CP-ABOVE-LEO, proven."""
    follower = replace(follower, recovery_point=100)
    brokers = {1: leader((0, 0), (2, 20), end=150), 2: follower, 3: leader((0, 0), (2, 20), end=150)}
    answer = tiered(tmp_path, brokers, quiesced=True, source="user", leader_epoch=2)
    assert bool(answer.found("HWM-CP-ABOVE-LEO", 2)) == is_lost, answer


def test_a_tier_that_has_all_of_the_log_is_nothing_to_tell(tmp_path: Path) -> None:
    answer = with_remote(tmp_path, LEADS, *WHOLE)
    assert not any(code.startswith("TIER") for code in answer.codes("info")) and answer.verdict == "LAGGING", answer


def test_segments_of_a_history_that_was_left_hold_lost_records(tmp_path: Path) -> None:
    answer = with_remote(tmp_path, LEADS, *WHOLE, copied(60, 75, (0, 60)), copied(75, 90, (0, 75)))
    assert answer.one("TIER-ORPHAN") == ("critical", "proven", 60, 90)
    (partition,) = answer.tables["partitions"]
    assert (answer.verdict, partition["lost_records"], partition["lost_committed"]) == ("COMMITTED_LOSS", 30, 30)


@pytest.mark.parametrize("start", [60, 80, 100])
def test_what_is_in_the_leaders_files_and_in_remote_storage_is_lost_once(tmp_path: Path, start: int) -> None:
    """Nobody else has a record: a chunk of which nothing is compared counted besides the segments with the same records."""
    leads = Replica(written(start, 120, 1), epochs=LEADS.epochs, log_start=0, first_base_offset=start)
    empty = Replica([], epochs=[], high_watermark=0)
    with_remote(tmp_path, leads, *WHOLE, other=empty, quiesced=True)
    rows = audit_all(str(tmp_path), Settings(), asked=[TopicPartition(TOPIC, 0)]).elections
    lost = {
        row.candidate_id: (row.lost_records, row.lost_committed) for row in rows if row.candidate_id == row.broker_id
    }
    assert lost == {1: (0, 0), 2: (120, 120)}


@pytest.mark.parametrize(
    "segment",
    [
        copied(60, 75, (0, 60), state=DELETED),
        copied(60, 75, (0, 60), topic_id=make_uuid("another")),
        copied(60, 75, (7, 60)),
    ],
    ids=["deleted", "another topic", "of a later leader"],
)
def test_segments_that_prove_no_loss(tmp_path: Path, segment: list[bytes]) -> None:
    answer = with_remote(tmp_path, LEADS, *WHOLE, segment)
    assert not answer.found("TIER-ORPHAN") and answer.verdict == "LAGGING", answer


def test_a_follower_that_began_anew_says_nothing_of_where_the_log_begins(tmp_path: Path) -> None:
    """One that was cut below its local start is emptied and begins there, as an old leader does after an unclean election."""
    anew = Replica(written(60, 120, 1), epochs=((1, 60),), log_start=60, first_base_offset=60)
    answer = with_remote(tmp_path / "gap", LEADS, WHOLE[0], WHOLE[2], other=anew)
    assert answer.one("TIER-GAP") == ("critical", "proven", 40, 60), answer
    assert [row["lineage"] for row in answer.tables["remote_segments"]] == ["own", "own"]
    anew = Replica(written(60, 120, 2), epochs=((2, 60),), log_start=60, first_base_offset=60)
    leads = leader((0, 0), (1, 30), (2, 60))
    own = (copied(0, 30, (0, 0)), copied(30, 60, (1, 30)), copied(60, 100, (2, 60)))
    answer = with_remote(tmp_path / "orphan", leads, *own, copied(30, 50, (0, 30)), other=anew)
    assert answer.one("TIER-ORPHAN") == ("critical", "proven", 30, 50), answer


@pytest.mark.parametrize("quiesced", [True, False])
def test_an_epoch_file_that_begins_above_the_log_start_checkpoint_is_the_newer_one(
    tmp_path: Path, quiesced: bool
) -> None:
    """DeleteRecords cuts it at once, and the checkpoint is written once a minute: the segments in between are being deleted."""
    below = (copied(40, 45, (0, 40), state=DELETING), copied(45, 50, (0, 45)))
    leads = leader((0, 50), (1, 60), log_start=40)
    answer = with_remote(tmp_path, leads, WHOLE[0], *below, copied(50, 60, (0, 50)), WHOLE[2], quiesced=quiesced)
    assert not answer.found("TIER-GAP") and not answer.found("TIER-NOT-COPIED"), answer


def test_segments_below_the_log_start_are_no_loss(tmp_path: Path) -> None:
    answer = with_remote(tmp_path, leader((1, 80), log_start=80), WHOLE[2], copied(60, 75, (0, 60)))
    assert not answer.found("TIER-ORPHAN") and not answer.found("TIER-GAP"), answer


def test_a_gap_between_segments_is_unreadable(tmp_path: Path) -> None:
    answer = with_remote(tmp_path, LEADS, WHOLE[0], WHOLE[2])
    assert answer.one("TIER-GAP") == ("critical", "proven", 40, 60)
    assert answer.verdict == "COMMITTED_LOSS"


@pytest.mark.parametrize(
    ("segments", "first"),
    [
        ((copied(0, 40, (0, 0), state=DELETING), *WHOLE[1:]), 0),
        ((copied(0, 40, (0, 0), state=DELETED), *WHOLE[1:]), 0),
        ((copied(0, 40, (0, 0), state=DELETED), copied(40, 60, (0, 40), state=DELETING), WHOLE[2]), 0),
        (WHOLE[:2], 0),
        ((WHOLE[0], WHOLE[2]), 12),
        ((WHOLE[0], copied(35, 70, (0, 35), (1, 60)), WHOLE[2]), 0),
    ],
    ids=["being deleted", "deleted", "two", "copied later", "log not from its beginning", "overlap"],
)
def test_what_looks_like_a_gap_and_is_none(tmp_path: Path, segments: tuple[list[bytes], ...], first: int) -> None:
    """The log-start checkpoint is written once a minute; and a segment without a later one may have been copied since."""
    answer = with_remote(tmp_path, LEADS, *segments, first=first)
    assert not answer.found("TIER-GAP") and answer.verdict == "LAGGING", answer


# --- nothing up to the local start


@pytest.mark.parametrize(
    ("segments", "gap"),
    [
        (WHOLE[:2], (60, 100)),
        ((copied(0, 40, (0, 0), state=DELETED), WHOLE[1]), (60, 100)),
        ((copied(0, 40, (0, 0), state=DELETED), copied(40, 60, (0, 40), state=DELETING)), (60, 100)),
        ((*WHOLE[:2], copied(60, 100, (1, 60), state=STARTED)), (60, 100)),
        ((*WHOLE[:2], copied(60, 100, (1, 60), topic_id=make_uuid("another"))), (60, 100)),
        ((*WHOLE[:2], copied(60, 100, (1, 60), state=DELETED)), (60, 100)),
    ],
    ids=["never copied", "after deleted ones", "after all others", "copied in part", "another topic", "deleted first"],
)
def test_what_is_neither_local_nor_remote_is_told_of_copies_of_one_moment(tmp_path: Path, segments, gap) -> None:
    answer = with_remote(tmp_path / "rest", LEADS, *segments, quiesced=True)
    assert answer.one("TIER-NOT-COPIED") == ("high", "likely", *gap), answer
    assert answer.verdict == "COMMITTED_LOSS" and not answer.found("TIER-GAP")
    running = with_remote(tmp_path / "running", LEADS, *segments)
    assert not running.found("TIER-NOT-COPIED"), "the segment may have been copied since"


def test_a_gap_and_what_was_never_copied_are_two_findings(tmp_path: Path) -> None:
    segments = (WHOLE[0], copied(50, 60, (0, 50)))
    answer = with_remote(tmp_path, LEADS, *segments, quiesced=True)
    assert answer.one("TIER-GAP")[2:] == (40, 50) and answer.one("TIER-NOT-COPIED")[2:] == (60, 100)


@pytest.mark.parametrize(
    ("told_by", "begun", "is_told"),
    [(2, 3, True), (2, 1, False), (2, -50, False), (1, 3, False)],
    ids=["copied later", "as late by clocks only", "copied earlier", "copied with the log"],
)
def test_what_tells_of_the_segments_has_to_be_as_late_as_the_log(
    tmp_path: Path, told_by: int, begun: int, is_told: bool
) -> None:
    """In a running cluster, by the manifest's times; those of one log dir do not say in which order it was copied."""
    answer = with_remote(tmp_path, LEADS, *WHOLE[:2], told_by=told_by, begun=begun)
    assert bool(answer.found("TIER-NOT-COPIED")) == is_told, answer
    assert (answer.verdict == "COMMITTED_LOSS") == is_told


@pytest.mark.parametrize("kind", ["killed", "stopped", None])
def test_a_broker_that_was_down_tells_nothing_later_than_its_last_message(tmp_path: Path, kind: str | None) -> None:
    """Its disk may be copied days after it went."""
    answer = with_remote(tmp_path, LEADS, *WHOLE[:2], told_by=2, begun=60, kinds=("live", kind))
    assert not answer.found("TIER-NOT-COPIED") and answer.verdict == "LAGGING", answer


@pytest.mark.parametrize(
    ("kinds", "is_told"),
    [(("stopped", "killed"), False), (("stopped", "stopped"), True), (("killed", "killed"), True)],
    ids=["killed before the others stopped", "stopped", "a loss of power"],
)
def test_of_a_cluster_at_rest_a_broker_that_was_killed_alone_may_be_stale(
    tmp_path: Path, kinds: tuple[str, str], is_told: bool
) -> None:
    answer = with_remote(tmp_path, LEADS, *WHOLE[:2], told_by=2, begun=-50, kinds=kinds, quiesced=True)
    assert bool(answer.found("TIER-NOT-COPIED")) == is_told, answer


def test_a_log_of_segments_that_cannot_all_be_read_proves_no_hole(tmp_path: Path) -> None:
    answer = with_remote(tmp_path, LEADS, WHOLE[0], copied(50, 60, (0, 50)), quiesced=True, tail=b"not a batch" * 10)
    assert not answer.found("TIER-NOT-COPIED") and not answer.found("TIER-GAP"), answer


@pytest.mark.parametrize(
    ("leads", "segments", "first"),
    [
        (LEADS, WHOLE, 0),
        (
            LEADS,
            tuple(copied(*at, state=DELETING) for at in ((0, 40, (0, 0)), (40, 60, (0, 40)), (60, 100, (1, 60)))),
            0,
        ),
        (LEADS, WHOLE[:2], 12),
        (LEADS, (), 0),
        (LEADS, tuple(copied(*at, topic_id=make_uuid("another")) for at in ((0, 40, (0, 0)), (40, 60, (0, 40)))), 0),
        (leader((0, 0), (1, 60), log_start=100), WHOLE[:2], 0),
    ],
    ids=["whole", "being deleted", "not from its beginning", "no segment", "another topic only", "nothing remote"],
)
def test_a_log_whose_remote_part_is_whole_or_not_known(tmp_path: Path, leads: Replica, segments, first: int) -> None:
    answer = with_remote(tmp_path, leads, *segments, first=first, quiesced=True)
    assert not answer.found("TIER-GAP") and not answer.found("TIER-NOT-COPIED"), answer


def listed(path: Path, partitions: int, leads: int | str = 1, isr: str = "1", left_out: int = 0) -> None:
    """The listing of the topics has the log of segments, too, without the last partitions, which are `left_out`."""
    name = "__remote_log_metadata"
    rows = (
        f"\tTopic: {name}\tPartition: {number}\tLeader: {leads}\tReplicas: 1,2,3\tIsr: {isr}\n"
        for number in range(partitions - left_out)
    )
    with (path / "kafka-topics-describe.txt").open("a") as file:
        file.write(f"Topic: {name}\tPartitionCount: {partitions}\tReplicationFactor: 3\n{''.join(rows)}")


ANOTHER = tuple(copied(*at, topic_id=make_uuid("another")) for at in ((0, 40, (0, 0)), (40, 60, (0, 40))))


@pytest.mark.parametrize(
    ("segments", "partitions", "options", "is_told"),
    [
        ((), 1, {}, True),
        (ANOTHER, 1, {}, True),
        ((), 2, {}, False),
        (ANOTHER, 1, {"first": 12}, False),
        ((), 1, {"tail": b"\x00" * 70}, False),
        ((), 1, {"quiesced": None}, False),
        ((), 1, {"configs": {"remote.log.copy.disable": "true"}}, False),
    ],
    ids=[
        "no segment", "another topic only", "a partition of it is not here", "not from its beginning", "damaged",
        "of different moments", "nothing is copied",
    ],
)  # fmt: skip
def test_local_files_that_are_gone_while_no_segment_was_ever_copied(
    tmp_path: Path, segments, partitions: int, options: dict, is_told: bool
) -> None:
    """T7: deleted on both sides."""
    given = {"quiesced": True, **options}
    answer = with_remote(tmp_path, LEADS, *segments, then=lambda: listed(tmp_path, partitions), **given)
    if is_told:
        assert answer.one("TIER-NOT-COPIED") == ("high", "likely", 0, 100), answer
        assert answer.verdict == "COMMITTED_LOSS"
    else:
        assert not answer.found("TIER-NOT-COPIED") and answer.verdict != "COMMITTED_LOSS", answer


@pytest.mark.parametrize(
    ("said", "is_told"),
    [
        ({"leads": 3, "isr": "3"}, False),
        ({"leads": 3, "isr": "1,3"}, True),
        ({"leads": "none", "isr": "1"}, True),
        ({"leads": 1, "isr": "1,3"}, True),
        ({"leads": "none", "isr": "\tElr: 1"}, True),
        ({"leads": "none", "isr": "\tElr: 3"}, False),
        ({"leads": "none", "isr": "\tElr: \tLastKnownElr: 1"}, True),
        ({"partitions": 2, "leads": 3, "isr": "3", "left_out": 1}, False),
    ],
    ids=[
        "not in sync",
        "in sync",
        "without a leader",
        "leader",
        "eligible",
        "not eligible",
        "last",
        "not in sync, some are not listed",
    ],
)
@pytest.mark.parametrize("segments", [(), ANOTHER, WHOLE[:2]], ids=["empty", "another topic", "stale"])
def test_what_tells_of_segments_counts_if_its_leader_or_a_replica_in_sync_was_captured(
    tmp_path: Path, segments, said: dict[str, Any], is_told: bool
) -> None:
    """Broker 3 may have the newest of it, or all."""
    answer = with_remote(
        tmp_path, LEADS, *segments, quiesced=True, then=lambda: listed(tmp_path, **{"partitions": 1, **said})
    )
    assert bool(answer.found("TIER-NOT-COPIED")) == is_told, answer
    assert (answer.verdict == "COMMITTED_LOSS") == is_told


@pytest.mark.parametrize(("segments", "is_told"), [((), False), (ANOTHER, False), (WHOLE[:2], True)])
def test_where_partitions_of_it_are_not_listed_the_segments_that_are_told_count(
    tmp_path: Path, segments, is_told: bool
) -> None:
    """The others may tell of a topic that this one says nothing of; of one topic partition one of them has all."""
    answer = with_remote(tmp_path, LEADS, *segments, quiesced=True, then=lambda: listed(tmp_path, 50, left_out=49))
    assert bool(answer.found("TIER-NOT-COPIED")) == is_told, answer


def test_of_copies_that_reach_as_far_that_of_the_leader_counts(tmp_path: Path) -> None:
    def write() -> None:
        place = "__remote_log_metadata-0"
        shutil.copytree(tmp_path / "broker-1" / place, tmp_path / "broker-2" / place)
        listed(tmp_path, 1, 1, "1,3")

    assert with_remote(tmp_path, LEADS, *WHOLE[:2], quiesced=True, then=write).found("TIER-NOT-COPIED")


def test_a_log_that_begins_where_its_files_do_lacks_nothing(tmp_path: Path) -> None:
    for number, leads in enumerate(
        (leader((0, 0), start=0), leader((1, 100), log_start=0), leader((1, 100), log_start=100))
    ):
        path = tmp_path / str(number)
        answer = with_remote(path, leads, quiesced=True, then=lambda path=path: listed(path, 1))
        assert not [code for code in answer.codes("info") if code.startswith("TIER")], answer


# --- past the leader's end, in its own epoch


def short(end: int) -> Replica:
    return leader((0, 0), (1, 60), start=60, end=end)


def counted(answer: Answer) -> tuple[str, int, int]:
    (partition,) = answer.tables["partitions"]
    return answer.verdict, partition["lost_records"], partition["lost_committed"]


@pytest.mark.parametrize("end", [65, 80, 95])
@pytest.mark.parametrize("segments", [WHOLE, (*WHOLE[:2], copied(60, 80, (1, 60)), copied(80, 100, (1, 80)))])
def test_a_leader_whose_log_ends_below_what_it_had_copied_has_lost_its_end(tmp_path: Path, end: int, segments) -> None:
    """A disk restored from a backup, say: checkpoints and epoch file are of a piece with the log."""
    answer = with_remote(tmp_path, short(end), *segments, quiesced=True)
    assert answer.one("TIER-ORPHAN") == ("critical", "proven", end, 100), answer
    assert counted(answer) == ("COMMITTED_LOSS", 100 - end, 100 - end)
    assert costs(tmp_path) == {1: (100 - end, 100 - end, 0), 2: (100 - end, 100 - end, 0)}


ONLY_TOLD = "only __remote_log_metadata says so, and no object was seen"


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (short(80), f"Remote storage still has them: {ONLY_TOLD}."),
        (
            Replica([*written(0, 60, 0), *written(60, 70, 0, "other ")], high_watermark=70),
            f"Remote storage still has 20 of them: {ONLY_TOLD}.",
        ),
    ],
    ids=["all", "some"],
)
def test_the_decision_says_what_remote_storage_still_has(tmp_path: Path, other: Replica, told: str) -> None:
    with_remote(tmp_path, short(80), *WHOLE, other=other, quiesced=True)
    (decided,) = tell_decisions(plan_elections(audit_all(str(tmp_path), Settings(topics=(TOPIC,)))))
    assert decided.sentence.endswith(told), decided.sentence


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (short(80), f"remote storage still has them: {ONLY_TOLD}."),
        (
            Replica([*written(0, 60, 0), *written(60, 70, 0, "other ")], high_watermark=70),
            f"broker 2 and remote storage still have them; of remote storage: {ONLY_TOLD}.",
        ),
        (LEADS, f"broker 2 and remote storage still have them; of remote storage: {ONLY_TOLD}."),
    ],
    ids=["remote storage alone", "each some", "both"],
)
def test_retention_is_switched_off_before_anything_else_and_the_headline_names_remote_storage(
    tmp_path: Path, other: Replica, told: str
) -> None:
    with_remote(tmp_path, short(80), *WHOLE, other=other, quiesced=True)
    results = audit_all(str(tmp_path), Settings(topics=(TOPIC,)))
    first, *others = plan_elections(results).steps
    assert first.action == "keep_remote" and "keep_remote" not in {step.action for step in others}
    assert [command.partition(" --entity-name ")[2] for command in first.commands] == [
        TOPIC,
        f"{TOPIC} --add-config retention.ms=-1,retention.bytes=-1",
    ]
    assert "local.retention.ms" in first.before[0] and "set retention back to what it was" in first.text
    headline = build_answer(results, build_verdict(results, "high")).headline
    assert f"in the only partition; {told}" in headline, headline


def test_where_remote_storage_has_no_records_of_its_own_retention_stays_as_it_is(tmp_path: Path) -> None:
    with_remote(tmp_path, LEADS, *WHOLE, quiesced=True)
    results = audit_all(str(tmp_path), Settings(topics=(TOPIC,)))
    assert "keep_remote" not in {step.action for step in plan_elections(results).steps}


@pytest.mark.parametrize(("kind", "is_told"), [("killed", True), ("stopped", True), ("live", False), (None, False)])
def test_a_leader_that_was_down_had_written_all_that_it_had_copied(
    tmp_path: Path, kind: str | None, is_told: bool
) -> None:
    def say() -> None:
        one, two = ({"broker_id": number, "log_dir": f"broker-{number}"} for number in (1, 2))
        copies = [one if kind is None else one | {"kind": kind}, two]
        write_manifest(tmp_path, brokers=copies)

    answer = with_remote(tmp_path, short(95), *WHOLE, then=say)
    assert bool(answer.found("TIER-ORPHAN")) == is_told, answer
    assert counted(answer) == (("COMMITTED_LOSS", 5, 5) if is_told else ("LAGGING", 0, 0))


@pytest.mark.parametrize("known", [None, 5])
def test_one_that_is_fenced_may_have_copied_it_after_its_log_was_copied(tmp_path: Path, known: int | None) -> None:
    """Nothing tells whether it was down by then, unless its own copy of the metadata log reaches to when it was fenced."""
    begin = write.new_topic(TOPIC, TOPIC_ID, (1, 2), 1)
    begin += [write.config(2, TOPIC, "remote.storage.enable", "true"), *map(write.register_broker, (1, 2))]
    moves = [write.change(TOPIC_ID, leader=1, isr=(1,)), *(write.registration_change(one, 1) for one in (2, 1))]
    moves += [write.change(TOPIC_ID, leader=-1), write.change(TOPIC_ID, isr=(1,))]
    copies = {100: len(moves)} | ({} if known is None else {1: known})
    metadata = {node: write.history(begin, *moves[:last]) for node, last in copies.items()}
    answer = with_remote(tmp_path, short(95), *WHOLE, metadata=metadata)
    if known is None:
        assert answer.one("CAP-SKEW", 1) == ("medium", "likely", 95, 100) and answer.verdict == "INCONCLUSIVE", answer
        assert "remote storage has offsets 95 to 99 of epoch 1" in answer.found("CAP-SKEW", 1)[0]["message"]
    assert bool(answer.found("TIER-ORPHAN")) is (known is not None), answer
    assert counted(answer)[1:] == ((0, 0) if known is None else (5, 5)), answer


def test_what_a_follower_still_has_of_it_counts_once(tmp_path: Path) -> None:
    follower = Replica([*written(0, 60, 0), *written(60, 100, 1)], high_watermark=100)
    answer = with_remote(tmp_path, short(90), *WHOLE, other=follower, quiesced=True)
    assert counted(answer) == ("COMMITTED_LOSS", 10, 10), answer
    assert costs(tmp_path)[2] == (0, 0, 0)


@pytest.mark.parametrize("state", [STARTED, DELETING, DELETED])
def test_a_copy_past_the_leaders_end_that_was_begun_or_deleted_has_committed_records(
    tmp_path: Path, state: int
) -> None:
    """A leader copies what it has, and a copy that failed is deleted at once."""
    segment = copied(90, 100, (1, 90), state=state)
    answer = with_remote(tmp_path, short(95), *WHOLE[:2], copied(60, 90, (1, 60)), segment, quiesced=True)
    assert answer.one("TIER-LOST") == ("critical", "proven", 95, 100), answer
    assert not answer.found("TIER-ORPHAN") and counted(answer) == ("COMMITTED_LOSS", 5, 5), answer
    assert costs(tmp_path) == {1: (5, 5, 0), 2: (5, 5, 0)}


@pytest.mark.parametrize("state", [STARTED, DELETING, DELETED])
def test_a_running_leader_may_have_copied_past_the_end_of_an_older_copy(tmp_path: Path, state: int) -> None:
    segment = copied(95, 100, (1, 95), state=state)
    answer = with_remote(tmp_path, short(95), *WHOLE[:2], copied(60, 95, (1, 60)), segment)
    assert not answer.found("TIER-LOST") and counted(answer) == ("LAGGING", 0, 0), answer


def test_what_looks_like_more_than_the_leader_has_and_is_not(tmp_path: Path) -> None:
    segment = copied(95, 100, (1, 95), topic_id=make_uuid("another"))
    answer = with_remote(tmp_path, short(95), *WHOLE[:2], copied(60, 95, (1, 60)), segment, quiesced=True)
    assert not answer.found("TIER-ORPHAN") and counted(answer) == ("LAGGING", 0, 0), answer


def test_a_follower_in_place_of_a_leader_that_was_not_captured_lost_nothing(tmp_path: Path) -> None:
    answer = with_remote(tmp_path, short(95), *WHOLE, quiesced=True, leader=3, replicas=(1, 2, 3))
    assert not answer.found("TIER-ORPHAN") and answer.verdict != "COMMITTED_LOSS", answer


# --- what each candidate costs (H.1)


_PLACE = TopicPartition(TOPIC, 0)


def costs(path: Path, place: TopicPartition = _PLACE) -> dict[int, tuple[int, int, int]]:
    """Lost records of each candidate, the committed ones of them, and those that another replica keeps unseen."""
    rows = audit_all(str(path), Settings(topics=(place.topic,)), asked=(place,)).rows("elections")
    own = [row for row in rows if row["candidate_id"] == row["broker_id"] and row["partition"] == place.partition]
    return {
        row["candidate_id"]: tuple(row[name] for name in ("lost_records", "lost_committed", "hidden_records"))
        for row in own
    }


@pytest.mark.parametrize("segments", [WHOLE, ()], ids=["by segments", "by the leader's epochs"])
@pytest.mark.parametrize(
    ("other", "lost"),
    [
        (Replica(written(0, 50, 0), high_watermark=50), 70),
        (
            Replica(
                [*written(30, 60, 0), *written(60, 80, 1)], first_base_offset=30, log_start=0, epochs=((0, 0), (1, 60))
            ),
            40,
        ),
        (Replica([*written(0, 60, 0), *written(60, 110, 1)]), 10),
        (Replica([], epochs=(), log_start=0), 120),
        (LEADS, 0),
    ],
    ids=["behind", "tiered and behind", "behind in the local part", "empty", "equal"],
)
def test_a_candidate_that_is_behind_serves_no_segment_past_its_end(
    tmp_path: Path, other: Replica, lost: int, segments
) -> None:
    with_remote(tmp_path, LEADS, *segments, other=other, quiesced=True)
    assert costs(tmp_path) == {1: (0, 0, 0), 2: (lost, lost, 0)}


@pytest.mark.parametrize(("segments", "hidden"), [(WHOLE, 5), ((), 0)], ids=["by segments", "by the leader's epochs"])
def test_a_candidate_with_fewer_files_lacks_what_is_not_in_remote_storage(
    tmp_path: Path, segments, hidden: int
) -> None:
    """Where segments are known, nobody gets from it what only the leader's files have (TIER-FOLLOWER-GAP)."""
    with_remote(tmp_path, LEADS, *segments, other=leader((0, 0), (1, 60), start=105), quiesced=True)
    assert costs(tmp_path) == {1: (0, 0, 0), 2: (0, 0, hidden)}


def test_segments_of_another_history_are_served_by_who_has_its_epochs(tmp_path: Path) -> None:
    """The old leader has its history whole; under it nobody reads what the new one has written and copied."""
    old = Replica(written(90, 95, 0), epochs=((0, 0),), log_start=0, first_base_offset=90, high_watermark=95)
    answer = with_remote(
        tmp_path, LEADS, *WHOLE, copied(60, 75, (0, 60)), copied(75, 90, (0, 75)), other=old, quiesced=True
    )
    assert answer.one("TIER-ORPHAN")[2:] == (60, 90)
    assert costs(tmp_path) == {1: (35, 35, 0), 2: (60, 60, 0)}


def test_a_leader_may_have_copied_more_than_its_copy_shows(tmp_path: Path) -> None:
    """It stays the leader; another candidate does not get what is only there."""
    later = (copied(100, 120, (1, 100)), copied(120, 140, (1, 120)), copied(140, 150, (2, 140)))
    with_remote(tmp_path, LEADS, *WHOLE, *later)
    assert {broker: lost for broker, (lost, *_) in costs(tmp_path).items()} == {1: 0, 2: 30}


def test_what_lies_below_the_log_start_costs_nobody_anything(tmp_path: Path) -> None:
    other = Replica(written(0, 50, 0), high_watermark=50)
    with_remote(tmp_path, leader((1, 80), log_start=80), copied(80, 100, (1, 80)), other=other, quiesced=True)
    assert costs(tmp_path)[2][0] == 40


@pytest.mark.parametrize(
    ("end", "of_leader", "of_other"),
    [(120, (0, 0, 20), (0, 0, 0)), (50, (10, 10, 0), (60, 60, 0))],
    ids=["keeps it", "begins anew at the local start"],
)
def test_what_is_in_no_segment_is_on_who_has_it_in_its_files(
    tmp_path: Path, end: int, of_leader: tuple, of_other: tuple
) -> None:
    """Remote storage lacks [40, 60); broker 2 has it, as far as its log goes, and goes on having it only if it need not restart."""
    other = Replica(
        [*written(30, min(end, 60), 0), *written(60, end, 1)],
        first_base_offset=30,
        log_start=0,
        epochs=((0, 0), (1, 60)) if end > 60 else ((0, 0),),
    )
    answer = with_remote(tmp_path, LEADS, WHOLE[0], WHOLE[2], other=other, quiesced=True)
    assert answer.one("TIER-GAP")[2:] == (40, 60)
    assert costs(tmp_path) == {1: of_leader, 2: of_other}


@pytest.mark.parametrize("capture", ["tiered-1", "tiered-2-follower", "tiered-3-last-tiered"])
def test_in_captures_of_sound_tiered_topics_no_candidate_loses_anything(capture: str) -> None:
    remote = 0
    for name, results in some(audit_capture(capture).items()):
        answer, place = Answer(tables_of(results)), TopicPartition.parse(name)
        assert not any(code.startswith("TIER") for code in answer.codes("info")), name
        found = costs(FIXTURES / capture, place)
        assert len(found) == 3 and set(found.values()) == {(0, 0, 0)}, (name, found)
        remote += name.startswith("tier")
    assert remote


# --- nobody says that the topic is tiered

UNTOLD: tuple[dict[str, Any], ...] = ({"source": "user", "leader_epoch": 2}, {"source": "inferred"})
ELECTED = leader((0, 0), (2, 40), start=52, end=67)
"""Elected at 40, where an earlier leader had copied [40, 80) to remote storage."""


@pytest.mark.parametrize("said", UNTOLD, ids=["leadership.json", "nothing"])
def test_where_no_source_has_configs_segments_show_a_tiered_topic(tmp_path: Path, said: dict[str, Any]) -> None:
    kept = replace(ELECTED, log_start=10)
    segments = (copied(0, 40, (0, 0)), copied(40, 80, (0, 40)), copied(40, 52, (2, 40)))
    answer = with_remote(tmp_path, kept, *segments, **said)
    assert answer.one("TIER-ORPHAN")[2:] == (40, 80)
    assert (answer.replica(1)["log_start_offset"], answer.replica(1)["local_start_offset"]) == (10, 52)
    assert costs(tmp_path) == {1: (40, 40, 0), 2: (40, 40, 0)}
    assert {row["remote_deleted"] for row in answer.rows("elections")} == {0}


@pytest.mark.parametrize("said", UNTOLD, ids=["leadership.json", "nothing"])
def test_where_no_source_has_configs_a_listing_of_the_store_shows_a_tiered_topic(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    kept = replace(ELECTED, log_start=10)
    there = (plain_path(make_uuid("copied"), 10), 100)
    answer = tiered(tmp_path, {1: kept, 2: kept}, before_audit=lambda: write_listing(tmp_path, there), **said)
    assert (answer.replica(1)["log_start_offset"], answer.replica(1)["local_start_offset"]) == (10, 52)


@pytest.mark.parametrize("said", UNTOLD, ids=["leadership.json", "nothing"])
def test_a_log_that_begins_at_0_without_a_file_there_shows_a_tiered_topic(tmp_path: Path, said: dict[str, Any]) -> None:
    answer = tiered(tmp_path, {1: ELECTED, 2: ELECTED}, **said)
    assert not answer.found("EPO-CACHE-STALE")
    assert (answer.replica(1)["log_start_offset"], answer.replica(1)["local_start_offset"]) == (0, 52)


@pytest.mark.parametrize(
    ("leads", "said"),
    [
        (leader((2, 52), start=52, end=67, log_start=0), {"source": "user"}),
        (leader((2, 52), start=52, end=67, log_start=30), {"source": "inferred"}),
        (leader((0, 30), (2, 40), start=52, end=67, log_start=30), {"source": "inferred"}),
        (leader((0, 0), (2, 40), start=52, end=67, log_start=0), {"configs": {"remote.storage.enable": "false"}}),
    ],
    ids=["epochs cut", "start inside a file that is gone", "neither written as yet", "tiering is off"],
)
def test_where_retention_is_ahead_of_its_checkpoint_the_log_begins_with_its_files(
    tmp_path: Path, leads: Replica, said: dict[str, Any]
) -> None:
    answer = tiered(tmp_path, {1: leads, 2: leads}, **said)
    assert answer.replica(1)["log_start_offset"] == 52


@pytest.mark.parametrize(
    ("segments", "said"),
    [
        ((copied(0, 40, (0, 0)),), {"configs": {"remote.storage.enable": "false"}}),
        ((copied(0, 40, (0, 0), topic_id=make_uuid("earlier")),), {"source": "user"}),
        ((copied(0, 40, (0, 0), state=DELETED),), {"source": "inferred"}),
    ],
    ids=["tiering is off", "another topic's", "all deleted"],
)
def test_segments_that_do_not_show_a_tiered_topic(
    tmp_path: Path, segments: tuple[list[bytes], ...], said: dict[str, Any]
) -> None:
    answer = with_remote(tmp_path, replace(ELECTED, log_start=10), *segments, **said)
    assert answer.replica(1)["log_start_offset"] == 52


@pytest.mark.parametrize("said", UNTOLD, ids=["leadership.json", "nothing"])
def test_where_nobody_says_that_segments_are_copied_local_files_may_go_without(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    answer = with_remote(tmp_path, LEADS, *WHOLE[:2], quiesced=True, **said)
    assert answer.replica(1)["log_start_offset"] == 0
    assert not answer.found("TIER-NOT-COPIED")

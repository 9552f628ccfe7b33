"""Rules on segments in remote storage that stay on their way, contradict the log, or are missing (F.7, J: T4, T6, T8, T9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.metadata_log import TIME_MS, change, config, history, partition, register_broker, topic
from tests.support.remote_log import (
    DELETED,
    DELETING,
    FINISHED,
    LEADS,
    STARTED,
    WHOLE,
    copied,
    leader,
    with_remote,
)
from tests.support.remote_stores import plain_path, segment_id, write_listing
from tests.support.scenario import Answer, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, make_uuid, write_manifest

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_all

HOUR = 3_600_000
T = 1_700_000_000_000


def tier_codes(answer: Answer) -> set[str]:
    return {code for code in answer.codes("info") if code.startswith("TIER")}


def later(ms: int) -> list[bytes]:
    """Another segment's messages, so long after T."""
    return copied(95, 100, (1, 95), at=(T + ms, T + ms), number=9)


def unfinished(start: int = 100, end: int = 120, **how) -> list[bytes]:
    return copied(start, end, (1, start), **{"state": STARTED, "at": (T, T), **how})


# --- T4: copies


def test_a_copy_that_is_not_finished_an_hour_later_never_will_be(tmp_path: Path) -> None:
    answer = with_remote(tmp_path, LEADS, *WHOLE, unfinished(), later(HOUR + 1))
    assert answer.one("TIER-COPY-UNFINISHED") == ("low", "proven", 100, 120)
    assert tier_codes(answer) == {"TIER-COPY-UNFINISHED"} and answer.verdict == "LAGGING"


def test_several_are_one_finding_with_their_bytes(tmp_path: Path) -> None:
    answer = with_remote(tmp_path, LEADS, *WHOLE, unfinished(), unfinished(110, 120), later(HOUR + 1))
    (row,) = answer.found("TIER-COPY-UNFINISHED")
    assert "of 2 segments" in row["message"] and "200 bytes" in row["message"]
    assert [one["value"] for one in row["evidence"] if one["kind"] == "file"] == [
        one["segment_id"] for one in answer.tables["remote_segments"] if one["state"] == "copy_started"
    ]


@pytest.mark.parametrize(
    "segments",
    [
        [unfinished(), later(HOUR)],
        [later(HOUR + 1), unfinished(at=(T + HOUR, T + HOUR))],
        [unfinished()],
        [unfinished(then=[(FINISHED, T + 5)]), later(HOUR + 1)],
        [unfinished(then=[(DELETING, T + 5), (DELETED, T + 6)]), later(HOUR + 1)],
        [unfinished(topic_id=make_uuid("another")), later(HOUR + 1)],
    ],
    ids=["an hour", "begun just now", "nothing said since", "finished", "failed and deleted at once", "another topic"],
)
def test_copies_that_are_under_way_or_done(tmp_path: Path, segments: Sequence[list[bytes]]) -> None:
    answer = with_remote(tmp_path, LEADS, *WHOLE, *segments)
    assert not tier_codes(answer) and answer.verdict == "LAGGING", answer


@pytest.mark.parametrize(
    ("kind", "started", "is_found"),
    [("live", T + HOUR + 2000, True), ("live", T + HOUR - 2000, False), ("killed", T + 9 * HOUR, False)],
    ids=["an hour before the capture", "less", "of a broker that was down"],
)
def test_the_clock_of_the_capture_tells_where_the_broker_was_up(
    tmp_path: Path, kind: str, started: int, is_found: bool
) -> None:
    """A broker that was down may not have heard of the end of the copy, however late its disk was copied."""

    def say() -> None:
        seconds = f"{(started - T) // 1000:06d}"
        minutes, rest = divmod(int(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        time = f"2023-11-{14 + (22 + hours) // 24}T{(22 + hours) % 24:02d}:{13 + minutes:02d}:{20 + rest:02d}Z"
        one = {"broker_id": 1, "log_dir": "broker-1", "kind": kind, "started": time, "finished": time}
        write_manifest(tmp_path, brokers=[one, {"broker_id": 2, "log_dir": "broker-2"}])

    answer = with_remote(tmp_path, LEADS, *WHOLE, unfinished(), then=say)
    assert bool(answer.found("TIER-COPY-UNFINISHED")) == is_found, answer


# --- T6: deletions


def deleting(*times: int, done: bool = False) -> list[bytes]:
    """The oldest segment, finished long ago; its deletion was begun at each time after T."""
    states = [(FINISHED, 2), *((DELETING, T + time) for time in times)]
    return copied(0, 40, (0, 0), then=[*states, *([(DELETED, T + times[-1])] if done else [])])


@pytest.mark.parametrize(
    ("times", "is_found"),
    [
        ((0,), True),
        (tuple(range(0, HOUR + 60_000, 30_000)), True),
        ((HOUR - 1000,), False),
        ((0, HOUR), False),
        ((-HOUR, HOUR - 1000), False),
    ],
    ids=["given up", "tried in vain", "just begun", "tried again once", "begun again after a stop"],
)
def test_a_deletion_that_never_ends(tmp_path: Path, times: tuple[int, ...], is_found: bool) -> None:
    answer = with_remote(tmp_path, LEADS, deleting(*times), *WHOLE[1:], later(HOUR + 1))
    assert tier_codes(answer) == ({"TIER-DELETE-UNFINISHED"} if is_found else set()), answer
    if is_found:
        assert answer.one("TIER-DELETE-UNFINISHED") == ("low", "proven", 0, 40)


def test_a_deletion_that_is_done_is_nothing_to_tell(tmp_path: Path) -> None:
    answer = with_remote(tmp_path, LEADS, deleting(0, done=True), *WHOLE[1:], later(HOUR + 1))
    assert not tier_codes(answer), answer


# --- holes: what retention and DeleteRecords took is none (T2, T8)


@pytest.mark.parametrize(
    ("leads", "segments"),
    [
        (leader((0, 50), (1, 60), log_start=0), WHOLE),
        (leader((1, 70), log_start=0), [copied(60, 100, (1, 60))]),
        (leader((1, 100), log_start=0), WHOLE[:2]),
        (Replica(written(100, 120, 1), epochs=None, log_start=0, first_base_offset=100), WHOLE),
    ],
    ids=["inside a segment", "past the first segments", "past what was copied", "no epoch file"],
)
def test_delete_records_moves_the_epoch_file_before_the_checkpoint_of_the_log_start(
    tmp_path: Path, leads: Replica, segments: Sequence[list[bytes]]
) -> None:
    answer = with_remote(tmp_path, leads, *segments, quiesced=True)
    assert not tier_codes(answer), answer
    assert answer.verdict != "COMMITTED_LOSS"


#: Between the copies of the brokers, of which broker 2 was begun ten seconds after broker 1.
IN_BETWEEN = (1_700_000_000 + 1065) * 1000


@pytest.mark.parametrize(
    ("segments", "deleted_at", "is_told"),
    [
        ((*WHOLE[:2], copied(80, 100, (1, 80))), IN_BETWEEN, False),
        ((*WHOLE[:2], copied(80, 100, (1, 80))), 1_700_000_000_000, True),
        ((WHOLE[0], copied(40, 60, (0, 40), (1, 58)), copied(80, 100, (1, 80))), IN_BETWEEN, True),
    ],
    ids=["after the log was copied", "before", "an older one with its epoch is there"],
)
def test_delete_records_takes_segments_of_the_epochs_that_are_left_before_older_ones(
    tmp_path: Path, segments: Sequence[list[bytes]], deleted_at: int, is_told: bool
) -> None:
    """Up to 80: epoch file and log start move, then segments of epoch 1 go, and those of epochs before it after that."""
    gone = copied(60, 80, (1, 60), state=DELETED, at=(1, deleted_at))
    leads = LEADS if len(segments[1]) == len(WHOLE[1]) and segments[1] is WHOLE[1] else leader((0, 0), (1, 58))
    answer = with_remote(tmp_path, leads, *segments[:2], gone, segments[2], told_by=2, begun=10)
    assert bool(answer.found("TIER-GAP")) == is_told, answer
    assert (answer.verdict == "COMMITTED_LOSS") == is_told


def test_a_log_start_that_a_follower_knows_counts(tmp_path: Path) -> None:
    """The leader's checkpoint is a minute old, its epoch file was copied before DeleteRecords."""
    other = leader((1, 100), log_start=100)
    answer = with_remote(tmp_path, LEADS, copied(0, 40, (0, 0)), other=other, quiesced=True)
    assert not tier_codes(answer) and answer.verdict in ("CONSISTENT", "LAGGING"), answer


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_followers_log_start_is_no_excuse_for_a_leader_that_was_stopped_cleanly(
    tmp_path: Path, is_clean: bool
) -> None:
    """Else its checkpoint of the log start may be a minute old."""
    other = leader((1, 110), start=110, log_start=110)
    leads = replace(LEADS, clean_shutdown=is_clean)
    answer = with_remote(tmp_path, leads, WHOLE[0], WHOLE[2], other=other, quiesced=True)
    assert bool(answer.found("TIER-GAP")) == is_clean, answer
    if is_clean:
        (row,) = answer.found("TIER-GAP")
        assert any("log start 110 of broker 2: no" in one["text"] for one in row["evidence"])


def test_where_copying_is_switched_off_local_files_go_by_retention(tmp_path: Path) -> None:
    off = {"remote.log.copy.disable": "true"}
    answer = with_remote(tmp_path, LEADS, *WHOLE[:2], quiesced=True, configs=off)
    assert not tier_codes(answer), answer


def test_a_copy_that_failed_and_was_deleted_covers_nothing(tmp_path: Path) -> None:
    failed = copied(60, 100, (1, 60), then=[(DELETING, 5), (DELETED, 6)])
    answer = with_remote(tmp_path, LEADS, *WHOLE[:2], failed, quiesced=True)
    assert answer.one("TIER-NOT-COPIED") == ("high", "likely", 60, 100)


def test_segments_that_overlap_are_legal(tmp_path: Path) -> None:
    """Brokers cut their segments elsewhere, and the next leader copies from a segment's beginning (KAFKA-15168)."""
    again = [copied(30, 70, (0, 30), (1, 60)), copied(60, 95, (1, 60)), copied(40, 60, (0, 40), number=1)]
    answer = with_remote(tmp_path, LEADS, *WHOLE, *again, quiesced=True)
    assert not tier_codes(answer) and answer.verdict == "LAGGING", answer


# --- T8 on a follower


SHORT = Replica(
    [*written(50, 60, 0), *written(60, 120, 1)], epochs=((0, 0), (1, 60)), log_start=0, first_base_offset=50
)
BEHIND_GAP = leader((0, 0), (1, 60), start=80)


def test_a_follower_that_begins_past_the_end_of_remote_storage(tmp_path: Path) -> None:
    answer = with_remote(tmp_path, SHORT, *WHOLE[:2], other=BEHIND_GAP, quiesced=True)
    assert answer.one("TIER-FOLLOWER-GAP", 2) == ("high", "likely", 60, 80)
    assert answer.verdict == "LATENT_CORRUPTION"
    results = audit_all(str(tmp_path), Settings(), asked=(TopicPartition(TOPIC, 0),))
    hidden = {row.candidate_id: row.hidden_records for row in results.elections if row.topic == TOPIC}
    assert hidden == {1: 0, 2: 20}


@pytest.mark.parametrize(
    ("other", "segments", "options"),
    [
        (leader((0, 0), (1, 60), start=60), WHOLE[:2], {}),
        (BEHIND_GAP, (*WHOLE[:2], copied(60, 80, (1, 60))), {}),
        (BEHIND_GAP, WHOLE[:2], {"quiesced": None}),
        (BEHIND_GAP, WHOLE[:2], {"configs": {"remote.log.copy.disable": "true"}}),
        (leader((1, 80), start=80, log_start=80), WHOLE[:2], {}),
        (Replica([], epochs=(), log_start=0, first_base_offset=80), WHOLE[:2], {}),
        (BEHIND_GAP, (), {}),
        (BEHIND_GAP, (*WHOLE[:1], copied(40, 60, (0, 40), topic_id=make_uuid("another"))), {"quiesced": None}),
    ],
    ids=["begins at the end", "copied", "copied since", "switched off", "deleted records", "empty"]
    + ["nothing known", "told of another topic"],
)
def test_followers_that_begin_later_and_lack_nothing(tmp_path: Path, other: Replica, segments, options) -> None:
    answer = with_remote(tmp_path, SHORT, *segments, other=other, **{"quiesced": True, **options})
    assert not answer.found("TIER-FOLLOWER-GAP"), answer


# --- T9: epochs


@pytest.mark.parametrize(
    "segment",
    [
        copied(40, 80, (0, 40), (1, 55)),
        copied(40, 80, (0, 40), (1, 65)),
        copied(40, 80, (1, 40)),
        copied(40, 80, (1, 40), (0, 60)),
        copied(40, 60, (0, 40), (1, 60)),
        copied(40, 60, (0, 30)),
    ],
    ids=["epoch begins earlier", "epoch begins later", "epoch from before", "epochs fall", "epoch past the end"]
    + ["epoch before the beginning"],
)
def test_epochs_that_cannot_be_true(tmp_path: Path, segment: list[bytes]) -> None:
    """Neither a loss nor a hole rests on them."""
    answer = with_remote(tmp_path, LEADS, WHOLE[0], segment, WHOLE[2], copied(40, 60, (0, 40), number=1), quiesced=True)
    assert tier_codes(answer) == {"TIER-EPOCHS"} and answer.verdict == "INCONCLUSIVE", answer
    assert answer.one("TIER-EPOCHS")[:2] == ("high", "proven")


def test_a_difference_below_an_epoch_that_both_have_cannot_be_true(tmp_path: Path) -> None:
    answer = with_remote(
        tmp_path,
        leader((0, 0), (2, 60)),
        copied(0, 40, (0, 0)),
        copied(40, 100, (0, 40), (1, 50), (2, 60)),
        quiesced=True,
    )
    assert tier_codes(answer) == {"TIER-EPOCHS"}, answer


@pytest.mark.parametrize(
    ("leads", "segments"),
    [
        (LEADS, (*WHOLE[:2], copied(60, 100, (1, 70)))),
        (leader((0, 20), (1, 60), log_start=20), (copied(0, 60, (0, 0)), WHOLE[2])),
        (leader((1, 70), log_start=70), (copied(40, 80, (0, 40), (1, 60)), copied(80, 100, (1, 80)))),
        (LEADS, (*WHOLE, copied(40, 80, (0, 40), (1, 55), then=[(FINISHED, 3), (DELETING, 4), (DELETED, 5)]))),
        (LEADS, (*WHOLE, copied(110, 140, (1, 110), (3, 130)))),
        (LEADS, (*WHOLE, copied(55, 75, (0, 55)))),
    ],
    ids=["log start inside", "log start inside the first epoch", "first epoch cut", "deleted since", "later leader"]
    + ["another history"],
)
def test_epochs_that_are_true(tmp_path: Path, leads: Replica, segments: Sequence[list[bytes]]) -> None:
    answer = with_remote(tmp_path, leads, *segments, quiesced=True)
    assert not answer.found("TIER-EPOCHS"), answer


# --- KAFKA-20732, KAFKA-17062


ELECTED = TIME_MS + 1000
#: Bytes of a segment in remote storage that `copied` says.
EACH = 100


def early(
    path: Path,
    *,
    size: str | None = "2000",
    age: str | None = "-1",
    after_ms: int = 400,
    by: int = 1,
    latest: int = 1,
    leads: Replica | None = None,
    later_size: str | None = None,
    quiesced: bool | None = True,
    known: Sequence[tuple[int, int]] = ((60, 80), (80, 100)),
    failed: Sequence[Mapping[str, Any]] = (),
    kafka_version: str | None = None,
) -> Answer:
    """Broker 1 was elected at `ELECTED`, and deleted segments `after_ms` later."""
    own = {"remote.storage.enable": "true", "retention.bytes": size, "retention.ms": age}
    configs = [config(2, TOPIC, name, value) for name, value in own.items() if value is not None]
    begin = [register_broker(1), register_broker(2), topic(TOPIC, TOPIC_ID), *configs, partition(TOPIC_ID, [1, 2], 2)]
    changes = [change(TOPIC_ID, leader=1, isr=[1, 2])]
    changes += [] if later_size is None else [config(2, TOPIC, "retention.bytes", later_size)]
    leads = leads or leader((1, 60), log_start=60)
    times = [(FINISHED, 2), (DELETING, ELECTED + after_ms), (DELETED, ELECTED + after_ms + 100)]
    segments = [copied(*span, (0, span[0]), then=times, by=(2, by), latest=latest) for span in ((0, 40), (40, 60))]
    segments += [copied(*span, (1, span[0])) for span in known]
    segments += [
        copied(100, 120, (1, 100), **{"state": STARTED, "at": (ELECTED, 0), "number": number, **how})
        for number, how in enumerate(failed)
    ]
    records = {100: history(begin, *changes)}
    return with_remote(path, leads, *segments, quiesced=quiesced, metadata=records, kafka_version=kafka_version)


def test_records_that_size_retention_deleted_though_the_log_is_small(tmp_path: Path) -> None:
    answer = early(tmp_path)
    assert answer.one("TIER-RETENTION", 1) == ("high", "likely", 0, 60)
    assert answer.verdict == "COMMITTED_LOSS"
    (row,) = answer.found("TIER-RETENTION")
    assert "within 1 second of its election" in row["message"] and "KAFKA-20732" in row["message"]
    left = int(row["message"].split(" bytes are left")[0].rsplit(" ", 1)[1])
    size = sum(one["size_bytes"] for one in answer.tables["replicas"] if one["broker_id"] == 1)
    assert left == 2 * EACH + size < 2000


LATER = 700_000


def test_records_that_size_retention_deleted_since_it_counted_copies_that_failed(tmp_path: Path) -> None:
    answer = early(tmp_path, after_ms=LATER, failed=[{"size": 900}, {"size": 900}])
    assert answer.one("TIER-RETENTION", 1) == ("high", "likely", 0, 60)
    assert answer.verdict == "COMMITTED_LOSS"
    (row,) = answer.found("TIER-RETENTION")
    assert "it also counted 2 failed copies of 1800 bytes (KAFKA-17062)" in row["message"]
    assert not any(one["kind"] == "leadership" for one in row["evidence"])


@pytest.mark.parametrize(
    "how",
    [
        {"failed": [{"size": 900}]},
        {"failed": [{"size": 1800, "at": (ELECTED + LATER + 1, 0)}]},
        {"failed": [{"size": 1800, "state": FINISHED, "at": (ELECTED, ELECTED + 1)}]},
        {"failed": [{"size": 1800, "then": [(DELETING, ELECTED + 2), (DELETED, ELECTED + 3)]}]},
        {"failed": [{"size": 1800}], "kafka_version": "3.9.0"},
        {"failed": [{"size": 1800}], "by": 2},
    ],
    ids=["too little", "begun since", "done", "removed before", "a version that leaves them out", "another broker"],
)
def test_copies_that_failed_and_explain_no_deletion(tmp_path: Path, how: dict) -> None:
    answer = early(tmp_path, after_ms=LATER, **how)
    assert not answer.found("TIER-RETENTION"), answer


@pytest.mark.parametrize(
    "how",
    [
        {"size": "1"},
        {"size": "-1"},
        {"size": None},
        {"age": None},
        {"age": "1000"},
        {"after_ms": 700_000},
        {"after_ms": -500},
        {"by": 2},
        {"later_size": "3000"},
        {"leads": leader((1, 70), log_start=70)},
        {"quiesced": None},
        {"known": [(60, 80)]},
    ],
    ids=["more is left than that", "no limit", "the brokers' limit", "the brokers' age", "too old", "long after"]
    + ["before", "another broker", "raised since", "records deleted further"]
    + ["more was copied since", "a segment is not known"],
)
def test_what_retention_deletes_as_it_should(tmp_path: Path, how: dict) -> None:
    answer = early(tmp_path, **how)
    assert not answer.found("TIER-RETENTION"), answer


# --- the high watermark


def marked(
    path: Path, *segments: list[bytes], known: int | None = 20, leads: Replica = LEADS, **options
) -> tuple[int, int | None]:
    """Bounds of the high watermark where checkpoints say `known`; broker 2 in sync may be short."""
    both = replace(leads, high_watermark=known)
    answer = with_remote(path, both, *segments, **options)
    return answer.mark["hw_lower"], answer.mark["hw_upper"]


@pytest.mark.parametrize(
    ("segment", "lower"),
    [
        (copied(100, 115, (1, 100)), 115),
        (copied(100, 115, (1, 100), state=STARTED), 115),
        (copied(100, 115, (1, 100), then=[(DELETING, 3), (DELETED, 4)]), 115),
        (copied(100, 115, (1, 100), (5, 110)), 110),
        (copied(100, 115, (0, 100)), 100),
        (copied(100, 115, (1, 100), topic_id=make_uuid("another")), 100),
        (copied(100, 115, (1, 100), (0, 105)), 100),
    ],
    ids=["copied", "begun", "failed", "of a later leader in part", "another history", "another topic", "contradictory"],
)
def test_what_a_leader_copied_was_stable(tmp_path: Path, segment: list[bytes], lower: int) -> None:
    assert marked(tmp_path, *WHOLE, segment) == (lower, 120)


def test_segments_past_the_end_of_a_copy_leave_its_end_open(tmp_path: Path) -> None:
    """The log was copied before: its end bounds nothing."""
    assert marked(tmp_path, *WHOLE, copied(100, 140, (1, 100))) == (120, None)


def test_a_copy_of_the_log_of_a_broker_that_was_deposed_proves_nothing_of_the_leader(tmp_path: Path) -> None:
    """Broker 3 leads in a later epoch, perhaps without what broker 1 had copied."""
    low, _ = marked(
        tmp_path, *WHOLE, copied(100, 115, (1, 100)), source="user", leader=3, replicas=(1, 2, 3), leader_epoch=7
    )
    assert low == 0


# --- records past the end of a copy that the leader's epoch does not cover


def led(*elected: tuple[int, Sequence[int]], replicas: Sequence[int] = (1, 2)) -> dict[int, bytes]:
    """A metadata log in which broker 1 leads in epoch 0, then those `elected` with their ISR in an epoch each."""
    begin = [register_broker(one) for one in replicas]
    begin += [topic(TOPIC, TOPIC_ID), config(2, TOPIC, "remote.storage.enable", "true")]
    changes = [change(TOPIC_ID, leader=one, isr=list(isr)) for one, isr in elected]
    return {100: history([*begin, partition(TOPIC_ID, list(replicas), 1)], *changes)}


BY_ONE = (copied(0, 60, (0, 0)), copied(60, 100, (0, 60)))
ROLLED = led((2, [1, 2]), (1, [1, 2]))


@pytest.mark.parametrize(
    ("newest", "metadata"),
    [
        (copied(100, 140, (0, 100)), ROLLED),
        (copied(100, 140, (0, 100), (2, 130)), ROLLED),
        (copied(100, 140, (0, 100)), led((2, [2, 3]), (3, [2, 3]), replicas=(1, 2, 3))),
    ],
    ids=["same epoch", "both epochs", "by a leader that was not captured"],
)
def test_a_leaders_epoch_that_its_copy_does_not_know_rules_nothing_out(
    tmp_path: Path, newest: list[bytes], metadata: dict[int, bytes]
) -> None:
    """After the log was copied the old epoch went on, and the segment was copied to remote storage."""
    answer = with_remote(tmp_path, leader((0, 0)), *BY_ONE, newest, metadata=metadata)
    assert not tier_codes(answer) and answer.verdict != "COMMITTED_LOSS", answer
    assert not answer.tables["partitions"][0]["lost_records"]


def test_a_dead_replica_alone_rules_nothing_out_past_its_end(tmp_path: Path) -> None:
    newest = copied(100, 140, (1, 100))
    leads = {"source": "user", "leader": 3, "leader_epoch": 2, "replicas": (1, 2, 3)}
    answer = with_remote(tmp_path, LEADS, *WHOLE[:2], newest, **leads)
    assert not tier_codes(answer) and answer.verdict != "COMMITTED_LOSS", answer


def test_an_epoch_that_the_leaders_own_file_begins_at_its_end_rules_out_what_others_copied_there(
    tmp_path: Path,
) -> None:
    """Elected without the records, and it has written none yet."""
    leads = replace(leader((0, 0)), epochs=((0, 0), (2, 120)))
    answer = with_remote(tmp_path, leads, *BY_ONE, copied(100, 140, (0, 100)), metadata=ROLLED)
    assert answer.one("TIER-ORPHAN") == ("critical", "proven", 120, 140), answer


# --- segments of another history that are gone, or never were whole


BEGAN_EMPTY = Replica(written(0, 20, 5), epochs=((5, 0),), log_start=0)


@pytest.mark.parametrize(
    ("said", "severity", "verdict"),
    [
        ({"metadata": led((3, [3]), replicas=(1, 2, 3))}, ("critical", "proven"), "COMMITTED_LOSS"),
        ({"metadata": led((1, [1]), (3, [3]), replicas=(1, 2, 3))}, ("high", "suspect"), "INCONCLUSIVE"),
        ({"leader": 3, "replicas": (1, 2, 3)}, ("high", "suspect"), "INCONCLUSIVE"),
    ],
    ids=["of its epoch", "of a later one", "of an epoch that nobody says"],
)
def test_a_leader_that_was_not_captured_may_have_what_a_replica_has_not(
    tmp_path: Path, said: dict, severity: tuple[str, str], verdict: str
) -> None:
    """It may have been elected uncleanly with the older history; a replica that has its epoch was cut where they parted."""
    lost = copied(60, 75, (0, 60))
    answer = with_remote(tmp_path, LEADS, *WHOLE, lost, quiesced=True, **said)
    assert answer.one("TIER-ORPHAN") == (*severity, 60, 75) and answer.verdict == verdict, answer
    (row,) = answer.found("TIER-ORPHAN")
    assert ("broker 3, which leads, may have them, and its log is not here" in row["message"]) == (
        verdict == "INCONCLUSIVE"
    )
    (partition,) = answer.tables["partitions"]
    assert partition["lost_committed"] == (15 if verdict == "COMMITTED_LOSS" else None)


@pytest.mark.parametrize("state", [STARTED, DELETED])
def test_what_was_begun_or_deleted_a_leader_that_was_not_captured_may_have(tmp_path: Path, state: int) -> None:
    lost = copied(60, 75, (0, 60), state=state)
    answer = with_remote(tmp_path, LEADS, *WHOLE, lost, quiesced=True, leader=3, replicas=(1, 2, 3))
    assert answer.one("TIER-LOST") == ("high", "suspect", 60, 75) and answer.verdict == "INCONCLUSIVE", answer
    (row,) = answer.found("TIER-LOST")
    assert "broker 3, which leads, may have them, and its log is not here" in row["message"]
    (partition,) = answer.tables["partitions"]
    assert (partition["lost_committed"], partition["lost_records"]) == (None, None)


def test_of_an_object_that_is_gone_a_leader_that_was_not_captured_may_have_the_records(tmp_path: Path) -> None:
    there = [
        (plain_path(segment_id(*one), one[0]), 100) for one in ((0, 40, (0, 0)), (40, 60, (0, 40)), (60, 100, (1, 60)))
    ]

    def listed() -> None:
        write_listing(tmp_path, *there, listed="1970-01-01T00:10:00Z")

    lost = copied(60, 75, (0, 60), at=(1, 2))
    answer = with_remote(tmp_path, LEADS, *WHOLE, lost, quiesced=True, leader=3, replicas=(1, 2, 3), then=listed)
    assert answer.one("TIER-OBJECT-MISSING") == ("high", "suspect", 60, 75) and answer.verdict == "INCONCLUSIVE", answer
    (row,) = answer.found("TIER-OBJECT-MISSING")
    assert "still has elsewhere" not in row["message"] and "broker 3, which leads, may have them" in row["message"]


@pytest.mark.parametrize(
    ("newest", "is_proven"),
    [
        (copied(100, 140, (1, 100), (2, 120), by=(3, 3)), True),
        (copied(100, 140, (1, 100), (3, 120), by=(3, 3)), True),
        (copied(100, 140, (0, 100), (2, 120), by=(3, 3)), False),
        (copied(120, 140, (2, 120), by=(3, 3)), False),
        (copied(60, 120, (1, 60)), False),
        (copied(100, 140, (1, 90), (2, 120), by=(3, 3)), False),
        (copied(100, 140, (1, 100), (2, 120), by=(3, 3), topic_id=make_uuid("another")), False),
    ],
    ids=["its epoch and the replica's", "a later one", "of the older history", "its epoch alone", "not of its epoch"]
    + ["contradictory", "another topic"],
)
def test_a_segment_of_a_leader_that_was_not_captured_tells_its_history(
    tmp_path: Path, newest: list[bytes], is_proven: bool
) -> None:
    """Broker 1 led in epoch 1, and broker 3 leads in epoch 2: where it has records of epoch 1, it has none of epoch 0 at 60."""
    elected = led((1, [1]), (3, [3]), replicas=(1, 2, 3))
    answer = with_remote(tmp_path, LEADS, *WHOLE, copied(60, 75, (0, 60)), newest, quiesced=True, metadata=elected)
    proven = [row for row in answer.found("TIER-ORPHAN") if row["confidence"] == "proven"]
    assert [(row["start_offset"], row["end_offset"]) for row in proven] == ([(60, 75)] if is_proven else []), answer
    assert (answer.verdict == "COMMITTED_LOSS") == is_proven


def test_a_log_without_any_epoch_rules_nothing_out(tmp_path: Path) -> None:
    """Blank replicas of a leader that was not captured."""
    blank = Replica([], epochs=(), high_watermark=0)
    answer = with_remote(tmp_path, blank, *WHOLE, quiesced=True, leader=3, replicas=(1, 2, 3))
    assert not tier_codes(answer) and "CAP-NOT-AUDITED" not in answer.codes(), answer


@pytest.mark.parametrize("state", [DELETING, DELETED])
def test_what_kafka_deleted_above_the_log_start_is_lost(tmp_path: Path, state: int) -> None:
    """An empty replica was elected uncleanly: all epochs of the segments are before its first."""
    segments = [copied(0, 40, (0, 0), state=state), copied(40, 60, (0, 40), state=state)]
    answer = with_remote(tmp_path, BEGAN_EMPTY, *segments, quiesced=True)
    assert answer.one("TIER-LOST") == ("critical", "proven", 0, 60), answer
    (partition,) = answer.tables["partitions"]
    assert (answer.verdict, partition["lost_committed"]) == ("COMMITTED_LOSS", 60)
    own = [row for row in answer.tables["elections"] if row["candidate_id"] == row["broker_id"]]
    assert all((row["lost_committed"], row["remote_records"]) == (60, 0) for row in own)


def test_what_kafka_deleted_is_lost_under_the_log_that_served_it_too(tmp_path: Path) -> None:
    """Of the old leader's log the part below its files is gone, whoever leads."""
    segments = [copied(0, 40, (0, 0), state=DELETED), copied(40, 60, (0, 40), state=DELETED)]
    old = leader((0, 0), start=60, end=80)
    answer = with_remote(tmp_path, BEGAN_EMPTY, *segments, other=old, quiesced=True)
    assert answer.one("TIER-LOST") == ("critical", "proven", 0, 60), answer
    assert answer.tables["partitions"][0]["lost_committed"] == 80
    own = {row["candidate_id"]: row for row in answer.tables["elections"] if row["candidate_id"] == row["broker_id"]}
    assert {one: row["lost_committed"] + (row["lost_possible"] or 0) for one, row in own.items()} == {1: 80, 2: 60 + 20}


def test_a_copy_that_an_earlier_leader_began_has_committed_records(tmp_path: Path) -> None:
    answer = with_remote(tmp_path, LEADS, *WHOLE, copied(60, 75, (0, 60), state=STARTED), quiesced=True)
    assert answer.one("TIER-LOST") == ("critical", "proven", 60, 75), answer
    assert answer.tables["partitions"][0]["lost_committed"] == 15
    (row,) = answer.found("TIER-LOST")
    assert "the store may have part of them" in row["message"]


def test_what_a_finished_segment_has_is_told_once(tmp_path: Path) -> None:
    again = [copied(60, 75, (0, 60), state=STARTED), copied(60, 75, (0, 60), number=1)]
    answer = with_remote(tmp_path, LEADS, *WHOLE, *again, quiesced=True)
    assert tier_codes(answer) == {"TIER-ORPHAN"} and answer.tables["partitions"][0]["lost_committed"] == 15, answer


@pytest.mark.parametrize(
    ("leads", "quiesced"),
    [
        (leader((1, 80), log_start=0), True),
        (leader((1, 80), log_start=80), True),
        (LEADS, None),
        (Replica(written(60, 120, 1), epochs=None, log_start=0, first_base_offset=60), True),
    ],
    ids=["epoch file", "log start", "perhaps since the log was copied", "no epoch file"],
)
def test_what_retention_deleted_of_another_history_is_no_loss(
    tmp_path: Path, leads: Replica, quiesced: bool | None
) -> None:
    segment = copied(60, 75, (0, 60), state=DELETED)
    answer = with_remote(tmp_path, leads, copied(0, 60, (0, 0), state=DELETED), segment, WHOLE[2], quiesced=quiesced)
    assert not answer.found("TIER-LOST") and answer.verdict != "COMMITTED_LOSS", answer

"""A remote store beside `__remote_log_metadata`: what it lacks, has in another size, or should not have (F.7, T5, T9)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.remote_log import DELETED, DELETING, LEADS, STARTED, copied, leader, with_remote
from tests.support.remote_stores import plain_path, put, segment_id, write_listing
from tests.support.scenario import Answer, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, make_uuid

from replica_audit.config import Settings
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.runner.in_process import audit_all

Span = tuple[int, int, tuple[int, int]]
#: The segments of LEADS, each copied some seconds after the one before.
SPANS: tuple[Span, ...] = ((0, 40, (0, 0)), (40, 60, (0, 40)), (60, 100, (1, 60)))
LATER = 60_000
LOCAL_FROM_40 = Replica(
    [*written(40, 60, 0), *written(60, 120, 1)], epochs=((0, 0), (1, 60)), log_start=0, first_base_offset=40
)


def told(
    *, states: tuple[int | None, ...] = (None, None, None), extra: tuple[list[bytes], ...] = ()
) -> list[list[bytes]]:
    """Of each span: copied, in a later state, or (-1) not told."""
    found = [
        copied(*span, at=(10_000 * number + 1, 10_000 * number + 2), **({} if state is None else {"state": state}))
        for number, (span, state) in enumerate(zip(SPANS, states, strict=True))
        if state != -1
    ]
    return [*found, *extra]


def stored(*spans: Span, kind: str = "log", size: int = 100) -> list[tuple[str, int]]:
    return [(plain_path(segment_id(*span), span[0], kind), size) for span in spans]


def looked(
    path: Path, objects: list[tuple[str, int]], segments: list[list[bytes]], leads=LEADS, listed=None, **options
):
    return with_remote(path, leads, *segments, then=lambda: write_listing(path, *objects, listed=listed), **options)


def codes(answer: Answer) -> set[str]:
    return {code for code in answer.codes("info") if code.startswith("TIER-OBJECT")}


def test_a_store_that_has_all_of_it_is_nothing_to_tell(tmp_path: Path) -> None:
    answer = looked(tmp_path, stored(*SPANS), told())
    assert not codes(answer) and answer.verdict == "LAGGING", answer


# --- segments without an object


def test_a_segment_between_others_that_are_there_is_gone(tmp_path: Path) -> None:
    """Retention deletes the oldest first, and a later one was there when the store was listed."""
    answer = looked(tmp_path, stored(SPANS[0], SPANS[2]), told())
    assert answer.one("TIER-OBJECT-MISSING") == ("high", "likely", 40, 60), answer
    assert answer.verdict == "COMMITTED_LOSS" and not answer.found("TIER-GAP")


def test_a_listing_between_the_copy_and_the_end_of_what_is_told_proves_it(tmp_path: Path) -> None:
    after = copied(100, 110, (1, 100), at=(LATER, LATER))
    answer = looked(tmp_path, stored(*SPANS[1:]), told(extra=(after,)), listed="1970-01-01T00:00:40Z")
    assert answer.one("TIER-OBJECT-MISSING") == ("critical", "proven", 0, 40), answer
    assert len(answer.found("TIER-OBJECT-MISSING")) == 1, "what was copied later is not missing"


@pytest.mark.parametrize(
    ("objects", "listed"),
    [
        (stored(*SPANS[:2]), None),
        (stored(*SPANS[1:]), None),
        (stored(*SPANS[1:]), "1970-01-01T01:00:00Z"),
    ],
    ids=["the newest", "the oldest", "the oldest, listed later"],
)
def test_the_newest_may_be_copied_and_the_oldest_deleted_since(tmp_path: Path, objects, listed) -> None:
    answer = looked(tmp_path, objects, told(), listed=listed)
    assert answer.one("TIER-OBJECT-MISSING")[:2] == ("info", "suspect"), answer
    assert answer.verdict == "LAGGING"


def test_what_was_copied_after_the_listing_need_not_be_in_it(tmp_path: Path) -> None:
    answer = looked(tmp_path, stored(*SPANS[:2]), told(), listed="1970-01-01T00:00:15Z")
    assert not codes(answer), answer


def test_of_a_cluster_at_rest_the_oldest_is_gone_as_well(tmp_path: Path) -> None:
    answer = looked(tmp_path, stored(*SPANS[1:]), told(), quiesced=True)
    assert answer.one("TIER-OBJECT-MISSING") == ("high", "likely", 0, 40), answer


@pytest.mark.parametrize(
    "segments",
    [
        told(states=(DELETING, None, None)),
        told(states=(DELETED, None, None)),
        told(states=(None, None, None), extra=(copied(100, 110, (1, 100), state=STARTED),)),
    ],
    ids=["delete under way", "deleted", "upload under way"],
)
def test_what_comes_and_goes_is_not_missing(tmp_path: Path, segments: list[list[bytes]]) -> None:
    there = SPANS[1:] if len(segments) == 3 else SPANS
    answer = looked(tmp_path, stored(*there), segments, quiesced=True)
    assert not answer.found("TIER-OBJECT-MISSING"), answer


def test_a_segment_without_its_log_is_missing_though_its_indexes_are_there(tmp_path: Path) -> None:
    objects = [*stored(SPANS[0], SPANS[2]), *stored(SPANS[1], kind="index")]
    answer = looked(tmp_path, objects, told())
    assert answer.one("TIER-OBJECT-MISSING") == ("high", "likely", 40, 60)
    assert "has no .log of a copied segment" in answer.found("TIER-OBJECT-MISSING")[0]["message"]


@pytest.mark.parametrize(
    ("leads", "extra"),
    [
        (LOCAL_FROM_40, ()),
        (leader((0, 0), (1, 60), log_start=60), ()),
        (LEADS, (copied(35, 65, (0, 35), (1, 60), at=(LATER, LATER)),)),
    ],
    ids=["local", "below the log start", "in another segment"],
)
def test_a_missing_segment_that_nobody_needs_is_no_loss(tmp_path: Path, leads, extra) -> None:
    spans = [SPANS[0], SPANS[2]]
    objects = stored(*spans) + ([(plain_path(segment_id(35, 65, (0, 35), (1, 60)), 35), 100)] if extra else [])
    answer = looked(tmp_path, objects, told(extra=extra), leads=leads, quiesced=True)
    assert answer.one("TIER-OBJECT-MISSING")[:2] == ("low", "likely"), answer
    assert answer.verdict != "COMMITTED_LOSS"


def test_lost_records_that_the_store_does_not_have_any_more_are_not_said_to_be_there(tmp_path: Path) -> None:
    """One of two segments of the history that was left is gone; the records of both count as lost."""
    left = ((60, 75, (0, 60)), (75, 90, (0, 75)))
    extra = tuple(copied(*span, at=(LATER + at, LATER + at)) for at, span in enumerate(left))
    answer = looked(tmp_path, stored(*SPANS, left[0]), told(extra=extra), listed="2100-01-01T00:00:00Z", quiesced=True)
    assert answer.one("TIER-ORPHAN") == ("critical", "proven", 60, 75), answer
    assert answer.one("TIER-OBJECT-MISSING") == ("high", "likely", 75, 90)
    (partition,) = answer.tables["partitions"]
    assert (partition["lost_records"], partition["lost_committed"]) == (30, 30)
    own = [row for row in answer.tables["elections"] if row["candidate_id"] == row["broker_id"] == 1]
    assert [(row["lost_records"], row["remote_records"]) for row in own] == [(30, 15)]


# --- sizes


def test_a_copied_segment_of_another_size(tmp_path: Path) -> None:
    answer = looked(tmp_path, [*stored(SPANS[0], size=60), *stored(*SPANS[1:])], told())
    assert answer.one("TIER-OBJECT-SIZE") == ("high", "likely", 0, 40), answer
    assert "has 60 bytes of a segment of 100 bytes" in answer.found("TIER-OBJECT-SIZE")[0]["message"]


@pytest.mark.parametrize(
    ("segments", "listed"),
    [
        (told(extra=(copied(100, 110, (1, 100), state=STARTED, at=(1, 1)),)), None),
        (told(extra=(copied(100, 110, (1, 100), at=(1, LATER)),)), "1970-01-01T00:00:30Z"),
        (told(extra=(copied(100, 110, (1, 100), at=(1, LATER)),)), None),
    ],
    ids=["upload under way", "listed during the upload", "perhaps listed during the upload"],
)
def test_an_upload_under_way_has_another_size(tmp_path: Path, segments, listed) -> None:
    objects = [*stored(*SPANS), *stored((100, 110, (1, 100)), size=60)]
    answer = looked(tmp_path, objects, segments, listed=listed)
    assert not codes(answer), answer


# --- objects without a segment

STRANGER = make_uuid("a segment that nobody knows")


@pytest.mark.parametrize(
    ("modified_ms", "first", "topic_id", "is_told"),
    [
        (1_000, 0, TOPIC_ID, True),
        (20_002, 0, TOPIC_ID, False),
        (LATER, 0, TOPIC_ID, False),
        (1_000, 12, TOPIC_ID, False),
        (1_000, 0, make_uuid("another"), False),
    ],
    ids=["old", "as old by clocks only", "upload under way", "log not from its beginning", "topic not told"],
)
def test_an_object_that_nobody_tells_of(
    tmp_path: Path, modified_ms: int, first: int, topic_id: str, is_told: bool
) -> None:
    store = tmp_path / "tier"
    for path, _ in stored(*SPANS):
        put(store, path)
    put(store, plain_path(STRANGER, 40, topic_id=topic_id), modified_ms=modified_ms)
    with_remote(tmp_path / "snapshot", LEADS, *told(), first=first)
    results = audit_all(str(tmp_path / "snapshot"), Settings(topics=(TOPIC,), remote=str(store)))
    found = [row for row in results.findings if row.code == "TIER-OBJECT-LEAKED"]
    assert [(row.severity, row.start_offset) for row in found] == ([("low", 40)] if is_told else [])


@pytest.mark.parametrize(
    ("listed", "is_told"), [("1970-01-01T00:10:00Z", True), ("1970-01-01T00:00:01Z", False), (None, False)]
)
def test_an_object_whose_deletion_was_finished_before_the_listing(tmp_path: Path, listed, is_told: bool) -> None:
    answer = looked(tmp_path, stored(*SPANS), told(states=(DELETED, None, None)), listed=listed)
    assert bool(answer.found("TIER-OBJECT-LEAKED")) == is_told, answer


def test_the_commands_of_an_answer_look_into_the_store_again(tmp_path: Path) -> None:
    store = tmp_path / "tier"
    for path, _ in stored(SPANS[0], SPANS[2]):
        put(store, path)
    with_remote(tmp_path / "snapshot", LEADS, *told())
    results = audit_all(str(tmp_path / "snapshot"), Settings(topics=(TOPIC,), remote=str(store)))
    assert results.command("salvage", "--payloads").endswith(f"--payloads --remote {store}")
    assert not results.command("verify").count("--remote")
    text = str(build_answer(results, build_verdict(results, "high")))
    assert "--remote" in text

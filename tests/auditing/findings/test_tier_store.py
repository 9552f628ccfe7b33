"""A remote store beside `__remote_log_metadata`: what it lacks, has in another size, or should not have (F.7, T5, T9)."""

from __future__ import annotations

from pathlib import Path
from time import time_ns

import pytest
from tests.support.remote_log import DELETED, DELETING, LEADS, STARTED, copied, leader, with_remote
from tests.support.remote_stores import plain_path, put, segment_id, write_listing
from tests.support.scenario import Answer, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, make_uuid, write_manifest

from replica_audit.auditing import opened_snapshot
from replica_audit.config import Settings
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.runner.in_process import audit_all
from replica_audit.snapshot.remote_store import RemoteStore, open_remote_store

Span = tuple[int, int, tuple[int, int]]
#: The segments of LEADS, each copied some seconds after the one before.
SPANS: tuple[Span, ...] = ((0, 40, (0, 0)), (40, 60, (0, 40)), (60, 100, (1, 60)))
LATER = 60_000
#: After everything that is told.
AFTER = "1970-01-01T00:10:00Z"
LOCAL_FROM_40 = Replica(
    [*written(40, 60, 0), *written(60, 120, 1)], epochs=((0, 0), (1, 60)), log_start=0, first_base_offset=40
)


def told(
    *, states: tuple[int | None, ...] = (None, None, None), extra: tuple[list[bytes], ...] = ()
) -> list[list[bytes]]:
    """Segments with these spans: copied, in a later state, or (-1) unknown to the metadata."""
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
    answer = looked(tmp_path, stored(SPANS[0], SPANS[2]), told(), listed=AFTER)
    assert answer.one("TIER-OBJECT-MISSING") == ("high", "likely", 40, 60), answer
    assert answer.verdict == "COMMITTED_LOSS" and not answer.found("TIER-GAP")


def test_where_nobody_knows_when_the_store_was_listed_retention_may_have_been_there_in_between(tmp_path: Path) -> None:
    """[0, 40) was seen, both were deleted, and [40, 60) was looked for then."""
    answer = looked(tmp_path, stored(SPANS[0], SPANS[2]), told())
    assert answer.one("TIER-OBJECT-MISSING") == ("info", "suspect", 40, 60) and answer.verdict == "LAGGING", answer


@pytest.mark.parametrize("is_copy", [False, True])
def test_a_directory_may_be_a_copy_that_was_made_while_retention_deleted(tmp_path: Path, is_copy: bool) -> None:
    """In the store itself a file lies since its broker put it there, and what is there is seen at once."""
    store, now = tmp_path / "tier", time_ns() // 1_000_000
    for path, _ in stored(SPANS[0], SPANS[2]):
        put(store, path, modified_ms=now - 3_600_000)
    at = now - 3_600_000 if is_copy else now + 1_000
    segments = [copied(*span, at=(at + number, at + number)) for number, span in enumerate(SPANS)]
    with_remote(tmp_path / "snapshot", LEADS, *segments)
    results = audit_all(str(tmp_path / "snapshot"), Settings(topics=(TOPIC,), remote=str(store)))
    found = [(row.severity, row.start_offset) for row in results.findings if row.code == "TIER-OBJECT-MISSING"]
    assert found == [("info" if is_copy else "high", 40)]


def test_an_older_segment_of_another_epoch_is_in_doubt_until_the_store_is_listed_again(tmp_path: Path) -> None:
    """After DeleteRecords those go first that have an epoch which the log still has, and the older ones in the same pass."""
    answer = looked(tmp_path, stored(*SPANS[:2]), told(), listed=AFTER)
    assert answer.one("TIER-OBJECT-MISSING") == ("low", "suspect", 60, 100), answer
    (row,) = answer.found("TIER-OBJECT-MISSING")
    assert answer.verdict == "LAGGING" and row["message"].endswith("list the store again")


@pytest.mark.parametrize("is_deleted", [False, True], ids=["it stays", "it goes too"])
def test_what_is_deleted_while_the_store_is_listed_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    """DeleteRecords: [0, 40) was seen, both were deleted, and [40, 60) was looked for then."""
    store, now = tmp_path / "tier", time_ns() // 1_000_000
    for path, _ in stored(SPANS[0], SPANS[2]):
        put(store, path, modified_ms=now - 3_600_000)
    segments = [copied(*span, at=(now + 1_000 + number,) * 2) for number, span in enumerate(SPANS)]
    with_remote(tmp_path / "snapshot", LEADS, *segments)

    def open_and_delete(uri: str) -> RemoteStore:
        found = open_remote_store(uri)
        if is_deleted:
            (store / stored(SPANS[0])[0][0]).unlink()
        return found

    monkeypatch.setattr(opened_snapshot, "open_remote_store", open_and_delete)
    results = audit_all(str(tmp_path / "snapshot"), Settings(topics=(TOPIC,), remote=str(store)))
    found = [(row.severity, row.start_offset) for row in results.findings if row.code == "TIER-OBJECT-MISSING"]
    assert found == [("info" if is_deleted else "high", 40)]


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


def manifest_until(path: Path, finished: str, **more: object) -> None:
    """Both brokers were stopped, and copied until then."""
    copies = [
        {"broker_id": one, "log_dir": f"broker-{one}", "kind": "stopped", "started": AFTER, "finished": finished}
        for one in (1, 2)
    ]
    write_manifest(path, brokers=copies, **more)


@pytest.mark.parametrize(
    ("listed", "finished", "is_gone"),
    [
        ([None], None, True),
        (["1970-01-01T00:10:30Z"], "1970-01-01T00:11:00Z", True),
        (["1970-01-02T00:00:00Z"], "1970-01-01T00:11:00Z", False),
        (["1970-01-01T00:10:30Z", "1970-01-02T00:00:00Z"], "1970-01-01T00:11:00Z", False),
        (["2100-01-01T00:00:00Z"], None, False),
    ],
    ids=["a part of the copies", "while they were made", "a day later", "a part of it a day later", "years later"],
)
def test_of_a_cluster_at_rest_the_oldest_is_gone_as_well_if_it_was_so_when_the_store_was_listed(
    tmp_path: Path, listed: list[str | None], finished: str | None, is_gone: bool
) -> None:
    """Started again, it deletes what retention tells it to."""

    def write() -> None:
        for number, moment in enumerate(listed):
            write_listing(tmp_path, *stored(*SPANS[1:]), listed=moment, name=str(number))
        if finished is not None:
            manifest_until(tmp_path, finished, quiesced=True)

    answer = with_remote(tmp_path, LEADS, *told(), then=write, quiesced=True if finished is None else None)
    expected = ("high", "likely", 0, 40) if is_gone else ("info", "suspect", 0, 40)
    assert answer.one("TIER-OBJECT-MISSING") == expected, answer
    assert answer.verdict == ("COMMITTED_LOSS" if is_gone else "LAGGING")


def test_a_store_that_is_looked_into_is_later_than_a_cluster_at_rest(tmp_path: Path) -> None:
    store = tmp_path / "tier"
    for path, _ in stored(*SPANS[1:]):
        put(store, path)
    with_remote(tmp_path / "snapshot", LEADS, *told(), quiesced=True)
    results = audit_all(str(tmp_path / "snapshot"), Settings(topics=(TOPIC,), remote=str(store)))
    (row,) = [row for row in results.findings if row.code == "TIER-OBJECT-MISSING"]
    assert (row.severity, row.start_offset) == ("info", 0)


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
    answer = looked(tmp_path, objects, told(), listed=AFTER)
    assert answer.one("TIER-OBJECT-MISSING") == ("high", "likely", 40, 60)
    assert "has no .log of a copied segment" in answer.found("TIER-OBJECT-MISSING")[0]["message"]


@pytest.mark.parametrize(
    ("leads", "extra", "why"),
    [
        (LOCAL_FROM_40, (), "which the log still has elsewhere"),
        (leader((0, 0), (1, 60), log_start=60), (), "which the log no longer needs"),
        (LEADS, (copied(35, 65, (0, 35), (1, 60), at=(LATER, LATER)),), "which the log still has elsewhere"),
    ],
    ids=["local", "below the log start", "in another segment"],
)
def test_a_missing_segment_that_nobody_needs_is_no_loss(tmp_path: Path, leads, extra, why: str) -> None:
    spans = [SPANS[0], SPANS[2]]
    objects = stored(*spans) + ([(plain_path(segment_id(35, 65, (0, 35), (1, 60)), 35), 100)] if extra else [])
    answer = looked(tmp_path, objects, told(extra=extra), leads=leads, quiesced=True)
    assert answer.one("TIER-OBJECT-MISSING")[:2] == ("low", "likely"), answer
    assert answer.found("TIER-OBJECT-MISSING")[0]["message"].endswith(why)
    assert answer.verdict != "COMMITTED_LOSS"


def test_lost_records_that_the_store_does_not_have_any_more_are_not_said_to_be_there(tmp_path: Path) -> None:
    """One of two segments of the history that was left is gone; the records of both count as lost."""
    left = ((60, 75, (0, 60)), (75, 90, (0, 75)))
    extra = tuple(copied(*span, at=(LATER + at, LATER + at)) for at, span in enumerate(left))

    def write() -> None:
        write_listing(tmp_path, *stored(*SPANS, left[0]), listed="1970-01-01T00:10:30Z")
        manifest_until(tmp_path, "1970-01-01T00:11:00Z", quiesced=True)

    answer = with_remote(tmp_path, LEADS, *told(extra=extra), then=write)
    assert answer.one("TIER-ORPHAN") == ("critical", "proven", 60, 75), answer
    assert answer.one("TIER-OBJECT-MISSING") == ("high", "likely", 75, 90)
    (partition,) = answer.tables["partitions"]
    assert (partition["lost_records"], partition["lost_committed"]) == (30, 30)
    own = [row for row in answer.tables["elections"] if row["candidate_id"] == row["broker_id"] == 1]
    assert [(row["lost_records"], row["remote_records"]) for row in own] == [(30, 15)]


@pytest.mark.parametrize("there", [True, False])
def test_an_object_of_another_topic_id_is_no_segment_of_this_topic(tmp_path: Path, there: bool) -> None:
    """A topic of the same name, as of a store that was copied from another cluster: the same segment id is that of other records."""
    span = SPANS[1]
    other = [(plain_path(segment_id(*span), span[0], topic_id=make_uuid("another topic")), 100)]
    answer = looked(
        tmp_path, [*stored(SPANS[0], SPANS[2]), *(stored(span) if there else []), *other], told(), listed=AFTER
    )
    assert ("TIER-OBJECT-MISSING" in codes(answer)) is not there, answer
    assert (answer.verdict == "COMMITTED_LOSS") is not there
    (row,) = [row for row in answer.tables["remote_segments"] if row["start_offset"] == 40]
    assert row["basis"] == ("listing" if there else None), row


# --- sizes


@pytest.mark.parametrize(
    ("size", "what"), [(60, "readers do not get all of it"), (160, "it was overwritten, or is another object")]
)
def test_a_copied_segment_of_another_size(tmp_path: Path, size: int, what: str) -> None:
    answer = looked(tmp_path, [*stored(SPANS[0], size=size), *stored(*SPANS[1:])], told())
    assert answer.one("TIER-OBJECT-SIZE") == ("high", "likely", 0, 40), answer
    (row,) = answer.found("TIER-OBJECT-SIZE")
    assert f"has {size} bytes of a segment of 100 bytes" in row["message"] and row["message"].endswith(what)


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
    with_remote(tmp_path / "snapshot", LEADS, *told(extra=(copied(60, 75, (0, 60), at=(LATER, LATER)),)))
    results = audit_all(str(tmp_path / "snapshot"), Settings(topics=(TOPIC,), remote=str(store)))
    assert results.command("salvage", "--payloads").endswith(f"--payloads --topic {TOPIC} --remote {store}")
    assert not results.command("verify").count("--remote")
    text = str(build_answer(results, build_verdict(results, "high")))
    assert "--remote" in text


# --- bad input


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        (copied(40, 60), "40 to 59 with epochs []"),
        (copied(60, 50, (0, 60)), "60 to 49"),
        (copied(-5, 10, (1, 0)), "-5 to 9"),
        (copied(100, 2**63, (1, 100)), f"100 to {2**63 - 1}"),
        (copied(100, 110, (1, 2**63 - 1)), f"100 to 109 with epochs [(1, {2**63 - 1})]"),
    ],
    ids=["no epochs", "end below start", "negative", "greatest end", "greatest epoch start"],
)
def test_a_segment_that_cannot_be_is_told_and_the_rest_goes_on(tmp_path: Path, bad: list[bytes], found: str) -> None:
    answer = looked(tmp_path, stored(*SPANS), [*told(), bad[:1]], quiesced=True)
    (row,) = [row for row in answer.tables["quarantine"] if "__remote_log_metadata" in row["path"]]
    assert row["code"] == "INPUT-IGNORED" and found in row["reason"]
    assert not answer.found("CAP-NOT-AUDITED") and len(answer.tables["remote_segments"]) == len(SPANS)


@pytest.mark.parametrize("listed", [False, True])
def test_an_object_with_a_number_that_no_offset_is_is_no_segment(tmp_path: Path, listed: bool) -> None:
    name = f"x/{TOPIC}-0-{TOPIC_ID}/{'9' * 20}-{STRANGER}.log"
    extra = (copied(100, 110, (1, 100), at=(LATER, LATER)),)
    answer = looked(
        tmp_path, [*stored(*SPANS), (name, 100)], told(extra=extra), listed="1970-01-01T00:00:20Z" if listed else None
    )
    assert not answer.found("TIER-OBJECT-LEAKED") and not answer.found("CAP-NOT-AUDITED"), answer


def test_a_missing_segment_whose_epochs_cannot_be_is_told_as_such_only(tmp_path: Path) -> None:
    bad = copied(70, 80, (1, 90), at=(LATER, LATER))
    answer = looked(tmp_path, stored(*SPANS), told(extra=(bad,)), listed=AFTER)
    assert not answer.found("TIER-OBJECT-MISSING") and answer.found("TIER-EPOCHS"), answer

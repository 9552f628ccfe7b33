"""Records that only a remote store has: taken out of it once, with their source, and named where they cannot be had."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.encoder import encode_batch, encode_marker, flip
from tests.support.remote_log import LEADS, WHOLE, copied, leader, with_remote
from tests.support.remote_stores import chunked_path, compressed, manifest, plain_path, put, segment_id
from tests.support.scenario import written
from tests.support.snapshots import Replica

from replica_audit.cli.main import main
from replica_audit.snapshot.chunked_segments import parse_manifest

Span = tuple[int, int, tuple[int, int]]
#: Of a history that was left at 60.
LEFT: tuple[Span, ...] = ((60, 75, (0, 60)), (75, 90, (0, 75)))


def lost(start: int, end: int) -> list[bytes]:
    return written(start, end, 0, "lost ")


def snapshot(path: Path, *spans: Span, **options: Any) -> Path:
    """A leader of epoch 1 from 60 on, and what else was copied."""
    with_remote(path / "snapshot", LEADS, *WHOLE, *(copied(*span) for span in spans), **options)
    return path / "snapshot"


def fill(store: Path, *spans: Span, batches: list[bytes] | None = None) -> Path:
    """The segments of these spans, and those of the leader's log."""
    for start, end, epoch in ((0, 40, (0, 0)), (40, 60, (0, 40)), (60, 100, (1, 60))):
        put(store, plain_path(segment_id(start, end, epoch), start), b"".join(written(start, end, epoch[0])))
    for start, end, epoch in spans:
        put(store, plain_path(segment_id(start, end, epoch), start), b"".join(batches or lost(start, end)))
    return store


def salvaged(path: Path, *options: str, status: int = 0) -> tuple[dict[str, Any], list[tuple[int, str]]]:
    """The manifest, and offset and value of every record of orders-0."""
    target = path.parent / f"out-{len(list(path.parent.iterdir()))}"
    arguments = ["salvage", str(path), "--to", str(target), "--payloads", "--quiet", "--topic", "orders"]
    assert main([*arguments, *options]) == status
    lines = target / "orders-0" / "records.jsonl"
    records = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    values = [(one["offset"], base64.b64decode(one["value"]).decode()) for one in records]
    return json.loads((target / "manifest.json").read_text()), values


def test_lost_records_are_taken_out_of_the_store(tmp_path: Path) -> None:
    store = fill(tmp_path / "tier", *LEFT)
    found, values = salvaged(snapshot(tmp_path, *LEFT), "--remote", str(store))
    assert [offset for offset, _ in values] == [*range(60, 90)] and all("lost" in value for _, value in values)
    (partition,) = found["partitions"]
    assert (partition["records"], partition["committed"], partition["reasons"]) == (30, 30, {"other_epoch": 30})
    (source,) = [one for one in partition["copies"] if one["records"]]
    assert (source["kind"], source["broker_id"]) == ("remote", None)
    assert source["path"].startswith("remote://kafka-tiered-storage/orders-0-")
    assert partition["epochs"][0]["in_remote"] and partition["epochs"][0]["brokers"] == []
    assert {one["file"].rpartition("/")[2] for one in found["records"]} == {
        f"{start:020d}-{segment_id(start, end, epoch)}.log" for start, end, epoch in LEFT
    }
    assert partition["left_out"] == {} and found["audit"]["remote"] == str(store)


def test_without_the_store_the_segments_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, values = salvaged(snapshot(tmp_path, *LEFT), status=3)
    assert values == [] and [one["start_offset"] for one in found["unread"]] == [60, 75]
    assert "--remote URI takes them out of it" in " ".join(capsys.readouterr().out.split())


def test_records_that_a_replica_has_too_are_taken_from_it(tmp_path: Path) -> None:
    other = Replica([*written(0, 60, 0), *lost(60, 80)], high_watermark=60)
    store = fill(tmp_path / "tier", *LEFT)
    found, values = salvaged(snapshot(tmp_path, *LEFT, other=other), "--remote", str(store))
    assert [offset for offset, _ in values] == [*range(60, 90)]
    kinds = {one["kind"]: (one["records"], one["holds"]) for one in found["partitions"][0]["copies"] if one["holds"]}
    assert kinds == {"replica": (20, 20), "remote": (10, 30)}


def test_records_of_a_chunk_that_the_leader_has_in_remote_storage_only_are_taken_from_a_replica(tmp_path: Path) -> None:
    leads = leader((0, 0), (1, 60), start=70_000, end=70_020)
    other = Replica([*written(0, 60, 0), *lost(60, 80)], high_watermark=60)
    with_remote(tmp_path / "snapshot", leads, copied(0, 60, (0, 0)), copied(60, 70_000, (1, 60)), other=other)
    found, values = salvaged(tmp_path / "snapshot")
    assert [offset for offset, _ in values] == [*range(60, 80)] and all("lost" in value for _, value in values)
    assert found["partitions"][0]["reasons"] == {"other_epoch": 20}


@pytest.mark.parametrize(
    ("spans", "leads"),
    [((), LEADS), (((60, 75, (7, 60)),), LEADS), (LEFT, leader((1, 90), log_start=90))],
    ids=["the leader's own", "of a later leader", "below the log start"],
)
def test_what_is_not_lost_is_not_taken(tmp_path: Path, spans: tuple[Span, ...], leads: Replica) -> None:
    store = fill(tmp_path / "tier", *spans)
    place = tmp_path / "snapshot"
    with_remote(place, leads, *WHOLE, *(copied(*span) for span in spans))
    found, values = salvaged(place, "--remote", str(store))
    assert values == [] and not found["unread"]


def test_a_segment_that_the_store_does_not_have_is_named_and_the_others_are_taken(tmp_path: Path) -> None:
    store = fill(tmp_path / "tier", LEFT[0])
    found, values = salvaged(snapshot(tmp_path, *LEFT), "--remote", str(store), status=3)
    assert [offset for offset, _ in values] == [*range(60, 75)]
    (unread,) = found["unread"]
    assert unread["start_offset"] == 75 and "the remote store does not have it" in unread["reason"]


def test_chunks_that_are_not_encoded_are_read_and_others_not_captured(tmp_path: Path) -> None:
    store = tmp_path / "tier"
    for (start, end, epoch), form in zip(LEFT, ({}, {"encryption": {"aad": "AA=="}}), strict=True):
        data = b"".join(lost(start, end))
        put(store, chunked_path(segment_id(start, end, epoch), start), data)
        put(store, chunked_path(segment_id(start, end, epoch), start, "rsm-manifest"), manifest(len(data), **form))
    found, values = salvaged(snapshot(tmp_path, *LEFT), "--remote", str(store), status=3)
    assert [offset for offset, _ in values] == [*range(60, 75)]
    assert [one["reason"] for one in found["unread"]] == ["not captured: its chunks are encrypted"]


def planned(path: Path, *options: str) -> dict[str, Any]:
    """The plan for orders-0."""
    plan = path.parent / "plan.json"
    assert main(["elect", str(path), "orders-0", *options, "--plan", str(plan), "--quiet"]) in (0, 1)
    return json.loads(plan.read_text())


@pytest.mark.parametrize(
    ("forms", "readable", "unread"),
    [
        (({}, {}), 30, 0),
        (({}, {"encryption": {"aad": "AA=="}}), 15, 15),
        (({"compression": True}, {"encryption": {"aad": "AA=="}}), 15, 15),
        (({"encryption": {"aad": "AA=="}, "compression": True}, {"encryption": {"aad": "AA=="}}), 0, 30),
        ((None, None), 0, 30),
    ],
    ids=["readable", "one encrypted", "compressed and encrypted", "both encrypted", "without manifests"],
)
def test_a_plan_counts_on_those_records_of_a_store_that_salvage_can_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], forms, readable: int, unread: int
) -> None:
    """Retention goes on once they are taken out: what cannot be taken out must not seem to be."""
    store = tmp_path / "tier"
    for (start, end, epoch), form in zip(LEFT, forms, strict=True):
        data = b"".join(lost(start, end))
        stored, head = (data, None) if form is None else (data, manifest(len(data), **form))
        if form == {"compression": True}:
            stored, head = compressed(data)
        put(store, chunked_path(segment_id(start, end, epoch), start), stored)
        if head is not None:
            put(store, chunked_path(segment_id(start, end, epoch), start, "rsm-manifest"), head)
    place = snapshot(tmp_path, *LEFT)
    plan = planned(place, "--remote", str(store))
    (chosen,) = [one for one in plan["decisions"][0]["candidates"] if one["candidate_id"] == 1]
    assert (chosen["remote_records"], chosen["remote_unread"]) == (30, unread)
    texts = {bool(one["commands"]): one["text"] for one in plan["steps"] if one["action"] == "salvage"}
    assert set(texts) == {is_there for is_there, records in ((True, readable), (False, unread)) if records}
    assert any(one["action"] == "restore" for one in plan["steps"]) == bool(readable)
    if readable:
        assert f"(at most {readable} records)" in texts[True]
    printed = " ".join(capsys.readouterr().out.split())
    assert ("Salvage cannot take" in printed) == bool(unread)
    if unread:
        assert f"(at most {unread} records)" in texts[False] and "Retention stays off until" in texts[False]
    (kept,) = [one["text"] for one in plan["steps"] if one["action"] == "keep_remote"]
    encrypted = sum(15 for form in forms if form and "encryption" in form)
    assert chosen["remote_encrypted"] == encrypted
    for text in (printed, kept):
        assert ("nly the brokers' plugin can read" in text) == bool(encrypted), text
    assert ("set retention back to what it was" in kept) != bool(unread), kept
    _, values = salvaged(place, "--remote", str(store), status=3 if unread else 0)
    assert len(values) == readable


def test_a_segment_that_the_store_may_have_lost_is_not_counted_on(tmp_path: Path) -> None:
    """The listing is later than the log that tells of the segments: it may have been deleted since, and cannot be read."""
    plan = planned(snapshot(tmp_path, *LEFT), "--remote", str(fill(tmp_path / "tier")))
    assert plan["decisions"][0]["candidates"][0]["remote_unread"] == 30
    assert not [one for one in plan["steps"] if one["action"] in ("salvage", "restore") and one["commands"]]


def test_damaged_records_of_the_store_are_not_counted_on(tmp_path: Path) -> None:
    """With --verify-remote; the plan salvages the others, and does not say that remote storage still has these."""
    batches = lost(60, 75)
    batches[1] = flip(batches[1])
    store = fill(tmp_path / "tier", *LEFT)
    put(store, plain_path(segment_id(*LEFT[0]), 60), b"".join(batches))
    plan = planned(snapshot(tmp_path, *LEFT), "--remote", str(store), "--verify-remote")
    (chosen,) = [one for one in plan["decisions"][0]["candidates"] if one["candidate_id"] == 1]
    assert (chosen["lost_records"], chosen["remote_records"], chosen["remote_unread"]) == (30, 25, 0)
    (step,) = [one for one in plan["steps"] if one["action"] == "salvage"]
    assert "(at most 25 records)" in step["text"]


def test_damaged_records_of_the_store_are_a_hole_that_a_follower_fills(tmp_path: Path) -> None:
    """The leader has 40 to 59 in remote storage only, five of them damaged there; broker 2 has them in its files."""
    batches = written(40, 60, 0)
    batches[1] = flip(batches[1])
    store = fill(tmp_path / "tier")
    put(store, plain_path(segment_id(40, 60, (0, 40)), 40), b"".join(batches))
    other = Replica([*written(0, 60, 0), *written(60, 120, 1)], epochs=((0, 0), (1, 60)), high_watermark=120)
    place = snapshot(tmp_path, other=other)
    plan = planned(place, "--remote", str(store), "--verify-remote")
    costs = {
        one["candidate_id"]: (one["hidden_records"], one["lost_records"]) for one in plan["decisions"][0]["candidates"]
    }
    assert costs == {1: (5, 0), 2: (0, 0)}


@pytest.mark.parametrize(("form", "encrypted"), [({}, False), ({"encryption": {"aad": "AA=="}}, True)])
def test_retention_stays_off_while_a_leader_that_was_not_captured_may_have_them(
    tmp_path: Path, form: dict, encrypted: bool
) -> None:
    """There is no plan, and salvage takes nothing."""
    store, name = fill(tmp_path / "tier"), segment_id(*LEFT[0])
    data = b"".join(lost(60, 75))
    put(store, chunked_path(name, 60), data)
    put(store, chunked_path(name, 60, "rsm-manifest"), manifest(len(data), **form))
    place = snapshot(tmp_path, LEFT[0], quiesced=True, leader=3, replicas=(1, 2, 3))
    (kept,) = [one["text"] for one in planned(place, "--remote", str(store))["steps"] if one["action"] == "keep_remote"]
    assert "the present or planned leader may not have. " in kept and "set retention back" not in kept
    assert "until an audit of the leader's log shows which of them it lacks" in kept
    assert ("15 are encrypted: only the brokers' plugin can read them. Retention stays off until" in kept) == encrypted


def test_without_a_store_nothing_is_known_of_what_can_be_read(tmp_path: Path) -> None:
    plan = planned(snapshot(tmp_path, *LEFT))
    (chosen,) = [one for one in plan["decisions"][0]["candidates"] if one["candidate_id"] == 1]
    assert (chosen["remote_records"], chosen["remote_unread"]) == (30, 0)


@pytest.mark.parametrize(("outcome", "taken"), [("COMMIT", 5), ("ABORT", 0)])
def test_a_transaction_may_end_in_the_next_segment(tmp_path: Path, outcome: str, taken: int) -> None:
    """A leader that closes the same producer's transaction otherwise does not decide it."""
    store, spans = tmp_path / "tier", ((60, 65, (0, 60)), (65, 66, (0, 65)))
    begun = encode_batch(60, 5, 0, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True, mark="lost ")
    fill(store, spans[0], batches=[begun])
    fill(store, spans[1], batches=[encode_marker(65, outcome, 0, producer_id=1, producer_epoch=0)])
    found, values = salvaged(snapshot(tmp_path, *spans), "--remote", str(store))
    assert len(values) == taken and found["partitions"][0]["reasons"] == ({"other_epoch": 5} if taken else {})


def test_damage_in_the_store_is_named(tmp_path: Path) -> None:
    first, *rest = lost(60, 75)
    store = fill(tmp_path / "tier", LEFT[0], batches=[flip(first), *rest])
    found, values = salvaged(snapshot(tmp_path, LEFT[0]), "--remote", str(store), status=1)
    assert [offset for offset, _ in values] == [*range(65, 75)]
    assert [(one["start_offset"], one["records"]) for one in found["unread"]] == [(60, 5)]


def broken_chunk(number: int, chunk_bytes: int) -> tuple[bytes, bytes | None]:
    stored, head = compressed(b"".join(lost(60, 75)), chunk_bytes)
    ends = (0, *parse_manifest(head, "").ends)
    at = ends[number if number >= 0 else len(ends) - 1 + number]
    return stored[:at] + bytes(8) + stored[at + 8 :], head


WHOLE_LOST = b"".join(lost(60, 75))
ONE = len(lost(60, 65)[0])


@pytest.mark.parametrize(
    ("stored", "head", "missing"),
    [
        (*broken_chunk(-1, ONE), (70, 75)),
        (*broken_chunk(0, 1 << 20), (60, 75)),
        (WHOLE_LOST[: 2 * ONE], None, (70, 75)),
        (WHOLE_LOST[: 3 * ONE - 40], None, (70, 75)),
        (bytes(len(WHOLE_LOST)), None, (60, 75)),
        (b"", None, (60, 75)),
        (WHOLE_LOST[:ONE] + bytes(2 * ONE), None, (65, 75)),
        (WHOLE_LOST[:ONE] + bytes(ONE) + WHOLE_LOST[2 * ONE :], None, (65, 70)),
    ],
    ids=["last chunk", "only chunk", "cut between batches", "cut in a batch", "zeros", "empty", "zeros at the end"]
    + ["zeros inside"],
)
def test_a_segment_that_the_store_has_a_part_of_is_named_by_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stored: bytes, head: bytes | None, missing: tuple[int, int]
) -> None:
    """A finished segment was whole: an end that is torn or zeros is none of a log that was never written on."""
    store, name = fill(tmp_path / "tier"), segment_id(*LEFT[0])
    path = plain_path if head is None else chunked_path
    put(store, path(name, 60), stored)
    if head is not None:
        put(store, path(name, 60, "rsm-manifest"), head)
    with_remote(tmp_path / "snapshot", LEADS, *WHOLE, copied(*LEFT[0], size=len(WHOLE_LOST)))
    found, values = salvaged(tmp_path / "snapshot", "--remote", str(store), status=3)
    assert [(one["start_offset"], one["end_offset"]) for one in found["unread"]] == [missing], found["unread"]
    assert [offset for offset, _ in values] == [one for one in range(60, 75) if not missing[0] <= one < missing[1]]
    printed = " ".join(capsys.readouterr().out.split())
    assert "No copy in the snapshot holds" not in printed
    assert f"(offsets {missing[0]} to {missing[1] - 1}): the remote store has no batch" in printed
    plan = planned(tmp_path / "snapshot", "--remote", str(store))
    (kept,) = [one["text"] for one in plan["steps"] if one["action"] == "keep_remote"]
    assert "stays off" in kept, kept


@pytest.mark.parametrize("stored", [WHOLE_LOST[:ONE], None], ids=["a part", "gone"])
@pytest.mark.parametrize(("until", "unread"), [(75, []), (70, [60])])
def test_what_a_replica_has_of_a_segment_that_is_not_whole_in_the_store_is_not_unread(
    tmp_path: Path, stored: bytes | None, until: int, unread: list[int]
) -> None:
    store = fill(tmp_path / "tier")
    if stored is not None:
        put(store, plain_path(segment_id(*LEFT[0]), 60), stored)
        unread = [65] if unread else []
    other = Replica([*written(0, 60, 0), *lost(60, until)], high_watermark=60)
    with_remote(tmp_path / "snapshot", LEADS, *WHOLE, copied(*LEFT[0], size=len(WHOLE_LOST)), other=other)
    found, values = salvaged(tmp_path / "snapshot", "--remote", str(store), status=3 if unread else 0)
    assert [offset for offset, _ in values] == [*range(60, until)]
    assert [one["start_offset"] for one in found["unread"]] == unread


def test_a_missing_end_that_is_the_leaders_own_is_not_lost(tmp_path: Path) -> None:
    """The segment has two batches of the shared history, and one of another; only the latter is nowhere else."""
    store, span = fill(tmp_path / "tier"), (50, 65, (0, 50))
    batches = [*written(50, 60, 0), *lost(60, 65)]
    put(store, plain_path(segment_id(*span), 50), batches[0])
    with_remote(tmp_path / "snapshot", LEADS, *WHOLE, copied(*span, size=len(b"".join(batches))))
    found, _ = salvaged(tmp_path / "snapshot", "--remote", str(store), status=3)
    assert [(one["start_offset"], one["end_offset"]) for one in found["unread"]] == [(60, 65)]


def test_what_a_planned_leader_loses_in_the_store_is_taken(tmp_path: Path) -> None:
    """Broker 2 was behind: what broker 1 deleted locally is of another history than what broker 2 would lead with."""
    other = Replica(written(0, 50, 0), high_watermark=50)
    place = snapshot(tmp_path, other=other)
    store, plan = fill(tmp_path / "tier"), tmp_path / "plan.json"
    assert (
        main(
            [
                "elect",
                str(place),
                "orders-0",
                "--candidate",
                "2",
                "--remote",
                str(store),
                "--plan",
                str(plan),
                "--quiet",
            ]
        )
        == 0
    )
    _, values = salvaged(place, "--remote", str(store), "--plan", str(plan))
    assert [offset for offset, _ in values] == [*range(50, 120)]


@pytest.mark.parametrize("start", [100, 70_000], ids=["a chunk of its files", "a chunk that it has nothing of"])
def test_what_remote_storage_lacks_between_its_segments_is_taken_from_a_replica(start: int, tmp_path: Path) -> None:
    """No consumer of the leader gets it, and local retention deletes it from the replica too."""
    leads = leader((0, 0), start=start, end=start + 20)
    other = Replica(written(20, 90, 0), epochs=((0, 0),), first_base_offset=20, log_start=0)
    with_remote(
        tmp_path / "snapshot", leads, copied(0, 40, (0, 0)), copied(60, start, (0, 60)), other=other, quiesced=True
    )
    found, values = salvaged(tmp_path / "snapshot")
    assert [offset for offset, _ in values] == [*range(40, 60)]
    (partition,) = found["partitions"]
    assert (partition["reasons"], partition["left_out"]) == ({"hole": 20}, {"in_remote_storage": 50})

"""Content of a remote store of tiered topics: layouts, manifests of chunks, listings, and what is no store."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.remote_stores import chunked_path, compressed, manifest, plain_path, put, write_listing
from tests.support.snapshots import TOPIC, TOPIC_ID, make_uuid

from replica_audit.errors import UsageError
from replica_audit.model import RemoteObject
from replica_audit.snapshot.discovery import kind_by_name
from replica_audit.snapshot.file_tree import Problem, Tree
from replica_audit.snapshot.remote_store import StoredSegments, open_remote_store, read_listings
from replica_audit.snapshot.storage import Snapshot

ONE, OTHER = make_uuid("one segment"), make_uuid("other segment")
PLACE = TOPIC_ID, 0


def objects(store: Path) -> tuple[RemoteObject, ...]:
    found = open_remote_store(str(store))
    assert list(found.objects) == [PLACE]
    listing, unread = found.read(found.objects[PLACE][0].topic, 0, [])
    assert not unread
    return listing.objects


def test_segments_of_local_tiered_storage(tmp_path: Path) -> None:
    for kind in ("log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint"):
        put(tmp_path, plain_path(ONE, 40, kind), modified_ms=1_700_000_000_123)
    put(tmp_path, plain_path(OTHER, 50, "index"))
    put(tmp_path, "kafka-tiered-storage/README.txt")
    one, other = objects(tmp_path)
    assert (one.topic, one.partition, one.start_offset, one.segment_id) == (TOPIC, 0, 40, ONE)
    assert (one.log_path, one.log_bytes, one.segment_bytes) == (plain_path(ONE, 40), 100, 100)
    assert (one.modified_ms, one.missing, one.unread) == (1_700_000_000_123, None, None)
    assert (other.segment_id, other.missing) == (OTHER, ".log")


def test_a_topic_id_may_have_dashes(tmp_path: Path) -> None:
    """Of `a-1-0-<id>` the id are the last 22 characters, whatever is in them."""
    topic_id = "--1-2-3-4-5-6-7-8-9-AA"
    put(tmp_path, f"a-1-0-{topic_id}/{7:020d}-{ONE}.log")
    found = open_remote_store(str(tmp_path))
    (one,) = found.objects[topic_id, 0]
    assert (one.topic, one.start_offset) == ("a-1", 7)


def test_chunked_segments_are_known_by_their_manifest(tmp_path: Path) -> None:
    put(tmp_path, chunked_path(ONE, 0))
    put(tmp_path, chunked_path(ONE, 0, "rsm-manifest"), manifest(100))
    put(tmp_path, chunked_path(ONE, 0, "indexes"))
    put(tmp_path, chunked_path(OTHER, 50))
    one, other = objects(tmp_path)
    assert one.is_chunked and (one.segment_bytes, one.unread, one.missing) == (100, None, None)
    assert other.missing == ".rsm-manifest"
    found = open_remote_store(str(tmp_path))
    assert found.of("another name", 0, []).objects == (), "a prefix may look like the beginning of a topic's name"


@pytest.mark.parametrize(
    "form",
    [{"encryption": {"dataKey": "k:AAAA", "aad": "CgsMDQ=="}}, {"compression": True, "encryption": {}}],
    ids=["", "compressed too"],
)
@pytest.mark.parametrize(("stored", "size"), [(156, 100), (155, 64), (91, 0)], ids=["whole", "cut", "cut in the first"])
def test_encrypted_chunks_are_not_captured_and_their_size_is_known(
    tmp_path: Path, form: dict, stored: int, size: int
) -> None:
    """Each chunk is 28 bytes longer: initialisation vector and tag."""
    index = {"type": "fixed", "originalChunkSize": 64, "originalFileSize": 100, "transformedChunkSize": 92}
    put(tmp_path, chunked_path(ONE, 0), b"y" * stored)
    content = manifest(100, index={**index, "finalTransformedChunkSize": 64}, **form)
    put(tmp_path, chunked_path(ONE, 0, "rsm-manifest"), content)
    (one,) = objects(tmp_path)
    assert (one.log_bytes, one.segment_bytes, one.unread) == (stored, size, "its chunks are encrypted")
    assert one.form == "encrypted"


def test_compressed_chunks_are_read_as_the_segment_that_was_copied(tmp_path: Path) -> None:
    content = bytes(range(100))
    stored, head = compressed(content)
    put(tmp_path, chunked_path(ONE, 0), stored)
    put(tmp_path, chunked_path(ONE, 0, "rsm-manifest"), head)
    (one,) = objects(tmp_path)
    assert (one.log_bytes, one.segment_bytes, one.form) == (len(stored), 100, "readable")
    with StoredSegments(Snapshot.open(tmp_path)).open_file(one.log_path or "") as stream:
        assert stream.read() == content


@pytest.mark.parametrize("content", [b"", b"{}", b'{"version": "2"}', b"\xff", manifest(100)[:-3]])
def test_a_manifest_that_cannot_be_read_is_told(tmp_path: Path, content: bytes) -> None:
    put(tmp_path, chunked_path(ONE, 0))
    put(tmp_path, chunked_path(ONE, 0, "rsm-manifest"), content)
    listing, (row,) = open_remote_store(str(tmp_path)).read(f"prefix-{TOPIC}", 0, [])
    (one,) = listing.objects
    assert (one.segment_bytes, one.unread) == (None, "its manifest could not be read")
    assert row.code == "INPUT-IGNORED" and row.path == one.manifest_path


@pytest.mark.parametrize("path", ["", "orders-0/00000000000000000000.log", "t-0-short/00000000000000000000-short.log"])
def test_a_directory_without_segments_is_no_store(tmp_path: Path, path: str) -> None:
    if path:
        put(tmp_path, path)
    with pytest.raises(UsageError, match=r"no segment of a remote store is there; expected <topic>-<partition>"):
        open_remote_store(str(tmp_path))
    with pytest.raises(UsageError, match="--remote: .*no such directory"):
        open_remote_store(str(tmp_path / "nowhere"))


def test_a_listing_stands_for_the_store(tmp_path: Path) -> None:
    write_listing(tmp_path, (plain_path(ONE, 40), 100), ("other/file", 3), listed="2026-01-31T12:00:00.5Z")
    store, unread = read_listings(Snapshot.open(tmp_path))
    (one,) = store.objects[PLACE]
    assert not unread and (one.log_bytes, one.modified_ms, store.location) == (100, None, None)
    assert store.listed_ms == 1_769_860_800_500
    assert kind_by_name("remote_objects.jsonl") == "remote_objects"


def test_listings_of_parts_are_one_and_of_no_moment_unless_they_share_it(tmp_path: Path) -> None:
    write_listing(tmp_path, (plain_path(ONE, 40), 100), listed="2026-01-31T12:00:00Z", name="-1")
    write_listing(tmp_path, (chunked_path(OTHER, 50), 100), listed="2026-01-31T12:00:01Z", name="-2")
    store, _ = read_listings(Snapshot.open(tmp_path))
    assert store.listed_ms is None and store.latest_ms == 1_769_860_801_000 and len(store.objects[PLACE]) == 2
    assert store.objects[PLACE][1].unread == "a listing has no manifest"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("no JSON", "JSON"),
        ("[1]", "an object in line 2"),
        ('{"path": "x"}', "path and size_bytes in line 2"),
        ('{"path": "x", "size_bytes": -1}', "path and size_bytes in line 2"),
        ('{"path": "x", "size_bytes": 1, "modified": "yesterday"}', "a time such as 2026-01-31T12:00:00Z in line 2"),
        ('{"listed": "2026-13-31T12:00:00Z"}', "a time such as 2026-01-31T12:00:00Z in line 2"),
    ],
)
def test_of_a_listing_that_cannot_be_read_nothing_is_used(tmp_path: Path, line: str, said: str) -> None:
    head = json.dumps({"path": plain_path(ONE, 40), "size_bytes": 1})
    (tmp_path / "remote_objects.jsonl").write_text(f"{head}\n{line}\n")
    store, (row,) = read_listings(Snapshot.open(tmp_path))
    assert store is None and row.code == "INPUT-IGNORED" and said in row.reason


def test_what_is_deleted_while_a_store_is_listed_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, plain_path(ONE, 40))
    put(tmp_path, plain_path(OTHER, 50))
    listed = Snapshot.list_below

    def lists(self: Snapshot, folder: str) -> Tree:
        tree = listed(self, folder)
        (tmp_path / plain_path(OTHER, 50)).unlink()
        return replace(tree, problems=(Problem(plain_path(OTHER, 50), "could not be looked at: No such file"),))

    monkeypatch.setattr(Snapshot, "list_below", lists)
    assert [one.segment_id for one in objects(tmp_path)] == [ONE]

"""Reading of chosen batches: only their bytes, only from the files that were scanned."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from tests.support.encoder import Record, encode_batch, encode_legacy, encode_marker, encode_wrapper
from tests.support.scanned import batches_of, scan_file

from replica_audit.segments.records import decode_records
from replica_audit.snapshot import record_reader
from replica_audit.snapshot.record_reader import RecordReader, RecordRequest
from replica_audit.snapshot.storage import Snapshot

NAME = "00000000000000000000.log"


class WatchedFiles:
    """The files of a snapshot, and how many bytes each read asked for."""

    def __init__(self, root: Path) -> None:
        self._snapshot = Snapshot.open(root)
        self.reads: list[int] = []

    def open_file(self, path: str) -> BinaryIO:
        reads = self.reads

        class Watched(io.FileIO):
            def read(self, size: int = -1) -> bytes:
                reads.append(size)
                return super().read(size)

        return Watched(self._snapshot.absolute(path))


def _write(root: Path, *entries: bytes, folder: str = "t-0") -> list[RecordRequest]:
    """Entries as the only segment of a folder, and the request of each."""
    path = root / folder / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(entries))
    requests = []
    for row in batches_of(scan_file(path)):
        offset = row["base_offset"] if row["magic"] == 2 else row["last_offset"]
        requests.append(
            RecordRequest(f"{folder}/{NAME}", int(row["position"]), int(row["size"]), int(offset), int(row["crc"]))
        )
    return requests


def test_records_come_in_the_order_of_their_offsets_and_of_every_format(tmp_path):
    entries = (
        encode_wrapper(0, [(b"a", b"1"), (b"b", b"2")], "gzip", magic=0),
        encode_legacy(2, b"3", b"c", magic=1),
        encode_batch(3, 4, 1, codec="zstd"),
    )
    requests = _write(tmp_path, *entries)
    rows = RecordReader(Snapshot.open(tmp_path))(reversed(requests))
    assert rows.rows["offset"].tolist() == list(range(7))
    assert rows.rows["magic"].tolist() == [0, 0, 1, 2, 2, 2, 2]
    assert rows.unread == rows.undecodable == ()


def test_the_smallest_entries_are_read(tmp_path):
    requests = _write(
        tmp_path, encode_legacy(0, None, None, magic=0), encode_legacy(1, b"", None, magic=0), encode_batch(2, [], 0)
    )
    assert [request.size for request in requests] == [26, 26, 61]
    answer = RecordReader(Snapshot.open(tmp_path))(requests)
    assert answer.rows["offset"].tolist() == [0, 1]
    assert answer.unread == answer.undecodable == ()


def test_only_the_ranges_asked_for_are_read(tmp_path):
    large = encode_batch(0, [Record(b"k", bytes(200_000))], 0)
    requests = _write(
        tmp_path,
        large,
        encode_batch(1, 1, 0),
        encode_batch(2, [Record(b"k", bytes(200_000))], 0),
        encode_batch(3, 1, 0),
    )
    files = WatchedFiles(tmp_path)
    reader = RecordReader(files)
    assert reader(()).rows.size == 0
    assert files.reads == []
    rows = reader([requests[1], requests[3]])
    assert rows.rows["offset"].tolist() == [1, 3]
    assert files.reads == [requests[1].size, requests[3].size]


def test_near_batches_are_read_in_one_go_and_asked_twice_only_once(tmp_path):
    requests = _write(tmp_path, *(encode_batch(base, 1, 0) for base in range(50)))
    files = WatchedFiles(tmp_path)
    reader = RecordReader(files)
    assert len(reader([*requests, *requests]).rows) == 50
    assert files.reads == [sum(request.size for request in requests)]


def test_with_keys_only_theirs_and_markers(tmp_path):
    records = [Record(f"k{number}".encode(), b"v") for number in range(6)]
    requests = _write(
        tmp_path,
        encode_batch(0, records, 0, producer_id=3, producer_epoch=0, base_sequence=0, transactional=True),
        encode_marker(6, "COMMIT", 0, producer_id=3, producer_epoch=0),
    )
    reader = RecordReader(Snapshot.open(tmp_path))
    keys = np.sort(reader(requests).rows["key"][[1, 4]])
    assert reader(requests, keys).rows["offset"].tolist() == [1, 4, 6]
    assert reader(requests, np.empty(0, np.uint64)).rows["offset"].tolist() == [6]


def test_equal_records_have_equal_hashes_wherever_they_lie(tmp_path):
    here = _write(tmp_path, encode_batch(0, 3, 0), folder="a-0")
    there = _write(tmp_path, encode_batch(0, 3, 0, codec="lz4"), folder="b-0")
    reader = RecordReader(Snapshot.open(tmp_path))
    assert reader(here).rows.tolist() == reader(there).rows.tolist()


def test_what_cannot_be_had_is_told_and_the_rest_is_read(tmp_path):
    gone = _write(tmp_path, encode_batch(0, 1, 0), folder="gone-0")
    changed = _write(tmp_path, encode_batch(0, 1, 0, mark="one"), folder="changed-0")
    odd = _write(tmp_path, encode_batch(0, 2, 0, record_count=3), folder="odd-0")
    sound = _write(tmp_path, encode_batch(0, 2, 0), folder="sound-0")
    (tmp_path / "gone-0" / NAME).unlink()
    (tmp_path / "changed-0" / NAME).write_bytes(encode_batch(0, 1, 0, mark="two"))
    answer = RecordReader(Snapshot.open(tmp_path))([*gone, *changed, *odd, *sound])
    assert answer.rows["offset"].tolist() == [0, 1]
    told = dict(answer.unread)
    assert told[gone[0]].endswith(f"gone-0/{NAME}: could not be opened: No such file or directory")
    assert "has changed since it was scanned" in told[changed[0]]
    assert [request for request, _ in answer.undecodable] == odd
    assert str(tmp_path) not in str(answer), "reasons are the same wherever the snapshot lies"


def test_a_batch_that_would_expand_too_far_is_told_as_unread(tmp_path, monkeypatch):
    """Kafka may well decode it, so it is not undecodable."""
    monkeypatch.setattr(record_reader, "decode_records", partial(decode_records, limit=1 << 16))
    large, small = _write(
        tmp_path, encode_batch(0, [Record(b"k", bytes(1 << 20))], 0, codec="gzip"), encode_batch(1, 1, 0)
    )
    answer = RecordReader(Snapshot.open(tmp_path))([large, small])
    assert answer.rows["offset"].tolist() == [1] and answer.undecodable == ()
    ((request, reason),) = answer.unread
    assert request == large and reason.startswith("the batch ") and reason.endswith(", and is left as it is")


def test_a_snapshot_that_is_gone_is_told_once_it_is_asked(tmp_path):
    requests = _write(tmp_path / "here", encode_batch(0, 1, 0))
    reader = RecordReader(str(tmp_path / "nowhere"))
    ((request, reason),) = reader(requests).unread
    assert request == requests[0]
    assert reason.startswith("the file could not be read")
    assert RecordReader(str(tmp_path / "here"))(requests).rows["offset"].tolist() == [0]


@pytest.mark.parametrize("part", ["offset", "size", "crc"])
def test_another_entry_at_the_place_is_not_taken_for_the_one_that_was_scanned(tmp_path, part):
    (request,) = _write(tmp_path, encode_batch(0, 1, 0))
    fields = {name: getattr(request, name) for name in RecordRequest.__slots__}
    answer = RecordReader(Snapshot.open(tmp_path))([RecordRequest(**{**fields, part: fields[part] + 1})])
    assert len(answer.unread) == 1
    assert not len(answer.rows)

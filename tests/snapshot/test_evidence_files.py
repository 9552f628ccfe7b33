"""Evidence that is incomplete, damaged or made to harm: it is refused, by name and in one sentence."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.support.archives import unpack
from tests.support.collected import answers, collect_into
from tests.support.encoder import encode_batch, flip
from tests.support.snapshots import Replica, write_snapshot
from tests.support.some import some
from tests.support.step_count import count_steps

from replica_audit.errors import FormatError
from replica_audit.segments.frames import MAGIC, FrameFile, FrameStream, NotCapturedError
from replica_audit.snapshot.storage import Snapshot

LOG = "broker-1/orders-0/00000000000000000000.log"
BATCHES = [encode_batch(0, 3, 0), encode_batch(3, 2, 0)]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """The evidence of one broker, in a snapshot beside a copy of another."""
    snapshot = write_snapshot(tmp_path / "copies", {1: Replica(BATCHES), 2: Replica(BATCHES)})
    target = tmp_path / "snapshot"
    target.mkdir()
    (snapshot / "broker-2").rename(target / "broker-2")
    collect_into(target / "evidence-1.tar", "--log-dir", str(snapshot / "broker-1"))
    return target / "evidence-1.tar"


def _members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def _pack(archive: Path, members: Mapping[str, bytes]) -> None:
    with tarfile.open(archive, "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def _repacked(archive: Path, change: Callable[[dict[str, bytes], list[dict]], None]) -> None:
    """Change members and lines of the list, and give them digests that are right."""
    members = _members(archive)
    (listed,) = (name for name in members if name.endswith(".jsonl"))
    lines = [json.loads(line) for line in members[listed].splitlines()]
    change(members, lines)
    for line in lines:
        for part in line.get("parts", []):
            data = members.get(part[0], b"")
            part[1:] = [len(data), hashlib.sha256(data).hexdigest()]
    members[listed] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    head = json.loads(members["evidence-1.json"])
    head["lists"] = [[listed, len(members[listed]), hashlib.sha256(members[listed]).hexdigest()]]
    members["evidence-1.json"] = json.dumps(head).encode()
    _pack(archive, members)


def _reasons(archive: Path) -> list[str]:
    content = answers(archive.parent)
    assert {row["path"] for row in content["findings"] if row.get("code") == "LOG-CORRUPT-MID"} == set()
    return [f"{row['path']}: {row['reason']}" for row in content["quarantine"] if row["code"] == "CAP-UNREADABLE"]


def _frame(
    kind: bytes, position: int, length: int, payload: bytes = b"", count: int = 0, crc: int | None = None
) -> bytes:
    checksum = zlib.crc32(payload) if crc is None else crc
    return struct.pack(">cQQIII", kind, position, length, count, len(payload), checksum) + payload


def test_an_archive_that_broke_off_is_refused_wherever_it_ends(archive: Path) -> None:
    whole = archive.read_bytes()
    for size in (0, 300, 512, 2000, len(whole) // 2, len(whole) - 2048, len(whole) - 1500):
        archive.write_bytes(whole[:size])
        (reason,) = _reasons(archive)
        assert reason.startswith("evidence-1.tar: ") and "collect this broker again" in reason, size


def test_unpacked_evidence_without_its_last_file_is_refused(archive: Path) -> None:
    unpack(archive, archive.parent)
    (archive.parent / "evidence-1.json").unlink()
    archive.unlink()
    assert any("no evidence-<broker>.json lists" in reason for reason in _reasons(archive))


def test_a_part_with_another_digest_is_refused(archive: Path) -> None:
    data = bytearray(archive.read_bytes())
    at = data.index(MAGIC) + len(MAGIC) + 3
    data[at] ^= 1
    archive.write_bytes(data)
    (reason,) = _reasons(archive)
    assert "SHA-256 in evidence-1.tar: evidence-1.json" in reason and reason.startswith(LOG)


def _with_frames(frames: bytes, size: int | None = None) -> Callable[[dict[str, bytes], list[dict]], None]:
    def change(members: dict[str, bytes], lines: list[dict]) -> None:
        members[f"{LOG}.frames"] = MAGIC + frames
        for line in lines:
            if line["path"] == LOG and size is not None:
                line["size"] = size

    return change


_PLANES = zlib.compress(bytes(header[plane] for plane in range(61) for header in BATCHES))
_SIZE = sum(map(len, BATCHES))
_WHOLE = _frame(b"V", 0, _SIZE, _PLANES, 2)


@pytest.mark.parametrize(
    ("frames", "size", "said"),
    [
        (_WHOLE + _frame(b"Z", _SIZE - 1, 10), _SIZE + 9, f"a frame that begins at {_SIZE}"),
        (_WHOLE + _frame(b"Z", _SIZE + 1, 10), _SIZE + 11, f"a frame that begins at {_SIZE}"),
        (_WHOLE, _SIZE + 1, f"frames of {_SIZE + 1} bytes"),
        (_frame(b"Z", 0, 10) + _frame(b"V", 10, _SIZE, _PLANES, 2), _SIZE + 10, "headers before all else"),
        (_frame(b"V", 0, _SIZE - 1, _PLANES, 2), _SIZE - 1, "lengths that lead elsewhere"),
        (_frame(b"V", 0, _SIZE, _PLANES, 3), _SIZE, "a payload of 183 bytes"),
        (_frame(b"V", 0, _SIZE, zlib.compress(bytes(1 << 24)), 2), _SIZE, "a payload of 122 bytes, found more"),
        (_frame(b"R", 0, 1 << 20, zlib.compress(bytes(1 << 24))), 1 << 20, "found more"),
        (_frame(b"R", 0, 1 << 30, zlib.compress(b"")), 1 << 30, "a frame within its limits"),
        (_frame(b"Z", 0, 1 << 30), 1 << 30, "a frame within its limits"),
        (_frame(b"V", 0, _SIZE, _PLANES, 1 << 30), _SIZE, "a frame within its limits"),
        (_frame(b"V", 0, _SIZE, _PLANES, 2, crc=7), _SIZE, "another checksum"),
        (_frame(b"Q", 0, _SIZE, _PLANES, 2), _SIZE, "one of type b'Q'"),
        (_frame(b"H", 0, _SIZE, _PLANES, 3), _SIZE, "a payload of 183 bytes"),
        (_frame(b"H", 0, _SIZE - 1, _PLANES, 2), _SIZE - 1, "lengths that lead elsewhere"),
        (
            _frame(b"R", 0, 1, zlib.compress(b"x")) + _frame(b"H", 1, _SIZE, _PLANES, 2),
            _SIZE + 1,
            "headers before all else",
        ),
        (_WHOLE[:-1], _SIZE, "another checksum"),
        (_WHOLE + b"x", _SIZE, "1 bytes after the last one"),
        (_frame(b"V", 0, 122, zlib.compress(bytes(122)), 2), 122, "lengths that lead elsewhere"),
    ],
)
def test_frames_that_are_not_the_file_are_refused(archive: Path, frames: bytes, size: int, said: str) -> None:
    _repacked(archive, _with_frames(frames, size))
    (reason,) = _reasons(archive)
    assert reason.startswith(LOG) and said in reason


@pytest.mark.parametrize("path", ["../outside", "broker-1/../../outside", "/etc/passwd", "broker-2/x", "broker-1//x"])
def test_a_path_that_leads_outside_is_refused(archive: Path, path: str) -> None:
    def change(_: dict[str, bytes], lines: list[dict]) -> None:
        lines.append({"path": path, "as": "stub", "size": 1, "mtime_ns": 1})

    _repacked(archive, change)
    (reason,) = _reasons(archive)
    assert reason.startswith("evidence-1.tar: ") and "expected" in reason


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"format": None},
        {"lists": [["x", 1, "0" * 64]]},
        {"lists": [["evidence-1.json", -1, "0" * 64]]},
        {"lists": "x"},
        {"broker_id": -1},
        {"log_dirs": [{"as": "..", "log_dir": "/"}]},
        {"log_dirs": [{"as": "broker-1", "log_dir": "/", "started": "now", "finished": 1}]},
    ],
)
def test_a_last_file_that_is_another_is_refused(archive: Path, change: dict) -> None:
    members = _members(archive)
    members["evidence-1.json"] = json.dumps({**json.loads(members["evidence-1.json"]), **change}).encode()
    _pack(archive, members)
    (reason,) = _reasons(archive)
    assert reason.startswith("evidence-1.tar: evidence-1.tar: evidence-1.json: expected ")


def test_two_log_dirs_of_one_name_are_refused(archive: Path) -> None:
    members = _members(archive)
    head = json.loads(members["evidence-1.json"])
    members["evidence-1.json"] = json.dumps({**head, "log_dirs": 2 * head["log_dirs"]}).encode()
    _pack(archive, members)
    (reason,) = _reasons(archive)
    assert "each of log_dirs with a name of its own" in reason


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"path": "broker-1/\\ud800", "as": "unread"}', b"{"])
def test_lines_that_no_json_of_the_collector_is_are_refused(archive: Path, text: bytes) -> None:
    members = _members(archive)
    (listed,) = (name for name in members if name.endswith(".jsonl"))
    members[listed] += text + b"\n"
    head = json.loads(members["evidence-1.json"])
    head["lists"] = [[listed, len(members[listed]), hashlib.sha256(members[listed]).hexdigest()]]
    members["evidence-1.json"] = json.dumps(head).encode()
    _pack(archive, members)
    (reason,) = _reasons(archive)
    assert reason.startswith("evidence-1.tar: ") and f"of {listed}" in reason and "collect this broker again" in reason


def _header(name: str, size: int, kind: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def test_headers_that_lead_tarfile_astray_are_refused(archive: Path) -> None:
    size = b"14 size=-1536\n"
    goes_back = _header("p", len(size), tarfile.XHDTYPE) + size + bytes(512 - len(size)) + _header("x", 0, b"0")
    nested = (_header("././@LongLink", 512, b"L") + b"a" * 511 + b"\0") * 3000 + _header("x", 0, b"0")
    for data in (_header("first", 0, b"0") + goes_back, nested):
        archive.write_bytes(data)
        (reason,) = _reasons(archive)
        # Python 3.14 takes such a header for the end.
        assert reason.startswith(
            ("evidence-1.tar: an archive of evidence that is incomplete: ", "evidence-1.tar: it has no ")
        )


def test_a_log_dir_that_could_not_be_listed_leaves_the_others(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "copies", {1: Replica(BATCHES), 2: Replica(BATCHES)})
    target = tmp_path / "snapshot"
    target.mkdir()
    given = ("--log-dir", f"{snapshot / 'broker-1'}=broker-1/disk-1", "--log-dir", f"{tmp_path}/bad=broker-1/disk-2")
    (tmp_path / "bad").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        listdir = os.listdir

        def fail(path: str) -> list[str]:
            if path.endswith("bad"):
                raise OSError(5, "Input/output error")
            return listdir(path)

        patch.setattr(os, "listdir", fail)
        assert collect_into(target / "evidence-1.tar", *given) == 1
    content = answers(target)
    assert [(one["topic"], one["broker_id"]) for one in content["replicas"]] == [("orders", 1)]
    assert any("Input/output error" in row["reason"] for row in content["quarantine"])


def test_what_the_broker_did_meanwhile_is_known(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "copies", {1921681001: Replica(BATCHES)})
    target = tmp_path / "snapshot"
    target.mkdir()
    collect_into(
        target / "evidence-1.tar",
        "--log-dir",
        f"{snapshot}/broker-1921681001",
        "--kind",
        "killed",
        "--broker-id=1921681001",
    )
    ((name, one),) = Snapshot.open(target).evidence.log_dirs.items()
    assert (name, one.broker_id, one.kind) == ("broker-1921681001", 1921681001, "killed")


def test_links_in_an_archive_are_not_followed(archive: Path) -> None:
    members = _members(archive)
    name = f"{LOG}.frames"
    del members[name]
    _pack(archive, members)
    with tarfile.open(archive, "a") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info)
    (reason,) = _reasons(archive)
    assert f"expected {name} of" in reason


def test_the_evidence_of_a_log_dir_counts_once(archive: Path) -> None:
    (archive.parent / "evidence-2.tar").write_bytes(archive.read_bytes())
    (reason,) = _reasons(archive)
    assert reason.startswith("evidence-2.tar: ") and "no other evidence of broker-1" in reason


def test_what_could_not_be_read_on_the_broker_is_not_compared(archive: Path) -> None:
    def change(_: dict[str, bytes], lines: list[dict]) -> None:
        lines[:] = [line for line in lines if line["path"] != LOG]
        lines.append({"path": LOG, "as": "unread", "reason": "Input/output error"})

    _repacked(archive, change)
    reasons = _reasons(archive)
    assert any(LOG in reason and "Input/output error" in reason for reason in reasons)


def test_a_stream_gives_what_is_there_and_names_what_is_not() -> None:
    rest = b"\x01" * 10
    frames = (
        _WHOLE
        + _frame(b"R", _SIZE, 10, zlib.compress(rest))
        + _frame(b"Z", _SIZE + 10, 5)
        + _frame(b"U", _SIZE + 15, 7)
    )
    file = FrameFile("log", [lambda: MAGIC + frames])
    stream = FrameStream(file, _SIZE + 22)
    assert stream.missing == ((_SIZE + 15, _SIZE + 22),)
    stream.seek(_SIZE)
    assert stream.read(15) == rest + bytes(5)
    with pytest.raises(NotCapturedError):
        stream.read(1)
    for position, batch in ((0, BATCHES[0]), (len(BATCHES[0]), BATCHES[1])):
        stream.seek(position)
        assert stream.read(61) == batch[:61]
        stream.seek(position)
        with pytest.raises(NotCapturedError):
            stream.read(len(batch))
    stream.seek(5)
    with pytest.raises(OSError, match="no batch begins at 5"):
        stream.read(1)
    (known,) = stream.known()
    assert known["crc_valid"].all() and known["last_offset"].tolist() == [2, 4]


def _file(*frames: bytes) -> FrameFile:
    return FrameFile("log", [lambda: MAGIC + b"".join(frames)])


def _headers_of(*batches: bytes) -> bytes:
    planes = bytes(batch[plane] for plane in range(61) for batch in batches)
    return _frame(b"H", 0, sum(map(len, batches)), zlib.compress(planes), len(batches))


def _brought(position: int, data: bytes) -> FrameFile:
    return _file(_frame(b"R", position, len(data), zlib.compress(data)))


def _known(stream: FrameStream) -> list[tuple[int, bool, bool]]:
    fields = ("base_offset", "crc_valid", "crc_unchecked")
    return [tuple(row[name].item() for name in fields) for rows in stream.known() for row in rows]  # type: ignore[misc]


THREE = [*BATCHES, encode_batch(5, 4, 0)]
_ENDS = [sum(map(len, THREE[: number + 1])) for number in range(3)]


def test_a_checksum_that_nobody_computed_is_not_known_until_its_batch_is_brought() -> None:
    stream = FrameStream(_file(_headers_of(*THREE)), _ENDS[2])
    assert _known(stream) == [(0, True, True), (3, True, True), (5, True, True)] and not stream.missing
    stream = FrameStream(_file(_headers_of(*THREE)), _ENDS[2], [_brought(_ENDS[0], THREE[1])])
    assert _known(stream) == [(0, True, True), (3, True, False), (5, True, True)]
    stream.seek(_ENDS[0])
    assert stream.read(len(THREE[1])) == THREE[1]
    cut = FrameStream(_file(_headers_of(*THREE)), _ENDS[2], [_brought(_ENDS[0], THREE[1][:-1])])
    assert _known(cut)[1] == (3, True, True)


@pytest.mark.parametrize("after", [False, True])
def test_a_batch_that_turns_out_damaged_is_one_where_the_next_takes_up_its_offsets(after: bool) -> None:
    """Also where the file has changed since: its header says which batch it is."""
    damaged = [THREE[0], flip(THREE[1]), THREE[2]]
    brought = _brought(_ENDS[0], damaged[1])
    given = ([], [brought]) if after else ([brought], [])
    stream = FrameStream(_file(_headers_of(*damaged)), _ENDS[2], *given)
    assert _known(stream) == [(0, True, True), (3, False, False), (5, True, True)]
    assert stream.known_end == _ENDS[2] and not stream.missing


def test_what_follows_a_damaged_batch_whose_size_nothing_bears_out_is_missing() -> None:
    damaged = THREE[1][:26] + bytes([THREE[1][26] ^ 4]) + THREE[1][27:]  # its last offset
    headers = _headers_of(THREE[0], damaged, THREE[2])
    for batches in ([damaged], [damaged, THREE[2]]):
        stream = FrameStream(_file(headers), _ENDS[2], [_brought(_ENDS[0], b"".join(batches))])
        assert stream.known_end == _ENDS[0] and _known(stream) == [(0, True, True)]
        assert stream.missing == (((_ENDS[1], _ENDS[2]),) if len(batches) == 1 else ())
    stream.seek(_ENDS[0])
    assert stream.read() == damaged + THREE[2]
    changed = FrameStream(_file(headers), _ENDS[2], [], [_brought(_ENDS[0], damaged + THREE[2])])
    assert changed.missing == ((_ENDS[0], _ENDS[2]),)


def test_bytes_of_another_batch_are_not_taken_for_one() -> None:
    other = encode_batch(3, 2, 0, mark="another")
    assert len(other) >= len(THREE[1])
    stream = FrameStream(_file(_headers_of(*THREE)), _ENDS[2], [_brought(_ENDS[0], other[: len(THREE[1])])])
    assert _known(stream)[1] == (3, True, True)


def test_what_was_brought_as_the_file_had_not_changed_goes_before_what_it_had_then() -> None:
    whole = b"".join(THREE)
    changed = _brought(0, b"\xee" * len(whole))
    for brought in ([_brought(_ENDS[0], THREE[1])], [_brought(0, whole[: _ENDS[1]]), _brought(_ENDS[0], THREE[1])]):
        stream = FrameStream(_file(_headers_of(*THREE)), _ENDS[2], brought, [changed])
        assert _known(stream)[1:] == [(3, True, False), (5, True, True)]
        stream.seek(_ENDS[0])
        assert stream.read(len(THREE[1])) == THREE[1]


def test_a_batch_of_which_parts_were_brought_twice_is_whole() -> None:
    whole, (_, middle, end) = b"".join(THREE), _ENDS
    pieces = [(_ENDS[0], middle - 9), (_ENDS[0] + 5, _ENDS[0] + 70), (middle - 20, end)]
    brought = [_brought(start, whole[start:stop]) for start, stop in pieces]
    stream = FrameStream(_file(_headers_of(*THREE)), end, brought)
    assert _known(stream) == [(0, True, True), (3, True, False), (5, True, False)]
    stream.seek(_ENDS[0])
    assert stream.read() == whole[_ENDS[0] :]


def test_a_batch_is_judged_without_being_held() -> None:
    """Its header claims 64 MiB, and a few frames bring them."""
    size = 64 << 20
    header = struct.pack(">qi", 0, size - 12) + BATCHES[0][12:61]
    first = _frame(b"R", 0, 1 << 20, zlib.compress(header + bytes((1 << 20) - 61)))
    brought = _file(first, *(_frame(b"Z", place, 1 << 20) for place in range(1 << 20, size, 1 << 20)))
    headers = _frame(b"H", 0, size, zlib.compress(header), 1)
    tracemalloc.start()
    stream = FrameStream(_file(headers), size, [brought])
    assert stream.known_end == 0 and not stream.missing
    stream.seek(0)
    assert stream.read(100) == header + bytes(39)
    whole = FrameStream(_file(_frame(b"V", 0, size, zlib.compress(header), 1)), size, [brought])
    assert whole.read(61) == header
    whole.seek(0)
    with pytest.raises(NotCapturedError):
        whole.read(62)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def _in_many_frames(count: int) -> None:
    """Read a file of as many frames of headers, then of bytes not taken, all of which were brought in pieces of their own."""
    size = len(THREE[0])
    batches = [struct.pack(">q", 3 * number) + THREE[0][8:] for number in range(count)]
    headers = [_frame(b"H", size * at, size, zlib.compress(one[:61]), 1) for at, one in enumerate(batches)]
    rest = [_frame(b"U", size * at, size) for at in range(count, 2 * count)]
    pieces = [_frame(b"R", size * at, size, zlib.compress(one)) for at, one in enumerate([*batches, *batches])]
    stream = FrameStream(_file(*headers, *rest), 2 * count * size, [_file(*pieces)])
    assert _known(stream) == [(3 * number, True, False) for number in range(count)]
    assert not stream.missing
    stream.seek(0)
    assert stream.read() == 2 * b"".join(batches)


def test_twice_the_frames_and_what_was_brought_take_twice_the_steps() -> None:
    few, many = (count_steps(lambda count=count: _in_many_frames(count)) for count in (100, 200))  # type: ignore[misc]
    assert few.keys() == many.keys() and sum(few.values()) > 10_000
    assert {where: (few[where], steps) for where, steps in many.items() if steps > 2.1 * few[where] + 50} == {}


def test_a_header_that_cannot_be_is_refused() -> None:
    impossible = bytearray(BATCHES[0][:61])
    impossible[0] = 0xFF
    payload = zlib.compress(bytes(impossible))
    size = len(BATCHES[0])
    stream = FrameStream(FrameFile("log", [lambda: MAGIC + _frame(b"V", 0, size, payload, 1)]), size)
    with pytest.raises(FormatError, match="headers of batches of magic 2"):
        list(stream.known())


def test_an_index_is_known_by_its_name_alone(archive: Path) -> None:
    snapshot = Snapshot.open(archive.parent)
    stubs = [path for path, file in snapshot.evidence.files.items() if file.kind == "stub"]
    for path in some(stubs):
        with pytest.raises(OSError, match="only its name"):
            snapshot.open_file(path)

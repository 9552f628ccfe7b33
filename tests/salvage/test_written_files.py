"""The directory that a salvage leaves: its files, who may read them, and what is in them with and without payloads."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import struct
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from tests.support.archives import read_directory
from tests.support.encoder import Record, encode_batch, encode_legacy
from tests.support.fixtures import FIXTURES
from tests.support.led_by_first import COMMON, LEADER, led_by_first, replica

from replica_audit.cli.main import main
from replica_audit.salvage import written_salvage
from replica_audit.salvage.salvage_manifest import SalvageManifest
from replica_audit.segments.records import decode_payloads
from replica_audit.segments.records import encode_batch as encode_again

SECRETS = (b"hunter2-in-a-key", b"hunter2-in-a-value", b"hunter2-in-a-header", b"hunter2-header-name")


def _secret_snapshot(path: Path, codec: str = "none") -> Path:
    record = Record(SECRETS[0], SECRETS[1], headers=((SECRETS[3].decode(), SECRETS[2]),))
    tail = [encode_batch(10, (record, record), 0, codec=codec), encode_batch(12, (record,), 0, mark="x")]
    return led_by_first(path, LEADER, replica([*COMMON, *tail], ((0, 0),)))


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_without_payloads_no_byte_of_a_record_is_anywhere(codec: str, form: str, tmp_path: Path, capfd: Any) -> None:
    snapshot, target = _secret_snapshot(tmp_path / "s", codec), tmp_path / "out"
    assert main(["salvage", str(snapshot), "--to", str(target), "--format", form]) == 0
    shown = "".join(capfd.readouterr()).encode()
    everything = [shown, *read_directory(target).values()]
    hidden = [*SECRETS, *(base64.b64encode(one)[:-4] for one in SECRETS)]
    # A plain digest of a short key can be guessed, so there is none either.
    hidden += [hashlib.sha256(one).hexdigest().encode() for one in SECRETS]
    assert [secret for secret in hidden if any(secret in data for data in everything)] == []
    assert list(read_directory(target)) == ["manifest.json"]
    manifest = SalvageManifest.open(target)
    rows = [row for one in manifest.head.partitions for row in manifest.records_of(one.topic, one.partition)]
    assert rows and all(row.sha256 is None for row in rows)
    assert '"sha256"' not in (target / "manifest.json").read_text().partition('"records": [')[2]
    assert json.loads((target / "manifest.json").read_text())["totals"]["records"] == 3


def test_an_error_while_writing_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = _secret_snapshot(tmp_path / "s")

    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(written_salvage, "hash_file", fail)
    assert main(["salvage", str(snapshot), "--to", str(tmp_path / "out"), "--payloads"]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]


def test_what_cannot_be_removed_after_an_error_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    snapshot = _secret_snapshot(tmp_path / "s")

    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(written_salvage, "hash_file", fail)
    monkeypatch.setattr("replica_audit.scratch.shutil.rmtree", lambda *_, **__: None)
    assert main(["salvage", str(snapshot), "--to", str(tmp_path / "out"), "--payloads"]) == 2
    (left,) = tmp_path.glob(".out.*")
    assert f"replica-audit: {left} could not be removed, and holds" in capsys.readouterr().err


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        snapshot = _secret_snapshot(tmp_path / "s")
        assert main(["salvage", str(snapshot), "--to", str(tmp_path / "out"), "--payloads"]) == 0
    finally:
        os.umask(before)
    for path in [tmp_path / "out", *(tmp_path / "out").rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_result_is_never_written_over(tmp_path: Path, capsys: Any) -> None:
    snapshot, target = _secret_snapshot(tmp_path / "s"), tmp_path / "out"
    target.mkdir()
    (target / "mine").write_text("keep")
    assert main(["salvage", str(snapshot), "--to", str(target)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert [path.name for path in target.iterdir()] == ["mine"]


def test_a_result_below_a_file_is_a_mistake(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "out"
    assert main(["salvage", str(_secret_snapshot(tmp_path / "s")), "--to", str(target)]) == 2
    assert f"--to {target}: a directory above it is a file" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["s/out", "s", "s/../s/broker-1/out"])
def test_nothing_is_written_into_the_snapshot(place: str, tmp_path: Path, capsys: Any) -> None:
    snapshot = _secret_snapshot(tmp_path / "s")
    assert main(["salvage", str(snapshot), "--to", str(tmp_path / place)]) == 2
    assert "only read" in capsys.readouterr().err


def test_to_is_needed(tmp_path: Path, capsys: Any) -> None:
    assert main(["salvage", str(_secret_snapshot(tmp_path / "s"))]) == 2
    assert "--to DIR is missing" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["base64", "text"])
def test_a_second_run_writes_the_same_bytes(encoding: str, tmp_path: Path) -> None:
    trees = []
    for number in range(2):
        target = tmp_path / str(number)
        main(["salvage", str(FIXTURES / "diverged-multi"), "--to", str(target), "--payloads", "--encoding", encoding])
        trees.append(read_directory(target))
    assert trees[0] == trees[1] and len(trees[0]) == 1 + 4 * 2 + 13


def test_the_manifest_knows_every_file(tmp_path: Path) -> None:
    target = tmp_path / "out"
    main(["salvage", str(FIXTURES / "diverged-unclean"), "--to", str(target), "--payloads"])
    tree = read_directory(target)
    listed = {one.path: one.sha256 for one in SalvageManifest.open(target).head.files}
    assert listed == {name: hashlib.sha256(data).hexdigest() for name, data in tree.items() if name != "manifest.json"}
    assert SalvageManifest.open(target).digest == hashlib.sha256(tree["manifest.json"]).hexdigest()


def _all_records(data: bytes) -> list[tuple]:
    records, found = MemoryRecords(data), []
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        found += [(one.offset, one.timestamp, one.key, one.value, list(one.headers)) for one in batch]
    return found


def test_all_forms_hold_the_same_records(tmp_path: Path) -> None:
    odd = (
        Record(None, b"null key"),
        Record(b"", b""),
        Record(b"tombstone", None, headers=(("h", None), ("h", b""), ("h", b"\xff\x00"))),
        Record(None, None, headers=(("ü", "ü".encode()),)),
        Record(b"\xff", b"not text"),
    )
    snapshot = led_by_first(
        tmp_path / "s", LEADER, replica([*COMMON, encode_batch(10, odd, 0, codec="zstd")], ((0, 0),))
    )
    for encoding in ("base64", "text"):
        target = tmp_path / encoding
        assert main(["salvage", str(snapshot), "--to", str(target), "--payloads", "--encoding", encoding]) == 0
        lines = [json.loads(line) for line in (target / "orders-0/records.jsonl").read_text().splitlines()]
        undo = {"base64": base64.b64decode, "text": str.encode}
        by_json = []
        for line in lines:
            values = [line["key"], line["value"], *(value for _, value in line["headers"])]
            parts = [None if one is None else undo[line["encoding"]](one) for one in values]
            headers = [(name, part) for (name, _), part in zip(line["headers"], parts[2:], strict=True)]
            by_json.append((line["offset"], line["timestamp_ms"], parts[0], parts[1], headers))
        rows = pq.read_table(target / "orders-0/records.parquet").to_pylist()
        by_parquet = [
            (
                row["offset"],
                row["timestamp_ms"],
                row["key"],
                row["value"],
                [(h["name"], h["value"]) for h in row["headers"]],
            )
            for row in rows
        ]
        (segment,) = (target / "orders-0/segments").rglob("*.log")
        assert by_json == by_parquet == _all_records(segment.read_bytes())
        assert [one[2:4] for one in by_json] == [(record.key, record.value) for record in odd]
        kinds = [line["encoding"] for line in lines]
        assert kinds == (["base64"] * 5 if encoding == "base64" else ["text", "text", "base64", "text", "base64"])


def test_a_batch_that_is_salvaged_whole_keeps_its_bytes(tmp_path: Path) -> None:
    target = tmp_path / "out"
    main(["salvage", str(FIXTURES / "diverged-unclean"), "--to", str(target), "--payloads", "--form", "segments"])
    for path in target.rglob("*.log"):
        source = (FIXTURES / "diverged-unclean/broker-0" / path.parts[-4] / f"{0:020}.log").read_bytes()
        assert source.endswith(path.read_bytes()) or path.read_bytes() in source
    assert len(list(target.rglob("*.log"))) == 3
    assert not list(target.rglob("*.jsonl"))


def test_what_is_left_of_a_batch_is_encoded_anew(tmp_path: Path) -> None:
    records = tuple(Record(f"k{n}".encode(), f"v{n}".encode(), headers=(("h", b"x"),)) for n in range(6))
    changed = (records[0], Record(b"k1", b"other", headers=(("h", b"y"), ("h", None))), *records[2:])
    producer = {"producer_id": 9, "producer_epoch": 2, "base_sequence": 100}
    leader = replica([encode_batch(0, records, 0, **producer)], ((0, 0),))
    follower = replica([encode_batch(0, changed, 0, codec="lz4", **producer)], ((0, 0),))
    snapshot = led_by_first(tmp_path / "s", leader, follower)
    assert main(["salvage", str(snapshot), "--to", str(tmp_path / "out"), "--payloads"]) == 0
    (segment,) = (tmp_path / "out").rglob("*.log")
    assert segment.name == f"{1:020}.log"
    ((offset, _, key, value, headers),) = _all_records(segment.read_bytes())
    assert (offset, key, value, headers) == (1, b"k1", b"other", [("h", b"y"), ("h", None)])
    (payload,) = decode_payloads(segment.read_bytes())
    assert (payload.producer_id, payload.producer_epoch, payload.sequence) == (9, 2, 101)


_parts = st.none() | st.binary(max_size=20)
_records = st.lists(
    st.builds(
        Record,
        _parts,
        _parts,
        st.integers(-1, 2**62),
        st.lists(st.tuples(st.text(max_size=5), _parts), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=50, deadline=None)
@given(_records, st.integers(0, 2**40), st.integers(-1, 2**31 - 1))
def test_a_batch_encoded_anew_is_the_one_that_another_encoder_writes(
    records: list[Record], base: int, epoch: int
) -> None:
    first = records[0].timestamp_ms
    entry = encode_batch(base, records, epoch, timestamp_ms=first, producer_id=5, producer_epoch=1, base_sequence=7)
    assert encode_again(list(decode_payloads(entry))) == entry


def test_legacy_messages_without_timestamps_can_be_encoded_anew() -> None:
    (message,) = decode_payloads(encode_legacy(7, b"v", b"k", magic=0))
    (again,) = decode_payloads(encode_again([message]))
    assert (again.offset, again.key, again.value, again.timestamp, again.leader_epoch) == (7, b"k", b"v", -1, -1)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema_version": 2,\n"records": [\n]\n}', "\xff"])
def test_a_file_that_is_no_manifest_is_told(text: str, tmp_path: Path) -> None:
    from replica_audit.errors import UsageError

    (tmp_path / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match="expected a manifest"):
        SalvageManifest.open(tmp_path)


def test_bytes_that_change_anywhere_give_no_other_record_and_no_silence(tmp_path: Path) -> None:
    """Of every record that was there, each is salvaged as it was, is the leader's, or a batch is named that could not be read."""
    random.seed(12)
    tail = [encode_batch(10 + 3 * n, 3, 0, mark=f"old{n}") for n in range(6)]
    healthy = b"".join([*COMMON, *tail])
    originals = {(record.offset, record.value) for one in tail for record in decode_payloads(one)}
    for number in range(40):
        snapshot = led_by_first(tmp_path / f"s{number}", LEADER, replica([*COMMON, *tail], ((0, 0),)))
        path = snapshot / "broker-2/orders-0" / f"{0:020}.log"
        data = bytearray(healthy)
        at = random.randrange(len(COMMON[0]), len(data))
        # Base offsets, epochs and magic are covered by no checksum: what is told of those is another test's matter.
        if any(0 <= at - start < 17 for start in _starts(healthy)):
            continue
        data[at] ^= 1 << random.randrange(8)
        path.write_bytes(bytes(data))
        target = tmp_path / f"out{number}"
        status = main(["salvage", str(snapshot), "--to", str(target), "--payloads", "--quiet", "--form", "jsonl"])
        lines = [json.loads(line) for line in (target / "orders-0/records.jsonl").read_text().splitlines()]
        given = {(line["offset"], base64.b64decode(line["value"])) for line in lines}
        unread = SalvageManifest.open(target).head.unread
        assert given <= originals and status in (1, 3)
        for offset, _ in originals - given:
            assert any(row.start_offset <= offset and offset < (row.end_offset or 1 << 62) for row in unread)


def _starts(data: bytes) -> list[int]:
    starts = [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + 12 + struct.unpack_from(">i", data, starts[-1] + 8)[0])
    return starts


#: More than so little data may expand to.
BOMB = (Record(b"k", bytes(40 << 20)), Record(b"k2", b"beside it"))


def _bomb_snapshot(path: Path) -> tuple[Path, bytes]:
    """The follower's tail is a batch that is not expanded, and one that is."""
    entry = encode_batch(10, BOMB, 0, codec="zstd")
    tail = [entry, encode_batch(12, 3, 0, mark="old")]
    return led_by_first(path, LEADER, replica([*COMMON, *tail], ((0, 0),))), entry


def test_a_batch_that_is_not_expanded_is_copied_as_it_is(tmp_path: Path, capsys: Any) -> None:
    snapshot, entry = _bomb_snapshot(tmp_path / "s")
    target = tmp_path / "out"
    assert main(["salvage", str(snapshot), "--to", str(target), "--payloads", "--form", "segments"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "expands to more than" in told and "Kafka could" not in told
    head = SalvageManifest.open(target).head
    (row,) = head.unexpanded
    assert (target / row.copied_to).read_bytes() == entry
    assert (row.start_offset, row.end_offset, row.records, row.leader_epoch) == (10, 12, 2, 0)
    assert (head.totals.expected, head.totals.written, head.unread) == (5, 5, ())
    assert row.copied_to in {one.path for one in head.files}
    (other,) = (target / "orders-0/segments/epoch-0").glob("*.log")
    assert [offset for offset, *_ in _all_records(other.read_bytes())] == [12, 13, 14]


def test_in_other_forms_its_records_are_missing_and_that_is_said(tmp_path: Path, capsys: Any) -> None:
    snapshot, _ = _bomb_snapshot(tmp_path / "s")
    assert main(["salvage", str(snapshot), "--to", str(tmp_path / "all"), "--payloads"]) == 1
    totals = SalvageManifest.open(tmp_path / "all").head.totals
    assert (totals.expected, totals.written, totals.unexpanded_records) == (5, 3, 2)
    assert main(["salvage", str(snapshot), "--to", str(tmp_path / "json"), "--payloads", "--form", "jsonl"]) == 1
    assert SalvageManifest.open(tmp_path / "json").head.unexpanded[0].copied_to is None
    assert main(["salvage", str(snapshot), "--to", str(tmp_path / "none")]) == 0


def test_what_the_leader_has_too_is_not_copied_for_its_size(tmp_path: Path) -> None:
    shared = encode_batch(10, BOMB, 0, codec="zstd")
    leader = replica([*COMMON, shared, encode_batch(12, 3, 0, mark="one")], ((0, 0),))
    follower = replica([*COMMON, shared, encode_batch(12, 3, 0, mark="two")], ((0, 0),))
    snapshot = led_by_first(tmp_path / "s", leader, follower)
    assert main(["salvage", str(snapshot), "--to", str(tmp_path / "out"), "--payloads"]) == 0
    assert SalvageManifest.open(tmp_path / "out").head.unexpanded == ()

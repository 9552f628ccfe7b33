"""The snapshot's id: fixed for good by a golden one, the same for every copy, another for whatever bronze rows tell apart."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.support.fixtures import FIXTURES
from tests.support.identity import identify
from tests.support.new_disks import add_disk
from tests.support.observations import observed, write_observations
from tests.support.snapshots import write_manifest

from replica_audit.auditing import snapshot_id
from replica_audit.auditing.snapshot_id import inventory_lines, pieces_of
from replica_audit.snapshot.opening import open_snapshot

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data" / "samples" / "last-replica-standing"


@pytest.fixture
def copy(tmp_path) -> Path:
    return shutil.copytree(SAMPLE, tmp_path / "a copy")


def test_ids_are_those_of_earlier_releases():
    """A change here is a change of every id: all snapshots of all warehouses would be ingested anew."""
    assert identify(SAMPLE) == "54447ed264a089831ba836fb565dfd5b"
    assert identify(FIXTURES / "corrupted-hw-garbage") == "d9a357a4b0521a1abda4c32b58b16cf2"


def test_a_copy_has_the_id_of_the_original_wherever_it_lies(copy, tmp_path):
    assert identify(copy) == identify(SAMPLE)
    link = tmp_path / "link"
    link.symlink_to(copy)
    assert identify(link) == identify(SAMPLE)


def test_no_line_has_an_absolute_path_or_a_name_of_a_class(copy):
    lines = inventory_lines(open_snapshot(str(copy), (), None)[1])
    assert lines == sorted(lines) and len(lines) > 10
    text = "\n".join(lines)
    assert str(copy) not in text and str(copy.parent) not in text and "(" not in text
    assert all(line.startswith('["') and line.isascii() for line in lines)


def _segment(copy: Path) -> Path:
    return max(copy.glob("broker-*/*-0/*.log"), key=lambda path: (path.stat().st_size, path))


def _flip(copy: Path) -> None:
    """One bit of a record, far from both ends; times as they were."""
    path = _segment(copy)
    content, state = bytearray(path.read_bytes()), path.stat()
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def _checkpoint(copy: Path) -> None:
    path = next(copy.glob("broker-*/replication-offset-checkpoint"))
    lines = path.read_text().splitlines()
    topic, partition, offset = lines[2].split()
    path.write_text("\n".join([*lines[:2], f"{topic} {partition} {int(offset) + 1}", *lines[3:], ""]))


def _clean_flag(copy: Path) -> None:
    path = next(copy.glob("broker-*/meta.properties")).parent / ".kafka_cleanshutdown"
    path.unlink() if path.exists() else path.write_text("")


def _epochs(copy: Path) -> None:
    next(copy.glob("broker-*/*-0/leader-epoch-checkpoint")).write_text("0\n1\n77 0\n")


def _manifest(copy: Path) -> None:
    write_manifest(copy, quiesced=True)


def _cut(copy: Path) -> None:
    os.truncate(_segment(copy), _segment(copy).stat().st_size - 1)


def _observe(copy: Path) -> None:
    write_observations(copy, observed(0, {1: 5}, [1], 5))


def _new_disk(copy: Path) -> None:
    add_disk(copy)


@pytest.mark.parametrize("change", [_flip, _checkpoint, _clean_flag, _epochs, _manifest, _cut, _observe, _new_disk])
def test_what_differs_in_what_is_kept_has_another_id(copy, change):
    change(copy)
    assert identify(copy) != identify(SAMPLE)


def test_observations_count_with_all_their_bytes_and_the_topics_they_are_cut_to(copy, monkeypatch):
    path = write_observations(copy, [row for n in range(2_000) for row in observed(n, {1: 5, 2: 5}, [1, 2], 5)])
    before = identify(copy)
    content = bytearray(path.read_bytes())
    middle = content.index(b'"log_end_offset": 5', len(content) // 2) + len('"log_end_offset": ')
    content[middle : middle + 1] = b"6"
    path.write_bytes(content)
    assert identify(copy) != before
    content[middle : middle + 1] = b"5"
    path.write_bytes(content)
    assert identify(copy) == before != identify(copy, ["*"])


def test_a_large_file_is_hashed_in_pieces(monkeypatch):
    monkeypatch.setattr(snapshot_id, "PIECE_BYTES", 10)
    assert [tuple(piece) for piece in pieces_of([("a", 25), ("b", 0)])] == [
        ("a", 0, 10), ("a", 10, 20), ("a", 20, 25), ("b", 0, 0),
    ]  # fmt: skip


def test_what_is_not_kept_does_not_count(copy):
    (copy / "notes.txt").write_text("copied on a Sunday")
    _segment(copy).touch()
    assert identify(copy) == identify(SAMPLE)

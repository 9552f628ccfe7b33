"""The archives of captures and attacks: packed to the same bytes, unpacked whole, and read by nobody in any other way."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from tests.pack import pack, unpack
from tests.support.archives import (
    manifest_of,
    manifest_path,
    read_archive,
    read_directory,
    tar_bytes,
    write_archive,
    write_directory,
)
from tests.support.fixtures import (
    ARCHIVED,
    ARCHIVED_ATTACKS,
    ATTACKS,
    CAPTURES,
    DAMAGE_TABLE,
    FIXTURES,
    ROOT,
    archives,
    damaged_copy,
    unpack_once,
)

ARCHIVES = [*archives(ARCHIVED), *archives(ARCHIVED_ATTACKS)]
DAMAGED = json.loads(DAMAGE_TABLE.read_text(encoding="utf-8"))["copies"]
FILES = {"b/.dotfile": b"", "b/10/x.log": b"\0" * 5000, "a/ü": b"text\n"}


def archived_lines() -> list[str]:
    return [line for archive in ARCHIVES for line in manifest_path(archive).read_text(encoding="utf-8").splitlines()]


def test_what_lies_unpacked_is_what_the_manifests_say():
    """A test that writes into the unpacked files fails this one until build/fixtures is removed."""
    there = {**read_directory(FIXTURES), **read_directory(ATTACKS)}
    made = {path for path in there if path.split("/")[0] in DAMAGED and "/dump/" not in path}
    assert manifest_of({path: content for path, content in there.items() if path not in made}).splitlines() == sorted(
        archived_lines(), key=lambda line: line.split(" ", 1)[1].split(maxsplit=1)[1]
    )


@pytest.mark.parametrize("copy", DAMAGED)
def test_a_damaged_copy_is_the_captured_one(copy):
    """Each was audited and recovered by a real broker as it was captured; the digest is of the captured file."""
    partition = {path.name for path in (FIXTURES / "healthy" / "broker-2" / "codecs-1").iterdir()}
    for change in DAMAGED[copy]:
        path = FIXTURES / copy / change["file"]
        if change.get("gone"):
            assert not path.exists()
            partition.discard(path.name)
        else:
            assert hashlib.sha256(path.read_bytes()).hexdigest() == change["sha256"]
    assert {path.name for path in (FIXTURES / copy / "broker-2" / "codecs-1").iterdir()} == partition
    assert {path.name for path in (FIXTURES / copy).glob("broker-*")} == {"broker-0", "broker-2"}


def test_changes_of_a_damaged_copy():
    sound = {"log": b"abcdef", "other": b"x", "index": b"y"}
    changes = [
        {"file": "log", "at": 2, "drop": 3, "put": "5a"},
        {"file": "other", "at": 1, "zeros": 3},
        {"file": "index", "gone": True},
    ]
    assert damaged_copy(sound, changes) == {"log": b"abZf", "other": b"x\0\0\0"}
    assert sound["log"] == b"abcdef"


@pytest.mark.parametrize("archive", archives(ARCHIVED))
def test_packing_again_gives_the_same_archive(archive):
    """By the tar inside: versions of liblzma may compress the same bytes in different ways."""
    assert tar_bytes(read_archive(archive)) == lzma.decompress(archive.read_bytes())


def test_the_same_files_give_the_same_bytes_wherever_and_whenever_they_are_packed(tmp_path):
    write_directory(FILES, tmp_path / "here")
    write_directory(dict(reversed(FILES.items())), tmp_path / "there")
    (tmp_path / "there/b/.dotfile").chmod(0o600)
    for name in ("here", "there"):
        pack(tmp_path / name, tmp_path / f"{name}.tar.xz")
    one, other = (tmp_path / f"{name}.tar.xz" for name in ("here", "there"))
    assert one.read_bytes() == other.read_bytes() and read_archive(one) == FILES
    assert manifest_path(one).read_text() == manifest_path(other).read_text() == manifest_of(FILES)
    unpack(one, tmp_path / "again")
    assert read_directory(tmp_path / "again") == FILES


def test_pack_says_what_it_cannot_take(tmp_path):
    write_directory({"x/truth.json": b"{}"}, tmp_path / "in")
    with pytest.raises(SystemExit, match=r"x/truth\.json has to stay readable: move it to"):
        pack(tmp_path / "in", tmp_path / "out.tar.xz")
    with pytest.raises(SystemExit, match=r"ends in \.tar\.xz, found out\.zip"):
        pack(tmp_path / "in", tmp_path / "out.zip")
    with pytest.raises(SystemExit, match="is not empty"):
        unpack(tmp_path / "out.tar.xz", tmp_path / "in")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit, match="no file below"):
        pack(tmp_path / "empty", tmp_path / "out.tar.xz")


def test_two_that_unpack_at_once_find_the_same_whole_files(tmp_path):
    archive, parent = tmp_path / "x.tar.xz", tmp_path / "build"
    write_archive(FILES, archive)
    calls, both = [], Barrier(2)

    def fill(target: Path) -> None:
        calls.append(target)
        if len(calls) <= 2:
            both.wait(timeout=60)
        write_directory(read_archive(archive), target)

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: unpack_once([archive], parent, fill), range(2))
    assert one == other and read_directory(one) == FILES
    assert [path.name for path in parent.iterdir()] == [one.name], "nothing half unpacked is left"
    assert unpack_once([archive], parent, fill) == one and len(calls) == 2

    write_archive({"other": b""}, archive)
    assert unpack_once([archive], parent, fill) != one, "another archive, another directory"


def test_an_unpacking_that_fails_leaves_nothing_that_passes_for_files(tmp_path):
    def fail(target: Path) -> None:
        (target / "half").write_text("")
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        unpack_once([], tmp_path, fail)
    assert list(tmp_path.iterdir()) == []


def test_every_capture_has_its_truth_and_an_archive_of_its_version():
    assert {path.stem for path in (ARCHIVED / "truth").iterdir()} == set(CAPTURES)
    for archive in archives(ARCHIVED):
        version = re.fullmatch(r"kafka-([\d.]+)\.tar\.xz", archive.name)[1]
        names = {line.split(maxsplit=2)[2].split("/")[0] for line in manifest_path(archive).read_text().splitlines()}
        for name in names - set(DAMAGED) - {"corrupted-odd-dirs"}:
            said = json.loads((ARCHIVED / "truth" / f"{name}.json").read_text(encoding="utf-8"))
            assert said["kafka"].startswith(f"{version}."), name


def test_no_test_finds_the_files_by_itself():
    own = {"support/fixtures.py", "support/test_fixtures.py"}
    by_hand = re.compile(r"""["']fixtures["']|["']attacks["']|tests/fixtures/(?!kafka)\w|tests/attacks/\w""")
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in ("tests", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        if by_hand.search(path.read_text(encoding="utf-8")) and path.relative_to(ROOT / "tests").as_posix() not in own
    ]
    assert found == []

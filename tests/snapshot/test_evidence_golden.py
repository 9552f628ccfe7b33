"""The format of evidence: golden files are read as what stands beside them, and the collector writes the like."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest
from tests.support.archives import unpack
from tests.support.collected import collect_into, settle
from tests.support.fixtures import GOLDEN
from tests.support.some import some

from replica_audit.collect import collect
from replica_audit.segments.frames import FrameFile
from replica_audit.snapshot import evidence_files
from replica_audit.snapshot.storage import Snapshot


def frames_of(archive: Path) -> dict[str, list]:
    """What an archive has of each file: what it is listed as, and its bytes' SHA-256 or its frames as type, position, length, batches
    and SHA-256 of what is inflated."""
    with tarfile.open(archive) as tar:
        members = {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]
    found: dict[str, list] = {}
    lines = [json.loads(text) for name in members if name.endswith(".jsonl") for text in members[name].splitlines()]
    for line in lines:
        parts = [members[part[0]] for part in line.get("parts", [])]
        if line["as"] == "whole":
            found[line["path"]] = ["whole", *(hashlib.sha256(part).hexdigest() for part in parts)]
        elif line["as"] == "frames":
            file = FrameFile(line["path"], [lambda part=part: part for part in parts])  # type: ignore[misc]
            frames = [
                [
                    frame.kind.decode(),
                    frame.position,
                    frame.end - frame.position,
                    frame.batches,
                    hashlib.sha256(file.inflate(frame)).hexdigest() if frame.size else "",
                ]
                for frame in file.frames
            ]
            found[line["path"]] = ["frames", line["not_captured"], *frames]
        else:
            found[line["path"]] = [line["as"]]
    return found


#: By the directory of the snapshot that they are in.
ARCHIVES = {"evidence-1.tar": "snapshot", "evidence-1-after.tar": "snapshot", "evidence-1-headers.tar": "headers"}
#: The file that was cut by its broker as its last bytes were to be read.
CUT, CUT_AT = "torn-0/00000000000000000000.log", 419


def _expected(name: str) -> dict[str, list]:
    return json.loads((GOLDEN / "expected.json").read_text())[name]


def test_the_version_is_that_of_the_golden_files() -> None:
    assert collect.FORMAT == evidence_files.FORMAT == int(GOLDEN.name.partition("-")[2])
    kinds = {frame[0] for name in ARCHIVES for file in _expected(name).values() for frame in file[2:]}
    assert kinds == set("VHXRZUS")


@pytest.mark.parametrize("name", ARCHIVES)
def test_golden_archives_have_what_stands_beside_them(name: str) -> None:
    assert frames_of(GOLDEN / ARCHIVES[name] / name) == _expected(name)


@pytest.mark.parametrize("directory", ["snapshot", "headers"])
def test_golden_archives_are_read_as_the_files_that_they_stand_for(tmp_path: Path, directory: str) -> None:
    unpack(GOLDEN / "broker-1.tar", tmp_path)
    snapshot = Snapshot.open(GOLDEN / directory)
    assert not snapshot.evidence.problems and not snapshot.evidence.incomplete
    for path in sorted(snapshot.evidence.files):
        content = (tmp_path / path).read_bytes()
        assert snapshot.evidence.files[path].size == len(content), path
        if snapshot.evidence.files[path].kind == "stub":
            continue
        with snapshot.open_file(path) as stream:
            at = getattr(stream, "known_end", 0)
            missing = getattr(stream, "missing", ())
            end = missing[0][0] if missing else len(content)
            stream.seek(at)
            assert stream.read(end - at) == content[at:end], path
            is_cut = path.split("/")[1] in ("legacy-0", "torn-0", "zeros-0") and path.endswith(".log")
            assert bool(missing) is (directory == "headers" and is_cut)
            for batches in stream.known() if at else ():  # type: ignore[union-attr]
                assert all(content[place + 16] == 2 for place in batches["position"].tolist())
                # A marker is there whole, and its checksum computed.
                markers = batches["attributes"] & 0x20 != 0
                assert (batches["crc_unchecked"] == (~markers if directory == "headers" else False)).all()


def collect_like(tmp_path: Path, patch: pytest.MonkeyPatch) -> list[Path]:
    """The archives of the golden log dir as the collector writes them today."""
    unpack(GOLDEN / "broker-1.tar", tmp_path)
    settle(tmp_path)
    first, second, third = found = [tmp_path / name for name in ARCHIVES]
    given = ("--log-dir", str(tmp_path / "broker-1"), "--kind", "live")
    collect_into(first, *given)
    collect_into(second, *given, "--raw", "--after", str(first))
    of_file = collect.BrokerFile.read

    def read(self: collect.BrokerFile, position: int, size: int) -> bytes:
        is_cut = position >= CUT_AT and os.readlink(f"/proc/self/fd/{self.number}").endswith(CUT)
        return b"" if is_cut else of_file(self, position, size)

    patch.setattr(collect.BrokerFile, "read", read)
    collect_into(third, *given, "--headers", "always")
    return found


def test_the_collector_writes_the_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for archive in some(collect_like(tmp_path, monkeypatch)):
        assert frames_of(archive) == _expected(archive.name)

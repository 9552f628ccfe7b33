"""The format of evidence: golden files are read as what stands beside them, and the collector writes the like."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest
from tests.support.collected import collect_into
from tests.support.fixtures import GOLDEN

from replica_audit.collect import collect
from replica_audit.segments.frames import FrameFile
from replica_audit.snapshot import evidence_files
from replica_audit.snapshot.storage import Snapshot

#: A long time ago: nothing is being changed.
OLD = 10**18


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


def _expected(name: str) -> dict[str, list]:
    return json.loads((GOLDEN / "expected.json").read_text())[name]


def test_the_version_is_that_of_the_golden_files() -> None:
    assert collect.FORMAT == evidence_files.FORMAT == int(GOLDEN.name.partition("-")[2])
    kinds = {
        frame[0]
        for name in ("evidence-1.tar", "evidence-1-after.tar")
        for file in _expected(name).values()
        for frame in file[2:]
    }
    assert kinds == set("VXRZU")


@pytest.mark.parametrize("name", ["evidence-1.tar", "evidence-1-after.tar"])
def test_golden_archives_have_what_stands_beside_them(name: str) -> None:
    assert frames_of(GOLDEN / "snapshot" / name) == _expected(name)


def test_golden_archives_are_read_as_the_files_that_they_stand_for(tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / "broker-1.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    snapshot = Snapshot.open(GOLDEN / "snapshot")
    assert not snapshot.evidence.problems and not snapshot.evidence.incomplete
    for path in sorted(snapshot.evidence.files):
        content = (tmp_path / path).read_bytes()
        assert snapshot.evidence.files[path].size == len(content), path
        if snapshot.evidence.files[path].kind == "stub":
            continue
        with snapshot.open_file(path) as stream:
            at = getattr(stream, "known_end", 0)
            stream.seek(at)
            assert stream.read() == content[at:], path
            for batches in stream.known() if at else ():  # type: ignore[union-attr]
                assert all(content[place + 16] == 2 for place in batches["position"].tolist())


def test_the_collector_writes_the_like(tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / "broker-1.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    for path in tmp_path.rglob("*"):
        os.utime(path, ns=(OLD, OLD))
    first, second = tmp_path / "evidence-1.tar", tmp_path / "evidence-1-after.tar"
    given = ("--log-dir", str(tmp_path / "broker-1"), "--kind", "live")
    collect_into(first, *given)
    collect_into(second, *given, "--raw", "--after", str(first))
    for archive in (first, second):
        assert frames_of(archive) == _expected(archive.name)

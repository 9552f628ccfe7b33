"""Sizes and hashes of `manifest.json`: what a snapshot's files are compared with when they are opened."""

from __future__ import annotations

import hashlib
import json
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from replica_audit.errors import FormatError
from replica_audit.snapshot import storage
from replica_audit.snapshot.manifest import CopiedFiles, parse_manifest
from replica_audit.snapshot.storage import Snapshot


def manifest(files=(), incomplete=(), **more):
    one = {"broker_id": 1, "log_dir": "broker-1", "files": files, "incomplete": incomplete, **more}
    return json.dumps({"schema_version": 1, "brokers": [one]})


def told(path, data):
    return {"path": path, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@pytest.fixture
def snapshot(tmp_path):
    def make(text, **files):
        (tmp_path / "broker-1").mkdir()
        for name, data in files.items():
            (tmp_path / "broker-1" / name).write_bytes(data)
        (tmp_path / "manifest.json").write_text(text)
        return Snapshot.open(tmp_path)

    return make


def test_what_was_copied_is_read_from_its_start(snapshot):
    opened = snapshot(manifest([told("a", b"content")]), a=b"content", b=b"not named")
    for again in (opened, pickle.loads(pickle.dumps(opened))):
        assert again.open_file("broker-1/a").read() == b"content" and again.read_bytes("broker-1/b") == b"not named"


@pytest.mark.parametrize(("data", "said"), [(b"Content", "SHA-256"), (b"conten", "6 bytes"), (b"content.", "8 bytes")])
def test_what_differs_is_refused_also_by_an_executor(snapshot, data, said):
    opened = snapshot(manifest([told("a", b"content")]), a=data)
    for again in (opened, pickle.loads(pickle.dumps(opened))):
        with pytest.raises(OSError, match=f"broker-1/a: .*{said}.*manifest.json"):
            again.open_file("broker-1/a")


def test_what_is_missing_is_listed_with_its_problem(snapshot):
    opened = snapshot(manifest([told("t-0/0.log", b""), told("t-0/0.index", b"")]))
    tree = opened.list_tree()
    assert [one.path for one in tree.problems] == ["broker-1/t-0/0.log"]
    assert "broker-1/t-0/0.log" in {entry.path for entry in tree.entries}
    with pytest.raises(OSError, match="manifest.json says that it was copied"):
        opened.open_file("broker-1/t-0/0.log")


@pytest.mark.parametrize("path", [".", "a"])
def test_what_was_not_copied_as_a_whole_is_refused(snapshot, path):
    opened = snapshot(manifest(incomplete=[{"path": path, "reason": "the copy broke off"}]), a=b"x", b=b"y")
    with pytest.raises(OSError, match="incomplete: the copy broke off"):
        opened.open_file("broker-1/a")
    assert ("broker-1" if path == "." else "broker-1/a") in {one.path for one in opened.list_tree().problems}
    if path == "a":
        assert opened.read_bytes("broker-1/b") == b"y"


@pytest.mark.parametrize(
    "more",
    [
        {"files": 1},
        {"files": ["a"]},
        {"files": [{"path": "a"}]},
        {"files": [{"path": "a", "size_bytes": -1, "sha256": "0" * 64}]},
        {"files": [{"path": "a", "size_bytes": True, "sha256": "0" * 64}]},
        {"files": [{"path": "a", "size_bytes": 1, "sha256": "x" * 64}]},
        {"files": [{"path": "../a", "size_bytes": 1, "sha256": "0" * 64}]},
        {"files": [{"path": "a//b", "size_bytes": 1, "sha256": "0" * 64}]},
        {"incomplete": [{"path": "a"}]},
        {"incomplete": {"a": "b"}},
    ],
)
def test_a_manifest_that_says_it_otherwise_is_an_error_and_hides_nothing(snapshot, more):
    text = manifest(**more)
    with pytest.raises(FormatError, match=r"manifest.json: expected .* at brokers\[0\]"):
        parse_manifest(text, "manifest.json")
    assert snapshot(text, a=b"x").read_bytes("broker-1/a") == b"x"


def test_threads_that_open_files_read_the_manifest_once(tmp_path, monkeypatch):
    """As tasks open segments of a store ahead; so is all evidence, which may be large."""
    (tmp_path / "manifest.json").write_text('{"schema_version": 1}')
    read = []

    def find(data):
        read.append(data)
        time.sleep(0.05)
        return CopiedFiles()

    monkeypatch.setattr(storage, "find_copied_files", find)
    snapshot, start = Snapshot.open(str(tmp_path)), Barrier(4)

    def open_one(_):
        start.wait()
        with snapshot.open_file("manifest.json") as file:
            return file.read()

    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(open_one, range(4))]
    assert found == read * 4 and len(read) == 1

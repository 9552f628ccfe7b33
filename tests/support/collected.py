"""Snapshots collected as evidence: what is no log dir is copied, each log dir is collected into an archive of its own."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.audit_json_text import audit_json_text
from tests.support.encoder import encode_batch
from tests.support.snapshots import Replica, write_pair

from replica_audit.collect import collect
from replica_audit.config import Settings
from replica_audit.report.wanted_ranges import render_wanted
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all
from replica_audit.segments.frames import HEADERS, MAGIC, FrameFile
from replica_audit.snapshot.log_dirs import arrange_folders, find_log_dirs, identify_log_dir
from replica_audit.snapshot.storage import Snapshot

#: As fast as it can.
UNLIMITED = ("--rate-mib", "1e9", "--iops", "1e9")
#: A long time ago, in ns.
OLD = 10**18

#: Put before the collector's text: no library computes CRC-32C.
NO_LIBRARY = """import ctypes, sys
sys.modules["google_crc32c"] = None
def _none(name): raise OSError(name)
ctypes.CDLL = _none
"""


def collect_into(archive: Path, *arguments: str) -> int:
    """Collect into the archive, at no limited rate unless one is given; the number of files that could not be read."""
    out = os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        return collect.collect(collect.parse_arguments([*UNLIMITED, *arguments]), out)
    finally:
        os.close(out)


def head_of(archive: Path) -> dict:
    """The file that is written last."""
    with tarfile.open(archive) as tar:
        return json.loads(tar.extractfile(tar.getnames()[-1]).read())  # type: ignore[union-attr]


def lines_of(archive: Path) -> list[dict]:
    """The lines of its lists."""
    with tarfile.open(archive) as tar:
        lists = [tar.extractfile(name).read() for name in tar.getnames() if name.endswith(".jsonl")]  # type: ignore[union-attr]
    return [json.loads(line) for text in lists for line in text.splitlines()]


def settle(place: Path) -> None:
    """Let all below a directory have been changed a long time ago: what was changed just now would be read again."""
    for path in place.rglob("*"):
        os.utime(path, ns=(OLD, OLD))


def two_segments(place: Path) -> Path:
    """A snapshot of two brokers, each with a closed segment and an active one."""
    replica = Replica([encode_batch(0, 3, 0), encode_batch(3, 3, 0), encode_batch(6, 2, 0)], per_segment=2)
    snapshot = write_pair(place, replica, replica)
    settle(snapshot)
    return snapshot


def log_dirs_of(snapshot: Path) -> list[tuple[int, str]] | None:
    """Broker id and path of each log dir; None where one has no id, holds another, or is the snapshot itself."""
    opened = Snapshot.open(snapshot)
    tree = opened.list_tree()
    folders = find_log_dirs(arrange_folders(tree.entries, tree.unlisted))
    found = [(one.broker_id, one.path) for one, _ in (identify_log_dir(opened, folder) for folder in folders)]
    paths = [path for _, path in found]
    nested = any(one != other and other.startswith(f"{one}/") for one in paths for other in paths)
    if nested or "" in paths or any(broker_id is None for broker_id, _ in found):
        return None
    return [(broker_id, path) for broker_id, path in found if broker_id is not None]


def collect_snapshot(snapshot: Path, target: Path, *arguments: str) -> Path:
    """Collect a snapshot into `target`, which is returned.

    The times of its manifest are kept; where it has none, the manifest says that there are none (`same_times`).
    """
    log_dirs = log_dirs_of(snapshot)
    assert log_dirs, snapshot
    target.mkdir(parents=True)
    for number, (broker_id, path) in enumerate(log_dirs, 1):
        given = f"{snapshot / path}={path}"
        collect_into(target / f"evidence-{number}.tar", "--log-dir", given, "--broker-id", str(broker_id), *arguments)
    _copy_rest(snapshot, target, [path for _, path in log_dirs])
    same_times(target, log_dirs)
    return target


def leaves_bytes_out(evidence: Path) -> bool:
    """True if a collection without --raw lacks bytes that belong to no sound batch."""
    return any(head_of(path)["not_captured"] for path in evidence.glob("evidence-*.tar"))


def copy_snapshot(snapshot: Path, target: Path) -> Path:
    """The copy that `collect_snapshot` is compared with."""
    shutil.copytree(snapshot, target, symlinks=True)
    same_times(target, log_dirs_of(snapshot) or ())
    return target


def same_times(snapshot: Path, log_dirs: Sequence[tuple[int, str]]) -> None:
    """Name every log dir in the manifest, so that the times of its evidence, which copies do not have, do not count."""
    manifest = snapshot / "manifest.json"
    content = json.loads(manifest.read_text()) if manifest.exists() else {"schema_version": 1}
    named = {one["log_dir"].strip("/") for one in content.get("brokers", [])}
    added = [{"broker_id": broker_id, "log_dir": path} for broker_id, path in log_dirs if path not in named]
    manifest.unlink(missing_ok=True)
    manifest.write_text(json.dumps({**content, "brokers": [*content.get("brokers", []), *added]}))


def _copy_rest(snapshot: Path, target: Path, log_dirs: Sequence[str]) -> None:
    for path in sorted(snapshot.rglob("*")):
        shown = path.relative_to(snapshot).as_posix()
        if path.is_file() and not any(shown.startswith(f"{one}/") for one in log_dirs):
            (target / shown).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target / shown)


def audited(snapshot: Path) -> Results:
    """The answers as they are, for `answers` and `bring_wanted`, if both are wanted of the same files."""
    return audit_all(str(snapshot), Settings(quiet=True))


def answers(snapshot: Path, found: Results | None = None) -> dict:
    """All tables of an audit, without what is of the run and where it lies."""
    text = audit_json_text(found or audited(snapshot)).replace(str(snapshot), "SNAPSHOT")
    content = json.loads(text)
    content.pop("audit")
    return content


def forget_unchecked(found: dict, expected: dict) -> tuple[dict, dict]:
    """The answers of headers alone, and those of the copy, without what rests on checksums that nobody computed: how many these
    are, the plan, and what is INCONCLUSIVE for them, since it is not certain who leads."""

    def place_of(row: dict) -> tuple[str, int]:
        return row["topic"], row["partition"]

    unchecked = [row for row in found["findings"] if row["code"] == "CAP-UNCHECKED"]
    if not unchecked:
        return found, expected
    held_back = {place_of(row) for row in unchecked if row["severity"] == "medium"}
    held_back &= {place_of(row) for row in found["partitions"] if row["verdict"] == "INCONCLUSIVE"}

    def without(content: dict) -> dict:
        kept = {name: rows for name, rows in content.items() if name not in ("decisions", "steps")}
        # Of what is INCONCLUSIVE all costs are told.
        kept["elections"] = [row for row in content["elections"] if place_of(row) not in held_back]
        replicas = [{k: v for k, v in row.items() if k not in _OF_CHECKSUMS} for row in content["replicas"]]
        partitions = [{k: v for k, v in row.items() if k != "findings"} for row in content["partitions"]]
        for row in partitions:
            if place_of(row) in held_back:
                del row["verdict"]
        findings = [row for row in content["findings"] if row["code"] != "CAP-UNCHECKED"]
        return {**kept, "replicas": replicas, "partitions": partitions, "findings": findings}

    return without(found), without(expected)


#: Columns of `replicas` that say less where checksums are not known.
_OF_CHECKSUMS = ("unchecked_batches", "loaded_log_end_offset", "recovered_log_end_offset")


def bring_wanted(copy: Path, evidence: Path, number: int, found: Results | None = None) -> int:
    """Collect what an audit of `evidence` wants of the log dirs of `copy`; how many bytes that is."""
    wanted = evidence.parent / f"{evidence.name}-wanted-{number}.json"
    wanted.write_text(render_wanted(found or audited(evidence), Snapshot.open(evidence).evidence))
    return bring(copy, evidence, wanted, number)


def bring(copy: Path, evidence: Path, wanted: Path, number: int) -> int:
    """Collect what a `wanted.json` names of the log dirs of `copy`; how many bytes that is."""
    found = json.loads(wanted.read_text())
    if found["wanted"]:
        for at, (broker_id, path) in enumerate(log_dirs_of(copy) or (), 1):
            given = ("--log-dir", f"{copy / path}={path}", "--broker-id", str(broker_id), "--wanted", str(wanted))
            collect_into(evidence / f"evidence-{at}-{number}.tar", *given)
    return found["bytes"]


def payload_of(archive: Path) -> bytes:
    """Everything in an archive, with what its frames inflate to."""
    found = []
    with tarfile.open(archive) as tar:
        for info in tar:
            data = tar.extractfile(info).read()  # type: ignore[union-attr]
            found.append(data)
            if data.startswith(MAGIC):
                file = FrameFile(info.name, [lambda data=data: data])
                found += [file.inflate(frame) for frame in file.frames if frame.kind in (*HEADERS, b"X", b"R")]
    return b"\n".join(found)

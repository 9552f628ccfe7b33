"""`--after`: what has not changed is named and not read, and a snapshot of several archives answers as its copies do."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.support.collected import (
    OLD,
    UNLIMITED,
    answers,
    collect_into,
    copy_snapshot,
    head_of,
    lines_of,
    log_dirs_of,
    same_times,
    settle,
    two_segments,
)
from tests.support.encoder import encode_batch
from tests.support.in_process import without_run
from tests.support.snapshots import Replica, write_snapshot

from replica_audit.cli.main import main
from replica_audit.collect import collect
from replica_audit.config import Settings
from replica_audit.progress import Progress
from replica_audit.runner.executor import InProcess
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.runner.scanning import ReadBytes
from replica_audit.snapshot.evidence_retention import find_archives
from replica_audit.warehouse.delta_tables import Warehouse

NAME = f"{0:020d}.log"
SECOND = f"{6:020d}.log"
LOG = f"broker-1/orders-0/{NAME}"


def _lines(archive: Path) -> dict[str, dict]:
    return {line["path"]: line for line in lines_of(archive)}


def _collect(snapshot: Path, evidence: Path, night: int, after: bool = True) -> dict[int, dict]:
    """Collect each broker into an archive of its own, after those that are there; the last file of each."""
    evidence.mkdir(exist_ok=True)
    heads = {}
    for broker, path in log_dirs_of(snapshot) or ():
        earlier = sorted(evidence.glob(f"evidence-{broker}-*.tar")) if after else ()
        given = [part for one in earlier for part in ("--after", str(one))]
        archive = evidence / f"evidence-{broker}-{night}.tar"
        collect_into(archive, "--log-dir", f"{snapshot / path}={path}", *given)
        heads[broker] = head_of(archive)
    for path in snapshot.iterdir():
        if path.is_file():
            (evidence / path.name).write_bytes(path.read_bytes())
    same_times(evidence, log_dirs_of(snapshot) or ())
    return heads


def _append(log: Path, data: bytes, at: int) -> None:
    with log.open("ab") as file:
        file.write(data)
    os.utime(log, ns=(at, at))


def test_what_has_not_changed_is_named_and_not_read(tmp_path: Path) -> None:
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    first = _collect(snapshot, evidence, 1)
    _append(snapshot / "broker-1" / "orders-0" / SECOND, encode_batch(8, 2, 0), OLD + 1)
    second = _collect(snapshot, evidence, 2)
    kinds = {path: line["as"] for path, line in _lines(evidence / "evidence-1-2.tar").items() if path.endswith(".log")}
    assert kinds == {LOG: "same", f"broker-1/orders-0/{SECOND}": "frames"}
    assert first[1]["batches"] == 3 and second[1]["batches"] == 2
    assert not first[1]["after"] and second[1]["after"]
    assert answers(evidence) == answers(copy_snapshot(snapshot, tmp_path / "copy" / "evidence"))
    third = _collect(snapshot, evidence, 3)
    assert third[1]["batches"] == third[2]["batches"] == 0
    assert answers(evidence) == answers(copy_snapshot(snapshot, tmp_path / "copy3" / "evidence"))


@pytest.mark.parametrize("change", ["size", "time", "inode", "header", "tail"])
def test_a_file_that_has_changed_is_read(tmp_path: Path, change: str) -> None:
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    _collect(snapshot, evidence, 1)
    log = snapshot / LOG
    data = log.read_bytes()
    if change == "size":
        _append(log, b"\0", OLD)
    elif change == "time":
        os.utime(log, ns=(OLD, OLD + 1))
    elif change == "inode":
        log.with_name("moved").write_bytes(data)
        log.with_name("moved").rename(log)
    else:
        at = 30 if change == "header" else len(data) - 5
        with log.open("r+b") as file:
            file.seek(at)
            file.write(bytes([data[at] ^ 1]))
    os.utime(log, ns=(OLD, OLD + (change == "time")))
    _collect(snapshot, evidence, 2)
    assert _lines(evidence / "evidence-1-2.tar")[LOG]["as"] == "frames"


def test_a_file_that_was_changed_just_now_is_read_again(tmp_path: Path) -> None:
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    os.utime(snapshot / LOG)
    _collect(snapshot, evidence, 1)
    assert "edges" not in _lines(evidence / "evidence-1-1.tar")[LOG]
    _collect(snapshot, evidence, 2)
    assert _lines(evidence / "evidence-1-2.tar")[LOG]["as"] == "frames"


def test_bytes_that_were_not_captured_are_asked_for_again(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot", {1: Replica([encode_batch(0, 3, 0)], tail=b"\x09" * 30)})
    settle(snapshot)
    collect_into(tmp_path / "one.tar", "--log-dir", str(snapshot / "broker-1"))
    given = ("--after", str(tmp_path / "one.tar"), "--raw")
    collect_into(tmp_path / "two.tar", "--log-dir", str(snapshot / "broker-1"), *given)
    line = _lines(tmp_path / "two.tar")[LOG]
    assert (line["as"], line["not_captured"]) == ("frames", 0)


@pytest.mark.parametrize("nights", [("never", "always"), ("always", "never"), ("always", "always")])
def test_of_what_was_read_several_times_the_checksums_that_were_computed_count(
    tmp_path: Path, nights: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last archive names files of the first night; the second read them as well."""
    snapshot, evidence, now = two_segments(tmp_path / "snapshot"), tmp_path / "evidence", time.time()
    evidence.mkdir()
    archives = [evidence / f"evidence-1-{night}.tar" for night in (1, 2, 3)]
    given = (f"{snapshot}/broker-1=broker-1", "--broker-id", "1", "--headers")
    for days_ago, archive, headers in zip((3, 2, 1), archives, (*nights, "always"), strict=True):
        monkeypatch.setattr(collect.time, "time", lambda days_ago=days_ago: now - days_ago * 86_400)
        after = () if archive == archives[0] else ("--after", str(archives[0]))
        again = ("--again-days", "1") if archive == archives[1] else ()
        collect_into(archive, "--log-dir", *given, headers, *after, *again)
    monkeypatch.undo()
    assert [_lines(archive)[LOG]["as"] for archive in archives] == ["frames", "frames", "same"]
    (row,) = answers(evidence)["replicas"]
    assert row["unchecked_batches"] == (0 if "never" in nights else 3)
    found, problems = find_archives(str(evidence), since=0)
    assert not problems
    named = 0 if nights[0] == "never" else 1
    assert [one.named for one in found] == [2 * (named == 0), 2 * (named == 1), 0]


@pytest.mark.parametrize("is_unpacked", [True, False])
def test_a_list_of_earlier_evidence_that_was_changed_is_named_with_its_place(tmp_path: Path, is_unpacked: bool) -> None:
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    _collect(snapshot, evidence, 1)
    _collect(snapshot, evidence, 2)
    archive = evidence / "evidence-1-1.tar"
    with tarfile.open(archive) as tar:
        (listed,) = (info for info in tar if info.name.endswith(".jsonl"))
        if is_unpacked:
            for info in tar:
                (evidence / info.name).parent.mkdir(parents=True, exist_ok=True)
                (evidence / info.name).write_bytes(tar.extractfile(info).read())  # type: ignore[union-attr]
    at = 0 if is_unpacked else listed.offset_data
    changed = evidence / listed.name if is_unpacked else archive
    if is_unpacked:
        archive.unlink()
    data = bytearray(changed.read_bytes())
    data[at] ^= 1
    changed.write_bytes(data)
    (row,) = (one for one in answers(evidence)["quarantine"] if "not the evidence" in one["reason"])
    assert row["path"] == ("evidence-1.json" if is_unpacked else archive.name), row
    place = f"{listed.name} at byte 0:" if is_unpacked else f"{listed.name} at byte {at} of {archive.name}:"
    assert place in row["reason"], row


def test_earlier_evidence_that_is_gone_is_missed_and_nothing_is_concluded(tmp_path: Path) -> None:
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    _collect(snapshot, evidence, 1)
    _collect(snapshot, evidence, 2)
    (evidence / "evidence-1-1.tar").unlink()
    found = answers(evidence)
    reasons = [row["reason"] for row in found["quarantine"] if row["code"] == "CAP-UNREADABLE"]
    assert any("the earlier evidence that has it" in reason for reason in reasons)
    assert {row["code"] for row in found["findings"]} <= {"CAP-UNREADABLE", "CAP-SECOND-HAND", "INPUT-INCOMPLETE"}
    assert {row["verdict"] for row in found["partitions"]} == {"INCONCLUSIVE"}


def test_a_damaged_part_of_earlier_evidence_is_refused(tmp_path: Path) -> None:
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    _collect(snapshot, evidence, 1)
    _collect(snapshot, evidence, 2)
    data = bytearray((evidence / "evidence-1-1.tar").read_bytes())
    data[data.index(b"RAFRAME1") + 12] ^= 1
    (evidence / "evidence-1-1.tar").write_bytes(data)
    reasons = [row["reason"] for row in answers(evidence)["quarantine"]]
    assert any("not the evidence that was collected (SHA-256 in evidence-1-1.tar" in reason for reason in reasons)


def test_evidence_that_was_not_collected_after_the_other_is_refused(tmp_path: Path) -> None:
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    _collect(snapshot, evidence, 1)
    _collect(snapshot, evidence, 2)
    _collect(snapshot, evidence, 3, after=False)
    reasons = [f"{row['path']}: {row['reason']}" for row in answers(evidence)["quarantine"]]
    assert sum("no other evidence of broker-" in reason for reason in reasons) == 2
    assert all(reason.startswith("evidence-") for reason in reasons if "no other evidence" in reason)


def _cut(archive: Path, after: str, count: int) -> None:
    """Break off in the middle of the member after the one that is the first with `after` in it, and `count` more."""
    with tarfile.open(archive) as tar:
        found = [info for info in tar if after.encode() in tar.extractfile(info).read()]  # type: ignore[union-attr]
        at = tar.getmembers().index(found[0]) + 1 + count
        info = tar.getmembers()[at]
    archive.write_bytes(archive.read_bytes()[: info.offset_data + info.size // 2])


@pytest.mark.parametrize(
    ("after", "count", "is_known"),
    [("version", 0, False), ('"as": "frames"', -1, False), ('"as": "frames"', 0, True), ('"as": "frames"', 2, True)],
)
def test_a_collection_goes_on_from_an_archive_that_broke_off(
    tmp_path: Path, after: str, count: int, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "LIST_BYTES", 1)
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    _collect(snapshot, evidence, 1)
    for broker in (1, 2):
        _cut(evidence / f"evidence-{broker}-1.tar", after, count)
    assert "CAP-UNREADABLE" in {row["code"] for row in answers(evidence)["quarantine"]}
    _collect(snapshot, evidence, 2)
    taken = {line["as"] for line in _lines(evidence / "evidence-1-2.tar").values()}
    assert ("same" in taken) == is_known
    assert answers(evidence) == answers(copy_snapshot(snapshot, tmp_path / "copy" / "evidence"))


def test_an_archive_that_broke_off_later_is_told(tmp_path: Path) -> None:
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    _collect(snapshot, evidence, 1)
    _collect(snapshot, evidence, 2)
    time.sleep(1.1)
    _collect(snapshot, evidence, 3)
    (evidence / "evidence-2-3.tar").unlink()
    with tarfile.open(evidence / "evidence-1-3.tar") as tar:
        size = tar.getmembers()[-1].offset
    os.truncate(evidence / "evidence-1-3.tar", size)
    found = answers(evidence)
    assert [row["path"] for row in found["quarantine"] if row["code"] == "CAP-UNREADABLE"] == ["evidence-1-3.tar"]


class _Read(Progress):
    """Report of an ingest on what it has read."""

    def tell_reading(self, read: ReadBytes) -> None:
        self.read = read


def test_a_run_knows_what_it_has_ingested_of_earlier_evidence(tmp_path: Path) -> None:
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    settings = Settings(warehouse=str(tmp_path / "warehouse"), quiet=True)
    warehouse, progress = Warehouse(settings.warehouse), _Read()
    _collect(snapshot, evidence, 1)
    ingest(InProcess(), warehouse, str(evidence), settings, progress)
    assert progress.read.known_segments == 0
    _append(snapshot / "broker-1" / "orders-0" / SECOND, encode_batch(8, 2, 0), OLD + 1)
    _collect(snapshot, evidence, 2)
    snapshot_id = ingest(InProcess(), warehouse, str(evidence), settings, progress)
    assert progress.read.known_segments == 3
    told = without_run(audit(InProcess(), warehouse, snapshot_id, settings, Progress()))
    shown = answers(evidence)
    assert told["partitions"] == shown["partitions"] and told["findings"] == shown["findings"]


def _rewritten(archive: Path, change: dict) -> None:
    """The archive with members of its list changed, digests and all."""
    with tarfile.open(archive) as tar:
        members = {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]
    (listed,) = (name for name in members if name.endswith(".jsonl"))
    lines = [json.loads(text) for text in members[listed].splitlines()]
    members[listed] = b"".join(
        json.dumps({**line, **change} if line["as"] == "same" else line).encode() + b"\n" for line in lines
    )
    (name,) = (name for name in members if name.endswith("1.json"))
    head = json.loads(members[name])
    head["lists"] = [[listed, len(members[listed]), hashlib.sha256(members[listed]).hexdigest()]]
    members[name] = json.dumps(head).encode()
    with tarfile.open(archive, "w") as tar:
        for one, data in members.items():
            info = tarfile.TarInfo(one)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize("change", [{"edges": None}, {"edges": "x"}, {"inode": -1}, {"size": 1 << 70}])
def test_a_file_that_is_named_without_what_tells_it_apart_is_refused(tmp_path: Path, change: dict) -> None:
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    _collect(snapshot, evidence, 1)
    _collect(snapshot, evidence, 2)
    _rewritten(evidence / "evidence-1-2.tar", change)
    reasons = [f"{row['path']}: {row['reason']}" for row in answers(evidence)["quarantine"]]
    assert any(reason.startswith("evidence-1-2.tar: ") and "collect this broker again" in reason for reason in reasons)


@pytest.mark.parametrize("data", [b"", b"no archive", b"x" * 2000])
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.tar").write_bytes(data)
    with pytest.raises(collect.CollectError, match="--after .*x.tar: not evidence: give an archive"):
        collect.known_files([str(tmp_path / "x.tar")])
    with pytest.raises(collect.CollectError, match="--after .*nowhere.tar: No such file"):
        collect.known_files([str(tmp_path / "nowhere.tar")])


def _plan(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["capture-plan", "--evidence", *arguments, "--collect-options", " ".join(UNLIMITED)]) == 0
    return capsys.readouterr().out


def _run(script: str, tools: str) -> subprocess.CompletedProcess[str]:
    path = f"{tools}{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-s"], input=script, capture_output=True, text=True, env={**os.environ, "PATH": path}
    )


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_script_goes_on_from_what_broke_off_and_from_last_night(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, is_killed: bool
) -> None:
    snapshot, to = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    given = [f"{broker}={snapshot}/broker-{broker}" for broker in (1, 2)]
    script = _plan(capsys, *given, "--to", str(to))
    place = "        if topic in WHOLE:\n            size, missing"
    ends = f"        if shown == 'broker-1/orders-0/{SECOND}':\n            os._exit(9)\n"
    assert place in script
    broken = script.replace("LIST_BYTES = 1 << 20", "LIST_BYTES = 1").replace(place, ends + place)
    ended = _run(broken, "")
    assert ended.returncode == 1 and "broke off, exit status 9" in ended.stderr, ended.stderr
    assert sorted(path.name[:17] for path in to.iterdir()) == ["evidence-1-broken", "evidence-2.tar"]
    if is_killed:
        (broken_off,) = to.glob("evidence-1-broken-*")
        broken_off.rename(to / ".1.99.part")
        (to / "evidence-2.tar").rename(to / ".2.99.part")
    ended = _run(_plan(capsys, "--after", *given, "--to", str(to)), "")
    assert ended.returncode == 0, ended.stderr
    (one, two) = (next(to.glob(f"evidence-{broker}-after-*.tar")) for broker in (1, 2))
    assert {"same"} <= {line["as"] for line in _lines(one).values()}
    assert head_of(two)["batches"] == 0
    found = answers(to)
    assert found["quarantine"] == [] and {row["verdict"] for row in found["partitions"]} == {"CONSISTENT"}


def test_the_first_night_reads_all_and_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    snapshot, to = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    given = [f"{broker}={snapshot}/{path}" for broker, path in log_dirs_of(snapshot) or ()]
    for broker in given:
        assert main(["capture-plan", "--after", broker, "--to", str(to)]) == 0
        found = capsys.readouterr()
        assert ("there is no evidence in" in found.err) == (broker == given[0])
        ended = _run(found.out, "")
        assert ended.returncode == 0, ended.stderr
    assert [head_of(path)["batches"] for path in to.iterdir()] == [3, 3]
    found = answers(to)
    assert found["quarantine"] == [] and {row["verdict"] for row in found["partitions"]} == {"CONSISTENT"}


def test_the_script_reads_again_what_is_only_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    snapshot, to = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    given = ["--after", f"1={snapshot}/broker-1", "--to", str(to)]
    for _ in range(2):
        assert _run(_plan(capsys, *given), "").returncode == 0
        time.sleep(1.1)
    first, second = sorted(to.glob("*.tar"))
    assert head_of(second)["batches"] == 0
    first.unlink()
    assert _run(_plan(capsys, *given), "").returncode == 0
    (third,) = set(to.glob("*.tar")) - {second}
    assert head_of(third)["batches"] == 3
    assert answers(to)["quarantine"] == []


def test_after_and_wanted_are_not_taken_together(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["capture-plan", "1=/data", "--to", str(tmp_path), "--after", "--wanted", "x"]) == 2
    assert "give one of them" in capsys.readouterr().err


def test_every_file_is_read_again_on_one_day_of_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    _collect(snapshot, evidence, 1)
    # Bit rot: the file has the time that it had.
    log = snapshot / LOG
    with log.open("r+b") as file:
        file.seek(65)
        file.write(b"\xff\xff")
    os.utime(log, ns=(OLD, OLD))
    read: list[str] = []
    today = collect.time.time()
    for day in range(5):
        monkeypatch.setattr(collect.time, "time", lambda day=day: today + day * 86400)
        archive = tmp_path / f"{day}.tar"
        given = ("--after", str(evidence / "evidence-1-1.tar"), "--again-days", "5")
        collect_into(archive, "--log-dir", f"{snapshot}/broker-1=broker-1", *given)
        lines = _lines(archive)
        read += [path for path, line in lines.items() if path.endswith(".log") and line["as"] == "frames"]
        assert lines[LOG]["as"] == "same" or lines[LOG]["not_captured"] > 0
    assert sorted(read) == sorted([LOG, f"broker-1/orders-0/{SECOND}"])


def _collect_disks(evidence: Path, night: int, disks: dict[str, str], *arguments: str) -> None:
    """Collect the log dirs of broker 1, by their names, into an archive."""
    given = [part for name, path in disks.items() for part in ("--log-dir", f"{path}={name}")]
    collect_into(evidence / f"evidence-1-{night}.tar", *given, *arguments)


@pytest.mark.parametrize("name", ["broker-1/disk-1", "other"])
def test_evidence_of_other_log_dirs_of_the_broker_does_not_count(tmp_path: Path, name: str) -> None:
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    _collect(snapshot, evidence, 1)
    os.truncate(snapshot / "broker-1" / "orders-0" / SECOND, 0)
    (tmp_path / "disk-2").mkdir()
    disks = {name: f"{snapshot}/broker-1", f"{name[:-1]}2": str(tmp_path / "disk-2")}
    time.sleep(0.01)
    given = ("--after", str(evidence / "evidence-1-1.tar"))
    _collect_disks(evidence, 2, disks, "--broker-id", "1", *given)
    found = answers(evidence)
    assert {row["verdict"] for row in found["partitions"]} != {"CONSISTENT"}
    reasons = [f"{row['path']}: {row['reason']}" for row in found["quarantine"]]
    assert any(one.startswith("evidence-1-1.tar: ") and f"no other evidence of {name}" in one for one in reasons)


def test_a_plan_after_evidence_of_other_log_dirs_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    _collect(snapshot, evidence, 1)
    given = (f"1={snapshot}/broker-1,/disk2", f"2={snapshot}/broker-2", "--to", str(evidence))
    assert main(["capture-plan", "--evidence", "--after", *given]) == 2
    assert "has broker-1 of broker 1, not broker-1/disk-1, broker-1/disk-2" in capsys.readouterr().err


def _rot(log: Path) -> None:
    """Damage that leaves the file its time."""
    with log.open("r+b") as file:
        file.seek(65)
        file.write(b"\xff\xff")
    os.utime(log, ns=(OLD, OLD))


@pytest.mark.parametrize("raw", [(), ("--raw",)])
def test_damage_that_was_read_before_a_collection_broke_off_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: tuple[str, ...]
) -> None:
    monkeypatch.setattr(collect, "LIST_BYTES", 1)
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    _collect(snapshot, evidence, 1)
    _rot(snapshot / LOG)
    disks = {"broker-1": f"{snapshot}/broker-1"}
    time.sleep(1.1)
    _collect_disks(evidence, 2, disks, "--after", str(evidence / "evidence-1-1.tar"), "--again-days", "1", *raw)
    with tarfile.open(evidence / "evidence-1-2.tar") as tar:
        size = tar.getmembers()[-1].offset
    os.truncate(evidence / "evidence-1-2.tar", size)
    time.sleep(1.1)
    given = [part for night in (2, 1) for part in ("--after", str(evidence / f"evidence-1-{night}.tar"))]
    _collect_disks(evidence, 3, disks, *given)
    line = _lines(evidence / "evidence-1-3.tar")[LOG]
    # What was not captured is asked for again.
    assert line["as"] == ("same" if raw else "frames")
    assert {row["verdict"] for row in answers(evidence)["partitions"]} != {"CONSISTENT"}


def _with_member(archive: Path, name: str, data: bytes) -> None:
    with tarfile.open(archive, "a") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))


def test_an_archive_that_speaks_for_several_brokers_is_refused(tmp_path: Path) -> None:
    snapshot, evidence = two_segments(tmp_path / "snapshot"), tmp_path / "evidence"
    _collect(snapshot, evidence, 1)
    head = head_of(evidence / "evidence-1-1.tar")
    head["after"] = True
    head["lists"] = []
    for one in head["log_dirs"]:
        one["started"] += 1000
    forged = evidence / "evidence-2-1.tar"
    _with_member(forged, "evidence-1.json", json.dumps(head).encode())
    reasons = {row["path"]: row["reason"] for row in answers(evidence)["quarantine"] if row["reason"]}
    assert "evidence of brokers 1, 2 in one archive" in reasons["evidence-2-1.tar"]
    assert "evidence-1-1.tar" not in reasons
    with tarfile.open(forged, "w"):
        pass
    _with_member(forged, "evidence-2.json", json.dumps(head).encode())
    reasons = {row["path"]: row["reason"] for row in answers(evidence)["quarantine"] if row["reason"]}
    assert "expected the broker_id of its name, found 1" in reasons["evidence-2-1.tar"]


def _member(name: str, size: bytes) -> bytes:
    """The header of a member with a size as it is given."""
    header = bytearray(tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT))
    header[124:136], header[148:156] = size, b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


@pytest.mark.parametrize(
    ("size", "refused"),
    [
        # As large as it can be said, with nothing behind it; and such that the next member is this one again.
        (b"\x80" + (1 << 60).to_bytes(11, "big"), "of 1152921504606846976 bytes"),
        ((-512).to_bytes(12, "big", signed=True), "ends before it begins"),
    ],
    ids=["large", "negative"],
)
def test_an_archive_that_never_ends_is_refused(tmp_path: Path, size: bytes, refused: str) -> None:
    archive = tmp_path / "evidence-1.tar"
    archive.write_bytes(_member("evidence-1.files-0.jsonl", size) + bytes(1024))
    # Python 3.14 takes a negative size for the end: nothing is known then, and all is collected.
    with (
        nullcontext()
        if sys.version_info >= (3, 14) and size[0] == 0xFF
        else pytest.raises(collect.CollectError, match=refused)
    ):
        assert not collect.known_files([str(archive)])

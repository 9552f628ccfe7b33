"""`evidence DIR --prune DAYS`: what is deleted, and that no evidence goes of which later evidence names files."""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from tests.support.archives import unpack
from tests.support.collected import OLD, answers, collect_into, same_times, two_segments
from tests.support.encoder import encode_batch

from replica_audit.cli.main import main
from replica_audit.collect import collect
from replica_audit.snapshot import evidence_retention

DAY = 86_400


class Nights:
    """Two brokers whose evidence is collected on several days, the present time being that of the last."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.copies = two_segments(place / "copies")
        self.evidence = place / "evidence"
        self.evidence.mkdir()
        self._monkeypatch, self._now = monkeypatch, time.time()
        for path in self.copies.iterdir():
            if path.is_file():
                (self.evidence / path.name).write_bytes(path.read_bytes())
        same_times(self.evidence, [(broker, f"broker-{broker}") for broker in (1, 2)])

    def collect(self, days_ago: int, *options: str, brokers: tuple[int, ...] = (1, 2), kind: str = "night") -> None:
        with self._monkeypatch.context() as patched:
            patched.setattr(collect.time, "time", lambda: self._now - days_ago * DAY)
            for broker in brokers:
                earlier = sorted(self.evidence.glob(f"evidence-{broker}-night-*.tar"))
                after = [part for one in earlier for part in ("--after", str(one))] if kind == "night" else []
                given = f"{self.copies}/broker-{broker}=broker-{broker}"
                archive = self.evidence / f"evidence-{broker}-{kind}-{99 - days_ago}.tar"
                collect_into(archive, "--log-dir", given, "--broker-id", str(broker), *after, *options)

    def roll(self) -> None:
        """The active segment of each broker goes on."""
        for broker in (1, 2):
            (log,) = self.copies.glob(f"broker-{broker}/orders-0/{6:020d}.log")
            data = log.read_bytes()
            log.write_bytes(data + encode_batch(8 + len(data) % 7, 1, 0))
            os.utime(log, ns=(OLD + len(data), OLD + len(data)))

    def names(self, broker: int = 1) -> list[str]:
        return sorted(path.name.removeprefix(f"evidence-{broker}-") for path in self.evidence.glob(f"*-{broker}-*.tar"))


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    return Nights(tmp_path, monkeypatch)


def _prune(nights: Nights, days: int, *options: str) -> None:
    assert main(["evidence", str(nights.evidence), "--prune", str(days), *options]) == 0


def test_what_later_evidence_names_stays_and_the_answer_too(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    for days_ago in (40, 30, 20, 1):
        nights.collect(days_ago)
        nights.roll()
    before = answers(nights.evidence)
    assert before["quarantine"] == []
    _prune(nights, 7)
    said = capsys.readouterr()
    # The first has the segment that has not changed since; the others had the active one as it was.
    assert nights.names() == ["night-59.tar", "night-98.tar"] == nights.names(2)
    assert said.err.startswith("4 archives of 8 deleted, ")
    assert "needed: later evidence names 1 file of it" in said.out
    assert answers(nights.evidence) == before
    _prune(nights, 7)
    assert capsys.readouterr().err.startswith("0 archives of 4 deleted")


def test_what_is_read_again_frees_the_first(nights: Nights) -> None:
    nights.collect(40)
    nights.collect(1, "--again-days", "1")
    _prune(nights, 7)
    assert nights.names() == ["night-98.tar"]
    assert answers(nights.evidence)["quarantine"] == []


def test_the_latest_of_a_broker_stays_however_old(nights: Nights) -> None:
    nights.collect(40)
    nights.collect(1, brokers=(1,))
    before = answers(nights.evidence)
    _prune(nights, 7)
    assert nights.names(2) == ["night-59.tar"]
    assert answers(nights.evidence) == before


def test_a_dry_run_deletes_nothing(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    nights.collect(40)
    nights.collect(20, "--again-days", "1")
    _prune(nights, 7, "--dry-run")
    said = capsys.readouterr()
    assert "2 archives of 4 would be deleted" in said.err and said.out.count("not needed") == 2
    assert len(nights.names()) == 2


def test_wanted_ranges_expire(nights: Nights, tmp_path: Path) -> None:
    nights.collect(40)
    one = {"log_dir": f"{nights.copies}/broker-1", "path": f"orders-0/{0:020d}.log", "ranges": [[0, 61]]}
    (tmp_path / "wanted.json").write_text(json.dumps({"format": 1, "wanted": [one]}))
    for days_ago in (10, 2):
        nights.collect(days_ago, "--wanted", str(tmp_path / "wanted.json"), brokers=(1,), kind="wanted")
    _prune(nights, 7)
    assert nights.names() == ["night-59.tar", "wanted-97.tar"]


def test_what_broke_off_stays_as_long_as_something_may_go_on_from_it(nights: Nights) -> None:
    nights.collect(40)
    _cut(nights.evidence / "evidence-1-night-59.tar", nights.evidence / "evidence-1-broken.tar")
    (nights.evidence / "evidence-1-night-59.tar").unlink()
    _prune(nights, 7)
    assert nights.names() == ["broken.tar"]
    nights.collect(9, "--again-days", "1")
    _prune(nights, 7)
    assert nights.names() == ["night-90.tar"]


def _cut(archive: Path, to: Path) -> None:
    """Write an archive to `to` without its last file."""
    with tarfile.open(archive) as whole, tarfile.open(to, "w") as broken:
        for info in whole.getmembers()[:-1]:
            broken.addfile(info, whole.extractfile(info))


def test_nothing_goes_of_a_broker_of_which_an_archive_cannot_be_read(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    nights.collect(40)
    nights.collect(20, "--again-days", "1")
    spoilt = nights.evidence / "evidence-1-night-79.tar"
    data = spoilt.read_bytes()
    spoilt.write_bytes(data.replace(b'"as": "frames"', b'"as": "fr4mes"', 1))
    (nights.evidence / "evidence-9.tar").write_bytes(b"no tar" * 1000)
    _prune(nights, 7)
    said = capsys.readouterr()
    assert nights.names() == ["night-59.tar", "night-79.tar"] and nights.names(2) == ["night-79.tar"]
    assert "evidence-1-night-79.tar: kept, since it cannot be read: " in said.out
    assert "evidence-9.tar: kept, since it cannot be read: " in said.out


def test_the_archives_are_listed(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    nights.collect(2)
    nights.roll()
    nights.collect(1)
    assert main(["evidence", str(nights.evidence), "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [(one["path"], one["kind"], one["named"]) for one in content["archives"] if one["broker_id"] == 1] == [
        ("evidence-1-night-97.tar", "whole", 1),
        ("evidence-1-night-98.tar", "whole", 0),
    ]
    assert content["unreadable"] == [] and len(nights.names()) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no directory; give"),
        (["/nowhere at all"], "no such directory"),
        ([".", "--dry-run"], "give both"),
        ([".", "--prune", "0"], "not a whole number of 1 or more"),
    ],
)
def test_what_it_cannot_do_is_said(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evidence", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_it_needs_the_core_only(nights: Nights) -> None:
    nights.collect(1)
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('pyspark', 'pandas', 'deltalake', 'jinja2')));"
        "from replica_audit.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "evidence", str(nights.evidence)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0 and "evidence-1-night-98.tar" in ended.stdout, ended.stderr


def _name_the_first_only(nights: Nights) -> None:
    """Night 59 has broker 1's segments, 79 has none and is therefore kept for nothing, 98 names those of 59."""
    nights.collect(40)
    partition, hidden = nights.copies / "broker-1" / "orders-0", nights.copies.parent / "hidden"
    partition.rename(hidden)
    nights.collect(20, brokers=(1,))
    hidden.rename(partition)
    nights.collect(1, brokers=(1,))


def _with_changed(archive: Path, name: str, old: bytes, new: bytes) -> None:
    with tarfile.open(archive) as tar:
        members = [(info, tar.extractfile(info).read()) for info in tar]  # type: ignore[union-attr]
    with tarfile.open(archive, "w") as tar:
        for info, data in members:
            changed = data.replace(old, new) if info.name == name else data
            info.size = len(changed)
            tar.addfile(info, io.BytesIO(changed))


def test_nothing_goes_that_an_archive_of_a_later_format_may_name(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    _name_the_first_only(nights)
    before = nights.names()
    latest = nights.evidence / "evidence-1-night-98.tar"
    _with_changed(latest, "evidence-1.json", b'"format": 1', b'"format": 2')
    # Its name need not say of which broker it is.
    latest.rename(nights.evidence / "evidence-night.tar")
    _prune(nights, 7)
    said = capsys.readouterr()
    assert nights.names() == before[:-1] and (nights.evidence / "evidence-night.tar").exists()
    assert "evidence-night.tar: kept, since it cannot be read: " in said.out and "expected format 1" in said.out
    assert said.err.startswith("0 archives of ")


@pytest.mark.parametrize("name", ["evidence-1.tar", "evidence-night.tar"])
@pytest.mark.parametrize("at", [0, 1])
def test_nothing_goes_while_the_storage_does_not_give_an_archive(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, at: int
) -> None:
    _name_the_first_only(nights)
    nights.collect(2, "--again-days", "1", brokers=(2,))
    (nights.evidence / "evidence-1-night-98.tar").rename(nights.evidence / name)
    real, opened = evidence_retention.open_file, []

    def failing(directory: str, path: str):  # noqa: ANN202
        opened.append(path)
        # With `at` 1 its list of members is read, and what was written last is not.
        if path == name and (opened.count(name) % 2 == 0 or not at):
            raise OSError(116, "Stale file handle", path)
        return real(directory, path)

    with monkeypatch.context() as patched:
        patched.setattr(evidence_retention, "open_file", failing)
        _prune(nights, 7)
    said = capsys.readouterr().out
    assert f"{name}: kept, since it cannot be read: " in said and "Stale file handle" in said
    assert {"night-59.tar", "night-79.tar"} <= set(nights.names())
    # Of which broker it is tells its name, or what is in it.
    is_told = at == 1 or name == "evidence-1.tar"
    assert nights.names(2) == (["night-97.tar"] if is_told else ["night-59.tar", "night-97.tar"])


def _without_disk(nights: Nights, monkeypatch: pytest.MonkeyPatch, how: str) -> tuple[str, ...]:
    """Let the disk of broker 1 not be read as it was; the options of the next collection."""
    partition = nights.copies / "broker-1" / "orders-0"
    if how == "unread":
        real = os.listdir

        def failing(path: str = ".") -> list[str]:
            if str(path) == str(partition):
                raise OSError(5, "Input/output error", path)
            return real(path)

        monkeypatch.setattr(collect.os, "listdir", failing)
    elif how == "gone":
        partition.rename(nights.copies.parent / "hidden")
    return ("--topic", "other") if how == "topic" else ()


@pytest.mark.parametrize("how", ["unread", "topic", "gone"])
def test_the_only_evidence_of_a_disk_stays(nights: Nights, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    nights.collect(40)
    nights.roll()
    nights.collect(30, brokers=(1,))
    with monkeypatch.context() as patched:
        options = _without_disk(nights, patched, how)
        for days_ago in (9, 8):
            earlier = [part for one in nights.evidence.glob("evidence-1-*") for part in ("--after", str(one))]
            place = nights.evidence / f"evidence-1-night-{99 - days_ago}.tar"
            patched.setattr(collect.time, "time", lambda days_ago=days_ago: time.time_ns() / 1e9 - days_ago * DAY)
            # Not all need be read.
            collect_into(
                place, "--log-dir", f"{nights.copies}/broker-1=broker-1", "--broker-id", "1", *earlier, *options
            )
    _prune(nights, 7)
    # The last that has all, what that names, and the last of those that have not.
    assert nights.names() == ["night-59.tar", "night-69.tar", "night-91.tar"]
    for path in nights.copies.parent.glob("hidden"):
        path.rename(nights.copies / "broker-1" / "orders-0")
    nights.collect(1, brokers=(1,))
    _prune(nights, 7)
    assert nights.names() == ["night-59.tar", "night-69.tar", "night-98.tar"]
    nights.collect(0, "--again-days", "1", brokers=(1,))
    _prune(nights, 1)
    assert nights.names() == ["night-99.tar"]


def test_a_topic_that_was_deleted_is_not_waited_for(nights: Nights) -> None:
    nights.collect(40)
    other = nights.copies / "broker-1" / "other-0"
    shutil.copytree(nights.copies / "broker-1" / "orders-0", other)
    nights.collect(30, brokers=(1,))
    shutil.rmtree(other)
    nights.collect(1, "--again-days", "1", brokers=(1,))
    _prune(nights, 7)
    assert nights.names() == ["night-98.tar"]


def test_what_was_unpacked_names_files_too_and_is_not_deleted(nights: Nights) -> None:
    _name_the_first_only(nights)
    before = answers(nights.evidence)
    latest = nights.evidence / "evidence-1-night-98.tar"
    unpack(latest, nights.evidence)
    latest.unlink()
    _prune(nights, 7)
    assert nights.names() == ["night-59.tar"]
    assert (nights.evidence / "evidence-1.json").exists()
    assert answers(nights.evidence)["findings"] == before["findings"] and before["quarantine"] == []


def test_without_days_nothing_is_called_unneeded(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    for days_ago in (3, 1, 0):
        nights.collect(days_ago, "--again-days", "1", brokers=(1,))
    assert main(["evidence", str(nights.evidence)]) == 0
    said = capsys.readouterr().out
    assert "not needed" not in said
    assert [line.rpartition("MiB")[2].strip() for line in said.splitlines()] == [
        "not named, 3 days old",
        "not named, 1 day old",
        "kept",
    ]


def test_how_many_files_are_named_is_not_summed_up_over_nights(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    for days_ago in (9, 3, 2, 1):
        nights.collect(days_ago, brokers=(1,))
    _prune(nights, 7)
    assert "later evidence names 2 files of it" in capsys.readouterr().out


def test_what_cannot_be_deleted_does_not_keep_the_rest(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for days_ago in (40, 30, 20, 1):
        nights.collect(days_ago, "--again-days", "1", brokers=(1,))
    real = os.unlink

    def failing(path: str) -> None:
        if str(path).endswith("night-69.tar"):
            raise PermissionError(13, "Permission denied", path)
        real(path)

    with monkeypatch.context() as patched:
        patched.setattr(evidence_retention.os, "unlink", failing)
        assert main(["evidence", str(nights.evidence), "--prune", "7"]) == 2
    said = capsys.readouterr()
    assert nights.names() == ["night-69.tar", "night-98.tar"]
    assert said.out.count("not needed") == 3 and said.err.startswith("2 archives of 4 deleted, ")
    assert "not deleted: evidence-1-night-69.tar: Permission denied" in said.err


@pytest.mark.parametrize("with_flock", [True, False])
def test_nothing_goes_of_a_broker_that_is_being_collected(
    nights: Nights, capsys: pytest.CaptureFixture[str], with_flock: bool
) -> None:
    for days_ago in (40, 1):
        nights.collect(days_ago, "--again-days", "1")
    lock = nights.evidence / ".lock-1"
    if with_flock:
        lock.touch()
    else:
        lock.mkdir()
    with open(lock if with_flock else os.devnull) as held:
        if with_flock:
            fcntl.flock(held, fcntl.LOCK_EX)
        _prune(nights, 7)
    assert nights.names() == ["night-59.tar", "night-98.tar"] and nights.names(2) == ["night-98.tar"]
    assert "broker 1: all is kept, since a collection of it goes on" in capsys.readouterr().err
    assert sorted(path.name for path in nights.evidence.glob(".lock*")) == [".lock-1"]
    if with_flock:
        _prune(nights, 7)
        assert nights.names() == ["night-98.tar"] and not lock.exists()


def test_wanted_ranges_that_broke_off_expire(nights: Nights, tmp_path: Path) -> None:
    nights.collect(40)
    nights.collect(20, "--again-days", "1")
    one = {"log_dir": f"{nights.copies}/broker-1", "path": f"orders-0/{0:020d}.log", "ranges": [[0, 61]]}
    (tmp_path / "wanted.json").write_text(json.dumps({"format": 1, "wanted": [one]}))
    for days_ago in (10, 2):
        nights.collect(days_ago, "--wanted", str(tmp_path / "wanted.json"), brokers=(1,), kind="wanted")
        whole = nights.evidence / f"evidence-1-wanted-{99 - days_ago}.tar"
        _cut(whole, nights.evidence / f"evidence-1-wanted-{99 - days_ago}-x.tar")
        whole.unlink()
    _prune(nights, 7)
    assert nights.names() == ["night-79.tar", "wanted-97-x.tar"]


def test_what_was_lost_is_read_again_the_next_night(nights: Nights) -> None:
    nights.collect(40)
    nights.collect(2, brokers=(1,))
    (nights.evidence / "evidence-1-night-59.tar").unlink()
    assert answers(nights.evidence)["quarantine"] != []
    nights.collect(1, brokers=(1,))
    # A lone archive is taken at its word.
    assert answers(nights.evidence)["quarantine"] != []
    nights.collect(0, brokers=(1,))
    assert answers(nights.evidence)["quarantine"] == []

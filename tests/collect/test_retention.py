"""`evidence DIR --prune DAYS`: what is deleted, and that no evidence goes of which later evidence names files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from tests.support.collected import answers, collect_into, same_times
from tests.support.encoder import encode_batch
from tests.support.snapshots import Listed, Replica, write_snapshot

from replica_audit.cli.main import main
from replica_audit.collect import collect

DAY = 86_400
#: A long time ago, in ns.
OLD = 10**18


class Nights:
    """Two brokers whose evidence is collected on several days, the present time being that of the last."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        sides = {
            broker: Replica([encode_batch(0, 3, 0), encode_batch(3, 3, 0), encode_batch(6, 2, 0)], per_segment=2)
            for broker in (1, 2)
        }
        self.copies = write_snapshot(place / "copies", sides, [Listed(1, (1, 2), (1, 2))])
        self.evidence = place / "evidence"
        self.evidence.mkdir()
        self._monkeypatch, self._now = monkeypatch, time.time()
        for path in self.copies.rglob("*"):
            os.utime(path, ns=(OLD, OLD))
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
    """What is there of the archive where its last file is missing."""
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

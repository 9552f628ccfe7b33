"""No command shows or stores a byte of a record, unless records were asked for: marks are planted and looked for everywhere."""

from __future__ import annotations

import base64
import json
import re
import shutil
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.in_process import run_in_process
from tests.support.marked_records import BINARY, CLUSTER_ID, MARKS, forms_of, shown_in, write_marked_snapshot

from replica_audit.cli import failure
from replica_audit.cli.commands import COMMANDS
from replica_audit.cli.main import main
from replica_audit.cli.parser import build_parser, parsers_of

#: Arguments of every command, in an order in which each finds what it needs, with names of `_Places`; and what statuses it may
#: end with. 4 is that of an internal error.
ANSWERED = (0, 1, 3)
CASES: dict[str, list[str]] = {
    "run": ["{snapshot} {stores} --no-quality", "{snapshot} {stores}"],
    "ingest": ["{snapshot} {stores} --full"],
    "audit": ["{stores}"],
    "quality": ["{stores}"],
    "report": ["{stores}"],
    "history": ["{stores}", "{stores} --prune"],
    "show": [
        "{snapshot}",
        *("{snapshot} " + name for name in ("unsound-0", "headless-0", "text-2.8-0", "compacted-0")),
    ],
    "elect": [
        "{snapshot}",
        "{snapshot} lost-0 --candidate 2 --plan {out}/plan.json",
        "{snapshot} --check {out}/plan.json",
    ],
    "verify": ["{snapshot} {after}", "{snapshot} {after} --plan {out}/plan.json"],
    "salvage": [
        "{snapshot} --to {out}/counted-{form}",
        "{snapshot} --to {out}/all-{form} --include-aborted --include-ahead",
        "{snapshot} --to {asked}/text-{form} --payloads --encoding text --form jsonl --include-ahead",
        "{snapshot} --to {asked}/{form} --payloads",
    ],
    "restore": [
        "{asked}/{form} --bootstrap-servers h:1 " + way
        for way in ("--dry-run", "--yes", "--check", "--check --no-headers")
    ],
    "capture-plan": ["1=/data 2@b=/data --describe {snapshot}/kafka-topics-describe.txt"],
    "explain": ["", "HWM-LOSS", "{finding} {stores}"],
    "setup": ["--check"],
    "completion": ["bash"],
    "help": ["run"],
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Directories by name; in all but the snapshots and `asked`, nothing may hold a mark."""
    path = tmp_path_factory.mktemp("marks")
    names = ("out", "asked", "warehouse", "report", "temporary", "work")
    found = {name: path / name for name in names}
    for one in found.values():
        one.mkdir()
    found["snapshot"], found["after"] = write_marked_snapshot(path / "snapshot"), path / "after"
    shutil.copytree(found["snapshot"], found["after"])
    (found["after"] / "broker-2" / "lost-0" / f"{0:020d}.log").write_bytes(BINARY * 20)
    return found


@pytest.fixture
def quiet_engine(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages in this process, a cluster in memory, and every other file that is written in `places`."""
    run_in_process(monkeypatch)
    cluster = FakeCluster(CLUSTER_ID)
    monkeypatch.setattr("replica_audit.cli.restore_command.Contact", lambda *_: cluster)
    monkeypatch.setattr(failure, "TEMPORARY", str(places["temporary"]))
    monkeypatch.setenv("TMPDIR", str(places["temporary"]))
    monkeypatch.chdir(places["work"])


def _finding(places: dict[str, Path]) -> str:
    return json.loads((places["report"] / "audit.json").read_text())["findings"][0]["finding_id"]


def _texts(path: Path) -> Iterator[bytes]:
    """A file as it is, and what is compressed in it."""
    data = path.read_bytes()
    yield data
    if path.suffix == ".parquet":
        rows = parquet.read_table(path, partitioning=None).to_pylist()
        yield json.dumps(rows, default=str, ensure_ascii=False).encode()
    if path.name == "index.html":
        for packed in re.findall(rb">\s*([A-Za-z0-9+/]{40,}={0,2})\s*<", data):
            with suppress(zlib.error):  # other text of letters
                yield zlib.decompress(base64.b64decode(packed + b"=="))


def _assert_no_mark(places: dict[str, Path]) -> None:
    for name, root in places.items():
        if name not in ("snapshot", "after", "asked"):
            for path in (path for path in root.rglob("*") if path.is_file()):
                assert not any(shown_in(text) for text in _texts(path)), path


def test_every_command_has_a_case() -> None:
    assert set(CASES) == set(parsers_of(build_parser()))


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize(
    "show",
    [
        repr,
        lambda mark: f"x{mark.hex(' ')}",
        lambda mark: str(list(mark)),
        lambda mark: json.dumps(mark.decode("latin-1"), ensure_ascii=False),
        lambda mark: base64.b64encode(b"a" + mark + b"b").decode(),
        lambda mark: str(int.from_bytes(mark[2:6], "big") + 12),
    ],
)
def test_a_mark_is_seen_however_it_is_shown(mark: bytes, show) -> None:
    assert shown_in(f"found {show(mark)} there".encode())
    assert shown_in(b"..." + mark) and forms_of(mark)
    assert not shown_in(b"found nothing of it")


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_command_shows_or_stores_record_bytes(
    form: str, places: dict[str, Path], quiet_engine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {name: str(path) for name, path in places.items()}
    names |= {"form": form, "stores": f"--warehouse {places['warehouse']} --report {places['report']}", "finding": ""}
    for command, cases in CASES.items():
        for case in cases:
            if "{finding}" in case:
                names["finding"] = _finding(places)
            arguments = [command, *case.format(**names).split()]
            if COMMANDS[command].common:
                arguments += ["--format", form]
            status = main(arguments)
            said = capsys.readouterr()
            assert status in ANSWERED, (arguments, said.err)
            for text in (said.out, said.err):
                assert not shown_in(text.encode()), (arguments, text)
    _assert_no_mark(places)
    assert any(b"unsound" in text for text in list(_texts(places["report"] / "index.html"))[1:]), "the page's tables"
    # They were there to be found: whoever asks for records gets them.
    assert all(any(mark in path.read_bytes() for path in (places["asked"] / form).rglob("*.log")) for mark in MARKS)

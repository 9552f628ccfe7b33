"""No command shows or stores a byte of a record, unless records were asked for: marks are planted and looked for everywhere."""

from __future__ import annotations

import base64
import json
import re
import shutil
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import google_crc32c
import pyarrow.parquet as parquet
import pytest
from tests.support import metadata_log
from tests.support.answering_brokers import AnsweringBrokers, in_sync
from tests.support.dump_lines import batch_line, listing, record_line
from tests.support.encoder import Record, encode_batch, encode_legacy, encode_marker, encode_wrapper, flip
from tests.support.fake_cluster import FakeCluster
from tests.support.in_process import run_in_process
from tests.support.snapshots import Listed, Replica, make_uuid, write_snapshot

from replica_audit.cli import failure
from replica_audit.cli.commands import COMMANDS
from replica_audit.cli.main import main
from replica_audit.cli.parser import build_parser, parsers_of

TEXT = "zqPlantedInText"
#: Not UTF-8, and of bytes that any escaping changes.
BINARY = b"\xf5\xfaQZ\xe7\x9c\x1b\xf1\xb3VK\xfe"
MARKS = (TEXT.encode(), BINARY)

CLUSTER_ID = make_uuid("marked cluster")


@cache
def forms_of(mark: bytes) -> frozenset[str]:
    """How text may show a mark: as it is, escaped, in hexadecimal, base64 and decimal digits, or four or eight bytes as a number."""
    forms = {mark.hex(), ", ".join(map(str, mark)), ",".join(map(str, mark)), repr(mark)[2:-1]}
    texts = [mark.decode("latin-1"), *(mark.decode("utf-8", how) for how in ("backslashreplace", "replace"))]
    forms |= {*texts, *(json.dumps(text, ensure_ascii=escaped)[1:-1] for text in texts for escaped in (True, False))}
    for shift in range(3):
        # What comes before and after changes a character or two at either end.
        forms.add(base64.b64encode(bytes(shift) + mark)[4:-4].decode())
    for size, letter in ((4, "I"), (8, "Q")):
        windows = [mark[at : at + size] for at in range(len(mark) - size + 1)]
        numbers = {
            struct.unpack(f"{order}{kind}", one)[0]
            for one in windows
            for order in "><"
            for kind in (letter, letter.lower())
        }
        # A length field is shown with the bytes before it counted.
        forms |= {str(number + more) for number in numbers for more in (0, 12)}
    return frozenset(forms)


def shown_in(data: bytes) -> list[str]:
    """The forms of a mark that are in `data`."""
    if any(mark in data for mark in MARKS):
        return ["the bytes themselves"]
    text = data.decode("utf-8", "surrogateescape")
    plain = text.lower()
    for separator in ("\\x", "0x", " ", ":", ","):
        plain = plain.replace(separator, "")
    return [form for mark in MARKS for form in sorted(forms_of(mark)) if form in text] + [
        mark.hex() for mark in MARKS if mark.hex() in plain
    ]


def record(number: int, more: str = "") -> Record:
    """A record with both marks in key, value, and a header's name and value."""
    mark = MARKS[number % 2] + MARKS[1 - number % 2]
    name = f"{TEXT}-{number}"
    return Record(mark + b"%d" % number, mark * 3 + more.encode(), headers=((name, mark), (name, None)))


def batch(base: int, count: int, epoch: int = 0, more: str = "", **options: object) -> bytes:
    """A batch of marked records."""
    return encode_batch(base, [record(base + one, more) for one in range(count)], epoch, **options)


def _undecodable(base: int, content: bytes, codec: int = 0, count: int = 5) -> bytes:
    """A batch whose checksum is right and whose records are `content`."""
    sound = encode_batch(base, 1, 0, attributes=codec, last_offset_delta=count - 1, record_count=count)
    checked = sound[21:61] + content
    head = struct.pack(">qiibI", base, len(checked) + 9, 0, 2, google_crc32c.value(checked))
    return head + checked


def _logs() -> dict[str, tuple[tuple[bytes, ...], tuple[bytes, ...], dict[str, str]]]:
    """Batches of leader and follower, and the topic's settings, by topic."""
    common = batch(0, 5)
    rest, other = batch(5, 5, more="a"), batch(5, 5, more="b")
    raw = b"".join(MARKS) * 20
    old = tuple(encode_legacy(offset, BINARY, TEXT.encode()) for offset in range(3))
    wrapped = encode_wrapper(3, [(TEXT.encode(), BINARY)] * 3, "gzip")
    torn = encode_wrapper(6, [(TEXT.encode(), BINARY)] * 3, "gzip")[:-5]
    sent = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    ended = {"producer_id": 7, "producer_epoch": 0}
    logs: dict[str, tuple] = {
        "lost": ((common, batch(5, 5, 2, "new")), (common, batch(5, 9, 0, "lost")), {}),
        "flipped": ((common, flip(rest)), (common, rest), {}),
        "headless": ((common, rest[40:]), (common, rest), {}),
        "cut": ((common, rest[:-20]), (common, rest), {}),
        "tail": ((common, rest, raw), (common, rest, TEXT.encode()[:9]), {}),
        "inside": ((common, raw, rest), (common, other), {}),
        "unsound": ((common, _undecodable(5, raw)), (common, rest), {}),
        "unsound-follower": ((common, rest, batch(10, 3)), (common, _undecodable(5, raw), batch(10, 3)), {}),
        "compacted": ((common, rest), (common, other), {"cleanup.policy": "compact"}),
        "compacted-unsound": ((common, rest), (common, _undecodable(5, raw)), {"cleanup.policy": "compact"}),
        "old": ((*old, wrapped), (*old, encode_legacy(3, b"x" + BINARY, TEXT.encode()), torn), {}),
        "open": (
            (
                batch(0, 4, base_sequence=0, **sent),
                encode_marker(4, "ABORT", 0, **ended),
                batch(5, 2, base_sequence=4, **sent),
            ),
            (batch(0, 4, base_sequence=0, **sent), encode_marker(4, "COMMIT", 0, **ended)),
            {},
        ),
    }
    for number, codec in enumerate(("gzip", "snappy", "lz4", "zstd"), 1):
        whole = batch(5, 5, codec=codec)
        logs[f"{codec}-broken"] = ((common, _undecodable(5, raw, number)), (common, whole), {})
        logs[f"{codec}-half"] = ((common, _undecodable(5, whole[61:-9] + raw, number)), (common, rest), {})
    return logs


def _commits() -> bytes:
    """A coordinator's log in which a client wrote a mark beside its offset, and in a key of a kind that nobody knows."""
    group, topic = b"readers", b"lost"
    key = struct.pack(">hh", 1, len(group)) + group + struct.pack(">h", len(topic)) + topic + struct.pack(">i", 0)
    value = struct.pack(">hqih", 3, 7, 0, len(TEXT)) + TEXT.encode() + struct.pack(">q", 1000)
    odd = struct.pack(">h", 99) + BINARY
    records = [Record(key, value), Record(key, value[:-9]), Record(odd, BINARY), Record(TEXT.encode(), BINARY)]
    return encode_batch(0, records, 0)


def write_marked_snapshot(path: Path) -> Path:
    """The snapshot at `path`, which must not exist; returns it. Broker 1 leads everything."""
    logs, replicas = _logs(), {}
    marks = {"high_watermark": 5, "recovery_point": 5}
    for broker_id in (1, 2):
        replicas[broker_id] = [
            Replica([b"".join(found[broker_id - 1])], ((0, 0),), topic=topic, topic_id=make_uuid(topic), **marks)
            for topic, found in logs.items()
        ]
        replicas[broker_id].append(Replica([_commits()], topic="__consumer_offsets", topic_id=None))
    listed = [
        Listed(1, (1, 2), (1,), configs=found[2], topic=topic, topic_id=make_uuid(topic))
        for topic, found in logs.items()
    ]
    write_snapshot(path, replicas, listed, manifest={}, cluster_id=CLUSTER_ID)
    _write_texts(path / "dump")
    _write_tables(path)
    return path


def _write_texts(path: Path) -> None:
    path.mkdir(parents=True)
    for broker_id, epoch in ((1, 0), (2, 1)):
        for version in ("1.1", "2.2", "2.8", "4.3"):
            log = f"/data/broker-{broker_id}/text-{version}-0/{0:020d}.log"
            value = (
                f'a\n{TEXT}\nException in thread "main" {TEXT}\nCaused by: {TEXT}\nbaseOffset: {TEXT}\n| offset: {TEXT}'
            )
            lines = [
                batch_line(0, 0, 0, 100, version=version, epoch=epoch),
                record_line(0, TEXT, value, version=version),
                batch_line(1, 1, 100, 100, version=version, epoch=epoch),
                # Its sizes are not those of what is shown, so that where it ends cannot be found.
                record_line(1, TEXT, value, version=version).replace(f" key: {TEXT}", f" key: {TEXT}{TEXT}"),
                f"offset: {TEXT}" if broker_id == 1 else "",
            ]
            if version == "1.1":
                lines = [line for line in lines if not line.startswith("baseOffset")]
            text = listing(log, *lines)
            (path / f"broker-{broker_id}.text-{version}-0.txt").write_text(text)


def _write_tables(path: Path) -> None:
    """Tables of records with the records' content beside, and the mistakes that an export of such makes."""
    head = "broker_id,topic,partition,offset,value\n"
    rows = f"1,table,0,0,{TEXT}\n2,table,0,0,{TEXT}\n"
    for name, text in {
        "sound": head.replace("table", "sound") + rows,
        "one-column-more": f"{head}{rows}1,table,0,1,{TEXT},{TEXT}\n",
        "shifted": f"broker_id,topic,value,partition,offset\n1,table,{TEXT},0,0\n1,table,x,{TEXT},0\n",
        "quote": f'{head}1,table,0,0,"{TEXT}\n',
    }.items():
        (path / f"{name}.csv").write_text(text)
    row = f'{{"broker_id": 1, "topic": "lines", "partition": 0, "offset": 0, "value": "{TEXT}"}}\n'
    for name, text in {
        "sound-lines": row,
        "text-for-number": row + row.replace('"offset": 0', f'"offset": "{TEXT}"'),
        "torn-lines": row + row[:-4],
        "no-json": row + f"{TEXT}\n",
    }.items():
        (path / f"{name}.jsonl").write_text(text)


#: Arguments of every command, in an order in which each finds what it needs, with names of `_Places`; and what statuses it may
#: end with. 4 is that of an internal error. What begins with a form is asked in that form only: each has one run of the suites.
ANSWERED = (0, 1, 3)
CASES: dict[str, list[str]] = {
    "run": ["json: {snapshot} {stores} --no-quality", "text: {snapshot} {stores}"],
    "ingest": ["{snapshot} {stores} --full"],
    "audit": ["{stores}"],
    "quality": ["json: {stores}"],
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
    "quorum": ["{voters} --plan {out}/quorum.json", "{voters} --check {out}/quorum.json"],
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
    "observe": ["--bootstrap-servers h:1 --to {out}/observed-{form} --yes"],
    "capture-plan": ["1=/data 2@b=/data --describe {snapshot}/kafka-topics-describe.txt"],
    "evidence": ["{snapshot}"],
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
    found["voters"] = path / "voters"
    shutil.copytree(found["snapshot"], found["voters"])
    for node in (100, 101, 102):
        log = metadata_log.history([metadata_log.config(2, "lost", "note", TEXT)], voters=(100, 101, 102))
        metadata_log.write_metadata_log(
            found["voters"], node, metadata_log.MetadataLog({0: log}, voters=(100, 101, 102))
        )
    return found


@pytest.fixture
def quiet_engine(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages in this process, a cluster in memory, and every other file that is written in `places`."""
    run_in_process(monkeypatch)
    cluster = FakeCluster(CLUSTER_ID)
    monkeypatch.setattr("replica_audit.cli.restore_command.Contact", lambda *_: cluster)
    marked = [encode_batch(0, [Record(mark, mark * 3) for mark in MARKS], 0)]
    brokers = AnsweringBrokers({("orders", 0): in_sync(marked)}, {("orders", 0): 1})
    monkeypatch.setattr("replica_audit.api.observation.connect", lambda *_: brokers.client())
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
        if name not in ("snapshot", "after", "voters", "asked"):
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
            asked_in, _, words = case.rpartition(": ")
            if asked_in not in ("", form):
                continue
            if "{finding}" in words:
                names["finding"] = _finding(places)
            arguments = [command, *words.format(**names).split()]
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

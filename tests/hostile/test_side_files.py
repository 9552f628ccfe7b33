"""Side files that nobody wrote: each is told as unusable in one sentence, and the rest of the snapshot is answered."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.support import metadata_log
from tests.support.bounds import check_rows, cpu_seconds
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica

from replica_audit.errors import FormatError
from replica_audit.model import TopicPartition
from replica_audit.parsing import is_whole, parse_json, parse_whole

LONG, HUGE = "9" * 5000, "9" * 30
CONTENTS = {
    "brackets": b"[" * 60_000,
    "objects": b'{"a":' * 60_000,
    "nested and whole": b"[" * 5000 + b"]" * 5000,
    "digits": LONG.encode(),
    "zeros": b"0\n1\n" + b"0" * 5000 + b" 0\n",
    "infinity": b'{"schema_version": 1e999, "leader": Infinity, "x": NaN}',
    "half a character": b'[{"topic": "\\ud800", "partition": 0, "leader": 1}]',
    "half a character in a manifest": b'{"schema_version": 1, "kafka_version": "\\udfff"}',
    "nul": b"\0" * 4096,
    "carriage returns": b"a\rb\rc\r" * 1000,
    "not UTF-8": b"\xff\xfe\x00\x41" * 1000,
    "one long line": b"a-" * 100_000,
    "escapes": b"\x1b]0;title\x07\x1b[2J",
    "objects of everything": b'{"schema_version": [1], "brokers": {"broker_id": {}}, "topic": {}, "t-0": 5}',
    "lists": b'[[], {}, "", null, true, [[[[]]]]]',
    "old manifest": b'{"schema_version": 1.0, "quiesced": "yes"}',
}
FILES = (
    "leadership.json",
    "manifest.json",
    "zookeeper.json",
    "kafka-topics-describe-2.txt",
    "broker-2/server.log",
    "broker-2/meta.properties",
    "broker-2/replication-offset-checkpoint",
    "broker-2/orders-0/leader-epoch-checkpoint",
    "broker-2/orders-0/partition.metadata",
    "controller-9/__cluster_metadata-0/quorum-state",
    "dump/broker-3.dump.txt",
    "batches.jsonl",
    "batches.csv",
    "replica_progress.jsonl",
    "replica_progress.csv",
)
#: Input that may be anything: a log has many lines that are none of ours; without an id the directory's name tells it.
SILENT = {"broker-2/server.log", "broker-2/meta.properties"}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", FILES)
def test_a_side_file_of_anything_leaves_the_others_answered(name, content, tmp_path):
    def spoil():
        if name.startswith("controller-9"):
            records = metadata_log.batch(0, [metadata_log.feature("metadata.version", 20)])
            copy = metadata_log.MetadataLog({0: records}, log_dir="controller-9")
            metadata_log.write_metadata_log(tmp_path, 9, copy)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(CONTENTS[content])

    log = written(0, 20, 1)
    with cpu_seconds(3):
        answer = audit(tmp_path, {1: Replica(log), 2: Replica(log)}, source="topics_describe", before_audit=spoil)
    check_rows(answer.tables, str(tmp_path))
    assert "broker-2" in name or answer.replica(2)["log_end_offset"] == 20
    assert answer.replica(1)["log_end_offset"] == 20 and not answer.codes("critical"), answer
    told = {row["path"] for row in answer.tables["quarantine"]} | {
        evidence["path"] for row in answer.tables["findings"] for evidence in row["evidence"]
    }
    # KIP-853 leaves the voters out of quorum-state.
    without_voters = name.endswith("quorum-state") and content in ("objects of everything", "old manifest")
    assert name in SILENT or without_voters or any(path and name in path for path in told), answer


def test_a_manifest_that_is_cut_off_is_named_once_with_what_to_do(tmp_path):
    def spoil():
        (tmp_path / "manifest.json").write_text('{"schema_version": 1, "brok')

    log = written(0, 20, 1)
    answer = audit(tmp_path, {1: Replica(log), 2: Replica(log)}, before_audit=spoil)
    (said,) = [row["message"] for row in answer.tables["findings"] if row["code"] == "CAP-UNREADABLE"]
    assert said.startswith("manifest.json at byte 22: expected JSON, found something else (Unterminated string")
    assert said.count("manifest.json") == 2 and said.endswith("or leave the file out")


NUMBERS = (LONG, HUGE, "-" + HUGE, str(2**63), str(2**31), "0x10", "1e3", "٣", "1_000", "", "--1", "1.0")


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_that_no_column_holds_is_in_no_row(number, tmp_path):
    def spoil():
        listing = tmp_path / "kafka-topics-describe.txt"
        line = f"\tTopic: orders\tPartition: 1\tLeader: {number}\tReplicas: {number},2\tIsr: {number}\n"
        listing.write_text(listing.read_text() + line)
        value = number or "null"
        state = '{"leader": 1, "leader_epoch": ' + value + ', "isr": [1]}'
        (tmp_path / "zookeeper.json").write_text('{"orders-2": ' + state + "}")
        (tmp_path / "manifest.json").write_text('{"schema_version": 1, "brokers": [{"broker_id": ' + value + "}]}")
        lines = [
            f"Leader orders-0 starts at leader epoch {number} from offset {number} with high watermark {number}\n",
            f"Truncating log orders-0 to offset {number}\n",
            f'New leader and ISR for partition [orders,0] is {{"leader":{number},"isr":[{number}],"leader_epoch":1}}\n',
            f'New leader and ISR for partition [orders,0] is {{"leader":1,"isr":[1],"leader_epoch":{number}}}\n',
            f"[Partition orders-0 broker=1] ISR updated to {number},{number}\n",
            f"Truncating log orders-{number} to offset 1\n",
        ]
        lines = [f"[2026-01-01 00:00:00,000] INFO {line}" for line in lines]
        (tmp_path / "broker-1/server.log").write_text("".join(lines))
        (tmp_path / "broker-2/replication-offset-checkpoint").write_text(f"0\n1\norders 0 {number}\n")
        (tmp_path / "broker-2/orders-0/leader-epoch-checkpoint").write_text(f"0\n1\n1 {number}\n")

    log = written(0, 20, 1)
    answer = audit(tmp_path, {1: Replica(log), 2: Replica(log)}, before_audit=spoil)
    check_rows(answer.tables, str(tmp_path))


def test_whole_numbers_of_text():
    assert [parse_whole(text) for text in ("0", "007", "0" * 5000, str(2**63 - 1))] == [0, 7, 0, 2**63 - 1]
    assert [parse_whole(text) for text in (*NUMBERS[:4], *NUMBERS[5:], "-1", "+1", " 1", "1\n")] == [None] * 15
    assert parse_whole(b"-5", -5) == -5
    assert parse_whole("-6", -5) is None and parse_whole(str(2**31), 0, 2**31 - 1) is None


def test_json_values_within_bounds():
    assert parse_json(b'{"a": [1, -2, 0.5, "\xc3\xa4", true, null]}', "x", "") == {"a": [1, -2, 0.5, "ä", True, None]}
    assert parse_json('"\\ud83d\\ude00"', "x", "") == "\U0001f600"
    deep = json.loads("[" * 20 + "]" * 20)
    assert parse_json("[" * 20 + "]" * 20, "x", "") == deep
    odd = ["[" * 40 + "]" * 40, "[" * 10**6, "1" * 21, "1e400", "NaN", "-Infinity", "", "0." + "1" * 5000, b"\xff"]
    for text in (*odd, '"\\ud800"', '{"\\udc00": 1}'):
        with pytest.raises(FormatError) as caught:
            parse_json(text, "x", "mend it")
        assert len(str(caught.value)) < 400
    assert is_whole(5) and not is_whole(True) and not is_whole(5.0) and not is_whole(2**31) and not is_whole("5")


@pytest.mark.parametrize("name", ("t-" + LONG, "t-2147483648", "t-٣", "t-1.0", "-1", "t-"))
def test_names_of_partitions_within_bounds(name):
    with pytest.raises(ValueError, match="topic"):
        TopicPartition.parse(name)
    assert TopicPartition.parse("t-" + "0" * 100 + "7") == TopicPartition("t", 7)


def _parquet(columns: dict[str, list], *renamed: tuple[bytes, bytes]) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table(list(columns.values()), names=[name.rstrip("!") for name in columns])
    pyarrow.parquet.write_table(table, sink, compression="none", use_dictionary=False)
    data = sink.getvalue().to_pybytes()
    for old, new in renamed:
        assert old in data and len(old) == len(new)
        data = data.replace(old, new)
    return data


BATCH = {"broker_id": [1], "topic": ["orders"], "partition": [0], "base_offset": [0], "last_offset": [9]}
OBSERVED = {"topic": ["orders"], "partition": [0], "time_ms": [1], "broker_id": [1]}
#: Bytes that are not UTF-8 as a value, in the name of a column, and a column that is there twice.
TABLES = {
    f"{name}{ending}": data
    for name, row in (("batches", BATCH), ("replica_progress", OBSERVED))
    for ending, data in (
        (
            ".jsonl",
            json.dumps({key: one[0] for key, one in row.items()}).encode().replace(b'"orders"', b'"\xfforders"'),
        ),
        (".csv", (",".join(row) + "\n" + ",".join(str(one[0]) for one in row.values())).encode() + b"\xff"),
        ("-1.parquet", _parquet(row, (b"orders", b"\xffrders"))),
        ("-2.parquet", _parquet(row, (b"broker_id", b"br\xffker_id"))),
        ("-3.parquet", _parquet({**row, "topic!": ["x"], "partition!": [7]})),
        ("-4.parquet", _parquet(row)[:-20]),
    )
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_bytes_that_are_not_text_leaves_the_others_answered(name, tmp_path):
    log = written(0, 20, 1)
    answer = audit(
        tmp_path, {1: Replica(log), 2: Replica(log)}, before_audit=lambda: (tmp_path / name).write_bytes(TABLES[name])
    )
    check_rows(answer.tables, str(tmp_path))
    assert answer.replica(1)["log_end_offset"] == 20 and not answer.codes("critical"), answer
    assert name in {row["path"] for row in answer.tables["quarantine"]}, answer

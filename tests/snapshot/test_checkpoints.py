"""Checkpoints and properties as Kafka reads them, and the errors that name the line."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from tests.support.bounds import cpu_seconds
from tests.support.scanned import CAPTURES, FIXTURES

from replica_audit.errors import FormatError
from replica_audit.model import TopicPartition
from replica_audit.snapshot.checkpoints import (
    MetaProperties,
    parse_epoch_checkpoint,
    parse_meta_properties,
    parse_offset_checkpoint,
    parse_partition_metadata,
)

READERS = {
    "leader-epoch-checkpoint": parse_epoch_checkpoint,
    "replication-offset-checkpoint": parse_offset_checkpoint,
    "recovery-point-offset-checkpoint": parse_offset_checkpoint,
    "log-start-offset-checkpoint": parse_offset_checkpoint,
    "cleaner-offset-checkpoint": parse_offset_checkpoint,
    "partition.metadata": parse_partition_metadata,
    "meta.properties": parse_meta_properties,
}

#: Captures with a file that cannot be read, and what its error says.
REFUSED = {
    "corrupted-all-empty": "line 1 `version",
    "corrupted-epoch-count-too-large": "9 entries, as line 2 says",
    "corrupted-epoch-count-too-small": "1 entries, as line 2 says",
    "corrupted-epoch-garbage": "line 1",
    "corrupted-epoch-huge-numbers": "line 3 leader epoch",
    "corrupted-epoch-negative": "line 3 leader epoch",
    "corrupted-epoch-version-1": "line 1 version 0",
    "corrupted-epoch-words": "line 3 leader epoch",
    "corrupted-hw-count-wrong": "99 entries, as line 2 says",
    "corrupted-hw-garbage": "line 1",
    "corrupted-hw-negative": "line 11 offset",
    "corrupted-hw-version-3": "line 1 version 0",
    "corrupted-hw-word": "line 11 offset",
    "corrupted-topic-id-garbage": "line 1 `version",
}


def _read_all(capture: str) -> list[str]:
    errors = []
    for path in sorted((FIXTURES / capture).rglob("*")):
        if path.name in READERS:
            try:
                READERS[path.name](path.read_bytes(), str(path.relative_to(FIXTURES)))
            except FormatError as error:
                errors.append(str(error))
    return errors


@pytest.mark.parametrize("capture", CAPTURES)
def test_small_files_of_the_captures_are_read_but_those_edited_to_nonsense(capture):
    errors = _read_all(capture)
    assert len(errors) == (capture in REFUSED)
    assert all(REFUSED[capture] in error and error.startswith(capture) for error in errors)


def test_entries_keep_their_order_even_where_they_decrease():
    assert parse_epoch_checkpoint(b"0\n3\n5 10\n2 20\n9 3\n", "p") == ((5, 10), (2, 20), (9, 3))


@pytest.mark.parametrize(
    "data", [b"0\n1\nt 0 5\n", b"0\r\n1\r\nt 0 5\r\n", b"0\r1\rt 0 5", b"0\n1\nt 0 5", b"0\n1\nt \t0  5 \n"]
)
def test_line_ends_blanks_and_a_missing_last_newline_are_as_java_takes_them(data):
    assert parse_offset_checkpoint(data, "p") == {TopicPartition("t", 0): 5}


@pytest.mark.parametrize("data", [b"", b"0", b"0\n", b"0\n0\n", b"0\n0"])
def test_a_file_without_entries_is_legal(data):
    assert parse_offset_checkpoint(data, "p") == {} and parse_epoch_checkpoint(data, "p") == ()


def test_of_a_partition_named_twice_the_last_line_counts():
    entries = parse_offset_checkpoint(b"0\n3\nt 0 5\nt-1.x_y 12 7\nt 0 6\n", "p")
    assert entries == {TopicPartition("t", 0): 6, TopicPartition("t-1.x_y", 12): 7}


@pytest.mark.parametrize(
    ("data", "position", "words"),
    [
        (b"0\n1\nt 0 -1\n", 4, "line 3 offset"),
        (b"0\n1\nt 0 9223372036854775808\n", 4, "line 3 offset"),
        (b"0\n1\nt 2147483648 1\n", 4, "line 3 partition"),
        (b"0\n1\nt 0 " + b"9" * 100_000, 4, "line 3 offset"),
        (b"0\n1\nt 0 1.5\n", 4, "line 3 offset"),
        (b"0\n1\nt 0\n", 4, "line 3 `topic partition offset`"),
        (b"0\n1\nt 0 1 2\n", 4, "line 3 `topic partition offset`"),
        (b"0\n1\n t 0 1\n", 4, "line 3 `topic partition offset`"),
        (b"0\n1\nt 0 1\n\n", 10, "line 4 `topic partition offset`"),
        (b"0\n2\nt 0 1\n", 2, "2 entries"),
        (b"0\nx\nt 0 1\n", 2, "line 2 the number of entries"),
        (b" 0\n0\n", 0, "line 1 version"),
        (b"\xef\xbb\xbf0\n0\n", 0, "line 1 version"),
        (b"\n0\n0\n", 0, "line 1 version"),
        ("0\n1\nt 0 ٣\n".encode(), 4, "line 3 offset"),
    ],
)
def test_what_kafka_would_not_read_is_an_error_with_line_and_position(data, position, words):
    with cpu_seconds(1), pytest.raises(FormatError, match=words) as caught:
        parse_offset_checkpoint(data, "broker-1/replication-offset-checkpoint")
    error = caught.value
    assert error.position == position and error.path == "broker-1/replication-offset-checkpoint"
    assert len(str(error)) < 500
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.position == position


def test_the_largest_numbers_are_read():
    assert parse_epoch_checkpoint(b"0\n1\n2147483647 9223372036854775807", "p") == ((2**31 - 1, 2**63 - 1),)


def test_a_topic_id_is_22_characters_with_or_without_padding():
    bare = "IERmnjDIQw2bVhQoxuqSAQ"
    for text in (bare, f"{bare}=="):
        assert parse_partition_metadata(f"version: 0\ntopic_id: {text}".encode(), "p") == bare


@pytest.mark.parametrize(
    "data",
    [
        b"version: 1\ntopic_id: IERmnjDIQw2bVhQoxuqSAQ",
        b"version: 0\n",
        b"version: 0\ntopic_id: short",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\ntopic_id: IERmnjDIQw2bVhQoxuqS!!",
        b"version:0\ntopic_id:IERmnjDIQw2bVhQoxuqSAQ",
        b"",
    ],
)
def test_a_topic_id_that_is_none_is_an_error(data):
    with pytest.raises(FormatError):
        parse_partition_metadata(data, "p")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#\n#date\nnode.id=3\nversion=1\ncluster.id=abc\ndirectory.id=d\n", MetaProperties(3, "abc", "d")),
        ("version=0\r\nbroker.id=7\r\ncluster.id=abc", MetaProperties(7, "abc", None)),
        ("broker.id=7\nnode.id=8", MetaProperties(8, None, None)),
        ("  node.id : 9\n! comment\ncluster.id abc\\=d", MetaProperties(9, "abc=d", None)),
        ("", MetaProperties(None, None, None)),
    ],
)
def test_meta_properties_are_java_properties(text, expected):
    assert parse_meta_properties(text.encode(), "p") == expected


@pytest.mark.parametrize("value", ["-1", "zero", "99999999999", ""])
def test_a_node_id_that_is_no_broker_id_is_an_error(value):
    with pytest.raises(FormatError, match="line 2 node.id"):
        parse_meta_properties(f"version=1\nnode.id={value}\n".encode(), "meta.properties")


@pytest.mark.parametrize(
    ("parse", "written"),
    [
        (parse_epoch_checkpoint, b"0\n1\n5 7\n"),
        (parse_epoch_checkpoint, b"0\n2\n5 7\n8 9\n"),
        (parse_offset_checkpoint, b"0\n1\nt 5 7\n"),
        (parse_offset_checkpoint, b"0\n2\nt 5 7\nu-1 8 9\n"),
    ],
)
@pytest.mark.parametrize("put", [b"", b" ", b"\n", b"\t", b"-", b"+", b"x", b"\xe9", b"0", b"99999999999999999999"])
def test_a_file_changed_anywhere_is_read_as_it_would_be_with_other_line_ends(
    parse: Callable[[bytes, str], object], written: bytes, put: bytes
) -> None:
    """A file as Kafka writes it is read at once, any other line by line: both have one answer."""

    def read(data: bytes) -> object:
        try:
            return parse(data, "p")
        except FormatError as error:
            return str(error)

    for place in range(len(written) + 1):
        changed = written[:place] + put + written[place + (not put) :]
        assert read(changed) == read(changed.replace(b"\n", b"\r")), changed

"""Messages of metadata records, against bytes that Kafka's own writer made."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import metadata_log as write

from replica_audit.snapshot.message_fields import FieldReader, MessageError
from replica_audit.snapshot.metadata.kraft_records import (
    KRAFT_VOTERS,
    LEADER_CHANGE,
    BrokerState,
    ConfigSet,
    ElrCleared,
    PartitionChanged,
    PartitionSet,
    TopicCreated,
    TopicRemoved,
    Transaction,
    parse_message,
    parse_voters,
)

#: 0102030405060708 1112131415161718, as Kafka prints it.
TOPIC_ID = "AQIDBAUGBwgREhMUFRYXGA"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("01020004666f6f0102030405060708111213141516171800", TopicCreated("foo", TOPIC_ID)),
        (
            "0103020000000001020304050607081112131415161718040000000100000002000000030200000001010100000001000000050000000901030001010105020000000202050200000003",
            PartitionSet(TOPIC_ID, 0, (1, 2, 3), (1,), (), (), 1, 5, 9, (), True, (2,), (3,)),
        ),
        (
            "01050000000000010203040506070811121314151617180200050200000002010400000002",
            PartitionChanged(TOPIC_ID, 0, isr=(2,), leader=2),
        ),
        (
            "0105020000000001020304050607081112131415161718030001010104ffffffff06050200000002",
            PartitionChanged(TOPIC_ID, 0, isr=(), leader=-1, elr=(2,)),
        ),
        (
            "0104000204666f6f146d696e2e696e73796e632e7265706c69636173023200",
            ConfigSet(2, "foo", "min.insync.replicas", "2"),
        ),
        ("0109000102030405060708111213141516171800", TopicRemoved(TOPIC_ID)),
    ],
)
def test_bytes_of_kafkas_own_writer(text, expected):
    assert parse_message(bytes.fromhex(text)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (write.topic("a.b", TOPIC_ID), TopicCreated("a.b", TOPIC_ID)),
        (write.config(2, "t", "cleanup.policy", None), ConfigSet(2, "t", "cleanup.policy", None)),
        (write.change(TOPIC_ID, number=7), PartitionChanged(TOPIC_ID, 7)),
        (write.change(TOPIC_ID, leader=0), PartitionChanged(TOPIC_ID, 0, leader=0)),
        (write.change(TOPIC_ID, recovering=False), PartitionChanged(TOPIC_ID, 0, recovering=False)),
        (write.register_broker(4), BrokerState(4, False, False, (), registered=True)),
        (write.register_broker(4, fenced=True), BrokerState(4, True, False, (), registered=True)),
        (write.registration_change(4, 1), BrokerState(4, True, None)),
        (write.registration_change(4, -1), BrokerState(4, False, None)),
        (write.clear_elr(""), ElrCleared("")),
        (write.begin(), Transaction("begin")),
        (write.end(), Transaction("end")),
        (write.abort(), Transaction("abort")),
    ],
)
def test_a_record_that_is_no_change_of_a_partition_is_read(value, expected):
    assert parse_message(value) == expected


def test_kinds_that_say_nothing_of_leadership_are_left_out_whatever_is_in_them():
    assert parse_message(write.message(20, 0, b"\x00")) is None  # NoOpRecord
    assert parse_message(write.message(10, 5, b"anything")) is None


def test_tags_of_a_later_version_are_skipped():
    body = struct.pack(">i", 0) + write.uuid(TOPIC_ID) + write.tags({1: struct.pack(">i", 3), 40: b"later"})
    assert parse_message(write.message(5, 3, body)) == PartitionChanged(TOPIC_ID, 0, leader=3)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"", "found 0"),
        (write.message(2, 0, b"", frame=0), "preview of 2.8"),
        (write.topic("t", TOPIC_ID)[:-4], "expected 16 bytes"),
        (write.topic("t", TOPIC_ID) + b"\x00", "found 1 more"),
        (
            write.message(2, 9, write.topic("t", TOPIC_ID)[3:] + b"new field"),
            "TopicRecord of version 9, of which versions 0 to 0 are known",
        ),
        (write.message(2, 0, b"\x02\xff" + bytes(17)), "UTF-8"),
        (write.message(5, 0, bytes(20) + b"\x02\x01\x04\x00\x00\x00\x02\x00\x01\x01"), "ascending"),
        (write.message(3, 0, bytes(20) + b"\xff\xff\xff\xff\x0f"), "array within"),
    ],
)
def test_bytes_that_are_no_message_are_told_with_their_place(value, said):
    with pytest.raises(MessageError, match=said):
        parse_message(value)


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_a_message_or_an_error(value):
    try:
        parse_message(value)
    except MessageError as error:
        assert "expected" in str(error)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_an_unsigned_varint_is_read_as_it_was_written(number):
    reader = FieldReader(write.uvarint(number))
    assert (reader.uvarint(), reader.left) == (number, 0)


def test_voters_of_both_control_records():
    listed = b"\x03" + b"".join(struct.pack(">i", voter) + bytes(16) + b"\x00" for voter in (102, 100))
    assert parse_voters(LEADER_CHANGE, struct.pack(">hi", 1, 100) + listed + listed + b"\x00").ids == (100, 102)
    voter = (
        struct.pack(">i", 7) + bytes(16) + b"\x02" + write.string("CONTROLLER") + write.string("host") + b"\x23\x84\x00"
    )
    voter += struct.pack(">hh", 0, 1) + b"\x00\x00"
    found = parse_voters(KRAFT_VOTERS, struct.pack(">h", 0) + b"\x02" + voter + b"\x00")
    assert (found.ids, found.addresses) == ((7,), ((7, "host:9092"),))

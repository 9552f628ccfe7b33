"""Text of kafka-dump-log by its generations, payloads that look like text of kafka-dump-log, and texts that broke off."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.dump_lines import batch_line, listing, old_line, record_line

from replica_audit.batch_header import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from replica_audit.errors import FormatError
from replica_audit.snapshot.dump.dump_lines import parse_batch_line
from replica_audit.snapshot.dump.dump_text import find_sections
from replica_audit.snapshot.dump.dumped_segment import assemble_dumped_log, parse_listing
from replica_audit.snapshot.inventory import LogDir
from replica_audit.snapshot.provenance import FINGERPRINT, SecondHandLog, are_comparable
from replica_audit.snapshot.stand_ins import UnownedError, read_dumped_path

LOG = "broker-1/t-0/00000000000000000000.log"
VERSIONS = ("1.1", "2.1", "2.8", "3.0", "4.3")


def read(*texts: str | bytes) -> SecondHandLog:
    """The log that the texts' listings of one segment tell."""
    listings = []
    for text in texts:
        stream = io.BytesIO(text if isinstance(text, bytes) else text.encode())
        listings += [parse_listing(stream, section) for section in find_sections(stream)]
    assert listings
    return assemble_dumped_log(listings, 0)


def rows(log: SecondHandLog, *names: str) -> list[tuple]:
    return [tuple(row[name].item() for name in names) for row in log.batches]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_line_of_every_generation(version):
    text = listing(
        LOG,
        batch_line(0, 3, 0, 100, version=version, epoch=2, crc=4_294_967_295, codec=2),
        batch_line(4, 4, 100, 61, version=version, epoch=3, valid=False),
    )
    log = read(text)
    assert rows(
        log, "position", "size", "base_offset", "last_offset", "leader_epoch", "crc", "crc_valid", "record_count"
    ) == [
        (0, 100, 0, 3, 2, 4_294_967_295, True, 4),
        (100, 61, 4, 4, 3, 1, False, 1),
    ]
    assert log.batches["attributes"].tolist() == [2, 0] and log.size_bytes == 161 and log.form == "batches"
    assert ("record_counts" in log.unproven) == (version == "1.1")


@pytest.mark.parametrize("version", ["1.1", "4.3"])
def test_a_marker_is_a_control_batch_where_the_line_says_so_and_where_it_only_follows(version):
    data = parse_batch_line(batch_line(0, 3, 0, 100, version=version, transactional=True).encode())
    marker = parse_batch_line(batch_line(4, 4, 100, 78, version=version, transactional=True, control=True).encode())
    assert data.attributes == TRANSACTIONAL and marker.attributes == TRANSACTIONAL | CONTROL


def test_a_delete_horizon_is_the_base_timestamp():
    line = parse_batch_line(batch_line(0, 3, 0, 100, horizon=55).encode())
    assert line.attributes == DELETE_HORIZON and line.base_timestamp == 55


def test_several_logs_in_one_text_and_indexes_between_them():
    other = "broker-1/t-0/00000000000000000007.log"
    text = (
        listing(LOG, batch_line(0, 6, 0, 100))
        + "Dumping broker-1/t-0/00000000000000000000.index\noffset: 6 position: 0\n"
        + "Dumping broker-1/t-0/00000000000000000007.snapshot\nproducerId: 1 producerEpoch: 0\n"
        + listing(other, batch_line(7, 8, 0, 80))
    )
    stream = io.BytesIO(text.encode())
    first, second = find_sections(stream)
    assert (first.dumped_path, second.dumped_path) == (LOG, other)
    assert [len(parse_listing(stream, one).batches) for one in (first, second)] == [1, 1]
    assert parse_listing(stream, first).odd_line is None and text.encode()[second.start :].startswith(b"Dumping")


def test_lines_end_at_line_feeds_with_or_without_a_carriage_return():
    text = listing(LOG, batch_line(0, 3, 0, 100), batch_line(4, 4, 100, 61)).replace("\n", "\r\n")
    assert rows(read(text), "last_offset") == [(3,), (4,)]


@pytest.mark.parametrize("version", ["2.2", "2.8", "4.3"])
def test_a_payload_of_several_lines_may_hold_any_line_of_the_tool(version):
    trap = "\n".join(
        [
            "Caused by: java.lang.IllegalStateException: x",
            "Found 99 invalid bytes at the end of x.log",
            batch_line(4, 9, 100, 61),
            record_line(3, "k", "v"),
            "Dumping broker-9/u-0/00000000000000000000.log",
            "not a start",
            "",
        ]
    )
    text = listing(
        LOG,
        batch_line(0, 3, 0, 100),
        record_line(0, "key\nwith a line", trap, version=version),
        record_line(3, None, "plain", version=version),
        batch_line(4, 5, 100, 61),
        record_line(4, "k", None, version=version),
    )
    log = read(text)
    assert rows(log, "base_offset", "last_offset", "size") == [(0, 3, 100), (4, 5, 61)]
    assert log.damage == () and "left_out" not in log.unproven and "rest" not in log.unproven


def test_a_payload_that_cannot_be_printed_does_not_hide_what_follows():
    payload = "\ufffd\ufffd\n" + batch_line(50, 60, 9000, 61)
    line = record_line(3, None, payload).replace(f"valueSize: {len(payload.encode())}", "valueSize: 4")
    log = read(listing(LOG, batch_line(0, 3, 0, 100), line, batch_line(4, 4, 100, 61)))
    assert rows(log, "last_offset") == [(3,), (4,)] and "left_out" not in log.unproven


@settings(deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r"), max_size=40), min_size=1, max_size=6
    )
)
def test_whatever_keys_and_payloads_are_printed_the_batches_are_the_same(values):
    lines, position = [], 0
    for offset, value in enumerate(values):
        lines += [batch_line(offset, offset, position, 70), record_line(offset, value[::-1] or None, value)]
        position += 70
    log = read(listing(LOG, *lines))
    assert log.batches["last_offset"].tolist() == list(range(len(values)))
    assert "left_out" not in log.unproven and log.damage == ()


def test_records_without_their_metadata_are_passed_over():
    text = listing(
        LOG,
        batch_line(0, 1, 0, 100),
        "| key: a payload: b",
        " payload: b",
        "",
        "| payload: b\nrest",
        batch_line(2, 2, 100, 61),
    )
    log = read(text)
    assert rows(log, "last_offset") == [(1,), (2,)] and "left_out" not in log.unproven


def test_first_times_come_from_the_deep_listing():
    shallow, deep = (
        listing(LOG, batch_line(0, 1, 0, 100)),
        listing(LOG, batch_line(0, 1, 0, 100), record_line(0, "k", "v")),
    )
    assert read(shallow).unproven == ("checksums", "first_timestamps") and read(shallow).batches[
        "base_timestamp"
    ].tolist() == [-1]
    assert read(shallow, deep).unproven == ("checksums",)
    assert read(shallow, deep).batches["base_timestamp"].tolist() == [1_700_000_000_000]


def test_invalid_bytes_at_the_end_are_a_tail_of_unknown_kind():
    log = read(listing(LOG, batch_line(0, 1, 0, 100), "Found 40 invalid bytes at the end of 00000000000000000000.log"))
    (damage,) = log.damage
    assert (damage.position, damage.length, damage.kind, damage.expected_offset) == (100, 40, "partial", 2)
    assert log.size_bytes == 140 and "tail" in log.unproven


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (
            'Exception in thread "main" org.apache.kafka.common.errors.CorruptRecordException: Found record size 0 smaller '
            "than minimum record overhead (14) in file x.",
            "zero_filled",
        ),
        (
            "# the dump tool threw: org.apache.kafka.common.errors.CorruptRecordException: Found record size -5 smaller "
            "than minimum record overhead (14)",
            "garbage",
        ),
        (
            'Exception in thread "main" java.lang.IllegalArgumentException: Unknown compression type id: 7\n\tat java.base/x.y(Z.java:1)',
            "garbage",
        ),
    ],
)
def test_a_tool_that_died_leaves_the_rest_open(words, kind):
    log = read(listing(LOG, batch_line(0, 1, 0, 100), words))
    (damage,) = log.damage
    assert (damage.position, damage.length, damage.kind) == (100, 0, kind) and "rest" in log.unproven


def test_a_tool_that_died_in_the_middle_of_a_line():
    words = (
        batch_line(2, 3, 100, 61).partition(" position")[0]
        + "# the dump tool threw: java.lang.IllegalArgumentException: Unknown"
    )
    log = read(listing(LOG, batch_line(0, 1, 0, 100), words))
    assert rows(log, "last_offset") == [(1,)] and [one.kind for one in log.damage] == ["garbage"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_text_that_broke_off_is_known_by_its_last_line(version):
    whole = listing(
        LOG, batch_line(0, 3, 0, 100, version=version), batch_line(4, 9, 100, 161, version=version, crc=123_456)
    )
    for end in range(len(whole) - 1, whole.index("baseOffset: 4") + 1, -1):
        log = read(whole[:end])
        # The verdict on the CRC ends the line from 2.2 on: with it the line is whole, without a line feed too.
        is_whole = end == len(whole) - 1 and whole[:end].endswith("true")
        assert len(log.batches) == (2 if is_whole else 1), whole[:end][-30:]
        assert ("left_out" in log.unproven) != is_whole


def test_lines_that_are_missing_in_the_middle_are_noticed():
    assert "left_out" in read(listing(LOG, batch_line(0, 3, 0, 100), batch_line(8, 9, 200, 61))).unproven
    assert "left_out" in read(listing(LOG, batch_line(4, 5, 100, 61))).unproven
    assert "left_out" in read(listing(LOG, batch_line(0, 3, 0, 100), "something else")).unproven
    assert "left_out" in read(f"Dumping {LOG}\n").unproven


def test_listings_of_two_moments_are_told_from_one_that_goes_on():
    early = listing(LOG, batch_line(0, 3, 0, 100))
    late = listing(LOG, batch_line(0, 3, 0, 100), batch_line(4, 4, 100, 61))
    other = listing(LOG, batch_line(0, 2, 0, 90, crc=9))
    assert rows(read(early, late), "last_offset") == [(3,), (4,)] and "one_moment" not in read(early, late).unproven
    assert "one_moment" in read(other, late).unproven


def test_0_10_shows_entries_whole_and_what_is_inside_them():
    shallow = listing(
        LOG,
        old_line(0, 0, 10, key=4),
        old_line(3, 48, 200, codec="GZIP", crc=77),
        old_line(4, 282, 6),
        word="Starting offset",
    )
    deep = listing(
        LOG,
        old_line(0, 0, 10, key=4, shown=" key: kkkk payload: 0123456789"),
        old_line(1, 48, 5, crc=8, shown=" payload: a\nb c"),
        old_line(3, 48, 5, crc=9, shown=" payload: abcde"),
        old_line(4, 282, 6, shown=" payload: abcdef"),
        word="Starting offset",
    )
    columns = ("position", "size", "base_offset", "last_offset", "crc", "record_count")
    both = read(shallow, deep)
    assert rows(both, *columns) == [(0, 48, 0, 0, 5, 1), (48, 234, 1, 3, 77, 2), (282, 40, 4, 4, 5, 1)]
    assert both.unproven == ("checksums",) and (both.batches["leader_epoch"] == -1).all()
    alone = read(shallow)
    assert rows(alone, *columns)[1] == (48, 234, 1, 3, 77, 3) and {"base_offsets", "record_counts"} <= set(
        alone.unproven
    )
    inside = read(deep)
    assert rows(inside, "position", "base_offset", "last_offset", "record_count")[1] == (48, 1, 3, 2)
    assert inside.batches["crc"][1] >= FINGERPRINT and inside.form == "records of kafka-dump-log"
    assert not are_comparable(inside.form, both.form) and are_comparable(inside.form, inside.form)


def test_offsets_that_go_back_in_0_10_are_records_when_the_payload_before_is_whole():
    text = listing(
        LOG,
        old_line(7, 0, 4, shown=" payload: abcd"),
        old_line(8, 38, 4, shown=" payload: abcd"),
        old_line(5, 76, 4, shown=" payload: abcd"),
        word="Starting offset",
    )
    assert rows(read(text), "last_offset") == [(7,), (8,), (5,)]


def test_the_last_entry_of_a_shorter_deep_listing_is_the_same_batch_as_in_a_longer_one():
    lines = [old_line(1, 0, 5, crc=8), old_line(3, 0, 5, crc=9), old_line(4, 90, 6), old_line(5, 130, 7, crc=7)]
    alone = [*lines[:3], old_line(5, 150, 7, crc=7)]
    longer, shorter = (read(listing(LOG, *some, word="Starting offset")) for some in (lines, lines[:3]))
    assert shorter.batches.tolist() == longer.batches.tolist()[:2] and shorter.form == longer.form
    inside = read(listing(LOG, *alone, word="Starting offset"))
    assert inside.batches["crc"].tolist()[:2] == longer.batches["crc"].tolist()[:2]


def test_no_key_or_payload_is_kept():
    text = listing(LOG, batch_line(0, 1, 0, 100), record_line(0, "secret-key", "secret\npayload"))
    stream = io.BytesIO(text.encode())
    (section,) = find_sections(stream)
    assert "secret" not in repr(parse_listing(stream, section)) and "secret" not in repr(read(text))


def test_a_text_without_its_dumping_lines_is_one_log_and_more_where_offsets_start_again():
    lines = [batch_line(40, 43, 0, 100), batch_line(44, 44, 100, 61)]
    (alone,) = find_sections(io.BytesIO("\n".join(lines).encode()))
    assert (alone.dumped_path, alone.start, alone.base_offset) == ("", 0, 40)
    text = f"Log starting offset: 40\n{lines[0]}\n{lines[1]}\nLog starting offset: 45\n{batch_line(45, 45, 0, 61)}\n"
    stream = io.BytesIO(text.encode())
    sections = find_sections(stream)
    assert [one.base_offset for one in sections] == [40, 45]
    found = [parse_listing(stream, one) for one in sections]
    assert [len(one.batches) for one in found] == [2, 1] and not any(one.has_holes or one.odd_line for one in found)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_what_a_shell_or_editor_of_windows_makes_of_a_text(encoding):
    data = listing(LOG, batch_line(0, 3, 0, 100)).replace("\n", "\r\n").encode(encoding)
    if encoding == "utf-8-sig":
        assert rows(read(data), "last_offset") == [(3,)]
    elif encoding == "utf-16":
        with pytest.raises(FormatError, match="UTF-16"):
            find_sections(io.BytesIO(data))
    else:
        assert find_sections(io.BytesIO(data)) == []


def test_text_of_something_else_has_no_listing():
    assert find_sections(io.BytesIO(b"")) == find_sections(io.BytesIO(b"INSERT INTO t VALUES (1);\noffset: x\n")) == []


def test_a_payload_that_looks_like_the_beginning_of_an_index_does_not_end_the_log():
    payload = "x\nDumping broker-1/t-0/00000000000000000000.index\nand so on"
    text = listing(LOG, batch_line(0, 0, 0, 100), record_line(0, None, payload), batch_line(1, 1, 100, 61))
    assert rows(read(text), "last_offset") == [(0,), (1,)]


@pytest.mark.parametrize(
    ("dumped", "text", "expected"),
    [
        ("broker-1/t-0/00000000000000000007.log", "x.dump.txt", (1, "broker-1", "t-0", 7)),
        ("./broker-1//t-0/00000000000000000007.log", "broker-9/x.dump.txt", (1, "broker-1", "t-0", 7)),
        (
            "/data/broker-12/disk-a/a.b-c-3/00000000000000000000.log",
            "x.dump.txt",
            (12, "/data/broker-12/disk-a", "a.b-c-3", 0),
        ),
        ("/var/lib/kafka/t-0/00000000000000000000.log", "broker-3.batches.dump.txt", (3, "/var/lib/kafka", "t-0", 0)),
        ("/var/lib/kafka/t-0/00000000000000000000.log", "hosts/broker-4/dump/all.txt", (4, "/var/lib/kafka", "t-0", 0)),
        ("00000000000000000005.log", "broker-4/t-1/x.dump.txt", (4, "", "t-1", 5)),
        ("00000000000000000005.log", "broker-4.my.topic-1.dump.txt", (4, "", "my.topic-1", 5)),
        ("", "broker-4/t-1/00000000000000000009.log.dump.txt", (4, "", "t-1", 9)),
        ("", "dump/broker-4_t-1.txt", (4, "", "t-1", 0)),
        ("C:\\kafka\\broker-2\\t-0\\00000000000000000000.log", "x.dump.txt", (2, "C:/kafka/broker-2", "t-0", 0)),
    ],
)
def test_whose_log_a_dumping_line_names(dumped, text, expected):
    found = read_dumped_path(dumped, text, ())
    assert found is not None
    assert (found.broker_id, found.folder, str(found.topic_partition), found.base_offset) == expected


@pytest.mark.parametrize(
    ("dumped", "text", "words"),
    [
        ("/data/t-0/00000000000000000000.log", "x.dump.txt", "broker-<id>"),
        ("/data/broker-1/00000000000000000000.log", "x.dump.txt", None),
        ("00000000000000000000.log", "broker-1/x.dump.txt", "<topic>-<partition>"),
    ],
)
def test_a_path_that_does_not_tell_whose_log_it_is(dumped, text, words):
    # A directory `broker-1` right above the file is a partition's: of a topic `broker`.
    with pytest.raises(UnownedError, match=words or "broker-<id>"):
        read_dumped_path(dumped, text, ())


@pytest.mark.parametrize("name", ["t-0.0123456789abcdef0123456789abcdef-delete", "__cluster_metadata-0"])
def test_directories_that_are_no_current_replica_are_only_counted(name):
    assert read_dumped_path(f"/data/{name}/00000000000000000000.log", "x.dump.txt", ()) is None


def test_a_log_dir_of_the_snapshot_says_whose_it_is():
    log_dirs = (LogDir("broker-2", 0, None, None, False, "broker"), LogDir("hosts/a", 7, None, None, False, "broker"))
    assert read_dumped_path("broker-2/t-0/00000000000000000000.log", "x.dump.txt", log_dirs).broker_id == 0
    assert read_dumped_path("/t-0/00000000000000000000.log", "hosts/a/x.dump.txt", log_dirs).broker_id == 7

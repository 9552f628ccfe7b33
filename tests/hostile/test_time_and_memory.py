"""Time and memory grow with the input, by a small factor, whatever it claims of itself."""

from __future__ import annotations

import io
import random
import struct
import tracemalloc
from contextlib import suppress

import pytest
from tests.support.bounds import cpu_seconds
from tests.support.dump_lines import batch_line, listing, record_line

from replica_audit.schema import QuarantineRow
from replica_audit.segments.compression import GZIP, LZ4, SNAPPY, ZSTD, CodecError, decompress
from replica_audit.segments.records import RecordError, RecordHasher, decode_records
from replica_audit.snapshot.broker_logs import parse_broker_log
from replica_audit.snapshot.dump.dump_text import Section, find_sections
from replica_audit.snapshot.dump.dumped_segment import parse_listing
from replica_audit.snapshot.replica_progress import plan_progress, read_progress
from replica_audit.snapshot.storage import Snapshot

#: What lines of brokers' logs can be made of, so that a pattern begins to match again and again.
PIECES = (
    "a-1",
    "a-",
    "1",
    ", ",
    "[a,1]",
    "Leader a-1 starts at leader epoch 1 from offset ",
    "Truncating a-1 to offset 1 ",
    "Truncating partition a-1 with TruncationState(offset=1, completed=true) due to leader epoch and offset "
    "EpochEndOffset(",
    "Non-monotonic update of high watermark from (offset=1",
    "Expanding ISR for partition x from 1,2,",
    "Shrinking ISR from 1,",
    "ISR updated from 1,",
    "New leader and ISR for partition [a,1] is {",
    "No broker in ISR is alive for a-1",
    "partition a-1 state from x to OnlinePartition with state LeaderAndIsr(leader=1, leaderEpoch=1, isr=List(1, ",
    "truncation is not allowed for partition a-1, Current leader 1's latest offset 1",
)
WORDS = " starts at has no effect with TruncationState Truncating log ISR ew leader and ISR below high watermark"


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_line_of_a_brokers_log(piece):
    line = (piece * (65_536 // len(piece)) + WORDS).encode()
    head = (WORDS + piece * (65_536 // len(piece))).encode()
    with cpu_seconds(1):
        assert len(list(parse_broker_log([line, head] * 3, "server.log", 1))) <= 6


def test_long_lines_of_random_pieces():
    dice = random.Random(5)
    lines = ["".join(dice.choice([*PIECES, WORDS]) for _ in range(2000)).encode() for _ in range(20)]
    with cpu_seconds(2):
        list(parse_broker_log(lines, "server.log", 1))


PATH = "/data/orders-0/00000000000000000000.log"


def claiming(offset: int, size: int, said: int) -> str:
    """A record's line with a payload of `size` bytes that is said to be of another size."""
    return record_line(offset, "k", "v" * size).replace(f"valueSize: {size}", f"valueSize: {said}")


@pytest.mark.parametrize(
    "text",
    (
        "Dumping \n" * 30_000,
        f"Dumping {PATH}\n" * 10_000,
        "Dumping /a.log\nStarting offset: 1\n" * 10_000,
        listing(PATH, batch_line(0, 0, 0, 70)) + "\n" * 100_000,
        listing(PATH, batch_line(0, 0, 0, 70)) + "x" * 5_000_000,
        listing(PATH, batch_line(0, 0, 0, 70)) + "baseOffset: 1 " * 300_000,
        listing(PATH, batch_line(0, 0, 0, 70)) + "Caused by: " * 300_000,
        listing(PATH, batch_line(0, 9, 0, 70), *[claiming(n % 10, 9, 2_000_000_000) for n in range(5000)]),
        listing(PATH, batch_line(0, 9, 0, 70), *[claiming(0, 900, 60_000) for _ in range(3000)]),
        listing(PATH, batch_line(0, 9, 0, 70), claiming(0, 60_000, 60_010)) + "\n" * 100_000,
    ),
    ids=lambda text: repr(text[-30:])[:20],
)
def test_a_hostile_listing_is_read_in_seconds(text):
    stream = io.BytesIO(text.encode())
    with cpu_seconds(4):
        sections = find_sections(stream)
        for section in sections[:20] or [Section("", 0, len(text))]:
            parse_listing(stream, section)


def _zstd_of(*blocks: bytes) -> bytes:
    """A frame of blocks; without content size, of a window of 2 MiB."""
    return b"\x28\xb5\x2f\xfd\x00\x58" + b"".join(blocks)


def _zstd_block(kind: int, size: int, content: bytes, last: bool = False) -> bytes:
    return struct.pack("<I", size << 3 | kind << 1 | last)[:3] + content


RLE = _zstd_block(1, 131_072, b"\0")
LZ4_HEAD = b"\x04\x22\x4d\x18\x60\x70\x00"
COMPRESSED = {
    "zstd, 2 GiB of zeros": (ZSTD, _zstd_of(RLE * 16_384, _zstd_block(1, 1, b"\0", True))),
    "zstd, empty blocks": (ZSTD, _zstd_of(_zstd_block(0, 0, b"") * 500_000)),
    "zstd, no last block": (ZSTD, _zstd_of(RLE * 10)),
    "zstd, a window of 3 TiB": (ZSTD, b"\x28\xb5\x2f\xfd\x00\xff" + _zstd_block(1, 1, b"\0", True)),
    "zstd, 16 EiB said": (ZSTD, b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + _zstd_block(1, 1, b"\0", True)),
    "zstd, many frames": (ZSTD, _zstd_of(_zstd_block(0, 0, b"", True)) * 5_000),
    "zstd, skipped frame past the end": (ZSTD, b"\x50\x2a\x4d\x18\xff\xff\xff\xff"),
    "lz4, tiny blocks": (LZ4, LZ4_HEAD + (b"\x04\x00\x00\x00" + b"\x30abc") * 8000),
    "lz4, a block of 4 GiB": (LZ4, LZ4_HEAD + b"\xff\xff\xff\x7f"),
    "gzip, many members": (GZIP, bytes.fromhex("1f8b080000000000000303000000000000000000") * 5000),
    "snappy, 4 GiB said": (SNAPPY, b"\xff\xff\xff\xff\x0f\x00"),
    "snappy, empty blocks": (SNAPPY, b"\x82SNAPPY" + bytes(9) + b"\x00\x00\x00\x01\x00" * 10_000),
    "nothing": (ZSTD, b""),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed_bytes_that_claim_much(name):
    codec, data = COMPRESSED[name]
    tracemalloc.start()
    try:
        with cpu_seconds(1.5):
            try:
                assert len(decompress(codec, data)) <= 64 << 20
            except CodecError as error:
                assert len(str(error)) < 300
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", (GZIP, SNAPPY, LZ4, ZSTD))
def test_bytes_cut_or_changed_anywhere_raise_nothing_else(codec):
    import cramjam

    raw = b"".join(b"record %d of many " % number for number in range(200))
    packed = {
        GZIP: lambda: bytes(cramjam.gzip.compress(raw)),
        SNAPPY: lambda: bytes(cramjam.snappy.compress_raw(raw)),
        LZ4: lambda: (
            LZ4_HEAD
            + (lambda block: struct.pack("<I", len(block)) + block)(
                bytes(cramjam.lz4.compress_block(raw, store_size=False))
            )
            + bytes(4)
        ),
        ZSTD: lambda: bytes(cramjam.zstd.compress(raw)),
    }[codec]()
    assert decompress(codec, packed) == raw
    dice = random.Random(codec)
    for _ in range(1500):
        broken = bytearray(packed)
        for _ in range(dice.randint(1, 3)):
            broken[dice.randrange(len(broken))] = dice.randrange(256)
        with suppress(CodecError):
            decompress(codec, bytes(broken[: dice.randrange(len(broken) + 1)]))


def test_thousands_of_broken_frames_give_their_memory_back():
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    broken = _zstd_of(RLE, _zstd_block(2, 5, b"\xff" * 5, True))
    before = resident()
    with cpu_seconds(3):
        for _ in range(4_000):
            with pytest.raises(CodecError):
                decompress(ZSTD, broken)
    assert resident() - before < 50 << 20


def _varint(number: int) -> bytes:
    number = (number << 1 ^ number >> 63) & (1 << 64) - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*encoded, number))


@pytest.mark.parametrize("length", (2**63 - 1, 2**63 - 70, 2**63 - 90, 2**62, 2**31, 2**31 - 1, -2, -(2**63)))
@pytest.mark.parametrize("field", ("record", "key", "value", "headers", "header key", "header value"))
def test_a_record_that_announces_more_than_there_is(field, length):
    lengths = {"record": None, "key": 1, "value": 1, "headers": 1, "header key": 1, "header value": 1, field: length}
    body = b"\0\0\0" + _varint(lengths["key"]) + b"k" + _varint(lengths["value"]) + b"v" + _varint(lengths["headers"])
    body += _varint(lengths["header key"]) + b"h" + _varint(lengths["header value"]) + b"x"
    records = _varint(len(body) if lengths["record"] is None else length) + body
    header = struct.pack(">qiibIhiqqqhii", 0, 49 + len(records), 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)
    with pytest.raises(RecordError) as caught:
        decode_records(header + records, RecordHasher())
    assert len(str(caught.value)) < 300


BAD_LINES = (b"x", b"{}", b'{"topic":1}', b'{"topic":"t","partition":"0","broker_id":1}', b"[" * 50)


@pytest.mark.parametrize("line", BAD_LINES)
def test_bad_lines_of_observations_cost_what_good_ones_cost(line, tmp_path):
    good = b'{"topic":"t","partition":0,"time_ms":1,"broker_id":1}\n'
    (tmp_path / "replica_progress.jsonl").write_bytes((line + b"\n") * 5_000 + good)
    snapshot = Snapshot.open(tmp_path)
    size = (tmp_path / "replica_progress.jsonl").stat().st_size
    with cpu_seconds(1.5):
        parts = plan_progress(snapshot, [("replica_progress.jsonl", size)])
        found = [item for part in parts for item in read_progress(snapshot, part)]
    rows = [item for item in found if not isinstance(item, QuarantineRow)]
    assert sum(table.num_rows for table in rows) == 1 and 1 <= len(found) - len(rows) <= 21

"""Small files that are decoded and summed up together: what each is, it is by itself too."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from tests.support.encoder import encode_batch, encode_legacy, encode_marker
from tests.support.fixtures import ATTACKS, FIXTURES
from tests.support.scanned import scan_file, summarise_segment

from replica_audit.model import SegmentSummary
from replica_audit.segments import summary as summary_module
from replica_audit.segments.scan import decode_small, scan_segment
from replica_audit.segments.summary import Summariser, sum_up

SMALL = 64 << 10


def together(contents: list[bytes], base_offsets: list[int]) -> dict[int, SegmentSummary]:
    found = decode_small(contents)
    summarisers = [Summariser(f"{number}.log", base_offsets[number], len(contents[number])) for number in found.numbers]
    sum_up(summarisers, found.batches, found.starts)
    return dict(zip(found.numbers, (one.finish() for one in summarisers), strict=True))


def alone(content: bytes, number: int, base_offset: int) -> SegmentSummary:
    return summarise_segment(io.BytesIO(content), f"{number}.log", base_offset, len(content))


def same_as_alone(contents: list[bytes], base_offsets: list[int]) -> set[int]:
    """Numbers of those that were decoded together, which are what a scan of their own makes of them."""
    found = together(contents, base_offsets)
    for number, summary in found.items():
        assert summary == alone(contents[number], number, base_offsets[number]), number
    for number, batches in decode_small(contents).each():
        (own,) = scan_segment(io.BytesIO(contents[number]), len(contents[number]), base_offsets[number])
        assert np.array_equal(own, batches)
    return set(found)


def test_every_file_of_the_captures():
    """Sound ones are decoded together, and only these."""
    paths = [*FIXTURES.glob("*/*/*/*.log"), *ATTACKS.glob("*/*/*/*/*.log")]
    paths = sorted({path.read_bytes(): path for path in paths if path.stat().st_size <= SMALL}.values())
    contents, base_offsets = [path.read_bytes() for path in paths], [int(path.name[:20]) for path in paths]
    decoded = same_as_alone(contents, base_offsets)
    assert len(decoded) > 100
    assert decoded == {number for number, path in enumerate(paths) if _is_sound(path)}


def _is_sound(path: Path) -> bool:
    items = scan_file(path)
    return (
        len(items) == 1
        and isinstance(items[0], np.ndarray)
        and all(~np.isin(items[0]["magic"], (0, 1)) & items[0]["crc_valid"])
    )


MADE = {
    "whole": [encode_batch(0, 3, 1), encode_batch(3, 2, 2)],
    "gap": [encode_batch(0, 3, 1), encode_batch(9, 2, 2)],
    "below its name": [encode_batch(0, 3, 1)],
    "repeated": [encode_batch(0, 3, 1), encode_batch(0, 3, 1)],
    "epoch falls": [encode_batch(0, 3, 4), encode_batch(3, 2, 2)],
    "producer": [encode_batch(0, 3, 1, producer_id=7, producer_epoch=0, base_sequence=0)],
    "producer repeats": [encode_batch(n, 1, 1, producer_id=7, producer_epoch=0, base_sequence=5) for n in range(2)],
    "transaction": [
        encode_batch(0, 3, 1, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
        encode_marker(3, "COMMIT", 1, producer_id=7, producer_epoch=0),
        encode_batch(4, 1, 1, producer_id=8, producer_epoch=0, base_sequence=0, transactional=True),
    ],
    "two chunks": [encode_batch(65_530, 10, 1), encode_batch(65_540, 1, 1), encode_batch(200_000, 1, 1)],
    "sparse": [encode_batch(0, 3, 1, last_offset_delta=9)],
}
OTHERS = {
    "empty": [],
    "torn": [encode_batch(0, 3, 1)[:-1]],
    "zeros": [encode_batch(0, 3, 1), bytes(50)],
    "old": [encode_legacy(0, b"old")],
    "old at the end": [encode_batch(0, 3, 1), encode_legacy(3, None, magic=0)],
    "wrong checksum": [encode_batch(0, 3, 1)[:-1] + b"?"],
}


def test_made_files_in_any_company():
    kinds = {**MADE, **OTHERS}
    order = [name for pair in zip(kinds, reversed(kinds), strict=True) for name in pair]
    contents = [b"".join(kinds[name]) for name in order]
    base_offsets = [5 if name == "below its name" else 0 for name in order]
    assert same_as_alone(contents, base_offsets) == {number for number, name in enumerate(order) if name in MADE}
    assert same_as_alone([b"", b"x"], [0, 0]) == set()


def test_calls_of_numpy_do_not_grow_with_files(monkeypatch: pytest.MonkeyPatch):
    calls: list[int] = []
    digest = summary_module.digest_chunks
    monkeypatch.setattr(
        summary_module, "digest_chunks", lambda rows, starts: calls.append(len(rows)) or digest(rows, starts)
    )
    together([b"".join(MADE["whole"])] * 500, [0] * 500)
    assert calls == [1000]

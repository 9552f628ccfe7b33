"""Whatever happens to the bytes of a segment: no error, every byte accounted for, every untouched batch found again."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.encoder import encode_batch, encode_legacy, encode_wrapper
from tests.support.random_segments import EDITS, SHARES, apply_edits, segments

from replica_audit.model import Damage
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.segments.scan import scan_segment
from replica_audit.segments.summary import Summariser, summary_from_json, summary_to_json


def _lies_in(start: int, begin: int, data: bytes, batches: list[bytes]) -> bool:
    """Within a batch that is whole but for its base offset, which no checksum covers."""
    return any(begin < start < begin + len(batch) and data.startswith(batch[8:], begin + 8) for batch in batches)


@settings(max_examples=400, deadline=None)
@given(segments(), EDITS, st.sampled_from([130, 300, 8 << 20]))
def test_no_edit_makes_the_scan_fail_lose_a_byte_or_lose_an_untouched_batch(segment, edits, window):
    base, batches = segment
    data, untouched = apply_edits(batches, edits)
    position = 0
    sound = set()
    summariser = Summariser("t-0/x.log", base, len(data))
    for item in scan_segment(io.BytesIO(data), len(data), base, window):
        if isinstance(item, Damage):
            assert item.position == position and item.length > 0
            position += item.length
        else:
            assert item.dtype == BATCH_DTYPE and len(item)
            ends = item["position"] + item["size"]
            assert item["position"][0] == position and (item["position"][1:] == ends[:-1]).all()
            position = int(ends[-1])
            sound |= set(item["position"][item["crc_valid"]].tolist())
        summariser.add(item)
    assert position == len(data)
    # A batch may be whole at two places: a byte removed before it, or its own first one, when both are the same.
    moved = {start for start in untouched - sound if any(_lies_in(start, begin, data, batches) for begin in sound)}
    assert untouched - moved <= sound
    summary = summariser.finish()
    assert summary_from_json(summary_to_json(summary)) == summary
    assert summary.tail_kind in ("clean", "partial", "zero_filled", "garbage")
    assert (summary.tail_kind == "clean") == (summary.tail_length == 0)


@settings(max_examples=150, deadline=None)
@given(segments(), SHARES)
def test_a_log_that_was_cut_anywhere_ends_in_a_partial_batch_or_none(segment, share):
    base, batches = segment
    data = b"".join(batches)
    data = data[: int(share * len(data))]
    ends = set(np.cumsum([0, *map(len, batches)]).tolist())
    items = list(scan_segment(io.BytesIO(data), len(data), base))
    kinds = [item.kind for item in items if isinstance(item, Damage)]
    assert kinds == ([] if len(data) in ends else ["partial"])


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=3000), st.sampled_from([130, 8 << 20]))
def test_bytes_of_any_kind_are_accounted_for(data, window):
    items = list(scan_segment(io.BytesIO(data), len(data), 0, window))
    assert sum(item.length if isinstance(item, Damage) else int(item["size"].sum()) for item in items) == len(data)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_the_messages_of_a_wrapper_that_breaks_off_are_no_entries_of_the_log(magic, codec):
    """Codecs store what they cannot compress: the message then lies in the wrapper as it is."""
    base = 2**31
    first = encode_legacy(base, b"value", magic=magic)
    wrapper = encode_wrapper(base + 1, [(b"k0", b"value")], codec, magic=magic)
    for end in range(len(first) + 1, len(first) + len(wrapper)):
        data = (first + wrapper)[:end]
        kinds = [item.kind for item in scan_segment(io.BytesIO(data), end, base) if isinstance(item, Damage)]
        assert kinds == ["partial"], end


@pytest.mark.parametrize(
    ("batches", "edit", "untouched"),
    [
        # The time stamp's bytes lie where the magic byte and the attributes were.
        ([encode_legacy(1, b"v", magic=1), encode_legacy(2, b"value", magic=0)], slice(0, 3), 1),
        ([encode_legacy(77, b"v", magic=1), encode_batch(78, 1, 0)], slice(0, 3), 1),
        ([encode_wrapper(1, [(b"k", b"v")], "gzip", magic=1), encode_batch(2, 2, 0)], slice(0, 3), 1),
        # The null key's bytes lie where the attributes were.
        ([encode_legacy(77, b"v", magic=0), encode_legacy(78, b"value", magic=1)], slice(0, 1), 1),
        # The epoch, the magic byte and half of the CRC are gone.
        ([encode_batch(0, 1, 0, codec="lz4"), encode_batch(1, 3, 2), encode_batch(4, 1, 2)], slice(6, 19), 1),
    ],
)
def test_a_shifted_header_hides_no_batch_after_it(batches, edit, untouched):
    """Removed bytes make a header look like a wrapper of a great offset that the end of the file breaks off."""
    data = bytearray(b"".join(batches))
    del data[edit]
    base = int.from_bytes(batches[0][:8], "big")
    assert _sound_places(data, base) == _places(data, batches[untouched:])


def test_a_wrapper_whose_size_was_shifted_hides_no_batch_after_it():
    """A byte of the offset is gone and one was put in after the size: offset and size are 256 times what they were."""
    batches = [encode_wrapper(0, [(b"k0", b"v"), (b"k1", b"v")], "gzip", magic=0), encode_batch(2, 1, 0)]
    data = bytearray(b"".join(batches))
    data.insert(12, 0)
    del data[0]
    assert _sound_places(data, 0) == _places(data, batches[1:])


def _sound_places(data: bytes, base: int) -> set[int]:
    items = scan_segment(io.BytesIO(bytes(data)), len(data), base, 130)
    return {int(row["position"]) for item in items if not isinstance(item, Damage) for row in item if row["crc_valid"]}


def _places(data: bytes, batches: list[bytes]) -> set[int]:
    """Positions of `batches` at the end of the file."""
    return {len(data) - sum(map(len, batches[number:])) for number in range(len(batches))}


@pytest.mark.parametrize("left", [0, 3, 8, 17, 60])
@pytest.mark.parametrize("gap", [0, 5])
def test_a_shifted_base_offset_hides_no_batch_with_a_lower_one(left, gap):
    """No CRC covers the base offset: one byte put in after it multiplies it by 256, and the batch is sound."""
    batches = [encode_batch(offset, 1, 0) for offset in (8, 9, 10, 11 + gap)]
    data = bytearray(b"".join(batches))
    del data[len(data) - len(batches[3]) + left :]
    data.insert(len(batches[0]) + 40, 0)
    data.insert(8, 0)
    items = [item for item in scan_segment(io.BytesIO(bytes(data)), len(data), 8) if not isinstance(item, Damage)]
    assert [int(row["base_offset"]) for item in items for row in item] == [8 * 256, 10]


def test_a_flipped_base_offset_hides_no_batch_with_a_lower_one():
    """The first batch's own is 2^56 now, the second is damaged, and after the third there is a gap, then a torn batch."""
    batches = [encode_legacy(0, b"", magic=0), *(encode_batch(offset, 1, 0) for offset in (1, 2, 8))]
    data = bytearray(b"".join(batches))[:-20]
    data.insert(len(batches[0]) + 40, 0)
    data[0] ^= 1
    items = [item for item in scan_segment(io.BytesIO(bytes(data)), len(data), 0) if not isinstance(item, Damage)]
    assert [int(row["base_offset"]) for item in items for row in item] == [2**56, 2]


def test_a_flipped_base_offset_hides_no_batch_with_a_lower_one_before_a_gap():
    """The third is followed by a batch of a later offset than its next one, which is sound."""
    batches = [encode_legacy(0, b"", magic=0), *(encode_batch(offset, 1, 0) for offset in (1, 2, 8))]
    data = bytearray(b"".join(batches))
    data.insert(len(batches[0]) + 40, 0)
    data[0] ^= 1
    items = [item for item in scan_segment(io.BytesIO(bytes(data)), len(data), 0) if not isinstance(item, Damage)]
    assert [int(row["base_offset"]) for item in items for row in item] == [2**56, 2, 8]

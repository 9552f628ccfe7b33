"""A file scanned on from where an earlier scan ended gives what a scan of the whole file gives."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.encoder import encode_batch, flip
from tests.support.random_segments import EDITS, SHARES, apply_edits, segments

from replica_audit.model import Damage
from replica_audit.segments.known_segments import (
    KnownSegment,
    Relation,
    hash_headers,
    in_order,
    is_unchanged,
    relate,
    sound_end,
)
from replica_audit.segments.scan import scan_segment
from replica_audit.segments.summary import Summariser


def summarise(data, base, known=()):
    """Summary, the batches, and where the last of them begins."""
    summariser, arrays = Summariser("t-0/x.log", base, len(data)), []
    for item in scan_segment(io.BytesIO(data), len(data), base, known=known):
        summariser.add(item)
        if not isinstance(item, Damage):
            arrays.append(item)
    return summariser.finish(), arrays, int(arrays[-1]["position"][-1]) if arrays else None


def known_of(data, base, change="1 2 3"):
    summary, arrays, last = summarise(data, base)
    headers = hash_headers(io.BytesIO(data), last)
    known = KnownSegment("/a", len(data), summary.batch_count, change, headers, last, "s", 0, "f", 0)
    return known, summary, arrays


@settings(max_examples=200, deadline=None)
@given(segments(), SHARES, EDITS, st.sampled_from([b"", bytes(40), b"\1\2\3"]))
def test_a_file_that_grew_is_scanned_on_as_if_it_was_scanned_whole(segment, share, edits, tail):
    """What was there ends in a sound batch, a torn one, zeros or rubbish; what came may be damaged in any way."""
    base, batches = segment
    count = int(share * (len(batches) + 1))
    there, (came, _) = b"".join(batches[:count]), apply_edits(batches[count:], edits)
    before, after = there + (came[:30] + tail), there + came
    known, summary, arrays = known_of(before, base)
    relation = relate(io.BytesIO(after), len(after), "1 9 9", "/a", known, summary)
    # Zeros at the end may have been allocated beforehand, and be written now.
    if len(after) < len(before) or (len(after) == len(before) and summary.tail_kind != "zero_filled"):
        assert relation is Relation.OTHER
        return
    if relation is Relation.GROWN:
        found, rows, _ = summarise(after, base, arrays)
        assert found == summarise(after, base)[0]
        assert sound_end(summary) == (int(arrays[-1]["position"][-1] + arrays[-1]["size"][-1]))
        assert sum(map(len, rows)) == found.batch_count


@settings(max_examples=100, deadline=None)
@given(segments(), EDITS, st.integers(1, 5))
def test_batches_and_damage_come_in_the_order_of_a_scan_however_they_were_cut(segment, edits, step):
    base, batches = segment
    data, _ = apply_edits(batches, edits)
    summary, arrays, _ = summarise(data, base)
    summariser = Summariser("t-0/x.log", base, len(data))
    cut = (rows[start : start + step] for rows in arrays for start in range(0, len(rows), step))
    for item in in_order(cut, summary.damage):
        summariser.add(item)
    assert summariser.finish() == summary


BATCHES = [encode_batch(offset, 3, 1, mark="x" * 50) for offset in range(0, 30, 3)]
WHOLE = b"".join(BATCHES)


@pytest.mark.parametrize(
    ("data", "change", "expected"),
    [
        (WHOLE, "1 2 3", Relation.SAME),
        (WHOLE, "7 2 9", Relation.SAME),
        (WHOLE, "1 2 9", Relation.OTHER),
        (WHOLE, "7 8 9", Relation.OTHER),
        (WHOLE, None, Relation.OTHER),
        (WHOLE + encode_batch(30, 3, 1), "1 8 9", Relation.GROWN),
        (WHOLE[:-1], "1 2 3", Relation.OTHER),
        (flip(WHOLE, 20), "7 2 9", Relation.OTHER),
        (flip(WHOLE, len(WHOLE) - len(BATCHES[-1]) + 20), "7 2 9", Relation.OTHER),
        (flip(WHOLE, len(WHOLE) - len(BATCHES[-1]) + 20) + encode_batch(30, 3, 1), "1 8 9", Relation.OTHER),
        (flip(WHOLE, 20) + encode_batch(30, 3, 1), "1 8 9", Relation.OTHER),
        (b"".join(BATCHES[:5]) + b"".join(encode_batch(o, 3, 2, mark="y" * 51) for o in range(15, 60, 3)), "1 8 9", Relation.OTHER),
        # What is not seen: a change inside that keeps size, time and both headers.
        (flip(WHOLE, len(BATCHES[0]) + 70), "7 2 9", Relation.SAME),
    ],
    ids=[
        "untouched", "a copy that kept its time", "the same inode, changed and its time set back", "a copy with a new time",
        "nothing known of its time", "grown", "cut", "first header", "last header", "grown over another last header",
        "grown, first header", "cut and written on by another leader", "damage inside a copy",
    ],
)  # fmt: skip
def test_what_a_file_is_to_the_one_that_was_known(data, change, expected):
    known, summary, _ = known_of(WHOLE, 0)
    assert relate(io.BytesIO(data), len(data), change, "/a", known, summary) is expected


def test_a_link_elsewhere_has_the_inode_and_another_time_of_it():
    assert is_unchanged("1 2 3", "1 2 9", same_place=False)
    assert not is_unchanged("1 2 3", "1 2 9", same_place=True)
    assert is_unchanged('etag "a"', 'etag "a"', same_place=False)
    assert not is_unchanged('etag "a"', 'etag "b"', same_place=False)
    assert not is_unchanged('etag "a"', "1 2 3", same_place=False)


def test_a_file_that_was_allocated_beforehand_grows_into_its_zeros():
    before = WHOLE + bytes(5000)
    after = (WHOLE + encode_batch(30, 3, 1)).ljust(len(before), b"\0")
    known, summary, arrays = known_of(before, 0)
    assert relate(io.BytesIO(after), len(after), "1 8 9", "/a", known, summary) is Relation.GROWN
    assert summarise(after, 0, arrays)[0] == summarise(after, 0)[0]
    rewritten = flip(WHOLE, 20).ljust(len(before), b"\0")
    assert relate(io.BytesIO(rewritten), len(after), "1 8 9", "/a", known, summary) is Relation.OTHER
    assert relate(io.BytesIO(before), len(before), "1 2 3", "/a", known, summary) is Relation.SAME


@pytest.mark.parametrize("place", [20, len(BATCHES[0]) + 70, len(WHOLE) - 3])
def test_a_file_that_was_damaged_is_not_scanned_on(place):
    """How far damage reaches shows in what follows it."""
    damaged = flip(WHOLE, place)
    known, summary, _ = known_of(damaged, 0)
    grown = damaged + encode_batch(30, 3, 1)
    assert sound_end(summary) is None
    assert relate(io.BytesIO(grown), len(grown), "1 8 9", "/a", known, summary) is Relation.OTHER
    assert relate(io.BytesIO(damaged), len(damaged), "1 2 3", "/a", known, summary) is Relation.SAME


def test_few_bytes_are_read_of_a_file_that_is_the_same():
    known, summary, _ = known_of(WHOLE, 0)

    class Counting(io.BytesIO):
        count = 0

        def read(self, size=-1):
            data = super().read(size)
            self.count += len(data)
            return data

    stream = Counting(WHOLE)
    relate(stream, len(WHOLE), "1 2 3", "/a", known, summary)
    assert stream.count == 2 * 61

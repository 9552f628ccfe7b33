"""Random segments, and random edits of their bytes."""

from __future__ import annotations

from hypothesis import strategies as st
from tests.support.encoder import encode_batch, encode_legacy, encode_wrapper


@st.composite
def segments(draw) -> tuple[int, list[bytes]]:
    """A segment's base offset and its batches: some of magic 0 or 1 first, then magic 2, perhaps with gaps."""
    base = draw(st.sampled_from([0, 1, 77, 2**31, 2**40]))
    offset, batches = base, []
    for _ in range(draw(st.integers(0, 4))):
        magic = draw(st.sampled_from([0, 1]))
        count = draw(st.integers(1, 3))
        if draw(st.booleans()):
            messages = [(b"k%d" % number, b"value") for number in range(count)]
            batches.append(
                encode_wrapper(offset, messages, draw(st.sampled_from(["gzip", "snappy", "lz4"])), magic=magic)
            )
            offset += count
        else:
            batches.append(encode_legacy(offset, draw(st.binary(max_size=60)), magic=magic))
            offset += 1
    for _ in range(draw(st.integers(0, 8))):
        count = draw(st.integers(1, 4))
        codec = draw(st.sampled_from(["none", "none", "zstd", "lz4"]))
        batches.append(
            encode_batch(offset, count, draw(st.integers(0, 3)), codec=codec, mark=draw(st.text("ab", max_size=40)))
        )
        offset += count + draw(st.sampled_from([0, 0, 0, 5]))
    return base, batches


#: Places as a share of the file, so that they shrink and do not depend on its length.
SHARES = st.floats(0, 1, exclude_max=True)
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("cut"), SHARES),
        st.tuples(st.just("flip"), SHARES, st.integers(0, 7)),
        st.tuples(st.just("insert"), SHARES, st.binary(min_size=1, max_size=80)),
        st.tuples(st.just("remove"), SHARES, st.integers(1, 80)),
        st.tuples(st.just("zero"), SHARES, st.integers(1, 200)),
        st.tuples(st.just("append"), st.binary(min_size=1, max_size=100)),
    ),
    max_size=3,
)


def apply_edits(batches: list[bytes], edits: list[tuple]) -> tuple[bytes, set[int]]:
    """The edited file, and the positions at which an untouched batch now begins.

    Each byte carries the number of its batch along, or -1 when it was put in or changed.
    """
    data = bytearray(b"".join(batches))
    owners = [number for number, batch in enumerate(batches) for _ in batch]
    for kind, *arguments in edits:
        if kind == "append":
            data += arguments[0]
            owners += [-1] * len(arguments[0])
            continue
        place = int(arguments[0] * len(data))
        if kind == "cut":
            del data[place:], owners[place:]
        elif kind == "flip" and data:
            data[place] ^= 1 << arguments[1]
            owners[place] = -1
        elif kind == "insert":
            data[place:place] = arguments[1]
            owners[place:place] = [-1] * len(arguments[1])
        elif kind == "remove":
            del data[place : place + arguments[1]], owners[place : place + arguments[1]]
        elif kind == "zero":
            end = min(len(data), place + arguments[1])
            data[place:end] = bytes(end - place)
            owners[place:end] = [-1] * (end - place)
    untouched = set()
    for number, batch in enumerate(batches):
        if number in owners:
            start = owners.index(number)
            if owners[start : start + len(batch)] == [number] * len(batch):
                untouched.add(start)
    return bytes(data), untouched

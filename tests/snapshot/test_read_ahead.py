"""Objects of a store as files: what is read is right however it is read, and little is asked for that nobody wants."""

from __future__ import annotations

import io
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.some import some

from replica_audit.snapshot import read_ahead
from replica_audit.snapshot.read_ahead import ReadAhead, read_many, run_ahead

DATA = bytes(range(256)) * 40


class Object:
    """An object of a store that notes what is asked of it."""

    def __init__(self, data=DATA):
        self.data, self.asked, self.closed = data, [], 0

    def read_at(self, count, position):
        self.asked.append((position, count))
        return self.data[position : position + count]

    def close(self):
        self.closed += 1

    def open(self):
        return ReadAhead(self.read_at, len(self.data), self.close)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(read_ahead, "PIECE_BYTES", 1000)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["seek", "read", "expect"]), st.integers(0, 11_000)), min_size=1, max_size=20)
)
def test_it_reads_as_any_file(steps):
    plain, stream = io.BytesIO(DATA), Object().open()
    read_ahead.PIECE_BYTES = 1000
    for step, number in some(steps):
        if step == "expect":
            stream.expect(number)
        else:
            assert getattr(stream, step)(number) == getattr(plain, step)(number)
            assert stream.tell() == plain.tell()


def test_reading_on_asks_for_every_byte_once_and_for_pieces_ahead():
    one = Object()
    with one.open() as stream:
        assert b"".join(iter(lambda: stream.read(700), b"")) == DATA
    # The first read asks for itself: it may be of a header.
    assert one.asked[0] == (0, 700)
    assert sorted(one.asked)[1:] == [(start, min(1000, len(DATA) - start)) for start in range(700, len(DATA), 1000)]
    assert one.closed == 1


def test_headers_here_and_there_are_all_that_is_read_of_a_file():
    one = Object()
    stream = one.open()
    for position in (0, 9000):
        stream.seek(position)
        assert stream.read(61) == DATA[position : position + 61]
    assert one.asked == [(0, 61), (9000, 61)]
    stream.expect(9500)
    stream.seek(9500)
    assert stream.read(5000) == DATA[9500:] and sum(count for _, count in one.asked) == 2 * 61 + len(DATA) - 9500


def test_an_object_that_shrank_or_fails_is_an_error_at_the_read_that_needs_it():
    shrunk = Object()
    stream = shrunk.open()
    shrunk.data = DATA[:1500]
    assert len(stream.read(1000)) == 1000
    with pytest.raises(OSError, match="expected 2000 bytes at 1000, found 500: the object changed"):
        stream.read(2000)

    def fail(*_):
        raise OSError("no such key")

    with pytest.raises(OSError, match="no such key"):
        ReadAhead(fail, 5000).read(4000)


def test_work_runs_ahead_of_who_takes_it_in_order_and_errors_stay_with_their_item():
    started, release = [], threading.Event()

    def work(number):
        started.append(number)
        if number:
            assert release.wait(10)
        if number == 2:
            raise ValueError("two")
        return -number

    made = run_ahead(work, range(9), 3)
    item, future = next(made)
    assert (item, future.result()) == (0, 0)
    release.set()
    found = [(item, future.exception() or future.result()) for item, future in made]
    assert [item for item, _ in found] == list(range(1, 9)) and str(found[1][1]) == "two"
    assert [made for item, made in found if item != 2] == [-item for item, _ in found if item != 2]
    assert [item for item, _ in run_ahead(str, [], 3)] == []
    started.clear()
    lazily = run_ahead(work, range(2), 0)
    next(lazily)
    assert started == [0], "without a store nothing runs ahead"
    assert [made if isinstance(made, int) else str(made) for _, made in read_many(work, range(4))] == [0, -1, "two", -3]

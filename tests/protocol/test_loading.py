"""The log end that a broker loads: which segments recovery checks, where it cuts, and what a log start past it does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_audit.model import Damage, Irregularity, SegmentSummary
from replica_audit.protocol.loading import LoadedLog, load_log, log_end_of

FIRST = SegmentSummary("0.log", 0, 500, last_offset=9)
SECOND = SegmentSummary("10.log", 10, 500, last_offset=19)
LAST = SegmentSummary("20.log", 20, 500, last_offset=29)


def torn(segment: SegmentSummary, position: int, expected: int | None) -> SegmentSummary:
    return replace(segment, damage=(Damage(position, 7, "", "corrupt", expected, None),))


def load(*segments: SegmentSummary, recovery_point: int | None = None, log_start: int | None = None) -> LoadedLog:
    return load_log(segments, clean=False, recovery_point=recovery_point, log_start_checkpoint=log_start)


def test_a_sound_log_is_loaded_whole():
    assert load(FIRST, SECOND, LAST) == LoadedLog(30)
    assert load() == LoadedLog(0)
    assert log_end_of([FIRST, replace(LAST, last_offset=None)]) == 20


def test_after_a_clean_stop_nothing_is_checked():
    broken = torn(FIRST, 100, 5)
    assert load_log([broken, LAST], clean=True, recovery_point=None, log_start_checkpoint=None) == LoadedLog(30)
    assert load(broken, LAST) == LoadedLog(5, "0.log", 100)


@pytest.mark.parametrize(
    ("recovery_point", "unchecked", "is_checked"),
    [(None, FIRST, False), (20, FIRST, True), (20, LAST, False), (None, SECOND, False), (10, SECOND, False)],
)
def test_an_end_is_only_checked_where_all_that_the_start_looks_at_is(recovery_point, unchecked, is_checked):
    log = [replace(one, unchecked_count=1) if one is unchecked else one for one in (FIRST, SECOND, LAST)]
    assert load(*log, recovery_point=recovery_point) == LoadedLog(30, is_checked=is_checked)
    assert load_log(log, clean=True, recovery_point=None, log_start_checkpoint=None) == LoadedLog(30)


def test_what_recovery_deletes_is_not_checked():
    first = torn(FIRST, 100, 5)
    assert load(first, replace(LAST, unchecked_count=1)).is_checked
    assert not load(replace(first, unchecked_count=1), LAST).is_checked


@pytest.mark.parametrize(
    ("recovery_point", "end"), [(None, 5), (0, 5), (9, 5), (10, 15), (19, 15), (20, 25), (29, 25), (1000, 25)]
)
def test_recovery_checks_segments_that_end_past_the_recovery_point_and_always_the_last(recovery_point, end):
    segments = torn(FIRST, 100, 5), torn(SECOND, 200, 15), torn(LAST, 300, 25)
    loaded = load(*segments, recovery_point=recovery_point)
    assert loaded.log_end_offset == end
    assert loaded.cut_position == {5: 100, 15: 200, 25: 300}[end]


def test_the_first_bad_batch_counts_whatever_is_wrong_with_it():
    crc = Irregularity("crc", 60, 3, 4, 0, None, "")
    gap = Irregularity("gap", 10, 1, 2, 0, None, "")
    assert load(replace(torn(FIRST, 100, 5), irregularities=(gap, crc))) == LoadedLog(3, "0.log", 60)
    assert load(replace(torn(FIRST, 50, 2), irregularities=(gap, crc))) == LoadedLog(2, "0.log", 50)
    assert load(torn(SECOND, 0, None)) == LoadedLog(10, "10.log", 0), "a file that begins with damage"
    assert load(torn(SECOND, 0, 4)).log_end_offset == 10, "never below the segment's base"


def test_a_log_start_past_the_end_is_the_end():
    assert load(FIRST, log_start=10) == LoadedLog(10)
    assert load(FIRST, log_start=25) == LoadedLog(25)
    assert load(torn(FIRST, 100, 5), log_start=8) == LoadedLog(8, "0.log", 100)
    assert load(torn(FIRST, 100, 5), log_start=5) == LoadedLog(5, "0.log", 100)


def test_a_log_start_below_the_end_moves_nothing():
    assert load(FIRST, log_start=4) == LoadedLog(10)
    assert load(torn(FIRST, 100, 5), log_start=4) == LoadedLog(5, "0.log", 100)


def test_without_a_recovery_point_also_a_segment_of_one_record_is_checked():
    one, following = replace(FIRST, last_offset=0), SegmentSummary("1.log", 1, 500, last_offset=9)
    assert load(torn(one, 60, 0), following) == LoadedLog(0, "0.log", 60)

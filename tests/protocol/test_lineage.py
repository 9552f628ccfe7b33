"""`Lineage` against what Kafka 3.9.1's `LeaderEpochFileCache` does, call by call."""

from __future__ import annotations

import pytest

from replica_audit.protocol.lineage import Lineage, increases

GOLDEN = Lineage(((2, 10), (4, 20), (7, 35)))
LOG_END = 50


def _entries(lineage: Lineage) -> dict[int, int]:
    return dict(lineage)


def test_assigning_an_epoch_earlier_than_its_start_moves_the_start_back():
    assert _entries(GOLDEN.assign(7, 30)) == {2: 10, 4: 20, 7: 30}


def test_assigning_the_latest_epoch_again_further_on_changes_nothing():
    lineage = GOLDEN.assign(7, 30)
    assert lineage.assign(7, 40) == lineage
    assert lineage.assign(7, 30) == lineage


def test_an_epoch_without_records_is_replaced_by_the_next_epoch_at_its_start():
    assert _entries(GOLDEN.assign(7, 30).assign(8, 50).assign(9, 50)) == {2: 10, 4: 20, 7: 30, 9: 50}


def test_assigning_an_older_epoch_evicts_every_entry_that_contradicts_it():
    lineage = GOLDEN.assign(7, 30).assign(8, 50).assign(9, 50)
    assert _entries(lineage.assign(5, 25)) == {2: 10, 4: 20, 5: 25}
    assert _entries(GOLDEN.assign(3, 60)) == {2: 10, 3: 60}


def test_assigning_to_the_empty_lineage_makes_its_first_entry():
    assert _entries(Lineage().assign(0, 0)) == {0: 0}
    assert _entries(Lineage().assign(9, 400)) == {9: 400}


def test_an_offset_at_or_below_every_start_evicts_all():
    assert _entries(GOLDEN.assign(8, 10)) == {8: 10}
    assert _entries(GOLDEN.assign(8, 0)) == {8: 0}


@pytest.mark.parametrize(("leader_epoch", "start_offset"), [(-1, 0), (0, -1), (-1, -1)])
def test_a_negative_epoch_or_offset_is_refused_with_both_values(leader_epoch, start_offset):
    with pytest.raises(ValueError, match=f"{leader_epoch}.*{start_offset}"):
        GOLDEN.assign(leader_epoch, start_offset)


def test_a_lineage_is_immutable():
    before = tuple(GOLDEN)
    GOLDEN.assign(9, 90)
    GOLDEN.truncate_from_end(0)
    GOLDEN.truncate_from_start(100)
    assert tuple(GOLDEN) == before
    with pytest.raises(AttributeError):
        GOLDEN.entries = ()


@pytest.mark.parametrize(
    ("start_offset", "expected"),
    [
        (5, {2: 10, 4: 20, 7: 35}),
        (10, {2: 10, 4: 20, 7: 35}),
        (20, {4: 20, 7: 35}),
        (25, {4: 25, 7: 35}),
        (35, {7: 35}),
        (99, {7: 99}),
    ],
)
def test_truncating_from_the_start_keeps_the_epoch_that_the_new_start_lies_in(start_offset, expected):
    assert _entries(GOLDEN.truncate_from_start(start_offset)) == expected


@pytest.mark.parametrize(
    ("end_offset", "expected"),
    [(36, {2: 10, 4: 20, 7: 35}), (35, {2: 10, 4: 20}), (20, {2: 10}), (11, {2: 10}), (10, {}), (0, {})],
)
def test_truncating_from_the_end_drops_an_epoch_that_starts_at_the_new_end(end_offset, expected):
    assert _entries(GOLDEN.truncate_from_end(end_offset)) == expected


def test_the_empty_lineage_can_be_truncated_and_stays_empty():
    assert not Lineage().truncate_from_end(0)
    assert not Lineage().truncate_from_start(0)


@pytest.mark.parametrize(("offset", "expected"), [(9, None), (10, 2), (19, 2), (20, 4), (34, 4), (35, 7), (100, 7)])
def test_the_epoch_of_an_offset_is_the_greatest_that_starts_at_or_below_it(offset, expected):
    assert GOLDEN.epoch_for_offset(offset) == expected


def test_the_empty_lineage_knows_the_epoch_of_no_offset():
    assert Lineage().epoch_for_offset(0) is None
    assert Lineage().latest_epoch is None
    assert Lineage().start_of(0) is None


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (-1, None),
        (0, (0, 10)),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 35)),
        (5, (4, 35)),
        (6, (4, 35)),
        (7, (7, 50)),
        (8, None),
    ],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next_greater_one_or_the_log_end(requested, expected):
    assert GOLDEN.end_offset_for(requested, LOG_END) == expected


@pytest.mark.parametrize(
    ("requested", "expected"),
    [(-1, None), (0, None), (1, None), (2, 20), (3, 20), (4, 35), (5, 35), (6, 35), (7, 50), (8, None)],
)
def test_before_2_0_1_an_epoch_below_the_first_is_undefined_and_the_answer_names_no_epoch(requested, expected):
    assert GOLDEN.end_offset_for_kip101(requested, LOG_END) == expected


@pytest.mark.parametrize("requested", [None, -1, 0, 7])
def test_the_empty_lineage_answers_undefined_to_every_request(requested):
    assert Lineage().end_offset_for(requested, LOG_END) is None
    assert Lineage().end_offset_for_kip101(requested, LOG_END) is None


def test_no_request_is_answered_undefined():
    assert GOLDEN.end_offset_for(None, LOG_END) is None
    assert GOLDEN.end_offset_for_kip101(None, LOG_END) is None


def test_a_file_read_in_order_gives_what_kafkas_loader_makes_of_it():
    assert _entries(Lineage.of([(0, 0), (1, 40), (2, 60)])) == {0: 0, 1: 40, 2: 60}
    # Starts that go back: the real 4.3.1 drops the entry that the later one contradicts.
    assert _entries(Lineage.of([(0, 0), (2, 50), (4, 30)])) == {0: 0, 4: 30}
    assert _entries(Lineage.of([(-1, 0), (0, -5), (1, 7)])) == {1: 7}
    assert Lineage.of([]) == Lineage()


def test_the_start_of_an_epoch_is_known_for_exactly_the_epochs_of_the_lineage():
    assert [GOLDEN.start_of(epoch) for epoch in (1, 2, 3, 4, 7, 8)] == [None, 10, None, 20, 35, None]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], True),
        ([(4, 20)], True),
        ([(2, 10), (4, 20), (7, 35)], True),
        # One epoch twice, and one that goes back.
        ([(2, 10), (2, 20)], False),
        ([(4, 10), (2, 20)], False),
        # Two epochs from one offset, and an offset that goes back.
        ([(2, 10), (4, 10)], False),
        ([(2, 30), (4, 10)], False),
        # Wherever in the file it is.
        ([(2, 10), (4, 20), (3, 35)], False),
        ([(4, 10), (2, 20), (7, 35)], False),
        ([(2, 10), (4, 20), (7, 15)], False),
    ],
)
def test_kafka_writes_entries_that_rise_in_epoch_and_offset(entries, expected):
    assert increases(entries) is expected


def test_what_changes_nothing_gives_the_very_same_lineage():
    assert GOLDEN.assign(7, 35) is GOLDEN
    assert GOLDEN.truncate_from_end(36) is GOLDEN
    assert GOLDEN.truncate_from_start(10) is GOLDEN


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        (GOLDEN.entries, ((1, 5), (2, 10)), None),
        (GOLDEN.entries, ((2, 5), (4, 20), (7, 35)), 20),
        (GOLDEN.entries, ((3, 8), (4, 20)), 8),
        ((), GOLDEN.entries, None),
    ],
    ids=["none later", "a later one", "later from the beginning on", "no epochs"],
)
def test_what_a_log_never_had_begins_with_the_first_epoch_later_than_its_own_first(own, other, expected):
    assert Lineage(own).lacked_from(Lineage(other)) == expected


@pytest.mark.parametrize(
    ("other", "start", "end", "expected"),
    [
        (GOLDEN.entries, 12, 50, 50),
        (((2, 10), (4, 20), (7, 40)), 12, 50, 35),
        (((2, 10), (4, 20), (7, 30)), 12, 50, 30),
        (((2, 10), (4, 20)), 12, 35, 35),
        (((2, 10), (4, 20)), 12, 30, 30),
        (((1, 0), (4, 20), (7, 35)), 20, 50, 50),
        (((3, 10), (4, 20), (7, 35)), 12, 50, 12),
        (GOLDEN.entries, 30, 20, 30),
    ],
    ids=["all", "begins later", "begins earlier", "to where it parts", "to below that", "from above it", "nothing", "no offset"],
)  # fmt: skip
def test_two_lineages_agree_to_the_first_offset_with_other_epochs(other, start, end, expected):
    assert GOLDEN.agrees_to(Lineage(other), start, end) == expected
    assert Lineage(other).agrees_to(GOLDEN, start, end) == expected


@pytest.mark.parametrize(
    ("other", "end", "expected"),
    [
        (GOLDEN.entries, 50, 50),
        (((2, 10), (4, 20), (6, 30)), 50, 30),
        (((2, 10), (4, 20), (9, 40)), 50, 35),
        (((2, 10), (4, 20), (9, 40)), 33, 33),
        (((0, 0), (3, 12)), 50, 0),
        ((), 50, 0),
    ],
    ids=["the same", "the other's ends first", "the own ends first", "bounded", "no common epoch", "no epochs"],
)
def test_two_logs_share_what_lies_below_the_lesser_end_of_their_last_common_epoch(other, end, expected):
    assert GOLDEN.shared_with(Lineage(other), end) == expected
    assert Lineage(other).shared_with(GOLDEN, end) == expected


@pytest.mark.parametrize("refused", [(-1, 0), (0, -1), (3, -1)])
def test_entries_that_assign_refuses_are_left_out(refused):
    assert _entries(Lineage.of([refused, (5, 7)])) == {5: 7}

"""Changes between versions of Kafka: the last version before each change and the first one with it."""

from __future__ import annotations

import pytest

from replica_audit.protocol import versions

SINCE_4 = (
    versions.runs_without_zookeeper,
    versions.can_have_elr,
    versions.empties_unrecovered,
    versions.skips_unled_markers,
)
#: (gate, version, whether it holds); KAFKA-13091's change is in force on either side of its two versions.
GATES = [
    (versions.stands_still_below_min_isr, (3, 6, 2), False),
    (versions.stands_still_below_min_isr, (3, 7, 0), True),
    (versions.counts_fenced_outsiders, (3, 5, 2), True),
    (versions.counts_fenced_outsiders, (3, 6, 0), False),
    (versions.holds_pending_isr, (2, 6, 3), False),
    (versions.holds_pending_isr, (2, 7, 0), True),
    (versions.tries_when_isr_changes, (2, 6, 3), True),
    (versions.tries_when_isr_changes, (2, 7, 0), False),
    (versions.tries_when_isr_changes, (2, 8, 2), False),
    (versions.tries_when_isr_changes, (3, 0, 0), True),
    (versions.waits_thirty_seconds, (2, 4, 1), False),
    (versions.waits_thirty_seconds, (2, 5, 0), True),
    (versions.cleans_below_mark, (3, 0, 2), False),
    (versions.cleans_below_mark, (3, 1, 0), True),
    (versions.may_mark_over_tail, (2, 7, 2), False),
    (versions.may_mark_over_tail, (2, 8, 0), True),
    (versions.may_mark_over_tail, (3, 4, 1), True),
    (versions.may_mark_over_tail, (3, 5, 0), False),
    (versions.caps_min_isr, (3, 6, 2), False),
    (versions.caps_min_isr, (3, 7, 0), True),
    (versions.can_be_kraft, (2, 7, 2), False),
    (versions.can_be_kraft, (2, 8, 0), True),
]


@pytest.mark.parametrize(("gate", "version", "holds"), GATES)
def test_a_gate_opens_with_the_version_of_its_change(gate, version, holds):
    assert gate(version) is holds
    assert gate(version[:2]) is holds


@pytest.mark.parametrize("gate", SINCE_4)
def test_a_gate_opens_with_4_0(gate):
    assert (gate((3, 9, 1)), gate((4, 0, 0)), gate((4, 0))) == (False, True, True)


@pytest.mark.parametrize("gate", sorted({*SINCE_4, *(gate for gate, _, _ in GATES)}, key=str))
def test_of_an_unknown_version_nothing_is_known(gate):
    assert gate(None) is None


@pytest.mark.parametrize(
    ("text", "version"), [(None, None), ("4.0", (4, 0)), ("3.9.1", (3, 9, 1)), (" 0.10.2.2\n", (0, 10, 2, 2))]
)
def test_a_version_is_numbers_with_dots_between(text, version):
    assert versions.parse_kafka_version(text) == version


@pytest.mark.parametrize("text", ["", "4", "4.", "4.x", "v4.0", "4.0-rc1", "4.²", "-4.0"])
def test_what_is_no_version_is_refused_as_it_was_given(text):
    with pytest.raises(ValueError, match=f"^kafka version {text!r}: expected numbers and dots"):
        versions.parse_kafka_version(text)


def test_a_later_major_version_is_later_whatever_its_minor():
    assert versions.stands_still_below_min_isr((4, 0)) and not versions.counts_fenced_outsiders((4, 0))
    assert versions.tries_when_isr_changes((4, 0)) and not versions.may_mark_over_tail((4, 0))
    assert versions.tries_when_isr_changes((3,)), "3 is 3.0"
    assert not versions.holds_pending_isr((1, 1)) and versions.tries_when_isr_changes((1, 1))


@pytest.mark.parametrize(
    ("version", "protocol"),
    [
        ((0, 10, 2), "high-watermark"),
        ((0, 11, 0), "kip-101"),
        ((1, 1, 1), "kip-101"),
        ((2, 0, 0), "kip-101"),
        ((2, 0, 1), "kip-279"),
        ((2, 7, 2), "kip-279"),
        ((2, 8, 0), "fetch"),
        ((4, 0), "fetch"),
    ],
)
def test_followers_truncate_by_the_protocol_of_their_version(version, protocol):
    assert versions.protocol_of(version) == protocol

"""Summaries of segments: what is irregular, what a chunk's digest tells, and the way through JSON."""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.encoder import encode_batch, encode_legacy, encode_marker
from tests.support.scanned import FIXTURES, batches_of, summarise_segment

from replica_audit.model import CHUNK_OFFSETS, Damage, EpochStart, SegmentSummary
from replica_audit.segments import summary as summary_module
from replica_audit.segments.digests import digest_chunks, merge_chunks
from replica_audit.segments.scan import scan_segment
from replica_audit.segments.summary import (
    summary_from_json,
    summary_to_json,
)

TIMESTAMP = 1_700_000_000_000


def summarise(*parts: bytes, base_offset: int = 0, window: int = 8 << 20) -> SegmentSummary:
    data = b"".join(parts)
    return summarise_segment(io.BytesIO(data), "t-0/segment.log", base_offset, len(data), window)


def kinds(summary: SegmentSummary) -> list[tuple[str, int]]:
    return [(one.kind, one.base_offset) for one in summary.irregularities]


def summarise_file(path: Path) -> SegmentSummary:
    with path.open("rb") as stream:
        return summarise_segment(stream, path.name, int(path.name[:20]), path.stat().st_size)


def test_a_regular_segment_has_nothing_irregular_and_all_its_facts():
    parts = [encode_batch(5, 3, 1), encode_batch(8, 2, 1, timestamp_ms=TIMESTAMP - 9), encode_batch(10, 4, 3)]
    summary = summarise(*parts, base_offset=5)
    assert (summary.batch_count, summary.record_count) == (3, 9)
    assert (summary.first_base_offset, summary.first_leader_epoch) == (5, 1)
    assert (summary.last_base_offset, summary.last_offset, summary.last_leader_epoch) == (10, 13, 3)
    assert summary.greatest_last_offset == 13
    assert summary.epoch_starts == (EpochStart(1, 5, 0), EpochStart(3, 10, len(parts[0]) + len(parts[1])))
    assert summary.irregularities == () and summary.irregularity_counts == {} and summary.damage == ()
    assert (summary.tail_kind, summary.tail_length) == ("clean", 0)
    assert (summary.greatest_magic, summary.has_epochs) == (2, True)
    assert not summary.has_delete_horizon and not summary.has_sparse_batch
    assert (summary.first_timestamp_ms, summary.last_timestamp_ms) == (TIMESTAMP - 9, TIMESTAMP)


def test_replicas_with_the_same_batches_are_summed_up_once(monkeypatch: pytest.MonkeyPatch):
    summed_up: list[int] = []

    def digest(batches, starts):
        summed_up.append(len(batches))
        return digest_chunks(batches, starts)

    monkeypatch.setattr(summary_module, "digest_chunks", digest)

    def summarise_replica(broker: int, *parts: bytes, base_offset: int = 5) -> SegmentSummary:
        data = b"".join(parts)
        return summarise_segment(
            io.BytesIO(data), f"broker-{broker}/t-0/{base_offset:020d}.log", base_offset, len(data)
        )

    parts = [encode_batch(5, 3, 1, timestamp_ms=TIMESTAMP + 77), encode_batch(8, 2, 2)]
    first, second = (summarise_replica(broker, *parts) for broker in (1, 2))
    assert summed_up == [2]
    assert second == replace(first, path="broker-2/t-0/00000000000000000005.log") != first
    # Neither of another epoch, nor in a segment of another name, nor before bytes that are no batch.
    others = [
        summarise_replica(3, parts[0], encode_batch(8, 2, 1)),
        summarise_replica(3, *parts, base_offset=6),
        summarise_replica(3, *parts, bytes(40)),
    ]
    assert summed_up == [2] * 4
    assert [one.epoch_starts[1:] for one in others] == [(), first.epoch_starts[1:], first.epoch_starts[1:]]
    assert [one.irregularity_counts for one in others] == [{}, {"segment_name": 1}, {}]
    assert [one.tail_length for one in others] == [0, 0, 40]


def test_an_empty_segment_has_no_facts():
    summary = summarise(base_offset=9)
    assert (summary.batch_count, summary.first_base_offset, summary.last_offset) == (0, None, None)
    assert summary.greatest_magic is None
    assert (summary.tail_kind, summary.chunks, summary.first_timestamp_ms) == ("clean", (), None)


@pytest.mark.parametrize("window", [8 << 20, 130])
def test_offsets_and_epochs_are_judged_against_the_batch_before_also_across_windows(window):
    parts = [
        encode_batch(10, 2, 4),
        encode_batch(15, 2, 4),  # 12 to 14 are missing
        encode_batch(15, 2, 4, mark="again"),
        encode_batch(16, 3, 4),  # 16 is there already, 17 and 18 are new
        encode_batch(19, 1, 2),
        encode_batch(20, 1, -1),
        encode_batch(21, 1, 3),
    ]
    summary = summarise(*parts, base_offset=10, window=window)
    assert kinds(summary) == [("gap", 15), ("duplicate", 15), ("regression", 16), ("epoch_regression", 19)]
    assert [one.previous for one in summary.irregularities] == [11, 16, 16, 4]
    assert [start.leader_epoch for start in summary.epoch_starts] == [4, 2, -1, 3]


def test_a_fall_of_the_epoch_is_seen_over_batches_without_one():
    assert kinds(summarise(encode_batch(0, 1, 5), encode_batch(1, 1, -1), encode_batch(2, 1, 4))) == [
        ("epoch_regression", 2)
    ]


def test_no_gap_is_reported_over_damage_which_says_the_offsets_itself():
    summary = summarise(encode_batch(0, 2, 0), b"\xff" * 50, encode_batch(9, 1, 0), encode_batch(12, 1, 0))
    assert kinds(summary) == [("gap", 12)]
    assert [(one.expected_offset, one.next_offset) for one in summary.damage] == [(2, 9)]


def test_offsets_outside_what_the_name_allows_are_reported():
    summary = summarise(encode_batch(4, 1, 0), encode_batch(5, 1, 0), encode_batch(5 + 2**31, 1, 0), base_offset=5)
    assert kinds(summary) == [("segment_name", 4), ("gap", 5 + 2**31), ("segment_name", 5 + 2**31)]


@pytest.mark.parametrize(
    "batch",
    [
        encode_batch(0, 2, 0, attributes=0x80),
        encode_batch(0, 2, 0, attributes=5),
        encode_batch(0, 2, 0, record_count=3),
        encode_batch(0, 2, 0, record_count=-1),
        encode_legacy(0, b"v", attributes=0x20),
    ],
    ids=["unknown bit", "codec 5", "more records than offsets", "negative count", "unknown legacy bit"],
)
def test_fields_that_cannot_be_are_reported(batch):
    assert kinds(summarise(batch)) == [("field", 0)]


def test_the_known_attributes_of_a_sound_batch_are_not_reported():
    parts = [
        encode_batch(0, 2, 0, attributes=0x5F & ~7, delete_horizon_ms=TIMESTAMP + 5),
        encode_marker(2, "COMMIT", 0, producer_id=3, producer_epoch=0),
        encode_batch(3, 0, 0, last_offset_delta=4),
    ]
    summary = summarise(*parts)
    assert summary.irregularities == ()
    assert summary.has_delete_horizon and summary.has_sparse_batch


def test_a_delete_horizon_is_no_time_of_a_record():
    summary = summarise(encode_batch(0, 1, 0, timestamp_ms=TIMESTAMP, delete_horizon_ms=5))
    assert (summary.first_timestamp_ms, summary.last_timestamp_ms) == (TIMESTAMP, TIMESTAMP)


def test_a_sequence_that_comes_twice_at_other_offsets_is_reported_once_a_batch():
    def batch(offset: int, sequence: int, epoch: int = 0, producer: int = 7, mark: str = "") -> bytes:
        return encode_batch(offset, 2, 0, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, mark=mark)

    regular = [batch(0, 0), batch(2, 2), batch(4, 0, producer=8), batch(6, 0, epoch=1), batch(8, 4)]
    assert summarise(*regular).irregularities == ()
    assert kinds(summarise(*regular, batch(10, 2))) == [("producer_duplicate", 10)]
    # The same batch copied within the file is a duplicate of offsets, not of a producer.
    assert kinds(summarise(*regular, batch(8, 4))) == [("duplicate", 8)]


def test_sequences_that_are_left_out_are_counted_where_a_producer_goes_on():
    def batch(offset: int, sequence: int, epoch: int = 0) -> bytes:
        return encode_batch(offset, 2, 0, producer_id=7, producer_epoch=epoch, base_sequence=sequence)

    # A log may begin anywhere in a producer's life, and a new epoch begins with 0.
    unbroken = summarise(batch(0, 40), batch(2, 42), batch(4, 0, epoch=1), batch(6, 2, epoch=1))
    broken = summarise(batch(0, 40), batch(2, 44), batch(4, 46), batch(6, 0, epoch=1), batch(8, 4, epoch=1))
    assert unbroken.irregularity_counts == {}
    assert broken.irregularity_counts == {"sequence_gap": 2} and broken.irregularities == ()
    assert unbroken.first_sequences == ((7, 0, 40), (7, 1, 0))
    assert broken.last_sequences == ((7, 0, 47), (7, 1, 5)), "in the order of their last batches"


def test_sequences_at_the_borders_of_a_segment_are_kept_of_a_hundred_producers():
    """Of those that begin first, and of those that end last, which the next segment may go on with."""
    both = [encode_batch(one, 1, 0, producer_id=one, producer_epoch=0, base_sequence=one) for one in range(150)]
    first = encode_batch(150, 1, 0, producer_id=0, producer_epoch=0, base_sequence=1)
    summary = summarise(*both, first)
    assert summary.first_sequences == tuple((one, 0, one) for one in range(100))
    assert summary.last_sequences == (*((one, 0, one) for one in range(51, 150)), (0, 0, 1))


def test_the_last_sequence_is_counted_on_from_0_past_the_greatest():
    greatest = (1 << 31) - 1
    summary = summarise(encode_batch(0, 2, 0, producer_id=7, producer_epoch=0, base_sequence=greatest))
    assert summary.last_sequences == ((7, 0, 0),)


def test_a_sequence_that_begins_with_0_again_is_told_once_with_the_offset_before_it():
    def batch(offset: int, sequence: int, records: int = 2, mark: str = "") -> bytes:
        return encode_batch(offset, records, 0, producer_id=7, producer_epoch=0, base_sequence=sequence, mark=mark)

    again = [batch(0, 0), batch(2, 2), batch(4, 4), batch(6, 0, mark="new"), batch(8, 2, mark="new"), batch(10, 4)]
    found = summarise(*again).irregularities
    assert [(one.kind, one.base_offset, one.previous) for one in found] == [("producer_duplicate", 6, 5)]
    twice = summarise(*again, batch(12, 2)).irregularities
    assert [(one.base_offset, one.previous) for one in twice] == [(6, 5), (12, None)]


@pytest.mark.parametrize(("last", "following"), [(2, 0), (5, 3), (1, None)])
def test_after_the_greatest_sequence_comes_0(last, following):
    """A batch may hold both: its records are numbered modulo 2^31."""
    first, wraps = 2**31 - 4, 2**31 - 2
    sequences = [(0, first, 2), (2, wraps, last)] + ([] if following is None else [(2 + last, following, 2)])
    parts = [
        encode_batch(offset, records, 0, producer_id=7, producer_epoch=0, base_sequence=sequence)
        for offset, sequence, records in sequences
    ]
    assert summarise(*parts).irregularities == ()


def test_a_hundred_irregularities_of_a_kind_are_kept_and_all_counted():
    summary = summarise(
        *(encode_batch(number * 2, 1, 0) for number in range(301)), encode_batch(601, 1, -1), window=1000
    )
    assert summary.irregularity_counts == {"gap": 300}
    assert [one.base_offset for one in summary.irregularities] == list(range(2, 202, 2))


def test_a_last_batch_with_a_wrong_crc_is_counted_but_the_log_ends_before_it():
    sound, wrong = encode_batch(0, 2, 0), encode_batch(2, 2, 0, crc=1)
    summary = summarise(sound, wrong)
    assert (summary.batch_count, summary.last_offset, summary.greatest_last_offset) == (2, 1, 3)
    assert (summary.tail_kind, summary.tail_length) == ("garbage", len(wrong))
    assert kinds(summary) == [("crc", 2)]


def test_a_wrong_record_count_under_a_wrong_crc_does_not_count_for_more_than_the_span():
    summary = summarise_file(FIXTURES / "corrupted-batch-count-huge/broker-2/codecs-1/00000000000000000068.log")
    good = summarise_file(FIXTURES / "corrupted-batch-count-huge/broker-0/codecs-1/00000000000000000068.log")
    assert summary.record_count == good.record_count
    assert summary.irregularity_counts == {"crc": 1, "field": 1}


@pytest.mark.parametrize(
    ("capture", "counts"),
    [
        ("corrupted-batch-missing", {"gap": 1}),
        ("corrupted-batch-duplicated", {"duplicate": 1}),
        ("corrupted-batch-epoch-changed", {"epoch_regression": 1}),
        ("corrupted-batch-baseoffset-changed", {"duplicate": 1, "gap": 1}),
        ("corrupted-batch-magic-9", {"field": 1}),
        ("corrupted-flip-payload", {"crc": 1}),
        ("corrupted-middle-zeros", {}),
    ],
)
def test_edited_captures_show_what_was_edited(capture, counts):
    directory = FIXTURES / capture / "broker-2/codecs-1"
    found: dict[str, int] = {}
    for path in sorted(directory.glob("*.log")):
        for kind, number in summarise_file(path).irregularity_counts.items():
            found[kind] = found.get(kind, 0) + number
    assert found == counts


def test_the_overlap_and_the_hole_of_the_old_incidents_are_seen():
    overlap = summarise_file(FIXTURES / "old-silent-2-healed/broker-0/silent-1/00000000000000000000.log")
    assert kinds(overlap) == [("regression", 5)]
    hole = summarise_file(FIXTURES / "kip279-2-healed/broker-0/kip279-0/00000000000000000000.log")
    assert [(one.kind, one.previous, one.base_offset) for one in hole.irregularities] == [("gap", 11, 17)]


def test_healthy_segments_of_one_partition_have_equal_digests_on_all_brokers():
    digests = []
    for broker in range(3):
        parts = [
            summarise_file(path).chunks
            for path in sorted((FIXTURES / f"healthy/broker-{broker}/codecs-1").glob("*.log"))
        ]
        digests.append(merge_chunks(parts))
    assert digests[0] == digests[1] == digests[2] and digests[0][0].record_count > 0


def _batches(data: bytes) -> np.ndarray:
    return batches_of(list(scan_segment(io.BytesIO(data), len(data), 0)))


def _digests(batches):
    return digest_chunks(batches, [0])[0]


def test_a_digest_depends_on_neither_segment_nor_order_of_adding_but_on_every_field():
    parts = [encode_batch(number, 1, 0, mark=str(number)) for number in range(6)]
    whole = _digests(_batches(b"".join(parts)))
    halves = merge_chunks([_digests(_batches(b"".join(parts[3:]))), _digests(_batches(b"".join(parts[:3])))])
    assert list(halves.values()) == whole
    digests = set()
    for name, value in [
        ("base_offset", 3),
        ("last_offset", 9),
        ("leader_epoch", 1),
        ("crc", 5),
        ("crc_valid", False),
        ("size", 99),
    ]:
        changed = _batches(b"".join(parts))
        changed[name][2] = value
        digests.add(_digests(changed)[0].digest)
    assert len(digests) == 6 and whole[0].digest not in digests


def test_a_batch_that_is_there_twice_changes_the_digest():
    parts = [encode_batch(0, 1, 0), encode_batch(1, 1, 0)]
    assert _digests(_batches(parts[0]))[0].digest != _digests(_batches(b"".join([parts[0], *parts[1:] * 2])))[0].digest


def test_digests_are_those_of_earlier_versions():
    # They are stored in warehouses: a change here makes every stored one useless.
    (digest,) = _digests(_batches(encode_batch(7, 3, 2)))
    assert digest.digest == STORED_DIGEST


STORED_DIGEST = 8274016240125737085


def test_a_batch_belongs_to_the_chunk_of_its_base_offset():
    last = CHUNK_OFFSETS - 1
    digests = _digests(_batches(encode_batch(last, 5, 0) + encode_batch(last + 5, 1, 0)))
    assert [(one.chunk, one.base_offset, one.last_offset) for one in digests] == [
        (0, last, last + 4),
        (1, last + 5, last + 5),
    ]


def test_json_is_stable_and_holds_everything():
    path = FIXTURES / "corrupted-batch-length-huge/broker-2/codecs-1/00000000000000000068.log"
    summary = summarise_file(path)
    text = summary_to_json(summary)
    assert summary_from_json(text) == summary and summary_to_json(summary_from_json(text)) == text
    assert summary.damage and struct.calcsize("q") == 8


def test_a_field_of_another_version_is_passed_over():
    summary = summarise(encode_batch(0, 5, 0))
    text = summary_to_json(summary)
    assert summary_from_json(f'{text[:-1]},"least_magic":2}}') == summary


def test_summaries_of_equal_segments_share_all_but_their_path() -> None:
    """Paths may have quotes and backslashes, and a text in a summary may look like a key; long summaries are not kept."""
    one = replace(summarise(encode_batch(0, 5, 0)), path='a "path": \\ "é"/0.log')
    looks_so = replace(one, damage=(Damage(0, 10, 'read "path":"x"', "corrupt", None, None),))
    for summary in (one, looks_so):
        other = replace(summary, path="b/0.log")
        read, again = (summary_from_json(summary_to_json(known)) for known in (summary, other))
        assert (read, again) == (summary, other)
        assert read.damage is again.damage
    long = summary_to_json(replace(one, damage=(Damage(0, 10, "read " * 1000, "corrupt", None, None),)))
    assert summary_from_json(long).damage is not summary_from_json(long).damage
    with pytest.raises(ValueError):
        summary_from_json('{"base_offset":0}')

"""Compacted replicas: what both hold is equal, and each key's latest value is the same, or DIV-KEY-STATE."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import pytest
from tests.support.captures import FIXTURES, audit_capture, told
from tests.support.encoder import Record, encode_batch, encode_legacy, encode_marker, flip
from tests.support.record_reads import note_reads
from tests.support.report_rows import tables_of
from tests.support.scenario import Answer, asked_costs, audit, written
from tests.support.snapshots import OF_BATCHES, Replica

from replica_audit.protocol.lineage import Lineage

COMPACT = {"cleanup.policy": "compact"}
#: Batches of five offsets: what is gone from one of them was cleaned away.
STEP = 5

Log = Mapping[int, tuple[str, str | None]]


def _log(*records: str) -> dict[int, tuple[str, str | None]]:
    """Offset → (key, value) of `k=v` and, for a tombstone, `k`; `.` leaves an offset out."""
    log = {}
    for offset, text in enumerate(records):
        key, equals, value = text.partition("=")
        if key != ".":
            log[offset] = (key, value if equals else None)
    return log


def _record(offset: int, key: str, value: str | None, base: int) -> Record:
    return Record(key.encode(), None if value is None else value.encode(), offset_delta=offset - base)


def _batches(log: Log, end: int, horizon: int | None = None, gone: Iterable[int] = ()) -> list[bytes]:
    """`log` up to `end` in batches of `STEP` offsets; those whose bases are `gone`, or that are empty, are left out."""
    batches = []
    for base in range(0, end, STEP):
        last = min(base + STEP, end) - 1
        records = [_record(offset, *log[offset], base) for offset in range(base, last + 1) if offset in log]
        if records and base not in gone:
            thin = horizon if len(records) <= last - base else None
            batches.append(encode_batch(base, records, 0, last_offset_delta=last - base, delete_horizon_ms=thin))
        elif last == end - 1:
            batches.append(encode_batch(base, [], 0, last_offset_delta=last - base))
    return batches


def _audit(path, one: Log, two: Log, end: int | Sequence[int], in_order: bool = True, **options) -> Answer:
    ends = (end, end) if isinstance(end, int) else end
    brokers = {
        1: Replica(_batches(one, ends[0]), first_base_offset=0),
        2: Replica(_batches(two, ends[1], horizon=1_700_000_123_456), first_base_offset=0),
    }
    return audit(path, brokers, configs=COMPACT, in_order=in_order, **options)


FULL = _log("a=1", "b=1", "a=2", "c=1", "b", "d=1", "a=3", "e=1", "c=2", "f=1", "g=1", "h=1")


@pytest.mark.parametrize(
    "other",
    [
        _log(".", ".", ".", ".", "b", "d=1", "a=3", "e=1", "c=2", "f=1", "g=1", "h=1"),
        _log(".", ".", ".", ".", ".", "d=1", "a=3", "e=1", "c=2", "f=1", "g=1", "h=1"),
        _log(".", ".", "a=2", "c=1", "b", "d=1", "a=3", "e=1", "c=2", "f=1", "g=1", "h=1"),
        FULL,
    ],
    ids=["cleaned", "tombstones gone", "half cleaned", "same"],
)
def test_cleaners_that_worked_differently_are_no_divergence(tmp_path, other):
    for place, pair in (("one", (FULL, other)), ("two", (other, FULL))):
        answer = _audit(tmp_path / place, *pair, 12)
        assert not answer.found("DIV-KEY-STATE"), answer
        assert answer.codes() == set(), answer
        assert answer.verdict == "CONSISTENT"
        if other is not FULL:
            assert "so is the latest value of each key" in answer.found("DIV-PRESENCE", 2)[0]["message"]


@pytest.mark.parametrize("leads", [1, 2])
def test_a_deleted_key_that_came_back(tmp_path, leads):
    """Broker 2 was down while the tombstone of b was written and dropped again."""
    cleaned = _log(".", ".", ".", ".", ".", "d=1", "a=3", "e=1", "c=2", "f=1", "g=1", "h=1")
    zombie = {**cleaned, 1: ("b", "1")}
    answer = _audit(tmp_path, cleaned, zombie, 12, leader=leads)
    (row,) = answer.found("DIV-KEY-STATE")
    assert (row["severity"], row["start_offset"], row["end_offset"]) == ("high", 1, 2)
    assert row["broker_id"] == (2 if leads == 1 else 1)
    assert "1 gone from broker 1 and still there on broker 2" in row["message"]
    assert answer.verdict == "COMMITTED_DIVERGENCE"
    assert answer.tables["divergences"] == []


def test_files_of_moments_in_any_order_may_be_of_before_and_after_a_cleaning(tmp_path):
    """A segment was copied before the cleaner removed the tombstone from a later one, which was copied after."""
    cleaned = _log(".", ".", ".", ".", ".", "d=1", "a=3", "e=1", "c=2", "f=1", "g=1", "h=1")
    answer = _audit(tmp_path, cleaned, {**cleaned, 1: ("b", "1")}, 12, in_order=False)
    (row,) = answer.found("DIV-KEY-STATE", 2)
    assert (row["severity"], row["confidence"]) == ("medium", "suspect") and "between the copies" in row["message"]
    assert answer.verdict == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("lacks", "isr", "options", "severity"),
    [
        (2, (1,), {}, "medium"),
        (2, (1, 2), {}, "high"),
        (2, (1,), {"quiesced": True}, "high"),
        (
            1,
            (1,),
            {},
            "high",
        ),  # elected from the in-sync replicas, it had what its former leader had removed records for
    ],
)
def test_who_is_behind_may_have_fetched_after_a_cleaner_had_removed_a_value_for_a_later_one(
    tmp_path, lacks, isr, options, severity
):
    """The copies of two running brokers overlap: nothing shows which is the earlier."""
    lacking = {offset: record for offset, record in FULL.items() if offset != 6}
    answer = _audit(tmp_path, *((FULL, lacking) if lacks == 2 else (lacking, FULL)), 12, isr=isr, **options)
    (row,) = answer.found("DIV-KEY-STATE", 2)
    assert row["severity"] == severity, answer
    assert answer.verdict == ("COMMITTED_DIVERGENCE" if severity == "high" else "INCONCLUSIVE")
    assert ("copy broker 2 again once in sync" in row["message"]) == (severity == "medium")


def test_a_key_that_is_alive_below_the_others_tombstone(tmp_path):
    answer = _audit(tmp_path, _log("x=1", ".", "b", "y=1", "z=1"), _log("x=1", "b=1", ".", "y=1", "z=1"), 5)
    assert answer.one("DIV-KEY-STATE", 2)[2:] == (1, 3)


def test_another_latest_value(tmp_path):
    """Broker 2 lost the record at 6; a cleaner only removes what a later record of the key replaces."""
    answer = _audit(tmp_path, FULL, {offset: one for offset, one in FULL.items() if offset not in (6, 0)}, 12)
    assert "1 with a different latest value on each" in answer.found("DIV-KEY-STATE", 2)[0]["message"]
    assert answer.one("DIV-KEY-STATE", 2)[2:] == (2, 7)


def test_the_latest_value_may_be_in_a_batch_that_both_have(tmp_path):
    """The records of b below it are in doubt until the batch 10 to 14, the same on both, is looked at."""
    full = {**FULL, 12: ("b", "9"), 13: ("q", "1"), 14: ("r", "1")}
    cleaned = {offset: one for offset, one in full.items() if offset >= 5}
    answer = _audit(tmp_path, full, cleaned, 15)
    assert not answer.found("DIV-KEY-STATE"), answer


def test_a_tombstone_that_only_one_side_still_has_hides_an_older_value_on_both(tmp_path):
    """The value at 0 is in a batch that both have: with the tombstone it is deleted, without it it is back."""
    full = _log("b=1", "x=1", "y=1", "z=1", "w=1", "b", "a=1", "c=1", "d=1", "e=1")
    without = {offset: one for offset, one in full.items() if offset != 5}
    answer = _audit(tmp_path, full, without, 10)
    assert answer.one("DIV-KEY-STATE", 2)[2:] == (0, 6)
    assert "1 gone from broker 1 and still there on broker 2" in answer.found("DIV-KEY-STATE", 2)[0]["message"]


@pytest.mark.parametrize("ahead", ["leader", "follower"])
def test_a_key_with_a_record_past_the_shorter_end_is_not_compared(tmp_path, ahead):
    longer = {offset: one for offset, one in FULL.items() if offset != 3}
    longer = {**longer, 12: ("c", "3"), 8: ("x", "1")}
    shorter = {offset: one for offset, one in FULL.items() if offset < 10}
    shorter[8] = ("x", "1")
    pair, ends = ((longer, shorter), (15, 10)) if ahead == "leader" else ((shorter, longer), (10, 15))
    answer = _audit(tmp_path, *pair, ends)
    assert not answer.found("DIV-KEY-STATE"), answer


def test_a_key_that_the_longer_log_may_have_deleted_past_the_shorter_end_is_left_open(tmp_path):
    """Its tombstone may have been above the follower's end, and gone by now."""
    shorter = _log("a=1", "b=1", "c=1", "d=1", "e=1")
    longer = {**_log("a=1", ".", "c=1", "d=1", "e=1"), 5: ("f", "1"), 9: ("g", "1")}
    answer = _audit(tmp_path, longer, shorter, (10, 5))
    assert not answer.found("DIV-KEY-STATE"), answer
    assert "1 key cannot be compared" in answer.found("DIV-PRESENCE", 2)[0]["message"]


@pytest.mark.parametrize("is_behind", [True, False])
def test_a_follower_that_was_down_while_a_tombstone_came_and_went_keeps_the_value(tmp_path, is_behind):
    shorter = _log("a=1", "b=1", "c=1", "d=1", "e=1")
    longer = {**_log("a=1", ".", "c=1", "d=1", "e=1"), 5: ("f", "1"), 9: ("g", "1")}
    pair = ((longer, shorter), (10, 5)) if is_behind else ((shorter, longer), (5, 10))
    answer = _audit(tmp_path, *pair[0], pair[1], quiesced=True)
    assert [row["severity"] for row in answer.found("DIV-KEY-STATE", 2)] == ["medium"] * is_behind, answer


def _of_keys(base: int, epoch: int, keys: str) -> bytes:
    """A batch with a value of each key, or nothing for `.`."""
    records = [Record(one.encode(), b"1", offset_delta=number) for number, one in enumerate(keys) if one != "."]
    return encode_batch(base, records, epoch, last_offset_delta=len(keys) - 1)


@pytest.mark.parametrize(("key", "is_kept"), [("b", False), ("f", True)])
def test_a_key_that_the_leader_has_again_past_where_the_logs_part_is_not_kept(tmp_path, key, is_kept):
    """Broker 2 is cut at 5, and fetches the later record of the key."""
    brokers = {
        1: Replica([_of_keys(0, 0, "a.cde"), _of_keys(5, 2, f"ghi{key}j")], first_base_offset=0),
        2: Replica([_of_keys(0, 0, "abcde"), _of_keys(5, 1, "yz")], first_base_offset=0),
    }
    answer = audit(tmp_path, brokers, configs=COMPACT, isr=(1,), quiesced=True)
    assert bool(answer.found("DIV-KEY-STATE", 2)) is is_kept, answer


@pytest.mark.parametrize(("key", "is_lacked"), [("b", False), ("f", True)])
def test_a_follower_lacks_what_its_cleaner_removed_for_a_record_that_is_cut(tmp_path, key, is_lacked):
    """Broker 2 had b again at 5, where it is cut; not told if it fetches a later record of b."""
    brokers = {
        1: Replica([_of_keys(0, 0, "abcde"), _of_keys(5, 2, f"ghi{key}j")], first_base_offset=0),
        2: Replica([_of_keys(0, 0, "a.cde"), _of_keys(5, 1, "bz")], first_base_offset=0),
    }
    answer = audit(tmp_path, brokers, configs=COMPACT, isr=(1,), quiesced=True)
    told = [row["message"].rpartition(": ")[2] for row in answer.found("DIV-KEY-STATE", 2)]
    assert told == ["1 gone from broker 2 and still there on broker 1"] * is_lacked


def test_a_cleaner_that_was_not_there_yet_cannot_have_deleted_it_past_the_shorter_end(tmp_path):
    shorter = _log("a=1", "b=1", "c=1", "d=1", "e=1")
    longer = {**_log("a=1", ".", "c=1", "d=1", "e=1"), 5: ("f", "1"), 9: ("g", "1")}
    brokers = {
        1: Replica(_batches(longer, 10), first_base_offset=0, cleaned_to=5, clean_shutdown=True),
        2: Replica(_batches(shorter, 5), first_base_offset=0, clean_shutdown=True),
    }
    answer = audit(tmp_path, brokers, configs=COMPACT, isr=(1,))
    assert answer.one("DIV-KEY-STATE", 2)[:2] == ("high", "proven")


def test_what_lies_below_a_log_start_counts_on_neither_side(tmp_path):
    follower = _batches(FULL, 12)[1:]
    brokers = {1: Replica(_batches(FULL, 12), first_base_offset=0), 2: Replica(follower, first_base_offset=5)}
    answer = audit(tmp_path, brokers, configs={"cleanup.policy": "compact,delete"})
    assert not answer.found("DIV-KEY-STATE"), answer


def test_a_record_that_both_hold_must_be_equal(tmp_path):
    thin = _log(".", ".", ".", "c=1", "b", "d=1", "a=3", "e=1", "c=2", "f=1", "g=1", "h=1")
    answer = _audit(tmp_path, FULL, {**thin, 3: ("c", "other")}, 12)
    assert [run[:5] for run in answer.runs(2)] == [("DIV-CONTENT", 3, 4, 0, 0)]
    assert answer.verdict == "COMMITTED_DIVERGENCE"


def test_an_unreadable_batch_that_may_hold_the_tombstone_is_no_proof(tmp_path):
    cleaned = _log(".", ".", ".", ".", ".", "d=1", "a=3", "e=1", "c=2", "f=1", "g=1", "h=1")
    batches = _batches({**cleaned, 1: ("b", "1")}, 12)
    batches[1] = flip(batches[1])
    brokers = {1: Replica(_batches(cleaned, 12), first_base_offset=0), 2: Replica(batches, first_base_offset=0)}
    answer = audit(tmp_path, brokers, configs=COMPACT)
    assert not answer.found("DIV-KEY-STATE"), answer
    assert answer.found("DIV-CORRUPT", 2)


@pytest.mark.parametrize("place", ["below the end", "past it"])
def test_batches_that_both_have_and_nobody_can_decode_leave_their_keys_open(tmp_path, place):
    """The newest value of b is in a batch whose records are none that Kafka could read."""
    strange = encode_batch(10, [Record(b"b", b"9")] * 5, 0, record_count=4)
    cleaned = {offset: one for offset, one in FULL.items() if offset >= 5}
    longer = [*_batches(FULL, 10), strange]
    shorter = [*_batches(cleaned, 10), *([strange] if place == "below the end" else [])]
    brokers = {1: Replica(longer), 2: Replica(shorter, first_base_offset=0)}
    answer = audit(tmp_path, brokers, configs=COMPACT, isr=(1,))
    assert not answer.found("DIV-KEY-STATE"), answer
    assert answer.found("LOG-FIELD")


def test_a_batch_with_other_bounds_but_equal_records_is_only_batching(tmp_path):
    wide = encode_batch(0, [_record(offset, *FULL[offset], 0) for offset in range(10)], 0)
    brokers = {1: Replica(_batches(FULL, 12), first_base_offset=0), 2: Replica([wide, *_batches(FULL, 12)[2:]])}
    answer = audit(tmp_path, brokers, configs=COMPACT)
    assert answer.one("DIV-BATCHING", 2)[:2] == ("low", "proven")
    assert answer.runs(2) == []


def test_old_messages_that_the_cleaner_of_4_0_made_new(tmp_path):
    """KIP-724: batches without an epoch, which begin at their first survivor."""
    old = [
        encode_legacy(offset, None if value is None else value.encode(), key.encode())
        for offset, (key, value) in FULL.items()
    ]
    survivors = {offset: one for offset, one in FULL.items() if offset >= 4}
    new = [
        encode_batch(4, [_record(offset, *survivors[offset], 4) for offset in range(4, 8)], -1),
        encode_batch(8, [_record(offset, *survivors[offset], 8) for offset in range(8, 12)], -1),
    ]
    brokers = {1: Replica(old, epochs=None), 2: Replica(new, epochs=None, first_base_offset=0, cleaned_to=12)}
    answer = audit(tmp_path, brokers, configs=COMPACT)
    assert answer.runs(2) == [], answer
    assert not answer.found("DIV-KEY-STATE"), answer
    other = [*new[:1], encode_batch(8, [_record(offset, "c", "9", 8) for offset in range(8, 12)], -1)]
    brokers[2] = Replica(other, epochs=None, first_base_offset=0, cleaned_to=12)
    again = audit(tmp_path / "other", brokers, configs=COMPACT)
    assert again.verdict in ("COMMITTED_DIVERGENCE", "COMMITTED_LOSS"), again


def _transaction(base: int, key: str, value: str, end: str | None, producer: int = 7) -> list[bytes]:
    """A record of a transaction and, an offset on, its marker."""
    batches = [
        encode_batch(
            base,
            [Record(key.encode(), value.encode())],
            0,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    ]
    return (
        batches if end is None else [*batches, encode_marker(base + 1, end, 0, producer_id=producer, producer_epoch=0)]
    )


def test_records_of_aborted_transactions_have_no_part_in_it(tmp_path):
    plain = [encode_batch(0, [Record(b"a", b"1")], 0)]
    aborted = _transaction(1, "a", "never", "ABORT")
    committed = _transaction(3, "b", "1", "COMMIT")
    end = [encode_batch(5, 5, 0)]
    dirty, clean = [*plain, *aborted, *committed, *end], [*plain, *committed, *end]
    for place, pair in (("one", (dirty, clean)), ("two", (clean, dirty))):
        brokers = {number: Replica(batches, first_base_offset=0) for number, batches in zip((1, 2), pair, strict=True)}
        answer = audit(tmp_path / place, brokers, configs=COMPACT)
        assert not answer.found("DIV-KEY-STATE"), answer


def test_records_of_committed_transactions_have(tmp_path):
    plain = [encode_batch(0, [Record(b"a", b"1")], 0)]
    end = [encode_batch(5, 5, 0)]
    whole = [*plain, *_transaction(1, "a", "2", "COMMIT"), *end]
    brokers = {1: Replica(whole), 2: Replica([*plain, *end])}
    answer = audit(tmp_path, brokers, configs=COMPACT)
    assert answer.one("DIV-KEY-STATE", 2)[2:] == (0, 2)


def test_a_transaction_is_decided_by_the_other_sides_marker(tmp_path):
    """The follower ends before the marker, the leader's cleaner has taken the aborted record away already."""
    plain = [encode_batch(0, [Record(b"a", b"1")], 0)]
    begun = _transaction(1, "a", "never", None)
    marker = encode_marker(2, "ABORT", 0, producer_id=7, producer_epoch=0)
    brokers = {
        1: Replica([*plain, encode_batch(1, [], 0), marker, encode_batch(3, 5, 0)]),
        2: Replica([*plain, *begun], high_watermark=1),
    }
    answer = audit(tmp_path, brokers, configs=COMPACT, isr=(1,))
    assert not answer.found("DIV-KEY-STATE"), answer


def test_a_replica_that_missed_an_abort_has_the_records_come_back(tmp_path):
    """The next marker of the producer is a commit: to consumers of that replica it commits the aborted record too."""
    plain, end = [encode_batch(0, [Record(b"a", b"1")], 0)], [encode_batch(5, 5, 0)]
    committed = _transaction(3, "b", "1", "COMMIT")
    missed = [*plain, *_transaction(1, "a", "never", None), *committed, *end]
    answer = audit(tmp_path, {1: Replica([*plain, *committed, *end]), 2: Replica(missed)}, configs=COMPACT)
    assert answer.one("DIV-KEY-STATE", 2)[2:] == (0, 2)
    seen = [*plain, *_transaction(1, "a", "never", "ABORT"), *committed, *end]
    again = audit(tmp_path / "seen", {1: Replica(seen), 2: Replica(missed)}, configs=COMPACT)
    assert not again.found("DIV-KEY-STATE"), "the reference still has the marker"


@pytest.mark.parametrize(("is_live", "told"), [(True, False), (False, True)])
def test_a_transaction_that_ends_past_a_live_log_may_not_be_that_of_the_others_next_marker(tmp_path, is_live, told):
    """The leader was copied later: its cleaner has removed the aborted record and the marker, and the producer has gone on. Of a replica
    that is down the record does come back, once it follows."""
    plain = [encode_batch(0, [Record(b"a", b"1")], 0)]
    begun = _transaction(1, "a", "never", None)
    later = [encode_batch(3, 5, 0), *_transaction(8, "b", "1", "COMMIT")]
    brokers = {1: Replica([*plain, *later]), 2: Replica([*plain, *begun], high_watermark=1)}
    how = {"in_order": True} if is_live else {"quiesced": True}
    answer = audit(tmp_path, brokers, configs=COMPACT, isr=(1,), **how)
    assert bool(answer.found("DIV-KEY-STATE", 2)) == told, answer
    assert told or "1 key cannot be compared" in answer.found("DIV-PRESENCE", 2)[0]["message"]


@pytest.fixture
def asked(monkeypatch) -> list[tuple[int, int, bool]]:
    return note_reads(monkeypatch)


def _long(end: int) -> dict[int, tuple[str, str | None]]:
    return {offset: (f"k{offset}", "1") for offset in range(end)}


def test_nothing_is_read_of_replicas_with_the_same_bytes(tmp_path, asked):
    _audit(tmp_path, _long(200), _long(200), 200)
    assert asked == []


def test_nothing_is_read_where_one_only_lags(tmp_path, asked):
    _audit(tmp_path, _long(200), _long(150), (200, 150), isr=(1,))
    assert asked == []


def test_only_unlike_batches_are_read_where_they_say_it_all(tmp_path, asked):
    """A record that a later one in the same batch replaced is gone on one side: no other batch can matter."""
    full = {**_long(200), 51: ("k52", "0")}
    cleaned = {offset: one for offset, one in full.items() if offset != 51}
    answer = _audit(tmp_path, full, cleaned, 200)
    assert not answer.found("DIV-KEY-STATE"), answer
    assert sorted(asked) == [(1, 50, False), (2, 50, False)]


def test_of_batches_that_both_have_one_side_is_read_above_the_doubt_and_for_its_keys(tmp_path, asked):
    full = {**_long(200), 51: ("k180", "0")}
    cleaned = {offset: one for offset, one in full.items() if offset != 51}
    answer = _audit(tmp_path, full, cleaned, 200)
    assert not answer.found("DIV-KEY-STATE"), answer
    assert {one for one in asked if not one[2]} == {(1, 50, False), (2, 50, False)}
    assert {broker for broker, _, only in asked if only} == {1}, "the other side has the same bytes"


def test_topic_zombies_of_the_real_cluster():
    results = audit_capture("compacted-skewed-2")["zombies-0"]
    (row,) = [row for row in results.rows("findings") if row["code"] == "DIV-KEY-STATE"]
    # z0, z2 … z10: the records of six keys, every second offset.
    assert (row["broker_id"], row["start_offset"], row["end_offset"]) == (2, 0, 11)
    assert row["message"].startswith("6 keys")
    assert row["evidence"][0]["value"] == "0, 2, 4, 6, 8"
    # Nothing says in which order the files of the running brokers were copied.
    assert (row["severity"], results.rows("partitions")[0]["verdict"]) == ("medium", "INCONCLUSIVE")


@pytest.mark.parametrize("capture", ["compacted-skewed-1", "compacted-skewed-2"])
def test_every_other_compacted_partition_of_the_real_clusters_agrees(capture):
    seen = 0
    for partition, results in audit_capture(capture).items():
        if partition == "zombies-0":
            continue
        findings = results.rows("findings")
        assert not [row for row in findings if row["severity"] in ("critical", "high", "medium")], told(results)
        presence = [row for row in findings if row["code"] == "DIV-PRESENCE"]
        assert all(
            "every record that both have is equal; so is the latest value of each key" in row["message"]
            for row in presence
        )
        seen += len(presence)
    assert seen >= 7


def test_no_key_or_value_of_a_real_record_is_in_any_answer():
    answers = str({name: tables_of(results) for name, results in audit_capture("compacted-skewed-2").items()})
    words = set()
    for path in (FIXTURES / "compacted-skewed-2").glob("broker-*/zombies-0/*.log"):
        words |= set(re.findall(r"[a-z]+[0-9]{2}", path.read_bytes().decode("latin-1")))
    assert len(words) > 20
    assert not [word for word in words if word in answers]


def keyed(start: int, end: int, epoch: int, mark: str) -> list[bytes]:
    records = [Record(f"{mark}{at}".encode(), b"v") for at in range(start, end)]
    return [encode_batch(start + at, records[at : at + STEP], epoch) for at in range(0, len(records), STEP)]


#: What a cleaner removed lies inside a segment, or between two of them (KAFKA-17076), where a file may be missing, too.
AT_BORDERS = pytest.mark.parametrize("per_segment", [None, 4], ids=["one segment", "at a border"])


def _elected_beside(path, epochs: Sequence[tuple[int, int]], per_segment: int | None = None) -> Answer:
    """Broker 1 was elected uncleanly at 20 and has cleaned what it wrote then; broker 2 had 20 records of epoch 0 there."""
    common = keyed(0, 20, 0, "k")
    brokers = {
        1: Replica(
            [*common, *keyed(30, 35, 2, "new"), *keyed(45, 50, 2, "new")],
            cleaned_to=40,
            epochs=epochs,
            per_segment=per_segment,
        ),
        2: Replica([*common, *keyed(20, 40, 0, "old")]),
    }
    return audit(path, brokers, configs=COMPACT, isr=(1,))


@AT_BORDERS
@pytest.mark.parametrize(
    ("epochs", "start"), [([(0, 0), (2, 20)], 20), ([(0, 0), (2, 30)], 30)], ids=["file", "batches"]
)
def test_records_of_an_older_epoch_are_lost_where_the_leader_has_cleaned_its_own_away(
    tmp_path, epochs, start, per_segment
):
    answer = _elected_beside(tmp_path, epochs, per_segment)
    row, cut = answer.tables["partitions"][0], answer.cut(2)
    assert answer.runs(2) == [("DIV-EPOCH", start, 40, 2, 0, True)], answer
    assert (row["lost_records"], row["lost_committed"]) == (40 - start, 40 - start)
    assert (cut["truncate_to"], cut["dropped_records"], cut["committed_dropped"]) == (start, 40 - start, 40 - start)
    assert answer.verdict == "COMMITTED_LOSS"


@pytest.mark.parametrize("protocol", ["kip-101", "fetch"])
@pytest.mark.parametrize("is_cleaned", [True, False])
def test_a_batch_that_is_cut_where_the_leader_has_nothing_leaves_no_hole(tmp_path, is_cleaned, protocol):
    """By its batches the leader's epoch 2 begins at 10, inside the follower's batch. Its epoch file is gone."""
    left = [] if is_cleaned else keyed(0, 10, 1, "k")
    brokers = {
        1: Replica([*left, *keyed(10, 30, 2, "new")], epochs=None, cleaned_to=20, first_base_offset=0),
        2: Replica([*keyed(0, 5, 1, "k"), encode_batch(5, 6, 1, mark="old")], high_watermark=5),
    }
    answer = audit(tmp_path, brokers, configs=COMPACT, isr=(1,), protocol=protocol)
    assert answer.cut(2, protocol)["truncate_to"] == (5 if is_cleaned and protocol == "kip-101" else 10), answer
    hidden = {"DIV-HIDDEN", "TRN-REPLAY-GAP"}
    assert answer.codes("critical") & hidden == (set() if is_cleaned else hidden), answer
    assert bool(answer.found("TRN-MID-BATCH")) != is_cleaned, answer


def test_a_follower_that_cleaned_another_epoch_at_a_border_parts_from_the_leader_there(tmp_path):
    """Its common prefix ended past it, at its first batch that the leader lacks."""
    common = keyed(0, 20, 0, "k")
    brokers = {
        1: Replica([*common, *keyed(20, 25, 2, "new")]),
        2: Replica([*common, *keyed(30, 40, 0, "old")], cleaned_to=30, epochs=[(0, 0)], per_segment=4),
    }
    answer = audit(tmp_path, brokers, configs=COMPACT, isr=(1,))
    assert answer.replica(2)["common_prefix_end"] == answer.cut(2)["truncate_to"] == 20, answer


@pytest.mark.parametrize("left", [0, 3], ids=["of it", "of what is older, too"])
def test_what_a_follower_had_of_an_older_epoch_and_cleaned_away_proves_nothing_of_the_leaders_records(tmp_path, left):
    """Its high watermark was thought to prove what the leader has written there since: a bound of [5, 5] for 0."""
    old = [*keyed(0, left, 0, "k"), *keyed(left + 5, 20, 0, "old")]
    brokers = {
        1: Replica([*keyed(0, left, 0, "k"), *keyed(left, left + 5, 2, "new")], high_watermark=0),
        2: Replica(old, cleaned_to=15, first_base_offset=0, epochs=[(0, 0)], high_watermark=20),
    }
    answer = audit(tmp_path, brokers, configs=COMPACT | {"min.insync.replicas": "2"}, isr=(1,))
    assert answer.interval[0] == left, answer
    assert answer.replica(2)["common_prefix_end"] == left, answer


def test_a_follower_that_was_cut_where_the_leader_has_cleaned_away_its_first_records_lost_no_end_of_its_own(tmp_path):
    """The leader's epoch file has where its epoch began: HWM-CP-ABOVE-LEO, proven."""
    common = keyed(0, 10, 0, "k")
    for name, began in (("cut", 10), ("lost", 15)):
        brokers = {
            1: Replica([*common, *keyed(15, 30, 2, "new")], cleaned_to=20, epochs=[(0, 0), (2, began)]),
            2: Replica(common, high_watermark=20, recovery_point=5),
            3: Replica([*common, *keyed(10, 20, 0, "old")], high_watermark=20),
        }
        listed = {"source": "user", "leader_epoch": 2, "quiesced": True}
        answer = audit(tmp_path / name, brokers, isr=(1,), **listed)
        assert bool(answer.found("HWM-CP-ABOVE-LEO", 2)) == (name == "lost"), answer


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_log_that_was_cut_after_it_was_copied_keeps_nothing_by_its_later_epoch_file(tmp_path, policy):
    """The file has the epoch in which the log goes on since: DIV-HIDDEN and TRN-REPLAY-GAP, critical and proven, of a compacted topic."""
    common = keyed(0, 20, 0, "k")
    brokers = {
        1: Replica([*common, *keyed(20, 40, 2, "new")], cleaned_to=10, high_watermark=20),
        2: Replica([*common, *keyed(20, 30, 0, "old")], cleaned_to=10, high_watermark=20, epochs=[(0, 0), (2, 20)]),
    }
    answer = audit(tmp_path / "later", brokers, isr=(1,), in_order=True, configs={"cleanup.policy": policy})
    assert answer.cut(2)["truncate_to"] == 20 and not answer.found("DIV-HIDDEN"), answer
    assert not answer.found("TRN-REPLAY-GAP"), answer
    # A leader whose records a cleaner removed has its epoch in the file alone.
    led = {
        1: Replica(
            [*common, *keyed(35, 40, 2, "new")], cleaned_to=35, epochs=[(0, 0), (1, 20), (2, 30)], high_watermark=20
        ),
        2: Replica([*common, *keyed(20, 30, 1, "old")], high_watermark=20),
    }
    kept = audit(tmp_path / "cleaned", led, isr=(1,), configs={"cleanup.policy": "compact"})
    assert kept.cut(2)["truncate_to"] == 30, kept


@pytest.mark.parametrize(
    ("cleaned_to", "began", "lost"),
    [(15, 15, False), (10, 15, True), (15, 12, True), (12, 12, True)],
    ids=["to the cut", "not to it", "past it", "below the mark"],
)
def test_a_follower_that_was_cut_inside_what_its_cleaner_had_removed_lost_no_end(tmp_path, cleaned_to, began, lost):
    """`LogCleanerManager.maybeTruncateCheckpoint` takes the cleaner's checkpoint back to a cut: HWM-CP-ABOVE-LEO, proven. A recovery point past
    the cut shows that there was none."""
    common = keyed(0, 10, 0, "k")
    brokers = {
        1: Replica([*common, *keyed(20, 30, 2, "new")], cleaned_to=20, epochs=[(0, 0), (2, began)]),
        2: Replica(common, high_watermark=15, recovery_point=15, cleaned_to=cleaned_to),
        3: Replica([*common, *keyed(10, 20, 0, "old")], high_watermark=20),
    }
    answer = audit(tmp_path, brokers, isr=(1,), source="user", leader_epoch=2, quiesced=True)
    assert (bool(answer.found("HWM-CP-ABOVE-LEO", 2)), bool(answer.found("HWM-RP-ABOVE-LEO", 2))) == (lost, lost), (
        answer
    )


def test_records_where_a_compacted_leader_has_another_epoch_and_no_batch_of_it_are_not_proven_committed(tmp_path):
    """Its cleaner left nothing that shows whether it ever had them: elect called them committed by the leader's high watermark."""
    rest = keyed(30, 40, 5, "new")
    for name, epochs in (("other", [(0, 0), (1, 5), (5, 10)]), ("same", [(0, 0), (2, 5), (5, 10)])):
        brokers = {
            1: Replica(rest, cleaned_to=35, first_base_offset=0, epochs=epochs),
            2: Replica([*keyed(0, 5, 0, "k"), *keyed(5, 10, 2, "old")], high_watermark=5),
        }
        answer = audit(tmp_path / name, brokers, configs=COMPACT, isr=(1,))
        assert asked_costs(tmp_path / name)[1] == ((5, 0, 5) if name == "other" else (0, 0, 0)), answer
        # What is cut was never seen to be on the leader.
        assert not answer.found("TRN-OVER-TRUNCATE"), answer


def test_twice_the_epochs_of_a_compacted_log_with_twice_the_batches_are_looked_up_twice_as_often(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        Lineage,
        "epoch_for_offset",
        lambda self, offset, of=Lineage.epoch_for_offset: (asked.append(offset), of(self, offset))[1],
    )
    counts = []
    for epochs in (20, 40):
        log = [batch for epoch in range(epochs) for batch in keyed(epoch * 20, epoch * 20 + 20, epoch, f"k{epoch}-")]
        asked.clear()
        cleaned = Replica([*log[::2], *log[-1:]], cleaned_to=epochs * 20 - 5)
        audit(tmp_path / str(epochs), {1: cleaned, 2: Replica(log)}, configs=COMPACT)
        assert set(asked_costs(tmp_path / str(epochs))) == {1, 2}
        counts.append(len(asked))
    assert counts[1] < 2.5 * counts[0], counts


def test_what_a_compacted_leader_had_is_told_in_the_past_tense(tmp_path):
    (told,) = _elected_beside(tmp_path, [(0, 0), (2, 20)]).found("DIV-EPOCH", 2)
    assert "offsets 20 to 39, where broker 1 had other records of epoch 2" in told["message"]


def _led_before(
    path,
    epochs: Sequence[tuple[int, int]] | None,
    survivors: Sequence[tuple[int, int, int]],
    per_segment: int | None = None,
) -> Answer:
    """Broker 2 led uncleanly in epoch 2 from 20 on; broker 1, which had epoch 0 up to 40, leads now and cleaned there."""
    common = keyed(0, 20, 0, "k")
    later = [batch for start, end, epoch in survivors for batch in keyed(start, end, epoch, "new")]
    remove = ("leader-epoch-checkpoint",) if epochs is None else ()
    brokers = {
        1: Replica(
            [*common, *later], cleaned_to=45, epochs=epochs or OF_BATCHES, remove=remove, per_segment=per_segment
        ),
        2: Replica([*common, *keyed(20, 30, 2, "old")]),
    }
    return audit(path, brokers, configs=COMPACT, isr=(1,))


@AT_BORDERS
@pytest.mark.parametrize(
    ("epochs", "survivors", "lost"),
    [
        ([(0, 0), (4, 40)], [(35, 40, 0), (45, 50, 4)], True),  # a later batch of epoch 0
        (None, [(35, 40, 0), (45, 50, 4)], True),  # a later batch of epoch 0
        (None, [(40, 50, 2)], False),  # epoch 2 may have begun at 20: then its cleaner removed these
        (None, [(40, 50, 4)], False),  # an epoch 2 of which nothing is left
        ([(0, 0), (4, 40)], [(40, 50, 4)], False),  # a replica that fetched after that has this file
    ],
    ids=["batches and file", "batches", "same epoch", "nothing tells", "file"],
)
def test_records_of_a_later_epoch_are_lost_where_the_leader_has_cleaned_its_own_away(
    tmp_path, epochs, survivors, lost, per_segment
):
    answer = _led_before(tmp_path, epochs, survivors, per_segment)
    expected = [("DIV-EPOCH", 20, 30, 0, 2, True)] if lost else []
    assert answer.runs(2) == expected, answer
    assert answer.tables["partitions"][0]["lost_records"] == 10 * lost
    assert answer.verdict == "COMMITTED_LOSS" or not lost


def test_a_cut_through_what_a_cleaner_removed_fetches_nothing_again(tmp_path):
    """Broker 2's cleaner left nothing from 20, where broker 1's epoch begins, to 30: it does not agree with it up to there."""
    common = keyed(0, 20, 0, "k")
    brokers = {
        1: Replica([*common, *keyed(20, 50, 2, "new")]),
        2: Replica([*common, *keyed(30, 40, 0, "old")], cleaned_to=30, epochs=[(0, 0)]),
    }
    answer = audit(tmp_path, brokers, configs=COMPACT, isr=(1,))
    assert answer.cut(2)["truncate_to"] == 20
    assert not answer.found("TRN-OVER-TRUNCATE"), answer


@pytest.mark.parametrize("kept", [False, True])
def test_below_a_log_start_a_cleaner_may_have_left_nothing_of_an_epoch(tmp_path, kept):
    """DeleteRecords moved the log start of broker 1 to 8, where broker 2 has epoch 1, and broker 1 nothing, or epoch 0: HWM-LOSS."""
    leader = [*written(0, 5, 0), *(written(5, 9, 0) if kept else ()), *written(10, 20, 2)]
    other = [*written(0, 5, 0), *written(5, 7, 0), *written(7, 10, 1), *written(10, 20, 2)]
    brokers = {1: Replica(leader, log_start=8), 2: Replica(other, high_watermark=10)}
    answer = audit(tmp_path, brokers, configs={"cleanup.policy": "compact,delete"}, in_order=True)
    assert bool(answer.runs(2)) is kept, answer
    assert kept or (answer.verdict == "CONSISTENT" and not answer.codes("medium")), answer

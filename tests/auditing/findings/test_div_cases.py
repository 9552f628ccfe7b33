"""DIV-* of cases that are put together from facts: the code of a run, and every sentence about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.made_cases import ALIKE, LINEAGE, batch, case, compared, divergent, found, log, paths, place, texts

from replica_audit.auditing.compare.alignment import Alignment, CorruptPair, Difference
from replica_audit.auditing.compare.compacted import Compaction, KeyState
from replica_audit.auditing.compare.divergence_cause import Cause
from replica_audit.auditing.compare.divergent_ranges import CommitProof, DivergentRange
from replica_audit.auditing.finding import Finding
from replica_audit.auditing.findings import div
from replica_audit.auditing.replicas.reference import COPIED_BEFORE
from replica_audit.auditing.replicas.replica_facts import Cleaning
from replica_audit.segments.batch_rows import NO_BATCHES, Batches

CLEAN, UNCLEAN, UNKNOWN = (Cause(None, clean, None) for clean in (True, False, None))


def told_of(one: DivergentRange, cut: int = 30, leader=None, follower=None) -> Finding:
    """The finding of a run."""
    leader, follower = leader or log(1, *LINEAGE), follower or log(2, *LINEAGE)
    (item,) = div.judge(case(leader, compared(follower, one, cut=cut)))
    assert place(item) == (2, one.start_offset, one.end_offset)
    return item


@pytest.mark.parametrize(
    ("one", "code", "severity", "verdict"),
    [
        # Two records of one epoch cannot both be right, wherever they are; records without any epoch may be an old tail.
        (divergent("content", leader=2, replica=2), "DIV-CONTENT", "critical", "COMMITTED_DIVERGENCE"),
        (divergent("content", leader=0, replica=0, survives=True), "DIV-CONTENT", "critical", "COMMITTED_DIVERGENCE"),
        (
            divergent("content", leader=None, replica=None, survives=True),
            "DIV-CONTENT",
            "critical",
            "COMMITTED_DIVERGENCE",
        ),
        (divergent("content", leader=None, replica=None), "DIV-EPOCH", "medium", "UNCOMMITTED_DIVERGENCE"),
        (divergent("hole_here", survives=True), "DIV-HIDDEN", "critical", "COMMITTED_DIVERGENCE"),
        (divergent("hole_there", survives=True), "DIV-HIDDEN", "critical", "COMMITTED_DIVERGENCE"),
        (divergent("hole_there", survives=True, compacted=True), "DIV-PRESENCE", "high", "COMMITTED_DIVERGENCE"),
        (divergent("hole_here"), "DIV-PRESENCE", "high", "COMMITTED_DIVERGENCE"),
        (divergent("epoch", survives=True), "DIV-HIDDEN", "critical", "COMMITTED_DIVERGENCE"),
        # Of a tail that is cut the election decides.
        (divergent("epoch"), "DIV-EPOCH", "medium", "UNCOMMITTED_DIVERGENCE"),
        (divergent("epoch", cause=UNKNOWN), "DIV-EPOCH", "medium", "UNCOMMITTED_DIVERGENCE"),
        (divergent("epoch", cause=CLEAN), "DIV-TAIL-PENDING", "info", "UNCOMMITTED_DIVERGENCE"),
        (divergent("epoch", cause=CLEAN, committed_end=35), "DIV-EPOCH", "medium", "UNCOMMITTED_DIVERGENCE"),
        (divergent("epoch", cause=UNCLEAN), "DIV-EPOCH", "high", "WILL_LOSE_ON_TRUNCATION"),
        (
            divergent("epoch", cause=UNCLEAN, written_again=(batch(30, 39),)),
            "DIV-EPOCH",
            "medium",
            "UNCOMMITTED_DIVERGENCE",
        ),
        (
            divergent("epoch", cause=UNCLEAN, batches=(batch(30, 34),), written_again=(batch(35, 39),)),
            "DIV-EPOCH",
            "high",
            "WILL_LOSE_ON_TRUNCATION",
        ),
        (divergent("epoch", cause=UNCLEAN, survives=True), "DIV-HIDDEN", "critical", "COMMITTED_DIVERGENCE"),
    ],
)
def test_the_code_of_a_run_and_what_it_asks_for(one, code, severity, verdict):
    item = told_of(one)
    assert (item.code, item.severity, item.verdict) == (code, severity, verdict)


@pytest.mark.parametrize(
    ("one", "end", "what"),
    [
        (
            divergent("hole_here", replica=None),
            40,
            "has nothing at offsets 30 to 39, where broker 1 has records of epoch 2",
        ),
        (
            divergent("hole_there", leader=None),
            40,
            "has records of epoch 1 at offsets 30 to 39, where broker 1 has nothing",
        ),
        (divergent(), 40, "has records of epoch 1 at offsets 30 to 39, where broker 1 has other records of epoch 2"),
        (
            divergent(leader=None, replica=0),
            30,
            "has records of epoch 0 at offsets 30 to 39; the log of broker 1 ends at 30",
        ),
        (
            divergent(leader=None, replica=0),
            25,
            "has records of epoch 0 at offsets 30 to 39; the log of broker 1 ends at 25",
        ),
        (
            divergent(leader=None, replica=None, start_offset=39),
            40,
            "has records without an epoch at offset 39, where broker 1 has other records without an epoch",
        ),
        (
            divergent(leader=3, replica=0),
            30,
            "has records of epoch 0 at offsets 30 to 39, where broker 1 has other records of epoch 3",
        ),
        (
            divergent(written_again=(batch(30, 39),)),
            40,
            "has records of epoch 1 at offsets 30 to 39, which broker 1 has too, as records of epoch 2",
        ),
    ],
)
def test_a_run_says_what_either_side_has(one, end, what):
    item = told_of(one, leader=log(1, *LINEAGE, end=end))
    assert item.message.startswith(f"broker 2 {what}; the fetch protocol"), item.message
    assert item.replica_epoch == one.replica_epoch


def test_of_a_reference_that_a_cleaner_visits_it_is_only_known_what_it_had():
    cleaned = replace(log(1, *LINEAGE), compacted=True)
    assert "where broker 1 had other records of epoch 2" in told_of(divergent(), leader=cleaned).message


@pytest.mark.parametrize(
    ("cut", "fate"),
    [
        (29, "cuts the log at 29"),
        (30, "cuts the log at 30"),
        (31, "keeps everything below 31, so this stays"),
        (40, "keeps everything below 40, so this stays"),
    ],
)
def test_a_run_says_whether_it_is_cut(cut, fate):
    item = told_of(divergent(survives=cut > 30), cut)
    assert item.message.endswith(f"; the fetch protocol {fate}")
    assert texts(item, "replay") == [f"truncate to {cut}: the epochs agree up to there"]


BEFORE = {"predates": True, "is_replaced": True}


@pytest.mark.parametrize(
    ("start", "cut", "changes", "fate"),
    [
        (40, 30, {}, "broker 2 deletes them when it moves its own beginning there"),
        (0, 30, {}, "the fetch protocol cuts the log at 30"),
        (
            0,
            30,
            BEFORE,
            f"the fetch protocol cuts the log at 30, unless broker 1 has them by now: its log {COPIED_BEFORE}",
        ),
        (
            0,
            40,
            {"quiesced": True},
            "whether this stays depends on who leads: the source that names broker 1 may be older than the logs",
        ),
        (0, 40, {}, "whether this stays depends on what broker 1 has there by now: its copy may be older"),
    ],
)
def test_what_becomes_of_a_run_depends_on_what_is_known_of_the_leader(
    start: int, cut: int, changes: dict[str, Any], fate: str
) -> None:
    leader = replace(log(1, *LINEAGE), log_start_offset=start)
    one = divergent(leader=None if start else 2)
    (item,) = div.judge(case(leader, compared(log(2, *LINEAGE), one, cut=cut), **changes))
    assert item.message.endswith(f"; {fate}"), item.message


def test_a_run_inside_a_batch_that_goes_whole_leaves_a_hole() -> None:
    spanning = ALIKE._replace(own=Batches.of((batch(30, 39),)), reference=Batches.of((batch(30, 32),)))
    (item,) = div.judge(case(log(1, *LINEAGE), compared(log(2, *LINEAGE), divergent(), cut=33, alignment=spanning)))
    assert item.message.endswith(
        "; the fetch protocol cuts the log at 33, inside a batch that is removed whole, which leaves a hole"
    )


@pytest.mark.parametrize(
    ("one", "excuse"),
    [
        (divergent("epoch"), "lag: no, the records differ"),
        (divergent("content", leader=2, replica=2), "lag: no, the records differ"),
        (divergent("hole_here"), "lag: no, it lies inside both logs"),
        (divergent(written_again=(batch(30, 39),)), "loss: no, they were sent again to another leader"),
    ],
)
def test_a_run_says_why_it_is_none_of_what_is_harmless(one, excuse):
    assert texts(told_of(one), "considered")[:4] == [
        excuse,
        "retention: no, it lies above both log starts",
        "compaction: no, neither replica shows any",
        "corruption: no, every batch compared has the right checksum",
    ]


@pytest.mark.parametrize("compacted", [(1,), (2,), (1, 2)])
def test_compaction_is_ruled_out_by_how_far_the_cleaners_came(compacted):
    one, two = (replace(log(broker, *LINEAGE), compacted=broker in compacted) for broker in (1, 2))
    item = told_of(divergent(), leader=one, follower=replace(two, cleaning=Cleaning(furthest=17)))
    assert texts(item, "considered")[2] == (
        "compaction: no, the partition's cleaners got to 17, and cleaners change no record"
    )


def test_what_makes_a_loss_likely_is_told_with_its_broker():
    proof = CommitProof("sole_isr", 3, "broker 3 was alone in the ISR", "9", evidence=("record 7", "record 8"))
    item = told_of(divergent(likely=proof))
    assert item.message.endswith("cuts the log at 30; broker 3 was alone in the ISR")
    assert [(one.text, one.broker_id, one.value) for one in item.evidence if one.kind == "leadership"] == [
        ("record 7", 3, "9"),
        ("record 8", 3, "9"),
    ]
    assert texts(told_of(divergent()), "leadership") == []


def test_a_batch_that_is_damaged_on_one_side_and_a_changed_header_which_is_told_elsewhere():
    pairs = [
        CorruptPair("blind", 0, 5, 1, 2, 0, "another epoch"),
        CorruptPair("crc", 10, 15, 1, 2, 383, "the checksum fails"),
    ]
    (item,) = div.judge(case(log(1, *LINEAGE), compared(log(2, *LINEAGE), alignment=Alignment(corrupt=pairs))))
    assert (item.code, place(item)) == ("DIV-CORRUPT", (1, 10, 15))


def test_a_difference_that_something_else_would_explain_is_not_proven():
    item = compared(log(2, *LINEAGE), divergent(), cut=30, doubt="the directory may be of another topic")
    (told,) = div.judge(case(log(1, *LINEAGE), item))
    assert told.confidence == "likely" and texts(told, "considered")[-1] == "the directory may be of another topic"


SHARED = [batch(0, 9), batch(10, 19)]
THIN = batch(10, 19, crc=8)


@pytest.mark.parametrize(
    ("own", "theirs", "differ"),
    [
        (SHARED, SHARED, False),
        ([*SHARED, THIN], SHARED, True),
        (SHARED, [*SHARED, THIN], True),
        ([SHARED[0], THIN], SHARED, True),
        # Outside of what both logs can have: below the greater start, and past the shorter end.
        ([batch(0, 4), *SHARED[1:], batch(40, 44)], SHARED[1:], False),
        (SHARED[1:], [batch(0, 4), *SHARED[1:], batch(40, 44)], False),
        ([batch(0, 2), *SHARED[1:], batch(42, 44)], SHARED[1:], False),
        ([batch(0, 5), *SHARED[1:]], SHARED[1:], True),
        ([*SHARED[1:], batch(39, 39)], SHARED[1:], True),
    ],
)
@pytest.mark.parametrize("compacted", [(1,), (2,), ()])
def test_of_a_compacted_pair_whose_records_were_not_read_it_is_said_that_batches_differ(own, theirs, differ, compacted):
    one, two = log(1, (0, 5), end=60), log(2, *LINEAGE, end=40)
    one, two = (replace(facts, compacted=facts.broker_id in compacted) for facts in (one, two))
    item = compared(two, alignment=Alignment(own=Batches.of(own), reference=Batches.of(theirs)))
    told = list(div.judge(case(one, item)))
    assert [(found.code, found.severity, found.broker_id) for found in told] == (
        [("DIV-PRESENCE", "info", 2)] if differ and compacted else []
    )
    if told:
        assert (
            "broker 2 and broker 1 hold different batches of this compacted partition; only epochs" in told[0].message
        )


def _read(alignment: Alignment = ALIKE, *, quiesced: bool = False, **outcome: Any) -> list[Finding]:
    """All that is told of a compacted pair whose records were read: 1 record on broker 1 only, 3 on broker 2 only."""
    known = Compaction(35, 1, 3, complete=True, keys=KeyState())
    item = compared(
        replace(log(2, *LINEAGE), compacted=True), alignment=alignment, compaction=known._replace(**outcome)
    )
    made = case(log(1, *LINEAGE), item, quiesced=quiesced)
    return list(div.judge(made))


def _difference(kind: str = "content", start: int = 10, end: int = 15, *, compared: bool = True) -> Difference:
    return Difference(kind, start, end, 0, 0, NO_BATCHES, compared=compared)


ONE_SIDED = (
    "in this compacted partition broker 1 has 1 record that broker 2 does not have, and broker 2 has 3 records that "
    "broker 1 does not have"
)
ALL_EQUAL, SOME_UNREAD = "every record that both have is equal", "some records could not be read"
SAME_KEYS, NO_OTHER = "so is the latest value of each key", "no key was seen with different latest values"
DIFFERING = {"alive_on_follower": 1, "start_offset": 3, "end_offset": 4}


@pytest.mark.parametrize(("holder", "other", "counts"), [(1, 2, (3, 0)), (2, 1, (0, 3))])
def test_of_a_compacted_pair_only_who_has_more_is_named(holder, other, counts):
    only_reference, only_follower = counts
    (item,) = found(_read(only_reference=only_reference, only_follower=only_follower), "DIV-PRESENCE")
    said = f"in this compacted partition broker {holder} has 3 records that broker {other} does not have; "
    assert item.message.startswith(said), item.message


@pytest.mark.parametrize(
    ("differences", "complete", "keys", "said"),
    [
        ((), True, {}, [ALL_EQUAL, SAME_KEYS]),
        ((_difference("epoch"),), True, {}, [NO_OTHER]),
        ((_difference("content"),), True, {}, [NO_OTHER]),
        ((_difference("batching"), _difference("hole_here")), True, {}, [ALL_EQUAL, SAME_KEYS]),
        ((_difference("content", compared=False),), True, {}, [ALL_EQUAL, SAME_KEYS]),
        ((), False, {}, [SOME_UNREAD, NO_OTHER]),
        ((_difference(),), False, {}, [SOME_UNREAD, NO_OTHER]),
        ((), True, DIFFERING, [ALL_EQUAL]),
        ((), True, {"undecided": 1}, [ALL_EQUAL, "1 key cannot be compared until"]),
        ((), True, {"undecided": 2, "kept": 2}, [ALL_EQUAL, "2 keys cannot be compared"]),
        ((_difference(),), False, {**DIFFERING, "undecided": 2}, [SOME_UNREAD, "2 keys cannot be compared until"]),
    ],
)
def test_what_the_records_of_a_compacted_pair_showed(differences, complete, keys, said):
    told = _read(Alignment(differences=differences), complete=complete, keys=KeyState(**keys))
    (item,) = found(told, "DIV-PRESENCE")
    assert (item.severity, item.verdict, item.broker_id) == ("info", None, 2)
    parts = item.message.split("; ")
    assert parts[0] == ONE_SIDED
    assert len(parts) == len(said) + 1
    assert all(part.startswith(words) for part, words in zip(parts[1:], said, strict=True)), parts


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((1, 0, 0), "1 key of this compacted partition has different latest values: 1 gone from broker 1 and still there on broker 2"),
        ((0, 2, 0), "2 keys of this compacted partition have different latest values: 2 gone from broker 2 and still there on broker 1"),
        ((0, 0, 1), "1 key of this compacted partition has different latest values: 1 with a different latest value on each"),
        ((1, 0, 2), "3 keys of this compacted partition have different latest values: "
                    "1 gone from broker 1 and still there on broker 2; 2 with a different latest value on each"),
    ],
)  # fmt: skip
def test_keys_are_counted_by_what_became_of_them(counts, words):
    keys = KeyState(*counts, start_offset=3, end_offset=9, offsets=(3, 8))
    for quiesced in (True, False):
        (item,) = found(_read(keys=keys, quiesced=quiesced), "DIV-KEY-STATE")
        assert item.message == words
        assert (place(item), item.confidence) == ((2, 3, 9), "proven" if quiesced else "likely")
        assert texts(item, "batch") == ["first records in question at offsets 3, 8"]
        assert texts(item, "considered")[0].startswith("lag: no, only offsets below 35 count")
    assert found(_read(keys=KeyState(undecided=1)), "DIV-KEY-STATE") == []


@pytest.mark.parametrize(
    ("differences", "told"),
    [
        ((), []),
        (
            (_difference("batching", 10, 15), _difference("batching", 20, 40), _difference("batching", 22, 25)),
            [("DIV-BATCHING", "low", "proven", (2, 10, 40), "the records of 3 batches within offsets 10 to 39 batched or")],
        ),
        (
            (_difference("format", 10, 11), _difference("batching", 20, 21)),
            [
                ("DIV-FORMAT", "info", "proven", (2, 10, 11), "1 batch within offset 10 in another message format; the records are"),
                ("DIV-BATCHING", "low", "proven", (2, 20, 21), "the records of 1 batch within offset 20 batched"),
            ],
        ),
        (
            (_difference("format", 10, 15, compared=False), _difference("format", 20, 25)),
            [
                ("DIV-FORMAT", "info", "suspect", (2, 10, 15), "1 batch within offsets 10 to 14 in another message format; the records could not"),
                ("DIV-FORMAT", "info", "proven", (2, 20, 25), "1 batch within offsets 20 to 24 in another message format; the records are equal"),
            ],
        ),
        # Other records, and none, are not another way to store them; batches of a cleaner that were not read are DIV-PRESENCE.
        ((_difference("content"), _difference("hole_here"), _difference("epoch")), []),
        ((_difference("batching", compared=False),), []),
    ],
)  # fmt: skip
def test_equal_records_that_are_stored_otherwise(differences, told):
    item = compared(log(2, *LINEAGE), alignment=Alignment(differences=differences))
    items = list(div.judge(case(log(1, *LINEAGE), item)))
    assert [(one.code, one.severity, one.confidence, place(one)) for one in items] == [row[:4] for row in told]
    for one, row in zip(items, told, strict=True):
        assert one.message.startswith(f"broker 2 has {row[4]}"), one.message
        assert paths(one) == set() and len(texts(one, "considered")) == 1


def test_of_keys_deleted_past_the_end_of_a_follower_only_one_that_was_down_keeps_the_values():
    keys = KeyState(undecided=2, kept=2)
    (item,) = found(_read(keys=keys, quiesced=True), "DIV-KEY-STATE")
    assert (item.severity, item.verdict, item.broker_id) == ("medium", None, 2)
    assert "the tombstones are gone too: broker 2 keeps the old values" in item.message
    assert not found(_read(keys=keys), "DIV-KEY-STATE")

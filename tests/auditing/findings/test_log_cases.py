"""Text of findings on one replica's own log: damage and oddities, the effect of a restart, and who can repair it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support import made_cases
from tests.support.made_cases import case, compared

from replica_audit.auditing.compare.alignment import Alignment, CorruptPair
from replica_audit.auditing.compare.record_comparison import RecordProblem
from replica_audit.auditing.finding import Finding
from replica_audit.auditing.findings import log as log_rules
from replica_audit.auditing.replicas.log_contents import CorruptEpoch
from replica_audit.auditing.replicas.replica_facts import Cleaning, ReplicaFacts
from replica_audit.model import Damage, Irregularity, OffsetRange, SegmentSummary


def segment(base: int, *damage: Damage) -> SegmentSummary:
    """A file of which only the damage is looked at."""
    return made_cases.segment(base, base, path=f"{base}.log", damage=damage)


def log(
    broker_id: int,
    *segments: SegmentSummary,
    start: int = 0,
    end: int = 40,
    clean: bool | None = False,
    epochs: tuple[tuple[int, int], ...] = (),
    cut: int | None = None,
    **facts: Any,
) -> ReplicaFacts:
    """A replica with records in [start, end), whose loader cuts at the byte `cut`; `facts` are what its files show."""
    made = made_cases.log(broker_id, segments=segments, clean_shutdown=clean, checkpoint_epochs=epochs)
    shown = {"irregularities": (), "unreadable": (), "missing": (), **facts}
    loaded = made.loaded._replace(cut_position=cut)
    return replace(made, log_start_offset=start, local_start_offset=start, log_end_offset=end, loaded=loaded, **shown)


def found(*replicas: ReplicaFacts, **changes: Any) -> list[Finding]:
    """Findings on a partition that the first replica leads."""
    return list(log_rules.judge(case(replicas[0], *map(compared, replicas[1:]), **changes)))


# --- damage


def damage(kind: str, expected: int | None = 10, following: int | None = None, length: int = 7) -> Damage:
    return Damage(100, length, "what was found there", kind, expected, following)


STOPS = {
    True: "the clean-shutdown flag is set, so a crash does not explain it",
    False: "the broker was not stopped cleanly",
    None: "it is not known how the broker was stopped",
}
TAILS = [
    ("partial", "LOG-TAIL-PARTIAL", "the last batch is incomplete (7 bytes); {}", {True: "medium"}, "low"),
    ("zero_filled", "LOG-TAIL-ZERO", "7 zero bytes up to the end of the file; {}", {True: "medium"}, "info"),
    ("garbage", "LOG-TAIL-GARBAGE", "7 bytes after the last sound batch: neither a batch nor zeros", {}, "medium"),
    ("corrupt", "LOG-TAIL-GARBAGE", "7 bytes after the last sound batch: neither a batch nor zeros", {}, "medium"),
]


@pytest.mark.parametrize("clean", STOPS)
@pytest.mark.parametrize(("kind", "code", "text", "severities", "severity"), TAILS)
def test_the_end_of_the_last_segment_is_a_tail(clean, kind, code, text, severities, severity) -> None:
    (one,) = found(log(2, segment(0), segment(20), segment(30, damage(kind, 35)), clean=clean))
    assert one.message == f"broker 2, 30.log from byte 100: {text.format(STOPS[clean])}"
    assert (one.code, one.severity, one.start_offset) == (code, severities.get(clean, severity), 35)
    assert one.evidence[0].value == "7 bytes"


def test_a_log_that_is_set_aside_and_one_that_begins_with_damage_have_findings_too() -> None:
    (one,) = found(log(1), set_aside=(log(2, segment(30, damage("garbage", None))),))
    assert (one.broker_id, one.start_offset) == (2, 30)


def test_a_tail_that_the_dump_only_told_of_is_told_in_its_words() -> None:
    (one,) = found(log(2, replace(segment(0, damage("partial")), source="dump_text", unproven=("tail",))))
    assert one.message.startswith("broker 2, 0.log from byte 100: what was found there; ")


@pytest.mark.parametrize(
    ("kind", "code", "severity", "is_explained"),
    [("zero_filled", "LOG-TAIL-ZERO", "info", True), ("garbage", "LOG-TAIL-GARBAGE", "medium", False),
     ("partial", "LOG-TAIL-GARBAGE", "medium", False)],
)  # fmt: skip
def test_where_the_dump_tool_died_zeros_are_how_it_ends_a_preallocated_segment(
    kind, code, severity, is_explained
) -> None:
    (one,) = found(log(2, segment(0, damage(kind, length=0)), clean=True))
    assert one.message == "broker 2, 0.log from byte 100: what was found there"
    assert (one.code, one.severity) == (code, severity)
    assert [note.kind for note in one.evidence] == ["file", "considered"][: 1 + is_explained]


@pytest.mark.parametrize(
    ("segments", "place", "lost"),
    [
        # Sound batches follow in the same file, or the next file does.
        ((segment(0, damage("corrupt", 10, 15)),), (10, 15), "25 offsets"),
        ((segment(0, damage("corrupt", None, 15)),), (0, 15), "25 offsets"),
        ((segment(0, damage("partial", 39, None)), segment(40)), (39, 40), "0 offsets"),
        ((segment(0, damage("partial", 45, None)), segment(40)), (45, 45), "0 offsets"),
        ((segment(0, damage("zero_filled", 30, 39)), segment(40)), (30, 39), "1 offset"),
        # A closed segment that ends in zeros (KAFKA-5431), or torn: where the next one begins there are sound batches again.
        ((segment(0, damage("zero_filled", 10, None)), segment(10), segment(25)), (10, 10), "30 offsets"),
        ((segment(0, damage("partial", 15, None)), segment(25)), (15, 25), "15 offsets"),
    ],
)
def test_damage_with_sound_batches_after_it_names_what_recovery_would_destroy(segments, place, lost) -> None:
    (one,) = found(log(2, *segments, clean=None))
    assert (one.code, one.start_offset, one.end_offset) == ("LOG-CORRUPT-MID", *place)
    assert one.message == (
        "broker 2, 0.log from byte 100: 7 unreadable bytes; a full recovery would cut the log there and destroy "
        f"{lost} of sound records after it; readable on no other replica here"
    )


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ({"clean": None, "cut": 100}, "a full recovery would cut the log there and destroy 25 offsets"),
        ({"clean": False, "cut": 100}, "the next start cuts the log there and destroys 25 offsets"),
        ({"clean": False}, "the next start does not check it (clean stop, or below the recovery point)"),
        ({"clean": True}, "the next start does not check it (clean stop, or below the recovery point)"),
    ],
)
def test_damage_says_whether_the_next_start_notices(named, text) -> None:
    (one,) = found(log(2, segment(0, damage("corrupt", 10, 15)), **named))
    assert f"7 unreadable bytes; {text}" in one.message


def test_who_can_repair_damage_has_all_of_it_readable() -> None:
    bad = segment(0, damage("corrupt", 10, 15))
    others = [
        log(1),
        log(3, start=10, end=15),
        log(4, start=11),
        log(5, end=14),
        log(6, unreadable=(OffsetRange(14, 16),)),
        log(7, missing=(OffsetRange(9, 11),)),
        log(8, unreadable=(OffsetRange(15, 20),)),
    ]
    (one,) = found(log(2, bad), *others)
    assert one.message.endswith("; readable on brokers 1, 3 and 8")


def test_of_bytes_between_two_batches_the_next_batch_tells_who_can_repair_them() -> None:
    bad = segment(0, damage("corrupt", 10, 10))
    others = [log(1, unreadable=(OffsetRange(11, 12),)), log(3, unreadable=(OffsetRange(10, 12),))]
    (one,) = found(log(2, bad), *others)
    assert (one.start_offset, one.end_offset) == (10, 10)
    assert one.message.endswith("; readable on broker 1")


def checksum(base: int, last: int, kind: str = "crc") -> Irregularity:
    return Irregularity(kind, 100, base, last, 0, None, "stored CRC 5 is not that of the bytes")


@pytest.mark.parametrize(
    ("base", "code"),
    [(30, "LOG-CORRUPT-MID"), (39, "LOG-CORRUPT-MID"), (40, "LOG-TAIL-GARBAGE"), (41, "LOG-TAIL-GARBAGE")],
)
def test_a_checksum_that_fails_is_a_tail_where_no_sound_batch_follows(base: int, code: str) -> None:
    segments = [segment(0), segment(10), segment(20)]
    bad = checksum(base, base + 1)
    (last,) = found(log(2, *segments, irregularities=((segments[2], bad),)))
    assert (last.code, last.start_offset, last.end_offset) == (code, base, base + 2)
    where = f"broker 2, 20.log at byte 100: checksum of offsets {base} to {base + 1} fails"
    assert last.message.startswith(f"{where}{', and no sound batch follows' if base >= 40 else '; '}")
    # An offset that cannot be, in a segment that others follow.
    for earlier in segments[:2]:
        (middle,) = found(log(2, *segments, irregularities=((earlier, bad),)))
        assert (middle.code, middle.start_offset, middle.end_offset) == ("LOG-CORRUPT-MID", base, base + 2)


# --- batches that cannot be right


@pytest.mark.parametrize(
    ("kind", "code", "previous"),
    [
        ("regression", "LOG-OFFSET-REGRESSION", 7),
        ("duplicate", "LOG-OFFSET-DUPLICATE", 7),
        ("epoch_regression", "LOG-EPOCH-REGRESSION", 7),
        ("segment_name", "LOG-SEGMENT-NAME", None),
        ("field", "LOG-FIELD", None),
        ("producer_duplicate", "LOG-PRODUCER-DUPLICATE", None),
    ],
)
def test_each_irregular_batch_is_told_with_its_place_and_what_is_odd(
    kind: str, code: str, previous: int | None
) -> None:
    """Also where what came before it has been deleted on the leader: that explains a producer that began anew only."""
    item, place = Irregularity(kind, 100, 10, 12, 4, previous, "what is odd"), segment(0)
    (one,) = found(log(1, start=30), log(2, place, irregularities=((place, item),)))
    assert one.message == "broker 2, 0.log at byte 100: offsets 10 to 12, leader epoch 4: what is odd"
    assert (one.code, one.broker_id, one.start_offset, one.end_offset) == (code, 2, 10, 13)
    assert found(log(1), set_aside=(log(2, place, irregularities=((place, item),)),)) == [one]


@pytest.mark.parametrize(("previous", "is_told"), [(28, False), (29, False), (30, True), (31, True)])
def test_a_producer_began_anew_where_all_that_it_had_written_is_deleted(previous: int, is_told: bool) -> None:
    item, place = Irregularity("producer_duplicate", 100, 32, 34, 4, previous, "sequence 0 again"), segment(0)
    told = found(log(1, start=30), log(2, place, irregularities=((place, item),)))
    assert [one.message for one in told] == [
        "broker 2, 0.log at byte 100: offsets 32 to 34, leader epoch 4: sequence 0 again"
    ] * is_told


COMPACTION = {
    "not compacted": ({}, "medium", "does not explain it, nothing shows that this log is compacted"),
    "its own cleaner came past it": (
        {"cleaning": Cleaning(cleaned_to=21, furthest=21)},
        "info",
        "the log is or was compacted, and the gap lies in its cleaned part",
    ),
    "its own cleaner came to its end": (
        {"cleaning": Cleaning(cleaned_to=20, furthest=20)},
        "info",
        "the log is or was compacted, and the gap lies in its cleaned part",
    ),
    "the cleaner of the replica it was fetched from did": (
        {"cleaning": Cleaning(cleaned_to=15, furthest=20, shared=(OffsetRange(15, 20),))},
        "info",
        "fetched from a cleaned replica: another one has nothing there either, and a cleaner got past it",
    ),
    "no cleaner came so far": (
        {"cleaning": Cleaning(cleaned_to=19, furthest=19)},
        "medium",
        "does not explain it, the cleaner got only to 19, and no other replica's got further",
    ),
    "another replica's cleaner came further": (
        {"cleaning": Cleaning(cleaned_to=5, furthest=25)},
        "medium",
        "does not explain it, the cleaner got only to 5, and another replica's got to 25",
    ),
}


@pytest.mark.parametrize("name", COMPACTION)
def test_a_gap_says_whether_compaction_explains_it(name: str) -> None:
    named, severity, why = COMPACTION[name]
    place = segment(0)
    gap = Irregularity("gap", 100, 20, 24, 4, 14, "")
    (one,) = found(log(2, place, irregularities=((place, gap),), compacted=bool(named), **named))
    assert (one.code, one.severity, one.start_offset, one.end_offset) == ("LOG-GAP", severity, 15, 20)
    assert one.message == "broker 2 has nothing at offsets 15 to 19"
    assert [note.text for note in one.evidence] == ["batch at 20 follows offset 14", f"compaction: {why}"]


@pytest.mark.parametrize(
    ("cleaned_to", "other_end", "severity"),
    [(0, 15, "medium"), (0, 16, None), (20, 16, "info"), (20, 15, "info"), (19, 16, None)],
)
def test_a_gap_between_two_segments_may_be_a_missing_segment(cleaned_to, other_end, severity) -> None:
    """Which is told as CAP-MISSING-SEGMENT, where another replica has some of it."""
    holed = log(2, missing=(OffsetRange(15, 20),), compacted=True, cleaning=Cleaning(cleaned_to, furthest=cleaned_to))
    told = found(log(1, end=other_end), holed)
    assert [(one.code, one.severity, len(one.evidence)) for one in told] == (
        [] if severity is None else [("LOG-GAP", severity, int(severity == "info"))]
    )


@pytest.mark.parametrize(
    ("confidence", "in_file", "entries", "texts"),
    [
        (
            "proven",
            False,
            ((2, 0), (3, 20)),
            ("neither its own epoch file nor anything else", "epoch 2 from 0 on, epoch 3 from 20 on", "no election began"),
        ),
        ("likely", True, ((7, 30),), ("its own epoch file has that epoch", "epoch 7 from 30 on", "an election that left a trace only on")),
        ("likely", False, (), ("neither its own epoch file nor", "no entries", "an election that left a trace only on")),
    ],
)  # fmt: skip
def test_a_changed_leader_epoch_says_who_knows_which(confidence, in_file, entries, texts) -> None:
    rot = CorruptEpoch((2, "b"), 30, 35, 7, 3, (1, "a"), confidence, in_file)
    (one,) = found(log(1), log(2, rot=(rot,), epochs=entries))
    known, lineage, looked_at = texts
    assert one.message.startswith("broker 2: offsets 30 to 34 with leader epoch 7") and known in one.message
    assert "broker 1 has the same bytes in epoch 3" in one.message
    assert [note.text for note in one.evidence[:2]] == ["leader epoch 7 here, 3 on broker 1", lineage]
    assert looked_at in one.evidence[2].text
    assert (one.code, one.confidence, one.replica_epoch) == ("LOG-CRC-BLIND", confidence, 7)


def test_of_batches_that_were_compared_changed_headers_and_records_that_nobody_can_decode_are_told() -> None:
    """Bad checksums are DIV-CORRUPT, and records that could not be read are the copy's trouble."""
    pairs = [CorruptPair(kind, base, base + 5, 2, 1, 100, "magic 9") for kind, base in (("crc", 10), ("blind", 20))]
    problems = [
        RecordProblem(2, "0.log", 100, base, base + 5, 90, "bad lz4", kind)
        for base, kind in ((30, "lost"), (35, "undecodable"))
    ]
    item = compared(log(2), alignment=Alignment(corrupt=pairs), problems=tuple(problems))
    told = list(log_rules.judge(case(log(1), item)))
    assert [(one.code, one.start_offset, one.end_offset) for one in told] == [
        ("LOG-CRC-BLIND", 20, 25),
        ("LOG-FIELD", 35, 40),
    ]
    assert told[1].message == (
        "broker 2: the records of 1 batch that had to be compared cannot be decoded, not even by Kafka, though the checksum is "
        "right: bad lz4"
    )

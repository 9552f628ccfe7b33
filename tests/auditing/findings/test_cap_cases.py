"""CAP-* and CHK-* of cases that are put together from facts: every state of a file, and the bounds of each rule."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from tests.support.made_cases import (
    FILES,
    LINEAGE,
    case,
    checkpoint_file,
    compared,
    found,
    leadership,
    log,
    paths,
    place,
    segment,
    texts,
)

from replica_audit.auditing.case import Case
from replica_audit.auditing.catalogue import CATALOGUE
from replica_audit.auditing.compare.record_comparison import RecordProblem
from replica_audit.auditing.finding import Finding
from replica_audit.auditing.findings import cap, cap_partial, cap_skew, chk
from replica_audit.auditing.findings.cap import no_replica
from replica_audit.auditing.findings.cap_skew import skew
from replica_audit.literals import FileState
from replica_audit.schema import QuarantineRow
from replica_audit.text import name_offsets

STATES = get_args(FileState)
CHECKPOINTS = [name for name in FILES if name != "epoch_file"]
MARK = FILES["high_watermark_file"]


def judge(made: Case) -> list[Finding]:
    return [item for module in (cap, cap_skew, cap_partial) for item in module.judge(made)]


def _with_file(name: str, state: FileState, broker_id: int = 1, **changes):
    file = checkpoint_file(broker_id, name, state, f"what is wrong with {name}")
    return log(broker_id, *LINEAGE, **{name: file}, **changes)


@pytest.mark.parametrize("name", FILES)
def test_a_malformed_checkpoint_is_told_of_every_offset_checkpoint_and_of_no_other_file(name):
    told = found(chk.judge(case(_with_file(name, "malformed"))), "CHK-MALFORMED")
    assert [item.message for item in told] == ([f"broker 1: what is wrong with {name}"] if name in CHECKPOINTS else [])
    assert all(paths(item) == {(1, f"broker-1/{FILES[name]}")} for item in told)
    for state in STATES:
        if state != "malformed":
            assert found(chk.judge(case(_with_file(name, state))), "CHK-MALFORMED") == []


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_could_not_be_read_is_told_with_its_path(name):
    (told,) = judge(case(log(1, *LINEAGE), compared(_with_file(name, "unreadable", 2))))
    assert (told.code, told.broker_id, told.verdict) == ("CAP-UNREADABLE", 2, "INCONCLUSIVE")
    assert told.message == f"broker 2: what is wrong with {name}"
    assert paths(told) == {(2, f"broker-2/{FILES[name]}")}
    for state in STATES:
        if state != "unreadable":
            assert list(judge(case(_with_file(name, state)))) == []


CHECKPOINTS_BELOW_13 = [(12, True), (13, False), (14, False), (None, False)]


def test_a_log_start_above_the_high_watermark_checkpoint():
    for checkpoint, above in CHECKPOINTS_BELOW_13:
        late = log(2, (2, 13), high_watermark_checkpoint=checkpoint)
        told = found(chk.judge(case(log(1, *LINEAGE), compared(late))), "CHK-START-ABOVE-HW")
        assert [item.broker_id for item in told] == ([2] if above else [])
        if above:
            assert told[0].message.endswith("log start 13 is above the checkpointed high watermark 12")
            assert told[0].evidence[0].value == "12" and paths(told[0]) == {(2, f"broker-2/{MARK}")}


def test_a_log_start_above_the_checkpoint_and_above_what_is_shown_of_the_log():
    """The log may reach the start, so only the checkpoint is below it."""
    shown = segment(13, 40, (2, 13), unproven=("rest",))
    late = log(2, (2, 13), segments=[shown], log_start_checkpoint=50, high_watermark_checkpoint=45)
    (told,) = found(chk.judge(case(log(1, *LINEAGE), compared(late))), "CHK-START-ABOVE-HW")
    assert told.message.endswith("log start 50 is above the checkpointed high watermark 45")
    assert told.evidence[0].value == "45" and paths(told) == {(2, f"broker-2/{MARK}")}


@pytest.mark.parametrize("state", STATES)
def test_a_partition_without_an_entry_in_a_file_that_has_others(state):
    """Where the whole file is not there, that is told of the log dir, once."""
    for facts, severity in (
        (_with_file("high_watermark_file", state, high_watermark_checkpoint=None), "low"),
        (log(1, end=0, high_watermark_file=checkpoint_file(1, "high_watermark_file", state),
             high_watermark_checkpoint=None), "info"),
    ):  # fmt: skip
        told = found(chk.judge(case(facts)), "CHK-MISSING")
        assert [(item.severity, item.broker_id) for item in told] == ([(severity, 1)] if state == "present" else [])
        if told:
            assert told[0].message.endswith(f"{MARK} has no entry for orders-0")
    assert found(chk.judge(case(_with_file("high_watermark_file", state))), "CHK-MISSING") == []


def test_entries_of_log_dirs_that_do_not_have_the_partition_are_told_in_order():
    places = {(2, "broker-2/b", MARK): 7, (1, "broker-1", MARK): 5, (2, "broker-2/a", MARK): 6}
    told = list(chk.judge(case(log(1, *LINEAGE), orphans=places)))
    assert [(item.code, paths(item), item.evidence[0].value) for item in told] == [
        ("CHK-ORPHAN-ENTRY", {(1, "broker-1")}, "5"),
        ("CHK-ORPHAN-ENTRY", {(2, "broker-2/a")}, "6"),
        ("CHK-ORPHAN-ENTRY", {(2, "broker-2/b")}, "7"),
    ]
    assert told[0].message == f"broker 1: {MARK} has 5 for orders-0, which is not in that log dir"


def _problem(broker_id: int, start: int, *, lost: bool) -> RecordProblem:
    return RecordProblem(
        broker_id, f"broker-{broker_id}/x.log", 7, start, start + 5, 90, "it is gone", "lost" if lost else "undecodable"
    )


def test_records_that_could_not_be_read_are_told_once_a_broker_and_undecodable_ones_elsewhere():
    problems = tuple(
        _problem(broker, start, lost=lost)
        for broker, start, lost in ((2, 20, True), (1, 5, True), (2, 10, True), (1, 0, False))
    )
    told = list(judge(case(log(1, *LINEAGE), compared(log(2, *LINEAGE), problems=problems))))
    assert [place(item) for item in told] == [(1, 5, 10), (2, 10, 25)]
    assert {item.code for item in told} == {"CAP-UNREADABLE"}
    assert "the records of 2 batches that had to be compared could not be read: it is gone" in told[1].message


def test_a_copy_with_a_segment_that_was_not_read_and_one_without_any():
    unread = log(2, *LINEAGE, segment_bases=(0, 40))
    (told,) = judge(case(log(1, *LINEAGE), set_aside=(unread,)))
    assert (told.code, told.broker_id, paths(told)) == ("CAP-UNREADABLE", 2, {(2, "broker-2/orders-0")})
    assert "1 of 2 segments in broker-2/orders-0 could not be read; its log was not compared" in told.message
    bare = replace(log(2, *LINEAGE, segment_bases=()), segments=())
    (told,) = judge(case(log(1, *LINEAGE), set_aside=(bare,)))
    assert (told.code, told.broker_id, paths(told)) == ("CAP-MISSING-SEGMENT", 2, {(2, "broker-2/orders-0")})
    closed = replace(log(2, *LINEAGE, segment_bases=(), problem="Permission denied"), segments=())
    (told,) = judge(case(log(1, *LINEAGE), set_aside=(closed,)))
    assert (told.code, told.message) == ("CAP-UNREADABLE", "broker 2: Permission denied")


@pytest.mark.parametrize(
    ("broker_id", "severity", "what"),
    [
        (3, "medium", "broker 3 is in sync, but"),
        (4, "medium", "broker 4 leads, but"),
        (5, "medium", "broker 5 is assigned, but"),
    ],
)
def test_a_replica_that_is_not_there_matters_where_no_history_says_how_it_left(broker_id, severity, what):
    said = leadership(leader_id=4, isr=(1, 3), replicas=(1, 2, 3, 4, 5))
    told = found(
        judge(case(log(1, *LINEAGE), compared(log(2, *LINEAGE)), said=said, leader_id=4)),
        "CAP-MISSING-REPLICA",
    )
    assert [item.broker_id for item in told] == [3, 4, 5]
    (item,) = [item for item in told if item.broker_id == broker_id]
    assert (item.severity, item.verdict) == (severity, "INCONCLUSIVE") and item.message.startswith(what)


def test_a_replica_that_is_there_in_any_way_is_not_missing():
    said = leadership(replicas=(1, 2, 3, 4))
    there = case(
        log(1, *LINEAGE), compared(log(2, *LINEAGE)), said=said, foreign=(log(3, (0, 0)),), set_aside=(log(4, (0, 0)),)
    )
    assert found(judge(there), "CAP-MISSING-REPLICA") == []
    nobody_said = replace(case(log(1, *LINEAGE), compared(log(2, *LINEAGE)), isr=None), leadership=None)
    assert list(judge(nobody_said)) == []


def test_one_copy_of_which_nothing_says_how_many_there_are_is_compared_with_nothing():
    alone = replace(case(log(1, *LINEAGE), isr=None), leadership=None)
    (told,) = judge(alone)
    assert (told.code, told.severity, told.verdict, told.broker_id) == (
        "CAP-MISSING-REPLICA",
        "medium",
        "INCONCLUSIVE",
        None,
    )
    assert told.message.startswith("nothing was compared: broker 1 has the only copy in the snapshot")
    # A metadata log without the partition says that it was deleted; another copy says more; and one replica may be all.
    listed = replace(case(log(1, *LINEAGE), isr=None, has_metadata_log=True), leadership=None)
    assert list(judge(listed)) == []
    assert list(judge(replace(alone, duplicates=(log(1, *LINEAGE),)))) == []
    assert list(judge(case(log(1, *LINEAGE), said=leadership(isr=(1,), replicas=(1,))))) == []


FIRST, LATER = segment(10, 20, (0, 10)), segment(30, 40, (2, 30))


INDEXES = [
    ((), []),
    # Below the first segment, of which the log start may know; above the last nobody knows the end.
    ((0, 5), [(0, 10)]),
    ((9,), [(9, 10)]),
    ((10,), []),
    ((20, 29), []),
    ((30,), []),
    ((31,), [(31, None)]),
    ((40, 60), [(40, None)]),
    ((5, 50), [(5, 10), (50, None)]),
]


def test_indexes_that_outlived_their_log_show_where_it_was():
    for index_bases, told in INDEXES:
        facts = log(1, segments=(FIRST, segment(20, 30, (0, 20)), LATER), index_bases=index_bases)
        items = list(judge(case(facts)))
        assert [(item.start_offset, item.end_offset) for item in items] == told
        assert {item.code for item in items} <= {"CAP-MISSING-SEGMENT"}
        assert [text for item in items for text in texts(item, "file")] == [
            f"base offset {base}" for base in index_bases if told
        ]
        for item in items:
            where = (
                f"offsets from {item.start_offset} on" if item.end_offset is None else name_offsets(*place(item)[1:])
            )
            told_of = f"segment {item.start_offset} has other files but no .log; {where} cannot be compared"
            assert item.message == f"broker 1: {told_of}"


def test_indexes_of_a_log_without_segments_are_told_with_the_directory():
    bare = replace(log(2, *LINEAGE, segment_bases=(), index_bases=(0, 7)), segments=())
    assert [item.start_offset for item in judge(case(log(1, *LINEAGE), set_aside=(bare,)))] == [None]


@pytest.mark.parametrize("index_bases", [(), (0, 20)])
@pytest.mark.parametrize("others", [True, False])
def test_a_segment_between_two_others_is_missing_where_something_shows_that_it_was_there(others, index_bases):
    """Indexes below the first segment are then not told besides: the copy as a whole is torn."""
    holed = log(1, segments=(FIRST, LATER), index_bases=index_bases)
    follower = log(2, *LINEAGE) if others else log(2, (2, 35), end=40)
    told = list(judge(case(holed, compared(follower))))
    assert [place(item) for item in told] == ([(1, 20, 30)] if others or index_bases else [])
    if told:
        shown = ["index or snapshot files of segment 20 are there without its .log"] if index_bases else []
        shown += ["broker 2 has records in this range"] if others else []
        assert texts(told[0], "file") == shown
    compacted = replace(holed, compacted=True, cleaning=holed.cleaning._replace(cleaned_to=30))
    assert list(judge(case(compacted, compared(follower)))) == []


@pytest.mark.parametrize(
    ("said", "named", "observed", "code", "severity", "source"),
    [
        (None, False, True, "CAP-MISSING-REPLICA", "info", "replica_progress"),
        (None, True, True, "CAP-MISSING-REPLICA", "medium", "a checkpoint file names"),
        (None, True, False, "CAP-MISSING-REPLICA", "medium", "a checkpoint file names"),
        (None, False, False, "CAP-UNREADABLE", "high", "a checkpoint file names"),
        (leadership(), False, True, "CAP-MISSING-REPLICA", "medium", "the leadership file names"),
        (leadership(), True, False, "CAP-MISSING-REPLICA", "medium", "the leadership file names"),
        (leadership(replicas=None), False, False, "CAP-UNREADABLE", "high", "the leadership file names"),
        (leadership(replicas=None), True, True, "CAP-MISSING-REPLICA", "medium", "the leadership file names"),
    ],
)
def test_a_partition_without_any_replica(said, named, observed, code, severity, source):
    item = no_replica(said, named_by_checkpoint=named, observed=observed)
    assert (item.code, item.severity) == (code, severity)
    assert item.message.startswith(source)


def test_of_quarantined_input_only_what_could_not_be_read_is_told_as_such():
    row = QuarantineRow(1, None, None, "broker-1/x", None, None, "", "it is a link")
    rows = {code: row._replace(code=code) for code in (*CATALOGUE, "INPUT-IGNORED")}
    told = {code: cap.of_input(row) or cap_skew.of_input(row) for code, row in rows.items()}
    assert [code for code, item in told.items() if item is not None] == ["CAP-UNREADABLE", "CAP-SKEW"]
    assert (told["CAP-SKEW"].severity, told["CAP-SKEW"].verdict) == ("info", None)
    assert told["CAP-UNREADABLE"].message == "broker-1/x: it is a link"


@pytest.mark.parametrize(("quiesced", "words"), [(True, "brokers that stop one"), (False, "copies of a running")])
def test_skew_explains_what_it_is_not_said_to_leave_open(quiesced, words):
    made = case(log(1, *LINEAGE), quiesced=quiesced)
    item = skew(made, log(2, *LINEAGE), "the text", 30, 35)
    assert item.message.startswith(f"the text; {words}") and item.message.endswith("which explains it")
    assert (place(item), item.severity, item.confidence) == ((2, 30, 35), "info", "likely")
    assert texts(item, "leadership") == []
    doubtful = skew(made, log(2, *LINEAGE), "the text", 30, 35, "2 before 1", doubtful=True)
    assert doubtful.message.endswith("may explain it, unless records were lost")
    assert texts(doubtful, "leadership") == ["manifest.json: 2 before 1"]


def test_leadership_that_is_older_than_the_logs_and_a_copy_that_is_older_than_it():
    one, two = log(1, *LINEAGE), log(2, *LINEAGE)
    assert list(judge(case(one, compared(two)))) == []
    older = leadership(leader_id=1, leader_epoch=1)
    (outdated,) = judge(case(two, compared(one), outdated=older))
    assert (outdated.code, outdated.broker_id) == ("CAP-SKEW", 2)
    assert outdated.message.startswith(
        "the leadership file names broker 1 in leader epoch 1; broker 2 knows leader epoch 2, which is later"
    )
    (early,) = judge(case(one, compared(two), predates=True))
    assert (early.code, early.broker_id, paths(early)) == ("CAP-SKEW", 1, {(1, f"broker-1/{FILES['epoch_file']}")})
    assert early.message.startswith("broker 1 leads in epoch 2 by the leadership file, but its own epoch file")


def _from_text(broker_id: int, *unproven: str, source: str = "dump_text", **changes):
    """A log of which a listing shows two files."""
    files = [
        segment(
            base,
            base + 20,
            (epoch, base),
            source=source,
            unproven=unproven,
            path=f"dump/{broker_id}.txt (lines from {base})",
        )
        for epoch, base in LINEAGE
    ]
    return log(broker_id, segments=files, **changes)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("dump_text", "text of kafka-dump-log"),
        ("batch_table", "a table of batches"),
        ("record_table", "a table of records"),
    ],
)
def test_a_log_that_is_known_second_hand_names_its_source_once_and_what_it_leaves_open(source, words):
    (item,) = judge(case(_from_text(1, "sizes", "tail", source=source)))
    assert item.message == f"broker 1: the log is known from {words} only"
    assert (item.code, item.severity, item.verdict) == ("CAP-SECOND-HAND", "info", None)
    assert [one.path for one in item.evidence if one.kind == "input"] == ["dump/1.txt"]
    assert texts(item, "unproven") == [
        "sizes are not those of the file",
        "what the bytes after the last batch are is not shown",
    ]


@pytest.mark.parametrize("state", STATES)
def test_a_log_known_from_text_lacks_the_side_files_that_nothing_tells_of(state):
    """A file that was copied and cannot be read is another matter, and told as that."""
    (item,) = found(judge(case(_with_side_file("epoch_file", state))), "CAP-SECOND-HAND")
    told = [text for text in texts(item, "unproven") if text.startswith("leader-epoch-checkpoint and topic id")]
    assert len(told) == (state == "not_given")
    (item,) = found(judge(case(_with_side_file("high_watermark_file", state))), "CAP-SECOND-HAND")
    told = [text for text in texts(item, "unproven") if text.startswith("checkpoints and how the broker was stopped")]
    assert len(told) == (state in ("not_given", "unreadable"))


def _with_side_file(name: str, state: FileState):
    return _from_text(1, **{name: checkpoint_file(1, name, state)})


def test_what_was_set_aside_says_why_and_what_could_not_be_read_is_told_elsewhere():
    bare = replace(log(2, *LINEAGE, segment_bases=()), segments=())
    made = case(log(1, *LINEAGE), set_aside=(bare, _from_text(3, "left_out"), _from_text(4, "leader_epochs")))
    told = found(judge(made), "CAP-SECOND-HAND")
    assert [(item.broker_id, item.severity, item.verdict) for item in told] == [
        (3, "medium", "INCONCLUSIVE"),
        (4, "medium", "INCONCLUSIVE"),
    ]
    why = "; it was not compared with broker 1, because of broker {}: {}"
    assert why.format(3, "lines of the listing are missing") in told[0].message
    assert why.format(4, "no leader epochs") in told[1].message


def test_a_reference_that_is_undecided_itself_says_the_first_reason():
    (item,) = judge(case(_from_text(1, "overlap", "left_out", "tail")))
    assert item.message.partition("only; ")[2].startswith("lines of the listing are missing")
    assert (item.severity, item.verdict) == ("medium", "INCONCLUSIVE")

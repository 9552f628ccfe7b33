"""EPO-* of one replica's epoch file: which entries count, and where, in cases put together from facts, and on disk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

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
from tests.support.scenario import audit, written, written_legacy
from tests.support.snapshots import Replica, write_manifest

from replica_audit.auditing.finding import Finding
from replica_audit.auditing.findings import epo
from replica_audit.auditing.replicas.log_contents import CorruptEpoch
from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.literals import FileState
from replica_audit.model import OffsetRange
from replica_audit.runner.in_process import audit_all

NAME = f"broker-2/{FILES['epoch_file']}"
REFERENCE = log(1, *LINEAGE)
#: Codes of the epoch file; the others of the family compare lineages.
OF_FILE = ("EPO-FILE-CORRUPT", "EPO-CACHE-MISSING", "EPO-CACHE-STALE", "EPO-NON-MONOTONIC")


def told_of_file(facts, **changes: Any) -> list[Finding]:
    """All that is told of a follower's epoch file."""
    told = [item for item in epo.judge(case(REFERENCE, compared(facts), **changes)) if item.code in OF_FILE]
    assert all(item.broker_id == 2 and (2, NAME) in paths(item) for item in told)
    return told


def with_file(*entries: tuple[int, int], **changes: Any):
    """A follower with the batches of the reference and these entries."""
    return log(2, *LINEAGE, checkpoint_epochs=entries, **changes)


@pytest.mark.parametrize("state", get_args(FileState))
def test_the_states_of_an_epoch_file(state):
    file = {"epoch_file": checkpoint_file(2, "epoch_file", state, "line 2: a word")}
    entries = {"checkpoint_epochs": LINEAGE if state == "present" else () if state == "empty" else None}
    told = told_of_file(log(2, *LINEAGE, **file, **entries))
    messages = {
        "malformed": ("EPO-FILE-CORRUPT", "broker 2: line 2: a word; a broker refuses to start with it"),
        "empty": ("EPO-FILE-CORRUPT", f"broker 2: {NAME} is empty though the log has batches with leader epochs"),
        "missing": (
            "EPO-CACHE-MISSING",
            f"broker 2: {NAME}: the batches have epochs {{0:0, 2:20}}, which the file does not have for those offsets",
        ),
    }
    assert [(item.code, item.message) for item in told] == ([messages[state]] if state in messages else [])
    # Beside a log without records, or without epochs, none is needed.
    for bare in (log(2, end=0, **file, **entries), log(2, (-1, 0), **file, **entries)):
        assert {item.code for item in told_of_file(bare)} - {"EPO-CACHE-STALE"} == (
            {"EPO-FILE-CORRUPT"} if state == "malformed" else set()
        )


NEIGHBOURS = [
    (LINEAGE, []),
    (((0, 0), (0, 20)), [((0, 0), (0, 20))]),
    (((0, 20), (2, 20)), [((0, 20), (2, 20))]),
    (((3, 0), (2, 20)), [((3, 0), (2, 20))]),
    (((1, 30), (2, 20)), [((1, 30), (2, 20))]),
    (((0, 0), (2, 20), (1, 30)), [((2, 20), (1, 30))]),
    (((0, 0), (2, 20), (3, 10), (4, 10)), [((2, 20), (3, 10)), ((3, 10), (4, 10))]),
    # Numbers that would rise if an epoch were compared with an offset.
    (((0, 0), (20, 25), (21, 30)), []),
    (((30, 0), (35, 20)), []),
]


def test_neighbouring_entries_that_do_not_increase():
    for entries, said in NEIGHBOURS:
        told = found(told_of_file(with_file(*entries)), "EPO-NON-MONOTONIC")
        assert [(item.message, item.start_offset) for item in told] == [
            (f"broker 2: {NAME} goes from epoch {one[0]} at {one[1]} to epoch {two[0]} at {two[1]}", two[1])
            for one, two in said
        ]


OUTSIDE = [
    (0, LINEAGE, None),
    # An entry at the end is that of a leader which has not written yet.
    (0, ((0, 0), (2, 20), (3, 40)), None),
    (0, ((0, 0), (2, 20), (3, 41)), ((3, 41),)),
    (0, ((0, 0), (2, 20), (50, 39)), None),
    (0, ((0, 0), (2, 20), (3, 50), (4, 60)), ((3, 50), (4, 60))),
    # Retention cuts the file down to one entry, which may stay behind the log start; more do not.
    (25, ((2, 20),), None),
    (25, ((2, 25),), None),
    (25, ((0, 0), (2, 20)), ((0, 0), (2, 20))),
    (25, ((0, 0), (2, 25)), None),
    (25, ((0, 0), (2, 30)), None),
    (25, ((0, 0), (2, 20), (3, 41)), ((3, 41),)),
    (25, ((0, 0), (1, 10), (2, 24)), ((0, 0), (1, 10), (2, 24))),
]


def test_entries_outside_the_log_are_stale():
    for log_start, entries, outside in OUTSIDE:
        starts = LINEAGE if log_start == 0 else ((2, log_start),)
        told = found(told_of_file(log(2, *starts, checkpoint_epochs=entries)), "EPO-CACHE-STALE")
        text = None if outside is None else ", ".join(f"{epoch}:{start}" for epoch, start in outside)
        assert [item.message for item in told] == (
            [] if outside is None else [f"broker 2: {NAME} has entries outside the log {{{text}}}"]
        )
        assert all((item.severity, item.verdict) == ("info", None) for item in told)


def test_an_entry_past_what_a_listing_shows_is_not_stale():
    part = segment(0, 40, *LINEAGE, source="dump_text", unproven=("rest",))
    told = told_of_file(with_file(*LINEAGE, (3, 50), segments=(part,)))
    assert found(told, "EPO-CACHE-STALE") == []
    assert found(told_of_file(with_file(*LINEAGE, (3, 50))), "EPO-CACHE-STALE") != []


BATCHES, ENTRIES = (
    "the batches have epochs {}, which the file does not have for those offsets",
    ("the file has {}, where the batches have another epoch"),
)


CONTRADICTIONS = [
    # Only what came last is missing: it may have come since the file was copied.
    (((0, 0),), BATCHES.format("{2:20}"), 20, "only the newest"),
    (((0, 0), (1, 40)), BATCHES.format("{2:20}"), 20, "only the newest"),
    (((0, 0), (3, 20)), BATCHES.format("{2:20}"), 20, None),
    (((0, 0), (2, 30)), BATCHES.format("{2:20}"), 20, None),
    (((0, 0), (2, 10)), ENTRIES.format("{2:10}"), 10, None),
    # The log start may have moved to where an epoch begins since the last checkpoint.
    (((2, 20),), BATCHES.format("{0:0}"), 0, "only the oldest"),
    (((2, 0),), BATCHES.format("{0:0}"), 0, None),
    (((0, 0), (1, 10), (2, 20)), ENTRIES.format("{1:10}"), 10, None),
    (((0, 0), (1, 30)), BATCHES.format("{2:20}"), 20, None),
    (((1, 5), (2, 20)), BATCHES.format("{0:0}"), 0, None),
    (((0, 0), (2, 20), (3, 39)), ENTRIES.format("{3:39}"), 39, None),
    (((0, 0), (2, 20), (3, 40)), None, None, None),
    (((0, 0), (2, 20), (3, 50)), None, None, None),
    # Retention has moved the log start inside an epoch; its segments are still there.
    (((0, 10), (2, 20)), None, None, None),
    (((2, 25),), None, None, None),
    (((2, 25), (3, 30)), ENTRIES.format("{3:30}"), 30, None),
]


def test_epochs_of_batches_that_the_file_does_not_give():
    for entries, text, start, excuse in CONTRADICTIONS:
        facts = with_file(*entries)
        for quiesced in (False, True):
            told = found(told_of_file(facts, quiesced=quiesced), "EPO-CACHE-MISSING")
            # With a later epoch it may be the later file, though only if the log was cut below what broker 1 had committed.
            is_doubted = entries[-1][0] > 2 and not quiesced
            doubt = f"; likely, not proven: the file may also be newer than the log, if the log has since been cut at {start}, below "
            doubt = doubt + "the high watermark 40 of broker 1; copy broker 2 again" if is_doubted else ""
            assert [item.message for item in told] == ([] if text is None else [f"broker 2: {NAME}: {text}{doubt}"])
            for item in told:
                assert item.confidence == ("likely" if is_doubted else "proven")
                excused = excuse is not None and not quiesced
                assert (item.severity, item.verdict) == (("info", None) if excused else ("high", "LATENT_CORRUPTION"))
                assert place(item) == (2, start, None)
                assert texts(item, "lineage")[1] == "from the batches: {0:0, 2:20}"
                assert (excuse or "no, older epochs" if excused else "no, older epochs") in texts(item, "considered")[0]


@pytest.mark.parametrize("base", [10, 20, 30])
def test_a_file_that_was_cut_to_the_base_of_a_later_segment_lacks_nothing_below(base):
    """Retention cuts the file before it deletes segments: an entry at the base of one tells nothing of those before."""
    files = segment(0, base, (0, 0)), segment(base, 40, (2, base))
    facts = log(2, segments=files, checkpoint_epochs=((2, base),))
    assert told_of_file(facts) == []
    # The same entry in a log of one file: the other epoch is missing.
    told = told_of_file(log(2, (0, 0), (2, base), checkpoint_epochs=((2, base),)), quiesced=True)
    assert [(item.code, item.start_offset) for item in told] == [("EPO-CACHE-MISSING", 0)]
    # The base of the first segment is where the log begins.
    told = told_of_file(log(2, segments=files, checkpoint_epochs=((1, 0), (2, base))))
    assert [(item.code, item.start_offset) for item in told] == [("EPO-CACHE-MISSING", 0)]


HOLE = OffsetRange(10, 15)


@pytest.mark.parametrize(("start", "told"), [(9, True), (10, False), (12, False), (15, False), (16, True)])
@pytest.mark.parametrize("where", ["gaps", "unreadable", "missing"])
def test_an_entry_inside_or_beside_what_is_not_there_may_be_right(where, start, told):
    facts = replace(with_file((0, 0), (1, start), (2, 20)), **{where: (HOLE,)})
    assert [item.start_offset for item in told_of_file(facts)] == ([start] if told else [])


def test_an_entry_that_recovery_took_from_a_changed_batch_is_told_with_that_batch():
    facts = with_file((0, 0), (1, 10), (2, 20))
    rot = CorruptEpoch(facts.key, 10, 15, 1, 0, (1, "broker-1"), "proven", in_file=True)
    assert told_of_file(replace(facts, rot=(rot,))) == []
    for other in (rot._replace(start_offset=11), rot._replace(leader_epoch=3)):
        assert [item.start_offset for item in told_of_file(replace(facts, rot=(other,)))] == [10]


def test_the_epoch_file_of_every_replica_is_looked_at():
    one, three = (log(broker, *LINEAGE, checkpoint_epochs=((0, 0),)) for broker in (1, 3))
    told = list(epo.judge(case(one, compared(log(2, *LINEAGE)), compared(three))))
    assert [item.broker_id for item in told] == [1, 3]


LOG = [*written(0, 20, 0), *written(20, 40, 2)]


def beside_a_sound_one(path, broker: Replica, **options):
    """The answer on two logs on disk, the first one sound."""
    return audit(path, {1: Replica(LOG), 2: broker}, **options)


@pytest.mark.parametrize("content", [b"0\n3\n0 0\n2 20\n", b"1\n2\n0 0\n2 20\n", b"nonsense", b"0\n1\n-1 0\n"])
def test_a_file_on_which_a_broker_refuses_to_start(tmp_path, content):
    answer = beside_a_sound_one(tmp_path, Replica(LOG, replace={"orders-0/leader-epoch-checkpoint": content}))
    assert answer.one("EPO-FILE-CORRUPT", 2)[:2] == ("high", "proven")
    assert answer.verdict == "LATENT_CORRUPTION"
    assert answer.replica(2)["checkpoint_epochs"] is None


def test_an_empty_file_is_wrong_beside_epochs_and_right_beside_an_empty_log(tmp_path):
    wrong = beside_a_sound_one(tmp_path / "wrong", Replica(LOG, epochs=[]), in_order=True)
    assert wrong.one("EPO-FILE-CORRUPT", 2)[0] == "high" and wrong.verdict == "LATENT_CORRUPTION"
    # It may have been copied before the log had a batch, where nothing says in which order the files were.
    unordered = beside_a_sound_one(tmp_path / "any", Replica(LOG, epochs=[]))
    assert unordered.one("EPO-FILE-CORRUPT", 2)[:2] == ("medium", "suspect") and unordered.verdict == "INCONCLUSIVE"
    right = audit(tmp_path / "right", {1: Replica([], epochs=[(0, 0)]), 2: Replica([], epochs=[])})
    assert right.tables["findings"] == []


OLD_FORMAT = [*LOG, *written_legacy(40, 45)]
NEW_AGAIN = [*OLD_FORMAT, *written(45, 50, 2), *written(50, 55, 5)]


@pytest.mark.parametrize("options", [{}, {"in_order": True}, {"quiesced": True}], ids=["any order", "in order", "rest"])
@pytest.mark.parametrize(
    ("batches", "epochs", "code"),
    [
        (OLD_FORMAT, [], None),
        (OLD_FORMAT, None, None),
        (OLD_FORMAT, [(0, 0), (2, 20)], None),
        (OLD_FORMAT, [(0, 0), (2, 20), (3, 42)], None),
        (OLD_FORMAT, [(0, 0), (1, 20)], "EPO-CACHE-MISSING"),
        (NEW_AGAIN, [(2, 45), (5, 50)], None),
        (NEW_AGAIN, [(0, 0), (2, 20), (5, 50)], None),
        (NEW_AGAIN, [(2, 45)], "EPO-CACHE-MISSING"),
    ],
)
def test_epochs_before_batches_of_an_older_format_need_no_entry(tmp_path, batches, epochs, code, options):
    """Kafka drops the entries as it appends such a batch, and deletes the file where that is the format (KAFKA-7601, KAFKA-7897);
    before 2.1.1 it kept them, and recovery finds them again."""
    answer = audit(tmp_path, dict.fromkeys((1, 2), Replica(batches, epochs=epochs)), **options)
    assert answer.codes("info") - {"CAP-SKEW"} == ({code} if code else set()), answer


@pytest.mark.parametrize(
    ("epochs", "is_damage"),
    [
        ([], False),
        (None, False),
        ([(5, 50)], False),
        ([(2, 45)], True),
        ([(2, 45), (4, 50)], True),
        ([(3, 45), (5, 50)], True),
    ],
    ids=["empty", "none", "the later one", "the earlier one", "another", "another first"],
)
def test_a_broker_with_an_older_format_keeps_no_epochs_of_what_it_fetches(tmp_path, epochs, is_damage):
    """`Log.initializeLeaderEpochCache` of 2.1.1 to 3.x: where log.message.format.version is raised one broker after the other, a
    follower has batches with epochs before it has a file for them, which then begins with the next batch: LATENT_CORRUPTION."""
    brokers = {1: Replica(NEW_AGAIN, epochs=[(2, 45), (5, 50)]), 2: Replica(NEW_AGAIN, epochs=epochs)}
    answer = audit(tmp_path / "raised", brokers, quiesced=True)
    assert answer.one("EPO-CACHE-MISSING", 2)[0] == ("high" if is_damage else "info"), answer
    assert answer.verdict == ("LATENT_CORRUPTION" if is_damage else "CONSISTENT"), answer
    # So it is where another replica alone shows the older format; where none does, the file is damaged.
    new = [*written(0, 50, 2), *written(50, 55, 5)]
    sound, other = Replica(new), Replica(new, epochs=epochs)
    old = Replica(written_legacy(0, 5), epochs=None)
    shown = audit(tmp_path / "shown", {1: sound, 2: other, 3: old}, quiesced=True)
    is_begun_late = all(entry in ((2, 0), (5, 50)) for entry in epochs or ())
    assert shown.one("EPO-CACHE-MISSING", 2)[0] == ("info" if is_begun_late else "high"), shown
    assert audit(tmp_path / "new", {1: sound, 2: other}, quiesced=True).verdict == "LATENT_CORRUPTION"


@pytest.mark.parametrize(
    ("epochs", "version", "code", "severity"),
    [
        ([], None, "EPO-CACHE-MISSING", "info"),
        ([], "3.9.1", "EPO-CACHE-MISSING", "info"),
        ([], "4.0.0", "EPO-FILE-CORRUPT", "high"),
        (None, "3.9.1", "EPO-CACHE-MISSING", "info"),
        (None, "4.0.0", "EPO-CACHE-MISSING", "high"),
        ([(5, 50)], "4.0.0", "EPO-CACHE-MISSING", "info"),
    ],
)
def test_since_4_0_no_broker_keeps_no_epochs_of_what_it_fetches(tmp_path, epochs, version, code, severity):
    """A damaged, empty file was info; one that begins late may be from when its broker's format was raised."""
    brokers = {1: Replica(NEW_AGAIN, epochs=[(2, 45), (5, 50)]), 2: Replica(NEW_AGAIN, epochs=epochs)}
    answer = audit(tmp_path, brokers, quiesced=True, kafka_version=version)
    confidence = "likely" if severity == "high" else "proven"
    assert answer.one(code, 2)[:2] == (severity, confidence), answer


@pytest.mark.parametrize("epochs", [[], [(5, 50)]])
@pytest.mark.parametrize(("version", "confidence"), [("2.8.2", "likely"), (None, "proven"), ("4.0.0", "proven")])
def test_a_file_may_begin_anew_though_no_batch_of_an_older_format_is_left(tmp_path, epochs, version, confidence):
    """Its broker's message format was lowered, and raised again, while others led."""
    log = [*written(0, 50, 2), *written(50, 55, 5)]
    answer = audit(tmp_path, {1: Replica(log), 2: Replica(log, epochs=epochs)}, quiesced=True, kafka_version=version)
    (row,) = (row for row in answer.tables["findings"] if row["code"] in ("EPO-FILE-CORRUPT", "EPO-CACHE-MISSING"))
    assert (row["severity"], row["confidence"]) == ("high", confidence), answer


@pytest.mark.parametrize(("in_order", "is_stopped"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("epochs", [[], None, [(5, 50)]], ids=["empty", "none", "the later one"])
def test_nothing_is_asked_for_of_such_a_broker_whatever_the_order_of_its_files(tmp_path, epochs, in_order, is_stopped):
    brokers = dict.fromkeys((1, 2), Replica(NEW_AGAIN, epochs=epochs, clean_shutdown=is_stopped))
    answer = audit(tmp_path, brokers, in_order=in_order)
    assert {row["severity"] for row in answer.found("EPO-CACHE-MISSING")} == {"info"}, answer
    assert not answer.found("EPO-FILE-CORRUPT") and answer.verdict == "CONSISTENT", answer


def test_a_stop_leaves_no_entry_of_epochs_before_batches_of_an_older_format(tmp_path):
    answer = audit(tmp_path, dict.fromkeys((1, 2), Replica(OLD_FORMAT, epochs=[], clean_shutdown=True)))
    assert answer.codes("info") == set() and answer.verdict == "CONSISTENT", answer


def test_an_epoch_of_the_batches_that_the_file_lacks(tmp_path):
    middle = [*LOG, *written(40, 50, 5)]
    brokers = {1: Replica(middle), 2: Replica(middle, epochs=[(0, 0), (5, 40)])}
    answer = audit(tmp_path, brokers)
    assert answer.one("EPO-CACHE-MISSING", 2)[:3] == ("high", "proven", 20)
    assert answer.verdict == "LATENT_CORRUPTION"


@pytest.mark.parametrize("in_order", [True, False])
def test_a_file_of_a_tail_that_was_cut_since_may_have_been_copied_before_the_log(tmp_path, in_order):
    """Broker 2 had a tail of epoch 1, which broker 3 still has; its log has what the leader wrote there in epochs 0 and 2."""
    tail = [*written(0, 15, 0), *written(15, 25, 1, "tail ")]
    brokers = {1: Replica(LOG), 2: Replica(LOG, epochs=[(0, 0), (1, 15)]), 3: Replica(tail)}
    brokers = {broker: replace(one, high_watermark=10) for broker, one in brokers.items()}
    answer = audit(tmp_path, brokers, isr=(1, 2), in_order=in_order)
    severity, verdict = ("high", "LATENT_CORRUPTION") if in_order else ("medium", "INCONCLUSIVE")
    assert answer.one("EPO-CACHE-MISSING", 2)[0] == severity, answer
    assert answer.verdict == verdict


@pytest.mark.parametrize(
    "epochs",
    [
        # The leader of epoch 1, of whom no copy has anything, was followed at 15 or before.
        [(0, 0), (1, 15)],
        # Of 2, the latest that is known, to one election later, and to several.
        [(0, 0), (2, 20), (4, 25)],
        [(0, 0), (2, 20), (9, 25)],
        # The log start had moved to 5, and to 30, as the file was copied.
        [(0, 5), (1, 15)],
        [(3, 30)],
    ],
)
def test_a_file_of_another_moment_may_have_an_epoch_that_no_other_copy_has(tmp_path, epochs):
    """Every leader takes an epoch, and not all leave a trace. No checkpoint shows that what the log lacks by its file was committed."""
    brokers = {1: Replica(LOG, high_watermark=20), 2: Replica(LOG, epochs=epochs, high_watermark=20)}
    answer = audit(tmp_path, brokers)
    assert answer.one("EPO-CACHE-MISSING", 2)[0] == "medium", answer
    assert answer.verdict == "INCONCLUSIVE"
    (told,) = answer.messages("EPO-CACHE-MISSING")
    assert "the file is damaged, or was copied at another moment than the log" in told


@pytest.mark.parametrize(
    ("epochs", "marks", "is_alarm"),
    [
        ([(0, 0), (2, 20), (9, 25)], (40, 40), True),
        ([(0, 0), (2, 20), (9, 25)], (25, 40), False),  # its own may be later, like the file
        ([(0, 0), (2, 20), (9, 25)], (26, 0), True),
        ([(0, 0), (3, 25)], (21, 0), True),  # the log would have been cut where the file lacks an epoch
        ([(0, 0), (3, 25)], (20, 0), False),
        ([(3, 30)], (31, 0), True),  # the log start had moved there
        ([(3, 30)], (30, 0), False),
        ([(0, 0), (1, 15)], (40, 40), False),  # the file is older than what the log has in place of epoch 1
    ],
)
def test_a_file_of_a_later_moment_that_cuts_the_log_below_what_was_committed_is_an_alarm(
    tmp_path, epochs, marks, is_alarm
):
    """It is damaged, or committed records were cut: only a checkpoint that is later, too, is harmless."""
    brokers = {1: Replica(LOG, high_watermark=marks[0]), 2: Replica(LOG, epochs=epochs, high_watermark=marks[1])}
    answer = audit(tmp_path, brokers, leader=2)
    alarm = ("high", "likely"), "LATENT_CORRUPTION"
    (told,) = answer.found("EPO-CACHE-MISSING")
    said = (told["severity"], told["confidence"]), answer.verdict
    assert said == (alarm if is_alarm else (("medium", "suspect"), "INCONCLUSIVE")), answer
    assert (f"below the high watermark {marks[0]} of broker 1" in told["message"]) is is_alarm
    assert "copy broker 2 again" in told["message"]


@pytest.mark.parametrize("epochs", [[(0, 1), (2, 20), (9, 25)], [(0, 0), (9, 30), (10, 25)]])
def test_a_file_that_no_moment_explains_is_damaged_whatever_was_committed(tmp_path, epochs):
    """Its first epoch begins where the log has none, or its offsets go back."""
    brokers = {1: Replica(LOG, log_start=0), 2: Replica(LOG, epochs=epochs, log_start=0)}
    answer = audit(tmp_path, brokers, configs={"cleanup.policy": "compact"})
    assert answer.one("EPO-CACHE-MISSING", 2)[:2] == ("high", "proven"), answer


def test_a_log_start_that_cannot_have_moved_makes_no_file_of_another_moment(tmp_path):
    """Nothing but the cleaner deletes."""
    brokers = {1: Replica(LOG, log_start=0), 2: Replica(LOG, epochs=[(3, 30)], log_start=0)}
    answer = audit(tmp_path, brokers, configs={"cleanup.policy": "compact"})
    assert answer.one("EPO-CACHE-MISSING", 2)[0] == "high", answer


@pytest.mark.parametrize(("start", "severity"), [(20, "high"), (15, "info")])
def test_a_file_that_has_an_epoch_of_the_log_at_another_offset_is_of_no_moment_of_it(tmp_path, start, severity):
    """An epoch begins once, wherever its records are."""
    log = [*written(0, 15, 0), *written(15, 30, 2), *written(30, 40, 4)]
    brokers = {1: Replica(log), 2: Replica(log, epochs=[(0, 0), (2, start)])}
    answer = audit(tmp_path, brokers)
    assert answer.one("EPO-CACHE-MISSING", 2)[0] == severity, answer
    assert answer.verdict == ("LATENT_CORRUPTION" if severity == "high" else "CONSISTENT")


@pytest.mark.parametrize(("quiesced", "severity"), [(None, "info"), (True, "high")])
def test_a_file_that_lacks_only_the_newest_epoch_may_have_been_copied_first(tmp_path, quiesced, severity):
    answer = beside_a_sound_one(tmp_path, Replica(LOG, epochs=[(0, 0)]), quiesced=quiesced)
    assert answer.one("EPO-CACHE-MISSING", 2)[0] == severity
    assert answer.verdict == ("LATENT_CORRUPTION" if quiesced else "CONSISTENT")


@pytest.mark.parametrize(("quiesced", "severity"), [(None, "info"), (True, "high")])
def test_a_leader_that_wrote_nothing_may_have_been_followed_while_it_was_copied(tmp_path, quiesced, severity):
    """Elected in epoch 1 at 20 as its file was copied; in epoch 2, at the same offset, before its segments were."""
    answer = beside_a_sound_one(tmp_path, Replica(LOG, epochs=[(0, 0), (1, 20)]), quiesced=quiesced)
    assert answer.one("EPO-CACHE-MISSING", 2)[0] == severity
    assert answer.verdict == ("LATENT_CORRUPTION" if quiesced else "CONSISTENT")


CUT = Replica(LOG, epochs=[(2, 20)], log_start=0)
SOUND = Replica(LOG, log_start=0)


@pytest.mark.parametrize(
    ("one", "two", "options", "is_told"),
    [
        (SOUND, CUT, {}, False),
        (SOUND, CUT, {"configs": {"cleanup.policy": "compact"}}, True),
        (SOUND, CUT, {"configs": {"cleanup.policy": "compact,delete"}}, False),
        (CUT, SOUND, {"configs": {"cleanup.policy": "compact"}}, True),
        (CUT, SOUND, {}, False),
        (SOUND, replace(CUT, clean_shutdown=True), {"in_order": True}, True),
        (replace(SOUND, clean_shutdown=True), CUT, {}, False),
    ],
    ids=["perhaps cut", "compacted only", "compacted and deleted", "the leader's, compacted only", "the leader's"]
    + ["stopped cleanly", "the other stopped cleanly"],
)
def test_only_a_log_start_that_moved_excuses_a_file_that_lacks_the_oldest_epochs(
    tmp_path, one: Replica, two: Replica, options, is_told: bool
):
    """None moves where nothing but the cleaner deletes; a broker that stops cleanly writes its log start after that."""
    answer = audit(tmp_path, {1: one, 2: two}, **options)
    assert answer.one("EPO-CACHE-MISSING")[:3] == ("high" if is_told else "info", "proven", 0)
    assert answer.verdict == ("LATENT_CORRUPTION" if is_told else "CONSISTENT")


@pytest.mark.parametrize("epochs", [[(2, 20)], [(0, 0)]], ids=["the oldest", "the newest"])
def test_a_file_that_lacks_epochs_of_a_broker_that_was_stopped_is_copied_again_not_excused(tmp_path, epochs):
    """It was stopped while it was copied, or its file is damaged."""
    stopped = Replica(LOG, epochs=epochs, log_start=0, clean_shutdown=True)
    answer = audit(tmp_path, {1: replace(SOUND, clean_shutdown=True), 2: stopped})
    assert answer.one("EPO-CACHE-MISSING", 2)[:2] == ("medium", "suspect"), answer
    assert answer.verdict == "INCONCLUSIVE"
    assert "copy broker 2 again" in answer.found("EPO-CACHE-MISSING", 2)[0]["message"]


@pytest.mark.parametrize(
    ("batches", "file", "severity"),
    [
        # An epoch begins at one offset, whenever file and log were copied.
        (((0, 0), (2, 20), (3, 30)), ((0, 0), (2, 15), (3, 30)), "high"),
        (((0, 0), (2, 20), (3, 30)), ((0, 0), (2, 25), (3, 30)), "high"),
        # A log that was cut to nothing shares no epoch with its former file.
        (((1, 0), (2, 20)), ((0, 0), (3, 30)), "medium"),
        # Below the file's first entry the log start may have moved; at it a record contradicts the file.
        (((0, 0), (2, 20), (3, 30)), ((2, 20), (4, 35)), "medium"),
        (((0, 0), (2, 20), (3, 30)), ((1, 20), (3, 30)), "high"),
    ],
)
def test_a_file_of_another_moment_differs_only_above_what_it_shares_with_the_log(batches, file, severity: str) -> None:
    (told,) = told_of_file(log(2, *batches, checkpoint_epochs=file, in_any_order=True))
    assert (told.code, told.severity) == ("EPO-CACHE-MISSING", severity), told


@pytest.mark.parametrize(
    ("file", "confidence"), [(((0, 0), (4, 35)), "likely"), (((2, 20), (4, 35)), "proven")], ids=["at it", "above"]
)
def test_where_only_a_cleaner_deletes_no_log_start_explains_a_file_that_begins_above_it(file, confidence: str) -> None:
    """A file that begins as the log does may be that of a log cut since, below records that broker 1 has as committed."""
    facts = log(2, (0, 0), (2, 20), (3, 30), checkpoint_epochs=file, in_any_order=True)
    (told,) = told_of_file(facts, said=leadership(configs={"cleanup.policy": "compact"}))
    assert (told.code, told.confidence) == ("EPO-CACHE-MISSING", confidence), told


@pytest.mark.parametrize("epochs", [[(0, 0), (2, 20), (3, 40)], [(0, 0), (2, 20), (5, 40)]])
def test_a_last_epoch_without_records_is_healthy(tmp_path, epochs):
    assert beside_a_sound_one(tmp_path, Replica(LOG, epochs=epochs)).tables["findings"] == []


def test_two_epochs_at_one_offset_are_not_what_a_broker_writes(tmp_path):
    assert beside_a_sound_one(tmp_path, Replica(LOG, epochs=[(0, 0), (1, 20), (2, 20)])).codes() == {
        "EPO-NON-MONOTONIC"
    }


def test_entries_past_the_log_end_are_stale(tmp_path):
    answer = beside_a_sound_one(tmp_path, Replica(LOG, epochs=[(0, 0), (2, 20), (6, 999_999)]))
    assert answer.one("EPO-CACHE-STALE", 2)[0] == "info"
    assert answer.verdict == "CONSISTENT"


def test_a_damaged_file_does_not_win_the_inferred_leadership(tmp_path):
    answer = beside_a_sound_one(tmp_path, Replica(LOG, epochs=[(0, 0), (2, 20), (6, 999_999)]), source="inferred")
    assert answer.tables["partitions"][0]["reference_id"] == 1
    assert answer.tables["partitions"][0]["leader_epoch"] == 2


def test_a_file_that_goes_back(tmp_path):
    answer = beside_a_sound_one(tmp_path, Replica(LOG, epochs=[(0, 0), (2, 20), (1, 30)]))
    assert answer.one("EPO-NON-MONOTONIC", 2)[:3] == ("medium", "proven", 30)


def test_a_file_cut_by_retention_lacks_nothing(tmp_path):
    brokers = {1: Replica(LOG), 2: Replica(LOG[5:], epochs=[(2, 25)], first_base_offset=25)}
    assert audit(tmp_path, brokers).tables["findings"] == []


@pytest.mark.parametrize(
    ("other", "quiesced", "severity"),
    [
        (Replica(LOG, epochs=[(2, 20)], log_start=0), None, "info"),
        (Replica(LOG), None, "info"),
        (Replica(LOG, epochs=[(2, 20)], log_start=20), True, "info"),
        (Replica(LOG, epochs=[(2, 20)], log_start=0), True, "high"),
        (Replica(LOG), True, "high"),
    ],
    ids=["both cut", "the other copied before", "a checkpoint has it", "both at rest", "at rest"],
)
def test_delete_records_up_to_where_an_epoch_begins_cuts_the_file_before_the_log_start_is_written(
    tmp_path, other, quiesced, severity
):
    """`LeaderEpochFileCache.truncateFromStartAsyncFlush` at once, log-start-offset-checkpoint once a minute; the segments stay."""
    cut = Replica(LOG, epochs=[(2, 20)], log_start=0)
    answer = audit(tmp_path, {1: other, 2: cut}, quiesced=quiesced)
    assert answer.one("EPO-CACHE-MISSING", 2)[0] == severity, answer
    (row,) = answer.found("EPO-CACHE-MISSING", 2)
    assert ("log-start-offset-checkpoint" in str(row["evidence"])) == (severity == "info")
    assert (answer.verdict == "LATENT_CORRUPTION") == (severity == "high")


@pytest.mark.parametrize(
    ("kind", "entries", "severity"),
    [
        ("killed", [(2, 20)], "info"),
        ("killed", [(3, 40)], "info"),
        ("killed", [(3, 9999)], "high"),
        ("stopped", [(2, 20)], "high"),
        ("stopped", [(3, 40)], "high"),
        ("killed", [(1, 0), (2, 20)], "high"),
    ],
)
def test_a_broker_that_was_killed_after_its_log_start_had_moved_has_an_older_checkpoint_of_it(
    tmp_path, kind, entries, severity
):
    """It moved to where an epoch begins, that of its records or one without any at the log end; not past all that there was."""
    write_manifest(tmp_path, dict.fromkeys((1, 2), kind), quiesced=True)
    two = Replica(LOG, epochs=entries, log_start=0, clean_shutdown=kind == "stopped")
    answer = audit(tmp_path, {1: Replica(LOG, clean_shutdown=kind == "stopped"), 2: two})
    assert answer.one("EPO-CACHE-MISSING", 2)[0] == severity, answer


def test_nothing_is_rebuilt_for_a_file_that_may_only_be_older(tmp_path):
    write_manifest(tmp_path, {1: "live", 2: "live"})
    audit(tmp_path, {1: Replica(LOG), 2: Replica(LOG, epochs=[])})
    (step,) = plan_elections(audit_all(str(tmp_path), Settings())).steps
    assert step.text.startswith(
        "orders-0 on broker 2: broker-2/orders-0/leader-epoch-checkpoint is empty though the log has batches"
    )
    assert "copy broker 2 again" in step.text and step.text.endswith(
        ", and change nothing until that is audited (EPO-FILE-CORRUPT)"
    )


@pytest.mark.parametrize(
    ("content", "in_order", "told"),
    [
        (b"", True, ("high", "proven")),
        (b"0\n0\n", True, ("medium", "suspect")),
        (b"0\n0\n", False, ("high", "proven")),
    ],
    ids=["never written", "emptied, in order", "emptied, at rest"],
)
def test_a_running_broker_writes_a_count_of_0_as_it_begins_a_log_anew(tmp_path, content, in_order, told):
    """It may have been copied then, after the log. A file of 0 bytes is one that was never written, which this log's was."""
    brokers = {one: Replica(written(0, 20, 0), high_watermark=20) for one in (1, 2)}

    def empty() -> None:
        (tmp_path / "broker-2/orders-0/leader-epoch-checkpoint").write_bytes(content)

    answer = audit(tmp_path, brokers, in_order=in_order, quiesced=None if in_order else True, before_audit=empty)
    (one,) = answer.found("EPO-FILE-CORRUPT", 2)
    assert (one["severity"], one["confidence"]) == told, answer
    assert answer.verdict == ("LATENT_CORRUPTION" if told[0] == "high" else "INCONCLUSIVE"), answer


@pytest.mark.parametrize(("known", "confidence"), [(2, "proven"), (3, "suspect"), (None, "suspect")])
def test_an_epoch_file_in_order_may_be_of_after_a_cut_by_a_leader_that_the_metadata_log_knows(known, confidence):
    """That is copied last. Nothing at the offset had been committed."""
    cut = log(2, *LINEAGE, checkpoint_epochs=((0, 0), (3, 20)), known_epoch=known)
    told = epo.judge(case(log(1, *LINEAGE, high_watermark_checkpoint=20), compared(cut)))
    (one,) = found(told, "EPO-CACHE-MISSING")
    assert one.confidence == confidence and (one.severity == "high") is (confidence == "proven"), one

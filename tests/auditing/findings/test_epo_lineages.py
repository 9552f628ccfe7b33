"""EPO-* of two lineages: which starts and epochs count, and where, in cases put together from facts, and on disk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.made_cases import ALIKE, LINEAGE, case, compared, found, leadership, log, place
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica

from replica_audit.auditing.compare.alignment import Alignment, CorruptPair, Difference
from replica_audit.auditing.finding import Finding
from replica_audit.auditing.findings import epo
from replica_audit.model import OffsetRange
from replica_audit.segments.batch_rows import NO_BATCHES

REFERENCE = log(1, *LINEAGE)


def told_of_lineage(follower, leader=REFERENCE, alignment: Alignment = ALIKE, **changes: Any) -> list[Finding]:
    """All that is told of a follower's lineage beside the leader's; `changes` are of the case."""
    ranges = changes.pop("stretches", ())
    stretches = tuple(OffsetRange(*one) for one in ranges)
    return list(epo.judge(case(leader, compared(follower, alignment=alignment, stretches=stretches), **changes)))


TWO_STARTS = [
    (((0, 0), (2, 20)), ((0, 0), (2, 25)), (20, 25)),
    (((0, 0), (2, 25)), ((0, 0), (2, 20)), (20, 25)),
    (((0, 0), (2, 20)), ((0, 0), (2, 20)), None),
    # The first start that one of them still has is that of its log, not of its epoch.
    (((2, 20),), ((0, 0), (2, 25)), None),
    (((0, 0), (2, 20)), ((2, 25),), None),
    (((0, 19), (2, 20)), ((0, 0), (2, 25)), (20, 25)),
    (((0, 20), (2, 21)), ((0, 0), (2, 20)), None),
    (((0, 15), (2, 20)), ((0, 0), (2, 10)), None),
    # Past the shorter end nobody can compare; the follower's is 30.
    (((0, 0), (2, 29)), ((0, 0), (2, 20)), (20, 29)),
    (((0, 0), (2, 30)), ((0, 0), (2, 20)), None),
    (((0, 0), (2, 35)), ((0, 0), (2, 20)), None),
]


def test_an_epoch_that_begins_at_two_offsets_inside_both_logs():
    for leader, follower, told in TWO_STARTS:
        items = found(told_of_lineage(log(2, *follower, end=30), log(1, *leader, end=40)), "EPO-START-MISMATCH")
        assert [place(item) for item in items] == ([] if told is None else [(2, *told)])
        for item in items:
            own, theirs = dict(follower)[2], dict(leader)[2]
            assert item.message.startswith(
                f"epoch 2 begins at {own} on broker 2 and at {theirs} on broker 1; one leader"
            )
            assert item.replica_epoch == 2 and item.verdict == "COMMITTED_DIVERGENCE"
            assert [(one.broker_id, one.text.partition("{")[2]) for one in item.evidence if one.kind == "lineage"] == [
                (2, ", ".join(f"{epoch}:{start}" for epoch, start in follower) + "}"),
                (1, ", ".join(f"{epoch}:{start}" for epoch, start in leader) + "}"),
            ]


def test_one_epoch_after_another_is_compared():
    """A start that cannot be compared, or that agrees, says nothing of the next one."""
    leader = log(1, (0, 0), (1, 5), (2, 20), (3, 30), (4, 35))
    follower = log(2, (0, 0), (1, 5), (2, 22), (3, 31), (5, 36))
    assert [place(item) for item in found(told_of_lineage(follower, leader), "EPO-START-MISMATCH")] == [
        (2, 20, 22),
        (2, 30, 31),
    ]
    blind = [CorruptPair("blind", 22, 25, 2, 1, 0, "a changed header")]
    old = [Difference("format", 20, 22, 0, None, NO_BATCHES)]
    for alignment in (Alignment(corrupt=blind), Alignment(differences=old)):
        items = found(told_of_lineage(follower, leader, alignment), "EPO-START-MISMATCH")
        assert [place(item) for item in items] == [(2, 30, 31)]
    items = found(told_of_lineage(replace(follower, missing=(OffsetRange(20, 21),)), leader), "EPO-START-MISMATCH")
    assert [place(item) for item in items] == [(2, 30, 31)]


MOVED = log(2, (0, 0), (2, 25))


@pytest.mark.parametrize("broker", [1, 2])
def test_cleaners_move_the_first_batch_of_an_epoch(broker):
    replicas = {1: REFERENCE, 2: MOVED}
    replicas[broker] = replace(replicas[broker], compacted=True)
    assert found(told_of_lineage(replicas[2], replicas[1]), "EPO-START-MISMATCH") == []


@pytest.mark.parametrize("bad", [1, 2])
@pytest.mark.parametrize(
    ("kind", "start", "told"), [("blind", 20, 0), ("blind", 25, 0), ("blind", 24, 1), ("crc", 20, 1)]
)
def test_a_changed_header_begins_no_epoch_on_whichever_side_it_is(kind, start, told, bad):
    pair = CorruptPair(kind, start, start + 5, bad, 3 - bad, 0, "a changed header")
    assert len(found(told_of_lineage(MOVED, alignment=Alignment(corrupt=(pair,))), "EPO-START-MISMATCH")) == told


@pytest.mark.parametrize("broker", [1, 2])
@pytest.mark.parametrize(("stretch", "told"), [((15, 20), 1), ((15, 21), 0), ((24, 25), 0), ((25, 30), 1)])
def test_between_two_starts_everything_has_to_be_readable(broker, stretch, told):
    replicas = {1: REFERENCE, 2: MOVED}
    replicas[broker] = replace(replicas[broker], unreadable=(OffsetRange(*stretch),))
    assert len(found(told_of_lineage(replicas[2], replicas[1]), "EPO-START-MISMATCH")) == told


@pytest.mark.parametrize(
    ("kind", "stretch", "told"),
    [
        ("format", (20, 25), 0),
        ("format", (10, 21), 0),
        ("format", (21, 25), 1),
        ("format", (10, 20), 1),
        ("epoch", (20, 25), 1),
        ("hole_here", (20, 25), 1),
    ],
)
@pytest.mark.parametrize("leader", [20, 25])
def test_records_that_one_side_has_in_a_format_without_epochs_begin_none(kind, stretch, told, leader):
    one, two = log(1, (0, 0), (2, leader)), log(2, (0, 0), (2, 45 - leader))
    alignment = Alignment(differences=(Difference(kind, *stretch, 2, None, NO_BATCHES),))
    assert len(found(told_of_lineage(two, one, alignment), "EPO-START-MISMATCH")) == told


UNKNOWN = [
    (LINEAGE, ((0, 0), (1, 10), (2, 20)), 2, [(1, 10)]),
    (LINEAGE, LINEAGE, 2, []),
    # Of an epoch below all that the leader has, retention took the records; one above is not reached yet.
    (((2, 0), (4, 20)), ((1, 0), (3, 20)), 4, [(3, 20)]),
    (((1, 0), (3, 20)), ((1, 0), (2, 20), (3, 30)), 3, [(2, 20)]),
    (LINEAGE, ((0, 0), (2, 20), (3, 30)), 2, []),
    (LINEAGE, ((0, 0), (2, 20), (3, 30)), 3, []),
    (LINEAGE, ((0, 0), (2, 20), (3, 30)), 4, [(3, 30)]),
    (LINEAGE, ((0, 0), (1, 10), (2, 20), (3, 30)), 4, [(1, 10), (3, 30)]),
    (LINEAGE, ((0, 0), (1, 10)), None, []),
    ((), ((0, 0), (1, 10)), 2, []),
]


def test_epochs_that_the_leader_never_had():
    for leader, follower, epoch, told in UNKNOWN:
        one, two = log(1, *leader), log(2, *follower)
        items = found(told_of_lineage(two, one, said=leadership(leader_epoch=epoch)), "EPO-UNKNOWN-TO-LEADER")
        assert [(item.replica_epoch, item.start_offset) for item in items] == told
        for item in items:
            assert item.message == (
                f"broker 2 has records of epoch {item.replica_epoch} from {item.start_offset} on; broker 1 never had that epoch"
            )
            assert item.severity == "medium"
            assert [(found.broker_id, found.text) for found in item.evidence] == [
                (1, "{" + ", ".join(f"{epoch}:{start}" for epoch, start in leader) + "}")
            ]


@pytest.mark.parametrize("entries", [((0, 0), (1, 10), (2, 20)), ((0, 0), (2, 20), (1, 40)), None])
def test_the_leaders_file_knows_epochs_of_which_it_has_no_record(entries):
    leader = log(1, *LINEAGE, checkpoint_epochs=entries)
    items = found(told_of_lineage(log(2, (0, 0), (1, 10), (2, 20)), leader), "EPO-UNKNOWN-TO-LEADER")
    assert bool(items) == (entries is None)
    # As the loader takes it, where what was found is not to be had.
    loaded = replace(log(1, (0, 0), (1, 10), (2, 20)), directory=leader.directory, lineage=leader.lineage)
    assert found(told_of_lineage(log(2, (0, 0), (1, 10), (2, 20)), loaded), "EPO-UNKNOWN-TO-LEADER") == []


OLD = log(2, (0, 0), (1, 20))


@pytest.mark.parametrize(
    ("stretches", "severity"),
    [
        ([], "medium"),
        ([(20, 40)], "info"),
        ([(10, 40)], "info"),
        ([(20, 45)], "info"),
        ([(20, 39)], "medium"),
        ([(21, 40)], "medium"),
        ([(10, 30), (30, 40)], "medium"),
    ],
)
def test_an_unknown_epoch_is_what_is_usual_in_a_tail_that_conflicts(stretches, severity):
    leader = log(1, (0, 0), (2, 20), end=50)
    (item,) = found(told_of_lineage(OLD, leader, stretches=stretches), "EPO-UNKNOWN-TO-LEADER")
    assert item.severity == severity


@pytest.mark.parametrize(
    ("stretches", "told"),
    [([], 0), ([(20, 25)], 1), ([(10, 21)], 1), ([(10, 20)], 0), ([(5, 10)], 0), ([(21, 40)], 0)],
)
def test_a_compacted_leader_may_have_fetched_nothing_of_an_epoch(stretches, told):
    leader = replace(log(1, (0, 0), (2, 20), end=50), compacted=True)
    assert len(found(told_of_lineage(OLD, leader, stretches=stretches), "EPO-UNKNOWN-TO-LEADER")) == told
    # What it may have lost of one epoch says nothing of the next.
    leader, follower = replace(log(1, (0, 0), (5, 30), end=50), compacted=True), log(2, (0, 0), (1, 10), (2, 20))
    items = found(
        told_of_lineage(follower, leader, stretches=stretches, said=leadership(leader_epoch=5)), "EPO-UNKNOWN-TO-LEADER"
    )
    assert (2 in {item.replica_epoch for item in items}) == bool(told)


@pytest.mark.parametrize(("end", "told"), [(19, 0), (20, 0), (21, 1)])
def test_a_copy_of_before_the_leader_led_tells_nothing_past_its_end(end, told):
    leader, said = log(1, (0, 0), end=end), leadership(leader_epoch=2)
    assert len(found(told_of_lineage(OLD, leader, said=said, predates=True), "EPO-UNKNOWN-TO-LEADER")) == told
    assert len(found(told_of_lineage(OLD, leader, said=said), "EPO-UNKNOWN-TO-LEADER")) == 1


@pytest.mark.parametrize(("epoch", "told"), [(None, False), (1, True), (2, False), (3, False)])
def test_an_epoch_that_the_metadata_does_not_know(epoch, told):
    for quiesced, severity in ((True, "medium"), (False, "info")):
        made = case(
            REFERENCE, compared(log(2, (0, 0))), said=leadership(leader_epoch=epoch), quiesced=quiesced, leader_epoch=2
        )
        items = list(epo.judge(made))
        assert [(item.code, item.broker_id, item.severity) for item in items] == (
            [("EPO-AHEAD-OF-METADATA", 1, severity)] if told else []
        )
        for item in items:
            assert (
                item.message == "broker 1 has batches of epoch 2; the leadership file knows epochs up to 1"
                and item.replica_epoch == 2
            )
    without = log(1, (-1, 0))
    assert list(epo.judge(case(without, said=leadership(leader_epoch=1)))) == []
    assert list(epo.judge(replace(case(REFERENCE), leadership=None))) == []


LOG = [*written(0, 20, 0), *written(20, 40, 2)]


def beside_a_sound_one(path, broker: Replica, **options):
    """The answer on two logs on disk, the first one sound."""
    return audit(path, {1: Replica(LOG), 2: broker}, **options)


@pytest.mark.parametrize(("in_order", "confidence"), [(True, "proven"), (False, "likely")])
def test_one_epoch_with_two_starts_inside_both_logs(tmp_path, in_order, confidence):
    other = [*written(0, 25, 0), *written(25, 40, 2)]
    answer = audit(tmp_path, {1: Replica(LOG), 2: Replica(other)}, in_order=in_order)
    assert answer.one("EPO-START-MISMATCH", 2) == ("high", confidence, 20, 25)
    # The checkpoint 40 lies above the run, where the logs agree again: it proves nothing about it.
    assert answer.runs(2) == [("DIV-HIDDEN", 20, 25, 2, 0, False)]
    assert answer.verdict == "COMMITTED_DIVERGENCE"


def test_the_first_retained_entry_is_no_start(tmp_path):
    brokers = {1: Replica(LOG), 2: Replica(LOG[2:], first_base_offset=10)}
    answer = audit(tmp_path, brokers)
    assert not answer.found("EPO-START-MISMATCH")
    assert answer.tables["findings"] == []


@pytest.mark.parametrize("damaged", [1, 2])
@pytest.mark.parametrize("base", [18, 22, 1020])
def test_a_changed_base_offset_where_an_epoch_begins_is_damage_and_no_other_start(tmp_path, damaged, base):
    moved = [*LOG[:4], base.to_bytes(8, "big") + LOG[4][8:], *LOG[5:]]
    brokers = {1: Replica(LOG), 2: Replica(LOG), damaged: Replica(moved, epochs=[(0, 0), (2, 20)])}
    answer = audit(tmp_path, brokers)
    assert answer.one("LOG-CRC-BLIND", damaged)[2:] == (20, 25)
    assert not answer.found("EPO-START-MISMATCH"), answer
    assert answer.verdict == "LATENT_CORRUPTION"


def test_an_epoch_that_the_leader_never_had(tmp_path):
    in_tail = [*written(0, 20, 0), *written(20, 30, 1)]
    answer = audit(tmp_path / "tail", {1: Replica(LOG), 2: Replica(in_tail, high_watermark=20)}, isr=(1,))
    assert answer.one("EPO-UNKNOWN-TO-LEADER", 2)[0] == "info"
    below = [*written(0, 10, 0), *written(10, 20, 1), *written(20, 40, 2)]
    answer = audit(tmp_path / "below", {1: Replica(LOG), 2: Replica(below)})
    assert answer.one("EPO-UNKNOWN-TO-LEADER", 2)[0] == "medium"
    assert answer.verdict == "COMMITTED_DIVERGENCE"


def test_batches_of_an_epoch_that_leadership_does_not_know(tmp_path):
    """On the leader, leadership is stale where no skew explains it; on a replica that is out of sync nothing follows."""
    answer = beside_a_sound_one(tmp_path / "live", Replica(LOG), source="user", leader_epoch=1)
    assert answer.one("EPO-AHEAD-OF-METADATA", 2)[0] == "info"
    assert answer.verdict == "CONSISTENT"
    answer = beside_a_sound_one(tmp_path / "at rest", Replica(LOG), source="user", leader_epoch=1, quiesced=True)
    assert answer.one("META-STALE", 1)[0] == "high" and not answer.found("EPO-AHEAD-OF-METADATA"), answer
    assert answer.verdict == "INCONCLUSIVE"
    old = {1: Replica(LOG[:4]), 2: Replica(LOG)}
    for quiesced, severity in ((None, "info"), (True, "medium")):
        answer = audit(tmp_path / f"out {quiesced}", old, source="user", leader_epoch=1, quiesced=quiesced, isr=(1,))
        assert answer.one("EPO-AHEAD-OF-METADATA", 2)[0] == severity, answer
        assert not answer.found("META-STALE"), answer


def test_leadership_older_than_the_leaders_records_hides_no_conflict(tmp_path):
    old = [*written(0, 20, 0), *written(20, 50, 1, "old ")]
    brokers = {1: Replica(LOG, high_watermark=20), 2: Replica(old, high_watermark=45)}
    answer = audit(tmp_path, brokers, isr=(1,), source="user", leader_epoch=1)
    assert answer.runs(2)[-1][:3] == ("DIV-EPOCH", 40, 50), answer
    assert answer.verdict == "COMMITTED_LOSS"


def test_leadership_that_knows_the_epoch_or_none(tmp_path):
    for name, epoch in (("same", 2), ("later", 3), ("none", None)):
        answer = beside_a_sound_one(tmp_path / name, Replica(LOG), source="user", leader_epoch=epoch, quiesced=True)
        assert not answer.found("EPO-AHEAD-OF-METADATA")

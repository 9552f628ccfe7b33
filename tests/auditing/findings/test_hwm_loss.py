"""Text of findings on lost records: how many, which, who holds or held them, and the proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.made_cases import batch, case, compared, divergent, leadership, log, segment
from tests.support.step_count import count_steps

from replica_audit.auditing.compare.alignment import Alignment
from replica_audit.auditing.compare.divergence_cause import Cause
from replica_audit.auditing.compare.divergent_ranges import CommitProof
from replica_audit.auditing.earlier_losses import CommittedLog, EarlierLosses, EarlierRun
from replica_audit.auditing.finding import Finding, finding_id
from replica_audit.auditing.findings import hwm, hwm_gone
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.auditing.leadership.leader_tail import LeaderTail
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.model import ObservedLog, PartitionState, TopicPartition
from replica_audit.protocol.election import Election
from replica_audit.protocol.lineage import Lineage
from replica_audit.segments.batch_rows import Batches
from replica_audit.snapshot.broker_logs import BrokerLogEvent
from replica_audit.snapshot.inventory import CopiedLogDir
from replica_audit.snapshot.log_dir_names import HIGH_WATERMARKS
from replica_audit.text import parse_time

TOPIC_ID = "m" * 22


def copy(
    broker_id: int,
    lineage: Sequence[tuple[int, int]] = ((0, 0), (2, 30)),
    end: int = 60,
    unproven: tuple[str, ...] = (),
    **changes: Any,
) -> ReplicaFacts:
    """A replica of `TOPIC_ID` with these epochs."""
    named = {"topic_id": TOPIC_ID, "log_end_offset": end, **changes}
    return log(broker_id, *lineage, segments=[segment(0, end, *lineage, unproven=unproven)], **named)


# --- held by a replica, and not by the leader

CHECKPOINT = CommitProof(
    "checkpoint", 2, "its own high watermark reached 48", "48", "broker-2/replication-offset-checkpoint"
)
DOUBTED = CHECKPOINT._replace(certain=False)
ALONE = CommitProof(
    "sole_isr", 1, "broker 1 was alone in the ISR", "1", evidence=("It led in epoch 1.", "It was never fenced.")
)


def lost(
    records: int,
    proof: CommitProof = CHECKPOINT,
    doubt: str | None = None,
    version: tuple[int, ...] | None = None,
    **named: Any,
) -> Finding:
    """A run of broker 2 at [40, 48)."""
    batches = tuple(batch(base, base, control=True) for base in named.pop("bases", ()))
    named |= {"batches": batches, "committed_end": 48, "committed_records": records, "proof": proof}
    item = compared(copy(2), divergent(start_offset=40, end_offset=50, **named), doubt=doubt)
    (found,) = hwm.judge(case(copy(1), item, kafka_version=version))
    return found


@pytest.mark.parametrize(
    ("records", "bases", "text"),
    [
        (1, (), "1 committed record at offsets 40 to 47 is not on broker 1; broker 2 still has it"),
        (2, (), "2 committed records at offsets 40 to 47 are not on broker 1; broker 2 still has them"),
        # The marker at 48 is not committed.
        (0, (47, 48), "1 committed control batch at offsets 40 to 47 is not on broker 1; broker 2 still has it"),
        (
            0,
            (45, 47, 49),
            "2 committed control batches at offsets 40 to 47 are not on broker 1; broker 2 still has them",
        ),
    ],
)
def test_committed_records_that_a_follower_has_and_the_leader_has_not(records, bases, text) -> None:
    found = lost(records, bases=bases)
    assert found.message == f"{text}: its own high watermark reached 48"
    assert (found.broker_id, found.start_offset, found.end_offset, found.replica_epoch) == (2, 40, 48, 1)


@pytest.mark.parametrize(
    ("version", "confidence", "looked_at"),
    [
        (None, "proven", "a checkpoint that came from the present leader: no, the logs differ up to it"),
        ((2, 7), "proven", "a checkpoint that came from the present leader: no, the logs differ up to it"),
        (
            (3, 4),
            "suspect",
            "KAFKA-14704: this version could checkpoint a high watermark over a tail that it was about to cut",
        ),
    ],
)
def test_a_checkpoint_is_suspect_in_versions_that_wrote_it_over_a_tail(version, confidence, looked_at) -> None:
    found = lost(5, version=version)
    assert (found.confidence, found.evidence[1].text) == (confidence, looked_at)
    assert (found.evidence[0].kind, found.evidence[0].path, found.evidence[0].value) == (
        "checkpoint",
        CHECKPOINT.path,
        "48",
    )
    assert lost(5, ALONE, version=version).confidence == "proven"


def test_what_else_shows_that_records_were_committed_is_told_whole() -> None:
    found = lost(5, ALONE)
    said = ["broker 1 was alone in the ISR", "It led in epoch 1.", "It was never fenced."]
    assert [(one.kind, one.text, one.broker_id) for one in found.evidence] == [("leadership", text, 1) for text in said]


def test_a_topic_that_may_have_been_created_again_is_named() -> None:
    found = lost(5, doubt="no topic id")
    assert found.message.endswith("; unless the topic was deleted and created again") and found.confidence == "likely"


@pytest.mark.parametrize("clean", [True, False])
def test_the_election_that_left_them_behind_is_told(clean: bool) -> None:
    election = Election(2, 1, 1_700_000_000_000, 9, clean, 2, (1, 2), (), (1, 2), False, False)
    told = [one.text for one in lost(5, cause=Cause(election, clean, None)).evidence[2:]]
    assert told[0].startswith("at 2023-11-14") and (" cleanly, in leader epoch" in told[0]) == clean
    assert told[1:] == (
        ["a clean election loses nothing unless broker 1 had lost the end of its own log"] if clean else []
    )
    assert len(lost(5, cause=Cause(None, clean, None)).evidence) == 2


@pytest.mark.parametrize(
    ("changes", "told", "why"),
    [
        ({}, ("critical", "proven", "COMMITTED_LOSS"), ""),
        ({"is_leaders": False}, ("high", "suspect", "INCONCLUSIVE"), "; broker 1, which leads, may have them, and its log is not here"),
        ({"is_replaced": True}, ("critical", "proven", "COMMITTED_LOSS"), "; unless broker 1 was cut since it was copied"),
        ({"is_replaced": True, "proof": DOUBTED}, ("critical", "likely", "COMMITTED_LOSS"), "; unless broker 1 was cut"),
        ({"is_replaced": True, "version": (3, 4)}, ("critical", "suspect", "COMMITTED_LOSS"), ""),
        ({"proof": DOUBTED}, ("critical", "likely", "COMMITTED_LOSS"), "; likely, not proven: broker 2 may have followed another leader"),
        ({"proof": DOUBTED._replace(kind="lost_tail")}, ("critical", "likely", "COMMITTED_LOSS"), "; likely, not proven: broker 2 may"),
    ],
    ids=["proven", "on the leader, perhaps", "the reference was cut, perhaps", "and likely", "and suspect", "likely", "of a lost tail"],
)  # fmt: skip
def test_a_loss_is_as_sure_as_its_proof_and_the_leaders_log(
    changes: dict[str, Any], told: tuple[str, str, str], why: str
) -> None:
    proof = changes.get("proof", CHECKPOINT)
    item = compared(
        copy(2), divergent(start_offset=40, end_offset=50, committed_end=48, committed_records=5, proof=proof)
    )
    named = {name: value for name, value in changes.items() if name not in ("proof", "version")}
    (found,) = hwm.judge(case(copy(1), item, kafka_version=changes.get("version"), **named))
    assert (found.severity, found.confidence, found.verdict) == told
    said = found.message.partition("its own high watermark reached 48")[2]
    assert said.startswith(why) and bool(said) is bool(why)


@pytest.mark.parametrize(
    ("kind", "text", "otherwise"),
    [
        ("checkpoint", "a checkpoint inside these records: those below it were committed", "a checkpoint that came from the present leader"),
        ("lost_tail", "high watermark past the end of its own log, over records of the same leader epoch", "a truncation cut the end of that log"),
    ],
)  # fmt: skip
def test_what_a_high_watermark_proves_is_told_by_where_it_lies(kind: Any, text: str, otherwise: str) -> None:
    mark, looked_at = lost(5, CHECKPOINT._replace(kind=kind)).evidence
    assert mark.text == text and looked_at.text.startswith(f"{otherwise}: no, ")


def second_copy(broker_id: int = 3, log_dir: str = "other", **changes: Any) -> ReplicaFacts:
    return copy(broker_id, log_dir=log_dir, **changes)


FUTURE = f"broker-1/orders-0.{'a' * 32}-future"
OTHER_DISK = "its broker has a second copy of the partition and uses the other"


@pytest.mark.parametrize(
    ("facts", "run", "changes", "text"),
    [
        (second_copy(), {}, {}, f"5 committed records at offsets 40 to 47 are not on broker 1; other of broker 3 still has them: {{}}; {OTHER_DISK}"),
        (
            second_copy(),
            {"committed_records": 1},
            {},
            f"1 committed record at offsets 40 to 47 is not on broker 1; other of broker 3 still has it: {{}}; {OTHER_DISK}",
        ),
        (
            second_copy(is_earlier=True),
            {},
            {},
            "5 committed records at offsets 40 to 47 are not on broker 1; the first evidence of broker 3 (other) had them: {}; when its broker was "
            "collected again it did not have them any more",
        ),
        (second_copy(), {"committed_records": 0}, {}, None),
        (second_copy(), {"committed_end": None, "proof": None}, {}, None),
    ],
    ids=["records", "a record", "the first evidence", "no record", "no proof"],
)  # fmt: skip
def test_committed_records_that_only_another_copy_has(
    facts: ReplicaFacts, run: dict[str, Any], changes: dict[str, Any], text: str | None
) -> None:
    proven = {
        "start_offset": 40,
        "end_offset": 50,
        "committed_end": 48,
        "committed_records": 5,
        "proof": CHECKPOINT,
        **run,
    }
    beside = (compared(facts, divergent(**proven)),)
    told = list(hwm.judge(case(copy(1), beside=beside)))
    assert [one.message for one in told] == ([] if text is None else [text.format(CHECKPOINT.text)])
    if told:
        assert (told[0].broker_id, told[0].severity, told[0].confidence) == (3, "critical", "proven")
        (open_,) = hwm.judge(case(copy(1), beside=beside, is_leaders=False))
        assert (open_.severity, open_.verdict) == ("high", "INCONCLUSIVE")
        doubted = divergent(**{**proven, "proof": DOUBTED})
        (likely,) = hwm.judge(case(copy(1), beside=(compared(facts, doubted),)))
        assert (likely.severity, likely.confidence) == ("critical", "likely")


@pytest.mark.parametrize(
    ("facts", "mark", "quiesced", "told"),
    [
        (second_copy(1, FUTURE, path=FUTURE, end=70), 66, True, (60, 66, 6, "the current log, which it was copied from, ends at 60 and its")),
        (second_copy(3, end=70), 66, True, (60, 66, 6, "that log ends at 60 and its high watermark was 66 or more")),
        (second_copy(3, end=70), 75, True, (60, 70, 10, "that log ends at 60 and its high watermark was 70 or more")),
        (second_copy(3, end=70), 60, True, None),
        (second_copy(3, end=70), 66, False, None),
    ],
    ids=["the reference's own", "of another", "to its end", "nothing committed", "copied later, perhaps"],
)  # fmt: skip
def test_the_end_that_the_reference_lost_and_another_copy_still_has(
    facts: ReplicaFacts, mark: int, quiesced: bool, told: tuple[int, int, int, str] | None
) -> None:
    ahead = Batches.of([batch(60, 64, epoch=2), batch(65, 69, epoch=3)])
    item = compared(facts, alignment=Alignment(ahead=ahead))
    leader = copy(1, high_watermark_checkpoint=mark)
    made = case(leader, beside=(item._replace(reference=leader),), quiesced=quiesced)
    tail = LeaderTail.of(made.reference, made.replicas, made.leadership, made.options.times, quiesced=quiesced)
    found = list(hwm.judge(replace(made, tail=tail)))
    assert len(found) == bool(told)
    if told is not None:
        start, end, records, why = told
        assert (found[0].start_offset, found[0].end_offset, found[0].replica_epoch) == (start, end, 2)
        assert found[0].message.startswith(f"{records} committed records") and why in found[0].message


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ("critical", "proven")),
        ({"kafka_version": (3, 4)}, ("critical", "suspect")),
        ({"is_leaders": False}, ("high", "suspect")),
    ],
    ids=["proven", "of a version that marks over a tail", "on the leader, perhaps"],
)
def test_a_mark_of_a_broker_without_the_directory_proves_a_loss(changes: dict[str, Any], told: tuple[str, str]) -> None:
    """Broker 2 led, and was fenced before broker 1 was elected, which leads from 30 on."""
    states = [
        PartitionState(0, at, "changed", leader, epoch, at, (1, 2), (), (), (1, 2), (), (), (), False, {})
        for at, leader, epoch in ((0, 2, 0), (1, 1, 2))
    ]
    said = leadership(topic_id=TOPIC_ID, history=tuple(states), fenced_since={2: 1})
    marks = {(2, "broker-2", HIGH_WATERMARKS): 45}
    (found,) = hwm.judge(case(copy(1), said=said, orphans=marks, **changes))
    assert (found.severity, found.confidence) == told
    assert (found.broker_id, found.start_offset, found.end_offset, found.replica_epoch) == (2, 30, 45, 1)


# --- held by nobody any more

RUN = EarlierRun("a" * 32, "2026-11-20T10:00:00.000Z", TOPIC_ID, (3,), 30, 50, 1, 20, True, 2)


def gone(
    *replicas: Any,
    runs: Sequence[EarlierRun] = (),
    told: frozenset[str] = frozenset(),
    run: EarlierRun = RUN,
    committed: tuple[CommittedLog, ...] = (),
    **named: Any,
) -> list[Finding]:
    leader, *others = replicas or (copy(1), copy(3))
    named = {"leader_epoch": 3, "leadership": None, "losses": EarlierLosses((*runs, run), told, committed), **named}
    return list(hwm_gone.judge(case(leader, *map(compared, others), **named)))


@pytest.mark.parametrize(
    ("changes", "text", "holder"),
    [
        ({}, "20 committed records that broker 3 held on 2026-11-20 are gone: no replica has offsets 30 to 49", 3),
        ({"records": 2}, "2 committed records that broker 3 held on 2026-11-20 are gone: no replica has offsets 30 to 49", 3),
        (
            {"records": 1, "end_offset": 31, "committed": False},
            "1 record that broker 3 held on 2026-11-20 is gone: no replica has offset 30",
            3,
        ),
        (
            {"records": None, "broker_ids": (1, 3)},
            "committed records that brokers 1 and 3 held on 2026-11-20 are gone: no replica has offsets 30 to 49",
            None,
        ),
        # The end of a transaction: no producer's record.
        (
            {"records": 0, "end_offset": 31},
            "committed control batches that broker 3 held on 2026-11-20 are gone: no replica has offset 30",
            3,
        ),
    ],
)  # fmt: skip
def test_what_an_earlier_audit_saw_and_no_replica_has(changes: dict, text: str, holder: int | None) -> None:
    (found,) = gone(run=replace(RUN, **changes))
    assert found.message == f"{text} of epoch 1 any more"
    assert (found.code, found.status, found.verdict, found.broker_id) == ("HWM-GONE", "new", "COMMITTED_LOSS", holder)
    why = "committed" if changes.get("committed", True) else "left behind by an unclean election"
    assert found.evidence[0].text.endswith(f"of epoch 1, {why}") and found.evidence[0].broker_id == holder
    assert found.evidence[-1].text.endswith("no, the log of every assigned replica is here")


@pytest.mark.parametrize(
    ("replicas", "records", "text", "where"),
    [
        # Retention has passed a part.
        ((copy(1, log_start_offset=40), copy(3)), 20, "up to 10 committed records", "offsets 40 to 49"),
        ((copy(1, log_start_offset=40), copy(3)), 4, "up to 4 committed records", "offsets 40 to 49"),
        ((copy(1, log_start_offset=49), copy(3)), 20, "up to 1 committed record", "offset 49"),
        ((copy(1, log_start_offset=40), copy(3)), None, "committed records", "offsets 40 to 49"),
        ((copy(1, log_start_offset=40), copy(3)), 0, "committed control batches", "offsets 40 to 49"),
        # Another replica has some of them.
        (
            (copy(1), copy(3, ((0, 0), (1, 35), (2, 40)))),
            20,
            "up to 15 committed records",
            "offsets 30 to 34, offsets 40 to 49",
        ),
    ],
)
def test_of_what_is_partly_explained_the_rest_is_told(replicas, records, text, where) -> None:
    (found,) = gone(*replicas, run=replace(RUN, records=records))
    are = "is" if text.endswith("record") else "are"
    assert (
        found.message
        == f"{text} that broker 3 held on 2026-11-20 {are} gone: no replica has {where} of epoch 1 any more"
    )
    assert (found.start_offset, found.end_offset) == (30, 50)
    assert found.evidence[1].value == where.split()[1]


def test_what_each_replica_has_there_now_is_told() -> None:
    replicas = (copy(1), copy(2, ((0, 0),), end=30), copy(3, ((0, 0),), end=20), copy(4, (), end=60))
    (found,) = gone(*replicas)
    assert [(one.broker_id, one.text, one.value) for one in found.evidence[1:5]] == [
        (1, "broker 1 has epoch 2 at 30", "30"),
        (2, "broker 2 ends at 30", "30"),
        (3, "broker 3 ends at 20", "30"),
        (4, "broker 4 ends at 60", "30"),
    ]


HOLDER = copy(5, ((0, 0), (1, 30)), end=50)
NOT_GONE = {
    "retention passed them": ((copy(1, log_start_offset=50), copy(3)), {}),
    "retention passed more": ((copy(1, log_start_offset=55), copy(3)), {}),
    "a replica has them": ((copy(1), copy(3), HOLDER), {}),
    "a second copy on one broker has them": ((copy(1), copy(3)), {"duplicates": (HOLDER,)}),
    "a log that could not be compared has them": ((copy(1), copy(3)), {"set_aside": (HOLDER,)}),
    "a replica is compacted": ((copy(1), copy(3, compacted=True)), {}),
    "the topic is tiered": ((copy(1), copy(3)), {"said": leadership(configs={"remote.storage.enable": "true"})}),
    "the topic has no id": ((copy(1, topic_id=None), copy(3)), {"run": replace(RUN, topic_id=None)}),
    "another topic, of an earlier id": ((copy(1), copy(3)), {"run": replace(RUN, topic_id="a")}),
    "another topic, of a later id": ((copy(1), copy(3)), {"run": replace(RUN, topic_id="z")}),
    "the log has no epochs": ((copy(1), copy(3)), {"leader_epoch": None}),
    "a snapshot of their own epoch": ((copy(1), copy(3)), {"leader_epoch": 1, "run": replace(RUN, leader_epoch=1)}),
    "a snapshot from before their epoch": ((copy(1), copy(3)), {"leader_epoch": 0, "run": replace(RUN, leader_epoch=None)}),
    "a snapshot from before that audit": ((copy(1), copy(3)), {"leader_epoch": 2, "run": replace(RUN, leader_epoch=3)}),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_GONE)
def test_where_something_else_explains_it_nothing_is_gone(name: str) -> None:
    replicas, named = NOT_GONE[name]
    assert gone(*replicas, **named) == []


@pytest.mark.parametrize(("now", "then"), [(2, 2), (3, 2), (2, None)])
def test_a_snapshot_of_that_audits_epoch_or_a_later_one_tells_them(now: int, then: int | None) -> None:
    assert len(gone(leader_epoch=now, run=replace(RUN, leader_epoch=then))) == 1


def test_what_a_client_is_not_given_of_a_log_may_have_them() -> None:
    """A new leader's high watermark is behind the old one's until its followers have fetched."""
    shown = copy(1, ((0, 0), (1, 30)), end=45, observed=ObservedLog(45, 0, 50, 1))
    (found,) = gone(shown, copy(3, ((0, 0), (1, 30)), end=40))
    assert (found.code, found.verdict) == ("HWM-UNSEEN", "INCONCLUSIVE")
    assert "(offsets 45 to 49 of epoch 1), and the log of broker 1 is missing from it or incomplete" in found.message
    for later in (
        copy(1, ((0, 0), (1, 30), (2, 40)), end=45, observed=ObservedLog(45, 0, 50, 2)),
        copy(1, ((0, 0),), observed=ObservedLog(60, 0, 70, 0)),
    ):
        assert [one.code for one in gone(later, copy(3, ((0, 0), (1, 30)), end=40))] == ["HWM-GONE"]
    older = copy(1, ((0, 0),), end=45, observed=ObservedLog(45, 0, 50, 0))
    assert [one.code for one in gone(older, copy(3, ((0, 0),), end=20))] == ["HWM-UNSEEN"]
    without = copy(1, (), end=45, observed=ObservedLog(45, 0, 50, 0))
    assert [one.code for one in gone(without, copy(3, (), end=20), run=replace(RUN, replica_epoch=0))] == ["HWM-UNSEEN"]
    to_its_end = copy(1, ((0, 0),), end=50, observed=ObservedLog(50, 0, 60, 0))
    assert [one.code for one in gone(to_its_end, copy(3, ((0, 0),), end=20))] == ["HWM-GONE"]
    later = copy(1, ((0, 0), (1, 30), (2, 45)), observed=ObservedLog(60, 0, 70, 2))
    assert [one.code for one in gone(later, copy(3, ((0, 0), (1, 30)), end=40))] == ["HWM-GONE"]


def test_runs_of_the_topic_are_found_among_those_of_others() -> None:
    assert len(gone(runs=[replace(RUN, topic_id="a"), replace(RUN, topic_id="z")])) == 1


@pytest.mark.parametrize(
    ("replicas", "run", "text", "codes"),
    [
        ((copy(1), copy(2)), RUN, "the log of broker 3 is", {"HWM-UNSEEN"}),
        ((copy(1), copy(2)), replace(RUN, broker_ids=(3, 4)), "the logs of brokers 3 and 4 are", {"HWM-UNSEEN"}),
        ((copy(1), copy(3, unproven=("left_out",))), RUN, "the log of broker 3 is", {"HWM-UNSEEN"}),
        ((copy(1), copy(2, unproven=("left_out",))), RUN, "the logs of brokers 2 and 3 are", {"HWM-UNSEEN"}),
    ],
)
def test_where_a_log_is_missing_it_is_named(replicas, run, text, codes) -> None:
    (found,) = gone(*replicas, run=run)
    assert {found.code} == codes
    assert found.message.endswith(
        f" are on no replica in the snapshot (offsets 30 to 49 of epoch 1), and {text} missing from it or incomplete"
    )
    assert found.evidence[-1].text.startswith("a replica that was not copied: yes, that of broker")


def test_a_second_copy_on_the_broker_that_held_them_is_a_log_that_was_asked() -> None:
    (found,) = gone(copy(1), copy(2), duplicates=(copy(3),))
    assert found.code == "HWM-GONE"


@pytest.mark.parametrize(
    ("version", "committed", "confidence"),
    [(None, True, "proven"), ((3, 4), True, "suspect"), ((3, 4), False, "proven"), ((3, 5), True, "proven")],
)
def test_a_version_that_marks_over_a_tail_proves_no_commit(version, committed: bool, confidence: str) -> None:
    (found,) = gone(run=replace(RUN, committed=committed), kafka_version=version)
    assert found.confidence == confidence


AFTER_MS = parse_time(RUN.finished) + 60_000


def empty(broker_id: int) -> ReplicaFacts:
    """A new disk's log."""
    return copy(broker_id, (), end=0, checkpoint_epochs=())


def copied_at(*started_ms: int) -> CaptureTimes:
    """Brokers 1 and 3."""
    times = zip((1, 3), started_ms, strict=True)
    return CaptureTimes(tuple(CopiedLogDir(one, f"broker-{one}", at, at + 1_000, "live") for one, at in times))


LONG_AGO, SINCE = AFTER_MS - 120_000, AFTER_MS


@pytest.mark.parametrize(
    ("replicas", "changes", "code"),
    [
        ((copy(1), copy(3)), {"times": copied_at(SINCE, SINCE)}, "HWM-GONE"),
        ((copy(1), copy(3)), {"times": copied_at(SINCE, LONG_AGO)}, None),
        ((copy(1), copy(3)), {"times": copied_at(LONG_AGO, SINCE)}, None),
        ((copy(1), copy(3)), {}, None),
        ((empty(1), empty(3)), {"times": copied_at(SINCE, SINCE)}, "HWM-GONE"),
        ((empty(1), empty(3)), {}, "HWM-UNSEEN"),
        ((empty(1), copy(3)), {}, None),
        ((copy(1), empty(3)), {}, None),
    ],
    ids=["since", "one before", "another before", "no times", "empty since", "empty", "the leader empty", "a follower empty"],
)  # fmt: skip
@pytest.mark.parametrize("source", ["run", "log"])
def test_a_snapshot_is_later_by_its_times_and_perhaps_where_all_logs_are_empty(
    replicas, changes, code, source: str
) -> None:
    """The leader epoch does not say it: nobody has been elected since."""
    named = {"leader_epoch": 1, "run": replace(RUN, leader_epoch=1), **changes}
    if source == "log":
        named |= {"run": replace(RUN, topic_id="z"), "committed": (LOG._replace(start_offset=30),)}
    told = gone(*replicas, **named)
    assert [one.code for one in told] == ([] if code is None else [code])
    if code == "HWM-UNSEEN":
        assert told[0].message.endswith(
            "on no replica in the snapshot (offsets 30 to 49 of epoch 1), whose logs are all empty: they are gone, or the snapshot is older "
            "than that audit; the copy times in manifest.json would tell"
        )


LOG = CommittedLog("b" * 32, RUN.finished, TOPIC_ID, (1, 3), Lineage(((0, 0), (1, 30))), 0, 50, 1)
LONGER = LOG._replace(end_offset=60)


@pytest.mark.parametrize(
    ("run", "committed", "changes", "places"),
    [
        (None, (LOG,), {}, [(30, 50)]),
        (None, (LOG,), {"leader_epoch": 2}, [(30, 50)]),
        (None, (LOG,), {"leader_epoch": 1}, []),
        (None, (LOG,), {"leader_epoch": None}, []),
        (None, (LOG._replace(lineage=Lineage(((0, 0), (1, 10), (3, 30))), leader_epoch=3),), {}, []),
        (None, (LOG._replace(start_offset=35),), {}, [(35, 50)]),
        (None, (LOG, LOG), {}, [(30, 50)]),
        (None, (LONGER, LOG), {}, [(30, 60)]),
        (None, (LOG, LONGER), {}, [(30, 50), (50, 60)]),
        (RUN, (LOG,), {}, [(30, 50)]),
        (RUN, (LONGER,), {}, [(30, 50), (50, 60)]),
        (replace(RUN, replica_epoch=0), (LOG,), {}, [(30, 50), (30, 50)]),
        (replace(RUN, start_offset=35, end_offset=40), (LOG,), {}, [(35, 40), (30, 50)]),
    ],
    ids=[
        *("its log", "the next leader's", "nobody elected since", "no epochs", "nor since its last epoch", "from a log start on"),
        *("twice", "the longer first", "the longer last", "a run, too", "a run of a part", "a run of another epoch", "a run inside"),
    ],
)  # fmt: skip
def test_what_an_earlier_log_proved_committed_is_told_once(run, committed, changes, places) -> None:
    told = gone(run=run or replace(RUN, topic_id="z"), committed=committed, **changes)
    assert [(one.start_offset, one.end_offset) for one in told] == places
    assert all("committed" in one.message for one in told)


def test_what_was_told_before_is_known_and_asks_for_no_verdict() -> None:
    (new,) = gone()
    told = frozenset({finding_id(new, TopicPartition("orders", 0), TOPIC_ID, None)})
    (known,) = gone(told=told)
    assert known == new._replace(status="known", verdict=None)


def cut(to: int, mark: int, broker_id: int = 3) -> list[BrokerLogEvent]:
    """A broker's own log of a truncation below its high watermark."""
    loaded = BrokerLogEvent("orders", 0, broker_id, "server.log", 1, "loaded", 1, None, offset=60)
    return [
        loaded,
        BrokerLogEvent(
            "orders", 0, broker_id, "server.log", 2, "cut_below_mark", 2, None, offset=to, high_watermark=mark
        ),
    ]


@pytest.mark.parametrize(
    ("events", "is_told"),
    [
        (cut(30, 50), True),
        (cut(20, 31), True),
        (cut(49, 51), True),
        # It cut what lies below them, or above.
        (cut(20, 30), False),
        (cut(20, 29), False),
        (cut(50, 55), False),
        (cut(55, 58), False),
        (cut(30, 50, broker_id=4), False),
    ],
)
def test_what_a_brokers_own_log_tells_is_not_told_twice(events, is_told) -> None:
    leader = copy(1, ((0, 0), (2, 20), (3, 30), (4, 49), (5, 50), (6, 55)))
    assert bool(gone(leader, copy(3), leader_epoch=7, log_events=tuple(events))) is not is_told


def test_twice_the_committed_epochs_take_twice_the_steps():
    def steps(number: int) -> int:
        lineage, end = tuple((epoch, 10 * epoch) for epoch in range(number)), 10 * number
        committed = CommittedLog("a" * 32, RUN.finished, TOPIC_ID, (1,), Lineage(lineage), 0, end, number)
        replicas = copy(1, lineage, end), compared(copy(3, lineage, end))
        losses = EarlierLosses(committed=(committed,))
        made = case(*replicas, leader_epoch=number + 1, leadership=None, losses=losses)
        assert not list(hwm_gone.judge(made))
        return sum(count_steps(lambda: list(hwm_gone.judge(made))).values())

    assert steps(200) < 2.5 * steps(100)

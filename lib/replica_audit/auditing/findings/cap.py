"""Files that the capture lacks: replicas and segments that are missing, and what could not be read (F.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    fate_of_copy,
    finding,
    in_directory,
    in_epoch_file,
    name_copy,
    unread_records,
    unusable_input,
)
from replica_audit.auditing.leadership.needed_replicas import WHY_NEEDED
from replica_audit.auditing.replicas.offset_ranges import traces_of_segment
from replica_audit.protocol.election import last_led
from replica_audit.schema import Evidence, QuarantineRow
from replica_audit.text import listed, name_offsets, name_source, render_time, verb

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.leadership.needed_replicas import LogLeft
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.literals import Need
    from replica_audit.model import Leadership, OffsetRange

CAP_MISSING_REPLICA = Code(
    "CAP-MISSING-REPLICA", ("medium", "info"), ("INCONCLUSIVE",), traits=("no_files", "two_moments")
)
CAP_MISSING_SEGMENT = Code(
    "CAP-MISSING-SEGMENT", ("medium",), ("INCONCLUSIVE",), traits=("doubt", "no_files", "moved_away")
)
CAP_UNREADABLE = Code("CAP-UNREADABLE", ("high",), ("INCONCLUSIVE",), traits=("doubt", "no_files", "unreadable"))
CAP_NOT_AUDITED = Code("CAP-NOT-AUDITED", ("high",), ("INCONCLUSIVE",))


def judge(case: Case) -> Iterator[Finding]:
    """Findings on files of every copy, and on replicas missing in the snapshot; ends of logs are judged by the family REP."""
    for facts in (*case.replicas, *case.set_aside):
        yield from judge_copy(facts)
        for stretch in case.missing_of(facts):
            yield from _missing_file(case, facts, stretch)
        yield from _indexes_without_log(facts)
    yield from _missing_replicas(case)
    for item in case.comparisons:
        for problems in item.problems_by_broker("lost"):
            yield unread_records(CAP_UNREADABLE, problems, "could not be read")


def judge_copy(facts: ReplicaFacts) -> Iterator[Finding]:
    """Findings on missing or unreadable files of one copy."""
    for code, text, evidence in _unusable(facts):
        yield finding(code, f"broker {facts.broker_id}: {text}", broker_id=facts.broker_id, evidence=evidence)


def _unusable(facts: ReplicaFacts) -> Iterator[tuple[Code, str, list[Evidence]]]:
    directory = facts.directory
    if facts.unread_bases:
        yield (
            CAP_UNREADABLE,
            f"{facts.unread}; its log was not compared",
            [in_directory(facts, "see quarantine")],
        )
    elif facts.unread is not None and directory.problem is None:
        text = f"{facts.unread}; its log is not known and not used"
        empty = considered("an empty log: no, it has a .log file of 0 bytes")
        yield CAP_MISSING_SEGMENT, text, [in_directory(facts, "as found"), empty]
    if directory.problem is not None:
        yield CAP_UNREADABLE, directory.problem, [in_directory(facts, directory.problem)]
    for file in (directory.epoch_file, *directory.offset_files):
        if file.state == "unreadable":
            place = Evidence("file", text="as found", broker_id=facts.broker_id, path=file.path)
            yield CAP_UNREADABLE, f"{file.problem}", [place]


def _missing_replicas(case: Case) -> Iterator[Finding]:
    needed = case.needed_replicas
    if case.is_alone and not needed:
        yield finding(
            CAP_MISSING_REPLICA,
            f"nothing was compared: broker {case.reference.facts.broker_id} has the only copy in the snapshot, and nothing "
            "says which other brokers have a replica",
            evidence=[in_directory(case.reference.facts, "the only copy")],
        )
    present = {facts.broker_id for facts in (*case.replicas, *case.foreign, *case.set_aside) if not facts.is_left}
    named = case.leadership.named if case.leadership is not None else frozenset()
    for broker_id in sorted(needed.keys() & {facts.broker_id for facts in case.replicas if case.is_another_log(facts)}):
        yield _without_its_log(case, broker_id, needed[broker_id])
    for broker_id in sorted(one for one, why in needed.items() if why == "former_disk"):
        yield _without_former_logs(broker_id, [one for one in case.logs_left if one.broker_id == broker_id])
    for broker_id in sorted((named | needed.keys()) - present):
        in_sync = bool(case.in_isr(broker_id))
        leads = broker_id == case.reference.leader_id
        why = needed.get(broker_id)
        if leads:
            what = "leads"
        elif in_sync:
            what = "is in sync"
        else:
            what = "is assigned" if broker_id in named else "had a replica"
        copies = (facts for facts in (*case.replicas, *case.duplicates) if facts.broker_id == broker_id)
        others = [facts.directory.path for facts in copies if facts.is_left]
        text = f"broker {broker_id} {what}, but the snapshot has no readable files of it"
        if others:
            text = (
                f"broker {broker_id} {what}, but by the manifest ran with an empty log directory ({listed(others)} "
                f"{verb(len(others), 'is', 'are')} on its other disk)"
            )
        if why is not None:
            # The sentence already says that it leads.
            because = "" if why == "leads" and leads else f"; {WHY_NEEDED[why]}"
            text += f"{because}, so it may hold committed records that no replica here has"
        yield finding(
            CAP_MISSING_REPLICA,
            text,
            severity="medium" if why or in_sync or leads else "info",
            verdict="INCONCLUSIVE" if why else None,
            broker_id=broker_id,
            evidence=[
                Evidence(
                    "leadership", text=name_source(case.leadership.source) if case.leadership else "a checkpoint file"
                )
            ],
        )


def _without_its_log(case: Case, broker_id: int, why: Need) -> Finding:
    """Finding on a replica that is not the log with which its broker led last."""
    last = last_led(case.reference.history)
    epoch = "" if last is None else f", in epoch {last.leader_epoch},"
    return finding(
        CAP_MISSING_REPLICA,
        f"broker {broker_id} led last{epoch} but its files do not know that epoch: its disk has been replaced since, or restored from a "
        f"backup; {WHY_NEEDED[why]}, so the log with which it led may hold committed records that no replica here has",
        severity="medium",
        verdict="INCONCLUSIVE",
        broker_id=broker_id,
        evidence=[in_epoch_file(facts, "as found") for facts in case.replicas if facts.broker_id == broker_id],
    )


def _without_former_logs(broker_id: int, left: Sequence[LogLeft]) -> Finding:
    """Finding on a replica that was begun anew on another disk, as the metadata log shows (KIP-858)."""
    times = listed(render_time(one.anew.time_ms) for one in left)
    directories = "directories" if len(left) > 1 else "directory"
    former = f"with directory.id {listed(one.directory_id for one in left)}, {verb(len(left), 'was', 'were')} gone"
    return finding(
        CAP_MISSING_REPLICA,
        f"broker {broker_id} began this partition anew at {times}: the log {directories} that it had before, {former}, and "
        f"{verb(len(left), 'is', 'are')} not in the snapshot; {WHY_NEEDED['former_disk']}, so it may hold committed records that no replica "
        "here has",
        severity="medium",
        verdict="INCONCLUSIVE",
        broker_id=broker_id,
        evidence=[
            *(
                Evidence(
                    "leadership", text=f"record {one.anew.metadata_offset} of the metadata log", value=one.directory_id
                )
                for one in left
            ),
            considered("a move to another disk: no, the broker did not have the former one any more"),
        ],
    )


def _missing_file(case: Case, facts: ReplicaFacts, stretch: OffsetRange) -> Iterator[Finding]:
    """Finding on offsets between two segments, if another replica or an index shows that there was a segment (else LOG-GAP)."""
    if shown := traces_of_segment(facts, case.replicas, stretch):
        going = next((one for one in case.copies if one.is_about_to_go and _fills(one, facts, stretch)), None)
        why = "; copy the replica again; if the file is missing on the broker too, it is lost there"
        if going is not None:
            why = f", and {name_copy(going)} has them: {fate_of_copy(going)}"
        yield finding(
            CAP_MISSING_SEGMENT,
            f"broker {facts.broker_id}: a segment file with {name_offsets(*stretch)} is missing{why}",
            confidence="likely",
            broker_id=facts.broker_id,
            offsets=stretch,
            evidence=[in_directory(facts, text) for text in shown],
        )


def _fills(going: ReplicaFacts, facts: ReplicaFacts, stretch: OffsetRange) -> bool:
    """True if `.deleted` segments of the replica's directory begin and end where the stretch does, and none of them is missing."""
    own = (going.broker_id, going.directory.path) == (facts.broker_id, facts.directory.path)
    return (
        own
        and bool(going.segments)
        and not going.missing
        and (going.segments[0].base_offset, going.log_end_offset) == stretch
    )


def _indexes_without_log(facts: ReplicaFacts) -> Iterator[Finding]:
    """Finding on indexes below the first segment or above the last: their segments existed when they were written, or copied."""
    bases = [base for base in facts.directory.index_bases if facts.segments and base < facts.segments[0].base_offset]
    if bases and not facts.missing:
        yield _without_log(facts, bases, facts.segments[0].base_offset)
    newer = [base for base in facts.directory.index_bases if facts.segments and base > facts.segments[-1].base_offset]
    if newer:
        yield _without_log(facts, newer, None)


def _without_log(facts: ReplicaFacts, bases: list[int], end: int | None) -> Finding:
    where = f"offsets from {min(bases)} on" if end is None else name_offsets(min(bases), end)
    return finding(
        CAP_MISSING_SEGMENT,
        f"broker {facts.broker_id}: segment {min(bases)} has other files but no .log; {where} cannot be compared",
        confidence="likely",
        broker_id=facts.broker_id,
        offsets=(min(bases), end),
        evidence=[in_directory(facts, f"base offset {base}") for base in bases],
    )


def no_replica(
    leadership: Leadership | None,
    *,
    named_by_checkpoint: bool,
    observed: bool,
    has_others: bool = False,
) -> Finding:
    """Finding on a partition without a copy in the snapshot.

    `observed`: replica_progress has observations of it; `has_others`: copies of other topics of that name are here
    (META-TOPICID-MISMATCH).
    """
    if observed and leadership is None and not named_by_checkpoint:
        # A timeline may cover more partitions than the copies: this one has only that.
        text = "replica_progress has observations of this partition, but no replica of it is in the snapshot"
        return finding(CAP_MISSING_REPLICA, text, severity="info")
    source = name_source(leadership.source) if leadership else "a checkpoint file"
    text = f"{source} names this partition, but no replica of it is in the snapshot"
    if (leadership.replicas if leadership else None) is None and not named_by_checkpoint:
        return finding(CAP_UNREADABLE, text)
    return finding(CAP_MISSING_REPLICA, text, severity="info" if has_others else "medium")


def of_input(row: QuarantineRow) -> Finding | None:
    """Finding for a quarantine row without a partition on unreadable input; None for any other row."""
    return unusable_input(CAP_UNREADABLE, row) if row.code == CAP_UNREADABLE.code else None


def not_audited(problem: str, place: Evidence) -> Finding:
    """Finding on a partition whose audit ended in an error."""
    return finding(CAP_NOT_AUDITED, f"this partition could not be audited: {problem}", evidence=[place])

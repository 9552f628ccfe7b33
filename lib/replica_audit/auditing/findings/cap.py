"""The capture itself: missing or unreadable files, copies of different moments, logs known from a text or table only (F.7)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    fate_of_copy,
    finding,
    in_directory,
    in_epoch_file,
    joined_ranges,
    merge_findings,
    name_copy,
    place_of_copy,
    tell_image,
    unread_records,
    unseen_above,
    unseen_instead,
    unusable_input,
    wanted_range,
)
from replica_audit.auditing.findings.meta import explained_by_skew, overtaken_text
from replica_audit.auditing.leadership.needed_replicas import WHY_NEEDED
from replica_audit.auditing.replicas.offset_ranges import traces_of_segment
from replica_audit.batch_header import or_absent
from replica_audit.model import span_of
from replica_audit.protocol.election import last_led
from replica_audit.protocol.versions import notes_elections
from replica_audit.schema import Evidence, QuarantineRow
from replica_audit.snapshot.observed import OBSERVED, told_tail
from replica_audit.snapshot.provenance import NOT_CAPTURED, UNPROVEN
from replica_audit.text import count, listed, name_offsets, name_source, render_time, verb

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.record_comparison import RecordProblem
    from replica_audit.auditing.leadership.needed_replicas import LogLeft
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.literals import Need
    from replica_audit.model import Leadership, OffsetRange, PartitionState

CAP_MISSING_REPLICA = Code(
    "CAP-MISSING-REPLICA", ("medium", "info"), ("INCONCLUSIVE",), traits=("no_files", "two_moments")
)
CAP_MISSING_SEGMENT = Code(
    "CAP-MISSING-SEGMENT", ("medium",), ("INCONCLUSIVE",), traits=("doubt", "no_files", "moved_away")
)
CAP_UNREADABLE = Code("CAP-UNREADABLE", ("high",), ("INCONCLUSIVE",), traits=("doubt", "no_files", "unreadable"))
CAP_NOT_AUDITED = Code("CAP-NOT-AUDITED", ("high",), ("INCONCLUSIVE",))
CAP_SKEW = Code("CAP-SKEW", ("medium", "info"), ("INCONCLUSIVE",))
CAP_NOT_CAPTURED = Code("CAP-NOT-CAPTURED", ("medium",), ("INCONCLUSIVE",), traits=("doubt", "brought"))
CAP_ABOVE_HW = Code("CAP-ABOVE-HW", ("medium", "info"), ("INCONCLUSIVE",), traits=("unseen_tail",))
CAP_NOT_FROM_START = Code("CAP-NOT-FROM-START", ("medium", "info"), ("INCONCLUSIVE",), traits=("unseen_head",))
CAP_UNCHECKED = Code("CAP-UNCHECKED", ("medium", "info"), ("INCONCLUSIVE",), traits=("unchecked",))
CAP_MOVED = Code("CAP-MOVED", ("medium",), ("INCONCLUSIVE",), traits=("moved", "brought"))
CAP_SECOND_HAND = Code("CAP-SECOND-HAND", ("medium", "info"), ("INCONCLUSIVE",), traits=("doubt", "brought"))

#: Time by which a busy broker may apply a change later than the controller wrote it, including clock differences.
_APPLIED_LATE_MS = 5_000
#: Severities of findings that a capture of two moments puts in doubt.
_DOUBTED = ("high", "medium")

_SOURCES = {
    "dump_text": "text of kafka-dump-log",
    "batch_table": "a table of batches",
    "record_table": "a table of records",
}


#: For a replica without a directory in the snapshot.
_NO_FILES = "leader-epoch-checkpoint and topic id are not part of the input"


_OBSERVED = (
    "not captured: checkpoints, leader-epoch-checkpoint, how the broker was stopped, and anything on its disk that it does not "
    "serve to clients"
)


_NO_LOG_DIR = (
    "checkpoints and how the broker was stopped are not part of the input: only logs bound the high watermark, and it is not known "
    "what a cut at the replica's own high watermark would drop"
)


def judge(case: Case) -> Iterator[Finding]:
    """CAP-* of every copy, and of replicas missing in the snapshot; ends of logs are judged by the family REP."""
    yield from _files(case)
    yield from _outdated(case)
    yield from _second_hand_logs(case)
    yield from _unseen_tails(case)
    yield from _unseen_heads(case)
    yield from _unchecked(case)


def _files(case: Case) -> Iterator[Finding]:
    """Findings on files of every copy, and on replicas missing in the snapshot."""
    for facts in (*case.replicas, *case.set_aside):
        yield from judge_copy(facts)
        for stretch in case.missing_of(facts):
            yield from _missing_file(case, facts, stretch)
        yield from _indexes_without_log(facts)
    yield from _missing_replicas(case)
    for item in case.comparisons:
        for problems in item.problems_by_broker("lost"):
            yield unread_records(CAP_UNREADABLE, problems, "could not be read")
    for item in (*case.comparisons, *case.beside, *case.waiting):
        for problems in item.problems_by_broker("not_captured"):
            yield from _records_not_captured(
                item, problems, "the evidence lacks the records of {}, which have to be compared"
            )
        for problems in item.problems_by_broker("unchecked"):
            yield from _records_not_captured(
                item, problems, "its log differs from another there, and the checksums of {} were not computed"
            )


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
    within: tuple[int, int] | None = None,
    has_others: bool = False,
) -> tuple[Finding, ...]:
    """Findings on a partition without a copy in the snapshot.

    `observed`: replica_progress has observations of it; `within`: begin and end of the collection of its brokers, if that was
    the first and all were running; `has_others`: copies of other topics of that name are here (META-TOPICID-MISMATCH).
    """
    if observed and leadership is None and not named_by_checkpoint:
        # A timeline may cover more partitions than the copies: this one has only that.
        text = "replica_progress has observations of this partition, but no replica of it is in the snapshot"
        return (finding(CAP_MISSING_REPLICA, text, severity="info"),)
    source = name_source(leadership.source) if leadership else "a checkpoint file"
    text = f"{source} names this partition, but no replica of it is in the snapshot"
    if (leadership.replicas if leadership else None) is None and not named_by_checkpoint:
        return (finding(CAP_UNREADABLE, text),)
    found = finding(CAP_MISSING_REPLICA, text, severity="info" if has_others else "medium")
    history = () if leadership is None else leadership.history
    created_ms = next((one.time_ms for one in history if one.occasion == "created"), None)
    if within is None or created_ms is None or created_ms < within[0] - _APPLIED_LATE_MS:
        return (found,)
    moved = finding(
        CAP_MOVED,
        f"the partition was created at {render_time(created_ms, 'seconds')}, and its brokers were collected from "
        f"{render_time(within[0], 'seconds')} to {render_time(within[1], 'seconds')}: they may not have had it yet; collect "
        "them again",
        evidence=[Evidence("leadership", text=source), considered(f"{found.code}: {found.message}")],
    )
    return (moved, _in_doubt(found))


def _in_doubt(found: Finding) -> Finding:
    return found._replace(severity="info", confidence="suspect", verdict=None)


def of_input(row: QuarantineRow) -> Finding | None:
    """Finding for a quarantine row without a partition (unreadable input, or a copy that may be outdated); None for any other row."""
    if row.code == CAP_UNREADABLE.code:
        return unusable_input(CAP_UNREADABLE, row)
    if row.code == CAP_SKEW.code:
        return unusable_input(CAP_SKEW, row)._replace(severity="info", verdict=None)
    return None


def unsettled(case: Case, findings: tuple[Finding, ...], of_two_moments: Collection[str]) -> tuple[Finding, ...]:
    """Add CAP-MOVED if leader, ISR or assignment changed while the logs of running brokers were collected, and put in doubt the
    findings that this may explain.

    These compare a replica's end with checkpoints or marks of another moment, if another log has what this one lacks, or report
    a replica missing that was assigned meanwhile: so no record depends on them. Not if its broker was collected again.
    `of_two_moments` are the codes with that trait.
    """
    partition = str(case.evidence.topic_partition)
    times = case.evidence.options.times
    suspected = [
        one
        for one in findings
        if one.code in of_two_moments
        and one.severity in _DOUBTED
        and not times.was_collected_again(one.broker_id, partition)
    ]
    lacking = {one.broker_id for one in suspected if one.code == CAP_MISSING_REPLICA.code}
    moves = _moves(case, lacking) if suspected else None
    doubted = [one for one in suspected if moves is not None and _may_be_skew(case, one, moves)]
    if moves is None or not doubted:
        return findings
    codes = sorted({one.code for one in doubted})
    moved = finding(
        CAP_MOVED,
        f"who leads, follows or is in sync changed {count(len(moves.states), 'time')}, last at "
        f"{render_time(max(state.time_ms for _, state in moves.states), 'seconds')}, while the logs were collected, from "
        f"{render_time(moves.begun_ms, 'seconds')} to {render_time(moves.ended_ms, 'seconds')}: the copies are of different moments, which "
        f"alone may explain {listed(codes)}; collect them again",
        evidence=[
            Evidence("leadership", text=name_source("metadata_log")),
            *(considered(f"{one.code}: {one.message}") for one in doubted),
        ],
    )
    return merge_findings((*(_in_doubt(one) if one in doubted else one for one in findings), moved))


class _Moves(NamedTuple):
    """Changes of leader, assignment or ISR while the logs of a partition were collected."""

    states: Sequence[tuple[PartitionState, PartitionState]]
    """Pairs of a state and the one before it."""
    begun_ms: int
    ended_ms: int


def _may_be_skew(case: Case, found: Finding, moves: _Moves) -> bool:
    if found.code == CAP_MISSING_REPLICA.code:
        return any(found.broker_id in {*state.replicas} - {*before.replicas} for before, state in moves.states)
    end = found.end_offset
    return end is not None and any(
        one.broker_id != found.broker_id and one.log_end_offset >= end for one in case.replicas
    )


def _moves(case: Case, lacking: Collection[int | None]) -> _Moves | None:
    """Moves of the partition during collection, including brokers `lacking` it; None without any, or if a replica's broker was down."""
    given = case.evidence
    leadership = given.leadership
    log_dirs = {(directory.broker_id, directory.log_dir) for directory, _ in given.replicas}
    log_dirs |= {(one.broker_id, one.log_dir) for one in given.options.times.copies if one.broker_id in lacking}
    within = given.options.times.collected_within(log_dirs)
    if within is None or leadership is None or leadership.named.intersection(leadership.fenced or ()):
        return None
    begun, ended = within
    states = [
        (before, state)
        for before, state in pairwise(leadership.history)
        if begun - _APPLIED_LATE_MS <= state.time_ms <= ended + _APPLIED_LATE_MS
        and _place_of(before) != _place_of(state)
    ]
    return _Moves(states, begun, ended) if states else None


def _place_of(state: PartitionState) -> tuple[int | None, frozenset[int], frozenset[int]]:
    """Leader, ISR and assignment of a state."""
    return state.leader_id, frozenset(state.isr), frozenset(state.replicas)


def not_audited(problem: str, place: Evidence) -> Finding:
    """Finding on a partition whose audit ended in an error."""
    return finding(CAP_NOT_AUDITED, f"this partition could not be audited: {problem}", evidence=[place])


def skew(
    case: Case,
    facts: ReplicaFacts,
    text: str,
    start: int,
    end: int,
    when: str | None = None,
    *,
    doubtful: bool = False,
    is_undecided: bool = False,
    unsure: int | None = None,
) -> Finding:
    """Finding on a tail that files copied at different moments may explain.

    `doubtful`: a loss explains it too, which another finding reports. `is_undecided`: neither is certain, e.g. because it is
    unknown whether the broker `unsure` was down when copied, whether an image of its disk was, or when.
    """
    explains = "may explain it, unless records were lost" if doubtful or is_undecided else "explains it"
    decides = "a manifest with quiesced: true, or the metadata log of brokers that were stopped cleanly, would decide"
    if unsure is not None and case.options.times.is_later_by_controller(case.reference.facts, facts):
        why = (
            f"its copy is the later one by the controller's clock but not by its own: either the clock of broker {unsure} is slow and that log "
            "lost its end, or its __cluster_metadata-0 was copied again later; copy all its log directories again, in one go"
        )
        decides = f"a later copy of broker {unsure} would decide"
    elif unsure is not None and case.tail.state == "up" and not facts.has_epochs:
        why = (
            f"the copy of broker {unsure} is the later one, and nothing shows when it began to lead: that log lost its end, or was copied before "
            "then; copy it again while it leads"
        )
        decides = f"a copy of broker {unsure} made while it leads would decide"
    elif unsure is not None and case.tail.state == "up":
        why = (
            "its copy is the later one: that log lost its end, or the copy is of an image of its disk, without what had not reached the disk: "
            f"{tell_image(case, case.reference.facts)}"
        )
        decides = f"the kind of broker {unsure} in manifest.json would decide"
    elif unsure is not None and case.tail.state == "down":
        why = f"broker {unsure} was down when it was copied: that log lost its end, or another broker led in its epoch"
        decides = "the metadata log, or leadership.json with leader epochs, would decide"
    elif unsure is not None:
        shown = f"broker {unsure} is fenced where the metadata log ends"
        if case.leadership is not None and unsure not in (case.leadership.fenced or ()):
            source = name_source(case.leadership.source)
            shown = (
                f"by {source} broker {unsure} is in sync and nobody leads, so by then it was down, or its disk offline"
            )
        why = (
            f"{shown}, but nothing shows whether it was down when its log was copied: the copy is older, or that log lost its end; while it is "
            "down, copy its log directories again, including __cluster_metadata-0"
        )
        decides = f"a later copy of broker {unsure}, or its kind in manifest.json, would decide"
    elif case.were_at_rest(*case.replicas):
        why = f"brokers that stop one after another end at different offsets, which {explains}"
    else:
        why = f"copies of a running cluster are of different moments, which {explains}"
    return finding(
        CAP_SKEW,
        f"{text}; {why}",
        severity="medium" if is_undecided else "info",
        confidence="likely",
        broker_id=facts.broker_id,
        offsets=(start, end),
        evidence=[
            *([Evidence("leadership", text=f"manifest.json: {when}")] if when else []),
            considered(f"loss: {decides}"),
            # A copy older than the broker's last state may lack records that no other copy has.
            *([unseen_above(unsure, start)] if unsure is not None and case.tail.state == "undecided" else []),
        ],
    )


def _outdated(case: Case) -> Iterator[Finding]:
    reference = case.reference
    older = reference.outdated
    if older is not None and explained_by_skew(case, older):
        yield finding(
            CAP_SKEW,
            overtaken_text(case, older),
            severity="info",
            confidence="likely",
            broker_id=reference.facts.broker_id,
            evidence=[Evidence("leadership", text=name_source(older.source))],
        )
    for orphan in case.remote.undecided:
        facts = reference.facts
        text = (
            f"remote storage has {name_offsets(*orphan.offsets)} of epoch {orphan.leader_epoch}, past the end of "
            f"broker {facts.broker_id} at {facts.log_end_offset}"
        )
        yield skew(case, facts, text, *orphan.offsets, is_undecided=True, unsure=facts.broker_id)
    if reference.predates:
        place = "in its place or past its end" if reference.is_replaced else "past its end"
        facts, times = reference.facts, case.options.times
        is_lost = not facts.file_entries and times.of(facts) is not None and not times.is_image(facts)
        unless = ", or its disk lost what it wrote then (nobody saw it run)" if is_lost else ""
        if instead := times.perhaps_instead(*facts.key) if reference.leader_id is not None else ():
            unless += f", or it runs with {listed(instead)}, which {verb(len(instead), 'is', 'are')} empty, instead of that disk"
        election = reference.doubtful_election
        open_to = facts.log_end_offset
        if election is not None:
            winner = "chose a broker that had been down" if election.clean else "was unclean"
            unless += f", and an election since then {winner}, so the winner may lack records that others have"
            open_to = max(one.log_end_offset for one in case.replicas)
        is_undecided = bool(instead) or is_lost or (reference.may_lack_others and election is None)
        offsets: tuple[int | None, int | None] = None, None
        evidence = [in_epoch_file(facts, "as found")]
        if instead:
            offsets = facts.log_start_offset, facts.log_end_offset
            evidence += (unseen_instead(facts.broker_id, facts.log_start_offset, log_dir) for log_dir in instead)
        elif open_to > facts.log_end_offset:
            is_undecided = True
            offsets = facts.log_end_offset, open_to
            evidence.append(unseen_above(facts.broker_id, facts.log_end_offset))
        yield finding(
            CAP_SKEW,
            f"{_why_older(case)}{unless}, so records of others {place} prove nothing until it is copied again",
            severity="medium" if is_undecided else "info",
            confidence="likely",
            broker_id=facts.broker_id,
            offsets=offsets,
            evidence=evidence,
        )


def _why_older(case: Case) -> str:
    """Clause on why the reference's log is older than its leadership (`Reference.predates`)."""
    reference = case.reference
    name = f"broker {reference.facts.broker_id}"
    later = reference.later
    if later is not None:
        return (
            f"the records of {name} contradict its own epoch file, which has epoch {later.leader_epoch} from {later.start_offset} on, as "
            f"broker {later.broker_id} has: its log was copied before it was cut there"
        )
    last = last_led(reference.history) if reference.leader_id is None else None
    if last is not None:
        led = f"led last, in epoch {last.leader_epoch},"
    elif reference.leader_id is None:
        led = f"led last, in epoch {or_absent(reference.leader_epoch) - 1} unless the epoch was raised once more since,"
    else:
        led = f"leads in epoch {reference.leader_epoch}"
    silent = (
        ""
        if notes_elections(case.options.protocol)
        else " or before it wrote anything as leader, which is when its file notes the epoch"
    )
    return (
        f"{name} {led} by {name_source(reference.source)}, but its own epoch file does not know that epoch: its files were copied "
        f"before it began to lead{silent}"
    )


def _second_hand_logs(case: Case) -> Iterator[Finding]:
    reference = case.reference.facts
    reasons = {item.follower.key: case.open_question(item) for item in case.comparisons}
    for facts in case.set_aside:
        if facts.unread is not None:
            continue  # CAP-UNREADABLE or CAP-MISSING-SEGMENT reports it
        why = case.why_not_comparable(facts)
        reasons[facts.key] = f"it was not compared with broker {reference.broker_id}, because {why}"
    for facts in (*case.replicas, *case.set_aside):
        if facts.unread is not None:
            continue
        reason = reasons.get(facts.key) or (UNPROVEN[facts.undecided[0]] if facts.undecided else None)
        if NOT_CAPTURED in facts.unproven:
            yield from _bytes_not_captured(facts)
        elif facts.second_hand:
            yield _second_hand(facts, reason)
        elif reason is not None:
            yield _set_aside(facts, reference, reason)


def _second_hand(facts: ReplicaFacts, reason: str | None) -> Finding:
    sources = [_SOURCES[source] for source in sorted({one.source for one in facts.segments} - {"segment"})]
    open_points = [UNPROVEN[word] for word in facts.unproven]
    if facts.directory.observed is not None:
        open_points.append(_OBSERVED)
    else:
        open_points += [_NO_FILES] if facts.directory.epoch_file.state == "not_given" else []
        open_points += [] if facts.knows_high_watermark else [_NO_LOG_DIR]
    message = f"broker {facts.broker_id}: the log is known from {' and '.join(sources)} only"
    paths = {segment.path.partition(" (")[0]: None for segment in facts.segments}
    evidence = [
        Evidence("input", text="stands for the segments", broker_id=facts.broker_id, path=path) for path in paths
    ]
    return finding(
        CAP_SECOND_HAND,
        f"{message}; {reason}" if reason else message,
        severity="medium" if reason else "info",
        broker_id=facts.broker_id,
        evidence=[*evidence, *(Evidence("unproven", text=text, broker_id=facts.broker_id) for text in open_points)],
    )


def _unseen_tails(case: Case) -> Iterator[Finding]:
    """Findings on ends of logs that were read through their brokers. Without a leader these may have the only copy of committed
    records: a follower learns the high watermark late."""
    is_open = _nobody_leads(case)
    for facts in (*case.replicas, *case.set_aside):
        text = told_tail(facts.directory)
        observed = facts.directory.observed
        if text is None or observed is None:
            continue
        why = "; nobody leads, so it may have committed records that were not compared" if is_open else ""
        unseen = observed.high_watermark, observed.log_end_offset
        yield _of_weight(CAP_ABOVE_HW, facts, f"{text}{why}", is_open, _answered(facts), unseen)


def _unseen_heads(case: Case) -> Iterator[Finding]:
    """Findings on starts of logs that were read through their brokers from a later offset on: `--last`, `--since`, or segments
    in remote storage only. Without a leader it is unknown whether they agree below."""
    is_open = _nobody_leads(case)
    for facts in (*case.replicas, *case.set_aside):
        observed = facts.directory.observed
        if observed is None or not facts.hides_head:
            continue
        begins = f"the log begins at {observed.log_start_offset} but was read only from {facts.log_start_offset} on"
        why = (
            "; nobody leads, and it is not known whether replicas agree below"
            if is_open
            else ": what is below was not judged"
        )
        unseen = observed.log_start_offset, facts.log_start_offset
        yield _of_weight(CAP_NOT_FROM_START, facts, f"{begins}{why}", is_open, _answered(facts), unseen)


def _unchecked(case: Case) -> Iterator[Finding]:
    """Findings on logs whose headers alone were collected.

    A damaged header may look like a longer log, a damaged batch like a sound one. If the leader is certain, its broker detects
    that; otherwise the election depends on it.
    """
    is_open = _nobody_leads(case) or case.reference.isr is None
    for facts in (*case.copies, *case.set_aside):
        if not facts.unchecked_batches:
            continue
        of = sum(segment.batch_count for segment in facts.segments)
        who = "nobody leads" if _nobody_leads(case) else "nothing says who is in sync"
        why = f"; {who}, so a damaged log may be taken for the best one" if is_open else ""
        text = (
            f"the checksums of {facts.unchecked_batches:,} of its {count(of, 'batch', 'batches')} were not computed: damage inside "
            f"them would go unseen{why}"
        )
        yield _of_weight(CAP_UNCHECKED, facts, text, is_open, in_directory(facts, "only headers were collected"))


def _of_weight(
    code: Code,
    facts: ReplicaFacts,
    text: str,
    is_open: bool,
    evidence: Evidence,
    unseen: tuple[int | None, int | None] = (None, None),
) -> Finding:
    """Finding on an unknown part of one log, which matters only if the leader is uncertain; `unseen` are its start and end."""
    return finding(
        code,
        f"broker {facts.broker_id}: {text}",
        severity="medium" if is_open else "info",
        broker_id=facts.broker_id,
        offsets=unseen,
        evidence=[evidence],
    )


def _answered(facts: ReplicaFacts) -> Evidence:
    return Evidence("input", text="as its broker answered", broker_id=facts.broker_id, path=OBSERVED)


def _nobody_leads(case: Case) -> bool:
    return case.leadership is None or case.leadership.leader_id is None


def _records_not_captured(item: Comparison, problems: Sequence[RecordProblem], why: str) -> Iterator[Finding]:
    """Findings on batches of one broker that were to be compared or checked, and whose headers alone are in the evidence.

    Those of a copy collected earlier are not wanted: its broker has other files by now.
    """
    copy = item.follower
    gone = [one for one in problems if copy.is_earlier and one.path.startswith(f"{copy.directory.path}/")]
    if gone:
        text = (
            f"{name_copy(copy)} has {count(len(gone), 'batch', 'batches')} that no log has now: its broker had others when it was "
            "collected again, and the records in these can no longer be known"
        )
        yield _not_captured(gone, text, [place_of_copy(copy)])
    if wanted := [one for one in problems if one not in gone]:
        broker = wanted[0].broker_id
        size = sum(problem.size for problem in wanted)
        ranges = joined_ranges((problem.path, problem.position, problem.position + problem.size) for problem in wanted)
        yield _not_captured(
            wanted,
            f"broker {broker}: {why.format(count(len(wanted), 'batch', 'batches'))}; {count(size, 'byte')} wanted",
            [wanted_range(broker, path, start, end - start) for path, start, end in ranges],
        )


def _not_captured(problems: Sequence[RecordProblem], text: str, evidence: Sequence[Evidence]) -> Finding:
    broker_id = problems[0].broker_id
    return finding(CAP_NOT_CAPTURED, text, broker_id=broker_id, offsets=span_of(problems), evidence=evidence)


def _bytes_not_captured(facts: ReplicaFacts) -> Iterator[Finding]:
    """Findings on bytes after the last sound batch of segments that the evidence lacks."""
    segments = [segment for segment in facts.segments if segment.source == "evidence"]
    if not segments:
        return  # its records are wanted
    where = f"segment {segments[0].base_offset}" if len(segments) == 1 else count(len(segments), "segment")
    size = sum(segment.tail_length for segment in segments)
    yield finding(
        CAP_NOT_CAPTURED,
        f"broker {facts.broker_id}: the evidence lacks what follows the last sound batch in {where}; {count(size, 'byte')} wanted; "
        "until then its log is not compared",
        broker_id=facts.broker_id,
        evidence=[
            wanted_range(facts.broker_id, one.path, one.size_bytes - one.tail_length, one.tail_length)
            for one in segments
        ],
    )


def _set_aside(facts: ReplicaFacts, reference: ReplicaFacts, reason: str) -> Finding:
    return finding(
        CAP_SECOND_HAND,
        f"broker {facts.broker_id}: {reason}",
        broker_id=facts.broker_id,
        evidence=[
            Evidence(
                "input", text="stands for the segments", broker_id=reference.broker_id, path=reference.directory.path
            )
        ],
    )

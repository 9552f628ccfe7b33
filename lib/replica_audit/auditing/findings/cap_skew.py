"""Copies of different moments: logs that are older than others, or than what is said of their leaders (F.7)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    finding,
    in_epoch_file,
    merge_findings,
    unseen_above,
    unseen_instead,
    unusable_input,
)
from replica_audit.auditing.findings.cap import CAP_MISSING_REPLICA
from replica_audit.auditing.findings.meta import explained_by_skew, overtaken_text
from replica_audit.batch_header import or_absent
from replica_audit.protocol.election import last_led
from replica_audit.protocol.versions import notes_elections
from replica_audit.schema import Evidence, QuarantineRow
from replica_audit.text import count, listed, name_offsets, name_source, render_time, verb

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import Leadership, PartitionState

CAP_SKEW = Code("CAP-SKEW", ("medium", "info"), ("INCONCLUSIVE",))
CAP_MOVED = Code("CAP-MOVED", ("medium",), ("INCONCLUSIVE",), traits=("moved", "brought"))

#: Time by which a busy broker may apply a change later than the controller wrote it, including clock differences.
_APPLIED_LATE_MS = 5_000
#: Severities of findings that a capture of two moments puts in doubt.
_DOUBTED = ("high", "medium")


def judge(case: Case) -> Iterator[Finding]:
    """Findings on a reference that is older than its leadership, and on leadership that is older than the logs."""
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
    unseen = []
    if unsure is not None and case.tail.state == "down":
        why = f"broker {unsure} was down when it was copied: that log lost its end, or another broker led in its epoch"
        decides = "the metadata log, or leadership.json with leader epochs, would decide"
    elif unsure is not None and case.tail.state == "up":
        why = (
            f"the copy of broker {unsure} may be the later one, and then that log lost its end; or its clock is slow, or its disk was copied "
            "as an image, or before it led; copy all its log directories again, in one go, while it leads"
        )
        decides = f"a copy of broker {unsure} made while it leads, or its kind in manifest.json, would decide"
    elif unsure is not None:
        # A copy older than the broker's last state may lack records that no other copy has.
        unseen = [unseen_above(unsure, start)]
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
            *unseen,
        ],
    )


def of_input(row: QuarantineRow) -> Finding | None:
    """Finding for a quarantine row without a partition on a copy that may be outdated; None for any other row."""
    return unusable_input(CAP_SKEW, row)._replace(severity="info", verdict=None) if row.code == CAP_SKEW.code else None


def perhaps_created_since(
    found: Finding, leadership: Leadership | None, within: tuple[int, int] | None
) -> tuple[Finding, ...]:
    """`found`, a finding on a partition without a copy, in doubt beside CAP-MOVED if the partition was created after the collection of
    its brokers began; `within` are begin and end of that collection, if it was the first and all were running."""
    if found.code != CAP_MISSING_REPLICA.code or leadership is None or within is None:
        return (found,)
    created_ms = next((one.time_ms for one in leadership.history if one.occasion == "created"), None)
    if created_ms is None or created_ms < within[0] - _APPLIED_LATE_MS:
        return (found,)
    moved = finding(
        CAP_MOVED,
        f"the partition was created at {render_time(created_ms, 'seconds')}, and its brokers were collected from "
        f"{render_time(within[0], 'seconds')} to {render_time(within[1], 'seconds')}: they may not have had it yet; collect "
        "them again",
        evidence=[
            Evidence("leadership", text=name_source(leadership.source)),
            considered(f"{found.code}: {found.message}"),
        ],
    )
    return (moved, _in_doubt(found))


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


def _in_doubt(found: Finding) -> Finding:
    return found._replace(severity="info", confidence="suspect", verdict=None)


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

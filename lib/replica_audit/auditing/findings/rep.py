"""Replicas that are behind the leader, ahead of it, or too few in sync (F.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    fate_of_copy,
    finding,
    name_copy,
    place_of_copy,
    why_perhaps_image,
)
from replica_audit.auditing.findings.cap_skew import skew
from replica_audit.auditing.replicas.lost_tails import is_tail_lost
from replica_audit.batch_header import or_absent
from replica_audit.protocol.versions import notes_elections
from replica_audit.schema import Evidence
from replica_audit.text import count, name_brokers, name_offsets, name_source

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.comparison import Comparison

REP_UNDER_REPLICATED = Code("REP-UNDER-REPLICATED", ("low",), ("LAGGING",))
REP_LAG = Code("REP-LAG", ("info",), ("LAGGING",))
REP_ISR_SHORT = Code(
    "REP-ISR-SHORT",
    ("high", "medium", "info"),
    ("WILL_LOSE_ON_TRUNCATION", "INCONCLUSIVE"),
    traits=("two_moments", "own_step"),
)
REP_LEADER_SHORTER = Code(
    "REP-LEADER-SHORTER", ("high",), ("COMMITTED_LOSS", "WILL_LOSE_ON_TRUNCATION"), traits=("held", "decided")
)

#: Evidence that skew of the copies does not explain an end.
_AT_REST = considered("capture skew: no, the cluster was at rest")


def brokers_past_leader(findings: Iterable[Finding]) -> set[int]:
    """Brokers that hold records which the leader had and lost (REP-LEADER-SHORTER)."""
    return {item.broker_id for item in findings if item.code == REP_LEADER_SHORTER.code and item.broker_id is not None}


def judge(case: Case) -> Iterator[Finding]:
    """Findings on the ends of the logs, and on the ISR; CAP-SKEW if copies of different moments explain an end."""
    yield from _short_stand_in(case)
    for item in case.comparisons:
        yield from _ahead(case, item)
        yield from _short(case, item)
        yield from _lag(case, item)
    for item in case.beside:
        if case.is_lost_tail(item):
            yield from _lost_tail(case, item)
        elif (is_undecided := case.may_be_lost_tail(item)) or case.is_deleted_late(item):
            yield _skewed_tail(case, item, is_undecided=is_undecided)
    yield from _replication(case)


def _lost_tail(case: Case, item: Comparison) -> Iterator[Finding]:
    """REP-LEADER-SHORTER for records of the leader's log that a copy in `Case.beside` has, without proof that they were committed."""
    facts = item.follower
    leader = case.reference.facts
    start = case.committed_tail(item)
    if facts.log_end_offset <= start:
        return
    is_copied = case.is_copied_from_reference(item)
    log = f"the log on broker {leader.broker_id}"
    if is_copied:
        log = f"the current log on broker {leader.broker_id}, which it was copied from,"
    # The reference may stand in for the leader's log, and have left the ISR before.
    is_leaders = is_copied or case.reference.leader_id == leader.broker_id
    why = "lost its tail" if is_leaders else "lost its tail or never had it"
    yield finding(
        REP_LEADER_SHORTER,
        f"{name_copy(facts)} has {name_offsets(start, facts.log_end_offset)}; {log} ends at {leader.log_end_offset} and {why}; "
        f"{fate_of_copy(facts)}",
        confidence="proven" if is_copied else "likely",
        verdict="COMMITTED_LOSS" if is_copied else "WILL_LOSE_ON_TRUNCATION",
        broker_id=facts.broker_id,
        offsets=(start, facts.log_end_offset),
        evidence=[place_of_copy(facts), considered("copied later: no, nothing was written while the copies were made")],
    )


def _skewed_tail(case: Case, item: Comparison, *, is_undecided: bool) -> Finding:
    """CAP-SKEW for records past the reference's end if it is undecided whether the leader's broker was down when
    copied, or had them before; also if the broker of a `-delete` directory left it only recently."""
    facts = item.follower
    leader = case.reference.facts
    start = item.ahead[0].base_offset
    end = item.ahead[-1].end_offset
    text = (
        f"{name_copy(facts)} has {name_offsets(start, end)}, past the end of broker {leader.broker_id} at {leader.log_end_offset}; "
        f"{fate_of_copy(facts)}"
    )
    is_state_open = is_undecided and (case.is_copied_from_reference(item) or case.tail.may_be_lost(item))
    unsure = leader.broker_id if is_state_open else None
    return skew(case, facts, text, start, end, is_undecided=is_undecided, unsure=unsure)


def _ahead(case: Case, item: Comparison) -> Iterator[Finding]:
    """REP-LEADER-SHORTER or CAP-SKEW for records past the reference's end, by the first line that fits:

    | the records | finding |
    |---|---|
    | are of a later leader epoch, and the copies of several moments | CAP-SKEW |
    | were lost by the leader (`LeaderTail.is_lost`) | REP-LEADER-SHORTER |
    | are on copies of one moment | none: another broker leads, or may |
    | may have been lost by it (`LeaderTail.may_be_lost`) | CAP-SKEW, undecided |
    | are any other | CAP-SKEW; undecided if the leader `may_have_lost_tail` or `may_lack_others`, and nothing else says that it did |
    """
    ahead = item.ahead
    reference = case.reference
    if not ahead:
        return
    start = ahead[0].base_offset
    end = ahead[-1].end_offset
    leader = reference.facts
    follower = item.follower
    text = f"broker {follower.broker_id} has {name_offsets(start, end)}, past the end of broker {leader.broker_id} at {leader.log_end_offset}"
    newest = max((batch.epoch for batch in ahead if batch.epoch is not None), default=-1)
    # No epoch is known to be later than the unknown one of an empty log.
    unknown = reference.leader_epoch is None and leader.empty
    if not unknown and newest > or_absent(reference.leader_epoch):
        text += f", of leader epoch {newest}, which is later than that of broker {leader.broker_id}"
        if not case.tail.one_moment:
            is_undecided = reference.is_before(newest)
            text += ": the leadership given is older than the logs"
            if is_undecided:
                text += ", or the leader was elected without these records"
            yield skew(case, follower, text, start, end, is_undecided=is_undecided)
            return
    when = case.options.times.describe((follower, leader))
    if case.tail.is_lost(item):
        why, evidence = _why_lost(case, item, when)
        undecided = (
            item.undecided.why if item.undecided is not None and item.is_undecided else _why_left(case, item, newest)
        )
        if undecided is not None:
            why += f"; {undecided}, so they may have been committed, and may not"
        yield finding(
            REP_LEADER_SHORTER,
            f"{text}; {why}",
            verdict="COMMITTED_LOSS" if undecided is None else "WILL_LOSE_ON_TRUNCATION",
            confidence="likely" if undecided is None else "suspect",
            broker_id=follower.broker_id,
            offsets=(start, end),
            evidence=evidence,
        )
    elif case.tail.one_moment:
        return
    elif case.tail.may_be_lost(item):
        yield skew(case, follower, text, start, end, when, is_undecided=True, unsure=leader.broker_id)
    else:
        if leader.blank:
            text += ", which has neither a record nor a leader epoch"
        if case.later_epoch is not None:
            text += f", and another copy knows leader epoch {case.later_epoch}, which is later than that of broker {leader.broker_id}"
        doubtful = is_tail_lost(reference, case.replicas, leader)
        is_older = reference.may_lack_others or case.later_epoch is not None
        is_undecided = not doubtful and (leader.may_have_lost_tail or is_older)
        yield skew(case, follower, text, start, end, when, doubtful=doubtful, is_undecided=is_undecided)


def _why_left(case: Case, item: Comparison, newest: int) -> str | None:
    """Clause on why an election may have left behind what a follower has past the end of the reference, `newest` being its latest epoch,
    or -1 without any; None if nothing shows it, its high watermark is in them, or the history has no other leader."""
    leader = case.reference.facts
    here = f"broker {leader.broker_id}"
    if item.follower.marked_end > leader.log_end_offset:
        return None
    if newest < 0:
        history = case.reference.history
        is_sole = history and {one.leader_id for one in history} <= {None, leader.broker_id}
        return None if is_sole else "without an epoch they may be of another leader, and left behind by an election"
    is_noted = notes_elections(case.options.protocol) or case.tail.is_epoch_said
    return None if is_noted else f"before 2.0.1 the epoch of {here} is in its files from its first record on only"


def _why_lost(case: Case, item: Comparison, when: str | None) -> tuple[str, list[Evidence]]:
    """Clause on why the reference lost what a follower has past its end, and its evidence; `when` describes the times of both copies."""
    leader = case.reference.facts
    here = f"broker {leader.broker_id}"
    if case.tail.one_moment:
        why = "all copies were made while the cluster was at rest, so the reference lost its tail or is not the leader"
        return why, [_AT_REST]
    if case.tail.is_whole_though_down(item):
        by = ""
        if case.leadership is not None and leader.broker_id in case.leadership.down_when_copied:
            by = ", by its own copy of the metadata log, if broker.session.timeout.ms is 9000 or more"
        why = f"{here} was down when it was copied, and nobody has led since, so it lost its tail"
        return why, [considered(f"capture skew: no, {here} was down{by}, so its copy has all that it left")]
    led = f"they are of epoch {case.reference.leader_epoch}, in which {here} leads and wrote them itself"
    image = why_perhaps_image(case, leader, leader.log_end_offset)
    return f"{led}, and its copy is the later one, so it lost its tail{'' if image is None else f'; {image}'}", [
        Evidence("leadership", text=f"manifest.json: {when}"),
        considered("capture skew: no, a later copy has at least as much"),
    ]


def _short(case: Case, item: Comparison) -> Iterator[Finding]:
    """REP-ISR-SHORT, or CAP-SKEW, for an in-sync replica without a conflict that ends below what is proven committed."""
    follower = item.follower
    lower = case.high_watermark.proven_lower
    suffix = case.high_watermark.lowest_suffix
    if not case.in_isr(follower.broker_id) or item.stretches or follower.found_end_offset >= lower:
        return
    if suffix is not None and suffix[0] == follower.broker_id:
        return
    if follower.may_reach(lower):
        return  # CAP-ABOVE-HW reports it
    start = follower.found_end_offset
    end = lower
    text = (
        f"broker {follower.broker_id} is in sync but ends at {start}, though everything below {end} is proven committed"
    )
    proof = Evidence("checkpoint", text=case.high_watermark.proof)
    checkpoint = follower.directory.high_watermark_checkpoint
    if case.tail.one_moment:
        yield finding(
            REP_ISR_SHORT,
            f"{text}: if it leads next, committed records are gone",
            severity="high",
            confidence="likely",
            evidence=[proof, _AT_REST],
            broker_id=follower.broker_id,
            offsets=(start, end),
        )
    elif not follower.has_epochs and checkpoint == start and not follower.empty:
        yield finding(
            REP_ISR_SHORT,
            f"{text}; it ends exactly at its own high watermark, as a follower does that was cut there before 0.11",
            severity="medium",
            verdict="INCONCLUSIVE",
            confidence="suspect",
            evidence=[proof, considered("capture skew: possible, a manifest with quiesced: true would decide")],
            broker_id=follower.broker_id,
            offsets=(start, end),
        )
    elif not is_tail_lost(case.reference, case.replicas, follower):  # HWM-CP-ABOVE-LEO is more specific
        yield skew(case, follower, text, start, end)


def _short_stand_in(case: Case) -> Iterator[Finding]:
    """REP-ISR-SHORT for the reference itself, if it stands in for a leader whose log was not captured."""
    reference = case.reference
    mark = case.high_watermark
    facts = reference.facts
    end = reference.facts.log_end_offset
    if reference.leader_id in (None, facts.broker_id) or not (case.tail.one_moment and case.in_isr(facts.broker_id)):
        return
    if mark.reached > end and not is_tail_lost(case.reference, case.replicas, facts):
        yield finding(
            REP_ISR_SHORT,
            f"broker {facts.broker_id} is in sync but ends at {end}, and the high watermark had reached {mark.reached}: if "
            "it leads next, committed records are gone",
            severity="high",
            confidence="likely",
            broker_id=facts.broker_id,
            offsets=(end, mark.reached),
            evidence=[Evidence("checkpoint", text=mark.proof), _AT_REST],
        )


def _lag(case: Case, item: Comparison) -> Iterator[Finding]:
    follower = item.follower
    leader = case.reference.facts
    assigned = case.leadership.replicas if case.leadership else None
    behind = leader.log_end_offset - follower.log_end_offset
    if behind <= 0 or item.diverging_suffix is not None:
        return
    if follower.may_reach(leader.log_end_offset):
        return
    if assigned is not None and follower.broker_id not in assigned:
        return
    text = f"broker {follower.broker_id} is {count(behind, 'offset')} and {count(item.lag.size_bytes, 'byte')} behind broker {leader.broker_id}"
    if leader.log_start_offset > follower.log_end_offset:
        gone = name_offsets(follower.log_end_offset, leader.log_start_offset)
        text += f", which begins at {leader.log_start_offset}, so that broker {follower.broker_id} never gets {gone}"
        if case.undecided_below is not None:
            text += ", unless they are in remote storage, which is not known"
    yield finding(
        REP_LAG,
        text,
        broker_id=follower.broker_id,
        offsets=(follower.log_end_offset, leader.log_end_offset),
    )


def _replication(case: Case) -> Iterator[Finding]:
    isr = case.reference.isr
    leadership = case.leadership
    if isr is None or leadership is None or case.stopped:
        return
    assigned = leadership.replicas
    # As the leader counts them (`OngoingReassignmentState.replicationFactor`).
    adding = leadership.history[-1].adding if leadership.history else ()
    if assigned is not None and len(isr) < len(assigned) - len(adding):
        members = f": {name_brokers(sorted(isr))}" if isr else ""
        are = "are" if len(isr) > 1 else "is"
        yield finding(
            REP_UNDER_REPLICATED,
            f"{len(isr) or 'none'} of {count(len(assigned), 'assigned replica')} {are} in sync{members}",
            evidence=[Evidence("leadership", text=name_source(leadership.source))],
        )

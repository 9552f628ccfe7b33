"""The best leader of a partition, and why: the replica that loses the fewest records that may have been acknowledged (H.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replica_audit.auditing.answer_rows import report_rows
from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.record_comparison import RecordSource
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.finding import UnseenTail, find_kept_keys, find_unseen_tails, open_tails
from replica_audit.auditing.findings.hwm_marks import may_lack_committed_everywhere
from replica_audit.auditing.findings.meta import may_have_lost_unseen
from replica_audit.auditing.leadership.high_watermark_bounds import why_down
from replica_audit.auditing.replicas.lost_tails import is_tail_lost
from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
from replica_audit.elect.cost_words import is_damage, perhaps_damaged, rank_loss, say_damage, say_loss, say_unseen_tails
from replica_audit.elect.costs import CandidateCost, candidate_costs
from replica_audit.literals import CALM, STANDINGS, Standing
from replica_audit.model import UNCLEAN, TopicPartition
from replica_audit.schema import BesideRow, ElectionRow, RemoteShareRow, ReportRows
from replica_audit.text import name_brokers

#: Standings of clean elections.
CLEAN = ("leader", "isr", "elr")


class Choice(NamedTuple):
    """The best candidate of a partition, the worst if it loses more, and the reason."""

    best: CandidateCost
    worst: CandidateCost | None
    reason: str
    """One sentence."""

    def rank(self, cost: CandidateCost) -> Literal["best", "worst"] | None:
        """Best or worst; None for a candidate in between."""
        if cost is self.best:
            return "best"
        return "worst" if cost is self.worst else None


def standing(case: Case, broker_id: int) -> Standing:
    """The right by which a replica would lead, one of `STANDINGS`. Eligible replicas count if nobody is in sync (KIP-966)."""
    leadership = case.leadership
    if leadership is not None and leadership.replicas is not None and broker_id not in leadership.replicas:
        return "unassigned"
    if case.reference.leader_id == broker_id and case.reference.source != "inferred":
        return "leader"
    if leadership is None or leadership.isr is None or case.reference.outdated:
        return "unknown"
    if broker_id in leadership.isr:
        return "isr"
    if not leadership.isr and broker_id in leadership.elr:
        return "elr"
    if not leadership.isr and not leadership.elr and leadership.last_known_elr == (broker_id,):
        return "last_known"
    return "out_of_sync"


def is_leader_gone(case: Case) -> bool:
    """True if the registered leader is known to have gone down without a clean stop."""
    reference = case.reference
    leadership = case.leadership
    if reference.leader_id != reference.facts.broker_id or reference.facts.directory.clean_shutdown:
        return False
    fenced = () if leadership is None else leadership.fenced or ()
    return reference.facts.killed or reference.leader_id in fenced


def _is_leader_down(case: Case, up: Collection[int] | None) -> bool:
    """True if the registered leader is known to be down, cleanly stopped or not; `up`: brokers said to run."""
    leader = case.reference.leader_id
    if up is not None:
        return leader is not None and leader not in up
    facts = case.reference.facts
    is_stopped = leader == facts.broker_id and facts.directory.clean_shutdown and not facts.is_live
    return is_stopped or is_leader_gone(case)


def may_leader_be_gone(case: Case) -> bool:
    """True if the registered leader is known to have gone down, or nothing shows that it ran when it was copied."""
    perhaps = () if case.leadership is None else case.leadership.perhaps_down
    return case.reference.leader_id in perhaps or is_leader_gone(case)


def _may_have_lost_its_end(case: Case, facts: ReplicaFacts, up: Collection[int] | None) -> bool:
    """True if the replica or the reference may have lost unflushed records, and no other log bounds what was
    acknowledged, so that nothing shows what is in no copy (H.2)."""

    def is_unsure(one: ReplicaFacts) -> bool:
        is_said = up is not None and one.broker_id not in up and not (one.directory.clean_shutdown or one.is_live)
        is_down = is_said or why_down(one, case.leadership) is not None
        return is_down or is_tail_lost(case.reference, case.replicas, one)

    if not (is_unsure(facts) or is_unsure(case.reference.facts)):
        return False
    mark = case.high_watermark
    whole = {one.broker_id for one in case.replicas if not is_unsure(one)}
    return mark.hw_upper is None or (bool(mark.bounding_brokers) and whole.isdisjoint(mark.bounding_brokers))


def choose(
    case: Case,
    costs: Sequence[CandidateCost],
    damaged: Mapping[int, Sequence[str]],
    perhaps: Container[int | None],
    unseen: Sequence[UnseenTail],
    up: Collection[int] | None = None,
) -> Choice | None:
    """The choice among the assigned replicas; None if there are none. `damaged`: codes of damage in each broker's
    files, `perhaps`: the uncertain ones; `unseen`: ends that logs lost, or got only after they were copied; `up`:
    brokers said to run.

    The best loses the fewest records that may have been acknowledged with acks=all, then the fewest proven committed,
    and cuts the fewest transactions. Of equals, none is elected uncleanly in place of a leader that may have more than
    its copy (it may run, or ran when it was copied); then come those that lack nothing which another replica keeps
    unseen. If the present leader is left, it stays: numbers do not decide which of two histories is right, and neither
    records that were never committed nor damaged files, before its next start, are worth an election. Then come the
    fewest such unseen records, the fewest lost at all, no damaged file, a clean election, the later epoch, the longer
    log, the earlier log start, and the place in the assignment: the epoch always goes before the length.
    """
    standings = {cost.broker_id: standing(case, cost.broker_id) for cost in costs}
    electable = [cost for cost in costs if standings[cost.broker_id] != "unassigned"]
    if not electable:
        return None
    order = (case.leadership.replicas if case.leadership else None) or ()
    is_down = _is_leader_down(case, up)
    led = next((cost.facts for cost in costs if standings[cost.broker_id] == "leader"), None)
    may_have_more = led is not None and not (is_down and led.is_at_rest)

    def rank(cost: CandidateCost, *, is_kept: bool = may_have_more) -> tuple:
        broker = cost.broker_id
        facts = cost.facts
        leads = standings[broker] == "leader" and not (damaged.get(broker) and is_down)
        return (
            *rank_loss(cost)[:3],
            is_kept and standings[broker] not in CLEAN,
            cost.hidden_records > 0,
            not leads,
            cost.hidden_records,
            cost.lost_records,
            bool(damaged.get(broker)),
            STANDINGS.index(standings[broker]),
            -facts.log_epoch,
            -facts.following_end_offset,
            facts.log_start_offset,
            _place(order, broker),
            broker,
        )

    ranked = sorted(electable, key=rank)
    best = ranked[0]
    last = max(ranked, key=rank_loss)
    is_assigned = case.leadership is not None and case.leadership.replicas is not None
    leads = standings[best.broker_id] == "leader"
    unseen = open_tails(unseen, (best.broker_id, best.facts.following_end_offset) if leads else None)
    is_seen = is_assigned and not case.needed_replicas and not unseen
    is_gone = may_have_lost_unseen(case) or may_lack_committed_everywhere(case)
    is_all_known = is_seen and not is_gone and not _may_have_lost_its_end(case, best.facts, up)
    said = partial(say_loss, is_all_known=is_all_known)
    worst = None if said(last) == said(best) else last
    reason = _reason(best, ranked[1:], standings, order, damaged, said)
    otherwise = min(electable, key=partial(rank, is_kept=False))
    if otherwise is not best:
        reason = f"{reason}. Broker {otherwise.broker_id} could only be elected uncleanly, in place of a leader that may have more than its copy"
    if unseen:
        reason = f"{reason}. More may be lost: {say_unseen_tails(unseen)}"
    if codes := damaged.get(best.broker_id):
        reason = f"{reason}. {say_damage(best.broker_id, codes, perhaps)}"
    if any(item.compaction is not None and item.compaction.keys.differing for item in case.comparisons):
        reason = f"{reason}. Keys with different latest values (DIV-KEY-STATE) are not counted: readers see those of the leader alone"
    if below := case.undecided_below:
        reason = (
            f"{reason}. Losses below offset {below.end_offset} are not counted: it is not known whether the log goes on there in "
            "remote storage"
        )
    return Choice(best, worst, reason)


def _reason(
    best: CandidateCost,
    others: Sequence[CandidateCost],
    standings: Mapping[int, Standing],
    order: Sequence[int],
    damaged: Container[int],
    said: Callable[[CandidateCost], str],
) -> str:
    """The reason for the choice, in one or two sentences; `order` is the assignment, and `said` words a loss."""
    name = f"broker {best.broker_id}"
    if not others:
        empty = ". It is empty: if records were written, they were on another disk, and no choice brings them back"
        return f"{name} has the only log that is known{'' if best.facts.following_end_offset else empty}"
    equals = [cost for cost in others if said(cost) == said(best)]
    rest = [cost for cost in others if said(cost) != said(best)]
    reason = f"{name} loses {said(best)}"
    if equals:
        same = name_brokers(sorted(cost.broker_id for cost in equals))
        loses = best.lost_records or best.cut_transactions
        too = f"so would {same}" if loses else f"neither would {same}"
        if best.hidden_records:
            too = f"the same is true of {same}"
        reason = f"{reason}; {too}. Broker {best.broker_id} {_advantage(best, equals, standings, order, damaged)}"
    if rest:
        least = min(rest, key=rank_loss)
        next_best = ", the next best," if len(rest) > 1 and not equals else ""
        reason = f"{reason}; broker {least.broker_id}{next_best} would lose {said(least)}"
    return reason


#: Predicate for the candidate with the better right to lead.
_RIGHTS: Mapping[Standing, str] = {"isr": "is in sync", "elr": "is eligible", "last_known": "led last"}


def _advantage(
    best: CandidateCost,
    equals: Sequence[CandidateCost],
    standings: Mapping[int, Standing],
    order: Sequence[int],
    damaged: Container[int],
) -> str:
    """The first advantage that `best` has over all candidates with equal loss; words for all if there is none."""
    own = standings[best.broker_id]
    if own == "leader":
        return "is the registered leader"
    advantages: list[tuple[str, Callable[[CandidateCost], tuple[int, ...]]]] = [
        ("has no damaged file", lambda one: (one.broker_id in damaged,)),
        (_RIGHTS.get(own, ""), lambda one: (STANDINGS.index(standings[one.broker_id]),)),
        ("has the later leader epoch", lambda one: (-one.facts.log_epoch,)),
        ("has the longer log of that epoch", lambda one: (-one.facts.log_epoch, -one.facts.following_end_offset)),
        ("has the earlier log start", lambda one: (one.facts.log_start_offset,)),
        ("comes first in the assignment", lambda one: (_place(order, one.broker_id),)),
        ("has the lowest id", lambda one: (one.broker_id,)),
    ]
    over_all = (words for words, value in advantages if all(value(one) > value(best) for one in equals))
    return next(over_all, "comes before each of these by damage, right, epoch, log or place")


def _place(order: Sequence[int], broker_id: int) -> int:
    """Place of a broker in the assignment; last if it has none."""
    return order.index(broker_id) if broker_id in order else len(order)


def decided_rows(
    audit: PartitionAudit,
    batches: Mapping[CopyKey, NDArray[np.void]],
    asked: Collection[TopicPartition] = (),
    up: Collection[int] | None = None,
    read: RecordSource | None = None,
) -> ReportRows:
    """`report_rows`, with `elections` filled if there is a decision to make. There is one if the partition

    - is `asked` for,
    - is neither consistent nor lagging, or lost records,
    - has a leader that depends on the order of starting, or that is none of the brokers in `up`, or
    - has a follower that keeps deleted keys.

    A deleted topic needs no decision.
    """
    rows = report_rows(audit)
    case, leadership = audit.case, audit.evidence.leadership
    if leadership is not None and leadership.is_deleted:
        return rows
    has_lost = any(row.lost_records for row in rows.partitions)
    is_led = case is None or not (is_led_by_whoever_starts(case) or (up is not None and _is_leader_down(case, up)))
    keeps = any(find_kept_keys(row) for row in rows.findings)
    if audit.verdict not in CALM or has_lost or not is_led or keeps or audit.evidence.topic_partition in asked:
        rows.elections.extend(election_rows(audit, batches, read, up))
    return rows


def is_led_by_whoever_starts(case: Case) -> bool:
    """True if the order of the next starts decides who leads, or nobody may lead: there is no leader, or it crashed, or may have,
    while others were behind it.

    If every broker was stopped cleanly and just one of them may lead, there is nothing to decide.
    """
    end = case.reference.facts.log_end_offset
    differ = any(item.follower.log_end_offset != end for item in case.comparisons)
    if case.reference.leader_id is not None:
        return differ and may_leader_be_gone(case)
    entitled = case.reference.isr or case.reference.elr
    return not case.stopped or (differ and (len(entitled) != 1 or case.config(UNCLEAN) == "true"))


def election_rows(
    audit: PartitionAudit,
    batches: Mapping[CopyKey, NDArray[np.void]],
    read: RecordSource | None = None,
    up: Collection[int] | None = None,
) -> list[ElectionRow]:
    """A row for each candidate and each replica, including the candidate, whose own values are in all of its rows."""
    case = audit.case
    if case is None:
        return []
    costs = candidate_costs(audit, batches, read)
    damaged = damage_by_broker(audit)
    choice = choose(case, costs, damaged, perhaps_damaged(audit.findings), find_unseen_tails(audit.findings), up)
    rows = []
    for cost in costs:
        name = standing(case, cost.broker_id)
        rank = None if choice is None else choice.rank(cost)
        rows += [
            ElectionRow(
                topic=audit.evidence.topic_partition.topic,
                partition=audit.evidence.topic_partition.partition,
                candidate_id=cost.broker_id,
                broker_id=one.broker_id,
                kept_to=one.kept_to,
                dropped_records=one.dropped.record_count,
                dropped_bytes=one.dropped.size_bytes,
                committed_dropped=one.committed_dropped,
                first_timestamp_ms=one.dropped.first_timestamp_ms,
                last_timestamp_ms=one.dropped.last_timestamp_ms,
                lost_held=one.lost_held,
                lost_from=one.lost_from,
                lacked_records=one.lacked_records,
                lost_records=cost.lost_records,
                lost_committed=cost.lost_committed,
                lost_possible=cost.lost_possible,
                is_only_likely=cost.is_only_likely,
                lost_at_most=cost.lost_at_most,
                cut_transactions=cost.cut_transactions,
                only_here=cost.only_here,
                hidden_records=cost.hidden_records,
                remote_records=cost.remote.records,
                remote_unread=cost.remote.unread,
                remote_encrypted=cost.remote.encrypted,
                remote_deleted=cost.remote.deleted,
                remote_basis=[RemoteShareRow(*one) for one in cost.remote.basis],
                damage=damaged.get(cost.broker_id, []),
                beside=[
                    BesideRow(
                        broker_id=copy.facts.broker_id,
                        log_dir=_directory(copy.facts),
                        start_offset=copy.span.start_offset,
                        end_offset=copy.span.end_offset,
                        lost_held=copy.lost_held,
                    )
                    for copy in cost.beside
                ],
                standing=name,
                clean=None if name == "unknown" else name in CLEAN,
                choice=rank,
                reason=choice.reason if choice is not None and rank == "best" else None,
            )
            for one in cost.followers
        ]
    return rows


def _directory(facts: ReplicaFacts) -> str:
    """The directory of a copy that neither leads nor follows. On a second disk the partition's directory has the same name as
    the replica's, so its log dir is given."""
    return facts.directory.path if facts.kind in ("current", "earlier") else facts.directory.log_dir


def damage_by_broker(audit: PartitionAudit) -> dict[int, list[str]]:
    """Codes of damage in each broker's files, of medium severity or worse."""
    found: dict[int, set[str]] = defaultdict(set)
    for item in audit.findings:
        if is_damage(item) and item.broker_id is not None:
            found[item.broker_id].add(item.code)
    return {broker: sorted(codes) for broker, codes in found.items()}

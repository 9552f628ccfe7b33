"""The decision for each partition: the candidate that loses the least, or the one asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from replica_audit.auditing.finding import UnseenTail
from replica_audit.elect.cluster_state import PresentState
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.cost_words import say_damage, say_unseen_tails
from replica_audit.elect.hit_groups import groups_hit
from replica_audit.elect.plan_model import Candidate, Conflict, Decision, SalvageSource
from replica_audit.elect.step_list import list_places, on_brokers
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.results import by_place, place_of
from replica_audit.schema import GroupOffsetRow
from replica_audit.text import count, name_brokers, verb

_DELETED = "the topic was deleted: nobody is elected, and brokers remove what is left of it"
_UNREAD = "no log of it here can be read, or all have another topic id, so the cost of an election is not known"

#: Parts of logs that were not captured, by trait; no choice may rest on these.
_NOT_CAPTURED = {
    "unseen_tail": "what {brokers} may have above the high watermark",
    "unseen_head": "what {brokers} may have below the first offset that was read",
}


def _say_unseen(brokers: Mapping[str, Sequence[int]], tails: Sequence[UnseenTail]) -> str:
    what = " and ".join(
        text.format(brokers=name_brokers(brokers[trait])) for trait, text in _NOT_CAPTURED.items() if trait in brokers
    )
    why = [f"{what} was not captured"] if what else []
    if "unchecked" in brokers:
        why.append(f"the checksums of batches of {name_brokers(sorted(set(brokers['unchecked'])))} were not computed")
    why += [say_unseen_tails(tails)] if tails else []
    again = "collect them again without --headers, or " if not what and "unchecked" in brokers else ""
    return (
        f"{', and '.join(why)}, so the cost of an election is not known: {again}copy the log directories of all replicas "
        "(capture-plan), and run elect on the copies"
    )


_MOVED = "it moved while it was collected, which may explain what looks wrong: collect it again, and run elect on that"
_MOVES_BESIDE = (
    "its brokers have a partition that moved while it was collected: collect that again first, and run elect on that"
)


def held_back(
    matrix: Matrix, decisions: Iterable[Decision], tails: Mapping[TopicPartition, Sequence[UnseenTail]]
) -> dict[TopicPartition, str]:
    """Partitions that wait for others on their brokers, with the reason: no broker is stopped or started until partitions that moved are
    collected again, and copies show who has the open `tails`. A follower started to serve another partition is cut to a leader that lost
    them."""
    if not (matrix.moved or tails):
        return {}  # Nothing waits, and replicas are packed rows: no further pass over them.
    moving = {broker for place in matrix.moved for broker in matrix.replicas[place]}
    open_on = on_brokers({place: matrix.replicas[place] for place in tails})

    @cache
    def why(brokers: frozenset[int]) -> str | None:
        if not moving.isdisjoint(brokers):
            return _MOVES_BESIDE
        if not (beside := open_on(brokers)):
            return None
        it = verb(len(beside), "it", "them")
        return (
            f"its brokers also have {list_places(beside)}, and starting or stopping one may cut the last log that has the end of {it}: "
            "copy the brokers again first (capture-plan), and run elect on that"
        )

    found = ((one, why(frozenset(matrix.replicas[place_of(one)]))) for one in decisions if one.procedure != "none")
    return {place_of(one): reason for one, reason in found if reason is not None}


def _say_awaited(wanted: Mapping[int, int]) -> str:
    """Clause on bytes to bring; `wanted` has their number for each broker."""
    return (
        f"the cost of an election depends on {count(sum(wanted.values()), 'byte')} of {name_brokers(sorted(wanted))} that were not "
        "collected: bring them, and run elect again"
    )


#: Cost of each choice for a partition, and the sources of what the best one loses.
_Costs = tuple[tuple[Candidate, ...], tuple[SalvageSource, ...]]


def decide(
    matrix: Matrix,
    state: PresentState,
    asked: Collection[TopicPartition],
    candidate_id: int | None,
    groups: Sequence[GroupOffsetRow] | None,
) -> tuple[list[Decision], list[Conflict]]:
    """Decisions for the partitions `asked` for (by default all with costs), and the partitions that cannot be decided.

    `candidate_id` replaces the best candidate of every partition that has such a replica. Raises UsageError if a requested
    partition has none, or no partition has.
    """
    if candidate_id is not None:
        _check_candidate(matrix, asked, candidate_id)
    found = []
    conflicts = []
    if not asked:
        reason = "this audit has not computed the cost of each choice; elect does"
        conflicts += [
            Conflict(*place, _DELETED if place in state.deleted else reason)
            for place, row in matrix.partitions.items()
            if row.lost_records and place not in matrix.rows
        ]
    of_place = by_place(groups or ())
    # Equal costs are one object: many partitions share theirs.
    shared: Callable[[_Costs], _Costs] = cache(lambda costs: costs)
    for place in sorted(asked or {*matrix.rows, *matrix.moved}):
        chosen = matrix.choice(place, candidate_id)
        why_not = _why_undecided(matrix, state, place, candidate_id)
        if chosen is None or why_not is not None:
            conflicts.append(Conflict(*place, why_not or "no replica in the snapshot is assigned to it"))
            continue
        of_groups = None if groups is None else of_place.get(place, ())
        decision = _decision(matrix, state, place, chosen, chosen == candidate_id, of_groups, shared)
        found.append(decision if decision.asked else _undisturbed(matrix, decision, state))
    return _concentrated(matrix, found, state), conflicts


def _check_candidate(matrix: Matrix, asked: Collection[TopicPartition], candidate_id: int) -> None:
    places = sorted(asked or matrix.rows)
    lacking = [place for place in asked if place in matrix.rows and candidate_id not in matrix.rows[place]]
    if lacking or (places and not any(candidate_id in matrix.rows.get(place, ()) for place in places)):
        place = (lacking or places)[0]
        held = matrix.rows.get(place)
        known = f"; {name_brokers(sorted(held))} {verb(len(held), 'has', 'have')} one" if held else ""
        raise UsageError(
            f"--candidate {candidate_id}: broker {candidate_id} has no replica of {place} in the snapshot{known}"
        )


def _why_undecided(matrix: Matrix, state: PresentState, place: TopicPartition, candidate_id: int | None) -> str | None:
    """Clause on what has to be done before a leader is chosen for a partition; None if one is. The first line that holds decides.

    | condition | clause |
    |---|---|
    | a log dir that counts as an assigned broker's is another's | put it back |
    | it moved while it was collected | collect it again |
    | it has no costs, and its topic was deleted | nobody is elected |
    | it has no costs | no log can be read |
    | a log may have had an end that leaves open what the choice loses | copy all replicas |
    | checksums alone are missing, nobody was asked for, and the leader is best, stays and loses nothing | go on below |
    | parts or checksums of a log are missing | copy all replicas |
    | evidence lacks bytes, and no replica is missing | bring them |
    """
    if disowned := state.disowned_of(place, matrix.replicas[place]):
        return (
            f"a log directory that counts here as one of {name_brokers(sorted(disowned))} is another broker's by its directory.id: put each back "
            "to its own broker before any of them is started, copy again and audit again (META-DIR-OWNER)"
        )
    if place in matrix.moved:
        return _MOVED
    if place not in matrix.rows:
        return _DELETED if place in state.deleted else _UNREAD
    unseen, tails = matrix.unseen.get(place, {}), matrix.open_tails(place, candidate_id)
    stays = candidate_id is None and unseen.keys() == {"unchecked"} and _stays_without_loss(matrix, state, place)
    if tails or (unseen and not stays):
        return _say_unseen(unseen, tails)
    if place in matrix.awaited and place not in matrix.needed:
        return _say_awaited(matrix.wanted[place])
    return None


def _stays_without_loss(matrix: Matrix, state: PresentState, place: TopicPartition) -> bool:
    """True if the best choice is the leader, is not known to be down, and loses nothing."""
    best = matrix.row(place, matrix.best(place))
    if best is None or best.lost_records or best.cut_transactions or best.hidden_records:
        return False
    return state.registered_leader(place) == best.candidate_id and best.candidate_id not in state.down


def _concentrated(matrix: Matrix, decisions: Sequence[Decision], state: PresentState) -> list[Decision]:
    """Prefer, among equals, the candidate that leads most partitions: the fewer leaders, the fewer are stopped for others.

    Present leaders stay, and one that leads by right is not replaced by an unclean election: it leads as soon as it is up, so the other
    would have to be elected before it, even a transaction coordinator (H22). Partitions of unknown assignment have no plan, and stop
    nobody.
    """
    leading: Counter[int] = Counter()
    free = []
    for decision in decisions:
        if place_of(decision) not in state.partitions:
            continue
        stays = state.may_lead(place_of(decision), decision.candidate_id)
        if decision.asked or stays or not decision.equals:
            leading[decision.candidate_id] += 1
        else:
            free.append(decision)
    instead = {}
    for decision in free:
        clean = {one.candidate_id for one in decision.candidates if one.clean}
        own = decision.candidate_id
        equals = (one for one in decision.equals if own not in clean or one in clean)
        choice = max((own, *equals), key=lambda one: leading[one])
        leading[choice] += 1
        if choice != decision.candidate_id:
            why = f"broker {choice} leads other partitions of this plan too"
            instead[id(decision)] = matrix.instead(decision, choice, why)
    return [instead.get(id(decision), decision) for decision in decisions]


def _undisturbed(matrix: Matrix, decision: Decision, state: PresentState) -> Decision:
    """Prefer the broker that the controller elects in place of a leader that is down, unless it loses more acknowledged records: to stop
    it for another would gain nothing."""
    place = place_of(decision)
    leader = state.elected_by_itself(place)
    best = decision.chosen
    own = next((one for one in decision.candidates if one.candidate_id == leader), None)
    if own is None or own is best or own.loss[:3] > best.loss[:3] or own.hidden_records > best.hidden_records:
        return decision
    why = f"the controller elects broker {leader}, since the registered leader, broker {decision.present_leader_id}, is down"
    if own.damage:
        why = f"{why}. {say_damage(own.candidate_id, own.damage, matrix.perhaps_damaged.get(place, ()))}"
    return matrix.instead(decision, own.candidate_id, why)


def _decision(
    matrix: Matrix,
    state: PresentState,
    place: TopicPartition,
    chosen: int,
    asked: bool,
    groups: Sequence[GroupOffsetRow] | None,
    shared: Callable[[_Costs], _Costs],
) -> Decision:
    rows = matrix.rows[place]
    registration = state.partitions.get(place)
    kafka = state.next_leader(place)
    leader = state.registered_leader(place)
    candidates = tuple(_candidate(matrix, place, one, leader, groups) for one in sorted(rows))
    candidates, salvage = shared((candidates, matrix.sources(place, chosen)))
    decision = Decision(
        topic=place[0],
        partition=place[1],
        candidate_id=chosen,
        reason=rows[chosen].reason or f"broker {chosen} was asked for",
        asked=asked,
        present_leader_id=leader,
        kafka_choice_id=None if kafka is None else kafka.broker_id,
        kafka_choice_right=None if kafka is None else kafka.right,
        procedure="none",
        candidates=candidates,
        salvage=salvage,
        depends_on=tuple(matrix.needed.get(place, ())),
        offline=() if registration is None else tuple(sorted(registration.offline)),
        keeps_deleted=matrix.keeping_deleted(place, chosen),
    )
    best = matrix.best(place)
    if rows[chosen].reason is not None or best is None:
        return decision
    loses = "the same" if best in decision.equals else "the least"
    of_best = f"broker {best} would lose {loses}"
    if matrix.open_tails(place, best):
        of_best = f"what broker {best} would lose is not known"
    return replace(decision, reason=f"{decision.reason}; {of_best}")


def _candidate(
    matrix: Matrix, place: TopicPartition, broker_id: int, leader: int | None, groups: Sequence[GroupOffsetRow] | None
) -> Candidate:
    row = matrix.rows[place][broker_id]
    hits = None if groups is None else groups_hit(matrix, place, broker_id, leader, groups)
    return Candidate(
        candidate_id=broker_id,
        standing=row.standing,
        clean=row.clean,
        log_end_offset=row.kept_to,
        lost_records=row.lost_records,
        lost_committed=row.lost_committed,
        lost_possible=row.lost_possible,
        is_only_likely=row.is_only_likely,
        lost_at_most=row.lost_at_most,
        cut_transactions=row.cut_transactions,
        hidden_records=row.hidden_records,
        remote_records=row.remote_records,
        remote_unread=row.remote_unread,
        remote_encrypted=row.remote_encrypted,
        remote_deleted=row.remote_deleted,
        remote_basis=tuple(row.remote_basis),
        damage=tuple(row.damage),
        groups_hit=None if hits is None else len(hits),
    )

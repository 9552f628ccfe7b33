"""The decision for each partition, from the rows of the cost matrix and the present state."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from replica_audit.elect.affected_groups import CommittedOffset, by_partition, find_hit
from replica_audit.elect.cluster_state import PresentState, Row
from replica_audit.elect.plan_model import (
    Candidate,
    Conflict,
    Decision,
    PlannedPartition,
    PlannedReplica,
    SalvageSource,
)
from replica_audit.errors import UsageError
from replica_audit.model import Place
from replica_audit.protocol.controller import next_leader
from replica_audit.protocol.lineage import Lineage
from replica_audit.results import Results

#: Copies that are compared: others are not of the partition as it is.
_COMPARED = ("leader", "reference", "compared")


class Matrix:
    """The rows of `elections` by partition and candidate, and those of the replicas beside them."""

    def __init__(self, results: Results) -> None:
        self.rows: dict[Place, dict[int, dict[int, Row]]] = defaultdict(lambda: defaultdict(dict))
        for row in results.rows("elections"):
            self.rows[row["topic"], row["partition"]][row["candidate_id"]][row["broker_id"]] = row
        self.replicas: dict[Place, dict[int, Row]] = defaultdict(dict)
        for row in results.rows("replicas"):
            if row["role"] in _COMPARED:
                self.replicas[row["topic"], row["partition"]][row["broker_id"]] = row
        self.lost = {(row["topic"], row["partition"]): row["lost_records"] for row in results.rows("partitions")}
        """Records that the reference lacks, by partition; None where nobody knows."""
        self.needed: dict[Place, list[int]] = defaultdict(list)
        """Brokers of which no log was captured and without which nothing is certain."""
        for row in results.tables.get("captures", ()):
            if row["needed"]:
                self.needed[row["topic"], row["partition"]].append(row["broker_id"])

    def places(self) -> list[Place]:
        return sorted(self.rows)

    def kept_to(self, place: Place, candidate_id: int, broker_id: int) -> int | None:
        """Where a replica's log is cut under a candidate; the candidate's own end for itself; None where not known."""
        row = self.rows.get(place, {}).get(candidate_id, {}).get(broker_id)
        return None if row is None else row["kept_to"]

    def best(self, place: Place) -> int | None:
        return next((one for one, rows in self.rows[place].items() if rows[one]["choice"] == "best"), None)

    def harmful(self, decision: Decision) -> frozenset[tuple[int, int]]:
        """Pairs (leader, follower) in which the follower is cut and loses what no log has then, though the choice keeps it."""
        least = decision.chosen.loss
        worse = {one.candidate_id for one in decision.candidates if one.loss > least}
        rows = self.rows[decision.topic, decision.partition]
        return frozenset(
            (leader, follower)
            for leader in worse
            for follower, row in rows[leader].items()
            if follower != leader and row["lost_held"]
        )

    def cuts_transactions(self, place: Place, candidate_id: int) -> bool:
        """Whether the marker of a transaction is in another log and not in the candidate's."""
        row = self.rows.get(place, {}).get(candidate_id, {}).get(candidate_id)
        return row is not None and bool(row["cut_transactions"])

    def sources(self, place: Place, candidate_id: int) -> tuple[SalvageSource, ...]:
        """Where what a candidate loses can be taken from: replicas, then copies beside them."""
        rows = self.rows[place][candidate_id]
        return (*_sources(rows, self.replicas[place]), *_beside(rows[candidate_id]))

    def reference(self, place: Place) -> int | None:
        """The broker whose log the others are compared with."""
        return next((one for one, row in self.replicas[place].items() if row["role"] in ("leader", "reference")), None)


def decide(
    matrix: Matrix,
    state: PresentState,
    asked: Collection[Place],
    candidate_id: int | None,
    groups: Sequence[CommittedOffset] | None,
) -> tuple[list[Decision], list[Conflict]]:
    """Decisions for the partitions `asked` for, all with costs where none is, and those for which there can be none.

    `candidate_id` is taken in place of the best wherever the partition has such a replica. Raises UsageError where one that
    was asked for does not, or none has.
    """
    found, conflicts = [], []
    places = sorted(asked) if asked else matrix.places()
    of_place = by_partition(groups or ())
    if candidate_id is not None:
        having = [place for place in places if candidate_id in matrix.rows.get(place, ())]
        lacking = [place for place in asked if place in matrix.rows and candidate_id not in matrix.rows[place]]
        if lacking or (places and not having):
            topic, partition = (lacking or places)[0]
            known = ", ".join(map(str, sorted(matrix.rows.get((topic, partition), ())))) or "none"
            raise UsageError(
                f"--candidate {candidate_id}: {topic}-{partition} has no such replica in the snapshot, but {known}"
            )
    if not asked:
        reason = "this audit has not worked out what each choice costs; elect does"
        conflicts += [
            Conflict(*place, reason) for place, lost in matrix.lost.items() if lost and place not in matrix.rows
        ]
    for place in places:
        if place not in matrix.rows:
            conflicts.append(Conflict(*place, "no log of it can be read, so that nothing tells what an election costs"))
            continue
        given = candidate_id is not None and candidate_id in matrix.rows[place]
        chosen = candidate_id if given else matrix.best(place)
        if chosen is None:
            conflicts.append(Conflict(*place, "no replica in the snapshot is assigned to it"))
            continue
        decision = _decision(matrix, state, place, chosen, given, None if groups is None else of_place.get(place, ()))
        found.append(decision if given else _undisturbed(matrix, decision, state))
    return _concentrated(matrix, found, state), conflicts


def _concentrated(matrix: Matrix, decisions: Sequence[Decision], state: PresentState) -> list[Decision]:
    """Of equal candidates the one that the most partitions can have: the fewer lead, the fewer have to be stopped for others.

    Who leads now stays.
    """
    leading: Counter[int] = Counter()
    free = []
    for decision in decisions:
        stays = state.may_lead((decision.topic, decision.partition), decision.candidate_id)
        if decision.asked or stays or not decision.equals:
            leading[decision.candidate_id] += 1
        else:
            free.append(decision)
    instead = {}
    for decision in free:
        choice = max((decision.candidate_id, *decision.equals), key=lambda one: leading[one])
        leading[choice] += 1
        if choice != decision.candidate_id:
            salvage = matrix.sources((decision.topic, decision.partition), choice)
            why = f"broker {choice} leads other partitions of this plan too"
            instead[id(decision)] = decision.instead(choice, salvage, why)
    return [instead.get(id(decision), decision) for decision in decisions]


def _undisturbed(matrix: Matrix, decision: Decision, state: PresentState) -> Decision:
    """Whoever is elected by itself in place of a leader that is down, where it loses no more of what may have been
    acknowledged: to stop it for another one would be for nothing.
    """
    place = (decision.topic, decision.partition)
    leader, best = state.elected_by_itself(place), decision.chosen
    own = next((one for one in decision.candidates if one.candidate_id == leader), None)
    if own is None or own is best or own.loss[:3] > best.loss[:3] or own.hidden_records > best.hidden_records:
        return decision
    why = f"broker {leader} is elected by itself, since the registered leader, broker {decision.present_leader_id}, is down"
    if own.damage:
        why = f"{why}. Its own files are damaged ({', '.join(own.damage)}): copy them before its next start"
    return decision.instead(own.candidate_id, matrix.sources(place, own.candidate_id), why)


def _decision(
    matrix: Matrix,
    state: PresentState,
    place: Place,
    chosen: int,
    asked: bool,
    groups: Sequence[CommittedOffset] | None,
) -> Decision:
    rows, registration = matrix.rows[place], state.partitions.get(place)
    alive = state.up | state.unknown
    kafka = None if registration is None else next_leader(registration, alive, unclean=registration.unclean)
    leader = None if registration is None else registration.leader_id
    own = rows[chosen][chosen]
    reason = own["reason"]
    if reason is None:
        best = matrix.best(place)
        reason = f"broker {chosen} was asked for" + ("" if best is None else f"; broker {best} would lose the least")
    return Decision(
        topic=place[0],
        partition=place[1],
        candidate_id=chosen,
        reason=reason,
        asked=asked,
        present_leader_id=leader,
        kafka_choice_id=None if kafka is None else kafka.broker_id,
        kafka_choice_right=None if kafka is None else kafka.right,
        procedure="none",
        candidates=tuple(_candidate(matrix, place, one, leader, groups) for one in sorted(rows) if one in rows[one]),
        salvage=matrix.sources(place, chosen),
        depends_on=tuple(matrix.needed[place]),
    )


def _candidate(
    matrix: Matrix, place: Place, broker_id: int, leader: int | None, groups: Sequence[CommittedOffset] | None
) -> Candidate:
    row = matrix.rows[place][broker_id][broker_id]
    hits = None if groups is None else groups_hit(matrix, place, broker_id, leader, groups)
    return Candidate(
        candidate_id=broker_id,
        standing=row["standing"],
        clean=row["clean"],
        log_end_offset=row["kept_to"],
        lost_records=row["lost_records"],
        lost_committed=row["lost_committed"],
        lost_possible=row["lost_possible"],
        lost_at_most=row["lost_at_most"],
        cut_transactions=row["cut_transactions"],
        hidden_records=row["hidden_records"] or 0,
        damage=tuple(row["damage"] or ()),
        groups_hit=None if hits is None else len(hits),
    )


def groups_hit(
    matrix: Matrix, place: Place, broker_id: int, leader: int | None, groups: Iterable[CommittedOffset]
) -> frozenset[str] | None:
    """Of the groups of a partition those that a candidate hits, read from `leader` until now; None without its log."""
    row, replica = matrix.rows[place][broker_id][broker_id], matrix.replicas[place].get(broker_id)
    if replica is None:
        return None
    read = matrix.kept_to(place, broker_id, broker_id if leader is None else leader)
    lineage = Lineage(tuple((epoch, start) for epoch, start in replica["epochs"]))
    return find_hit(groups, lineage, row["kept_to"], row["kept_to"] if read is None else read)


def _sources(rows: Mapping[int, Row], replicas: Mapping[int, Row]) -> list[SalvageSource]:
    """Brokers that together hold what is lost, those with the most first; the same records are taken from one only."""
    found: list[SalvageSource] = []
    seen, taken = set(), 0
    for row in sorted(rows.values(), key=lambda row: (-row["lost_held"], row["broker_id"])):
        replica = replicas.get(row["broker_id"])
        if not row["lost_held"] or taken >= row["lost_records"] or replica is None:
            continue
        start, end = max(row["kept_to"], replica["log_start_offset"]), replica["log_end_offset"]
        if (start, end, row["lost_held"]) not in seen:
            seen.add((start, end, row["lost_held"]))
            taken += row["lost_held"]
            found.append(SalvageSource(row["broker_id"], replica["log_dir"], start, end, row["lost_held"]))
    return found


def _beside(row: Row) -> list[SalvageSource]:
    """Copies that neither lead nor follow and hold some of what a candidate loses."""
    return [
        SalvageSource(
            one["broker_id"], one["log_dir"], one["start_offset"], one["end_offset"], one["lost_held"], one["log_dir"]
        )
        for one in row["beside"] or ()
    ]


def rests_on(results: Results, matrix: Matrix, places: Collection[Place]) -> list[PlannedPartition]:
    """What the plan of `places` stands on: who led, who was in sync, where every log began and ended."""
    found = []
    states = results.rows_of("partition_states")
    for row in results.rows("partitions"):
        place = (row["topic"], row["partition"])
        if place not in places:
            continue
        elr = tuple(states[place][-1]["elr"] or ()) if place in states else ()
        found.append(
            PlannedPartition(
                *place,
                topic_id=row["topic_id"],
                leader_id=row["leader_id"],
                leader_epoch=row["leader_epoch"],
                isr=None if row["isr"] is None else tuple(row["isr"]),
                elr=elr,
                replicas=tuple(
                    PlannedReplica(
                        broker,
                        replica["log_start_offset"],
                        replica["log_end_offset"],
                        tuple((epoch, start) for epoch, start in replica["epochs"]),
                    )
                    for broker, replica in sorted(matrix.replicas[place].items())
                ),
            )
        )
    return found

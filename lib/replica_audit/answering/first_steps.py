"""What has to be done first: which brokers hold what exists nowhere else, who can lead, whose advice is worst needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from replica_audit.answering.best_choices import best_rows
from replica_audit.answering.by_partition import Row, present, worst_first
from replica_audit.answering.conditions import place_of
from replica_audit.answering.losses import Held
from replica_audit.answering.outcome import Outcome
from replica_audit.auditing.findings.catalogue import CATALOGUE, SEVERITIES, at_or_above, codes_with
from replica_audit.deciding.present_state import find_up, newest_states
from replica_audit.model import Place
from replica_audit.results import Results


@dataclass(frozen=True, slots=True)
class Keeping:
    """Brokers whose log directory has to be kept: they hold, all the same, what they lose as soon as they follow."""

    brokers: tuple[int, ...]
    held: tuple[Held, ...]
    is_up: bool | None
    """None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Leaderless:
    """Partitions without a leader that the same brokers may lead."""

    candidates: tuple[int, ...]
    """In sync or eligible: they lead without losing anything committed."""
    down: tuple[int, ...]
    """Those of them that are not known to be up."""
    places: tuple[Place, ...]
    copied_first: bool
    """One that is down holds what it loses when it follows."""


@dataclass(frozen=True, slots=True)
class AbsentLeader:
    """A broker that was elected uncleanly and leads, and whose log is not in the snapshot: nothing tells what it lacks."""

    leader: int
    places: tuple[Place, ...]
    brokers: tuple[int, ...]
    """Those that hold records there."""


@dataclass(frozen=True, slots=True)
class Hanging:
    """A transaction that nobody will end."""

    row: Row
    """Its finding."""
    was_committed: bool
    """Its coordinator says so: what an abort hides has to be produced again."""


@dataclass(frozen=True, slots=True)
class Electable:
    """Partitions for which an audit of an earlier version has no cost matrix, and who could be elected."""

    brokers: tuple[int, ...]
    is_whole: bool
    """Each of them has all that is lost; else what only the others have goes."""
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """Everything that has to be done, most urgent first in each of the parts."""

    keeping: tuple[Keeping, ...]
    absent_leaders: tuple[AbsentLeader, ...]
    short_members: tuple[tuple[int, Row], ...]
    """Leader, and the finding of a member in sync that lacks committed records."""
    leaderless: tuple[Leaderless, ...]
    hanging: tuple[Hanging, ...]
    remedies: Mapping[str, Sequence[Row]]
    """By code the findings whose catalogued remedy is needed."""
    costed: Mapping[Place, Row]
    """Where records have to be saved: the best choice of a leader, by the cost matrix."""
    elections: tuple[Electable, ...]


def find_first_steps(results: Results, outcome: Outcome) -> FirstSteps:
    """What to do about `outcome`, that of `results`."""
    up = find_up(results)
    urgent = {
        broker: tuple(one for one in held if one.is_cut)
        for broker, held in outcome.holders.items()
        if any(one.is_cut for one in held)
    }
    places = list(dict.fromkeys(one.place for held in urgent.values() for one in held))
    best = best_rows(results.rows("elections"))
    return FirstSteps(
        keeping=tuple(_keeping(urgent, up)),
        absent_leaders=tuple(_absent_leaders(results)),
        short_members=tuple(_short_members(results)),
        leaderless=tuple(_leaderless(results, outcome, up, urgent)),
        hanging=tuple(map(_hanging, outcome.conditions.hanging)),
        remedies=dict(_remedies(outcome, bool(urgent))),
        costed={place: best[place] for place in places if place in best},
        elections=tuple(_elections([place for place in places if place not in best], outcome.holders)),
    )


def _keeping(urgent: Mapping[int, tuple[Held, ...]], up: Mapping[int, bool]) -> Iterator[Keeping]:
    """Brokers that hold the very same records and are in one state, together; every other broker for itself."""
    groups: dict[tuple, list[int]] = defaultdict(list)
    for broker, held in urgent.items():
        everything = tuple((one.place, one.records, one.committed) for one in held)
        groups[everything if all(one.is_all for one in held) else broker, up.get(broker)].append(broker)
    for (_, state), brokers in groups.items():
        yield Keeping(tuple(sorted(brokers)), urgent[brokers[0]], state)


def _absent_leaders(results: Results) -> Iterator[AbsentLeader]:
    held: dict[Place, set[int]] = defaultdict(set)
    here: dict[Place, set[int]] = defaultdict(set)
    for row in results.rows("replicas"):
        here[place_of(row)].add(row["broker_id"])
        if (row["record_count"] or 0) > 0:
            held[place_of(row)].add(row["broker_id"])
    leaders = {place_of(row): row["leader_id"] for row in results.rows("partitions")}
    elected = {
        place_of(row)
        for row in present(results.rows("findings"))
        if row["code"] == "META-UNCLEAN-ELECTION" and row["broker_id"] == leaders.get(place_of(row))
    }
    by_leader: dict[int, list[Place]] = defaultdict(list)
    for place in sorted(elected):
        if leaders[place] not in here[place] and held[place]:
            by_leader[leaders[place]].append(place)
    for leader, places in sorted(by_leader.items()):
        brokers = sorted({broker for place in places for broker in held[place]})
        yield AbsentLeader(leader, tuple(places), tuple(brokers))


def _short_members(results: Results) -> Iterator[tuple[int, Row]]:
    leaders = {place_of(row): row["reference_id"] for row in results.rows("partitions")}
    for row in worst_first(present(results.rows("findings"))):
        if row["code"] == "REP-ISR-SHORT":
            yield leaders[place_of(row)], row


def _leaderless(
    results: Results, outcome: Outcome, up: Mapping[int, bool], urgent: Mapping[int, object]
) -> Iterator[Leaderless]:
    if not outcome.conditions.leaderless:
        return
    newest = newest_states(results)
    by_candidates: dict[tuple[int, ...], list[Place]] = defaultdict(list)
    for row in outcome.conditions.leaderless:
        state = newest.get(place_of(row))
        entitled = {*(state["isr"] or ()), *(state["elr"] or ())} if state else set()
        by_candidates[tuple(sorted(entitled))].append(place_of(row))
    for candidates, places in by_candidates.items():
        down = tuple(broker for broker in candidates if up.get(broker) is not True)
        yield Leaderless(candidates, down, tuple(places), not urgent.keys().isdisjoint(down))


def _hanging(row: Row) -> Hanging:
    states = {item["value"] for item in row["evidence"] or () if item["kind"] == "transaction"}
    return Hanging(row, "CompleteCommit" in states)


def _remedies(outcome: Outcome, is_protected: bool) -> Iterator[tuple[str, Sequence[Row]]]:
    """The codes whose remedy is needed, worst first, each with the findings that it is about."""
    rows_of: dict[str, list[Row]] = defaultdict(list)
    for partition in outcome.partitions:
        for row in _to_mend(partition, outcome):
            rows_of[row["code"]].append(row)
    for row in outcome.findings.get((None, None), ()):
        rows_of[row["code"]].append(row)

    def urgency(item: tuple[str, list[Row]]) -> tuple[int, int]:
        return min(SEVERITIES.index(row["severity"]) for row in item[1]), -len(item[1])

    for code, rows in sorted(rows_of.items(), key=urgency):
        known = CATALOGUE.get(code)
        if known is None or code in codes_with("own_step") or (is_protected and code in codes_with("saved_first")):
            continue
        if not known.remedy.startswith("None") or any(at_or_above(row["severity"], "medium") for row in rows):
            yield code, rows


def _to_mend(partition: Row, outcome: Outcome) -> Sequence[Row]:
    """Findings of one partition whose remedy counts: of a calm audit all that are loud, else the worst of the worst partitions."""
    ranked = outcome.findings.get(place_of(partition), ())
    leaderless = any(row["code"] == "META-NO-LEADER" for row in ranked)
    loud = [
        row
        for row in ranked
        if at_or_above(row["severity"], "medium") and not (leaderless and row["code"] == "HWM-UNDER-MIN-ISR")
    ]
    is_worst = partition["verdict"] == outcome.worst
    chosen = loud if outcome.is_calm or is_worst else []
    if not chosen and outcome.worst == "LAGGING" and is_worst:
        return ranked[:1]
    return chosen if outcome.is_calm else chosen[:1]


def _elections(places: Sequence[Place], holders: Mapping[int, Sequence[Held]]) -> Iterator[Electable]:
    choices: dict[tuple, list[Place]] = defaultdict(list)
    for place in places:
        holding = {broker: one for broker, held in holders.items() for one in held if one.place == place}
        whole = [broker for broker, one in holding.items() if one.is_all]
        choices[tuple(sorted(whole or holding)), bool(whole)].append(place)
    for (brokers, is_whole), same in choices.items():
        yield Electable(brokers, is_whole, tuple(same))


def saved_by(code: str, replicas: Sequence[Row]) -> list[int]:
    """Brokers that have to be saved before anything is done about `code`; none where it asks for more than that."""
    holders = sorted({row["broker_id"] for row in replicas if row["lost_held"]})
    return holders if code in codes_with("saved_first") else []

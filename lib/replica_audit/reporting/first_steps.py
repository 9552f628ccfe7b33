"""What to do first, by broker and by its state: nothing that exists once only may be deleted by a helpful hand."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from replica_audit.answering.best_choices import best_rows
from replica_audit.answering.by_partition import Row, worst_first
from replica_audit.answering.conditions import Conditions
from replica_audit.answering.losses import Held, Place
from replica_audit.answering.stop_costs import Cost, stop_cost
from replica_audit.auditing.findings.catalogue import CATALOGUE, SEVERITIES, at_or_above, codes_with
from replica_audit.deciding.present_state import find_up, newest_states
from replica_audit.reporting.command_lines import render_command
from replica_audit.reporting.layout import clean, render_count
from replica_audit.reporting.sentences import (
    Sentence,
    Template,
    capitalise,
    join_some,
    join_words,
    name_brokers,
    name_partitions,
    plain_text,
    verb,
)
from replica_audit.reporting.what_to_do import tell_candidate, tell_choice
from replica_audit.results import Results

KEEP_DOWN = Template(
    "*Do not start {brokers} before its log directory is copied*: it holds {held} as soon as it follows."
)
KEEP_DOWN_EQUAL = Template(
    "*Do not start {brokers} before the log directory of one of them is copied*: each holds the same {held} as soon as "
    "they follow."
)
COPY_NOW = Template("*Stop {brokers} or copy its log directory now*: it holds {held} as soon as it follows. {cost}")
COPY_NOW_EQUAL = Template(
    "*Copy the log directory of {brokers} now, or stop one of them*: each holds the same {held} as soon as they follow. {cost}"
)
KEEP_OR_COPY = Template(
    "*If {brokers} is down, do not start it before its log directory is copied; if it is up, stop it or copy the directory "
    "now*: it holds {held} as soon as it follows. {cost}"
)
KEEP_OR_COPY_EQUAL = Template(
    "*Copy the log directory of {brokers} now, and start none of them before that*: each holds the same {held} as "
    "soon as they follow. {cost}"
)
IN_SNAPSHOT = Template(
    "Keep this snapshot, which has {them} in {paths}. To copy on broker {broker} itself: {command}, with its log.dirs as "
    "LOG_DIR."
)
DECIDE = Template(
    "Then decide for {places}: elect {brokers}, which loses what the present leader took since{besides}, or take the records "
    "out of the copy and produce them again."
)
DECIDE_BY_COST = Template("Then decide: {choices}. The steps, and what every other choice costs: {command}.")
NO_LEADER = Template("*Restore a leader for {places}*: {how}.")
END_TRANSACTION = Template(
    "*End the transaction of {place}*: kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {topic} "
    "--partition {partition} --start-offset {offset}, after find-hanging has confirmed it{committed}."
)
SHORT_MEMBER = Template(
    "*Keep broker {leader} up until broker {member} has caught up in {place}*; if broker {leader} must stop, stop broker "
    "{member} first."
)
AS_FIRST = Template(
    "{brokers} {hold} records that the leader does not have: go by “Do first” at the top of the page, in that order."
)
REMEDY = Template("{where}: {remedy} ({code})")

#: Steps for as many codes, and transactions, and groups of brokers; the findings below tell all.
CODE_LIMIT = 2
TRANSACTION_LIMIT = 3
GROUP_LIMIT = 3
#: Partitions that a command names; above that it copies the whole log directory.
PATH_LIMIT = 4


def tell_first_steps(
    results: Results,
    holders: Mapping[int, Sequence[Held]],
    conditions: Conditions,
    partitions: Sequence[Row],
    findings: Mapping[tuple, Sequence[Row]],
) -> Iterator[Sentence]:
    """What to do, most urgent first; `findings` by partition and worst first, `partitions` worst first."""
    up = find_up(results)
    urgent = {
        broker: tuple(one for one in held if one.is_cut)
        for broker, held in holders.items()
        if any(one.is_cut for one in held)
    }
    groups = list(_groups(urgent, up))
    for brokers, held, state in groups[:GROUP_LIMIT]:
        yield from _protect(results, brokers, held, state)
    yield from _short_members(results)
    yield from _leaderless(results, conditions, up, frozenset(urgent))
    for row in conditions.hanging[:TRANSACTION_LIMIT]:
        topic = row["topic"]
        place = f"{clean(topic)}-{row['partition']}"
        states = {item["value"] for item in row["evidence"] or () if item["kind"] == "transaction"}
        promise = "; its coordinator says that it was committed, so what abort hides has to be produced again"
        yield END_TRANSACTION.say(
            place=place,
            topic=shlex.quote(clean(topic)),
            partition=row["partition"],
            offset=row["start_offset"],
            committed=promise if "CompleteCommit" in states else "",
        )
    yield from _remedies(partitions, findings, bool(urgent))
    if urgent:
        places = list(dict.fromkeys(one.place for held in urgent.values() for one in held))
        best = best_rows(results.rows("elections"))
        yield from _decide_by_cost([place for place in places if place in best], best, results)
        yield from _decide([place for place in places if place not in best], holders)


def _decide_by_cost(places: Sequence[Place], best: Mapping[Place, Row], results: Results) -> Iterator[Sentence]:
    """Whom to let lead, as the cost matrix has it; partitions with the same choice and loss together."""
    choices: dict[str, list[Place]] = defaultdict(list)
    for place in places:
        choices[tell_choice(best[place])].append(place)
    told = [
        f"for {'each of ' if len(same) > 1 and best[same[0]]['lost_records'] else ''}{name_partitions(same)} {choice}"
        for choice, same in choices.items()
    ]
    if len(told) > GROUP_LIMIT:
        rest = sum(len(same) for same in list(choices.values())[GROUP_LIMIT:])
        told = [*told[:GROUP_LIMIT], f"and {render_count(rest, 'more partition')}"]
    if told:
        yield DECIDE_BY_COST.say(choices="; ".join(told), command=render_command(results, "elect"))


def _decide(places: Sequence[Place], holders: Mapping[int, Sequence[Held]]) -> Iterator[Sentence]:
    """Whom to elect where an audit of an earlier version has no cost matrix: a broker that has all that is lost, if one has."""
    choices: dict[tuple, list[Place]] = defaultdict(list)
    for place in places:
        holding = {broker: one for broker, held in holders.items() for one in held if one.place == place}
        whole = [broker for broker, one in holding.items() if one.is_all]
        choices[tuple(sorted(whole or holding)), bool(whole)].append(place)
    for (brokers, is_whole), same in list(choices.items())[:GROUP_LIMIT]:
        besides = "" if is_whole else " and what only the others have"
        yield DECIDE.say(places=name_partitions(same), brokers=name_brokers(brokers, "or"), besides=besides)


def _groups(
    urgent: Mapping[int, Sequence[Held]], up: Mapping[int, bool]
) -> Iterator[tuple[list[int], Sequence[Held], bool | None]]:
    """Brokers that hold the very same records and are in one state, together; every other broker for itself."""
    groups: dict[tuple, list[int]] = defaultdict(list)
    for broker, held in urgent.items():
        everything = tuple((one.place, one.records, one.committed) for one in held)
        groups[everything if all(one.is_all for one in held) else broker, up.get(broker)].append(broker)
    for (_, state), brokers in groups.items():
        yield sorted(brokers), urgent[brokers[0]], state


def _protect(results: Results, brokers: list[int], held: Sequence[Held], state: bool | None) -> Iterator[Sentence]:
    committed, records = sum(item.committed for item in held), sum(item.records for item in held)
    said = render_count(committed, "committed record")
    if committed != records:
        rest = f", {committed} of them committed," if committed else ", perhaps acknowledged,"
        said = render_count(records, "record") + rest
    where = name_partitions([item.place for item in held])
    gone = verb(records, "it is deleted", "they are deleted")
    values = {
        "brokers": name_brokers(brokers, "or"),
        "held": f"{said} that the leader does not have, in {where}; {gone}",
    }
    templates = {
        False: (KEEP_DOWN, KEEP_DOWN_EQUAL),
        True: (COPY_NOW, COPY_NOW_EQUAL),
        None: (KEEP_OR_COPY, KEEP_OR_COPY_EQUAL),
    }[state]
    # A broker that is down costs nothing by staying so.
    cost = (
        ""
        if state is False
        else " ".join(dict.fromkeys(_cost(broker, stop_cost(results, broker)) for broker in brokers))
    )
    yield templates[len(brokers) > 1].say(**values, cost=cost)
    paths = [f"{item.log_dir}/{item.place[0]}-{item.place[1]}" for item in held if item.log_dir is not None]
    if paths:
        folders = (
            " ".join(shlex.quote(f"{item.place[0]}-{item.place[1]}") for item in held)
            if len(held) <= PATH_LIMIT
            else "."
        )
        command = f"tar -czf broker-{brokers[0]}.tgz -C LOG_DIR {folders}"
        yield IN_SNAPSHOT.say(
            them=verb(records, "it", "them"),
            paths=join_words([*paths[:PATH_LIMIT], *(["other directories"] if len(paths) > PATH_LIMIT else [])]),
            broker=brokers[0],
            command=command,
        )


def _cost(broker: int, cost: Cost) -> str:
    """What stopping the broker costs, in words."""
    parts = []
    if cost.leaderless:
        parts.append(f"leaves {name_partitions(cost.leaderless)} without a leader")
    if cost.refused:
        parts.append(f"lets {name_partitions(cost.refused)} refuse acks=all")
    if parts:
        return f"Stopping broker {broker} {' and '.join(parts)}: copying is better."
    if cost.unknown:
        return f"What becomes unavailable without broker {broker} is not known: nothing says who is in sync."
    return "No partition of this audit becomes unavailable by that."


def _short_members(results: Results) -> Iterator[Sentence]:
    leaders = {(row["topic"], row["partition"]): row["reference_id"] for row in results.rows("partitions")}
    found = [row for row in worst_first(results.rows("findings")) if row["code"] == "REP-ISR-SHORT"]
    for row in [row for row in found if row["status"] != "resolved"][:CODE_LIMIT]:
        place = (row["topic"], row["partition"])
        yield SHORT_MEMBER.say(leader=leaders[place], member=row["broker_id"], place=name_partitions([place]))


def _leaderless(
    results: Results, conditions: Conditions, up: Mapping[int, bool], urgent: AbstractSet[int]
) -> Iterator[Sentence]:
    """By who may lead: partitions with the same candidates together."""
    if not conditions.leaderless:
        return
    newest = newest_states(results)
    by_candidates: dict[tuple[int, ...], list[Place]] = defaultdict(list)
    for row in conditions.leaderless:
        state = newest.get((row["topic"], row["partition"]))
        entitled = {*(state["isr"] or ()), *(state["elr"] or ())} if state else set()
        by_candidates[tuple(sorted(entitled))].append((row["topic"], row["partition"]))
    for candidates, places in list(by_candidates.items())[:GROUP_LIMIT]:
        down = [broker for broker in candidates if up.get(broker) is not True]
        if not candidates:
            how = (
                "nobody is in sync or eligible, so only an unclean election can give it one, and that loses whatever the "
                "elected log does not have"
            )
        elif down:
            copied = ", once copied" if urgent & set(down) else ""
            how = f"start {name_brokers(down, 'or')}{copied}, which can lead without losing anything committed"
        else:
            are = verb(len(candidates), "is", "are")
            how = f"{name_brokers(candidates)} could lead and {are} up; find out why none was elected"
        yield NO_LEADER.say(places=name_partitions(places), how=how)


def _remedies(
    partitions: Sequence[Row], findings: Mapping[tuple, Sequence[Row]], is_protected: bool
) -> Iterator[Sentence]:
    """The catalogue's advice for what is worst, with the places and brokers that it is about."""
    places: dict[str, list[Row]] = defaultdict(list)
    worst = partitions[0]["verdict"]
    for partition in partitions:
        ranked = findings.get((partition["topic"], partition["partition"]), ())
        leaderless = any(row["code"] == "META-NO-LEADER" for row in ranked)
        loud = [
            row
            for row in ranked
            if at_or_above(row["severity"], "medium") and not (leaderless and row["code"] == "HWM-UNDER-MIN-ISR")
        ]
        calm = worst in ("LAGGING", "CONSISTENT")
        chosen: Sequence[Row] = loud if calm or partition["verdict"] == worst else []
        chosen = chosen or (ranked[:1] if worst == "LAGGING" and partition["verdict"] == worst else [])
        for row in chosen[:1] if not calm else chosen:
            places[row["code"]].append(row)
    for row in findings.get((None, None), ()):
        places[row["code"]].append(row)
    told = 0

    def urgency(item: tuple[str, list[Row]]) -> tuple[int, int]:
        return min(SEVERITIES.index(row["severity"]) for row in item[1]), -len(item[1])

    for code, rows in sorted(places.items(), key=urgency):
        known = CATALOGUE.get(code)
        if (
            known is None
            or code in codes_with("own_step")
            or (is_protected and code in codes_with("saved_first"))
            or told == CODE_LIMIT
        ):
            continue
        if known.remedy.startswith("None") and not any(at_or_above(row["severity"], "medium") for row in rows):
            continue
        told += 1
        yield REMEDY.say(where=_where(rows), remedy=name_remedy(known.remedy, rows), code=code)


def tell_advice(
    code: str, findings: Sequence[Row], replicas: Sequence[Row], elections: Sequence[Row] = ()
) -> str | None:
    """What to do about the worst code of one partition, with its brokers by name, and the best choice where there is
    something to decide; None for a code of another version.
    """
    advice = _advice(code, findings, replicas)
    best = next(iter(best_rows(elections).values()), None)
    if advice is None or best is None:
        return advice
    return f"{advice.rstrip('.')}. {capitalise(tell_candidate(best))}: {best['reason']}."


def _advice(code: str, findings: Sequence[Row], replicas: Sequence[Row]) -> str | None:
    known = CATALOGUE.get(code)
    if known is None:
        return None
    holders = sorted({row["broker_id"] for row in replicas if row["lost_held"]})
    if code in codes_with("saved_first") and holders:
        brokers = capitalise(name_brokers(holders))
        return plain_text(AS_FIRST.say(brokers=brokers, hold="holds" if len(holders) == 1 else "hold"))
    return name_remedy(known.remedy, [row for row in findings if row["code"] == code])


def _where(rows: Sequence[Row]) -> str:
    if rows[0]["topic"] is None:
        return "Input of no partition"
    named = []
    for row in rows:
        broker = "" if row["broker_id"] is None else f" on broker {row['broker_id']}"
        named.append(f"{clean(row['topic'])}-{row['partition']}{broker}")
    return join_some(list(dict.fromkeys(named)), 3, "place")


def name_remedy(remedy: str, rows: Sequence[Row]) -> str:
    """A remedy of the catalogue with brokers by name: never "this broker" where nobody knows which."""
    brokers = sorted({row["broker_id"] for row in rows if row["broker_id"] is not None})
    one = f"broker {brokers[0]}" if len(brokers) == 1 else "that broker"
    replica = f"the replica on {one}" if len(brokers) == 1 else "that replica"
    return re.sub(r"\bthis broker\b", one, re.sub(r"\bthis (replica|log|one)\b", replica, remedy))

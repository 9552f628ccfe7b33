"""What to do first, by broker and by its state: nothing that exists once only may be deleted by a helpful hand."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from replica_audit.answering.best_choices import best_rows
from replica_audit.answering.by_partition import Row
from replica_audit.answering.conditions import place_of
from replica_audit.answering.first_steps import Hanging, Keeping, Leaderless, find_first_steps, saved_by
from replica_audit.answering.outcome import Outcome
from replica_audit.answering.stop_costs import Cost, stop_cost
from replica_audit.auditing.findings.catalogue import CATALOGUE
from replica_audit.model import Place
from replica_audit.reporting.answers.what_to_do import tell_candidate, tell_choice
from replica_audit.reporting.phrases.command_lines import render_command
from replica_audit.reporting.phrases.layout import clean, render_count
from replica_audit.reporting.phrases.sentences import (
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
    "out of the copy and produce them again. This audit has not worked out what each choice costs: {command} does."
)
DECIDE_BY_COST = Template("Then decide: {choices}. The steps, and what every other choice costs: {command}.")
NO_LEADER = Template("*Restore a leader for {places}*: {how}.")
END_TRANSACTION = Template(
    "*End the transaction of {place}*: kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {topic} "
    "--partition {partition} --start-offset {offset}, after find-hanging has confirmed it{committed}."
)
ABSENT_LEADER = Template(
    "*Copy the log {directories} of {brokers} before {follow} broker {leader}*: it was elected uncleanly and leads {places}, and "
    "its log is not in the snapshot, so that nothing tells what it lacks. An audit with its log does."
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


def tell_first_steps(results: Results, outcome: Outcome) -> Iterator[Sentence]:
    """What to do about `outcome`, that of `results`, most urgent first."""
    steps = find_first_steps(results, outcome)
    for keeping in steps.keeping[:GROUP_LIMIT]:
        yield from _protect(results, keeping)
    for absent in steps.absent_leaders[:GROUP_LIMIT]:
        many = len(absent.brokers) > 1
        yield ABSENT_LEADER.say(
            directories="directories" if many else "directory",
            brokers=name_brokers(absent.brokers),
            follow="they follow" if many else "it follows",
            leader=absent.leader,
            places=name_partitions(absent.places),
        )
    for leader, row in steps.short_members[:CODE_LIMIT]:
        yield SHORT_MEMBER.say(leader=leader, member=row["broker_id"], place=name_partitions([place_of(row)]))
    for group in steps.leaderless[:GROUP_LIMIT]:
        yield NO_LEADER.say(places=name_partitions(group.places), how=_how_to_lead(group))
    yield from map(_end_transaction, steps.hanging[:TRANSACTION_LIMIT])
    for code, rows in list(steps.remedies.items())[:CODE_LIMIT]:
        yield REMEDY.say(where=_where(rows), remedy=name_remedy(CATALOGUE[code].remedy, rows), code=code)
    yield from tell_costed_choices(steps.costed, results)
    for choice in steps.elections[:GROUP_LIMIT]:
        brokers, besides = (
            name_brokers(choice.brokers, "or"),
            "" if choice.is_whole else " and what only the others have",
        )
        command = render_command(results, "elect")
        yield DECIDE.say(places=name_partitions(choice.places), brokers=brokers, besides=besides, command=command)


def tell_costed_choices(best: Mapping[Place, Row], results: Results) -> Iterator[Sentence]:
    """Whom to let lead, as the cost matrix has it; partitions with the same choice and loss together."""
    choices: dict[str, list[Place]] = defaultdict(list)
    for place, row in best.items():
        choices[tell_choice(row)].append(place)
    told = [
        f"for {'each of ' if len(same) > 1 and best[same[0]]['lost_records'] else ''}{name_partitions(same)} {choice}"
        for choice, same in choices.items()
    ]
    if len(told) > GROUP_LIMIT:
        rest = sum(len(same) for same in list(choices.values())[GROUP_LIMIT:])
        told = [*told[:GROUP_LIMIT], f"and {render_count(rest, 'more partition')}"]
    if told:
        yield DECIDE_BY_COST.say(choices="; ".join(told), command=render_command(results, "elect"))


def _end_transaction(hanging: Hanging) -> Sentence:
    row, topic = hanging.row, clean(hanging.row["topic"])
    promise = "; its coordinator says that it was committed, so what abort hides has to be produced again"
    return END_TRANSACTION.say(
        place=f"{topic}-{row['partition']}",
        topic=shlex.quote(topic),
        partition=row["partition"],
        offset=row["start_offset"],
        committed=promise if hanging.was_committed else "",
    )


def _protect(results: Results, keeping: Keeping) -> Iterator[Sentence]:
    brokers, held, state = keeping.brokers, keeping.held, keeping.is_up
    committed, records = sum(item.committed for item in held), sum(item.records for item in held)
    said = render_count(committed, "committed record")
    if committed != records:
        rest = f", {committed} of them committed," if committed else ", perhaps acknowledged,"
        said = render_count(records, "record") + rest
    where = name_partitions([item.place for item in held])
    gone = verb(records, "it is deleted", "they are deleted")
    values = {
        "brokers": name_brokers(brokers, "or"),
        "held": f"{said} that {_whose_log_lacks(results, keeping)} not have, in {where}; {gone}",
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


def _whose_log_lacks(results: Results, keeping: Keeping) -> str:
    """Subject and verb: the leader, or who stands in for leaders that are not in the snapshot, or not there at all."""
    places = {item.place for item in keeping.held}
    rows = [row for row in results.rows("partitions") if place_of(row) in places]
    if all(row["leader_id"] == row["reference_id"] for row in rows):
        return "the leader does"
    compared = {row["reference_id"] for row in rows}
    return f"broker {min(compared)} does" if len(compared) == 1 else "the logs that they are compared with do"


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


def _how_to_lead(group: Leaderless) -> str:
    if not group.candidates:
        return (
            "nobody is in sync or eligible, so only an unclean election can give it one, and that loses whatever the "
            "elected log does not have"
        )
    if group.down:
        copied = ", once copied" if group.copied_first else ""
        return f"start {name_brokers(group.down, 'or')}{copied}, which can lead without losing anything committed"
    are = verb(len(group.candidates), "is", "are")
    return f"{name_brokers(group.candidates)} could lead and {are} up; find out why none was elected"


def tell_advice(
    code: str, findings: Sequence[Row], replicas: Sequence[Row], elections: Sequence[Row] = ()
) -> str | None:
    """What to do about the worst code of one partition, with its brokers by name, and the best choice where there is
    something to decide; None for a code of another version.
    """
    known = CATALOGUE.get(code)
    if known is None:
        return None
    if holders := saved_by(code, replicas):
        hold = verb(len(holders), "holds", "hold")
        advice = plain_text(AS_FIRST.say(brokers=capitalise(name_brokers(holders)), hold=hold))
    else:
        advice = name_remedy(known.remedy, [row for row in findings if row["code"] == code])
    best = next(iter(best_rows(elections).values()), None)
    if best is None:
        return advice
    return f"{advice.rstrip('.')}. {capitalise(tell_candidate(best))}: {best['reason']}."


def _where(rows: Sequence[Row]) -> str:
    named = []
    for row in rows:
        if row["topic"] is None:
            named.append("This snapshot")
            continue
        broker = "" if row["broker_id"] is None else f" on broker {row['broker_id']}"
        named.append(f"{clean(row['topic'])}-{row['partition']}{broker}")
    return join_some(list(dict.fromkeys(named)), 3, "place")


def name_remedy(remedy: str, rows: Sequence[Row]) -> str:
    """A remedy of the catalogue with brokers by name: never "this broker" where nobody knows which."""
    brokers = sorted({row["broker_id"] for row in rows if row["broker_id"] is not None})
    one = f"broker {brokers[0]}" if len(brokers) == 1 else "that broker"
    replica = f"the replica on {one}" if len(brokers) == 1 else "that replica"
    return re.sub(r"\bthis broker\b", one, re.sub(r"\bthis (replica|log|one)\b", replica, remedy))

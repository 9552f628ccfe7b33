"""Steps once every partition has its leader: set groups back, and once records are safe end hanging transactions and apply the
catalogue's remedies."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

from replica_audit.auditing.catalogue import CATALOGUE, at_or_above, code_text, codes_with
from replica_audit.auditing.finding import find_unseen_tails
from replica_audit.auditing.findings.cap_skew import CAP_SKEW
from replica_audit.auditing.findings.txn import TXN_HANGING, TXN_MARKER_LOST
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.hit_groups import groups_hit
from replica_audit.elect.kafka_commands import Tools
from replica_audit.elect.plan_model import Decision, Step
from replica_audit.elect.step_list import list_names, list_places
from replica_audit.literals import SEVERITIES, GroupKind
from replica_audit.model import TopicPartition
from replica_audit.results import FindingPlace, Results, by_place, place_of, present, with_places
from replica_audit.schema import FindingRow, GroupOffsetRow
from replica_audit.text import capitalise, count, verb


def reset_steps(
    matrix: Matrix, decisions: Sequence[Decision], groups: Iterable[GroupOffsetRow], tools: Tools
) -> Iterator[Step]:
    """A step that sets groups back which have read what a planned leader lacks; none where the leader stays.

    It comes before `restore`, so that they wait no longer than they must: restored records are appended, thus read in either order.
    """
    of_place = by_place(groups)
    ends: dict[GroupKind, list[tuple[str, TopicPartition, int]]] = {"consumer": [], "share": []}
    for one in decisions:
        place = place_of(one)
        if one.chosen.groups_hit and one.procedure != "unplanned" and one.candidate_id != one.present_leader_id:
            hit = groups_hit(matrix, place, one.candidate_id, one.present_leader_id, of_place[place]) or {}
            for (group, kind), end in hit.items():
                ends[kind].append((group, place, end))
    made = [tools.reset_offsets(kind, sorted(some)) for kind, some in ends.items()]
    places = sorted({place for some in ends.values() for _, place, _ in some})
    number = len({(group, kind) for kind, some in ends.items() for group, _, _ in some})
    if not number:
        return
    its, it, has = verb(number, "its", "their"), verb(number, "it", "they"), verb(number, "has", "have")
    times = (
        ". TIME_AT_N is the time, in UTC, of the new leader's first record of that partition at or above offset N, or the present time "
        "without one: the tool for share groups takes no offset"
        if ends["share"]
        else ""
    )
    yield Step(
        action="reset_offsets",
        text=f"Set the offsets of {count(number, 'group')} for {list_places(places)} back to where the new leader's log parts from what {it} "
        f"{has} read, or {it} may skip other records there{times}",
        partitions=tuple(places),
        commands=tuple(command for commands, _ in made for command in commands),
        files={name: content for _, files in made for name, content in files.items()},
        before=(
            f"{capitalise(its)} members are stopped until this is done: of a group that has some the tools change nothing, and "
            "kafka-consumer-groups.sh still exits with 0",
            f"{capitalise(its)} present offsets (--describe) are above those in the commands: leave out what is not, since that would skip "
            "records",
        ),
    )


def mending_steps(
    results: Results,
    matrix: Matrix,
    decisions: Sequence[Decision],
    tools: Tools,
    about: Container[TopicPartition],
    deleted: Container[FindingPlace],
    started: Container[int | None],
    fetched_anew: Container[tuple[int | None, FindingPlace]],
) -> Iterator[Step]:
    """Steps without numbers, most urgent first, for the partitions that the plan is `about`; `deleted` topics need none. Before them
    the plan has `started` brokers, in its own order, some with partitions that they have `fetched_anew`."""
    found = [row for row in present(results.findings) if (place := place_of(row)) in about and place not in deleted]
    decided = {place_of(one) for one in decisions}
    moving = {place_of(one) for one in decisions if one.procedure != "none"}
    unplanned = {place_of(one) for one in decisions if one.procedure == "unplanned"}
    yield from _transactions(found, matrix, moving, tools)
    waiting = matrix.wanted.keys() | matrix.moved
    # A step that brings missing data, or asks for a copy, is followed by another audit.
    captured = [
        row
        for row in found
        if not (row.code in codes_with("no_files") and place_of(row) in matrix.needed)
        and not (row.code in codes_with("brought") and place_of(row) in waiting)
        and not (place_of(row) not in decided and find_unseen_tails([row]))
        and not (row.code in codes_with("start_order") and row.broker_id in started)
        and not (row.code in codes_with("moved_away") and (row.broker_id, place_of(row)) in fetched_anew)
    ]
    planned = [one for one in decisions if one.procedure not in ("none", "unplanned")]
    holed = {(broker, place) for broker, places in matrix.holed(planned).items() for place in places}
    yield from _remedies(captured, results, decided, moving, unplanned, holed)


#: Conclusion from the coordinator's word on a transaction that hangs: a marker ends all that its producer has open (X, 4.3.1).
_OUTCOMES = {
    "CompleteAbort": ", before its application starts again: the next transaction that it commits there would commit this one, too",
    "CompleteCommit": "; its coordinator says that it was committed, so produce again what the abort hides. If its application "
    "still runs with that transactional id, do not abort it: the next transaction that it commits with records of that partition "
    "commits this one, too",
}


def _transactions(
    found: Sequence[FindingRow], matrix: Matrix, moving: Collection[TopicPartition], tools: Tools
) -> Iterator[Step]:
    """Steps for hanging transactions, unless another log has the marker or another leader is to be elected."""
    decided = {place_of(row) for row in found if row.code == TXN_MARKER_LOST.code}
    for place, row in with_places(row for row in found if row.code == TXN_HANGING.code):
        if row.start_offset is None or place in moving or place in decided:
            continue
        reference = matrix.row(place, matrix.reference(place))
        if reference is not None and reference.cut_transactions:
            continue
        if row.confidence == "suspect" and not tools.finds_hanging():
            continue
        states = {item.value for item in row.evidence if item.kind == "transaction"}
        says = next((text for state, text in _OUTCOMES.items() if state in states), "")
        sure = " once find-hanging has confirmed it" if tools.finds_hanging() else ""
        name = f"{place[0]}-{place[1]}"
        yield Step(
            action="end_transaction",
            text=f"End the hanging transaction of {name}, which stops read_committed consumers at offset {row.start_offset}: "
            f"abort it{sure}{says}",
            partitions=(place,),
            commands=tuple(tools.end_transaction(place, row.start_offset)),
        )


def _remedies(
    found: Sequence[FindingRow],
    results: Results,
    decided: Collection[TopicPartition],
    moving: Collection[TopicPartition],
    unplanned: Collection[TopicPartition],
    holed: Container[tuple[int | None, FindingPlace]],
) -> Iterator[Step]:
    """The catalogue's remedies for findings of medium severity or worse, a step for each code, worst first.

    In partitions that get another leader only `holed` logs are fetched again: any other remedy for a replica may contradict the plan, and
    another audit follows. Where no step elects one (`unplanned`), files that are missing or unreadable are copied again.
    """

    def is_left(row: FindingRow) -> bool:
        if row.code in codes_with("no_files") and place_of(row) in unplanned:
            return True
        return row.code in codes_with("moved_away") and (row.broker_id, place_of(row)) in holed

    lagging = {place_of(row) for row in results.partitions if row.verdict == "LAGGING"}
    loud = [row for row in found if _is_loud(row, decided) and (place_of(row) not in moving or is_left(row))]
    if not loud and not decided:
        # Without such findings, say at least what keeps followers behind.
        behind = [row for row in found if place_of(row) in lagging and is_advised(row) and not _has_own_step(row)]
        loud = _worst_of_each(behind)
    rows_of: dict[str, list[FindingRow]] = defaultdict(list)
    also: dict[str, set[str]] = defaultdict(set)
    for row, code in _moved_away_once(loud):
        if row.code == code:
            rows_of[code].append(row)
        else:
            also[code].add(row.code)
    undecided = {place_of(row): row.code for row in loud if row.code in codes_with("two_sides")}

    def urgency(item: tuple[str, list[FindingRow]]) -> tuple[int, int]:
        return min(SEVERITIES.index(row.severity) for row in item[1]), -len(item[1])

    for code, rows in sorted(rows_of.items(), key=urgency):
        if code not in CATALOGUE:
            continue
        remedy = code_text(code).remedy
        if remedy.startswith("None") and not any(map(_is_medium, rows)):
            continue
        text = name_remedy(remedy, [row.broker_id for row in rows]).rstrip(".")
        if code in codes_with("copied_first") and all(row.confidence == "suspect" for row in rows):
            of_one = rows[0].message.removeprefix(f"broker {rows[0].broker_id}: ")
            said = of_one if len(rows) == 1 else "Copy the brokers again as each finding says"
            text = f"{said}, and change nothing until that is audited"
        if code in codes_with("moved_away") and (waiting := _waiting(rows, undecided)):
            text = f"{text}. First decide which side of {waiting} is right, and leave leadership as it is until then"
        others = ", ".join(sorted(also[code]))
        besides = f". Also found there: {others}; replica-audit explain says what else to do" if others else ""
        yield Step(
            action="mend",
            text=f"{_where(rows)}: {text} ({code}){besides}",
            brokers=tuple(sorted({row.broker_id for row in rows if row.broker_id is not None})),
            partitions=tuple(sorted({place for place, _ in with_places(rows)})),
        )


def _moved_away_once(found: Sequence[FindingRow]) -> Iterator[tuple[FindingRow, str]]:
    """Each finding with the code whose step it belongs to: its own, or where the remedy moves a replica's directory away one code for each
    replica, the worst and then the first of the catalogue. A second time would take what the broker has just fetched."""
    codes = [code for code in CATALOGUE if code in codes_with("moved_away")]
    first: dict[tuple[FindingPlace, int | None], str] = {}

    def urgency(row: FindingRow) -> tuple[int, int]:
        return SEVERITIES.index(row.severity), codes.index(row.code)

    for row in sorted((row for row in found if row.code in codes), key=urgency):
        first.setdefault((place_of(row), row.broker_id), row.code)
    return ((row, first[place_of(row), row.broker_id] if row.code in codes else row.code) for row in found)


def _waiting(rows: Iterable[FindingRow], undecided: Mapping[FindingPlace, str]) -> str:
    """Names of the partitions of `rows` in which another finding leaves `undecided` which replica is right, with its code; "" if there are none."""
    places = dict(with_places(row for row in rows if undecided.get(place_of(row), row.code) != row.code))
    return list_names(f"{topic}-{number} ({undecided[topic, number]})" for topic, number in places)


def _is_loud(row: FindingRow, decided: Collection[TopicPartition]) -> bool:
    """True if a finding of medium severity or worse has no step of its own in the plan."""
    is_decided = row.code in codes_with("decided") and place_of(row) in decided
    # A replica is not moved away before it is known to be damaged. Some remedies say so, and what to copy first.
    is_open = row.code in codes_with("moved_away") - codes_with("copied_first") and row.confidence == "suspect"
    return _is_medium(row) and not _has_own_step(row) and not is_decided and not is_open


def _has_own_step(row: FindingRow) -> bool:
    return row.code in codes_with("own_step") or (row.topic is None and row.code in codes_with("quorum"))


def is_advised(row: FindingRow) -> bool:
    """True if the remedy of a finding's code applies to the finding: no replica is rebuilt, and no broker copied again, for
    what is normal, such as the gaps of a compacted log or the skew of copies of brokers at work."""
    return row.code not in {*codes_with("moved_away"), CAP_SKEW.code} or _is_medium(row)


def _is_medium(row: FindingRow) -> bool:
    return at_or_above(row.severity, "medium")


def _worst_of_each(found: Sequence[FindingRow]) -> list[FindingRow]:
    """The worst finding of each partition."""
    worst: dict[FindingPlace, FindingRow] = {}
    for row in sorted(found, key=lambda row: (SEVERITIES.index(row.severity), row.code)):
        worst.setdefault(place_of(row), row)
    return list(worst.values())


def _where(rows: Sequence[FindingRow]) -> str:
    """Places of findings, grouped by partition: orders-0 on brokers 1 and 2."""
    brokers: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        of_place = brokers["" if row.topic is None else f"{row.topic}-{row.partition}"]
        if row.broker_id is not None and row.broker_id not in of_place:
            of_place.append(row.broker_id)
    named = [_name_place(name, sorted(ids)) for name, ids in brokers.items()]
    return list_names(named, 4)


def _name_place(name: str, brokers: Sequence[int]) -> str:
    """orders-0 on brokers 1 and 2; without a partition (""): Broker 1, or This snapshot."""
    who = f"broker{'s' if len(brokers) > 1 else ''} {list_names(map(str, brokers))}" if brokers else ""
    if not name:
        return capitalise(who) or "This snapshot"
    return f"{name} on {who}" if who else name


def name_remedy(remedy: str, broker_ids: Iterable[int | None]) -> str:
    """A remedy of the catalogue as a sentence, with "this broker" and "this replica" replaced by known names."""
    remedy = re.sub(r"^None\b", "Nothing to do", remedy)
    brokers = sorted({one for one in broker_ids if one is not None})
    one = f"broker {brokers[0]}" if len(brokers) == 1 else "that broker"
    replica = f"the replica on {one}" if len(brokers) == 1 else "that replica"
    return re.sub(r"\bthis broker\b", one, re.sub(r"\bthis (replica|one)\b", replica, remedy))

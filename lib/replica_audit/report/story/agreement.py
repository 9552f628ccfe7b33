"""Replicas that agree with the reference, and copies that were not compared with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replica_audit.auditing.catalogue import at_or_above, codes_with
from replica_audit.report.facts.by_partition import compared_rows, reference_row, served_rows
from replica_audit.report.layout import clean, render_count
from replica_audit.report.sentences import Sentence, Template, verb
from replica_audit.results import PartitionRows
from replica_audit.schema import ReplicaRow
from replica_audit.text import capitalise, name_brokers, name_offsets

#: Roles of copies that no other was compared with; a kind of agreement each.
NOT_COMPARED = ("foreign", "duplicate", "set_aside")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Replicas that do not differ from the reference and relate to it alike, or a copy that was not compared.

    `kind`: `alone` (the reference is the only one), `same` and `empty` (as the reference, to the same end), `shorter`,
    `longer`, `empty_elsewhere` (empty, with another end), `no_overlap` (no offset is on both), `cleaned` (only the
    cleaners made them differ), or one of `NOT_COMPARED`.
    """

    kind: str
    brokers: tuple[int, ...]
    reference: ReplicaRow
    """The replica they are compared with; for a copy that was not compared, that copy."""
    replica: ReplicaRow
    """The first of them."""
    since: int = 0
    """First offset from which both have records; 0: both logs begin alike."""
    tail_lost: bool = False
    """`longer`: the reference is known to have lost its tail."""


def find_agreement(rows: PartitionRows) -> Iterator[Agreement]:
    """Groups of replicas that do not differ, then copies that were not compared."""
    reference = reference_row(rows.replicas)
    if reference is not None and reference.log_end_offset is not None:
        yield from _compared(reference, rows)
    for row in rows.replicas:
        if row.role in NOT_COMPARED:
            yield Agreement(row.role, (row.broker_id,), row, row)


def _compared(reference: ReplicaRow, rows: PartitionRows) -> Iterator[Agreement]:
    others = [row for row in compared_rows(rows.replicas) if row.log_end_offset is not None]
    start, end = _range(reference)
    if len(served_rows(rows.replicas)) < 2:
        yield Agreement("alone", (reference.broker_id,), reference, reference)
        return
    differing, cleaned, doubtful = _by_findings(rows)
    if reference.broker_id in doubtful:
        return
    if cleaned:
        yield Agreement("cleaned", tuple(sorted(cleaned)), reference, reference)
    agreeing = [row for row in others if row.broker_id not in differing | cleaned | doubtful]
    equal: dict[int, list[ReplicaRow]] = {}
    for row in agreeing:
        own_start, own_end = _range(row)
        since = max(start, own_start) if own_start != start else 0
        if own_end == end:
            equal.setdefault(since, []).append(row)
        else:
            yield _unequal(reference, row, rows)
    for since, same in sorted(equal.items()):
        kind = "same" if reference.record_count else "empty"
        yield Agreement(kind, tuple(row.broker_id for row in same), reference, same[0], since)


def _unequal(reference: ReplicaRow, row: ReplicaRow, rows: PartitionRows) -> Agreement:
    start, end = _range(reference)
    own_start, own = _range(row)
    brokers = (row.broker_id,)
    first = max(start, own_start)
    if own <= own_start:
        return Agreement("empty_elsewhere", brokers, reference, row)
    if first >= min(end, own):
        return Agreement("no_overlap", brokers, reference, row)
    if own > end:
        tail_lost = any(item.code == "REP-LEADER-SHORTER" for item in rows.findings)
        return Agreement("longer", brokers, reference, row, tail_lost=tail_lost)
    return Agreement("shorter", brokers, reference, row, first if own_start != start else 0)


def _by_findings(rows: PartitionRows) -> tuple[set[int], set[int], set[int]]:
    """Brokers that differ, those that only a cleaner made different, and those that may hold anything."""
    differing = {row.broker_id for row in rows.divergences}
    cleaned: set[int] = set()
    doubtful: set[int] = set()
    for row in rows.findings:
        code = row.code
        broker = row.broker_id
        if broker is None:
            continue
        if code == "DIV-PRESENCE" and row.severity == "info":
            cleaned.add(broker)
        elif code in codes_with("difference"):
            differing.add(broker)
        elif (
            code in codes_with("doubt")
            and at_or_above(row.severity, "medium")
            or code == "DIV-FORMAT"
            and row.confidence != "proven"
        ):
            doubtful.add(broker)
    return differing, cleaned - differing, doubtful


ALONE = Template("Only broker {reference} has files here; it holds {held}.")
SAME = Template("{brokers} {hold} the same records as {reference}{since}, up to log end {end}.")
EMPTY = Template("{brokers} {are} empty like {reference}, and {end_} at {end}.")
SHORTER = Template("Broker {broker} holds the same records as {reference}{since}, but ends {behind} earlier, at {end}.")
EMPTY_ELSEWHERE = Template("Broker {broker} is empty and ends at {end}, {distance} {side} the end of {reference}.")
LONGER = Template("Broker {broker} agrees with {reference} and goes on {ahead} further, to {end}: {why}.")
NO_OVERLAP = Template("Broker {broker} holds {held}, and {reference} {other}: no offset is on both.")
CLEANED = Template(
    "{brokers} and {reference} were cleaned at different times: they hold different records of this compacted "
    "partition, which is as it should be."
)
FOREIGN = Template(
    "Broker {broker} holds a copy that belongs to another topic of this name ({topic_id}); it was not compared."
)
DUPLICATE = Template("Broker {broker} has a second copy in {log_dir}, which was not compared.")
SET_ASIDE = Template("What broker {broker} holds is not known: what there is of its log could not be compared.")


def tell_agreement(rows: PartitionRows) -> Iterator[Sentence]:
    """A sentence for each group of replicas that do not differ, then one for each copy that was not compared."""
    for one in find_agreement(rows):
        yield _TOLD[one.kind](one)


def _alone(one: Agreement) -> Sentence:
    start, end = _range(one.reference)
    held = name_offsets(start, end) if end > start else "no records"
    return ALONE.say(reference=one.brokers[0], held=held)


def _cleaned(one: Agreement) -> Sentence:
    return CLEANED.say(brokers=capitalise(name_brokers(one.brokers)), reference=_name(one.reference))


def _same(one: Agreement) -> Sentence:
    hold = verb(len(one.brokers), "holds", "hold")
    return SAME.say(**_group(one), hold=hold, since=_since(one))


def _empty(one: Agreement) -> Sentence:
    count = len(one.brokers)
    return EMPTY.say(**_group(one), are=verb(count, "is", "are"), end_=verb(count, "ends", "end"))


def _empty_elsewhere(one: Agreement) -> Sentence:
    _, end = _range(one.reference)
    _, own = _range(one.replica)
    side = "past" if own > end else "before"
    return EMPTY_ELSEWHERE.say(**_single(one), end=own, distance=_distance(one), side=side)


def _no_overlap(one: Agreement) -> Sentence:
    start, end = _range(one.reference)
    held = name_offsets(*_range(one.replica))
    other = name_offsets(start, end) if end > start else "nothing"
    return NO_OVERLAP.say(**_single(one), held=held, other=other)


def _longer(one: Agreement) -> Sentence:
    name = _name(one.reference)
    why = f"{name} lost its tail" if one.tail_lost else f"it was copied later, or {name} lost its tail"
    return LONGER.say(**_single(one), ahead=_distance(one), end=_range(one.replica)[1], why=why)


def _shorter(one: Agreement) -> Sentence:
    return SHORTER.say(**_single(one), since=_since(one), behind=_distance(one), end=_range(one.replica)[1])


def _foreign(one: Agreement) -> Sentence:
    return FOREIGN.say(broker=one.brokers[0], topic_id=f"topic id {clean(one.replica.topic_id)}")


def _duplicate(one: Agreement) -> Sentence:
    return DUPLICATE.say(broker=one.brokers[0], log_dir=clean(one.replica.log_dir))


def _set_aside(one: Agreement) -> Sentence:
    return SET_ASIDE.say(broker=one.brokers[0])


#: By kind of agreement.
_TOLD = {
    "alone": _alone,
    "cleaned": _cleaned,
    "same": _same,
    "empty": _empty,
    "empty_elsewhere": _empty_elsewhere,
    "no_overlap": _no_overlap,
    "longer": _longer,
    "shorter": _shorter,
    "foreign": _foreign,
    "duplicate": _duplicate,
    "set_aside": _set_aside,
}


def _group(one: Agreement) -> dict[str, object]:
    brokers = capitalise(name_brokers(one.brokers))
    return {"brokers": brokers, "reference": _name(one.reference), "end": _range(one.reference)[1]}


def _single(one: Agreement) -> dict[str, object]:
    return {"broker": one.brokers[0], "reference": _name(one.reference)}


def _range(row: ReplicaRow) -> tuple[int, int]:
    """Offsets of a log that could be read."""
    return row.log_start_offset or 0, row.log_end_offset or 0


def _distance(one: Agreement) -> str:
    return render_count(abs(_range(one.reference)[1] - _range(one.replica)[1]), "offset")


def _since(one: Agreement) -> str:
    return f" from {one.since} on" if one.since else ""


def _name(reference: ReplicaRow) -> str:
    broker = f"broker {reference.broker_id}"
    return f"the leader ({broker})" if reference.is_leader else broker

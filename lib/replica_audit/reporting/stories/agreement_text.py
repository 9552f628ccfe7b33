"""Who holds the same records as the reference, in sentences; copies that were not compared are named as such."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.answering.agreement import Agreement, find_agreement
from replica_audit.answering.by_partition import Row, Rows
from replica_audit.reporting.phrases.layout import clean, render_count
from replica_audit.reporting.phrases.sentences import Sentence, Template, capitalise, name_brokers, name_offsets, verb

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


def tell_agreement(rows: Rows) -> Iterator[Sentence]:
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
    (_, end), (_, own) = _range(one.reference), _range(one.replica)
    side = "past" if own > end else "before"
    return EMPTY_ELSEWHERE.say(**_single(one), end=own, distance=_distance(one), side=side)


def _no_overlap(one: Agreement) -> Sentence:
    start, end = _range(one.reference)
    held, other = name_offsets(*_range(one.replica)), name_offsets(start, end) if end > start else "nothing"
    return NO_OVERLAP.say(**_single(one), held=held, other=other)


def _longer(one: Agreement) -> Sentence:
    name = _name(one.reference)
    why = f"{name} lost its tail" if one.tail_lost else f"it was copied later, or {name} lost its tail"
    return LONGER.say(**_single(one), ahead=_distance(one), end=one.replica["log_end_offset"], why=why)


def _shorter(one: Agreement) -> Sentence:
    return SHORTER.say(**_single(one), since=_since(one), behind=_distance(one), end=one.replica["log_end_offset"])


def _foreign(one: Agreement) -> Sentence:
    return FOREIGN.say(broker=one.brokers[0], topic_id=f"topic id {clean(one.replica['topic_id'])}")


def _duplicate(one: Agreement) -> Sentence:
    return DUPLICATE.say(broker=one.brokers[0], log_dir=clean(one.replica["log_dir"]))


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
    return {"brokers": brokers, "reference": _name(one.reference), "end": one.reference["log_end_offset"]}


def _single(one: Agreement) -> dict[str, object]:
    return {"broker": one.brokers[0], "reference": _name(one.reference)}


def _range(row: Row) -> tuple[int, int]:
    return row["log_start_offset"] or 0, row["log_end_offset"]


def _distance(one: Agreement) -> str:
    return render_count(abs(one.reference["log_end_offset"] - one.replica["log_end_offset"]), "offset")


def _since(one: Agreement) -> str:
    return f" from {one.since} on" if one.since else ""


def _name(reference: Row) -> str:
    broker = f"broker {reference['broker_id']}"
    return f"the leader ({broker})" if reference["is_leader"] else broker

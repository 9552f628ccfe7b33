"""Who holds the same records as the reference, in sentences; copies that were not compared are named as such."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.answering.by_partition import Row, Rows
from replica_audit.auditing.findings.catalogue import at_or_above, codes_with
from replica_audit.reporting.layout import clean, render_count
from replica_audit.reporting.sentences import Sentence, Template, capitalise, name_brokers, name_offsets, verb

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


def tell_agreement(partition: Row, rows: Rows) -> Iterator[Sentence]:
    """A sentence for each group of replicas that do not differ, then one for each copy that was not compared."""
    reference = next((row for row in rows["replicas"] if row["role"] in ("leader", "reference")), None)
    if reference is not None and reference["log_end_offset"] is not None:
        yield from _compared(reference, rows)
    for row in rows["replicas"]:
        if row["role"] == "foreign":
            yield FOREIGN.say(broker=row["broker_id"], topic_id=f"topic id {clean(row['topic_id'])}")
        elif row["role"] == "duplicate":
            yield DUPLICATE.say(broker=row["broker_id"], log_dir=clean(row["log_dir"]))
        elif row["role"] == "set_aside":
            yield SET_ASIDE.say(broker=row["broker_id"])


def _compared(reference: Row, rows: Rows) -> Iterator[Sentence]:
    others = [row for row in rows["replicas"] if row["role"] == "compared" and row["log_end_offset"] is not None]
    name, start, end = _name(reference), reference["log_start_offset"] or 0, reference["log_end_offset"]
    if not rows["replicas"][1:]:
        held = name_offsets(start, end) if end > start else "no records"
        yield ALONE.say(reference=reference["broker_id"], held=held)
        return
    differing, cleaned, doubtful = _by_findings(rows)
    if reference["broker_id"] in doubtful:
        return
    if cleaned:
        yield CLEANED.say(brokers=capitalise(name_brokers(sorted(cleaned))), reference=name)
    agreeing = [row for row in others if row["broker_id"] not in differing | cleaned | doubtful]
    equal: dict[int, list[Row]] = {}
    for row in agreeing:
        first = max(start, row["log_start_offset"] or 0)
        if row["log_end_offset"] == end:
            equal.setdefault(first if first > start or (row["log_start_offset"] or 0) < first else 0, []).append(row)
            continue
        yield from _unequal(reference, row, first, rows)
    for first, same in sorted(equal.items()):
        yield _same(reference, same, first)


def _same(reference: Row, same: Sequence[Row], first: int) -> Sentence:
    brokers, end = capitalise(name_brokers([row["broker_id"] for row in same])), reference["log_end_offset"]
    count = len(same)
    values = {"brokers": brokers, "reference": _name(reference), "end": end}
    if not reference["record_count"]:
        return EMPTY.say(**values, are=verb(count, "is", "are"), end_=verb(count, "ends", "end"))
    return SAME.say(**values, hold=verb(count, "holds", "hold"), since=f" from {first} on" if first else "")


def _unequal(reference: Row, row: Row, first: int, rows: Rows) -> Iterator[Sentence]:
    name, end, own = _name(reference), reference["log_end_offset"], row["log_end_offset"]
    start, own_start = reference["log_start_offset"] or 0, row["log_start_offset"] or 0
    behind = render_count(abs(end - own), "offset")
    if own <= own_start:
        side = "past" if own > end else "before"
        yield EMPTY_ELSEWHERE.say(broker=row["broker_id"], end=own, distance=behind, side=side, reference=name)
    elif first >= min(end, own):
        held, other = name_offsets(own_start, own), name_offsets(start, end) if end > start else "nothing"
        yield NO_OVERLAP.say(broker=row["broker_id"], held=held, reference=name, other=other)
    elif own > end:
        is_lost = any(item["code"] == "REP-LEADER-SHORTER" for item in rows["findings"])
        why = f"{name} lost its tail" if is_lost else f"it was copied later, or {name} lost its tail"
        yield LONGER.say(broker=row["broker_id"], reference=name, ahead=behind, end=own, why=why)
    else:
        since = f" from {first} on" if own_start != start else ""
        yield SHORTER.say(broker=row["broker_id"], reference=name, since=since, behind=behind, end=own)


def _by_findings(rows: Rows) -> tuple[set[int], set[int], set[int]]:
    """Brokers that differ, those that only a cleaner made different, and those that may hold anything."""
    differing = {row["broker_id"] for row in rows["divergences"]}
    cleaned, doubtful = set(), set()
    for row in rows["findings"]:
        code, broker = row["code"], row["broker_id"]
        if code == "DIV-PRESENCE" and row["severity"] == "info":
            cleaned.add(broker)
        elif code in codes_with("difference"):
            differing.add(broker)
        elif (
            code in codes_with("doubt")
            and at_or_above(row["severity"], "medium")
            or code == "DIV-FORMAT"
            and row["confidence"] != "proven"
        ):
            doubtful.add(broker)
    return differing, cleaned - differing, doubtful


def _name(reference: Row) -> str:
    broker = f"broker {reference['broker_id']}"
    return f"the leader ({broker})" if reference["is_leader"] else broker

"""One partition in sentences: who leads, what is committed, who agrees, who differs, what the next truncation does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.report.facts.by_partition import Row, Rows, present
from replica_audit.report.facts.conditions import may_have_lost
from replica_audit.report.facts.notable_findings import not_retold
from replica_audit.report.facts.partition_facts import (
    Agreement,
    DifferingRun,
    LeadershipChange,
    Truncation,
    find_agreement,
    find_changes,
    find_leading,
    find_runs,
    find_truncations,
)
from replica_audit.report.layout import clean, render_count
from replica_audit.report.sentences import (
    SOURCES,
    Sentence,
    Template,
    capitalise,
    end_sentence,
    join_words,
    name_brokers,
    name_offsets,
    verb,
)
from replica_audit.text import render_time

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


#: How many runs of one replica the story has; the tables below the story have them all.
RUN_LIMIT = 3
OTHER_EPOCH = Template(
    "At {where} broker {broker} has {records} of epoch {epoch}{written}, where broker {reference} has those of epoch "
    "{other}{fate}."
)
PAST_END = Template(
    "At {where} broker {broker} has {records} of epoch {epoch}{written}; the log of broker {reference} ends at {end}{fate}."
)
SAME_EPOCH = Template(
    "At {where} broker {broker} has {records} of epoch {epoch}{written}, and broker {reference} has others of the same "
    "epoch{fate}."
)
WITHOUT_EPOCH = Template(
    "At {where} broker {broker} has {records}{written}, and broker {reference} has others; {whose} format has no leader "
    "epochs{fate}."
)
NOT_THERE = Template("At {where} broker {broker} has {records}{written}, and broker {reference} has none{fate}.")
HOLE = Template("At {where} broker {broker} has no records, where broker {reference} has some{of_epoch}.")
MORE_RUNS = Template("Broker {broker} differs in {places} more, listed below.")
CUT = Template("When broker {broker} follows, {how}it cuts its log at {cut}: *{range} {go} with it*{committed}.")
CUT_NOTHING = Template("When broker {broker} follows, {how}it cuts its log at {cut}, which removes no record.")
KEPT = Template(
    "Broker {broker} keeps everything up to {cut} although it differs from {prefix} on: *no truncation will ever repair "
    "that*."
)
OTHER_PROTOCOL = Template("Under {protocols} broker {broker} would keep everything up to {cut}{unseen}.")


def tell_differences(rows: Rows) -> Iterator[Sentence]:
    """One sentence for each run of differing records, by broker."""
    for broker_id, runs in find_runs(rows).items():
        yield from map(_tell_run, runs[:RUN_LIMIT])
        if len(runs) > RUN_LIMIT:
            yield MORE_RUNS.say(broker=broker_id, places=render_count(len(runs) - RUN_LIMIT, "place"))


def _tell_run(run: DifferingRun) -> Sentence:
    row, epoch, other = run.row, run.epoch, run.other_epoch
    written = ""
    if row["first_timestamp_ms"] is not None:
        written = f", written {_span(row['first_timestamp_ms'], row['last_timestamp_ms'])}"
    values = {
        "where": name_offsets(row["start_offset"], row["end_offset"]),
        "broker": row["broker_id"],
        "reference": row["reference_id"],
        "records": render_count(row["record_count"], "record"),
        "written": written,
        "fate": _fate(run),
    }
    if run.kind == "hole":
        return HOLE.say(**values, of_epoch="" if other is None else f" of epoch {other}")
    if run.kind == "past_end":
        if epoch is not None:
            return PAST_END.say(**values, epoch=epoch, end=run.reference_end)
        values["records"] += ", which carry no leader epoch,"
        return NOT_THERE.say(**values)
    if run.kind == "not_there":
        values["records"] += f" of epoch {epoch}"
        return NOT_THERE.say(**values)
    if run.kind == "without_epoch":
        whose = "the former's" if other is not None else "the latter's" if epoch is not None else "their"
        return WITHOUT_EPOCH.say(**values, whose=whose)
    return (SAME_EPOCH if run.kind == "same_epoch" else OTHER_EPOCH).say(**values, epoch=epoch, other=other)


def _fate(run: DifferingRun) -> str:
    """What is known of the records' commitment."""
    row = run.row
    if not row["committed"]:
        return "; nothing proves that they were committed"
    count, proof = row["committed_records"], row["committed_evidence"]
    said = "they were committed" if run.wholly_committed else f"{count} of them {verb(count, 'was', 'were')} committed"
    return f"; {said}" + (f": {proof}" if proof else "")


def tell_truncations(rows: Rows, protocol: str) -> Iterator[Sentence]:
    """What the truncation by `protocol` does to each follower, and where others would end elsewhere."""
    for one in find_truncations(rows, protocol):
        broker, cut = one.broker_id, one.row["truncate_to"]
        if one.cuts:
            yield _cut(one)
        if one.keeps_difference:
            yield KEPT.say(broker=broker, cut=cut, prefix=one.row["common_prefix_end"])
        for other in one.elsewhere:
            unseen = (
                f", and {name_offsets(*other.unseen)} would stay different, unseen by Kafka" if other.unseen else ""
            )
            protocols = join_words(other.protocols)
            yield OTHER_PROTOCOL.say(protocols=protocols, broker=broker, cut=other.truncate_to, unseen=unseen)


def _cut(one: Truncation) -> Sentence:
    cut, end = one.row["truncate_to"], one.log_end
    values = {"broker": one.broker_id, "cut": cut, "how": _asks(one.row)}
    if end is None or end <= cut:
        return CUT_NOTHING.say(**values)
    committed = ", committed records among them" if one.row["committed_dropped"] else ""
    return CUT.say(**values, range=name_offsets(cut, end), go=verb(end - cut, "goes", "go"), committed=committed)


def _asks(row: Row) -> str:
    """The leader's answers, in the order in which they come."""
    steps = [step for step in row["steps"] or () if step["leader_end_offset"] is not None]
    answers = [
        (step["request_epoch"] if step["leader_epoch"] is None else step["leader_epoch"], step["leader_end_offset"])
        for step in steps
    ]
    said = ", then that ".join(f"epoch {epoch} ends at {end}" for epoch, end in answers)
    return f"broker {row['leader_id']} answers that {said}, and " if answers else ""


def _span(first: int, last: int | None) -> str:
    start, end = render_time(first), render_time(last)
    if last is None or start == end:
        return f"at {start}"
    if start[:11] == end[:11] and end.endswith("Z") and start.endswith("Z"):
        return f"{start[:10]} from {start[11:-1]} to {end[11:-1]} UTC"
    return f"from {start} to {end}"


#: How many changes are shown, the newest.
LIMIT = 6
LEFT_OUT = Template("{changes} of leader or of the replicas in sync {are} left out here.")
NOBODY_LED = Template("At {time} broker {leader} stopped leading and *nobody led*; in sync: {isr}{eligible}.")
BECAME_LEADER = Template("At {time} broker {leader} became leader in epoch {epoch}; in sync: {isr}.")
BECAME_UNCLEANLY = Template(
    "At {time} broker {leader} became leader in epoch {epoch}, *uncleanly*: {why}; in sync: {isr}."
)
ISR_CHANGED = Template("At {time} {changes}; in sync: {isr}.")


def tell_history(states: Sequence[Row]) -> Iterator[Sentence]:
    """One sentence for each of the newest changes of leader or of the replicas in sync, oldest first.

    `states` are rows of partition_states; those without a time (a listing's) are left out.
    """
    changes = find_changes(states)
    if len(changes) > LIMIT:
        left = len(changes) - LIMIT
        yield LEFT_OUT.say(changes=render_count(left, "earlier change"), are=verb(left, "is", "are"))
    yield from map(_tell, changes[-LIMIT:])


def _tell(change: LeadershipChange) -> Sentence:
    later, entitled = change.later, change.entitled
    values = {"time": render_time(later["time_ms"]), "isr": join_words(later["isr"] or ())}
    if change.kind == "nobody_led":
        eligible = f"; eligible: {join_words(later['elr'])}" if later["elr"] else ""
        return NOBODY_LED.say(**values, leader=change.earlier["leader_id"], eligible=eligible)
    if change.kind == "isr_changed":
        parts = [
            f"{name_brokers(brokers)} {verb_} the replicas in sync"
            for brokers, verb_ in ((change.left, "left"), (change.joined, "joined"))
            if brokers
        ]
        return ISR_CHANGED.say(**values, changes=" and ".join(parts))
    values.update(leader=later["leader_id"], epoch=later["leader_epoch"])
    if change.kind == "became_leader":
        return BECAME_LEADER.say(**values)
    who = f"only {name_brokers(entitled)}" if entitled else "nobody"
    return BECAME_UNCLEANLY.say(**values, why=f"{who} {verb(len(entitled) or 1, 'was', 'were')} in sync or eligible")


#: How many findings the story has; the tables below it have them all.
FINDING_LIMIT = 4
LEADS = Template("*Broker {leader} leads*{epoch} ({source}); {isr}.")
TAKEN_FOR_LEADER = Template(
    "*Broker {leader} is taken for the leader*{epoch}: nothing says who leads, and it has the newest leader epoch, then "
    "the longest log; {isr}."
)
COMPARED_INSTEAD = Template("The other replicas are compared with broker {reference}: {why}.")
NOBODY_LEADS = Template("*Nobody leads*: nothing can be written or read; {isr}{eligible}.")
ALL_STOPPED = Template("*Nobody leads*, since all brokers here were stopped cleanly; {isr}{eligible}.")
DELETED = Template("*The topic was deleted*: nobody leads it, and brokers remove what is left of it.")
STANDS_IN = Template("The other replicas are compared with broker {reference}{why}.")
NOTHING_COMPARED = Template("The snapshot has no replica of this partition that could be read.")
HW_EXACT = Template("The high watermark is *exactly {lower}*{proof}.")
HW_AT_LEAST = Template("The high watermark is *at least {lower}*{proof}.")
HW_BETWEEN = Template("The high watermark is *between {lower} and {upper}*{proof}.")
MAY_HAVE_LOST = Template(
    "What broker {leader} did not have when it was elected uncleanly in epoch {epoch} may be lost; these files cannot "
    "tell."
)
#: By `Leading.kind`.
_LEADING = {
    "leads": LEADS,
    "taken": TAKEN_FOR_LEADER,
    "nobody": NOBODY_LEADS,
    "deleted": DELETED,
    "all_stopped": ALL_STOPPED,
    "nothing_compared": NOTHING_COMPARED,
}


def tell_story(partition: Row, rows: Rows, protocol: str) -> list[Sentence]:
    """Sentences in the order in which things happened and will happen; `protocol` is the one whose truncation is
    described."""
    return [
        *tell_history(rows.get("partition_states", ())),
        *_past_elections(rows),
        *_leadership(partition, rows),
        *tell_agreement(rows),
        *tell_differences(rows),
        *_high_watermark(rows),
        *tell_truncations(rows, protocol),
        *_other_findings(rows),
    ]


def _past_elections(rows: Rows) -> Iterator[Sentence]:
    """Unclean elections that left nothing behind on any captured replica; those that did are among the differences."""
    for row in filter(may_have_lost, present(rows["findings"])):
        epoch = next((item["value"] for item in row["evidence"] or () if item["kind"] == "leadership"), "-")
        yield MAY_HAVE_LOST.say(leader=row["broker_id"], epoch=epoch)


#: Why the others are compared with a replica that does not lead, by `Leading.instead`.
_INSTEAD = {
    "later_epoch": "it has records of a later leader epoch",
    "no_files": "the snapshot has no files of the leader",
    "led_last": ", which led last",
    "newest": ", whose log is the newest of those that may lead",
}


def _leadership(partition: Row, rows: Rows) -> Iterator[Sentence]:
    leading, reference, isr = find_leading(partition, rows), partition["reference_id"], partition["isr"]
    values = {
        "leader": partition["leader_id"],
        "epoch": "" if partition["leader_epoch"] is None else f" in leader epoch {partition['leader_epoch']}",
        "isr": "which replicas are in sync is not known" if isr is None else f"in sync: {join_words(isr)}",
        "eligible": f"; eligible: {join_words(leading.eligible)}" if leading.eligible else "",
        "source": "nothing more is known" if leading.source is None else SOURCES.get(leading.source, ""),
    }
    yield _LEADING[leading.kind].say(**values)
    if leading.instead is not None:
        template = COMPARED_INSTEAD if leading.kind == "leads" else STANDS_IN
        yield template.say(reference=reference, why=_INSTEAD[leading.instead])


def _high_watermark(rows: Rows) -> Iterator[Sentence]:
    for row in rows["high_watermarks"]:
        lower, upper = row["hw_lower"], row["hw_upper"]
        proofs = [text for text in (row["lower_evidence"], row["upper_evidence"]) if text]
        proof = f": {' and '.join(dict.fromkeys(proofs))}" if proofs else ""
        if row["exact"]:
            yield HW_EXACT.say(lower=lower, proof=proof)
        elif upper is None:
            yield HW_AT_LEAST.say(lower=lower, proof=proof)
        else:
            yield HW_BETWEEN.say(lower=lower, upper=upper, proof=proof)


def _other_findings(rows: Rows) -> Iterator[Sentence]:
    for row in not_retold(rows["findings"])[:FINDING_LIMIT]:
        yield (end_sentence(clean(row["message"] or row["code"])),)

"""The answer of an audit in a few sentences: the headline, what the verdicts leave out, the worst partitions, and what to do first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from replica_audit.elect.cluster_state import METADATA_IN_DOUBT, tell_voteless
from replica_audit.elect.cost_words import ask_for_copies, hold_until_brought, say_uncaptured
from replica_audit.literals import RemoteBasis
from replica_audit.model import OffsetRange, TopicPartition
from replica_audit.report.facts.conditions import Conditions, places_of
from replica_audit.report.facts.losses import PlaceLoss, Total
from replica_audit.report.facts.outcome import CASE_LIMIT, Outcome, WorstCase, find_outcome
from replica_audit.report.layout import clean, name_bound
from replica_audit.report.sentences import (
    Sentence,
    join_some,
    join_words,
    name_partitions,
    plain_text,
    say,
    say_unproven,
    tell_finding,
)
from replica_audit.report.verdict_object import VerdictObject
from replica_audit.report.what_to_do import WhatToDo, tell_what_to_do
from replica_audit.results import WANTED_FILE, Results, place_of
from replica_audit.schema import PartitionRow
from replica_audit.text import capitalise, count, name_brokers, name_remote_bases, render_time, verb

#: Short phrase for each verdict.
VERDICT_WORDS = {
    "COMMITTED_LOSS": "committed records lost",
    "COMMITTED_DIVERGENCE": "differing for good",
    "LATENT_CORRUPTION": "damaged",
    "WILL_LOSE_ON_TRUNCATION": "about to lose records",
    "INCONCLUSIVE": "inconclusive",
    "UNCOMMITTED_DIVERGENCE": "differing, uncommitted",
    "LAGGING": "lagging",
    "CONSISTENT": "consistent",
}


class WorstPartition(NamedTuple):
    """A partition with the worst verdict, and a sentence on what is wrong with it."""

    topic: str
    partition: int
    sentence: str


class Answer(NamedTuple):
    """The answer in words; `tone` is bad, warn, unknown or good."""

    tone: str
    headline: str
    cases: tuple[WorstPartition, ...]
    more: tuple[Sentence, ...]
    todo: WhatToDo


def build_answer(results: Results, verdict: VerdictObject) -> Answer:
    """Build the answer to `results`; `verdict` is the content of its verdict.json.

    After a proven loss, possible further losses go below the headline, as does what was not checked where something is wrong.
    """
    outcome = find_outcome(results, verdict["untrusted"], verdict["verdict"])
    if outcome is None:
        nothing = say("No partition was found.")
        return Answer("unknown", plain_text(nothing), (), tuple(_tell_untrusted(verdict)), WhatToDo())
    doubts = list(_tell_doubts(outcome.conditions))
    unchecked = list(_tell_unchecked(outcome.conditions))
    headline = [
        _tell_headline(outcome),
        *_tell_unproven(outcome),
        *_tell_outranked(outcome),
        *_tell_gone(outcome),
        *_tell_needed(outcome.conditions),
        *_tell_wanted(outcome.conditions, results),
        *_tell_urgent(outcome.conditions),
    ]
    more: list[Sentence] = []
    if outcome.is_loss:
        more += doubts
    else:
        headline += doubts
    if outcome.is_calm:
        headline += _tell_compared(outcome.conditions, outcome.kind)
        headline += unchecked
    headline += _tell_heads(outcome.conditions)
    headline += _tell_since(results)
    more += map(tell_finding, outcome.unplaced[:CASE_LIMIT])
    more += _tell_sums(outcome)
    more += _tell_others(outcome)
    if not outcome.is_calm:
        more += unchecked
    more += _tell_untrusted(verdict)
    return Answer(
        tone=outcome.tone,
        headline=" ".join(map(plain_text, headline)),
        cases=tuple(map(_case, outcome.cases)),
        more=tuple(more),
        todo=tell_what_to_do(results),
    )


#: Subject of a sentence on a loss without any record.
_ENDS = "Ends of transactions, or empty batches, but no records,"
#: Number of partitions that a headline names.
_NAMED = 3


def _tell_headline(outcome: Outcome) -> Sentence:
    affected = outcome.affected
    of = len(outcome.partitions)
    where = _where(affected, of)
    match outcome.kind:
        case "lost" | "lost_leaderless":
            return _tell_lost(outcome, where)
        case "lost_uncounted":
            return say(f"Committed records are lost in {where}.")
        case "lost_markers":
            return say(
                f"Other replicas hold offsets that the leader does not have in {where}: ends of transactions, or empty or "
                "damaged batches, but no sound record."
            )
        case "perhaps":
            records = capitalise(_count_records(outcome.total, outcome.total.records, "record"))
            exist = _tell_holders(outcome.total.records, sorted(outcome.holders))
            return say(f"{records}, perhaps acknowledged, {exist}, in {where}.")
        case "gone_since":
            what = "Records" if outcome.conditions.gone else _ENDS
            return say(f"{what} that an earlier audit saw are gone from every replica in {where}.")
        case "gone_for_good":
            return say(f"Records that were committed are no longer on any replica here, in {where}.")
        case "differ":
            return _tell_differing(affected, of)
        case "damaged":
            return _tell_damaged(outcome, affected)
        case "isr_short":
            return say(f"An in-sync replica lacks committed records in {where}: electing it would lose them.")
        case "will_lose":
            return say(f"The next truncation or election may lose records in {where}.")
        case "undecided" if affected == of > 2:
            return say(f"None of the {of} partitions could be judged.")
        case "undecided":
            return say(f"{capitalise(where)} could not be judged.")
        case "left_behind":
            return say(f"Replicas differ in {where}, but only in what a clean election left behind.")
        case "none_lacked":
            return say(f"Replicas differ in {where}, but the leader has every record that producers sent.")
        case "equal_content":
            return say(f"Replicas differ in {where}, but the leader has records of equal content.")
        case "unproven":
            return say(f"Replicas differ in {where}, but only in records that nothing proves committed.")
        case "behind":
            return say(f"Nothing is lost; replicas are behind or out of sync in {where}.")
        case "behind_only":
            return say(f"The captured replicas agree, but some are behind or out of sync in {where}.")
        case "peace":
            return say(f"All is well: {where} {verb(affected, 'is', 'are')} consistent.")
        case "agree":
            return say(f"The captured replicas agree in {where}.")
        case "alone" | "single":
            return _tell_nothing_compared(outcome.kind, affected, of)
    raise ValueError(outcome.kind)


def _tell_nothing_compared(kind: str, affected: int, of: int) -> Sentence:
    """Sentence on partitions with one captured replica (alone), or with one replica at all (single)."""
    is_everywhere = affected == of
    where = "" if is_everywhere else f" in {_where(affected, of)}"
    if kind == "alone":
        each = verb(of, "", " of each partition") if is_everywhere else verb(affected, " of it", " of each")
        return say(f"Nothing was compared{where}: only one replica{each} is in the snapshot.")
    each = verb(of, "the only partition", "each partition") if is_everywhere else verb(affected, "it", "each")
    return say(f"Nothing was compared{where}: {each} has one replica.")


def _tell_outranked(outcome: Outcome) -> Iterator[Sentence]:
    """Sentence on the worst verdict if the headline is a loss that goes before it (F.8)."""
    affected = sum(row.verdict == outcome.worst for row in outcome.partitions)
    if outcome.outranked == "differ":
        yield _tell_differing(affected, len(outcome.partitions))
    elif outcome.outranked == "damaged":
        yield _tell_damaged(outcome, affected)


def _tell_differing(affected: int, of: int) -> Sentence:
    return say(f"Replicas hold different records in {_where(affected, of)}, and no truncation will repair that.")


def _tell_damaged(outcome: Outcome, affected: int) -> Sentence:
    of = len(outcome.partitions)
    where = _where(affected, of)
    of_brokers = f" of {name_brokers(outcome.damaged)}" if outcome.damaged else ""
    if affected < of and affected <= _NAMED:
        where = f"{name_partitions([place_of(row) for row in outcome.partitions[:affected]])}, {where}"
    whole = "" if outcome.whole is None else f"; the copy of broker {outcome.whole} is whole"
    return say(f"Files{of_brokers} are damaged or contradict each other in {where}{whole}.")


def _tell_lost(outcome: Outcome, where: str) -> Sentence:
    number = outcome.total.committed
    records = capitalise(_count_records(outcome.total, number, "committed record"))
    are = verb(number, "is", "are")
    them = verb(number, "it", "them")
    holders = sorted(broker for broker, held in outcome.holders.items() if held.committed)
    there = {one for one in outcome.stored if one.form not in ("incomplete", "absent") and one.basis != "differs"}
    lacking = outcome.stored - there
    named = [name_brokers(holders)] if holders else []
    if there:
        named.append("remote storage")
    if not named:
        nor = ", nor has the remote store the whole of their segments" if lacking else ""
        return say(f"{records} {are} missing from the leader in {where}; no replica in the snapshot has {them}{nor}.")
    held = sum(outcome.holders[broker].committed for broker in holders)
    if there or held >= number:
        some = "some of " if lacking and not holders else ""
    else:  # a copy of it in remote storage was deleted, or only a checkpoint shows it
        some = f"{held} of " if len(holders) == 1 else "some of "
    still = f"{' and '.join(named)} still {verb(len(holders) + bool(there), 'has', 'have')} {some}{them}"
    still += _tell_bases([one.basis for one in there if one.basis is not None], is_alone=not holders)
    forms = {one.form for one in there}
    if "encrypted" in forms:
        which = verb(number, "it is", "they are") if forms == {"encrypted"} else "some are"
        still += f"; there {which} encrypted, and only the brokers' plugin can read {verb(number, 'it', 'them')}"
    log = "the leader" if outcome.kind == "lost" else "the log that the others are compared with"
    return say(f"{records} {are} missing from {log} in {where}; {still}.")


def _tell_unproven(outcome: Outcome) -> Iterator[Sentence]:
    """Sentence on the counted loss where findings call it less than proven that the records were committed."""
    known = outcome.total.committed_places
    unproven = [row for row in outcome.conditions.unproven if place_of(row) in known]
    if not unproven:
        return
    places = list(dict.fromkeys(places_of(unproven)))
    where = "" if len(places) == len(known) else f" in {name_partitions(places)}"
    were = verb(outcome.total.committed, "it was", "all of them were")
    yield say(f"That {were} committed{where} is {say_unproven(unproven)}.")


def _tell_bases(bases: Collection[RemoteBasis], *, is_alone: bool) -> str:
    """Ending of a clause on what remote storage has: the evidence for it; `is_alone` if no replica has it."""
    if not bases:
        return ""
    of_it = ": " if is_alone else "; of remote storage: "
    return f"{of_it}{name_remote_bases(bases)}"


def _count_records(total: Total, number: int, noun: str) -> str:
    """Number and noun of lost records, e.g. "at most 41 committed records"."""
    return f"{name_bound(at_most=total.at_most, at_least=total.at_least)}{count(number, noun)}"


def _where(number: int, of: int) -> str:
    if number == of:
        return {1: "the only partition", 2: "both partitions"}.get(of, f"all {of} partitions")
    return f"{number} of {of} partitions"


def _tell_gone(outcome: Outcome) -> Iterator[Sentence]:
    """Sentence on committed records that the headline does not count because no replica has them."""
    if outcome.gone:
        yield say(f"Committed records of {name_partitions(outcome.gone)} are no longer on any replica here.")


def _tell_needed(conditions: Conditions) -> Iterator[Sentence]:
    """Sentences on replicas that were not captured and may hold committed records, those of the most partitions first."""
    for one in conditions.needed:
        number = len(one.brokers)
        brokers = capitalise(name_brokers(one.brokers))
        were = verb(number, "was", "were")
        places = name_partitions(one.places)
        act = ask_for_copies(number, one.is_up)
        if one.state == "awaited":
            continue  # the step that copies them has its own sentence
        if one.state == "partial":
            yield say(f"{brokers} {were} not captured whole and may hold more committed records of {places}: {act}.")
        elif one.state == "absent":
            them = verb(len(one.places), "it", "them")
            yield say(f"{brokers} {were} captured without {places} and may hold committed records of {them}: {act}.")
        else:
            yield say(f"{brokers} {say_uncaptured(number)} of {places}: {act}.")


def _tell_urgent(conditions: Conditions) -> Iterator[Sentence]:
    """Sentences on what is urgent: doubtful metadata, a missing leader, a transaction that never ended."""
    if conditions.quorum:
        yield say(f"{capitalise(METADATA_IN_DOUBT)}: start no controller before all of them are copied.")
    elif conditions.lost_quorum:
        why = capitalise(tell_voteless(conditions.lost_quorum))
        yield say(f"{why}: start no controller before the metadata log of every node is copied.")
    if conditions.leaderless:
        places = places_of(conditions.leaderless)
        partitions = f"{count(len(places), 'partition')} {verb(len(places), 'has', 'have')}"
        yield say(f"{partitions} no leader: {name_partitions(places)}.")
    if conditions.deleted:
        topics = name_partitions(conditions.deleted)
        yield say(f"The metadata log has deleted the topic of {topics}: brokers remove what is left of it.")
    if conditions.hanging:
        places = places_of(conditions.hanging)
        if len(places) == 1:
            where = f"at offset {min(row.start_offset or 0 for row in conditions.hanging)} of {name_partitions(places)}"
            yield say(f"A transaction that will never end stops read_committed consumers {where}.")
        else:
            where = name_partitions(places)
            yield say(f"Transactions that will never end stop read_committed consumers in {where}.")


def _tell_doubts(conditions: Conditions) -> Iterator[Sentence]:
    """Sentences on records that are or may be lost although the captured replicas agree."""
    for what, rows in (("Records", conditions.gone), (_ENDS, conditions.gone_ends)):
        if rows:
            yield say(
                f"{what} that an earlier audit saw in {name_partitions(places_of(rows))} are gone from every replica."
            )
    if conditions.past:
        times = conditions.past_times
        day = render_time(max(times))[:10] if times else "a day that is not known"
        lost = f"may have lost records in {name_partitions(places_of(conditions.past))}; these files cannot tell"
        if len(conditions.past) == 1:
            yield say(f"An unclean election on {day} {lost}.")
        else:
            yield say(f"Unclean elections, the last on {day}, {lost}.")
    if conditions.returns:
        places = name_partitions([one.place for one in conditions.returns])
        day = render_time(max(one.time_ms for one in conditions.returns))[:10]
        if len(conditions.returns) == 1:
            yield say(
                f"The last replica in sync of {places} dropped out without a controlled shutdown and led again on {day}: "
                "if it crashed, it may have lost the end of its log, and these files cannot tell."
            )
        else:
            yield say(
                f"The last replicas in sync of {places} dropped out without a controlled shutdown and led again, the last "
                f"of them on {day}: those that crashed may have lost the ends of their logs, and these files cannot tell."
            )
    if conditions.cuts:
        cutting = sorted({row.broker_id for row in conditions.cuts if row.broker_id is not None})
        brokers = capitalise(name_brokers(cutting)) if cutting else "A broker"
        logs = verb(len(cutting) or 1, "its log below its own", "their logs below their own")
        places = name_partitions(places_of(conditions.cuts))
        yield say(f"{brokers} cut {logs} high watermark in {places}; these files cannot tell what was lost by it.")
    if conditions.restart_cuts:
        starting = sorted({row.broker_id for row in conditions.restart_cuts})
        start = verb(len(starting), "starts, it cuts", "start, they cut")
        logs = verb(len(starting), "its log", "their logs")
        places = name_partitions(places_of(conditions.restart_cuts))
        yield say(
            f"When {name_brokers(starting)} {start} committed records off {logs} in {places}; only a leader that stays up "
            "has them."
        )
    if found := conditions.about_to_go:
        number = sum(one.records for one in found)
        records = f"{count(number, 'lost record')} of {name_partitions([one.place for one in found])}"
        directories = join_some([path for one in found for path in one.directories], 4, "place")
        unproven = f"; nothing proves that {verb(number, 'it was', 'they were')} committed"
        yield say(
            f"{records} {verb(number, 'is', 'are')} only in files that Kafka is about to delete (*.deleted), in "
            f"{directories}{'' if any(one.is_proven for one in found) else unproven}."
        )
    if second := conditions.compared.second_copies:
        brokers = name_brokers(sorted({broker_id for _, broker_id in second}))
        places = name_partitions(list(dict.fromkeys(place for place, _ in second)))
        yield say(f"A second copy on {brokers} was not used in {places}.")
    if conditions.no_files:
        number = len({(*place_of(row), row.broker_id) for row in conditions.no_files})
        replicas = f"{count(number, 'replica')} of {name_partitions(places_of(conditions.no_files))}"
        it, holds = verb(number, "it", "they"), verb(number, "holds", "hold")
        yield say(f"The files of {replicas} are missing or could not be read: what {it} {holds} is not known.")


def _tell_compared(conditions: Conditions, kind: str) -> Iterator[Sentence]:
    """Sentences on copies without a counterpart to compare with, and on records whose absence would leave no trace; `kind` is
    the outcome's."""
    compared = conditions.compared
    if compared.alone and kind != "alone":
        alone = name_partitions(compared.alone)
        yield say(f"Only one replica of {alone} is in the snapshot, and nothing was compared with it.")
    if compared.single and kind != "single":
        yield say(f"There is one replica of {name_partitions(compared.single)}, and nothing to compare with it.")
    if compared.unassigned:
        least = min(compared.copies)
        most = max(compared.copies)
        copies = f"{least} copies" if least == most else f"{least} to {most} copies"
        places = name_partitions(compared.unassigned, of=compared.unassigned_count)
        yield say(
            f"No source says which replicas of {places} exist: {copies} were compared, and one that is not here may hold more."
        )


def _tell_heads(conditions: Conditions) -> Iterator[Sentence]:
    """Sentence on logs that were not read from their start: the offset from which they were compared."""
    first: dict[TopicPartition, int] = {}
    for row in conditions.unseen_heads:
        if row.topic is not None and row.partition is not None and row.end_offset is not None:
            place = TopicPartition(row.topic, row.partition)
            first[place] = max(row.end_offset, first.get(place, 0))
    if len(first) == 1:
        ((place, offset),) = first.items()
        yield say(
            f"The logs of {name_partitions([place])} were compared from offset {offset} on; what is below is not known."
        )
    elif first:
        places = name_partitions(sorted(first))
        yield say(f"The logs of {places} were compared from an offset after their start; what is below is not known.")


def _tell_since(results: Results) -> Iterator[Sentence]:
    since = results.options.get("since")
    if since:
        above = f"above the offsets that audit {clean(since)} verified"
        yield say(f"Only what lies {above}, and what has changed since, was compared.")


def _case(case: WorstCase) -> WorstPartition:
    row = case.partition
    if case.loss is not None:
        text = plain_text(_tell_loss(row, case.loss))
    elif case.finding is not None:
        text = plain_text(tell_finding(case.finding))
    else:
        text = capitalise(VERDICT_WORDS[row.verdict])
    return WorstPartition(row.topic, row.partition, text)


def _tell_loss(row: PartitionRow, loss: PlaceLoss) -> Sentence:
    """Sentence on records that the leader lacks and the brokers that still have them."""
    number = loss.records
    noun = "committed record" if loss.committed else "record"
    bound = capitalise(name_bound(at_most=row.lost_at_most, at_least=row.lost_at_least))
    records = f"{bound}{count(number, noun)} at {_name_ranges(loss.ranges)}"
    brokers = name_brokers(loss.brokers)
    if loss.committed:
        leader = f"{'the leader, ' if row.leader_id == row.reference_id else ''}broker {row.reference_id}"
        lacked = f"{records} {verb(number, 'is', 'are')} not on {leader}"
        have = f"{brokers} still {verb(len(loss.brokers), 'has', 'have')}"
        if loss.in_parts:
            return say(f"{lacked}; {brokers} still have them, each a part of them.")
        return say(f"{lacked}; {have} {verb(number, 'it', 'them')}.")
    acks = "" if loss.promised is None else "; acks=all promised none of them"
    if loss.promised:
        acks = f"; acks=all may have promised {'all' if loss.promised == number else loss.promised} of them"
    were = verb(number, "it was", "they were")
    return say(f"{records} {_tell_holders(number, loss.brokers)}; nothing proves that {were} committed{acks}.")


def _tell_holders(records: int, brokers: Sequence[int]) -> str:
    """Verb and place of lost records; without `brokers` (records of an earlier evidence) none has them any more."""
    if not brokers:
        return f"{verb(records, 'is', 'are')} on no broker any more"
    return f"{verb(records, 'exists', 'exist')} only on {name_brokers(brokers)}"


def _name_ranges(ranges: Sequence[OffsetRange]) -> str:
    where = join_words(
        [f"{one.start_offset} to {one.end_offset - 1}" if one.size > 1 else one.start_offset for one in ranges[:3]]
    )
    single = len(ranges) == 1 and ranges[0].size == 1
    return f"offset{'' if single else 's'} {where}{'' if len(ranges) <= 3 else ' and more'}"


def _tell_sums(outcome: Outcome) -> Iterator[Sentence]:
    total = outcome.total
    if outcome.adds_up:
        records = _count_records(total, total.records, "record")
        are = verb(total.records, "is", "are")
        committed = "nothing proves that any of them was committed"
        if total.committed:
            committed = (
                f"{total.committed} of them {verb(total.committed, 'was', 'were')} committed, as far as is known"
            )
        yield say(f"In all, {records} that the leaders do not have {are} on other brokers; {committed}.")
    if outcome.uncounted:
        yield say(f"In {count(outcome.uncounted, 'partition')} it is not known how many records are lost.")


def _tell_others(outcome: Outcome) -> Iterator[Sentence]:
    if outcome.others:
        counts = join_words([f"{number} {VERDICT_WORDS[name]}" for name, number in outcome.others.items()])
        yield say(f"Other partitions: {counts}.")


def _tell_wanted(conditions: Conditions, results: Results) -> Iterator[Sentence]:
    """Sentence on the bytes that the evidence lacks, and how to collect them."""
    if wanted := conditions.wanted:
        brokers = sorted({one.broker_id for one in wanted})
        places = name_partitions(list(dict.fromkeys(one.place for one in wanted)))
        size = count(sum(one.bytes for one in wanted), "byte")
        command = results.command("show", "--wanted", WANTED_FILE)
        yield say(
            f"Bytes of {name_brokers(brokers)} that were not collected are needed for {places}, {size} in all: {command} names them, "
            f"and capture-plan --wanted {WANTED_FILE} collects only these."
        )
        if awaited := [one for one in conditions.needed if one.state == "awaited" and not one.is_up]:
            held = sorted({broker for one in awaited for broker in one.brokers})
            yield say(f"{hold_until_brought(held, all(one.is_up is False for one in awaited))}.")
    if moved := places_of(conditions.moved):
        it = verb(len(moved), "it", "them")
        codes = sorted({row.code for row in conditions.doubted})
        what = f"what looks wrong ({', '.join(codes)})" if codes else "what looks wrong"
        command = results.command("show", "--wanted", WANTED_FILE)
        yield say(
            f"{name_partitions(moved)} moved while being collected, and {what} may be due to that: {command} names "
            f"{it}, and capture-plan --wanted {WANTED_FILE} reads {it} again on all brokers."
        )


def _tell_unchecked(conditions: Conditions) -> Iterator[Sentence]:
    """Sentence on batches whose headers alone are in the evidence."""
    if found := conditions.unchecked:
        brokers = name_brokers(sorted({one.broker_id for one in found}))
        number = sum(one.batches for one in found)
        of = sum(one.of for one in found)
        yield say(
            f"Damage inside {number:,} of the {of:,} batches of {brokers} would not be seen: only their headers were collected, "
            "and no checksums computed."
        )


def _tell_untrusted(verdict: VerdictObject) -> Iterator[Sentence]:
    if reason := verdict["untrusted"]:
        yield say("", "Not all of this can be trusted", f": {clean(reason)}.")

"""The answer of a whole audit in a few sentences: the headline, what no verdict says, the worst partitions and what to do first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replica_audit.elect.cluster_state import METADATA_IN_DOUBT
from replica_audit.elect.cost_words import ask_for_copies, say_uncaptured
from replica_audit.report.facts.conditions import Conditions, places_of
from replica_audit.report.facts.losses import PlaceLoss
from replica_audit.report.headline import NO_PARTITION, Outcome, WorstCase, count_records, find_outcome, tell_headline
from replica_audit.report.layout import clean, name_bound, render_count
from replica_audit.report.sentences import (
    Sentence,
    Template,
    capitalise,
    decapitalise,
    join_some,
    join_words,
    name_partitions,
    plain_text,
    tell_finding,
    verb,
)
from replica_audit.report.verdict_object import VerdictObject
from replica_audit.report.what_to_do import WhatToDo, tell_what_to_do
from replica_audit.results import Results, place_of
from replica_audit.schema import PartitionRow
from replica_audit.text import name_brokers, render_time

QUORUM = Template(f"{capitalise(METADATA_IN_DOUBT)}: start no controller before all of them are copied.")
NO_LEADER = Template("{partitions} {have} no leader: {places}.")
DELETED = Template("The metadata log has deleted the topic of {places}: brokers remove what is left of it.")
HANGING = Template("A transaction that will never end stops read_committed consumers at offset {offset} of {places}.")
HANGING_IN_MANY = Template("Transactions that will never end stop read_committed consumers in {places}.")
PAST_ELECTION = Template("An unclean election on {day} may have lost records in {places}; these files cannot tell.")
PAST_ELECTIONS = Template(
    "Unclean elections, the last on {day}, may have lost records in {places}; these files cannot tell."
)
RETURNED = Template(
    "The last replica in sync of {places} dropped out without a controlled shutdown and led again on {day}: if it crashed, it "
    "may have lost the end of its log, and these files cannot tell."
)
RETURNED_IN_MANY = Template(
    "The last replicas in sync of {places} dropped out without a controlled shutdown and led again, the last of them on {day}: "
    "those that crashed may have lost the ends of their logs, and these files cannot tell."
)
GONE = Template("Records that an earlier audit saw in {places} are gone from every replica.")
NEEDED = Template("{brokers} {uncaptured} of {places}: {act}.")
NEEDED_WHOLE = Template("{brokers} {was} not captured whole and may hold more committed records of {places}: {act}.")
NEEDED_ELSEWHERE = Template("{brokers} {was} captured without {places} and may hold committed records of {it}: {act}.")
LOGGED_CUTS = Template(
    "{brokers} cut {logs} below {marks} high watermark in {places}; these files cannot tell what was lost by it."
)
RESTART_CUTS = Template(
    "When {brokers} {starts}, {it} {cuts} committed records off {logs} in {places}; only a leader that stays up has them."
)
ABOUT_TO_GO = Template(
    "{records} of {places} {are} only in files that Kafka is about to delete ({pattern}), in {directories}{proof}."
)
SECOND_COPIES = Template("A second copy on {brokers} was not compared in {places}.")
ALONE = Template("Only one replica of {places} is in the snapshot, and nothing was compared with it.")
SINGLE = Template("There is one replica of {places}, and nothing to compare with it.")
UNASSIGNED = Template(
    "No source says which replicas of {places} exist: {copies} were compared, and one that is not here may hold more."
)
NO_FILES = Template("What {replicas} of {places} {hold} is not known: the files are missing or could not be read.")


def tell_urgent(conditions: Conditions) -> Iterator[Sentence]:
    """A sentence for what cannot wait: metadata that is in doubt, no leader, no end of a transaction."""
    if conditions.quorum:
        yield QUORUM.say()
    if conditions.leaderless:
        places = places_of(conditions.leaderless)
        count = len(places)
        partitions = render_count(count, "partition")
        yield NO_LEADER.say(partitions=partitions, have=verb(count, "has", "have"), places=name_partitions(places))
    if conditions.deleted:
        yield DELETED.say(places=name_partitions(conditions.deleted))
    if conditions.hanging:
        places = places_of(conditions.hanging)
        template = HANGING if len(places) == 1 else HANGING_IN_MANY
        offset = min(row.start_offset or 0 for row in conditions.hanging)
        yield template.say(offset=offset, places=name_partitions(places))


def tell_needed(conditions: Conditions) -> Iterator[Sentence]:
    """A sentence for replicas that were not captured and may hold committed records, those of the most partitions first."""
    for one in conditions.needed:
        replicas = len(one.brokers)
        yield {"partial": NEEDED_WHOLE, "absent": NEEDED_ELSEWHERE}.get(one.state, NEEDED).say(
            brokers=capitalise(name_brokers(one.brokers)),
            was=verb(replicas, "was", "were"),
            uncaptured=say_uncaptured(replicas),
            places=name_partitions(one.places),
            it=verb(len(one.places), "it", "them"),
            act=ask_for_copies(replicas, one.is_up),
        )


def tell_compared(conditions: Conditions, kind: str) -> Iterator[Sentence]:
    """A sentence for what was compared with nothing, or may be missing without anything saying so; `kind` is the outcome's."""
    compared = conditions.compared
    if compared.alone and kind != "alone":
        yield ALONE.say(places=name_partitions(compared.alone))
    if compared.single and kind != "single":
        yield SINGLE.say(places=name_partitions(compared.single))
    if compared.unassigned:
        least, most = (count([number for _, number in compared.unassigned]) for count in (min, max))
        yield UNASSIGNED.say(
            places=name_partitions([place for place, _ in compared.unassigned]),
            copies=f"{least} copies" if least == most else f"{least} to {most} copies",
        )


def tell_doubts(conditions: Conditions) -> Iterator[Sentence]:
    """A sentence for what may be lost, or is, though the captured replicas agree."""
    if conditions.gone:
        yield GONE.say(places=name_partitions(places_of(conditions.gone)))
    if conditions.past:
        times = conditions.past_times
        day = render_time(max(times))[:10] if times else "a day that is not known"
        template = PAST_ELECTION if len(conditions.past) == 1 else PAST_ELECTIONS
        yield template.say(day=day, places=name_partitions(places_of(conditions.past)))
    if conditions.returns:
        yield (RETURNED if len(conditions.returns) == 1 else RETURNED_IN_MANY).say(
            day=render_time(max(one.time_ms for one in conditions.returns))[:10],
            places=name_partitions([one.place for one in conditions.returns]),
        )
    if conditions.cuts:
        brokers = sorted({row.broker_id for row in conditions.cuts if row.broker_id is not None})
        yield LOGGED_CUTS.say(
            brokers=capitalise(name_brokers(brokers)) if brokers else "A broker",
            logs=verb(len(brokers) or 1, "its log", "their logs"),
            marks=verb(len(brokers) or 1, "its own", "their own"),
            places=name_partitions(places_of(conditions.cuts)),
        )
    if conditions.restart_cuts:
        brokers = sorted({row.broker_id for row in conditions.restart_cuts})
        yield RESTART_CUTS.say(
            brokers=name_brokers(brokers),
            starts=verb(len(brokers), "starts", "start"),
            it=verb(len(brokers), "it", "they"),
            cuts=verb(len(brokers), "cuts", "cut"),
            logs=verb(len(brokers), "its log", "their logs"),
            places=name_partitions(places_of(conditions.restart_cuts)),
        )
    if found := conditions.about_to_go:
        records = sum(one.records for one in found)
        were = verb(records, "it was", "they were")
        yield ABOUT_TO_GO.say(
            records=render_count(records, "lost record"),
            places=name_partitions([one.place for one in found]),
            are=verb(records, "is", "are"),
            pattern="*.deleted",
            directories=join_some([path for one in found for path in one.directories], 4, "place"),
            proof="" if any(one.is_proven for one in found) else f"; nothing proves that {were} committed",
        )
    if conditions.compared.second_copies:
        places = [place for place, _ in conditions.compared.second_copies]
        brokers = sorted({broker_id for _, broker_id in conditions.compared.second_copies})
        yield SECOND_COPIES.say(brokers=name_brokers(brokers), places=name_partitions(list(dict.fromkeys(places))))
    if conditions.no_files:
        replicas = {(*place_of(row), row.broker_id) for row in conditions.no_files}
        count = len(replicas)
        yield NO_FILES.say(
            replicas=render_count(count, "replica"),
            hold=verb(count, "holds", "hold"),
            places=name_partitions(places_of(conditions.no_files)),
        )


#: Most partitions that are named one by one.
CASE_LIMIT = 3
#: Each verdict in a word or two.
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
LOST_HERE = Template("{records} at {offsets} {are} not on {leader}; {brokers} still {have} {them}.")
LOST_HERE_TOGETHER = Template(
    "{records} at {offsets} {are} not on {leader}; {brokers} still have them, each a part of them."
)
ONLY_HERE = Template(
    "{records} at {offsets} {exist} only on {brokers}; nothing proves that {they} {were} committed{promised}."
)
ALL_LOST = Template(
    "In all, {records} that the leaders do not have {are} on other brokers; {committed} of them {were} proven committed."
)
GONE_TOO = Template("Committed records of {places} are on no replica here any more.")
NOT_COUNTED = Template("In {partitions} it is not known how many records are lost.")
OTHERS = Template("Other partitions: {counts}.")
SINCE = Template(
    "Compared is only what lies above the offsets that audit {audit} verified, and what has changed since."
)
UNTRUSTED = Template("*Not all of this can be trusted*: {reason}.")


@dataclass(frozen=True, slots=True)
class WorstPartition:
    """A partition of the worst verdict, with a sentence on what is wrong."""

    topic: str
    partition: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer in words; `tone` is bad, warn, unknown or good."""

    tone: str
    headline: str
    cases: tuple[WorstPartition, ...]
    more: tuple[Sentence, ...]
    todo: WhatToDo


def build_answer(results: Results, verdict: VerdictObject) -> Answer:
    """The answer of `results`, whose verdict.json is `verdict`."""
    outcome = find_outcome(results, verdict["untrusted"], verdict["verdict"])
    if outcome is None:
        return Answer("unknown", plain_text(NO_PARTITION.say()), (), tuple(_untrusted(verdict)), WhatToDo())
    urgent = tell_urgent(outcome.conditions)
    doubts = list(tell_doubts(outcome.conditions))
    needed = tell_needed(outcome.conditions)
    compared = tell_compared(outcome.conditions, outcome.kind) if outcome.is_calm else ()
    # After a proven loss, possible further losses go below the headline.
    lines = [
        tell_headline(outcome),
        *_gone(outcome),
        *needed,
        *urgent,
        *(() if outcome.is_loss else doubts),
        *compared,
        *_since(results),
    ]
    return Answer(
        tone=outcome.tone,
        headline=" ".join(plain_text(line) for line in lines),
        cases=tuple(map(_case, outcome.cases[:CASE_LIMIT])),
        more=(
            *(doubts if outcome.is_loss else ()),
            *map(tell_finding, outcome.unplaced[:CASE_LIMIT]),
            *_sums(outcome),
            *_others(outcome),
            *_untrusted(verdict),
        ),
        todo=tell_what_to_do(results),
    )


def _gone(outcome: Outcome) -> Iterator[Sentence]:
    """Lost records that the headline does not count, since no replica has them."""
    if outcome.gone:
        yield GONE_TOO.say(places=name_partitions(outcome.gone))


def _since(results: Results) -> Iterator[Sentence]:
    since = (results.audit.get("options") or {}).get("since")
    if since:
        yield SINCE.say(audit=clean(since))


def _case(case: WorstCase) -> WorstPartition:
    row = case.partition
    if case.loss is not None:
        text = plain_text(_loss(row, case.loss))
    elif case.finding is not None:
        text = plain_text(tell_finding(case.finding))
    else:
        text = capitalise(VERDICT_WORDS[row.verdict])
    return WorstPartition(row.topic, row.partition, text)


def _loss(row: PartitionRow, loss: PlaceLoss) -> Sentence:
    """Records that are not on the leader, and the brokers that still have them."""
    count = loss.records
    noun = "committed record" if loss.committed else "record"
    bound = name_bound(at_most=row.lost_at_most, at_least=row.lost_at_least)
    values = {
        "records": f"{capitalise(bound)}{render_count(count, noun)}",
        "offsets": _name_ranges(loss.ranges),
        "are": verb(count, "is", "are"),
        "brokers": name_brokers(loss.brokers),
        "have": verb(len(loss.brokers), "has", "have"),
        "them": verb(count, "it", "them"),
    }
    if loss.committed:
        leads = row.leader_id == row.reference_id
        leader = f"{'the leader, ' if leads else ''}broker {row.reference_id}"
        return (LOST_HERE_TOGETHER if loss.in_parts else LOST_HERE).say(**values, leader=leader)
    acks = "" if loss.promised is None else "; acks=all promised none of them"
    if loss.promised:
        acks = f"; acks=all may have promised {'all' if loss.promised == count else loss.promised} of them"
    values.update(exist=verb(count, "exists", "exist"), they=verb(count, "it", "they"), were=verb(count, "was", "were"))
    return ONLY_HERE.say(**values, promised=acks)


def _name_ranges(ranges: Sequence[tuple[int, int]]) -> str:
    where = join_words([f"{start} to {end - 1}" if end - start > 1 else start for start, end in ranges[:3]])
    single = len(ranges) == 1 and ranges[0][1] - ranges[0][0] == 1
    return f"offset{'' if single else 's'} {where}{'' if len(ranges) <= 3 else ' and more'}"


def _sums(outcome: Outcome) -> Iterator[Sentence]:
    total = outcome.total
    if outcome.adds_up:
        yield ALL_LOST.say(
            records=decapitalise(count_records(total, total.records, "record")),
            are=verb(total.records, "is", "are"),
            committed=total.committed or "none",
            were=verb(total.committed, "was", "were"),
        )
    if outcome.uncounted:
        yield NOT_COUNTED.say(partitions=render_count(outcome.uncounted, "partition"))


def _others(outcome: Outcome) -> list[Sentence]:
    rest = [f"{number} {VERDICT_WORDS[name]}" for name, number in outcome.others.items()]
    return [OTHERS.say(counts=join_words(rest))] if rest else []


def _untrusted(verdict: VerdictObject) -> list[Sentence]:
    reason = verdict["untrusted"]
    return [UNTRUSTED.say(reason=clean(reason))] if reason else []

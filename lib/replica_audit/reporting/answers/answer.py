"""The answer of a whole audit in a few sentences: what is wrong, where, and what to do first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replica_audit.answering.by_partition import Row
from replica_audit.answering.losses import PlaceLoss
from replica_audit.answering.outcome import Outcome, WorstCase, find_outcome
from replica_audit.deciding.election_plan import advise
from replica_audit.reporting.answers.condition_text import tell_compared, tell_doubts, tell_needed, tell_urgent
from replica_audit.reporting.answers.first_step_text import FirstStep, tell_first_steps
from replica_audit.reporting.answers.headlines import NO_PARTITION, count_records, tell_headline
from replica_audit.reporting.phrases.layout import clean, name_bound, render_count
from replica_audit.reporting.phrases.sentences import (
    Sentence,
    Template,
    capitalise,
    decapitalise,
    end_sentence,
    join_words,
    name_brokers,
    name_partitions,
    plain_text,
    verb,
)
from replica_audit.results import Results

#: How many partitions are named one by one.
CASE_LIMIT = 3

#: What each verdict says of a partition, in a word or two.
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
class Case:
    """One partition of the worst verdict and what is wrong with it."""

    topic: str
    partition: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Answer:
    """`tone` is bad, warn, unknown or good; `first_steps` are empty when there is nothing to do."""

    tone: str
    headline: str
    cases: tuple[Case, ...]
    more: tuple[Sentence, ...]
    first_steps: tuple[FirstStep, ...]


def build_answer(results: Results, verdict: Mapping[str, Any]) -> Answer:
    """The answer of `results`, whose verdict.json is `verdict`."""
    outcome = find_outcome(results, verdict["untrusted"], verdict["verdict"])
    if outcome is None:
        return Answer("unknown", plain_text(NO_PARTITION.say()), (), tuple(_untrusted(verdict)), ())
    urgent, doubts = tell_urgent(outcome.conditions), list(tell_doubts(outcome.conditions, results))
    needed = tell_needed(outcome.conditions)
    compared = tell_compared(outcome.conditions, outcome.kind) if outcome.is_calm else ()
    # Where something is lost for certain, what may have been lost besides comes below.
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
            *((end_sentence(clean(row["message"] or row["code"])),) for row in outcome.unplaced[:CASE_LIMIT]),
            *_sums(outcome),
            *_others(outcome),
            *_untrusted(verdict),
        ),
        first_steps=tuple(tell_first_steps(results, advise(results))),
    )


def _gone(outcome: Outcome) -> Iterator[Sentence]:
    """What the number in the headline does not count, since nobody has it."""
    if outcome.gone:
        yield GONE_TOO.say(places=name_partitions(outcome.gone))


def _since(results: Results) -> Iterator[Sentence]:
    since = (results.audit.get("options") or {}).get("since")
    if since:
        yield SINCE.say(audit=clean(since))


def _case(case: WorstCase) -> Case:
    row = case.partition
    if case.loss is not None:
        text = plain_text(_loss(row, case.loss))
    elif case.finding is not None:
        text = end_sentence(clean(case.finding["message"] or case.finding["code"]))
    else:
        text = capitalise(VERDICT_WORDS[row["verdict"]])
    return Case(row["topic"], row["partition"], text)


def _loss(row: Row, loss: PlaceLoss) -> Sentence:
    """What is not on the leader, and who still has it."""
    count = loss.records
    noun = "committed record" if loss.committed else "record"
    bound = name_bound(at_most=row["lost_at_most"], at_least=row["lost_at_least"])
    values = {
        "records": f"{capitalise(bound)}{render_count(count, noun)}",
        "offsets": _name_ranges(loss.ranges),
        "are": verb(count, "is", "are"),
        "brokers": name_brokers(loss.brokers),
        "have": verb(len(loss.brokers), "has", "have"),
        "them": verb(count, "it", "them"),
    }
    if loss.committed:
        leads = row["leader_id"] == row["reference_id"]
        leader = f"{'the leader, ' if leads else ''}broker {row['reference_id']}"
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


def _untrusted(verdict: Mapping[str, Any]) -> list[Sentence]:
    reason = verdict["untrusted"]
    return [UNTRUSTED.say(reason=clean(reason))] if reason else []

"""The answer of a whole audit in a few sentences: what is wrong, where, and what to do first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replica_audit.answering.by_partition import Row, told_protocol, worst_first, worst_partitions
from replica_audit.answering.conditions import Conditions, find_conditions
from replica_audit.answering.losses import Place, Total, find_holders, total_loss
from replica_audit.answering.ranges import join_ranges
from replica_audit.auditing.findings.catalogue import CATALOGUE, VERDICTS, at_or_above
from replica_audit.reporting.condition_text import tell_doubts, tell_urgent
from replica_audit.reporting.first_steps import tell_first_steps
from replica_audit.reporting.headlines import NO_PARTITION, count_records, tell_headline
from replica_audit.reporting.layout import clean, render_count
from replica_audit.reporting.sentences import (
    Sentence,
    Template,
    capitalise,
    end_sentence,
    join_words,
    name_brokers,
    plain_text,
    verb,
)
from replica_audit.results import Results

#: How many partitions are named one by one.
CASE_LIMIT = 3
#: Verdicts that say of themselves that nothing is lost.
_CALM = ("LAGGING", "CONSISTENT")

_TONES = dict(zip(VERDICTS, ("bad", "bad", "bad", "bad", "unknown", "warn", "warn", "good"), strict=True))

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
NOT_COUNTED = Template("In {partitions} it is not known how many records are lost.")
OTHERS = Template("Of the others, {counts}.")
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
    first_steps: tuple[Sentence, ...]


def build_answer(results: Results, verdict: Mapping[str, Any]) -> Answer:
    """The answer of `results`, whose verdict.json is `verdict`."""
    partitions = worst_partitions(results)
    if not partitions:
        return Answer("unknown", plain_text(NO_PARTITION.say()), (), tuple(_untrusted(verdict)), ())
    worst = partitions[0]["verdict"]
    findings = defaultdict(list)
    for row in worst_first(results.rows("findings")):
        if row["status"] != "resolved":
            findings[(row["topic"], row["partition"])].append(row)
    total, conditions = total_loss(partitions), find_conditions(results)
    holders = find_holders(results, told_protocol(results))
    codes = {place: frozenset(row["code"] for row in rows) for place, rows in findings.items()}
    headline = tell_headline(
        worst, partitions, defaultdict(frozenset, codes), total, holders, conditions, not verdict["untrusted"]
    )
    urgent, doubts = list(tell_urgent(conditions)), list(tell_doubts(conditions, results))
    # Where something is lost for certain, what may have been lost besides comes below.
    lines = [headline, *urgent, *(doubts if worst in _CALM else ()), *_since(results)]
    unplaced = [row for row in findings.get((None, None), ()) if row["severity"] in ("critical", "high")]
    return Answer(
        tone=_tone(worst, conditions, verdict),
        headline=" ".join(plain_text(line) for line in lines),
        cases=tuple(_cases(partitions, worst, findings, results)),
        more=(
            *(() if worst in _CALM else doubts),
            *((end_sentence(clean(row["message"] or row["code"])),) for row in unplaced[:CASE_LIMIT]),
            *_sums(total, partitions, worst),
            *_others(Counter(row["verdict"] for row in partitions), worst),
            *_untrusted(verdict),
        ),
        first_steps=tuple(tell_first_steps(results, holders, conditions, partitions, findings)),
    )


def _since(results: Results) -> Iterator[Sentence]:
    since = (results.audit.get("options") or {}).get("since")
    if since:
        yield SINCE.say(audit=clean(since))


def _tone(worst: str, conditions: Conditions, verdict: Mapping[str, Any]) -> str:
    """Green is for peace only; input that belongs to no partition may make the audit worse than each of them."""
    whole = _TONES[verdict["verdict"]] if VERDICTS.index(verdict["verdict"]) < VERDICTS.index(worst) else _TONES[worst]
    if whole != "good":
        return whole
    return "unknown" if verdict["untrusted"] else "good" if conditions.is_peace else "warn"


def _cases(
    partitions: Sequence[Row], worst: str, findings: Mapping[tuple, Sequence[Row]], results: Results
) -> Iterator[Case]:
    lost = defaultdict(list)
    for row in results.rows("divergences"):
        if row["lost_records"]:
            lost[(row["topic"], row["partition"])].append(row)
    holders = defaultdict(list)
    for row in results.rows("replicas"):
        if row["lost_held"]:
            holders[(row["topic"], row["partition"])].append(row)
    affected = [row for row in partitions if row["verdict"] == worst]
    if worst in _CALM:
        # Calm verdicts: what is still worth a sentence, wherever it is.
        ranked = {_place(row): index for index, row in enumerate(worst_first(_worth(findings)))}
        affected = sorted(
            (row for row in partitions if _place(row) in ranked or (worst == "LAGGING" and row["verdict"] == worst)),
            key=lambda row: ranked.get(_place(row), len(ranked)),
        )
    for row in affected[:CASE_LIMIT]:
        place = _place(row)
        text = _loss(row, lost[place], holders[place]) if row["lost_records"] else ""
        yield Case(*place, text or _finding(row, findings[place]))


def _worth(findings: Mapping[tuple, Sequence[Row]]) -> list[Row]:
    """The worst finding of each partition, where it is of medium severity or more."""
    placed = [rows[0] for (topic, _), rows in findings.items() if topic is not None]
    return [row for row in placed if at_or_above(row["severity"], "medium")]


def _telling(findings: Sequence[Row], verdict: str) -> list[Row]:
    """Findings that can give a partition `verdict`."""
    return [row for row in findings if verdict in getattr(CATALOGUE.get(row["code"]), "verdicts", ())]


def _finding(row: Row, ranked: Sequence[Row]) -> str:
    # Of equally bad findings the one that moved the verdict comes first; in a calm partition the worst.
    telling = [] if row["verdict"] == "CONSISTENT" else _telling(ranked, row["verdict"])
    if row["verdict"] == "LAGGING" and ranked and ranked[0]["severity"] in ("high", "medium"):
        telling = []
    chosen = next(iter(telling or ranked), None)
    if chosen is None:
        return capitalise(VERDICT_WORDS[row["verdict"]])
    return end_sentence(clean(chosen["message"] or chosen["code"]))


def _loss(row: Row, runs: Sequence[Row], replicas: Sequence[Row]) -> str:
    """What is not on the leader and who still has it; "" where only a tail past the leader's end tells of it."""
    column = "lost_committed" if row["lost_committed"] else "lost_records"
    runs = [run for run in runs if run[column]]
    if not runs:
        return ""
    count, ranges = row[column], join_ranges(runs)
    held_column = "lost_committed_held" if row["lost_committed"] else "lost_held"
    held = {replica["broker_id"]: replica[held_column] for replica in replicas}
    all_of_it = sorted(broker for broker, number in held.items() if number == count)
    brokers = all_of_it or sorted(broker for broker, number in held.items() if number)
    total = total_loss([row])
    values = {
        "records": count_records(total, count, "committed record" if row["lost_committed"] else "record"),
        "offsets": _name_ranges(ranges),
        "are": verb(count, "is", "are"),
        "brokers": name_brokers(brokers),
        "have": verb(len(brokers), "has", "have"),
        "them": verb(count, "it", "them"),
    }
    if column == "lost_records":
        promised = [run["promised_records"] for run in runs]
        most = None if None in promised else min(count, sum(promised))
        acks = "" if most is None else "; acks=all promised none of them"
        if most:
            acks = f"; acks=all may have promised {'all' if most == count else f'{most}'} of them"
        values["exist"] = verb(count, "exists", "exist")
        values.update(they=verb(count, "it", "they"), were=verb(count, "was", "were"))
        return plain_text(ONLY_HERE.say(**values, promised=acks))
    leads = row["leader_id"] == row["reference_id"]
    leader = f"{'the leader, ' if leads else ''}broker {row['reference_id']}"
    return plain_text((LOST_HERE if all_of_it else LOST_HERE_TOGETHER).say(**values, leader=leader))


def _name_ranges(ranges: Sequence[tuple[int, int]]) -> str:
    where = join_words([f"{start} to {end - 1}" if end - start > 1 else start for start, end in ranges[:3]])
    single = len(ranges) == 1 and ranges[0][1] - ranges[0][0] == 1
    return f"offset{'' if single else 's'} {where}{'' if len(ranges) <= 3 else ' and more'}"


def _sums(total: Total, partitions: Sequence[Row], worst: str) -> Iterator[Sentence]:
    told = worst in ("WILL_LOSE_ON_TRUNCATION", "UNCOMMITTED_DIVERGENCE") and not total.committed
    if total.records and not told and (total.records != total.committed or worst != "COMMITTED_LOSS"):
        yield ALL_LOST.say(
            records=count_records(total, total.records, "record").replace("At most", "at most"),
            are=verb(total.records, "is", "are"),
            committed=total.committed or "none",
            were=verb(total.committed, "was", "were"),
        )
    unknown = sum(row["lost_records"] is None for row in partitions if row["verdict"] == worst)
    if unknown and worst in ("COMMITTED_LOSS", "COMMITTED_DIVERGENCE", "WILL_LOSE_ON_TRUNCATION"):
        yield NOT_COUNTED.say(partitions=render_count(unknown, "partition"))


def _others(counts: Mapping[str, int], worst: str) -> list[Sentence]:
    rest = [f"{counts[name]} {VERDICT_WORDS[name]}" for name in VERDICTS if counts.get(name) and name != worst]
    return [OTHERS.say(counts=join_words(rest))] if rest else []


def _untrusted(verdict: Mapping[str, Any]) -> list[Sentence]:
    reason = verdict["untrusted"]
    return [UNTRUSTED.say(reason=clean(reason))] if reason else []


def _place(row: Row) -> Place:
    return row["topic"], row["partition"]

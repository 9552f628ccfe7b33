"""The answer of a whole audit in a few sentences: what is wrong, where, and what to do first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replica_audit.auditing.catalogue import CATALOGUE, VERDICTS
from replica_audit.reporting.findings import worst_first
from replica_audit.reporting.grouping import Row, worst_partitions
from replica_audit.reporting.layout import clean, render_count
from replica_audit.reporting.ranges import join_ranges
from replica_audit.reporting.sentences import Sentence, capitalise, end_sentence, join_words, name_brokers
from replica_audit.results import Results

#: Partitions of the worst verdict that are told one by one.
CASE_LIMIT = 3

_TONES = dict(zip(VERDICTS, ("bad", "bad", "bad", "bad", "unknown", "warn", "warn", "good"), strict=True))

_HEADLINES = {
    "COMMITTED_LOSS": "Committed records are missing from the leader in {where}.",
    "COMMITTED_DIVERGENCE": "Replicas differ for good in {where}: no truncation repairs it.",
    "LATENT_CORRUPTION": "Files are damaged or contradict each other in {where}.",
    "WILL_LOSE_ON_TRUNCATION": "The next truncation or election loses committed records in {where}.",
    "INCONCLUSIVE": "There is no certain answer for {where}: something that had to be read could not be.",
    "UNCOMMITTED_DIVERGENCE": "Replicas differ in {where}, but only in records that nothing proves committed.",
    "LAGGING": "Nothing is lost; replicas are behind or out of sync in {where}.",
    "CONSISTENT": "All is well: {where} consistent.",
}

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
        return Answer("unknown", "No partition was found: there is nothing to say.", (), _untrusted(verdict), ())
    counts = Counter(row["verdict"] for row in partitions)
    # Input that belongs to no partition may make the audit worse than each of them.
    worst = partitions[0]["verdict"]
    where = f"{counts[worst]:,} of {len(partitions):,} partition{'' if len(partitions) == 1 else 's'}"
    if worst == "CONSISTENT":
        where = "the only partition is" if len(partitions) == 1 else f"all {len(partitions):,} partitions are"
    elif counts[worst] == len(partitions):
        where = "the only partition" if len(partitions) == 1 else f"all {len(partitions):,} partitions"
    findings = defaultdict(list)
    for row in results.rows("findings"):
        if row["status"] != "resolved":
            findings[(row["topic"], row["partition"])].append(row)
    affected = [row for row in partitions if row["verdict"] == worst and worst != "CONSISTENT"]
    committed = defaultdict(list)
    for row in results.rows("divergences"):
        if row["committed"]:
            committed[(row["topic"], row["partition"])].append(row)
    places = [(row, (row["topic"], row["partition"])) for row in affected[:CASE_LIMIT]]
    cases = [_case(row, findings[place], committed[place]) for row, place in places]
    holders = _holders(results)
    tone = _TONES[worst] if worst != "CONSISTENT" or not verdict["untrusted"] else "unknown"
    return Answer(
        tone=tone,
        headline=_HEADLINES[worst].format(where=where),
        cases=tuple(cases),
        more=(*_totals(affected, holders, worst), *_others(counts, worst), *_untrusted(verdict)),
        first_steps=tuple(_first_steps(affected, findings, holders)),
    )


def _case(row: Row, findings: Sequence[Row], committed: Sequence[Row]) -> Case:
    if row["verdict"] == "COMMITTED_LOSS" and committed:
        return Case(row["topic"], row["partition"], _loss(row, committed))
    ranked = worst_first(findings)
    # Of what is equally bad, that which moved the verdict is told.
    telling = [item for item in ranked if row["verdict"] in getattr(CATALOGUE.get(item["code"]), "verdicts", ())]
    chosen = next(iter(telling or ranked), None)
    text = end_sentence(clean(chosen["message"] or chosen["code"])) if chosen else VERDICT_WORDS[row["verdict"]]
    return Case(row["topic"], row["partition"], text)


def _loss(row: Row, committed: Sequence[Row]) -> str:
    """What is not on the leader and who still has it; touching runs of several replicas are told as one."""
    ranges = join_ranges(committed)
    by_broker: dict[int, int] = defaultdict(int)
    for item in committed:
        count = item["committed_records"]
        by_broker[item["broker_id"]] += (item["record_count"] or 0) if count is None else count
    most = max(by_broker.values())
    where = join_words([f"{start} to {end - 1}" if end - start > 1 else start for start, end in ranges[:3]])
    where += "" if len(ranges) <= 3 else " and more"
    at = f"offset{'' if ranges[0][1] - ranges[0][0] == 1 and len(ranges) == 1 else 's'} {where}"
    leader = (
        f"the leader, broker {row['leader_id']}" if row["leader_id"] is not None else f"broker {row['reference_id']}"
    )
    text = f"{render_count(most, 'committed record')} at {at} {'is' if most == 1 else 'are'} not on {leader}. "
    holders = [broker_id for broker_id in sorted(by_broker) if by_broker[broker_id] == most]
    verb, what = "has" if len(holders) == 1 else "have", "it" if most == 1 else "them"
    return text + f"{capitalise(name_brokers(holders))} still {verb} {what}."


def _holders(results: Results) -> dict[int, dict[tuple[str, int], int]]:
    """Committed records that a broker has and the leader has not, by broker and partition."""
    held: dict[int, dict[tuple[str, int], int]] = defaultdict(lambda: defaultdict(int))
    for row in results.rows("divergences"):
        if row["committed"]:
            count = row["committed_records"]
            held[row["broker_id"]][(row["topic"], row["partition"])] += (
                row["record_count"] or 0 if count is None else count
            )
    return {broker_id: dict(held[broker_id]) for broker_id in sorted(held)}


def _totals(affected: Sequence[Row], holders: Mapping[int, Mapping], worst: str) -> list[Sentence]:
    if worst != "COMMITTED_LOSS" or not holders or len(affected) < 2:
        return []
    most: dict[tuple, int] = {}
    for by_place in holders.values():
        for place, count in by_place.items():
            most[place] = max(count, most.get(place, 0))
    total = f"{render_count(sum(most.values()), 'committed record')}"
    return [
        (
            "In all, ",
            total,
            f" in {render_count(len(most), 'partition')} are held by {name_brokers(list(holders))} only.",
        )
    ]


def _others(counts: Mapping[str, int], worst: str) -> list[Sentence]:
    rest = [f"{counts[name]} {VERDICT_WORDS[name]}" for name in VERDICTS if counts.get(name) and name != worst]
    return [(f"Of the others, {join_words(rest)}.",)] if rest else []


def _untrusted(verdict: Mapping[str, Any]) -> tuple[Sentence, ...]:
    reason = verdict["untrusted"]
    return (("", "The audit is not whole", f": {clean(reason)}."),) if reason else ()


def _first_steps(
    affected: Sequence[Row], findings: Mapping[tuple, Sequence[Row]], holders: Mapping[int, Mapping]
) -> list[Sentence]:
    steps: list[Sentence] = []
    if holders:
        one = len(holders) == 1
        keep = f"Keep {name_brokers(list(holders))} from following"
        how = "stop it, or copy its log directory" if one else "stop them, or copy their log directories"
        held, follow = ("it holds", "it follows") if one else ("they hold", "they follow")
        rest = f": {how}, now. What only {held} is deleted as soon as {follow}."
        steps.append(("", keep, rest))
    codes = Counter()
    for row in affected:
        ranked = worst_first(findings[(row["topic"], row["partition"])])
        if ranked and ranked[0]["code"] in CATALOGUE:
            codes[ranked[0]["code"]] += 1
    for code, _ in codes.most_common(2):
        if not (holders and code in ("HWM-LOSS", "TRN-BELOW-HW")):
            steps.append((f"{CATALOGUE[code].remedy} (", code, ")"))
    if holders:
        steps.append(
            ("Then decide: elect the broker that holds the records, or take them out and produce them again.",)
        )
    return steps


def count_held(results: Results) -> dict[int, tuple[int, int]]:
    """Partitions and committed records that a broker has and the leader has not, by broker."""
    return {broker_id: (len(places), sum(places.values())) for broker_id, places in _holders(results).items()}

"""The one sentence that an audit comes to: what is lost, damaged or in doubt, in how many partitions."""

from __future__ import annotations

from replica_audit.report.facts.losses import Total
from replica_audit.report.facts.outcome import Outcome
from replica_audit.report.layout import name_bound, render_count
from replica_audit.report.sentences import (
    Sentence,
    Template,
    capitalise,
    name_brokers,
    name_partitions,
    verb,
)

NO_PARTITION = Template("No partition was found: there is nothing to say.")
LOST = Template("{records} {are} missing from the leader in {where}; {brokers} still {have} {them}.")
LOST_LEADERLESS = Template(
    "{records} {are} missing from the log that the others are compared with in {where}; {brokers} still {have} {them}."
)
LOST_UNSEEN = Template("{records} {are} missing from the leader in {where}; no replica in the snapshot has {them}.")
LOST_UNCOUNTED = Template("Committed records are lost in {where}.")
LOST_MARKERS = Template(
    "Other replicas hold offsets that the leader does not have in {where}: ends of transactions, or empty or damaged "
    "batches, but no sound record."
)
PERHAPS = Template("{records}, perhaps acknowledged, {exist} only on {brokers}, in {where}.")
GONE_SINCE = Template("Records that an earlier audit saw are gone from every replica in {where}.")
GONE_FOR_GOOD = Template("Records that were committed are on no replica here any more in {where}.")
DIFFER = Template("Replicas hold different records in {where}, and no truncation will repair that.")
DAMAGED = Template("Files{of_brokers} are damaged or contradict each other in {where}{reference}.")
ISR_SHORT = Template("An in-sync replica lacks committed records in {where}: electing it would lose them.")
WILL_LOSE = Template("The next truncation or election may lose records in {where}.")
UNDECIDED = Template("{where} could not be judged.")
NONE_DECIDED = Template("None of the {of:,} partitions could be judged.")
LEFT_BEHIND = Template("Replicas differ in {where}, but only in what a clean election left behind.")
NONE_LACKED = Template("Replicas differ in {where}, but the leader has every record that producers sent.")
EQUAL_CONTENT = Template("Replicas differ in {where}, but the leader has records of equal content.")
UNPROVEN = Template("Replicas differ in {where}, but only in records that nothing proves committed.")
BEHIND = Template("Nothing is lost; replicas are behind or out of sync in {where}.")
BEHIND_ONLY = Template("The captured replicas agree, but some are behind or out of sync in {where}.")
PEACE = Template("All is well: {all_are} consistent.")
AGREE = Template("The captured replicas agree in {where}.")
ALONE = Template("Nothing was compared{in_where}: only one replica{of_each} is in the snapshot.")
SINGLE = Template("Nothing was compared{in_where}: {each} has one replica.")

#: Partitions that a headline names.
_NAMED = 3

#: By the kind of an outcome.
_HEADLINES = {
    "lost": LOST,
    "lost_leaderless": LOST_LEADERLESS,
    "lost_uncounted": LOST_UNCOUNTED,
    "lost_markers": LOST_MARKERS,
    "perhaps": PERHAPS,
    "gone_since": GONE_SINCE,
    "gone_for_good": GONE_FOR_GOOD,
    "differ": DIFFER,
    "damaged": DAMAGED,
    "isr_short": ISR_SHORT,
    "will_lose": WILL_LOSE,
    "undecided": UNDECIDED,
    "left_behind": LEFT_BEHIND,
    "none_lacked": NONE_LACKED,
    "equal_content": EQUAL_CONTENT,
    "unproven": UNPROVEN,
    "behind": BEHIND,
    "behind_only": BEHIND_ONLY,
    "peace": PEACE,
    "agree": AGREE,
    "alone": ALONE,
    "single": SINGLE,
}


def tell_headline(outcome: Outcome) -> Sentence:
    """The headline of an audit."""
    total, holders = outcome.total, outcome.holders
    where = _where(outcome.affected, len(outcome.partitions))
    values = {"where": where, "all_are": f"{where} {verb(outcome.affected, 'is', 'are')}"}
    if outcome.kind in ("alone", "single"):
        values.update(_name_each(outcome.affected, len(outcome.partitions)))
    if outcome.kind == "perhaps":
        values["records"] = count_records(total, total.records, "record")
        values.update(exist=verb(total.records, "exists", "exist"), brokers=name_brokers(sorted(holders)))
    elif outcome.kind in ("lost", "lost_leaderless"):
        brokers = [broker for broker, held in holders.items() if held.committed]
        values["records"] = count_records(total, total.committed, "committed record")
        values.update(are=verb(total.committed, "is", "are"), them=verb(total.committed, "it", "them"))
        if not brokers:
            return LOST_UNSEEN.say(**values)
        values.update(brokers=name_brokers(sorted(brokers)), have=verb(len(brokers), "has", "have"))
    elif outcome.kind == "damaged":
        values.update(_name_damaged(outcome))
    elif outcome.kind == "undecided":
        if outcome.affected == len(outcome.partitions) > 2:
            return NONE_DECIDED.say(of=outcome.affected)
        values["where"] = capitalise(where)
    return _HEADLINES[outcome.kind].say(**values)


def count_records(total: Total, count: int, noun: str) -> str:
    """A number of lost records and its noun: 41 records; At most 41 committed records; About 41 records."""
    return f"{capitalise(name_bound(at_most=total.at_most, at_least=total.at_least))}{render_count(count, noun)}"


def _name_damaged(outcome: Outcome) -> dict[str, str]:
    """Whose files are damaged and where, and which copy that the others are compared with is whole."""
    rows = [(row.topic, row.partition) for row in outcome.partitions[: outcome.affected]]
    few = outcome.affected < len(outcome.partitions) and outcome.affected <= _NAMED
    where = _where(outcome.affected, len(outcome.partitions))
    return {
        "where": f"{name_partitions(rows)}, {where}" if few else where,
        "of_brokers": f" of {name_brokers(outcome.damaged)}" if outcome.damaged else "",
        "reference": "" if outcome.whole is None else f"; the copy of {name_brokers([outcome.whole])} is whole",
    }


def _name_each(count: int, of: int) -> dict[str, str]:
    """The words for partitions each of which has one copy in the snapshot."""
    if count == of:
        return {
            "in_where": "",
            "of_each": verb(of, "", " of each partition"),
            "each": verb(of, "the only partition", "each partition"),
        }
    return {
        "in_where": f" in {_where(count, of)}",
        "of_each": verb(count, " of it", " of each"),
        "each": verb(count, "it", "each"),
    }


def _where(count: int, of: int) -> str:
    if count == of:
        return {1: "the only partition", 2: "both partitions"}.get(of, f"all {of:,} partitions")
    return f"{count:,} of {of:,} partitions"

"""The one sentence that an audit comes to: what is lost, damaged or in doubt, in how many partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replica_audit.answering.by_partition import Row
from replica_audit.answering.conditions import Conditions
from replica_audit.answering.losses import Held, Total
from replica_audit.auditing.findings.catalogue import codes_with
from replica_audit.reporting.layout import render_count
from replica_audit.reporting.sentences import Sentence, Template, name_brokers, verb

NO_PARTITION = Template("No partition was found: there is nothing to say.")
LOST = Template("{records} {are} missing from the leader in {where}; {brokers} still {have} {them}.")
LOST_LEADERLESS = Template(
    "{records} {are} missing from the log that the others are compared with in {where}; {brokers} still {have} {them}."
)
LOST_UNCOUNTED = Template("Committed records are lost in {where}.")
LOST_MARKERS = Template(
    "Other replicas hold offsets that the leader does not have in {where}: ends of transactions, or empty or damaged "
    "batches, but no sound record."
)
PERHAPS = Template("{records}, perhaps acknowledged, {exist} only on {brokers}, in {where}.")
GONE_SINCE = Template("Records that an earlier audit saw are gone from every replica in {where}.")
GONE_FOR_GOOD = Template("Records that were committed are on no replica here any more in {where}.")
DIFFER = Template("Replicas hold different records in {where}, and no truncation will repair that.")
DAMAGED = Template("Files are damaged or contradict each other in {where}.")
ISR_SHORT = Template("An in-sync replica lacks committed records in {where}: electing it would lose them.")
WILL_LOSE = Template("The next truncation or election may lose records in {where}.")
UNDECIDED = Template("There is no certain answer for {where}.")
LEFT_BEHIND = Template("Replicas differ in {where}, but only in what a clean election left behind.")
NONE_LACKED = Template("Replicas differ in {where}, but the leader has every record that producers sent.")
UNPROVEN = Template("Replicas differ in {where}, but only in records that nothing proves committed.")
BEHIND = Template("Nothing is lost; replicas are behind or out of sync in {where}.")
BEHIND_ONLY = Template("The captured replicas agree, but some are behind or out of sync in {where}.")
PEACE = Template("All is well: {all_are} consistent.")
AGREE = Template("The captured replicas agree in {where}.")


def tell_headline(
    worst: str,
    partitions: Sequence[Row],
    codes: Mapping[tuple[str, int], frozenset[str]],
    total: Total,
    holders: Mapping[int, Sequence[Held]],
    conditions: Conditions,
    trusted: bool,
) -> Sentence:
    """The headline of rows of `partitions`, the worst of which have the verdict `worst`.

    `codes` are those of each partition's findings; `trusted`: everything could be read.
    """
    affected = [row for row in partitions if row["verdict"] == worst]
    where = _where(len(affected), len(partitions))
    if worst in _WITH_NUMBERS and (said := _with_numbers(worst, affected, partitions, codes, total, holders)):
        return said
    peace = trusted and conditions.is_peace
    if worst == "LAGGING":
        return (BEHIND if peace else BEHIND_ONLY).say(where=where)
    if worst == "CONSISTENT":
        count = len(partitions)
        return PEACE.say(all_are=f"{where} {verb(count, 'is', 'are')}") if peace else AGREE.say(where=where)
    if worst == "UNCOMMITTED_DIVERGENCE":
        if any(row["lost_records"] is None for row in affected):
            return UNPROVEN.say(where=where)
        is_left = all("DIV-EPOCH" not in codes[row["topic"], row["partition"]] for row in affected)
        return (LEFT_BEHIND if is_left else NONE_LACKED).say(where=where)
    if worst == "WILL_LOSE_ON_TRUNCATION":
        only_short = all("REP-ISR-SHORT" in codes[row["topic"], row["partition"]] for row in affected)
        return (ISR_SHORT if only_short else WILL_LOSE).say(where=where)
    return {"COMMITTED_DIVERGENCE": DIFFER, "LATENT_CORRUPTION": DAMAGED, "INCONCLUSIVE": UNDECIDED}[worst].say(
        where=where
    )


#: Verdicts whose headline says how many records, wherever a number is known.
_WITH_NUMBERS = ("COMMITTED_LOSS", "WILL_LOSE_ON_TRUNCATION", "UNCOMMITTED_DIVERGENCE")


def _with_numbers(
    worst: str,
    affected: Sequence[Row],
    partitions: Sequence[Row],
    codes: Mapping[tuple[str, int], frozenset[str]],
    total: Total,
    holders: Mapping[int, Sequence[Held]],
) -> Sentence | None:
    if total.committed:
        rows = {(row["topic"], row["partition"]): row for row in partitions}
        led = all(rows[place]["leader_id"] == rows[place]["reference_id"] for place in total.committed_places)
        brokers = [broker for broker, held in holders.items() if any(one.committed for one in held)]
        return (LOST if led else LOST_LEADERLESS).say(
            records=count_records(total, total.committed, "committed record"),
            are=verb(total.committed, "is", "are"),
            where=_where(len(total.committed_places), len(partitions)),
            brokers=name_brokers(sorted(brokers)),
            have=verb(len(brokers), "has", "have"),
            them=verb(total.committed, "it", "them"),
        )
    if worst == "COMMITTED_LOSS":
        of_affected = [codes[row["topic"], row["partition"]] for row in affected]
        if all("HWM-GONE" in one for one in of_affected):
            return GONE_SINCE.say(where=_where(len(affected), len(partitions)))
        if all("HWM-CP-ABOVE-LEO" in one for one in of_affected):
            return GONE_FOR_GOOD.say(where=_where(len(affected), len(partitions)))
        if (
            not total.records
            and all(row["lost_records"] == 0 for row in affected)
            and all(map(codes_with("held").intersection, of_affected))
        ):
            return LOST_MARKERS.say(where=_where(len(affected), len(partitions)))
        if not total.records:
            return LOST_UNCOUNTED.say(where=_where(len(affected), len(partitions)))
    if total.records:
        return PERHAPS.say(
            records=count_records(total, total.records, "record"),
            exist=verb(total.records, "exists", "exist"),
            brokers=name_brokers(sorted(holders)),
            where=_where(len(total.places), len(partitions)),
        )
    return None


def count_records(total: Total, count: int, noun: str) -> str:
    """A number of lost records and its noun: 41 records; At most 41 committed records."""
    return f"{'At most ' if total.at_most else ''}{render_count(count, noun)}"


def _where(count: int, of: int) -> str:
    if count == of:
        return {1: "the only partition", 2: "both partitions"}.get(of, f"all {of:,} partitions")
    return f"{count:,} of {of:,} partitions"

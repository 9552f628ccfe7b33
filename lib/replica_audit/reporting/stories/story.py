"""The story of one partition in sentences: who leads, what is committed, who differs, what the next truncation does."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.answering.by_partition import Row, Rows, present
from replica_audit.answering.conditions import may_have_lost
from replica_audit.answering.notable_findings import not_retold
from replica_audit.answering.who_leads import find_leading
from replica_audit.reporting.phrases.layout import clean
from replica_audit.reporting.phrases.sentences import SOURCES, Sentence, Template, end_sentence, join_words
from replica_audit.reporting.stories.agreement_text import tell_agreement
from replica_audit.reporting.stories.difference_text import tell_differences, tell_truncations
from replica_audit.reporting.stories.history_text import tell_history

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

"""The story of one partition in sentences: who leads, what is committed, who differs, what the next truncation does."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.answering.by_partition import Row, Rows, worst_first
from replica_audit.answering.conditions import may_have_lost
from replica_audit.auditing.findings.catalogue import SEVERITIES, codes_with
from replica_audit.deciding.present_state import states_of_source
from replica_audit.reporting.agreement import tell_agreement
from replica_audit.reporting.differences import tell_differences, tell_truncations
from replica_audit.reporting.history_text import tell_history
from replica_audit.reporting.layout import clean
from replica_audit.reporting.sentences import (
    SOURCES,
    Sentence,
    Template,
    end_sentence,
    join_words,
)

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
STANDS_IN = Template("The other replicas are compared with broker {reference}{why}.")
NOTHING_COMPARED = Template("The snapshot has no replica of this partition that could be read.")
HW_EXACT = Template("The high watermark is *exactly {lower}*{proof}.")
HW_AT_LEAST = Template("The high watermark is *at least {lower}*, and nothing bounds it from above{proof}.")
HW_BETWEEN = Template("The high watermark is *between {lower} and {upper}*{proof}.")
MAY_HAVE_LOST = Template(
    "What broker {leader} did not have when it was elected uncleanly in epoch {epoch} may be lost; these files cannot "
    "tell."
)


def tell_story(partition: Row, rows: Rows, protocol: str) -> list[Sentence]:
    """Sentences in the order in which things happened and will happen; `protocol` is the one whose truncation is
    described."""
    return [
        *tell_history(rows.get("partition_states", ())),
        *_past_elections(rows),
        *_leadership(partition, rows),
        *tell_agreement(partition, rows),
        *tell_differences(rows),
        *_high_watermark(rows),
        *tell_truncations(rows, protocol),
        *_other_findings(rows),
    ]


def _past_elections(rows: Rows) -> Iterator[Sentence]:
    """Unclean elections that left nothing behind on any captured replica; those that did are among the differences."""
    for row in rows["findings"]:
        if may_have_lost(row) and row["status"] != "resolved":
            epoch = next((item["value"] for item in row["evidence"] or () if item["kind"] == "leadership"), "-")
            yield MAY_HAVE_LOST.say(leader=row["broker_id"], epoch=epoch)


def _leadership(partition: Row, rows: Rows) -> Iterator[Sentence]:
    sources = [row["leadership_source"] for row in rows["high_watermarks"]]
    leader, reference, isr = partition["leader_id"], partition["reference_id"], partition["isr"]
    values = {
        "leader": leader,
        "epoch": "" if partition["leader_epoch"] is None else f" in leader epoch {partition['leader_epoch']}",
        "isr": "which replicas are in sync is not known" if isr is None else f"in sync: {join_words(isr)}",
    }
    if reference is None:
        yield NOTHING_COMPARED.say()
    elif leader is None:
        states = states_of_source(rows.get("partition_states", ()))
        eligible = states[-1]["elr"] if states else None
        values["eligible"] = f"; eligible: {join_words(eligible)}" if eligible else ""
        stopped = any(row["code"] == "META-NO-LEADER" and row["severity"] == "info" for row in rows["findings"])
        yield (ALL_STOPPED if stopped else NOBODY_LEADS).say(**values)
        led = [row["leader_id"] for row in states if row["leader_id"] is not None]
        why = ", which led last" if led and led[-1] == reference else ", whose log is the newest of those that may lead"
        if len(rows["replicas"]) > 1:
            yield STANDS_IN.say(reference=reference, why=why)
    elif sources == ["inferred"]:
        yield TAKEN_FOR_LEADER.say(**values)
    else:
        source = SOURCES.get(sources[0], "") if sources else "nothing more is known"
        yield LEADS.say(**values, source=source)
        if reference != leader:
            has_files = any(row["broker_id"] == leader for row in rows["replicas"])
            why = "it has records of a later leader epoch" if has_files else "the snapshot has no files of the leader"
            yield COMPARED_INSTEAD.say(reference=reference, why=why)


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
    worth_telling = SEVERITIES[:3]
    found = [
        row
        for row in worst_first(rows["findings"])
        if row["code"] not in codes_with("retold")
        and (row["severity"] in worth_telling or row["code"] in codes_with("no_files"))
        and row["status"] != "resolved"
    ]
    for row in found[:FINDING_LIMIT]:
        yield (end_sentence(clean(row["message"] or row["code"])),)

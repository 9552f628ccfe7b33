"""Copies of different moments, and logs that are known from something other than their segments (F.7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from replica_audit.auditing.compare.comparable import open_question, why_not_comparable
from replica_audit.auditing.finding import Code, Finding, considered, finding
from replica_audit.auditing.finding_evidence import unusable_input
from replica_audit.auditing.findings.meta_copies import explained_by_skew, overtaken_text
from replica_audit.schema import Evidence
from replica_audit.snapshot.provenance import UNPROVEN
from replica_audit.text import name_source

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts

CAP_SKEW = Code(
    "CAP-SKEW",
    severities=("medium", "info"),
    verdicts=("INCONCLUSIVE",),
    summary="Copies of different moments explain what was seen",
    meaning="The brokers were running while they were copied one after the other, so ends and checkpoints do not "
    "belong together. What they cannot decide is not reported as a fault. Medium where another replica, not in sync, has records "
    "of a later leader: who leads is not known then, and neither is what is lost.",
    proof="The values that disagree, and when each directory was copied, where the manifest says so.",
    remedy="Copy again, followers first and the leader last, each with its checkpoints before its segments, and write a "
    "manifest.json: replica-audit capture-plan prints a script for it. Copies of brokers that are all stopped have no skew.",
    traps="",
)
CAP_SECOND_HAND = Code(
    "CAP-SECOND-HAND",
    severities=("medium", "info"),
    verdicts=("INCONCLUSIVE",),
    traits=("doubt",),
    summary="A replica's log is known from a text or table only",
    meaning="The snapshot has no segments of it, but text of kafka-dump-log or a table of batches or records. What "
    "the files would have shown besides is not known. Medium where it leaves open what the log holds, or it cannot "
    "be compared with the others: then nothing is concluded from it.",
    proof="The text or table, and what it leaves unproven, point by point.",
    remedy="Copy the replica's directory. If there is only text: give the listing without --deep-iteration too, "
    "whole and of one moment, and all replicas in the same form.",
    traps="Checksums in a text are the verdicts of the tool that printed it.",
)
CODES = (
    CAP_SKEW,
    CAP_SECOND_HAND,
)


def skew(
    case: Case,
    facts: ReplicaFacts,
    text: str,
    start: int,
    end: int,
    when: str | None = None,
    *,
    doubtful: bool = False,
    is_undecided: bool = False,
) -> Finding:
    """A tail that files copied at different moments may explain. `doubtful`: a loss explains it as well, which another finding
    reports; `is_undecided`: none does."""
    explains = "may explain it, unless records were lost" if doubtful or is_undecided else "explains it"
    if case.quiesced:
        why = f"brokers that are stopped one after the other end at different offsets, which {explains}"
    else:
        why = f"copies of a running cluster are of different moments, which {explains}"
    return finding(
        CAP_SKEW,
        f"{text}; {why}",
        severity="medium" if is_undecided else "info",
        verdict="INCONCLUSIVE" if is_undecided else None,
        confidence="likely",
        broker_id=facts.broker_id,
        start_offset=start,
        end_offset=end,
        evidence=[
            *([Evidence("leadership", text=f"manifest.json: {when}")] if when else []),
            considered(
                "loss: a manifest with quiesced: true, or the metadata log of brokers that were stopped cleanly, would decide"
            ),
        ],
    )


def of_input(row: Mapping) -> Finding | None:
    """Of a quarantine row of a copy that may have been made before others; None for any other row."""
    return (
        replace(unusable_input(CAP_SKEW, row), severity="info", verdict=None) if row["code"] == CAP_SKEW.code else None
    )


def _outdated(case: Case) -> Iterator[Finding]:
    reference = case.reference
    older = reference.outdated
    if older is not None and explained_by_skew(case, older):
        yield finding(
            CAP_SKEW,
            overtaken_text(case, older),
            severity="info",
            verdict=None,
            confidence="likely",
            broker_id=reference.facts.broker_id,
            evidence=[Evidence("leadership", text=name_source(older.source))],
        )
    if reference.predates:
        yield finding(
            CAP_SKEW,
            f"broker {reference.facts.broker_id} leads in epoch {reference.leader_epoch} by the metadata log, and its own "
            "epoch file does not know that epoch: its files were copied before it began to lead, so what others have past "
            "its end proves nothing",
            severity="info",
            verdict=None,
            confidence="likely",
            broker_id=reference.facts.broker_id,
            evidence=[
                Evidence(
                    "lineage",
                    text="as found",
                    broker_id=reference.facts.broker_id,
                    path=reference.facts.directory.epoch_file.path,
                )
            ],
        )


_SOURCES = {
    "dump_text": "text of kafka-dump-log",
    "batch_table": "a table of batches",
    "record_table": "a table of records",
}


#: Of a replica that has no directory in the snapshot.
_NO_FILES = "leader-epoch-checkpoint and topic id are not part of the input"


_NO_LOG_DIR = (
    "checkpoints and how the broker was stopped are not part of the input: the high watermark is bounded by logs "
    "alone, and what a cut at the replica's own high watermark would drop is not known"
)


def judge(case: Case) -> Iterator[Finding]:
    """Leadership that is older than the logs, and logs without segments; ends of logs are judged by the family REP."""
    yield from _outdated(case)
    yield from _second_hand_logs(case)


def _second_hand_logs(case: Case) -> Iterator[Finding]:
    reference = case.reference.facts
    reasons = {
        item.follower.key: open_question(case.reference, item, case.protocol, case.is_epoch_said)
        for item in case.comparisons
    }
    for facts in case.set_aside:
        if facts.unread is not None:
            continue  # CAP-UNREADABLE or CAP-MISSING-SEGMENT says so
        why = why_not_comparable(case.reference, facts)
        reasons[facts.key] = f"it was not compared with broker {reference.broker_id}, because {why}"
    for facts in (*case.replicas, *case.set_aside):
        if facts.unread is not None:
            continue
        reason = reasons.get(facts.key) or (UNPROVEN[facts.undecided[0]] if facts.undecided else None)
        if facts.second_hand:
            yield _second_hand(facts, reason)
        elif reason is not None:
            yield _set_aside(facts, reference, reason)


def _second_hand(facts: ReplicaFacts, reason: str | None) -> Finding:
    sources = [_SOURCES[source] for source in sorted({one.source for one in facts.segments} - {"segment"})]
    open_points = [UNPROVEN[word] for word in facts.unproven]
    open_points += [_NO_FILES] if facts.directory.epoch_file.state == "not_given" else []
    open_points += [] if facts.knows_high_watermark else [_NO_LOG_DIR]
    message = f"broker {facts.broker_id}: the log is known from {' and '.join(sources)} only"
    paths = {segment.path.partition(" (")[0]: None for segment in facts.segments}
    evidence = [
        Evidence("input", text="stands for the segments", broker_id=facts.broker_id, path=path) for path in paths
    ]
    return finding(
        CAP_SECOND_HAND,
        f"{message}; {reason}" if reason else message,
        severity="medium" if reason else "info",
        verdict="INCONCLUSIVE" if reason else None,
        broker_id=facts.broker_id,
        evidence=[*evidence, *(Evidence("unproven", text=text, broker_id=facts.broker_id) for text in open_points)],
    )


def _set_aside(facts: ReplicaFacts, reference: ReplicaFacts, reason: str) -> Finding:
    return finding(
        CAP_SECOND_HAND,
        f"broker {facts.broker_id}: {reason}",
        severity="medium",
        verdict="INCONCLUSIVE",
        broker_id=facts.broker_id,
        evidence=[
            Evidence(
                "input", text="stands for the segments", broker_id=reference.broker_id, path=reference.directory.path
            )
        ],
    )

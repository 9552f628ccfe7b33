"""What follows from a log being known from a text or table, and not from its segments (CAP-SECOND-HAND)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.findings.finding import Case, Evidence, Finding, finding
from replica_audit.auditing.replicas.facts import ReplicaFacts
from replica_audit.auditing.replicas.provenance import open_question, why_not_comparable
from replica_audit.formats.stand_ins.second_hand import UNPROVEN

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
    """CAP-SECOND-HAND of every replica that it is true of."""
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
    evidence = [Evidence("input", "stands for the segments", facts.broker_id, path) for path in paths]
    return finding(
        "CAP-SECOND-HAND",
        f"{message}; {reason}" if reason else message,
        severity="medium" if reason else "info",
        verdict="INCONCLUSIVE" if reason else None,
        broker_id=facts.broker_id,
        evidence=[*evidence, *(Evidence("unproven", text, facts.broker_id) for text in open_points)],
    )


def _set_aside(facts: ReplicaFacts, reference: ReplicaFacts, reason: str) -> Finding:
    return finding(
        "CAP-SECOND-HAND",
        f"broker {facts.broker_id}: {reason}",
        severity="medium",
        verdict="INCONCLUSIVE",
        broker_id=facts.broker_id,
        evidence=[Evidence("input", "stands for the segments", reference.broker_id, reference.directory.path)],
    )

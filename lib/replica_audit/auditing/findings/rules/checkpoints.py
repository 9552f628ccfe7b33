"""Checkpoint files against the log beside them (F.5, CHK-*)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.findings.finding import Case, Evidence, Finding, finding
from replica_audit.auditing.replicas.facts import ReplicaFacts


def judge(case: Case) -> Iterator[Finding]:
    """CHK-* of every replica, and entries of log dirs that have no directory of the partition."""
    for facts in case.replicas:
        yield from _malformed(facts)
        yield from _missing_entry(facts)
        checkpoint = facts.directory.high_watermark_checkpoint
        if checkpoint is not None and facts.log_start_offset > checkpoint:
            yield finding(
                "CHK-START-ABOVE-HW",
                f"broker {facts.broker_id}: log start {facts.log_start_offset} is above the checkpointed high watermark {checkpoint}",
                broker_id=facts.broker_id,
                evidence=[_file(facts, facts.directory.high_watermark_file.path, str(checkpoint))],
            )
    for (broker_id, log_dir, file), value in sorted(case.orphans.items()):
        yield finding(
            "CHK-ORPHAN-ENTRY",
            f"broker {broker_id}: {file} has {value} for {case.topic_partition}, which is not in that log dir",
            broker_id=broker_id,
            evidence=[Evidence("checkpoint", file, broker_id, log_dir, value=str(value))],
        )


def _malformed(facts: ReplicaFacts) -> Iterator[Finding]:
    directory = facts.directory
    for file in (
        directory.high_watermark_file,
        directory.recovery_point_file,
        directory.log_start_file,
        directory.cleaner_file,
    ):
        if file.state == "malformed":
            yield finding(
                "CHK-MALFORMED",
                f"broker {facts.broker_id}: {file.problem}",
                broker_id=facts.broker_id,
                evidence=[_file(facts, file.path, None)],
            )


def _missing_entry(facts: ReplicaFacts) -> Iterator[Finding]:
    directory = facts.directory
    if directory.high_watermark_file.state == "present" and directory.high_watermark_checkpoint is None:
        yield finding(
            "CHK-MISSING",
            f"broker {facts.broker_id}: {directory.high_watermark_file.path} has no entry for {directory.topic_partition}",
            severity="info" if facts.empty else "low",
            broker_id=facts.broker_id,
            evidence=[_file(facts, directory.high_watermark_file.path, None)],
        )


def _file(facts: ReplicaFacts, path: str, value: str | None) -> Evidence:
    return Evidence("checkpoint", "as found", facts.broker_id, path, value=value)

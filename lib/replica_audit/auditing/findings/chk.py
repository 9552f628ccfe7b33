"""Checkpoint files against the log beside them (F.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.finding import Code, Finding, finding
from replica_audit.literals import FileState
from replica_audit.schema import Evidence

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts

CHK_MISSING = Code(
    "CHK-MISSING",
    severities=("medium", "low", "info"),
    verdicts=(),
    summary="No high watermark checkpoint for a partition, or none for a whole log directory",
    meaning="After a restart the high watermark of these logs begins at their log start. A replica without epochs "
    "truncates to it: it drops all of its log.",
    proof="The file, and the logs that have no entry in it.",
    remedy="If the file is gone or empty, start this broker last, so that others lead its partitions before it is up.",
    traps="A partition created less than 5 s ago; an empty log.",
)
CHK_MALFORMED = Code(
    "CHK-MALFORMED",
    severities=("high",),
    verdicts=("INCONCLUSIVE",),
    traits=("unreadable",),
    summary="An offset checkpoint file cannot be parsed",
    meaning="Wrong version, wrong count, a word or a negative number. A broker refuses to start on it, or marks "
    "the whole log directory offline.",
    proof="The file, the line, what was expected and what was found.",
    remedy="Keep a copy of the file. With the broker stopped, repair the line by hand: every line is TOPIC PARTITION "
    "OFFSET, below a version and the number of lines. Do not do without it: a broker that lacks log-start-offset-checkpoint "
    "shows records again that DeleteRecords removed, and for one that lacks replication-offset-checkpoint see CHK-MISSING.",
    traps="",
)
CHK_START_ABOVE_HW = Code(
    "CHK-START-ABOVE-HW",
    severities=("low",),
    verdicts=(),
    summary="The log start lies above the checkpointed high watermark",
    meaning="The checkpoint is older than the last retention or DeleteRecords. Kafka raises the high watermark to "
    "the log start when it loads the log.",
    proof="The checkpoint and the log start.",
    remedy="None.",
    traps="",
)
CHK_ORPHAN_ENTRY = Code(
    "CHK-ORPHAN-ENTRY",
    severities=("info",),
    verdicts=(),
    summary="A checkpoint names a partition that is not in its log directory",
    meaning="The partition was deleted or moved, or its directory was not copied.",
    proof="The file and the entry.",
    remedy="None; if the partition should be there, look for its directory.",
    traps="A copy that begins in the middle of a deletion.",
)
CODES = (
    CHK_MISSING,
    CHK_MALFORMED,
    CHK_START_ABOVE_HW,
    CHK_ORPHAN_ENTRY,
)


def judge(case: Case) -> Iterator[Finding]:
    """CHK-* of every replica, and entries of log dirs that have no directory of the partition."""
    for facts in case.replicas:
        yield from _malformed(facts)
        yield from _missing_entry(facts)
        checkpoint = facts.directory.high_watermark_checkpoint
        if checkpoint is not None and facts.log_start_offset > checkpoint:
            yield finding(
                CHK_START_ABOVE_HW,
                f"broker {facts.broker_id}: log start {facts.log_start_offset} is above the checkpointed high watermark {checkpoint}",
                broker_id=facts.broker_id,
                evidence=[_file(facts, facts.directory.high_watermark_file.path, str(checkpoint))],
            )
    for (broker_id, log_dir, file), value in sorted(case.orphans.items()):
        yield finding(
            CHK_ORPHAN_ENTRY,
            f"broker {broker_id}: {file} has {value} for {case.topic_partition}, which is not in that log dir",
            broker_id=broker_id,
            evidence=[Evidence("checkpoint", text=file, broker_id=broker_id, path=log_dir, value=str(value))],
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
                CHK_MALFORMED,
                f"broker {facts.broker_id}: {file.problem}",
                broker_id=facts.broker_id,
                evidence=[_file(facts, file.path, None)],
            )


def _missing_entry(facts: ReplicaFacts) -> Iterator[Finding]:
    directory = facts.directory
    if directory.high_watermark_file.state == "present" and directory.high_watermark_checkpoint is None:
        yield finding(
            CHK_MISSING,
            f"broker {facts.broker_id}: {directory.high_watermark_file.path} has no entry for {directory.topic_partition}",
            severity="info" if facts.empty else "low",
            broker_id=facts.broker_id,
            evidence=[_file(facts, directory.high_watermark_file.path, None)],
        )


def _file(facts: ReplicaFacts, path: str, value: str | None) -> Evidence:
    return Evidence("checkpoint", text="as found", broker_id=facts.broker_id, path=path, value=value)


class UnusedCheckpoint(NamedTuple):
    """A log dir whose replication-offset-checkpoint is missing or empty."""

    broker_id: int
    log_dir: str
    path: str
    state: FileState


def missing_in_log_dir(file: UnusedCheckpoint) -> Finding:
    """Finding on a whole log dir without a usable replication-offset-checkpoint."""
    return finding(
        CHK_MISSING,
        f"broker {file.broker_id}: {file.path} is {file.state} though logs of this log dir have records; after a start every "
        "high watermark in it begins at its log start",
        severity="medium",
        broker_id=file.broker_id,
        evidence=[Evidence("checkpoint", text=file.state, broker_id=file.broker_id, path=file.path)],
    )

"""Checkpoint files compared with the log beside them (F.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.finding import Code, Finding, finding
from replica_audit.literals import FileState
from replica_audit.protocol.versions import keeps_strays
from replica_audit.schema import Evidence
from replica_audit.snapshot.log_dir_names import PARTITION_METADATA

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts

CHK_MISSING = Code("CHK-MISSING", ("medium", "low", "info"), traits=("start_order",))
CHK_MALFORMED = Code("CHK-MALFORMED", ("high",), ("INCONCLUSIVE",), traits=("unreadable",))
CHK_START_ABOVE_HW = Code("CHK-START-ABOVE-HW", ("low",))
CHK_ORPHAN_ENTRY = Code("CHK-ORPHAN-ENTRY", ("info",))


def judge(case: Case) -> Iterator[Finding]:
    """CHK-* of every replica, and of entries in log dirs without a directory of the partition."""
    for facts in case.replicas:
        yield from _unusable(facts)
        yield from _without_topic_id(case, facts)
        yield from _start_above(facts)
    for (broker_id, log_dir, file), value in sorted(case.evidence.orphans.items()):
        yield finding(
            CHK_ORPHAN_ENTRY,
            f"broker {broker_id}: {file} has {value} for {case.topic_partition}, which is not in that log dir",
            broker_id=broker_id,
            evidence=[Evidence("checkpoint", text=file, broker_id=broker_id, path=log_dir, value=str(value))],
        )


def _start_above(facts: ReplicaFacts) -> Iterator[Finding]:
    """CHK-START-ABOVE-HW for a log start above the log's own end, else for one above the checkpointed high watermark."""
    directory = facts.directory
    checkpoint = directory.high_watermark_checkpoint
    start = facts.log_start_offset
    here = f"broker {facts.broker_id}: log start {start} is above"
    if start > facts.log_end_offset and not facts.end_is_open:
        text = (
            f"{here} the end of its own log, {facts.log_end_offset}: the log lost its end, or was copied before that was written; what it has "
            f"from {start} on is not here, and a start of the broker with these files begins the log anew at {start}"
        )
        place = _file(facts, directory.log_start_file.path, str(start))
    elif checkpoint is not None and start > checkpoint:
        text = f"{here} the checkpointed high watermark {checkpoint}"
        place = _file(facts, directory.high_watermark_file.path, str(checkpoint))
    else:
        return
    yield finding(CHK_START_ABOVE_HW, text, broker_id=facts.broker_id, evidence=[place])


def _unusable(facts: ReplicaFacts) -> Iterator[Finding]:
    """CHK-MALFORMED, and CHK-MISSING for a file without an entry for the partition."""
    for file in facts.directory.offset_files:
        if file.state == "malformed":
            yield finding(
                CHK_MALFORMED,
                f"broker {facts.broker_id}: {file.problem}",
                broker_id=facts.broker_id,
                evidence=[_file(facts, file.path, None, file.state)],
            )
    file = facts.directory.high_watermark_file
    if file.state == "present" and facts.directory.high_watermark_checkpoint is None:
        yield finding(
            CHK_MISSING,
            f"broker {facts.broker_id}: {file.path} has no entry for {facts.directory.topic_partition}",
            severity="info" if facts.empty else "low",
            broker_id=facts.broker_id,
            evidence=[_file(facts, file.path, None)],
        )


def _without_topic_id(case: Case, facts: ReplicaFacts) -> Iterator[Finding]:
    """CHK-MALFORMED for a log with records whose partition.metadata is missing: since 3.7 a KRaft broker does not start with it,
    or takes it for a stray one and begins an empty log (KAFKA-16814, `LogManager.isStrayKraftReplica`)."""
    leadership, directory = case.leadership, facts.directory
    is_own = directory.epoch_file.state != "not_given" and directory.observed is None and directory.problem is None
    if not is_own or directory.topic_id is not None or facts.empty or case.options.leaves_out_ids:
        return
    if leadership is None or leadership.source != "metadata_log" or keeps_strays(case.options.kafka_version) is False:
        return
    path = f"{directory.path}/{PARTITION_METADATA}"
    lines = f"version: 0 and topic_id: {leadership.topic_id}"
    yield finding(
        CHK_MALFORMED,
        f"broker {facts.broker_id}: {path} is missing, or was not copied: without it a broker of KRaft does not start (3.7.0), or sets the log "
        "aside as -stray as it starts, and begins an empty one",
        broker_id=facts.broker_id,
        evidence=[Evidence("checkpoint", text="malformed", broker_id=facts.broker_id, path=path, value=lines)],
    )


def _file(facts: ReplicaFacts, path: str, value: str | None, text: str = "as found") -> Evidence:
    return Evidence("checkpoint", text=text, broker_id=facts.broker_id, path=path, value=value)


class UnusedCheckpoint(NamedTuple):
    """A log dir whose replication-offset-checkpoint is missing or empty."""

    broker_id: int
    log_dir: str
    path: str
    state: FileState


def missing_in_log_dir(file: UnusedCheckpoint) -> Finding:
    """Finding on a log dir without a usable replication-offset-checkpoint."""
    return finding(
        CHK_MISSING,
        f"broker {file.broker_id}: {file.path} is {file.state} though logs of this log dir have records; after a start every "
        "high watermark in it begins at its log start",
        severity="medium",
        broker_id=file.broker_id,
        evidence=[Evidence("checkpoint", text=file.state, broker_id=file.broker_id, path=file.path)],
    )

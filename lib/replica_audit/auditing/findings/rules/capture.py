"""Leadership, metadata and the capture itself (F.7)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.findings.finding import Case, Evidence, Finding, considered, finding
from replica_audit.auditing.replicas.facts import ReplicaFacts


def judge(case: Case) -> Iterator[Finding]:
    """META-* and CAP-* that files, listing and directories show."""
    yield from _leader(case)
    yield from _missing_replicas(case)
    for facts in (*case.replicas, *case.set_aside):
        yield from judge_copy(facts)
    yield from _topic_ids(case)
    for facts in case.duplicates:
        yield finding(
            "META-DUP-DIR",
            f"broker {facts.broker_id} has this partition twice; '{facts.directory.path}' was not used",
            broker_id=facts.broker_id,
            evidence=[Evidence("file", f"log end {facts.log_end_offset}", facts.broker_id, facts.directory.path)],
        )


def judge_copy(facts: ReplicaFacts) -> Iterator[Finding]:
    """What of one copy's files could not be read, or is not there."""
    directory, broker_id = facts.directory, facts.broker_id
    if facts.unread_bases:
        yield finding(
            "CAP-UNREADABLE",
            f"broker {broker_id}: {facts.unread}; its log is compared with nothing",
            broker_id=broker_id,
            evidence=[Evidence("file", "see quarantine", broker_id, directory.path)],
        )
    elif facts.unread is not None and directory.problem is None:
        yield finding(
            "CAP-MISSING-SEGMENT",
            f"broker {broker_id}: {facts.unread}; what its log holds is not known, and nothing is concluded from it",
            broker_id=broker_id,
            evidence=[
                Evidence("file", "as found", broker_id, directory.path),
                considered("an empty log: no, it has a .log file of 0 bytes"),
            ],
        )
    if directory.problem is not None:
        yield finding(
            "CAP-UNREADABLE",
            f"broker {broker_id}: {directory.problem}",
            broker_id=broker_id,
            evidence=[Evidence("file", directory.problem, broker_id, directory.path)],
        )
    files = (
        directory.epoch_file,
        directory.high_watermark_file,
        directory.recovery_point_file,
        directory.log_start_file,
        directory.cleaner_file,
    )
    for file in files:
        if file.state == "unreadable":
            yield finding(
                "CAP-UNREADABLE",
                f"broker {broker_id}: {file.problem}",
                broker_id=broker_id,
                evidence=[Evidence("file", "as found", broker_id, file.path)],
            )


def _leader(case: Case) -> Iterator[Finding]:
    reference = case.reference
    if reference.leader_id is None:
        yield finding(
            "META-NO-LEADER",
            f"no leader; compared with broker {reference.facts.broker_id}, and truncation says what would happen if it were elected",
            severity="info" if case.stopped else "medium",
            evidence=[Evidence("leadership", reference.source)],
        )
    if reference.outdated:
        yield finding(
            "CAP-SKEW",
            f"leadership by {reference.source} names broker {reference.leader_id}; broker {reference.facts.broker_id}, in sync then, "
            f"has records of leader epoch {reference.leader_epoch}, which that leader does not know: the leadership given is older than "
            f"the logs, so broker {reference.facts.broker_id} is compared with, and the in-sync replicas count as unknown",
            confidence="likely",
            broker_id=reference.facts.broker_id,
            evidence=[Evidence("leadership", reference.source)],
        )
    if reference.predates:
        yield finding(
            "CAP-SKEW",
            f"broker {reference.facts.broker_id} leads in epoch {reference.leader_epoch} by the metadata log, and its own "
            "epoch file does not know that epoch: its files were copied before it began to lead, so what others have past "
            "its end proves nothing",
            confidence="likely",
            broker_id=reference.facts.broker_id,
            evidence=[
                Evidence("lineage", "as found", reference.facts.broker_id, reference.facts.directory.epoch_file.path)
            ],
        )
    if reference.isr is None:
        bound = f"only the log end of broker {reference.facts.broker_id} bounds the high watermark from above"
        if case.high_watermark.hw_upper is None:
            bound = "no log end bounds the high watermark from above"
        yield finding(
            "META-ISR-UNKNOWN",
            f"nothing says who is in sync (leadership: {reference.source}); {bound}",
            evidence=[Evidence("leadership", reference.source)],
        )


def _missing_replicas(case: Case) -> Iterator[Finding]:
    if case.leadership is None:
        return
    leader_id = case.reference.leader_id
    present = {facts.broker_id for facts in (*case.replicas, *case.foreign, *case.set_aside)}
    for broker_id in sorted(case.leadership.named - present):
        in_sync, leads = bool(case.in_isr(broker_id)), broker_id == leader_id
        what = "leads" if leads else "is in sync" if in_sync else "is assigned"
        yield finding(
            "CAP-MISSING-REPLICA",
            f"broker {broker_id} {what}, but the snapshot has no readable files of it",
            severity="medium" if in_sync or leads else "info",
            broker_id=broker_id,
            evidence=[Evidence("leadership", case.leadership.source)],
        )


def _topic_ids(case: Case) -> Iterator[Finding]:
    """Copies of another topic id: an earlier life of the name where the listing tells the present id, else unclear."""
    for item, reason in case.strangers:
        yield finding(
            "META-TOPICID-MISMATCH",
            reason,
            confidence="suspect",
            broker_id=item.follower.broker_id,
            evidence=[considered("divergence: two logs of one topic share at least their first batches")],
        )
    known = case.leadership.topic_id if case.leadership else None
    for facts in case.foreign:
        present = case.reference.facts.directory.topic_id
        yield finding(
            "META-TOPICID-MISMATCH",
            f"broker {facts.broker_id}: {facts.directory.path} is of topic id {facts.directory.topic_id}, the others of {present}; not compared",
            severity="medium" if known is None else "info",
            verdict="INCONCLUSIVE" if known is None else None,
            broker_id=facts.broker_id,
            evidence=[
                Evidence(
                    "file", "partition.metadata", facts.broker_id, facts.directory.path, value=facts.directory.topic_id
                ),
                considered(
                    "topic re-created: cannot be told, nothing says which id is the present one"
                    if known is None
                    else f"topic re-created: yes, {case.leadership.source} names {known}; Kafka sets such a directory aside as -stray"
                ),
            ],
        )

"""Leadership, metadata and the capture itself (F.7)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.findings import Case, Evidence, Finding, considered, finding


def judge(case: Case) -> Iterator[Finding]:
    """META-* and CAP-* that files, listing and directories show."""
    yield from _leader(case)
    yield from _missing_replicas(case)
    for facts in (*case.replicas, *case.set_aside):
        directory = facts.directory
        unread = directory.segment_count - len(facts.segments)
        if unread > 0:
            yield finding(
                "CAP-UNREADABLE",
                f"broker {facts.broker_id}: {unread} of {directory.segment_count} segments of {directory.path} could not be read",
                broker_id=facts.broker_id,
                evidence=[Evidence("file", "see quarantine", facts.broker_id, directory.path)],
            )
        if directory.problem is not None:
            yield finding(
                "CAP-UNREADABLE",
                f"broker {facts.broker_id}: {directory.problem}",
                broker_id=facts.broker_id,
                evidence=[Evidence("file", directory.problem, facts.broker_id, directory.path)],
            )
    yield from _topic_ids(case)
    for facts in case.duplicates:
        yield finding(
            "META-DUP-DIR",
            f"broker {facts.broker_id} has this partition twice; '{facts.directory.path}' was not used",
            broker_id=facts.broker_id,
            evidence=[Evidence("file", f"log end {facts.log_end_offset}", facts.broker_id, facts.directory.path)],
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
        yield finding(
            "META-ISR-UNKNOWN",
            f"nothing says who is in sync (leadership: {reference.source}); the high watermark is bounded above by the log end of "
            f"broker {reference.facts.broker_id} only",
            evidence=[Evidence("leadership", reference.source)],
        )


def _missing_replicas(case: Case) -> Iterator[Finding]:
    if case.leadership is None or case.leadership.replicas is None:
        return
    present = {facts.broker_id for facts in (*case.replicas, *case.foreign, *case.set_aside)}
    for broker_id in case.leadership.replicas:
        if broker_id in present:
            continue
        in_sync = bool(case.in_isr(broker_id))
        yield finding(
            "CAP-MISSING-REPLICA",
            f"broker {broker_id} is assigned{' and in sync' if in_sync else ''}, but the snapshot has no files of it",
            severity="medium" if in_sync else "info",
            broker_id=broker_id,
            evidence=[Evidence("leadership", case.leadership.source)],
        )


def _topic_ids(case: Case) -> Iterator[Finding]:
    """Copies of another topic id: an earlier life of the name where the listing tells the present id, else unclear."""
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

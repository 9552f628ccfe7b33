"""Identity of a partition: its leader, and the directories that belong to it (F.7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import Code, Finding, considered, finding
from replica_audit.auditing.finding_evidence import unusable_input
from replica_audit.schema import Evidence, QuarantineRow
from replica_audit.text import name_source, render_time

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.model import Leadership

META_NO_LEADER = Code("META-NO-LEADER", ("medium", "info"))
META_ISR_UNKNOWN = Code("META-ISR-UNKNOWN", ("info",))
META_TOPICID_MISMATCH = Code("META-TOPICID-MISMATCH", ("medium", "info"), ("INCONCLUSIVE",), traits=("doubt",))
META_DUP_DIR = Code("META-DUP-DIR", ("medium",))
META_FOREIGN_DIR = Code("META-FOREIGN-DIR", ("medium",))
CODES = (META_NO_LEADER, META_ISR_UNKNOWN, META_TOPICID_MISMATCH, META_DUP_DIR, META_FOREIGN_DIR)


def judge(case: Case) -> Iterator[Finding]:
    """META-NO-LEADER, META-ISR-UNKNOWN, META-TOPICID-MISMATCH and META-DUP-DIR."""
    yield from _leader(case)
    yield from _topic_ids(case)
    for facts in case.duplicates:
        yield finding(
            META_DUP_DIR,
            f"broker {facts.broker_id} has this partition twice; '{facts.directory.path}' was not used",
            broker_id=facts.broker_id,
            evidence=[
                Evidence(
                    "file", text=f"log end {facts.log_end_offset}", broker_id=facts.broker_id, path=facts.directory.path
                )
            ],
        )


def _leader(case: Case) -> Iterator[Finding]:
    reference = case.reference
    if case.leadership is not None and case.leadership.is_deleted:
        yield _deleted(case.leadership)
        return
    if reference.leader_id is None:
        yield finding(
            META_NO_LEADER,
            f"no leader; the others are compared with broker {reference.facts.broker_id}, and cuts are shown as if it were elected",
            severity="info" if case.stopped else "medium",
            evidence=[Evidence("leadership", text=name_source(reference.source))],
        )
    if reference.isr is None:
        bound = f"only the log end of broker {reference.facts.broker_id} bounds the high watermark from above"
        if case.high_watermark.hw_upper is None:
            bound = "no log end bounds the high watermark from above"
        yield finding(
            META_ISR_UNKNOWN,
            f"{_why_unknown(case)}; {bound}",
            evidence=[Evidence("leadership", text=name_source(reference.source))],
        )


def _why_unknown(case: Case) -> str:
    """Clause saying why the in-sync replicas are unknown."""
    source = name_source(case.reference.source)
    if case.leadership is not None and case.leadership.overtaken and not case.reference.outdated:
        return (
            f"what {source} says of who is in sync is not used, as it is older than the logs: those of another partition "
            "know a later leader epoch"
        )
    return f"nothing says who is in sync (leadership: {source})"


def _deleted(leadership: Leadership) -> Finding:
    last = leadership.history[-1]
    return finding(
        META_NO_LEADER,
        f"the topic was deleted at {render_time(last.time_ms)} by record {last.metadata_offset} of the metadata log; a broker that "
        "still has a directory of it removes it, or sets it aside as -stray, once it has caught up",
        severity="info",
        evidence=[Evidence("leadership", text=f"topic id {leadership.topic_id}", value=name_source(leadership.source))],
    )


def _topic_ids(case: Case) -> Iterator[Finding]:
    """Copies of another topic id: an earlier life of the name where the listing tells the present id, else unclear."""
    for item, reason in case.strangers:
        yield finding(
            META_TOPICID_MISMATCH,
            reason,
            confidence="suspect",
            broker_id=item.follower.broker_id,
            evidence=[considered("divergence: two logs of one topic share at least their first batches")],
        )
    leadership = case.leadership
    known = leadership.topic_id if leadership is not None else None
    for facts in case.foreign:
        present = case.reference.facts.directory.topic_id
        yield finding(
            META_TOPICID_MISMATCH,
            f"broker {facts.broker_id}: {facts.directory.path} is of topic id {facts.directory.topic_id}, the others of {present}; not compared",
            severity="medium" if known is None else "info",
            verdict="INCONCLUSIVE" if known is None else None,
            broker_id=facts.broker_id,
            evidence=[
                Evidence(
                    "file",
                    text="partition.metadata",
                    broker_id=facts.broker_id,
                    path=facts.directory.path,
                    value=facts.directory.topic_id,
                ),
                considered(
                    "topic re-created: possible, nothing says which id is the present one"
                    if leadership is None or known is None
                    else f"topic re-created: yes, {name_source(leadership.source)} names {known}; Kafka sets such a directory aside as -stray"
                ),
            ],
        )


def of_input(row: QuarantineRow) -> Finding | None:
    """Finding of a quarantine row of a log dir of another cluster or node; None for any other row."""
    return unusable_input(META_FOREIGN_DIR, row) if row.code == META_FOREIGN_DIR.code else None

"""Lineages of replicas against the reference's, and against the leadership given (F.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import Code, Finding, considered, finding
from replica_audit.auditing.finding_evidence import entries_text
from replica_audit.auditing.findings.meta_copies import explained_by_skew
from replica_audit.auditing.replicas.offset_ranges import shared_end, shared_start
from replica_audit.schema import Evidence
from replica_audit.text import name_source

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts

EPO_START_MISMATCH = Code(
    "EPO-START-MISMATCH",
    severities=("high",),
    verdicts=("COMMITTED_DIVERGENCE",),
    traits=("damage",),
    summary="One epoch begins at different offsets on two replicas",
    meaning="An epoch has one leader and so one first offset. Where two replicas disagree, one of them holds "
    "another leader's records below: the trace of a broker that was not fenced (KAFKA-6880). No truncation "
    "protocol "
    "notices it when the tails agree.",
    proof="The first batch of the epoch on both replicas, each inside the range that can be compared.",
    remedy="Look at the divergence finding for the range between the two offsets, decide which side is right, and "
    "copy the other replica and rebuild it.",
    traps="Retention or compaction may have removed the first batch; an entry at the log end has no records yet.",
)
EPO_UNKNOWN_TO_LEADER = Code(
    "EPO-UNKNOWN-TO-LEADER",
    severities=("medium", "info"),
    verdicts=(),
    summary="A follower has records of an epoch that the leader's lineage does not have",
    meaning="Some earlier leader wrote records that the present one never got. With a conflicting tail that is the "
    "usual picture after a failover (info); without one something is missing from the leader.",
    proof="The epoch and its offsets on the follower, the leader's lineage around them.",
    remedy="See the divergence finding for the range. Without one, compare the leader's older segments.",
    traps="Retention may have removed the epoch on the leader.",
)
EPO_AHEAD_OF_METADATA = Code(
    "EPO-AHEAD-OF-METADATA",
    severities=("medium", "info"),
    verdicts=(),
    summary="A batch has a greater leader epoch than the newest metadata",
    meaning="Nobody can lead in an epoch that the controller has not given out. The metadata copy is older than "
    "the log, or the epoch field is wrong.",
    proof="The batch with offset and epoch, the leader epoch of the metadata and its source.",
    remedy="Copy the metadata log after the partitions. If the copies are of one moment, treat it as LOG-CRC-BLIND.",
    traps="Info when the copies may be of different moments.",
)
CODES = (
    EPO_START_MISMATCH,
    EPO_UNKNOWN_TO_LEADER,
    EPO_AHEAD_OF_METADATA,
)


def judge(case: Case) -> Iterator[Finding]:
    """The lineage of every replica that was compared."""
    for facts in case.replicas:
        yield from _ahead_of_metadata(case, facts)
    for item in case.comparisons:
        yield from _start_mismatch(case, item)
        yield from _unknown_epochs(case, item)


def _start_mismatch(case: Case, item: Comparison) -> Iterator[Finding]:
    leader, follower = case.reference.facts, item.follower
    if leader.compacted or follower.compacted:
        return
    floor = shared_start(leader, follower)
    ceiling = shared_end(leader, follower)
    for epoch, start in follower.lineage:
        other = leader.lineage.start_of(epoch)
        if other is None or other == start or not all(floor < value < ceiling for value in (start, other)):
            continue
        if any(pair.kind == "blind" and pair.start_offset in (start, other) for pair in item.alignment.corrupt):
            # A changed header field is what begins there, on one side or the other.
            continue
        if leader.cannot_read(*sorted((start, other))) or follower.cannot_read(*sorted((start, other))):
            continue
        if any(
            part.kind == "format" and part.start_offset <= min(start, other) < part.end_offset
            for part in item.alignment.differences
        ):
            # One side has these records in a format without epochs.
            continue
        yield finding(
            EPO_START_MISMATCH,
            f"epoch {epoch} begins at {start} on broker {follower.broker_id} and at {other} on broker {leader.broker_id}; "
            "one leader wrote it, so both cannot be right",
            broker_id=follower.broker_id,
            start_offset=min(start, other),
            end_offset=max(start, other),
            replica_epoch=epoch,
            evidence=[
                Evidence(
                    "lineage",
                    text=f"from the batches: {entries_text(follower.lineage.entries)}",
                    broker_id=follower.broker_id,
                ),
                Evidence(
                    "lineage",
                    text=f"from the batches: {entries_text(leader.lineage.entries)}",
                    broker_id=leader.broker_id,
                ),
                considered("retention: no, both starts lie inside both logs"),
            ],
        )


def _unknown_epochs(case: Case, item: Comparison) -> Iterator[Finding]:
    leader, follower, newest = case.reference.facts, item.follower, case.reference.leader_epoch
    if newest is None or not leader.lineage:
        return
    oldest = leader.lineage.entries[0][0]
    # The file as found: the loader drops an entry at the log's end, where the leader's copy has no record of it yet.
    entries = (*leader.lineage, *(leader.file_lineage or ()), *(leader.directory.checkpoint_epochs or ()))
    known = {epoch for epoch, _ in entries}
    for epoch, start in follower.lineage:
        # Retention removes old epochs; a tail that is ahead may be of an epoch that the reference has not reached.
        if epoch in known or not oldest < epoch < newest:
            continue
        if case.reference.predates and start >= leader.log_end_offset:
            continue
        in_tail = any(
            part.start_offset <= start and part.end_offset >= follower.log_end_offset for part in item.stretches
        )
        # A reference that fetched a cleaned log never had the epochs of which nothing was left.
        if leader.compacted and not any(part.start_offset <= start < part.end_offset for part in item.stretches):
            continue
        yield finding(
            EPO_UNKNOWN_TO_LEADER,
            f"broker {follower.broker_id} has records of epoch {epoch} from {start} on; broker {leader.broker_id} never had that epoch",
            severity="info" if in_tail else "medium",
            broker_id=follower.broker_id,
            start_offset=start,
            replica_epoch=epoch,
            evidence=[Evidence("lineage", text=entries_text(leader.lineage.entries), broker_id=leader.broker_id)],
        )


def _ahead_of_metadata(case: Case, facts: ReplicaFacts) -> Iterator[Finding]:
    leadership, last = case.leadership, facts.last_leader_epoch
    older = case.reference.outdated
    if leadership is None or (older is not None and not explained_by_skew(case, older)):
        return
    newest = leadership.leader_epoch
    if newest is not None and last is not None and last > newest:
        yield finding(
            EPO_AHEAD_OF_METADATA,
            f"broker {facts.broker_id} has batches of epoch {last}; {name_source(leadership.source)} knows epochs up to {newest}",
            severity="medium" if case.quiesced else "info",
            broker_id=facts.broker_id,
            replica_epoch=last,
            evidence=[Evidence("leadership", text=f"leader epoch {newest}", value=name_source(leadership.source))],
        )

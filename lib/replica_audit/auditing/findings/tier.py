"""Segments in remote storage: of a history that the log left, missing in the log's own, or stuck (F.7, J)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    entries_text,
    finding,
    name_holder,
    remote_segment,
    undecided,
)
from replica_audit.model import span_of
from replica_audit.schema import Evidence
from replica_audit.text import count, name_offsets, name_remote_bases, render_time, verb

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.remote_storage import RemoteOrphan
    from replica_audit.literals import StoredForm
    from replica_audit.model import RemoteSegment

TIER_ORPHAN = Code("TIER-ORPHAN", ("critical", "high"), ("COMMITTED_LOSS", "INCONCLUSIVE"), traits=("records",))
TIER_LOST = Code("TIER-LOST", ("critical", "high"), ("COMMITTED_LOSS", "INCONCLUSIVE"), traits=("records",))
TIER_GAP = Code("TIER-GAP", ("critical",), ("COMMITTED_LOSS",))
TIER_NOT_COPIED = Code("TIER-NOT-COPIED", ("high",), ("COMMITTED_LOSS",))
TIER_RETENTION = Code("TIER-RETENTION", ("high",), ("COMMITTED_LOSS",))
TIER_FOLLOWER_GAP = Code("TIER-FOLLOWER-GAP", ("high",), ("LATENT_CORRUPTION",), traits=("moved_away",))
TIER_EPOCHS = Code("TIER-EPOCHS", ("high",), ("INCONCLUSIVE",))
TIER_UNKNOWN = Code("TIER-UNKNOWN", ("high", "info"), ("INCONCLUSIVE",))
TIER_COPY_UNFINISHED = Code("TIER-COPY-UNFINISHED", ("low",))
TIER_DELETE_UNFINISHED = Code("TIER-DELETE-UNFINISHED", ("low",))

#: Maximum number of segments named in a finding; `remote_segments` has all.
_NAMED = 20


def judge(case: Case) -> Iterator[Finding]:
    """Yield a finding for each range of another history and each hole, and one for each other problem of segments."""
    yield from _orphans(case)
    yield from _vanished(case)
    yield from _holes(case)
    yield from _early_deletion(case)
    yield from _follower_gaps(case)
    yield from _contradictory(case)
    yield from _unknown(case)
    yield from _unfinished(case)


def _orphans(case: Case) -> Iterator[Finding]:
    facts = case.reference.facts
    for orphan in case.remote.other.orphans:
        segments = count(len(orphan.segment_ids), "segment")
        text = (
            f"remote storage has {segments} with {name_offsets(*orphan.offsets)} of epoch "
            f"{orphan.leader_epoch}, up to {count(orphan.offsets.size, 'committed record')} that the log of broker {facts.broker_id} does "
            f"not have{_say_basis(case, orphan.segment_ids)}{_say_forms([case.store.forms.get(one) for one in orphan.segment_ids])}"
        )
        yield _of_other_history(case, TIER_ORPHAN, orphan, text)


def _of_other_history(case: Case, code: Code, orphan: RemoteOrphan, text: str, *more: Evidence) -> Finding:
    """Finding on records that were in remote storage and are not in the reference's log."""
    found = finding(
        code,
        text,
        offsets=orphan.offsets,
        replica_epoch=orphan.leader_epoch,
        evidence=[
            *(remote_segment(one, one) for one in orphan.segment_ids),
            considered("uncommitted: no, Kafka copies only what lies below the last stable offset"),
            *more,
        ],
    )
    return undecided(found, None if case.is_leaders else case.why_leaders)


def _say_basis(case: Case, segment_ids: Sequence[str]) -> str:
    """Clause on the weakest evidence that the store has the segments, except those it is known to lack."""
    forms = {one: case.store.forms.get(one) for one in segment_ids}
    bases = {case.store.basis_of(one) for one, form in forms.items() if form not in ("absent", "incomplete")}
    return f": {name_remote_bases(bases)}" if bases else ""


def _say_forms(forms: Sequence[StoredForm | None]) -> str:
    """Clauses on the availability of the segments in the checked store."""
    text = ""
    if encrypted := forms.count("encrypted"):
        they = verb(encrypted, "is", "are")
        text = f"; {encrypted} {they} encrypted, and only the brokers' plugin can read {verb(encrypted, 'it', 'them')}"
    if lacking := forms.count("absent") + forms.count("incomplete"):
        text += f"; {lacking} {verb(lacking, 'is', 'are')} missing or incomplete"
    return text


def _vanished(case: Case) -> Iterator[Finding]:
    facts = case.reference.facts
    other = case.remote.other
    begun = "a copy to remote storage that was begun but not finished"
    deleted = "remote storage, where Kafka is deleting them or has deleted them"
    for stretches, where, besides in (
        (other.begun, begun, "the store may have part of them"),
        (other.deleted, deleted, "the log begins below"),
    ):
        for one in stretches:
            text = (
                f"{name_offsets(*one.offsets)} of epoch {one.leader_epoch}, up to {count(one.offsets.size, 'committed record')} that the "
                f"log of broker {facts.broker_id} does not have, were in {where}: {besides}"
            )
            why = considered(f"retention or DeleteRecords: no, the log starts at {case.remote.start_offset}")
            yield _of_other_history(case, TIER_LOST, one, text, why)


def _holes(case: Case) -> Iterator[Finding]:
    facts = case.reference.facts
    local = f"below the local start {facts.local_start_offset} of broker {facts.broker_id} and in no segment of remote storage"
    above = considered("retention: no, it deletes from the log start up, and this lies above it")
    for gap in case.remote.holes.gaps:
        yield finding(
            TIER_GAP,
            f"{name_offsets(*gap)} are {local}, which has a later segment",
            broker_id=facts.broker_id,
            offsets=gap,
            evidence=[above, *_later_starts(case, gap.end_offset)],
        )
    if last := case.remote.holes.uncopied:
        yield finding(
            TIER_NOT_COPIED,
            f"{name_offsets(*last)} are {local}; local segments are deleted only after they have been copied",
            confidence="likely",
            broker_id=facts.broker_id,
            offsets=last,
            evidence=[
                above,
                considered("copied since: no, the metadata of remote storage was captured as late as the log"),
            ],
        )


def _later_starts(case: Case, end_offset: int) -> Iterator[Evidence]:
    """Evidence of followers whose log starts past a gap of a leader that was stopped cleanly."""
    start = case.remote.start_offset
    for item in case.comparisons:
        other = item.follower
        if case.reference.facts.was_stopped_before_copy and other.log_start_offset >= end_offset:
            yield considered(
                f"the log start {other.log_start_offset} of broker {other.broker_id}: no, broker {case.reference.facts.broker_id} was "
                f"stopped cleanly with log start {start}"
            )


def _early_deletion(case: Case) -> Iterator[Finding]:
    facts = case.reference.facts
    early = case.remote.early
    if early is None:
        return
    seconds = (max(one.deleting_ms or 0 for one in early.segments) - early.elected.time_ms) // 1000
    gone = f"broker {facts.broker_id} deleted {name_offsets(early.start_offset, early.end_offset)} because of the log's size"
    left = f"{count(early.left_bytes, 'byte')} are left though retention.bytes allows {early.retention_bytes}"
    if early.failed:
        counted = count(sum(one.size_bytes for one in early.failed), "byte")
        said = f"{gone}, and {left}: it also counted {count(len(early.failed), 'failed copy', 'failed copies')} of {counted} (KAFKA-17062)"
        reason = [*_named(early.failed, "begun")]
    else:
        said = f"{gone} within {count(seconds + 1, 'second')} of its election, and {left} (KAFKA-20732)"
        elected = f"broker {facts.broker_id} was elected in epoch {early.elected.leader_epoch} at {render_time(early.elected.time_ms)}"
        epoch = str(early.elected.leader_epoch)
        reason = [Evidence("leadership", text=elected, broker_id=facts.broker_id, value=epoch)]
    yield finding(
        TIER_RETENTION,
        said,
        confidence="likely",
        broker_id=facts.broker_id,
        offsets=(early.start_offset, early.end_offset),
        evidence=[
            *reason,
            *_named(early.segments, "deleted"),
            considered("retention.ms: no, none of the segments was too old when its deletion began"),
            considered("DeleteRecords: unlikely, the log begins exactly where a segment ended"),
            considered("another retention.bytes: no, it has not changed since the election of that leader"),
        ],
    )


def _follower_gaps(case: Case) -> Iterator[Finding]:
    for broker_id, gap in sorted(case.remote.gaps.items()):
        yield finding(
            TIER_FOLLOWER_GAP,
            f"{name_offsets(*gap)} are below the local start {gap.end_offset} of broker {broker_id} "
            f"and in no segment of remote storage: as leader it could not serve them, and broker "
            f"{case.reference.facts.broker_id} has them",
            confidence="likely",
            broker_id=broker_id,
            offsets=gap,
            evidence=[
                considered("retention: no, it deletes from the log start up, and this lies above it"),
                considered("copied since: no, the metadata of remote storage was captured as late as this log"),
            ],
        )


def _contradictory(case: Case) -> Iterator[Finding]:
    found = [one for one in case.remote.contradictory if one.deleting_ms is None]
    if not found:
        return
    entries = ", ".join(f"{epoch}:{start}" for epoch, start in case.remote.lineage)
    yield finding(
        TIER_EPOCHS,
        f"the epochs of {count(len(found), 'segment')} in remote storage contradict those of broker "
        f"{case.reference.facts.broker_id}: it is not known which records they hold",
        offsets=span_of(found),
        evidence=[
            Evidence("lineage", text=f"the log: {entries}", broker_id=case.reference.facts.broker_id),
            *_named(found, "told"),
        ],
    )


def _unknown(case: Case) -> Iterator[Finding]:
    """Findings for each range of another history that is lost only if the log is tiered; without any, one on the log itself."""
    below = case.undecided_below
    if below is None:
        return
    facts = case.reference.facts
    span = name_offsets(*below)
    open_ = f"it is not known whether {span} of the log of broker {facts.broker_id} are in remote storage"
    checkpoint = facts.directory.log_start_checkpoint
    evidence = [
        Evidence(
            "checkpoint",
            text=f"log-start-offset-checkpoint: {'no entry here' if checkpoint is None else checkpoint}; "
            f"the files begin at {below.end_offset}",
            broker_id=facts.broker_id,
            value=None if checkpoint is None else str(checkpoint),
        ),
        Evidence("lineage", text=entries_text(facts.directory.checkpoint_epochs), broker_id=facts.broker_id),
        considered("the topic's configs, __remote_log_metadata and the store: none is here, or none covers the topic"),
    ]
    differing = case.differing_below(below)
    for item, part, epoch, had in differing:
        name = name_holder(case, item)
        yield finding(
            TIER_UNKNOWN,
            f"{name} has {name_offsets(*part)} of epoch {epoch}, where the epoch file of "
            f"broker {facts.broker_id} has epoch {had}: {open_}. If they are, {name} loses what it has "
            "as soon as it follows",
            severity="high",
            confidence="suspect",
            broker_id=item.follower.broker_id,
            offsets=part,
            replica_epoch=epoch,
            evidence=evidence,
        )
    if not differing:
        yield finding(
            TIER_UNKNOWN,
            open_,
            severity="info",
            confidence="suspect",
            broker_id=facts.broker_id,
            offsets=below,
            evidence=evidence,
        )


def _unfinished(case: Case) -> Iterator[Finding]:
    found = case.remote.unfinished
    rules = (
        (TIER_COPY_UNFINISHED, found.copies, "copy", "being copied"),
        (TIER_DELETE_UNFINISHED, found.deletions, "deletion", "being deleted"),
    )
    for code, segments, what, state in rules:
        if not segments:
            continue
        size = sum(one.size_bytes for one in segments)
        yield finding(
            code,
            f"the {what} of {count(len(segments), 'segment')} in remote storage was begun but not finished an hour later: up to "
            f"{count(size, 'byte')} that nobody reads",
            offsets=span_of(segments),
            evidence=[
                *_named(segments, state),
                considered(
                    f"a {what} under way: no, its metadata was captured an hour later, or has messages of an hour later"
                ),
            ],
        )


def _named(segments: Sequence[RemoteSegment], state: str) -> Iterator[Evidence]:
    """Evidence of the first `_NAMED` segments."""
    for one in segments[:_NAMED]:
        epochs = ", ".join(f"{epoch}:{start}" for epoch, start in one.epochs)
        span = name_offsets(*one.offsets)
        text = f"segment {one.segment_id}, {span}, epochs {epochs}, {state} by broker {one.updated_by} at {render_time(one.updated_ms)}"
        yield Evidence("file", text=text, value=one.segment_id)
    if len(segments) > _NAMED:
        yield Evidence("file", text=f"and {count(len(segments) - _NAMED, 'more segment')}: `remote_segments`")

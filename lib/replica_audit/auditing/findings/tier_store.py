"""Checks of the remote store: segments that it lacks, has in another size, or should not have (F.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import Code, Finding, considered, finding, remote_segment, undecided
from replica_audit.literals import Severity
from replica_audit.model import span_of
from replica_audit.text import count, name_brokers, name_offsets, verb

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.remote_contents import ContentDeviation
    from replica_audit.auditing.compare.remote_objects import MissingObject, ResizedObject
    from replica_audit.model import OffsetRange, RemoteObject

TIER_OBJECT_MISSING = Code(
    "TIER-OBJECT-MISSING", ("critical", "high", "low", "info"), ("COMMITTED_LOSS", "INCONCLUSIVE")
)
TIER_OBJECT_SIZE = Code("TIER-OBJECT-SIZE", ("high",), ("COMMITTED_LOSS",))
TIER_OBJECT_LEAKED = Code("TIER-OBJECT-LEAKED", ("low",))
TIER_OBJECT_DAMAGED = Code("TIER-OBJECT-DAMAGED", ("critical", "medium"), ("COMMITTED_LOSS", "LATENT_CORRUPTION"))
TIER_OBJECT_DIFFERS = Code("TIER-OBJECT-DIFFERS", ("high",), ("COMMITTED_DIVERGENCE",))
TIER_OBJECT_UNREAD = Code("TIER-OBJECT-UNREAD", ("medium", "info"), ("INCONCLUSIVE",))

#: Code of a segment that was read, or could not be, by how it deviates.
_CODES = {"unread": TIER_OBJECT_UNREAD, "damaged": TIER_OBJECT_DAMAGED, "differs": TIER_OBJECT_DIFFERS}
#: Maximum number of segments named in a finding on several.
_SHOWN = 10


def judge(case: Case) -> Iterator[Finding]:
    """Yield a finding for each affected segment; one for all that timing may explain, and one for all that are encoded."""
    orphans = {one for orphan in case.remote.other.gone_orphans for one in orphan.segment_ids}
    undecided: dict[tuple[str, str], list[MissingObject]] = {}
    for missing in case.store.missing:
        if not missing.is_gone:
            undecided.setdefault((missing.certainty, missing.why), []).append(missing)
        else:
            yield _missing(case, missing, is_orphan=missing.segment.segment_id in orphans)
    for (certainty, why), found in undecided.items():
        yield _undecided(why, found, is_doubtful=certainty == "doubtful")
    for resized in case.store.resized:
        yield _resized(resized)
    for leaked in case.store.leaked:
        yield _leaked(leaked)
    encoded: dict[str, list[ContentDeviation]] = {}
    for one in case.store.contents:
        if one.is_encoded:
            encoded.setdefault(one.text, []).append(one)
        else:
            yield _content(one)
    for reason, same in encoded.items():
        yield _encoded(reason, same)


def _missing(case: Case, found: MissingObject, *, is_orphan: bool) -> Finding:
    segment = found.segment
    offsets = name_offsets(*segment.offsets)
    text = f"the remote store has {found.missing} of a copied segment with {offsets}"
    evidence = [
        remote_segment(segment.segment_id, segment.segment_id),
        considered(f"deleted by Kafka, or not copied yet: no, {found.why}"),
    ]
    is_loss = bool(found.needed) or is_orphan
    severity: Severity = "low"
    if is_loss:
        severity = "critical" if found.certainty == "proven" else "high"
    if found.needed:
        lacking = " and ".join(name_offsets(*one) for one in found.needed)
        leader = case.reference.facts
        text += f": {lacking} are below the local start {leader.local_start_offset} of broker {leader.broker_id} and nowhere else in it"
        if holders := _holders(case, found.needed):
            text += f"; {name_brokers(holders)} still {verb(len(holders), 'has', 'have')} some of them"
    elif is_orphan:
        text += ", which were committed and are in no log" + ("" if case.is_leaders else " here")
    else:
        is_below = segment.end_offset <= case.reference.facts.log_start_offset
        text += ", which the log no longer needs" if is_below else ", which the log still has elsewhere"
    missing = finding(
        TIER_OBJECT_MISSING,
        text,
        severity=severity,
        verdict="COMMITTED_LOSS" if is_loss else None,
        confidence="proven" if found.certainty == "proven" else "likely",
        offsets=segment.offsets,
        replica_epoch=segment.epochs[0][0],
        evidence=evidence,
    )
    is_open = is_orphan and not found.needed and not case.is_leaders
    return undecided(missing, case.why_leaders if is_open else None)


def _undecided(why: str, found: Sequence[MissingObject], *, is_doubtful: bool) -> Finding:
    """One finding for all segments of a partition that timing may explain."""
    span = span_of([one.segment for one in found])
    return finding(
        TIER_OBJECT_MISSING,
        f"the remote store lacks {count(len(found), 'copied segment')} with {name_offsets(*span)}: {why}",
        severity="low" if is_doubtful else "info",
        confidence="suspect",
        offsets=span,
        evidence=[remote_segment(one.segment.segment_id) for one in found[:_SHOWN]],
    )


def _holders(case: Case, needed: tuple[OffsetRange, ...]) -> list[int]:
    """Brokers other than the reference's whose local files overlap the `needed` ranges."""
    return sorted(
        {
            facts.broker_id
            for facts in case.copies
            if facts.key != case.reference.facts.key
            and any(one.overlaps(facts.local_start_offset, facts.log_end_offset) for one in needed)
        }
    )


def _resized(found: ResizedObject) -> Finding:
    segment, stored = found.segment, found.stored
    size_bytes = stored.segment_bytes or 0
    is_shorter = size_bytes < segment.size_bytes
    what = "readers do not get all of it" if is_shorter else "it was overwritten, or is another object"
    return finding(
        TIER_OBJECT_SIZE,
        f"the remote store has {count(size_bytes, 'byte')} of a segment of {count(segment.size_bytes, 'byte')} with "
        f"{name_offsets(*segment.offsets)}: {what}",
        confidence="likely",
        offsets=segment.offsets,
        replica_epoch=segment.epochs[0][0],
        evidence=[
            remote_segment(segment.segment_id, stored.log_path),
            considered("upload under way: no, the copy was finished before the store was listed"),
        ],
    )


def _content(found: ContentDeviation) -> Finding:
    """Finding on a segment that was read, or could not be."""
    segment = found.segment
    text = f"the segment with {name_offsets(*segment.offsets)} in the remote store: {found.text}"
    code = _CODES[found.kind]
    severity = code.severities[0]
    verdict = code.verdicts[0]
    if found.needed:
        lacking = " and ".join(name_offsets(*one) for one in found.needed)
        text += f"; {lacking} are nowhere else in the log"
    elif found.kind == "damaged":
        severity = "medium"
        verdict = "LATENT_CORRUPTION"
        text += "; the log has them elsewhere, or in a segment that could not be read, or does not need them"
    return finding(
        code,
        text,
        severity=severity,
        verdict=verdict,
        offsets=segment.offsets,
        replica_epoch=segment.epochs[0][0],
        evidence=[remote_segment(segment.segment_id, found.path)],
    )


def _encoded(why: str, found: Sequence[ContentDeviation]) -> Finding:
    """One finding for all encoded segments of a partition."""
    span = span_of([one.segment for one in found])
    return finding(
        TIER_OBJECT_UNREAD,
        f"{count(len(found), 'segment')} with {name_offsets(*span)} in the remote store: {why}",
        severity="info",
        offsets=span,
        evidence=[remote_segment(one.segment.segment_id) for one in found[:_SHOWN]],
    )


def _leaked(stored: RemoteObject) -> Finding:
    return finding(
        TIER_OBJECT_LEAKED,
        f"the remote store has {count(stored.log_bytes, 'byte')} of a segment from offset {stored.start_offset} on that is "
        "unknown to __remote_log_metadata, or deleted there: nobody reads it, and nothing will delete it",
        offsets=(stored.start_offset, None),
        evidence=[
            remote_segment(stored.segment_id, stored.log_path),
            considered(
                "upload under way: no, the metadata of segments continues past the time when the object was there"
            ),
        ],
    )

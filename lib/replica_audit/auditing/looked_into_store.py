"""Differences between a remote store and `__remote_log_metadata` for one partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from replica_audit.auditing.compare.remote_contents import check_contents
from replica_audit.auditing.compare.remote_objects import (
    StoreDeviations,
    StoreMoments,
    find_deviations,
    find_leaked,
    seen_in_store,
)
from replica_audit.auditing.compare.remote_storage import find_contradictory
from replica_audit.auditing.compare.replays import whole_lineage
from replica_audit.model import RemoteListing, RemoteSegment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from replica_audit.auditing.evidence import PartitionEvidence
    from replica_audit.auditing.replicas.reference import Reference


def look_into_store(evidence: PartitionEvidence, reference: Reference, local: NDArray[np.void]) -> StoreDeviations:
    """Find deviations of the segments with the reference's topic id, and leaked objects of all topics of that name; empty if
    the store was not checked. `local` are the batches of the reference's log that the plan asked for."""
    listing = evidence.side.store
    if listing is None:
        return StoreDeviations()
    by_topic: dict[str, list[RemoteSegment]] = defaultdict(list)
    for one in evidence.side.remote_segments:
        by_topic[one.topic_id].append(one)
    moments = {topic_id: _moments(evidence, of_id, listing) for topic_id, of_id in by_topic.items()}
    leaked = find_leaked(moments.values())
    topic_id = reference.facts.directory.topic_id or ""
    own = moments.get(topic_id)
    if own is None:
        return StoreDeviations(leaked=leaked)
    facts, lineage = reference.facts, whole_lineage(reference)
    read = [one for one in evidence.side.contents if one.segment.topic_id == topic_id]
    contents = check_contents(facts, lineage, read, local)
    # Offsets do not identify the content of a contradictory segment.
    unclear = {one.segment_id for one in find_contradictory(lineage, own.segments)}
    sound = [one for one in own.segments if one.segment_id not in unclear]
    found = find_deviations(facts, lineage, sound, own)
    read_whole = {one.segment.segment_id for one in read if one.summary is not None}
    seen = seen_in_store(own.segments, listing, contents, read_whole)
    return replace(found, leaked=leaked, contents=contents, forms=own.forms(), seen=seen)


def _moments(evidence: PartitionEvidence, segments: Sequence[RemoteSegment], listing: RemoteListing) -> StoreMoments:
    begun = [evidence.options.times.heard_until(one.told_in) for one in segments]
    known = [one for one in begun if one is not None]
    captured_ms = min(known) if len(known) == len(begun) else None
    return StoreMoments(segments, listing, captured_ms, evidence.was_at_rest and _was_listed_with(evidence, listing))


def _was_listed_with(evidence: PartitionEvidence, listing: RemoteListing) -> bool:
    """True if the store was listed no later than the copies were made: a cluster at rest may have run since.

    A listing beside the copies without a time counts as part of them; a store itself, or a copy of it, does not.
    """
    if listing.latest_ms is None:
        return evidence.options.remote is None
    finished = (one.finished_ms for one in evidence.options.times.copies if one.finished_ms is not None)
    return listing.latest_ms <= max(finished, default=-1)

"""Comparison of a remote store with `__remote_log_metadata`: missing, leaked and resized objects (T5, T9).

The two are of different moments, and the cluster continues in between: each rule states what must be known of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from replica_audit.auditing.compare.remote_contents import ContentDeviation
from replica_audit.auditing.compare.remote_storage import latest_epochs, needed_from_store, own_ranges
from replica_audit.cached_property import cached_property
from replica_audit.literals import RemoteBasis, StoredForm
from replica_audit.model import OffsetRange, OffsetSet, RemoteListing, RemoteObject, RemoteSegment, joined
from replica_audit.snapshot.remote_log_metadata import COPY_FINISHED, DELETE_FINISHED

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.protocol.lineage import Lineage

#: Maximum difference between the clocks of brokers and of a store.
_CLOCKS_DIFFER_MS = 2000

#: Confidence that an object once in the store was removed by something other than Kafka.
Certainty = Literal["proven", "likely", "doubtful", "open"]


class MissingObject(NamedTuple):
    """A copied segment that is missing in the store completely or in part (T5)."""

    segment: RemoteSegment
    needed: tuple[OffsetRange, ...]
    """Offsets of the log in its range, below the local start, and in no other segment that exists."""
    certainty: Certainty
    why: str
    """Clause on the moments of store and metadata, for this certainty."""
    missing: str
    """The missing part: the whole segment, or one object."""

    @property
    def is_gone(self) -> bool:
        """True if no deletion by Kafka explains it."""
        return self.certainty in ("proven", "likely")


class ResizedObject(NamedTuple):
    """A copied segment whose size in the store differs from what its broker copied (T9)."""

    segment: RemoteSegment
    stored: RemoteObject


@dataclass(frozen=True)
class StoreDeviations:
    """Differences between the store and `__remote_log_metadata`."""

    missing: tuple[MissingObject, ...] = ()
    resized: tuple[ResizedObject, ...] = ()
    leaked: tuple[RemoteObject, ...] = ()
    """Objects of segments that the metadata does not name, or that were deleted long before (T5)."""
    contents: tuple[ContentDeviation, ...] = ()
    """Deviations of segments that were read (T9)."""
    forms: Mapping[str, StoredForm] = field(default_factory=dict)
    """Forms of the copied segments with the log's topic id, by segment id."""
    seen: Mapping[str, RemoteBasis] = field(default_factory=dict)
    """Evidence for copied segments whose objects exist, by segment id (`seen_in_store`)."""

    def basis_of(self, segment_id: str) -> RemoteBasis:
        """Evidence that the store has a copied segment."""
        return self.seen.get(segment_id, "metadata")

    @cached_property
    def gone(self) -> frozenset[str]:
        """Ids of segments that were in the store and no longer are."""
        return frozenset(one.segment.segment_id for one in self.missing if one.is_gone)

    @property
    def removed(self) -> tuple[OffsetRange, ...]:
        """Offsets of the log that were in the store and can no longer be read, there or in its local files."""
        gone = (one.needed for one in self.missing if one.is_gone)
        return joined(part for needed in (*gone, *(one.needed for one in self.contents)) for part in needed)

    @cached_property
    def damaged(self) -> Mapping[str, tuple[OffsetRange, ...]]:
        """Offsets whose batches are unreadable in the store, by segment id."""
        return {one.segment.segment_id: one.damaged for one in self.contents if one.damaged}


@dataclass(frozen=True)
class StoreMoments:
    """Moments of a listing and of the metadata log that names the segments of one partition and topic id."""

    segments: Sequence[RemoteSegment]
    listing: RemoteListing
    captured_ms: int | None
    """Earliest possible time of the metadata log's copy; None if only its content dates it."""
    at_rest: bool
    """True if no broker ran from the copy until the store was listed."""

    @cached_property
    def told_until_ms(self) -> int:
        """Time up to which the log has all events of the segments."""
        latest_ms = max((one.updated_ms for one in self.segments), default=-1)
        return latest_ms if self.captured_ms is None else max(latest_ms, self.captured_ms)

    def was_listed_after(self, segment: RemoteSegment) -> bool:
        """True if the store was listed after the last event of a segment in the log."""
        if self.listing.listed_ms is not None:
            return self.listing.listed_ms >= segment.updated_ms + _CLOCKS_DIFFER_MS
        return self._latest_there_ms > segment.updated_ms

    @cached_property
    def _latest_there_ms(self) -> int:
        """Time at which the copy of the last existing segment was finished; -1 without any."""
        there = {one.segment_id for one in self.listing.objects}
        copied = (one for one in self.segments if one.state == COPY_FINISHED and one.segment_id in there)
        return max((one.updated_ms for one in copied), default=-1)

    def was_listed_before(self, segment: RemoteSegment) -> bool:
        """True if the store was listed before the copy of a segment was finished, so that it may lack it."""
        return self.listing.listed_ms is not None and self.listing.listed_ms < segment.updated_ms

    def was_seen_at_once(self, segment: RemoteSegment, stored: RemoteObject) -> bool:
        """True if an existing segment still existed when the others were looked for.

        While a store is listed or copied, retention may delete this segment after it was seen and a later one before it is seen. So the
        segment counts only if it existed in a second look and its file dates from the broker's copy, or if the listing has a time.
        """
        if stored.was_seen_again is False:
            return False
        if self.listing.listed_ms is not None:
            return True
        return stored.placed_ms is not None and stored.placed_ms <= segment.updated_ms + _CLOCKS_DIFFER_MS

    def forms(self) -> dict[str, StoredForm]:
        """Forms of the copied segments in the store, by id; unknown for one that may have been added since."""
        objects = self.listing.of(self.segments)
        found: dict[str, StoredForm] = {}
        for one in self.segments:
            if one.state != COPY_FINISHED:
                continue
            if one.segment_id in objects:
                found[one.segment_id] = objects[one.segment_id].form
            else:
                found[one.segment_id] = "unknown" if self.was_listed_before(one) else "absent"
        return found

    @property
    def is_older(self) -> bool:
        """True if the store was listed before the last event in the log."""
        latest_ms = self.listing.latest_ms if self.listing.listed_ms is not None else None
        return latest_ms is not None and latest_ms + _CLOCKS_DIFFER_MS <= self.told_until_ms


def stored_whole(segments: Iterable[RemoteSegment], listing: RemoteListing) -> list[tuple[RemoteSegment, RemoteObject]]:
    """Copied segments whose objects are all in the store, each with these."""
    segments = tuple(segments)
    objects = listing.of(segments)
    return [
        (one, stored)
        for one in segments
        if one.state == COPY_FINISHED and (stored := objects.get(one.segment_id)) is not None and not stored.missing
    ]


def find_deviations(
    facts: ReplicaFacts, lineage: Lineage, segments: Sequence[RemoteSegment], moments: StoreMoments
) -> StoreDeviations:
    """Find the differences; `segments` are the uncontradicted ones of the log's topic id, `moments` belong to all of them."""
    whole = stored_whole(segments, moments.listing)
    missing = tuple(_find_missing(facts, lineage, segments, whole, moments))
    resized = tuple(
        ResizedObject(segment, stored)
        for segment, stored in whole
        if moments.was_listed_after(segment) and stored.segment_bytes not in (None, segment.size_bytes)
    )
    return StoreDeviations(missing, resized)


def _find_missing(
    facts: ReplicaFacts,
    lineage: Lineage,
    segments: Sequence[RemoteSegment],
    whole: Sequence[tuple[RemoteSegment, RemoteObject]],
    moments: StoreMoments,
) -> Iterator[MissingObject]:
    own_there = [(one, stored, part) for one, stored in whole for part in own_ranges(one, lineage)]
    there = OffsetSet.of(part for _, _, part in own_there)
    seen = latest_epochs(
        (part.start_offset, one.epochs[-1][0])
        for one, stored, part in own_there
        if part.end_offset > facts.log_start_offset and moments.was_seen_at_once(one, stored)
    )
    complete = {one.segment_id for one, _ in whole}
    objects = moments.listing.of(segments)
    for segment in segments:
        if segment.state != COPY_FINISHED or segment.segment_id in complete or moments.was_listed_before(segment):
            continue
        stored = objects.get(segment.segment_id)
        what = "no object" if stored is None else f"no {stored.missing}"
        own = own_ranges(segment, lineage)
        needed = needed_from_store(facts, own, there)
        # Kafka first deletes segments with an epoch that the log still has, oldest first, and then those without.
        certainty, why = _certainty(segment, moments, seen(own[0].start_offset) if own else -1)
        yield MissingObject(segment, needed, certainty, why, what)


def _certainty(segment: RemoteSegment, moments: StoreMoments, below: int) -> tuple[Certainty, str]:
    """Certainty that a segment is gone; `below` is the latest epoch of older segments of the log that still exist, -1 without any.

    | store was listed | and | it is |
    |---|---|---|
    | after the copy was finished | before the last event in the log, which has no deletion | proven |
    | after the copy was finished | no broker ran; or an older segment of its epoch, which retention deletes first, still existed | likely |
    | after the copy was finished | older segments of earlier epochs, which DeleteRecords deletes just after it, still existed | doubtful |
    | after the copy was finished | later, and it is the oldest, or it is unknown what still existed | open: retention may have deleted it since |
    | perhaps before | | open: it may have been copied since |
    """
    if not moments.was_listed_after(segment):
        return "open", "the store may have been listed before it was copied"
    if moments.is_older:
        return (
            "proven",
            "the store was listed after it was copied, and __remote_log_metadata goes on after that without a deletion of it",
        )
    if moments.at_rest:
        return "likely", "no broker ran when the snapshot was made and the store was listed, so none deleted it"
    if below >= segment.epochs[-1][0]:
        return "likely", "an older segment of its epoch is there, and retention deletes the oldest first"
    if below >= 0:
        return (
            "doubtful",
            "older segments of the log are there, which Kafka deletes right after it if DeleteRecords passed it: list the store again",
        )
    if moments.listing.listed_ms is None:
        return "open", "when the store was listed or copied is not known, and retention may have deleted it by then"
    return "open", "the store was listed later than the snapshot, and retention may have deleted it in between"


def seen_in_store(
    segments: Iterable[RemoteSegment],
    listing: RemoteListing,
    contents: Iterable[ContentDeviation],
    read: Container[str],
) -> dict[str, RemoteBasis]:
    """Evidence from the store for copied segments whose objects all exist, by segment id.

    `read` are the ids of those that were read, `contents` their deviations.
    """
    unlike = {one.segment.segment_id for one in contents if one.kind != "unread"}
    seen: dict[str, RemoteBasis] = {}
    for segment, stored in stored_whole(segments, listing):
        if segment.segment_id in unlike:
            seen[segment.segment_id] = "differs"
        elif segment.segment_id in read:
            seen[segment.segment_id] = "content"
        else:
            is_alike = stored.segment_bytes in (None, segment.size_bytes)
            seen[segment.segment_id] = "listing" if is_alike else "differs"
    return seen


def find_leaked(moments: Iterable[StoreMoments]) -> tuple[RemoteObject, ...]:
    """Objects of a partition, of any topic id, that Kafka will never read or delete.

    `moments` are those of each topic id. The log that names the objects must be complete from its start, and the object older
    than its end: a broker announces a copy before it starts (COPY_SEGMENT_STARTED).
    """
    found = []
    for of_id in moments:
        told = {one.segment_id: one for one in of_id.segments}
        if not of_id.segments or not all(one.is_whole for one in of_id.segments):
            continue
        for one in of_id.listing.objects:
            if one.topic_id != of_id.segments[0].topic_id:
                continue
            known = told.get(one.segment_id)
            if known is None:
                was_there = one.modified_ms if one.modified_ms is not None else of_id.listing.listed_ms
                is_leaked = was_there is not None and was_there + _CLOCKS_DIFFER_MS <= of_id.told_until_ms
            else:
                listed_ms = of_id.listing.listed_ms
                is_later = listed_ms is not None and listed_ms >= known.updated_ms + _CLOCKS_DIFFER_MS
                is_leaked = known.state == DELETE_FINISHED and is_later
            if is_leaked:
                found.append(one)
    return tuple(sorted(found))

"""Facts of one replica, from its directory and the summaries of its segments (A.9, B.1)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest
from typing import NamedTuple

from replica_audit.auditing.replicas.log_contents import (
    CorruptEpoch,
    border_gaps,
    gaps_among,
    irregularities_of,
    lineage_of_batches,
    needed_epochs,
    readable_lineage,
    starts_of_epochs,
    tail_kind_of,
    unreadable_stretches,
)
from replica_audit.batch_header import ABSENT, Batch, or_absent
from replica_audit.cached_property import cached_property
from replica_audit.literals import TailKind
from replica_audit.model import ChunkDigest, Irregularity, OffsetRange, ReplicaDir, SegmentSummary
from replica_audit.protocol.lineage import Lineage, increases
from replica_audit.protocol.loading import LoadedLog, load_log, log_end_of
from replica_audit.protocol.truncation import ReplicaState
from replica_audit.segments.digests import merge_chunks
from replica_audit.snapshot.checkpoints import contradict_stop
from replica_audit.snapshot.log_dir_names import kind_of_copy
from replica_audit.snapshot.provenance import ABOVE_HIGH_WATERMARK, NOT_CAPTURED, UNDECIDED, join_forms
from replica_audit.text import count


def is_left_by_stop(
    directory: ReplicaDir, segments: Sequence[SegmentSummary], rot: Sequence[CorruptEpoch] = ()
) -> bool:
    """True if the files of a replica are as a clean stop leaves them (C.2, "What a clean stop leaves"); `segments` in order.

    The flag is there; the recovery point is the log end; the high watermark is not past it; and the epoch file has the log's epochs,
    none that begins past the log end, and none later than the last batch's that begins below that batch's end. Missing or damaged files
    and damaged batches do not contradict a stop; batches with a changed epoch are in `rot`, or precede batches of a lower epoch.
    """
    if directory.clean_shutdown is not True or contradict_stop(directory):
        return False
    damaged = [item.last_offset + 1 for one in segments for item in one.irregularities if item.kind == "crc"]
    end = log_end_of(segments)
    found_end = max([end, *damaged])
    ends = {end, found_end}
    flushed, mark = directory.recovery_point_checkpoint, directory.high_watermark_checkpoint
    if flushed is not None and flushed > found_end and tail_kind_of(segments, found_end, end) == "garbage":
        ends.add(flushed)  # includes what can no longer be read
    if (flushed is not None and flushed not in ends) or (mark is not None and mark > max(ends)):
        return False
    written = directory.checkpoint_epochs
    if written is None or not increases(written):
        return True
    log_start = max(directory.log_start_checkpoint or 0, segments[0].base_offset if segments else 0)
    starts = needed_epochs(starts_of_epochs(segments, rot, end))
    sound = set(accumulate((epoch for epoch, _ in reversed(starts) if epoch >= 0), min))
    own = [entry for entry in readable_lineage(starts, log_start, end) if entry[0] in sound]
    begun = Lineage.of(written)
    last = starts[-1][0] if starts else ABSENT
    written_to = max(
        (one.greatest_last_offset + 1 for one in segments if one.greatest_last_offset is not None), default=0
    )
    is_cut = last != ABSENT and any(epoch > last and start < written_to for epoch, start in written)
    return (
        not is_cut
        and all(start <= max(ends) for _, start in written)
        and all(begun.epoch_for_offset(start) == epoch for epoch, start in own)
    )


class Cleaning(NamedTuple):
    """Progress of cleaners in a compacted partition, from the view of one replica."""

    cleaned_to: int = 0
    """Progress of the replica's own cleaner, by its checkpoint."""
    reached: int = 0
    """Progress that it may have made by the time the segments were copied."""
    furthest: int = 0
    """`cleaned_to` of the partition's most advanced cleaner."""
    furthest_reached: int = 0
    shared: tuple[OffsetRange, ...] = ()
    """Ranges, in order, where an offset that this replica lacks is also missing on another."""
    between_copies: bool = False
    """True if it may have worked between the copies of the segments, which are then of different moments: a merged segment may
    lie beside one that it replaced, and records may have been removed because of later ones past the end of the copy."""
    from_later_leader: bool = False
    """True if it may have fetched from another replica whose cleaner had gone on since that one was copied: any gap may be inherited."""

    def explains(self, start: int, end: int, own: int, furthest: int) -> bool:
        """True if a cleaner removed what the replica lacks at [start, end): its own, which reached `own`, or that of the
        leader it fetched from; `furthest` is the most advanced one."""
        start = max(start, own)
        if start >= end:
            return True
        at = bisect_right(self.shared, start, key=lambda part: part.start_offset) - 1
        return end <= furthest and at >= 0 and end <= self.shared[at].end_offset


#: (broker id, log dir) of one copy of a partition.
CopyKey = tuple[int, str]


@dataclass(frozen=True)
class ReplicaFacts:
    """Facts of one replica as found, built by `replica_facts`; offsets are int64, ranges half-open.

    Derived values are cached, as the rules use them repeatedly.
    """

    directory: ReplicaDir
    segments: tuple[SegmentSummary, ...]
    """Summaries of the segments by base offset."""
    log_start_offset: int
    local_start_offset: int
    """First offset whose record can be in the files: above `log_start_offset` if older segments are tiered."""
    log_end_offset: int
    found_end_offset: int
    """End of the last batch with a readable header, even with a wrong checksum."""
    lineage: Lineage
    """Lineage rebuilt from the batches that end at or above the log start, truncated there; empty if all records were deleted."""
    file_lineage: Lineage | None
    """Lineage of leader-epoch-checkpoint as the loader uses it; None without a usable file."""
    found_lineage: Lineage | None
    """Lineage of leader-epoch-checkpoint as found, including entries that the loader drops at either end of the log."""
    irregularities: tuple[tuple[SegmentSummary, Irregularity], ...]
    """Irregularities of all segments and of their borders, in order."""
    unreadable: tuple[OffsetRange, ...]
    """Offsets that the log had but that cannot be read: damaged ranges and batches with a wrong checksum."""
    missing: tuple[OffsetRange, ...]
    """Offsets between the end of one segment and the base of the next: a file may be missing."""
    gaps: tuple[OffsetRange, ...]
    """Offsets without a batch inside a segment, and not because of damage."""
    chunks: Mapping[int, ChunkDigest]
    tail_kind: TailKind
    loaded: LoadedLog
    recovered: LoadedLog
    has_epochs: bool
    epoch_starts: tuple[tuple[int, int], ...] = ()
    """(leader epoch, base offset) of the first batch of each run of one epoch, in order; changed epochs restored."""
    rot: tuple[CorruptEpoch, ...] = ()
    """Batches whose epoch was changed; all conclusions use the epoch in which they were written."""
    killed: bool = False
    """True if the broker is down, and its next start recovers the log (`loaded`) before it follows."""
    is_live: bool = False
    """True if the broker was up when it was copied, by the manifest, so that it does not restart before it leads or follows."""
    was_down: bool = False
    """True if the broker is known to have been down when it was copied, so that its files are of one moment."""
    in_any_order: bool = False
    """True if its files may be of moments in any order (`CaptureTimes.are_in_any_order`), such as a checkpoint later than the log."""
    known_epoch: int | None = None
    """The partition's leader epoch by the metadata log; no broker knows a later one, since brokers learn epochs from that log."""
    compacted: bool = False
    """True if the log is or was compacted: by its topic's policy, or by a cleaner's traces on any replica of the partition (F.0)."""
    compaction_is_assumed: bool = False
    """True if `compacted` is assumed because the log has gaps and the policy of a topic read through its brokers is unknown."""
    cleaning: Cleaning = Cleaning()
    is_earlier: bool = False
    """True for a copy made before the partition was collected again from its broker."""
    may_be_in_use: bool = False
    """True for a second copy on one broker if it is unknown which of the two the broker uses (F.1)."""
    is_converted: bool = False
    """True if the replicas have batches with epochs and batches without, as after the message format was raised (A.3)."""
    cleans_below_mark: bool = False
    """True if its broker's cleaner stays below the high watermark: by the version, else by a delete horizon, as new as that (A.4)."""
    is_left: bool = False
    """True for a copy on a disk that its broker no longer uses: by the manifest it ran with an empty one (F.1)."""

    @cached_property
    def unexplained_gaps(self) -> tuple[OffsetRange, ...]:
        """Ranges of `gaps` and `missing` above the log start that no cleaner explains, in order."""
        absent = (part for part in (*self.gaps, *self.missing) if part.end_offset > self.log_start_offset)
        return tuple(sorted(part for part in absent if not self.is_cleaned(part.start_offset, part.end_offset)))

    def count_unexplained_gaps(self) -> int:
        """Number of `unexplained_gaps`, including those that the summaries of an uncompacted log count but do not list."""
        if self.compacted:
            return len(self.unexplained_gaps)
        counted = sum(segment.irregularity_counts.get("gap", 0) for segment in self.segments)
        listed = sum(item.kind == "gap" for segment in self.segments for item in segment.irregularities)
        return len(self.unexplained_gaps) + counted - listed

    def is_cleaned(self, start_offset: int, end_offset: int) -> bool:
        """True if compaction explains that [start, end) is empty."""
        known = self.cleaning
        return self.compacted and known.explains(start_offset, end_offset, known.cleaned_to, known.furthest)

    def may_be_cleaned(self, start_offset: int, end_offset: int) -> bool:
        """True if it may, allowing for cleaners that advanced between the copies of checkpoints and segments, or before the replica fetched."""
        known = self.cleaning
        is_explained = known.explains(start_offset, end_offset, known.reached, known.furthest_reached)
        return self.compacted and (known.from_later_leader or is_explained)

    @cached_property
    def is_as_stopped(self) -> bool:
        """True if the files are as a clean stop leaves them (`is_left_by_stop`)."""
        return is_left_by_stop(self.directory, self.segments, self.rot)

    @property
    def was_stopped_before_copy(self) -> bool:
        """True if the broker was stopped cleanly before its files were copied; the flag alone may be from a stop during the copy."""
        return self.directory.clean_shutdown is True and not self.in_any_order

    @property
    def is_at_rest(self) -> bool:
        """True if the files are of one moment, since the broker was down when they were copied."""
        return self.was_down or self.killed or self.was_stopped_before_copy

    @property
    def file_entries(self) -> tuple[tuple[int, int], ...]:
        """(leader epoch, start offset) in leader-epoch-checkpoint as found; empty without a usable file."""
        return self.directory.checkpoint_epochs or ()

    @cached_property
    def start_by_epoch_file(self) -> int:
        """The log start to which a running broker has cut its epoch file before writing the log-start checkpoint; else
        `log_start_offset`, from which a broker that was down starts again."""
        first = (self.file_entries or ((-1, -1),))[0]
        epoch, start = first
        is_there = self.lineage.epoch_for_offset(start) == epoch
        # It has none of the log's own epochs: all records were deleted.
        is_past = start == self.log_end_offset and bool(self.needed_lineage)
        is_cut = not self.is_at_rest and self.file_increases and (is_there or is_past)
        is_whole = self.needed_lineage.entries[:1] == (first,)
        if not is_cut or is_whole:
            return self.log_start_offset
        return max(self.log_start_offset, start)

    @cached_property
    def file_increases(self) -> bool:
        """True if `file_entries` increase throughout, as Kafka writes them; also without entries."""
        return increases(self.file_entries)

    @property
    def sound_file_lineage(self) -> Lineage | None:
        """`found_lineage` if Kafka may have written it. Until the next start it keeps the entries of a lost log end."""
        return self.found_lineage if self.found_lineage and self.file_increases else None

    @cached_property
    def broker_id(self) -> int:
        return self.directory.broker_id

    @cached_property
    def key(self) -> CopyKey:
        """Identity of the copy within its partition."""
        return self.directory.broker_id, self.directory.log_dir

    @cached_property
    def kind(self) -> str:
        """Kind of the copy by `names.kind_of_copy`; "earlier" if its broker was collected again since."""
        return "earlier" if self.is_earlier else kind_of_copy(self.directory.path, self.directory.log_dir)

    @property
    def is_about_to_go(self) -> bool:
        """True for `.deleted` segments: their broker has truncated, cleaned or expired them, and deletes the files next."""
        return self.kind == "deleted_segments"

    @cached_property
    def high_watermark(self) -> int:
        """High watermark after a restart: the checkpoint, or 0, limited to the log (`Partition.createLog`)."""
        return min(max(self.marked_end, self.log_start_offset), self.log_end_offset)

    @cached_property
    def second_hand(self) -> bool:
        """True if the log is known from a text or table, not from its segments, so that its records cannot be read."""
        return any(segment.source != "segment" for segment in self.segments)

    def paths_of(self, batch: Batch) -> list[str]:
        """Paths of segments that may contain `batch`, the latest first: one, unless segments overlap as `.deleted` ones do."""
        at = max(0, bisect_right(self.segments, batch.base_offset, key=lambda segment: segment.base_offset) - 1)
        found = []
        latest = self.segments[at].path
        while at >= 0 and self._reach[at] >= batch.last_offset:
            segment = self.segments[at]
            if _reach_of(segment) >= batch.last_offset and batch.position + batch.size <= segment.size_bytes:
                found.append(segment.path)
            at -= 1
        return found or [latest]

    @cached_property
    def _reach(self) -> list[int]:
        """Greatest offset in each segment and those before it."""
        return list(accumulate(map(_reach_of, self.segments), max))

    @property
    def unchecked_batches(self) -> int:
        """Number of batches whose checksums were never computed."""
        return sum(segment.unchecked_count for segment in self.segments)

    @cached_property
    def unproven(self) -> tuple[str, ...]:
        """Points about the log that the input leaves open, in the terms of `snapshot.provenance.UNPROVEN`."""
        words = {word for segment in self.segments for word in segment.unproven}
        # Evidence that lacks the remaining bytes declares that itself.
        if self._is_cut_short and NOT_CAPTURED not in words:
            words.add("cut_short")
        if self.directory.observed is not None and self.directory.observed.hides_tail:
            words.add(ABOVE_HIGH_WATERMARK)
        return tuple(sorted(words))

    @property
    def _is_cut_short(self) -> bool:
        """True if a text or table shows less of the log than the log dir's own files prove."""
        directory = self.directory
        last_epoch = max((start for _, start in self.file_entries), default=None)
        said = (directory.high_watermark_checkpoint, directory.recovery_point_checkpoint, last_epoch)
        return self.second_hand and any(value is not None and value > self.found_end_offset for value in said)

    @cached_property
    def undecided(self) -> tuple[str, ...]:
        """Points of `unproven` that leave open where the log ends, or to which leader its records belong."""
        epochless = self.segments and all((segment.greatest_magic or 0) < 2 for segment in self.segments)
        return tuple(
            word for word in self.unproven if word in UNDECIDED and not (epochless and word == "leader_epochs")
        )

    @property
    def awaiting(self) -> ReplicaFacts:
        """The log marked as incomplete, because the evidence lacks bytes that the answer needs."""
        return replace(self, segments=tuple(replace(one, unproven=(NOT_CAPTURED,)) for one in self.segments))

    @cached_property
    def unread_bases(self) -> tuple[int, ...]:
        """Base offsets of segments that exist but could not be read."""
        read = {segment.base_offset for segment in self.segments}
        return tuple(base for base in self.directory.segment_bases if base not in read)

    @cached_property
    def unread(self) -> str | None:
        """Clause on why the existing files do not give the log; None if all could be read."""
        directory = self.directory
        missed = len(self.unread_bases)
        if missed:
            return f"{missed} of {count(directory.segment_count, 'segment')} in {directory.path} could not be read"
        if self.segments:
            return None
        return directory.problem or f"{directory.path} has no .log file, and a partition's directory always has one"

    @cached_property
    def end_is_open(self) -> bool:
        """True if the log may extend past what the input shows."""
        return not self.end_is_known or bool({"rest", ABOVE_HIGH_WATERMARK} & set(self.unproven))

    def may_reach(self, offset: int) -> bool:
        """True if the log may have uncaptured records up to `offset`, because its broker reports them or gives no log end."""
        observed = self.directory.observed
        return observed is not None and observed.hides_tail and (observed.log_end_offset or offset) >= offset

    @property
    def hides_head(self) -> bool:
        """True if the log was read through its broker from an offset after its start."""
        observed = self.directory.observed
        return observed is not None and self.unread is None and self.log_start_offset > observed.log_start_offset

    @cached_property
    def end_is_known(self) -> bool:
        """True if the end of what was read is the end of the log."""
        return self.unread is None and not {"left_out", NOT_CAPTURED, "one_moment", "cut_short", "overlap"} & set(
            self.unproven
        )

    @property
    def epoch_entries(self) -> tuple[tuple[int, int], ...]:
        """(leader epoch, start offset) by the batches, then by the epoch file as found."""
        return (*self.lineage, *self.file_entries)

    @property
    def sound_entries(self) -> tuple[tuple[int, int], ...]:
        """(leader epoch, start offset) by the batches, then by a sound epoch file that does not contradict them, where they do not tell:
        outside the log or, since the first batches of an epoch may be gone, in a compacted one."""
        written = (self.sound_file_lineage or ()) if self.is_file_of_batches else ()
        within = range(self.local_start_offset, 0 if self.compacted else self.log_end_offset)
        return (*self.lineage, *(entry for entry in written if entry[1] not in within))

    @cached_property
    def reached_offset(self) -> int:
        """Offset that the log had reached when its epoch file was written: the log end, or the start of an epoch of the file past it.

        An epoch starts at the log end, and the first entry moves only to the log start, so the log had everything below. If its broker
        was down, it lost that; if its broker ran, it was truncated just before, or copied earlier (C.2). A file that contradicts the
        last batch, has an earlier epoch past the end, or one that the metadata log lacks, proves nothing.
        """
        epoch, start = (self.file_entries or ((-1, -1),))[-1]
        own = self.last_leader_epoch
        said = None if self.found_lineage is None else self.found_lineage.epoch_for_offset(self.log_end_offset - 1)
        is_known = self.known_epoch is None or epoch <= self.known_epoch
        is_sound = is_known and self.file_increases and (own is None or (epoch >= own and said in (None, own)))
        return max(self.log_end_offset, start) if is_sound else self.log_end_offset

    @property
    def may_have_lost_tail(self) -> bool:
        """True if the epoch file proves that the log was longer, unless the broker is known to have run: then the log may
        have been copied before the file."""
        return self.reached_offset > self.log_end_offset and not (self.is_live or self.end_is_open)

    @property
    def last_epoch_is_open(self) -> bool:
        """True if the replica may have been elected in an epoch later than its records show: none of its files excludes it."""
        return self.has_epochs and self.directory.epoch_file.is_unknown

    @cached_property
    def needed_lineage(self) -> Lineage:
        """Part of `lineage` that leader-epoch-checkpoint must have (`needed_epochs`)."""
        needed = needed_epochs(self.epoch_starts)
        if len(needed) == len(self.epoch_starts):
            return self.lineage
        return readable_lineage(needed, self.log_start_offset, self.log_end_offset)

    @cached_property
    def is_file_of_batches(self) -> bool:
        """True if no batch whose epoch leader-epoch-checkpoint must have contradicts `file_lineage`, nor the last one: the file may be later than
        a cut of the log."""
        written = self.file_lineage or Lineage()
        said = [(epoch, written.epoch_for_offset(start)) for epoch, start in self.needed_lineage]
        last = next((one.last_offset for one in reversed(self.segments) if one.last_offset is not None), None)
        if said and last is not None:
            said.append((self.epoch_starts[-1][0], written.epoch_for_offset(last)))
        return all(found == epoch or (found is None and self.may_begin_late) for epoch, found in said)

    @property
    def may_begin_late(self) -> bool:
        """True if leader-epoch-checkpoint may lack epochs of batches: an older message format kept none, and only recovery adds them (A.3)."""
        return self.is_converted and not self.killed

    @property
    def found_batches(self) -> Lineage:
        """Lineage of all batches in the files, also of those below the log start."""
        return lineage_of_batches(self.epoch_starts)

    @property
    def keeps_no_epochs(self) -> bool:
        """True if its broker still has the older message format of a partition that was `is_converted`, and so no epoch file (A.3)."""
        return self.is_converted and self.directory.epoch_file.state == "missing"

    def is_epochless(self, offset: int) -> bool:
        """True if the batch at `offset` has no epoch: it is of magic 0 or 1, or was when it was appended."""
        at = bisect_right(self.epoch_starts, offset, key=lambda entry: entry[1])
        return at > 0 and self.epoch_starts[at - 1][0] == ABSENT

    @cached_property
    def form(self) -> str:
        """Form of the segments' record batches."""
        return join_forms(segment.form for segment in self.segments if segment.batch_count)

    @property
    def marked_end(self) -> int:
        """Offset below which everything was committed, by the checkpointed high watermark; 0 without one."""
        return self.directory.high_watermark_checkpoint or 0

    @property
    def committed_by_cleaner(self) -> int | None:
        """Offset below which everything was committed, by the cleaner's checkpoint; None without such a one."""
        return self.directory.cleaner_checkpoint if self.cleans_below_mark else None

    @property
    def flushed_end(self) -> int:
        """Offset below which everything was flushed to the disk, by the recovery point; 0 without one."""
        return self.directory.recovery_point_checkpoint or 0

    @property
    def knows_high_watermark(self) -> bool:
        """True if the input includes the log dir's checkpoint, or shows that there is none."""
        return not self.directory.high_watermark_file.is_unknown

    @cached_property
    def empty(self) -> bool:
        return self.log_end_offset <= self.local_start_offset

    @property
    def blank(self) -> bool:
        """True if neither the log nor its epoch file shows that there ever was a record or a leader."""
        return self.empty and not self.epoch_entries

    @cached_property
    def last_leader_epoch(self) -> int | None:
        """Leader epoch of the last batch with one."""
        return next((epoch for epoch, _ in reversed(self.epoch_starts) if epoch >= 0), None)

    @cached_property
    def log_epoch(self) -> int:
        """Latest epoch that the log knows: that of the last file entry if it starts at the log end or its records are only
        in remote storage, else of the last batch; -1 for none.

        The file counts as found, before the loader drops such an entry, and only if it increases throughout, so that `9 33`
        or `6 999999` in a damaged file does not count.
        """
        last = or_absent(self.last_leader_epoch)
        epoch, start = (self.file_entries or ((-1, -1),))[-1]
        is_remote = self.empty and self.log_start_offset <= start < self.local_start_offset
        is_last = start == self.log_end_offset or is_remote
        return epoch if self.file_increases and is_last and epoch > last else last

    def state(self, lineage: Lineage) -> ReplicaState:
        """State of a leader's log for truncation, with the lineage to be replayed.

        A log that ends below its own start restarts there (A.9).
        """
        end = max(self.log_end_offset, self.log_start_offset)
        return ReplicaState(self.log_start_offset, end, lineage, self.high_watermark, self.local_start_offset)

    def following_state(self, lineage: Lineage, high_watermark: int | None = None) -> ReplicaState:
        """State of the replica as it starts to follow, after recovery if its broker was killed.

        `high_watermark` replaces the replica's own if that is unknown.
        """
        end = self.following_end_offset
        own = self.high_watermark if high_watermark is None else high_watermark
        start = min(self.log_start_offset, end)
        return ReplicaState(start, end, lineage.truncate_from_end(end), max(start, min(own, end)))

    @cached_property
    def following_end_offset(self) -> int:
        """Log end as the replica starts to follow; a log that ends below its own start restarts there (A.9)."""
        end = min(self.log_end_offset, self.loaded.log_end_offset) if self.killed else self.log_end_offset
        return max(end, self.log_start_offset)

    @property
    def may_recover(self) -> bool:
        """True if its next start may truncate the log, although it is not known to have been killed: no clean stop is recorded."""
        return not self.killed and not self.is_live and self.loaded.log_end_offset < self.log_end_offset

    @cached_property
    def recovering(self) -> ReplicaFacts:
        """The replica as if its next start recovers the log."""
        return replace(self, killed=True)

    @cached_property
    def raised(self) -> ReplicaFacts:
        """The replica as if its broker kept an epoch for every batch that has one: as recovery does, once the format is raised."""
        kept = tuple(entry for entry in self.epoch_starts if entry[0] != ABSENT)
        return replace(self, is_converted=False, epoch_starts=kept)

    def cannot_read(self, start_offset: int, end_offset: int) -> bool:
        """True if a damaged or possibly missing range overlaps [start, end)."""
        return any(stretch.overlaps(start_offset, end_offset) for stretch in (*self.unreadable, *self.missing))


def _tiered_start(directory: ReplicaDir, first_base: int) -> int:
    """First offset of a log whose older segments may be in remote storage only: by the log start checkpoint, else by the epoch
    file, which is truncated there, else the start of its files."""
    if directory.log_start_checkpoint is not None:
        return directory.log_start_checkpoint
    return min([first_base, *(start for _, start in directory.checkpoint_epochs or ())])


def _reach_of(segment: SegmentSummary) -> int:
    """Greatest offset in a segment; -1 if it is empty."""
    return -1 if segment.greatest_last_offset is None else segment.greatest_last_offset


def _with_open_ends(segments: Sequence[SegmentSummary]) -> Iterator[SegmentSummary]:
    """Copies of segments whose last batch may be damaged, ended before it since the evidence lacks its bytes. In a
    compacted log the following segments confirm its offsets."""
    for segment, following in zip_longest(segments, segments[1:]):
        position = segment.unchecked_end
        base = segment.last_base_offset
        last = segment.last_offset
        if position is None or base is None or last is None or (following is not None and last < following.base_offset):
            yield segment
        else:
            yield replace(
                segment,
                last_offset=base - 1 if segment.batch_count > 1 else None,
                tail_length=segment.size_bytes - position,
                source="evidence",
                unproven=(*segment.unproven, NOT_CAPTURED),
            )


def replica_facts(
    directory: ReplicaDir,
    segments: Sequence[SegmentSummary],
    *,
    tiered: bool = False,
    rot: Sequence[CorruptEpoch] = (),
) -> ReplicaFacts:
    """Build the facts of `directory` from its scanned segments, in any order. The caller adds the state of its broker, and
    `with_cleaning` what was compacted."""
    ordered = tuple(sorted(segments, key=lambda segment: segment.base_offset))
    if kind_of_copy(directory.path, directory.log_dir) == "current":
        ordered = tuple(_with_open_ends(ordered))
    first_base = ordered[0].base_offset if ordered else 0
    checkpoint = directory.log_start_checkpoint
    log_start = _tiered_start(directory, first_base) if tiered else max(checkpoint or 0, first_base)
    irregularities = tuple(irregularities_of(ordered, log_start))
    log_end = log_end_of(ordered)
    found_end = max([log_end, *(item.last_offset + 1 for _, item in irregularities if item.kind == "crc")])
    unreadable = unreadable_stretches(ordered, irregularities, found_end)
    missing = tuple(border_gaps(ordered))
    epoch_starts = starts_of_epochs(ordered, rot, found_end)
    written = None if directory.checkpoint_epochs is None else Lineage.of(directory.checkpoint_epochs)
    # A stop counts as clean only if the log dir records it.
    clean = directory.clean_shutdown is True
    recovery_point = directory.recovery_point_checkpoint
    return ReplicaFacts(
        directory=directory,
        segments=ordered,
        log_start_offset=min(log_start, log_end) if checkpoint is None else log_start,
        local_start_offset=max(log_start, first_base),
        log_end_offset=log_end,
        found_end_offset=found_end,
        lineage=readable_lineage(epoch_starts, log_start, log_end),
        file_lineage=None if written is None else written.truncate_from_end(log_end).truncate_from_start(log_start),
        found_lineage=written,
        irregularities=irregularities,
        unreadable=unreadable,
        missing=missing,
        gaps=tuple(gaps_among(irregularities)),
        chunks=merge_chunks(segment.chunks for segment in ordered),
        tail_kind=tail_kind_of(ordered, found_end, log_end),
        loaded=load_log(ordered, clean=clean, recovery_point=recovery_point, log_start_checkpoint=checkpoint),
        recovered=load_log(ordered, clean=False, recovery_point=0, log_start_checkpoint=checkpoint),
        has_epochs=any(segment.has_epochs for segment in ordered),
        epoch_starts=epoch_starts,
        rot=tuple(rot),
    )

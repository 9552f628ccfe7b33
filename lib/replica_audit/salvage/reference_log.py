"""The log that the copies of a partition are compared with: that of the present leader, or of the leader that a plan chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.chunks import differing_chunks
from replica_audit.auditing.compare.replays import as_leader
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.findings.rep import brokers_past_leader
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
from replica_audit.batch_header import CONTROL
from replica_audit.elect.costs import may_have_lost_tail, replicas_of
from replica_audit.errors import FormatError
from replica_audit.model import CHUNK_OFFSETS, Damage
from replica_audit.protocol.lineage import Lineage
from replica_audit.salvage.partition_logs import Unread
from replica_audit.segments.digests import rows_of_chunks
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.snapshot.record_reader import RecordReader, RecordRequest, RecordRows
from replica_audit.snapshot.segment_file import SegmentFile
from replica_audit.snapshot.segment_sources import open_source
from replica_audit.snapshot.storage import Snapshot


class ReferenceLog:
    """The reference's log, loaded as far as copies are compared with it."""

    def __init__(
        self,
        snapshot: Snapshot,
        reader: RecordReader,
        facts: ReplicaFacts,
        files: Sequence[SegmentFile],
        lineage: Lineage,
        leader_epoch: int | None,
    ) -> None:
        """`lineage` and `leader_epoch` are those with which it answers followers."""
        self.facts = facts
        self.lineage = lineage
        self.leader_epoch = -1 if leader_epoch is None else leader_epoch
        self._snapshot = snapshot
        self._reader = reader
        self._files = files
        self._chunks: set[int] = set()
        self._batches = np.empty(0, BATCH_DTYPE)
        self._known: set[tuple] = set()
        self._ends = np.empty(0, np.int64)
        self._paths = np.empty(0, np.int64)
        self.unread: list[Unread] = []
        self.not_captured: dict[RecordRequest, Unread] = {}
        """Batches whose records were asked for and are not part of the evidence."""

    def differing_chunks(self, copy: ReplicaFacts) -> set[int]:
        """Chunks in which `copy` may hold records that the reference lacks."""
        past_end = {number for number, chunk in copy.chunks.items() if chunk.last_offset >= self.facts.log_end_offset}
        return differing_chunks(self.facts, copy) | past_end

    def load(self, chunks: set[int]) -> None:
        """Load the batches of `chunks` and of their neighbours."""
        wanted = {near for chunk in chunks for near in (chunk - 1, chunk, chunk + 1)} & set(self.facts.chunks)
        if wanted <= self._chunks:
            return
        self._chunks |= wanted
        rows, paths, _, self.unread = read_batches(self._snapshot, self.facts, self._files, self._chunks)
        # A batch that the log is cut in goes whole.
        sound = rows["crc_valid"] & (rows["last_offset"] < self.facts.log_end_offset)
        rows, paths = rows[sound], paths[sound]
        order = np.argsort(rows["base_offset"], kind="stable")
        self._batches = rows[order]
        self._paths = paths[order]
        self._known = set(_keys(self._batches))
        # numpy accumulates nothing of nothing.
        self._ends = np.maximum.accumulate(self._batches["last_offset"]) if len(rows) else self._ends[:0]

    def batches_from(self, offset: int) -> np.ndarray:
        """Loaded batches (`BATCH_DTYPE`) that begin at `offset` or later."""
        return self._batches[self._batches["base_offset"] >= offset]

    def holds(self, batches: np.ndarray) -> np.ndarray:
        """Mask of the `batches` that the reference has too, by offsets, epoch, checksum and size."""
        return np.array([key in self._known for key in _keys(batches)], bool)

    def keeps(self, batch: np.void) -> bool:
        """True if the reference has readable records of the batch's epoch at the offsets of `batch`."""
        start = int(batch["base_offset"])
        end = int(batch["last_offset"]) + 1
        epoch = int(batch["leader_epoch"])
        if end <= self.facts.log_start_offset:
            return True
        own = self.lineage.epoch_for_offset(start)
        same = epoch < 0 or own is None or own == epoch
        return same and end <= self.facts.log_end_offset and not self.is_damaged(start, end)

    def is_damaged(self, start_offset: int, end_offset: int) -> bool:
        """True if unreadable bytes overlap [start, end)."""
        return any(part.start_offset < end_offset and start_offset < part.end_offset for part in self.facts.unreadable)

    def records(
        self, start_offset: int, end_offset: int
    ) -> tuple[np.ndarray, list[tuple[int, int]], list[tuple[int, int]]]:
        """Records of the batches that reach into [start, end), by offset, the bounds of batches that cannot be decoded, and of those
        that are not part of the evidence, which are noted.
        """
        first = int(np.searchsorted(self._ends, start_offset))
        last = int(np.searchsorted(self._batches["base_offset"], end_offset))
        requests = {
            request_of(self._files[self._paths[index]].path, self._batches[index]): index
            for index in range(first, max(first, last))
        }
        outcome = self._reader(requests)
        self._note_uncaptured(outcome)
        bad = [requests[request] for request, _ in (*outcome.unread, *outcome.undecodable)]
        uncaptured = [requests[request] for request, _ in outcome.not_captured]
        return outcome.rows, [self._bounds(at) for at in bad], [self._bounds(at) for at in uncaptured]

    def markers(self, start_offset: int, producers: Sequence[int]) -> np.ndarray:
        """Control records of `producers` from `start_offset` on, of each up to its next data: what follows is of another
        transaction.
        """
        self.load({chunk for chunk in self.facts.chunks if (chunk + 1) * CHUNK_OFFSETS > start_offset})
        after = (self._batches["base_offset"] >= start_offset) & (self._batches["magic"] >= 2)
        control = self._batches["attributes"] & CONTROL != 0
        indexes: list[int] = []
        for producer in producers:
            own = np.flatnonzero(after & (self._batches["producer_id"] == producer))
            data = own[~control[own]]
            indexes += (own if not len(data) else own[own < data[0]]).tolist()
        return self._reader(self._requests(indexes)).rows

    def records_of_keys(self, keys: np.ndarray) -> np.ndarray:
        """Every record of the whole log whose key's hash is in `keys` (sorted), and all control records.

        Those that are not part of the evidence are noted.
        """
        self.load(set(self.facts.chunks))
        outcome = self._reader(self._requests(range(len(self._batches))), keys)
        self._note_uncaptured(outcome)
        return outcome.rows

    def _note_uncaptured(self, outcome: RecordRows) -> None:
        for request, reason in outcome.not_captured:
            place = request.path, reason, self.facts.broker_id, request.position, request.offset
            self.not_captured[request] = Unread(*place)

    def _bounds(self, index: int) -> tuple[int, int]:
        """[first offset, end offset) of a loaded batch."""
        batch = self._batches[index]
        return int(batch["base_offset"]), int(batch["last_offset"]) + 1

    def _requests(self, indexes: Sequence[int]) -> list[RecordRequest]:
        return [request_of(self._files[self._paths[index]].path, self._batches[index]) for index in indexes]


def request_of(path: str, batch: np.void) -> RecordRequest:
    """The request for the records of a batch (`BATCH_DTYPE`) in the file `path`."""
    first = batch["base_offset"] if batch["magic"] >= 2 else batch["last_offset"]
    return RecordRequest(path, int(batch["position"]), int(batch["size"]), int(first), int(batch["crc"]))


def read_batches(
    snapshot: Snapshot, facts: ReplicaFacts, files: Sequence[SegmentFile], chunks: set[int]
) -> tuple[np.ndarray, np.ndarray, list[tuple[SegmentFile, Damage]], list[Unread]]:
    """Batches of `chunks` in `files`, in their order; for each the index of its file; damage; and what could not be read.

    `facts` are those of the log that the files are of; one that the audit could not read is skipped, as a finding says
    already.
    """
    rows: list[np.ndarray] = [np.empty(0, BATCH_DTYPE)]
    places: list[np.ndarray] = [np.empty(0, np.int64)]
    damage: list[tuple[SegmentFile, Damage]] = []
    unread: list[Unread] = []
    summaries = {segment.path: segment for segment in facts.segments}
    for index, file in enumerate(files):
        summary = summaries.get(file.path)
        if summary is None or not (summary.damage or chunks & {chunk.chunk for chunk in summary.chunks}):
            continue
        try:
            with open_source(snapshot, file) as source:
                for item in source.items:
                    if isinstance(item, Damage):
                        damage.append((file, item))
                        continue
                    chosen = rows_of_chunks(item, chunks)
                    rows.append(chosen)
                    places.append(np.full(len(chosen), index))
        except (OSError, FormatError) as error:
            unread.append(Unread(file.path, f"the segment could not be read: {error}", file.broker_id))
    return np.concatenate(rows), np.concatenate(places), damage, unread


def _keys(batches: np.ndarray) -> list[tuple]:
    names = ("base_offset", "last_offset", "leader_epoch", "crc", "size", "magic")
    return list(zip(*(batches[name].tolist() for name in names), strict=True))


@dataclass(frozen=True, slots=True)
class ComparedLog:
    """A log as it leads, and of which brokers it lacks what lies past its end in its own epoch."""

    reference: Reference
    past_end: frozenset[CopyKey]
    """Copies that hold what it had and lost; of all others these records may just be of another moment."""
    everyone: bool = False
    """All that any copy holds past its end is lacking: nobody else led in between, and it leads from now on."""

    def lacks_tail(self, copy: CopyKey) -> bool:
        """True if it lacks the records that a copy has past its end, whatever their epoch."""
        return self.everyone or copy in self.past_end


def present_log(audit: PartitionAudit) -> ComparedLog | None:
    """The log of the present leader, or of who stands for it; None where the snapshot has no replica."""
    if audit.case is None:
        return None
    return ComparedLog(audit.case.reference, _past_end(audit, audit.case))


def planned_log(audit: PartitionAudit, candidate_id: int) -> ComparedLog | None:
    """The log of a candidate once all others have followed it, as the cost matrix has it (`elect.costs`).

    None where the snapshot has no replica of that broker to compare with.
    """
    case = audit.case
    replicas = [] if case is None else replicas_of(case)
    candidate = next((facts for facts in replicas if facts.broker_id == candidate_id), None)
    if case is None or candidate is None:
        return None
    elected = as_leader(case.reference, candidate, replicas)
    if not _stays(case.reference, candidate):
        return ComparedLog(elected, frozenset(), everyone=True)
    # It leads already: what lies past its end in its own epoch it may have, in a copy that was made earlier.
    present = replace(elected, leader_epoch=case.reference.leader_epoch, log_epoch=case.reference.log_epoch)
    return ComparedLog(present, _past_end(audit, case), may_have_lost_tail(case))


def _past_end(audit: PartitionAudit, case: Case) -> frozenset[CopyKey]:
    brokers = brokers_past_leader(audit.findings)
    replicas = {item.follower.key for item in case.comparisons if item.follower.broker_id in brokers}
    return frozenset(replicas | {item.follower.key for item in case.beside if case.is_lost_tail(item)})


def _stays(reference: Reference, candidate: ReplicaFacts) -> bool:
    return candidate is reference.facts and reference.leader_id == candidate.broker_id

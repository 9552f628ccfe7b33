"""The logs of a partition: the leader's, present or planned, and the copies compared with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from replica_audit.auditing.case import Case
from replica_audit.auditing.catalogue import codes_with
from replica_audit.auditing.compare.remote_storage import chunks_below, chunks_within
from replica_audit.auditing.compare.replays import as_leader
from replica_audit.auditing.compare.wanted_chunks import differing_chunks
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.findings.rep import brokers_past_leader
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts, replica_facts
from replica_audit.batch_header import CONTROL
from replica_audit.elect.costs import may_have_lost_tail
from replica_audit.errors import FormatError
from replica_audit.literals import PUT_ASIDE
from replica_audit.model import CHUNK_OFFSETS, Damage, OffsetRange, ReplicaDir, SegmentFile
from replica_audit.protocol.lineage import Lineage
from replica_audit.segments.digests import rows_of_chunks
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.log_dir_names import parse_directory_name
from replica_audit.snapshot.record_reader import RecordReader, RecordRequest, RecordRows, request_of
from replica_audit.snapshot.segment_sources import open_source
from replica_audit.snapshot.storage import Snapshot

#: Kinds of copies, in order of preference: the first copy that holds a record is its source.
REMOTE_KIND = "remote"
KINDS = ("replica", "duplicate", *PUT_ASIDE, REMOTE_KIND)


@dataclass(frozen=True, slots=True)
class Unread:
    """Part of a partition that may hold records and could not be read."""

    path: str
    reason: str
    broker_id: int | None = None
    position: int | None = None
    start_offset: int | None = None
    """Offset range of the batch; None where unknown."""
    end_offset: int | None = None
    record_count: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """A log other than the reference's, and the files to read it from."""

    kind: str
    """One of `KINDS`."""
    facts: ReplicaFacts
    files: tuple[SegmentFile, ...]

    @property
    def broker_id(self) -> int | None:
        """None for the remote store."""
        return None if self.kind == REMOTE_KIND else self.facts.broker_id

    @property
    def path(self) -> str:
        """Directory of the copy, relative to the snapshot."""
        return self.facts.directory.path


def unread_directories(inventory: Inventory) -> list[Unread]:
    """Log dirs, and directories that Kafka has put aside, that could not be listed."""
    log_dirs = {log_dir.path for log_dir in inventory.log_dirs}
    return [
        Unread(row.path, row.reason, row.broker_id)
        for row in inventory.quarantine
        if row.code in codes_with("unreadable")
        and row.topic is None
        and (row.path in log_dirs or parse_directory_name(row.path.rpartition("/")[2]).kind in PUT_ASIDE)
    ]


def copies_of(
    unplaced: Iterable[ReplicaDir],
    audit: PartitionAudit,
    case: Case,
    log: ReplicaFacts,
    files: Sequence[SegmentFile],
) -> tuple[list[Copy], list[ReplicaDir], list[Unread]]:
    """The copies to compare with `log`, in the order of `KINDS`; directories put aside whose topic is, or may be, another one
    of the same name (without an id on both sides nothing tells); and what could not be read.

    Copies are of the topic of `case`, without `log` itself; but if the next start of its broker cuts that log, its files as
    they are now are a copy too. `files` are the segments of all its replicas and of what is put aside.
    """
    copies: list[Copy] = []
    unread: list[Unread] = []
    by_key: dict[CopyKey, list[SegmentFile]] = {}
    for file in files:
        by_key.setdefault((file.broker_id, file.log_dir), []).append(file)
    compared = {item.follower.key: item.follower for item in case.beside}
    aside = [
        compared.get((directory.broker_id, directory.log_dir)) or replica_facts(directory, summaries)
        for directory, summaries in audit.evidence.put_aside
    ]
    present = (case.reference.facts.directory.topic_id, None)
    replicas = [("replica", facts) for facts in case.candidates.replicas if not _is_whole(log, facts)]
    replicas += [("replica", facts) for facts in case.set_aside]
    replicas += [("earlier" if facts.is_earlier else "duplicate", facts) for facts in case.duplicates]
    replicas += [(facts.kind, facts) for facts in aside if facts.directory.topic_id in present]
    for kind, facts in replicas:
        if facts.unread is not None:
            unread.append(Unread(facts.directory.path, facts.unread, facts.broker_id))
        copies.append(Copy(kind, facts, tuple(by_key.get(facts.key, ()))))
    copies.sort(key=lambda copy: (KINDS.index(copy.kind), copy.broker_id, copy.path))
    others = {facts.directory.path: facts.directory for facts in aside if facts.directory.topic_id not in present}
    others |= {one.path: one for one in unplaced}
    return copies, [others[path] for path in sorted(others)], unread


def _is_whole(log: ReplicaFacts, facts: ReplicaFacts) -> bool:
    return facts.key == log.key and facts.log_end_offset == log.log_end_offset


@dataclass(frozen=True, slots=True)
class KnownRecords:
    """Records of a log, by offset, and the bounds of batches whose records are missing from them."""

    rows: NDArray[np.void]
    unread: Sequence[tuple[int, int]]
    """[first offset, end offset) of batches that cannot be decoded."""
    not_captured: Sequence[tuple[int, int]]
    """[first offset, end offset) of batches that are not part of the evidence."""

    def between(self, start_offset: int, end_offset: int) -> KnownRecords:
        """The records in [start, end), with all bounds."""
        return replace(self, rows=self.rows[slice(*np.searchsorted(self.rows["offset"], (start_offset, end_offset)))])


class ReferenceLog:
    """The reference's log, loaded as far as copies are compared with it."""

    def __init__(
        self,
        snapshot: Snapshot,
        reader: RecordReader,
        facts: ReplicaFacts,
        files: Sequence[SegmentFile],
        lineage: Lineage,
        past_end: Lineage,
        holes: Sequence[OffsetRange] = (),
    ) -> None:
        """`lineage` is the one with which the reference answers followers; `past_end` continues it beyond the log end
        (`Reference.past_end`); `holes` are offsets below its files that remote storage lacks."""
        self.facts = facts
        self.lineage = lineage
        self.past_end = past_end
        self._holes = holes
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
        """Batches whose records were requested and are not part of the evidence."""

    def differing_chunks(self, log: Copy) -> set[int]:
        """Chunks in which a copy may hold records that the reference lacks."""
        copy = log.facts
        if log.kind == REMOTE_KIND:  # the store has another history, also below the start of the reference's files
            return set(copy.chunks)
        past_end = {number for number, chunk in copy.chunks.items() if chunk.last_offset >= self.facts.log_end_offset}
        in_holes = {number for one in self._holes for number in chunks_within(one) & copy.chunks.keys()}
        return differing_chunks(self.facts, copy) | chunks_below(self.facts, copy, self.lineage) | past_end | in_holes

    def load(self, chunks: set[int]) -> None:
        """Load the batches of `chunks` and of their neighbours, unless loaded."""
        wanted = {near for chunk in chunks for near in (chunk - 1, chunk, chunk + 1)} & set(self.facts.chunks)
        if wanted <= self._chunks:
            return
        self._chunks |= wanted
        rows, paths, _, self.unread = read_batches(self._snapshot, self.facts, self._files, self._chunks)
        # A batch that the log's end cuts is dropped whole.
        sound = rows["crc_valid"] & (rows["last_offset"] < self.facts.log_end_offset)
        rows, paths = rows[sound], paths[sound]
        order = np.argsort(rows["base_offset"], kind="stable")
        self._batches = rows[order]
        self._paths = paths[order]
        self._known = set(_keys(self._batches))
        # numpy's accumulate fails on an empty array.
        self._ends = np.maximum.accumulate(self._batches["last_offset"]) if len(rows) else self._ends[:0]

    def batches_from(self, offset: int) -> NDArray[np.void]:
        """Loaded batches (`BATCH_DTYPE`) that begin at `offset` or later."""
        return self._batches[self._batches["base_offset"] >= offset]

    def holds(self, batches: NDArray[np.void]) -> NDArray[np.bool_]:
        """Mask of the `batches` that the reference has too, with equal offsets, epoch, checksum and size."""
        return np.array([key in self._known for key in _keys(batches)], bool)

    def keeps(self, batch: np.void) -> bool:
        """True if the reference has, or has deleted, readable records of the batch's epoch at all its offsets."""
        start = int(batch["base_offset"])
        end = int(batch["last_offset"]) + 1
        epoch = int(batch["leader_epoch"])
        if end <= self.facts.log_start_offset:
            return all(epoch <= first for first, _ in self.lineage.entries[:1])
        own = self.lineage.epoch_for_offset(start)
        same = epoch < 0 or own is None or own == epoch
        is_there = end <= self.facts.log_end_offset and not self.in_hole(start, end)
        return same and is_there and not self.is_damaged(start, end)

    def in_hole(self, start_offset: int, end_offset: int) -> bool:
        """True if remote storage lacks offsets of [start, end) below the reference's files."""
        return any(one.overlaps(start_offset, min(end_offset, self.facts.local_start_offset)) for one in self._holes)

    def is_damaged(self, start_offset: int, end_offset: int) -> bool:
        """True if unreadable bytes overlap [start, end)."""
        return any(part.overlaps(start_offset, end_offset) for part in self.facts.unreadable)

    def records(self, start_offset: int, end_offset: int) -> KnownRecords:
        """Records of the batches that overlap [start, end), with the bounds of those missing from the evidence."""
        first = int(np.searchsorted(self._ends, start_offset))
        last = int(np.searchsorted(self._batches["base_offset"], end_offset))
        indexes = range(first, max(first, last))
        requests = dict(zip(self._requests(indexes), indexes, strict=True))
        outcome = self._reader(requests)
        self._note_uncaptured(outcome)
        unread = [self._bounds(requests[request]) for request, _ in (*outcome.unread, *outcome.undecodable)]
        not_captured = [self._bounds(requests[request]) for request, _ in outcome.not_captured]
        return KnownRecords(outcome.rows, unread, not_captured)

    def markers(self, start_offset: int, producers: Sequence[int]) -> NDArray[np.void]:
        """Control records of `producers` from `start_offset` on, for each up to its next data: later ones end another transaction."""
        self.load({chunk for chunk in self.facts.chunks if (chunk + 1) * CHUNK_OFFSETS > start_offset})
        after = (self._batches["base_offset"] >= start_offset) & (self._batches["magic"] >= 2)
        control = self._batches["attributes"] & CONTROL != 0
        indexes: list[int] = []
        for producer in producers:
            own = np.flatnonzero(after & (self._batches["producer_id"] == producer))
            data = own[~control[own]]
            indexes += (own if not len(data) else own[own < data[0]]).tolist()
        return self._reader(self._requests(indexes)).rows

    def records_of_keys(self, keys: NDArray[np.uint64]) -> NDArray[np.void]:
        """Every record of the whole log whose key hash is in `keys` (sorted), and all control records.

        Batches missing from the evidence are noted.
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


def read_batches(
    snapshot: Snapshot, facts: ReplicaFacts, files: Sequence[SegmentFile], chunks: set[int]
) -> tuple[NDArray[np.void], NDArray[np.int64], list[tuple[SegmentFile, Damage]], list[Unread]]:
    """Batches of `chunks` in `files`, in file order; the index of each one's file; damage; and what could not be read.

    `facts` are of the log that the files belong to; a file that the audit could not read is skipped, since a finding reports it.
    """
    rows: list[NDArray[np.void]] = [np.empty(0, BATCH_DTYPE)]
    places: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
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


def _keys(batches: NDArray[np.void]) -> list[tuple]:
    names = ("base_offset", "last_offset", "leader_epoch", "crc", "size", "magic")
    return list(zip(*(batches[name].tolist() for name in names), strict=True))


@dataclass(frozen=True, slots=True)
class ComparedLog:
    """A log as it leads, and the copies whose records past its end, in its own epoch, count as lacking in it."""

    reference: Reference
    past_end: frozenset[CopyKey]
    """Copies whose records past its end it once had and lost; in any other copy they may only be of another moment."""
    stays: bool = True
    """True if it leads already: of remote storage it then lacks only other histories."""
    everyone: bool = False
    """True if it lacks everything that a copy holds past its end: it leads from now on, and no other broker led in between."""

    def lacks_tail(self, copy: CopyKey) -> bool:
        """True if it lacks the records that a copy has past its end, whatever their epoch."""
        return self.everyone or copy in self.past_end


def present_log(audit: PartitionAudit) -> ComparedLog | None:
    """The log of the present leader, or of the replica in its place; None if the snapshot has no replica."""
    if audit.case is None:
        return None
    return ComparedLog(audit.case.reference, _past_end(audit, audit.case))


def planned_log(audit: PartitionAudit, candidate_id: int) -> ComparedLog | None:
    """The log of a candidate after all others have followed it, as in the cost matrix (`elect.costs`).

    None if the snapshot has no comparable replica of that broker.
    """
    case = audit.case
    replicas = [] if case is None else case.candidates.replicas
    candidate = next((facts for facts in replicas if facts.broker_id == candidate_id), None)
    if case is None or candidate is None:
        return None
    elected = as_leader(case.reference, candidate, replicas)
    if not _stays(case.reference, candidate):
        return ComparedLog(elected, frozenset(), stays=False, everyone=True)
    # It leads already: records past its end in its own epoch may be missing only since its copy was made earlier.
    present = replace(elected, leader_epoch=case.reference.leader_epoch, log_epoch=case.reference.log_epoch)
    perhaps = {item.follower.key for item in case.beside if case.may_be_lost_tail(item)}
    return ComparedLog(present, _past_end(audit, case) | perhaps, everyone=may_have_lost_tail(case))


def _past_end(audit: PartitionAudit, case: Case) -> frozenset[CopyKey]:
    brokers = brokers_past_leader(audit.findings)
    replicas = {item.follower.key for item in case.comparisons if item.follower.broker_id in brokers}
    return frozenset(replicas | {item.follower.key for item in case.beside if case.is_lost_tail(item)})


def _stays(reference: Reference, candidate: ReplicaFacts) -> bool:
    return candidate is reference.facts and reference.leader_id == candidate.broker_id

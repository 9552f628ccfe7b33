"""Times at which log dirs were copied, and brokers that were, or may have been, down by then (docs/semantics.md C.2, H.2).

A running broker fetches the metadata log, which gets a record every 500 ms (`NoOpRecord`, KIP-835). So its copy ends when the broker went
down or, if it ran, when it was copied. After a power loss it may end earlier: brokers, unlike controllers, do not flush what they append.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from replica_audit.literals import UP_KINDS
from replica_audit.model import Leadership, ReplicaDir
from replica_audit.snapshot.checkpoints import contradict_stop
from replica_audit.snapshot.inventory import CopiedLogDir, LogDir, Manifest, MetadataLog
from replica_audit.snapshot.manifest import entries_around
from replica_audit.snapshot.metadata.log_copies import MetadataCopy
from replica_audit.snapshot.metadata.quorum import CLOCKS_DIFFER_MS

#: Maximum time from a broker's end to its fencing: 9 s `broker.session.timeout.ms`, plus the controller's timer and the
#: last idle record. Observed: 9.3 to 10.3 s (4.3.1).
_FENCED_WITHIN_MS = 11_000
#: Maximum time for a broker that announces its stop, which is fenced at once. Observed: 0 to 0.6 s before the end of its copy.
_STOPPED_WITHIN_MS = 1_000


class CopyMoments(NamedTuple):
    """Times at which the copies of a snapshot were made."""

    at_rest: bool = False
    """True if nothing was written meanwhile, so that all copies are of one moment (F.0, "Quiesced")."""
    copies: tuple[CopiedLogDir, ...] = ()
    is_declared: bool = False
    """True if the manifest says whether all are of one moment."""

    def behind_ms(self, copies: Iterable[MetadataCopy]) -> int:
        """Maximum time by which the clock that dated the last records of `copies` is behind those of their nodes; 0 if unknown or ahead.

        No record in a copy is later than the end of copying. An image of a disk shows nothing, as in `is_after`.
        """
        found = [
            one.finished_ms - copy.last_time_ms
            for copy in copies
            for one, _ in self._begun(copy.log)
            if copy.pieces and one.finished_ms is not None and not one.may_be_image
        ]
        return max(0, min(found, default=0))

    def is_ahead(self, copies: Iterable[MetadataCopy]) -> bool:
        """True if the clock that dated the last records of `copies` is ahead of a node's: its copy has one dated after its end."""
        ends = ((copy, [one.finished_ms for one, _ in self._begun(copy.log)]) for copy in copies if copy.pieces)
        return any(
            known and None not in known and copy.last_time_ms > max(filter(None, known)) + _FENCED_WITHIN_MS
            for copy, known in ends
        )

    def is_after(self, log: MetadataLog, time_ms: int, behind_ms: int = 0) -> bool:
        """True if a copy began after `time_ms`, by a clock `behind_ms` behind, or the cluster was at rest while all copies were made.

        If only the brokers' flags show that it was at rest, a copy that began before `time_ms` does not count: the controller may have
        run since. The time at which an image of a disk was copied does not show when the image was made.
        """
        begun = self._begun(log)
        if any(begin >= time_ms + behind_ms + CLOCKS_DIFFER_MS and not one.may_be_image for one, begin in begun):
            return True
        return self.at_rest and (self.is_declared or not any(begin < time_ms - CLOCKS_DIFFER_MS for _, begin in begun))

    def is_before(self, log: MetadataLog, time_ms: int) -> bool:
        """True if a copy may have begun before `time_ms`, as far as the manifest shows."""
        return any(begin <= time_ms + CLOCKS_DIFFER_MS for _, begin in self._begun(log))

    def _begun(self, log: MetadataLog) -> list[tuple[CopiedLogDir, int]]:
        """Copies of a metadata log's directory or node, with their start times in ms."""
        return [
            (one, one.started_ms)
            for one in self.copies
            if one.started_ms is not None and (one.log_dir == log.log_dir or one.broker_id == log.node_id)
        ]


def copy_moments(manifest: Manifest | None, log_dirs: Iterable[LogDir], replicas: Iterable[ReplicaDir]) -> CopyMoments:
    """Times of the copies from the manifest, and whether the cluster was at rest: as the manifest says, else if every
    broker was stopped cleanly before its copy began. A broker's flag shows that unless the manifest has the broker up; if
    the manifest shows nothing, unless a checkpoint in the log dir contradicts it (C.2, "What a clean stop leaves")."""
    copies = manifest.brokers if manifest is not None else ()
    if manifest is not None and manifest.quiesced is not None:
        return CopyMoments(manifest.quiesced, copies, is_declared=True)
    brokers = [one for one in log_dirs if one.kind == "broker"]
    at_rest = bool(brokers) and all(one.clean_shutdown for one in brokers)
    if at_rest:
        said = {one.path: _was_stopped(one, copies) for one in brokers}
        doubtful = {path for path, stopped in said.items() if stopped is None}
        at_rest = False not in said.values() and not any(
            one.log_dir in doubtful and contradict_stop(one) for one in replicas
        )
    return CopyMoments(at_rest, copies)


def _was_stopped(log_dir: LogDir, copies: Iterable[CopiedLogDir]) -> bool | None:
    """True if the manifest shows that the broker of a log dir with the flag was down before the copy; None if it does not tell."""
    entries = entries_around(log_dir.path, (one for one in copies if one.broker_id == log_dir.broker_id))
    if kinds := {one.kind for one in entries} - {None}:
        return not kinds & UP_KINDS
    return True if any(one.started_ms is not None and one.finished_ms is not None for one in entries) else None


def mark_down_when_copied(
    leaderships: Sequence[Leadership],
    fenced_at: Mapping[int, int],
    stopped_at: Mapping[int, int],
    copies: Sequence[MetadataCopy],
    moments: CopyMoments,
) -> list[Leadership]:
    """`leaderships` with `down_when_copied`.

    `fenced_at` has the times in ms at which brokers were fenced, `stopped_at` those of brokers that had announced their stop; `copies`
    are of one history. A broker was still up if its copy has records from after copying began: logs copied first may be older.
    """
    reached: dict[int, int] = {}
    for copy in copies:
        if copy.node_id is not None and not moments.is_before(copy.log, copy.last_time_ms):
            reached[copy.node_id] = min(reached.get(copy.node_id, copy.last_time_ms), copy.last_time_ms)
    least = {broker: time_ms - _FENCED_WITHIN_MS for broker, time_ms in fenced_at.items()}
    least |= {broker: time_ms - _STOPPED_WITHIN_MS for broker, time_ms in stopped_at.items()}
    down = {broker for broker, time_ms in least.items() if reached.get(broker, -1) >= time_ms}
    return [replace(one, down_when_copied=tuple(b for b in one.fenced or () if b in down)) for one in leaderships]


def mark_perhaps_down(
    leaderships: Sequence[Leadership], copies: Sequence[MetadataCopy], moments: CopyMoments
) -> list[Leadership]:
    """`leaderships` with `perhaps_down`: brokers not seen running during their copy, if the metadata log ends before that
    (if all nodes are down, nobody fences them). Its end is unknown if its clock is ahead. `copies` are of one history."""
    heard_ms = (
        -1 if moments.is_ahead(copies) else max((copy.last_time_ms for copy in copies), default=-1) + _FENCED_WITHIN_MS
    )
    log_dirs = {copy.node_id: copy.log.log_dir for copy in copies}
    of_brokers: dict[int, list[CopiedLogDir]] = defaultdict(list)
    for one in moments.copies:
        of_brokers[one.broker_id].append(one)
    unseen = {
        broker
        for broker, entries in of_brokers.items()
        if any(one.finished_ms is None or one.finished_ms > heard_ms for one in _unseen(entries, log_dirs.get(broker)))
    }
    return [replace(one, perhaps_down=perhaps) if (perhaps := _among(one, unseen)) else one for one in leaderships]


def _unseen(entries: Sequence[CopiedLogDir], log_dir: str | None) -> list[CopiedLogDir]:
    """Copied log dirs during whose copy a broker was not seen running. If it never was, only the one with its metadata log
    counts, if it is here: that log ends when the broker went down, or was copied."""
    unseen = [one for one in entries if one.is_unseen]
    if log_dir is None or any(one.kind in UP_KINDS for one in entries):
        return unseen
    return entries_around(log_dir, unseen) or unseen


def _among(leadership: Leadership, unseen: Collection[int]) -> tuple[int, ...]:
    return tuple(one for one in leadership.replicas or () if one in unseen and one not in (leadership.fenced or ()))

"""Times of the copies, and the state of the brokers while they were made (C.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from replica_audit.cached_property import cached_property
from replica_audit.literals import UP_KINDS, CaptureKind
from replica_audit.results import BrokerKind, CopiedBroker, InputsObject
from replica_audit.row_classes import RawRow
from replica_audit.snapshot.inventory import CopiedLogDir
from replica_audit.snapshot.manifest import entries_around
from replica_audit.text import render_time

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import Leadership, ReplicaDir

#: Maximum difference assumed between the clocks of machines that made the copies.
_CLOCKS_DIFFER_MS = 2_000
#: Maximum time by which a running broker's copy of the metadata log ends before its copying does: a record is due every 500 ms.
_METADATA_LAGS_MS = 1_000


CopiedState: TypeAlias = Literal["down", "up", "undecided"]


@dataclass(frozen=True)
class CaptureTimes:
    """Copied log dirs of a snapshot with their times."""

    copies: tuple[CopiedLogDir, ...] = ()
    blank: Mapping[str, int] = field(default_factory=dict)
    """Broker by empty log dir (`Inventory.blank`)."""

    @cached_property
    def _of_broker(self) -> Mapping[int, Sequence[CopiedLogDir]]:
        """`copies` by broker id: each replica is looked up several times, and a cluster may have thousands of log dirs."""
        found: dict[int, list[CopiedLogDir]] = defaultdict(list)
        for one in self.copies:
            found[one.broker_id].append(one)
        return dict(found)

    def of(self, facts: ReplicaFacts) -> tuple[int, int] | None:
        """(started, finished) of the copy with a replica, in ms; None unless the manifest has both."""
        return self.of_log_dir(*facts.key)

    def of_log_dir(self, broker_id: int, log_dir: str) -> tuple[int, int] | None:
        """(started, finished) of the copy of a log dir, in ms; None unless the manifest has both."""
        for one in self._entries_of(broker_id, log_dir):
            if one.started_ms is not None and one.finished_ms is not None:
                return one.started_ms, one.finished_ms
        return None

    def _entries_of(self, broker_id: int, log_dir: str) -> Sequence[CopiedLogDir]:
        """The manifest's entries for a log dir (`entries_around`)."""
        return entries_around(log_dir, self._of_broker.get(broker_id, ()))

    def was_collected_again(self, broker_id: int | None, partition: str) -> bool:
        """True if everything that a broker has of a partition was collected again."""
        return any(one.broker_id == broker_id and partition in one.partitions for one in self.copies)

    def collected_within(self, log_dirs: Collection[tuple[int, str]]) -> tuple[int, int] | None:
        """(begin, end) in ms of the collection of `log_dirs`, given as (broker id, path); None unless all are evidence of running brokers."""
        found = [one for one in self.copies if (one.broker_id, one.log_dir) in log_dirs]
        times = [(one.started_ms, one.finished_ms) for one in found if one.is_evidence and one.kind == "live"]
        begun = [start for start, _ in times if start is not None]
        ended = [end for _, end in times if end is not None]
        is_of_all = log_dirs and len(begun) == len(ended) == len(set(log_dirs))
        return (min(begun), max(ended)) if is_of_all else None

    def first_collected(self, brokers: Collection[int], partition: str) -> tuple[int, int] | None:
        """`collected_within` for all log dirs of `brokers`; None if a broker has none, or was asked for the partition again."""
        log_dirs = {(one.broker_id, one.log_dir) for one in self.copies if one.broker_id in brokers}
        is_first = not any(self.was_collected_again(broker, partition) for broker in brokers)
        return self.collected_within(log_dirs) if is_first and {one for one, _ in log_dirs} == {*brokers} else None

    def is_superseded(self, broker_id: int, log_dir: str, partition: str) -> bool:
        """True if the partition was collected again from this broker later."""
        again = [one.started_ms or 0 for one in self._of_broker.get(broker_id, ()) if partition in one.partitions]
        if not again:
            return False
        own = [one.started_ms or 0 for one in self.copies if one.log_dir == log_dir and one.is_evidence]
        return bool(own) and max(again) > max(own)

    def was_killed(self, broker_id: int, log_dir: str) -> bool:
        """True if the manifest says that the broker was killed, so that its next start recovers the log."""
        return "killed" in self._kinds_of(broker_id, log_dir)

    def was_live(self, broker_id: int, log_dir: str) -> bool:
        """True if the manifest says that the broker was up."""
        kinds = self._kinds_of(broker_id, log_dir)
        return bool(kinds) and kinds <= UP_KINDS

    def has_left(self, broker_id: int, log_dir: str) -> bool:
        """True if by the manifest the broker ran with a log dir that was empty, and not with this one."""
        others = self.perhaps_instead(broker_id, log_dir)
        return any(self.was_live(broker_id, path) for path in others)

    def perhaps_instead(self, broker_id: int, log_dir: str) -> Sequence[str]:
        """Empty log dirs with which a broker may run instead of this one; none if the manifest says that it ran with this one."""
        own = sorted(path for path, owner in self.blank.items() if owner == broker_id)
        return [] if self.was_live(broker_id, log_dir) else own

    def state_when_copied(self, facts: ReplicaFacts, leadership: Leadership | None) -> CopiedState:
        """State of a replica's broker during the copy, by the first line that fits (C.2, "Down when copied").

        | the broker | state |
        |---|---|
        | was stopped or killed, by the manifest | down |
        | was live, or ran when the image of its disk was made, by the manifest | up |
        | is not fenced or stopping where the metadata log ends, nor gone (`Leadership.gone`) | up |
        | has a copy of the metadata log that reaches to when it was fenced, unless it was stopped during the copy (`_is_known_down`) | down |
        | has files as a clean stop leaves them, among them a recovery point | down |
        | is any other | undecided |
        """
        directory = facts.directory
        known = self._is_known_down(directory, facts.log_end_offset, leadership)
        if known is not None:
            return "down" if known else "up"
        if leadership is None or facts.broker_id not in {*(leadership.fenced or ()), *leadership.gone}:
            return "up"
        is_flushed = facts.is_as_stopped and directory.recovery_point_checkpoint is not None
        return "down" if is_flushed else "undecided"

    def are_in_any_order(self, facts: ReplicaFacts, *, was_down: bool) -> bool:
        """True if a replica's files may be of moments in any order, by the first line that fits (C.2, "Files in any order").

        | the copies | in any order |
        |---|---|
        | of a broker that was down (`was_down`; if the manifest says `quiesced`, as if it was), or that are as a clean stop leaves them | no |
        | were read through the broker | no |
        | may be those of an image of its disk (`may_be_image`) | yes |
        | were collected, or have a begin and an end in the manifest: then they are in the order of C.2 | no |
        | are any other | yes |
        """
        if was_down or facts.is_as_stopped or facts.directory.observed is not None:
            return False
        return self.of(facts) is None or self.may_be_image(facts)

    def may_be_image(self, facts: ReplicaFacts) -> bool:
        """True if a replica's files may come from an image of the disk made while its broker ran, which the manifest allows."""
        return not facts.was_down and any(one.may_be_image for one in self._entries_of(*facts.key))

    def may_be_untold_image(self, facts: ReplicaFacts) -> bool:
        """True if the manifest has the times of a log dir's copy but not its kind, and no other source has its broker down:
        it may be an image of the disk, since the copier did not check (C.2, "Images of a disk")."""
        entries = self._entries_of(*facts.key)
        is_untold = not any(one.kind or one.is_unseen or one.is_evidence for one in entries)
        return is_untold and not facts.was_down and self.of(facts) is not None

    def is_image(self, facts: ReplicaFacts) -> bool:
        """True if the manifest calls the copy an image."""
        return "image" in self._kinds_of(*facts.key)

    def may_be_later(self, one: ReplicaFacts, other: ReplicaFacts) -> bool:
        """True if the copy of `one` is later by the controller's clock only, or unless it is an image of its disk, which
        the manifest leaves open."""
        if self.is_image(one):
            return False
        return self.is_later_by_controller(one, other) or (self.may_be_image(one) and self._was_begun_after(one, other))

    def is_later_by_controller(self, one: ReplicaFacts, other: ReplicaFacts) -> bool:
        """True if the copy of `one` began after that of `other` had ended by the controller's clock, but not by the
        brokers' own (C.2, "Clocks"): the clock of `one` seems to be slow, or its metadata log was copied again later."""
        own = self.of(one)
        earlier = self.of(other)
        own_ahead = self._ahead_of_metadata(one.key)
        ahead = self._ahead_of_metadata(other.key)
        if one.was_down or own is None or earlier is None or own_ahead is None or ahead is None:
            return False
        if own_ahead >= -_CLOCKS_DIFFER_MS or abs(ahead) > _CLOCKS_DIFFER_MS or self._was_begun_after(one, other):
            return False
        return own[0] - own_ahead >= earlier[1] - ahead + _CLOCKS_DIFFER_MS

    def is_flag_older(self, directory: ReplicaDir, log_end_offset: int, leadership: Leadership | None) -> bool:
        """True if a clean-stop flag in the log dir would be older than the copied files: the broker is known to have been
        down, or the flag was copied first."""
        is_ordered = self.of_log_dir(directory.broker_id, directory.log_dir) is not None
        return is_ordered or self._is_known_down(directory, log_end_offset, leadership) is True

    def may_have_gone_down(self, facts: ReplicaFacts) -> bool:
        """True if a replica's broker may have gone down during its copy: only the metadata log has it down, and the
        manifest lacks the start of the copy (C.2, "Down when copied")."""
        return facts.was_down and not facts.killed and self.of(facts) is None and not self._kinds_of(*facts.key)

    def _is_known_down(self, directory: ReplicaDir, log_end_offset: int, leadership: Leadership | None) -> bool | None:
        """True if a broker was down when it was copied, by the manifest or else by the metadata log; False if it was up by the manifest.

        A clean stop leaves the recovery point at the log end. If it lies below that beside the flag of a stop, the broker was stopped
        during the copy, unless the manifest has the begin of it: the metadata log was copied after that, the other files perhaps before.
        """
        key = (directory.broker_id, directory.log_dir)
        if kinds := self._kinds_of(*key):
            return not kinds & UP_KINDS
        if leadership is None or directory.broker_id not in leadership.down_when_copied:
            return None
        flushed = directory.recovery_point_checkpoint
        is_unflushed = directory.clean_shutdown is True and flushed is not None and flushed < log_end_offset
        return None if is_unflushed and self.of_log_dir(*key) is None else True

    def was_down(self, facts: ReplicaFacts, leadership: Leadership | None) -> bool:
        """True if a replica's broker is known to have been down when it was copied, so that the copy has everything it left."""
        return self.state_when_copied(facts, leadership) == "down"

    def _kinds_of(self, broker_id: int, log_dir: str) -> set[CaptureKind]:
        """Kinds that the manifest gives for the copy of a log dir."""
        return {one.kind for one in self._entries_of(broker_id, log_dir) if one.kind is not None}

    def is_later(self, one: ReplicaFacts, other: ReplicaFacts) -> bool:
        """True if the copy of `one` started after that of `other` had ended, by more than clocks may differ."""
        return not self.may_be_image(one) and self._was_begun_after(one, other)

    def _was_begun_after(self, one: ReplicaFacts, other: ReplicaFacts) -> bool:
        earlier = self.of(other)
        return earlier is not None and self._began_after(one, earlier[1], self._ahead_of_metadata(other.key))

    def began_later(self, facts: ReplicaFacts, time_ms: int) -> bool:
        """True if the copy of a replica started after `time_ms` by the controller's clock, by more than clocks may differ.
        Never for an image of a running broker's disk: its contents are older than the copy."""
        return not self.may_be_image(facts) and self._began_after(facts, time_ms, 0)

    def _began_after(self, facts: ReplicaFacts, time_ms: int, ahead_ms: int | None) -> bool:
        """`ahead_ms`: how far the clock that gave `time_ms` is ahead of the controller's."""
        own = self.of(facts)
        # The metadata log of a broker that is down ends when it went down.
        own_ahead = None if facts.was_down else self._ahead_of_metadata(facts.key)
        return own is not None and _is_after(own[0], own_ahead, time_ms, ahead_ms)

    def _ahead_of_metadata(self, key: tuple[int, str]) -> int | None:
        """`CopiedLogDir.ahead_ms` of a log dir, by (broker id, path)."""
        return next((one.ahead_ms for one in self._entries_of(*key)), None)

    def heard_after(self, log_dir: str, facts: ReplicaFacts) -> bool:
        """True if the logs of `log_dir` extend past the end of a replica's copy, by more than clocks may differ."""
        until_ms = self.heard_until(log_dir)
        own = self.of(facts)
        if own is None or until_ms is None:
            return False
        ahead = next(one.ahead_ms for one in self.copies if one.log_dir == log_dir and one.kind == "live")
        return _is_after(until_ms, ahead, own[1], self._ahead_of_metadata(facts.key))

    def heard_until(self, log_dir: str) -> int | None:
        """Time in ms up to which the logs in the copy of `log_dir` are complete: the start of the copy, by the manifest.

        None unless the manifest calls the broker live: one that was down has received nothing since, however late its disk was copied.
        """
        known = [one.started_ms for one in self.copies if one.log_dir == log_dir and one.kind == "live"]
        return min((one for one in known if one is not None), default=None)

    def may_be_stale(self, log_dir: str, facts: ReplicaFacts) -> bool:
        """True if the broker of `log_dir` was killed and that of a replica was not: it may have been down for a long time."""
        killed = any(one.log_dir == log_dir and one.kind == "killed" for one in self.copies)
        return killed and not facts.killed

    def as_inputs(self) -> InputsObject:
        """Return `brokers`, each with its known kinds (null for a log dir without one), and `copied`, the times of their
        log dirs, both by broker id."""
        known = {one.broker_id for one in self.copies if one.kind is not None}
        kinds = {(one.broker_id, one.kind) for one in self.copies if one.broker_id in known}
        by_id = sorted(kinds, key=lambda one: (one[0], one[1] or ""))
        inputs: InputsObject = {"brokers": [BrokerKind(broker_id=one, kind=kind) for one, kind in by_id]}
        copied = sorted(
            (one.broker_id, one.started_ms, one.finished_ms)
            for one in self.copies
            if one.started_ms is not None and one.finished_ms is not None
        )
        if copied:
            inputs["copied"] = [
                CopiedBroker(broker_id=one, started_ms=start, finished_ms=end) for one, start, end in copied
            ]
        return inputs

    def describe(self, replicas: Sequence[ReplicaFacts]) -> str | None:
        """Describe the times of the copies; None if the manifest lacks one."""
        found = []
        for facts in replicas:
            times = self.of(facts)
            if times is None:
                return None
            start, end = (render_time(time, "seconds") for time in times)
            found.append(f"broker {facts.broker_id} was copied from {start} to {end}{self._describe_clock(facts)}")
        return ", ".join(found)

    def _describe_clock(self, facts: ReplicaFacts) -> str:
        ahead_ms = None if facts.was_down else self._ahead_of_metadata(facts.key)
        if ahead_ms is None or abs(ahead_ms) <= _CLOCKS_DIFFER_MS:
            return ""
        return f" by a clock that is {abs(ahead_ms) // 1000} s {'ahead of' if ahead_ms > 0 else 'behind'} its copy of the metadata log"


def _is_after(later_ms: int, later_ahead: int | None, earlier_ms: int, earlier_ahead: int | None) -> bool:
    """True if one time is after another by the brokers' own clocks and, if known for both, by the controller's, to which
    their metadata logs tie them (C.2, "Clocks")."""
    if later_ms < earlier_ms + _CLOCKS_DIFFER_MS:
        return False
    if later_ahead is None or earlier_ahead is None:
        return True
    return later_ms - later_ahead >= earlier_ms - earlier_ahead + _METADATA_LAGS_MS


def times_of_manifest(brokers: Iterable[RawRow], blank: Mapping[str, int]) -> CaptureTimes:
    """Make times from the `brokers` of a manifest, in its JSON form (also stored by an ingest)."""
    return CaptureTimes(tuple(CopiedLogDir(**one) for one in brokers), blank)

"""Records that others have past the reference's end: the reference lost its tail, or was copied before it had them (C.2, F.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.replicas.lost_tails import is_tail_lost
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.batch_header import ABSENT, or_absent

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.leadership.capture_times import CaptureTimes, CopiedState
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import Leadership


class LeaderTail(NamedTuple):
    """The end of the reference's log, compared with what others have past it."""

    reference: Reference
    leadership: Leadership | None
    times: CaptureTimes
    state: CopiedState
    """State of the reference's broker during the copy."""
    one_moment: bool
    """True if no skew of the copies can explain a log end that is too short."""

    @classmethod
    def of(
        cls,
        reference: Reference,
        replicas: Sequence[ReplicaFacts],
        leadership: Leadership | None,
        times: CaptureTimes,
        quiesced: bool | None,
    ) -> LeaderTail:
        """`replicas` are those that are judged, including the reference; `quiesced` is the manifest's.

        An undecided state (`CaptureTimes.state_when_copied`) becomes down if the reference's checkpoint was copied before the log (C.2) and
        is past the log's end: the log of a running leader is not truncated.
        """
        one_moment = _are_of_one_moment(replicas, leadership) if quiesced is None else quiesced
        facts = reference.facts
        state = times.state_when_copied(reference.facts, leadership)
        if state == "undecided" and not facts.in_any_order and is_tail_lost(reference, replicas, facts):
            state = "down"
        return cls(reference, leadership, times, state, one_moment)

    @property
    def is_epoch_said(self) -> bool:
        """True if the source of leadership gives a leader epoch."""
        return self.leadership is not None and self.leadership.leader_epoch is not None

    def is_lost(self, item: Comparison) -> bool:
        """True if a follower's records past the reference's end prove that the reference lost its tail or is not the leader.

        They do if no skew of the copies explains them: the copies are of one moment, the leader was copied last, or the reference
        was down and had been in sync.
        """
        return self.is_passed_by(item) and (
            self.one_moment or self.was_written_before_copy(item) or self.is_whole_though_down(item)
        )

    def may_be_lost(self, item: Comparison) -> bool:
        """True if `is_lost` would hold under a condition that is undecided: the reference was down when copied, its copy is the later
        one (`CaptureTimes.may_be_later`), or no other broker has led since. Also if only records without an epoch are ahead."""
        is_down = self.state == "down" and not self.is_epoch_said and self.reference.leader_id is None
        is_open = (is_down or self.state == "undecided") and self._wrote_last(item)
        is_open = is_open or self._was_written_before(item, self.times.may_be_later)
        has_no_epoch = not (item.ahead.epochs >= 0).any()
        is_open = is_open or (has_no_epoch and self.times.is_later(self.reference.facts, item.follower))
        return is_open and self.is_passed_by(item)

    def is_whole_though_down(self, item: Comparison) -> bool:
        """True if the copy has everything that its broker had when it went down, and no broker that led since wrote what
        the follower has ahead."""
        return self.state == "down" and self.is_epoch_said and self._wrote_last(item)

    def was_written_before_copy(self, item: Comparison) -> bool:
        """True if by the manifest's times the leader wrote what a follower has ahead of it before its own copy started."""
        return self._was_written_before(item, self.times.is_later)

    def _was_written_before(self, item: Comparison, is_later: Callable[[ReplicaFacts, ReplicaFacts], bool]) -> bool:
        reference = self.reference
        leads = reference.leader_id == reference.facts.broker_id and not reference.outdated
        if reference.leader_epoch is None or not leads or not is_later(reference.facts, item.follower):
            return False
        # At its election, before the first record of its epoch, a leader has everything below the epoch's start.
        had_below = item.follower.lineage.start_of(reference.leader_epoch)
        written = item.ahead.epochs == reference.leader_epoch
        had = item.ahead.ends <= (-1 if had_below is None else had_below)
        return bool(written.any() and (written | had).all())

    def is_passed_by(self, item: Comparison) -> bool:
        """True if a follower extends past the reference's end, and as far as known the reference is the leader or there is none."""
        reference = self.reference
        led_elsewhere = reference.leader_id not in (None, reference.facts.broker_id)
        is_open = reference.facts.last_epoch_is_open and not self.is_epoch_said
        return bool(item.ahead) and not led_elsewhere and not is_open

    def _wrote_last(self, item: Comparison) -> bool:
        """True if a follower has no record ahead of a later epoch than the reference's present or last leadership; records
        from before 0.11 have no epoch."""
        newest = max((or_absent(batch.epoch) for batch in item.ahead), default=ABSENT)
        is_older = bool(self.reference.outdated) or self.reference.predates
        return not is_older and newest <= or_absent(self.reference.leader_epoch)


def _are_of_one_moment(replicas: Sequence[ReplicaFacts], leadership: Leadership | None) -> bool:
    """True if all brokers were stopped cleanly before the copies.

    They may have been stopped one after the other, and a listing may be older. So clean flags count only with the metadata log,
    and only if no log or epoch file has a later epoch than that knows.
    """
    if leadership is None or leadership.source != "metadata_log" or leadership.leader_epoch is None:
        return False
    latest = max((one.log_epoch for one in replicas), default=-1)
    return latest <= leadership.leader_epoch and all(one.was_stopped_before_copy for one in replicas)

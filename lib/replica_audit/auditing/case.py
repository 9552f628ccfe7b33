"""Input of the rules: everything known about one partition (F.0)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replica_audit.auditing.compare.comparable import open_question, why_not_comparable
from replica_audit.auditing.compare.loss import committed_ahead
from replica_audit.auditing.compare.remote_objects import StoreDeviations
from replica_audit.auditing.compare.remote_storage import differing_epochs
from replica_audit.auditing.leadership.commitment import OrphanedMark, orphaned_marks
from replica_audit.auditing.leadership.election_causes import PastElections, past_elections
from replica_audit.auditing.leadership.needed_replicas import LogLeft, logs_left, needed_replicas
from replica_audit.auditing.remote_facts import OtherHistory, RemoteFacts
from replica_audit.auditing.replicas.later_files import entry_of_other, later_entry
from replica_audit.auditing.replicas.lost_tails import has_lost_tail, why_apart, why_older
from replica_audit.auditing.replicas.offset_ranges import deleted_end
from replica_audit.auditing.replicas.reference import COPIED_BEFORE, known_epoch, led_with_another_log
from replica_audit.batch_header import or_absent
from replica_audit.cached_property import cached_property
from replica_audit.model import OffsetRange, joined
from replica_audit.protocol.election import CleanElections, elections
from replica_audit.protocol.lineage import Lineage
from replica_audit.protocol.versions import keeps_committed
from replica_audit.text import name_source, render_time

if TYPE_CHECKING:
    from replica_audit.auditing.compare.candidates import Candidates
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.divergent_ranges import DivergentRange
    from replica_audit.auditing.consumer_groups import Position
    from replica_audit.auditing.evidence import AuditOptions, PartitionEvidence
    from replica_audit.auditing.leadership.high_watermark_bounds import HighWatermark
    from replica_audit.auditing.leadership.leader_tail import LeaderTail
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
    from replica_audit.literals import Need
    from replica_audit.model import Leadership, TopicPartition, TransactionState
    from replica_audit.snapshot.broker_logs import BrokerLogEvent


#: Time within which a running broker checkpoints its high watermarks anew (`replica.high.watermark.checkpoint.interval.ms`, 5 s by
#: default), including clock differences.
_CHECKPOINTED_WITHIN_MS = 7_000


@dataclass(frozen=True)
class Case:
    """Everything that the rules know about one partition. Conclusions are cached: rules ask repeatedly."""

    evidence: PartitionEvidence
    leadership: Leadership | None
    """Leadership from the evidence, as far as it is believed."""
    reference: Reference
    comparisons: tuple[Comparison, ...]
    """Comparisons of the other comparable replicas with the reference, by broker id."""
    high_watermark: HighWatermark
    tail: LeaderTail
    candidates: Candidates
    """The judged replicas as leaders, and the copies beside them."""
    foreign: tuple[ReplicaFacts, ...] = ()
    """Replicas of another topic id, which are not compared."""
    duplicates: tuple[ReplicaFacts, ...] = ()
    """Second copies on one broker; they neither lead nor follow."""
    beside: tuple[Comparison, ...] = ()
    """Comparisons of `duplicates`, and of copies that Kafka put aside (`snapshot.inventory.Inventory.put_aside`), with the reference,
    if readable."""
    strangers: tuple[tuple[Comparison, str], ...] = ()
    """Replicas that may be of another topic, with the reason; no conclusion is drawn from them."""
    set_aside: tuple[ReplicaFacts, ...] = ()
    """Logs known only from a text or table that cannot be compared with the reference, and those of `waiting`."""
    waiting: tuple[Comparison, ...] = ()
    """Comparisons that need records missing in the evidence before any conclusion (`awaits_records`)."""
    log_events: tuple[BrokerLogEvent, ...] = ()
    """Lines of broker logs on the present topic, by time."""
    transactions: Mapping[int, TransactionState] = field(default_factory=dict)
    """Coordinator's latest state of each transaction that the reference leaves open, by producer id."""
    groups: tuple[Position, ...] = ()
    """Positions of consumer groups and share groups in the reference's log, by group name."""
    is_leaders: bool = True
    """True if the leader's log has the same records as the reference's, up to the latter's end."""
    lost_from: int | None = None
    """First offset of records that the reference lost and other replicas hold; None if it lost nothing."""
    remote: RemoteFacts = RemoteFacts()
    """Content of `__remote_log_metadata` for the reference's topic id."""
    store: StoreDeviations = StoreDeviations()
    """Deviations of the remote store from its metadata; empty if it was not checked."""

    @property
    def topic_partition(self) -> TopicPartition:
        return self.evidence.topic_partition

    @property
    def options(self) -> AuditOptions:
        return self.evidence.options

    @cached_property
    def replicas(self) -> tuple[ReplicaFacts, ...]:
        """The reference and all replicas compared with it, by broker id."""
        strangers = (item.follower for item, _ in self.strangers)
        everyone = (self.reference.facts, *(item.follower for item in self.comparisons), *strangers)
        return tuple(sorted(everyone, key=lambda facts: facts.key))

    @cached_property
    def copies(self) -> tuple[ReplicaFacts, ...]:
        """`replicas`, then the copies in `beside`."""
        return (*self.replicas, *(item.follower for item in self.beside))

    def comparison_of(self, facts: ReplicaFacts) -> Comparison | None:
        """Comparison of a copy with the reference; None for the reference itself and for copies that were not compared."""
        return next((item for item in (*self.comparisons, *self.beside) if item.follower is facts), None)

    def begin_of(self, facts: ReplicaFacts) -> int:
        """Offset from which a replica should have all records: where its log begins, or the reference's if that has its history below
        (F.0, "Below the reference's log start"). A follower is cut at its leader's log start; a batch across it is removed whole."""
        item = self.comparison_of(facts)
        is_shared = item is not None and item.unseen_below < 0
        return deleted_end(facts, self.reference.facts) if is_shared else facts.start_by_epoch_file

    def was_cut_inside(self, facts: ReplicaFacts, mark: int) -> bool | None:
        """True if `mark` is inside a batch that begins at this log's end in another copy, of the epoch that the log had there: only a
        truncation inside that batch, which removes it whole, leaves such a mark. None if no copy has a batch of that epoch there."""
        lost = facts.sound_file_lineage
        own = self.comparison_of(facts)
        shown = [one.alignment.own for one in (*self.comparisons, *self.beside) if one is not own]
        shown += [] if own is None else [own.alignment.reference]
        between = [
            batch
            for batches in shown
            for batch in batches.overlapping(facts.log_end_offset, mark)
            if lost is not None and lost.epoch_for_offset(batch.base_offset) == batch.epoch
        ]
        if not between:
            return None
        return all(one.base_offset == facts.log_end_offset and one.end_offset > mark for one in between)

    def missing_of(self, facts: ReplicaFacts) -> Iterator[OffsetRange]:
        """Yield ranges between segments of a replica that may be missing (`ReplicaFacts.missing`), above its `begin_of`; none with
        a segment that is here and could not be read."""
        begins = self.begin_of(facts)
        for stretch in facts.missing:
            is_unread = any(stretch.start_offset <= base < stretch.end_offset for base in facts.unread_bases)
            if stretch.end_offset > begins and not is_unread:
                yield stretch

    def is_checked(self, facts: ReplicaFacts, start: int, end: int) -> bool:
        """True if batches of a replica with computed checksums cover [start, end) without a gap. Batches that were not compared
        with another replica are unknown."""
        if not facts.unchecked_batches:
            return True
        everything = (*self.comparisons, *self.waiting)
        known = [item.alignment.own for item in everything if item.follower.key == facts.key]
        if facts is self.reference.facts:
            known += [item.alignment.reference for item in everything]
        found = [batch for batches in known for batch in batches.overlapping(start, end)]
        for batch in sorted(found, key=lambda batch: batch.base_offset):
            if batch.base_offset > start or batch.crc_unchecked:
                return False
            start = max(start, batch.end_offset)
        return start >= end

    def is_doubted(self, facts: ReplicaFacts, start: int, end: int) -> bool:
        """True if a batch of a replica that overlaps or touches [start, end) differs from the others' and has no computed
        checksum: its size or offsets may be damaged."""
        paths = {segment.path for segment in facts.segments}
        return any(
            problem.kind == "unchecked" and problem.start_offset <= end and start <= problem.end_offset
            for item in (*self.comparisons, *self.beside, *self.waiting)
            for problem in item.problems
            if problem.path in paths
        )

    def is_lost_tail(self, item: Comparison) -> bool:
        """True if the reference once had the records that a copy in `beside` has past its end, and skew of the copies does not explain
        them."""
        if self.is_copied_from_reference(item):
            ran = self.options.times.state_when_copied(item.follower, self.leadership) == "up"
            return self.tail.one_moment or self.evidence.was_at_rest or (self.tail.state == "down" and not ran)
        # Without a known leader, the reference may lack them only because its broker, or another, uses this copy.
        is_led = self.reference.source != "inferred" and self.reference.leader_id == self.reference.facts.broker_id
        if item.follower.may_be_in_use and not is_led:
            return False
        return not self._is_removed(item.follower) and self.tail.is_lost(item)

    def may_be_lost_tail(self, item: Comparison) -> bool:
        """True if `is_lost_tail` depends on an open question: was the reference down while it was copied, or copied after the last write
        to another disk of its broker?"""
        if self.is_lost_tail(item) or self._is_removed(item.follower) or not item.ahead:
            return False
        if self.is_copied_from_reference(item):
            return self.tail.state == "undecided"
        return self.tail.may_be_lost(item) or (self._is_of_other_disk(item.follower) and self.tail.is_passed_by(item))

    def is_deleted_late(self, item: Comparison) -> bool:
        """True if a broker may have left a `-delete` directory that goes past the reference's end only after the reference was copied."""
        return item.follower.kind == "delete" and not self._is_removed(item.follower) and self.tail.is_passed_by(item)

    def _is_of_other_disk(self, facts: ReplicaFacts) -> bool:
        """True if a second copy may be on a disk that its broker no longer uses: neither the replica's own disk, nor one that the broker ran
        with when it was copied. Such a disk was left before the broker led; so was a stray directory, which a broker sets aside when it
        starts."""
        if facts.kind == "stray":
            return True
        reference = self.reference
        leads = reference.leader_id == facts.broker_id == reference.facts.broker_id and not reference.predates
        own = {one.directory.directory_id for one in self.replicas if one.broker_id == facts.broker_id} - {None}
        ran = self.options.times.was_live(*facts.key)
        return facts.kind == "current" and not leads and not ran and facts.directory.directory_id not in own

    def _is_removed(self, facts: ReplicaFacts) -> bool:
        """True for copies that a broker removes: `.deleted` segments, and directories of a deleted topic, which has no leader any more."""
        is_deleted = self.leadership is not None and self.leadership.is_deleted
        return facts.is_about_to_go or (is_deleted and facts.kind == "delete")

    def were_at_rest(self, *copies: ReplicaFacts) -> bool:
        """True if nothing was written while these were copied, e.g. because their brokers were down."""
        return self.evidence.was_at_rest or all(self.options.times.was_down(one, self.leadership) for one in copies)

    def is_copied_from_reference(self, item: Comparison) -> bool:
        """True if a copy in `beside` is a move of the reference's log to another disk."""
        return item.follower.kind == "future" and item.follower.broker_id == self.reference.facts.broker_id

    @cached_property
    def lost_remotely(self) -> OtherHistory:
        """Ranges in remote storage of another history that the leader is known to lack."""
        return self.remote.other if self.is_leaders else OtherHistory()

    @cached_property
    def _clean_elections(self) -> CleanElections:
        return CleanElections.of(self.reference.history)

    def why_on_leader(self, offset: int, leader_epoch: int | None = None) -> str | None:
        """Clause on why, from `offset` on, the leader may have a follower's history instead of the reference's: its log was not captured,
        or may have been cut since; None if it cannot. `leader_epoch` is that of the follower's records there.

        It cannot if the follower's history `is_left_for_good`, or the reference's records there were committed and every election since
        was clean (`high_watermark_bounds.recorded_marks`). A log start copied later than the log proves nothing committed below it.
        """
        leader, facts = self.reference.leader_id, self.reference.facts
        is_deleted = facts.in_any_order and offset < facts.log_start_offset
        keeps = self.tail.is_epoch_said and self.high_watermark.proven_lower > offset and not is_deleted
        is_known = self.is_leaders or keeps or self.is_left_for_good(offset, leader_epoch)
        return None if is_known or (leader is None and not self.reference.is_replaced) else self.why_leaders

    @property
    def why_leaders(self) -> str:
        """Clause on why the leader may have records that the reference lacks."""
        leader = self.reference.leader_id
        may_have = "whoever leads next" if leader is None else f"broker {leader}, which leads,"
        why = "its log is not here"
        if self.reference.is_replaced:
            why = f"the log of broker {self.reference.facts.broker_id} {COPIED_BEFORE}"
        return f"{may_have} may have them, and {why}"

    def is_left_for_good(self, offset: int, leader_epoch: int | None) -> bool:
        """True if no leader can have records of `leader_epoch` at `offset` any more: an unclean election left only its winner in the
        ISR, later elections were clean, and a replica is cut to the winner's log, which has a later epoch there, before it joins."""
        if self._left_for_good is None or leader_epoch is None:
            return False
        unclean_epoch, start = self._left_for_good
        return leader_epoch < unclean_epoch and start <= offset

    @cached_property
    def _left_for_good(self) -> tuple[int, int] | None:
        """(epoch of the last unclean election, first offset written since); None if nothing was written, or a later election was not clean."""
        now = self.reference.leader_epoch
        clean = self._clean_elections
        last = max(clean.unclean_epochs, default=None)
        if now is None or last is None or not clean.between(last, now) or not keeps_committed(self.options.protocol):
            return None
        starts = [start for one in self.replicas for epoch, start in one.lineage if last <= epoch <= now]
        return (last, min(starts)) if starts else None

    def why_later(self, item: Comparison, run: DivergentRange) -> str | None:
        """Clause on why the records of a follower's run, or the checkpoint that proves them committed, may be later than the compared
        logs, so that nobody lost them; None if nothing shows it (C.2, "Files in any order")."""
        if self.evidence.was_at_rest:
            return None
        end = run.end_offset if run.committed_range is None else run.committed_range.end_offset
        for one in self.replicas:
            # An epoch has one leader: a log with the run's last record has the whole run.
            has_all = one.log_end_offset >= end and one.lineage.epoch_for_offset(end - 1) == run.replica_epoch
            if (one is item.follower or has_all) and (why := self.why_led_later(one, run.start_offset)):
                return why
        if why := why_older(self.reference.facts, run.start_offset, run.replica_epoch):
            return why
        proof = run.proof
        marked = None if proof is None else self._apart(proof.broker_id)
        if proof is None or marked is None:
            return None
        here = f"broker {marked.broker_id}"
        since = "and its high watermark may be of its log since"
        is_unclean = run.cause is not None and run.cause.clean is False
        if marked.directory.clean_shutdown and proof.kind == "checkpoint" and not is_unclean:
            return f"the other files of {here} contradict its clean-shutdown flag, so they are of different moments, {since}"
        cut = later_entry(marked, self.replicas)
        if cut is not None and cut.start_offset < run.end_offset:
            return f"by its own epoch file the log of {here} was cut at {cut.start_offset} after it was copied, {since}"
        begins = marked.start_by_epoch_file
        if run.end_offset <= begins:
            return f"by its own epoch file the log of {here} begins at {begins} since it was copied, {since}"
        if not is_unclean and (apart := why_apart(marked)):
            return f"{apart}, {since}"
        election = None if run.cause is None or not run.cause.clean else run.cause.election
        was_reached = proof.kind == "checkpoint" and int(proof.value) <= self.reference.facts.log_end_offset
        if (
            election is not None
            and was_reached
            and not has_lost_tail(self.reference, self.replicas, election.leader_id)
        ):
            return (
                f"broker {election.leader_id}, which was elected cleanly, had lost the end of its log, or {here} was cut after its log "
                f"was copied, {since}"
            )
        return None

    def why_only_likely(self, item: Comparison, run: DivergentRange) -> str | None:
        """Clause on why the loss of a run's committed records is only likely: the checkpoint that proves them committed (without a proof,
        the follower's) may be later than the log, or they may have been deleted; None if neither is possible (C.2, "Files in any order")."""
        return self._why_mark_may_be_later(run, item.follower) or self.why_deleted_since(item, run.end_offset)

    def _why_mark_may_be_later(self, run: DivergentRange, holder: ReplicaFacts) -> str | None:
        proof = run.proof
        if proof is not None and not proof.certain:
            return f"likely, not proven: broker {proof.broker_id} may have followed another leader meanwhile, and have that high watermark from it"
        if proof is not None and proof.kind == "sole_isr":
            return None
        marker = holder.broker_id if proof is None else proof.broker_id
        marked = self._apart(marker)
        if marked is None:
            gone = next((one for one in self.replicas if one.broker_id == marker), None)
            if gone is not None and (why := self.why_of_earlier_topic(gone)):
                return f"likely, not proven: {why}"
            is_past_end = proof is not None and proof.kind == "lost_tail"
            if gone is None or not (is_past_end or self._may_have_followed_since(gone, run.replica_epoch)):
                return None
            return self.why_gone_down(gone)
        return (
            f"likely, not proven: nothing shows in which order the files of broker {marked.broker_id} were copied, and its log may have been cut "
            "and fetched again meanwhile"
        )

    def why_others_lost(self, run: DivergentRange) -> str | None:
        """Clause on why the reference may have a run's committed records by now, so that the lost records are the
        committed ones that it had in their place; None if it cannot."""
        leader = self.reference
        if self.evidence.was_at_rest or leader.facts.is_at_rest:
            return None
        is_kept = self._clean_elections.between(
            or_absent(leader.facts.last_leader_epoch), or_absent(leader.leader_epoch)
        )
        if not leader.is_before(run.replica_epoch) and (is_kept or not leader.is_replaced):
            return None
        return (
            f"unless broker {leader.facts.broker_id} was cut since it was copied and has them by now: then those are lost that it had committed "
            "in their place"
        )

    def why_gone_down(self, facts: ReplicaFacts) -> str | None:
        """Clause on why a replica's broker, though it counts as down, may have gone down only while its files were
        copied, which are then from different moments; None if it cannot (C.2, "Down when copied")."""
        if self.options.quiesced or facts.is_as_stopped or not self.options.times.may_have_gone_down(facts):
            return None
        return (
            f"likely, not proven: broker {facts.broker_id} may have gone down while it was copied; give the kind of its copy, or begin and end, "
            "in manifest.json"
        )

    def why_of_earlier_topic(self, facts: ReplicaFacts) -> str | None:
        """Clause on why the checkpoints of a running broker, which name no topic id, may be those of an earlier topic of that
        name; None unless the partition was created after the copy began, or too shortly before for them to have been rewritten."""
        copied = self.options.times.of(facts)
        created = next((one.time_ms for one in self.reference.history if one.occasion == "created"), None)
        if facts.in_any_order or self.were_at_rest(facts) or copied is None or created is None:
            return None
        if created < copied[0] - _CHECKPOINTED_WITHIN_MS:
            return None
        return (
            f"the partition was created at {render_time(created, 'seconds')}, and the checkpoints of broker {facts.broker_id} may be from before "
            "that, of an earlier topic"
        )

    def _may_have_followed_since(self, facts: ReplicaFacts, leader_epoch: int | None) -> bool:
        """False if nobody can have cut a replica's records while it was copied: the metadata log shows its broker
        fenced before any election later than `leader_epoch`, and its epoch file shows no return since."""
        now = self.leadership
        fenced_at = None if now is None else now.fenced_since.get(facts.broker_id)
        if now is None or fenced_at is None or leader_epoch is None or entry_of_other(facts, self.replicas):
            return True
        return any(
            one.leader_epoch > leader_epoch and one.metadata_offset < fenced_at for one in elections(now.history)
        )

    def why_of_older_copy(self, facts: ReplicaFacts, offset: int) -> str | None:
        """Clause on why a replica's segments at `offset` may be left over from an older copy in the same place; None if no segment begins in an
        earlier epoch than the segment before it ends in, or the manifest describes the copy (C.2, "A copy over an older one")."""
        begun = [
            item.base_offset
            for _, item in facts.irregularities
            if item.kind == "epoch_regression" and item.position == 0 and item.base_offset <= offset
        ]
        if not begun or facts.directory.observed is not None or self.options.times.of(facts) is not None:
            return None
        return (
            f"likely, not proven: the files of broker {facts.broker_id} from {begun[0]} on may be left from an older copy, over which this one "
            "was made; copy its log directory again, into an empty one"
        )

    @cached_property
    def _stretches_of_runs(self) -> dict[CopyKey, tuple[OffsetRange, ...]]:
        """Offsets of the runs of each follower, by its key; those that touch are joined."""
        return {
            item.follower.key: joined(run.offsets for run in item.runs) for item in (*self.comparisons, *self.beside)
        }

    def why_deleted_since(self, item: Comparison, end: int) -> str | None:
        """Clause on why differing records up to `end`, below records that both logs have, may have been deleted; None if they cannot have been.

        A follower is cut at its leader's log start, whatever it has below. From its first fetch on, its log and epoch file begin there too, unless
        they are files of different moments (C.2, "Files in any order").
        """
        if self.evidence.was_at_rest:
            return None
        stretches = self._stretches_of_runs[item.follower.key]
        at = bisect_right(stretches, end, key=lambda part: part.start_offset)
        end = max(end, stretches[at - 1].end_offset) if at else end
        for facts, other in ((item.follower, self.reference.facts), (self.reference.facts, item.follower)):
            # The epoch file may be later than the log, and begin past its end.
            entries = (*facts.lineage, *facts.file_entries[:1])
            epoch, begins = next((entry for entry in entries if entry[1] >= end), (None, end))
            goes_on = (
                begins == end or begins >= facts.log_end_offset or any(gap.covers(end, begins) for gap in facts.gaps)
            )
            is_shared = begins < other.log_end_offset and other.lineage.epoch_for_offset(begins) == epoch
            is_begun = is_shared or begins <= facts.start_by_epoch_file
            if epoch is None or not (goes_on and is_begun):
                continue
            since = f"the log may begin at {begins} by now, above these records"
            if facts.in_any_order:
                here = f"broker {facts.broker_id}"
                return f"likely, not proven: nothing shows in which order the files of {here} were copied, and {since}"
            if why := self.why_gone_down(facts):
                return f"{why}; {since}"
            if not facts.is_at_rest and facts.file_increases and min(facts.file_entries, default=(0, -1))[1] >= begins:
                return f"likely, not proven: by the epoch file of broker {facts.broker_id}, which was copied later, {since}"
        return None

    def _apart(self, broker_id: int) -> ReplicaFacts | None:
        """The replica of a broker if its files may be of moments in any order; else None."""
        return next((one for one in self.replicas if one.broker_id == broker_id and one.in_any_order), None)

    @cached_property
    def later_epoch(self) -> int | None:
        """The latest epoch that another copy knows, if it is later than the one in which the reference is known to lead:
        an election since its copy, or that of the source of leadership, is in none of them."""
        others = (one for one in self.candidates.copies if one is not self.reference.facts)
        latest = max(map(known_epoch, others), default=None)
        return latest if self.reference.is_before(latest) else None

    def why_led_later(self, follower: ReplicaFacts, offset: int) -> str | None:
        """Clause on why a leader after the reference's had a follower's records from `offset` on; None if the
        follower knows no later leader, or if records of both leaders were committed there."""
        leader = self.reference
        committed = min(leader.facts.marked_end, leader.facts.log_end_offset)
        are_both = not leader.facts.in_any_order and committed > offset
        # A log that goes on in a later leader's epoch equals that leader's below, too.
        if self.evidence.was_at_rest or are_both or not leader.is_before(follower.last_leader_epoch):
            return None
        who = f"broker {leader.facts.broker_id}"
        source = name_source(leader.source)
        older = f"its log, or {source}, is older"
        if self.were_at_rest(*self.replicas):
            older = f"{source} is older than the logs, or {who} was elected without them"
        return f"a later leader than {who} of epoch {leader.leader_epoch} had them: {older}"

    def committed_in(self, run: DivergentRange) -> tuple[int, int]:
        """(proven, at most): offsets below which the records of a conflicting run were committed.

        Records left behind by a clean election were not committed if the elected log was complete; a committed record in the
        run proves that it was not, and a log that is not the elected one, or was copied before, does not show it. Before KIP-279
        clean elections lost committed records too. Any other run may have been committed if all in-sync replicas may have had
        it at some time. The present leader's high watermark proves nothing about another lineage.
        """
        committed = -1 if run.committed_end is None else run.committed_end
        cause = run.cause
        if (
            run.likely is not None
            or not keeps_committed(self.options.protocol)
            or cause is None
            or cause.promised_records is None
        ):
            return committed, run.end_offset
        if cause.clean:
            winner = None if cause.election is None else cause.election.leader_id
            is_whole = not has_lost_tail(self.reference, self.replicas, winner)
            is_elected = cause.election is None or not self.reference.lacks_election(cause.election)
            is_here = is_elected or not (self.reference.predates or self.is_another_log(self.reference.facts))
            return committed, committed if run.is_uncommitted and is_whole and is_here else run.end_offset
        # A run of markers alone has no acknowledged record, so their number proves nothing.
        may_be = cause.promised_records > run.committed_records or not run.data_records
        return committed, run.end_offset if may_be else committed

    def committed_tail(self, item: Comparison) -> int:
        """Offset up to which the tail of a copy that `is_lost_tail` was committed; the reference's end if none of it is proven
        committed."""
        reached = min(item.follower.log_end_offset, committed_ahead(item.reference, item.follower))
        return max(item.reference.log_end_offset, reached)

    # Rules must load without numpy, so that `explain` starts fast: they call through the case what needs it.

    def why_not_comparable(self, facts: ReplicaFacts) -> str | None:
        """Reason, as a clause, why a copy must not be compared with the reference; None if it may be."""
        return why_not_comparable(self.reference, facts)

    def open_question(self, item: Comparison) -> str | None:
        """Clause on the question that a comparison leaves open, so no verdict may rest on it; None if there is none."""
        return open_question(item, is_epoch_said=self.tail.is_epoch_said)

    def differing_below(self, below: OffsetRange) -> list[tuple[Comparison, OffsetRange, int, int]]:
        """(copy, offsets, its epoch, the reference's) of records in `below` of epochs that the reference's epoch file rules out."""
        lineage = self.reference.facts.found_lineage or Lineage()
        copies = (*self.comparisons, *self.beside)
        return [(item, *one) for item in copies for one in differing_epochs(item.follower, lineage, below)]

    @property
    def is_tiered(self) -> bool:
        """True if older segments of the topic may be in remote storage only."""
        return self.evidence.is_tiered

    @property
    def undecided_below(self) -> OffsetRange | None:
        """Offsets of the reference's log below its files, if it is undecided whether they are in remote storage or deleted."""
        facts = self.reference.facts
        if self.evidence.tiering is not None:
            return None
        starts = [start for _, start in facts.file_entries]
        start = max(facts.directory.log_start_checkpoint or 0, min(starts, default=0))
        return OffsetRange(start, facts.local_start_offset) if start < facts.local_start_offset else None

    @cached_property
    def unread_replicas(self) -> tuple[int, ...]:
        """Brokers with, or assigned, a replica whose log is unknown because files are missing or unreadable."""
        copies = (*self.replicas, *self.set_aside)
        named = self.leadership.named if self.leadership else frozenset()
        known = {facts.broker_id for facts in copies if facts.end_is_known}
        return tuple(sorted(({facts.broker_id for facts in copies} | named) - known))

    @cached_property
    def captured(self) -> frozenset[int]:
        """Brokers with a copy whose log end is known, including stray or deleted directories, and directories of another topic id.

        `.deleted` segments are only a part of a log, a `-future` copy lags behind one, and a leader, in-sync or eligible broker
        has another log than the one put aside. A log that `is_another_log`, or is on a disk that its broker left, is not its broker's present one.
        """
        now = self.leadership
        entitled = {now.leader_id, *(now.isr or ()), *now.elr} if now is not None else set()
        known = (
            facts
            for facts in (*self.copies, *self.set_aside)
            if (facts.kind == "current" and not self.is_another_log(facts) and not facts.is_left)
            or (facts.kind in ("stray", "delete") and facts.broker_id not in entitled)
        )
        return frozenset(facts.broker_id for facts in (*(one for one in known if one.end_is_known), *self.foreign))

    def is_another_log(self, facts: ReplicaFacts) -> bool:
        """True if a replica is not the log with which its broker led last (`led_with_another_log`)."""
        return led_with_another_log(facts, self.leadership, self.high_watermark.reached)

    @cached_property
    def needed_replicas(self) -> dict[int, Need]:
        """Brokers whose replica the answer needs but the snapshot lacks, with the reason."""
        found = needed_replicas(self.leadership, self.reference, self.captured, self.evidence.orphaned, self.replicas)
        return {**dict.fromkeys(sorted({one.broker_id for one in self.logs_left}), "former_disk"), **found}

    @cached_property
    def logs_left(self) -> tuple[LogLeft, ...]:
        """Logs on disks that their brokers left, which the leader may lack."""
        return tuple(logs_left(self.leadership, (*self.copies, *self.duplicates, *self.set_aside)))

    @cached_property
    def past_elections(self) -> PastElections | None:
        """Elections of the partition's history, beside the lineages of `replicas`; None without history."""
        return past_elections(self.replicas, self.leadership)

    @cached_property
    def orphaned_marks(self) -> tuple[OrphanedMark, ...]:
        """Committed offsets proven lost by checkpoint files that name the partition on brokers without its directory."""
        copies = (*self.replicas, *self.set_aside, *self.foreign, *self.duplicates)
        present = {facts.broker_id for facts in copies}
        orphans = {key: mark for key, mark in self.evidence.orphans.items() if key[0] not in present}
        return tuple(orphaned_marks(orphans, self.leadership, self.reference))

    @cached_property
    def is_alone(self) -> bool:
        """True if the snapshot has one copy only and no source names others.

        If a metadata log does not name the partition, it was deleted.
        """
        assigned = self.leadership.replicas if self.leadership else None
        others = self.comparisons or self.strangers or self.set_aside or self.foreign or self.duplicates
        return assigned is None and not self.options.has_metadata_log and not others

    @cached_property
    def stopped(self) -> bool:
        """True if there is no leader because all brokers were stopped cleanly; then ISR membership no longer matters."""
        return self.reference.leader_id is None and all(facts.directory.clean_shutdown for facts in self.replicas)

    def config(self, name: str) -> str | None:
        """A topic config from the leadership source; None if it has none."""
        return self.leadership.configs.get(name) if self.leadership else None

    def in_isr(self, broker_id: int) -> bool | None:
        return None if self.reference.isr is None else broker_id in self.reference.isr

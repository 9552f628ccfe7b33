"""Plan of a partition's audit: its copies grouped (F.1), and the batches that their comparison needs, by chunk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from replica_audit.auditing.compare.candidates import Candidates
from replica_audit.auditing.compare.comparable import why_not_comparable
from replica_audit.auditing.compare.epoch_corruption import doubtful_epochs, rot_by_copy
from replica_audit.auditing.compare.replays import replay_all
from replica_audit.auditing.compare.wanted_chunks import (
    Pair,
    chunks_for_keys,
    differing_chunks,
    needed_chunks,
    verified_chunks,
)
from replica_audit.auditing.replicas.cleaner import with_cleaning
from replica_audit.auditing.replicas.reference import Reference, choose_reference, known_epoch
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts, replica_facts
from replica_audit.batch_header import ABSENT
from replica_audit.cached_property import cached_property
from replica_audit.protocol.versions import cleans_below_mark
from replica_audit.segments.open_transactions import open_at_end

if TYPE_CHECKING:
    from replica_audit.auditing.evidence import PartitionEvidence
    from replica_audit.auditing.leadership.capture_times import CaptureTimes
    from replica_audit.auditing.replicas.log_contents import CorruptEpoch
    from replica_audit.auditing.replicas.replica_facts import CopyKey
    from replica_audit.model import Leadership, ReplicaDir, SegmentSummary


@dataclass(frozen=True)
class ReplicaGrouping:
    """The compared copies with their reference, and those set aside."""

    evidence: PartitionEvidence
    reference: Reference | None
    followers: tuple[ReplicaFacts, ...] = ()
    foreign: tuple[ReplicaFacts, ...] = ()
    duplicates: tuple[ReplicaFacts, ...] = ()
    """Second copies on one broker, and earlier copies of it with records that a later collection no longer found."""
    put_aside: tuple[ReplicaFacts, ...] = ()
    """Copies that Kafka does not serve from."""
    set_aside: tuple[ReplicaFacts, ...] = ()

    @property
    def beside(self) -> tuple[ReplicaFacts, ...]:
        """Readable copies that neither lead nor follow, but may hold records that no replica has."""
        return tuple(facts for facts in (*self.duplicates, *self.put_aside) if facts.unread is None)

    @property
    def compared(self) -> tuple[ReplicaFacts, ...]:
        """The reference and its followers."""
        return () if self.reference is None else (self.reference.facts, *self.followers)

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The reference with each follower, then with each copy in `beside`."""
        reference = self.reference
        if reference is None:
            return ()
        found = []
        for follower in (*self.followers, *self.beside):
            replays = replay_all(reference, follower, self.evidence.is_tiered)
            verified = verified_chunks(self.evidence.side.verified, reference.facts, follower)
            found.append(Pair(reference, follower, replays, needed_chunks(reference, follower, replays, verified)))
        return tuple(found)

    @cached_property
    def candidates(self) -> Candidates | None:
        """The replicas as leaders, and the copies beside them; None without a replica."""
        if self.reference is None:
            return None
        replicas = tuple(sorted(self.compared, key=lambda facts: facts.broker_id))
        given = self.evidence
        return Candidates(self.reference, replicas, self.beside, given.options.protocol, given.is_tiered)

    def turned(self) -> Iterator[ReplicaGrouping]:
        """Yield a grouping for each replica as the reference."""
        if self.reference is None:
            return
        for facts in self.compared:
            others = tuple(one for one in self.compared if one is not facts)
            yield replace(self, reference=replace(self.reference, facts=facts), followers=others)


def group_replicas(evidence: PartitionEvidence, rot: Mapping[CopyKey, Sequence[CorruptEpoch]]) -> ReplicaGrouping:
    """Group copies by topic id, keep one copy per broker, then choose the reference (F.1).

    `rot`: batches whose epoch is known to be changed, by copy.
    """
    leadership = evidence.leadership
    at_rest = bool(evidence.options.quiesced)
    times = evidence.options.times
    copies, before = _of_each_moment(_facts_of(evidence, evidence.replicas, rot), times)
    present = _present_topic_id(copies, leadership)

    def of_topic(some: Iterable[ReplicaFacts]) -> list[ReplicaFacts]:
        return [facts for facts in some if facts.directory.topic_id in (present, None)]

    known = with_cleaning(of_topic(copies), leadership, at_rest, times.is_later)
    epochs = {epoch == ABSENT for facts in known for epoch, _ in facts.epoch_starts}
    is_bound = cleans_below_mark(evidence.options.kafka_version)
    known = [
        replace(
            facts,
            is_converted=len(epochs) > 1,
            cleans_below_mark=any(one.has_delete_horizon for one in facts.segments) if is_bound is None else is_bound,
        )
        for facts in known
    ]

    def beside_known(some: Iterable[ReplicaFacts]) -> list[ReplicaFacts]:
        return [with_cleaning([*known, facts], leadership, at_rest, times.is_later)[-1] for facts in of_topic(some)]

    foreign = tuple(facts for facts in copies if facts.directory.topic_id not in (present, None))
    of_brokers: dict[int, list[ReplicaFacts]] = defaultdict(list)
    for facts in known:
        of_brokers[facts.broker_id].append(facts)
    kept: tuple[ReplicaFacts, ...] = ()
    duplicates: list[ReplicaFacts] = []
    left = {broker for broker, own in of_brokers.items() if all(facts.is_left for facts in own)}
    for broker, own in of_brokers.items():
        if broker in left and len(left) < len(of_brokers):
            duplicates += own
            continue
        used, *seconds = own if len(own) == 1 else _in_use_first(own, known, evidence)
        kept += (used,)
        duplicates += seconds
    duplicates += beside_known(before)
    # A log with unreadable files counts as missing: their content is unknown.
    reference = choose_reference(
        [facts for facts in kept if facts.unread is None], leadership, at_rest=at_rest, is_later=times.is_later
    )
    if reference is None:
        return ReplicaGrouping(evidence, None, (), foreign, tuple(duplicates), set_aside=kept)
    others = tuple(facts for facts in kept if facts is not reference.facts)
    set_aside = tuple(facts for facts in others if why_not_comparable(reference, facts))
    followers = tuple(facts for facts in others if facts not in set_aside)
    aside = _facts_of(evidence, evidence.put_aside, rot)
    logs = {(one.broker_id, one.directory.path): one for one in (*copies, *before, *aside) if not one.is_about_to_go}
    if evidence.tiering is not None:
        aside = [_from_log_start(one, logs.get((one.broker_id, one.directory.path))) for one in aside]
    put_aside = tuple(beside_known(aside))
    return ReplicaGrouping(evidence, reference, followers, foreign, tuple(duplicates), put_aside, set_aside)


def _from_log_start(facts: ReplicaFacts, log: ReplicaFacts | None) -> ReplicaFacts:
    """`.deleted` segments without the records that retention or DeleteRecords removed from their log (F.0).

    A log whose start lies in an epoch once had all of that epoch below it, since an epoch has one leader; after a
    truncation it would go on in another. Earlier epochs count if the files lead up to this one without a break.
    """
    if not facts.is_about_to_go or log is None or log.unread is not None or facts.unread is not None:
        return facts
    start = log.log_start_offset
    entries = log.lineage.entries if log.log_end_offset > start else log.file_entries
    goes_on = {epoch for epoch, offset in entries[:1] if offset == start}
    last = [epoch for epoch, offset in facts.epoch_starts if offset < start][-1:]
    is_broken = (
        any(item.base_offset < start for _, item in facts.irregularities)
        or any(part.end_offset < start for part in facts.missing)
        or any(part.start_offset < start for part in facts.unreadable)
    )
    if is_broken or not goes_on.intersection(last):
        return facts
    directory = facts.directory._replace(log_start_checkpoint=min(start, facts.log_end_offset))
    return replace(
        replica_facts(directory, facts.segments, rot=facts.rot),
        is_live=facts.is_live,
        was_down=facts.was_down,
        in_any_order=facts.in_any_order,
        known_epoch=facts.known_epoch,
    )


def _facts_of(
    evidence: PartitionEvidence,
    copies: Sequence[tuple[ReplicaDir, tuple[SegmentSummary, ...]]],
    rot: Mapping[CopyKey, Sequence[CorruptEpoch]],
) -> list[ReplicaFacts]:
    """Facts of the copies, by broker id and log dir."""
    leadership, times = evidence.leadership, evidence.options.times
    is_logged = leadership is not None and leadership.source == "metadata_log"
    known_epoch = leadership.leader_epoch if leadership is not None and is_logged else None
    found = []
    for directory, segments in sorted(copies, key=lambda copy: (copy[0].broker_id, copy[0].log_dir)):
        key = (directory.broker_id, directory.log_dir)
        facts = replica_facts(directory, segments, tiered=evidence.is_tiered, rot=rot.get(key, ()))
        was_down = bool(evidence.options.quiesced) or times.was_down(facts, leadership)
        in_any_order = times.are_in_any_order(facts, was_down=was_down)
        is_left = times.has_left(*key) and not _is_offline(facts, leadership)
        found.append(
            replace(
                facts,
                killed=times.was_killed(*key),
                is_live=times.was_live(*key),
                was_down=was_down,
                in_any_order=in_any_order,
                known_epoch=known_epoch,
                is_left=is_left,
            )
        )
    return found


def _is_offline(facts: ReplicaFacts, leadership: Leadership | None) -> bool:
    """True if a replica's log dir is offline, so that its broker has not begun another log instead. The metadata log
    names such log dirs; without one, it follows if there is no leader although the broker, which runs, is in sync."""
    if leadership is None:
        return False
    if leadership.source != "metadata_log":
        return leadership.leader_id is None and facts.broker_id in (leadership.isr or ())
    is_named = facts.directory.directory_id == _named_directory(leadership, facts.broker_id) is not None
    return is_named and facts.broker_id in leadership.offline


def _of_each_moment(
    copies: Sequence[ReplicaFacts], times: CaptureTimes
) -> tuple[list[ReplicaFacts], list[ReplicaFacts]]:
    """Split copies into those that represent replicas, and earlier ones, of brokers collected again, whose records may be gone by now."""
    later: list[ReplicaFacts] = []
    before: list[ReplicaFacts] = []
    for facts in copies:
        if times.is_superseded(*facts.key, str(facts.directory.topic_partition)):
            before.append(facts)
        else:
            later.append(facts)
    if not later:
        return before, []  # Nothing else is known of the partition.
    return later, [
        replace(facts, is_earlier=True)
        for facts in before
        if facts.unread is None
        and facts.log_end_offset > facts.log_start_offset
        and not any(one.broker_id == facts.broker_id and _has_all_of(one, facts) for one in later)
    ]


def _has_all_of(later: ReplicaFacts, earlier: ReplicaFacts) -> bool:
    """True if a log certainly still has what its earlier copy had, except for what retention and compaction delete."""
    end = earlier.log_end_offset
    if end <= later.log_start_offset:
        return True
    if later.log_end_offset < end or later.lineage.shared_with(earlier.lineage, end) < end:
        return False
    return later.compacted or earlier.compacted or not differing_chunks(later, earlier)


def _in_use_first(
    own: Sequence[ReplicaFacts], copies: Iterable[ReplicaFacts], evidence: PartitionEvidence
) -> list[ReplicaFacts]:
    """A broker's copies, the one in use first. Of each two, by the first line that fits:

    | what is known | it uses |
    |---|---|
    | the metadata log names the directory of one | that |
    | one cannot be read | the other |
    | by the manifest the broker ran with one only | that |
    | the shorter has a later epoch, or is not the beginning of the longer, by their epochs | the one of the later epoch |
    | both are of one directory.id, copied twice; or the broker leads; or it is in sync, and the leader's log reaches as far | the longer |
    | nobody leads, and it alone is in sync, or eligible | the longer |
    | anything else: the shorter is an older copy, or the longer an older disk (`may_be_in_use`) | the shorter: the broker has as much at least |
    """
    now = None if evidence.leadership is None else evidence.leadership.believed
    named = _named_directory(now, own[0].broker_id)

    def known(facts: ReplicaFacts) -> tuple[bool, bool, bool]:
        is_named = facts.directory.directory_id == named is not None
        return is_named, facts.unread is None, evidence.options.times.was_live(*facts.key)

    first, *others = sorted(
        own, key=lambda facts: (known(facts), known_epoch(facts), facts.log_end_offset), reverse=True
    )
    reached = [facts.log_end_offset for facts in copies if now is not None and facts.broker_id == now.leader_id]
    # The only member of the ISR led last. Leading again on a shorter disk would have begun a later epoch.
    leads = now is not None and (
        now.leader_id == first.broker_id or (now.leader_id is None and tuple(now.isr or now.elr) == (first.broker_id,))
    )
    in_sync = now is not None and first.broker_id in (*(now.isr or ()), *now.elr)
    seconds = []
    for second in others:
        end = second.log_end_offset
        if (
            known(first) > known(second)
            or first.log_end_offset <= end
            or (second.lineage and first.lineage.shared_with(second.lineage, end) < end)
            or first.directory.directory_id == second.directory.directory_id is not None
            or leads
            or (in_sync and max(reached, default=0) >= first.log_end_offset)
        ):
            seconds.append(second)
        else:
            seconds.append(replace(first, may_be_in_use=True))
            first = second
    return [first, *seconds]


def _present_topic_id(copies: Sequence[ReplicaFacts], leadership: Leadership | None) -> str | None:
    """Present topic id: the metadata log's; else another leadership source's if a copy has it; else that of the
    leader's copy; else that of most copies, or on a tie that of the largest log."""
    ids = {facts.directory.topic_id for facts in copies} - {None}
    named = None if leadership is None else leadership.topic_id
    if leadership is not None and named is not None and (named in ids or leadership.source == "metadata_log"):
        return named
    leader_id = None if leadership is None else leadership.leader_id
    of_topic = {one: [facts for facts in copies if facts.directory.topic_id == one] for one in ids}
    weight = {
        one: (
            any(facts.broker_id == leader_id for facts in of),
            len(of),
            max(facts.log_end_offset for facts in of),
            one,
        )
        for one, of in of_topic.items()
    }
    return max(ids, key=weight.__getitem__) if ids else None


def _named_directory(leadership: Leadership | None, broker_id: int) -> str | None:
    """Id of the log dir to which the metadata log assigns the broker's replica; None if unknown."""
    newest = leadership.committed[-1:] if leadership else ()
    named = (dict(zip(one.replicas, one.directories)) for one in newest if len(one.directories) == len(one.replicas))
    return next(named, {}).get(broker_id)


@dataclass(frozen=True)
class ComparisonPlan:
    """Plan of a partition's audit; `auditing.conclude.conclude` takes it with the batches it names. Properties are computed once."""

    evidence: PartitionEvidence
    rot: Mapping[CopyKey, Sequence[CorruptEpoch]] = field(default_factory=dict)
    """Batches whose epoch is known to be changed, by copy."""

    @cached_property
    def grouping(self) -> ReplicaGrouping:
        """The reference, its followers, and the copies that are not compared."""
        return group_replicas(self.evidence, self.rot)

    @cached_property
    def doubts(self) -> tuple[CorruptEpoch, ...]:
        """Ranges whose epoch may have been changed on disk; only their batches can tell."""
        at_rest = bool(self.evidence.options.quiesced)
        return tuple(doubtful_epochs(self.grouping.compared, self.evidence.leadership, at_rest=at_rest))

    @cached_property
    def batches(self) -> dict[CopyKey, set[int]]:
        """Chunks whose batches `conclude` needs, by copy; empty if digests and lineages suffice."""
        wanted: dict[CopyKey, set[int]] = {}
        groupings = [self.grouping]
        if self.doubts:
            # Only the batches show whether an epoch was changed, and so which replica is the reference and where it is cut.
            restored = ComparisonPlan(self.evidence, rot_by_copy(self.doubts)).grouping
            groupings = [*self.grouping.turned(), *restored.turned()]
        for grouping in groupings:
            for reference, follower, _, chunks in grouping.pairs:
                if chunks:
                    of_reference, of_follower = chunks_for_keys(reference.facts, follower)
                    wanted.setdefault(reference.facts.key, set()).update(chunks, of_reference)
                    wanted.setdefault(follower.key, set()).update(chunks, of_follower)
            if grouping.candidates is not None:
                for key, chunks in grouping.candidates.chunks.items():
                    wanted.setdefault(key, set()).update(chunks)
        if self.grouping.reference is not None:
            facts = self.grouping.reference.facts
            stored = {chunk for one in self.evidence.side.contents for chunk in one.chunks}
            if beside := stored & facts.chunks.keys():
                wanted.setdefault(facts.key, set()).update(beside)
        return wanted

    @cached_property
    def producers(self) -> frozenset[int]:
        """Producers whose transaction states `conclude` needs from the coordinator."""
        return frozenset(producer for facts in self.grouping.compared for producer in open_at_end(facts.segments))

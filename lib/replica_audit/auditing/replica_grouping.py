"""A partition's copies sorted out before they are compared: by topic id, one a broker, and the reference (F.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from replica_audit.auditing.compare.comparable import why_not_comparable
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.auditing.replicas.cleaner import with_cleaning
from replica_audit.auditing.replicas.reference import Reference, choose_reference
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts, replica_facts

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.written_epochs import CorruptEpoch
    from replica_audit.model import Leadership, ReplicaDir, SegmentSummary

_NO_TIMES = CaptureTimes()


@dataclass(frozen=True, slots=True)
class ReplicaGrouping:
    """The copies that are compared, with their reference, and those set aside."""

    reference: Reference | None
    followers: tuple[ReplicaFacts, ...] = ()
    foreign: tuple[ReplicaFacts, ...] = ()
    duplicates: tuple[ReplicaFacts, ...] = ()
    """Second copies on one broker."""
    put_aside: tuple[ReplicaFacts, ...] = ()
    """Copies that Kafka does not serve from."""
    set_aside: tuple[ReplicaFacts, ...] = ()

    @property
    def beside(self) -> tuple[ReplicaFacts, ...]:
        """Copies that neither lead nor follow, and may hold records that are on no replica."""
        return tuple(facts for facts in (*self.duplicates, *self.put_aside) if facts.unread is None)

    @property
    def compared(self) -> tuple[ReplicaFacts, ...]:
        """The reference and all that are compared with it."""
        return () if self.reference is None else (self.reference.facts, *self.followers)

    def turned(self) -> Iterator[ReplicaGrouping]:
        """A grouping per replica, with that replica as the reference."""
        reference = self.reference
        if reference is None:
            return
        for facts in self.compared:
            others = tuple(one for one in self.compared if one is not facts)
            yield replace(self, reference=replace(reference, facts=facts), followers=others)


def group_replicas(
    replicas: Sequence[tuple[ReplicaDir, tuple[SegmentSummary, ...]]],
    leadership: Leadership | None,
    times: CaptureTimes = _NO_TIMES,
    *,
    at_rest: bool = False,
    rot: Mapping[tuple[int, str], Sequence[CorruptEpoch]] = MappingProxyType({}),
    put_aside: Sequence[tuple[ReplicaDir, tuple[SegmentSummary, ...]]] = (),
) -> ReplicaGrouping:
    """Topic ids first, then one copy per broker, then the reference (F.1).

    `at_rest`: the manifest says that all copies are of one moment. `rot`: batches whose epoch is known to have been
    changed, by copy.
    """
    copies = _facts_of(replicas, leadership, times, rot)
    present = _present_topic_id(copies, leadership)
    known = with_cleaning(
        [facts for facts in copies if facts.directory.topic_id in (present, None)], leadership, at_rest
    )
    foreign = tuple(facts for facts in copies if facts.directory.topic_id not in (present, None))
    chosen: dict[int, ReplicaFacts] = {}
    duplicates: list[ReplicaFacts] = []
    for facts in known:
        other = chosen.get(facts.broker_id)
        if other is None:
            chosen[facts.broker_id] = facts
        else:
            named = _named_directory(leadership, facts.broker_id)
            better = max(
                (other, facts),
                key=lambda one: (one.directory.directory_id == named is not None, not one.unread, one.log_end_offset),
            )
            chosen[facts.broker_id] = better
            duplicates.append(facts if better is other else other)
    kept = tuple(chosen.values())
    # A log with unreadable files counts as missing: what they hold is not known.
    reference = choose_reference([facts for facts in kept if facts.unread is None], leadership)
    if reference is None:
        return ReplicaGrouping(None, (), foreign, tuple(duplicates), set_aside=kept)
    others = tuple(facts for facts in kept if facts is not reference.facts)
    set_aside = tuple(facts for facts in others if why_not_comparable(reference, facts))
    followers = tuple(facts for facts in others if facts not in set_aside)
    aside = tuple(
        with_cleaning([*known, facts], leadership, at_rest)[-1]
        for facts in _facts_of(put_aside, leadership, times, rot)
        if facts.directory.topic_id in (present, None)
    )
    return ReplicaGrouping(reference, followers, foreign, tuple(duplicates), aside, set_aside)


def _facts_of(
    copies: Sequence[tuple[ReplicaDir, tuple[SegmentSummary, ...]]],
    leadership: Leadership | None,
    times: CaptureTimes,
    rot: Mapping[tuple[int, str], Sequence[CorruptEpoch]],
) -> list[ReplicaFacts]:
    """By broker id and log dir."""
    return [
        replica_facts(
            directory,
            segments,
            tiered=leadership is not None and leadership.is_tiered,
            killed=times.was_killed(directory.broker_id, directory.log_dir),
            is_live=times.was_live(directory.broker_id, directory.log_dir),
            rot=rot.get((directory.broker_id, directory.log_dir), ()),
        )
        for directory, segments in sorted(copies, key=lambda pair: (pair[0].broker_id, pair[0].log_dir))
    ]


def _present_topic_id(copies: Sequence[ReplicaFacts], leadership: Leadership | None) -> str | None:
    """The id that counts: the leadership source's, else that of most copies, the greatest log breaking ties."""
    ids = {facts.directory.topic_id for facts in copies} - {None}
    if leadership and leadership.topic_id is not None and leadership.topic_id in ids:
        return leadership.topic_id
    weight = {
        one: (
            sum(facts.directory.topic_id == one for facts in copies),
            max(facts.log_end_offset for facts in copies if facts.directory.topic_id == one),
            one,
        )
        for one in ids
    }
    return max(ids, key=weight.__getitem__) if ids else None


def _named_directory(leadership: Leadership | None, broker_id: int) -> str | None:
    """The id of the log dir in which the metadata log has the broker's replica; None if it does not say."""
    state = next((one for one in reversed(leadership.history if leadership else ()) if not one.uncommitted), None)
    if state is None or len(state.directories) != len(state.replicas):
        return None
    return dict(zip(state.replicas, state.directories)).get(broker_id)

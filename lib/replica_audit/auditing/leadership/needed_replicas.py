"""Replicas that the snapshot lacks and the answer depends on (docs/semantics.md F.0, Needed replicas)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.leadership.high_watermark_bounds import why_down
from replica_audit.auditing.replicas.lost_tails import is_tail_lost
from replica_audit.literals import Need
from replica_audit.protocol.election import Election, elections, last_led

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import Leadership, PartitionState

#: Clause for each reason why an answer depends on an uncaptured replica.
WHY_NEEDED: dict[Need, str] = {
    "elr": "it is eligible to lead",
    "leads": "it leads",
    "isr": "no replica here is known to have all its records",
    "led_before_unclean": "it led before an unclean election and has not followed since",
    "isr_before_unclean": "it was in sync before an unclean election and has not followed since",
    "isr_before_crash": "it was in sync before the last replica in sync crashed or lost the end of its log, and has not followed since",
    "former_disk": "it was in sync before its broker began it anew on another disk, and the leader may lack its records",
    "no_history": "no history says how it left the in-sync replicas",
}

#: Missing if the copy of a replica is not the log with which its broker last led.
LOG_OF_LAST_TERM = "the log with which it led last"
#: Missing if a broker started a replica over on another disk, and its former log is not here.
LOG_OF_FORMER_DISK = "the log on its former disk"
#: Missing if the copy of a replica is from a disk that its broker no longer uses.
LOG_IN_USE = "the log that it uses"


def needed_replicas(
    leadership: Leadership | None,
    reference: Reference | None,
    captured: Collection[int],
    orphaned: Collection[int] = (),
    replicas: Sequence[ReplicaFacts] = (),
) -> dict[int, Need]:
    """Uncaptured brokers whose replica may hold records that no captured log has, each with the first reason that applies.

    `captured` are brokers whose log of the partition is known to its end; `orphaned` those whose checkpoint files name the
    partition although no log dir of theirs has it; `replicas` all that were compared, including the reference. Without an
    assignment only a checkpoint names a replica.
    """
    if leadership is None or leadership.replicas is None:
        named = leadership.named if leadership else frozenset()
        if leadership is None and reference is None:
            return {}  # without any copy or assignment there is no answer that a checkpoint entry could weaken
        return {broker_id: "no_history" for broker_id in sorted((named | set(orphaned)) - set(captured))}
    history = leadership.committed
    lossy = [
        _Lossy(one.metadata_offset, unclean=not one.clean)
        for one in elections(history)
        if not one.clean or one.came_back
    ]
    is_live = reference is not None and _leader_is_live(leadership, reference, replicas)
    if history and reference is not None and _ends_in_a_crash(leadership, reference, replicas):
        lossy.append(_Lossy(history[-1].metadata_offset + 1, unclean=False))
    trusted = is_live and bool(history) and not any(one.unclean for one in lossy)
    found: dict[int, Need] = {}
    for broker_id in sorted((leadership.named | _members(history)) - set(captured)):
        why = _need_now(broker_id, leadership, reference, trusted) or _need_of_past(broker_id, history, lossy)
        if why is not None:
            found[broker_id] = why
    return found


class LogLeft(NamedTuple):
    """A log on a disk that its broker no longer uses."""

    broker_id: int
    directory_id: str
    anew: PartitionState
    """First state with the partition on the broker's other disk."""


def logs_left(leadership: Leadership | None, copies: Sequence[ReplicaFacts]) -> Iterator[LogLeft]:
    """Logs of brokers that started their replica over on another disk (`PartitionState.begun_anew`) although the leader may lack what those
    had (`_may_be_lacked`).

    Not those that are among `copies`. Nor those that the new log was copied from: it then has the epoch in which the former one was led.
    """
    history = () if leadership is None else leadership.committed
    for number, anew in enumerate(history):
        for broker_id in anew.begun_anew:
            before = history[:number]
            led = last_led([state for state in before if broker_id in (*state.isr, *state.elr)])
            former = dict(zip(before[-1].replicas, before[-1].directories))[broker_id]
            own = [facts for facts in copies if facts.broker_id == broker_id]
            if led is None or any(facts.directory.directory_id == former for facts in own):
                continue
            is_copy = any(_knows(facts, led.leader_epoch) for facts in own)
            others = {facts.broker_id for facts in copies} - {broker_id}
            # A leader that led on wrote that epoch in its new log, which then looks like a copy.
            led_on = (anew.leader_id, anew.leader_epoch) == (broker_id, led.leader_epoch)
            if led_on or _may_be_lacked(history, broker_id, led, others, is_copy=is_copy):
                yield LogLeft(broker_id, former, anew)


def _may_be_lacked(
    history: Sequence[PartitionState], broker_id: int, led: PartitionState, others: set[int], *, is_copy: bool
) -> bool:
    """True if the leader may lack records of the log that a broker left. `led`: the last led state with the broker in sync or eligible;
    `others`: other brokers with copies here; `is_copy`: the new log has the epoch of `led`.

    By the first line that fits the elections since, until the new log has followed:

    | elections | the leader may lack them |
    |---|---|
    | none | if nobody else was in sync, and the new log is not a copy |
    | the first is a clean one of the new log | if that is not a copy |
    | any other | if one was unclean, its winner was not a copy, and each of `others` lacked something then or has followed since |
    """
    since = [one for one in history if one.metadata_offset > led.metadata_offset]
    gone = next((one.metadata_offset for one in since if broker_id not in one.isr), math.inf)
    followed = (one.metadata_offset for one in since if one.metadata_offset > gone and broker_id in one.isr)
    until = next(followed, math.inf)
    elected = [one for one in elections(history) if led.metadata_offset < one.metadata_offset <= until]
    if not elected:
        return {*led.isr, *led.elr} == {broker_id} and not is_copy
    if elected[0].clean and elected[0].leader_id == broker_id:
        return not is_copy
    return any(
        not (one.clean or others & _had_all_since(one, history) or (is_copy and one.leader_id == broker_id))
        for one in elected
    )


def _had_all_since(election: Election, history: Sequence[PartitionState]) -> set[int]:
    """Replicas that had everything committed at an election, and have not followed since."""
    later = [state for state in history if state.metadata_offset >= election.metadata_offset]
    return {*election.had_all} - _members(later)


def _knows(facts: ReplicaFacts, epoch: int) -> bool:
    return any(one == epoch for one, _ in (*facts.file_entries, *facts.epoch_starts))


def _members(history: Collection[PartitionState]) -> set[int]:
    """Brokers that were in sync at any time, as every leader is."""
    return {broker_id for state in history for broker_id in state.isr}


class _Lossy(NamedTuple):
    """A state since which the leader may lack committed records of earlier in-sync replicas: an unclean election, or a
    crash of the last replica in sync."""

    metadata_offset: int
    unclean: bool


def _ends_in_a_crash(leadership: Leadership, reference: Reference, replicas: Sequence[ReplicaFacts]) -> bool:
    """True if every replica with all committed records (in sync, eligible or last leader) has since crashed or lost its
    end, as far as captured. After such a crash of the last one nobody is eligible (KIP-966)."""
    if not (leadership.isr or leadership.elr or leadership.is_deleted):
        return True
    last = last_led(leadership.history)
    members = {*(leadership.isr or ()), *leadership.elr, None if last is None else last.leader_id}
    here = [facts for facts in replicas if facts.broker_id in members]
    return bool(here) and all(_may_lack_its_end(facts, leadership, reference, replicas) for facts in here)


def _may_lack_its_end(
    facts: ReplicaFacts, leadership: Leadership, reference: Reference, replicas: Sequence[ReplicaFacts]
) -> bool:
    """True if a replica was killed, or its own checkpoints show that it lost its end. In a live copy a torn tail is normal."""
    flushed = facts.directory.recovery_point_checkpoint
    if flushed is not None and flushed > facts.log_end_offset and not facts.end_is_open:
        return True
    return why_down(facts, leadership) is not None or is_tail_lost(reference, replicas, facts)


def _need_now(broker_id: int, leadership: Leadership, reference: Reference | None, trusted: bool) -> Need | None:
    """Reason by the present state, unless the logs are newer than it. `trusted`: the leader was captured live and elected cleanly."""
    if reference is not None and reference.outdated:
        return "no_history"
    if broker_id in leadership.elr:
        return "elr"
    if broker_id == leadership.leader_id:
        return "leads"
    return "isr" if broker_id in (leadership.isr or ()) and not trusted else None


def _leader_is_live(leadership: Leadership, reference: Reference, replicas: Sequence[ReplicaFacts]) -> bool:
    """True if the reference is the leader's log, has its end, and was copied while the leader was up."""
    facts = reference.facts
    if reference.predates or facts.end_is_open or facts.is_left or facts.broker_id != leadership.leader_id:
        return False
    fenced = leadership.leader_id in (leadership.fenced or ())
    return not fenced and not _may_lack_its_end(facts, leadership, reference, replicas)


def _need_of_past(broker_id: int, history: Sequence[PartitionState], lossy: Sequence[_Lossy]) -> Need | None:
    """Reason by the broker's state before each moment since which the leader may lack records, if it has not followed since."""
    if not any(broker_id in (*state.isr, *state.elr) for state in history):
        return None if history and history[0].occasion == "created" else "no_history"
    for one in lossy:
        if broker_id in _members([state for state in history if state.metadata_offset >= one.metadata_offset]):
            continue
        if not one.unclean:
            return "isr_before_crash"
        led = any(state.leader_id == broker_id for state in history)
        return "led_before_unclean" if led else "isr_before_unclean"
    return None

"""Which election left a replica's conflicting records behind, whether it was clean, and what of them had been promised."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from replica_audit.auditing.comparison import Cause, Comparison, Run
from replica_audit.auditing.facts import ReplicaFacts
from replica_audit.auditing.reference import Reference
from replica_audit.model import Leadership, PartitionState
from replica_audit.protocol.election import Election, elections, first_known_epoch
from replica_audit.protocol.lineage import Lineage

MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class PastElections:
    """A partition's elections beside the lineages that its replicas have of them."""

    elections: tuple[Election, ...]
    known_from: int
    """Elections of every greater epoch are in the history."""
    lineages: tuple[Lineage, ...]

    def start_of(self, leader_epoch: int) -> int | None:
        """Where the leader of an epoch began to write, by any replica that still knows; the least where they differ."""
        return min((start for one in self.lineages if (start := one.start_of(leader_epoch)) is not None), default=None)

    def had(self, election: Election, offset: int, leader_epoch: int) -> bool | None:
        """Whether the elected leader's log had the record of `leader_epoch` at `offset`; None where nothing tells."""
        answers = set()
        for lineage in self.lineages:
            start = lineage.start_of(election.leader_epoch)
            if start is not None:
                wrote = lineage.epoch_for_offset(offset)
                answers.add(False if start <= offset else None if wrote is None else wrote == leader_epoch)
        return False if False in answers else True if True in answers else None


def past_elections(replicas: Iterable[ReplicaFacts], leadership: Leadership | None) -> PastElections | None:
    """The elections of the history, None without one. Files count as found: a leader writes its epoch there at once."""
    known_from = first_known_epoch(leadership.history) if leadership else None
    if leadership is None or known_from is None:
        return None
    lineages = []
    for facts in replicas:
        lineages.append(facts.lineage)
        entries = facts.directory.checkpoint_epochs or ()
        if all(one[0] < two[0] and one[1] < two[1] for one, two in zip(entries, entries[1:])):
            lineages.append(Lineage.of(entries))
    return PastElections(elections(leadership.history), known_from, tuple(lineages))


def with_causes(
    comparisons: Sequence[Comparison], reference: Reference, leadership: Leadership | None
) -> tuple[Comparison, ...]:
    """The same, each conflicting run with the election that left it behind; a tail that a clean one left is pending."""
    replicas = (reference.facts, *(item.follower for item in comparisons))
    past = past_elections(replicas, leadership)
    if past is None:
        return tuple(comparisons)
    return tuple(
        replace(item, runs=tuple(_with_cause(run, past, leadership) for run in item.runs)) for item in comparisons
    )


def _with_cause(run: Run, past: PastElections, leadership: Leadership) -> Run:
    if not run.conflicting or run.replica_epoch is None or run.replica_epoch < 0:
        return run
    suspects, clean = _find(run, past)
    named = suspects[-1] if suspects else None
    if clean is False:
        named = next(one for one in suspects if not one.clean)
    cause = Cause(named, clean, _promised(run, suspects if clean is not None else (), past, leadership))
    # A checkpoint that proves records committed contradicts that they were nothing but an uncommitted tail.
    pending = run.code == "DIV-EPOCH" and clean is True and run.committed_end is None
    return replace(run, cause=cause, code="DIV-TAIL-PENDING" if pending else run.code)


def _find(run: Run, past: PastElections) -> tuple[Sequence[Election], bool | None]:
    """The elections of which one left the run behind, and whether that was a clean one; None where that is not known.

    It is the first whose leader did not have the run's first record, after the last whose leader had it. Leaders of which
    no log tells any more come before it as suspects: where one of them was elected uncleanly, it was. A deposed leader
    that comes back uncleanly brings its old records back; where one may have done so without a trace, nothing is known.
    """
    later = [one for one in past.elections if one.leader_epoch > run.replica_epoch]
    had = [past.had(one, run.start_offset, run.replica_epoch) for one in later]
    last = max((number for number, answer in enumerate(had) if answer), default=-1)
    suspects = []
    for election, answer in list(zip(later, had))[last + 1 :]:
        suspects.append(election)
        if answer is False:
            break
    if not all(one.clean for one in suspects):
        return suspects, False
    revived = any(answer is None and not one.clean for one, answer in zip(later, had))
    if not suspects or revived or (last < 0 and past.known_from > run.replica_epoch):
        return suspects, None
    return suspects, True


def _promised(run: Run, suspects: Sequence[Election], past: PastElections, leadership: Leadership) -> int | None:
    """At most so many of the run's records were acknowledged to producers with acks=all; None where that is not known.

    None of them when, from their leader's time to the last of `suspects`, the in-sync replicas were always too few or had
    the broker among them that was elected without the records: then these never were on all of them. That holds as long as
    this broker had not lost the end of its log; what a checkpoint proves committed counts in any case.
    """
    if past.known_from > run.replica_epoch:
        return None
    end = suspects[-1].metadata_offset if suspects else None
    states = [
        state
        for state in leadership.history
        if not state.uncommitted and state.leader_id is not None and state.leader_epoch >= run.replica_epoch
        and (end is None or state.metadata_offset < end)
    ]  # fmt: skip
    if not states or states[0].leader_epoch != run.replica_epoch:
        return None
    enough = [state for state in states if len(state.isr) >= _least_isr(state)]
    # Of several suspects the last may have lost the records to one before it.
    without: set[int] = set()
    if len(suspects) == 1 and past.had(suspects[0], run.start_offset, run.replica_epoch) is False:
        without = {suspects[0].leader_id} - {states[0].leader_id}
    if any(not without & set(state.isr) for state in enough):
        return run.tally.record_count
    return run.committed_records if enough else 0


def _least_isr(state: PartitionState) -> int:
    minimum = state.configs.get(MIN_ISR, "")
    return min(int(minimum) if minimum.isdigit() else 1, len(state.replicas))


def moment(time_ms: int) -> str:
    """A time of the controller's clock in words."""
    return datetime.fromtimestamp(time_ms / 1000, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def describe(election: Election) -> str:
    """An election in one sentence: who, when, after whom, and why it counts as clean or not."""
    before = "nobody" if election.previous_leader_id is None else f"broker {election.previous_leader_id}"
    isr, elr = (", ".join(map(str, ids)) or "none" for ids in (election.previous_isr, election.previous_elr))
    if election.clean:
        how = "a clean election"
    elif election.from_last_known:
        how = "an unclean election of the last known leader"
    else:
        how = "an unclean election"
    return (
        f"{how} at {moment(election.time_ms)}: broker {election.leader_id} after {before}, leader epoch {election.leader_epoch}, "
        f"in sync before {isr}, eligible {elr}"
    )

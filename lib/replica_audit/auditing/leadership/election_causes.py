"""Elections that left a replica's conflicting records behind: clean or not, and the number acknowledged with acks=all (F.0)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import dropwhile, pairwise
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.compare.divergence_cause import Cause
from replica_audit.batch_header import or_absent
from replica_audit.protocol.election import Election, elections, first_known_epoch
from replica_audit.protocol.lineage import Lineage
from replica_audit.text import name_brokers, render_time

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.divergent_ranges import DivergentRange
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import Leadership, PartitionState


class PastElections(NamedTuple):
    """A partition's elections and its replicas' lineages."""

    elections: tuple[Election, ...]
    known_from: int
    """Epoch above which the history has every election."""
    states: tuple[PartitionState, ...]
    """Committed states of the history, oldest first."""
    lineages: tuple[Lineage, ...]

    def start_of(self, leader_epoch: int) -> int | None:
        """First offset of an epoch according to any replica that still has it; the least if they differ."""
        return min((start for one in self.lineages if (start := one.start_of(leader_epoch)) is not None), default=None)

    def had(self, led_in: int, offset: int, leader_epoch: int) -> bool | None:
        """True if the leader of the later epoch `led_in` had the record of `leader_epoch` at `offset`; None if unknown."""
        found = None
        for lineage in self.lineages:
            if lineage.start_of(led_in) is None:
                continue
            # Epochs grow with the offset, below the log start too, and who has a record of an epoch has all that its leader had below.
            begins = lineage.entries[0][1]
            wrote = lineage.epoch_for_offset(max(offset, begins))
            if wrote == leader_epoch:
                found = True
            elif offset >= begins or or_absent(wrote) < leader_epoch:
                return False
        return found


def past_elections(replicas: Iterable[ReplicaFacts], leadership: Leadership | None) -> PastElections | None:
    """Elections of the history; None without history. Epoch files count as found, since a leader writes its epoch there at once."""
    if leadership is None or (known_from := first_known_epoch(leadership.history)) is None:
        return None
    lineages = (lineage for facts in replicas for lineage in (facts.lineage, facts.sound_file_lineage) if lineage)
    return PastElections(elections(leadership.history), known_from, leadership.committed, tuple(lineages))


def with_causes(
    comparisons: Sequence[Comparison], reference: Reference, leadership: Leadership | None
) -> tuple[Comparison, ...]:
    """Give each conflicting run the election that left it behind.

    If a broker has several copies, it led with the first.
    """
    logs: dict[int, ReplicaFacts] = {}
    for facts in (reference.facts, *(item.follower for item in comparisons)):
        logs.setdefault(facts.broker_id, facts)
    past = past_elections(tuple(logs.values()), leadership)
    if past is None:
        return tuple(comparisons)
    return tuple(item._replace(runs=tuple(_with_cause(run, past) for run in item.runs)) for item in comparisons)


def _with_cause(run: DivergentRange, past: PastElections) -> DivergentRange:
    epoch = run.replica_epoch
    if not run.conflicting or epoch is None or epoch < 0:
        return run
    groups = _abandonments(run, epoch, past)
    suspects = groups[-1] if groups else ()
    clean = _is_clean(run, epoch, suspects, past)
    named = tuple(next((one for one in group if not one.clean), group[-1]) for group in groups)
    parted = next((one for one in named if clean is not False or not one.clean), None)
    promised = _promised(run, epoch, suspects if clean is not None else (), past)
    chosen = named[-1] if clean else parted
    of = next((group for group in groups if chosen in group), ())
    # A leader that is elected again, without another in between, had them.
    leads_again = bool(suspects) and suspects[0].leader_id == suspects[0].previous_leader_id
    came_back = leads_again or any(one.came_back for one in suspects)
    cause = Cause(chosen, clean, promised, max(1, len(of)), came_back=came_back, elections=named)
    return run._replace(cause=cause)


def _abandonments(run: DivergentRange, epoch: int, past: PastElections) -> list[tuple[Election, ...]]:
    """Elections that left behind the run of leader epoch `epoch`, each with the preceding suspects, whose winners' contents are unknown.

    Such an election is the first whose leader lacked the run's first record, after one whose leader had it. There are several if a deposed
    leader was elected uncleanly and restored its old records.
    """
    groups: list[tuple[Election, ...]] = []
    suspects: list[Election] = []
    held = True
    for election in past.elections:
        if election.leader_epoch <= epoch:
            continue
        had = past.had(election.leader_epoch, run.start_offset, epoch)
        if had:
            held = True
            suspects = []
        elif held:
            suspects.append(election)
            if had is False:
                groups.append(tuple(suspects))
                held = False
                suspects = []
    return [*groups, tuple(suspects)] if suspects else groups


def _is_clean(run: DivergentRange, epoch: int, suspects: Sequence[Election], past: PastElections) -> bool | None:
    """True if the last election that abandoned the run was clean; it counts as unclean if any suspect was.

    None if the history does not reach back far enough, or if a later leader had the records or may have, even one elected
    cleanly that had not followed the others yet: they may then have been committed and lost since.
    """
    if not all(one.clean for one in suspects):
        return False
    had = [past.had(one.leader_epoch, run.start_offset, epoch) for one in past.elections]
    after = (
        (one, answer)
        for one, answer in zip(past.elections, had)
        if suspects and one.leader_epoch > suspects[-1].leader_epoch
    )
    # A later leader with the records lost them in a crash, or the reference would have them.
    revived = any(
        answer or one.came_back or not one.clean for one, answer in dropwhile(lambda pair: pair[1] is False, after)
    )
    if not suspects or revived or (not any(had) and past.known_from > epoch):
        return None
    return True


def _promised(run: DivergentRange, epoch: int, suspects: Sequence[Election], past: PastElections) -> int | None:
    """Upper bound of the run's records that were acknowledged with acks=all; None if unknown.

    It is 0 if, from their leader's term to the last of `suspects` (to the end, unless that one is known to have lacked them),
    the ISR was always too small or included the broker elected without the records, so that they were never on all of its
    members. This assumes that the broker had not lost its log's end in a crash; records proven committed by a checkpoint
    count in any case.
    """
    had = [past.had(one.leader_epoch, run.start_offset, epoch) for one in suspects]
    end = suspects[-1].metadata_offset if suspects and had[-1] is False else None
    led = [state for state in past.states if state.leader_id is not None and state.leader_epoch >= epoch]
    states = [state for state in led if end is None or state.metadata_offset < end]
    if not states or states[0].leader_epoch != epoch:
        return None
    enough = [state for state in states if not state.is_below_min_isr]
    # The last of several suspects may have lost the records to an earlier one.
    without: set[int] = set()
    if had == [False]:
        without = {suspects[0].leader_id} - {states[0].leader_id}
        if without & _crashed(past.states, states[0].metadata_offset, suspects[0].metadata_offset):
            without = set()
    if any(not without & set(state.isr) for state in enough):
        return run.data_records
    return run.committed_records if enough else 0


def _crashed(history: Sequence[PartitionState], start: int, end: int) -> set[int]:
    """Replicas that returned from an unclean shutdown between two offsets of the metadata log, `end` included.

    One that stays eligible returned with its clean-shutdown flag (KIP-966). One that rejoined the ISR as a follower has since
    fetched everything that was committed.
    """
    known = [one for one in history if start <= one.metadata_offset <= end]
    crashed: set[int] = set()
    for before, after in pairwise(known):
        crashed |= {*after.crashed} - {*after.elr}
        crashed -= {*after.isr} - {*before.isr, after.leader_id}
    return crashed


def describe(election: Election) -> str:
    """Describe an election in one sentence: winner, time, previous leader, and why it counts as clean or not."""
    how = "cleanly" if election.clean else "uncleanly"
    if election.from_last_known:
        how += ", as the last known leader"
    previous = election.previous_leader_id
    isr = election.previous_isr
    elr = election.previous_elr
    came = "became leader" if previous in (None, election.leader_id) else f"took over from broker {previous}"
    eligible = f", {_only(elr)} eligible" if elr else ""
    return (
        f"at {render_time(election.time_ms)} broker {election.leader_id} {came} {how}, in leader epoch "
        f"{election.leader_epoch} ({were_in_sync(isr)}{eligible})"
    )


def were_in_sync(isr: Sequence[int]) -> str:
    """Clause that names the replicas in sync before an election."""
    return f"{_only(isr)} in sync" if isr else "nobody was in sync"


def _only(ids: Sequence[int]) -> str:
    return f"{name_brokers(ids)} were" if len(ids) > 1 else f"only {name_brokers(ids)} was"

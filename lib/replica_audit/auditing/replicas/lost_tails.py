"""Replicas that lost the end of their log: their checkpointed high watermark is past it, and no truncation explains that (F.5)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from replica_audit.batch_header import ABSENT, or_absent
from replica_audit.protocol.election import CleanElections, elections, first_known_epoch
from replica_audit.protocol.lineage import Lineage

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


def is_tail_lost(reference: Reference, replicas: Collection[ReplicaFacts], facts: ReplicaFacts) -> bool:
    """True if a replica had records up to its checkpointed high watermark that its log lacks, and no truncation explains it.

    Its log may still be older than the checkpoint (`ReplicaFacts.in_any_order`). `replicas` are all that were compared,
    including the reference. Truncation cannot explain a checkpoint that no other replica ever reached.
    """
    checkpoint = _mark_past_end(facts)
    if checkpoint is None:
        return False
    reached = max((max(other.log_end_offset, other.marked_end) for other in replicas if other is not facts), default=0)
    return checkpoint > reached or not may_have_been_cut(reference, replicas, facts)


def has_lost_tail(reference: Reference, replicas: Collection[ReplicaFacts], broker_id: int | None) -> bool:
    """True if a replica of this broker `is_tail_lost`."""
    return any(is_tail_lost(reference, replicas, facts) for facts in replicas if facts.broker_id == broker_id)


def lost_to(reference: Reference, replicas: Collection[ReplicaFacts], facts: ReplicaFacts) -> tuple[int, bool] | None:
    """Checkpointed high watermark of a replica that `is_tail_lost`, and True if certainly nothing cut its log; None for any
    other replica, or if the checkpoint may be newer than the log's copy.

    It is certain if the files rule out a cut, or the complete history has no leader that may have caused one; for a broker
    that ran, also unless its log may have been cut between the two copies (`cut_since_marks`).
    """
    checkpoint = _mark_past_end(facts)
    if checkpoint is None or facts.in_any_order or not is_tail_lost(reference, replicas, facts):
        return None
    is_known = _rules_out_cut(facts) or _knows_leaders_since(reference, facts)
    is_whole = is_known and not may_have_been_cut(reference, replicas, facts)
    return checkpoint, is_whole and not cut_since_marks(reference, replicas, facts)


def _mark_past_end(facts: ReplicaFacts) -> int | None:
    """A replica's checkpointed high watermark if it is past its log end and past what was deleted; else None."""
    checkpoint = facts.directory.high_watermark_checkpoint
    if checkpoint is None or facts.end_is_open or checkpoint <= max(facts.log_end_offset, facts.log_start_offset):
        return None
    return checkpoint


def _rules_out_cut(facts: ReplicaFacts) -> bool:
    """True if a broker was stopped cleanly, or its recovery point is past the end of its log: a truncation would have lowered it."""
    return facts.directory.clean_shutdown is True or facts.flushed_end > cut_end(facts)


def cut_end(facts: ReplicaFacts) -> int:
    """Log end that a truncation may have left: the end of the files, or the cleaner's checkpoint past it, if the cleaner had removed what
    was between. A truncation takes that checkpoint back to the cut (`LogCleanerManager.maybeTruncateCheckpoint`)."""
    end = max(facts.log_end_offset, facts.log_start_offset)
    return max(end, facts.cleaning.cleaned_to) if facts.compacted else end


def may_have_been_cut(reference: Reference, replicas: Iterable[ReplicaFacts], facts: ReplicaFacts) -> bool:
    """True if a truncation explains a checkpoint past the log end: files do not rule it out, no entry of the epoch file starts past the
    log end (a truncation removes these), and another leader's epoch starts or may start there, or remote storage continues."""
    # A cut inside a batch removes all of it, but the log then starts and ends at the cut.
    end = cut_end(facts)
    if _rules_out_cut(facts):
        return False
    found = facts.sound_file_lineage
    if found is not None and any(start > end for _, start in found):
        return False
    if facts.empty and facts.local_start_offset > facts.log_start_offset:
        return True  # It was emptied to start over from remote storage (J9).
    last = or_absent(facts.last_leader_epoch)
    lineage = reference.facts.lineage
    own = [tuple(lineage if reference.leader_id is None else reference.complete(lineage))]
    if reference.leader_id is None or reference.facts.compacted:
        # A cleaner may have removed the first batches of an epoch; the file still has its start.
        own.append(reference.facts.file_entries)
    if not _knows_leaders_since(reference, facts):
        later = ([epoch for epoch, _ in entries if epoch > last] for entries in own)
        # A log with epochs is cut where the first of them begins that it lacks.
        cutting = (epoch for epochs in later for epoch in (epochs if last == ABSENT else epochs[:1]))
        return any(_may_begin_at(end, epoch, own) for epoch in cutting)
    others = [other for other in replicas if other is not facts]
    lineages = [*own, *(entries for one in others for entries in (tuple(one.lineage), one.file_entries))]
    return any(
        epoch > last and _may_begin_at(end, epoch, lineages) and not _goes_below(reference, others, facts, epoch)
        for epoch in _followed(reference, facts.broker_id)
    )


def cut_since_marks(reference: Reference, replicas: Collection[ReplicaFacts], facts: ReplicaFacts) -> bool:
    """True if a truncation explains a recovery point or high watermark past the log end, although the files were copied in order:
    it came between their copies, or a kill interrupted it.

    A smaller recovery point is written after the cut (`LogManager.truncateTo`), and at a clean stop. A log is cut where another leader's
    epoch begins, or without epochs at the high watermark, and may have fetched since; not if its broker was killed as it cut it.
    """
    is_stopped = facts.is_at_rest and facts.directory.clean_shutdown
    if is_stopped or facts.found_end_offset > facts.log_end_offset:
        return False
    if not facts.has_epochs and facts.marked_end <= facts.log_end_offset:
        return True
    begins = {(entry, one is facts) for one in replicas for entry in (*one.lineage, *one.file_entries)}
    seen = {epoch for (epoch, _), _ in begins}
    seen |= {state.leader_epoch for state in reference.history if state.leader_id is None}
    led = {(state.leader_id, state.leader_epoch) for state in reference.history if state.leader_id is not None}
    if reference.leader_id is not None:
        leads = reference.leader_id == facts.broker_id
        led.add((reference.leader_id, max(seen, default=0) if leads else or_absent(reference.leader_epoch)))
    newest = max((epoch for leader, epoch in led if leader != facts.broker_id), default=ABSENT)
    last, end = or_absent(facts.last_leader_epoch), facts.log_end_offset
    is_one_unseen = any(epoch not in seen for epoch in range(last + 1, newest + 1))
    if facts.marked_end <= end:
        begun = {start for (epoch, start), _ in begins if epoch > 0}
        return is_one_unseen or (end in begun if facts.is_at_rest else min(begun, default=end + 1) <= end)
    # Elections of complete logs do not cut below the high watermark; the winner of a clean one may have lost the end of its log.
    own = {epoch for leader, epoch in led if leader == facts.broker_id}
    cuts = [(last, newest)] if is_one_unseen else []
    for (epoch, start), is_own in begins:
        goes_on = not facts.is_at_rest and facts.lineage.epoch_for_offset(start) == epoch
        if not is_own and epoch not in {0, *own} and (goes_on or (start == end and epoch > last)):
            cuts.append((or_absent(facts.lineage.epoch_for_offset(start - 1)), epoch))
    doubtful = (one.leader_epoch for one in elections(reference.history) if one.came_back or not one.clean)
    sound = CleanElections(first_known_epoch(reference.history), tuple(doubtful))
    return any(not sound.between(before, epoch) for before, epoch in cuts)


def _followed(reference: Reference, broker_id: int) -> set[int]:
    """Leader epochs that other leaders began before the broker went down for good."""
    down = reference.fenced_since.get(broker_id)
    began: dict[int, int] = {}
    for state in reference.history:
        if state.leader_id not in (None, broker_id):
            began.setdefault(state.leader_epoch, state.metadata_offset)
    return {epoch for epoch, offset in began.items() if down is None or offset < down}


def _goes_below(reference: Reference, others: Iterable[ReplicaFacts], facts: ReplicaFacts, leader_epoch: int) -> bool:
    """True if the leader of `leader_epoch` wrote, in an epoch later than a log's last, below the end of that log, and
    nobody else has led since: as leader it would have cut the log there."""
    led_by = {state.leader_epoch: state.leader_id for state in reference.history if state.leader_id is not None}
    leader = led_by[leader_epoch]
    return any(
        or_absent(facts.last_leader_epoch) < epoch <= leader_epoch
        and start < facts.log_end_offset
        and all(one == leader for began, one in led_by.items() if epoch <= began <= leader_epoch)
        for other in others
        if other.broker_id == leader
        for epoch, start in other.lineage
    )


def _may_begin_at(offset: int, epoch: int, lineages: Iterable[tuple[tuple[int, int], ...]]) -> bool:
    """True if an epoch may have started at `offset`, by the lineages that have it, or if none has it.

    Retention raises the start of a lineage's first entry, so that its epoch may have started earlier.
    """
    starts = [
        (start, number == 0) for entries in lineages for number, (one, start) in enumerate(entries) if one == epoch
    ]
    exact = {start for start, is_first in starts if not is_first}
    if exact:
        return offset in exact
    return not starts or any(start >= offset for start, _ in starts)


def _knows_leaders_since(reference: Reference, facts: ReplicaFacts) -> bool:
    """True if the history has every leader since a log's last epoch."""
    known_from = first_known_epoch(reference.history)
    return known_from is not None and known_from <= or_absent(facts.last_leader_epoch)


def why_older(facts: ReplicaFacts, offset: int, leader_epoch: int | None = None) -> str | None:
    """Clause on why a log that ends at `offset` or below may have been copied before its epoch file, its files being in any
    order; None if that file does not show it (C.2).

    If the file has another epoch at `offset` than `leader_epoch`, the log never had records of that epoch there.
    """
    if not facts.in_any_order or offset < facts.log_end_offset:
        return None
    if why := why_apart(facts):
        return why
    written = facts.found_lineage or Lineage()
    reached = written.entries[-1][1] if written else 0
    if reached <= offset or (leader_epoch is not None and written.epoch_for_offset(offset) not in (None, leader_epoch)):
        return None
    return f"by its own epoch file the log of broker {facts.broker_id} had reached {reached}: it lost its end, or was copied before that"


def why_apart(facts: ReplicaFacts) -> str | None:
    """Clause on an epoch file that has no entries although the batches need some, if it may be of another moment; else
    None. A log has such a file before its first batch, and while it starts over."""
    is_apart = facts.in_any_order and facts.directory.is_epoch_file_empty and bool(facts.needed_lineage)
    said = f"the epoch file of broker {facts.broker_id} is empty: it and the log are of different moments, or it is damaged"
    return said if is_apart else None

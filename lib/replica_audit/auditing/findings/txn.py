"""Transactions (F.5) that are open on the reference, and never to be ended by a coordinator, or that it aborts and another log commits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    doubted,
    finding,
    likely,
    name_holder,
    suspect,
    why_undecided,
)
from replica_audit.literals import Confidence
from replica_audit.schema import Evidence
from replica_audit.segments.open_transactions import marker_of, open_at_end
from replica_audit.text import name_offsets

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.alignment import EndedApart
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.batch_header import Batch
    from replica_audit.model import OpenTransaction, TransactionState

TXN_HANGING = Code("TXN-HANGING", ("medium",), traits=("own_step",))
TXN_MARKER_LOST = Code("TXN-MARKER-LOST", ("medium",))
TXN_ABORTED = Code("TXN-ABORTED", ("medium",))
TXN_PENDING = Code("TXN-PENDING", ("info",))


#: States in which the coordinator will still write markers.
_PREPARED = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_PENDING = ("Ongoing", *_PREPARED)


def judge(case: Case) -> Iterator[Finding]:
    """TXN-HANGING, TXN-MARKER-LOST and TXN-PENDING of the reference's open transactions, and TXN-ABORTED of those that it aborts."""
    facts = case.reference.facts
    for transaction in open_at_end(facts.segments).values():
        if transaction.last_offset < facts.local_start_offset or _is_damaged_after(facts, transaction):
            continue
        state = case.transactions.get(transaction.producer_id)
        if state is not None and _is_pending(case, transaction, state):
            is_settled = state.state in _PREPARED or case.reference.leader_id is None or case.evidence.was_at_rest
            # A state of an earlier producer epoch is that of an earlier transaction.
            if is_settled and (state.producer_epoch < 0 or state.producer_epoch >= transaction.last_epoch):
                yield _pending(case, transaction, state)
        elif state is None or not _will_write_marker(case, state):
            yield from _hanging(case, transaction, state)
        for item in (*case.comparisons, *case.beside):
            yield from _marker_lost(case, item, transaction, state)
    for item in (*case.comparisons, *case.beside):
        yield from (_aborted(case, item, one) for one in item.alignment.aborted)


def _pending(case: Case, transaction: OpenTransaction, state: TransactionState) -> Finding:
    facts = case.reference.facts
    name = f"producer {transaction.producer_id}" if state.transactional_id is None else state.transactional_id
    found = finding(
        TXN_PENDING,
        f"the transaction of {_owner(transaction, state)} that begins at offset {transaction.first_offset} has no marker on broker "
        f"{facts.broker_id} yet: its coordinator says {state.state} and has yet to write it",
        broker_id=facts.broker_id,
        offsets=(transaction.first_offset, transaction.last_offset + 1),
        evidence=[
            Evidence(
                "transaction",
                text=_word(state),
                value=f"{name} ({state.state})",
            ),
            considered("over: no, its coordinator has this partition among those of the transaction"),
        ],
    )
    return likely(
        found,
        None if case.evidence.was_at_rest else "likely, not proven: the two logs may be copies of different moments",
    )


def _is_damaged_after(facts: ReplicaFacts, transaction: OpenTransaction) -> bool:
    """True if the marker may have been in an unreadable or missing part of the log."""
    holes = (*facts.unreadable, *facts.unexplained_gaps)
    return facts.tail_kind != "clean" or any(hole.end_offset > transaction.last_offset for hole in holes)


def _is_pending(case: Case, transaction: OpenTransaction, state: TransactionState) -> bool:
    """True if the coordinator has this transaction as unfinished, with this partition.

    Since KIP-890 it increments the producer's epoch as it prepares the end; an ongoing transaction of a later epoch is another one.
    """
    if not _will_write_marker(case, state):
        return False
    return state.state != "Ongoing" or state.producer_epoch in (-1, transaction.last_epoch)


def _will_write_marker(case: Case, state: TransactionState) -> bool:
    """True if the coordinator will write a marker to this partition, which ends whatever the producer has left open there
    (`ProducerAppendInfo.appendEndTxnMarker`)."""
    return state.state in _PENDING and case.topic_partition in state.partitions


def _hanging(case: Case, transaction: OpenTransaction, state: TransactionState | None) -> Iterator[Finding]:
    facts = case.reference.facts
    evidence = []
    after = None if state is None else _is_over(case, transaction, state)
    since = f"read_committed consumers see nothing from {transaction.first_offset} on"
    if state is not None and after is not None:
        confidence, text = after
        evidence.append(Evidence("transaction", text=f"{_word(state)}; {text}", value=state.state))
        why = f", and none will come: its coordinator says {state.state}; {since}"
    elif _goes_on(transaction):
        # Only the coordinator knows whether the later transaction is over, too.
        confidence = "suspect"
        why = (
            f", and its own will not come: it continued with producer epoch {transaction.last_epoch} after {transaction.first_epoch}, "
            f"and a producer gets a new epoch only when its transaction has ended; {since}, unless the later transaction is in progress, "
            "whose end will end this one, too"
        )
    else:
        return
    yield finding(
        TXN_HANGING,
        f"the transaction of {_owner(transaction, state)} that begins at offset {transaction.first_offset} has "
        f"no marker on broker {facts.broker_id}{why}",
        confidence=confidence,
        broker_id=facts.broker_id,
        offsets=(transaction.first_offset, transaction.last_offset + 1),
        evidence=[
            Evidence(
                "batch",
                text=f"records of producer {transaction.producer_id}, epoch {transaction.last_epoch}, no marker after them",
                broker_id=facts.broker_id,
            ),
            *evidence,
            considered("in progress: no, its coordinator or its producer has ended it"),
        ],
    )


def _goes_on(transaction: OpenTransaction) -> bool:
    """True if the producer has later records, of a transaction that it began after the end of this one."""
    return transaction.first_epoch != transaction.last_epoch


def _is_over(case: Case, transaction: OpenTransaction, state: TransactionState) -> tuple[Confidence, str] | None:
    """Confidence and reason if the coordinator ended the transaction before the reference was copied; else None.

    The coordinator's log and the partition may be copied at different moments. Its state must be newer than the records, and
    the log must continue after it, or its copy have begun later while its broker led.
    """
    if not _is_newer(case, transaction, state):
        return None
    if case.evidence.was_at_rest:
        return "proven", "nothing was written while the copies were made"
    facts = case.reference.facts
    times = case.options.times
    leads = facts.broker_id == case.reference.leader_id
    if leads and times.was_live(*facts.key) and times.began_later(facts, state.updated_ms):
        return "likely", "the log of its leader was copied after that"
    begun: dict[int, int] = {}
    for one in case.leadership.history if case.leadership else ():
        # A later state of an epoch, such as a smaller ISR, is not an election; that of a snapshot may be a later one.
        begun.setdefault(one.leader_epoch, -1 if one.occasion == "snapshot" else one.time_ms)
    elected = min((begun[epoch] for epoch, _ in facts.lineage if begun.get(epoch, -1) > state.updated_ms), default=None)
    if elected is not None:
        return "proven", f"the log has the epoch of an election at {elected} ms, after that"
    latest = max(segment.last_timestamp_ms or 0 for segment in facts.segments)
    if latest > state.updated_ms and facts.log_end_offset > transaction.last_offset + 1:
        return "likely", f"the log has records with timestamp {latest} ms, after that"
    return None


def _is_newer(case: Case, transaction: OpenTransaction, state: TransactionState) -> bool:
    newer = state.producer_epoch > transaction.last_epoch or state.updated_ms >= transaction.last_timestamp_ms
    return newer or case.evidence.was_at_rest


def _word(state: TransactionState) -> str:
    """The coordinator's last word on a transaction."""
    return f"{state.state} at {state.updated_ms} ms, producer epoch {state.producer_epoch}"


def _owner(transaction: OpenTransaction, state: TransactionState | None) -> str:
    """Owner of a transaction, with its transactional id if the coordinator's log has it."""
    name = None if state is None else state.transactional_id
    return f"producer {transaction.producer_id}" + ("" if name is None else f" (transactional id {name})")


def _marker_lost(
    case: Case, item: Comparison, transaction: OpenTransaction, state: TransactionState | None
) -> Iterator[Finding]:
    marker = _marker_in_conflict(item, transaction)
    if marker is None:
        return
    after = None if state is None else _is_over(case, transaction, state)
    is_over = _goes_on(transaction) or after is not None and after[0] == "proven"
    never_committed = any(
        run.is_uncommitted and run.start_offset <= marker.base_offset < run.end_offset for run in item.runs
    )
    if _is_due(case, item, transaction, marker, state) or never_committed and not is_over:
        return  # The coordinator writes it again.
    follower = item.follower.broker_id
    leader = case.reference.facts.broker_id
    producer = f"producer {transaction.producer_id}"
    where = name_offsets(transaction.first_offset, transaction.last_offset + 1)
    found = finding(
        TXN_MARKER_LOST,
        f"the transaction of {_owner(transaction, state)} with {where} is open on broker {leader} and ended on "
        f"{name_holder(case, item)} at offset {marker.base_offset}, among records that broker {leader} does not have",
        broker_id=follower,
        offsets=(marker.base_offset, marker.end_offset),
        evidence=[
            Evidence("batch", text=f"marker of {producer}", broker_id=follower, position=marker.position),
            Evidence("batch", text=f"records of {producer} without a marker after them", broker_id=leader),
            considered("in progress: no, the coordinator ended it, and the conflicting records will be cut"),
        ],
    )
    again = (
        f"likely, not proven: its coordinator may have written it again since broker {leader} was copied, or may yet"
    )
    why = _why_on_leader(case, item, marker)
    yield doubted(suspect(found, why) if why else likely(found, None if is_over else again), item)


def _why_on_leader(case: Case, item: Comparison, marker: Batch) -> str | None:
    """Clause on why the leader may have a marker of a follower's conflicting tail by now; None if it cannot."""
    inside = (run for run in item.runs if run.start_offset <= marker.base_offset < run.end_offset)
    for run in inside:
        if why := why_undecided(case, item, run):
            return why
        if case.why_others_lost(run) is not None:
            return case.why_leaders
    return case.why_on_leader(marker.base_offset)


def _is_due(
    case: Case, item: Comparison, transaction: OpenTransaction, marker: Batch, state: TransactionState | None
) -> bool:
    """True if `marker` may end the transaction that its coordinator has as unfinished, or another one than `transaction`.

    It has the producer epoch of the state that announces it, and no coordinator writes it before. A marker before that ended a transaction
    that both logs begin.
    """
    if state is None or not _is_pending(case, transaction, state):
        return False
    if not _is_shared(item, transaction):
        return True
    if state.state in _PREPARED:
        return marker.producer_epoch >= state.producer_epoch
    return not (_goes_on(transaction) or case.evidence.was_at_rest or marker.max_timestamp < state.updated_ms)


def _conflicts(item: Comparison) -> Iterator[Batch]:
    return (batch for part in item.alignment.differences if part.conflicting for batch in part.batches)


def _is_shared(item: Comparison, transaction: OpenTransaction) -> bool:
    """True if both logs have the beginning of a transaction of the reference."""
    first = next(_conflicts(item), None)
    return first is not None and transaction.first_offset < first.base_offset


def _aborted(case: Case, item: Comparison, apart: EndedApart) -> Finding:
    transaction, marker = apart.transaction, apart.marker
    follower = item.follower.broker_id
    leader = case.reference.facts.broker_id
    where = name_offsets(transaction.first_offset, transaction.last_offset + 1)
    producer = f"producer {transaction.producer_id}"
    found = finding(
        TXN_ABORTED,
        f"the transaction of {_owner(transaction, case.transactions.get(transaction.producer_id))} with {where} is aborted on broker "
        f"{leader} at offset {apart.reference_marker.base_offset} and committed on {name_holder(case, item)} at offset "
        f"{marker.base_offset}, among records that broker {leader} does not have: read_committed consumers see nothing of it on broker "
        f"{leader}, but may have seen it before",
        broker_id=follower,
        offsets=(marker.base_offset, marker.end_offset),
        evidence=[
            Evidence("batch", text=f"COMMIT marker of {producer}", broker_id=follower, position=marker.position),
            Evidence(
                "batch",
                text=f"ABORT marker of {producer}, its next one",
                broker_id=leader,
                position=apart.reference_marker.position,
            ),
            considered(
                "two transactions: no, both logs have its records, and no other marker of its producer after them"
            ),
        ],
    )
    return doubted(suspect(found, _why_on_leader(case, item, marker)), item)


def _marker_in_conflict(item: Comparison, transaction: OpenTransaction) -> Batch | None:
    """Marker of a transaction among the follower's conflicting batches; None without one. A marker below its last record ends
    an earlier one.

    A transaction that starts in both logs ended at the first marker there: what the leader has of its producer after that is of
    a later one, though its log shows one transaction.
    """
    if _is_shared(item, transaction):
        transaction = transaction._replace(last_epoch=transaction.first_epoch, last_offset=transaction.first_offset)
    marker = marker_of(transaction, _conflicts(item))
    return marker if marker is not None and marker.base_offset > transaction.last_offset else None


def is_written_again(case: Case, marker: Batch) -> bool:
    """True if the coordinator has yet to write a transaction's marker to this partition, where a copy has it."""
    state = case.transactions.get(marker.producer_id)
    if state is None or state.state not in _PREPARED or case.topic_partition not in state.partitions:
        return False
    return marker.producer_epoch >= state.producer_epoch


def is_unfinished(case: Case, transaction: OpenTransaction) -> bool:
    """True if the coordinator's log has yet to end a transaction that a replica leaves open."""
    state = case.transactions.get(transaction.producer_id)
    return state is not None and _is_pending(case, transaction, state)


def is_ended(case: Case, transaction: OpenTransaction) -> bool:
    """True if a transaction that a replica leaves open was ended: by the coordinator's log, or as its producer went on in a later epoch."""
    state = case.transactions.get(transaction.producer_id)
    is_over = state is not None and not _is_pending(case, transaction, state) and _is_newer(case, transaction, state)
    return is_over or _goes_on(transaction)

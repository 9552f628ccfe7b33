"""Replicas that are not in the snapshot and that the answer depends on (docs/semantics.md F.0, Needed replicas)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from replica_audit.closed_sets import Need
from replica_audit.protocol.election import Election, elections

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.model import Leadership, PartitionState

#: A clause for each reason why an answer depends on a replica that was not captured.
WHY_NEEDED: dict[Need, str] = {
    "elr": "it is eligible to lead",
    "isr": "nothing here shows that the leader has all that it has",
    "led_before_unclean": "it led before an unclean election and has not followed since",
    "isr_before_unclean": "it was in sync before an unclean election and has not followed since",
    "no_history": "no history says how it left the in-sync replicas",
}


def needed_replicas(
    leadership: Leadership | None,
    reference: Reference | None,
    captured: Collection[int],
    orphaned: Collection[int] = (),
) -> dict[int, Need]:
    """Brokers whose replica was not captured and may hold what no captured log shows, each with the first reason that holds.

    `captured` are brokers whose log of the partition is known to its end; `orphaned` those whose checkpoint files name
    the partition though no log dir of theirs has it. Without an assignment nothing but a checkpoint names a replica.
    """
    if leadership is None or leadership.replicas is None:
        named = leadership.named if leadership else frozenset()
        if leadership is None and reference is None:
            return {}  # no copy and no assignment: there is no answer that a checkpoint file's entry could make less sure
        return {broker_id: "no_history" for broker_id in sorted((named | set(orphaned)) - set(captured))}
    history = [state for state in leadership.history if not state.uncommitted]
    unclean = [one for one in elections(history) if not one.clean]
    found: dict[int, Need] = {}
    for broker_id in sorted((leadership.named | _members(history)) - set(captured)):
        why = _need_now(broker_id, leadership, reference, unclean) or _need_of_past(
            broker_id, leadership, history, unclean
        )
        if why is not None:
            found[broker_id] = why
    return found


def _members(history: Collection[PartitionState]) -> set[int]:
    """Brokers that led or were in sync at any time."""
    leaders = {state.leader_id for state in history if state.leader_id is not None}
    return leaders | {broker_id for state in history for broker_id in state.isr}


def _need_now(
    broker_id: int, leadership: Leadership, reference: Reference | None, unclean: Collection[Election]
) -> Need | None:
    """By the present state, unless that is older than the logs."""
    if reference is not None and reference.outdated:
        return "no_history"
    if broker_id in leadership.elr:
        return "elr"
    in_sync = broker_id in (leadership.isr or ()) or broker_id == leadership.leader_id
    if in_sync and (unclean or not leadership.history or not _leader_is_live(leadership, reference)):
        return "isr"
    return None


def _leader_is_live(leadership: Leadership, reference: Reference | None) -> bool:
    """Whether the leader's log is the one that the others are compared with, and the leader was up when it was copied."""
    if reference is None or reference.predates or reference.facts.killed:
        return False
    leads = reference.facts.broker_id == leadership.leader_id
    return leads and leadership.leader_id not in (leadership.fenced or ()) and not reference.facts.end_is_open


def _need_of_past(
    broker_id: int, leadership: Leadership, history: list[PartitionState], unclean: Collection[Election]
) -> Need | None:
    """By what it was before each unclean election that it has not followed since."""
    if not history:
        return None if broker_id in (leadership.isr or ()) else "no_history"
    for election in unclean:
        if broker_id in _members([state for state in history if state.metadata_offset >= election.metadata_offset]):
            continue
        before = [state for state in history if state.metadata_offset < election.metadata_offset]
        if any(state.leader_id == broker_id for state in before):
            return "led_before_unclean"
        if any(broker_id in (*state.isr, *state.elr) for state in before):
            return "isr_before_unclean"
    began = history[0].occasion == "created"
    return None if began or broker_id in _members(history) else "no_history"

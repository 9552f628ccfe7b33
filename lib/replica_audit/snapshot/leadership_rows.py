"""Conversion of leadership and its history to rows of `partition_states`, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from replica_audit.literals import LEADERSHIP_SOURCES
from replica_audit.model import Leadership, PartitionState
from replica_audit.schema import PartitionStateRow

#: Fields of a state in its row, and those that are lists.
_STATE_FIELDS = [name for name in PartitionStateRow._fields if name in PartitionState._fields]

_STATE_LISTS = (
    "isr", "elr", "last_known_elr", "replicas", "removing", "adding", "directories", "lacked_by", "crashed",
    "begun_anew",
)  # fmt: skip


def state_rows(leadership: Leadership) -> Iterator[PartitionStateRow]:
    """A row for each state of the history; a source without history has one row without a time."""
    unknown = dict.fromkeys(PartitionStateRow._fields)
    unknown |= {"topic": leadership.topic, "partition": leadership.partition, "source": leadership.source}
    unknown |= {"topic_id": leadership.topic_id}
    for entry, state in enumerate(leadership.history):
        values = {name: getattr(state, name) for name in _STATE_FIELDS}
        row = PartitionStateRow._make((unknown | values).values())._replace(
            entry=entry,
            configs=dict(sorted(state.configs.items())),
            # Null if false, so that snapshot ids stay stable.
            leader_stopped=state.leader_stopped or None,
            crashed=state.crashed or None,
            begun_anew=state.begun_anew or None,
            inherits_unclean=state.inherits_unclean or None,
        )
        if entry == len(leadership.history) - 1:
            since = {str(one): at for one, at in leadership.fenced_since.items()}
            row = row._replace(
                fenced=leadership.fenced,
                fenced_since=since,
                down_when_copied=leadership.down_when_copied or None,
                perhaps_down=leadership.perhaps_down or None,
                offline=leadership.offline or None,
            )
        yield row
    if not leadership.history:
        yield PartitionStateRow._make(unknown.values())._replace(
            entry=0,
            leader_id=leadership.leader_id,
            leader_epoch=leadership.leader_epoch,
            isr=leadership.isr,
            elr=leadership.elr,
            last_known_elr=leadership.last_known_elr,
            replicas=leadership.replicas,
            configs=dict(sorted(leadership.configs.items())),
            inherits_unclean=leadership.inherits_unclean,
            # Null if false, so that snapshot ids stay stable.
            overtaken=leadership.overtaken or None,
        )


def leadership_of_rows(rows: Iterable[PartitionStateRow]) -> Leadership | None:
    """The leadership of the most trusted source among one partition's rows, in any order; None without rows.

    If there are rows of several listings, the last counts.
    """
    states = list(rows)
    for source in LEADERSHIP_SOURCES:
        of_source = [row for row in states if row.source == source]
        if of_source:
            return _of_history(of_source) if of_source[0].time_ms is not None else _of_row(of_source[-1])
    return None


def _of_row(row: PartitionStateRow) -> Leadership:
    return Leadership(
        topic=row.topic,
        partition=row.partition,
        source=row.source,
        leader_id=row.leader_id,
        leader_epoch=row.leader_epoch,
        isr=None if row.isr is None else tuple(row.isr),
        elr=tuple(row.elr),
        last_known_elr=tuple(row.last_known_elr),
        replicas=None if row.replicas is None else tuple(row.replicas),
        topic_id=row.topic_id,
        configs=dict(row.configs),
        inherits_unclean=row.inherits_unclean,
        overtaken=bool(row.overtaken),
    )


def _of_history(rows: list[PartitionStateRow]) -> Leadership:
    ordered = sorted(rows, key=lambda row: row.entry)
    last = ordered[-1]
    history = tuple(map(_state, ordered))
    since = {int(broker): at for broker, at in (last.fenced_since or {}).items()}
    fenced = None if last.fenced is None else tuple(last.fenced)
    leadership = leadership_of_history(last.topic, last.partition, last.topic_id, history, fenced, since)
    lists = (last.down_when_copied, last.perhaps_down, last.offline)
    down, perhaps, offline = (tuple(brokers or ()) for brokers in lists)
    return replace(leadership, down_when_copied=down, perhaps_down=perhaps, offline=offline)


def _state(row: PartitionStateRow) -> PartitionState:
    values = {name: getattr(row, name) for name in _STATE_FIELDS}
    values |= {name: tuple(values[name] or ()) for name in _STATE_LISTS}
    values |= {"configs": dict(row.configs), "leader_stopped": bool(row.leader_stopped)}
    values |= {"inherits_unclean": bool(row.inherits_unclean)}
    return PartitionState(**values)


def leadership_of_history(
    topic: str,
    partition: int,
    topic_id: str | None,
    history: tuple[PartitionState, ...],
    fenced: tuple[int, ...] | None,
    fenced_since: Mapping[int, int],
) -> Leadership:
    """The last committed state of a history, which must have one, with the history. In a deleted topic nobody is in sync or assigned."""
    last = next(state for state in reversed(history) if not state.uncommitted)
    exists = last.occasion != "deleted"
    return Leadership(
        topic=topic,
        partition=partition,
        source="metadata_log",
        leader_id=last.leader_id,
        leader_epoch=last.leader_epoch,
        isr=last.isr if exists else None,
        elr=last.elr,
        last_known_elr=last.last_known_elr,
        replicas=last.replicas if exists else None,
        topic_id=topic_id,
        configs=last.configs,
        history=history,
        fenced=fenced,
        fenced_since=fenced_since,
    )

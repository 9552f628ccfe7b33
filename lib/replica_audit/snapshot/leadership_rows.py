"""Leadership and its history as rows of `partition_states`, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from replica_audit.model import Leadership, PartitionState
from replica_audit.schema import SoleIsr

#: Most trusted first (CONTRACT, Input).
LEADERSHIP_SOURCES = ("metadata_log", "zookeeper", "topics_describe", "user")

_STATE_LISTS = ("isr", "elr", "last_known_elr", "replicas", "removing", "adding", "directories", "lacked_by")
_STATE_VALUES = (
    "time_ms",
    "metadata_offset",
    "occasion",
    "uncommitted",
    "leader_id",
    "leader_epoch",
    "partition_epoch",
    "recovering",
)


def state_rows(leadership: Leadership) -> Iterator[dict]:
    """One row per state of the history; from a source without one, one row without a time."""
    names = {"topic": leadership.topic, "partition": leadership.partition, "source": leadership.source}
    for entry, state in enumerate(leadership.history):
        is_last = entry == len(leadership.history) - 1
        yield {
            **names,
            "entry": entry,
            "topic_id": leadership.topic_id,
            **{name: getattr(state, name) for name in _STATE_VALUES},
            **{name: list(getattr(state, name)) for name in _STATE_LISTS},
            "fenced": list(leadership.fenced) if is_last and leadership.fenced is not None else None,
            "fenced_since": {str(one): at for one, at in leadership.fenced_since.items()} if is_last else None,
            "configs": dict(sorted(state.configs.items())),
            "sole_isr": None if state.sole_isr is None else state.sole_isr._asdict(),
            "overtaken": None,
            # Null where it was not, so that snapshots keep their ids.
            "leader_stopped": state.leader_stopped or None,
            "crashed": list(state.crashed) or None,
        }
    if not leadership.history:
        yield {
            **names,
            "entry": 0,
            "topic_id": leadership.topic_id,
            **dict.fromkeys(
                (*_STATE_VALUES, *_STATE_LISTS, "fenced", "fenced_since", "sole_isr", "leader_stopped", "crashed")
            ),
            "leader_id": leadership.leader_id,
            "leader_epoch": leadership.leader_epoch,
            "isr": None if leadership.isr is None else list(leadership.isr),
            "elr": list(leadership.elr),
            "last_known_elr": list(leadership.last_known_elr),
            "replicas": None if leadership.replicas is None else list(leadership.replicas),
            "configs": dict(sorted(leadership.configs.items())),
            # Null where it is not, so that snapshots keep their ids.
            "overtaken": leadership.overtaken or None,
        }


def leadership_of_rows(rows: Iterable[Mapping]) -> Leadership | None:
    """The leadership of the most trusted source among one partition's rows, in any order; None without rows.

    Of several listings' rows the one given last counts.
    """
    states = list(rows)
    for source in LEADERSHIP_SOURCES:
        of_source = [row for row in states if row["source"] == source]
        if of_source:
            return _of_history(of_source) if of_source[0]["time_ms"] is not None else _of_row(of_source[-1])
    return None


def _of_row(row: Mapping) -> Leadership:
    return Leadership(
        topic=row["topic"],
        partition=row["partition"],
        source=row["source"],
        leader_id=row["leader_id"],
        leader_epoch=row["leader_epoch"],
        isr=None if row["isr"] is None else tuple(row["isr"]),
        elr=tuple(row["elr"] or ()),
        last_known_elr=tuple(row["last_known_elr"] or ()),
        replicas=None if row["replicas"] is None else tuple(row["replicas"]),
        topic_id=row["topic_id"],
        configs=dict(row["configs"] or {}),
        # Rows of earlier versions lack the column.
        overtaken=bool(row.get("overtaken")),
    )


def _of_history(rows: list[Mapping]) -> Leadership:
    ordered = sorted(rows, key=lambda row: row["entry"])
    history = tuple(
        PartitionState(
            **{
                **{name: row[name] for name in _STATE_VALUES},
                # Rows of earlier versions lack the later columns.
                **{name: tuple(row.get(name) or ()) for name in _STATE_LISTS},
            },
            configs=dict(row["configs"] or {}),
            leader_stopped=bool(row.get("leader_stopped")),
            crashed=tuple(row.get("crashed") or ()),
            sole_isr=SoleIsr(**row["sole_isr"]) if row.get("sole_isr") else None,
        )
        for row in ordered
    )
    fenced = ordered[-1]["fenced"]
    names = ordered[-1]["topic"], ordered[-1]["partition"]
    since = {int(broker): at for broker, at in (ordered[-1].get("fenced_since") or {}).items()}
    fenced_now = None if fenced is None else tuple(fenced)
    return leadership_of_history(*names, ordered[-1]["topic_id"], history, fenced_now, since)


def leadership_of_history(
    topic: str,
    partition: int,
    topic_id: str | None,
    history: tuple[PartitionState, ...],
    fenced: tuple[int, ...] | None,
    fenced_since: Mapping[int, int],
) -> Leadership:
    """The last committed state of a history, which has one, with the history; of a deleted topic nobody is in sync or assigned."""
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

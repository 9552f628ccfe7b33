"""The copies of the metadata log as lanes: a stretch for each controller epoch, where they part, snapshots, and how each stands.

Told where not all of them agree. It is drawn here, since it has a lane for each node only and has to be seen without a script.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replica_audit.literals import MetadataStanding
from replica_audit.report.layout import clean
from replica_audit.results import Results
from replica_audit.schema import MetadataLogRow

#: Widths and heights in the units of the picture, which is as wide as there is room.
_LEFT, _WIDTH, _RIGHT, _LANE, _TOP = 130, 760, 70, 26, 22
#: Narrower stretches have no number in them.
_LEAST = 16
#: Classes of stretches in page.css.
_COLOURS = 8
HEADS = ("node", "log", "stands", "history", "parts at", "committed to", "seen epoch", "voted for")

_STANDINGS: dict[MetadataStanding, str] = {
    "used": "answers go by it",
    "agrees": "agrees",
    "apart": "differs, and nothing tells which is right",
    "stale": "lacks what was committed",
    "refused": "cannot be the right one",
    "empty": "empty",
    "unreadable": "cannot be read",
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """A rectangle with its number, where that fits, and what it stands for."""

    x: float
    width: float
    colour: int
    number: int | None
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One copy."""

    name: str
    position: int
    """Of its upper edge."""
    stretches: tuple[Stretch, ...]
    end: float
    end_offset: int
    parts: float | None
    parts_at: int | None
    checkpoints: tuple[tuple[float, int], ...]
    """(x, end offset)"""


@dataclass(frozen=True, slots=True)
class MetadataLanes:
    """The picture, the same as a table, and why some copies cannot be the right ones."""

    width: int
    height: int
    left: int
    lanes: tuple[Lane, ...]
    rows: tuple[tuple[str, ...], ...]
    reasons: tuple[str, ...]


def metadata_lanes(results: Results) -> MetadataLanes | None:
    """None where every copy agrees with the one that is used."""
    rows = sorted(
        results.metadata_logs, key=lambda row: (not row.is_voter, row.broker_id is None, row.broker_id or 0, row.path)
    )
    if all(row.standing in ("used", "agrees") and row.may_vote is not False for row in rows):
        return None
    start = min(row.start_offset for row in rows)
    scale = _WIDTH / max(1, max(row.end_offset for row in rows) - start)

    def x(offset: int) -> float:
        return round(_LEFT + (offset - start) * scale, 1)

    lanes = tuple(
        Lane(
            name=f"★ {_name(row)}" if row.standing == "used" else _name(row),
            position=_TOP + number * _LANE,
            stretches=tuple(
                Stretch(
                    x(one.start_offset),
                    round(max(1.0, (one.end_offset - one.start_offset) * scale), 1),
                    one.leader_epoch % _COLOURS,
                    one.leader_epoch if (one.end_offset - one.start_offset) * scale >= _LEAST else None,
                    f"controller epoch {one.leader_epoch}, offsets {one.start_offset} to {one.end_offset - 1}",
                )
                for one in row.epochs
            ),
            end=x(row.end_offset),
            end_offset=row.end_offset,
            parts=None if row.parts_at is None else x(row.parts_at),
            parts_at=row.parts_at,
            checkpoints=tuple((x(offset), offset) for offset in row.checkpoints),
        )
        for number, row in enumerate(rows)
    )
    height = _TOP + len(rows) * _LANE + 6
    reasons = tuple(f"{_name(row)}: {clean(reason)}." for row in rows for reason in row.refused)
    return MetadataLanes(_LEFT + _WIDTH + _RIGHT, height, _LEFT, lanes, tuple(_cells(rows)), reasons)


def _name(row: MetadataLogRow) -> str:
    if row.broker_id is None:
        return clean(row.path)
    return f"{'voter' if row.is_voter else 'node'} {row.broker_id}"


def _cells(rows: Sequence[MetadataLogRow]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        log = "-" if row.standing in ("empty", "unreadable") else f"[{row.start_offset}, {row.end_offset})"
        stands = _STANDINGS[row.standing]
        if row.may_vote is False:
            stands += "; cannot vote from this directory"
        numbers = (row.history, row.parts_at, row.committed_to, row.seen_epoch, row.voted_id)
        yield _name(row), log, stands, *("-" if one is None else str(one) for one in numbers)

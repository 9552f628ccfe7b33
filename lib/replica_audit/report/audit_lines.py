"""audit.jsonl.gz: a line for each partition of a large audit. Tasks render and pack the lines of their partitions, where there is an
executor, and this process puts the parts together: members of gzip may follow each other.
"""

from __future__ import annotations

import gzip
import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from replica_audit.elect.election_plan import advise
from replica_audit.elect.plan_model import Decision, Plan
from replica_audit.model import Place
from replica_audit.report.audit_json import SCHEMA_VERSION, in_order, render_value, told_audit
from replica_audit.report.whole_files import write_file
from replica_audit.results import Results, by_place, place_of
from replica_audit.schema import REPORT_TABLES, Row
from replica_audit.typed_json import to_object
from replica_audit.warehouse.left_parts import LeftPart, discard_parts, leave_part, read_part

#: gzip level: level 6 takes 2.4 times as long for 0.7 of the size.
_LEVEL = 3


def write_lines(path: str, results: Results) -> None:
    """Replace the file at `path`: a line with the rows of no partition, then a line for each partition with its rows and decisions.

    The same bytes for the same answers, wherever tasks run.
    """
    advice = advise(results)
    decisions = by_place(advice.decisions)
    outlet = None if results.stored is None else results.stored.outlet

    def given(places: Sequence[Place]) -> bytes:
        own = {place: decisions[place] for place in places if place in decisions}
        return zlib.compress(pickle.dumps(own, pickle.HIGHEST_PROTOCOL), 1)

    parts: Iterable[bytes | LeftPart] = results.map_parts(partial(_part, outlet), given)
    left: list[LeftPart] = []
    if outlet is not None:
        parts = list(parts)
        left = [part for part in parts if isinstance(part, LeftPart)]
    try:
        write_file(path, _members(_head(results, advice), parts))
    finally:
        discard_parts(left)


def _members(head: str, parts: Iterable[bytes | LeftPart]) -> Iterator[bytes]:
    yield _pack([head])
    for part in parts:
        if isinstance(part, LeftPart):
            yield from read_part(part)
        else:
            yield part


def _part(outlet: str | None, part: Results, decisions: bytes) -> bytes | LeftPart:
    """The lines of a part, packed; with an `outlet`, where they were left."""
    packed = _pack(_lines(part, pickle.loads(zlib.decompress(decisions)))) if part.partitions else b""
    return leave_part(outlet, packed) if outlet is not None and packed else packed


def _pack(lines: Iterable[str]) -> bytes:
    # Without a time: the same bytes for the same lines.
    return gzip.compress("".join(lines).encode(), _LEVEL, mtime=0)


def _head(results: Results, advice: Plan) -> str:
    """The line with what belongs to no partition that was audited."""
    audited = set(map(place_of, results.partitions))
    members = {
        "schema_version": render_value(SCHEMA_VERSION, "schema_version"),
        "audit": render_value(told_audit(results), "audit"),
    }
    for table in REPORT_TABLES:
        if rows := [row for row in results.table(table) if place_of(row) not in audited]:
            members[table] = _in_one(table, rows)
    return _line({**members, "steps": render_value(list(map(to_object, advice.steps)), "steps")})


def _lines(part: Results, decisions: Mapping[Place, Sequence[Decision]]) -> Iterator[str]:
    grouped = {table: by_place(part.table(table)) for table in REPORT_TABLES}
    audited = grouped.pop("partitions")
    for place in sorted(audited):
        found = {"partitions": audited[place]}
        found.update((name, rows[place]) for name, rows in grouped.items() if place in rows)
        members = {name: _in_one(name, rows) for name, rows in found.items()}
        if place in decisions:
            members["decisions"] = render_value(list(map(to_object, decisions[place])), "decisions")
        yield _line(members)


def _line(members: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{name}": {text}' for name, text in members.items()) + "}\n"


def _in_one(name: str, rows: Sequence[Row]) -> str:
    return f"[{', '.join(in_order(name, REPORT_TABLES[name], rows))}]"

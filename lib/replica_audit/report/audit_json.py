"""audit.json: every report table as an array, one row a line, then decisions and steps; the same bytes for the same answers.

ASCII only, so that a file name in another encoding than UTF-8 still makes a valid file.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from replica_audit.elect.election_plan import advise
from replica_audit.model import Place
from replica_audit.report.facts.by_partition import detailed_places, told_rows
from replica_audit.report.facts.conditions import seen_parts
from replica_audit.results import Results, place_of
from replica_audit.schema import REPORT_TABLES, Column, row_order, to_dict
from replica_audit.typed_json import to_object

SCHEMA_VERSION = 1

_ENCODER = json.JSONEncoder(allow_nan=False)


def render_audit_json(results: Results, verdict: Mapping[str, Any] | None = None) -> Iterator[str]:
    """audit.json of `results`, in pieces of at most one row; with `verdict` also the object of verdict.json, under "verdict".

    Raises ValueError for a row that lacks a column, has one that its table does not know, or holds what JSON cannot.
    """
    head = {"audit": _told_audit(results), **({} if verdict is None else {"verdict": verdict})}
    return _render_parts(head, REPORT_TABLES, partial(_all_in_order, results), lambda: _advice(results))


def render_worst_parts(results: Results, file: str) -> Iterator[str]:
    """audit.json of an audit of many partitions: without the rows of those that are not told in detail, and with as many of
    `quarantine` as there are of these; members that end in `_elsewhere` say how much is left out and the `file` that has it.
    """
    told = detailed_places(results)
    advice = _advice(results)
    decisions = [one for one in advice["decisions"] if place_of(one) in told]
    steps = [_in_detail(one, told) for one in advice["steps"]]
    left_out = {
        "partitions": len(results.partitions) - len(told),
        "quarantine": len(results.quarantine) - len(told_rows(results, "quarantine")),
        "steps": sum(one != whole for one, whole in zip(steps, advice["steps"], strict=True)),
    }
    head = {
        "audit": _told_audit(results),
        **{f"{name}_elsewhere": {"count": count, "file": file} for name, count in left_out.items() if count},
    }
    return _render_parts(
        head,
        REPORT_TABLES,
        lambda table, columns: _in_order(table, columns, told_rows(results, table)),
        lambda: {"decisions": decisions, "steps": steps},
    )


def _in_detail(step: Mapping[str, Any], told: Collection[Place]) -> dict[str, Any]:
    """A step with the partitions that are reported in detail; one of others too has neither its files nor the directories."""
    placed = {name: [one for one in step[name] if place_of(one) in told] for name in ("partitions", "after", "leaders")}
    if placed["partitions"] == step["partitions"]:
        return {**step, **placed}
    return {**step, **placed, "files": {}, "snapshot": []}


def render_lines(results: Results) -> Iterator[str]:
    """audit.jsonl: a line for what belongs to no partition, then one for each in order: its row of `partitions`, and its rows of
    other tables and its decisions where it has any.
    """
    advice = _advice(results)
    decisions = _by_place(advice["decisions"])
    head = {"schema_version": SCHEMA_VERSION, "audit": _told_audit(results)}
    members = [f'"{name}": {_render(value, name)}' for name, value in head.items()]
    steps = f'"steps": {_render(advice["steps"], "steps")}'
    for number, part in enumerate(seen_parts(results)):
        grouped = {table: _by_place(part.tables.get(table, ())) for table in REPORT_TABLES}
        grouped["decisions"] = decisions
        audited = grouped.pop("partitions")
        if not number:
            unplaced = {
                name: [row for place, rows in of_table.items() if place not in audited for row in rows]
                for name, of_table in grouped.items()
                if name != "decisions"
            }
            members += (f'"{name}": {_in_one(name, rows)}' for name, rows in unplaced.items() if rows)
            yield "{" + ", ".join([*members, steps]) + "}\n"
        for place in sorted(audited):
            found = {"partitions": audited[place]}
            found.update((name, rows[place]) for name, rows in grouped.items() if place in rows)
            yield "{" + ", ".join(f'"{name}": {_in_one(name, rows)}' for name, rows in found.items()) + "}\n"


def _by_place(rows: Iterable[Any]) -> dict[tuple[Any, Any], list[Any]]:
    """Rows by partition."""
    found: dict[tuple[Any, Any], list[Any]] = defaultdict(list)
    for row in rows:
        found[place_of(row)].append(row)
    return found


def _in_one(name: str, rows: Sequence[Any]) -> str:
    columns = REPORT_TABLES.get(name)
    texts = (_render(row, name) for row in rows) if columns is None else _in_order(name, columns, rows)
    return f"[{', '.join(texts)}]"


def _told_audit(results: Results) -> dict[str, Any]:
    """The object `audit`. What differs from run to run is in verdict.json."""
    return _ordered({name: value for name, value in results.audit.items() if name != "table_versions"})


def _advice(results: Results) -> Mapping[str, Sequence[Any]]:
    """Decisions and steps, as plan.json has them."""
    plan = advise(results)
    return {"decisions": [to_object(one) for one in plan.decisions], "steps": [to_object(one) for one in plan.steps]}


def render_tables(
    head: Mapping[str, Any],
    columns: Mapping[str, tuple[Column, ...]],
    tables: Mapping[str, Sequence[Any]],
) -> str:
    """One object with the members of `head` and then the rows of `tables`, as in audit.json.

    Raises ValueError as `render_audit_json` does.
    """
    return "".join(_render_parts(head, columns, lambda table, names: _in_order(table, names, tables[table]), dict))


def _render_parts(
    head: Mapping[str, Any],
    columns: Mapping[str, tuple[Column, ...]],
    texts_of: Callable[[str, tuple[Column, ...]], Iterable[str]],
    lists: Callable[[], Mapping[str, Sequence[Any]]],
) -> Iterator[str]:
    """The members of `head`, the tables, whose rows `texts_of` gives, and what `lists` gives when these are written, an item a line."""
    yield f'{{\n"schema_version": {SCHEMA_VERSION}'
    for name, value in head.items():
        yield f',\n"{name}": {_render(value, name)}'
    for table, names in columns.items():
        yield f',\n"{table}": ['
        first = True
        for row in texts_of(table, names):
            yield "\n" if first else ",\n"
            yield row
            first = False
        yield "]" if first else "\n]"
    for name, items in lists().items():
        yield f',\n"{name}": ['
        yield ",".join(f"\n{_render(item, name)}" for item in items)
        yield "\n]" if items else "]"
    yield "\n}\n"


def _ordered(audit: Mapping[str, Any]) -> dict[str, Any]:
    """The audit with the maps in it by key: the engine gives their entries in any order."""

    def sort(value: Any) -> Any:
        return {key: sort(value[key]) for key in sorted(value)} if isinstance(value, Mapping) else value

    return {key: sort(value) for key, value in audit.items()}


def _all_in_order(results: Results, table: str, columns: tuple[Column, ...]) -> Iterator[str]:
    """All rows of a table as text, of which those of some partitions are held at once."""
    parts = (_keyed(table, columns, part.tables.get(table, ())) for part in results.parts((table,)))
    # The first part has rows of other partitions than the audited ones, which lie between these.
    first = next(parts)
    return (text for _, text in heapq.merge(first, chain.from_iterable(parts)))


def _in_order(table: str, columns: tuple[Column, ...], rows: Sequence[Any]) -> Iterator[str]:
    """The rows as text. Those that the sort keys do not tell apart are in the order of their text, so that every run agrees."""
    return (text for _, text in _keyed(table, columns, rows))


def _keyed(table: str, columns: tuple[Column, ...], rows: Sequence[Any]) -> Iterator[tuple[list[Any], str]]:
    names = [column.name for column in columns]
    known = set(names)
    key = row_order(rows)
    keyed = sorted(((key(row), row) for row in rows), key=itemgetter(0))
    for order, same in groupby(keyed, key=itemgetter(0)):
        texts = []
        for _, of_table in same:
            row = to_dict(of_table) if hasattr(of_table, "_fields") else of_table
            if row.keys() != known:
                lacking = sorted(known - set(row))
                unknown = sorted(set(row) - known)
                raise ValueError(f"table {table}: row lacks {lacking} and has unknown {unknown}")
            texts.append(_render({name: row[name] for name in names}, table))
        yield from ((order, text) for text in sorted(texts))


def _render(content: Any, place: str) -> str:
    try:
        return _ENCODER.encode(content)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from error

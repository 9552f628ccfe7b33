"""audit.json: every report table as an array with one row a line, then decisions and steps; deterministic.

ASCII only: a file name that is not UTF-8 still gives valid JSON.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter

from replica_audit.elect.election_plan import advise
from replica_audit.elect.plan_model import Plan, Step
from replica_audit.model import TopicPartition
from replica_audit.report.facts.by_partition import detailed_places, told_rows
from replica_audit.report.verdict_object import VerdictObject
from replica_audit.report.whole_files import LINES
from replica_audit.results import Results, place_of
from replica_audit.row_classes import Row, SortKey, render_column, sort_keys, sort_rows
from replica_audit.schema import REPORT_TABLES
from replica_audit.typed_json import to_object

SCHEMA_VERSION = 1

_ENCODER = json.JSONEncoder(allow_nan=False)

#: Rows that are rendered at once, and texts of rows that are written at once.
_STEP = 1 << 12
_AT_ONCE = 64


def render_audit_json(results: Results, verdict: VerdictObject | None = None) -> Iterator[str]:
    """Yield audit.json of `results` in pieces of some rows; `verdict`, if given, becomes the member "verdict".

    Raises ValueError for a value that JSON cannot represent.
    """
    head = {"audit": told_audit(results), **({} if verdict is None else {"verdict": verdict})}
    return _render_parts(head, REPORT_TABLES, partial(_all_in_order, results), lambda: _plan_objects(advise(results)))


def render_worst_parts(results: Results) -> Iterator[str]:
    """Yield audit.json of a large audit with the rows of the partitions shown in detail and the first rows of `quarantine`.

    Members that end in `_elsewhere` give the number of rows left out and the file that has all, `LINES`.
    """
    told = detailed_places(results)
    rows = told_rows(results)
    advice = advise(results)
    detailed = replace(
        advice,
        decisions=tuple(one for one in advice.decisions if place_of(one) in told),
        steps=tuple(_in_detail(one, told) for one in advice.steps),
    )
    left_out = {
        "partitions": len(results.partitions) - len(told),
        "quarantine": len(results.quarantine) - len(rows("quarantine")),
        "steps": sum(one != whole for one, whole in zip(detailed.steps, advice.steps, strict=True)),
    }
    head = {
        "audit": told_audit(results),
        **{f"{name}_elsewhere": {"count": count, "file": LINES} for name, count in left_out.items() if count},
    }
    return _render_parts(
        head,
        REPORT_TABLES,
        lambda table: in_order(table, rows(table)),
        lambda: _plan_objects(detailed),
    )


def _in_detail(step: Step, told: Collection[TopicPartition]) -> Step:
    """Restrict a step to the partitions shown in detail; if that leaves any out, drop its files and directories too."""
    cut = replace(
        step,
        partitions=tuple(one for one in step.partitions if one in told),
        after=tuple(one for one in step.after if place_of(one) in told),
        leaders=tuple(one for one in step.leaders if one[:2] in told),
    )
    return cut if cut.partitions == step.partitions else replace(cut, files={}, snapshot=())


def told_audit(results: Results) -> dict[str, object]:
    """Return the object `audit` without what differs between runs on the same input (it is in verdict.json)."""
    return _ordered({name: value for name, value in results.audit.items() if name != "table_versions"})


def _plan_objects(plan: Plan) -> dict[str, Iterator[dict[str, object]]]:
    """Decisions and steps in the form of plan.json."""
    return {"decisions": map(to_object, plan.decisions), "steps": map(to_object, plan.steps)}


def render_tables(
    head: Mapping[str, object],
    tables: Mapping[str, Sequence[Row]],
) -> str:
    """Render an object with the members of `head`, then the rows of `tables`, in the form of audit.json.

    Raises ValueError for a value that JSON cannot represent.
    """
    return "".join(_render_parts(head, tables, lambda table: in_order(table, tables[table]), dict))


def _render_parts(
    head: Mapping[str, object],
    tables: Iterable[str],
    texts_of: Callable[[str], Iterable[str]],
    lists: Callable[[], Mapping[str, Iterable[object]]],
) -> Iterator[str]:
    """Yield the members of `head`, then the tables with the rows from `texts_of`, then the arrays from `lists` (called last),
    an item a line."""
    yield f'{{\n"schema_version": {SCHEMA_VERSION}'
    for name, value in head.items():
        yield f',\n"{name}": {render_value(value, name)}'
    for table in tables:
        yield from _array(table, texts_of(table))
    for name, items in lists().items():
        yield from _array(name, (render_value(item, name) for item in items))
    yield "\n}\n"


def _array(name: str, texts: Iterable[str]) -> Iterator[str]:
    yield f',\n"{name}": ['
    texts = iter(texts)
    before = "\n"
    while some := list(islice(texts, _AT_ONCE)):
        yield before + ",\n".join(some)
        before = ",\n"
    yield "]" if before == "\n" else "\n]"


def _ordered(audit: Mapping[str, object]) -> dict[str, object]:
    """The audit with its maps sorted by key: the engine returns map entries in any order."""

    def sort(value: object) -> object:
        return {key: sort(value[key]) for key in sorted(value)} if isinstance(value, Mapping) else value

    return {key: sort(value) for key, value in audit.items()}


def _all_in_order(results: Results, table: str) -> Iterator[str]:
    """All rows of a table as text; only a part of the partitions is in memory at a time."""
    parts = (_keyed(table, part.table(table)) for part in results.parts((table,)))
    # The first part also has the rows of partitions that were not audited, which sort between the others.
    first = next(parts)
    return (text for _, text in heapq.merge(first, chain.from_iterable(parts)))


def in_order(table: str, rows: Sequence[Row]) -> Iterator[str]:
    """Return rows as text in the table's order; ties are broken by the text, so the order is deterministic."""
    return (text for _, text in _keyed(table, rows))


def texts_by_place(table: str, rows: Sequence[Row]) -> Mapping[TopicPartition, Sequence[str]]:
    """`in_order` of each partition's rows, all of which have one."""
    found: dict[TopicPartition, list[str]] = defaultdict(list)
    for ((_, topic), (_, partition), *_), text in _keyed(table, rows):
        found[TopicPartition(topic, partition)].append(text)
    return found


def _keyed(table: str, rows: Sequence[Row]) -> Iterator[tuple[SortKey, str]]:
    ordered = sort_rows(rows)
    steps = (ordered[start : start + _STEP] for start in range(0, len(ordered), _STEP))
    keyed = chain.from_iterable(zip(sort_keys(step), _render_rows(table, step)) for step in steps)
    for _, same in groupby(keyed, key=itemgetter(0)):
        yield from sorted(same)


def _render_rows(table: str, rows: Sequence[Row]) -> list[str]:
    """Rows of one class as `render_value` of their dicts, column by column: of equal values one is rendered."""
    names = rows[0]._fields
    line = "{" + ", ".join(f'"{name}": %s' for name in names) + "}"
    columns = (render_column(values, partial(render_value, place=table)) for values in zip(*rows, strict=True))
    return list(map(line.__mod__, zip(*columns, strict=True)))


def render_value(content: object, place: str) -> str:
    """Render a value in one line. Raises ValueError, which names `place`, for a value that JSON cannot represent."""
    try:
        return _ENCODER.encode(content)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from error

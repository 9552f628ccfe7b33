"""Conditions on a data source's rows: those that Spark pushes down, and those that options set.

Each is accepted completely or not at all, so that Spark need not check again: a row whose column is null satisfies none.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

#: By the name of Spark's filter; all but In take numpy arrays too.
OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "EqualTo": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "In": lambda value, values: value in values,
}

_ARROW = {
    "EqualTo": "equal",
    "GreaterThan": "greater",
    "GreaterThanOrEqual": "greater_equal",
    "LessThan": "less",
    "LessThanOrEqual": "less_equal",
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on a column; `kind` is the name of Spark's filter, `value` its operand (for In a tuple)."""

    column: str
    kind: str
    value: Any

    def holds(self, value: Any) -> bool:
        """True if a column's value satisfies the condition."""
        return value is not None and OPERATORS[self.kind](value, self.value)


def take_filters(filters: Sequence[Filter], columns: Sequence[str]) -> tuple[list[Condition], list[Filter]]:
    """Spark's filters as conditions on `columns`, and those that are left to Spark."""
    taken, left = [], []
    for one in filters:
        kind = type(one).__name__
        column: tuple[str, ...] = getattr(one, "attribute", ())
        value = getattr(one, "value", None)
        if kind not in OPERATORS or len(column) != 1 or column[0] not in columns or value is None:
            left.append(one)
        else:
            taken.append(Condition(column[0], kind, tuple(value) if kind == "In" else value))
    return taken, left


def may_match(conditions: Sequence[Condition], known: Mapping[str, Any]) -> bool:
    """True if rows whose columns `known` have these values may satisfy all conditions."""
    return all(one.holds(known[one.column]) for one in conditions if one.column in known)


def matching_rows(batch: pa.RecordBatch, conditions: Sequence[Condition]) -> pa.RecordBatch:
    """The rows of `batch` that satisfy all conditions."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for one in conditions:
        column = batch[one.column]
        if one.kind == "In":
            mask = pc.is_in(column, pa.array([value for value in one.value if value is not None], column.type))
        else:
            mask = getattr(pc, _ARROW[one.kind])(column, pa.scalar(one.value, column.type))
        batch = batch.filter(mask)
    return batch

"""Suites and Actions from files: the built-in ones, then the user's, parsed strictly and merged.

Needs no Great Expectations, so that a wrong file is reported before anything starts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files

from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.errors import UsageError
from replica_audit.schema import FACT_TABLES, REPORT_TABLES
from replica_audit.yaml_file import PlacedMapping, parse_yaml_mapping, parse_yaml_text

#: Severities that a file may name, as severities of findings; Great Expectations' `warning` is our medium.
SEVERITY_NAMES: Mapping[str, str] = {
    "critical": "critical",
    "high": "high",
    "medium": "medium",
    "warning": "medium",
    "low": "low",
    "info": "info",
}

#: Tables that a suite may check.
CHECKED_TABLES = (*FACT_TABLES, *(name for name in REPORT_TABLES if name != "quality"), *BRONZE_TABLES)

_SUITE_KEYS = {"name", "table", "expectations"}
_EXPECTATION_KEYS = {"name", "type", "kwargs", "severity", "description", "enabled"}
_VARIABLE = re.compile(r"\$\{(\w+)\}|(?<!\\)\$([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class ExpectationSpec:
    """One expectation: `type` and `kwargs` are Great Expectations' own, `severity` is that of findings."""

    name: str
    type: str
    kwargs: Mapping[str, object] = field(default_factory=dict)
    severity: str = "critical"
    description: str | None = None
    enabled: bool = True
    origin: str = ""
    """Place in a file, for errors: file, line, suite and name."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Expectations on one table; `own`: a user's file added or changed one.

    Such a suite is checked on Spark; the built-in ones, which see few rows, on pandas in this process.
    """

    name: str
    table: str
    expectations: tuple[ExpectationSpec, ...]
    own: bool = False


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """One Action: its settings as Great Expectations stores them, including `type` and `name`."""

    name: str
    type: str
    settings: Mapping[str, object]
    origin: str
    """Place in a file, for errors, like `ExpectationSpec.origin`."""


@dataclass(frozen=True, slots=True)
class QualityPlan:
    """The suites to check, and the Actions to run on the outcome."""

    suites: tuple[Suite, ...]
    actions: tuple[ActionSpec, ...] = ()

    @property
    def needs_spark(self) -> bool:
        """True if a suite is checked on Spark."""
        return any(suite.own for suite in self.suites)


def load_plan(paths: Iterable[str] = ()) -> QualityPlan:
    """The built-in suites, extended by the files at `paths` in their order. Raises UsageError with file and place."""
    builtin = files(__package__).joinpath("suites.yaml").read_text(encoding="utf-8")
    plan = _parse(parse_yaml_text(builtin, "suites.yaml"), "suites.yaml")
    for path in paths:
        plan = _extend(plan, _parse(parse_yaml_mapping(path, "suites"), path), path)
    kept = (
        replace(suite, expectations=tuple(one for one in suite.expectations if one.enabled)) for suite in plan.suites
    )
    return replace(plan, suites=tuple(suite for suite in kept if suite.expectations))


def _extend(plan: QualityPlan, own: QualityPlan, path: str) -> QualityPlan:
    suites = {suite.name: suite for suite in plan.suites}
    for suite in own.suites:
        known = suites.get(suite.name)
        if known is None:
            suites[suite.name] = replace(suite, own=True)
            continue
        if known.table != suite.table:
            raise UsageError(
                f"{path}: suite {suite.name} looks at table {known.table}, not {suite.table}: choose another name"
            )
        merged = {one.name: one for one in (*known.expectations, *suite.expectations)}
        suites[suite.name] = replace(known, expectations=tuple(merged.values()), own=True)
    names = {action.name for action in plan.actions}
    for action in own.actions:
        if action.name in names:
            raise UsageError(f"{action.origin}: there are two actions named {action.name}")
    return QualityPlan(tuple(suites.values()), (*plan.actions, *own.actions))


def _parse(content: Mapping[object, object], path: str) -> QualityPlan:
    unknown = sorted(str(key) for key in content if key not in ("suites", "actions"))
    if unknown:
        raise UsageError(f"{path}: expected suites and actions, found {unknown[0]}")
    items = _list(content.get("suites"), f"{path}: suites")
    suites = tuple(_suite(item, path) for item in items)
    _check_once((suite.name, f"{_place(path, item)}: suite {suite.name}") for suite, item in zip(suites, items))
    actions = tuple(_action(item, path) for item in _list(content.get("actions"), f"{path}: actions"))
    _check_once((action.name, action.origin) for action in actions)
    return QualityPlan(suites, actions)


def _place(path: str, item: object) -> str:
    return f"{path}: line {item.line}" if isinstance(item, PlacedMapping) else path


def _suite(item: object, path: str) -> Suite:
    place = _place(path, item)
    item = _mapping(item, f"{place}: suite", _SUITE_KEYS)
    name = _text(item, "name", f"{place}: suite")
    where = f"{place}: suite {name}"
    table = _text(item, "table", where)
    if table not in CHECKED_TABLES:
        raise UsageError(f"{where}: no such table: {table}; known are {', '.join(CHECKED_TABLES)}")
    items = _list(item.get("expectations"), f"{where}: expectations")
    specs = tuple(_expectation(one, f"{_place(path, one)}: suite {name}", table) for one in items)
    _check_once((one.name, one.origin) for one in specs)
    return Suite(name, table, specs)


def _expectation(item: object, where: str, table: str) -> ExpectationSpec:
    item = _mapping(item, f"{where}: expectation", _EXPECTATION_KEYS)
    kind = _text(item, "type", f"{where}: expectation")
    kwargs = item.get("kwargs") or {}
    if not isinstance(kwargs, Mapping):
        raise UsageError(f"{where}: {kind}: kwargs: expected names and values, found {kwargs!r}")
    column = kwargs.get("column")
    name = item.get("name") or kind.removeprefix("expect_").replace("_", "-") + (f"-{column}" if column else "")
    where = f"{where}: expectation {name}"
    severity = item.get("severity", "critical")
    if not isinstance(severity, str) or severity not in SEVERITY_NAMES:
        raise UsageError(f"{where}: severity {severity!r} is not one of {', '.join(SEVERITY_NAMES)}")
    enabled = item.get("enabled", True)
    if not isinstance(enabled, bool):
        raise UsageError(f"{where}: enabled: expected true or false, found {enabled!r}")
    description = item.get("description")
    columns = table_columns(table)
    for key in ("column", "column_A", "column_B"):
        if key in kwargs and kwargs[key] not in columns:
            raise UsageError(f"{where}: table {table} has no column {kwargs[key]}; it has {', '.join(columns)}")
    told = None if description is None else str(description)
    return ExpectationSpec(str(name), kind, dict(kwargs), SEVERITY_NAMES[severity], told, enabled, where)


def table_columns(table: str) -> list[str]:
    """Columns that an expectation on `table` may name; `place` is a row's place in words."""
    columns = FACT_TABLES.get(table) or REPORT_TABLES.get(table) or BRONZE_TABLES[table]
    return list(dict.fromkeys(["place", *(column.name for column in columns)]))


def _action(item: object, path: str) -> ActionSpec:
    place = _place(path, item)
    settings = _mapping(item, f"{place}: action", None)
    name = _text(settings, "name", f"{place}: action")
    where = f"{place}: action {name}"
    kind = _text(settings, "type", where)
    for variable in sorted(_variables(settings)):
        if variable not in os.environ:
            raise UsageError(f"{where}: the environment variable {variable} is not set")
    return ActionSpec(name, kind, settings, where)


def _variables(value: object) -> Iterator[str]:
    if isinstance(value, str):
        for found in _VARIABLE.finditer(value):
            yield found[1] or found[2]
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _variables(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _variables(part)


def _mapping(item: object, where: str, known: set[str] | None) -> dict[str, object]:
    if not isinstance(item, Mapping):
        raise UsageError(f"{where}: expected keys such as name, found {item!r}")
    unknown = sorted(str(key) for key in item if known is not None and key not in known)
    if unknown:
        raise UsageError(f"{where}: {unknown[0]} is not one of {', '.join(sorted(known or ()))}")
    return dict(item)


def _list(value: object, where: str) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise UsageError(f"{where}: expected a list, found {value!r}")
    return value


def _text(item: Mapping[str, object], key: str, where: str) -> str:
    value = item.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where}: {key}: expected text, found {value!r}")
    return value


def _check_once(named: Iterable[tuple[str, str]]) -> None:
    """Raise UsageError if a name occurs twice; each comes with the phrase that the error uses for it."""
    seen: set[str] = set()
    for name, what in named:
        if name in seen:
            raise UsageError(f"{what} is there twice")
        seen.add(name)

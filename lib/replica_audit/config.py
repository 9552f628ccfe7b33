"""Settings of a run: what can be set, its default, and which source won (flag, environment, file, default)."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from replica_audit.errors import UsageError
from replica_audit.model import LEADERSHIP_SOURCES, PROTOCOLS

ENVIRONMENT_PREFIX = "REPLICA_AUDIT_"

#: So many days ago is still a date.
_GREATEST_DAYS = 365_000
_GREATEST_COUNT = 999_999_999

#: Levels of `--fail-on`, worst first.
FAIL_LEVELS = ("critical", "high", "medium", "low", "info", "never")

FORMATS = ("text", "json")

#: Variables with our prefix that set nothing: the configuration file itself.
OTHER_VARIABLES = ("CONFIG",)


def _setting(
    default: Any,
    text: str,
    *,
    key: str | None = None,
    choices: tuple[str, ...] = (),
    file_only: bool = False,
    least: int | None = None,
) -> Any:
    metadata = {"help": text, "key": key, "choices": choices, "file_only": file_only, "least": least}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a user can set; relative paths are relative to the working directory."""

    warehouse: str = _setting("replica-audit-warehouse", "directory or URI of the Delta tables")
    catalog: str | None = _setting(None, "NAME.SCHEMA of the Delta tables in a catalog, not in a warehouse")
    report: str = _setting("replica-audit-report", "directory that the report is written to")
    topics: tuple[str, ...] = _setting((), "shell pattern on the whole topic name, case-sensitive", key="topic")
    leadership: str | None = _setting(None, "JSON file that says who leads, where the snapshot does not")
    leadership_source: str | None = _setting(
        None, "the one source that is asked who leads, whatever others say", choices=LEADERSHIP_SOURCES
    )
    full: bool = _setting(False, "scan every segment, also those that an earlier ingest of the cluster knows")
    protocol: str | None = _setting(None, "truncation that findings and verdicts use", choices=PROTOCOLS)
    kafka_version: str | None = _setting(None, "version of the brokers, for rules that changed between versions")
    since: str | None = _setting(None, "id of an earlier audit: compare above what it verified")
    fail_on: str = _setting("high", "least severity that makes the exit status 1", choices=FAIL_LEVELS)
    baseline: str | None = _setting(None, "audit.json of an earlier run: findings that are in it are not new")
    accept: str | None = _setting(None, "YAML file of accepted findings: by id, with reason and until when")
    format: str = _setting("text", "what is written to stdout", choices=FORMATS)
    quality: bool = _setting(True, "check the quality of the answers with Great Expectations")
    suites: tuple[str, ...] = _setting((), "YAML file with quality suites and Actions of your own")
    keep_days: int | None = _setting(None, "days after which an audit is removed from the warehouse", least=1)
    keep_audits: int | None = _setting(None, "audits of a cluster that the warehouse keeps", least=1)
    time_travel_days: int = _setting(365, "days for which replaced versions of new tables can be read", least=1)
    quiet: bool = _setting(False, "no progress on stderr")
    piece_batches: int = _setting(
        100_000, "batches of one partition that one task compares; more are compared in pieces", file_only=True, least=1
    )
    driver_rows: int = _setting(
        250_000, "report rows that tasks hand to the driver; of more they write the tables", file_only=True, least=1
    )
    spark: Mapping[str, str] = _setting({}, "Spark settings; spark-submit's own go first", file_only=True)


def key_of(name: str) -> str:
    """The key of the field `name` in a configuration file; in capitals after the prefix it is the variable."""
    return next(item.metadata["key"] or item.name for item in fields(Settings) if item.name == name)


#: Field name by key, in the order of the dataclass.
KEYS: dict[str, str] = {key_of(item.name): item.name for item in fields(Settings)}

_FIELDS = {item.name: item for item in fields(Settings)}


@dataclass(frozen=True, slots=True)
class Resolved:
    """Effective settings, and for each field where its value comes from."""

    settings: Settings
    origins: Mapping[str, str]


def resolve_settings(
    flags: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    config_file: str | None = None,
    source: str = "flag",
) -> Resolved:
    """The effective settings: flag before environment before configuration file before default.

    `flags` maps field names to the values of flags that were given; `source` is what they are called, flag or argument.
    Raises UsageError for an unknown key or variable, a value that its setting cannot have, and a configuration file that
    cannot be read.
    """
    environment = os.environ if environment is None else environment
    file_origin = "--config"
    if config_file is None:
        config_file = environment.get(ENVIRONMENT_PREFIX + "CONFIG") or None
        file_origin = ENVIRONMENT_PREFIX + "CONFIG"
    sources: list[dict[str, tuple[Any, str]]] = [
        {name: (value, f"{source} {_flag_of(name) if source == 'flag' else name}") for name, value in flags.items()},
        _from_environment(environment),
        _from_file(config_file, file_origin) if config_file else {},
    ]
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for found in sources:
        # A warehouse and a catalog name the same thing: whichever comes from the stronger source decides alone.
        if "warehouse" in found and "catalog" in found and found["catalog"][0] is not None:
            raise UsageError(f"warehouse and catalog are both set by {found['catalog'][1]}: give one of them")
        is_placed = bool({"warehouse", "catalog"} & set(values))
        for name, (value, origin) in found.items():
            if is_placed and name in ("warehouse", "catalog"):
                continue
            if name not in values:
                values[name] = _checked(name, value, origin)
                origins[name] = origin
    settings = Settings(**values)
    return Resolved(settings, {item.name: origins.get(item.name, "default") for item in fields(Settings)})


def nearest(name: str, known: Iterable[str]) -> str:
    """Words that name what `name` may have been meant for."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def _flag_of(name: str) -> str:
    return "--no-quality" if name == "quality" else "--" + key_of(name).replace("_", "-")


def _from_environment(environment: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    known = {ENVIRONMENT_PREFIX + key.upper(): name for key, name in KEYS.items() if not _file_only(name)}
    others = {ENVIRONMENT_PREFIX + name for name in OTHER_VARIABLES}
    found: dict[str, tuple[Any, str]] = {}
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in others:
            continue
        if variable not in known:
            raise UsageError(f"environment variable {variable}: no such setting; {nearest(variable, known)}")
        text = environment[variable]
        name = known[variable]
        value: Any = text
        if isinstance(_FIELDS[name].default, bool):
            value = _parse_flag(text, variable)
        elif isinstance(_FIELDS[name].default, tuple):
            value = [part.strip() for part in text.split(",") if part.strip()]
        elif _FIELDS[name].default is None and not text:
            value = None
        found[name] = (value, f"environment {variable}")
    return found


def _from_file(path: str, origin: str) -> dict[str, tuple[Any, str]]:
    from replica_audit.yaml_file import parse_yaml_mapping  # PyYAML only where a file is given

    content = parse_yaml_mapping(path, origin)
    found = {}
    for key, value in content.items():
        name = KEYS.get(str(key).replace("-", "_"))
        if name is None:
            raise UsageError(f"{path}: {key}: no such setting; {nearest(str(key), KEYS)}")
        if name in found:
            raise UsageError(f"{path}: {key} is set twice")
        found[name] = (value, f"file {path}")
    return found


def _file_only(name: str) -> bool:
    return _FIELDS[name].metadata["file_only"]


def _parse_flag(text: str, origin: str) -> bool:
    lowered = text.strip().lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off"):
        return False
    raise UsageError(f"{origin}: expected true or false, found {text!r}")


def _checked(name: str, value: Any, origin: str) -> Any:
    """`value` as the field's type; raises UsageError naming where it was set and what would be right."""
    item = _FIELDS[name]
    where = f"{key_of(name)} ({origin})"
    if isinstance(item.default, bool):
        if not isinstance(value, bool):
            raise UsageError(f"{where}: expected true or false, found {value!r}")
        return value
    if isinstance(item.default, tuple):
        values = [value] if isinstance(value, str) else value
        if values is None:
            return ()
        if not isinstance(values, (list, tuple)) or not all(isinstance(part, str) and part for part in values):
            raise UsageError(f"{where}: expected a list of texts, found {value!r}")
        return tuple(values)
    if name == "spark":
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise UsageError(f"{where}: expected settings such as spark.driver.memory: 4g, found {value!r}")
        return {str(key): _spark_text(part, f"{where}: {key}") for key, part in value.items()}
    if value is None and item.default is None:
        return None
    if item.metadata["least"] is not None:
        greatest = _GREATEST_DAYS if name.endswith("_days") else _GREATEST_COUNT
        return _checked_number(value, item.metadata["least"], greatest, where)
    if not isinstance(value, str) or not value:
        hint = " (put it in quotes)" if isinstance(value, (int, float)) else ""
        raise UsageError(f"{where}: expected text, found {value!r}{hint}")
    choices = item.metadata["choices"]
    if choices and value not in choices:
        raise UsageError(f"{where}: {value!r} is not one of {', '.join(choices)}; {nearest(value, choices)}")
    if name == "kafka_version" and not re.fullmatch(r"\d+\.\d+(\.\d+){0,2}", value):
        raise UsageError(f"{where}: {value!r} is not a Kafka version such as 3.9 or 3.9.1")
    if name == "catalog" and not re.fullmatch(r"[^.\s`]+\.[^.\s`]+", value):
        raise UsageError(f"{where}: expected NAME.SCHEMA, found {value!r}")
    return value


def _checked_number(value: Any, least: int, greatest: int, where: str) -> int:
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{where}: expected a whole number of {least} or more, found {value!r}")
    if value > greatest:
        raise UsageError(f"{where}: expected a whole number of {greatest} or less, found {value!r}")
    return value


def _spark_text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise UsageError(f"{where}: expected a single value, found {value!r}")

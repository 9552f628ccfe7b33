"""Settings of a run: what can be set, what a value may be, its default, and which source won (flag, environment, file, default)."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, get_type_hints

from replica_audit.errors import UsageError
from replica_audit.literals import LEADERSHIP_SOURCES, PROTOCOLS

GREATEST_COUNT = 999_999_999


def nearest(name: str, known: Iterable[str]) -> str:
    """Words that name what `name` may have been meant for."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What one setting is for, and where it can be set."""

    help: str
    key: str | None = None
    """In a configuration file, where it is not the field's name."""
    file_only: bool = False

    def of_text(self, text: str, origin: str) -> Any:
        """The value that the text of a variable stands for; raises UsageError where it stands for none."""
        return text

    def checked(self, value: Any, where: str) -> Any:
        """`value` as the setting's type; raises UsageError naming `where` it was set and what would be right."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag(Setting):
    """True or false."""

    def of_text(self, text: str, origin: str) -> bool:
        lowered = text.strip().lower()
        if lowered in ("1", "true", "yes", "on"):
            return True
        if lowered in ("0", "false", "no", "off"):
            return False
        raise UsageError(f"{origin}: expected true or false, found {text!r}")

    def checked(self, value: Any, where: str) -> bool:
        if not isinstance(value, bool):
            raise UsageError(f"{where}: expected true or false, found {value!r}")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRule(Setting):
    """What a text must be that is not empty: any, one of `choices`, or one that fits a pattern."""

    choices: tuple[str, ...] = ()
    pattern: str | None = None
    wrong: str = ""
    """What is said of a text that does not fit; {value} is the text."""

    def checked_text(self, value: Any, where: str) -> str:
        """`value`, where it is such a text; raises UsageError."""
        if not isinstance(value, str) or not value:
            hint = " (put it in quotes)" if isinstance(value, (int, float)) else ""
            raise UsageError(f"{where}: expected text, found {value!r}{hint}")
        if self.choices and value not in self.choices:
            listed = ", ".join(self.choices)
            raise UsageError(f"{where}: {value!r} is not one of {listed}; {nearest(value, self.choices)}")
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            raise UsageError(f"{where}: {self.wrong.format(value=repr(value))}")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(TextRule):
    """One text that is not empty."""

    def checked(self, value: Any, where: str) -> str:
        return self.checked_text(value, where)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOrNone(TextRule):
    """A text, or None; the empty text of a variable is None too."""

    def of_text(self, text: str, origin: str) -> str | None:
        return text or None

    def checked(self, value: Any, where: str) -> str | None:
        return None if value is None else self.checked_text(value, where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts(Setting):
    """Any number of texts, in their order; of a variable those between commas."""

    def of_text(self, text: str, origin: str) -> list[str]:
        return [part.strip() for part in text.split(",") if part.strip()]

    def checked(self, value: Any, where: str) -> tuple[str, ...]:
        if value is None:
            return ()
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, (list, tuple)) or not all(isinstance(part, str) and part for part in values):
            raise UsageError(f"{where}: expected a list of texts, found {value!r}")
        return tuple(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberRule(Setting):
    """What a whole number must be, as such or in digits."""

    least: int = 1
    greatest: int = GREATEST_COUNT

    def checked_number(self, value: Any, where: str) -> int:
        """`value`, where it is such a number; raises UsageError."""
        if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < self.least:
            raise UsageError(f"{where}: expected a whole number of {self.least} or more, found {value!r}")
        if value > self.greatest:
            raise UsageError(f"{where}: expected a whole number of {self.greatest} or less, found {value!r}")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(NumberRule):
    """A whole number."""

    def checked(self, value: Any, where: str) -> int:
        return self.checked_number(value, where)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberOrNone(NumberRule):
    """A whole number, or None; the empty text of a variable is None too."""

    def of_text(self, text: str, origin: str) -> str | None:
        return text or None

    def checked(self, value: Any, where: str) -> int | None:
        return None if value is None else self.checked_number(value, where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties(Setting):
    """Names with single values, as Spark has settings; values become texts."""

    def checked(self, value: Any, where: str) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise UsageError(f"{where}: expected settings such as spark.driver.memory: 4g, found {value!r}")
        return {str(key): _property_text(part, f"{where}: {key}") for key, part in value.items()}


def _property_text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise UsageError(f"{where}: expected a single value, found {value!r}")


ENVIRONMENT_PREFIX = "REPLICA_AUDIT_"
#: Most days that can be subtracted from today.
_GREATEST_DAYS = 365_000
#: Levels of `--fail-on`, worst first.
FAIL_LEVELS = ("critical", "high", "medium", "low", "info", "never")
FORMATS = ("text", "json")
#: Variables with our prefix that set nothing: the configuration file itself.
OTHER_VARIABLES = ("CONFIG",)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a user can set; relative paths are relative to the working directory."""

    warehouse: Annotated[str, Text(help="directory or URI of the Delta tables")] = "replica-audit-warehouse"
    catalog: Annotated[
        str | None,
        TextOrNone(
            help="NAME.SCHEMA of the Delta tables in a catalog, not in a warehouse",
            pattern=r"[^.\s`]+\.[^.\s`]+",
            wrong="expected NAME.SCHEMA, found {value}",
        ),
    ] = None
    report: Annotated[str, Text(help="directory that the report is written to")] = "replica-audit-report"
    topics: Annotated[
        tuple[str, ...], Texts(help="shell pattern on the whole topic name, case-sensitive", key="topic")
    ] = ()
    leadership: Annotated[str | None, TextOrNone(help="JSON file that says who leads, where the snapshot does not")] = (
        None
    )
    leadership_source: Annotated[
        str | None,
        TextOrNone(help="the one source that is asked who leads, whatever others say", choices=LEADERSHIP_SOURCES),
    ] = None
    full: Annotated[bool, Flag(help="scan every segment, also those that an earlier ingest of the cluster knows")] = (
        False
    )
    protocol: Annotated[str | None, TextOrNone(help="truncation that findings and verdicts use", choices=PROTOCOLS)] = (
        None
    )
    kafka_version: Annotated[
        str | None,
        TextOrNone(
            help="version of the brokers, for rules that changed between versions",
            pattern=r"\d+\.\d+(\.\d+){0,2}",
            wrong="{value} is not a Kafka version such as 3.9 or 3.9.1",
        ),
    ] = None
    since: Annotated[str | None, TextOrNone(help="id of an earlier audit: compare above what it verified")] = None
    fail_on: Annotated[str, Text(help="least severity that makes the exit status 1", choices=FAIL_LEVELS)] = "high"
    baseline: Annotated[
        str | None, TextOrNone(help="audit.json of an earlier run: findings that are in it are not new")
    ] = None
    accept: Annotated[
        str | None, TextOrNone(help="YAML file of accepted findings: by id, with reason and until when")
    ] = None
    format: Annotated[str, Text(help="what is written to stdout", choices=FORMATS)] = "text"
    quality: Annotated[bool, Flag(help="check the quality of the answers with Great Expectations")] = True
    suites: Annotated[tuple[str, ...], Texts(help="YAML file with quality suites and Actions of your own")] = ()
    keep_days: Annotated[
        int | None,
        NumberOrNone(help="days after which an audit is removed from the warehouse", greatest=_GREATEST_DAYS),
    ] = None
    keep_audits: Annotated[int | None, NumberOrNone(help="audits of a cluster that the warehouse keeps")] = None
    time_travel_days: Annotated[
        int, Number(help="days for which replaced versions of new tables can be read", greatest=_GREATEST_DAYS)
    ] = 365
    quiet: Annotated[bool, Flag(help="no progress on stderr")] = False
    piece_batches: Annotated[
        int,
        Number(help="no longer has an effect", file_only=True),
    ] = 100_000
    driver_rows: Annotated[
        int,
        Number(help="report rows that tasks hand to the driver; of more they write the tables", file_only=True),
    ] = 250_000
    spark: Annotated[
        Mapping[str, str], Properties(help="Spark settings; spark-submit's own go first", file_only=True)
    ] = field(default_factory=dict)


#: What each field of `Settings` is, by its name, in the order of the dataclass.
SETTINGS: dict[str, Setting] = {
    name: kind.__metadata__[0] for name, kind in get_type_hints(Settings, include_extras=True).items()
}


def key_of(name: str) -> str:
    """The key of the field `name` in a configuration file; in capitals after the prefix it is the variable."""
    return SETTINGS[name].key or name


#: Field name by key, in the order of the dataclass.
KEYS: dict[str, str] = {key_of(name): name for name in SETTINGS}


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
                values[name] = SETTINGS[name].checked(value, f"{key_of(name)} ({origin})")
                origins[name] = origin
    settings = Settings(**values)
    return Resolved(settings, {name: origins.get(name, "default") for name in SETTINGS})


def _flag_of(name: str) -> str:
    return "--no-quality" if name == "quality" else "--" + key_of(name).replace("_", "-")


def _from_environment(environment: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    known = {ENVIRONMENT_PREFIX + key.upper(): name for key, name in KEYS.items() if not SETTINGS[name].file_only}
    others = {ENVIRONMENT_PREFIX + name for name in OTHER_VARIABLES}
    found: dict[str, tuple[Any, str]] = {}
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in others:
            continue
        if variable not in known:
            raise UsageError(f"environment variable {variable}: no such setting; {nearest(variable, known)}")
        name = known[variable]
        found[name] = (SETTINGS[name].of_text(environment[variable], variable), f"environment {variable}")
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

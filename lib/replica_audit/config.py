"""The settings of a run: each with its kind, default, option and help; resolved from flags, environment, file and defaults."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, get_type_hints

from replica_audit.errors import UsageError
from replica_audit.literals import LEADERSHIP_SOURCES, PROTOCOLS

GREATEST_COUNT = 999_999_999


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a mistyped `name`: the closest of `known`, else all of them."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: its help, where it can be set, and how its option is shown."""

    help: str
    key: str | None = None
    """Key in a configuration file, if it differs from the field's name."""
    file_only: bool = False
    group: str = "settings and output"
    """Heading under which help lists the option."""
    commands: tuple[str, ...] | None = None
    """Commands on which the option has an effect, None for all. Other commands accept it, but hide it in their help."""
    metavar: str | None = None
    letter: str | None = None
    """The option's one-letter name, such as -q."""
    default: str | None = None
    """The default in words, if the value is not telling."""

    def of_text(self, text: str, origin: str) -> object:
        """The value for the text of an environment variable. Raises UsageError for an invalid text."""
        return text

    def checked(self, value: object, where: str) -> object:
        """`value` as the setting's type. Raises UsageError with `where` it was set and what was expected."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag(Setting):
    """True or false."""

    help_off: str | None = None
    """Help of the option `--no-…` of a flag that is on by default."""

    def of_text(self, text: str, origin: str) -> bool:
        lowered = text.strip().lower()
        if lowered in ("1", "true", "yes", "on"):
            return True
        if lowered in ("0", "false", "no", "off"):
            return False
        raise UsageError(f"{origin}: expected true or false, found {text!r}")

    def checked(self, value: object, where: str) -> bool:
        if not isinstance(value, bool):
            raise UsageError(f"{where}: expected true or false, found {value!r}")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Setting):
    """A text that is not empty: any, one of `choices`, or one that matches `pattern`."""

    choices: tuple[str, ...] = ()
    more_choices: tuple[str, ...] = ()
    """Further choices of the commands in `more_in`."""
    more_in: tuple[str, ...] = ()
    pattern: str | None = None
    wrong: str = ""
    """Error for a text that does not match; {value} is the text."""

    def choices_of(self, command: str) -> tuple[str, ...]:
        return (*self.choices, *self.more_choices) if command in self.more_in else self.choices

    def checked(self, value: object, where: str) -> str:
        if not isinstance(value, str) or not value:
            hint = " (put it in quotes)" if isinstance(value, (int, float)) else ""
            raise UsageError(f"{where}: expected text, found {value!r}{hint}")
        known = (*self.choices, *self.more_choices)
        if known and value not in known:
            raise UsageError(f"{where}: {value!r} is not one of {', '.join(known)}; {nearest(value, known)}")
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            raise UsageError(f"{where}: {self.wrong.format(value=repr(value))}")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts(Setting):
    """Any number of texts, in order; comma-separated in an environment variable."""

    def of_text(self, text: str, origin: str) -> list[str]:
        return [part.strip() for part in text.split(",") if part.strip()]

    def checked(self, value: object, where: str) -> tuple[str, ...]:
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, (list, tuple)) or not all(isinstance(part, str) and part for part in values):
            raise UsageError(f"{where}: expected a list of texts, found {value!r}")
        return tuple(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Setting):
    """An integer from 1 to `greatest`, as a number or in digits."""

    greatest: int = GREATEST_COUNT

    def checked(self, value: object, where: str) -> int:
        if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"{where}: expected a whole number of 1 or more, found {value!r}")
        if value > self.greatest:
            raise UsageError(f"{where}: expected a whole number of {self.greatest} or less, found {value!r}")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties(Setting):
    """Names with single values, like Spark's own settings; values are converted to text."""

    def checked(self, value: object, where: str) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise UsageError(f"{where}: expected settings such as spark.driver.memory: 4g, found {value!r}")
        return {str(key): _property_text(part, f"{where}: {key}") for key, part in value.items()}


def _property_text(value: object, where: str) -> str:
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
#: Further formats of commands that can print one table.
TABLE_FORMATS = ("csv", "markdown")
COLORS = ("auto", "always", "never")
#: Variables with the prefix that name no setting: CONFIG is the configuration file.
OTHER_VARIABLES = ("CONFIG",)

#: Headings of a command's help, in order.
GROUPS = ("input", "audit", "answer", "quality checks", "warehouse and report", "settings and output")

_INGESTING = ("run", "ingest")
_READING = ("run", "ingest", "show", "elect", "verify", "salvage")
_AUDITING = ("run", "audit", "show", "elect", "verify", "salvage")
_VERIFYING = ("run", "audit", "show", "elect")
_TIERED = ("run", "audit", "show", "elect", "salvage")
_ANSWERING = ("run", "audit", "quality", "report", "show")
_KEEPING = ("run", "history")
_TABULAR = ("show", "report", "history", "verify")
_WITH_WAREHOUSE = ("run", "ingest", "audit", "quality", "report", "history")
_PLACES = "warehouse and report"


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings; relative paths are relative to the working directory."""

    warehouse: Annotated[
        str,
        Text(
            help="directory or URI of the Delta tables",
            group=_PLACES,
            commands=(*_WITH_WAREHOUSE, "explain"),
            metavar="DIR",
        ),
    ] = "replica-audit-warehouse"
    catalog: Annotated[
        str | None,
        Text(
            help="NAME.SCHEMA of the Delta tables in a catalog, instead of a warehouse",
            pattern=r"[^.\s`]+\.[^.\s`]+",
            wrong="expected NAME.SCHEMA, found {value}",
            group=_PLACES,
            commands=_WITH_WAREHOUSE,
            metavar="NAME.SCHEMA",
        ),
    ] = None
    report: Annotated[
        str,
        Text(
            help="directory that the report is written to",
            group=_PLACES,
            commands=("run", "quality", "report", "explain"),
            metavar="DIR",
        ),
    ] = "replica-audit-report"
    report_url: Annotated[
        str | None,
        Text(
            help="address at which the report is published, for alerts",
            pattern=r"[a-z][a-z0-9+.-]*://\S+",
            wrong="{value} is not an address such as https://ci.example/audit/index.html",
            group=_PLACES,
            commands=("run", "report"),
            metavar="URL",
            default="the file's own",
        ),
    ] = None
    topics: Annotated[
        tuple[str, ...],
        Texts(
            help="shell pattern for the whole topic name, case-sensitive",
            key="topic",
            group="input",
            commands=(*_READING, "history", "observe", "restore"),
            metavar="GLOB",
        ),
    ] = ()
    leadership: Annotated[
        str | None,
        Text(
            help="JSON file that says who leads, for a snapshot that does not",
            group="input",
            commands=_READING,
            metavar="FILE",
        ),
    ] = None
    leadership_source: Annotated[
        str | None,
        Text(
            help="take leaders and ISRs from this source only",
            choices=LEADERSHIP_SOURCES,
            group="input",
            commands=_READING,
            metavar="NAME",
        ),
    ] = None
    remote: Annotated[
        str | None,
        Text(
            help="directory or URI of the remote store of tiered topics, which is listed",
            group="input",
            commands=_TIERED,
            metavar="URI",
            default="what the snapshot has a listing of",
        ),
    ] = None
    verify_remote: Annotated[
        bool,
        Flag(
            help="read the segments in the remote store, too, and check their batches (needs --remote)",
            group="input",
            commands=_VERIFYING,
        ),
    ] = False
    full: Annotated[
        bool,
        Flag(
            help="scan every segment, even those known from an earlier ingest of the cluster",
            group="input",
            commands=_INGESTING,
        ),
    ] = False
    protocol: Annotated[
        str | None,
        Text(
            help="truncation protocol that findings and verdicts use",
            choices=PROTOCOLS,
            group="audit",
            commands=_AUDITING,
            metavar="NAME",
            default="that of --kafka-version or the manifest, else fetch",
        ),
    ] = None
    kafka_version: Annotated[
        str | None,
        Text(
            help="version of the brokers, for rules that differ between versions",
            pattern=r"\d+\.\d+(\.\d+){0,2}",
            wrong="{value} is not a Kafka version such as 3.9 or 3.9.1",
            group="audit",
            commands=(*_AUDITING, "quorum", "capture-plan"),
            metavar="V",
        ),
    ] = None
    since: Annotated[
        str | None,
        Text(
            help="id of an earlier audit, or its beginning: compare only above what it verified",
            group="audit",
            commands=("run", "audit"),
            metavar="AUDIT",
        ),
    ] = None
    fail_on: Annotated[
        str,
        Text(
            help="lowest severity that makes the exit status 1",
            choices=FAIL_LEVELS,
            group="answer",
            commands=_ANSWERING,
            metavar="LEVEL",
        ),
    ] = "high"
    baseline: Annotated[
        str | None,
        Text(
            help="audit.json of an earlier run: findings in it are not new",
            group="answer",
            commands=_ANSWERING,
            metavar="FILE",
        ),
    ] = None
    accept: Annotated[
        str | None,
        Text(
            help="YAML file of accepted findings: their ids, each with a reason and an end date",
            group="answer",
            commands=_ANSWERING,
            metavar="FILE",
        ),
    ] = None
    format: Annotated[
        str,
        Text(
            help="format of what is written to stdout",
            choices=FORMATS,
            more_choices=TABLE_FORMATS,
            more_in=_TABULAR,
            metavar="FORMAT",
        ),
    ] = "text"
    quality: Annotated[
        bool,
        Flag(
            help="check the quality of the answers with Great Expectations",
            help_off="skip the quality checks",
            group="quality checks",
            commands=("run",),
        ),
    ] = True
    suites: Annotated[
        tuple[str, ...],
        Texts(
            help="YAML file with quality suites and Actions of your own",
            group="quality checks",
            commands=("run", "quality"),
            metavar="FILE",
        ),
    ] = ()
    keep_days: Annotated[
        int | None,
        Number(
            help="days after which an audit is removed from the warehouse",
            greatest=_GREATEST_DAYS,
            group=_PLACES,
            commands=_KEEPING,
            metavar="N",
            default="all are kept",
        ),
    ] = None
    keep_audits: Annotated[
        int | None,
        Number(
            help="number of audits of a cluster that the warehouse keeps",
            group=_PLACES,
            commands=_KEEPING,
            metavar="N",
            default="all",
        ),
    ] = None
    time_travel_days: Annotated[
        int,
        Number(
            help="days for which replaced versions of new tables can be read",
            greatest=_GREATEST_DAYS,
            group=_PLACES,
            commands=("run", "ingest", "audit", "quality"),
            metavar="N",
        ),
    ] = 365
    color: Annotated[
        str,
        Text(
            help="whether text has colour; auto: on a terminal, unless NO_COLOR is set", choices=COLORS, metavar="WHEN"
        ),
    ] = "auto"
    quiet: Annotated[
        bool,
        Flag(
            help="no progress on stderr",
            letter="-q",
            commands=(
                *_INGESTING,
                "audit",
                "report",
                "history",
                "show",
                "elect",
                "verify",
                "salvage",
                "restore",
                "observe",
            ),
        ),
    ] = False
    driver_rows: Annotated[
        int,
        Number(
            help="most report rows that tasks return to the driver; beyond that they write the tables", file_only=True
        ),
    ] = 250_000
    spark: Annotated[
        Mapping[str, str],
        Properties(help="Spark settings; those given to spark-submit take precedence", file_only=True),
    ] = field(default_factory=dict)

    @property
    def has_retention(self) -> bool:
        """True if audits are removed after a time, or beyond a number."""
        return self.keep_days is not None or self.keep_audits is not None


DEFAULTS = Settings()

#: Kind of each field of `Settings`, by name, in the order of the dataclass.
SETTINGS: dict[str, Setting] = {
    name: kind.__metadata__[0] for name, kind in get_type_hints(Settings, include_extras=True).items()
}


def key_of(name: str) -> str:
    """Key of the field `name` in a configuration file; upper-cased after the prefix, its environment variable."""
    return SETTINGS[name].key or name


#: Field name by key, in the order of the dataclass.
KEYS: dict[str, str] = {key_of(name): name for name in SETTINGS}


def flag_of(name: str) -> str:
    """The option of the field `name`: `--no-…` for a flag that is on by default."""
    begin = "--no-" if getattr(DEFAULTS, name) is True else "--"
    return begin + key_of(name).replace("_", "-")


#: Settings that an answer depends on, besides the snapshot.
_ANSWERS_REST_ON = ("topics", "leadership", "leadership_source", "remote", "verify_remote", "protocol", "kafka_version")


def given_words(settings: Settings) -> dict[str, list[str]]:
    """Options, as words of a command line, of the settings that an answer depends on, by field; defaults are left out."""
    found = {}
    for name in _ANSWERS_REST_ON:
        value = getattr(settings, name)
        if value != getattr(DEFAULTS, name):
            values = value if isinstance(value, tuple) else (value,)
            flag = flag_of(name)
            found[name] = [flag] if value is True else [word for one in values for word in (flag, one)]
    return found


@dataclass(frozen=True, slots=True)
class Resolved:
    """Effective settings, and the source of each field's value."""

    settings: Settings
    origins: Mapping[str, str]


#: Values by field name, each with its source in words.
_Found = dict[str, tuple[object, str]]


def resolve_settings(
    flags: Mapping[str, object],
    environment: Mapping[str, str] | None = None,
    config_file: str | None = None,
    source: str = "flag",
) -> Resolved:
    """The effective settings: flag before environment before configuration file before default.

    `flags` has the values of the flags that were given, by field name; `source` is what errors call them, flag or argument.
    Raises UsageError for an unknown key or variable, a value of the wrong kind, and a configuration file that cannot be read.
    """
    environment = os.environ if environment is None else environment
    file_origin = "--config"
    if config_file is None:
        config_file = environment.get(ENVIRONMENT_PREFIX + "CONFIG") or None
        file_origin = ENVIRONMENT_PREFIX + "CONFIG"
    sources: list[_Found] = [
        {name: (value, f"{source} {flag_of(name) if source == 'flag' else name}") for name, value in flags.items()},
        _from_environment(environment),
        _from_file(config_file, file_origin) if config_file else {},
    ]
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for found in sources:
        # Warehouse and catalog are alternatives: the stronger source decides alone.
        if "warehouse" in found and "catalog" in found and found["catalog"][0] is not None:
            raise UsageError(f"warehouse and catalog are both set by {found['catalog'][1]}: give one of them")
        is_placed = bool({"warehouse", "catalog"} & set(values))
        for name, (value, origin) in found.items():
            if is_placed and name in ("warehouse", "catalog"):
                continue
            if name not in values:
                values[name] = _checked(name, value, f"{key_of(name)} ({origin})")
                origins[name] = origin
    settings = Settings(**values)  # type: ignore[arg-type]  # each value was checked by its setting
    return Resolved(settings, {name: origins.get(name, "default") for name in SETTINGS})


def _checked(name: str, value: object, where: str) -> object:
    """A setting's value, checked; None (in a configuration file `key:`) stands for a default that is None or empty."""
    default = getattr(DEFAULTS, name)
    return default if value is None and default in (None, (), {}) else SETTINGS[name].checked(value, where)


def check_choices(command: str, resolved: Resolved) -> None:
    """Raise UsageError for a value from a file or the environment that `command` does not support."""
    for name, setting in SETTINGS.items():
        value = getattr(resolved.settings, name)
        if isinstance(setting, Text) and setting.more_choices and value not in setting.choices_of(command):
            listed = ", ".join(setting.choices_of(command))
            raise UsageError(f"{key_of(name)} ({resolved.origins[name]}): {command} has {listed}, and no {value}")


def _from_environment(environment: Mapping[str, str]) -> _Found:
    known = {ENVIRONMENT_PREFIX + key.upper(): name for key, name in KEYS.items() if not SETTINGS[name].file_only}
    others = {ENVIRONMENT_PREFIX + name for name in OTHER_VARIABLES}
    found: _Found = {}
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in others:
            continue
        if variable not in known:
            raise UsageError(f"environment variable {variable}: no such setting; {nearest(variable, known)}")
        name = known[variable]
        text = environment[variable]
        is_none = not text and getattr(DEFAULTS, name) is None
        found[name] = (None if is_none else SETTINGS[name].of_text(text, variable), f"environment {variable}")
    return found


def _from_file(path: str, origin: str) -> _Found:
    from replica_audit.yaml_file import parse_yaml_mapping  # PyYAML is loaded only if a file is given

    content = parse_yaml_mapping(path, origin)
    found: _Found = {}
    for key, value in content.items():
        name = KEYS.get(str(key).replace("-", "_"))
        if name is None:
            raise UsageError(f"{path}: {key}: no such setting; {nearest(str(key), KEYS)}")
        if name in found:
            raise UsageError(f"{path}: {key} is set twice")
        found[name] = (value, f"file {path}")
    return found

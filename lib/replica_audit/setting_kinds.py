"""Kinds of settings: what a value may be, given as a flag, an argument, in a file, or as the text of a variable."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from replica_audit.errors import UsageError

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

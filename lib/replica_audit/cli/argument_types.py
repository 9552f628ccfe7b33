"""Types of argparse arguments; each refuses with ArgumentTypeError and says what was expected."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Sequence


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """A type that takes one of `choices`; the error for anything else names the closest one."""

    def check(text: str) -> str:
        if text not in choices:
            near = difflib.get_close_matches(text, choices, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(choices)}{hint}")
        return text

    return check


def broker_id(text: str) -> int:
    """A broker id."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a broker id")
    return int(text)


def broker_ids(text: str) -> list[int]:
    """Broker ids, comma-separated; none in an empty text."""
    return [broker_id(part.strip()) for part in text.split(",") if part.strip()]


def positive_count(text: str) -> int:
    """A whole number of 1 or more."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def names_list(text: str) -> list[str]:
    """Names, comma-separated; at least one."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} has no names; they are separated by commas")
    return names

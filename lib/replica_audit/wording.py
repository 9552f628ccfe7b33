"""Numbers with their nouns and lists in prose, for every text that is put together from facts."""

from __future__ import annotations

from collections.abc import Sequence


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun: 1 record, 2 records; `plural` where the noun does not just take an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def brokers(ids: Sequence[int], last: str = "and") -> str:
    """Brokers by their ids: broker 1; brokers 1, 2 and 3."""
    if len(ids) == 1:
        return f"broker {ids[0]}"
    return f"brokers {', '.join(map(str, ids[:-1]))} {last} {ids[-1]}" if ids else "no broker"

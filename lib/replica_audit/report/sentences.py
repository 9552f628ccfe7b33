"""Sentences of which parts are stressed, and the words that they are made of.

A sentence is a tuple of texts that are plain and stressed by turns, beginning with a plain one, so that a page, a
ticket and a terminal can each stress in their own way and none has to parse anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from replica_audit.report.layout import clean
from replica_audit.text import capitalise, listed

if TYPE_CHECKING:
    from replica_audit.schema import FindingRow

Sentence = tuple[str, ...]


def say(*parts: str) -> Sentence:
    """A sentence of `parts`, plain and stressed by turns. Tests find what is said of an audit or a partition by its calls."""
    return parts


def plain_text(sentence: Sequence[str]) -> str:
    """The sentence without stress."""
    return "".join(sentence)


def tell_finding(row: FindingRow) -> Sentence:
    """The message of a finding as a sentence."""
    return (end_sentence(clean(row.message or row.code)),)


def join_words(words: Sequence[object]) -> str:
    """Words as a list in prose: 1; 1 and 2; 1, 2 and 3; none."""
    return listed(map(clean, words)) or "none"


def join_some(words: Sequence[object], limit: int, noun: str) -> str:
    """`join_words` of the first `limit` words, and how many more there are: a-0, a-1 and 7 more partitions."""
    if len(words) <= limit:
        return join_words(words)
    more = len(words) - limit
    return join_words([*words[:limit], f"{more} more {noun}{'' if more == 1 else 's'}"])


def name_partitions(places: Sequence[tuple[str, int]], limit: int = 4) -> str:
    """orders-0; orders-0, orders-1 and 7 more partitions."""
    return join_some([f"{topic}-{partition}" for topic, partition in places], limit, "partition")


def end_sentence(text: str) -> str:
    """`text` with a capital first letter and a full stop."""
    return capitalise(text.strip()) + ("" if text.rstrip().endswith((".", "!", "?")) else ".")

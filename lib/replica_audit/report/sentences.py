"""Sentences with stressed parts, and helpers for their words.

A sentence is a tuple of alternately plain and stressed texts, starting with a plain one, so that page, ticket and terminal can
stress in their own way without parsing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from replica_audit.report.layout import clean
from replica_audit.text import capitalise, listed

if TYPE_CHECKING:
    from replica_audit.model import TopicPartition
    from replica_audit.schema import FindingRow

Sentence = tuple[str, ...]


def say(*parts: str) -> Sentence:
    """Make a sentence of alternately plain and stressed `parts`. Tests find the sentences of an audit by calls of this function."""
    return parts


def plain_text(sentence: Sequence[str]) -> str:
    """The sentence without stress."""
    return "".join(sentence)


def tell_finding(row: FindingRow) -> Sentence:
    """The message of a finding as a sentence."""
    return (end_sentence(clean(row.message)),)


def say_unproven(findings: Sequence[FindingRow]) -> str:
    """Adjective for what findings of less than proven confidence tell."""
    return f"{'likely' if all(row.confidence == 'likely' for row in findings) else 'suspected'}, not proven"


def join_words(words: Sequence[object]) -> str:
    """Join words as a list in prose: "1", "1 and 2", "1, 2 and 3"; "none" without any."""
    return listed(map(clean, words)) or "none"


def join_some(words: Sequence[object], limit: int, noun: str, of: int = 0) -> str:
    """Join the first `limit` words and add the number of others, e.g. "a-0, a-1 and 7 more partitions"; `of` is the number of all
    if `words` are only the first ones."""
    more = max(len(words), of) - limit
    if more <= 0:
        return join_words(words)
    return join_words([*words[:limit], f"{more} more {noun}{'' if more == 1 else 's'}"])


def name_partitions(places: Sequence[TopicPartition], limit: int = 4, of: int = 0) -> str:
    """Name partitions, e.g. "orders-0, orders-1 and 7 more partitions"; `of` as for `join_some`."""
    return join_some(places, limit, "partition", of)


def end_sentence(text: str) -> str:
    """`text` with a capital first letter and a full stop."""
    return capitalise(text.strip()) + ("" if text.rstrip().endswith((".", "!", "?")) else ".")

"""Findings as text for a terminal: each fact once, with its brokers and ranges, its sentences, and what else tells it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from replica_audit.answering.finding_groups import Fact, brokers_of, group_facts, ranges_of
from replica_audit.reporting.phrases.finding_text import render_evidence
from replica_audit.reporting.phrases.layout import clean, elide, paint, render_range, wrap
from replica_audit.reporting.phrases.sentences import join_some, join_words, name_brokers

Row = Mapping[str, Any]

#: Sentences of one fact in a list of many, and ranges in a headline.
SENTENCES = 2
RANGES = 3


def render_facts(findings: Sequence[Row], limit: int, colour: bool = False) -> list[str]:
    """The worst `limit` facts, each with its first sentences, and how many more there are."""
    lines: list[str] = []
    facts = group_facts(findings)
    for fact in facts[:limit]:
        lines += _headline(fact.same, colour)
        messages = list(dict.fromkeys(row["message"] or "" for row in fact.same))
        for message in messages[:SENTENCES]:
            lines += wrap(message, " " * 10)
        if len(messages) > SENTENCES:
            lines += wrap(f"and {len(messages) - SENTENCES} more like these", " " * 10)
        if fact.other:
            lines += wrap(f"also told as {_others(fact)}", " " * 10)
    if len(facts) > limit:
        lines.append(f"and {len(facts) - limit} more (--format json has all)")
    return lines


def render_proven_facts(findings: Sequence[Row], limit: int, colour: bool = False) -> list[str]:
    """The facts of one partition with every finding's sentence and evidence, `limit` findings at most, and how many more."""
    lines: list[str] = []
    told = 0
    for rows in _by_code(group_facts(findings)):
        if told >= limit:
            break
        lines += _headline(rows, colour, place=False, indent="  ")
        for row in rows[: limit - told]:
            lines += wrap(row["message"] or "", " " * 12)
            lines += render_evidence(row, " " * 12)
        told += len(rows)
    if len(findings) > limit:
        lines.append(f"  and {len(findings) - limit} more (--format json has all)")
    return lines


def _by_code(facts: Sequence[Fact]) -> Iterator[Sequence[Row]]:
    """Findings of each fact with one code, that of its head first."""
    for fact in facts:
        yield fact.same
        for code in dict.fromkeys(row["code"] for row in fact.other):
            yield [row for row in fact.other if row["code"] == code]


def _headline(rows: Sequence[Row], colour: bool, place: bool = True, indent: str = "") -> list[str]:
    """Severity, code, place, brokers, ranges, confidence, and the status when it is not new, of findings with one code."""
    head = rows[0]
    parts = [head["code"]]
    if place and head["topic"] is not None:
        name = clean(head["topic"]) if head["partition"] is None else f"{clean(head['topic'])}-{head['partition']}"
        parts.append(elide(name, 30))
    if brokers := brokers_of(rows):
        parts.append(name_brokers(brokers))
    if ranges := ranges_of(rows):
        parts.append(join_some([render_range(*one) for one in ranges], RANGES, "range"))
    elif head["start_offset"] is not None:
        parts.append(render_range(head["start_offset"], head["end_offset"]))
    if head["confidence"] not in (None, "proven"):
        parts.append(clean(head["confidence"]))
    if head["status"] != "new":
        parts.append(f"({clean(head['status'])})")
    severity = head["severity"]
    first, *rest = wrap(f"{severity:<8}  {' '.join(parts)}", indent, indent + " " * 10)
    return [first.replace(severity, paint(severity, severity, colour), 1), *rest]


def _others(fact: Fact) -> str:
    """The other codes of a fact, with their brokers where these are not those of its head."""
    told = []
    for code in dict.fromkeys(row["code"] for row in fact.other):
        brokers = brokers_of([row for row in fact.other if row["code"] == code])
        told.append(code if brokers in ((), fact.brokers) else f"{code} ({name_brokers(brokers)})")
    return join_words(told)

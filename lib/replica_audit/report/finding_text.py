"""Text of findings: a headline and the evidence of each, and the facts they report, each once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.report.facts.finding_groups import Fact, brokers_of, group_facts, ranges_of
from replica_audit.report.layout import clean, elide, paint, render_range, render_rest, wrap
from replica_audit.report.sentences import join_some, join_words
from replica_audit.results import FindingPlace, place_of
from replica_audit.schema import FindingRow
from replica_audit.text import name_brokers


def render_headline(row: FindingRow) -> str:
    """Render severity, code, place, range, confidence and any status but "new" in one line."""
    return _head([row], [place_of(row)])


def render_evidence(row: FindingRow, indent: str) -> list[str]:
    """Render the evidence of one finding, a line or more for each piece."""
    lines: list[str] = []
    for item in row.evidence:
        place = []
        if item.broker_id is not None:
            place.append(f"broker {item.broker_id}")
        if item.path is not None:
            place.append(str(item.path))
        if item.position is not None:
            place.append(f"at byte {item.position}")
        text = ": ".join(part for part in (item.kind, " ".join(place)) if part)
        said = [str(part) for part in (item.value, item.text) if part not in (None, "")]
        lines += wrap(f"{text}: {'; '.join(said)}" if said else text, indent + "- ", indent + "  ")
    return lines


#: Maximum numbers of sentences and partitions of a fact in a list, and of ranges in a headline.
SENTENCES = 2
PLACES = 4
RANGES = 3


def render_facts(findings: Sequence[FindingRow], limit: int) -> list[str]:
    """Render the worst `limit` facts with their first sentences, and the number left out; a fact of several partitions is
    printed once with their names."""
    lines: list[str] = []
    told: dict[object, list[Fact]] = {}
    for fact in group_facts(findings):
        told.setdefault(_said(fact), []).append(fact)
    for alike in list(told.values())[:limit]:
        fact = alike[0]
        lines += _headline(fact.same, places=[(one.head.topic, one.head.partition) for one in alike])
        messages = _messages(fact)
        for message in messages[:SENTENCES]:
            lines += wrap(message, " " * 10)
        if len(messages) > SENTENCES:
            lines += wrap(f"and {len(messages) - SENTENCES} more like these", " " * 10)
        if fact.other:
            lines += wrap(f"same records: {_others(fact)}", " " * 10)
    return lines + render_rest(len(told) - limit)


def _said(fact: Fact) -> object:
    """Everything printed about a fact except its partition, as a key."""
    head = fact.head
    alike = (head.code, head.severity, head.confidence, head.status, fact.brokers, fact.ranges)
    return (*alike, tuple(_messages(fact)), _others(fact), None if head.topic is not None else id(fact))


def _messages(fact: Fact) -> list[str]:
    return list(dict.fromkeys(row.message for row in fact.same))


def render_proven_facts(findings: Sequence[FindingRow], limit: int) -> list[str]:
    """Render the facts of one partition with each finding's sentence and evidence, for at most `limit` findings, and the number
    left out."""
    lines: list[str] = []
    told = 0
    for rows in _by_code(group_facts(findings)):
        if told >= limit:
            break
        lines += _headline(rows, indent="  ")
        for row in rows[: limit - told]:
            lines += wrap(row.message, " " * 12)
            lines += render_evidence(row, " " * 12)
        told += len(rows)
    return lines + render_rest(len(findings) - limit, "  ")


def _by_code(facts: Sequence[Fact]) -> Iterator[Sequence[FindingRow]]:
    """Findings of each fact grouped by code, that of its head first."""
    for fact in facts:
        yield fact.same
        for code in dict.fromkeys(row.code for row in fact.other):
            yield [row for row in fact.other if row.code == code]


def _headline(rows: Sequence[FindingRow], places: Sequence[FindingPlace] = (), indent: str = "") -> list[str]:
    """Lines of `_head`, with the severity coloured."""
    severity = rows[0].severity
    first, *rest = wrap(_head(rows, places), indent, indent + " " * 10)
    return [first.replace(severity, paint(severity, severity), 1), *rest]


def _head(rows: Sequence[FindingRow], places: Sequence[FindingPlace]) -> str:
    """Severity, code, places, brokers, ranges, confidence and any status but "new" for findings with one code."""
    head = rows[0]
    parts = [head.code]
    names = [
        clean(topic) if number is None else f"{clean(topic)}-{number}" for topic, number in places if topic is not None
    ]
    if names:
        parts.append(join_some([elide(name, 30) for name in names], PLACES, "partition"))
    if brokers := brokers_of(rows):
        parts.append(name_brokers(brokers))
    if ranges := ranges_of(rows):
        parts.append(join_some([render_range(one.start_offset, one.end_offset) for one in ranges], RANGES, "range"))
    elif head.start_offset is not None:
        parts.append(render_range(head.start_offset, head.end_offset))
    if head.confidence not in (None, "proven"):
        parts.append(clean(head.confidence))
    if head.status != "new":
        parts.append(f"({clean(head.status)})")
    return f"{head.severity:<8}  {' '.join(parts)}"


def _others(fact: Fact) -> str:
    """The other codes of a fact, with their brokers if these differ from the head's."""
    told = []
    for code in dict.fromkeys(row.code for row in fact.other):
        brokers = brokers_of([row for row in fact.other if row.code == code])
        told.append(code if brokers in ((), fact.brokers) else f"{code} ({name_brokers(brokers)})")
    return join_words(told)

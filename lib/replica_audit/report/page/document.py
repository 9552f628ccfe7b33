"""HTML of the page: the answer and the first rows in plain HTML, everything else as data for its script."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from replica_audit.auditing.detailed_partitions import detailed
from replica_audit.auditing.known_findings import Earlier
from replica_audit.literals import SEVERITIES, VERDICTS
from replica_audit.report.answer import VERDICT_WORDS, build_answer
from replica_audit.report.captures import HEADS, tell_captures
from replica_audit.report.facts.by_partition import detailed_partitions, is_large, worst_partitions
from replica_audit.report.facts.changes import (
    compare_place,
    find_moves,
    find_new,
    has_baseline,
    is_compared,
)
from replica_audit.report.facts.conditions import whole_audit
from replica_audit.report.layout import clean, render_interval, render_lost, render_size
from replica_audit.report.page.columns import encode_column, pack, portable
from replica_audit.report.page.content import (
    PIECE,
    build_codes,
    build_others,
    build_overview,
    build_pieces,
    build_timeline,
    count_findings,
    number_facts,
)
from replica_audit.report.plan_text import STANDING_WORDS
from replica_audit.report.verdict_object import VerdictObject
from replica_audit.report.whole_files import LINES
from replica_audit.results import Results, by_place, place_of
from replica_audit.schema import PartitionRow
from replica_audit.text import count

if TYPE_CHECKING:
    from jinja2 import Template

#: A command in one of our sentences; it ends at a comma, a parenthesis or the sentence's end.
_COMMAND = re.compile(r"((?:tar -|kafka-[a-z-]+\.sh --|replica-audit [a-z-]+ )[^,]*?)(?=,|\)|\. [A-Z]|\.?$)")
#: A partition or a date, which must not be broken after a hyphen unless it is very long.
_NAME = re.compile(r"((?<!\S)(?=\S*-\d)[^\s,;:]{3,40}(?![^\s,;:]))")


def split_words(text: str) -> Iterator[tuple[str, str]]:
    """Split a sentence into parts, each with its type: "command", "name" (of a partition, or a date) or ""."""
    for number, part in enumerate(_COMMAND.split(text)):
        if number % 2:
            yield part, "command"
        else:
            yield from ((word, "name" if place % 2 else "") for place, word in enumerate(_NAME.split(part)) if word)


#: Maximum size of the page: a mail may carry it, and a browser opens it at once.
PAGE_BYTES = 5_000_000

#: Number of rows visible before the script runs, and without scripts.
STATIC_ROWS = 20
#: Maximum numbers of findings without a partition and of unused input listed; audit.json has all.
LIST_LIMIT = 500
_SCRIPTS = (
    "data.js",
    "words.js",
    "drawing.js",
    "picture.js",
    "histories.js",
    "findings.js",
    "detail.js",
    "gallery.js",
    "replica_map.js",
    "events.js",
    "cluster.js",
    "table.js",
    "start.js",
)


def render_page(
    results: Results,
    verdict: VerdictObject,
    earlier: Earlier | None = None,
    data_docs: str | None = None,
) -> str:
    """Render index.html of `results`, with as many of the worst partitions in detail as fit `PAGE_BYTES`.

    `verdict` is the content of verdict.json, `earlier` the audit to compare with, `data_docs` the relative path of the quality
    checks' own pages, if any.
    """
    shown = detailed_partitions(results)
    while True:
        page = _render(results, shown, verdict, earlier, data_docs)
        size = len(page.encode())
        if size < PAGE_BYTES or not shown:
            return page
        # Partitions' details are about equal in size and make up most of the page.
        shown = detailed(results.partitions, len(shown) * 9 * PAGE_BYTES // (10 * size))


def _render(
    results: Results,
    shown: Sequence[PartitionRow],
    verdict: VerdictObject,
    earlier: Earlier | None,
    data_docs: str | None,
) -> str:
    script = "(() => {\n'use strict';\n" + "".join(_asset(name) for name in _SCRIPTS) + "})();\n"
    style = _asset("page.css")
    answer = build_answer(results, verdict)
    partitions = worst_partitions(results)
    return _template().render(
        policy=_policy(script, style),
        style=style,
        script=script,
        audit=results.audit,
        facts=_facts(results),
        verdict=verdict,
        answer=answer,
        captures=tell_captures(results),
        capture_heads=HEADS,
        todo=answer.todo,
        tiles=_tiles(results, earlier),
        words=VERDICT_WORDS,
        data_docs=data_docs,
        checks=_checks(results),
        partitions=partitions[:STATIC_ROWS],
        left_out=len(partitions) - STATIC_ROWS,
        overview=pack(_frame(results, shown, earlier)),
        pieces=[pack(piece) for piece in build_pieces(results, shown)],
    )


@cache
def _template() -> Template:
    """page.html, compiled once."""
    # Imported here, so that what needs no page needs no template engine.
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["clean"] = clean
    environment.filters["lost"] = render_lost
    environment.filters["pieces"] = split_words
    environment.filters["interval"] = lambda row: render_interval(row.hw_lower, row.hw_upper)
    return environment.from_string(_asset("page.html"))


def _frame(results: Results, shown: Sequence[PartitionRow], earlier: Earlier | None) -> dict[str, object]:
    """Data that the script needs at start."""
    unplaced = [row for row in results.findings if row.partition is None]
    quarantine = results.quarantine
    return {
        "count": len(shown),
        "others": portable(build_others(results, shown)),
        "whole": LINES if is_large(results) else "audit.json",
        "piece": PIECE,
        "verdicts": list(VERDICTS),
        "words": [VERDICT_WORDS[name] for name in VERDICTS],
        "standings": STANDING_WORDS,
        "severities": list(SEVERITIES),
        "protocol": results.protocol,
        "command": portable(results.command("show")),
        "compared": is_compared(results, earlier),
        "holders": sorted(whole_audit(results).holders.values()),
        "codes": build_codes(results),
        "severity_of": _severity_of(results),
        "timeline": build_timeline(results, shown),
        "metadata_logs": portable([row._asdict() for row in results.metadata_logs[:LIST_LIMIT]]),
        "overview": build_overview(results, shown, earlier),
        "unplaced": portable(number_facts(unplaced)[:LIST_LIMIT]),
        "unplaced_more": max(0, len(unplaced) - LIST_LIMIT),
        "quarantine": {name: encode_column([getattr(row, name) for row in quarantine[:LIST_LIMIT]])
                       for name in ("broker_id", "path", "position", "length", "code", "reason")},
        "quarantine_count": len(quarantine),
        "files": portable(dict(sorted((results.inputs.get("files") or {}).items()))),
    }  # fmt: skip


def _facts(results: Results) -> list[str]:
    """Facts below the title: what was read, by which program and when."""
    inputs = results.inputs
    brokers = {row.broker_id for row in results.replicas}
    facts = [f"snapshot {clean(inputs['snapshot'])}"] if inputs.get("snapshot") else []
    facts.append(count(len(brokers), "broker"))
    facts.append(count(len(results.partitions), "partition"))
    size_bytes = inputs.get("size_bytes")
    if size_bytes is not None:
        facts.append(f"{render_size(size_bytes)} of logs read")
        if lost := inputs.get("quarantined_bytes"):
            facts.append(f"{render_size(lost)} of them in no batch")
    unused = len(results.quarantine)
    facts.append(f"{count(unused, 'piece')} of input unusable" if unused else "all of it accounted for")
    facts.append(f"audited {results.audit['finished'][:16].replace('T', ' ')} UTC")
    facts.append(f"replica-audit {clean(results.audit['tool_version'])}")
    return facts


def _tiles(results: Results, earlier: Earlier | None) -> dict[str, object]:
    partitions = results.partitions
    counts = Counter(row.verdict for row in partitions)
    isr_known = sum(row.isr is not None for row in partitions)
    findings = count_findings(results)
    placed = by_place(results.findings)
    unplaced = compare_place((None, None), placed.get((None, None), ()), earlier)
    new = unplaced.new
    known = unplaced.known
    resolved = unplaced.resolved
    audited_before = []
    for row in worst_partitions(results):
        change = compare_place(place_of(row), placed.get(place_of(row), ()), earlier)
        new += change.new
        known += change.known
        resolved += change.resolved
        if change.before is not None:
            audited_before.append((row, change))
    moves = find_moves(audited_before)
    return {
        "verdicts": [(name, counts[name]) for name in VERDICTS if counts[name]],
        "severities": [(name, findings[name]["new"], findings[name]["known"]) for name in SEVERITIES],
        "under_replicated": sum(bool(row.under_replicated) for row in partitions),
        "isr_known": isr_known,
        "leaderless": sum(row.leader_id is None for row in partitions),
        "compared": is_compared(results, earlier),
        "earlier": earlier.finished[:16].replace("T", " ") if earlier and earlier.finished else None,
        "marked": has_baseline(results),
        "new": new,
        "known": known,
        "resolved": resolved,
        "worsened": sum(len(one.places) for one in moves if one.is_worse),
        "improved": sum(len(one.places) for one in moves if not one.is_worse),
        "moves": moves,
        "new_findings": find_new(results, earlier),
    }


def _checks(results: Results) -> dict[str, object]:
    """Quality expectations: the number met, and the unmet ones, worst first."""
    rows = results.quality
    unmet = [row for row in rows if not row.success]
    unmet.sort(key=lambda row: (SEVERITIES.index(row.severity), row.suite, row.name))
    return {
        "count": len(rows),
        "met": len(rows) - len(unmet),
        "unmet": unmet[:LIST_LIMIT],
        "more": max(0, len(unmet) - LIST_LIMIT),
    }


def _severity_of(results: Results) -> dict[str, int]:
    """Worst severity with which each code occurs."""
    worst: dict[str, int] = {}
    for row in results.findings:
        rank = SEVERITIES.index(row.severity)
        worst[row.code] = min(rank, worst.get(row.code, rank))
    return worst


def _policy(script: str, style: str) -> str:
    """Content security policy that permits this script and this style only."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    return (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def _asset(name: str) -> str:
    # Through the loader, which also reads the zip of spark-submit.
    return files("replica_audit.report.page").joinpath(name).read_text(encoding="utf-8")

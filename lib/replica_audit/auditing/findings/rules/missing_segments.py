"""Segments that ought to be there: offsets missing between two files, and indexes without their log (F.2)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.findings.finding import Case, Evidence, Finding, considered, finding, offsets
from replica_audit.auditing.replicas.facts import ReplicaFacts


def missing_file(case: Case, facts: ReplicaFacts, start: int, end: int) -> Finding:
    """CAP-MISSING-SEGMENT where another replica or an index shows that a segment was there, else LOG-GAP."""
    if facts.is_cleaned(start, end):
        return finding(
            "LOG-GAP",
            f"broker {facts.broker_id} has nothing at {offsets(start, end)}, at the border of two segments",
            severity="info",
            broker_id=facts.broker_id,
            start_offset=start,
            end_offset=end,
            evidence=[considered("compaction: the last batches of a cleaned range may vanish (KAFKA-17076)")],
        )
    holders = [
        other.broker_id
        for other in case.replicas
        if other is not facts and other.local_start_offset < end and other.log_end_offset > start
    ]
    bases = [base for base in facts.directory.index_bases if start <= base < end]
    if not holders and not bases:
        return finding(
            "LOG-GAP",
            f"broker {facts.broker_id} has nothing at {offsets(start, end)}, at the border of two segments",
            broker_id=facts.broker_id,
            start_offset=start,
            end_offset=end,
            severity="medium",
        )
    shown = [f"index or snapshot files of segment {base} are there without its .log" for base in bases]
    shown += [f"broker {broker} has records in this range" for broker in holders]
    return finding(
        "CAP-MISSING-SEGMENT",
        f"broker {facts.broker_id}: a segment file with {offsets(start, end)} is missing; copy the replica again, or it is gone",
        confidence="likely",
        broker_id=facts.broker_id,
        start_offset=start,
        end_offset=end,
        evidence=[Evidence("file", text, facts.broker_id, facts.directory.path) for text in shown],
    )


def indexes_without_log(facts: ReplicaFacts) -> Iterator[Finding]:
    """Indexes below the first segment or above the last: its log was there when they were written, or copied."""
    bases = [base for base in facts.directory.index_bases if facts.segments and base < facts.segments[0].base_offset]
    if bases and not facts.missing:
        yield _without_log(facts, bases, facts.segments[0].base_offset)
    newer = [base for base in facts.directory.index_bases if facts.segments and base > facts.segments[-1].base_offset]
    if newer:
        yield _without_log(facts, newer, None)


def _without_log(facts: ReplicaFacts, bases: list[int], end: int | None) -> Finding:
    where = f"{offsets(min(bases), end)}" if end is not None else f"offsets from {min(bases)} on"
    return finding(
        "CAP-MISSING-SEGMENT",
        f"broker {facts.broker_id}: files of segment {min(bases)} are there without its .log; {where} cannot be compared",
        confidence="likely",
        broker_id=facts.broker_id,
        start_offset=min(bases),
        end_offset=end,
        evidence=[Evidence("file", f"base offset {base}", facts.broker_id, facts.directory.path) for base in bases],
    )

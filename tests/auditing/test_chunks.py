"""Logs of several chunks: an audit that sees only the chunks it asks for says what one says that sees every batch."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.support.batch_entries import Entry, rows_of, segment_of
from tests.support.made_cases import LARGE as NAME
from tests.support.made_cases import large_directory as directory
from tests.support.some import some

from replica_audit.auditing import comparison_plan
from replica_audit.auditing.answer_rows import report_rows
from replica_audit.auditing.compare.candidates import CandidateCuts, Candidates
from replica_audit.auditing.compare.loaded_batches import tally_from
from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import conclude
from replica_audit.auditing.evidence import AuditOptions, PartitionEvidence
from replica_audit.auditing.replicas.reference import choose_reference
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts, replica_facts
from replica_audit.model import CHUNK_OFFSETS, Leadership, SegmentSummary
from replica_audit.schema import REPORT_TABLES, ReportRows
from replica_audit.segments.batch_rows import Batches

SEEDS = range(120)


def segments_of(
    broker: int, headers: list[Entry], start: int, cuts: set[int]
) -> list[tuple[SegmentSummary, np.ndarray]]:
    """Segment files that begin at `start` and at the offsets `cuts` where a batch begins."""
    parts: list[tuple[int, list[Entry]]] = [(start, [])]
    for header in headers:
        if header.base in cuts and parts[-1][1]:
            parts.append((header.base, []))
        parts[-1][1].append(header)
    files = [(base, rows_of(part)) for base, part in parts]
    return [(segment_of(broker, base, rows), rows) for base, rows in files]


def append(dice: random.Random, headers: list[Entry], end: int, epoch: int) -> list[Entry]:
    """The log written on to `end` by a leader of `epoch`; batches like to end next to a chunk's border."""
    base = headers[-1].end if headers else 0
    headers = list(headers)
    while base < end:
        border = (base // CHUNK_OFFSETS + 1) * CHUNK_OFFSETS
        size = dice.choice([dice.randint(1, 4_000), border - base, border - base + dice.randint(-1, 3), 1])
        last = min(end, base + max(1, min(size, 20_000))) - 1
        headers.append(Entry(base, last, epoch, dice.getrandbits(32)))
        base = last + 1
    return headers


def mishap(dice: random.Random, headers: list[Entry]) -> list[Entry]:
    """The log after something happened to it somewhere."""
    headers, at = list(headers), dice.randrange(len(headers))
    kind = dice.choice(["hole", "content", "crc", "split", "epoch", "twice", "none", "none"])
    if kind == "hole":
        del headers[at : at + dice.choice([1, 1, 3, 40])]
    elif kind == "content":
        headers[at] = replace(headers[at], crc=headers[at].crc ^ 1)
    elif kind == "crc":
        headers[at] = replace(headers[at], sound=False)
    elif kind == "twice":
        headers.insert(at, headers[at])
    elif kind == "epoch":
        headers[at] = replace(headers[at], epoch=headers[at].epoch + 1)
    elif kind == "split" and headers[at].last > headers[at].base:
        middle = (headers[at].base + headers[at].last) // 2
        headers[at : at + 1] = [
            replace(headers[at], last=middle, crc=1),
            replace(headers[at], base=middle + 1, crc=2),
        ]
    return headers


def make(seed: int) -> tuple[PartitionEvidence, dict[tuple[int, str], np.ndarray]]:
    """Three replicas of one history of two or three leaders, with mishaps, other log starts and other segments."""
    dice = random.Random(seed)
    shared = append(dice, [], dice.randint(1, 260_000), 0)
    leader = append(dice, shared, shared[-1].end + dice.choice([0, 1, 90_000]), dice.choice([0, 2]))
    logs = {1: leader}
    for broker in (2, 3):
        kept = shared[: dice.randint(1, len(shared))]
        tail = dice.choice([0, 0, 1, 70_000])
        own = append(dice, kept, kept[-1].end + tail, dice.choice([0, 1])) if tail else dice.choice([kept, leader])
        logs[broker] = mishap(dice, own) or own
    replicas, batches = [], {}
    for broker, headers in logs.items():
        first = dice.choice([0, 0, 0, dice.randrange(len(headers))])
        headers = headers[first:]
        start = headers[0].base if first else min(0, headers[0].base)
        cuts = {header.base for header in headers if dice.random() < 0.05}
        files = segments_of(broker, headers, start, cuts)
        place = directory(broker, dice.randint(start, headers[-1].end))
        replicas.append((place, tuple(summary for summary, _ in files)))
        batches[broker, place.log_dir] = np.concatenate([rows for _, rows in files])
    leadership = Leadership(
        topic=NAME.topic,
        partition=NAME.partition,
        source="user",
        leader_id=1,
        leader_epoch=dice.choice([leader[-1].epoch, 2]),
        isr=tuple(sorted({1, *dice.sample([2, 3], dice.randint(0, 2))})),
        replicas=(1, 2, 3),
        configs={"cleanup.policy": "compact"} if dice.random() < 0.1 else {},
    )
    evidence = PartitionEvidence(NAME, tuple(replicas), leadership, AuditOptions(quiesced=dice.choice([None, True])))
    return evidence, batches


def only(batches: dict, wanted: dict) -> dict:
    """The batches of the chunks that were asked for, and no others."""
    return {
        key: rows[np.isin(rows["base_offset"] // CHUNK_OFFSETS, sorted(wanted[key]))]
        for key, rows in batches.items()
        if key in wanted
    }


@cache
def of_chunks(seed: int) -> ReportRows:
    """Rows of an audit of `make(seed)` that sees only the chunks it asks for, which nobody may change."""
    evidence, batches = make(seed)
    return report_rows(conclude(ComparisonPlan(evidence), only(batches, ComparisonPlan(evidence).batches)))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_chunks_asked_for_are_enough(seed, monkeypatch):
    seen = of_chunks(seed)
    evidence, batches = make(seed)
    monkeypatch.setattr(comparison_plan, "needed_chunks", lambda one, other, *_: {*one.facts.chunks, *other.chunks})
    whole = report_rows(conclude(ComparisonPlan(evidence), batches))
    for table in some(REPORT_TABLES):
        assert seen.table(table) == whole.table(table), (seed, table)


def test_the_seeds_cover_what_matters(monkeypatch):
    spared = runs = cuts_inside = 0
    for seed in SEEDS:
        evidence, batches = make(seed)
        chunks = {key: set((rows["base_offset"] // CHUNK_OFFSETS).tolist()) for key, rows in batches.items()}
        wanted = ComparisonPlan(evidence).batches
        spared += any(wanted.get(key, set()) < chunks[key] for key in chunks)
        tables = of_chunks(seed)
        runs += bool(tables.divergences)
        cuts_inside += any(row.truncate_to % CHUNK_OFFSETS for row in tables.truncations)
    assert spared > 30, "too few audits are spared a chunk"
    assert runs > 30
    assert cuts_inside > 30


@pytest.mark.parametrize("seed", range(40))
def test_a_tally_over_digests_is_that_of_the_batches(seed):
    dice = random.Random(seed)
    headers = append(dice, [], dice.randint(1, 300_000), 0)
    files = segments_of(1, headers, 0, {header.base for header in headers if dice.random() < 0.1})
    facts = replica_facts(directory(1, 0), [summary for summary, _ in files])
    every = Batches.in_order(np.concatenate([rows for _, rows in files]))
    offsets = [0, headers[-1].end, *(dice.randint(0, headers[-1].end) for _ in range(20)), CHUNK_OFFSETS]
    for offset in offsets:
        through = {n for n, chunk in facts.chunks.items() if chunk.base_offset < offset <= chunk.last_offset}
        loaded = Batches.of(batch for batch in every if batch.base_offset // CHUNK_OFFSETS in through)
        whole = Batches.of(batch for batch in every if batch.last_offset >= offset).tally
        assert tally_from(facts, offset, loaded, through) == whole


@pytest.mark.parametrize("hole", [0, CHUNK_OFFSETS - 10, CHUNK_OFFSETS, CHUNK_OFFSETS + 10, 2 * CHUNK_OFFSETS - 1])
@pytest.mark.parametrize("reversed_roles", [False, True])
def test_a_hole_beside_a_chunks_border_is_found_on_either_side(hole, reversed_roles):
    bases = [*range(0, CHUNK_OFFSETS - 10, 5_000), CHUNK_OFFSETS - 10, CHUNK_OFFSETS, CHUNK_OFFSETS + 10]
    bases = sorted({*bases, hole, hole + 1, *range(CHUNK_OFFSETS + 20, 3 * CHUNK_OFFSETS, 9_000)})
    headers = [
        Entry(base, following - 1, 0, base + 7)
        for base, following in zip(bases, [*bases[1:], 3 * CHUNK_OFFSETS], strict=True)
    ]
    holed = [header for header in headers if header.base != hole]
    logs = (headers, holed) if not reversed_roles else (holed, headers)
    replicas, batches = [], {}
    for broker, log in zip((1, 2), logs, strict=True):
        ((summary, rows),) = segments_of(broker, log, 0, set())
        replicas.append((directory(broker, 3 * CHUNK_OFFSETS), (summary,)))
        batches[broker, f"broker-{broker}"] = rows
    leadership = Leadership(
        NAME.topic, NAME.partition, "user", leader_id=1, leader_epoch=0, isr=(1, 2), replicas=(1, 2)
    )
    evidence = PartitionEvidence(NAME, tuple(replicas), leadership)
    wanted = ComparisonPlan(evidence).batches
    assert max(len(chunks) for chunks in wanted.values()) < 3
    rows = report_rows(conclude(ComparisonPlan(evidence), only(batches, wanted))).divergences
    end = next(header.end for header in headers if header.base == hole)
    assert [(row.code, row.start_offset, row.end_offset) for row in rows] == [("DIV-HIDDEN", hole, end)]


#: Two batches a chunk, so that an offset within one goes through it.
HALF = CHUNK_OFFSETS // 2
INSIDE = CHUNK_OFFSETS + 100


def copy_of(broker: int, chunks: int, high_watermark: int | None = None, other: int | None = None) -> ReplicaFacts:
    """A copy of the log up to the end of some chunks, whose chunk `other` has other contents."""
    bases = range(0, chunks * CHUNK_OFFSETS, HALF)
    log = [Entry(base, base + HALF - 1, 0, base + (base // CHUNK_OFFSETS == other)) for base in bases]
    end = chunks * CHUNK_OFFSETS
    files = segments_of(broker, log, 0, set())
    return replica_facts(
        directory(broker, end if high_watermark is None else high_watermark), [summary for summary, _ in files]
    )


@pytest.mark.parametrize(
    ("copies", "cut", "wanted"),
    [
        ([copy_of(1, 3), copy_of(2, 3, other=1)], None, {1: {1}, 2: {1}}),
        ([copy_of(1, 2), copy_of(2, 3), copy_of(3, 3)], None, {2: {2}, 3: {2}}),
        ([copy_of(1, 3), copy_of(2, 3, high_watermark=INSIDE)], INSIDE, {}),
        ([copy_of(1, 3), copy_of(2, 2, high_watermark=INSIDE)], None, {1: {1}, 2: {1}}),
        ([copy_of(1, 3), copy_of(2, 2)], INSIDE, {1: {1}, 2: {1}}),
        ([copy_of(1, 3), copy_of(2, 2)], None, {}),
    ],
)
def test_a_chunk_is_wanted_of_all_holders_or_of_none(copies, cut, wanted):
    """Every line of the table of `Candidates.chunks`; broker 1 leads, and broker 2 may be cut."""
    led = Leadership(NAME.topic, NAME.partition, "user", leader_id=1, leader_epoch=0, isr=(1, 2), replicas=(1, 2, 3))
    reference = choose_reference(copies, led, at_rest=False, is_later=lambda one, other: False)
    candidates = Candidates(reference, tuple(copies), (), "fetch", tiered=False)
    cuts = {} if cut is None else {copies[0].key: {copies[1].key: cut}}
    vars(candidates)["cuts"] = CandidateCuts(cuts, {})
    assert {broker: chunks for (broker, _), chunks in candidates.chunks.items()} == wanted

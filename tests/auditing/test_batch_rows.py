"""Batches that stay arrays: the answers are those of looking at every batch by itself, and what agrees becomes no object."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.support.batch_entries import Entry, rows_of, segment_of
from tests.support.made_cases import LARGE as NAME
from tests.support.made_cases import large_directory as directory
from tests.support.report_rows import tables_of
from tests.support.some import some

from replica_audit.auditing import comparison_plan as planning
from replica_audit.auditing.compare import alignment
from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import PartitionAudit, conclude
from replica_audit.auditing.evidence import AuditOptions, PartitionEvidence
from replica_audit.batch_header import CONTROL, TRANSACTIONAL, Batch
from replica_audit.elect.choice import decided_rows
from replica_audit.model import CheckpointFile, Leadership
from replica_audit.results import Results
from replica_audit.segments import batch_rows, digests
from replica_audit.segments.batch_rows import Batches, find_rows

SEEDS = range(400)


def written(dice: random.Random, start: int, end: int, epoch: int, legacy: bool) -> list[Entry]:
    """Batches as a leader writes them, some by an idempotent producer or in transactions."""
    found, sequence = [], dice.choice([0, 0, 5])
    while start < end:
        span = dice.choice([1, 1, 1, 2, 5])
        kind = dice.choice(["plain", "plain", "idempotent", "transactional", "marker"])
        producer, attributes = (-1, -1, -1), 0
        if legacy:
            span = 1
        elif kind != "plain":
            attributes = {"idempotent": 0, "transactional": TRANSACTIONAL, "marker": CONTROL | TRANSACTIONAL}[kind]
            span = 1 if kind == "marker" else span
            producer = (7, 0, -1 if kind == "marker" else sequence)
            sequence += span
        crc = dice.getrandbits(32)
        found.append(Entry(start, start + span - 1, epoch, crc, span, 1 if legacy else 2, attributes, producer))
        start += span
    return found


def cleaned(dice: random.Random, log: Sequence[Entry]) -> list[Entry]:
    """The log after its cleaner: batches gone, and batches with fewer records and bytes of their own."""
    kept = [entry for entry in log[:-1] if dice.random() < 0.7]
    return [
        replace(entry, count=entry.count - 1, crc=entry.crc ^ 9) if entry.count > 1 and dice.random() < 0.4 else entry
        for entry in (*kept, log[-1])
    ]


def mishap(dice: random.Random, log: Sequence[Entry]) -> list[Entry]:
    """The log after something happened to it somewhere."""
    log, at = list(log), dice.randrange(len(log))
    one, kind = (
        log[at],
        dice.choice(["hole", "content", "damage", "split", "epoch", "again", "sparse", "magic", "none"]),
    )
    if kind == "hole":
        del log[at : at + dice.choice([1, 3, 20])]
    elif kind == "content":
        log[at] = replace(one, crc=one.crc ^ 1)
    elif kind == "damage":
        log[at] = replace(one, sound=False, crc=one.crc ^ 1)
    elif kind == "epoch":
        log[at] = replace(one, epoch=one.epoch + dice.choice([-1, 1]))
    elif kind == "again":
        log.insert(at, log[dice.randrange(len(log))])
    elif kind == "sparse":
        log[at] = replace(one, count=max(0, one.count - 1), crc=one.crc ^ 2)
    elif kind == "magic":
        log[at] = replace(one, magic=dice.choice([1, 9]))
    elif kind == "split" and one.count > 1:
        log[at : at + 1] = [
            replace(one, last=one.base, count=1, crc=1),
            replace(one, base=one.base + 1, count=one.count - 1, crc=2),
        ]
    return log or [one]


def make(seed: int) -> tuple[PartitionEvidence, dict[tuple[int, str], np.ndarray]]:
    """Three replicas of one history: forks, tails that a producer sent again, mishaps, cleaners, other log starts."""
    dice = random.Random(seed)
    shared = written(dice, 0, dice.randint(1, 60), 0, dice.random() < 0.15)
    shared += written(dice, shared[-1].end, shared[-1].end + dice.randint(1, 40), 1, False)
    compacted, tail = dice.random() < 0.2, dice.choice([0, 5, 40])
    fork = written(dice, shared[-1].end, shared[-1].end + dice.choice([5, 40]), 1, False)
    leader = shared + written(dice, shared[-1].end, shared[-1].end + tail, 3, False)
    if dice.random() < 0.5:
        # The producer sends to the new leader what the old one did not replicate.
        base = leader[-1].end
        for entry in (entry for entry in fork if entry.producer[0] == 7 and dice.random() < 0.7):
            leader.append(replace(entry, base=base, last=base + entry.last - entry.base, epoch=3))
            base = leader[-1].end
    logs = {1: leader}
    for broker in (2, 3):
        own = dice.choice([leader, leader, shared, [*shared, *fork], [*leader[:-1]] or leader])
        own = own[: dice.choice([len(own), len(own), dice.randint(1, len(own))])]
        logs[broker] = mishap(dice, own) if dice.random() < 0.5 else own
    if dice.random() < 0.3:
        logs[1] = mishap(dice, leader)
    if compacted:
        logs = {broker: cleaned(dice, log) for broker, log in logs.items()}
    replicas, batches = [], {}
    for broker, log in logs.items():
        first = dice.choice([0, 0, 0, dice.randrange(len(log))])
        log = log[first:]
        cut = dice.choice([len(log), dice.randint(1, len(log))])
        files = [(part[0].base, rows_of(part)) for part in (log[:cut], log[cut:]) if part]
        end = max(entry.end for entry in log)
        start = dice.choice([None, None, dice.randint(log[0].base, end)])
        place = directory(broker, dice.choice([end, max(0, end - 5), dice.randint(0, end)]), start)
        if dice.random() < 0.1:
            place = place._replace(
                high_watermark_file=CheckpointFile("not_given", place.path), high_watermark_checkpoint=None
            )
        replicas.append((place, tuple(segment_of(broker, base, rows) for base, rows in files)))
        batches[broker, place.log_dir] = np.concatenate([rows for _, rows in files])
    leadership = Leadership(
        topic=NAME.topic,
        partition=NAME.partition,
        source="user",
        leader_id=dice.choice([1, 1, None]),
        leader_epoch=dice.choice([leader[-1].epoch, 4]),
        isr=tuple(sorted({1, *dice.sample([2, 3], dice.randint(0, 2))})),
        replicas=(1, 2, 3),
        configs={"cleanup.policy": "compact"} if compacted and dice.random() < 0.8 else {},
    )
    protocol = dice.choice(["fetch", "fetch", "high-watermark", "kip-101"])
    quiesced = dice.choice([None, True])
    return PartitionEvidence(NAME, tuple(replicas), leadership, AuditOptions(protocol, quiesced=quiesced)), batches


def audited(evidence: PartitionEvidence, batches: dict) -> tuple[PartitionAudit, dict[str, list[dict]]]:
    """The audit, and all rows with what elections cost."""
    plan = ComparisonPlan(evidence)
    wanted = {key: digests.rows_of_chunks(batches[key], found) for key, found in plan.batches.items()}
    audit = conclude(plan, wanted)
    return audit, tables_of(Results.of({}, decided_rows(audit, wanted, {NAME})))


def answers(evidence: PartitionEvidence, batches: dict) -> dict[str, list[dict]]:
    return audited(evidence, batches)[1]


@cache
def of_seed(seed: int) -> tuple[PartitionAudit, dict[str, list[dict]]]:
    """The audit of `make(seed)` and its rows, which nobody may change."""
    return audited(*make(seed))


def _each_alone(batches: Batches, chosen: np.ndarray, *_columns: np.ndarray) -> Iterator[tuple[int, int]]:
    return ((at, at) for at in chosen.nonzero()[0].tolist())


def _none(batches: Batches, others: Batches) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros(len(batches), bool), np.full(len(batches), -1), np.zeros(len(batches), bool)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_answers_are_those_of_looking_at_every_batch_by_itself(seed, monkeypatch):
    _, found = of_seed(seed)
    monkeypatch.setattr(Batches, "stretches", _each_alone)
    monkeypatch.setattr(alignment, "epoch_conflicts", _none)
    monkeypatch.setattr(planning, "needed_chunks", lambda one, other, *_: {*one.facts.chunks, *other.chunks})
    alone = answers(*make(seed))
    for table in some(found):
        assert found[table] == alone[table], table


def test_the_seeds_cover_what_matters():
    kinds, again, joined = set(), 0, 0
    for seed in SEEDS:
        audit, _ = of_seed(seed)
        parts = [part for item in audit.case.comparisons for part in item.alignment.differences]
        kinds |= {part.kind for part in parts}
        again += any(part.twin is not None or part.written_again for part in parts)
        joined += any(len(part.batches) > 1 for part in parts)
    assert kinds == {"epoch", "content", "format", "hole_here", "hole_there"}
    assert again > 10
    assert joined > 50


class _Counted(Batch):
    """A batch, counted as it is made."""

    made = 0

    @classmethod
    def _make(cls, values: Any) -> Any:
        _Counted.made += 1
        return Batch._make(values)


@pytest.mark.parametrize("below", [0, 5, 3_000])
@pytest.mark.parametrize("count", [1_000, 10_000])
def test_of_logs_that_agree_hardly_a_batch_becomes_an_object(count, below, monkeypatch):
    """However long they are, and wherever the high watermark is."""
    monkeypatch.setattr(batch_rows, "Batch", _Counted)
    monkeypatch.setattr(_Counted, "made", 0)
    rows = rows_of([Entry(offset, offset, 0, offset) for offset in range(count)])
    replicas = [(directory(n, max(0, count - below)), (segment_of(n, 0, rows),)) for n in (1, 2, 3)]
    leadership = Leadership(NAME.topic, NAME.partition, "user", leader_id=1, leader_epoch=0, isr=(1, 2, 3))
    found = answers(PartitionEvidence(NAME, tuple(replicas), leadership), {(n, f"broker-{n}"): rows for n in (1, 2, 3)})
    assert found["elections"] and not found["divergences"]
    assert _Counted.made <= 20


@pytest.mark.parametrize("count", [200, 2_000])
def test_of_a_fork_hardly_a_batch_becomes_an_object(count, monkeypatch):
    monkeypatch.setattr(batch_rows, "Batch", _Counted)
    monkeypatch.setattr(_Counted, "made", 0)
    shared = [Entry(offset, offset, 0, offset) for offset in range(count)]
    fork = [[Entry(offset, offset, epoch, offset + epoch) for offset in range(count, 2 * count)] for epoch in (0, 1)]
    replicas, batches = [], {}
    for broker, tail in ((1, fork[1]), (2, fork[0]), (3, fork[0])):
        batches[broker, f"broker-{broker}"] = rows = rows_of([*shared, *tail])
        replicas.append((directory(broker, count), (segment_of(broker, 0, rows),)))
    leadership = Leadership(NAME.topic, NAME.partition, "user", leader_id=1, leader_epoch=1, isr=(1,))
    found = answers(PartitionEvidence(NAME, tuple(replicas), leadership), batches)
    assert [row["record_count"] for row in found["divergences"]] == [count, count]
    assert _Counted.made <= 60


@pytest.mark.parametrize("seed", range(50))
def test_rows_are_found_by_all_their_fields(seed):
    dice = random.Random(seed)
    names = ("base_offset", "last_offset", "crc")
    sides = []
    for _ in range(2):
        bases = sorted(dice.randint(0, 8) for _ in range(dice.randint(0, 12)))
        sides.append([Entry(base, base + dice.randint(0, 1), 0, dice.randint(0, 1), 1) for base in bases])
    one, other = map(rows_of, sides)
    keys = [[tuple(row[name] for name in names) for row in rows] for rows in (one, other)]
    last = {key: at for at, key in enumerate(keys[1])}
    columns = [[rows[name] for name in names] for rows in (one, other)]
    assert find_rows(*columns).tolist() == [last.get(key, -1) for key in keys[0]]

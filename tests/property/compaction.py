"""A compacted partition with replicas whose cleaners work on their own: what was written, and what each still holds.

After `Cleaner`, `CleanedTransactionMetadata` and `MemoryRecords.filterTo`, simplified: one epoch for each leader, no
truncation, and a cleaner never goes past an open transaction or the shortest in-sync log.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from tests.support.encoder import Record, encode_batch, encode_marker

KEYS = 5
BROKERS = (1, 2, 3)


@dataclass(frozen=True)
class Batch:
    """Data by offset as (key, value, None for a tombstone), or a marker."""

    base: int
    last: int
    epoch: int
    records: tuple[tuple[int, int, int | None], ...] = ()
    producer: int | None = None
    marker: str | None = None
    horizon: int | None = None

    def encode(self) -> bytes:
        if self.marker:
            return encode_marker(self.base, self.marker, self.epoch, producer_id=self.producer, producer_epoch=0)
        records = [
            Record(
                f"key {key}".encode(),
                None if value is None else f"value {value}".encode(),
                offset_delta=offset - self.base,
            )
            for offset, key, value in self.records
        ]
        inside = (
            {}
            if self.producer is None
            else {"producer_id": self.producer, "producer_epoch": 0, "base_sequence": self.base, "transactional": True}
        )
        return encode_batch(
            self.base,
            records,
            self.epoch,
            last_offset_delta=self.last - self.base,
            delete_horizon_ms=self.horizon,
            **inside,
        )


@dataclass
class Replica:
    """One broker's log."""

    broker: int
    batches: list[Batch] = field(default_factory=list)
    seen_tombstones: set[int] = field(default_factory=set)
    """Those that a pass of this cleaner has gone over: the next may drop them."""

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0

    def fetch(self, leader: Replica, count: int) -> None:
        following = [batch for batch in leader.batches if batch.base >= self.end]
        self.batches += following[:count]


@dataclass
class History:
    """A run of a cluster from a seed; `decided` is how the transaction that an offset belongs to ended, if it did."""

    seed: int
    replicas: dict[int, Replica] = field(init=False)
    leader: int = 1
    epoch: int = 0
    written: list[tuple[int, int, int | None, bool | None]] = field(default_factory=list)
    """(offset, key, value, committed): None while the transaction is open."""

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.replicas = {broker: Replica(broker) for broker in BROKERS}
        self.open: dict[int, list[int]] = {}
        self.values = 0
        self.away: set[int] = set()
        for _ in range(self.dice.randrange(20, 90)):
            self._step()
        if self.dice.random() < 0.8:
            self.away.clear()
            self._fetch(99)

    def _step(self) -> None:
        dice = self.dice
        what = dice.choices(("write", "end", "fetch", "clean", "away", "lead"), (8, 4, 5, 8, 2, 1))[0]
        if what == "write":
            self._write()
        elif what == "end" and self.open:
            self._end(dice.choice(sorted(self.open)))
        elif what == "fetch":
            self._fetch(dice.randrange(1, 5))
        elif what == "clean":
            self._clean(self.replicas[dice.choice(BROKERS)])
        elif what == "away":
            other = dice.choice(BROKERS)
            if other != self.leader and (other not in self.away or dice.random() < 0.2):
                self.away ^= {other}
        elif what == "lead":
            candidates = [broker for broker in BROKERS if self.replicas[broker].end == self.replicas[self.leader].end]
            self.leader, self.epoch = dice.choice(candidates), self.epoch + 1
            self.away.discard(self.leader)

    def _write(self) -> None:
        dice, leader = self.dice, self.replicas[self.leader]
        producer = dice.choice((None, None, None, None, 11, 12))
        base, records = leader.end, []
        for offset in range(base, base + dice.randrange(1, 4)):
            self.values += 1
            records.append((offset, dice.randrange(KEYS), None if dice.random() < 0.4 else self.values))
        leader.batches.append(Batch(base, records[-1][0], self.epoch, tuple(records), producer))
        if producer is not None:
            self.open.setdefault(producer, []).extend(offset for offset, _, _ in records)
        self.written += [(*record, True if producer is None else None) for record in records]

    def _end(self, producer: int) -> None:
        offsets, leader = set(self.open.pop(producer)), self.replicas[self.leader]
        kind = self.dice.choice(("COMMIT", "ABORT"))
        leader.batches.append(Batch(leader.end, leader.end, self.epoch, (), producer, kind))
        self.written = [
            (offset, key, value, kind == "COMMIT" if offset in offsets else committed)
            for offset, key, value, committed in self.written
        ]

    def _fetch(self, count: int) -> None:
        for replica in self.replicas.values():
            if replica.broker != self.leader and replica.broker not in self.away:
                replica.fetch(self.replicas[self.leader], count)

    def visible(self, offset: int) -> bool:
        return any(one == offset and committed for one, _, _, committed in self.written)

    def _clean(self, replica: Replica) -> None:
        """One pass: what a later record replaces, aborted records, markers without data, and tombstones seen before."""
        present = [one.end for broker, one in self.replicas.items() if broker not in self.away]
        stable = min([*present, *(min(offsets) for offsets in self.open.values())])
        # The last batch is in the active segment.
        chosen = [batch for batch in replica.batches[:-1] if batch.last < stable]
        if not chosen:
            return
        latest: dict[int, int] = {}
        for batch in chosen:
            latest.update({key: offset for offset, key, _ in batch.records if self.visible(offset)})
        cleaned: list[Batch] = []
        before: list[Batch] = []
        for batch in chosen:
            if batch.marker:
                begun = max((one.base for one in before if one.marker and one.producer == batch.producer), default=-1)
                data = any(one.producer == batch.producer and not one.marker and one.base > begun for one in before)
                # Who misses a marker takes the records before it for those of the next transaction: a scene of its own.
                missed = any(one.end <= batch.last for one in self.replicas.values())
                if data or missed or self.dice.random() < 0.3:
                    cleaned.append(batch)
            else:
                cleaned += self._thinned(replica, batch, latest, is_last=batch is chosen[-1])
            before.append(batch)
        replica.batches = cleaned + replica.batches[len(chosen) :]

    def _thinned(self, replica: Replica, batch: Batch, latest: dict[int, int], is_last: bool) -> list[Batch]:
        kept = []
        for offset, key, value in batch.records:
            if latest.get(key) != offset:
                continue
            if value is None and offset in replica.seen_tombstones and self.dice.random() < 0.9:
                continue
            if value is None:
                replica.seen_tombstones.add(offset)
            kept.append((offset, key, value))
        if not kept and not is_last:
            return []
        if tuple(kept) == batch.records and self.dice.random() < 0.5:
            return [batch]
        return [replace(batch, records=tuple(kept), horizon=self.dice.randrange(10**12, 2 * 10**12) if kept else None)]

    def state(self, replica: Replica | None, end: int) -> dict[int, int]:
        """Key → value that is alive below `end`: of what was written (None), or of what a replica still holds."""
        held = None if replica is None else {offset for batch in replica.batches for offset, _, _ in batch.records}
        state: dict[int, int | None] = {}
        for offset, key, value, committed in self.written:
            if offset < end and committed and (held is None or offset in held):
                state[key] = value
        return {key: value for key, value in state.items() if value is not None}

"""A model of one replica: its disk, its memory, and what a follower keeps under a leader.

Written from docs/semantics.md (A.9, B.1 to B.3) and Kafka's `LeaderEpochFileCache`, `UnifiedLog`, `LogLoader` and
`ReplicaFetcherThread`, without a line of the library under test. Replicas are values: what changes one makes another.
"""

from __future__ import annotations

from typing import NamedTuple

#: Records of every batch: more than one, so that a count of batches is not taken for one of records.
RECORDS = 2


class Part(NamedTuple):
    """Role of a batch in the transactions of the only transactional producer."""

    producer_epoch: int
    """Raised at the end of every transaction (KIP-890)."""
    outcome: str | None = None
    """COMMIT or ABORT: the second offset of the batch is the marker; None: both records are data."""


class Batch(NamedTuple):
    """A batch as its leader wrote it; (base offset, leader epoch) identify it, since an epoch has one leader."""

    base: int
    epoch: int
    time: int
    """Number of the event that wrote it."""
    part: Part | None = None

    @property
    def end(self) -> int:
        return self.base + RECORDS

    @property
    def name(self) -> tuple[int, int]:
        """Identity of the batch."""
        return self.base, self.epoch

    @property
    def records(self) -> int:
        """Records at its offsets; a marker is none."""
        return RECORDS - (self.part is not None and self.part.outcome is not None)


class Replica(NamedTuple):
    """Disk and memory of one replica; offsets are exclusive ends."""

    batches: tuple[Batch, ...] = ()
    first: int = 0
    """Name of the first segment."""
    log_start: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    """(leader epoch, start offset): the cache, which is also the file."""
    high_watermark: int = 0
    recovery_point: int = 0
    mark: int = 0
    """Content of replication-offset-checkpoint."""
    start_mark: int | None = None
    """Content of log-start-offset-checkpoint; None without an entry."""
    status: str = "up"
    """up, stopped (cleanly) or killed."""

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else self.first

    @property
    def latest_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def assign(self, epoch: int, start: int) -> Replica:
        """`LeaderEpochFileCache.assign`."""
        if self.epochs and self.epochs[-1][0] == epoch and start >= self.epochs[-1][1]:
            return self
        kept = self.epochs
        while kept and (kept[-1][0] >= epoch or kept[-1][1] >= start):
            kept = kept[:-1]
        return self._replace(epochs=(*kept, (epoch, start)))

    def append(self, batch: Batch) -> Replica:
        """A batch at the end. The checkpoint of a log that was cut or lost its tail is rewritten before it grows again.

        The real file is rewritten every 5 seconds: a log that grows past the old value before that cannot be told from
        one that was never cut, whatever is read of it.
        """
        mark = self.mark if self.mark <= self.end else self.high_watermark
        return self._replace(batches=(*self.batches, batch), mark=mark).assign(batch.epoch, batch.base)

    def end_offset_for(self, epoch: int) -> tuple[int, int] | None:
        """The answer to a follower that has `epoch` last: (epoch, end offset); None is undefined."""
        if epoch < 0 or not self.epochs or epoch > self.latest_epoch:
            return None
        if epoch == self.latest_epoch:
            return epoch, self.end
        after = next(start for one, start in self.epochs if one > epoch)
        return max((one for one, _ in self.epochs if one <= epoch), default=epoch), after

    def truncate_to(self, offset: int) -> Replica:
        """`UnifiedLog.truncateTo`; recovery points are written at once, the high watermark is not."""
        if offset < self.first:
            return self.start_anew(offset)
        batches = tuple(batch for batch in self.batches if batch.end <= offset)
        end = min(offset, self.end)
        return self._replace(
            batches=batches,
            epochs=tuple(entry for entry in self.epochs if entry[1] < end),
            log_start=min(self.log_start, end),
            high_watermark=min(self.high_watermark, end),
            recovery_point=min(self.recovery_point, end),
        )

    def start_anew(self, offset: int) -> Replica:
        """`truncateFullyAndStartAt`."""
        emptied = self._replace(batches=(), epochs=(), first=offset, log_start=offset)
        return emptied._replace(high_watermark=offset, recovery_point=offset)

    def advance_log_start(self, offset: int) -> Replica:
        """DeleteRecords, here or at the leader: what lies below stays in its segment."""
        if offset <= self.log_start:
            return self
        below = [entry for entry in self.epochs if entry[1] <= offset]
        epochs = ((below[-1][0], offset), *self.epochs[len(below) :]) if below else self.epochs
        return self._replace(log_start=offset, epochs=epochs, high_watermark=max(self.high_watermark, offset))

    def checkpointed(self) -> Replica:
        """The files that a broker writes of its own accord every few seconds."""
        start_mark = self.log_start if self.log_start > self.first else None
        return self._replace(mark=self.high_watermark, start_mark=start_mark)

    def stopped(self) -> Replica:
        """A clean stop: flushed, checkpointed."""
        return self.checkpointed()._replace(recovery_point=self.end, status="stopped")

    def killed(self, end: int) -> Replica:
        """The process is gone, and what it had not flushed past `end` with it. Epochs are written through."""
        return self._replace(batches=tuple(batch for batch in self.batches if batch.end <= end), status="killed")

    def loaded(self) -> Replica:
        """`LogLoader.load`: after the next start."""
        log_start = max(self.start_mark or 0, self.first)
        if self.end < log_start:
            return self.start_anew(log_start)._replace(status="up")
        below = [entry for entry in self.epochs if entry[1] <= log_start]
        epochs = ((below[-1][0], log_start), *self.epochs[len(below) :]) if below else self.epochs
        return self._replace(
            epochs=tuple(entry for entry in epochs if entry[1] < self.end),
            log_start=log_start,
            high_watermark=max(log_start, min(self.mark, self.end)),
            recovery_point=self.end if self.status == "stopped" else min(self.recovery_point, self.end),
            status="up",
        )


def follow(follower: Replica, leader: Replica) -> Replica:
    """Part of its log that a follower keeps once the leader has accepted its position (B.3, since 2.7)."""
    while True:
        if not follower.epochs:
            return _out_of_range(follower.truncate_to(follower.high_watermark), leader)
        answer = leader.end_offset_for(follower.latest_epoch)
        if answer is None or follower.end < leader.log_start:
            return _out_of_range(follower, leader)
        if answer[0] == follower.latest_epoch and answer[1] >= follower.end:
            return follower
        epoch, end = answer
        own = follower.end_offset_for(epoch)
        if own is None:
            target = end
        elif own[0] != epoch:
            target = own[1]
        else:
            target = min(own[1], end)
        follower = follower.truncate_to(min(target, follower.end))


def _out_of_range(follower: Replica, leader: Replica) -> Replica:
    if leader.end < follower.end:
        return follower.truncate_to(leader.end)
    return follower.start_anew(leader.log_start) if leader.log_start > follower.end else follower

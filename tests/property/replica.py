"""One simulated replica: its log, epoch cache, high watermark and checkpoints, with the operations of Kafka's log.

Written from the rules (`LeaderEpochFileCache`, `UnifiedLog`) and sharing no code with the library under test.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as the leader wrote it; `content` is the encoded bytes, unique in a history, so it is the identity."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    timestamp_ms: int
    content: bytes = field(repr=False)


@dataclass(slots=True)
class Replica:
    """A replica's disk and memory."""

    broker_id: int
    log_start: int = 0
    log_end: int = 0
    batches: list[Batch] = field(default_factory=list)
    cache: list[tuple[int, int]] = field(default_factory=list)
    is_cache_written: bool = False
    """True once leader-epoch-checkpoint was written: it has 0 bytes until then, and a count of 0 when nothing is left in it."""
    high_watermark: int = 0
    checkpoint: int = 0
    """Content of replication-offset-checkpoint: a high watermark that this replica once had."""
    recovery_point: int = 0
    alive: bool = True
    offline: bool = False
    """True if its log directory failed under a broker that runs on: it serves nothing, and is not written any more."""
    life: int = 0
    """How often the topic had been created anew when its directory was made."""
    clean_shutdown: bool = False
    """True if `.kafka_cleanshutdown` is there: from a clean stop to the next start."""
    deleted_to: int | None = None
    """Log start by DeleteRecords, above the first segment's base; None: that is the log start."""
    cleaned_to: int | None = None
    """Content of cleaner-offset-checkpoint; None without an entry."""
    follows_epoch: int = -1
    """Leader epoch for which the truncation phase of the older protocols was last done."""

    @property
    def disk_end(self) -> int:
        """Log end by the files: a cut inside a batch is forgotten at the next start."""
        return self.batches[-1].end_offset if self.batches else self.log_start

    @property
    def first_offset(self) -> int:
        """Where the log starts for its leader, its followers and its readers."""
        return self.log_start if self.deleted_to is None else self.deleted_to

    def append(self, batch: Batch) -> None:
        assert batch.base_offset >= self.log_end, "a log never takes an offset twice"
        if self.checkpoint > self.log_end:
            # Left from before a truncation or a lost tail. The real file is rewritten every 5 seconds; a history in
            # which the log grew past the old value before that cannot be told from its files, and is not simulated.
            self.checkpoint = self.high_watermark
        self.batches.append(batch)
        self.log_end = batch.end_offset
        self.assign(batch.leader_epoch, batch.base_offset)

    def assign(self, leader_epoch: int, start_offset: int) -> None:
        if self.cache and self.cache[-1][0] == leader_epoch and start_offset >= self.cache[-1][1]:
            return
        while self.cache and (self.cache[-1][0] >= leader_epoch or self.cache[-1][1] >= start_offset):
            self.cache.pop()
        self.cache.append((leader_epoch, start_offset))
        self.is_cache_written = True

    @property
    def latest_epoch(self) -> int:
        return self.cache[-1][0] if self.cache else -1

    def end_offset_for(self, requested: int) -> tuple[int, int] | None:
        """Answer to OffsetsForLeaderEpoch; None is undefined."""
        if requested < 0 or not self.cache or requested > self.latest_epoch:
            return None
        if requested == self.latest_epoch:
            return requested, self.log_end
        after = next(start for epoch, start in self.cache if epoch > requested)
        return max((epoch for epoch, _ in self.cache if epoch <= requested), default=requested), after

    def truncate_to(self, offset: int) -> None:
        """Keep the batches below `offset`, which becomes the log's end though it may lie inside a dropped batch.

        That happens to a follower whose leader has deleted the epoch they differ in. Below the log start all goes, and
        the log starts anew there: that happens under a leader that had been away since before retention. An
        offset at or past the end only drops epoch entries that have no records.
        """
        if offset < self.log_start:
            self.truncate_fully(offset)
            return
        self.log_end = min(self.log_end, offset)
        if self.deleted_to is not None:
            self.deleted_to = min(self.deleted_to, offset)
        self.batches = [batch for batch in self.batches if batch.end_offset <= self.log_end]
        self.cache = [(epoch, start) for epoch, start in self.cache if start < self.log_end]
        self.high_watermark = min(self.high_watermark, self.log_end)
        self.recovery_point = min(self.recovery_point, self.log_end)

    def truncate_fully(self, offset: int) -> None:
        """Empty the log and start anew at `offset`."""
        self.batches, self.cache, self.deleted_to = [], [], None
        self.log_start = self.log_end = self.high_watermark = self.recovery_point = offset

    def advance_log_start(self, offset: int) -> None:
        """Retention: drop what lies below `offset`, a batch boundary at or below the high watermark."""
        if offset <= self.first_offset:
            return
        self.log_start, self.deleted_to = offset, None
        self.batches = [batch for batch in self.batches if batch.base_offset >= offset]
        below = [entry for entry in self.cache if entry[1] <= offset]
        if below:
            self.cache = [(below[-1][0], offset), *self.cache[len(below) :]]

    def delete_records(self, offset: int) -> None:
        """DeleteRecords: the log starts at `offset`; what lies below stays in its segment until that is deleted."""
        if offset <= self.first_offset:
            return
        self.deleted_to = offset
        below = [entry for entry in self.cache if entry[1] <= offset]
        if below:
            self.cache = [(below[-1][0], offset), *self.cache[len(below) :]]
        self.high_watermark = max(self.high_watermark, offset)
        self.checkpoint = max(self.checkpoint, offset)

    def lose_tail(self, batch_count: int) -> list[Batch]:
        """A crash of the machine: the last batches above the recovery point never reached the disk.

        The epoch file was written synchronously and keeps its lines until the next start.
        """
        lost = [batch for batch in self.batches if batch.base_offset >= self.recovery_point][-batch_count:]
        if batch_count and lost:
            del self.batches[-len(lost) :]
            self.log_end = lost[0].base_offset
            return lost
        return []

    def replace_disk(self) -> None:
        """Nothing is left: neither the log nor a checkpoint, nor a flag."""
        self.truncate_fully(0)
        self.checkpoint, self.cleaned_to, self.clean_shutdown, self.is_cache_written = 0, None, False, False

    def stop(self) -> None:
        """Stop as the broker does (`LogManager.shutdown`): flush, write the checkpoints, and then the flag."""
        self.alive, self.clean_shutdown = False, True
        self.recovery_point, self.checkpoint = self.log_end, self.high_watermark

    def restart(self) -> None:
        """Restart as the loader does: end by the files, epoch entries past it dropped, high watermark by the checkpoint."""
        self.alive, self.offline, self.clean_shutdown = True, False, False
        self.follows_epoch = -1
        self.log_end = self.disk_end
        self.cache = [(epoch, start) for epoch, start in self.cache if start < self.log_end]
        self.high_watermark = max(self.log_start, min(self.checkpoint, self.log_end))
        self.recovery_point = min(self.recovery_point, self.log_end)

"""The batch headers of one replica, read through its broker at a bounded rate into a table; records are not stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from replica_audit.errors import FormatError
from replica_audit.observe.agreement import AgreedBytes, NotAgreedError
from replica_audit.observe.broker_answers import (
    EARLIEST_LOCAL,
    Brokers,
    Refused,
    Throttled,
    UnreachableError,
    read_batches,
)
from replica_audit.observe.planning import THROTTLED, THROTTLED_ANSWERS, THROTTLED_SECONDS, ReplicaToRead, planned_again
from replica_audit.segments.header_columns import headers_to_columns
from replica_audit.snapshot.observed import ObservedReplica

_FETCH_BYTES = 1 << 20
GREATEST_FETCH = 128 << 20
#: Attempts to read a log that is cut or expires meanwhile.
_ATTEMPTS = 3
#: Batches per row group.
_ROWS = 1 << 16


class StoppedError(Exception):
    """Another reader failed, or the user interrupted: what remains is not read."""


class Pace:
    """Rate limit for one broker, applied after each answer."""

    def __init__(
        self,
        rate: int,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """`rate` is in bytes a second; after `is_over` returns True no more is read."""
        self.rate = rate
        self._now = now
        self._sleep = sleep
        self._is_over = is_over
        self._free_at = now()

    def wait(self) -> None:
        """Wait until earlier answers are within the rate. Raises StoppedError if the reading has been stopped."""
        if (left := self._free_at - self._now()) > 0:
            self._sleep(left)
        if self._is_over():
            raise StoppedError

    def take(self, size_bytes: int) -> None:
        """Count the bytes of an answer."""
        self._free_at = max(self._free_at, self._now()) + size_bytes / self.rate

    def pause(self) -> None:
        """Wait for a broker's quota."""
        self._sleep(THROTTLED_SECONDS)

    @property
    def fetch_bytes(self) -> int:
        """Bytes to request: a quarter of a second at the rate."""
        return max(1, min(_FETCH_BYTES, self.rate // 4))


class _ChangedError(Exception):
    """The log was cut or expired while it was read."""


class _GivenUpError(Exception):
    """A replica cannot be read; the text says why."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A broker with its rate limit, a counter of received bytes, and the agreement on their number."""

    brokers: Brokers
    pace: Pace
    came: Callable[[int], None]
    agreement: AgreedBytes
    compacted: Collection[str] = ()
    """Topics whose cleanup.policy is known to include `compact`."""

    def read(self, planned: ReplicaToRead, path: Path) -> ObservedReplica:
        """Write the table of a replica's batches to `path`, if it has any. Raises UnreachableError if the broker does
        not answer, NotAgreedError if no more may be read."""
        for _ in range(_ATTEMPTS):
            try:
                return _observed(planned, self._write(planned, path))
            except _ChangedError:
                path.unlink(missing_ok=True)
                planned = planned_again(self.brokers, planned)
                if planned.problem is not None:
                    return unread(planned, planned.problem)
            except _GivenUpError as error:
                path.unlink(missing_ok=True)
                return unread(planned, str(error))
            except (UnreachableError, NotAgreedError):
                path.unlink(missing_ok=True)
                raise
        return unread(planned, f"its log was cut or expired while it was read, {_ATTEMPTS} times")

    def _write(self, planned: ReplicaToRead, path: Path) -> tuple[int, int]:
        """Write the batches; returns the start and end of the offsets read."""
        first = end = planned.start_offset
        writer = None
        try:
            for batches in self._batches(planned):
                table = _table(planned, batches)
                writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
                writer.write_table(table, row_group_size=_ROWS)
                first = min(first, int(batches["base_offset"][0]))
                end = int(batches["last_offset"][-1]) + 1
        finally:
            if writer is not None:
                writer.close()
        return first, end

    def _batches(self, planned: ReplicaToRead) -> Iterator[NDArray[np.void]]:
        """Batches below the planned high watermark, some thousands at a time."""
        at = planned.start_offset
        held = []
        number = 0
        while at < planned.high_watermark:
            batches = self._fetch(planned, at)
            if not len(batches):
                self._check_hole(planned, at)
                break
            end = int(batches["last_offset"][-1]) + 1
            if end <= at:
                raise _GivenUpError(f"asked for offset {at}, it sends batches that end below")
            at = end
            held.append(batches[batches["base_offset"] < planned.high_watermark])
            number += len(held[-1])
            if number >= _ROWS:
                yield np.concatenate(held)
                held = []
                number = 0
        if number:
            yield np.concatenate(held)

    def _check_hole(self, planned: ReplicaToRead, offset: int) -> None:
        """Check an empty answer below the high watermark: a cleaner may have removed the rest (`LocalLog.read`), or the
        broker did not get it from remote storage in time. Raises if the log start moved beyond `offset`."""
        place = planned.partition.place
        start = self.brokers.offsets(planned.broker_id, [place], EARLIEST_LOCAL).get(place, Refused("no answer"))
        if isinstance(start, Refused):
            raise _GivenUpError(start.error)
        if start.offset > offset:
            raise _ChangedError
        if place.topic not in self.compacted:
            raise _GivenUpError(
                f"it sends nothing from offset {offset} on, though its high watermark is {planned.high_watermark}"
            )

    def _fetch(self, planned: ReplicaToRead, offset: int) -> NDArray[np.void]:
        size = self.pace.fetch_bytes
        silent = 0
        while True:
            self.agreement.wait()
            self.pace.wait()
            answers = self.brokers.fetch(planned.broker_id, {planned.partition: offset}, size, size)
            answer = answers.get(planned.partition.place, Refused("no answer"))
            if isinstance(answer, Refused):
                if answer.error == "OFFSET_OUT_OF_RANGE":
                    raise _ChangedError
                raise _GivenUpError(answer.error)
            if isinstance(answer, Throttled):
                silent += 1
                if silent >= THROTTLED_ANSWERS:
                    raise _GivenUpError(THROTTLED)
                self.pace.pause()
                continue
            self.pace.take(len(answer.records))
            self.agreement.count(len(answer.records))
            self.came(len(answer.records))
            if answer.high_watermark < planned.high_watermark:
                raise _ChangedError
            try:
                batches = read_batches(answer.records)
            except FormatError as error:
                raise _GivenUpError(f"from offset {offset} on: {error}") from None
            if len(batches) or not answer.records:
                return batches
            if size >= GREATEST_FETCH:
                raise _GivenUpError(f"the batch at offset {offset} did not come whole in {size} bytes")
            size = min(size * 4, GREATEST_FETCH)  # brokers before 0.11 send no complete batch if it is longer


def _table(planned: ReplicaToRead, batches: NDArray[np.void]) -> pa.Table:
    columns = headers_to_columns(batches)
    del columns["position"]  # position in the answer, not in a segment
    number = len(batches)
    place = {
        "broker_id": pa.array(np.full(number, planned.broker_id, np.int32)),
        "topic": pa.array([planned.partition.topic] * number),
        "partition": pa.array(np.full(number, planned.partition.partition, np.int32)),
    }
    return pa.table({**place, **columns})


def _observed(planned: ReplicaToRead, ends: tuple[int, int]) -> ObservedReplica:
    one = planned.partition
    end = planned.log_end
    return ObservedReplica(
        planned.broker_id,
        one.topic,
        one.partition,
        one.topic_id,
        planned.log_start_offset,
        *ends,
        planned.high_watermark,
        None if end is None else end.offset,
        None if end is None else end.leader_epoch,
    )


def unread(planned: ReplicaToRead, problem: str) -> ObservedReplica:
    """Row for a replica that could not be read."""
    one = planned.partition
    return ObservedReplica(
        planned.broker_id, one.topic, one.partition, one.topic_id, None, None, None, None, None, None, problem
    )

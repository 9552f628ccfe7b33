"""Speed of the decoder of records, beside a parser in C.

Run: `.venv/bin/python benchmarks/records.py`. Both make the same rows of the same batches: offset, timestamp, and keyed
hashes of key, content and headers. Prints records per second of each kind of batch, and ends with status 1 where ours
takes more than 1.1 times as long as aiokafka's parser in C with rows made one by one, which it replaced.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from aiokafka.record.memory_records import MemoryRecords

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.encoder import TIMESTAMP_MS, Record, encode_batch  # noqa: E402
from tests.support.hashing import NumberedHasher  # noqa: E402

from replica_audit.segments.records import RECORD_DTYPE, decode_records  # noqa: E402

ROUNDS = 11
RECORDS = 10_000
TARGET = 1.1


class Kind(NamedTuple):
    """Batches of one kind."""

    records: int
    value_bytes: int
    headers: int = 0
    codec: str = "none"

    def batch(self) -> bytes:
        """One such batch, with keys of ten bytes and a record a millisecond."""
        headers = tuple((f"header-{number}", b"value") for number in range(self.headers))
        records = [
            Record(
                b"key-%06d" % number, bytes([number & 255]) * self.value_bytes, TIMESTAMP_MS + number, headers, number
            )
            for number in range(self.records)
        ]
        return encode_batch(0, records, 0, codec=self.codec)


KINDS = (
    Kind(1, 100),
    Kind(10, 100),
    Kind(100, 100),
    Kind(100, 1000),
    Kind(1000, 100),
    Kind(100, 100, 2),
    Kind(100, 100, codec="lz4"),
)


def decode_in_c(entry: bytes, hasher: NumberedHasher) -> np.ndarray:
    """The rows by aiokafka's parser."""
    rows = []
    for record in MemoryRecords(entry).next_batch():
        key, value = record.key, record.value
        headers = [part for name, content in record.headers for part in (name.encode(), content)]
        rows.append(
            (record.offset, 0, 2, record.timestamp, -1, -1, -1)
            + (key is not None, value is not None, False, False, -1)
            + (hasher.hash(key), hasher.hash(key, value), hasher.hash(*headers))
        )
    return np.array(rows, RECORD_DTYPE)


def least_seconds(works: list[Callable[[], object]], times: int) -> list[float]:
    """Processor seconds of each work, `times` over, in the fastest of `ROUNDS` rounds of them in turns."""
    least = [float("inf")] * len(works)
    for _ in range(ROUNDS):
        for index, work in enumerate(works):
            begin = time.process_time()
            for _ in range(times):
                work()
            least[index] = min(least[index], time.process_time() - begin)
    return least


def main() -> int:
    """Measure, print, and say by the exit status whether the target holds."""
    hasher = NumberedHasher()
    worst = 0.0
    for kind in KINDS:
        entry, times = kind.batch(), max(1, RECORDS // kind.records)
        if not np.array_equal(decode_records(entry, hasher), decode_in_c(entry, hasher)):
            sys.exit(f"error: the two decoders differ on {kind}")
        own, in_c = least_seconds([partial(decode_records, entry, hasher), partial(decode_in_c, entry, hasher)], times)
        count = times * kind.records
        worst = max(worst, own / in_c)
        print(
            f"{kind.records:>5} records of {kind.value_bytes:>4} bytes, {kind.headers} headers, codec {kind.codec}: "
            f"{count / own:>9,.0f} records/s, in C {count / in_c:>9,.0f} records/s, {own / in_c:.2f} times as long"
        )
    print(f"  at worst {worst:.2f} times as long (target: at most {TARGET})")
    return 0 if worst <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())

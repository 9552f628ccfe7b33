"""Batches as the comparison of two logs sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from replica_audit.formats.segments.attributes import CONTROL

if TYPE_CHECKING:
    import numpy as np

_TIMESTAMP_IS_DELETE_HORIZON = 0x40


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as the comparison sees it; `record_count` and timestamps as in the header, -1 for none."""

    position: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    crc: int
    size: int
    crc_valid: bool
    record_count: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int = -1

    @property
    def is_control(self) -> bool:
        """Whether it holds a marker, which no producer sent."""
        return self.magic >= 2 and bool(self.attributes & CONTROL)

    @property
    def end_offset(self) -> int:
        return self.last_offset + 1

    @property
    def epoch(self) -> int | None:
        return self.leader_epoch if self.magic >= 2 and self.leader_epoch >= 0 else None

    @property
    def timestamps(self) -> tuple[int, ...]:
        """The header's timestamps that are ones."""
        horizon = self.attributes & _TIMESTAMP_IS_DELETE_HORIZON and self.magic >= 2
        return tuple(
            value for value in ((() if horizon else (self.base_timestamp,)) + (self.max_timestamp,)) if value >= 0
        )


def batches_of(rows: np.ndarray | None) -> tuple[Batch, ...]:
    """Batches of a `BATCH_DTYPE` array, by base offset."""
    if rows is None or not len(rows):
        return ()
    names = Batch.__slots__
    rows = rows[rows["base_offset"].argsort(kind="stable")]
    return tuple(Batch(*values) for values in zip(*(rows[name].tolist() for name in names)))

"""Two replicas of a compacted log: what both hold must be equal, and each key must have the same latest value.

Each replica's cleaner works on its own, so batches, bytes and presence differ on healthy ones (A.4). Only records of
batches that are not the same bytes on both sides are read, and of the others those of keys that are still in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from replica_audit.auditing.comparing.alignment import Alignment, Difference, unmatched_batches
from replica_audit.auditing.comparing.compacted_sides import CompactedPair, Side
from replica_audit.auditing.comparing.contents import Reading
from replica_audit.auditing.comparing.key_state import KeyState
from replica_audit.auditing.replicas.shared_range import shared_start
from replica_audit.batch_header import Batch

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.facts import ReplicaFacts


@dataclass(frozen=True, slots=True)
class Compaction:
    """What the records of a compacted pair showed."""

    end_offset: int
    """Compared up to here: the shorter log's end, or the first conflict of epochs."""
    only_reference: int
    only_follower: int
    """Records below the end that only one side has, aborted ones and markers included."""
    complete: bool
    """All records that were wanted could be read."""
    keys: KeyState


def compare_compacted(
    reference: ReplicaFacts,
    follower: ReplicaFacts,
    alignment: Alignment,
    own: np.ndarray,
    theirs: np.ndarray,
    reading: Reading,
) -> tuple[Alignment, Compaction | None]:
    """`alignment` with the differences that records show, and what they say of keys; None where no batch differs.

    `own` and `theirs` are the follower's and the reference's batches (`BATCH_DTYPE`): of the reference all from the
    greater log start on, of the follower those in chunks whose digests differ, and all above the reference's end.
    """
    floor = shared_start(reference, follower)
    conflicts = [item.start_offset for item in alignment.differences if item.kind == "epoch"]
    end = min([reference.log_end_offset, follower.log_end_offset, *conflicts])
    unmatched = unmatched_batches(alignment.own, alignment.reference, floor, compacted=False)
    own_odd, their_odd = ([batch for batch in side if batch.base_offset < end] for side in unmatched)
    if not own_odd and not their_odd:
        return alignment, None
    pair = CompactedPair(
        Side(reference, theirs, their_odd), Side(follower, own, own_odd), floor, end, bool(conflicts), reading
    )
    differences = pair.read_odd()
    state = pair.compare_keys()
    outcome = Compaction(end, pair.reference.only, pair.follower.only, not pair.unread, state)
    return _with_records(alignment, own_odd, differences, pair.unread), outcome


def _with_records(
    alignment: Alignment, own_odd: Sequence[Batch], found: Sequence[Difference], unread: Sequence[tuple[int, int]]
) -> Alignment:
    """`alignment` with header-level guesses on the batches that were read replaced by what their records show."""
    read_batches = {
        batch
        for batch in own_odd
        if not any(low < batch.end_offset and batch.base_offset < high for low, high in unread)
    }
    told = {batch for item in found for batch in item.batches}
    differences = list(found)
    for item in alignment.differences:
        decided = item.kind == "content" and item.batches[0] in read_batches
        if decided and item.batches[0] not in told:
            differences.append(replace(item, kind="batching", compared=True))
        elif not decided:
            differences.append(item)
    differences.sort(key=lambda item: (item.start_offset, item.end_offset))
    return replace(alignment, differences=tuple(differences))

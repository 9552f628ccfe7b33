"""What an earlier audit compared and found equal, so that it need not be compared again (`--since`).

Only where both logs have there what they had then: a log that was cut and written anew, or that rot since, is compared whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.replicas.replica_facts import CopyKey
from replica_audit.model import CHUNK_OFFSETS, ChunkDigest
from replica_audit.segments.summary import merge_chunks, summary_from_json

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


@dataclass(frozen=True, slots=True)
class VerifiedCopy:
    """A replica as an earlier audit saw it: equal to the reference up to `end_offset`, and its chunks then."""

    end_offset: int
    chunks: Mapping[int, ChunkDigest]


def verified_copies(rows: Iterable[Mapping[str, Any]]) -> dict[CopyKey, VerifiedCopy]:
    """The copies of one partition; `rows`, one for each segment then, have broker_id, log_dir, common_prefix_end and summary."""
    ends: dict[CopyKey, int] = {}
    chunks: dict[CopyKey, list[Iterable[ChunkDigest]]] = defaultdict(list)
    for row in rows:
        key = (row["broker_id"], row["log_dir"])
        ends[key] = row["common_prefix_end"]
        chunks[key].append(summary_from_json(row["summary"]).chunks)
    return {key: VerifiedCopy(end, merge_chunks(chunks[key])) for key, end in ends.items()}


def verified_chunks(
    verified: Mapping[CopyKey, VerifiedCopy], reference: ReplicaFacts, follower: ReplicaFacts
) -> frozenset[int]:
    """Chunks that need no comparison: whole below what was verified of both, and on both as they were then.

    None when anything else below has changed, except by retention. None of compacted logs: which value of a key
    is the latest depends on all of the log.
    """
    theirs, own = verified.get(reference.key), verified.get(follower.key)
    if theirs is None or own is None or reference.compacted or follower.compacted:
        return frozenset()
    end = min(theirs.end_offset, own.end_offset)
    found: list[set[int]] = []
    for facts, copy in ((reference, theirs), (follower, own)):
        below = {number: chunk for number, chunk in facts.chunks.items() if chunk.last_offset < end}
        same = {number for number, chunk in below.items() if copy.chunks.get(number) == chunk}
        # Retention may have deleted the first part of the chunk that the log begins in now.
        if below.keys() - same - {facts.local_start_offset // CHUNK_OFFSETS}:
            return frozenset()
        found.append(same)
    return frozenset(found[0] & found[1])

"""The differences of a follower put together to runs, with one epoch on either side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from replica_audit.auditing.comparing.runs import Proof, Run
from replica_audit.auditing.comparing.tallies import tally_batches
from replica_audit.formats.segments.batch_rows import Batches

if TYPE_CHECKING:
    from replica_audit.auditing.comparing.alignment import Difference
    from replica_audit.auditing.replicas.facts import ReplicaFacts
    from replica_audit.model import OffsetRange


def runs_of(
    differences: tuple[Difference, ...], stretches: tuple[OffsetRange, ...], cut: int, follower: ReplicaFacts
) -> tuple[Run, ...]:
    """Runs of a follower's `differences`, in order.

    `cut` is the offset up to which it keeps its log, `stretches` are the conflicting ranges.
    """
    groups: list[list[Difference]] = []
    for item in (part for one in differences for part in one.parted(cut)):
        if item.kind in ("format", "batching"):
            continue
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and item.start_offset <= last.end_offset
            and (item.kind, item.leader_epoch, item.replica_epoch) == (last.kind, last.leader_epoch, last.replica_epoch)
            and (item.start_offset >= cut) == (last.start_offset >= cut)
        ):
            groups[-1].append(item)
        else:
            groups.append([item])
    return tuple(_run(group, stretches, cut, follower) for group in groups)


def _run(group: list[Difference], stretches: tuple[OffsetRange, ...], cut: int, follower: ReplicaFacts) -> Run:
    first = group[0]
    start, end = first.start_offset, max(item.end_offset for item in group)
    batches = Batches.joined([item.batches for item in group])
    lacking, again = (
        Batches.joined([item.batches for item in group if item.written_again is same]).once() for same in (False, True)
    )
    committed_end = None
    if first.conflicting:
        stretch = next(part for part in stretches if part.start_offset <= start < part.end_offset)
        checkpoint = follower.directory.high_watermark_checkpoint
        end_here = min(stretch.end_offset, follower.log_end_offset)
        if checkpoint is not None and start < checkpoint <= end_here and (lacking.starts < checkpoint).any():
            committed_end = checkpoint
    return Run(
        start_offset=start,
        end_offset=end,
        leader_epoch=first.leader_epoch,
        replica_epoch=first.replica_epoch,
        tally=replace(tally_batches(batches), record_count=batches.records_between(start, end))
        if any(item.compared for item in group)
        else tally_batches(batches),
        committed_end=committed_end,
        committed_records=0 if committed_end is None else lacking.records_between(start, committed_end),
        kind=first.kind,
        survives=start < cut,
        compacted=follower.compacted,
        batches=lacking,
        written_again=again,
        proof=None if committed_end is None else _own_checkpoint(follower, committed_end),
    )


def _own_checkpoint(follower: ReplicaFacts, checkpoint: int) -> Proof:
    text = f"its own high watermark reached {checkpoint}"
    return Proof("checkpoint", follower.broker_id, text, str(checkpoint), follower.directory.high_watermark_file.path)

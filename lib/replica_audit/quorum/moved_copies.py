"""Premises of a `quorum` plan, compared with a later snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.elect.premises import ChangedPremise
from replica_audit.quorum.answer_model import QuorumAnswer


def moved_since(before: QuorumAnswer, now: QuorumAnswer) -> Iterator[ChangedPremise]:
    """Premises that changed between the snapshot of a plan and a later one."""
    if before.cluster_id != now.cluster_id:
        yield ChangedPremise(None, None, None, "cluster", before.cluster_id, now.cluster_id)
    known = {one.path: one for one in now.rests_on}
    for was in before.rests_on:
        one = known.pop(was.path, None)
        if one is None:
            yield ChangedPremise(
                None, None, was.node_id, f"metadata log {was.path}", "in the snapshot", "not in this one"
            )
            continue
        for name, of, value in (
            ("directory.id", was.directory_id, one.directory_id),
            ("metadata log's end", was.end_offset, one.end_offset),
            ("metadata log's last epoch", was.last_epoch, one.last_epoch),
            ("quorum-state's epoch", was.leader_epoch, one.leader_epoch),
        ):
            if of != value:
                yield ChangedPremise(None, None, was.node_id, name, of, value)
        if was.digest != one.digest and was.end_offset == one.end_offset:
            yield ChangedPremise(None, None, was.node_id, "metadata log's records", was.digest, one.digest)
    for path, one in known.items():
        yield ChangedPremise(None, None, one.node_id, f"metadata log {path}", "not in the snapshot", "in this one")

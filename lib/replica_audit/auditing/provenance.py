"""Whether two logs can be compared at all, when one of them is known from a text or table only."""

from __future__ import annotations

from replica_audit.auditing.chunks import differing_chunks
from replica_audit.auditing.facts import ReplicaFacts
from replica_audit.formats.second_hand import UNPROVEN, are_comparable


def why_not_comparable(reference: ReplicaFacts, follower: ReplicaFacts) -> str | None:
    """Why nothing may be concluded from a comparison of the two; None where it may."""
    if not (reference.second_hand or follower.second_hand):
        return None
    for facts in (follower, reference):
        for word in facts.undecided:
            return f"of broker {facts.broker_id}: {UNPROVEN[word]}"
    if not are_comparable(reference.form, follower.form):
        return (
            f"the two are not given in the same form: broker {follower.broker_id} as {follower.form}, "
            f"broker {reference.broker_id} as {reference.form}"
        )
    derived = [facts for facts in (reference, follower) if "base_offsets" in facts.unproven]
    if derived and any(facts.compacted or facts.gaps for facts in (reference, follower)):
        return f"of broker {derived[0].broker_id}: {UNPROVEN['base_offsets']}, and the log has gaps"
    return None


def open_questions(reference: ReplicaFacts, follower: ReplicaFacts) -> str | None:
    """What a comparison of the two leaves open because there are no records to read; None where nothing."""
    if not (reference.second_hand or follower.second_hand):
        return None
    if (reference.compacted or follower.compacted) and differing_chunks(reference, follower):
        return (
            f"the logs of brokers {follower.broker_id} and {reference.broker_id} are compacted and their batches differ: whether they "
            "hold the same latest value of each key cannot be told without segments"
        )
    return None

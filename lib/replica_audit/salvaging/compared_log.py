"""The log that the copies of a partition are laid beside: the leader's as it is, or that of the leader which a plan chose."""

from __future__ import annotations

from dataclasses import dataclass, replace

from replica_audit.auditing.comparing.candidates import as_leader
from replica_audit.auditing.findings.case import Case
from replica_audit.auditing.findings.families.rep import brokers_past_leader
from replica_audit.auditing.partitions.conclusion import PartitionAudit
from replica_audit.auditing.replicas.facts import CopyKey, ReplicaFacts
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.deciding.costs import may_have_lost_tail, replicas_of


@dataclass(frozen=True, slots=True)
class ComparedLog:
    """A log as it leads, and of which brokers it lacks what lies past its end in its own epoch."""

    reference: Reference
    past_end: frozenset[CopyKey]
    """Copies that hold what it had and lost; of all others these records may just be of another moment."""
    everyone: bool = False
    """All that any copy holds past its end is lacking: nobody else led in between, and it leads from now on."""

    def lacks_tail(self, copy: CopyKey) -> bool:
        """Whether it lacks what a copy has past its end, whatever the epoch."""
        return self.everyone or copy in self.past_end


def present_log(audit: PartitionAudit) -> ComparedLog | None:
    """The log of the present leader, or of who stands for it; None where the snapshot has no replica."""
    if audit.case is None:
        return None
    return ComparedLog(audit.case.reference, _past_end(audit, audit.case))


def planned_log(audit: PartitionAudit, candidate_id: int) -> ComparedLog | None:
    """The log of a candidate once all others have followed it, as the cost matrix has it (`deciding.costs`).

    None where the snapshot has no replica of that broker to compare with.
    """
    case = audit.case
    replicas = [] if case is None else replicas_of(case)
    candidate = next((facts for facts in replicas if facts.broker_id == candidate_id), None)
    if case is None or candidate is None:
        return None
    elected = as_leader(case.reference, candidate, replicas)
    if not _stays(case.reference, candidate):
        return ComparedLog(elected, frozenset(), everyone=True)
    # It leads already: what lies past its end in its own epoch it may have, in a copy that was made earlier.
    present = replace(elected, leader_epoch=case.reference.leader_epoch, log_epoch=case.reference.log_epoch)
    return ComparedLog(present, _past_end(audit, case), may_have_lost_tail(case))


def _past_end(audit: PartitionAudit, case: Case) -> frozenset[CopyKey]:
    brokers = brokers_past_leader(audit.findings)
    replicas = {item.follower.key for item in case.comparisons if item.follower.broker_id in brokers}
    return frozenset(replicas | {item.follower.key for item in case.beside if case.is_lost_tail(item)})


def _stays(reference: Reference, candidate: ReplicaFacts) -> bool:
    return candidate is reference.facts and reference.leader_id == candidate.broker_id

"""Records that only copies beside the replicas hold: on another disk, or in what Kafka has put aside (F.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.comparing.loss import committed_ahead, has_data, is_lost
from replica_audit.auditing.findings.code import Code
from replica_audit.auditing.findings.finding import Evidence, Finding, considered, finding, offsets
from replica_audit.auditing.findings.run_history import left_by, told_by_history
from replica_audit.auditing.findings.shared import name_copy
from replica_audit.formats.log_dirs.names import kind_of_copy
from replica_audit.wording import count

if TYPE_CHECKING:
    from replica_audit.auditing.comparing.comparison import Comparison
    from replica_audit.auditing.comparing.runs import Run
    from replica_audit.auditing.findings.case import Case

DIV_BESIDE = Code(
    "DIV-BESIDE",
    severities=("critical", "high"),
    verdicts=("COMMITTED_LOSS", "WILL_LOSE_ON_TRUNCATION"),
    traits=("records", "held", "saved_first"),
    summary="Records that only a copy beside the replicas holds",
    meaning="A -future, -stray or -delete directory, a segment that Kafka is about to delete, or a second copy on another "
    "disk has records that the leader does not have. No replica leads with such a copy: a -future copy is cut to the "
    "current log when its broker starts, the others are deleted or stay unread.",
    proof="The directory, the offsets with their epochs, and what the leader has there. Critical where they were proven "
    "committed.",
    remedy="Copy the directory before its broker is started or anything in it is deleted; then take the records out of it "
    "with replica-audit salvage.",
    traps="What retention, compaction or a clean election explains is not told; nor is a copy of another topic id.",
)
CODES = (DIV_BESIDE,)

#: What becomes of a copy by its kind.
_FATES = {
    "current": "its broker has a second copy of the partition and uses the other",
    "future": "it is cut to the current log when the broker starts",
    "stray": "Kafka does not read this directory",
    "delete": "Kafka is about to delete this directory",
    "deleted": "Kafka is about to delete these segments",
}


def judge(case: Case) -> Iterator[Finding]:
    """One for each stretch of records that a copy beside the replicas has and the reference lacks."""
    for item in case.beside:
        for run in item.runs:
            if is_lost(run) and any(has_data(batch) for batch in run.batches):
                yield _run(case, item, run)
        if case.is_lost_tail(item) and (tail := [batch for batch in item.alignment.ahead if has_data(batch)]):
            yield _tail(case, item, tail[0].base_offset, tail[-1].end_offset)


def _run(case: Case, item: Comparison, run: Run) -> Finding:
    leader = case.reference.facts
    epoch = "without an epoch" if run.replica_epoch is None else f"of epoch {run.replica_epoch}"
    there = (
        f"the log of broker {leader.broker_id} ends at {leader.log_end_offset}"
        if run.start_offset >= leader.log_end_offset
        else f"broker {leader.broker_id} has other records there"
        if run.conflicting
        else f"broker {leader.broker_id} has nothing there"
    )
    proven = (
        "" if run.proof is None else f"; {count(run.committed_records, 'record')} proven committed: {run.proof.text}"
    )
    return _told(
        item,
        f"{name_copy(item.follower)} has {count(run.data_records, 'record')} {epoch} at "
        f"{offsets(run.start_offset, run.end_offset)}; {there}{left_by(run)}{proven}",
        (run.start_offset, run.end_offset),
        is_committed=bool(run.committed_records),
        replica_epoch=run.replica_epoch,
        evidence=[considered("lag: no, the records differ"), *told_by_history(run)],
    )


def _tail(case: Case, item: Comparison, start: int, end: int) -> Finding:
    leader = case.reference.facts
    committed = min(end, committed_ahead(leader, item.follower))
    proven = f"; everything below {committed} was committed" if committed > start else ""
    return _told(
        item,
        f"{name_copy(item.follower)} has the records at {offsets(start, end)}; the current log on broker "
        f"{leader.broker_id}, which it was copied from, ends at {leader.log_end_offset}{proven}",
        (start, end),
        is_committed=committed > start,
        replica_epoch=item.alignment.ahead[0].epoch,
        evidence=[considered("copied later: no, nothing was written while the copies were made")],
    )


def _told(
    item: Comparison,
    text: str,
    where: tuple[int, int],
    *,
    is_committed: bool,
    replica_epoch: int | None,
    evidence: list[Evidence],
) -> Finding:
    facts = item.follower
    return finding(
        DIV_BESIDE,
        f"{text}; {_FATES[kind_of_copy(facts.directory)]}",
        severity="critical" if is_committed else "high",
        verdict="COMMITTED_LOSS" if is_committed else "WILL_LOSE_ON_TRUNCATION",
        broker_id=facts.broker_id,
        start_offset=where[0],
        end_offset=where[1],
        replica_epoch=replica_epoch,
        evidence=[Evidence("file", "a copy beside the replicas", facts.broker_id, facts.directory.log_dir), *evidence],
    )

"""Records that an earlier audit saw on a replica, and that no replica holds any more (F.5, HWM-GONE)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.findings.catalogue import worst_verdict
from replica_audit.auditing.findings.finding import Case, Evidence, Finding, considered, finding, finding_row, offsets
from replica_audit.auditing.replicas.copies_of_partition import is_tiered
from replica_audit.auditing.replicas.facts import ReplicaFacts
from replica_audit.model import OffsetRange

if TYPE_CHECKING:
    from replica_audit.auditing.partition import PartitionAudit

_KIND = "earlier"


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """Records that the leader of that time did not have: committed, or left behind by an election known to be unclean."""

    audit_id: str
    finished: str
    """When that audit ended, ISO 8601."""
    topic_id: str
    broker_ids: tuple[int, ...]
    """That held them, in ascending order."""
    start_offset: int
    end_offset: int
    replica_epoch: int
    records: int | None
    committed: bool
    leader_epoch: int | None
    """The partition's current one at that audit."""


@dataclass(frozen=True, slots=True)
class EarlierLosses:
    """What earlier finished audits saw of one partition, and the ids of the findings that told of its end (HWM-GONE)."""

    runs: tuple[EarlierRun, ...] = ()
    told: frozenset[str] = frozenset()


def losses_of_rows(rows: Iterable[Mapping[str, Any]]) -> EarlierLosses:
    """From rows of one partition, in any order: of `divergences` with audit_id, finished, topic_id, records and leader_epoch
    (the partition's), each of one broker, and of findings HWM-GONE with finding_id and evidence.

    Of several audits that saw the same run the latest counts; what only a finding remembers, because the audit itself was
    removed, counts too.
    """
    runs, told = [], set()
    for row in rows:
        if "finding_id" in row:
            told.add(row["finding_id"])
            values = [one["value"] for one in row["evidence"] or () if one["kind"] == _KIND]
            runs += (_remembered(json.loads(value)) for value in values if value)
        else:
            names = (
                "audit_id",
                "finished",
                "topic_id",
                "start_offset",
                "end_offset",
                "replica_epoch",
                "records",
                "leader_epoch",
            )
            fields = {name: row[name] for name in names}
            runs.append(EarlierRun(**fields, broker_ids=(row["broker_id"],), committed=bool(row["committed"])))
    return EarlierLosses(tuple(_joined(_latest(runs))), frozenset(told))


def _remembered(fields: dict[str, Any]) -> EarlierRun:
    return EarlierRun(**{**fields, "broker_ids": tuple(fields["broker_ids"])})


def _latest(runs: Iterable[EarlierRun]) -> Iterator[EarlierRun]:
    """Of the runs that begin alike those of the latest audit, as one with all its brokers."""

    def place(run: EarlierRun) -> tuple:
        return run.topic_id, run.replica_epoch, run.start_offset

    for _, same in groupby(sorted(runs, key=place), key=place):
        alike = list(same)
        latest = max(one.finished for one in alike)
        of_latest = [one for one in alike if one.finished == latest]
        longest = max(of_latest, key=lambda one: one.end_offset)
        brokers = tuple(sorted({broker for one in of_latest for broker in one.broker_ids}))
        yield replace(longest, broker_ids=brokers, committed=any(one.committed for one in of_latest))


def _joined(runs: Iterable[EarlierRun]) -> Iterator[EarlierRun]:
    """Runs in order, those that touch and differ in nothing else as one; no offset is in two."""
    last: EarlierRun | None = None
    for run in runs:
        if last is not None and (run.topic_id, run.replica_epoch) == (last.topic_id, last.replica_epoch):
            if run.end_offset <= last.end_offset:
                continue
            alike = (run.broker_ids, run.finished, run.committed) == (last.broker_ids, last.finished, last.committed)
            if alike and run.start_offset == last.end_offset:
                records = None if None in (run.records, last.records) else run.records + last.records
                last = replace(last, end_offset=run.end_offset, records=records)
                continue
            if run.start_offset < last.end_offset:
                run = replace(run, start_offset=last.end_offset, records=_at_most(run, last.end_offset))
        if last is not None:
            yield last
        last = run
    if last is not None:
        yield last


def _at_most(run: EarlierRun, start: int) -> int | None:
    return None if run.records is None else min(run.records, run.end_offset - start)


def with_gone_records(audit: PartitionAudit) -> PartitionAudit:
    """`audit` with HWM-GONE, and the verdict that follows.

    Nothing is said where a replica's log is not at hand, which may hold them; of compacted and tiered logs; and of a topic
    without an id, which may be another one. Once an earlier audit has told it, it is known and asks for no verdict.
    """
    case, losses = audit.case, audit.evidence.losses
    if case is None or not losses.runs or audit.unread_replicas:
        return audit
    topic_id = case.reference.facts.directory.topic_id
    if topic_id is None or is_tiered(case.leadership) or any(facts.compacted for facts in case.replicas):
        return audit
    partition, cluster_id = audit.evidence.topic_partition, audit.evidence.cluster_id
    found = []
    for item in _gone(case, [run for run in losses.runs if run.topic_id == topic_id], audit.findings):
        told = finding_row(item, partition, topic_id, cluster_id)["finding_id"] in losses.told
        found.append(replace(item, status="known", verdict=None) if told else item)
    if not found:
        return audit
    findings = (*audit.findings, *found)
    verdict = worst_verdict(item.verdict for item in findings if item.verdict is not None)
    return replace(audit, findings=findings, verdict=verdict)


def _gone(case: Case, runs: Sequence[EarlierRun], findings: Sequence[Finding]) -> Iterator[Finding]:
    floor = max(facts.log_start_offset for facts in case.replicas)
    at_hand = {facts.broker_id for facts in (*case.replicas, *case.duplicates)}
    for run in runs:
        left = [OffsetRange(max(run.start_offset, floor), run.end_offset)]
        for facts in (*case.replicas, *case.duplicates, *case.set_aside):
            left = _without(left, _held(facts, run.replica_epoch))
        left = [part for part in left if part.start_offset < part.end_offset]
        # A broker that is not asked may have them still, also one that the partition was moved away from.
        if left and at_hand.issuperset(run.broker_ids) and not _is_told_by_log(run, findings) and _is_later(case, run):
            yield _finding(case, run, left)


def _is_later(case: Case, run: EarlierRun) -> bool:
    """Whether this snapshot can be later than that audit's: in an older one the records may not have been written yet."""
    now = case.reference.leader_epoch
    return now is not None and now > run.replica_epoch and (run.leader_epoch is None or now >= run.leader_epoch)


def _held(facts: ReplicaFacts, leader_epoch: int) -> list[OffsetRange]:
    """Offsets of an epoch that a log has, by its lineage."""
    entries = list(facts.lineage)
    ends = [*(start for _, start in entries[1:]), facts.log_end_offset]
    return [OffsetRange(start, end) for (epoch, start), end in zip(entries, ends) if epoch == leader_epoch]


def _without(ranges: Sequence[OffsetRange], taken: Sequence[OffsetRange]) -> list[OffsetRange]:
    for one in taken:
        cut = []
        for part in ranges:
            cut.append(OffsetRange(part.start_offset, min(part.end_offset, max(part.start_offset, one.start_offset))))
            cut.append(OffsetRange(max(part.start_offset, min(part.end_offset, one.end_offset)), part.end_offset))
        ranges = [part for part in cut if part.start_offset < part.end_offset]
    return list(ranges)


def _is_told_by_log(run: EarlierRun, findings: Sequence[Finding]) -> bool:
    """Whether a broker's own log says that it cut them (TRN-BELOW-HW of the past)."""
    return any(
        item.code == "TRN-BELOW-HW"
        and item.broker_id in run.broker_ids
        and item.start_offset is not None
        and item.start_offset < run.end_offset
        and (item.end_offset is None or run.start_offset < item.end_offset)
        and any(one.kind == "log" for one in item.evidence)
        for item in findings
    )


def _finding(case: Case, run: EarlierRun, left: Sequence[OffsetRange]) -> Finding:
    whole = sum(part.end_offset - part.start_offset for part in left)
    count = run.records
    is_all = whole == run.end_offset - run.start_offset
    if count is not None and not is_all:
        count = min(count, whole)
    where = ", ".join(offsets(part.start_offset, part.end_offset) for part in left)
    date, holders = run.finished[:10], _brokers(run.broker_ids)
    reference = case.reference.facts
    return finding(
        "HWM-GONE",
        f"{_count(count, is_all, run.committed)} that only {holders} held on {date} {'is' if count == 1 else 'are'} gone: no replica "
        f"has {where} of epoch {run.replica_epoch} any more",
        broker_id=run.broker_ids[0] if len(run.broker_ids) == 1 else None,
        start_offset=run.start_offset,
        end_offset=run.end_offset,
        replica_epoch=run.replica_epoch,
        evidence=[
            Evidence(
                _KIND,
                f"audit {run.audit_id}, finished {run.finished}: {holders} held {offsets(run.start_offset, run.end_offset)} of "
                f"epoch {run.replica_epoch}, "
                + ("committed" if run.committed else "left behind by an unclean election"),
                run.broker_ids[0] if len(run.broker_ids) == 1 else None,
                value=json.dumps(asdict(run), sort_keys=True),
            ),
            *(_now(facts, left[0].start_offset) for facts in case.replicas),
            considered(f"retention: no, it lies above every log start; broker {reference.broker_id} begins at "
                       f"{reference.log_start_offset}"),
            considered("the topic was created again: no, its id is the same"),
            considered("compaction and tiered storage: no, the topic has neither"),
            considered("a replica that was not copied: no, the log of every assigned replica is here"),
        ],
    )  # fmt: skip


def _now(facts: ReplicaFacts, offset: int) -> Evidence:
    epoch = facts.lineage.epoch_for_offset(offset) if offset < facts.log_end_offset else None
    text = f"ends at {facts.log_end_offset}" if epoch is None else f"has epoch {epoch} at {offset}"
    return Evidence("lineage", f"broker {facts.broker_id} {text}", facts.broker_id, value=str(offset))


def _count(count: int | None, is_all: bool, committed: bool) -> str:
    kind = "committed record" if committed else "record"
    if count is None:
        return f"{kind}s"
    return f"{'' if is_all else 'up to '}{count} {kind}{'' if count == 1 else 's'}"


def _brokers(broker_ids: Sequence[int]) -> str:
    if len(broker_ids) == 1:
        return f"broker {broker_ids[0]}"
    return f"brokers {', '.join(map(str, broker_ids[:-1]))} and {broker_ids[-1]}"

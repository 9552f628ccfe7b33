"""Records that an earlier audit saw, and that may be gone by now (F.5): on a replica but not on its leader, or proven committed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from replica_audit.protocol.lineage import Lineage
from replica_audit.schema import Evidence
from replica_audit.typed_json import from_object, to_object

#: Kind of evidence that stores a run of an earlier audit.
EARLIER = "earlier"


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """Records of one epoch at an earlier audit: committed, or left behind by an election known to be unclean."""

    audit_id: str
    finished: str
    """End of that audit, ISO 8601."""
    topic_id: str
    broker_ids: tuple[int, ...]
    """Brokers that held them, in ascending order."""
    start_offset: int
    end_offset: int
    replica_epoch: int
    records: int | None
    committed: bool
    leader_epoch: int | None
    """Partition's leader epoch at that audit."""

    def to_text(self) -> str:
        """Serialise as JSON, for the evidence of a finding."""
        return json.dumps(to_object(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> EarlierRun:
        return from_object(cls, json.loads(text))


class CommittedLog(NamedTuple):
    """The log that an earlier audit compared with, [`start_offset`, `end_offset`), as far as it proved it committed."""

    audit_id: str
    finished: str
    topic_id: str
    broker_ids: tuple[int, ...]
    """Brokers that held all of it, in ascending order."""
    lineage: Lineage
    start_offset: int
    end_offset: int
    leader_epoch: int | None

    def runs_at_risk(self, leader_epoch: int | None) -> Iterator[EarlierRun]:
        """Its records, a run per epoch; no run if the present `leader_epoch` shows that nobody has been elected since, and so nobody cut
        the log."""
        if leader_epoch is not None and leader_epoch <= max(self.lineage.latest_epoch or 0, self.leader_epoch or 0):
            return
        ends = [start for _, start in self.lineage][1:]
        for (epoch, begin), end in zip(self.lineage, [*ends, self.end_offset], strict=True):
            start = max(begin, self.start_offset)
            end = min(end, self.end_offset)
            if start < end:
                yield EarlierRun(
                    audit_id=self.audit_id,
                    finished=self.finished,
                    topic_id=self.topic_id,
                    broker_ids=self.broker_ids,
                    start_offset=start,
                    end_offset=end,
                    replica_epoch=epoch,
                    records=None,
                    committed=True,
                    leader_epoch=self.leader_epoch,
                )


@dataclass(frozen=True, slots=True)
class EarlierLosses:
    """Records of one partition that earlier finished audits saw and that may be gone, and ids of findings that have reported them (HWM-GONE,
    HWM-UNSEEN)."""

    runs: tuple[EarlierRun, ...] = ()
    told: frozenset[str] = frozenset()
    committed: tuple[CommittedLog, ...] = ()
    """From the latest audit that compared the partition, and from the latest that had its leader's log; the longer one first."""


def earlier_losses(runs: Iterable[EarlierRun], told: Mapping[str, Iterable[Evidence]]) -> EarlierLosses:
    """Losses of one partition from `runs` in any order, and from the evidence of findings that reported them, by id in `told`.

    If several audits saw a run, the latest counts; a run that only a finding stores, because its audit was removed, counts too.
    """
    values = (one.value for evidence in told.values() for one in evidence if one.kind == EARLIER)
    remembered = [EarlierRun.from_text(value) for value in values if value]
    return EarlierLosses(tuple(_joined(_latest([*remembered, *runs]))), frozenset(told))


def is_without_records(evidence: Iterable[Evidence]) -> bool:
    """True for evidence of a run in which an earlier audit saw no record: ends of transactions, or empty batches."""
    values = [one.value for one in evidence if one.kind == EARLIER and one.value]
    return bool(values) and all(EarlierRun.from_text(value).records == 0 for value in values)


def _latest(runs: Iterable[EarlierRun]) -> Iterator[EarlierRun]:
    """For each set of runs with the same start, the run of the latest audit with all its brokers."""

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
    """Sort runs and remove overlaps; touching runs that otherwise agree are joined."""
    last: EarlierRun | None = None
    for run in runs:
        if last is not None and (run.topic_id, run.replica_epoch) == (last.topic_id, last.replica_epoch):
            if run.end_offset <= last.end_offset:
                continue
            alike = (run.broker_ids, run.finished, run.committed) == (last.broker_ids, last.finished, last.committed)
            if alike and run.start_offset == last.end_offset:
                records = None if run.records is None or last.records is None else run.records + last.records
                last = replace(last, end_offset=run.end_offset, records=records)
                continue
            if run.start_offset < last.end_offset:
                records = None if run.records is None else min(run.records, run.end_offset - last.end_offset)
                run = replace(run, start_offset=last.end_offset, records=records)
        if last is not None:
            yield last
        last = run
    if last is not None:
        yield last

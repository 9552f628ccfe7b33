"""Past audits of a cluster, from the warehouse: their history, and the rows that a new audit compares with (HWM-GONE,
HWM-UNSEEN, `--since`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.arrow_rows import arrow_to_rows, values_to_arrow
from replica_audit.auditing.catalogue import codes_with
from replica_audit.auditing.earlier_losses import CommittedLog, EarlierLosses, EarlierRun, earlier_losses
from replica_audit.auditing.history import AuditHistory, JudgedPartition, SeenFinding, ToldFinding, build_history
from replica_audit.auditing.known_findings import Earlier
from replica_audit.errors import UsageError
from replica_audit.literals import CALM, COMPARED, VERDICTS, Role, Severity, Status, Verdict
from replica_audit.model import TopicPartition
from replica_audit.parsing import matches
from replica_audit.protocol.lineage import Lineage
from replica_audit.results import AuditObject, FindingPlace, place_of
from replica_audit.row_classes import AnyRow, column_names
from replica_audit.schema import AttemptRow, Evidence
from replica_audit.warehouse.attempts import (
    check_committed,
    check_large,
    finished_attempts,
    latest_attempt,
    own_rows,
)
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.ingested_rows import placed_segments, segment_files
from replica_audit.warehouse.table_layout import schema_of
from replica_audit.warehouse.table_reads import (
    PLACE_COLUMNS,
    PlacedFiles,
    WantedPlaces,
    keys_of,
    place_keys,
    place_of_key,
)

#: Only partitions of these verdicts can have had committed records, or ones left behind by an unclean election.
_LOSSES = VERDICTS[: VERDICTS.index("WILL_LOSE_ON_TRUNCATION") + 1]
#: Verdicts whose partitions are searched: INCONCLUSIVE is for HWM-UNSEEN.
_TELLING = (*_LOSSES, "INCONCLUSIVE")


class _Judged(NamedTuple):
    audit_id: str
    topic: str
    partition: int
    verdict: Verdict


#: True for wanted rows.
_Which = Callable[[pa.Table], pa.ChunkedArray]


class _Suspected(NamedTuple):
    audit_id: str
    topic: str
    partition: int
    topic_id: str
    leader_epoch: int | None


class _Run(NamedTuple):
    audit_id: str
    topic: str
    partition: int
    broker_id: int
    start_offset: int
    end_offset: int
    replica_epoch: int
    record_count: int
    lost_records: int | None
    committed: bool


class _Told(NamedTuple):
    audit_id: str
    topic: str
    partition: int
    broker_id: int | None
    start_offset: int | None
    code: str
    severity: Severity
    finding_id: str
    evidence: Sequence[Evidence] | None


def past_losses(
    warehouse: Warehouse, cluster_id: str | None, known: Collection[TopicPartition]
) -> dict[TopicPartition, EarlierLosses]:
    """Losses in the partitions `known` that earlier audits of the cluster saw.

    Empty for a cluster without a name, which may be another one. Audits in which nothing was lost are skipped.
    """
    attempts = [] if cluster_id is None else finished_attempts(warehouse, "audit", cluster_id=cluster_id)
    finished = {one.audit_id: one.ended for one in attempts}
    if not finished:
        return {}
    telling = _all_of(_is_one_of("verdict", _TELLING), _is_given("topic_id"))
    partitions = {
        (row.audit_id, row.topic, row.partition): row
        for row in _selected(warehouse, attempts, "partitions", _Suspected, telling, ("verdict",))
        if place_of(row) in known
    }
    audits = {audit_id for audit_id, _, _ in partitions}
    if not audits:
        return {}
    runs: dict[TopicPartition, list[EarlierRun]] = defaultdict(list)
    told: dict[TopicPartition, dict[str, Sequence[Evidence]]] = defaultdict(dict)
    unclean = set()
    telling_codes = codes_with("earlier")
    looked_into = [one for one in attempts if one.audit_id in audits]
    told_codes = _is_one_of("code", sorted({*telling_codes, "DIV-EPOCH"}))
    for row in _selected(warehouse, looked_into, "findings", _Told, told_codes):
        place = place_of(row)
        if row.code in telling_codes and place in known:
            told[place][row.finding_id] = (*told[place].get(row.finding_id, ()), *(row.evidence or ()))
        elif row.code == "DIV-EPOCH" and row.severity == "high":
            unclean.add((row.audit_id, *place, row.broker_id, row.start_offset))
    for run in _selected(warehouse, looked_into, "divergences", _Run, _is_given("replica_epoch")):
        partition = partitions.get((run.audit_id, run.topic, run.partition))
        is_unclean = (run.audit_id, run.topic, run.partition, run.broker_id, run.start_offset) in unclean
        if partition is not None and (run.committed or is_unclean):
            runs[place_of(run)].append(
                EarlierRun(
                    audit_id=run.audit_id,
                    finished=finished[run.audit_id],
                    topic_id=partition.topic_id,
                    broker_ids=(run.broker_id,),
                    start_offset=run.start_offset,
                    end_offset=run.end_offset,
                    replica_epoch=run.replica_epoch,
                    records=run.record_count if run.lost_records is None else run.lost_records,
                    committed=bool(run.committed),
                    leader_epoch=partition.leader_epoch,
                )
            )
    return {place: earlier_losses(runs[place], told[place]) for place in sorted({*runs, *told})}


def _selected(
    warehouse: Warehouse,
    audits: Sequence[AttemptRow],
    table: str,
    kind: type[AnyRow],
    which: _Which | None = None,
    more: tuple[str, ...] = (),
) -> Iterator[AnyRow]:
    """Rows of the audits for which `which` is true (by default all), one file in memory at a time; it may use the columns in `more`.

    Raises EngineError after the last row if the rows that an audit committed are not those in the table.
    """
    numbers: Counter[str] = Counter()
    for rows in warehouse.read_parts(table, (*column_names(kind), *more), audit_id=[one.audit_id for one in audits]):
        counted = rows["audit_id"].value_counts()
        numbers.update(dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist())))
        yield from arrow_to_rows(rows if which is None else rows.filter(which(rows)), kind)
    for finished in audits:
        check_committed(warehouse, finished, {table: numbers[str(finished.audit_id)]})


def _is_one_of(name: str, texts: Sequence[str]) -> _Which:
    return lambda rows: pc.is_in(rows[name], values_to_arrow(texts, pa.string()))


def _are_equal(name: str, other: str) -> _Which:
    return lambda rows: pc.equal(rows[name], rows[other])


def _is_given(name: str) -> _Which:
    return lambda rows: pc.is_valid(rows[name])


def _all_of(one: _Which, other: _Which) -> _Which:
    return lambda rows: pc.and_(one(rows), other(rows))


def _either(one: _Which, other: _Which) -> _Which:
    return lambda rows: pc.or_kleene(one(rows), other(rows))


class _Verdict(NamedTuple):
    topic: str
    partition: int
    verdict: Verdict


class _Compared(NamedTuple):
    topic: str
    partition: int
    broker_id: int
    log_dir: str
    common_prefix_end: int | None


class VerifiedSegment(NamedTuple):
    """A segment of a replica that an earlier audit found equal to the reference up to `common_prefix_end`."""

    broker_id: int
    log_dir: str
    summary_file: str
    """in the table `segments`"""
    summary_row: int
    common_prefix_end: int


@dataclass(frozen=True, slots=True)
class VerifiedRows:
    """Files from which tasks read what an earlier audit has verified (`--since`): the driver reads none of its rows."""

    partitions: PlacedFiles
    replicas: PlacedFiles
    segments: PlacedFiles

    @classmethod
    def of(cls, warehouse: Warehouse, audit_id: str, cluster_id: str | None) -> VerifiedRows:
        """Raises UsageError if there is no such finished audit, or it is of another cluster; EngineError if rows that it
        committed are missing."""
        audit = latest_attempt(warehouse, "audit", audit_id=audit_id)
        if audit.cluster_id != cluster_id:
            raise UsageError(
                f"--since {audit_id}: that audit is of cluster {audit.cluster_id or 'without a name'}, "
                f"the snapshot of {cluster_id or 'one without a name'}"
            )
        assert audit.audit_id is not None, "every audit has an id"
        check_large(warehouse, audit, ("partitions", "replicas"), audit.audit_id)
        return cls(
            warehouse.placed_files("partitions", audit.audit_id),
            warehouse.placed_files("replicas", audit.audit_id),
            segment_files(warehouse, **own_rows(audit)),
        )

    def read(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, list[VerifiedSegment]]:
        """The segments at that time of those partitions among `places` that the audit found well."""
        judged = self.partitions.read_rows(_Verdict, WantedPlaces(places))
        # With any other verdict there is something to check again.
        well = WantedPlaces(place_of(row) for row in judged if row.verdict in CALM)
        ends = {
            (row.topic, row.partition, row.broker_id, row.log_dir): row.common_prefix_end
            for row in self.replicas.read_rows(_Compared, well)
        }
        found: dict[TopicPartition, list[VerifiedSegment]] = defaultdict(list)
        for one in placed_segments(self.segments, well):
            end = ends.get((one.topic, one.partition, one.broker_id, one.log_dir))
            if end is not None:
                verified = VerifiedSegment(one.broker_id, one.log_dir, one.summary_file, one.summary_row, end)
                found[place_of(one)].append(verified)
        return found


#: Latest audits that are searched for the log of a partition's leader.
LOOKED_BACK = 30
#: Tables with what an audit proved committed.
_PROOFS = ("high_watermarks", "replicas")


class _Mark(NamedTuple):
    topic: str
    partition: int
    reference_id: int
    leader_epoch: int | None
    proven_lower: int


#: True for marks that were compared with the leader's log, or where nothing says whose log that is; else false or null.
_had_leader = _either(_are_equal("leader_id", "reference_id"), _is_one_of("leadership_source", ("inferred",)))
_OF_LEADER = ("leader_id", "reference_id", "leadership_source")


class _Copy(NamedTuple):
    topic: str
    partition: int
    broker_id: int
    topic_id: str | None
    role: Role
    log_start_offset: int
    epochs: Sequence[Sequence[int]]
    compacted: bool
    common_prefix_end: int | None


class _AuditedMarks(NamedTuple):
    """Files of a finished audit with what it proved committed."""

    audit: AttemptRow
    marks: PlacedFiles
    replicas: PlacedFiles

    def among(self, keys: pa.Array) -> _AuditedMarks:
        """The audit with only the files that may have rows of some partitions, given in the form of `place_keys`."""
        wanted = WantedPlaces(map(place_of_key, keys.to_pylist()))
        return self._replace(marks=self.marks.among(wanted), replicas=self.replicas.among(wanted))

    def keys(self) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """All partitions with marks, and those whose marks had their leader (`_had_leader`), in the form of `place_keys`."""
        found: list[pa.Array] = []
        led: list[pa.Array] = []
        for _, rows in self.marks.read(schema_of(self.marks.table, (*PLACE_COLUMNS, *_OF_LEADER))):
            keys = place_keys(rows)
            found += keys.chunks
            led += keys.filter(_had_leader(rows)).chunks
        return pa.chunked_array(found, pa.string()), pa.chunked_array(led, pa.string())

    def read(self, wanted: WantedPlaces) -> Iterator[tuple[_Mark, CommittedLog | None, bool]]:
        """The `wanted` partitions that the audit compared; None if the topic has no id, or its log has no epochs or
        was compacted. True if no earlier audit counts."""
        copies: dict[TopicPartition, list[_Copy]] = defaultdict(list)
        for copy in self.replicas.read_rows(_Copy, wanted):
            if copy.role in COMPARED:
                copies[place_of(copy)].append(copy)
        columns = dict.fromkeys((*column_names(_Mark), *_OF_LEADER))
        for _, rows in self.marks.read(schema_of(self.marks.table, [*columns]), wanted):
            for mark, had_leader in zip(arrow_to_rows(rows, _Mark), _had_leader(rows).to_pylist(), strict=True):
                here = copies[place_of(mark)]
                # Cleanings move the start of an epoch in a compacted log.
                compacted = any(one.compacted for one in here)
                yield mark, None if compacted else self._log(mark, here), compacted or bool(had_leader)

    def _log(self, mark: _Mark, here: Sequence[_Copy]) -> CommittedLog | None:
        end = mark.proven_lower
        own = next((one for one in here if one.broker_id == mark.reference_id), None)
        if own is None or own.topic_id is None:
            return None
        lineage = Lineage.of((epoch, start) for epoch, start in own.epochs).truncate_from_end(end)
        if not lineage:
            return None
        holders = {one.broker_id for one in here if (one.common_prefix_end or 0) >= end}
        return CommittedLog(
            audit_id=str(self.audit.audit_id),
            finished=self.audit.ended,
            topic_id=own.topic_id,
            broker_ids=tuple(sorted({own.broker_id, *holders})),
            lineage=lineage,
            start_offset=own.log_start_offset,
            end_offset=end,
            leader_epoch=mark.leader_epoch,
        )


@dataclass(frozen=True, slots=True)
class CommittedRows:
    """Files from which tasks read what finished audits proved committed of a partition (HWM-GONE): the latest that compared it, and the
    latest that had its leader's log; without that, a follower's checkpoint may prove less."""

    audits: tuple[_AuditedMarks, ...] = ()
    """The latest first, each with the files that may have partitions for which it is one of the two."""

    @classmethod
    def of(cls, warehouse: Warehouse, cluster_id: str | None, known: Iterable[TopicPartition]) -> CommittedRows:
        """Files for the partitions `known`; none for a cluster without a name, which may be another one.

        The driver reads the names of the latest audit's partitions, of earlier ones only the files that may have one that is still left.
        Raises EngineError if rows that an audit committed are missing.
        """
        audits = [] if cluster_id is None else finished_attempts(warehouse, "audit", cluster_id=cluster_id)[::-1]
        ids = [one.audit_id for one in audits]
        files = (warehouse.each_placed_files(table, ids) for table in _PROOFS)
        found: list[_AuditedMarks] = []
        unseen, without_leader = keys_of(known if audits else ()), keys_of(())
        for number, (audit, marks, replicas) in enumerate(zip(audits, *files, strict=False)):
            one = _AuditedMarks(audit, marks, replicas)
            if number:
                one = one.among(pa.concat_arrays([unseen, without_leader]))
                if not one.marks.bounds:
                    continue
            check_large(warehouse, audit, _PROOFS, audit.audit_id)
            here, led = one.keys()
            new, settled = _in(unseen, here), _in(without_leader, led)
            if not number:
                found.append(one)
            elif len(new) or len(settled):
                found.append(one.among(pa.concat_arrays([new, settled])))
            unseen = _not_in(unseen, here)
            looked_for = pa.concat_arrays([without_leader, new]) if number + 1 < LOOKED_BACK else keys_of(())
            without_leader = _not_in(looked_for, led)
            if not len(unseen) and not len(without_leader):
                break
        return cls(tuple(found))

    def read(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[CommittedLog, ...]]:
        """The proven logs of those `places` whose topic has an id and whose log has epochs and was never compacted; the longer one first."""
        found: dict[TopicPartition, list[CommittedLog]] = {}
        left = {*places}
        for one in self.audits:
            if not left:
                break
            for mark, log, is_last in one.read(WantedPlaces(left)):
                place = place_of(mark)
                is_first = place not in found
                logs = found.setdefault(place, [])
                if log is not None and (is_first or is_last):
                    logs.append(log)
                if is_last:
                    left.discard(place)
        return {place: tuple(sorted(logs, key=lambda log: -log.end_offset)) for place, logs in found.items() if logs}


def _in(keys: pa.Array, others: pa.ChunkedArray) -> pa.Array:
    return keys.filter(pc.is_in(keys, others))


def _not_in(keys: pa.Array, others: pa.ChunkedArray) -> pa.Array:
    return keys.filter(pc.invert(pc.is_in(keys, others)))


def load_history(warehouse: Warehouse, topics: Sequence[str] = (), limit: int | None = None) -> AuditHistory:
    """The history of the finished audits, the latest `limit` of them; `topics` are patterns as in `--topic`.

    Raises UsageError if there is no finished audit.
    """
    latest_attempt(warehouse, "audit")
    # All audits, however few are shown: earlier ones tell what is new in each.
    audits = finished_attempts(warehouse, "audit")
    numbers = {run.audit_id: number for number, run in enumerate(audits)}
    clusters = {run.audit_id: run.cluster_id for run in audits}
    judged: dict[tuple[str | None, str, int], list[tuple[int, str]]] = defaultdict(list)
    present: dict[tuple[str | None, str], dict[int, str]] = defaultdict(dict)
    words: dict[tuple[str | None, str], ToldFinding] = {}
    for row in _selected(warehouse, audits, "partitions", _Judged):
        judged[clusters[row.audit_id], row.topic, row.partition].append((numbers[row.audit_id], row.verdict))
    for told in _selected(warehouse, audits, "findings", ToldFinding):
        number, key = numbers[told.audit_id], (clusters[told.audit_id], told.finding_id)
        if number > max(present[key], default=-1):
            # The wording is that of the last audit with the finding.
            words[key] = told
        present[key][number] = told.severity
    partitions = [JudgedPartition(*place, verdicts=steps) for place, steps in judged.items()]
    findings = [SeenFinding(key[0], told, list(present[key].items())) for key, told in words.items()]
    return build_history(audits, partitions, findings, limit, partial(matches, topics))


class _Known(NamedTuple):
    topic: str | None
    partition: int | None
    finding_id: str
    status: Status


def load_earlier(warehouse: Warehouse, audit: AuditObject) -> Earlier | None:
    """The finished audit of the same cluster before `audit`.

    None if there is no such audit, or the cluster has no name: it may be another one.
    """
    if audit["cluster_id"] is None:
        return None
    runs = finished_attempts(warehouse, "audit", cluster_id=audit["cluster_id"])
    before = [run for run in runs if run.ended < audit["finished"]]
    if not before:
        return None
    run = before[-1]
    partitions = warehouse.read("partitions", _Verdict, audit_id=run.audit_id)
    findings = warehouse.read("findings", _Known, audit_id=run.audit_id)
    check_committed(warehouse, run, {"partitions": len(partitions), "findings": len(findings)})
    verdicts: dict[FindingPlace, str] = {place_of(row): row.verdict for row in partitions}
    there = ((place_of(row), row.finding_id) for row in findings if row.status != "resolved")
    return Earlier.of(run.audit_id, run.finished, verdicts, there)

"""Results of an audit, read from the warehouse or assembled by the stage that wrote them; with many partitions only the
reported rows are held, and the others are read some partitions at a time.

Tables are read some rows at a time, and rows left out never become Python objects.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from replica_audit.arrow_rows import arrow_to_numbers, arrow_to_rows, joined, numbers_to_arrow, values_to_arrow
from replica_audit.auditing.audit_results import audit_results
from replica_audit.auditing.detailed_partitions import told_places
from replica_audit.auditing.finding import UNSEEN_TAIL, WANTED
from replica_audit.auditing.leadership.capture_times import CaptureTimes, times_of_manifest
from replica_audit.bronze_tables import SnapshotRow
from replica_audit.literals import COMPARED
from replica_audit.model import TopicPartition
from replica_audit.results import FurtherStates, KnownState, Results, place_of
from replica_audit.row_classes import Row
from replica_audit.schema import (
    REPORT_ROWS,
    REPORT_TABLES,
    AttemptRow,
    FindingRow,
    HighWatermarkTimelineRow,
    InputRow,
    PartitionRow,
    PartitionStateRow,
    ReportRows,
)
from replica_audit.warehouse.answer_parts import AnswerParts, TaskRunner
from replica_audit.warehouse.attempts import attempts, check_committed, latest_attempt, own_rows
from replica_audit.warehouse.delta_tables import StoredTables
from replica_audit.warehouse.table_reads import PLACE_COLUMNS

#: Kinds of evidence that a conclusion on the whole audit uses.
_EVIDENCE = ("loss", "leadership", "transaction", WANTED, UNSEEN_TAIL)
#: Present effects on consumer groups.
_EFFECTS = ("past_end", "epoch_differs", "read_lost")

#: Rows of a table, some at a time.
Files = Iterable[pa.Table]

#: For each row the number of its partition, and True if it is chosen.
_Codes = NDArray[np.int64]
_Flags = NDArray[np.bool_]


class ToldRows:
    """Selection of an audit's rows that are reported, given its rows of `partitions`."""

    def __init__(self, partitions: list[PartitionRow]) -> None:
        told = told_places(partitions)
        self.is_all = len(told) == len(partitions)
        self.places = sorted(map(place_of, partitions))
        """The audited partitions."""
        self.further = FurtherStates([], [])
        """Last states of partitions not in detail."""
        self._topics = {topic: number for number, topic in enumerate(sorted({topic for topic, _ in self.places}))}
        self._told = self._codes_of(sorted(told))
        self._audited = self._codes_of(self.places)
        self._decided = np.empty(0, np.int64)
        self._has_elr = False
        self._states: dict[tuple[object, ...], KnownState] = {}
        self._seen: dict[str, set[tuple[object, ...]]] = {}

    def _codes_of(self, places: Iterable[TopicPartition]) -> _Codes:
        """Partitions as numbers in the same order."""
        return np.array([self._topics[topic] << 32 | partition for topic, partition in places], np.int64)

    def _codes(self, rows: pa.Table) -> _Codes:
        """The partition of each row as a number; those of no audited topic are negative."""
        topics = joined(rows["topic"]).dictionary_encode()
        numbers = np.array([*(self._topics.get(topic, -1) for topic in topics.dictionary.to_pylist()), -1], np.int64)
        return numbers[arrow_to_numbers(topics.indices, -1)] << 32 | arrow_to_numbers(rows["partition"], 0)

    def select(self, table: str, files: Files) -> Iterator[Row]:
        """Rows of a table as objects; `elections` must come before tables that depend on the open decisions."""
        if table == "partition_states" and not self.is_all:
            files = self._undivided(files)
        for rows in files:
            if not self.is_all and "topic" in rows.schema.names:
                codes = self._codes(rows)
                if table == "elections":
                    self._decided = np.union1d(self._decided, codes)
                if table == "findings":
                    yield from self._findings(rows, codes)
                    continue
                if table == "partition_states":
                    self._keep_states(rows, codes)
                rows = rows.filter(numbers_to_arrow(self._cited(table, rows, codes)))
            yield from arrow_to_rows(rows, REPORT_ROWS[table])

    def _undivided(self, files: Files) -> Files:
        """`files` with neighbouring rows of one partition in one table."""
        rest: list[pa.Table] = []
        for rows in files:
            codes = self._codes(rows)
            if (others := (codes != codes[-1:]).nonzero()[0]).size:
                begun = int(others[-1]) + 1
                yield pa.concat_tables([*rest, rows[:begun]])
                rest, rows = [], rows[begun:]
            rest.append(rows)
        if rest:
            yield pa.concat_tables(rest)

    def _cited(self, table: str, rows: pa.Table, codes: _Codes) -> _Flags:
        whole, more = self._is_whole(codes), _MORE.get(table)
        return whole if more is None else whole | more(self, rows, codes)

    def _is_whole(self, codes: _Codes) -> _Flags:
        """True for rows of partitions in detail, and of no audited partition."""
        return _are_in(codes, self._told) | ~_are_in(codes, self._audited)

    def _findings(self, rows: pa.Table, codes: _Codes) -> Iterator[FindingRow]:
        """All findings; for partitions not in detail without the evidence that only their own page shows."""
        told = self._is_whole(codes)
        yield from arrow_to_rows(rows.filter(numbers_to_arrow(told)), FindingRow)
        others = rows.filter(numbers_to_arrow(~told))
        column = others.schema.get_field_index("evidence")
        evidence = _of_kinds(joined(others["evidence"]), _EVIDENCE)
        yield from arrow_to_rows(others.set_column(column, "evidence", evidence), FindingRow)

    def _captures(self, rows: pa.Table, codes: _Codes) -> _Flags:
        lacking = ~_is_one_of(rows["state"], ("whole",)) | arrow_to_numbers(pc.is_valid(rows["needed"]))
        return lacking | self._first("captures", rows, ("broker_id",))

    def _replicas(self, rows: pa.Table, codes: _Codes) -> _Flags:
        """Copies whose place a plan names, besides replicas that come with the costs, and one row for each broker's copies."""
        holding = arrow_to_numbers(rows["lost_held"], 0) > 0
        decided = _are_in(codes, self._decided)
        costed = decided & _is_one_of(rows["role"], COMPARED)
        told = (holding & ~costed) | (decided & arrow_to_numbers(pc.is_null(rows["clean_shutdown"])))
        return told | self._first("replicas", rows, ("broker_id", "clean_shutdown"))

    def _group_offsets(self, rows: pa.Table, codes: _Codes) -> _Flags:
        hit = _is_one_of(rows["effect"], _EFFECTS) | _are_in(codes, self._decided)
        return hit | self._first("group_offsets", rows, ())

    def _keep_states(self, rows: pa.Table, codes: _Codes) -> None:
        """Hold, of each partition not in detail, the last state of each source and the last committed one, and one of those with
        eligible leader replicas."""
        names = ("source", "entry", "uncommitted", "fenced")
        columns = [codes.tolist(), *(rows[name].to_pylist() for name in names)]
        last: dict[tuple[object, ...], tuple[int, int]] = {}
        kept = np.zeros(rows.num_rows, bool)
        for number, (code, source, entry, uncommitted, fenced) in enumerate(zip(*columns, strict=True)):
            kept[number] = fenced is not None
            for state in ((code, source, True), (code, source, False)):
                if (state[2] or not uncommitted) and (entry or 0, number) > last.get(state, (-1, -1)):
                    last[state] = (entry or 0, number)
        kept[[number for _, number in last.values()]] = True
        elr = (arrow_to_numbers(pc.list_value_length(rows[name]), 0) for name in ("elr", "last_known_elr"))
        if not self._has_elr:
            with_elr = np.logical_or(*elr).nonzero()[0]
            kept[with_elr[:1]] = True
            self._has_elr = bool(with_elr.size)
        kept &= ~self._is_whole(codes)
        self.further.places.extend(map(self.places.__getitem__, np.searchsorted(self._audited, codes[kept]).tolist()))
        for found in arrow_to_rows(rows.filter(numbers_to_arrow(kept)), KnownState):
            # Equal lists and maps of neighbouring rows are one object, which a state that is held keeps.
            key = tuple(id(value) if isinstance(value, (list, dict)) else value for value in found)
            self.further.states.append(self._states.setdefault(key, found))

    def _first(self, table: str, rows: pa.Table, names: Collection[str]) -> _Flags:
        """True for the first row with each combination of values, over all files."""
        seen = self._seen.setdefault(table, set())
        found = np.zeros(rows.num_rows, bool)
        columns = [rows[name].to_pylist() for name in names] or [[None] * rows.num_rows]
        for number, values in enumerate(zip(*columns, strict=True)):
            if values not in seen:
                seen.add(values)
                found[number] = True
        return found


def _are_in(codes: _Codes, known: _Codes) -> _Flags:
    """True for each of `codes` that is among the sorted `known`."""
    return np.searchsorted(known, codes, "right") > np.searchsorted(known, codes)


def _of_kinds(evidence: pa.ListArray, kinds: Sequence[str]) -> pa.ListArray:
    """The lists of pieces of evidence, with those of some kinds only."""
    pieces = evidence.flatten()
    chosen = _is_one_of(pieces.field("kind"), kinds)
    ends = np.cumsum([0, *arrow_to_numbers(evidence.value_lengths(), 0)])
    kept = np.concatenate([[0], np.cumsum(chosen)])[ends].astype(np.int32)
    return pa.ListArray.from_arrays(numbers_to_arrow(kept), pieces.filter(numbers_to_arrow(chosen)))


def _is_one_of(column: pa.Array | pa.ChunkedArray, texts: Sequence[str]) -> _Flags:
    return arrow_to_numbers(pc.is_in(column, values_to_arrow(texts, pa.string())))


#: Rows reported of partitions without details, besides `partitions` and `findings`.
_MORE: Mapping[str, Callable[[ToldRows, pa.Table, _Codes], _Flags]] = {
    "captures": ToldRows._captures,
    "replicas": ToldRows._replicas,
    "group_offsets": ToldRows._group_offsets,
}


#: Tables that the audit stage computes; `quarantine` is the snapshot's, the others belong to other commands.
REPORTED_TABLES = (
    "partitions",
    "replicas",
    "captures",
    "metadata_logs",
    "high_watermarks",
    "divergences",
    "truncations",
    "elections",
    "group_offsets",
    "remote_segments",
    "lost_producers",
    "findings",
)

#: Most rows of the timeline in audit.json, deviating ones first. The Delta table has all of them.
REPORTED_TIMELINE_ROWS = 100_000


def load_results(
    warehouse: StoredTables, audit_id: str | None, fail_on: str, runner: TaskRunner | None = None
) -> Results:
    """The results of a finished audit, by default the latest, for tasks of `runner` to read. Raises UsageError if there is none.

    The settings of the answers are kept; only `fail_on` is the caller's.
    """
    finished = latest_attempt(warehouse, "audit", **({"audit_id": audit_id} if audit_id else {}))
    ingested = next(iter(attempts(warehouse, "ingest", state="finished", **own_rows(finished))), finished)
    results = told_results(warehouse, finished, snapshot_row(warehouse, ingested), runner)
    options = results.audit["options"]
    return replace(results, audit={**results.audit, "options": options and {**options, "fail_on": fail_on}})


def snapshot_row(warehouse: StoredTables, ingested: AttemptRow) -> SnapshotRow | None:
    """The row of `snapshots` of a finished ingest, if any. Raises EngineError if the rows it committed are not those in the table."""
    attempt = own_rows(ingested)
    found = warehouse.read("snapshots", SnapshotRow, **attempt)
    counts = {table: _count(warehouse, table, attempt) for table in _OF_SNAPSHOT}
    check_committed(warehouse, ingested, {"snapshots": len(found), **counts})
    return next(iter(found), None)


def capture_times(snapshot: SnapshotRow | None) -> CaptureTimes:
    """Times of the copies of a snapshot, as far as its manifest has them."""
    manifest = json.loads((snapshot and snapshot.manifest) or "{}")
    return times_of_manifest(manifest.get("brokers") or (), (snapshot and snapshot.blank) or {})


#: Report tables that the ingest writes.
_OF_SNAPSHOT = ("quarantine", "partition_states")


def _count(warehouse: StoredTables, table: str, attempt: Mapping[str, str | None]) -> int:
    return sum(rows.num_rows for rows in warehouse.read_parts(table, ("ingest_id",), **attempt))


def told_results(
    warehouse: StoredTables, finished: AttemptRow, snapshot: SnapshotRow | None, runner: TaskRunner | None
) -> Results:
    """The results of a finished audit: with many partitions the reported rows, and the place of the others, for tasks of
    `runner` to read.

    Raises EngineError if the rows it committed are not those in the tables.
    """
    found = ReportRows()
    counts: Counter[str] = Counter()

    def files(table: str) -> Iterator[pa.Table]:
        owner = own_rows(finished) if table in _OF_SNAPSHOT else {"audit_id": finished.audit_id}
        for rows in warehouse.read_parts(table, _names(table), **owner):
            counts[table] += rows.num_rows
            yield rows

    found.partitions.extend(row for rows in files("partitions") for row in arrow_to_rows(rows, PartitionRow))
    told = ToldRows(found.partitions)
    # Open decisions determine which other rows are reported.
    for table in sorted((*REPORTED_TABLES, "quality", *_OF_SNAPSHOT), key=lambda table: table != "elections"):
        if table != "partitions":
            found.table(table).extend(told.select(table, files(table)))
    check_committed(warehouse, finished, {table: counts[table] for table in REPORTED_TABLES})
    for checked in attempts(warehouse, "quality", audit_id=finished.audit_id)[-1:]:
        if checked.state == "finished":
            check_committed(warehouse, checked, {"quality": counts["quality"]})
    timeline = timeline_answers(warehouse, finished)
    results = assemble_results(finished, found, snapshot, timeline)
    if told.is_all:
        return results
    placed = [table for table in REPORTED_TABLES if set(_names(table)).issuperset(PLACE_COLUMNS)]
    of_audit = {table: warehouse.placed_files(table, finished.audit_id) for table in placed}
    states = warehouse.placed_files("partition_states", finished.snapshot_id, ingest_id=finished.ingest_id)
    parts = AnswerParts(told.places, {**of_audit, "partition_states": states}, results.high_watermark_timeline, runner)
    return replace(results, stored=parts, further=told.further)


def with_snapshot_rows(rows: ReportRows, warehouse: StoredTables, ingested: AttemptRow) -> ReportRows:
    """`rows` with those of the report tables that the ingest wrote."""
    attempt = own_rows(ingested)
    return replace(
        rows,
        quarantine=warehouse.read("quarantine", InputRow, **attempt),
        partition_states=warehouse.read("partition_states", PartitionStateRow, **attempt),
    )


def timeline_answers(warehouse: StoredTables, finished: AttemptRow) -> tuple[list[HighWatermarkTimelineRow], int]:
    """Rows of `high_watermark_timeline` for audit.json, at most `REPORTED_TIMELINE_ROWS`, and their total number.

    Raises EngineError if the rows that the audit committed are not those in the table.
    """
    table = "high_watermark_timeline"
    keys = ("quiet", "topic", "partition", "time_ms", "sequence")
    kept, count = None, 0
    for part in warehouse.read_parts(table, _names(table), audit_id=finished.audit_id):
        count += part.num_rows
        kept = part if kept is None else pa.concat_tables([kept, part])
        if kept.num_rows > REPORTED_TIMELINE_ROWS:
            marked = kept.append_column("quiet", pc.is_null(kept["deviation"]))
            ranked = pc.sort_indices(marked, [(key, "ascending") for key in keys])
            kept = kept.take(ranked[:REPORTED_TIMELINE_ROWS])
    check_committed(warehouse, finished, {table: count})
    return list(arrow_to_rows(kept, HighWatermarkTimelineRow)), count


def assemble_results(
    finished: AttemptRow,
    answers: ReportRows,
    snapshot: SnapshotRow | None,
    timeline: tuple[list[HighWatermarkTimelineRow], int],
) -> Results:
    """Results from a `finished` row of `audits`, answers, the row of `snapshots`, and the timeline with its number of observations."""
    rows, observations = timeline
    inputs = {
        "snapshot": snapshot and snapshot.uri,
        "log_dirs": snapshot and snapshot.log_dir_count,
        "replicas": snapshot and snapshot.replica_count,
        "segments": snapshot and snapshot.segment_count,
        "size_bytes": snapshot and snapshot.size_bytes,
        "files": snapshot and snapshot.inventory,
        **capture_times(snapshot).as_inputs(),
    }
    options = json.loads(finished.options) if finished.options else None
    answers = replace(answers, high_watermark_timeline=rows)
    blank = (snapshot and snapshot.blank) or {}
    results = audit_results(finished, inputs, blank, options, answers, observations, snapshot and snapshot.location)
    return replace(results, audit={**results.audit, "table_versions": dict(finished.table_versions or {}) or None})


def _names(table: str) -> list[str]:
    return [column.name for column in REPORT_TABLES[table]]

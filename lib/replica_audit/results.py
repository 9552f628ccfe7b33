"""The answers of an audit: the object `audit` and the rows of every report table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypedDict, TypeVar, overload

from replica_audit.literals import CaptureKind, Verdict
from replica_audit.model import Place
from replica_audit.schema import (
    REPORT_TABLES,
    CaptureRow,
    DivergenceRow,
    ElectionRow,
    FindingRow,
    GroupOffsetRow,
    HighWatermarkRow,
    HighWatermarkTimelineRow,
    InputRow,
    LostProducerRow,
    PartitionRow,
    PartitionStateRow,
    QualityRow,
    ReplicaRow,
    TruncationRow,
    VerificationRow,
    read_row,
    to_dict,
)

_Row = TypeVar("_Row")


class BrokerKind(TypedDict):
    """A broker of which the manifest says what it did while it was copied."""

    broker_id: int
    kind: CaptureKind


class InputsObject(TypedDict, total=False):
    """`audit.inputs` of audit.json: what was read."""

    snapshot: str | None
    log_dirs: int
    replicas: int
    segments: int
    size_bytes: int | None
    files: Mapping[str, int] | None
    brokers: Sequence[BrokerKind]
    quarantined_bytes: int
    padding_bytes: int
    observations: int


class OptionsObject(TypedDict, total=False):
    """`audit.options` of audit.json: the settings that the answers were computed with."""

    protocol: str
    kafka_version: str | None
    topics: Sequence[str]
    quiesced: bool | None
    fail_on: str
    since: str


class AuditObject(TypedDict, total=False):
    """`audit` of audit.json: the run. `audit_id` and `snapshot_id` are None where nothing was written to a warehouse."""

    audit_id: str | None
    snapshot_id: str | None
    cluster_id: str | None
    tool_version: str
    started: str
    finished: str
    verdict: Verdict
    inputs: InputsObject
    options: OptionsObject | None
    table_versions: Mapping[str, int] | None


#: Topic and partition of a finding: (None, None) where it belongs to no partition.
FindingPlace = tuple[str | None, int | None]


class Placed(Protocol):
    """A row of a partition."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...


_PlacedRow = TypeVar("_PlacedRow", bound=Placed)


class PartitionRows(NamedTuple):
    """One partition's rows of every table that has several for a partition; the fields are named for the tables."""

    replicas: Sequence[ReplicaRow] = ()
    high_watermarks: Sequence[HighWatermarkRow] = ()
    high_watermark_timeline: Sequence[HighWatermarkTimelineRow] = ()
    partition_states: Sequence[PartitionStateRow] = ()
    divergences: Sequence[DivergenceRow] = ()
    truncations: Sequence[TruncationRow] = ()
    verifications: Sequence[VerificationRow] = ()
    elections: Sequence[ElectionRow] = ()
    group_offsets: Sequence[GroupOffsetRow] = ()
    lost_producers: Sequence[LostProducerRow] = ()
    findings: Sequence[FindingRow] = ()


#: Gives all rows of the audited partitions in the tables named, by table, some partitions at a time and in their order.
StoredRows = Callable[[Collection[str]], Iterator[Mapping[str, Sequence[Any]]]]


@dataclass(frozen=True)
class Results:
    """One finished audit. Its report tables are properties, whose rows are those of `schema`; of a table that was not
    computed there are none.

    `tables` has the rows as they came: as objects, or as the dicts of Delta and audit.json. `location` is the snapshot's
    place as the user gave it, for the commands that a report prints; audit.json does not have it. Raises ValueError for a
    table that is not among `REPORT_TABLES`.

    Of an audit of many partitions `tables` has those rows only that its report tells (`warehouse.told_rows`), and `stored` gives
    all rows of the partitions, some at a time.
    """

    audit: AuditObject
    tables: Mapping[str, Sequence[Any]]
    location: str | None = None
    stored: StoredRows | None = None

    def __post_init__(self) -> None:
        unknown = sorted(set(self.tables) - set(REPORT_TABLES))
        if unknown:
            raise ValueError(f"no report tables: {', '.join(unknown)}; known are {', '.join(REPORT_TABLES)}")

    @cached_property
    def partitions(self) -> Sequence[PartitionRow]:
        return self._objects("partitions", PartitionRow)

    @cached_property
    def replicas(self) -> Sequence[ReplicaRow]:
        return self._objects("replicas", ReplicaRow)

    @cached_property
    def captures(self) -> Sequence[CaptureRow]:
        return self._objects("captures", CaptureRow)

    @cached_property
    def high_watermarks(self) -> Sequence[HighWatermarkRow]:
        return self._objects("high_watermarks", HighWatermarkRow)

    @cached_property
    def partition_states(self) -> Sequence[PartitionStateRow]:
        return self._objects("partition_states", PartitionStateRow)

    @cached_property
    def high_watermark_timeline(self) -> Sequence[HighWatermarkTimelineRow]:
        return self._objects("high_watermark_timeline", HighWatermarkTimelineRow)

    @cached_property
    def divergences(self) -> Sequence[DivergenceRow]:
        return self._objects("divergences", DivergenceRow)

    @cached_property
    def truncations(self) -> Sequence[TruncationRow]:
        return self._objects("truncations", TruncationRow)

    @cached_property
    def verifications(self) -> Sequence[VerificationRow]:
        return self._objects("verifications", VerificationRow)

    @cached_property
    def elections(self) -> Sequence[ElectionRow]:
        return self._objects("elections", ElectionRow)

    @cached_property
    def group_offsets(self) -> Sequence[GroupOffsetRow]:
        return self._objects("group_offsets", GroupOffsetRow)

    @cached_property
    def lost_producers(self) -> Sequence[LostProducerRow]:
        return self._objects("lost_producers", LostProducerRow)

    @cached_property
    def findings(self) -> Sequence[FindingRow]:
        return self._objects("findings", FindingRow)

    @cached_property
    def quarantine(self) -> Sequence[InputRow]:
        return self._objects("quarantine", InputRow)

    @cached_property
    def quality(self) -> Sequence[QualityRow]:
        return self._objects("quality", QualityRow)

    def parts(self, tables: Collection[str] = tuple(REPORT_TABLES)) -> Iterator[Results]:
        """All rows of `tables`, some partitions at a time and in their order; those that belong to no partition that was audited come
        first.
        """
        if self.stored is None:
            yield self
            return
        audited = {(row.topic, row.partition) for row in self.partitions}
        unplaced = {
            table: [row for row in self.tables.get(table, ()) if place_of(row) not in audited] for table in tables
        }
        yield Results(self.audit, unplaced, self.location)
        for rows in self.stored(tables):
            yield Results(self.audit, rows, self.location)

    def at(self, place: FindingPlace) -> PartitionRows:
        """The rows of one partition."""
        return PartitionRows(*(grouped.get(place, ()) for grouped in self._placed))

    def rows(self, table: str) -> Sequence[Mapping[str, Any]]:
        """Rows of `table` as the dicts of audit.json; none when it was not computed."""
        if table not in REPORT_TABLES:
            raise KeyError(table)
        rows = self.tables.get(table, ())
        return [to_dict(row) for row in rows] if rows and isinstance(rows[0], tuple) else rows

    @cached_property
    def remembered(self) -> dict[str, object]:
        """Conclusions from these rows that are worked out once, by name."""
        return {}

    @cached_property
    def _placed(self) -> list[dict[FindingPlace, list[Any]]]:
        return [by_place(getattr(self, table)) for table in PartitionRows._fields]

    def _objects(self, table: str, kind: type[_Row]) -> Sequence[_Row]:
        return [row if isinstance(row, kind) else read_row(kind, row) for row in self.tables.get(table, ())]


@overload
def place_of(row: Placed) -> Place: ...
@overload
def place_of(row: FindingRow) -> FindingPlace: ...
@overload
def place_of(row: object) -> tuple[Any, Any]: ...
def place_of(row: object) -> tuple[Any, Any]:
    """The partition of a row, as an object or a dict; (None, None) of a table that has none."""
    if isinstance(row, Mapping):
        return row.get("topic"), row.get("partition")
    return getattr(row, "topic", None), getattr(row, "partition", None)


@overload
def by_place(rows: Iterable[_PlacedRow]) -> dict[Place, list[_PlacedRow]]: ...
@overload
def by_place(rows: Iterable[FindingRow]) -> dict[FindingPlace, list[FindingRow]]: ...
def by_place(rows: Iterable[Any]) -> dict[Any, list[Any]]:
    """Rows by partition, in their order."""
    grouped = defaultdict(list)
    for row in rows:
        grouped[row.topic, row.partition].append(row)
    return dict(grouped)

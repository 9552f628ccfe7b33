"""The answers of a finished audit, some partitions at a time, so that all of them need not be held at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from replica_audit.arrow_rows import arrow_to_rows
from replica_audit.model import Place
from replica_audit.results import by_place
from replica_audit.schema import REPORT_ROWS, AttemptRow, HighWatermarkTimelineRow, ReportRows, column_names
from replica_audit.warehouse.delta_tables import StoredTables
from replica_audit.warehouse.table_layout import schema_of
from replica_audit.warehouse.table_reads import PlacedFiles, WantedPlaces

#: Partitions whose rows are held at once.
STRETCH = 1000


@dataclass(frozen=True, slots=True)
class AnswerParts:
    """The rows of the audited partitions by table (`results.Results.stored`)."""

    places: Sequence[Place]
    """Of the partitions that were audited."""
    files: Mapping[str, PlacedFiles]
    timeline: Sequence[HighWatermarkTimelineRow]
    """In order; it is not read again."""

    def __call__(self, tables: Collection[str]) -> Iterator[ReportRows]:
        places = sorted(self.places)
        timeline = by_place(self.timeline) if "high_watermark_timeline" in tables else {}
        for start in range(0, len(places), STRETCH):
            stretch = places[start : start + STRETCH]
            wanted = WantedPlaces(stretch)
            part = ReportRows()
            for table, files in self.files.items():
                if table in tables:
                    kind = REPORT_ROWS[table]
                    for _, rows in files.read(schema_of(table, column_names(kind)), wanted):
                        part.table(table).extend(arrow_to_rows(rows, kind))
            part = part.in_order()
            yield replace(part, high_watermark_timeline=[row for place in stretch for row in timeline.get(place, ())])


def audit_files(warehouse: StoredTables, tables: Sequence[str], finished: AttemptRow) -> dict[str, PlacedFiles]:
    """The files of report tables of an audit, and of the states of its snapshot's partitions."""
    files = {table: warehouse.placed_files(table, finished.audit_id) for table in tables}
    states = warehouse.placed_files("partition_states", finished.snapshot_id, ingest_id=finished.ingest_id)
    return {**files, "partition_states": states}

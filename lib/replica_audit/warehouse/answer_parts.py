"""The answers of a finished audit, some partitions at a time, so that all of them need not be held at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from replica_audit.model import Place
from replica_audit.results import by_place
from replica_audit.schema import REPORT_TABLES, AttemptRow, ReportRow, sort_rows
from replica_audit.warehouse.delta_tables import StoredTables
from replica_audit.warehouse.table_reads import PlacedFiles, WantedPlaces
from replica_audit.warehouse.told_rows import to_objects

#: Partitions whose rows are held at once.
STRETCH = 1000


@dataclass(frozen=True, slots=True)
class AnswerParts:
    """The rows of the audited partitions by table (`results.Results.stored`)."""

    places: Sequence[Place]
    """Of the partitions that were audited."""
    files: Mapping[str, PlacedFiles]
    held: Mapping[str, Sequence[ReportRow]]
    """Rows of tables that are not read again."""

    def __call__(self, tables: Collection[str]) -> Iterator[dict[str, list[ReportRow]]]:
        places = sorted(self.places)
        held = {table: by_place(sort_rows(rows)) for table, rows in self.held.items() if table in tables}
        for start in range(0, len(places), STRETCH):
            stretch = places[start : start + STRETCH]
            wanted = WantedPlaces(stretch)
            found = {
                table: [
                    row
                    for rows in files.read([column.name for column in REPORT_TABLES[table]], wanted)
                    for row in to_objects(table, rows)
                ]
                for table, files in self.files.items()
                if table in tables
            }
            for table, of_place in held.items():
                found[table] = [row for place in stretch for row in of_place.get(place, ())]
            yield {table: sort_rows(rows) for table, rows in found.items()}


def audit_files(warehouse: StoredTables, tables: Sequence[str], finished: AttemptRow) -> dict[str, PlacedFiles]:
    """The files of report tables of an audit, and of the states of its snapshot's partitions."""
    files = {table: warehouse.placed_files(table, finished.audit_id) for table in tables}
    states = warehouse.placed_files("partition_states", finished.snapshot_id, ingest_id=finished.ingest_id)
    return {**files, "partition_states": states}

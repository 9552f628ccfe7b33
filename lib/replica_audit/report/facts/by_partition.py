"""Rows of the report tables by partition, worst partition first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from replica_audit.auditing.catalogue import SEVERITIES, VERDICTS, codes_with
from replica_audit.literals import PUT_ASIDE, Confidence
from replica_audit.results import Results

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]

_CONFIDENCES = get_args(Confidence)

#: Tables that say something of one partition, beside `partitions` itself.
DETAIL_TABLES = (
    "replicas",
    "high_watermarks",
    "high_watermark_timeline",
    "partition_states",
    "divergences",
    "truncations",
    "verifications",
    "elections",
    "group_offsets",
    "lost_producers",
    "findings",
)


def worst_partitions(results: Results) -> list[Row]:
    """Rows of `partitions`: worst verdict first, then most committed records lost, then most lost, then by name."""

    def key(row: Row) -> tuple:
        lost = -(row["lost_committed"] or 0), -(row["lost_records"] or 0)
        return VERDICTS.index(row["verdict"]), lost, row["topic"], row["partition"]

    return sorted(results.rows("partitions"), key=key)


def inconsistent_partitions(results: Results) -> list[Row]:
    """Those of `worst_partitions` whose verdict is not CONSISTENT."""
    return [row for row in worst_partitions(results) if row["verdict"] != "CONSISTENT"]


def rows_by_partition(results: Results, partitions: Iterable[Row] | None = None) -> Iterator[tuple[Row, Rows]]:
    """Each partition, or each of `partitions`, with its rows of `DETAIL_TABLES`, in the order of `worst_partitions`."""
    grouped = {table: results.rows_of(table) for table in DETAIL_TABLES}
    for row in worst_partitions(results) if partitions is None else partitions:
        place = (row["topic"], row["partition"])
        yield row, {table: grouped[table].get(place, ()) for table in DETAIL_TABLES}


def worst_first(findings: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Findings by severity, then confidence, then place; of one partition those of records that the leader lacks first."""

    def key(row: Mapping[str, Any]) -> tuple:
        confidence = row["confidence"]
        place = (row["topic"] or "", -1 if row["partition"] is None else row["partition"])
        broker = -1 if row["broker_id"] is None else row["broker_id"]
        start = -1 if row["start_offset"] is None else row["start_offset"]
        rank = _CONFIDENCES.index(confidence) if confidence in _CONFIDENCES else len(_CONFIDENCES)
        lacked = row["code"] in codes_with("held")
        return SEVERITIES.index(row["severity"]), rank, place, not lacked, broker, start, row["code"]

    return sorted(findings, key=key)


def told_protocol(results: Results) -> str:
    """The protocol that the audit's findings and verdicts used; `fetch` for an audit that kept no options."""
    return (results.audit.get("options") or {}).get("protocol") or "fetch"


def present(findings: Iterable[Row]) -> list[Row]:
    """The findings that are there: all but those that a baseline has and this audit no longer found."""
    return [row for row in findings if row["status"] != "resolved"]


def reference_row(replicas: Sequence[Row]) -> Row | None:
    """Of one partition's rows of `replicas` that of the replica with which the others are compared."""
    return next((row for row in replicas if row["role"] in ("leader", "reference")), None)


def served_rows(replicas: Sequence[Row]) -> list[Row]:
    """Of one partition's rows of `replicas` those of copies that Kafka serves from, or would if its broker ran."""
    return [row for row in replicas if row["role"] not in PUT_ASIDE]


def compared_rows(replicas: Sequence[Row]) -> list[Row]:
    """Of one partition's rows of `replicas` those of the replicas that are compared with the reference."""
    return [row for row in replicas if row["role"] == "compared"]

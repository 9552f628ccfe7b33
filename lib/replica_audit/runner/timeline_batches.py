"""Rows of the timeline leaving a task, with a summary of each partition's timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from replica_audit.arrow_rows import arrow_schema, rows_to_arrow, values_to_arrow
from replica_audit.auditing.leadership.timeline_deviations import TimelineSummary, summary_to_text
from replica_audit.row_classes import Int
from replica_audit.schema import REPORT_TABLES, HighWatermarkTimelineRow


class AssignedReplica(NamedTuple):
    """A replica named in states or directories, observed or not."""

    topic: str
    partition: Int
    broker_id: Int


def timeline_batch(
    rows: Sequence[HighWatermarkTimelineRow], summaries: Mapping[int, TimelineSummary]
) -> pa.RecordBatch:
    """`rows` with the column `summary`: JSON on the last row of a partition, by the number of that row; else null."""
    found = rows_to_arrow(rows, arrow_schema(REPORT_TABLES["high_watermark_timeline"]))
    texts = [summary_to_text(summaries[number]) if number in summaries else None for number in range(len(rows))]
    (batch,) = found.append_column("summary", values_to_arrow(texts, pa.string())).to_batches()
    return batch

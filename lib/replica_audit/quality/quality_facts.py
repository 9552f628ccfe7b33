"""The facts that quality suites look at: a row for each replica and partition, out of answers and segment counts.

A fact is a number that is 0 in a sound log and null where the question does not arise, so that an expectation on it
needs no exceptions of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from replica_audit.literals import PUT_ASIDE, SEVERITIES
from replica_audit.protocol.lineage import Lineage
from replica_audit.results import Results

Row = Mapping[str, Any]

#: The suite that says of findings what the report says anyway.
FINDINGS_SUITE = "findings"

#: Counts over the segments of a replica: of irregular batches by kind, and of irregular borders between segments.
SEGMENT_COUNTS = (
    "crc",
    "regression",
    "duplicate",
    "epoch_regression",
    "border_regression",
    "border_epoch_regression",
)


def fact_rows(results: Results, segment_counts: Iterable[Row]) -> dict[str, list[dict[str, Any]]]:
    """Rows of `FACT_TABLES` for one audit.

    Copies that Kafka does not serve from are left out: segments that it is about to delete overlap, and a copy that is being
    moved is behind. `segment_counts` has topic, partition, broker_id, log_dir and `SEGMENT_COUNTS` of every replica; a replica without a
    segment may be missing there.
    """
    counts = {(row["topic"], row["partition"], row["broker_id"], row["log_dir"]): row for row in segment_counts}
    marks = {(row["topic"], row["partition"]): row for row in results.rows("high_watermarks")}
    return {
        "replica_facts": [
            _replica_row(
                row,
                counts.get((row["topic"], row["partition"], row["broker_id"], row["log_dir"]), {}),
                marks.get((row["topic"], row["partition"])),
            )
            for row in results.rows("replicas")
            if row["role"] not in PUT_ASIDE
        ],
        "partition_facts": _partition_rows(results.rows("partitions"), results.rows("findings")),
    }


def name_place(row: Row) -> str:
    """The row's partition and broker in words, e.g. "orders-0 broker 2"; what else the row has where it has neither."""
    parts = []
    if row.get("topic") is not None:
        parts.append(f"{row['topic']}-{row['partition']}")
    if row.get("broker_id") is not None:
        parts.append(f"broker {row['broker_id']}")
    if row.get("path") is not None:
        parts.append(str(row["path"]))
    return " ".join(parts) or "no partition"


def _replica_row(replica: Row, counts: Row, mark: Row | None) -> dict[str, Any]:
    counted = {name: counts.get(name) or 0 for name in SEGMENT_COUNTS}
    start, end = replica["log_start_offset"], replica["log_end_offset"]
    high_watermark, recovery_point = replica["high_watermark_checkpoint"], replica["recovery_point_checkpoint"]
    names = (
        "topic",
        "partition",
        "broker_id",
        "log_dir",
        "is_leader",
        "in_isr",
        "compacted",
        "tail_kind",
        "batch_count",
    )
    return {
        "place": name_place(replica),
        **{name: replica[name] for name in names},
        "log_start_offset": start,
        "log_end_offset": end,
        "wrong_crcs": counted["crc"],
        "offset_gaps": replica["unexplained_gaps"],
        "offset_regressions": counted["regression"] + counted["duplicate"] + counted["border_regression"],
        "epoch_regressions": counted["epoch_regression"] + counted["border_epoch_regression"],
        "high_watermark_above_end": _excess(high_watermark, end),
        "recovery_point_above_end": _excess(recovery_point, end),
        "high_watermark_below_start": _excess(start, high_watermark),
        "lineage_conflicts": count_lineage_conflicts(replica["epochs"], replica["checkpoint_epochs"]),
        "isr_shortfall": _isr_shortfall(replica, mark),
    }


def _excess(value: int | None, limit: int | None) -> int | None:
    return None if value is None or limit is None else max(0, value - limit)


def _isr_shortfall(replica: Row, mark: Row | None) -> int | None:
    """Offsets below the proven high watermark that a member of the ISR does not reach.

    Not asked where the copies are of different moments: then the high watermark moved between them.
    """
    if not replica["in_isr"] or mark is None or mark["method"] == "capture_skew":
        return None
    return _excess(mark["hw_lower"], replica["log_end_offset"])


def count_lineage_conflicts(
    epochs: Sequence[Sequence[int]] | None, checkpoint_epochs: Sequence[Sequence[int]] | None
) -> int | None:
    """Epochs of the batches for whose first offset the file names another epoch; null without a file.

    Epochs that are newer than the file are not a conflict: the file may have been copied before the segments. Nor are
    those below its first entry: it is cut when old segments are no longer in the log, which go later.
    """
    if checkpoint_epochs is None:
        return None
    written = Lineage.of([(epoch, start) for epoch, start in checkpoint_epochs])
    if not written:
        return 0
    (first_epoch, first_start), (latest_epoch, _) = written.entries[0], written.entries[-1]
    return sum(
        written.epoch_for_offset(start) != epoch
        for epoch, start in epochs or ()
        if epoch <= latest_epoch and not (start < first_start and epoch <= first_epoch)
    )


def _partition_rows(partitions: Sequence[Row], findings: Sequence[Row]) -> list[dict[str, Any]]:
    """A row for each partition, and one without a partition where findings belong to none. Only new findings count."""
    counts: dict[tuple[str | None, int | None], Counter] = defaultdict(Counter)
    for finding in findings:
        if finding["status"] == "new":
            counts[finding["topic"], finding["partition"]][finding["severity"]] += 1
    rows = []
    placed = {(row["topic"], row["partition"]): row for row in partitions}
    for key in (*placed, *(key for key in counts if key not in placed)):
        row = placed.get(key, {})
        lower, upper = row.get("hw_lower"), row.get("hw_upper")
        rows.append(
            {
                "place": name_place({"topic": key[0], "partition": key[1]}),
                "topic": key[0],
                "partition": key[1],
                "verdict": row.get("verdict"),
                "hw_lower": lower,
                "hw_upper": upper,
                "hw_width": None if lower is None or upper is None else upper - lower,
                **{f"{severity}_findings": counts[key][severity] for severity in SEVERITIES},
            }
        )
    return rows

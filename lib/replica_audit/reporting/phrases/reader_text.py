"""Consumer groups that a divergence hits, and producers of the lost records, in clauses."""

from __future__ import annotations

from replica_audit.answering.by_partition import Row
from replica_audit.moments import render_time
from replica_audit.reporting.phrases.layout import render_range
from replica_audit.reporting.phrases.sentences import name_brokers
from replica_audit.wording import count


def tell_group(row: Row, reference_id: int | None) -> str:
    """Where the group of a row of `hit_rows` stands on the reference's log, and under whom it is hit, as clauses."""
    log = f"the log of broker {reference_id}"
    where = {
        "past_end": f"past the end of {log}",
        "epoch_differs": f"past the divergence, inside {log}",
        "read_lost": f"valid on {log}, above lost records",
        "unaffected": f"unaffected on {log}",
    }
    clauses = [f"committed {row['committed_offset']}", where.get(row["effect"], "of an earlier topic of this name")]
    if row["parted_at"] is not None:
        clauses.append(f"parted at {row['parted_at']}")
    if row["hit_by"]:
        clauses.append(f"hit if {name_brokers(row['hit_by'], 'or')} leads")
    return ", ".join(clauses)


def tell_writer(row: Row) -> str:
    """What a row of `writer_rows` says beside the transactional id, as clauses."""
    clauses = ["no producer id" if row["producer_id"] is None else f"producer {row['producer_id']}"]
    if row["transaction_state"] is not None:
        clauses.append(f"transaction {row['transaction_state']}")
    clauses.append(f"{count(row['record_count'], 'record')} in {render_range(row['start_offset'], row['end_offset'])}")
    if row["first_timestamp_ms"] is not None:
        first, last = (render_time(row[f"{name}_timestamp_ms"]) for name in ("first", "last"))
        clauses.append(f"timestamp {first}" if first == last else f"timestamps {first} to {last}")
    clauses.append(f"held by {name_brokers(row['brokers'])}")
    return ", ".join(clauses)

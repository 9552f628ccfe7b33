"""Runs of records in which a replica differs from the reference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from replica_audit.auditing.catalogue import codes_with
from replica_audit.report.facts.by_partition import reference_row
from replica_audit.report.layout import render_count
from replica_audit.report.sentences import Sentence, Template, verb
from replica_audit.results import PartitionRows
from replica_audit.schema import DivergenceRow, FindingRow
from replica_audit.text import name_offsets, render_time


@dataclass(frozen=True, slots=True)
class DifferingRun:
    """A row of `divergences` as a reader sees it.

    `kind`: `hole` (the replica has nothing), `past_end` (of the reference's log), `not_there` (the reference has
    nothing), `same_epoch`, `other_epoch`, or `without_epoch` (of at least one side the format has none).
    """

    kind: str
    row: DivergenceRow
    reference_end: int | None
    epoch: int | None
    """Leader epoch of the replica's records; None where their format has none."""
    other_epoch: int | None
    """Leader epoch of the reference's records."""
    wholly_committed: bool
    """As far as is known; `committed_records` counts them where it is only a part."""


def find_runs(rows: PartitionRows) -> Mapping[int, Sequence[DifferingRun]]:
    """The runs of one partition by broker."""
    reference = reference_row(rows.replicas)
    ends = {} if reference is None else {reference.broker_id: reference.log_end_offset}
    by_broker: dict[int, list[DifferingRun]] = defaultdict(list)
    for row in rows.divergences:
        by_broker[row.broker_id].append(_run(row, ends.get(row.reference_id)))
    return by_broker


def _run(row: DivergenceRow, end: int | None) -> DifferingRun:
    epoch, other = _known(row.replica_epoch), _known(row.leader_epoch)
    count = row.committed_records
    if not row.record_count:
        kind = "hole"
    elif end is not None and row.start_offset >= end:
        kind = "past_end"
    elif row.code in codes_with("hole") and row.leader_epoch is None and epoch is not None:
        kind = "not_there"
    elif epoch is not None and other is not None:
        kind = "same_epoch" if epoch == other else "other_epoch"
    else:
        kind = "without_epoch"
    return DifferingRun(kind, row, end, epoch, other, count is None or count == row.record_count)


def _known(epoch: int | None) -> int | None:
    return epoch if epoch is not None and epoch >= 0 else None


def is_differing_run(finding: FindingRow, rows: PartitionRows) -> bool:
    """True for a finding of one of the runs: that it differs, or that it was committed."""
    return any(
        row.broker_id == finding.broker_id
        and row.start_offset == finding.start_offset
        and (row.code == finding.code or (row.committed and finding.code in codes_with("held")))
        for row in rows.divergences
    )


#: Runs of one replica in the story; the tables below it have them all.
RUN_LIMIT = 3
OTHER_EPOCH = Template(
    "At {where} broker {broker} has {records} of epoch {epoch}{written}, where broker {reference} has those of epoch "
    "{other}{fate}."
)
PAST_END = Template(
    "At {where} broker {broker} has {records} of epoch {epoch}{written}; the log of broker {reference} ends at {end}{fate}."
)
SAME_EPOCH = Template(
    "At {where} broker {broker} has {records} of epoch {epoch}{written}, and broker {reference} has others of the same "
    "epoch{fate}."
)
WITHOUT_EPOCH = Template(
    "At {where} broker {broker} has {records}{written}, and broker {reference} has others; {whose} format has no leader "
    "epochs{fate}."
)
NOT_THERE = Template("At {where} broker {broker} has {records}{written}, and broker {reference} has none{fate}.")
HOLE = Template("At {where} broker {broker} has no records, where broker {reference} has some{of_epoch}.")
MORE_RUNS = Template("Broker {broker} differs in {places} more, listed below.")


def tell_differences(rows: PartitionRows) -> Iterator[Sentence]:
    """One sentence for each run of differing records, by broker."""
    for broker_id, runs in find_runs(rows).items():
        yield from map(_tell_run, runs[:RUN_LIMIT])
        if len(runs) > RUN_LIMIT:
            yield MORE_RUNS.say(broker=broker_id, places=render_count(len(runs) - RUN_LIMIT, "place"))


def _tell_run(run: DifferingRun) -> Sentence:
    row, epoch, other = run.row, run.epoch, run.other_epoch
    written = ""
    if row.first_timestamp_ms is not None:
        written = f", written {_span(row.first_timestamp_ms, row.last_timestamp_ms)}"
    records = render_count(row.record_count, "record")
    values: dict[str, object] = {
        "where": name_offsets(row.start_offset, row.end_offset),
        "broker": row.broker_id,
        "reference": row.reference_id,
        "records": records,
        "written": written,
        "fate": _fate(run),
    }
    if run.kind == "hole":
        return HOLE.say(**values, of_epoch="" if other is None else f" of epoch {other}")
    if run.kind == "past_end":
        if epoch is not None:
            return PAST_END.say(**values, epoch=epoch, end=run.reference_end)
        values["records"] = f"{records}, which carry no leader epoch,"
        return NOT_THERE.say(**values)
    if run.kind == "not_there":
        values["records"] = f"{records} of epoch {epoch}"
        return NOT_THERE.say(**values)
    if run.kind == "without_epoch":
        whose = "the former's" if other is not None else "the latter's" if epoch is not None else "their"
        return WITHOUT_EPOCH.say(**values, whose=whose)
    return (SAME_EPOCH if run.kind == "same_epoch" else OTHER_EPOCH).say(**values, epoch=epoch, other=other)


def _fate(run: DifferingRun) -> str:
    """Commitment of the records, as far as it is known."""
    row = run.row
    if not row.committed:
        return "; nothing proves that they were committed"
    count, proof = row.committed_records, row.committed_evidence
    said = "they were committed" if run.wholly_committed else f"{count} of them {verb(count, 'was', 'were')} committed"
    return f"; {said}" + (f": {proof}" if proof else "")


def _span(first: int, last: int | None) -> str:
    start, end = render_time(first), render_time(last)
    if last is None or start == end:
        return f"at {start}"
    if start[:11] == end[:11] and end.endswith("Z") and start.endswith("Z"):
        return f"{start[:10]} from {start[11:-1]} to {end[11:-1]} UTC"
    return f"from {start} to {end}"

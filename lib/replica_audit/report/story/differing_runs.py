"""Runs of records in which a replica differs from the reference: the finding of each, and what became of its records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from replica_audit.auditing.catalogue import codes_with
from replica_audit.report.layout import render_count
from replica_audit.report.sentences import Sentence, Template, plain_text, tell_finding, verb
from replica_audit.results import PartitionRows
from replica_audit.schema import DivergenceRow, FindingRow
from replica_audit.text import render_time


class DifferingRun(NamedTuple):
    """A row of `divergences`, and its finding."""

    row: DivergenceRow
    finding: FindingRow

    @property
    def is_wholly_committed(self) -> bool:
        """True where all of it was committed, as far as is known; `committed_records` counts them where it is only a part."""
        return self.row.committed_records in (None, self.row.record_count)


def find_runs(rows: PartitionRows) -> Mapping[int, Sequence[DifferingRun]]:
    """The runs of one partition by broker."""
    findings = {(one.broker_id, one.start_offset, one.code): one for one in rows.findings}
    by_broker: dict[int, list[DifferingRun]] = defaultdict(list)
    for row in rows.divergences:
        if finding := findings.get((row.broker_id, row.start_offset, row.code)):
            by_broker[row.broker_id].append(DifferingRun(row, finding))
    return by_broker


def is_differing_run(finding: FindingRow, rows: PartitionRows) -> bool:
    """True for a finding of one of the runs: that it differs, was committed, or is kept or dropped by a replayed truncation."""
    if finding.start_offset is None or finding.end_offset is None:
        return False
    runs = [row for row in rows.divergences if row.broker_id == finding.broker_id]
    if any(item.kind == "replay" for item in finding.evidence or ()):
        return any(row.start_offset < finding.end_offset and finding.start_offset < row.end_offset for row in runs)
    return any(
        row.start_offset == finding.start_offset and row.committed and finding.code in codes_with("held")
        for row in runs
    )


#: Runs of one replica in the story; the tables below it have them all.
RUN_LIMIT = 3
RUN = Template("{finding} There {are} {records}{written}{fate}.")
MORE_RUNS = Template("Broker {broker} differs in {places} more, listed below.")


def tell_differences(rows: PartitionRows) -> Iterator[Sentence]:
    """A sentence or two for each run of differing records, by broker."""
    for broker_id, runs in find_runs(rows).items():
        yield from map(_tell_run, runs[:RUN_LIMIT])
        if len(runs) > RUN_LIMIT:
            yield MORE_RUNS.say(broker=broker_id, places=render_count(len(runs) - RUN_LIMIT, "place"))


def _tell_run(run: DifferingRun) -> Sentence:
    row = run.row
    said = tell_finding(run.finding)
    if not row.record_count:
        return said
    written = ""
    if row.first_timestamp_ms is not None:
        written = f", written {_span(row.first_timestamp_ms, row.last_timestamp_ms)}"
    are = verb(row.record_count, "is", "are")
    return RUN.say(
        finding=plain_text(said),
        are=are,
        records=render_count(row.record_count, "record"),
        written=written,
        fate=_fate(run),
    )


def _fate(run: DifferingRun) -> str:
    """Commitment of the records, as far as it is known."""
    row = run.row
    if not row.committed:
        return "; nothing proves that they were committed"
    count, proof = row.committed_records, row.committed_evidence
    said = (
        "they were committed" if run.is_wholly_committed else f"{count} of them {verb(count, 'was', 'were')} committed"
    )
    return f"; {said}" + (f": {proof}" if proof else "")


def _span(first: int, last: int | None) -> str:
    start, end = render_time(first), render_time(last)
    if last is None or start == end:
        return f"at {start}"
    if start[:11] == end[:11] and end.endswith("Z") and start.endswith("Z"):
        return f"{start[:10]} from {start[11:-1]} to {end[11:-1]} UTC"
    return f"from {start} to {end}"

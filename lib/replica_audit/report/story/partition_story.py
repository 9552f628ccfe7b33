"""The story of one partition: who leads and who agrees, where replicas differ, what is committed, where followers cut their logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replica_audit.auditing.catalogue import at_or_above, codes_with
from replica_audit.report.facts.by_partition import compared_rows, present, worst_first
from replica_audit.report.layout import render_count
from replica_audit.report.sentences import Sentence, Template, join_words, plain_text, tell_finding, verb
from replica_audit.report.story.agreement import tell_agreement
from replica_audit.report.story.leaders import is_of_leadership, tell_history, tell_leadership, tell_past_elections
from replica_audit.results import PartitionRows
from replica_audit.schema import DivergenceRow, FindingRow, PartitionRow, TruncationRow
from replica_audit.text import name_offsets, render_time


@dataclass(frozen=True, slots=True)
class Truncation:
    """Truncation of one follower by the audit's protocol."""

    broker_id: int
    row: TruncationRow
    """The row of `truncations`."""
    log_end: int | None
    """The follower's."""
    cuts: bool
    """Records go with it."""
    elsewhere: tuple[OtherCut, ...]


@dataclass(frozen=True, slots=True)
class OtherCut:
    """Protocols under which a follower would be cut at another offset."""

    truncate_to: int
    protocols: tuple[str, ...]
    unseen: tuple[int, int] | None
    """Offsets [start, end) that would stay different."""


def find_truncations(rows: PartitionRows, protocol: str) -> Iterator[Truncation]:
    """Truncation of each follower of one partition by `protocol`, where it is known."""
    ends = {row.broker_id: row.log_end_offset for row in compared_rows(rows.replicas)}
    by_broker: dict[int, dict[str, TruncationRow]] = defaultdict(dict)
    for row in rows.truncations:
        by_broker[row.broker_id][row.protocol] = row
    for broker_id, by_protocol in by_broker.items():
        chosen = by_protocol.get(protocol)
        if chosen is None or chosen.truncate_to is None:
            continue
        cut = chosen.truncate_to
        end = ends.get(broker_id)
        yield Truncation(
            broker_id,
            chosen,
            end,
            cuts=bool(chosen.dropped_records),
            elsewhere=tuple(_elsewhere(by_protocol, cut)),
        )


def _elsewhere(by_protocol: Mapping[str, TruncationRow], cut: int) -> Iterator[OtherCut]:
    by_cut: dict[int, list[str]] = defaultdict(list)
    for name, row in by_protocol.items():
        if row.truncate_to is not None and row.truncate_to != cut:
            by_cut[row.truncate_to].append(name)
    for other, names in by_cut.items():
        yield OtherCut(other, tuple(names), _stays_different(by_protocol[names[0]]))


def _stays_different(row: TruncationRow) -> tuple[int, int] | None:
    """Offsets that a truncation keeps though they differ; None where there are none."""
    prefix = row.common_prefix_end
    cut = row.truncate_to
    return (prefix, cut) if prefix is not None and cut > prefix else None


CUT = Template("When broker {broker} follows, {how}it cuts its log at {cut}: *{range} {go} with it*{committed}.")
CUT_NOTHING = Template("When broker {broker} follows, {how}it cuts its log at {cut}, which removes no record.")
OTHER_PROTOCOL = Template("Under {protocols} broker {broker} would keep everything up to {cut}{unseen}.")


def tell_truncations(rows: PartitionRows, protocol: str) -> Iterator[Sentence]:
    """A sentence for each follower that `protocol` truncates, and for protocols that would cut it elsewhere."""
    for one in find_truncations(rows, protocol):
        if one.cuts:
            yield _cut(one)
        for other in one.elsewhere:
            unseen = (
                f", and {name_offsets(*other.unseen)} would stay different, unseen by Kafka" if other.unseen else ""
            )
            protocols = join_words(other.protocols)
            yield OTHER_PROTOCOL.say(protocols=protocols, broker=one.broker_id, cut=other.truncate_to, unseen=unseen)


def _cut(one: Truncation) -> Sentence:
    cut = one.row.truncate_to
    end = one.log_end
    values = {"broker": one.broker_id, "cut": cut, "how": _asks(one.row)}
    if end is None or end <= cut:
        return CUT_NOTHING.say(**values)
    committed = ", committed records among them" if one.row.committed_dropped else ""
    return CUT.say(**values, range=name_offsets(cut, end), go=verb(end - cut, "goes", "go"), committed=committed)


def _asks(row: TruncationRow) -> str:
    """Clause with the leader's answers to the follower's epoch requests, in order."""
    steps = [step for step in row.steps or () if step.leader_end_offset is not None]
    answers = [
        (step.request_epoch if step.leader_epoch is None else step.leader_epoch, step.leader_end_offset)
        for step in steps
    ]
    said = ", then that ".join(f"epoch {epoch} ends at {end}" for epoch, end in answers)
    return f"broker {row.leader_id} answers that {said}, and " if answers else ""


class DifferingRun(NamedTuple):
    """A row of `divergences`, and its finding."""

    row: DivergenceRow
    finding: FindingRow

    @property
    def is_wholly_committed(self) -> bool:
        """True unless only a part of its records, counted by `committed_records`, was committed."""
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
    count = row.committed_records
    proof = row.committed_evidence
    said = (
        "they were committed" if run.is_wholly_committed else f"{count} of them {verb(count, 'was', 'were')} committed"
    )
    return f"; {said}" + (f": {proof}" if proof else "")


def _span(first: int, last: int | None) -> str:
    start = render_time(first)
    end = render_time(last)
    if last is None or start == end:
        return f"at {start}"
    if start[:11] == end[:11] and end.endswith("Z") and start.endswith("Z"):
        return f"{start[:10]} from {start[11:-1]} to {end[11:-1]} UTC"
    return f"from {start} to {end}"


#: Most findings in the story; the tables below it have them all.
FINDING_LIMIT = 4
HW_EXACT = Template("The high watermark is *exactly {lower}*{proof}.")
HW_AT_LEAST = Template("The high watermark is *at least {lower}*{proof}.")
HW_BETWEEN = Template("The high watermark is *between {lower} and {upper}*{proof}.")


def tell_story(partition: PartitionRow, rows: PartitionRows, protocol: str) -> list[Sentence]:
    """Sentences in chronological order; truncations are those of `protocol`."""
    return [
        *tell_history(rows.partition_states),
        *tell_past_elections(rows),
        *tell_leadership(partition, rows),
        *tell_agreement(rows),
        *tell_differences(rows),
        *_high_watermark(rows),
        *tell_truncations(rows, protocol),
        *_other_findings(rows),
    ]


def _high_watermark(rows: PartitionRows) -> Iterator[Sentence]:
    for row in rows.high_watermarks:
        lower = row.hw_lower
        upper = row.hw_upper
        proofs = [text for text in (row.lower_evidence, row.upper_evidence) if text]
        proof = f": {' and '.join(dict.fromkeys(proofs))}" if proofs else ""
        if row.exact:
            yield HW_EXACT.say(lower=lower, proof=proof)
        elif upper is None:
            yield HW_AT_LEAST.say(lower=lower, proof=proof)
        else:
            yield HW_BETWEEN.say(lower=lower, upper=upper, proof=proof)


def find_untold(rows: PartitionRows) -> list[FindingRow]:
    """Findings that no sentence of the story reports, worst first: those of medium severity or more, and missing files.

    Positions of consumer groups are in a table of their own.
    """
    return [
        row
        for row in worst_first(present(rows.findings))
        if (at_or_above(row.severity, "medium") or row.code in codes_with("no_files"))
        and not any(item.kind == "group" for item in row.evidence or ())
        and not (is_of_leadership(row, rows) or is_differing_run(row, rows))
    ]


def _other_findings(rows: PartitionRows) -> Iterator[Sentence]:
    yield from map(tell_finding, find_untold(rows)[:FINDING_LIMIT])

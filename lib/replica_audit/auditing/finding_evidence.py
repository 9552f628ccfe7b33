"""Findings and evidence with one form in several families of codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import Finding, considered, finding
from replica_audit.auditing.leadership.election_causes import describe
from replica_audit.schema import Evidence, QuarantineRow
from replica_audit.text import count, name_cut, name_offsets, render_time

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.alignment import CorruptPair
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.divergent_ranges import DivergentRange
    from replica_audit.auditing.compare.record_comparison import RecordProblem
    from replica_audit.auditing.finding import Code
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.snapshot.broker_logs import BrokerLogEvent


#: Kind of evidence for bytes that an audit would need.
WANTED = "wanted"
#: More ranges of one replica are not told apart.
_GREATEST_RANGES = 1000


def name_copy(facts: ReplicaFacts) -> str:
    """Name of a copy beside the replicas, as a noun phrase."""
    return f"{facts.directory.log_dir} of broker {facts.broker_id}"


#: Clauses on the fate of a copy beside the replicas, by its kind.
_FATES = {
    "current": "its broker has a second copy of the partition and uses the other",
    "future": "it is cut to the current log when the broker starts",
    "stray": "Kafka does not read this directory",
    "delete": "Kafka is about to delete this directory",
    "deleted_segments": "Kafka is about to delete these files",
}


def fate_of_copy(facts: ReplicaFacts) -> str:
    """Clause saying what becomes of a copy beside the replicas."""
    return _FATES[facts.kind]


def place_of_copy(facts: ReplicaFacts) -> Evidence:
    """Evidence that names the directory of a copy beside the replicas."""
    return Evidence(
        "file", text="a copy that neither leads nor follows", broker_id=facts.broker_id, path=facts.directory.log_dir
    )


def damaged_pair(code: Code, pair: CorruptPair) -> Finding:
    """Finding on a batch that both replicas have, damaged on one side."""
    return finding(
        code,
        f"broker {pair.bad_broker_id}: {name_offsets(pair.start_offset, pair.end_offset)} are damaged and sound on broker "
        f"{pair.good_broker_id}, which they can be repaired from: {pair.detail}",
        broker_id=pair.bad_broker_id,
        start_offset=pair.start_offset,
        end_offset=pair.end_offset,
        evidence=[Evidence("batch", text=pair.detail, broker_id=pair.bad_broker_id, position=pair.position)],
    )


def unread_records(code: Code, problems: Sequence[RecordProblem], what: str) -> Finding:
    """Finding on batches of one broker whose records had to be compared and could not be had; `what` says why not."""
    first = problems[0]
    batches = count(len(problems), "batch", "batches")
    return finding(
        code,
        f"broker {first.broker_id}: the records of {batches} that had to be compared {what}: {first.reason}",
        broker_id=first.broker_id,
        start_offset=min(problem.start_offset for problem in problems),
        end_offset=max(problem.end_offset for problem in problems),
        evidence=[
            Evidence("batch", text=first.reason, broker_id=first.broker_id, path=first.path, position=first.position)
        ],
    )


def wanted_range(broker_id: int, path: str, position: int, size: int | None) -> Evidence:
    """Evidence that names bytes of a file that an audit would need, `size` of them from `position` on; None: up to its end."""
    text = "to the end of the file" if size is None else count(size, "byte")
    return Evidence(
        WANTED, broker_id=broker_id, path=path, position=position, value=None if size is None else str(size), text=text
    )


def joined_ranges(ranges: Iterable[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Ranges (path, start, end) in order, those together that touch, and the nearest of a file where there are too many."""
    gap, ordered = 0, sorted(ranges)
    while True:
        joined: list[tuple[str, int, int]] = []
        for path, start, end in ordered:
            if joined and joined[-1][0] == path and start <= joined[-1][2] + gap:
                joined[-1] = path, joined[-1][1], max(end, joined[-1][2])
            else:
                joined.append((path, start, end))
        if len(joined) <= _GREATEST_RANGES or gap > 1 << 40:
            return joined
        gap = 2 * gap or 1 << 10


def unusable_input(code: Code, row: QuarantineRow) -> Finding:
    """Finding on input that belongs to no partition, from its row of `quarantine`."""
    place = Evidence("file", text=row.reason, broker_id=row.broker_id, path=row.path, position=row.position)
    return finding(code, f"{row.path}: {row.reason}", broker_id=row.broker_id, evidence=[place])


def replay_evidence(case: Case, item: Comparison) -> Evidence:
    """Evidence of the cut that the chosen protocol makes on a follower."""
    outcome = item.replays[case.protocol]
    return Evidence(
        "replay",
        text=f"cut at {outcome.truncate_to}, after {count(outcome.rounds, 'answer')} of the leader: {name_cut(outcome.reason)}",
        broker_id=item.follower.broker_id,
        value=case.protocol,
    )


def log_line(event: BrokerLogEvent, text: str) -> Evidence:
    """A line of a broker's own log."""
    return Evidence(
        "log", text=f"line {event.line}: {text}", broker_id=event.broker_id, path=event.path, value=event.time
    )


def entries_text(entries: tuple[tuple[int, int], ...] | None) -> str:
    """A lineage, or the entries of an epoch file, in short: {3:0, 5:120}."""
    if entries is None:
        return "no file"
    return "{" + ", ".join(f"{epoch}:{start}" for epoch, start in entries) + "}"


def left_by(run: DivergentRange) -> str:
    """A clause that names the election which left a run behind; '' where nothing is known of it."""
    cause = run.cause
    election = cause.election if cause is not None else None
    if cause is None or election is None or cause.clean is None:
        return ""
    kind = "clean" if cause.clean else "unclean"
    which = f"the {kind} election of broker {election.leader_id} at {render_time(election.time_ms)}"
    if cause.suspects == 1:
        return f"; left behind by {which}"
    return f"; left behind by one of {cause.suspects} elections, among them {which}"


def told_by_history(run: DivergentRange) -> list[Evidence]:
    """Evidence from the history of leadership: the elections that left a run behind, and its loss counted three ways."""
    cause = run.cause
    if cause is None:
        return [considered("whether the election was clean is not known: the leadership given has no history")]
    found = []
    if cause.election is None or cause.clean is None:
        found.append(
            considered(
                "whether the election was clean is not known: the history does not reach back so far, or later leaders left no trace"
            )
        )
    for election in cause.elections:
        where = f"record {election.metadata_offset} of the metadata log: {describe(election)}"
        found.append(Evidence("leadership", text=where, broker_id=election.leader_id, value=str(election.leader_epoch)))
    promised = "not known" if cause.promised_records is None else f"at most {cause.promised_records}"
    loss = (
        f"{count(run.data_records, 'record')}; proven committed: {run.committed_records}; promised by acks=all with "
        f"this topic's min.insync.replicas: {promised}"
    )
    return [*found, Evidence("loss", text=loss)]

"""Logs that are known in part: from a text or table, through their broker, or by their headers only (F.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import (
    Code,
    Finding,
    finding,
    in_directory,
    joined_ranges,
    name_copy,
    place_of_copy,
    wanted_range,
)
from replica_audit.model import span_of
from replica_audit.schema import Evidence
from replica_audit.snapshot.observed import OBSERVED, told_tail
from replica_audit.snapshot.provenance import NOT_CAPTURED, UNPROVEN
from replica_audit.text import count

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.record_comparison import RecordProblem
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts

CAP_NOT_CAPTURED = Code("CAP-NOT-CAPTURED", ("medium",), ("INCONCLUSIVE",), traits=("doubt", "brought"))
CAP_ABOVE_HW = Code("CAP-ABOVE-HW", ("medium", "info"), ("INCONCLUSIVE",), traits=("unseen_tail",))
CAP_NOT_FROM_START = Code("CAP-NOT-FROM-START", ("medium", "info"), ("INCONCLUSIVE",), traits=("unseen_head",))
CAP_UNCHECKED = Code("CAP-UNCHECKED", ("medium", "info"), ("INCONCLUSIVE",), traits=("unchecked",))
CAP_SECOND_HAND = Code("CAP-SECOND-HAND", ("medium", "info"), ("INCONCLUSIVE",), traits=("doubt", "brought"))

_SOURCES = {
    "dump_text": "text of kafka-dump-log",
    "batch_table": "a table of batches",
    "record_table": "a table of records",
}

#: For a replica without a directory in the snapshot.
_NO_FILES = "leader-epoch-checkpoint and topic id are not part of the input"

_OBSERVED = (
    "not captured: checkpoints, leader-epoch-checkpoint, how the broker was stopped, and anything on its disk that it does not "
    "serve to clients"
)

_NO_LOG_DIR = (
    "checkpoints and how the broker was stopped are not part of the input: only logs bound the high watermark, and it is not known "
    "what a cut at the replica's own high watermark would drop"
)


def judge(case: Case) -> Iterator[Finding]:
    """Findings on what is not known of each log, and on records that are wanted."""
    for item in (*case.comparisons, *case.beside, *case.waiting):
        for problems in item.problems_by_broker("not_captured"):
            yield from _records_not_captured(
                item, problems, "the evidence lacks the records of {}, which have to be compared"
            )
        for problems in item.problems_by_broker("unchecked"):
            yield from _records_not_captured(
                item, problems, "its log differs from another there, and the checksums of {} were not computed"
            )
    yield from _second_hand_logs(case)
    yield from _unseen_tails(case)
    yield from _unseen_heads(case)
    yield from _unchecked(case)


def _second_hand_logs(case: Case) -> Iterator[Finding]:
    reference = case.reference.facts
    reasons = {item.follower.key: case.open_question(item) for item in case.comparisons}
    for facts in case.set_aside:
        if facts.unread is not None:
            continue  # CAP-UNREADABLE or CAP-MISSING-SEGMENT reports it
        why = case.why_not_comparable(facts)
        reasons[facts.key] = f"it was not compared with broker {reference.broker_id}, because {why}"
    for facts in (*case.replicas, *case.set_aside):
        if facts.unread is not None:
            continue
        reason = reasons.get(facts.key) or (UNPROVEN[facts.undecided[0]] if facts.undecided else None)
        if NOT_CAPTURED in facts.unproven:
            yield from _bytes_not_captured(facts)
        elif facts.second_hand:
            yield _second_hand(facts, reason)
        elif reason is not None:
            yield _set_aside(facts, reference, reason)


def _second_hand(facts: ReplicaFacts, reason: str | None) -> Finding:
    sources = [_SOURCES[source] for source in sorted({one.source for one in facts.segments} - {"segment"})]
    open_points = [UNPROVEN[word] for word in facts.unproven]
    if facts.directory.observed is not None:
        open_points.append(_OBSERVED)
    else:
        open_points += [_NO_FILES] if facts.directory.epoch_file.state == "not_given" else []
        open_points += [] if facts.knows_high_watermark else [_NO_LOG_DIR]
    message = f"broker {facts.broker_id}: the log is known from {' and '.join(sources)} only"
    paths = {segment.path.partition(" (")[0]: None for segment in facts.segments}
    evidence = [
        Evidence("input", text="stands for the segments", broker_id=facts.broker_id, path=path) for path in paths
    ]
    return finding(
        CAP_SECOND_HAND,
        f"{message}; {reason}" if reason else message,
        severity="medium" if reason else "info",
        broker_id=facts.broker_id,
        evidence=[*evidence, *(Evidence("unproven", text=text, broker_id=facts.broker_id) for text in open_points)],
    )


def _set_aside(facts: ReplicaFacts, reference: ReplicaFacts, reason: str) -> Finding:
    return finding(
        CAP_SECOND_HAND,
        f"broker {facts.broker_id}: {reason}",
        broker_id=facts.broker_id,
        evidence=[
            Evidence(
                "input", text="stands for the segments", broker_id=reference.broker_id, path=reference.directory.path
            )
        ],
    )


def _unseen_tails(case: Case) -> Iterator[Finding]:
    """Findings on ends of logs that were read through their brokers. Without a leader these may have the only copy of committed
    records: a follower learns the high watermark late."""
    is_open = _nobody_leads(case)
    for facts in (*case.replicas, *case.set_aside):
        text = told_tail(facts.directory)
        observed = facts.directory.observed
        if text is None or observed is None:
            continue
        why = "; nobody leads, so it may have committed records that were not compared" if is_open else ""
        unseen = observed.high_watermark, observed.log_end_offset
        yield _of_weight(CAP_ABOVE_HW, facts, f"{text}{why}", is_open, _answered(facts), unseen)


def _unseen_heads(case: Case) -> Iterator[Finding]:
    """Findings on starts of logs that were read through their brokers from a later offset on: `--last`, `--since`, or segments
    in remote storage only. Without a leader it is unknown whether they agree below."""
    is_open = _nobody_leads(case)
    for facts in (*case.replicas, *case.set_aside):
        observed = facts.directory.observed
        if observed is None or not facts.hides_head:
            continue
        begins = f"the log begins at {observed.log_start_offset} but was read only from {facts.log_start_offset} on"
        why = (
            "; nobody leads, and it is not known whether replicas agree below"
            if is_open
            else ": what is below was not judged"
        )
        unseen = observed.log_start_offset, facts.log_start_offset
        yield _of_weight(CAP_NOT_FROM_START, facts, f"{begins}{why}", is_open, _answered(facts), unseen)


def _unchecked(case: Case) -> Iterator[Finding]:
    """Findings on logs whose headers alone were collected.

    A damaged header may look like a longer log, a damaged batch like a sound one. If the leader is certain, its broker detects
    that; otherwise the election depends on it.
    """
    is_open = _nobody_leads(case) or case.reference.isr is None
    for facts in (*case.copies, *case.set_aside):
        if not facts.unchecked_batches:
            continue
        of = sum(segment.batch_count for segment in facts.segments)
        who = "nobody leads" if _nobody_leads(case) else "nothing says who is in sync"
        why = f"; {who}, so a damaged log may be taken for the best one" if is_open else ""
        text = (
            f"the checksums of {facts.unchecked_batches:,} of its {count(of, 'batch', 'batches')} were not computed: damage inside "
            f"them would go unseen{why}"
        )
        yield _of_weight(CAP_UNCHECKED, facts, text, is_open, in_directory(facts, "only headers were collected"))


def _of_weight(
    code: Code,
    facts: ReplicaFacts,
    text: str,
    is_open: bool,
    evidence: Evidence,
    unseen: tuple[int | None, int | None] = (None, None),
) -> Finding:
    """Finding on an unknown part of one log, which matters only if the leader is uncertain; `unseen` are its start and end."""
    return finding(
        code,
        f"broker {facts.broker_id}: {text}",
        severity="medium" if is_open else "info",
        broker_id=facts.broker_id,
        offsets=unseen,
        evidence=[evidence],
    )


def _answered(facts: ReplicaFacts) -> Evidence:
    return Evidence("input", text="as its broker answered", broker_id=facts.broker_id, path=OBSERVED)


def _nobody_leads(case: Case) -> bool:
    return case.leadership is None or case.leadership.leader_id is None


def _records_not_captured(item: Comparison, problems: Sequence[RecordProblem], why: str) -> Iterator[Finding]:
    """Findings on batches of one broker that were to be compared or checked, and whose headers alone are in the evidence.

    Those of a copy collected earlier are not wanted: its broker has other files by now.
    """
    copy = item.follower
    gone = [one for one in problems if copy.is_earlier and one.path.startswith(f"{copy.directory.path}/")]
    if gone:
        text = (
            f"{name_copy(copy)} has {count(len(gone), 'batch', 'batches')} that no log has now: its broker had others when it was "
            "collected again, and the records in these can no longer be known"
        )
        yield _not_captured(gone, text, [place_of_copy(copy)])
    if wanted := [one for one in problems if one not in gone]:
        broker = wanted[0].broker_id
        size = sum(problem.size for problem in wanted)
        ranges = joined_ranges((problem.path, problem.position, problem.position + problem.size) for problem in wanted)
        yield _not_captured(
            wanted,
            f"broker {broker}: {why.format(count(len(wanted), 'batch', 'batches'))}; {count(size, 'byte')} wanted",
            [wanted_range(broker, path, start, end - start) for path, start, end in ranges],
        )


def _not_captured(problems: Sequence[RecordProblem], text: str, evidence: Sequence[Evidence]) -> Finding:
    broker_id = problems[0].broker_id
    return finding(CAP_NOT_CAPTURED, text, broker_id=broker_id, offsets=span_of(problems), evidence=evidence)


def _bytes_not_captured(facts: ReplicaFacts) -> Iterator[Finding]:
    """Findings on bytes after the last sound batch of segments that the evidence lacks."""
    segments = [segment for segment in facts.segments if segment.source == "evidence"]
    if not segments:
        return  # its records are wanted
    where = f"segment {segments[0].base_offset}" if len(segments) == 1 else count(len(segments), "segment")
    size = sum(segment.tail_length for segment in segments)
    yield finding(
        CAP_NOT_CAPTURED,
        f"broker {facts.broker_id}: the evidence lacks what follows the last sound batch in {where}; {count(size, 'byte')} wanted; "
        "until then its log is not compared",
        broker_id=facts.broker_id,
        evidence=[
            wanted_range(facts.broker_id, one.path, one.size_bytes - one.tail_length, one.tail_length)
            for one in segments
        ],
    )

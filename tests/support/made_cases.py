"""Cases put together from facts, without a file: healthy as they come, and changed in what a rule looks at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.alignment import Alignment
from replica_audit.auditing.compare.candidates import Candidates
from replica_audit.auditing.compare.comparison import Comparison
from replica_audit.auditing.compare.divergent_ranges import DivergentRange
from replica_audit.auditing.evidence import AuditOptions, PartitionEvidence, SideEvidence
from replica_audit.auditing.finding import Finding
from replica_audit.auditing.leadership.high_watermark_bounds import HighWatermark
from replica_audit.auditing.leadership.leader_tail import LeaderTail
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts, replica_facts
from replica_audit.batch_header import CONTROL, Batch
from replica_audit.literals import PROTOCOLS, DifferenceKind, FileState
from replica_audit.model import CheckpointFile, EpochStart, Leadership, ReplicaDir, SegmentSummary, TopicPartition
from replica_audit.protocol.truncation import Replay
from replica_audit.segments.batch_rows import Batches, Tally

TOPIC = "orders"
#: Of a log dir and of a partition's directory, by the field of `ReplicaDir`.
FILES = {
    "high_watermark_file": "replication-offset-checkpoint",
    "recovery_point_file": "recovery-point-offset-checkpoint",
    "log_start_file": "log-start-offset-checkpoint",
    "cleaner_file": "cleaner-offset-checkpoint",
    "epoch_file": f"{TOPIC}-0/leader-epoch-checkpoint",
}
LINEAGE = ((0, 0), (2, 20))
ALIKE = Alignment()


def checkpoint_file(broker_id: int, name: str, state: FileState = "present", problem: str | None = None):
    """One of `FILES` of a broker."""
    return CheckpointFile(state, f"broker-{broker_id}/{FILES[name]}", problem)


def directory(broker_id: int = 1, **fields: Any) -> ReplicaDir:
    """A partition's directory of which every file could be read."""
    files = {name: checkpoint_file(broker_id, name) for name in FILES}
    place = f"broker-{broker_id}"
    known = ReplicaDir(
        broker_id, place, TOPIC, 0, f"{place}/{TOPIC}-0", None, False, None, checkpoint_epochs=LINEAGE, **files
    )
    return known._replace(**{"high_watermark_checkpoint": 40, **fields})


LARGE = TopicPartition("large", 0)


def large_directory(broker_id: int, high_watermark: int, log_start: int | None = None) -> ReplicaDir:
    """A directory of `LARGE` without an epoch file."""
    path = f"broker-{broker_id}/{LARGE}"
    marks = {
        "high_watermark_checkpoint": high_watermark,
        "recovery_point_checkpoint": 0,
        "log_start_checkpoint": log_start,
    }
    known = {"topic": LARGE.topic, "path": path, "topic_id": "one", "clean_shutdown": False}
    missing = CheckpointFile("missing", f"{path}/leader-epoch-checkpoint")
    return directory(broker_id, epoch_file=missing, checkpoint_epochs=None, **known, **marks)


def segment(base: int, end: int, *starts: tuple[int, int], **fields: Any) -> SegmentSummary:
    """A file with batches of [base, end); `starts` are (leader epoch, base offset) of their stretches."""
    summary = SegmentSummary(
        f"{TOPIC}-0/{base:020d}.log",
        base,
        10 * (end - base),
        batch_count=end - base,
        first_base_offset=starts[0][1] if starts else None,
        first_leader_epoch=starts[0][0] if starts else None,
        last_base_offset=end - 1 if starts else None,
        last_offset=end - 1 if starts else None,
        last_leader_epoch=starts[-1][0] if starts else None,
        greatest_last_offset=end - 1 if starts else None,
        epoch_starts=tuple(EpochStart(epoch, start, 0) for epoch, start in starts),
        greatest_magic=2 if starts else None,
        has_epochs=any(epoch >= 0 for epoch, _ in starts),
    )
    return replace(summary, **fields)


def log(
    broker_id: int, *starts: tuple[int, int], end: int = 40, segments: Iterable[SegmentSummary] = (), **changes: Any
) -> ReplicaFacts:
    """A replica whose batches have these epochs up to `end`, in one file unless `segments` are given, with a matching epoch file.

    Other arguments are fields of `ReplicaDir` or else of `ReplicaFacts`.
    """
    named = ReplicaDir._fields
    said = {"checkpoint_epochs": starts} | {name: value for name, value in changes.items() if name in named}
    files = tuple(segments) or (segment(starts[0][1] if starts else 0, end, *starts),)
    bases = tuple(one.base_offset for one in files)
    facts = replica_facts(directory(broker_id, **{"segment_bases": bases, **said}), files)
    return replace(facts, **{name: value for name, value in changes.items() if name not in named})


def compared(
    follower: ReplicaFacts, *runs: DivergentRange, alignment: Alignment = ALIKE, cut: int = 40, **changes: Any
) -> Comparison:
    """A follower that every protocol cuts at `cut`; `case` gives it its reference."""
    replays = {name: Replay(name, cut, 1, "epoch_match") for name in PROTOCOLS}
    nothing = dict.fromkeys(PROTOCOLS, Tally()), dict.fromkeys(PROTOCOLS, 0)
    made = Comparison(follower, follower, alignment, replays, "fetch", None, *nothing, runs, (), None, Tally())
    return made._replace(**changes)


def batch(base: int, last: int, crc: int = 7, epoch: int = 0, *, control: bool = False) -> Batch:
    """A batch of magic 2 with a record for each offset; a control batch ends a transaction."""
    attributes = CONTROL if control else 0
    return Batch(0, 100, base, last, epoch, 2, crc, True, attributes, 1, 1, -1, -1, -1, last - base + 1)


def divergent(
    kind: DifferenceKind = "epoch", *, leader: int | None = 2, replica: int | None = 1, **changes: Any
) -> DivergentRange:
    """Run at offsets 30 to 39, which are cut; the reference has records there."""
    held = {name: Batches.of(changes.pop(name, ())) for name in ("batches", "written_again")}
    made = DivergentRange(30, 40, leader, replica, Tally(), None, 0, kind, survives=False, compacted=False, **held)
    return made._replace(**changes)


def leadership(**changes: Any) -> Leadership:
    """By the user: broker 1 leads in epoch 2, and 1 and 2 are assigned and in sync."""
    known = Leadership(TOPIC, 0, "user", leader_id=1, leader_epoch=2, isr=(1, 2), replicas=(1, 2))
    return replace(known, **changes)


#: `remote` of a case is what is known of remote storage.
_OF_OPTIONS = [name for name in AuditOptions._fields if name != "remote"]


def case(reference: ReplicaFacts, *comparisons: Comparison, said: Leadership | None = None, **changes: Any) -> Case:
    """A partition led by the reference, in the epoch that `said` has; `changes` are of `Reference`, of the evidence and what
    it is made of, or of `Case`.

    `said` by default: all that are here are assigned and in sync.
    """
    there = tuple(sorted([reference.broker_id, *(item.follower.broker_id for item in comparisons)]))
    said = leadership(isr=there, replicas=there) if said is None else said
    chosen = Reference(reference, reference.broker_id, said.leader_epoch, said.leader_epoch, "user", said.isr, ())
    chosen = replace(chosen, **_taken(changes, [field.name for field in fields(Reference)]))
    options = AuditOptions(**{"quiesced": False, **_taken(changes, _OF_OPTIONS)})
    side = SideEvidence(**_taken(changes, ("losses", "timeline")))
    evidence = PartitionEvidence(TopicPartition(TOPIC, 0), (), said, options, side, **_taken(changes, ("orphans",)))
    mark = HighWatermark(0, None, 0, 0, "interval", "", "", "", None, True)
    comparisons = tuple(item._replace(reference=reference) for item in comparisons)
    judged = (reference, *(item.follower for item in comparisons))
    tail = LeaderTail.of(chosen, judged, said, options.times, options.quiesced)
    candidates = Candidates(chosen, judged, (), options.protocol, tiered=False)
    return replace(Case(evidence, said, chosen, comparisons, mark, tail, candidates), **changes)


def _taken(changes: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Remove `names` from `changes` and return their values."""
    return {name: changes.pop(name) for name in names if name in changes}


def found(findings: Iterable[Finding], code: str) -> list[Finding]:
    """Findings of one code."""
    return [item for item in findings if item.code == code]


def place(item: Finding) -> tuple[int | None, int | None, int | None]:
    """(broker, start offset, end offset)."""
    return item.broker_id, item.start_offset, item.end_offset


def texts(item: Finding, kind: str) -> list[str]:
    """Texts of a finding's evidence of one kind."""
    return [one.text for one in item.evidence if one.kind == kind]


def paths(item: Finding) -> set[tuple[int | None, str | None]]:
    """(broker, path) of its evidence."""
    return {(one.broker_id, one.path) for one in item.evidence if one.path is not None}

"""Findings: a code, its evidence, and a row of the table `findings`, which only this module makes."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.leadership.election_causes import describe
from replica_audit.literals import SEVERITIES, VERDICTS, Confidence, Severity, Status, Verdict
from replica_audit.model import TopicPartition, span_of
from replica_audit.schema import Evidence, FindingRow, QuarantineRow
from replica_audit.text import count, name_brokers, name_cut, name_offsets, render_time

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.alignment import CorruptPair
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.divergent_ranges import DivergentRange
    from replica_audit.auditing.compare.record_comparison import RecordProblem
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.protocol.election import Election
    from replica_audit.snapshot.broker_logs import BrokerLogEvent


#: Traits of codes, apart from severity and verdict, that determine how reports and other readers treat them, with their meanings.
TRAITS = {
    "records": "is about records of one replica that differ, are dropped or were committed; of the same ones it tells one fact",
    "difference": "says that replicas hold other records, however the differences are put",
    "gone": "is about committed records that no replica has any more",
    "lost_tail": "says that a replica's log ends below its own checkpoints",
    "held": "is about records that a replica holds and the leader does not have",
    "doubt": "makes it uncertain what a replica holds",
    "unseen_tail": "says that a replica's log goes on, or may, above what was captured of it",
    "unseen_head": "says that a replica's log begins below what was read of it",
    "unchecked": "says that nobody computed the checksums of a replica's batches",
    "two_moments": "may come of files of two moments, unless it is critical",
    "moved": "says that some findings are in doubt before the partition is collected again",
    "damage": "says that a replica's own files are damaged, as whoever lets it lead has to know",
    "moved_away": "has a remedy that moves a replica's directory away and fetches it again",
    "copied_first": "names in its remedy the copy to make first where it is undecided",
    "decided": "has a remedy that is part of every decision on a leader: copy the records first, then start replicas in order",
    "own_step": "has a step of its own in a plan, with or without a decision",
    "start_order": "has a remedy that says when its broker is started, unless the plan starts it",
    "brought": "is about evidence that is missing, or logs that are not compared because of it",
    "two_sides": "leaves it to people which of two replicas is right, before either is fetched again",
    "no_files": "says that files of an assigned replica are missing or could not be read",
    "unreadable": "says that input could not be read at all, so that the audit does not say everything",
    "quorum": "is about the copies of the metadata log, where it is of no partition",
    "other_owner": "says that a log directory counts as one of a broker that it does not belong to",
    "earlier": "is about records that an earlier audit saw",
    "padding": "is about space that a file has beyond its last batch, without being damaged",
}


@dataclass(frozen=True, slots=True)
class Code:
    """A finding code as used by rules; its prose is in the Markdown file of its family (`catalogue.code_text`)."""

    code: str
    severities: tuple[Severity, ...]
    """Severities that the code can have, worst first."""
    verdicts: tuple[Verdict, ...] = ()
    """Verdicts that it can cause on its partition, worst first; empty if it never affects the verdict."""
    traits: tuple[str, ...] = ()
    """Names in `TRAITS`."""

    def __post_init__(self) -> None:
        for severity in self.severities:
            SEVERITIES.index(severity)
        for verdict in self.verdicts:
            VERDICTS.index(verdict)
        if unknown := set(self.traits) - TRAITS.keys():
            raise ValueError(f"{self.code} has unknown traits {sorted(unknown)}")

    @property
    def family(self) -> str:
        """Prefix of the codes of a family, e.g. TXN."""
        return self.code.partition("-")[0]


def considered(text: str) -> Evidence:
    """Evidence of a benign explanation that was considered, and whether it holds."""
    return Evidence("considered", text=text)


class Finding(NamedTuple):
    """A conclusion. `verdict` is the one it causes on its partition; None if it does not affect the verdict."""

    code: str
    severity: Severity
    confidence: Confidence
    broker_id: int | None
    start_offset: int | None
    end_offset: int | None
    message: str
    evidence: tuple[Evidence, ...]
    verdict: Verdict | None
    replica_epoch: int | None = None
    status: Status = "new"
    """"known" if an earlier audit of the warehouse already reported it."""


def finding(
    code: Code,
    message: str,
    *,
    severity: Severity | None = None,
    verdict: str | None = "",
    confidence: Confidence = "proven",
    broker_id: int | None = None,
    offsets: tuple[int | None, int | None] = (None, None),
    evidence: Sequence[Evidence] = (),
    replica_epoch: int | None = None,
) -> Finding:
    """Make a finding of `code` on the [start, end) of `offsets`.

    Severity and verdict default to the code's worst, but with a lower severity there is no verdict unless it is given (None causes
    none). Raises ValueError for a severity or verdict that the code cannot have.
    """
    severity = severity or code.severities[0]
    if verdict == "":
        verdict = code.verdicts[0] if code.verdicts and severity == code.severities[0] else None
    if severity not in code.severities or (verdict is not None and verdict not in code.verdicts):
        raise ValueError(f"{code.code} cannot have severity {severity} with verdict {verdict}")
    return Finding(
        code=code.code,
        severity=severity,
        confidence=confidence,
        broker_id=broker_id,
        start_offset=offsets[0],
        end_offset=offsets[1],
        message=message,
        evidence=tuple(evidence),
        verdict=verdict,
        replica_epoch=replica_epoch,
    )


def doubted(found: Finding, item: Comparison) -> Finding:
    """Lower the confidence of a comparison's finding if something else would explain the difference."""
    if item.doubt is None:
        return found
    confidence = "likely" if found.confidence == "proven" else found.confidence
    return found._replace(confidence=confidence, evidence=(*found.evidence, considered(item.doubt)))


def likely(found: Finding, why: str | None) -> Finding:
    """Lower a proven finding to likely for the reason `why`, a clause; unchanged without a reason, or if less than proven."""
    if why is None or found.confidence != "proven":
        return found
    return found._replace(confidence="likely", message=f"{found.message}; {why}")


def suspect(found: Finding, why: str | None) -> Finding:
    """Lower a finding to suspect for the reason `why`, a clause; unchanged without a reason."""
    return found if why is None else found._replace(confidence="suspect", message=f"{found.message}; {why}")


def why_undecided(case: Case, item: Comparison, run: DivergentRange) -> str | None:
    """Clause on why the committed records of a run may not be lost; None if they are lost."""
    return case.why_later(item, run) or case.why_on_leader(run.start_offset, run.replica_epoch)


def undecided(found: Finding, why: str | None, severity: Severity = "high") -> Finding:
    """Mark `found` as undecided for the reason `why`, a clause; unchanged without one."""
    if why is None:
        return found
    text = f"{found.message}; {why}"
    return found._replace(severity=severity, verdict="INCONCLUSIVE", confidence="suspect", message=text)


def copy_again(*copies: ReplicaFacts) -> str:
    """Clause that asks to copy brokers again whose segments may be from before and after a cleaning."""
    named = name_brokers([facts.broker_id for facts in copies])
    return f"copy {named} again by the script of capture-plan"


def tell_image(case: Case, facts: ReplicaFacts) -> str:
    """Clause on the evidence that decides whether files are from an image of a disk."""
    who = f"broker {facts.broker_id}"
    if case.options.times.is_image(facts):
        return f"this is an image of the disk of {who}; copy the log directory from the broker"
    return f"nobody saw {who} run; give its kind in manifest.json if it was down, else copy its own log directory, and no image of its disk"


def why_perhaps_image(case: Case, facts: ReplicaFacts, offset: int) -> str | None:
    """Clause on why records that a log lacks from `offset` on may not have reached its disk when an image of it was
    made, though the manifest does not call the copy an image; None if that is impossible."""
    if offset < facts.flushed_end or not case.options.times.may_be_untold_image(facts):
        return None
    return (
        f"likely, not proven: manifest.json leaves out the kind of the copy of broker {facts.broker_id}, and an image of its disk, made while it "
        "ran, would look the same; give it there"
    )


def unless_unwritten(case: Case, facts: ReplicaFacts, found: Finding) -> Finding:
    """Lower `found`, a finding on damage, to undecided or likely if the broker may have these records whole: they
    had not reached its disk when an image of it was made (C.2, "Images of a disk")."""
    start = found.start_offset or 0
    if found.verdict is None or start < facts.flushed_end:
        return found
    if not case.options.times.may_be_image(facts):
        return likely(found, why_perhaps_image(case, facts, start))
    return undecided(found, f"damaged, or not on the disk yet: {tell_image(case, facts)}", "medium")


def merge_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings of the same code, broker, start offset and replica epoch, which share an id.

    The worst is kept (the first of equals), with the evidence of all and the greatest end.
    """
    places: dict[tuple, list[Finding]] = {}
    for item in findings:
        places.setdefault((item.code, item.broker_id, item.start_offset, item.replica_epoch), []).append(item)
    return tuple(same[0] if len(same) == 1 else _merge(same) for same in places.values())


def _merge(same: Sequence[Finding]) -> Finding:
    worst = min(same, key=lambda item: SEVERITIES.index(item.severity))
    return worst._replace(
        message=f"{worst.message} ({len(same)} times)",
        end_offset=max((item.end_offset for item in same if item.end_offset is not None), default=None),
        evidence=tuple(dict.fromkeys(evidence for item in same for evidence in item.evidence)),
        verdict=next((verdict for verdict in VERDICTS if any(item.verdict == verdict for item in same)), None),
    )


def finding_id(item: Finding, partition: TopicPartition | None, place: str | None, cluster_id: str | None) -> str:
    """Id of a finding as 16 hex digits, stable between audits of one problem (CONTRACT).

    `place` is the topic id of the partition, or, for a finding of no partition, the path it is about.
    """
    parts = (
        cluster_id or "",
        place or (partition.topic if partition else ""),
        partition.partition if partition else "",
        "" if item.broker_id is None else item.broker_id,
        item.code,
        "" if item.start_offset is None else item.start_offset,
        "" if item.replica_epoch is None else item.replica_epoch,
    )
    return hashlib.sha256("\x00".join(str(part) for part in parts).encode()).hexdigest()[:16]


def finding_row(
    item: Finding, partition: TopicPartition | None, place: str | None, cluster_id: str | None
) -> FindingRow:
    """Make a row of the table `findings`; `place` as in `finding_id`."""
    return FindingRow(
        finding_id=finding_id(item, partition, place, cluster_id),
        code=item.code,
        severity=item.severity,
        confidence=item.confidence,
        topic=partition.topic if partition else None,
        partition=partition.partition if partition else None,
        broker_id=item.broker_id,
        start_offset=item.start_offset,
        end_offset=item.end_offset,
        message=item.message,
        evidence=item.evidence,
        status=item.status,
    )


#: Kind of evidence for bytes that the audit lacks.
WANTED = "wanted"
#: Maximum number of separate ranges of one replica.
_GREATEST_RANGES = 1000


def name_holder(case: Case, item: Comparison) -> str:
    """Noun phrase for a copy that was compared."""
    return name_copy(item.follower) if item in case.beside else f"broker {item.follower.broker_id}"


def name_copy(facts: ReplicaFacts) -> str:
    """Noun phrase for a copy in `Case.beside`."""
    if facts.is_earlier:
        return f"the first evidence of broker {facts.broker_id} ({facts.directory.log_dir})"
    return f"{facts.directory.log_dir} of broker {facts.broker_id}"


#: Clause on the fate of a copy in `Case.beside`, by its kind.
_FATES = {
    "current": "its broker has a second copy of the partition and uses the other",
    "earlier": "when its broker was collected again it did not have them any more",
    "future": "it is cut to the current log when the broker starts",
    "stray": "Kafka does not read this directory",
    "delete": "Kafka is about to delete this directory",
    "deleted_segments": "Kafka is about to delete these files",
}


def fate_of_copy(facts: ReplicaFacts) -> str:
    """Clause on the fate of a copy in `Case.beside`."""
    if facts.may_be_in_use:
        return "its broker has a second copy of the partition, and nothing says which it uses"
    return _FATES[facts.kind]


def in_directory(facts: ReplicaFacts, text: str, value: str | None = None) -> Evidence:
    """Evidence in a replica's directory."""
    return Evidence("file", text=text, broker_id=facts.broker_id, path=facts.directory.path, value=value)


def in_epoch_file(facts: ReplicaFacts, text: str) -> Evidence:
    """Evidence in a replica's epoch file."""
    return Evidence("lineage", text=text, broker_id=facts.broker_id, path=facts.directory.epoch_file.path)


def place_of_copy(facts: ReplicaFacts) -> Evidence:
    """Evidence with the directory of a copy in `Case.beside`."""
    return Evidence(
        "file", text="a copy that neither leads nor follows", broker_id=facts.broker_id, path=facts.directory.log_dir
    )


def remote_segment(segment_id: str, value: str | None = None) -> Evidence:
    """Evidence that names a segment in remote storage."""
    return Evidence("file", text=f"segment {segment_id} in remote storage", value=value)


def corrupt_batch(code: Code, pair: CorruptPair) -> Finding:
    """Finding on a batch that both replicas have, and that is damaged on one side."""
    return finding(
        code,
        f"broker {pair.bad_broker_id}: {name_offsets(pair.start_offset, pair.end_offset)} damaged here, sound on broker "
        f"{pair.good_broker_id}, from which they can be repaired: {pair.detail}",
        broker_id=pair.bad_broker_id,
        offsets=(pair.start_offset, pair.end_offset),
        evidence=[Evidence("batch", text=pair.detail, broker_id=pair.bad_broker_id, position=pair.position)],
    )


def unread_records(code: Code, problems: Sequence[RecordProblem], what: str) -> Finding:
    """Finding on batches of one broker whose records were needed for the comparison but are missing; `what` is the reason."""
    first = problems[0]
    batches = count(len(problems), "batch", "batches")
    return finding(
        code,
        f"broker {first.broker_id}: the records of {batches} that had to be compared {what}: {first.reason}",
        broker_id=first.broker_id,
        offsets=span_of(problems),
        evidence=[
            Evidence("batch", text=first.reason, broker_id=first.broker_id, path=first.path, position=first.position)
        ],
    )


def wanted_range(broker_id: int, path: str, position: int, size: int) -> Evidence:
    """Evidence of `size` bytes from `position` of a file that the audit lacks."""
    text = count(size, "byte")
    return Evidence(WANTED, broker_id=broker_id, path=path, position=position, value=str(size), text=text)


def wanted_ranges(evidence: Iterable[Evidence]) -> list[tuple[str, int, int]]:
    """Bytes named by `wanted_range`, each once, as sorted (path, start, end)."""
    return joined_ranges(
        (item.path, item.position, item.position + int(item.value))
        for item in evidence
        if item.kind == WANTED and item.path is not None and item.position is not None and item.value is not None
    )


def joined_ranges(ranges: Iterable[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Sort ranges (path, start, end) and join those that touch; if there are too many, also join the nearest ones."""
    gap = 0
    ordered = sorted(ranges)
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


#: Kind of evidence for how far another replica has the records that a log lost, or got only after it was copied.
UNSEEN_TAIL = "unseen"


class UnseenTail(NamedTuple):
    """Offsets that a log lost, or got only after it was copied; or a whole log on a disk that its broker may no longer run with."""

    broker_id: int
    start_offset: int
    end_offset: int
    held_to: int
    """Offset up to which another replica is known to have what the log may have had."""
    instead: str | None = None
    """An empty log dir that its broker may run with in place of that disk: others are then cut to what it has there."""


def unseen_above(broker_id: int, held_to: int) -> Evidence:
    """Evidence that a log may have had records from `held_to` on that no copy has."""
    text = "from this offset on it may have, or have had, what no replica here has"
    return Evidence(UNSEEN_TAIL, text=text, broker_id=broker_id, value=str(held_to))


def unseen_instead(broker_id: int, log_start: int, log_dir: str) -> Evidence:
    """Evidence that a broker may run with an empty log dir in place of the disk with the log that a finding is about."""
    text = "an empty log directory, which its broker may use instead"
    return Evidence(UNSEEN_TAIL, text=text, broker_id=broker_id, path=log_dir, value=str(log_start))


def find_unseen_tails(findings: Iterable[Finding | FindingRow]) -> list[UnseenTail]:
    """Unseen tails by the evidence of `findings`, which are of one partition."""
    return [
        UnseenTail(
            item.broker_id,
            row.start_offset,
            row.end_offset,
            int(item.value),
            instead=item.path,
        )
        for row in findings
        for item in row.evidence
        if item.kind == UNSEEN_TAIL and item.value is not None
        if item.broker_id is not None and row.start_offset is not None and row.end_offset is not None
    ]


def open_tails(tails: Collection[UnseenTail], leader: tuple[int, int] | None) -> list[UnseenTail]:
    """Tails that leave open what a choice of leader loses: no replica has their end, or the chosen one leads already,
    so that records which it lacks count as written after it was copied. `leader`: its broker id and log end then.

    Records that a leader with an unseen tail of its own lacks are possibly lost.
    """
    stays = leader is not None and all(one.broker_id != leader[0] for one in tails)
    found = []
    for one in tails:
        if one.held_to < one.end_offset:
            found.append(one._replace(start_offset=one.held_to))
        elif stays and leader is not None and leader[1] < one.end_offset:
            found += [one, one._replace(broker_id=leader[0], start_offset=leader[1])]
    return found


class Wanted(NamedTuple):
    """Bytes of a replica that the answer needs and the evidence lacks."""

    place: TopicPartition
    broker_id: int
    bytes: int


#: Kind of evidence for `KeptKeys`.
KEPT_KEYS = "kept"


class KeptKeys(NamedTuple):
    """Keys that a leader has deleted, with their tombstones, and that a follower keeps for good."""

    leader_id: int
    keys: int


def kept_keys(leader_id: int, keys: int) -> Evidence:
    """Evidence that a follower keeps `keys` keys that the leader has deleted."""
    return Evidence(KEPT_KEYS, broker_id=leader_id, value=str(keys))


def find_kept_keys(row: Finding | FindingRow) -> KeptKeys | None:
    """The `KeptKeys` of a finding on the follower; None without any."""
    for one in row.evidence:
        if one.kind == KEPT_KEYS and one.broker_id is not None and one.value is not None:
            return KeptKeys(one.broker_id, int(one.value))
    return None


def find_wanted(findings: Iterable[FindingRow]) -> Iterator[Wanted]:
    """Bytes of each replica that findings want, each counted once."""
    found: dict[tuple[TopicPartition, int], list[Evidence]] = defaultdict(list)
    for row in findings:
        wanted = [one for one in row.evidence if one.kind == WANTED]
        if wanted and row.topic is not None and row.partition is not None and row.broker_id is not None:
            found[TopicPartition(row.topic, row.partition), row.broker_id] += wanted
    for (place, broker_id), evidence in found.items():
        if size := sum(end - start for _, start, end in wanted_ranges(evidence)):
            yield Wanted(place, broker_id, size)


def unusable_input(code: Code, row: QuarantineRow) -> Finding:
    """Finding on input that belongs to no partition, from its row of `quarantine`."""
    place = Evidence("file", text=row.reason, broker_id=row.broker_id, path=row.path, position=row.position)
    # A `FormatError` begins with the path.
    message = row.reason if row.reason.startswith(row.path) else f"{row.path}: {row.reason}"
    return finding(code, message, broker_id=row.broker_id, evidence=[place])


def replay_evidence(item: Comparison) -> Evidence:
    """Evidence of the truncation of a follower by the chosen protocol."""
    outcome = item.replay
    return Evidence(
        "replay",
        text=f"cut at {outcome.truncate_to}, after {count(outcome.rounds, 'answer')} of the leader: {name_cut(outcome.reason)}",
        broker_id=item.follower.broker_id,
        value=item.protocol,
    )


def log_line(event: BrokerLogEvent, text: str) -> Evidence:
    """Evidence of a line in a broker log."""
    return Evidence(
        "log", text=f"line {event.line}: {text}", broker_id=event.broker_id, path=event.path, value=event.time
    )


def entries_text(entries: tuple[tuple[int, int], ...] | None) -> str:
    """Epoch entries in short form: {3:0, 5:120}."""
    if entries is None:
        return "no file"
    return "{" + ", ".join(f"{epoch}:{start}" for epoch, start in entries) + "}"


def left_by(run: DivergentRange) -> str:
    """Clause on the election that left a run behind; "" if unknown."""
    cause = run.cause
    election = cause.election if cause is not None else None
    if cause is None or election is None or cause.clean is None:
        return ""
    kind = "clean" if cause.clean else "unclean"
    which = f"the {kind} election of broker {election.leader_id} at {render_time(election.time_ms)}"
    if cause.suspects == 1:
        return f"; left behind by {which}"
    return f"; left behind by one of {cause.suspects} elections, among them {which}"


def marked(facts: ReplicaFacts) -> Evidence:
    """Evidence of the high watermark in a replica's checkpoint file."""
    directory = facts.directory
    return Evidence(
        "checkpoint",
        text="high watermark",
        broker_id=facts.broker_id,
        path=directory.high_watermark_file.path,
        value=str(directory.high_watermark_checkpoint),
    )


def epochs_of_batches(facts: ReplicaFacts) -> Evidence:
    """Evidence of the leader epochs of a replica's batches."""
    text = f"from the batches: {entries_text(facts.lineage.entries)}"
    return Evidence("lineage", text=text, broker_id=facts.broker_id)


def recorded(election: Election) -> Evidence:
    """Evidence of an election recorded in the metadata log."""
    text = f"record {election.metadata_offset} of the metadata log: {describe(election)}"
    return Evidence("leadership", text=text, broker_id=election.leader_id, value=str(election.leader_epoch))


def told_by_history(run: DivergentRange) -> list[Evidence]:
    """Evidence from the leadership history: the elections that left a run behind, and its loss by three counts."""
    cause = run.cause
    if cause is None:
        return [considered("whether the election was clean is not known: the leadership given has no history")]
    found = []
    if cause.election is None or cause.clean is None:
        why = "the history does not reach back so far, or later leaders left no trace"
        found.append(considered(f"whether the election was clean is not known: {why}"))
    found += map(recorded, cause.elections)
    promised = "not known" if cause.promised_records is None else f"at most {cause.promised_records}"
    loss = (
        f"{count(run.data_records, 'record')}; proven committed: {run.committed_records}; promised by acks=all with "
        f"this topic's min.insync.replicas: {promised}"
    )
    return [*found, Evidence("loss", text=loss)]

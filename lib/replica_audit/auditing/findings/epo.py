"""Leader epochs: a replica's epoch file against its batches, its lineage against the reference's and the given leadership (F.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    entries_text,
    epochs_of_batches,
    finding,
    in_epoch_file,
    likely,
    undecided,
)
from replica_audit.auditing.findings.cap_skew import skew
from replica_audit.auditing.findings.meta import explained_by_skew
from replica_audit.auditing.replicas.later_files import (
    below_committed,
    emptied_by,
    entry_of_other,
    later_entry,
    passed_by,
)
from replica_audit.auditing.replicas.offset_ranges import deleted_end, shared_end, shared_start
from replica_audit.auditing.replicas.reference import COPIED_BEFORE
from replica_audit.batch_header import or_absent
from replica_audit.protocol.lineage import Lineage, increases
from replica_audit.protocol.versions import has_old_formats
from replica_audit.schema import Evidence
from replica_audit.text import name_source

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts

EPO_FILE_CORRUPT = Code(
    "EPO-FILE-CORRUPT",
    ("high", "medium"),
    ("LATENT_CORRUPTION", "INCONCLUSIVE"),
    traits=("damage", "moved_away", "copied_first"),
)
EPO_CACHE_MISSING = Code(
    "EPO-CACHE-MISSING",
    ("high", "medium", "info"),
    ("LATENT_CORRUPTION", "INCONCLUSIVE"),
    traits=("damage", "moved_away", "copied_first"),
)
EPO_CACHE_STALE = Code("EPO-CACHE-STALE", ("info",))
EPO_NON_MONOTONIC = Code("EPO-NON-MONOTONIC", ("medium",), traits=("damage", "moved_away"))
EPO_START_MISMATCH = Code(
    "EPO-START-MISMATCH", ("high",), ("COMMITTED_DIVERGENCE",), traits=("damage", "moved_away", "two_sides")
)
EPO_UNKNOWN_TO_LEADER = Code("EPO-UNKNOWN-TO-LEADER", ("medium", "info"))
EPO_AHEAD_OF_METADATA = Code("EPO-AHEAD-OF-METADATA", ("medium", "info"), traits=("moved_away",))


def judge(case: Case) -> Iterator[Finding]:
    """EPO-* of every replica that was compared."""
    for facts in case.replicas:
        yield from _file(case, facts)
    for facts in case.replicas:
        yield from _ahead_of_metadata(case, facts)
    for item in case.comparisons:
        yield from _start_mismatch(case, item)
        yield from _unknown_epochs(case, item)


def _lines_by_batches(facts: ReplicaFacts) -> str | None:
    """Lines of leader-epoch-checkpoint, as `LeaderEpochCheckpointFile` writes them, for the epochs of a replica's batches; None without any."""
    entries = facts.needed_lineage.entries
    return ", ".join(("0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries))) if entries else None


def _file(case: Case, facts: ReplicaFacts) -> Iterator[Finding]:
    file = facts.directory.epoch_file
    if file.is_unknown:
        return
    if file.state == "malformed":
        yield finding(
            EPO_FILE_CORRUPT,
            f"broker {facts.broker_id}: {file.problem}; a broker refuses to start with it",
            broker_id=facts.broker_id,
            evidence=[in_epoch_file(facts, file.state)._replace(value=_lines_by_batches(facts))],
        )
        return
    has_old_format = facts.is_converted and has_old_formats(case.options.kafka_version) is not False
    if facts.directory.is_epoch_file_empty and facts.needed_lineage and not has_old_format:
        is_follower = facts is not case.reference.facts and not case.evidence.was_at_rest
        other = emptied_by(facts, case.replicas) if is_follower else None
        text = f"broker {facts.broker_id}: {file.path} is empty though the log has batches with leader epochs"
        if other is not None:
            span = (facts.log_start_offset, facts.log_end_offset)
            text += f", and following broker {other.broker_id} removes all of these: the file was copied after they were removed"
            yield skew(case, facts, text, *span)
            return
        found = finding(
            EPO_FILE_CORRUPT,
            text,
            broker_id=facts.broker_id,
            evidence=[_place(facts), considered("empty log: no, it has batches with epochs")],
        )
        gone_down = case.why_gone_down(facts)
        # A file of 0 bytes was never written, so it cannot be later than a log with such batches.
        may_be_begun_anew = file.state == "present" and not (case.evidence.was_at_rest or facts.is_at_rest)
        is_open = facts.in_any_order or may_be_begun_anew or (gone_down and passed_by(facts, case.replicas))
        why = gone_down or _why_begun_anew(case, facts)
        yield undecided(found, _of_two_moments(facts), "medium") if is_open else likely(found, why)
        return
    entries = facts.file_entries
    for one, two in zip(entries, entries[1:]):
        if not increases((one, two)):
            yield finding(
                EPO_NON_MONOTONIC,
                f"broker {facts.broker_id}: {file.path} goes from epoch {one[0]} at {one[1]} to epoch {two[0]} at {two[1]}",
                broker_id=facts.broker_id,
                offsets=(two[1], None),
                evidence=[_place(facts)],
            )
    yield from _contradictions(case, facts)
    outside = tuple(entry for entry in entries if entry[1] > facts.log_end_offset and not facts.end_is_open)
    is_below = len(entries) > 1 and all(start < facts.log_start_offset for _, start in entries)
    # In a log that may continue in remote storage they are not outside.
    if not outside and is_below and case.evidence.tiering is not None:
        outside = entries
    if outside:
        yield finding(
            EPO_CACHE_STALE,
            f"broker {facts.broker_id}: {file.path} has entries outside the log {entries_text(outside)}",
            broker_id=facts.broker_id,
            evidence=[
                _place(facts),
                considered("truncation writes this file later than the log; the loader drops such entries"),
            ],
        )


def _why_begun_anew(case: Case, facts: ReplicaFacts) -> str | None:
    """Clause on why the file of a log with epochs may rightly begin late, or be empty: its broker had an older message format (A.3);
    None if that cannot be."""
    options = case.options
    # Of an unknown version only the protocol shows that it is an old one.
    may_change = (
        options.protocol != "fetch" if options.kafka_version is None else has_old_formats(options.kafka_version)
    )
    if not (facts.is_converted or (may_change and case.reference.source != "metadata_log")):
        return None
    return "likely, not proven: a broker whose message format was raised begins the file anew, with the next batch"


def _of_two_moments(facts: ReplicaFacts) -> str:
    """Clause on an epoch file that contradicts its log, where nothing shows in which order they were copied: a log has an empty file
    before its first batch, and while it is begun anew."""
    return f"the file is damaged, or was copied at another moment than the log: {_copied_again(facts)}"


def _copied_again(facts: ReplicaFacts) -> str:
    """Clause on the copy that shows whether an epoch file is damaged."""
    if not facts.in_any_order and not facts.is_at_rest:
        return f"copy broker {facts.broker_id} again"
    return f"copy broker {facts.broker_id} again while it is down, or with the file after the log and begin and end in manifest.json"


def _place(facts: ReplicaFacts) -> Evidence:
    return in_epoch_file(facts, entries_text(facts.directory.checkpoint_epochs))


def _contradictions(case: Case, facts: ReplicaFacts) -> Iterator[Finding]:
    """EPO-CACHE-MISSING for epochs of batches that the file does not give for their offsets, one finding for the whole file."""
    if not facts.has_epochs:
        return
    written = facts.found_lineage or Lineage()
    wrong = _epochs_not_in_file(facts, written)
    claimed = _entries_not_in_batches(facts, written)
    if not wrong and not claimed:
        return
    excuse = _why_copied_apart(case, facts, written, wrong, claimed)
    if wrong:
        text = f"the batches have epochs {entries_text(tuple(wrong))}, which the file does not have for those offsets"
    else:
        text = f"the file has {entries_text(tuple(claimed))}, where the batches have another epoch"
    found = finding(
        EPO_CACHE_MISSING,
        f"broker {facts.broker_id}: {facts.directory.epoch_file.path}: {text}",
        severity="high" if excuse is None else "info",
        broker_id=facts.broker_id,
        offsets=(min(start for _, start in wrong or claimed), None),
        evidence=[
            _place(facts),
            epochs_of_batches(facts),
            considered(
                excuse
                or "the file was copied before the segments: no, older epochs are missing too, or all copies were made at one moment"
            ),
        ],
    )
    if excuse is not None:
        # A broker that was stopped, before or while it was copied, can be copied again as it is: no excuse is needed.
        is_open = facts.in_any_order and facts.directory.clean_shutdown is True and not facts.is_converted
        yield undecided(found, _of_two_moments(facts) if is_open else None, "medium")
        return
    gone_down = case.why_gone_down(facts)
    contradicted = [*wrong, *claimed]
    may_be_apart = facts.in_any_order or _may_be_later(case, facts)
    if may_be_apart and _may_be_of_other_moment(case, facts, written, contradicted):
        cut = below_committed(facts, contradicted, case.replicas)
        yield (
            undecided(found, _of_two_moments(facts), "medium")
            if cut is None
            else likely(found, _cut_since(facts, *cut))
        )
    elif gone_down and entry_of_other(facts, case.replicas):
        yield undecided(found, _of_two_moments(facts), "medium")
    else:
        begins_late = not claimed and all(start < entry for _, start in wrong for _, entry in written.entries[:1])
        yield likely(found, gone_down or (_why_begun_anew(case, facts) if begins_late else None))


def _cut_since(facts: ReplicaFacts, offset: int, other: ReplicaFacts) -> str:
    """Clause on the log cut below committed records that an epoch file may show, and on how to find out."""
    mark = f"the high watermark {other.directory.high_watermark_checkpoint} of broker {other.broker_id}"
    return (
        f"likely, not proven: the file may also be newer than the log, if the log has since been cut at {offset}, below {mark}; "
        f"{_copied_again(facts)}"
    )


def _epochs_not_in_file(facts: ReplicaFacts, written: Lineage) -> list[tuple[int, int]]:
    """Epochs of batches, with their starts, that the file does not give for those offsets."""
    cut_from_start = _cut_from_start(facts, written)
    needed = set(facts.needed_lineage)
    # The file may omit epochs that it need not have, but may not give others for their offsets.
    return [
        (epoch, start)
        for epoch, start in sorted({*facts.lineage, *needed})
        if (said := written.epoch_for_offset(start)) != epoch
        and (said is not None or (epoch, start) in needed)
        and not (cut_from_start is not None and start < cut_from_start)
    ]


def _entries_not_in_batches(facts: ReplicaFacts, written: Lineage) -> list[tuple[int, int]]:
    """Entries of the file for offsets at which the batches are of another epoch."""
    own_starts = {start for _, start in facts.lineage}
    return [
        (epoch, start)
        for epoch, start in written
        if start < facts.log_end_offset
        # At the start of an epoch of the batches, the epoch is the same or in `_epochs_not_in_file`: a leader that wrote nothing was replaced there.
        and start not in own_starts
        # Recovery took this entry from a changed batch: that is LOG-CRC-BLIND.
        and (epoch, start) not in {(one.leader_epoch, one.start_offset) for one in facts.rot}
        and facts.lineage.epoch_for_offset(start) not in (None, epoch)
        # Batches without an epoch do not contradict the entry of a leader that appended nothing else.
        and not facts.is_epochless(start)
        and not any(
            gap.start_offset <= start <= gap.end_offset for gap in (*facts.gaps, *facts.unreadable, *facts.missing)
        )
    ]


def _why_copied_apart(
    case: Case,
    facts: ReplicaFacts,
    written: Lineage,
    wrong: Sequence[tuple[int, int]],
    claimed: Sequence[tuple[int, int]],
) -> str | None:
    """Clause on why file and segments are copies of different moments; None if nothing shows it."""
    later = None if case.evidence.was_at_rest else later_entry(facts, case.replicas)
    if later is not None:
        return (
            f"the file was copied after the log had been cut: it has epoch {later.leader_epoch} from {later.start_offset} on, like the log "
            f"of broker {later.broker_id}"
        )
    if claimed and _are_of_later_leaders(case, facts, claimed):
        return f"the file was copied after the log had been cut at {claimed[0][1]}: {name_source(case.reference.source)} has that epoch"
    if claimed:
        return None
    is_old = written or has_old_formats(case.options.kafka_version) is not False
    if facts.is_converted and is_old and all(start < written.entries[0][1] for _, start in wrong if written):
        return (
            "the replicas have batches without an epoch: a broker that still has their message format keeps no epochs of what it fetches, and "
            "begins with the next batch as the format is raised"
        )
    return _excuse(case, facts, written, wrong)


def _may_be_later(case: Case, facts: ReplicaFacts) -> bool:
    """True if a sound epoch file may be later than its log, which was cut in between. Its newest epoch is later than
    the log's, and known to the metadata log (copied last), if that is here; or it agrees with a replica of a later
    epoch, to whose log an unclean election took this one back; or such an election may have followed the copy."""
    if case.evidence.was_at_rest or facts.is_at_rest or not facts.file_entries:
        return False
    (first, start), *begun = facts.file_entries
    last = or_absent(facts.last_leader_epoch)
    newest = facts.file_entries[-1][0]
    if newest > last:
        return facts.known_epoch is None or newest <= facts.known_epoch
    if case.reference.predates and or_absent(case.reference.leader_epoch) > last:
        return True
    return any(
        one is not facts
        and one.log_epoch > last
        and one.lineage.epoch_for_offset(start) == first
        and {*begun} <= {*one.epoch_entries}
        for one in case.replicas
    )


def _may_be_of_other_moment(
    case: Case, facts: ReplicaFacts, written: Lineage, differing: Sequence[tuple[int, int]]
) -> bool:
    """True if a sound file may be that of the same log earlier or later, before or after it was cut.

    Both begin alike, except for a log start that may have moved since, and differ only above the last epoch that begins at one offset
    in both: logs that share a record are equal below it; or below the first one of the file, where that is a log start since. An epoch
    begins at one offset, unless a cleaner removed its first records or the log start has moved past them. The file has none at all while
    the log is begun anew. How late its epochs are shows nothing: each restart of a broker may begin two, and a copy takes as long as it takes.
    """
    if facts.directory.checkpoint_epochs == ():
        return True
    if not written or not facts.file_increases:
        return False
    first = written.entries[0][1]
    if first > facts.log_start_offset and not _may_have_moved(case, facts):
        return False
    starts = {} if facts.compacted else dict(list(facts.lineage)[1:])
    if any(starts.get(epoch, start) != start for epoch, start in written.entries[1:]):
        return False
    shared = max((start for epoch, start in facts.lineage if written.start_of(epoch) == start), default=-1)
    return all(start > shared or start < first for _, start in differing)


def _are_of_later_leaders(case: Case, facts: ReplicaFacts, claimed: Sequence[tuple[int, int]]) -> bool:
    """True if leaders of epochs after those of the batches began at the entries `claimed`, by the source of leadership."""
    if case.evidence.was_at_rest or facts.is_at_rest or not case.tail.is_epoch_said:
        return False
    known = {case.reference.leader_epoch, *(state.leader_epoch for state in case.reference.history)}
    last = or_absent(facts.last_leader_epoch)
    return facts.file_increases and all(epoch in known and epoch > last for epoch, _ in claimed)


def _excuse(case: Case, facts: ReplicaFacts, written: Lineage, wrong: Sequence[tuple[int, int]]) -> str | None:
    """Explanation, as a clause, why a sound file lacks the `wrong` epochs of the batches; None without one."""
    if not written:
        return None
    (oldest, start) = written.entries[0]
    (newest, _) = written.entries[-1]
    if all(epoch > newest for epoch, _ in wrong) and not case.evidence.was_at_rest:
        return "the file was copied before the segments: only the newest epochs are missing from it"
    # A log start that moves to the start of an epoch truncates the file like this, up to a minute before its checkpoint is written.
    is_cut = (
        ((oldest, start) in facts.lineage or start >= facts.log_end_offset)
        and all(first < start for _, first in wrong)
        and _may_have_moved(case, facts)
    )
    known = (one.directory.log_start_checkpoint for one in case.replicas)
    is_still = case.evidence.was_at_rest or facts.killed
    reached = max(max(one.log_end_offset, one.marked_end) for one in case.replicas)
    was_there = facts.killed and start <= reached
    may_lag = not is_still or was_there or any(one is not None and one >= start for one in known)
    if is_cut and may_lag:
        return f"only the oldest epochs are missing: the log start may have moved to {start} since log-start-offset-checkpoint was written"
    return None


def _may_have_moved(case: Case, facts: ReplicaFacts) -> bool:
    """True if the log start of a replica may have moved after its checkpoint was written. Not if only the cleaner deletes, since
    DeleteRecords is refused there. A broker that stops cleanly writes the checkpoint last."""
    return case.config("cleanup.policy") != "compact" and not facts.was_stopped_before_copy


def _cut_from_start(facts: ReplicaFacts, written: Lineage) -> int | None:
    """Log start to which the file was truncated while segments below it are still in the directory; None without one.

    Retention moves the log start, truncates the file, and deletes the segments later. The first entry then starts inside its
    epoch, or at the base of a segment; in a file that lost an entry it starts where its epoch does.
    """
    if not written:
        return None
    epoch, start = written.entries[0]
    begins_inside = facts.lineage.epoch_for_offset(start) == epoch and (epoch, start) not in facts.lineage
    return start if begins_inside or start in {segment.base_offset for segment in facts.segments} else None


def _start_mismatch(case: Case, item: Comparison) -> Iterator[Finding]:
    leader = case.reference.facts
    follower = item.follower
    if leader.compacted or follower.compacted:
        return
    floor = max(shared_start(leader, follower), deleted_end(leader, follower))
    ceiling = shared_end(leader, follower)
    for epoch, start in follower.lineage:
        other = leader.lineage.start_of(epoch)
        if other is None or other == start:
            continue
        low, high = sorted((start, other))
        if not floor < low < high < ceiling or leader.cannot_read(low, high) or follower.cannot_read(low, high):
            continue
        if any(pair.kind == "blind" and pair.start_offset in (start, other) for pair in item.alignment.corrupt):
            # A changed header field starts there, on one side.
            continue
        if any(
            part.kind == "format" and part.start_offset <= low < part.end_offset for part in item.alignment.differences
        ):
            # One side has these records in a format without epochs.
            continue
        found = finding(
            EPO_START_MISMATCH,
            f"epoch {epoch} begins at {start} on broker {follower.broker_id} and at {other} on broker {leader.broker_id}; "
            "one leader wrote it, so both cannot be right",
            broker_id=follower.broker_id,
            offsets=(low, high),
            replica_epoch=epoch,
            evidence=[
                epochs_of_batches(follower),
                epochs_of_batches(leader),
                considered("retention: no, both starts lie inside both logs"),
            ],
        )
        yield likely(found, case.why_deleted_since(item, high))


def _unknown_epochs(case: Case, item: Comparison) -> Iterator[Finding]:
    leader = case.reference.facts
    follower = item.follower
    newest = case.reference.leader_epoch
    if newest is None or not leader.lineage:
        return
    oldest = leader.lineage.entries[0][0]
    # The file as found: the loader drops an entry at the log's end, for which the leader's copy has no record yet.
    known = {epoch for epoch, _ in (*leader.epoch_entries, *(leader.file_lineage or ()))}
    for epoch, start in follower.lineage:
        # Retention removes old epochs; a tail that is ahead may be of an epoch that the reference has not reached.
        if epoch in known or not oldest < epoch < newest:
            continue
        if case.reference.predates and start >= leader.log_end_offset:
            continue
        in_tail = any(
            part.start_offset <= start and part.end_offset >= follower.log_end_offset for part in item.stretches
        )
        # A reference that fetched a cleaned log never had epochs without remaining records.
        if leader.compacted and not any(part.holds(start) for part in item.stretches):
            continue
        here = f"broker {leader.broker_id}"
        lacks = f"{here} never had that epoch"
        if case.reference.is_replaced:
            lacks = f"the log of {here} does not know that epoch, but {COPIED_BEFORE}"
        yield finding(
            EPO_UNKNOWN_TO_LEADER,
            f"broker {follower.broker_id} has records of epoch {epoch} from {start} on; {lacks}",
            severity="info" if in_tail else "medium",
            broker_id=follower.broker_id,
            offsets=(start, None),
            replica_epoch=epoch,
            evidence=[Evidence("lineage", text=entries_text(leader.lineage.entries), broker_id=leader.broker_id)],
        )


def _ahead_of_metadata(case: Case, facts: ReplicaFacts) -> Iterator[Finding]:
    leadership = case.leadership
    last = facts.last_leader_epoch
    older = case.reference.outdated
    if leadership is None or (older is not None and not explained_by_skew(case, older)):
        return
    newest = leadership.leader_epoch
    if newest is not None and last is not None and last > newest:
        yield finding(
            EPO_AHEAD_OF_METADATA,
            f"broker {facts.broker_id} has batches of epoch {last}; {name_source(leadership.source)} knows epochs up to {newest}",
            severity="medium" if case.evidence.was_at_rest else "info",
            broker_id=facts.broker_id,
            replica_epoch=last,
            evidence=[Evidence("leadership", text=f"leader epoch {newest}", value=name_source(leadership.source))],
        )

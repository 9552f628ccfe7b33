"""Epoch lineages: files against batches, and replicas against the reference (F.3)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.comparing.comparison import Comparison
from replica_audit.auditing.findings.finding import Case, Evidence, Finding, considered, finding
from replica_audit.auditing.replicas.facts import ReplicaFacts
from replica_audit.protocol.lineage import Lineage


def judge(case: Case) -> Iterator[Finding]:
    """EPO-*."""
    for facts in case.replicas:
        yield from _file(case, facts)
        yield from _ahead_of_metadata(case, facts)
    for item in case.comparisons:
        yield from _start_mismatch(case, item)
        yield from _unknown_epochs(case, item)


def _file(case: Case, facts: ReplicaFacts) -> Iterator[Finding]:
    directory = facts.directory
    file = directory.epoch_file
    place = Evidence("lineage", _text(directory.checkpoint_epochs), facts.broker_id, file.path)
    if file.is_unknown:
        return
    if file.state == "malformed":
        yield finding(
            "EPO-FILE-CORRUPT",
            f"broker {facts.broker_id}: {file.problem}; a broker refuses to start on it",
            broker_id=facts.broker_id,
            evidence=[place],
        )
        return
    if file.state == "empty" and facts.lineage:
        yield finding(
            "EPO-FILE-CORRUPT",
            f"broker {facts.broker_id}: {file.path} is empty though the log has batches with leader epochs",
            broker_id=facts.broker_id,
            evidence=[place, considered("empty log: no, it has batches with epochs")],
        )
        return
    entries = directory.checkpoint_epochs or ()
    for one, two in zip(entries, entries[1:]):
        if one[0] >= two[0] or one[1] >= two[1]:
            yield finding(
                "EPO-NON-MONOTONIC",
                f"broker {facts.broker_id}: {file.path} goes from epoch {one[0]} at {one[1]} to epoch {two[0]} at {two[1]}",
                broker_id=facts.broker_id,
                start_offset=two[1],
                evidence=[place],
            )
    yield from _contradictions(case, facts, place)
    stale = [entry for entry in entries if entry[1] > facts.log_end_offset and not facts.end_is_open]
    below = [entry for entry in entries if entry[1] < facts.log_start_offset]
    if stale or (len(entries) > 1 and len(below) == len(entries)):
        yield finding(
            "EPO-CACHE-STALE",
            f"broker {facts.broker_id}: {file.path} has entries outside the log {_text(tuple(stale or below))}",
            broker_id=facts.broker_id,
            evidence=[
                place,
                considered("truncation writes this file later than the log; the loader drops such entries"),
            ],
        )


def _contradictions(case: Case, facts: ReplicaFacts, place: Evidence) -> Iterator[Finding]:
    """Epochs of batches that the file does not give for their offsets: EPO-CACHE-MISSING, one for the whole file."""
    if not facts.has_epochs:
        return
    written = Lineage.of(facts.directory.checkpoint_epochs or ())
    cut_from_start = _cut_from_start(facts, written)
    wrong = [
        (epoch, start)
        for epoch, start in facts.lineage
        if written.epoch_for_offset(start) != epoch and not (cut_from_start is not None and start < cut_from_start)
    ]
    claimed = [
        (epoch, start)
        for epoch, start in written
        if facts.local_start_offset < start < facts.log_end_offset
        # A changed batch is what recovery took this entry from: that is told as LOG-CRC-BLIND.
        and (epoch, start) not in {(one.leader_epoch, one.start_offset) for one in facts.rot}
        and facts.lineage.epoch_for_offset(start) not in (None, epoch)
        and not any(
            gap.start_offset <= start <= gap.end_offset for gap in (*facts.gaps, *facts.unreadable, *facts.missing)
        )
    ]
    if not wrong and not claimed:
        return
    newest = written.latest_epoch
    late = not claimed and newest is not None and all(epoch > newest for epoch, _ in wrong) and not case.quiesced
    if wrong:
        text = f"the batches have epochs {_text(tuple(wrong))} that the file does not give for those offsets"
    else:
        text = f"the file has {_text(tuple(claimed))} where the batches are of another epoch"
    yield finding(
        "EPO-CACHE-MISSING",
        f"broker {facts.broker_id}: {facts.directory.epoch_file.path}: {text}",
        severity="info" if late else "high",
        verdict=None if late else "LATENT_CORRUPTION",
        broker_id=facts.broker_id,
        start_offset=min(start for _, start in wrong or claimed),
        evidence=[
            place,
            Evidence("lineage", f"from the batches: {_text(facts.lineage.entries)}", facts.broker_id),
            considered(
                "the file was copied before the segments: only the newest epochs are missing from it"
                if late
                else "the file was copied before the segments: no, older epochs are missing too, or all copies are of one moment"
            ),
        ],
    )


def _cut_from_start(facts: ReplicaFacts, written: Lineage) -> int | None:
    """The log start that the file was cut to, where segments below it are still in the directory.

    Retention moves the log start, cuts the file, and deletes the segments later. The first entry then begins inside its
    epoch, or at the base of a segment; in a file that lost an entry it begins where its epoch does.
    """
    if not written:
        return None
    epoch, start = written.entries[0]
    begins_inside = facts.lineage.epoch_for_offset(start) == epoch and facts.lineage.start_of(epoch) != start
    later_bases = {segment.base_offset for segment in facts.segments[1:]}
    return start if begins_inside or start in later_bases else None


def _start_mismatch(case: Case, item: Comparison) -> Iterator[Finding]:
    leader, follower = case.reference.facts, item.follower
    if leader.compacted or follower.compacted:
        return
    floor = max(leader.local_start_offset, follower.local_start_offset)
    ceiling = min(leader.log_end_offset, follower.log_end_offset)
    for epoch, start in follower.lineage:
        other = leader.lineage.start_of(epoch)
        if other is None or other == start or not all(floor < value < ceiling for value in (start, other)):
            continue
        if any(pair.kind == "blind" and start in (pair.start_offset, other) for pair in item.alignment.corrupt):
            # A changed header field is what begins there, on one side or the other.
            continue
        if leader.cannot_read(*sorted((start, other))) or follower.cannot_read(*sorted((start, other))):
            continue
        if any(
            part.kind == "format" and part.start_offset <= min(start, other) < part.end_offset
            for part in item.alignment.differences
        ):
            # One side has these records in a format without epochs.
            continue
        yield finding(
            "EPO-START-MISMATCH",
            f"epoch {epoch} begins at {start} on broker {follower.broker_id} and at {other} on broker {leader.broker_id}; "
            "one leader wrote it, so both cannot be right",
            broker_id=follower.broker_id,
            start_offset=min(start, other),
            end_offset=max(start, other),
            replica_epoch=epoch,
            evidence=[
                Evidence("lineage", f"from the batches: {_text(follower.lineage.entries)}", follower.broker_id),
                Evidence("lineage", f"from the batches: {_text(leader.lineage.entries)}", leader.broker_id),
                considered("retention: no, both starts lie inside both logs"),
            ],
        )


def _unknown_epochs(case: Case, item: Comparison) -> Iterator[Finding]:
    leader, follower = case.reference.facts, item.follower
    known = {epoch for epoch, _ in leader.lineage} | {epoch for epoch, _ in leader.file_lineage or ()}
    known.add(case.reference.leader_epoch)
    first = leader.lineage.entries[0][0] if leader.lineage else None
    for epoch, start in follower.lineage:
        # Retention removes old epochs; a tail that is ahead may be of an epoch that the reference has not reached.
        if epoch in known or first is None or epoch < first or epoch > (case.reference.leader_epoch or 0):
            continue
        in_tail = any(
            part.start_offset <= start and part.end_offset >= follower.log_end_offset for part in item.stretches
        )
        # A reference that fetched a cleaned log never had the epochs of which nothing was left.
        if leader.compacted and not any(part.start_offset <= start < part.end_offset for part in item.stretches):
            continue
        yield finding(
            "EPO-UNKNOWN-TO-LEADER",
            f"broker {follower.broker_id} has records of epoch {epoch} from {start} on; broker {leader.broker_id} never had that epoch",
            severity="info" if in_tail else "medium",
            broker_id=follower.broker_id,
            start_offset=start,
            replica_epoch=epoch,
            evidence=[Evidence("lineage", _text(leader.lineage.entries), leader.broker_id)],
        )


def _ahead_of_metadata(case: Case, facts: ReplicaFacts) -> Iterator[Finding]:
    newest = case.leadership.leader_epoch if case.leadership else None
    last = facts.last_leader_epoch
    if newest is not None and last is not None and last > newest:
        yield finding(
            "EPO-AHEAD-OF-METADATA",
            f"broker {facts.broker_id} has batches of epoch {last}; {case.leadership.source} knows epochs up to {newest}",
            severity="medium" if case.quiesced else "info",
            broker_id=facts.broker_id,
            replica_epoch=last,
            evidence=[Evidence("leadership", f"leader epoch {newest}", value=case.leadership.source)],
        )


def _text(entries: tuple[tuple[int, int], ...] | None) -> str:
    if entries is None:
        return "no file"
    return "{" + ", ".join(f"{epoch}:{start}" for epoch, start in entries) + "}"

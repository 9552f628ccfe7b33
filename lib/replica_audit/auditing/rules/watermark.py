"""High watermark, loss and replication state (F.5)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.comparison import Comparison, Run
from replica_audit.auditing.elections import describe
from replica_audit.auditing.facts import ReplicaFacts
from replica_audit.auditing.findings import Case, Evidence, Finding, considered, finding, offsets
from replica_audit.auditing.provenance import is_epoch_open

#: KAFKA-14704: between these a follower could checkpoint a high watermark over records that it was about to cut.
_HIGH_WATERMARK_OVER_TAIL = ((2, 8), (3, 5))


def judge(case: Case) -> Iterator[Finding]:
    """HWM-* and REP-*."""
    for item in case.comparisons:
        yield from _loss(case, item)
        yield from _ahead(case, item)
        yield from _short(case, item)
        yield from _lag(case, item)
    for facts in case.replicas:
        yield from _above_log_end(case, facts)
    yield from _suffix(case)
    yield from _replication(case)


def _loss(case: Case, item: Comparison) -> Iterator[Finding]:
    follower, leader = item.follower, case.reference.facts
    version = case.kafka_version
    suspect = version is not None and _HIGH_WATERMARK_OVER_TAIL[0] <= version[:2] < _HIGH_WATERMARK_OVER_TAIL[1]
    checkpoint = follower.directory.high_watermark_checkpoint
    for run in item.runs:
        if run.committed_end is None:
            continue
        end = min(run.end_offset, run.committed_end)
        yield finding(
            "HWM-LOSS",
            f"{run.committed_records} committed records at {offsets(run.start_offset, end)} are not on broker {leader.broker_id}; "
            f"broker {follower.broker_id} still has them: its own high watermark reached {checkpoint}",
            confidence="suspect" if suspect else "proven",
            broker_id=follower.broker_id,
            start_offset=run.start_offset,
            end_offset=end,
            replica_epoch=run.replica_epoch,
            evidence=[
                Evidence(
                    "checkpoint",
                    "high watermark of this replica inside its conflicting records",
                    follower.broker_id,
                    follower.directory.high_watermark_file.path,
                    value=str(checkpoint),
                ),
                considered(
                    "KAFKA-14704: this version could checkpoint a high watermark over a tail that it was about to cut"
                    if suspect
                    else "the checkpoint was learnt from the present leader: no, the logs differ up to it"
                ),
                *_history(run),
            ],
        )


def _history(run: Run) -> list[Evidence]:
    """The election that left committed records behind; a clean one does that when its winner had lost its own tail."""
    cause = run.cause
    if cause is None or cause.election is None:
        return []
    found = [Evidence("leadership", describe(cause.election), cause.election.leader_id, value=str(cause.election.leader_epoch))]
    if cause.clean:
        found.append(considered(f"a clean election loses nothing: broker {cause.election.leader_id} must have lost the end of its own log"))
    return found


def _ahead(case: Case, item: Comparison) -> Iterator[Finding]:
    ahead = item.alignment.ahead
    if not ahead:
        return
    start, end = ahead[0].base_offset, ahead[-1].end_offset
    leader = case.reference.facts
    text = f"broker {item.follower.broker_id} has {offsets(start, end)}, past the end of broker {leader.broker_id} at {leader.log_end_offset}"
    current = case.reference.leader_epoch
    led_later = max((batch.epoch for batch in ahead if batch.epoch is not None), default=-1) > (-1 if current is None else current)
    if led_later:
        yield _skew(item.follower, f"{text}, of a later leader epoch: the leadership given is older than the logs", start, end)
    elif case.quiesced and is_epoch_open(leader, case.is_epoch_said):
        return  # CAP-SECOND-HAND says what that leaves open
    elif case.quiesced:
        yield finding(
            "REP-LEADER-SHORTER",
            f"{text}; the copies are of one moment, so the reference lost its tail or is not the leader",
            confidence="likely",
            broker_id=item.follower.broker_id,
            start_offset=start,
            end_offset=end,
            evidence=[considered("capture skew: no, the cluster was at rest")],
        )
    elif _had_them(case, item):
        when = case.times.describe((item.follower, leader))
        yield finding(
            "REP-LEADER-SHORTER",
            f"{text}; they are of epoch {current}, in which broker {leader.broker_id} leads and wrote them itself, and its copy is the later "
            "one, so it lost its tail",
            confidence="likely",
            broker_id=item.follower.broker_id,
            start_offset=start,
            end_offset=end,
            evidence=[Evidence("leadership", f"manifest.json: {when}"), considered("capture skew: no, a later copy has at least as much")],
        )
    else:
        yield _skew(item.follower, text, start, end, case.times.describe((item.follower, leader)))


def _had_them(case: Case, item: Comparison) -> bool:
    """Whether the leader wrote what a follower has ahead of it before its own copy was begun, by the manifest's times."""
    reference = case.reference
    own = reference.leader_epoch is not None and reference.leader_id == reference.facts.broker_id and not reference.outdated
    if not own or not case.times.is_later(reference.facts, item.follower) or is_epoch_open(reference.facts, case.is_epoch_said):
        return False
    return all(batch.epoch == reference.leader_epoch for batch in item.alignment.ahead)


def _skew(facts: ReplicaFacts, text: str, start: int, end: int, when: str | None = None) -> Finding:
    return finding(
        "CAP-SKEW",
        f"{text}; copies of a running cluster are of different moments, which explains it",
        confidence="likely",
        broker_id=facts.broker_id,
        start_offset=start,
        end_offset=end,
        evidence=[
            *([Evidence("leadership", f"manifest.json: {when}")] if when else []),
            considered("loss: a manifest with quiesced: true, or cleanly stopped brokers, would decide"),
        ],
    )


def proven_lower(case: Case) -> int:
    """The lower bound before the two were put in order (method capture_skew swaps them)."""
    mark = case.high_watermark
    return mark.hw_upper if mark.method == "capture_skew" else mark.hw_lower


def _short(case: Case, item: Comparison) -> Iterator[Finding]:
    """An in-sync replica without a conflict that ends below what is proven committed."""
    follower, lower = item.follower, proven_lower(case)
    suffix = case.high_watermark.lowest_suffix
    if not case.in_isr(follower.broker_id) or item.conflicts or follower.found_end_offset >= lower:
        return
    if suffix is not None and suffix[0] == follower.broker_id:
        return
    start, end = follower.found_end_offset, lower
    text = f"broker {follower.broker_id} is in sync but ends at {start}, below {end}, which is proven committed"
    shared = {"broker_id": follower.broker_id, "start_offset": start, "end_offset": end}
    proof = Evidence("checkpoint", case.high_watermark.lower_evidence)
    if case.quiesced:
        yield finding(
            "REP-ISR-SHORT",
            f"{text}: if it leads next, committed records are gone",
            severity="high",
            verdict="WILL_LOSE_ON_TRUNCATION",
            confidence="likely",
            evidence=[proof, considered("capture skew: no, the cluster was at rest")],
            **shared,
        )
    elif not follower.has_epochs and follower.directory.high_watermark_checkpoint == start and not follower.empty:
        yield finding(
            "REP-ISR-SHORT",
            f"{text}; it ends exactly at its own high watermark, as a follower does that was cut there before 0.11",
            severity="medium",
            verdict="INCONCLUSIVE",
            confidence="suspect",
            evidence=[proof, considered("capture skew: possible, a manifest with quiesced: true would decide")],
            **shared,
        )
    else:
        yield _skew(follower, text, start, end)


def _lag(case: Case, item: Comparison) -> Iterator[Finding]:
    follower, leader = item.follower, case.reference.facts
    assigned = case.leadership.replicas if case.leadership else None
    behind = leader.log_end_offset - follower.log_end_offset
    if behind <= 0 or item.diverging_suffix(leader.log_end_offset) is not None:
        return
    if assigned is not None and follower.broker_id not in assigned:
        return
    yield finding(
        "REP-LAG",
        f"broker {follower.broker_id} is {behind} offsets and {item.lag.size_bytes} bytes behind broker {leader.broker_id}",
        broker_id=follower.broker_id,
        start_offset=follower.log_end_offset,
        end_offset=leader.log_end_offset,
    )


def _above_log_end(case: Case, facts: ReplicaFacts) -> Iterator[Finding]:
    directory, end = facts.directory, facts.log_end_offset
    checkpoint, recovery_point = directory.high_watermark_checkpoint, directory.recovery_point_checkpoint
    if checkpoint is not None and checkpoint > end and not _just_truncated(case, facts, checkpoint):
        holders = [other for other in case.replicas if other is not facts and other.log_end_offset >= checkpoint]
        gone = facts is case.reference.facts and case.quiesced and not holders
        yield finding(
            "HWM-CP-ABOVE-LEO",
            f"broker {facts.broker_id}: its high watermark was {checkpoint}, its log ends at {end}"
            + ("; no replica here has the records between" if not holders else ""),
            severity="critical" if gone else "high",
            verdict="COMMITTED_LOSS" if gone else "LATENT_CORRUPTION",
            confidence="likely" if gone else "proven",
            broker_id=facts.broker_id,
            start_offset=end,
            end_offset=checkpoint,
            evidence=[
                Evidence("checkpoint", "high watermark", facts.broker_id, directory.high_watermark_file.path, value=str(checkpoint)),
                considered(
                    f"a truncation just before the copy: no, recovery point {recovery_point}, and no later epoch of the reference "
                    "begins below that high watermark"
                ),
            ],
        )
    if recovery_point is not None and recovery_point > end:
        yield finding(
            "HWM-RP-ABOVE-LEO",
            f"broker {facts.broker_id}: offsets below {recovery_point} were flushed to disk, its log ends at {end}",
            broker_id=facts.broker_id,
            start_offset=end,
            end_offset=recovery_point,
            evidence=[
                Evidence("checkpoint", "recovery point", facts.broker_id, directory.recovery_point_file.path, value=str(recovery_point)),
                considered("a truncation: no, it writes a smaller recovery point at once"),
            ],
        )


def _just_truncated(case: Case, facts: ReplicaFacts, checkpoint: int) -> bool:
    """Whether a truncation explains a checkpoint past the log end: it writes the recovery point at once, and a later
    epoch is why. No truncation explains a checkpoint that no other replica ever reached.
    """
    if facts.directory.recovery_point_checkpoint != facts.log_end_offset or facts.directory.clean_shutdown:
        return False
    last = -1 if facts.last_leader_epoch is None else facts.last_leader_epoch
    others = [other for other in case.replicas if other is not facts]
    reached = max((max(other.log_end_offset, other.directory.high_watermark_checkpoint or 0) for other in others), default=0)
    return checkpoint <= reached and any(epoch > last and start <= checkpoint for epoch, start in case.reference.augmented_lineage)


def _suffix(case: Case) -> Iterator[Finding]:
    suffix = case.high_watermark.lowest_suffix
    if suffix is None:
        return
    broker_id, start = suffix
    lower = case.high_watermark.hw_lower
    yield finding(
        "HWM-ABOVE-ISR-PREFIX",
        f"broker {broker_id} counts as in sync but has other or unreadable records from {start} on, though everything below {lower} is committed",
        broker_id=broker_id,
        start_offset=start,
        end_offset=lower,
        evidence=[Evidence("checkpoint", case.high_watermark.lower_evidence)],
    )


def _replication(case: Case) -> Iterator[Finding]:
    isr = case.reference.isr
    if isr is None or case.stopped:
        return
    assigned = case.leadership.replicas
    if assigned is not None and len(isr) < len(assigned):
        yield finding(
            "REP-UNDER-REPLICATED",
            f"in sync: {_brokers(isr)}; assigned: {_brokers(assigned)}",
            evidence=[Evidence("leadership", case.leadership.source)],
        )
    minimum = case.config("min.insync.replicas")
    if minimum is not None and minimum.isdigit() and len(isr) < min(int(minimum), len(assigned or isr) or int(minimum)):
        yield finding(
            "HWM-UNDER-MIN-ISR",
            f"{len(isr)} in sync, min.insync.replicas is {minimum}: acks=all is refused, and since 3.7 the high watermark stands still",
            evidence=[Evidence("leadership", f"min.insync.replicas={minimum}", value=case.leadership.source)],
        )


def _brokers(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, sorted(ids))) or "none"

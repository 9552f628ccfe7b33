"""High watermarks: committed records missing on the reference or everywhere; contradictions with logs, ISR and the rule (F.5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from replica_audit.auditing.earlier_losses import EARLIER
from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    doubted,
    fate_of_copy,
    finding,
    finding_id,
    likely,
    marked,
    name_copy,
    place_of_copy,
    tell_image,
    undecided,
    unseen_above,
    why_on_leader,
    why_perhaps_image,
    why_undecided,
)
from replica_audit.auditing.findings.cap import skew
from replica_audit.auditing.leadership.broker_log_evidence import losing_cuts
from replica_audit.auditing.leadership.election_causes import describe
from replica_audit.auditing.replicas.later_files import later_entry
from replica_audit.auditing.replicas.lost_tails import (
    cut_since_marks,
    is_tail_lost,
    may_have_been_cut,
    why_older,
)
from replica_audit.auditing.replicas.offset_ranges import offsets_of_epoch
from replica_audit.batch_header import or_absent
from replica_audit.model import MIN_ISR, OffsetRange, without
from replica_audit.protocol.timeline import AHEAD, REGRESSED
from replica_audit.protocol.versions import may_mark_over_tail
from replica_audit.schema import Evidence
from replica_audit.text import count, name_brokers, name_offsets, name_source, parse_time, render_time, verb

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.divergent_ranges import CommitProof, DivergentRange
    from replica_audit.auditing.earlier_losses import EarlierRun
    from replica_audit.auditing.leadership.commitment import OrphanedMark
    from replica_audit.auditing.leadership.timeline_deviations import TimelineSummary
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.protocol.timeline import DeviationRun


HWM_LOSS = Code(
    "HWM-LOSS", ("critical", "high"), ("COMMITTED_LOSS", "INCONCLUSIVE"), traits=("records", "held", "decided")
)
HWM_GONE = Code("HWM-GONE", ("high",), ("COMMITTED_LOSS",), traits=("earlier",))
HWM_UNSEEN = Code("HWM-UNSEEN", ("medium",), ("INCONCLUSIVE",), traits=("earlier",))
HWM_CP_ABOVE_LEO = Code(
    "HWM-CP-ABOVE-LEO",
    ("critical", "high", "medium", "info"),
    ("COMMITTED_LOSS", "LATENT_CORRUPTION", "INCONCLUSIVE"),
    traits=("gone", "lost_tail", "two_moments", "decided"),
)
HWM_RP_ABOVE_LEO = Code(
    "HWM-RP-ABOVE-LEO",
    ("high", "medium", "info"),
    ("LATENT_CORRUPTION", "INCONCLUSIVE"),
    traits=("lost_tail", "two_moments"),
)
HWM_ABOVE_ISR_PREFIX = Code(
    "HWM-ABOVE-ISR-PREFIX", ("critical", "high"), ("COMMITTED_DIVERGENCE", "INCONCLUSIVE"), traits=("moved_away",)
)
HWM_UNDER_MIN_ISR = Code("HWM-UNDER-MIN-ISR", ("medium",), traits=("decided",))
HWM_STUCK = Code("HWM-STUCK", ("medium",))
HWM_AHEAD = Code("HWM-AHEAD", ("critical",), ("INCONCLUSIVE",))
HWM_REGRESSED = Code("HWM-REGRESSED", ("medium",))


def judge(case: Case) -> Iterator[Finding]:
    """HWM-* for records that the reference lacks, for every replica's checkpoints, and for the observations."""
    yield from _losses(case)
    yield from _marks(case)
    yield from judge_timeline(case.evidence.side.timeline)


def _losses(case: Case) -> Iterator[Finding]:
    """HWM-LOSS for each run with committed records and each mark of a replica without a directory; HWM-GONE or HWM-UNSEEN for
    each earlier run."""
    for item in case.comparisons:
        for run in item.runs:
            if (proof := run.proof) and (committed := run.committed_range):
                found = undecided(_loss(case, item, run, committed.end_offset, proof), why_undecided(case, item, run))
                if found.confidence == "proven" and (others := case.why_others_lost(run)):
                    found = found._replace(message=f"{found.message}; {others}")
                yield doubted(likely(found, case.why_only_likely(item, run)), item)
    for item in case.beside:
        for run in item.runs:
            if (proof := run.proof) and (committed := run.committed_range) and run.committed_records:
                found = _beside(case, item, committed, run.committed_records, proof.text, run.replica_epoch)
                found = undecided(found, why_on_leader(case, run.start_offset, run.replica_epoch))
                yield likely(found, case.why_only_likely(item, run))
        if case.is_lost_tail(item):
            yield from _lost_tail(case, item)
    for mark in case.orphaned_marks:
        yield undecided(_orphaned(case, mark), why_on_leader(case, mark.start_offset))
    yield from _gone(case)


def _orphaned(case: Case, mark: OrphanedMark) -> Finding:
    start = mark.start_offset
    end = mark.end_offset
    return finding(
        HWM_LOSS,
        f"{name_offsets(start, end)} were committed on broker {mark.broker_id}, whose checkpointed high watermark reached {end}, but broker "
        f"{case.reference.facts.broker_id} has epoch {mark.leader_epoch} from {start} on; the directory of the partition on broker "
        f"{mark.broker_id} is not in the snapshot",
        confidence="suspect" if may_mark_over_tail(case.options.kafka_version) else "proven",
        broker_id=mark.broker_id,
        offsets=(start, end),
        replica_epoch=mark.leader_epoch - 1,
        evidence=[
            Evidence("checkpoint", text="high watermark", broker_id=mark.broker_id, path=mark.log_dir, value=str(end)),
            considered(
                "an entry of an earlier topic, or from the present leader: no, the broker was in sync, and has been fenced since before "
                f"the election of epoch {mark.leader_epoch}"
            ),
        ],
    )


def _lost_tail(case: Case, item: Comparison) -> Iterator[Finding]:
    """HWM-LOSS for records of the leader's log that a copy in `Case.beside` still has, as far as its checkpoint proves them committed."""
    start = case.reference.facts.log_end_offset
    end = case.committed_tail(item)
    if records := item.alignment.ahead.records_between(start, end):
        log = "the current log, which it was copied from," if case.is_copied_from_reference(item) else "that log"
        why = f"{log} ends at {start} and its high watermark was {end} or more"
        yield _beside(case, item, OffsetRange(start, end), records, why, item.alignment.ahead[0].epoch)


def _beside(
    case: Case, item: Comparison, where: OffsetRange, records: int, why: str, replica_epoch: int | None
) -> Finding:
    facts = item.follower
    has = "had" if facts.is_earlier else "still has"
    return finding(
        HWM_LOSS,
        f"{count(records, 'committed record')} at {name_offsets(*where)} {'is' if records == 1 else 'are'} not on broker "
        f"{case.reference.facts.broker_id}; {name_copy(facts)} {has} {'it' if records == 1 else 'them'}: {why}; "
        f"{fate_of_copy(facts)}",
        broker_id=facts.broker_id,
        offsets=where,
        replica_epoch=replica_epoch,
        evidence=[place_of_copy(facts)],
    )


def _loss(case: Case, item: Comparison, run: DivergentRange, end: int, proof: CommitProof) -> Finding:
    follower = item.follower
    leader = case.reference.facts
    suspect = proof.kind != "sole_isr" and bool(may_mark_over_tail(case.options.kafka_version))
    number = run.committed_records
    what = ("committed record", "committed records")
    if not number:
        # Only the end of a transaction is missing: no producer lost a record, but consumers wait.
        number = sum(batch.base_offset < end for batch in run.batches)
        what = ("committed control batch", "committed control batches")
    are, them = ("is", "it") if number == 1 else ("are", "them")
    doubt = "" if item.doubt is None else "; unless the topic was deleted and created again"
    return finding(
        HWM_LOSS,
        f"{count(number, *what)} at {name_offsets(run.start_offset, end)} {are} not on broker {leader.broker_id}; "
        f"broker {follower.broker_id} still has {them}: {proof.text}{doubt}",
        confidence="suspect" if suspect else "proven",
        broker_id=follower.broker_id,
        offsets=(run.start_offset, end),
        replica_epoch=run.replica_epoch,
        evidence=[*_proof_evidence(proof, suspect), *_history(run)],
    )


def _proof_evidence(proof: CommitProof, suspect: bool) -> list[Evidence]:
    if proof.kind == "sole_isr":
        return [Evidence("leadership", text=proof.text, broker_id=proof.broker_id, value=proof.value), *proof.told()]
    is_checkpoint = proof.kind == "checkpoint"
    if suspect:
        otherwise = "KAFKA-14704: this version could checkpoint a high watermark over a tail that it was about to cut"
    elif is_checkpoint:
        otherwise = "a checkpoint that came from the present leader: no, the logs differ up to it"
    else:
        otherwise = "a truncation cut the end of that log: no, no leader's epoch begins there"
    text = "high watermark past the end of its own log, over records of the same leader epoch"
    if is_checkpoint:
        text = "a high watermark inside these records: those below it were committed"
    found = Evidence("checkpoint", text=text, broker_id=proof.broker_id, path=proof.path, value=proof.value)
    return [found, considered(otherwise)]


def _history(run: DivergentRange) -> list[Evidence]:
    """Evidence of the election that left committed records behind; a clean one does so if its winner had lost its own tail."""
    cause = run.cause
    if cause is None or cause.election is None:
        return []
    winner = cause.election.leader_id
    epoch = str(cause.election.leader_epoch)
    found = [Evidence("leadership", text=describe(cause.election), broker_id=winner, value=epoch)]
    if cause.clean:
        text = f"a clean election loses nothing unless broker {winner} had lost the end of its own log"
        found.append(considered(text))
    return found


def _gone(case: Case) -> Iterator[Finding]:
    """HWM-GONE or HWM-UNSEEN for records that an earlier audit saw, and that no captured replica still holds.

    They are gone if every log that may hold them was captured. Compacted and tiered logs are left out, and topics without an
    id, which may be others. Once an earlier audit has reported it, it is known and causes no verdict.
    """
    topic_id = case.reference.facts.directory.topic_id
    if topic_id is None or case.is_tiered or any(facts.compacted for facts in case.replicas):
        return
    for run, left in _earlier_runs(case):
        if run.topic_id != topic_id:
            continue
        is_later = _is_later(case, run)
        if left and not _is_told_by_log(case, run) and (is_later or _are_all_empty(case)):
            # An uncaptured broker may still have them, including one that the partition was moved away from.
            at_hand = {facts.broker_id for facts in (*case.replicas, *case.duplicates)}
            unseen = {*case.unread_replicas, *_shown_in_part(case, run), *({*run.broker_ids} - at_hand)}
            item = _earlier_loss(case, run, left, sorted(unseen), is_later=is_later)
            told = (
                finding_id(item, case.topic_partition, topic_id, case.options.cluster_id)
                in case.evidence.side.losses.told
            )
            yield item._replace(status="known", verdict=None) if told else item


def _earlier_runs(case: Case) -> Iterator[tuple[EarlierRun, list[OffsetRange]]]:
    """Runs of earlier audits, each with its offsets that no replica holds; if committed, only these, so that a later loss in the same epoch
    is another finding."""
    losses = case.evidence.side.losses
    seen: dict[tuple[str, int], list[OffsetRange]] = defaultdict(list)
    for run in losses.runs:
        seen[run.topic_id, run.replica_epoch].append(OffsetRange(run.start_offset, run.end_offset))
        yield run, _left_of(case, run)
    for log in losses.committed:
        is_due = _are_all_empty(case) or _were_copied_after(case, log.finished)
        for run in log.runs_before(None if is_due else or_absent(case.reference.leader_epoch)):
            known = seen[run.topic_id, run.replica_epoch]
            if left := without(_left_of(case, run), known):
                yield replace(run, start_offset=left[0].start_offset, end_offset=left[-1].end_offset), left
                known.extend(left)


def _left_of(case: Case, run: EarlierRun) -> list[OffsetRange]:
    """Offsets of an earlier run above every log start that no replica holds."""
    floor = max(facts.log_start_offset for facts in case.replicas)
    left = [OffsetRange(max(run.start_offset, floor), run.end_offset)]
    for facts in (*case.replicas, *case.duplicates, *case.set_aside):
        left = without(left, offsets_of_epoch(facts, run.replica_epoch))
    return [part for part in left if part.start_offset < part.end_offset]


def _shown_in_part(case: Case, run: EarlierRun) -> Iterator[int]:
    """Brokers whose log may go on past what is shown of it, in the run's epoch; a client gets nothing above a high watermark."""
    for facts in case.replicas:
        is_of_it = (facts.lineage.latest_epoch or 0) <= run.replica_epoch
        if is_of_it and facts.end_is_open and facts.log_end_offset < run.end_offset:
            yield facts.broker_id


def _is_later(case: Case, run: EarlierRun) -> bool:
    """True if this snapshot can be later than that audit's; in an older one the records may not have been written yet."""
    if _were_copied_after(case, run.finished):
        return True
    now = case.reference.leader_epoch
    return now is not None and now > run.replica_epoch and (run.leader_epoch is None or now >= run.leader_epoch)


def _were_copied_after(case: Case, finished: str) -> bool:
    """True if by the manifest every log was copied after an audit had `finished`, so that it has what was there then."""
    time_ms = parse_time(finished)
    return all(case.options.times.began_later(facts, time_ms) for facts in case.replicas)


def _are_all_empty(case: Case) -> bool:
    """True if no replica has a record, or an epoch of a leader: its disks are new, or the snapshot is older than the records."""
    return all(facts.blank for facts in case.replicas)


def _is_told_by_log(case: Case, run: EarlierRun) -> bool:
    """True if a broker log shows that the broker truncated them (a past TRN-BELOW-HW)."""
    return any(
        cut.event.broker_id in run.broker_ids
        and cut.truncate_to < run.end_offset
        and cut.high_watermark is not None
        and run.start_offset < cut.high_watermark
        for cut in losing_cuts(case.log_events, case.reference)
    )


def _earlier_loss(
    case: Case, run: EarlierRun, left: Sequence[OffsetRange], unseen: Sequence[int], *, is_later: bool
) -> Finding:
    """HWM-GONE, or HWM-UNSEEN if the logs of the brokers `unseen` are absent or incomplete, or nothing shows that the snapshot is the later
    one (`is_later`)."""
    where = ", ".join(name_offsets(*part) for part in left)
    date = run.finished[:10]
    holders = name_brokers(run.broker_ids)
    holder = run.broker_ids[0] if len(run.broker_ids) == 1 else None
    reference = case.reference.facts
    whole = sum(part.end_offset - part.start_offset for part in left)
    number = None if run.records is None else min(run.records, whole)
    records = _records(number, run.committed)
    if number and whole != run.end_offset - run.start_offset:
        records = f"up to {records}"
    said = f"{records} that {holders} held on {date} {'is' if number == 1 else 'are'}"
    if unseen:
        logs, are = ("log", "is") if len(unseen) == 1 else ("logs", "are")
        message = (
            f"{said} on no replica in the snapshot ({where} of epoch {run.replica_epoch}), and the {logs} of {name_brokers(unseen)} "
            f"{are} missing from it or incomplete"
        )
    elif not is_later:
        message = (
            f"{said} on no replica in the snapshot ({where} of epoch {run.replica_epoch}), whose logs are all empty: they are gone, or the "
            "snapshot is older than that audit; the copy times in manifest.json would tell"
        )
    else:
        message = f"{said} gone: no replica has {where} of epoch {run.replica_epoch} any more"
    return finding(
        HWM_UNSEEN if unseen or not is_later else HWM_GONE,
        message,
        confidence="suspect" if run.committed and may_mark_over_tail(case.options.kafka_version) else "proven",
        broker_id=holder,
        offsets=(run.start_offset, run.end_offset),
        replica_epoch=run.replica_epoch,
        evidence=[
            Evidence(
                EARLIER,
                text=f"audit {run.audit_id}, finished {run.finished}: {holders} held {name_offsets(run.start_offset, run.end_offset)} of "
                f"epoch {run.replica_epoch}, "
                + ("committed" if run.committed else "left behind by an unclean election"),
                broker_id=holder,
                value=run.to_text(),
            ),
            *(_now(facts, left[0].start_offset) for facts in case.replicas),
            considered(
                f"retention: no, it lies above every log start; broker {reference.broker_id} begins at {reference.log_start_offset}"
            ),
            considered("the topic was created again: no, its id is the same"),
            considered("compaction and tiered storage: no, the topic has neither"),
            considered(
                f"a replica that was not copied: yes, that of {name_brokers(unseen)}"
                if unseen
                else "a replica that was not copied: no, the log of every assigned replica is here"
            ),
        ],
    )


def _now(facts: ReplicaFacts, offset: int) -> Evidence:
    epoch = facts.lineage.epoch_for_offset(offset) if offset < facts.log_end_offset else None
    text = f"ends at {facts.log_end_offset}" if epoch is None else f"has epoch {epoch} at {offset}"
    return Evidence("lineage", text=f"broker {facts.broker_id} {text}", broker_id=facts.broker_id, value=str(offset))


def _records(number: int | None, committed: bool) -> str:
    """Words for the records of an earlier run; control batches if it had none."""
    kind = "committed " if committed else ""
    if not number:
        return f"{kind}records" if number is None else f"{kind}control batches"
    return count(number, f"{kind}record")


def _marks(case: Case) -> Iterator[Finding]:
    """HWM-* on the marks of every compared replica, and of the partition."""
    for facts in case.replicas:
        yield from _above_log_end(case, facts)
    yield from _suffix(case)
    yield from _under_min_isr(case)


def _above_log_end(case: Case, facts: ReplicaFacts) -> Iterator[Finding]:
    if facts.end_is_open:
        return  # the log may extend past the end of what was captured, so this proves no loss
    directory = facts.directory
    end = facts.log_end_offset
    checkpoint = directory.high_watermark_checkpoint
    recovery_point = directory.recovery_point_checkpoint
    if max(checkpoint or 0, recovery_point or 0) <= end:
        return
    told = None
    is_down = case.were_at_rest(facts)
    may_be_cut = not facts.in_any_order and (is_down or not _gains_nothing(case, facts))
    cut = cut_since_marks(case.reference, case.replicas, facts) if may_be_cut else None
    again = f"copy broker {facts.broker_id} again"
    by_cut = None
    earlier = case.why_of_earlier_topic(facts)
    if is_down and cut and (recovery_point or 0) > end:
        by_cut = "likely, not proven: the broker may have been killed as it cut its log, before it wrote a smaller recovery point"
    elif cut == "unclean" and not is_down:
        by_cut = f"likely, not proven: an unclean election may have cut it after its checkpoints were copied; {again}"
    if checkpoint is not None and is_tail_lost(case.reference, case.replicas, facts):
        left = _held_nowhere(case, facts, checkpoint, case.copies)
        unseen = sorted(
            {
                one.broker_id
                for one in case.set_aside
                if left and (not one.end_is_known or one.log_end_offset > left[0].start_offset)
            }
        )
        missing = left and _leader_lacks(case, facts, checkpoint)
        gone = missing and not unseen and all(_gains_nothing(case, one) for one in case.copies)
        elsewhere = f"; the records between may be on {name_brokers(unseen)}, whose logs were not compared"
        if not (missing and unseen):
            elsewhere = _gone_from(case.reference.facts, left, end, checkpoint)
        elsewhere += _only_about_to_go(case, facts, left, checkpoint)
        found = finding(
            HWM_CP_ABOVE_LEO,
            f"broker {facts.broker_id}: its high watermark was {checkpoint}, but its log ends at {end}"
            # A later epoch file does not have the epochs of these records any more.
            + ("" if cut and later_entry(facts, case.replicas) else elsewhere),
            severity="critical" if gone else "high",
            verdict="COMMITTED_LOSS" if gone else "LATENT_CORRUPTION",
            confidence="likely" if gone else "proven",
            broker_id=facts.broker_id,
            offsets=(end, checkpoint),
            evidence=[
                marked(facts),
                considered(f"a truncation just before the copy: {_say_cut(case, facts, checkpoint)}"),
            ],
        )
        told = undecided(likely(_unless_older(case, facts, found, checkpoint), by_cut), earlier, "medium")
        yield told
    # A log that ends below its own start restarts there (A.9).
    if recovery_point is not None and recovery_point > max(end, facts.log_start_offset):
        found = finding(
            HWM_RP_ABOVE_LEO,
            f"broker {facts.broker_id}: offsets below {recovery_point} were flushed to disk, but its log ends at {end}"
            + _deleted_since(case.reference.facts, recovery_point),
            broker_id=facts.broker_id,
            offsets=(end, recovery_point),
            evidence=[
                Evidence(
                    "checkpoint",
                    text="recovery point",
                    broker_id=facts.broker_id,
                    path=directory.recovery_point_file.path,
                    value=str(recovery_point),
                ),
                considered(
                    f"a truncation: perhaps, {'before a smaller one was written' if is_down else 'after this file was copied'}"
                    if cut is not None
                    else f"a truncation at {end}: no, it would have written a smaller recovery point at once"
                ),
            ],
        )
        if cut is not None and by_cut is None:
            earlier = f"it lost them, or was cut after its recovery point was copied; {again}"
        if by_cut is not None or earlier is not None:
            yield undecided(likely(found, by_cut), earlier, "medium")
            return
        why = f"it lost them, or was copied before they were written, as with its high watermark of {checkpoint}"
        is_told = told is not None and told.verdict == "INCONCLUSIVE"
        # In an image, too, the recovery point is written after what is below it.
        is_certain = _is_older_as_image_only(case, facts)
        yield found if is_certain else _unless_older(case, facts, found, recovery_point, why if is_told else None)


def may_lack_committed_everywhere(case: Case) -> bool:
    """True if a replica's checkpointed high watermark lies past the end of its log, and no copy has all the records between."""
    lost = (one for one in case.replicas if is_tail_lost(case.reference, case.replicas, one))
    return any(_held_nowhere(case, one, one.directory.high_watermark_checkpoint or 0, case.copies) for one in lost)


def _gains_nothing(case: Case, facts: ReplicaFacts) -> bool:
    """True if nothing is appended to a replica's log after its copy: its broker was down, or nobody has led since before that began."""
    if case.were_at_rest(facts):
        return True
    since = None if case.leadership is None else case.leadership.leaderless_since_ms
    return since is not None and case.options.times.began_later(facts, since)


def _leader_lacks(case: Case, facts: ReplicaFacts, checkpoint: int) -> bool:
    """True if the leader, or while nobody leads every replica, is known to lack what a replica lost below its `checkpoint` and no copy here
    has.

    The file of a follower that came back without its end does not have the epochs of that any more: where the leader reaches the checkpoint,
    it lacks the records only if the follower is of another history at its end.
    """
    reference = case.reference
    if reference.leader_id is None:
        is_here = not case.unread_replicas
    else:
        is_here = case.is_leaders and not reference.is_replaced
    if not is_here or facts is reference.facts:
        return is_here
    item = case.comparison_of(facts)
    is_other = item is not None and any(facts.log_end_offset <= part.end_offset for part in item.stretches)
    is_past = not reference.facts.end_is_open and reference.facts.log_end_offset < checkpoint
    return (is_other or is_past) and not may_mark_over_tail(case.options.kafka_version)


def _say_cut(case: Case, facts: ReplicaFacts, checkpoint: int) -> str:
    """Clause on a truncation as the reason why a log ends below its own `checkpoint`: where it is one, no other replica has reached that."""
    if may_have_been_cut(case.reference, [one for one in case.replicas if one is not facts], facts):
        return f"perhaps, and then it lost them that way: no other replica here has ever reached {checkpoint}"
    return (
        f"no, recovery point {facts.directory.recovery_point_checkpoint}, and no other leader of a later epoch began between "
        f"{facts.log_end_offset} and that high watermark"
    )


def _unless_older(
    case: Case, facts: ReplicaFacts, found: Finding, mark: int, told_before: str | None = None
) -> Finding:
    """Return `found`, a finding on a checkpoint `mark` past the log end, as undecided if the log may be the older of the two;
    `told_before`: a clause that refers to another finding of the same log for the reason and for what decides it.

    | the log | finding |
    |---|---|
    | lacks what the reference has deleted since, and may be older, or ends where it `was_cut_inside` a batch | info: nothing depends on it |
    | is of no earlier moment than the checkpoint | as it is; likely if its broker went down meanwhile, it is an image or was so cut, perhaps |
    | is of a broker that ran by the manifest, and other logs have the range | info: an earlier copy explains it |
    | is any other | undecided, with how far another has the range unless damaged batches reach the mark |

    A broker that comes back without its tail writes its checkpoints anew, but one below which a segment is deleted goes on.
    """
    is_deleted = bool(_deleted_since(case.reference.facts, mark))
    is_split = not facts.in_any_order and is_deleted and case.was_cut_inside(facts, mark)
    if is_deleted and (facts.in_any_order or is_split):
        return found._replace(severity="info", verdict=None, confidence="suspect")
    if not facts.in_any_order:
        why = case.why_gone_down(facts) or why_perhaps_image(case, facts, facts.log_end_offset)
        if is_split is None:
            why = why or "likely, not proven: a log that was cut inside a batch ends where that began"
        return likely(found, why)
    left = _held_nowhere(case, facts, mark, case.copies)
    times = case.options.times
    is_doubted = times.is_doubted(facts)
    if facts.is_live and not left and not is_doubted:
        why = "its log was copied before its checkpoints"
        if times.is_image(facts):
            why = "an image of its disk lacks what had not reached the disk"
        text = f"{found.message}; the broker ran, and {why}"
        return found._replace(severity="info", verdict=None, confidence="suspect", message=text)
    down = state = kind = ""
    if not facts.is_live:
        down = f"that broker {facts.broker_id} was down, or "
        state = "while it is down, or "
        kind = "; if it was down, give its kind there"
    why = (
        f"the log lost its end, or was copied before that end was written: nothing shows {down}in which order its files were copied; "
        f"copy it again {state}its checkpoints first and with begin and end in manifest.json{kind}"
    )
    if _is_older_as_image_only(case, facts):
        why = f"the log lost its end, or that end had not reached the disk: {tell_image(case, facts)}"
    # What is there and damaged was not written after the copy.
    if facts.found_end_offset < mark:
        held_to = left[0].start_offset if left else mark
        found = found._replace(
            evidence=(*found.evidence, unseen_above(facts.broker_id, held_to, is_doubted=is_doubted))
        )
    return undecided(found, told_before or why, "medium")


def _is_older_as_image_only(case: Case, facts: ReplicaFacts) -> bool:
    """True if a log can be older than its checkpoints only as what was not on the disk yet is missing from an image of it."""
    times = case.options.times
    return times.is_image(facts) or (times.may_be_image(facts) and times.of(facts) is not None)


def _held_nowhere(case: Case, facts: ReplicaFacts, mark: int, copies: Iterable[ReplicaFacts]) -> list[OffsetRange]:
    """Offsets of the records that a log lost between its end and `mark` that none of `copies` has; without those that were deleted since
    from the reference."""
    left = [OffsetRange(max(facts.log_end_offset, case.reference.facts.log_start_offset), mark)]
    for other in copies:
        left = without(left, _held_by(case, facts, other, mark))
    return [part for part in left if part.start_offset < part.end_offset]


def _held_by(case: Case, facts: ReplicaFacts, other: ReplicaFacts, mark: int) -> list[OffsetRange]:
    """Offsets of the records that `facts` lost between its log end and `mark` that `other` has.

    An epoch file as found names the epochs of those records. Without one, records of a lineage that the reference has left do not count.
    """
    lineage, begin = other.lineage, other.log_start_offset
    holes: Sequence[OffsetRange] = ()
    if other.is_about_to_go and other.segments:
        # What retention of its broker has passed is still there.
        lineage = other.found_batches
        begin = other.segments[0].base_offset
        holes = other.missing
    start = max(facts.log_end_offset, begin)
    end = min(other.log_end_offset, mark)
    if start >= end:
        return []
    if (lost := facts.sound_file_lineage) is not None:
        end = lost.agrees_to(lineage, start, end)
    elif (item := case.comparison_of(other)) is not None:
        is_left = any(part.start_offset < end <= part.end_offset for part in item.stretches)
        end = start if is_left else end
    return [part for part in without([OffsetRange(start, end)], holes) if part.start_offset < part.end_offset]


def _only_about_to_go(case: Case, facts: ReplicaFacts, left: Sequence[OffsetRange], mark: int) -> str:
    """Clause on the `.deleted` segments that alone have records which a log lost between its end and `mark`; empty without any. `left`:
    what no copy has."""
    going = [one for one in case.copies if one.is_about_to_go and _held_by(case, facts, one, mark)]
    kept = _held_nowhere(case, facts, mark, (one for one in case.copies if not one.is_about_to_go))
    if not going or kept == left:
        return ""
    is_all = not left and kept == _held_nowhere(case, facts, mark, ())
    them = "the records" if is_all else "some of the records"
    return f"; {them} between are only in {' and '.join(map(name_copy, going))}: {fate_of_copy(going[0])}"


def _deleted_since(reference: ReplicaFacts, mark: int) -> str:
    """Clause on the records between a log's end and `mark` if the reference's log begins above them; else empty."""
    if reference.log_start_offset < mark:
        return ""
    return f"; the records between have been deleted since: broker {reference.broker_id} begins at {reference.log_start_offset}"


def _gone_from(reference: ReplicaFacts, left: Sequence[OffsetRange], end: int, checkpoint: int) -> str:
    """Clause on the records past `end` that no replica has, `left`; empty if there is none."""
    if deleted := _deleted_since(reference, checkpoint):
        return deleted
    if not left:
        return ""
    if left[0].start_offset <= end and left[0].end_offset == checkpoint:
        return "; no replica here has the records between"
    if left[0].end_offset == checkpoint:
        return f"; no replica here has the records from {left[0].start_offset} on"
    return f"; no replica here has {', '.join(name_offsets(*part) for part in left)}"


def _suffix(case: Case) -> Iterator[Finding]:
    earlier = case.high_watermark.earlier_suffix
    if earlier is not None:
        broker_id, start = earlier
        end = case.high_watermark.proven_lower
        text = f"broker {broker_id} counts as in sync but has other records from {start} on, though everything below {end} is committed"
        facts = next(one for one in case.replicas if one.broker_id == broker_id)
        yield skew(case, facts, text, start, end, is_undecided=True)
    suffix = case.high_watermark.lowest_suffix
    if suffix is None:
        return
    broker_id, start = suffix
    lower = case.high_watermark.hw_lower
    found = finding(
        HWM_ABOVE_ISR_PREFIX,
        f"broker {broker_id} counts as in sync but has other or unreadable records from {start} on, though everything below {lower} is committed",
        broker_id=broker_id,
        offsets=(start, lower),
        evidence=[Evidence("checkpoint", text=case.high_watermark.lower_evidence)],
    )
    item = next(item for item in case.comparisons if item.follower.broker_id == broker_id)
    found = undecided(found, _why_not_in_sync(case, item.follower, start))
    if item.follower.cannot_read(start, start + 1):
        found = likely(found, why_perhaps_image(case, item.follower, start))
    yield doubted(found, item)


def _why_not_in_sync(case: Case, member: ReplicaFacts, start: int) -> str | None:
    """Clause on why a member of the ISR may have had other records than its log here when it was in sync; None if nothing shows it."""
    may_be_image = member.in_any_order and (not member.is_live or case.options.times.may_be_image(member))
    if may_be_image and member.cannot_read(start, start + 1) and start >= member.flushed_end:
        return "these are damaged, or had not reached its disk when an image of that was made, which nothing rules out"
    reference = case.reference
    if reference.is_before(reference.facts.last_leader_epoch):
        who = f"broker {reference.facts.broker_id}"
        source = name_source(reference.source)
        return f"{source} is older than the log of {who}, which has epoch {reference.facts.last_leader_epoch}: it does not say who is in sync now"
    return why_older(member, member.log_end_offset) or case.why_led_later(member, start)


def _under_min_isr(case: Case) -> Iterator[Finding]:
    isr = case.reference.isr
    leadership = case.leadership
    if isr is None or leadership is None or case.stopped or case.reference.leader_id is None:
        return
    assigned = leadership.replicas
    minimum = case.config(MIN_ISR)
    if minimum is not None and minimum.isdigit() and len(isr) < min(int(minimum), len(assigned or isr) or int(minimum)):
        yield finding(
            HWM_UNDER_MIN_ISR,
            f"only {count(len(isr), 'replica')} {verb(len(isr), 'is', 'are')} in sync, but min.insync.replicas is {minimum}: "
            "writes with acks=all are refused, and since 3.7 the high watermark does not advance",
            evidence=[
                Evidence("leadership", text=f"min.insync.replicas={minimum}", value=name_source(leadership.source))
            ],
        )


def judge_timeline(summary: TimelineSummary | None) -> Iterator[Finding]:
    """Yield a finding for each lasting stretch."""
    if summary is None:
        return
    left_out = []
    if more := summary.run_count - len(summary.runs):
        stretches = count(more, "more stretch", "more stretches")
        left_out.append(considered(f"{stretches} of this partition: in high_watermark_timeline only"))
    for run in summary.runs:
        if run.lasting:
            found = {AHEAD: _ahead, REGRESSED: _regressed}.get(run.deviation, _stuck)(run)
            evidence = (_observed(run), *found.evidence, *left_out)
            yield found._replace(replica_epoch=run.leader_epoch, evidence=evidence)


def _ahead(run: DeviationRun) -> Finding:
    moments = (
        "readings of different moments: the high watermark must be read before the log ends, else it may seem ahead"
    )
    return finding(
        HWM_AHEAD,
        f"{_when(run)} the high watermark of {_leader(run)} was up to {run.greatest_observed}, where the rule allows "
        f"{run.greatest_recomputed}: {name_offsets(run.least_recomputed, run.greatest_observed)} could be read before "
        f"every required replica was known to hold them{_by(run)}",
        confidence="suspect",
        broker_id=run.leader_id,
        offsets=(run.least_recomputed, run.greatest_observed),
        evidence=[considered(moments)],
    )


def _stuck(run: DeviationRun) -> Finding:
    log_end = run.leader_log_end_offset
    due = run.greatest_recomputed
    # An unobserved log end of the leader is at least the high watermark that is due.
    waiting = (due if log_end is None else log_end) - run.greatest_observed
    least = "at least " if log_end is None else ""
    mark = f"the high watermark of {_leader(run)}"
    what = f"{_when(run)} {mark} was {run.least_observed}, though the rule allows {due} and nothing held it back"
    otherwise = "min.insync.replicas: no, as many replicas were in sync, or the version has no such gate"
    if run.held:
        since = f"since {render_time(run.start_ms)} and up to {render_time(run.end_ms)}"
        what = f"{since} {mark} stood still at {run.greatest_observed}{_by(run)}, for longer than a replica may lag without leaving the ISR"
        otherwise = "an unreachable controller: the leader then cannot remove a replica from its ISR"
    return finding(
        HWM_STUCK,
        f"{what}; {least}{count(waiting, 'offset')} {'waits' if waiting == 1 else 'wait'} above it",
        confidence="likely",
        broker_id=run.limiting_broker_id if run.held else run.leader_id,
        offsets=(run.least_observed, log_end if run.held else due),
        evidence=[
            considered("the high watermark moves one fetch after the log end: it had more than that time"),
            considered(otherwise),
        ],
    )


def _regressed(run: DeviationRun) -> Finding:
    return finding(
        HWM_REGRESSED,
        f"{_when(run)} the high watermark of {_leader(run)} went back to {run.least_observed}, though "
        f"{run.greatest_recomputed} had been reached in the same leadership",
        confidence="likely",
        broker_id=run.leader_id,
        offsets=(run.least_observed, run.greatest_recomputed),
        evidence=[considered("a change of leader: no, broker and epoch are the same")],
    )


def _observed(run: DeviationRun) -> Evidence:
    values = (
        f"observed {_span(run.least_observed, run.greatest_observed)}, recomputed "
        f"{_span(run.least_recomputed, run.greatest_recomputed)}"
    )
    text = f"{count(run.observations, 'observation')} from {render_time(run.start_ms)} to {render_time(run.end_ms)}: {values}"
    return Evidence("timeline", text=text, broker_id=run.leader_id, value=f"{run.start_ms} {run.end_ms}")


def _span(least: int, greatest: int) -> str:
    return str(least) if least == greatest else f"{least} to {greatest}"


def _leader(run: DeviationRun) -> str:
    return f"broker {run.leader_id}" + ("" if run.leader_epoch is None else f" in leader epoch {run.leader_epoch}")


def _by(run: DeviationRun) -> str:
    return "" if run.limiting_broker_id is None else f"; broker {run.limiting_broker_id} limits it"


def _when(run: DeviationRun) -> str:
    if run.start_ms == run.end_ms:
        return f"at {render_time(run.start_ms)}"
    return f"from {render_time(run.start_ms)} to {render_time(run.end_ms)}"

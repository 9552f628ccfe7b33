"""Committed records that an earlier audit saw, and that no replica has any more (F.5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from replica_audit.auditing.earlier_losses import EARLIER
from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    finding,
    finding_id,
)
from replica_audit.auditing.leadership.broker_log_evidence import losing_cuts
from replica_audit.auditing.replicas.offset_ranges import offsets_of_epoch
from replica_audit.batch_header import or_absent
from replica_audit.model import OffsetRange, without
from replica_audit.protocol.versions import may_mark_over_tail
from replica_audit.schema import Evidence
from replica_audit.text import count, name_brokers, name_offsets, parse_time

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.earlier_losses import EarlierRun
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


HWM_GONE = Code("HWM-GONE", ("high",), ("COMMITTED_LOSS",), traits=("earlier",))
HWM_UNSEEN = Code("HWM-UNSEEN", ("medium",), ("INCONCLUSIVE",), traits=("earlier",))


def judge(case: Case) -> Iterator[Finding]:
    """Yield a finding for each run of records that an earlier audit saw, and that no captured replica still holds.

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
            unseen = {*case.unread_replicas, *_shown_in_part(case, run, left), *({*run.broker_ids} - at_hand)}
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
        for run in log.runs_at_risk(None if is_due else or_absent(case.reference.leader_epoch)):
            known = seen[run.topic_id, run.replica_epoch]
            if left := without(_left_of(case, run), known):
                yield replace(run, start_offset=left[0].start_offset, end_offset=left[-1].end_offset), left
                known.extend(left)


def _left_of(case: Case, run: EarlierRun) -> list[OffsetRange]:
    """Offsets of an earlier run above every log start that no replica holds. What a missing segment file had is not held."""
    floor = max(facts.log_start_offset for facts in case.replicas)
    copies = (*case.replicas, *case.duplicates, *case.set_aside)
    held = [part for facts in copies for part in without(offsets_of_epoch(facts, run.replica_epoch), facts.missing)]
    return without([OffsetRange(max(run.start_offset, floor), run.end_offset)], held)


def _shown_in_part(case: Case, run: EarlierRun, left: Sequence[OffsetRange]) -> Iterator[int]:
    """Brokers whose log may have some of `left`: in a segment file that is missing here, or past what is shown of the log, in the run's epoch; a
    client gets nothing above a high watermark."""
    for facts in case.replicas:
        is_of_it = (facts.lineage.latest_epoch or 0) <= run.replica_epoch
        goes_on = is_of_it and facts.end_is_open and facts.log_end_offset < run.end_offset
        if goes_on or any(hole.overlaps(*part) for hole in facts.missing for part in left):
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

"""Cuts below a replica's own high watermark, replayed or logged, and cuts that brokers' own logs tell of (F.6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import Code, Finding, considered, doubted, finding, offsets
from replica_audit.auditing.finding_evidence import log_line, replay_evidence
from replica_audit.auditing.leadership.broker_log_evidence import (
    led_after,
    lineage_entries,
    logged_cuts,
    losing_cuts,
    place,
    unclean_elections,
)
from replica_audit.protocol.versions import may_mark_over_tail
from replica_audit.schema import Evidence
from replica_audit.text import count

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.leadership.broker_log_evidence import LoggedCut, LoggedElection

TRN_BELOW_HW = Code(
    "TRN-BELOW-HW",
    severities=("critical",),
    verdicts=("COMMITTED_LOSS",),
    traits=("records", "retold", "saved_first"),
    summary="A follower would truncate below its own high watermark",
    meaning="When this broker follows the leader it deletes records that it had seen committed, because the leader "
    "has others there. It is what a 4.x broker logs as 'Truncating ... below high watermark'; where a broker's own log says "
    "that it did so, the records are gone from that replica already.",
    proof="The replayed offset, the follower's checkpoint and log end, and the conflicting records between; or the line of the "
    "log, and the reference's epoch that begins at that offset.",
    remedy="As for HWM-LOSS: keep the broker from rejoining, copy its log directory, then decide.",
    traps="A tail that is merely ahead of an earlier copied leader does not conflict and is not reported.",
)
TRN_LOGGED = Code(
    "TRN-LOGGED",
    severities=("medium", "info"),
    verdicts=(),
    traits=("records",),
    summary="A broker's log tells of a truncation",
    meaning="The broker cut this replica's log at that time. Medium where it went below the replica's own high watermark, "
    "or where the replica then led without having been in sync again: committed records may be gone and no file shows it.",
    proof="The line of the broker's log: offset, time, and what it was cut to.",
    remedy="Compare with the acknowledgements that producers logged at that time; records lost this way are in backups only.",
    traps="A follower before 0.11 cuts to its high watermark at every start, and fetches the rest again.",
)
CODES = (
    TRN_BELOW_HW,
    TRN_LOGGED,
)


def _below_high_watermark(case: Case, item: Comparison) -> Iterator[Finding]:
    follower, cut = item.follower, item.replays[case.protocol].kept_to
    checkpoint = follower.directory.high_watermark_checkpoint
    if checkpoint is None or not cut < checkpoint <= follower.log_end_offset:
        return
    if not any(run.conflicting and run.batches and run.end_offset > cut for run in item.runs):
        return
    lost = item.committed_drops[case.protocol]
    gone = f"{count(lost, 'committed record')} {'goes' if lost == 1 else 'go'} with it"
    yield finding(
        TRN_BELOW_HW,
        f"broker {follower.broker_id} will cut its log at {cut}, below its own high watermark {checkpoint}: "
        f"{gone if lost else 'the end of a committed transaction goes with it'}; copy the replica before it follows",
        broker_id=follower.broker_id,
        start_offset=cut,
        end_offset=checkpoint,
        evidence=[
            replay_evidence(case, item),
            Evidence(
                "checkpoint",
                text="high watermark",
                broker_id=follower.broker_id,
                path=follower.directory.high_watermark_file.path,
                value=str(checkpoint),
            ),
            considered("a stale checkpoint: a replica's high watermark never exceeds what its leader had committed"),
        ],
    )


def judge(case: Case) -> Iterator[Finding]:
    """Of what the chosen protocol would do, and of truncations that happened."""
    for item in case.comparisons:
        for found in _below_high_watermark(case, item):
            yield doubted(found, item)
    history = bool(case.leadership and case.leadership.history)
    elections = [] if history else list(unclean_elections(case.log_events))
    losing = set(losing_cuts(case.log_events, case.reference))
    harmless: dict[int | None, list[Finding]] = {}
    for cut in logged_cuts(case.log_events):
        mark = cut.high_watermark
        if mark is not None and cut in losing:
            found = _lost(case, cut, mark)
        else:
            found = _cut(cut, led_after(cut, elections, case.log_events))
        if found.severity == "info":
            harmless.setdefault(cut.event.broker_id, []).append(found)
        else:
            yield found
    for cuts in harmless.values():
        # Every restart and every new leader makes one: the last is reported, and how many there were.
        earlier = (
            [considered(f"{count(len(cuts) - 1, 'earlier truncation')} of this replica, in broker_log_events")]
            if cuts[1:]
            else []
        )
        yield replace(cuts[-1], evidence=(*cuts[-1].evidence, *earlier))


def _lost(case: Case, cut: LoggedCut, mark: int) -> Finding:
    """A cut below the replica's own high watermark `mark`, at an offset where the reference goes on in another epoch."""
    start = cut.truncate_to
    later = {epoch for epoch, begin in lineage_entries(case.reference) if begin == start}
    broker = cut.event.broker_id
    who = "a broker" if broker is None else f"broker {broker}"
    suspect = bool(may_mark_over_tail(case.kafka_version))
    return finding(
        TRN_BELOW_HW,
        f"{who} cut its log at {start}, below its own high watermark {mark}: {offsets(start, mark)} "
        f"had been committed, and broker "
        f"{case.reference.facts.broker_id} has records of epoch {max(later)} from there on; by {place(cut.event)}",
        confidence="suspect" if suspect else "proven",
        broker_id=broker,
        start_offset=start,
        end_offset=mark,
        replica_epoch=max(later) - 1,
        evidence=[
            log_line(cut.event, f"high watermark {mark} before the cut"),
            Evidence(
                "lineage",
                text=f"epoch {max(later)} of the reference begins at {start}",
                broker_id=case.reference.facts.broker_id,
                value=str(start),
            ),
            considered("a truncation to be fetched again: no, the leader goes on otherwise from that very offset"),
            considered("records to be saved: none here, unless a `.deleted` file or a backup has them"),
        ],
    )


def _cut(cut: LoggedCut, election: LoggedElection | None) -> Finding:
    broker, start, mark = cut.event.broker_id, cut.truncate_to, cut.high_watermark
    doubtful = election is not None or cut.is_below_mark
    text = f"{'a broker' if broker is None else f'broker {broker}'} cut its log at {start}"
    if cut.is_below_mark:
        text += f", below its own high watermark {mark}"
    elif cut.asked is not None and cut.asked.high_watermark is not None:
        text += ", its own high watermark"
    elif cut.asked is not None:
        text += f", since its leader's epoch {cut.asked.leader_epoch} ends below its own log"
    if election is not None:
        text += (
            f", and led in epoch {election.leader_epoch} without having been in sync again: whatever was "
            f"committed from {start} on is on no "
            "replica that followed it"
        )
    why = (
        considered("fetched again from the leader: no, the leader was down, and this replica led next")
        if election is not None
        else considered(
            "fetched again from the leader: yes, as far as the captured logs tell; what was dropped the leader "
            "had, or was never committed"
        )
    )
    return finding(
        TRN_LOGGED,
        f"{text}; by {place(cut.event)}",
        severity="medium" if doubtful else "info",
        confidence="likely" if doubtful else "proven",
        broker_id=broker,
        start_offset=start,
        end_offset=mark if cut.is_below_mark else None,
        evidence=[
            log_line(cut.event, f"cut at {start}"),
            *([] if election is None else [log_line(election.event, "elected")]),
            why,
        ],
    )

"""What brokers' own logs tell of the past: truncations, and unclean elections where no metadata log has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from replica_audit.auditing.findings.finding import Case, Evidence, Finding, considered, finding, offsets
from replica_audit.auditing.leadership.logged_events import (
    LoggedCut,
    LoggedElection,
    lineage_entries,
    logged_cuts,
    place,
    unclean_elections,
)
from replica_audit.formats.leadership.broker_logs import BrokerLogEvent

#: KAFKA-14704: between these a follower's high watermark could be above records that it was about to cut.
_HIGH_WATERMARK_OVER_TAIL = ((2, 8), (3, 5))


def judge(case: Case) -> Iterator[Finding]:
    """TRN-LOGGED, TRN-BELOW-HW of truncations that happened, META-UNCLEAN-ELECTION by log lines."""
    events = case.log_events
    history = bool(case.leadership and case.leadership.history)
    elections = [] if history else list(unclean_elections(events))
    for election in elections:
        yield _unclean(case, election)
    harmless: dict[int, list[Finding]] = {}
    for cut in logged_cuts(events):
        found = _lost(case, cut) or _cut(cut, _led_after(cut, elections, events))
        if found.severity == "info":
            harmless.setdefault(cut.event.broker_id, []).append(found)
        else:
            yield found
    for cuts in harmless.values():
        # Every restart and every new leader makes one: the last is told, and how many there were.
        earlier = (
            [considered(f"{len(cuts) - 1} earlier truncations of this replica are in broker_log_events")]
            if cuts[1:]
            else []
        )
        yield replace(cuts[-1], evidence=(*cuts[-1].evidence, *earlier))


def _lost(case: Case, cut: LoggedCut) -> Finding | None:
    """A cut below the replica's own high watermark, at an offset where the reference goes on in another epoch."""
    mark, start = cut.high_watermark, cut.truncate_to
    if mark is None or mark <= start:
        return None
    later = {epoch for epoch, begin in lineage_entries(case.reference) if begin == start}
    first = min((begin for _, begin in lineage_entries(case.reference)), default=None)
    if not later or start == first:
        return None
    version, broker = case.kafka_version, cut.event.broker_id
    suspect = version is not None and _HIGH_WATERMARK_OVER_TAIL[0] <= version[:2] < _HIGH_WATERMARK_OVER_TAIL[1]
    return finding(
        "TRN-BELOW-HW",
        f"broker {broker} cut its log at {start}, below its own high watermark {mark}: {offsets(start, mark)} "
        f"were committed, and broker "
        f"{case.reference.facts.broker_id} has records of epoch {max(later)} from there on; by {place(cut.event)}",
        confidence="suspect" if suspect else "proven",
        broker_id=broker,
        start_offset=start,
        end_offset=mark,
        replica_epoch=max(later) - 1,
        evidence=[
            _line(cut.event, f"high watermark {mark} before the cut"),
            Evidence(
                "lineage",
                f"epoch {max(later)} of the reference begins at {start}",
                case.reference.facts.broker_id,
                value=str(start),
            ),
            considered("a truncation to be fetched again: no, the leader goes on otherwise from that very offset"),
            considered("records to be saved: none here, unless a `.deleted` file or a backup has them"),
        ],
    )


def _cut(cut: LoggedCut, election: LoggedElection | None) -> Finding:
    broker, start, mark = cut.event.broker_id, cut.truncate_to, cut.high_watermark
    below = mark is not None and mark > start
    text = f"broker {broker} cut its log at {start}"
    if below:
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
            "fetched again from the leader: yes, as far as the logs at hand tell; what was dropped the leader "
            "had, or was never committed"
        )
    )
    return finding(
        "TRN-LOGGED",
        f"{text}; by {place(cut.event)}",
        severity="medium" if election is not None or below else "info",
        confidence="likely" if election is not None or below else "proven",
        broker_id=broker,
        start_offset=start,
        end_offset=mark if below else None,
        evidence=[
            _line(cut.event, f"cut at {start}"),
            *([] if election is None else [_line(election.event, "elected")]),
            why,
        ],
    )


def _led_after(
    cut: LoggedCut, elections: list[LoggedElection], events: tuple[BrokerLogEvent, ...]
) -> LoggedElection | None:
    """The unclean election that this replica won after the cut, without having joined the ISR in between."""
    order = {id(one): at for at, one in enumerate(events)}
    begin = order[id(cut.event)]
    for election in elections:
        end = order[id(election.event)]
        if election.leader_id != cut.event.broker_id or end < begin:
            continue
        joined = any(one.kind == "isr" and cut.event.broker_id in (one.isr or ()) for one in events[begin:end])
        return None if joined else election
    return None


def _unclean(case: Case, election: LoggedElection) -> Finding:
    members = "unknown" if election.previous_isr is None else ", ".join(map(str, election.previous_isr)) or "none"
    conflicting = [run for item in case.comparisons for run in item.runs if run.conflicting]
    left = (
        bool(conflicting) and (election.said or election.witnessed) and election.leader_id == case.reference.leader_id
    )
    epoch = "" if election.leader_epoch is None else f" in epoch {election.leader_epoch}"
    start = next(
        (begin for known, begin in sorted(lineage_entries(case.reference)) if known == election.leader_epoch), None
    )
    return finding(
        "META-UNCLEAN-ELECTION",
        f"broker {election.leader_id} was elected{epoch} though it was not in sync (in sync before: {members}); "
        f"by {place(election.event)}",
        severity="high" if left else "info",
        verdict="WILL_LOSE_ON_TRUNCATION" if left else None,
        confidence="proven" if election.said else "likely",
        broker_id=election.leader_id,
        start_offset=start,
        replica_epoch=election.leader_epoch,
        evidence=[
            _line(election.event, "elected"),
            considered(
                "it had joined the ISR again: no, a line says that nobody in sync was alive"
                if election.said
                else "it had joined the ISR again: no line says so"
                + (
                    ""
                    if election.witnessed
                    else f"; but the log of broker {election.previous_leader_id}, which led before, is not here"
                )
            ),
        ],
    )


def _line(event: BrokerLogEvent, text: str) -> Evidence:
    return Evidence("log", f"line {event.line}: {text}", event.broker_id, event.path, value=event.time)

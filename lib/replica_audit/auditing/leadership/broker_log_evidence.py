"""Evidence from broker logs: a tighter high watermark, truncations that left no trace, elections (D.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.snapshot.broker_logs import BrokerLogEvent

if TYPE_CHECKING:
    from replica_audit.auditing.leadership.high_watermark_bounds import HighWatermark
    from replica_audit.auditing.replicas.reference import Reference


class LoggedCut(NamedTuple):
    """A truncation that a broker logged, with the details in its lines."""

    event: BrokerLogEvent
    truncate_to: int
    high_watermark: int | None
    """The replica's high watermark before the cut, if a line has it."""
    asked: BrokerLogEvent | None
    """Line with the source of the offset: the replica's own high watermark, or the end of the leader's epoch."""

    @property
    def is_below_mark(self) -> bool:
        """True if the cut was below the replica's own high watermark."""
        return self.high_watermark is not None and self.high_watermark > self.truncate_to


class LoggedElection(NamedTuple):
    """An election of a replica out of sync, according to broker logs."""

    event: BrokerLogEvent
    leader_id: int
    leader_epoch: int | None
    previous_leader_id: int | None
    """None if there was no leader before, or no line names it."""
    previous_isr: Sequence[int] | None
    said: bool
    """True if a line states it; False if it follows from the previous ISR."""
    witnessed: bool
    """True if the previous leader's broker log, which would show the ISR grow, was captured, or the ISR could not grow without
    a leader."""


def of_present_topic(events: Iterable[BrokerLogEvent], topic_id: str | None) -> tuple[BrokerLogEvent, ...]:
    """Sort the events of one partition by time, then by file and line.

    Without those up to the last one that names another topic id: the topic was recreated after it.
    """
    events = sorted(events, key=lambda one: (one.clock_ms is not None, one.clock_ms, one.path, one.line))
    others = [at for at, one in enumerate(events) if topic_id is not None and one.topic_id not in (None, topic_id)]
    return tuple(events[others[-1] + 1 :] if others else events)


def tighten_by_logs(mark: HighWatermark, reference: Reference, events: Iterable[BrokerLogEvent]) -> HighWatermark:
    """Raise the lower bound of `mark` to what a leader's log lines prove.

    If a leader began epoch E at offset O with high watermark H, every log with the entry (E, O) equals its log below O. So
    if the reference's lineage has that entry, everything below H was committed there.
    """
    if mark.method == "capture_skew" or mark.lowest_suffix is not None or reference.outdated:
        return mark
    entries = set(reference.facts.epoch_entries)
    led: list[tuple[int, BrokerLogEvent]] = []
    for one in events:
        value = one.high_watermark
        begins = one.leads and (one.leader_epoch, one.offset) in entries
        if begins and value is not None and one.offset is not None and value <= one.offset:
            led.append((value, one))
    if not led:
        return mark
    value, best = max(led, key=lambda pair: pair[0])
    if value <= mark.hw_lower or not mark.admits(value):
        return mark
    text = (
        f"high watermark {value} with which broker {best.broker_id} began to lead in epoch "
        f"{best.leader_epoch} at {best.offset} ({place(best)})"
    )
    method = "bounds_meet" if value == mark.hw_upper else mark.method
    reached = max(value, mark.reached)
    return mark._replace(
        hw_lower=value, proven_lower=value, reached=reached, proof=text, lower_evidence=text, method=method
    )


def place(event: BrokerLogEvent) -> str:
    """Words for an event's file, line and time."""
    return f"{event.path} line {event.line}" + (f", {event.time}" if event.time else "")


def logged_cuts(events: Sequence[BrokerLogEvent]) -> Iterator[LoggedCut]:
    """Yield truncations by broker, in order of time, those of an unknown broker first.

    A log that never had a record is not truncated. After that the effect of a broker's next line is:

    | line | after | effect |
    |---|---|---|
    | asked_to_cut | | the reason of a later cut at its offset |
    | cut | cut_below_mark at the same offset | none: it is the same truncation |
    | cut, cut_below_mark | | a truncation |
    | no_cut | a cut at the same offset, at most two lines before in the same file | takes it back: 0.10 writes both |
    | mark_went_back | a cut at the same offset | raises the high watermark that the replica had |
    """
    brokers = {one.broker_id for one in events}
    for broker_id in sorted(brokers, key=lambda one: (one is not None, one)):
        yield from _cuts_of_broker([one for one in events if one.broker_id == broker_id])


def _cuts_of_broker(events: Iterable[BrokerLogEvent]) -> list[LoggedCut]:
    cuts: list[LoggedCut] = []
    asked: BrokerLogEvent | None = None
    is_empty = True
    for one in events:
        is_empty = is_empty and not (one.offset or one.high_watermark or one.kind in ("isr", "elected"))
        same = cuts[-1] if cuts and cuts[-1].truncate_to == one.offset else None
        if one.kind == "asked_to_cut":
            asked = one
        elif one.kind in ("cut", "cut_below_mark") and one.offset is not None and not is_empty:
            if same is None or (same.event.kind, one.kind) != ("cut_below_mark", "cut"):
                reason = asked if asked is not None and asked.offset == one.offset else None
                cuts.append(LoggedCut(one, one.offset, one.high_watermark, reason))
        elif one.kind == "no_cut" and same is not None:
            if same.event.path == one.path and one.line - same.event.line <= 2:
                cuts.pop()
        elif one.kind == "mark_went_back" and same is not None:
            known = [mark for mark in (same.high_watermark, one.high_watermark) if mark is not None]
            cuts[-1] = same._replace(high_watermark=max(known, default=None))
    return cuts


def losing_cuts(events: Sequence[BrokerLogEvent], reference: Reference) -> Iterator[LoggedCut]:
    """Cuts below the replica's own high watermark, at an offset where the reference continues in another epoch."""
    begins = {begin for _, begin in reference.facts.epoch_entries}
    later = begins - {min(begins, default=None)}
    return (cut for cut in logged_cuts(events) if cut.is_below_mark and cut.truncate_to in later)


def led_after(
    cut: LoggedCut, elections: Iterable[LoggedElection], events: Sequence[BrokerLogEvent]
) -> LoggedElection | None:
    """Unclean election that this replica won after the cut without having joined the ISR in between; None if there was none."""
    order = {id(one): at for at, one in enumerate(events)}
    begin = order[id(cut.event)]
    for election in elections:
        end = order[id(election.event)]
        if election.leader_id != cut.event.broker_id or end < begin:
            continue
        joined = any(one.kind == "isr" and cut.event.broker_id in (one.isr or ()) for one in events[begin:end])
        return None if joined else election
    return None


def _elected(event: BrokerLogEvent) -> int | None:
    """The broker elected according to a line, -1 for no leader; None if the line reports no election."""
    if event.kind == "elected":
        return event.leader_id
    return event.broker_id if event.leads else None


def unclean_elections(events: Sequence[BrokerLogEvent]) -> Iterator[LoggedElection]:
    """Yield elections of a replica out of sync, from lines of the controller and of leaders.

    An election is a line `elected`, or `starts` of a broker that leads; it may name no leader. By the first line that fits:

    | line | effect |
    |---|---|
    | elected_uncleanly | the next election of that replica is unclean; said without one, an election of an unknown epoch |
    | isr of the present leader | the ISR |
    | isr of another broker | none: it may lag |
    | election without an epoch, or of an earlier one | none |
    | election of the same epoch, or of no leader | the leader, and the ISR if `elected` gives it |
    | election of a replica after its elected_uncleanly | unclean, as the controller says |
    | election that keeps others in the ISR, as an unclean one does not: it ended a reassignment (KAFKA-19212) | a clean one |
    | election of the next epoch, of a replica known to be out of sync | unclean, as far as the lines show |
    | election after epochs without lines, in which it may have joined the ISR | a clean one |
    | any other election | a clean one |
    """
    witnesses = {one.broker_id for one in events if not one.kind.startswith("elected")}
    said: dict[int, BrokerLogEvent] = {}
    epoch = -1
    leader = None
    isr = None
    for one in events:
        chosen = _elected(one)
        if one.kind == "elected_uncleanly":
            if one.leader_id is not None:
                said[one.leader_id] = one
        elif one.kind == "isr":
            isr = one.isr if leader is not None and one.broker_id == leader else isr
        elif chosen is None or one.leader_epoch is None or one.leader_epoch < epoch:
            continue
        elif one.leader_epoch == epoch or chosen < 0:
            if one.kind == "elected" and one.isr is not None:
                isr = one.isr
            epoch = one.leader_epoch
            leader = None if chosen < 0 else chosen
        else:
            is_alone = one.isr is None or {*one.isr} <= {chosen}
            is_outside = isr is not None and chosen not in isr and is_alone
            if chosen in said or (is_outside and one.leader_epoch == epoch + 1):
                event = said.pop(chosen, one)
                witnessed = leader is None or leader in witnesses
                yield LoggedElection(event, chosen, one.leader_epoch, leader, isr, event is not one, witnessed)
            epoch = one.leader_epoch
            leader = chosen
            isr = one.isr
    for chosen, event in said.items():
        yield LoggedElection(event, chosen, None, leader, isr, True, True)

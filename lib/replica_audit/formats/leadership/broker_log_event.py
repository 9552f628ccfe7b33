"""What one line of a broker's own log says of a partition (D.4)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerLogEvent:
    """One line. What it does not say is None."""

    topic: str
    partition: int
    broker_id: int | None
    """Whose log the line is in."""
    path: str
    line: int
    """From 1."""
    kind: str
    """starts, cut, cut_below_mark, asked_to_cut, no_cut, mark_went_back, loaded, created, isr, elected,
    elected_uncleanly or refused."""
    clock_ms: int | None
    """Milliseconds since the epoch in the time zone of the log, taken as UTC; of the day where the line has no date."""
    time: str | None
    """As written."""
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    offset: int | None = None
    """Where the log ended (starts), was cut to (cut), or the high watermark went back to."""
    high_watermark: int | None = None
    leader_id: int | None = None
    isr: tuple[int, ...] | None = None
    leads: bool | None = None
    """Of starts: as leader, or as follower."""
    topic_id: str | None = None
    final: bool | None = None
    """Of asked_to_cut: no further question to the leader follows."""

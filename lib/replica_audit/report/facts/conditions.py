"""Conditions outside the verdict that the headline must mention: nobody leads, a transaction hangs, records may be lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from replica_audit.auditing.catalogue import at_or_above, codes_with
from replica_audit.model import Place
from replica_audit.protocol.election import elections
from replica_audit.report.facts.by_partition import present, told_protocol
from replica_audit.report.facts.coverage import Compared, NeededBrokers, find_compared, find_needed, is_incomplete
from replica_audit.report.facts.losses import AboutToGo, find_about_to_go
from replica_audit.results import FindingPlace, Placed, Results
from replica_audit.schema import FindingRow, TruncationRow
from replica_audit.snapshot.leadership_rows import leadership_of_rows


@dataclass(frozen=True, slots=True)
class Return:
    """The last replica in sync dropped out without having been stopped in order, and led again by a clean election: it may
    have lost the end of its log in a crash, and whoever follows it then has lost the same.
    """

    place: Place
    time_ms: int
    """Time of its election, by the controller's clock."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Findings behind each condition; all empty, and nothing of medium or more: peace."""

    leaderless: tuple[FindingRow, ...]
    hanging: tuple[FindingRow, ...]
    past: tuple[FindingRow, ...]
    gone: tuple[FindingRow, ...]
    no_files: tuple[FindingRow, ...]
    loud: bool
    """A finding is of medium severity or more."""
    needed: tuple[NeededBrokers, ...] = ()
    """Brokers whose replicas were not captured and may hold committed records."""
    cuts: tuple[FindingRow, ...] = ()
    """Cuts below a high watermark that brokers' logs tell of, and of which no file shows what they lost."""
    compared: Compared = Compared((), (), (), ())
    restart_cuts: tuple[TruncationRow, ...] = ()
    """Truncations of committed records that a replica cuts when it starts, by the protocol of the audit."""
    incomplete: bool = False
    """A replica is missing in the snapshot, or not whole."""
    quorum: tuple[FindingRow, ...] = ()
    """Findings of metadata logs that are stale or contradict each other."""
    returns: tuple[Return, ...] = ()
    """The last return of each partition that has several replicas, and of which no lost record is known."""
    about_to_go: tuple[AboutToGo, ...] = ()
    """Lost records that only `.deleted` segments have."""
    past_the_end: bool = False
    """Whether a replica's own high watermark lies past the end of the log that it is compared with: however that came,
    the reference lacked something that was committed once."""

    @property
    def is_peace(self) -> bool:
        """All is well, and certainly so: every assigned replica is here, whole, and was compared."""
        unclear = self.compared.alone or self.compared.unassigned or self.compared.second_copies
        in_doubt = (
            self.past
            or self.returns
            or self.gone
            or self.no_files
            or self.needed
            or self.cuts
            or unclear
            or self.about_to_go
        )
        at_risk = self.leaderless or self.hanging or self.loud or self.past_the_end or self.restart_cuts
        return not (in_doubt or at_risk or self.incomplete)


def find_conditions(results: Results) -> Conditions:
    """The conditions of all partitions; what a baseline resolved is over, what it knows is not."""
    found = present(results.findings)
    gone = {place_of(row) for row in found if row.code == "HWM-GONE"}
    captures = results.captures
    needed = {(*place_of(row), row.broker_id) for row in captures if row.needed is not None}
    return Conditions(
        # Severity info: nobody leads because all brokers were stopped in order.
        leaderless=tuple(row for row in found if row.code == "META-NO-LEADER" and row.severity != "info"),
        hanging=tuple(row for row in found if row.code == "TXN-HANGING"),
        # Severity info: no replica holds any more what it left behind; what is certainly gone has a sentence of its
        # own.
        past=tuple(row for row in found if may_have_lost(row) and place_of(row) not in gone),
        gone=tuple(row for row in found if row.code == "HWM-GONE"),
        # Of a needed replica another sentence says more, and of one that no broker is named of.
        no_files=tuple(
            row
            for row in found
            if row.code in codes_with("no_files")
            and row.topic is not None
            and row.broker_id is not None
            and (*place_of(row), row.broker_id) not in needed
        ),
        loud=any(at_or_above(row.severity, "medium") for row in found),
        needed=find_needed(results),
        cuts=tuple(row for row in found if row.code == "TRN-LOGGED" and at_or_above(row.severity, "medium")),
        compared=find_compared(results),
        restart_cuts=tuple(_restart_cuts(results)),
        incomplete=is_incomplete(captures),
        quorum=tuple(row for row in found if row.topic is None and row.code in codes_with("quorum")),
        returns=tuple(_returns(results)),
        about_to_go=tuple(find_about_to_go(results)),
        past_the_end=_is_past_the_end(results),
    )


def _returns(results: Results) -> Iterator[Return]:
    states = results.rows_of("partition_states")
    for row in results.partitions:
        place = place_of(row)
        leadership = None if row.lost_records else leadership_of_rows(states.get(place, ()))
        if leadership is None or len(leadership.replicas or ()) < 2:
            continue
        times = [one.time_ms for one in elections(leadership.history) if one.clean and one.came_back]
        if times:
            yield Return(place, max(times))


def _restart_cuts(results: Results) -> Iterator[TruncationRow]:
    """Truncations of the protocol in force that take committed records off a replica, though the leader has the same."""
    protocol = told_protocol(results)
    marks = {place_of(row): row.proven_lower for row in results.high_watermarks}
    for row in results.truncations:
        alike, mark = row.common_prefix_end, marks.get(place_of(row))
        if row.protocol != protocol or alike is None or mark is None:
            continue
        if row.truncate_to < min(alike, mark):
            yield row


def _is_past_the_end(results: Results) -> bool:
    ends = {place_of(row): row.log_end_offset for row in results.replicas if row.role in ("leader", "reference")}
    return any(
        row.role == "compared"
        and row.high_watermark_checkpoint is not None
        and (end := ends.get(place_of(row))) is not None
        and row.high_watermark_checkpoint > end
        for row in results.replicas
    )


def may_have_lost(row: FindingRow) -> bool:
    """True for an unclean election whose loss the files can no longer show."""
    known = any(item.kind == "loss" for item in row.evidence or ())
    return row.code == "META-UNCLEAN-ELECTION" and row.severity == "info" and not known


def places_of(findings: Sequence[FindingRow | TruncationRow]) -> list[Place]:
    """The partitions of findings, each once, in order."""
    places = ((row.topic, row.partition) for row in findings)
    return list(dict.fromkeys((topic, number) for topic, number in places if topic is not None and number is not None))


def election_times(findings: Sequence[FindingRow], results: Results) -> list[int]:
    """When the elections of META-UNCLEAN-ELECTION findings took place (ms), as far as the history tells."""
    epochs = {
        (*place_of(row), int(item.value))
        for row in findings
        for item in row.evidence or ()
        if item.kind == "leadership" and item.value is not None
    }
    times: dict[tuple[object, ...], int] = {}
    for row in results.partition_states:
        key = (*place_of(row), row.leader_epoch)
        if key in epochs and row.time_ms is not None:
            times[key] = min(row.time_ms, times.get(key, row.time_ms))
    return list(times.values())


@overload
def place_of(row: Placed) -> Place: ...
@overload
def place_of(row: FindingRow) -> FindingPlace: ...
def place_of(row: Placed | FindingRow) -> FindingPlace:
    """The partition that a row is of."""
    return row.topic, row.partition

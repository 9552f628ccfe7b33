"""Which replicas hold the same records as the reference, and which were not compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from replica_audit.answering.by_partition import Row, Rows, compared_rows, reference_row, served_rows
from replica_audit.auditing.findings.catalogue import at_or_above, codes_with

#: Roles of copies that no other was compared with; a kind of agreement each.
NOT_COMPARED = ("foreign", "duplicate", "set_aside")


@dataclass(frozen=True, slots=True)
class Agreement:
    """A replica, or several alike, in which nothing differs from the reference, or which was not compared.

    `kind`: `alone` (the reference is the only one), `same` and `empty` (as the reference, to the same end), `shorter`,
    `longer`, `empty_elsewhere` (empty, with another end), `no_overlap` (no offset is on both), `cleaned` (only the
    cleaners made them differ), or one of `NOT_COMPARED`.
    """

    kind: str
    brokers: tuple[int, ...]
    reference: Row = field(default_factory=dict)
    """Its row; empty for a copy that was not compared."""
    replica: Row = field(default_factory=dict)
    """Its row, where it stands for one replica; else empty."""
    since: int = 0
    """First offset from which both have records; 0: both logs begin alike."""
    tail_lost: bool = False
    """`longer`: the reference is known to have lost its tail."""


def find_agreement(rows: Rows) -> Iterator[Agreement]:
    """One for each group of replicas that do not differ, then one for each copy that was not compared."""
    reference = reference_row(rows["replicas"])
    if reference is not None and reference["log_end_offset"] is not None:
        yield from _compared(reference, rows)
    for row in rows["replicas"]:
        if row["role"] in NOT_COMPARED:
            yield Agreement(row["role"], (row["broker_id"],), replica=row)


def _compared(reference: Row, rows: Rows) -> Iterator[Agreement]:
    others = [row for row in compared_rows(rows["replicas"]) if row["log_end_offset"] is not None]
    start, end = reference["log_start_offset"] or 0, reference["log_end_offset"]
    if len(served_rows(rows["replicas"])) < 2:
        yield Agreement("alone", (reference["broker_id"],), reference)
        return
    differing, cleaned, doubtful = _by_findings(rows)
    if reference["broker_id"] in doubtful:
        return
    if cleaned:
        yield Agreement("cleaned", tuple(sorted(cleaned)), reference)
    agreeing = [row for row in others if row["broker_id"] not in differing | cleaned | doubtful]
    equal: dict[int, list[Row]] = {}
    for row in agreeing:
        own_start = row["log_start_offset"] or 0
        since = max(start, own_start) if own_start != start else 0
        if row["log_end_offset"] == end:
            equal.setdefault(since, []).append(row)
        else:
            yield _unequal(reference, row, rows)
    for since, same in sorted(equal.items()):
        kind = "same" if reference["record_count"] else "empty"
        yield Agreement(kind, tuple(row["broker_id"] for row in same), reference, since=since)


def _unequal(reference: Row, row: Row, rows: Rows) -> Agreement:
    end, own = reference["log_end_offset"], row["log_end_offset"]
    start, own_start = reference["log_start_offset"] or 0, row["log_start_offset"] or 0
    brokers, first = (row["broker_id"],), max(start, own_start)
    if own <= own_start:
        return Agreement("empty_elsewhere", brokers, reference, row)
    if first >= min(end, own):
        return Agreement("no_overlap", brokers, reference, row)
    if own > end:
        tail_lost = any(item["code"] == "REP-LEADER-SHORTER" for item in rows["findings"])
        return Agreement("longer", brokers, reference, row, tail_lost=tail_lost)
    return Agreement("shorter", brokers, reference, row, first if own_start != start else 0)


def _by_findings(rows: Rows) -> tuple[set[int], set[int], set[int]]:
    """Brokers that differ, those that only a cleaner made different, and those that may hold anything."""
    differing = {row["broker_id"] for row in rows["divergences"]}
    cleaned, doubtful = set(), set()
    for row in rows["findings"]:
        code, broker = row["code"], row["broker_id"]
        if code == "DIV-PRESENCE" and row["severity"] == "info":
            cleaned.add(broker)
        elif code in codes_with("difference"):
            differing.add(broker)
        elif (
            code in codes_with("doubt")
            and at_or_above(row["severity"], "medium")
            or code == "DIV-FORMAT"
            and row["confidence"] != "proven"
        ):
            doubtful.add(broker)
    return differing, cleaned - differing, doubtful

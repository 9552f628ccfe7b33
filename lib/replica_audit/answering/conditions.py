"""Conditions outside the verdict that the headline must mention: nobody leads, a transaction hangs, records may be lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replica_audit.answering.by_partition import Row, present
from replica_audit.auditing.findings.catalogue import at_or_above, codes_with
from replica_audit.model import Place
from replica_audit.results import Results


@dataclass(frozen=True, slots=True)
class Conditions:
    """Findings behind each condition; all empty, and nothing of medium or more: peace."""

    leaderless: tuple[Row, ...]
    hanging: tuple[Row, ...]
    past: tuple[Row, ...]
    gone: tuple[Row, ...]
    no_files: tuple[Row, ...]
    loud: bool
    """Whether any finding is of medium severity or more."""
    past_the_end: bool = False
    """Whether a replica's own high watermark lies past the end of the log that it is compared with: however that came,
    the reference lacked something that was committed once."""

    @property
    def is_peace(self) -> bool:
        return not (
            self.leaderless or self.hanging or self.past or self.gone or self.no_files or self.loud or self.past_the_end
        )


def find_conditions(results: Results) -> Conditions:
    """The conditions of all partitions; what a baseline resolved is over, what it knows is not."""
    found = present(results.rows("findings"))
    gone = {place_of(row) for row in found if row["code"] == "HWM-GONE"}
    return Conditions(
        # Severity info: nobody leads because all brokers were stopped in order.
        leaderless=tuple(row for row in found if row["code"] == "META-NO-LEADER" and row["severity"] != "info"),
        hanging=tuple(row for row in found if row["code"] == "TXN-HANGING"),
        # Severity info: no replica holds any more what it left behind; what is certainly gone has a sentence of its
        # own.
        past=tuple(row for row in found if may_have_lost(row) and place_of(row) not in gone),
        gone=tuple(row for row in found if row["code"] == "HWM-GONE"),
        no_files=tuple(row for row in found if row["code"] in codes_with("no_files") and row["topic"] is not None),
        loud=any(at_or_above(row["severity"], "medium") for row in found),
        past_the_end=_is_past_the_end(results),
    )


def _is_past_the_end(results: Results) -> bool:
    ends = {
        place_of(row): row["log_end_offset"]
        for row in results.rows("replicas")
        if row["role"] in ("leader", "reference")
    }
    return any(
        row["role"] == "compared"
        and row["high_watermark_checkpoint"] is not None
        and (end := ends.get(place_of(row))) is not None
        and row["high_watermark_checkpoint"] > end
        for row in results.rows("replicas")
    )


def may_have_lost(row: Row) -> bool:
    """Whether a finding is an unclean election of which the files cannot tell any more what it lost."""
    known = any(item["kind"] == "loss" for item in row["evidence"] or ())
    return row["code"] == "META-UNCLEAN-ELECTION" and row["severity"] == "info" and not known


def places_of(findings: Sequence[Row]) -> list[Place]:
    """The partitions of findings, each once, in order."""
    return list(dict.fromkeys(place_of(row) for row in findings))


def election_times(findings: Sequence[Row], results: Results) -> list[int]:
    """When the elections of META-UNCLEAN-ELECTION findings took place (ms), as far as the history tells."""
    epochs = {
        (*place_of(row), int(item["value"]))
        for row in findings
        for item in row["evidence"] or ()
        if item["kind"] == "leadership"
    }
    times: dict[tuple, int] = {}
    for row in results.rows("partition_states"):
        key = (*place_of(row), row["leader_epoch"])
        if key in epochs and row["time_ms"] is not None:
            times[key] = min(row["time_ms"], times.get(key, row["time_ms"]))
    return list(times.values())


def place_of(row: Row) -> Place:
    """The partition that a row is of."""
    return row["topic"], row["partition"]

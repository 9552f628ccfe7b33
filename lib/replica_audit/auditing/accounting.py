"""Checks that every byte and every partition is accounted for, and every loss."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from replica_audit.auditing.catalogue import at_or_above, codes_with
from replica_audit.errors import EngineError

#: Quarantine rows of stretches of segments have the code of the finding that judges them.
_DAMAGE = "LOG-"


def account_for_input(quarantine: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Of the bytes of segments: `quarantined_bytes` in no batch, `padding_bytes` zeros after the last one; all others are batches.

    A scan takes each byte of a file once or quarantines the file (`segments.scan.account_for_bytes`).
    """
    found = {"quarantined_bytes": 0, "padding_bytes": 0}
    padding = codes_with("padding")
    for row in quarantine:
        if row["code"].startswith(_DAMAGE):
            found["padding_bytes" if row["code"] in padding else "quarantined_bytes"] += row["length"] or 0
    return found


def check_answered(discovered: Collection[Any], answered: int) -> None:
    """Raise EngineError unless as many partitions have a verdict as were discovered."""
    if answered != len(discovered):
        raise EngineError(
            f"{len(discovered)} partitions were discovered and {answered} have a verdict: the answers are not complete; "
            "run again, and report how the snapshot was made if it happens again"
        )


def check_losses(partitions: Iterable[Mapping[str, Any]], findings: Iterable[Mapping[str, Any]]) -> None:
    """Raise EngineError where a partition lost committed records and no grave finding of it is there: the status, which
    follows from the findings, would be OK.
    """
    told = {(row["topic"], row["partition"]) for row in findings if at_or_above(row["severity"], "high")}
    for row in partitions:
        if row["verdict"] == "COMMITTED_LOSS" and (row["topic"], row["partition"]) not in told:
            raise EngineError(
                f"internal error: {row['topic']}-{row['partition']} is COMMITTED_LOSS and no finding says so: the answers "
                "are incomplete; run again, and report how the snapshot was made if it happens again"
            )

"""Nothing is passed over: what of the bytes that were read is in no batch, and whether every partition has its answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from replica_audit.auditing.findings.catalogue import codes_with
from replica_audit.errors import EngineError

#: Quarantine rows of stretches of segments have the code of the finding that judges them.
_DAMAGE = "LOG-"


def account_for_input(quarantine: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Of the bytes of segments: `quarantined_bytes` in no batch, `padding_bytes` zeros after the last one; all others are batches.

    A scan takes each byte of a file once or quarantines the file (`formats.segments.scan.account_for_bytes`).
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

"""Results of an audit from its rows, after checks that no byte, partition or loss is unaccounted for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import cast

from replica_audit.auditing.catalogue import at_or_above, audit_verdict, codes_with, unplaced_codes
from replica_audit.errors import EngineError
from replica_audit.results import AuditObject, BlankLogDir, Results
from replica_audit.schema import AttemptRow, FindingRow, InputRow, PartitionRow, ReportRows

_RUN = ("audit_id", "snapshot_id", "cluster_id", "tool_version", "started", "finished")


def audit_results(
    run: AttemptRow,
    inputs: Mapping[str, object],
    blank: Mapping[str, int],
    options: Mapping[str, object] | None,
    rows: ReportRows,
    observations: int,
    location: str | None,
) -> Results:
    """Make the results of a finished attempt.

    `run` is the attempt, `inputs` what was read (snapshot, log_dirs, replicas, segments, size_bytes, files, brokers), `blank`
    the brokers of log dirs that have nothing (`Inventory.blank`), `options` the result of `options_row`, `observations` the timeline's
    number of observations. Raises EngineError if a loss has no finding.
    """
    audit: dict[str, object] = {
        **{name: getattr(run, name) for name in _RUN},
        "verdict": None,
        "inputs": None,
        "options": options,
    }
    results = Results.of(cast(AuditObject, audit), rows.in_order(), location)
    check_losses(results.partitions, results.findings)
    audit["verdict"] = audit_verdict([row.verdict for row in results.partitions], unplaced_codes(results.findings))
    observed = {"observations": observations} if observations else {}
    empty = [BlankLogDir(broker_id=broker, log_dir=path) for path, broker in sorted(blank.items())]
    audit["inputs"] = {
        **inputs,
        **({"blank": empty} if empty else {}),
        **account_for_input(results.quarantine),
        **observed,
    }
    return results


#: Prefix of the codes of quarantine rows for a part of a segment.
_DAMAGE = "LOG-"


def account_for_input(quarantine: Iterable[InputRow]) -> dict[str, int]:
    """Return `quarantined_bytes` (in no batch) and `padding_bytes` (zeros after the last batch); all other bytes of a segment
    are in batches.

    A scan consumes each byte once or quarantines the file (`segments.scan.account_for_bytes`).
    """
    found = {"quarantined_bytes": 0, "padding_bytes": 0}
    padding = codes_with("padding")
    for row in quarantine:
        if row.code.startswith(_DAMAGE):
            found["padding_bytes" if row.code in padding else "quarantined_bytes"] += row.length or 0
    return found


def check_answered(discovered: Collection[object], answered: int) -> None:
    """Raise EngineError unless every discovered partition has a verdict."""
    if answered != len(discovered):
        raise EngineError(
            f"{len(discovered)} partitions were discovered and {answered} have a verdict: the answers are not complete; "
            "run again, and report how the snapshot was made if it happens again"
        )


def check_losses(partitions: Iterable[PartitionRow], findings: Iterable[FindingRow]) -> None:
    """Raise EngineError if a partition lost committed records but has no finding of high severity or more: the status, which
    follows from the findings, would be OK."""
    told = {(row.topic, row.partition) for row in findings if at_or_above(row.severity, "high")}
    for row in partitions:
        if row.verdict == "COMMITTED_LOSS" and (row.topic, row.partition) not in told:
            raise EngineError(
                f"internal error: {row.topic}-{row.partition} is COMMITTED_LOSS and no finding says so: the answers "
                "are incomplete; run again, and report how the snapshot was made if it happens again"
            )

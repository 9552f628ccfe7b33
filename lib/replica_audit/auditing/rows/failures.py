"""A partition whose audit ended in an error: INCONCLUSIVE with that error, so that all others are answered."""

from __future__ import annotations

import logging
import traceback
from pathlib import PurePath

from replica_audit.auditing.findings.families.cap_files import not_audited
from replica_audit.auditing.findings.finding import Evidence
from replica_audit.auditing.partitions.conclusion import PartitionAudit
from replica_audit.auditing.partitions.partition_evidence import PartitionEvidence
from replica_audit.auditing.rows.answer_rows import report_rows
from replica_audit.model import TopicPartition

_LOG = logging.getLogger(__name__)
_GREATEST_TEXT = 300


def failure_rows(
    partition: TopicPartition, error: Exception, cluster_id: str | None, evidence: PartitionEvidence | None = None
) -> dict[str, list[dict]]:
    """Rows of the report tables for `partition`, of which nothing but `error` is known (CAP-NOT-AUDITED).

    The traceback goes to the log of the process that audited the partition, and into no row. `evidence`: as far as it came.
    """
    _LOG.error("%s could not be audited", partition, exc_info=error)
    kind, text, path = type(error).__name__, str(error), getattr(error, "path", None)
    if isinstance(error, OSError) and error.strerror:
        # Its own words name an absolute path.
        text = f"{error.strerror} ({PurePath(str(error.filename)).name})" if error.filename else error.strerror
    text = " ".join(text.split())[:_GREATEST_TEXT]
    place = Evidence(
        "file",
        f"{kind} in {_place(error)}" + (f": {text}" if text else ""),
        path=path if isinstance(path, str) else None,
        position=getattr(error, "position", None),
        value=kind,
    )
    found = not_audited(text or kind, place)
    known = evidence or PartitionEvidence(partition, (), cluster_id=cluster_id)
    return report_rows(PartitionAudit(known, None, (found,), "INCONCLUSIVE"))


def _place(error: Exception) -> str:
    """Where in the program it was raised, in the words of a bug report."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "replica_audit" in PurePath(frame.filename).parts] or frames
    return f"{PurePath(own[-1].filename).name}, line {own[-1].lineno}" if own else "an unknown place"

"""Audits of random histories, each once for all properties that look at it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from tests.property.capture import to_model
from tests.property.cluster import Cluster
from tests.property.history import HISTORIES, histories, narrate

from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import PartitionAudit, conclude

#: Half of the histories at most: an audit costs some milliseconds.
AUDITED = max(1, HISTORIES // 2)
SOURCES = ("metadata_log", "topics_describe", "user")


def _audits(
    count: int = AUDITED, source: str | None = None, **options: object
) -> tuple[tuple[str, Cluster, PartitionAudit], ...]:
    """What to print on failure, history, audit; the leadership's source and what the manifest says take turns."""
    return _audited(count, source, tuple(sorted({"protocol": "fetch", **options}.items())))


@cache
def _audited(
    count: int, source: str | None, options: tuple[tuple[str, object], ...]
) -> tuple[tuple[str, Cluster, PartitionAudit], ...]:
    """Each history is audited once for all properties that look at it: they change none."""
    return tuple(_audit_histories(count, source, **dict(options)))


def _audit_histories(
    count: int, source: str | None, protocol: str, **options: object
) -> Iterator[tuple[str, Cluster, PartitionAudit]]:
    for seed, cluster in histories(count, protocol=protocol, **options):
        said = source or SOURCES[seed % len(SOURCES)]
        quiesced = (True, None)[seed // len(SOURCES) % 2]
        evidence, batches = to_model(cluster, source=said, quiesced=quiesced, protocol=protocol)
        audit = conclude(ComparisonPlan(evidence), batches)
        told = "\n".join(f"  {f.severity} {f.code} broker {f.broker_id} {f.message}" for f in audit.findings)
        mark = audit.case.high_watermark
        story = (
            f"leadership by {said}, quiesced {quiesced}; audit: {audit.verdict}, high watermark "
            f"[{mark.hw_lower}, {mark.hw_upper}] {mark.method}\n{told}\n{narrate(seed, cluster)}"
        )
        yield story, cluster, audit

"""The high watermark's interval on what a simulated cluster leaves behind when its worst happens: truth never outside.

A power loss of the whole site: every broker loses what it had not flushed, and the checkpoint files survive. A copy that lacks
the leader, or any other replicas. Nothing tells of a tail that a replica lost above its own checkpoints (C.2), so none such is lost here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.property.capture import to_model
from tests.property.cluster import Cluster
from tests.property.history import HISTORIES, histories, narrate

from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import conclude
from replica_audit.auditing.evidence import PartitionEvidence
from replica_audit.auditing.leadership.high_watermark_bounds import HighWatermark

AUDITED = max(1, HISTORIES // 3)
SOURCES = ("metadata_log", "topics_describe", "user")


def lose_power(cluster: Cluster, chance: random.Random) -> int:
    """All brokers die at once; some lose the end of their logs, up to below their own checkpoint. Returns how many did."""
    losers = 0
    for replica in cluster.replicas.values():
        if replica.alive and chance.random() < 0.7:
            replica.checkpoint = replica.high_watermark
        above = [batch for batch in replica.batches if batch.base_offset < replica.checkpoint]
        if replica.checkpoint > replica.disk_end or not above or chance.random() < 0.5:
            continue
        kept = chance.randrange(max(0, len(above) - 3), len(above))
        if chance.random() < 0.7:
            # What had been flushed is not lost by a power loss, but by a disk that lied.
            replica.recovery_point = min(replica.recovery_point, replica.batches[kept].base_offset)
        del replica.batches[kept:]
        replica.log_end = replica.disk_end
        replica.alive = False
        losers += 1
    return losers


def true_bounds(cluster: Cluster) -> tuple[int, int]:
    """(the end of what was committed and is on the leader's log, its own high watermark if that is greater)."""
    return cluster.committed_end, max(cluster.committed_end, cluster.leader.high_watermark)


def marked(evidence: PartitionEvidence, batches: dict) -> tuple[HighWatermark, str]:
    audit = conclude(ComparisonPlan(evidence), batches)
    mark = audit.case.high_watermark
    told = "\n".join(f"  {f.severity} {f.code} broker {f.broker_id} {f.message}" for f in audit.findings)
    return mark, f"{mark}\n{told}"


def without(evidence: PartitionEvidence, absent: set[int]) -> PartitionEvidence:
    """The snapshot without some brokers."""
    return replace(evidence, replicas=tuple(pair for pair in evidence.replicas if pair[0].broker_id not in absent))


def _cases(seed_step: int = 1, **options: object) -> Iterator[tuple[int, random.Random, Cluster, str, bool | None]]:
    for seed, cluster in histories(AUDITED, **options):
        yield seed, random.Random(seed), cluster, SOURCES[seed % 3], (True, None)[seed // 3 % 2]


@pytest.mark.parametrize("protocol", ["fetch", "kip-279"])
def test_tails_that_a_power_loss_took_leave_the_high_watermark_inside(protocol):
    losses = opened = narrowed = 0
    for seed, chance, cluster, source, quiesced in _cases(protocol=protocol):
        lower, upper = true_bounds(cluster)
        if not lose_power(cluster, chance):
            continue
        losses += 1
        mark, told = marked(*to_model(cluster, source=source, quiesced=quiesced, protocol=protocol))
        story = f"truth {lower} to {upper}, {source}, quiesced {quiesced}; {told}\n{narrate(seed, cluster)}"
        assert mark.method != "capture_skew", story
        assert mark.proven_lower == mark.hw_lower <= lower, story
        assert mark.hw_upper is None or mark.hw_upper >= upper, story
        opened += mark.hw_upper is None
        narrowed += mark.hw_upper is not None and mark.hw_lower > cluster.leader.log_start
    assert losses and opened and narrowed


@pytest.mark.parametrize("source", SOURCES)
def test_a_copy_that_lacks_the_leader_or_others_leaves_the_high_watermark_inside(source):
    exact = opened = 0
    # A listing without epochs does not tell of an unclean election that none of the others has seen.
    for seed, chance, cluster, _, quiesced in _cases(unclean=source != "topics_describe", lost_tails=False):
        others = sorted(set(cluster.replicas) - {cluster.leader_id})
        more = set(chance.sample(others, chance.randrange(len(others))))
        evidence, batches = to_model(cluster, source=source, quiesced=quiesced)
        lower, upper = true_bounds(cluster)
        for absent in ({cluster.leader_id} | more, more):
            mark, told = marked(without(evidence, absent), batches)
            story = f"without {absent}, truth {lower} to {upper}, quiesced {quiesced}; {told}\n{narrate(seed, cluster)}"
            assert mark.hw_lower <= lower, story
            assert mark.hw_upper is None or mark.hw_upper >= upper, story
            if cluster.isr <= absent:
                assert mark.hw_upper is None and not mark.exact, story
            opened += mark.hw_upper is None
            exact += mark.exact
    assert opened and exact

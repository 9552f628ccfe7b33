"""Histories that a property once failed on, cut down to the events that matter."""

from __future__ import annotations

from tests.property.capture import to_model
from tests.property.cluster import Cluster
from tests.property.history import narrate

from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import PartitionAudit, conclude


def _audit(cluster: Cluster, source: str = "metadata_log") -> PartitionAudit:
    evidence, batches = to_model(cluster, source=source)
    return conclude(ComparisonPlan(evidence), batches)


def test_the_log_start_of_an_emptied_outsider_bounds_nothing_on_another_lineage():
    # Given a record that 0 and 2 committed, that 2 deleted by retention, and that 0 lost in a crash
    cluster = Cluster(3, min_insync_replicas=2)
    cluster.crash(1, 0)
    cluster.produce(1)
    cluster.fetch(2, 1)
    cluster.fetch(2, 1)
    cluster.fetch(2, 1)
    cluster.replicas[2].advance_log_start(1)
    cluster.restart(1)
    cluster.crash(0, 1)
    cluster.crash(2, 0)
    # When 1, which never had it, leads and writes other records, none of them committed (min.insync.replicas is 2)
    cluster.elect(1)
    cluster.produce(5)
    assert (cluster.committed_end, cluster.replicas[2].log_start) == (0, 1)
    # Then the log start 1 of broker 2 says nothing of the leader's log
    mark = _audit(cluster).case.high_watermark
    assert mark.hw_lower == 0, narrate(0, cluster)
    assert mark.hw_upper == 5


def test_a_batch_that_reaches_past_the_start_of_an_empty_leader_conflicts_from_there_on():
    # Given offsets 0 to 7 committed by 0 and 2, of which 1 has nothing
    cluster = Cluster(3)
    cluster.shrink(1)
    for _ in range(2):
        cluster.produce(4)
        cluster.fetch(2, 1)
        cluster.fetch(2, 1)
    old = cluster.replicas[0]
    old.checkpoint = old.high_watermark
    cluster.crash(2, 0)
    cluster.crash(0, 0)
    # When 1 leads, writes 0 to 2 and deletes them by retention
    cluster.elect(1)
    cluster.produce(3)
    cluster.leader.advance_log_start(3)
    assert (cluster.leader.batches, cluster.leader.log_end, old.checkpoint) == ([], 3, 8)
    # Then offset 3, in the middle of the batch 0 to 3, is lost like those after it
    audit = _audit(cluster)
    (item,) = [one for one in audit.case.comparisons if one.follower.broker_id == 0]
    told = {o for run in item.runs if run.conflicting for o in range(run.start_offset, run.end_offset)}
    assert told == set(range(3, 8)), narrate(0, cluster)
    losses = [one for one in audit.findings if one.code == "HWM-LOSS" and one.broker_id == 0]
    assert {o for one in losses for o in range(one.start_offset, one.end_offset)} == set(range(3, 8))
    assert not [one for one in audit.findings if one.code == "DIV-PRESENCE"]


def test_cutting_a_follower_below_its_own_start_is_no_needless_truncation():
    # Given a follower that was emptied and starts at 4
    cluster = Cluster(2)
    cluster.shrink(1)
    cluster.crash(1, 0)
    cluster.produce(4)
    cluster.produce(4)
    cluster.leader.advance_log_start(4)
    cluster.restart(1)
    cluster.fetch(1, 1)
    cluster.fetch(1, 1)
    follower = cluster.replicas[1]
    assert (follower.log_start, follower.log_end) == (4, 8)
    # When broker 0 comes back with an empty disk and leads uncleanly
    cluster.leader.truncate_fully(0)
    cluster.isr = {1}
    cluster.elect(0)
    cluster.produce(6)
    # Then all that it has is foreign, and cutting it at 0 drops no record that both have
    audit = _audit(cluster)
    (item,) = audit.case.comparisons
    assert item.replays["fetch"].truncate_to == 0, narrate(0, cluster)
    assert not [one for one in audit.findings if one.code == "TRN-OVER-TRUNCATE"], narrate(0, cluster)

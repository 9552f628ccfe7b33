"""The audit of one partition against the simulated cluster, whose truth it does not see."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.property.audits import AUDITED, SOURCES, _audits
from tests.property.capture import to_model
from tests.property.cluster import Cluster
from tests.property.history import histories, narrate, play
from tests.property.prefixes import common_prefix_end
from tests.support.some import some

from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import conclude
from replica_audit.model import OffsetRange


def test_the_true_high_watermark_is_never_outside_the_interval():
    exact = 0
    for story, cluster, audit in _audits():
        mark = audit.case.high_watermark
        if mark.method == "capture_skew" or audit.case.reference.facts.broker_id != cluster.leader_id:
            continue
        assert mark.admits(cluster.committed_end), story
        assert mark.hw_upper is None or cluster.leader.high_watermark <= mark.hw_upper, story
        exact += mark.exact
    assert exact, "no history gave an exact high watermark"


def test_without_leadership_the_interval_still_holds_where_the_leader_was_inferred_rightly():
    inferred = 0
    for story, cluster, audit in _audits(source="inferred"):
        mark = audit.case.high_watermark
        if audit.case.reference.facts.broker_id == cluster.leader_id and mark.method != "capture_skew":
            inferred += 1
            assert mark.admits(cluster.committed_end), story
    assert inferred


def test_copies_of_one_instant_are_never_taken_for_skewed_ones():
    for story, _, audit in some(_audits()):
        assert audit.case.high_watermark.method != "capture_skew", story


@pytest.mark.parametrize("protocol", ["kip-279", "fetch"])
def test_truncation_and_common_prefix_are_those_of_the_logs(protocol):
    for story, cluster, audit in some(_audits(protocol=protocol)):
        for item in audit.case.comparisons:
            follower = cluster.replicas[item.follower.broker_id]
            prefix_end = common_prefix_end(follower, cluster.leader)
            assert item.common_prefix_end == prefix_end or prefix_end is None, story
            for name in ("kip-279", "fetch"):
                if prefix_end is not None:
                    assert max(item.replays[name].truncate_to, follower.log_start) == prefix_end, story


def test_the_runs_of_a_follower_are_exactly_the_offsets_that_conflict():
    conflicts = 0
    for story, cluster, audit in _audits():
        held = {batch.content for batch in cluster.leader.batches}
        for item in audit.case.comparisons:
            follower = cluster.replicas[item.follower.broker_id]
            floor = max(follower.log_start, cluster.leader.log_start)
            foreign = [b for b in follower.batches if b.end_offset > floor and b.content not in held]
            expected = {o for b in foreign for o in range(max(b.base_offset, floor), b.end_offset)}
            told = {o for run in item.runs if run.conflicting for o in range(run.start_offset, run.end_offset)}
            assert told == expected, story
            conflicts += bool(expected)
    assert conflicts


def test_nothing_is_critical_where_no_committed_record_is_missing():
    spared = 0
    for story, cluster, audit in _audits():
        if not cluster.lost_batches():
            spared += 1
            assert not [item for item in audit.findings if item.severity == "critical"], story
            assert audit.verdict not in ("COMMITTED_LOSS", "COMMITTED_DIVERGENCE"), story
    assert spared


def test_a_loss_that_a_checkpoint_proves_is_found_on_the_replica_that_still_has_the_records():
    proven = 0
    for story, cluster, audit in _audits():
        lost = cluster.lost_batches()
        for replica in cluster.replicas.values():
            if replica.checkpoint > replica.disk_end:
                continue
            held = [batch for batch in lost if batch in replica.batches and batch.end_offset <= replica.checkpoint]
            if replica.broker_id == cluster.leader_id or not held:
                continue
            proven += 1
            found = [f for f in audit.findings if f.code == "HWM-LOSS" and f.broker_id == replica.broker_id]
            covered = {o for f in found for o in range(f.start_offset, f.end_offset)}
            floor = max(replica.log_start, cluster.leader.log_start)
            assert covered >= {o for b in held for o in range(max(b.base_offset, floor), b.end_offset)}, story
            assert audit.verdict == "COMMITTED_LOSS", story
    assert proven


def test_what_is_called_committed_and_lost_was_committed_and_is_lost():
    for story, cluster, audit in some(_audits()):
        lost = cluster.lost_batches()
        for found in audit.findings:
            if found.code == "HWM-LOSS":
                held = [b for b in cluster.replicas[found.broker_id].batches if b in lost]
                covered = {o for b in held for o in range(b.base_offset, b.end_offset)}
                assert covered >= set(range(found.start_offset, found.end_offset)), story


@pytest.mark.parametrize("options", [{"protocol": "kip-101"}, {"protocol": "high-watermark"}, {"zombies": True}])
def test_a_difference_that_the_protocol_keeps_is_committed_divergence_or_worse(options):
    hidden = 0
    for story, cluster, audit in _audits(retention=False, source="metadata_log", **options):
        for item in audit.case.comparisons:
            follower = cluster.replicas[item.follower.broker_id]
            prefix_end = common_prefix_end(follower, cluster.leader)
            if prefix_end is not None and item.replays[audit.case.options.protocol].truncate_to > prefix_end:
                hidden += 1
                assert audit.verdict in ("COMMITTED_LOSS", "COMMITTED_DIVERGENCE"), story
                codes = {f.code for f in audit.findings if f.broker_id == follower.broker_id}
                assert codes & {"DIV-HIDDEN", "DIV-CONTENT"}, story
    assert hidden


def test_a_partition_that_lags_or_agrees_has_no_finding_of_high_or_worse():
    for story, _, audit in some(_audits()):
        if audit.verdict in ("LAGGING", "CONSISTENT"):
            assert not [f for f in audit.findings if f.severity in ("critical", "high")], story


def test_clean_histories_have_nothing_worse_than_medium():
    for story, _, audit in some(_audits(unclean=False, lost_tails=False)):
        assert not [f for f in audit.findings if f.severity in ("critical", "high")], story


def test_equal_replicas_all_in_sync_are_consistent():
    equal = 0
    for story, cluster, audit in _audits(unclean=False, lost_tails=False, retention=False):
        logs = [replica.batches for replica in cluster.replicas.values()]
        if all(log == logs[0] for log in logs) and cluster.isr == set(cluster.replicas):
            equal += 1
            assert audit.verdict == "CONSISTENT", story
    assert equal


def test_the_order_of_the_replicas_changes_nothing():
    for _, cluster in some(histories(AUDITED // 4 + 1)):
        evidence, batches = to_model(cluster)
        turned, _ = to_model(cluster)
        turned = type(turned)(turned.topic_partition, tuple(reversed(turned.replicas)), turned.leadership)
        one, other = conclude(ComparisonPlan(evidence), batches), conclude(ComparisonPlan(turned), batches)
        assert (one.verdict, one.findings) == (other.verdict, other.findings)


def test_the_upper_bound_is_the_least_that_an_in_sync_replica_shares_with_the_leader():
    bounded = 0
    for story, cluster, audit in _audits():
        mark = audit.case.high_watermark
        ends = [cluster.leader.disk_end]
        for broker_id in cluster.isr - {cluster.leader_id}:
            member = cluster.replicas[broker_id]
            if member.checkpoint > member.disk_end:
                continue  # it had more, so that its end is no bound (C.2)
            prefix_end = common_prefix_end(member, cluster.leader)
            ends.append(member.disk_end if prefix_end is None else prefix_end)
        if mark.method in ("interval", "bounds_meet") and mark.lowest_suffix is None and mark.hw_upper is not None:
            assert mark.hw_upper == min(ends), story
            bounded += min(ends) < cluster.leader.disk_end
    assert bounded


def test_a_leader_that_was_copied_before_its_followers_makes_nothing_critical():
    skewed = 0
    for seed, cluster in histories(AUDITED):
        leader = cluster.leader
        own = [batch for batch in leader.batches if batch.leader_epoch == cluster.leader_epoch]
        followers = [replica for replica in cluster.replicas.values() if replica is not leader]
        if cluster.lost_batches() or not own or not any(own[-1] in replica.batches for replica in followers):
            continue
        # As after a copy that read the leader's log before its last batch was written.
        leader.batches.remove(own[-1])
        leader.log_end = leader.disk_end
        leader.checkpoint = min(leader.checkpoint, leader.log_end)
        leader.recovery_point = min(leader.recovery_point, leader.log_end)
        evidence, batches = to_model(cluster)
        audit = conclude(ComparisonPlan(evidence), batches)
        story = f"{[(f.severity, f.code, f.message) for f in audit.findings]}\n{narrate(seed, cluster)}"
        assert not [f for f in audit.findings if f.severity == "critical"], story
        assert any(item.alignment.ahead for item in audit.case.comparisons), story
        skewed += 1
    assert skewed


@pytest.mark.parametrize("seed", [60027, 60057, 60128, 60179, 60273, 60466])
def test_a_tail_that_no_replica_has_and_the_leader_lacks_is_lost(seed: int):
    """A broker was killed and lost its end, or was cut, and others were elected uncleanly: LATENT_CORRUPTION."""
    cluster = play(seed, deletions=True)
    source = (*SOURCES, "inferred")[seed % 4]
    audit = conclude(*_planned(cluster, source))
    (told,) = [one for one in audit.findings if one.code == "HWM-CP-ABOVE-LEO"]
    assert audit.verdict == told.verdict == "COMMITTED_LOSS" and told.confidence == "likely", narrate(seed, cluster)
    gone = OffsetRange(told.start_offset, told.end_offset)
    assert any(gone.holds(batch.base_offset) for batch in cluster.lost_batches()), narrate(seed, cluster)


def test_what_is_told_as_gone_was_committed_and_is_gone():
    told = Counter()
    for story, cluster, audit in _audits(count=AUDITED * 6):
        for one in audit.findings:
            if one.code == "HWM-CP-ABOVE-LEO":
                gone = OffsetRange(one.start_offset, one.end_offset)
                lost = any(gone.holds(batch.base_offset) for batch in cluster.lost_batches())
                assert lost or one.verdict != "COMMITTED_LOSS", story
                told[one.verdict] += 1
    assert told["COMMITTED_LOSS"] and told["LATENT_CORRUPTION"], told


def test_a_broker_that_came_back_with_an_empty_disk_has_lost_nothing_that_others_have():
    """Clean histories, which lose nothing: no false alarm is raised by it."""
    calm = ("CONSISTENT", "LAGGING", "UNCOMMITTED_DIVERGENCE", "INCONCLUSIVE")
    seen = Counter()
    for story, cluster, audit in _audits(count=AUDITED * 2, unclean=False, lost_tails=False, new_disks=True):
        assert not cluster.lost_batches() and audit.verdict in calm, story
        seen["replaced"] += any("has a new disk" in event for event in cluster.events)
    assert seen["replaced"] > AUDITED / 4, seen


def _planned(cluster: Cluster, source: str) -> tuple[ComparisonPlan, dict[tuple[int, str], np.ndarray]]:
    evidence, batches = to_model(cluster, source=source, quiesced=True)
    return ComparisonPlan(evidence), batches

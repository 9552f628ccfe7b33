"""Replay of truncation against the simulated cluster: what a correct follower keeps, whatever happened before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.property.cluster import Cluster
from tests.property.history import histories, narrate
from tests.property.prefixes import common_prefix_end, lineage_of_batches, lineage_of_cache
from tests.property.replica import Replica
from tests.support.some import some

from replica_audit.protocol.lineage import Lineage
from replica_audit.protocol.truncation import Replay, ReplicaState, replay


def _state(replica: Replica, lineage: Lineage) -> ReplicaState:
    end = replica.disk_end
    return ReplicaState(replica.log_start, end, lineage, max(replica.log_start, min(replica.checkpoint, end)))


def _replays(cluster: Cluster, protocol: str, from_cache: bool) -> Iterator[tuple[Replica, Replay, int | None]]:
    leader = cluster.leader
    lineage = lineage_of_cache if from_cache else lineage_of_batches
    leading = lineage(leader)
    if protocol in ("kip-279", "fetch"):
        # What becoming leader writes into the cache; the loader's rule would drop it while it has no records.
        leading = leading.assign(cluster.leader_epoch, leader.disk_end)
    for follower in cluster.replicas.values():
        if follower is not leader:
            outcome = replay(protocol, _state(follower, lineage(follower)), _state(leader, leading))
            yield follower, outcome, common_prefix_end(follower, leader)


@pytest.mark.parametrize("from_cache", [False, True], ids=["epochs of the batches", "epochs of the file"])
@pytest.mark.parametrize("online", ["kip-279", "fetch"])
def test_kip_279_and_fetch_keep_exactly_the_common_prefix(online, from_cache):
    cuts = 0
    for seed, cluster in histories(protocol=online):
        for protocol in ("kip-279", "fetch"):
            for follower, outcome, prefix_end in _replays(cluster, protocol, from_cache):
                if prefix_end is not None:
                    cuts += prefix_end < follower.disk_end
                    # Cutting below the follower's own start drops all that it has, which shares nothing then.
                    assert max(outcome.truncate_to, follower.log_start) == prefix_end, (
                        f"{protocol} keeps broker {follower.broker_id} to {outcome.truncate_to}, "
                        f"common to {prefix_end}; {outcome}\n{narrate(seed, cluster)}"
                    )
    assert cuts, "no history left anything to truncate"


@pytest.mark.parametrize("protocol", ["kip-279", "fetch"])
def test_after_truncation_and_fetching_the_rest_no_difference_is_left(protocol):
    for seed, cluster in some(histories(protocol=protocol, first_seed=1_000_000)):
        leader = cluster.leader
        for follower, outcome, _ in _replays(cluster, protocol, from_cache=False):
            end = outcome.truncate_to
            kept = [batch for batch in follower.batches if batch.end_offset <= end]
            healed = kept + [batch for batch in leader.batches if batch.base_offset >= end]
            shared = [batch for batch in healed if batch.base_offset >= leader.log_start]
            # A log that is cut below its start starts there from then on.
            start = min(follower.log_start, end)
            expected = [batch for batch in leader.batches if batch.base_offset >= start]
            assert shared == expected or outcome.reason == "full_truncate", (
                f"broker {follower.broker_id} after {outcome}\n{narrate(seed, cluster)}"
            )


@pytest.mark.parametrize("protocol", ["high-watermark", "kip-101"])
def test_the_older_generations_leave_differences_behind_in_some_histories(protocol):
    kept_foreign = 0
    for _, cluster in histories(protocol="fetch", retention=False):
        for _, outcome, prefix_end in _replays(cluster, protocol, from_cache=False):
            kept_foreign += prefix_end is not None and outcome.truncate_to > prefix_end
    assert kept_foreign, f"{protocol} was never wrong: the histories are too tame to tell the generations apart"


def test_clusters_that_ran_the_older_generations_hold_differences_that_no_protocol_repairs():
    hidden = dict.fromkeys(("high-watermark", "kip-101"), 0)
    for online in hidden:
        for _, cluster in histories(protocol=online, retention=False):
            for _, outcome, prefix_end in _replays(cluster, "fetch", from_cache=False):
                hidden[online] += prefix_end is not None and outcome.truncate_to > prefix_end
    assert all(hidden.values()), hidden


def test_a_zombie_leaves_differences_that_fetch_does_not_cut():
    hidden = 0
    for _, cluster in histories(protocol="fetch", zombies=True, retention=False):
        if cluster.zombie_fetches:
            for _, outcome, prefix_end in _replays(cluster, "fetch", from_cache=False):
                hidden += prefix_end is not None and outcome.truncate_to > prefix_end
    assert hidden


def test_the_rounds_of_stepping_back_are_no_more_than_the_followers_epochs_and_one():
    for seed, cluster in some(histories(protocol="fetch")):
        for follower, outcome, _ in _replays(cluster, "kip-279", from_cache=False):
            assert outcome.rounds <= len(lineage_of_batches(follower).entries) + 1, narrate(seed, cluster)

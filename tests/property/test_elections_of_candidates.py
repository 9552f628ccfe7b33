"""The cost matrix predicts for each candidate what the simulated cluster loses when it is elected."""

from __future__ import annotations

import copy

import pytest
from tests.property.capture import to_model
from tests.property.cluster import Cluster
from tests.property.history import HISTORIES, histories, narrate
from tests.property.live_copies import LiveCopy, copy_live
from tests.property.prefixes import lineage_of_batches, lineage_of_cache

from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import conclude
from replica_audit.elect.costs import candidate_costs
from replica_audit.literals import PROTOCOLS


def carried_out(cluster: Cluster, candidate: int) -> Cluster:
    """The cluster after `candidate` was started alone and elected, and everybody else has followed it."""
    after = copy.deepcopy(cluster)
    for broker_id in after.replicas:
        if after.replicas[broker_id].alive:
            after.crash(broker_id, 0)
    after.restart(candidate)
    after.elect(candidate)
    for broker_id in after.replicas:
        if broker_id != candidate:
            after.restart(broker_id)
    for _ in range(40):
        for broker_id in after.replicas:
            if broker_id != candidate:
                after.fetch(broker_id, 50)
    return after


def lost(cluster: Cluster, after: Cluster) -> dict[bytes, int]:
    """Batches that some replica had and none has: their numbers of records."""
    left = {batch.content for replica in after.replicas.values() for batch in replica.batches}
    return {
        batch.content: batch.end_offset - batch.base_offset
        for replica in cluster.replicas.values()
        for batch in replica.batches
        if batch.content not in left
    }


def is_intact(cluster: Cluster) -> bool:
    """True if every epoch file agrees with the batches, and epochs never go back: KIP-101 uses the file."""
    return all(
        list(lineage_of_cache(replica)) == list(lineage_of_batches(replica))
        and [batch.leader_epoch for batch in replica.batches] == sorted(batch.leader_epoch for batch in replica.batches)
        for replica in cluster.replicas.values()
    )


def kept_of(cluster: Cluster, candidate: int, broker_id: int) -> int:
    """Offset at which a replica's log parts from the candidate's: what a follower keeps of it under KIP-279 and later."""
    own, theirs = cluster.replicas[broker_id], {batch.content for batch in cluster.replicas[candidate].batches}
    return next((batch.base_offset for batch in own.batches if batch.content not in theirs), own.disk_end)


@pytest.mark.parametrize("lost_tails", [False, True], ids=["whole logs", "lost tails"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_predicted_loss_is_what_the_cluster_loses(protocol: str, lost_tails: bool) -> None:
    lossy = 0
    options = {"protocol": protocol, "retention": False, "lost_tails": lost_tails}
    for seed, cluster in histories(max(40, HISTORIES // 8), 7_000_000, **options):
        if protocol == "kip-101" and not is_intact(cluster):
            continue
        evidence, batches = to_model(cluster, quiesced=True, protocol=protocol)
        audit = conclude(ComparisonPlan(evidence), batches)
        for cost in candidate_costs(audit, batches):
            gone = lost(cluster, carried_out(cluster, cost.broker_id))
            committed = sum(count for content, count in gone.items() if content in cluster.committed)
            told = f"candidate {cost.broker_id}: {cost}\n{narrate(seed, cluster)}"
            assert cost.lost_records == sum(gone.values()), told
            assert cost.lost_committed <= committed, f"{committed}; {told}"
            # Where a leader lost the end of its own log, nothing may be left that tells what was committed.
            assert committed <= cost.lost_acknowledged or lost_tails, f"{committed}; {told}"
            lossy += bool(gone)
            if protocol in ("kip-279", "fetch"):
                for one in cost.followers:
                    kept = kept_of(cluster, cost.broker_id, one.broker_id)
                    assert max(one.kept_to, cluster.replicas[one.broker_id].log_start) == kept, (
                        f"broker {one.broker_id}; {told}"
                    )
    assert lossy > 10


def gone(copies: Cluster, after: Cluster, by_now: Cluster) -> set[bytes]:
    """`lost` by the copies as well as by now, without what retention or DeleteRecords took from any log."""
    start = max(replica.first_offset for one in (copies, after, by_now) for replica in one.replicas.values())
    left = {batch.content for replica in by_now.replicas.values() for batch in replica.batches}
    bases = {one.content: one.base_offset for replica in copies.replicas.values() for one in replica.batches}
    return {content for content in lost(copies, after) if bases[content] >= start} - left


def check_named(found: LiveCopy) -> int:
    """Number of candidates that lose committed records, all of which their costs have to name.

    Lost is what nobody has any more, whether the brokers start with their copies or with what they have by now.
    """
    copies, now = found.copies, found.cluster
    for replica in copies.replicas.values():
        replica.cache = list(lineage_of_batches(replica))
    _, batches = to_model(copies)
    numbers = {one.content: one.end_offset - one.base_offset for one in now.committed.values()}
    lossy = 0
    for cost in candidate_costs(found.audit, batches):
        unnamed = gone(copies, carried_out(copies, cost.broker_id), carried_out(now, cost.broker_id))
        committed = sum(numbers[content] for content in unnamed & now.committed.keys())
        assert committed <= cost.lost_acknowledged, f"{committed}; candidate {cost}; {found.story}"
        lossy += bool(committed)
    return lossy


def test_what_copies_of_a_running_cluster_have_and_an_election_loses_is_named() -> None:
    seeds = range(7_000_000, 7_000_000 + max(140, HISTORIES))
    assert sum(check_named(copy_live(seed, timed=True, lost_tails=False)) for seed in seeds) > 10


@pytest.mark.parametrize(
    ("seed", "how", "was"),
    [
        (7101269, {}, "the leader named by a listing was not said to cut records of a later epoch: nothing lost"),
        (7101545, {}, "the same"),
        (7100357, {}, "the same, beside others past its end"),
        (7104789, {}, "the same"),
        (7002269, {"timed": True}, "the same"),
        (7102969, {"any_order": True}, "the same"),
        (7105521, {}, "only another's epoch file shows that somebody led after the leader was copied: nothing lost"),
        (7000547, {"stopped": True, "lost_tails": True}, "nothing committed"),
    ],
)
def test_histories_whose_losses_were_once_not_named(seed: int, how: dict[str, bool], was: str) -> None:
    assert check_named(copy_live(seed, **{"lost_tails": False, **how})), was

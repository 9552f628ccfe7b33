"""Later changes to sound logs, and bit rot: purges, cleaners, changed policies, changed epochs. Nothing is lost by them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace

from tests.property.capture import to_model
from tests.property.cluster import Cluster
from tests.property.history import HISTORIES, histories, narrate
from tests.property.replica import Batch, Replica

from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import PartitionAudit, conclude
from replica_audit.auditing.findings.div import code_of_run

COUNT = max(1, HISTORIES // 3)
SOURCES = ("metadata_log", "topics_describe", "user", "inferred")


def _audit(cluster: Cluster, seed: int, configs: dict[str, str] | None = None) -> PartitionAudit:
    """Only the chunks that are asked for are given, as the pipeline does."""
    evidence, batches = to_model(cluster, source=SOURCES[seed % len(SOURCES)], quiesced=True)
    if configs is not None and evidence.leadership is not None:
        evidence = replace(evidence, leadership=replace(evidence.leadership, configs=configs))
    return conclude(
        ComparisonPlan(evidence),
        {key: rows for key, rows in batches.items() if key in ComparisonPlan(evidence).batches},
    )


def _story(seed: int, cluster: Cluster, audit: PartitionAudit, what: str) -> str:
    told = "\n".join(f"  {f.severity} {f.code} broker {f.broker_id} {f.message}" for f in audit.findings)
    return f"{what}; by {SOURCES[seed % len(SOURCES)]}: {audit.verdict}\n{told}\n{narrate(seed, cluster)}"


def _loud(audit: PartitionAudit, *severities: str) -> set[tuple]:
    return {(f.code, f.broker_id) for f in audit.findings if f.severity in severities}


def _answers(audit: PartitionAudit) -> dict:
    """Cuts, runs and interval: what a fault that loses nothing must not change."""
    case = audit.case
    return {
        "reference": (case.reference.facts.broker_id, case.reference.leader_epoch),
        "high watermark": (case.high_watermark.hw_lower, case.high_watermark.hw_upper),
        "cuts": {
            (item.follower.broker_id, name): item.replays[name].truncate_to
            for item in case.comparisons
            for name in item.replays
        },
        "runs": [
            (
                item.follower.broker_id,
                code_of_run(run).code,
                run.start_offset,
                run.end_offset,
                run.leader_epoch,
                run.replica_epoch,
            )
            for item in case.comparisons
            for run in item.runs
        ],
    }


def _sound(count: int = COUNT, **options: object) -> Iterator[tuple[int, random.Random, Cluster]]:
    for seed, cluster in histories(count, **options):
        yield seed, random.Random(seed), cluster


def test_a_purge_and_restarts_change_nothing_for_the_worse():
    purged_whole = 0
    for seed, chance, cluster in _sound(unclean=False, lost_tails=False, retention=False):
        whole = deepcopy(cluster)
        offset = chance.choice((cluster.leader.high_watermark, chance.randint(0, cluster.leader.high_watermark)))
        for replica in cluster.replicas.values():
            if offset and (replica is cluster.leader or chance.random() < 0.8):
                replica.delete_records(min(offset, replica.high_watermark))
            if replica is not cluster.leader and chance.random() < 0.7:
                replica.restart()
                whole.replicas[replica.broker_id].restart()
            purged_whole += replica.deleted_to == replica.disk_end and not replica.cache
        before = _audit(whole, seed)
        audit = _audit(cluster, seed)
        story = _story(seed, cluster, audit, f"purged to {offset}")
        assert not [f for f in audit.findings if f.code.startswith("EPO-CACHE") or f.code.startswith("EPO-FILE")], story
        assert _loud(audit, "critical", "high") <= _loud(before, "critical", "high"), story
        assert audit.verdict not in ("COMMITTED_LOSS", "COMMITTED_DIVERGENCE", "LATENT_CORRUPTION"), story
    assert purged_whole


def test_a_changed_epoch_is_found_and_changes_no_other_answer():
    found = recovered = 0
    for seed, chance, cluster in _sound():
        whole = deepcopy(cluster)
        replica, batch = _rotten_place(cluster, chance)
        if batch is None:
            continue
        epochs = {one.leader_epoch for other in cluster.replicas.values() for one in other.batches}
        epoch = chance.choice([one for one in (*range(cluster.leader_epoch), 1 << 20, 77) if one != batch.leader_epoch])
        content = batch.content[:12] + epoch.to_bytes(4, "big") + batch.content[16:]
        replica.batches[replica.batches.index(batch)] = replace(batch, content=content)
        before, audit = _audit(whole, seed), _audit(cluster, seed)
        story = _story(seed, whole, audit, f"broker {replica.broker_id}: {batch} changed to {epoch}, of {epochs}")
        assert ("LOG-CRC-BLIND", replica.broker_id) in _loud(audit, "high"), story
        assert _answers(audit) == _answers(before), story
        assert _loud(audit, "critical") == _loud(before, "critical"), story
        found += 1
        if epoch > replica.latest_epoch and seed % len(SOURCES) == 0 and epoch > cluster.leader_epoch:
            # An unclean start writes it into the epoch file.
            replica.assign(epoch, batch.base_offset)
            audit = _audit(cluster, seed)
            story = _story(seed, cluster, audit, f"broker {replica.broker_id}: {batch} changed to {epoch}, recovered")
            assert ("LOG-CRC-BLIND", replica.broker_id) in _loud(audit, "high"), story
            assert _answers(audit) == _answers(before), story
            recovered += 1
    assert found and recovered


def _rotten_place(cluster: Cluster, chance: random.Random) -> tuple[Replica, Batch | None]:
    """A batch that another replica has too, where both logs can be read."""
    replica = chance.choice(list(cluster.replicas.values()))
    others = [one for one in cluster.replicas.values() if one is not replica]
    shared = [
        batch
        for batch in replica.batches
        if any(batch in one.batches and batch.base_offset >= one.log_start for one in others)
    ]
    return replica, chance.choice(shared) if shared else None


def _replicas_with_batches(cluster: Cluster) -> list[Replica]:
    return [replica for replica in cluster.replicas.values() if replica.batches]


def test_a_topic_that_was_compacted_once_keeps_its_gaps_and_a_hole_above_them_is_told():
    cleaned = holed = 0
    policies = ({"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}, {"min.insync.replicas": "1"})
    for seed, chance, cluster in _sound(unclean=False, lost_tails=False, retention=False):
        before = _audit(cluster, seed)
        leader = cluster.leader
        # The active segment is never cleaned, so no log loses its last batch.
        limit = min([leader.high_watermark, *(one.batches[-1].base_offset for one in _replicas_with_batches(cluster))])
        gone = {batch.content for batch in leader.batches if batch.end_offset <= limit and chance.random() < 0.4}
        if not gone:
            continue
        leader.cleaned_to = limit
        leader.batches = [batch for batch in leader.batches if batch.content not in gone]
        for replica in cluster.replicas.values():
            if replica is not leader and chance.random() < 0.5:
                # It was away, and has fetched what the leader had left.
                replica.batches = [batch for batch in replica.batches if batch.content not in gone]
        configs = chance.choice(policies)
        audit = _audit(cluster, seed, configs)
        story = _story(seed, cluster, audit, f"cleaned to {limit}, {configs}")
        assert _loud(audit, "critical", "high", "medium") <= _loud(before, "critical", "high", "medium"), story
        assert not [f for f in audit.findings if f.code == "LOG-GAP" and f.severity != "info"], story
        cleaned += 1
        above = [batch for batch in leader.batches if batch.base_offset >= limit][:-1]
        for replica in cluster.replicas.values():
            at = [batch for batch in above if batch in replica.batches[:-1]]
            if replica is leader or not at or configs.get("cleanup.policy") == "compact":
                continue
            lost = chance.choice(at)
            replica.batches.remove(lost)
            audit = _audit(cluster, seed, configs)
            missing = ("CAP-MISSING-SEGMENT", replica.broker_id) in _loud(audit, "medium")
            told = ("LOG-GAP", replica.broker_id) in _loud(audit, "medium") and audit.verdict == "COMMITTED_DIVERGENCE"
            assert told or missing, _story(seed, cluster, audit, f"broker {replica.broker_id} lost {lost}")
            holed += 1
            replica.batches = sorted([*replica.batches, lost], key=lambda batch: batch.base_offset)
    assert cleaned and holed

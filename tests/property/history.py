"""Random histories of the simulated cluster, each a pure function of its seed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

from tests.property.cluster import Cluster

#: How many histories a property is tried on; `PROPERTY_HISTORIES=20000` for a long run. 60 suffice for
#: `make mutation` to notice 98 % of the changes to the protocol; with 90 the rarest of what properties ask for occurs, too.
HISTORIES = int(os.environ.get("PROPERTY_HISTORIES", "90"))

#: What happens how often.
EVENTS = {
    "produce": 24,
    "fetch": 52,
    "checkpoint": 9,
    "flush": 5,
    "shrink": 3,
    "fail_over": 3,
    "unclean_fail_over": 1,
    "move_leader": 2,
    "crash_follower": 2,
    "restart": 7,
    "retention": 2,
}


def play(
    seed: int,
    *,
    protocol: str = "fetch",
    unclean: bool = True,
    lost_tails: bool = True,
    retention: bool = True,
    zombies: bool = False,
    deletions: bool = False,
    new_disks: bool = False,
    failed_disks: bool = False,
    anew: bool = False,
    eligible: bool = False,
    kills: bool = False,
    watch: Callable[[Cluster], object] | None = None,
) -> Cluster:
    """The cluster after up to 120 random events, in some histories with an opening that makes replicas diverge.

    `watch` gets it at the beginning, and after each event.
    """
    chance = random.Random(seed)
    cluster = Cluster(chance.randint(2, 4), protocol, 2 if eligible else chance.choice((1, 1, 2)), eligible)
    weights = dict(EVENTS)
    if not unclean:
        del weights["unclean_fail_over"]
    if not retention:
        del weights["retention"]
    if zombies:
        weights["zombie_fetch"] = 5
    if deletions:
        weights["delete_records"] = 1
    if new_disks:
        weights["new_disk"] = 3
    if failed_disks:
        weights["fail_disk"] = 3
    if anew:
        weights["create_anew"] = 1
    if eligible:
        weights["stop"] = 3
    if kills:
        weights["kill_truncating"] = 12
    length = chance.randint(20, 120)
    opening = chance.choice((None, None, _divide, _alternate)) if unclean else None
    if opening is not None:
        opening(cluster, chance, lost_tails)
        # Few events follow, or none: a long history heals what the opening has brought about.
        length = chance.randint(0, 40)
    if watch is not None:
        watch(cluster)
    names = list(weights)
    for name in chance.choices(names, list(weights.values()), k=length):
        _HAPPENINGS[name](cluster, chance, lost_tails)
        if watch is not None:
            watch(cluster)
    return cluster


def go_on(cluster: Cluster, seed: int, length: int, lost_tails: bool = True) -> None:
    """`length` more random events of the kinds that `play` has, in place."""
    chance = random.Random(f"{seed} goes on")
    for name in chance.choices(list(EVENTS), list(EVENTS.values()), k=length):
        _HAPPENINGS[name](cluster, chance, lost_tails)


def histories(count: int = HISTORIES, first_seed: int = 0, **options: object) -> Iterator[tuple[int, Cluster]]:
    """`count` histories with their seeds."""
    for seed in range(first_seed, first_seed + count):
        yield seed, play(seed, **options)


def narrate(seed: int, cluster: Cluster) -> str:
    """Text of a failing property: seed, end state, and every event in order."""
    state = "\n".join(
        f"  broker {replica.broker_id}: [{replica.log_start}, {replica.log_end}) cp {replica.checkpoint} "
        f"cache {replica.cache} batches "
        f"{[(batch.base_offset, batch.end_offset, batch.leader_epoch) for batch in replica.batches]}"
        for replica in cluster.replicas.values()
    )
    events = "\n".join(f"  {event}" for event in cluster.events)
    return (
        f"seed {seed}, protocol {cluster.protocol}, min.insync.replicas {cluster.min_insync_replicas}: leader "
        f"{cluster.leader_id} epoch {cluster.leader_epoch} isr {sorted(cluster.isr)} "
        f"committed to {cluster.committed_end}\n{state}\n{events}"
    )


def _divide(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    """An opening that chance alone seldom makes: one replica is left behind, the others die, and it leads uncleanly."""
    *others, behind = _living_followers(cluster)
    for _ in range(chance.randint(0, 2)):
        _produce(cluster, chance, lost_tails)
        cluster.fetch(behind, 3)
    cluster.shrink(behind)
    for _ in range(chance.randint(1, 4)):
        _produce(cluster, chance, lost_tails)
        for _ in range(2):
            for broker_id in others:
                cluster.fetch(broker_id, 3)
    for broker_id in (*others, cluster.leader_id):
        replica = cluster.replicas[broker_id]
        replica.checkpoint = replica.high_watermark
        cluster.crash(broker_id, _lost(chance, lost_tails))
    cluster.elect(behind)
    for _ in range(chance.randint(0, 4)):
        _produce(cluster, chance, lost_tails)


def _alternate(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    """Another: two replicas lead in turn, and neither sees what the other wrote (KIP-279's fast fail-overs)."""
    pair = (cluster.leader_id, chance.choice(_living_followers(cluster)))
    for turn in range(chance.randint(1, 6)):
        for _ in range(chance.randint(1, 3)):
            _produce(cluster, chance, lost_tails)
        if turn == 0 or chance.random() < 0.2:
            cluster.fetch(next(one for one in pair if one != cluster.leader_id), 2)
        successor = next(one for one in pair if one != cluster.leader_id)
        cluster.crash(cluster.leader_id, _lost(chance, lost_tails))
        if not cluster.replicas[successor].alive:
            cluster.restart(successor)
        cluster.elect(successor, chance.choice((1, 1, 2)))


def _living_followers(cluster: Cluster) -> list[int]:
    return [r.broker_id for r in cluster.replicas.values() if r.alive and r.broker_id != cluster.leader_id]


def _produce(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    # The generations before KIP-279 can cut anywhere; with one record to a batch that is a batch boundary.
    single = cluster.protocol in ("high-watermark", "kip-101")
    cluster.produce(1 if single else chance.randint(1, 5))


def _fetch(cluster: Cluster, chance: random.Random, lost_tails: bool, zombie: bool = False) -> None:
    followers = _living_followers(cluster)
    if followers:
        cluster.fetch(chance.choice(followers), chance.randint(1, 3), chance.random() < 0.9, zombie)


def _zombie_fetch(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    _fetch(cluster, chance, lost_tails, zombie=True)


def _checkpoint(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    replica = chance.choice([replica for replica in cluster.replicas.values() if replica.alive])
    replica.checkpoint = replica.high_watermark


def _flush(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    replica = chance.choice([replica for replica in cluster.replicas.values() if replica.alive])
    replica.recovery_point = replica.log_end


def _shrink(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    members = sorted(cluster.isr - {cluster.leader_id})
    if members:
        cluster.shrink(chance.choice(members))


def _lost(chance: random.Random, lost_tails: bool) -> int:
    return chance.choice((0, 0, 1, 2)) if lost_tails else 0


def _fail_over(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    """The leader dies; an ISR member follows it, or, when it was the last one, it comes back itself."""
    old = cluster.leader_id
    cluster.crash(old, _lost(chance, lost_tails))
    living = {broker_id for broker_id in cluster.elr if cluster.replicas[broker_id].alive}
    candidates = sorted(cluster.isr - {old}) or sorted(living) or [old]
    successor = chance.choice(candidates)
    if successor == old:
        cluster.restart(old)
    cluster.elect(successor, chance.choice((1, 1, 2)))


def _unclean_fail_over(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    outsiders = [broker_id for broker_id in _living_followers(cluster) if broker_id not in cluster.isr]
    if outsiders:
        cluster.crash(cluster.leader_id, _lost(chance, lost_tails))
        cluster.elect(chance.choice(outsiders), chance.choice((1, 1, 2)))


def _move_leader(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    """An election with every broker up: also of the leader itself, which leaves an epoch without records."""
    cluster.elect(chance.choice(sorted(b for b in cluster.isr | cluster.elr if cluster.replicas[b].alive)), 1)


def _crash_follower(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    followers = _living_followers(cluster)
    if followers:
        cluster.crash(chance.choice(followers), _lost(chance, lost_tails))


def _kill_truncating(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    """A follower is killed as it is cut."""
    due = [one for one in _living_followers(cluster) if cluster.is_cut_next(one)]
    if due:
        cluster.kill_truncating(chance.choice(due), chance.random() < 0.5)


def _stop(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    """A broker stops in order: a follower, or the leader, whom a member of the ISR follows if there is one."""
    living = [replica.broker_id for replica in cluster.replicas.values() if replica.alive]
    broker_id = chance.choice(living)
    if broker_id != cluster.leader_id or cluster.isr & {*living} - {broker_id}:
        cluster.stop(broker_id)


def _restart(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    dead = [replica.broker_id for replica in cluster.replicas.values() if not replica.alive]
    if dead:
        cluster.restart(chance.choice(dead))


def _retention(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    replica = chance.choice([replica for replica in cluster.replicas.values() if replica.alive])
    ends = [batch.end_offset for batch in replica.batches if batch.end_offset <= replica.high_watermark]
    if ends:
        replica.advance_log_start(chance.choice(ends[: max(1, len(ends) // 2)]))
        cluster.events.append(f"broker {replica.broker_id} deletes below {replica.log_start}")


def _delete_records(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    """DeleteRecords on the leader; followers hear of it with their next fetch."""
    leader = cluster.leader
    ends = [one.end_offset for one in leader.batches if leader.first_offset < one.end_offset <= leader.high_watermark]
    if leader.alive and ends:
        leader.delete_records(chance.choice(ends))
        cluster.events.append(f"records below {leader.first_offset} are deleted")


def _new_disk(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    """A broker that is down and out of sync comes back with an empty disk."""
    dead = [one for one in cluster.replicas.values() if not one.alive and one.broker_id not in cluster.isr]
    if dead:
        replica = chance.choice(dead)
        replica.replace_disk()
        cluster.restart(replica.broker_id)
        cluster.events.append(f"broker {replica.broker_id} has a new disk")


def _fail_disk(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    """That of a follower, or of the leader, whom a member of the ISR follows if there is one."""
    living = [one for one in cluster.replicas.values() if one.alive]
    if len(living) < 2:
        return
    replica = chance.choice(living)
    candidates = sorted(cluster.isr - {replica.broker_id})
    if replica.broker_id != cluster.leader_id:
        cluster.fail_disk(replica.broker_id)
    elif candidates:
        cluster.fail_disk(replica.broker_id)
        cluster.elect(chance.choice(candidates))


def _create_anew(cluster: Cluster, chance: random.Random, lost_tails: bool) -> None:
    if any(one.alive for one in cluster.replicas.values()):
        cluster.create_anew()


_HAPPENINGS: dict[str, Callable[[Cluster, random.Random, bool], None]] = {
    "produce": _produce,
    "fetch": _fetch,
    "zombie_fetch": _zombie_fetch,
    "checkpoint": _checkpoint,
    "flush": _flush,
    "shrink": _shrink,
    "fail_over": _fail_over,
    "unclean_fail_over": _unclean_fail_over,
    "move_leader": _move_leader,
    "crash_follower": _crash_follower,
    "kill_truncating": _kill_truncating,
    "stop": _stop,
    "restart": _restart,
    "retention": _retention,
    "delete_records": _delete_records,
    "new_disk": _new_disk,
    "fail_disk": _fail_disk,
    "create_anew": _create_anew,
}

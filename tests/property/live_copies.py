"""The simulated cluster as somebody finds it who copies one running broker after the other, mostly without a manifest.

The files of a broker are of moments of their own. In the order of C.2 (checkpoints, log, epoch file, its metadata log) what says who
leads is of a later one; in any order, as `cp -r` and `rsync` copy, each file is of any moment; in an image of a disk all are of one, and
the log ends where it had been written to the disk.
"""

from __future__ import annotations

import random
from copy import copy
from dataclasses import dataclass, replace

from tests.property.capture import leadership_of, to_model
from tests.property.cluster import Cluster
from tests.property.history import narrate, play
from tests.property.replica import Replica
from tests.support.encoder import TIMESTAMP_MS

from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import PartitionAudit, conclude
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.snapshot.inventory import CopiedLogDir

#: How many events before the end the copying begins.
_SPANS = (3, 10, 30, 120)
#: Between two moments.
_MOMENT_MS = 60_000
_SOURCES = ("metadata_log", "topics_describe", "user", "metadata_log")


@dataclass(frozen=True, slots=True)
class LiveCopy:
    """A history, the audit of its copies, and what only the simulation knows."""

    cluster: Cluster
    """As who leads is read."""
    copies: Cluster
    """What was copied, as if a cluster had it."""
    audit: PartitionAudit
    went_down_midway: frozenset[int]
    """Brokers that went down while they were copied: a file of theirs is older than their copy of the metadata log, which reaches to
    that moment."""
    story: str

    @property
    def lost(self) -> bool:
        """True if a committed batch was lost, and is not on the leader's log."""
        return self.cluster.has_lost


def copy_live(
    seed: int,
    *,
    any_order: bool = False,
    images: bool = False,
    stopped: bool = False,
    flagged: bool = True,
    timed: bool = False,
    source: str | None = None,
    **options: object,
) -> LiveCopy:
    """The audit of a history's copies; `options` are those of `play`. `source` of leadership: by the seed if None.

    `stopped`: brokers are stopped cleanly in the end. Their flag was copied after that, unless not `flagged`, and their other files at
    moments of their own. `timed`: a manifest has begin and end of each copy.
    """
    moments: list[Cluster] = []
    cluster = play(seed, deletions=True, watch=lambda one: moments.append(_as_now(one)), **options)
    chance = random.Random(f"copied {seed}")
    if stopped:
        moments += _stop(cluster, chance)
    elif chance.random() < 0.4:
        moments += _go_down(cluster, chance, bool(options.get("lost_tails", True)))
    first = max(0, len(moments) - chance.choice(_SPANS))
    mixed, down, midway, times, copied = copy(moments[-1]), [], [], [], []
    mixed.replicas = {}
    last = first
    for broker_id in cluster.replicas:
        of = sorted(chance.choices(range(first, len(moments)), k=4))
        of += [of[0], chance.randint(max(0, of[0] - 10), of[0])]
        if any_order:
            of = chance.choices(range(first, len(moments)), k=6)
        if images:
            of = [of[0]] * 6
        marks, log, epochs, metadata, flushed = (moments[one].replicas[broker_id] for one in of[:5])
        if images and log.alive:
            log = _as_flushed(log, chance)
        # In the order of C.2 it is copied first; nobody starts a broker while it is copied.
        flags = moments[of[0] : of[3] + 1] if timed and not any_order else moments[-1:]
        # A clean stop writes the log starts, too; else that is done every minute.
        of[5] = max(
            (one for one in range(of[5], of[0] + 1) if moments[one].replicas[broker_id].clean_shutdown), default=of[5]
        )
        starts = moments[of[5]].replicas[broker_id]
        mixed.replicas[broker_id] = replace(
            log,
            checkpoint=marks.checkpoint,
            recovery_point=flushed.recovery_point,
            deleted_to=starts.deleted_to,
            # A directory of another life has another name by then.
            cache=(epochs if epochs.life == log.life else log).cache,
            is_cache_written=(epochs if epochs.life == log.life else log).is_cache_written,
            clean_shutdown=flagged and all(one.replicas[broker_id].clean_shutdown for one in flags),
        )
        times.append(f"broker {broker_id} at {of}")
        begin, end = (TIMESTAMP_MS + _MOMENT_MS * one + _MOMENT_MS // 2 for one in (of[0], of[3]))
        copied.append(CopiedLogDir(broker_id, f"broker-{broker_id}", begin, end, None))
        last = max(last, of[2])
        if not metadata.alive and not metadata.offline:
            down.append((broker_id, of[3], of[0]))
            within = moments[min(of) : max(of) + 1]
            midway += [broker_id] if any(one.replicas[broker_id].alive for one in within) else []
    until = chance.randrange(first if any_order else last, len(moments))
    now = moments[until]
    # A begin of the copying, which the broker's copy of the metadata log goes past, shows that it went down meanwhile.
    gone = [
        one
        for one, at, begun in down
        if not any(moment.replicas[one].alive for moment in moments[min(begun if timed else at, until) : until + 1])
    ]
    source = source or _SOURCES[seed % len(_SOURCES)]
    leadership = replace(leadership_of(now, source), down_when_copied=tuple(gone if source == "metadata_log" else ()))
    if now.history[-1].leader_id is None:
        leadership = replace(leadership, leader_id=None)
    evidence, batches = to_model(mixed, source="inferred", protocol=cluster.protocol)
    known = evidence.options._replace(times=CaptureTimes(tuple(copied if timed else ())))
    audit = conclude(ComparisonPlan(replace(evidence, leadership=leadership, options=known)), batches)
    told = "\n".join(f"  {f.severity} {f.code} broker {f.broker_id} {f.message}" for f in audit.findings)
    story = f"{', '.join(times)}, leadership by {source} at {until}: {audit.verdict}\n{told}\n{narrate(seed, cluster)}"
    return LiveCopy(now, mixed, audit, frozenset(midway) & frozenset(gone), story)


def _as_now(cluster: Cluster) -> Cluster:
    """The cluster as it is at this moment."""
    now = copy(cluster)
    now.replicas = {number: copy(one) for number, one in cluster.replicas.items()}
    for one in now.replicas.values():
        one.batches, one.cache = list(one.batches), list(one.cache)
    now.isr, now.elr, now.history = set(cluster.isr), set(cluster.elr), list(cluster.history)
    now.committed, now.lost = dict(cluster.committed), dict(cluster.lost)
    now.killed, now.fenced_since = set(cluster.killed), dict(cluster.fenced_since)
    cluster.events.append(f"-- {len(cluster.events)}")
    cluster.clock_ms += _MOMENT_MS
    return now


def _as_flushed(log: Replica, chance: random.Random) -> Replica:
    """A log of which some of what lies past the recovery point is not on the disk yet."""
    batches = [one for one in log.batches if one.end_offset <= log.recovery_point]
    batches = log.batches[: chance.randint(len(batches), len(log.batches))]
    return replace(log, batches=batches, log_end=batches[-1].end_offset if batches else log.log_start)


def _stop(cluster: Cluster, chance: random.Random) -> list[Cluster]:
    """Brokers are stopped cleanly one after the other, and records are produced and fetched between; each moment of it."""
    moments = []
    for broker_id in chance.sample(sorted(cluster.replicas), k=chance.randint(1, len(cluster.replicas))):
        if cluster.replicas[broker_id].alive:
            cluster.stop(broker_id)
            moments.append(_as_now(cluster))
        if cluster.leader.alive:
            cluster.produce(chance.randint(1, 3))
            moments.append(_as_now(cluster))
            for other in [one for one, replica in cluster.replicas.items() if replica.alive]:
                if other != cluster.leader_id:
                    cluster.fetch(other, 2)
                    moments.append(_as_now(cluster))
    return moments


def _go_down(cluster: Cluster, chance: random.Random, lost_tails: bool) -> list[Cluster]:
    """Followers go down, and where nobody else is in sync the leader does; each moment of it."""
    moments = []
    lost = (0, 0, 1, 2) if lost_tails else (0,)
    for one in [replica for replica in cluster.replicas.values() if replica.alive]:
        if one is not cluster.leader and chance.random() < 0.5:
            cluster.crash(one.broker_id, chance.choice(lost))
            moments.append(_as_now(cluster))
    if cluster.isr == {cluster.leader_id} and cluster.leader.alive:
        cluster.crash(cluster.leader_id, chance.choice(lost))
        moments.append(_as_now(cluster))
    return moments

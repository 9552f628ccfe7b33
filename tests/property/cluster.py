"""A simulated cluster of one partition: leader, followers, ISR, elections, crashes, as Kafka's rules have them.

Follows `Partition.maybeIncrementLeaderHW` for the high watermark and `AbstractFetcherThread` for truncation in the
four generations of `replica_audit.literals.PROTOCOLS`. Deterministic: all chance is the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.property.replica import Batch, Replica
from tests.support.encoder import TIMESTAMP_MS, encode_batch

from replica_audit.model import PartitionState


@dataclass(frozen=True, slots=True)
class Elected:
    """An election as it was: who, whether cleanly, and which batches the new leader's log had."""

    leader_epoch: int
    leader_id: int
    clean: bool
    held: frozenset[bytes]


@dataclass(slots=True)
class Cluster:
    """The partition's state, and the truth that an audit does not see: what was ever committed, what went wrong."""

    replica_count: int = 3
    protocol: str = "fetch"
    min_insync_replicas: int = 1
    eligible: bool = False
    """True if there are eligible leader replicas (KIP-966)."""
    replicas: dict[int, Replica] = field(init=False)
    leader_id: int = 0
    leader_epoch: int = 0
    isr: set[int] = field(init=False)
    elr: set[int] = field(default_factory=set)
    known_log_ends: dict[int, int] = field(default_factory=dict)
    """The leader's view of its followers: the offset of their last accepted fetch."""
    committed: dict[bytes, Batch] = field(default_factory=dict)
    """Every batch that was ever below a leader's high watermark."""
    lost: dict[bytes, Batch] = field(default_factory=dict)
    """Every committed batch that a leader lacked as it was elected, and had not deleted by retention."""
    events: list[str] = field(default_factory=list)
    lost_tails: int = 0
    """Crashes that lost committed records of a replica."""
    zombie_fetches: int = 0
    written: int = 0
    history: list[PartitionState] = field(default_factory=list)
    """Records that a controller would have written."""
    elected: list[Elected] = field(default_factory=list)
    life: int = 0
    """How often the topic was created anew."""
    fenced_since: dict[int, int] = field(default_factory=dict)
    """Number of the first state since a broker went down, by its id."""
    killed: set[int] = field(default_factory=set)
    """Brokers that came back from a crash since the last state."""
    clock_ms: int = TIMESTAMP_MS

    def __post_init__(self) -> None:
        self.replicas = {broker_id: Replica(broker_id) for broker_id in range(self.replica_count)}
        self.isr = set(self.replicas)
        self._lead(0, 0)
        self._note("created")

    @property
    def leader(self) -> Replica:
        return self.replicas[self.leader_id]

    @property
    def committed_end(self) -> int:
        """The true high watermark: the end of what was ever committed and is on the leader's log."""
        ends = [batch.end_offset for batch in self.leader.batches if batch.content in self.committed]
        return max(ends, default=self.leader.first_offset)

    def lost_batches(self) -> list[Batch]:
        """Batches that were committed and that the leader neither has nor has deleted by retention."""
        held = {batch.content for batch in self.leader.batches}
        return [
            batch
            for batch in self.committed.values()
            if batch.content not in held and batch.end_offset > self.leader.first_offset
        ]

    @property
    def has_lost(self) -> bool:
        """True if a committed batch was lost and has not come back; the leader may have deleted since what it has in its place."""
        held = {batch.content for batch in self.leader.batches}
        return bool(self.lost.keys() - held or self.lost_batches())

    def produce(self, record_count: int) -> None:
        """The leader appends one batch."""
        leader, self.written = self.leader, self.written + 1
        timestamp = TIMESTAMP_MS + 1000 * self.written
        content = encode_batch(
            leader.log_end, record_count, self.leader_epoch, timestamp_ms=timestamp, mark=str(self.written)
        )
        end = leader.log_end + record_count
        leader.append(Batch(leader.log_end, end, self.leader_epoch, timestamp, content))
        self._log(f"produce {record_count} -> leader {self.leader_id} ends at {end}")
        self._advance_high_watermark()

    def fetch(self, broker_id: int, max_batches: int, join_isr: bool = True, zombie: bool = False) -> None:
        """One round of a follower: truncate as its generation does, or fetch up to `max_batches`.

        `zombie` skips the truncation, as a follower did that missed a change of leader (KAFKA-6880).
        """
        follower, leader = self.replicas[broker_id], self.leader
        if zombie:
            self.zombie_fetches += 1
        elif self._truncates(follower):
            self._log(f"broker {broker_id} truncated to {follower.log_end}")
            return
        if follower.log_end > leader.log_end:
            follower.truncate_to(leader.log_end)
            self._log(f"broker {broker_id} out of range, now ends at {follower.log_end}")
            return
        if follower.log_end < leader.first_offset:
            follower.truncate_fully(leader.first_offset)
            self._log(f"broker {broker_id} emptied, starts at {follower.log_start}")
            return
        position = follower.log_end
        self.known_log_ends[broker_id] = position
        epoch_start = next((start for epoch, start in leader.cache if epoch == self.leader_epoch), leader.log_end)
        if join_isr and broker_id not in self.isr and position >= max(leader.high_watermark, epoch_start):
            self.isr.add(broker_id)
            self.elr = self.elr - {broker_id} if self._is_below_minimum else set()
            self._note()
            self._log(f"broker {broker_id} joins the ISR at {position}")
        self._advance_high_watermark()
        served = [batch for batch in leader.batches if batch.end_offset > position][:max_batches]
        if served and served[0].base_offset < position:
            if position > follower.first_offset:
                # A zombie's end can lie anywhere: the append is refused, and Kafka gives the partition up as failed.
                assert self.zombie_fetches, "a follower's end lies inside a batch of its leader"
                return
            # The follower was emptied under another leader, to an offset inside this one's batch (KAFKA-6975).
            follower.truncate_fully(served[0].base_offset)
        for batch in served:
            follower.append(batch)
        follower.high_watermark = max(follower.log_start, min(leader.high_watermark, follower.log_end))
        follower.advance_log_start(min(leader.log_start, follower.high_watermark))
        follower.delete_records(min(leader.first_offset, follower.high_watermark))
        self._log(f"broker {broker_id} fetched {position}..{follower.log_end}, hw {follower.high_watermark}")

    def shrink(self, broker_id: int) -> None:
        """A follower falls out of the ISR for lag."""
        self._out_of_sync(broker_id)
        self._note()
        self._log(f"broker {broker_id} leaves the ISR")
        self._advance_high_watermark()

    def elect(self, broker_id: int, epochs: int = 1) -> None:
        """Make a living replica the leader, `epochs` epochs on; out of the ISR is unclean and resets the ISR."""
        clean = broker_id in self.isr | self.elr
        if broker_id != self.leader_id or self.history[-1].leader_id is None:
            held = frozenset(batch.content for batch in self.replicas[broker_id].batches)
            self.elected.append(Elected(self.leader_epoch + epochs, broker_id, clean, held))
        if broker_id not in self.isr:
            self.isr = {broker_id}
            self.elr = self.elr - {broker_id} if clean else set()
        self._log(
            f"broker {broker_id} elected {'cleanly' if clean else 'uncleanly'}, epoch {self.leader_epoch + epochs}"
        )
        self._lead(broker_id, self.leader_epoch + epochs)
        self._note(recovering=not clean)

    def crash(self, broker_id: int, lost_batches: int) -> None:
        """A broker dies with its unflushed tail. It leaves the ISR, unless it is the last member."""
        replica = self.replicas[broker_id]
        lost = replica.lose_tail(lost_batches)
        replica.alive = False
        self.lost_tails += any(batch.content in self.committed for batch in lost)
        self._leave(broker_id, f"crashes, ends at {replica.log_end}")

    def is_cut_next(self, broker_id: int) -> bool:
        """True if the next round of a follower is a truncation."""
        follower = self.replicas[broker_id]
        return self._truncates(replace(follower, batches=list(follower.batches), cache=list(follower.cache)))

    def kill_truncating(self, broker_id: int, is_file_cut: bool) -> None:
        """A broker is killed after it cut its log, if that is due, and before it wrote the smaller recovery point (`LogManager.truncateTo`).

        The epoch file is written before that, or by a thread of its own (3.8).
        """
        replica = self.replicas[broker_id]
        recovery_point, cache = replica.recovery_point, list(replica.cache)
        self._truncates(replica)
        replica.recovery_point = recovery_point
        if not is_file_cut:
            replica.cache = cache
        self.crash(broker_id, 0)

    def fail_disk(self, broker_id: int) -> None:
        """A broker's log directory fails: the broker runs on, and the replica is offline until it starts again with the directory."""
        replica = self.replicas[broker_id]
        replica.alive, replica.offline = False, True
        self._leave(broker_id, f"has an offline log directory, which ends at {replica.log_end}")

    def create_anew(self) -> None:
        """The topic is deleted and created again under its name. A broker that is down, or whose disk failed, keeps the old directory."""
        self.life += 1
        alive = {one.broker_id for one in self.replicas.values() if one.alive}
        for broker_id in alive:
            self.replicas[broker_id].replace_disk()
            self.replicas[broker_id].life = self.life
        self.fenced_since = dict.fromkeys(self.fenced_since, 0)
        self.elr = set()
        self.isr, self.committed, self.lost, self.history, self.elected, self.killed = set(alive), {}, {}, [], [], set()
        self._log(f"the topic is created anew, isr {sorted(alive)}")
        self._lead(min(alive), 0)
        self._note("created")

    def stop(self, broker_id: int) -> None:
        """A broker stops cleanly. A leader gives its partition to another member of the ISR first, if there is one."""
        others = sorted(one for one in self.isr if one != broker_id and self.replicas[one].alive)
        if broker_id == self.leader_id and others:
            self.elect(others[0])
        self.replicas[broker_id].stop()
        self._leave(broker_id, f"stops at {self.replicas[broker_id].log_end}", in_order=True)

    def _out_of_sync(self, broker_id: int) -> None:
        """Below min.insync.replicas, whoever leaves the ISR stays eligible (`PartitionChangeBuilder.maybePopulateTargetElr`)."""
        was_in_sync = broker_id in self.isr
        self.isr.discard(broker_id)
        if self.eligible and was_in_sync and self._is_below_minimum:
            self.elr.add(broker_id)

    @property
    def _is_below_minimum(self) -> bool:
        return len(self.isr) < min(self.min_insync_replicas, self.replica_count)

    def _leave(self, broker_id: int, how: str, in_order: bool = False) -> None:
        """What the others do once a broker is down."""
        if not self.replicas[broker_id].offline:
            self.fenced_since[broker_id] = len(self.history)
        if len(self.isr) > 1 or self.eligible:
            self._out_of_sync(broker_id)
        if broker_id != self.leader_id:
            self._note()
        elif not any(self.replicas[one].alive for one in self.isr):
            # Nobody is left to lead, which begins an epoch; else the election of another member is the next record.
            self.leader_epoch += 1
            self._note(leader_id=None, leader_stopped=in_order)
        self._log(f"broker {broker_id} {how}, isr {sorted(self.isr)}")
        if broker_id != self.leader_id:
            self._advance_high_watermark()

    def restart(self, broker_id: int) -> None:
        if self.replicas[broker_id].life < self.life:  # a stray, which is put aside
            self.replicas[broker_id].replace_disk()
            self.replicas[broker_id].life = self.life
        if not self.replicas[broker_id].clean_shutdown:
            self.killed.add(broker_id)
            if broker_id in self.elr:
                self.elr.discard(broker_id)
                self._note(leader_id=self.history[-1].leader_id)
        self.replicas[broker_id].restart()
        self.fenced_since.pop(broker_id, None)
        self._log(f"broker {broker_id} restarts at {self.replicas[broker_id].log_end}")

    def _lead(self, broker_id: int, leader_epoch: int) -> None:
        self.leader_id, self.leader_epoch = broker_id, leader_epoch
        self.known_log_ends = {}
        if self.protocol in ("kip-279", "fetch"):
            # Since KAFKA-7415; before, an epoch without records left no trace.
            self.leader.assign(leader_epoch, self.leader.log_end)
        self._advance_high_watermark()
        self.lost.update({batch.content: batch for batch in self.lost_batches()})

    def _note(
        self, occasion: str = "changed", recovering: bool = False, leader_stopped: bool = False, **leader: int | None
    ) -> None:
        """Add a state to the history."""
        number = len(self.history)
        fields = {"leader_id": self.leader_id, "leader_epoch": self.leader_epoch, **leader}
        self.history.append(
            PartitionState(
                time_ms=self.clock_ms + number,
                metadata_offset=number,
                occasion=occasion,
                partition_epoch=number,
                isr=tuple(sorted(self.isr)),
                elr=tuple(sorted(self.elr)),
                last_known_elr=(),
                replicas=tuple(sorted(self.replicas)),
                removing=(),
                adding=(),
                directories=(),
                recovering=recovering,
                leader_stopped=leader_stopped,
                configs={"min.insync.replicas": str(self.min_insync_replicas)},
                crashed=tuple(sorted(self.killed)),
                **fields,
            )
        )
        self.killed = set()

    def _advance_high_watermark(self) -> None:
        leader = self.leader
        if not leader.alive or self._is_below_minimum:
            return
        others = (self.known_log_ends.get(broker_id, -1) for broker_id in self.isr if broker_id != self.leader_id)
        candidate = min([leader.log_end, *others])
        if candidate > leader.high_watermark:
            leader.high_watermark = candidate
            self.committed.update({batch.content: batch for batch in leader.batches if batch.end_offset <= candidate})
            self._log(f"high watermark {candidate}")

    def _truncates(self, follower: Replica) -> bool:
        """Do the truncation that is due before the next fetch; True when this round went into it."""
        leader = self.leader
        if self.protocol == "fetch":
            answer = leader.end_offset_for(follower.latest_epoch)
            if answer is None or follower.log_end < leader.first_offset:
                return False
            if answer[0] >= follower.latest_epoch and answer[1] >= follower.log_end:
                return False
            self._apply(follower, *answer)
            return True
        if follower.follows_epoch == self.leader_epoch:
            return False
        follower.follows_epoch = self.leader_epoch
        before = follower.log_end
        if self.protocol == "high-watermark":
            follower.truncate_to(follower.high_watermark)
        elif self.protocol == "kip-101":
            answer = leader.end_offset_for(follower.latest_epoch)
            known = answer is not None and follower.latest_epoch >= leader.cache[0][0]
            target = min(answer[1], follower.log_end) if known else follower.high_watermark
            follower.truncate_to(target)
        else:
            self._step_back(follower)
        return follower.log_end < before

    def _step_back(self, follower: Replica) -> None:
        done = False
        while not done and follower.cache:
            answer = self.leader.end_offset_for(follower.latest_epoch)
            if answer is None:
                follower.truncate_to(follower.high_watermark)
                return
            done = self._apply(follower, *answer)

    def _apply(self, follower: Replica, leader_epoch: int, leader_end: int) -> bool:
        """Cut by one answer of the leader; True when leader and follower named the same epoch."""
        own = follower.end_offset_for(leader_epoch)
        if own is None:
            target, done = leader_end, True
        elif own[0] != leader_epoch:
            target, done = own[1], False
        else:
            target, done = min(own[1], leader_end), True
        follower.truncate_to(min(target, follower.log_end))
        return done

    def _log(self, event: str) -> None:
        self.events.append(event)

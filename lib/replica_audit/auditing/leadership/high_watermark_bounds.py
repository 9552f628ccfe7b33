"""The high watermark as an interval (C.2): at least what the files prove, at most what the log ends of in-sync replicas allow.

If the leadership history determines it exactly, the two are equal (X1 and X2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.replicas.later_files import later_entry
from replica_audit.auditing.replicas.offset_ranges import deleted_end
from replica_audit.auditing.replicas.reference import last_possible_term, led_with_another_log
from replica_audit.batch_header import or_absent
from replica_audit.model import min_isr_of
from replica_audit.protocol.election import CleanElections, last_led
from replica_audit.protocol.versions import stands_still_below_min_isr
from replica_audit.text import name_offsets

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.leadership.capture_times import CaptureTimes
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import Leadership, OffsetRange, PartitionState, RemoteSegment


#: Preallocated files have a configured length, usually a multiple of this, as the default is.
_ROUND_BYTES = 1 << 20


class LogEnd(NamedTuple):
    """Upper bound of the high watermark: the end of one replica's agreement with the leader."""

    broker_id: int
    offset: int
    text: str
    of_reference: bool = False

    @property
    def limiting_broker_id(self) -> int | None:
        """Broker that limits the high watermark; None if it is the reference's."""
        return None if self.of_reference else self.broker_id


def bounding_ends(
    reference: Reference,
    comparisons: Sequence[Comparison],
    leadership: Leadership | None,
    *,
    one_moment: bool,
    times: CaptureTimes,
) -> tuple[list[LogEnd], list[str]]:
    """Log ends that bound the high watermark, the reference's first, and clauses on why other candidates' ends do not.

    Candidates are the leader, the last one if there is none, an inferred reference, the members of the ISR, and eligible leader replicas.
    """
    leader = reference.facts
    replicas = (leader, *(item.follower for item in comparisons))
    here = {facts.broker_id for facts in replicas}
    members = {*(reference.isr or ()), *reference.elr}
    found: list[LogEnd] = []
    open_ends: list[str] = []
    if leader.broker_id in members or reference.is_led:
        reason = _why_leader_is_open(reference, replicas, leadership)
        if reason is None:
            end = leader.log_end_offset
            found.append(
                LogEnd(leader.broker_id, end, f"log end {end} of broker {leader.broker_id}, the reference", True)
            )
        else:
            open_ends.append(reason)
    is_bounded = bool(found)
    for item in comparisons:
        facts = item.follower
        if facts.broker_id not in members:
            continue
        reason = why_open(facts, replicas, leadership) or why_down(facts, leadership)
        if not one_moment and reason is None and later_entry(facts, replicas) is not None:
            reason = f"the log of broker {facts.broker_id} was cut after it was copied, by its own epoch file"
        suffix = item.diverging_suffix
        is_whole = suffix is None and facts.log_end_offset >= leader.log_end_offset
        if not one_moment and reason is None and not (is_bounded and is_whole):
            reason = _why_out_of_sync(reference, facts, times)
        if reason is None and not is_whole and _keeps_no_epochs(facts, leader, suffix):
            reason = (
                f"broker {facts.broker_id} keeps no epochs: it may have been cut below what was committed, or have kept other "
                "records, and be in sync all the same"
            )
        if reason is not None:
            open_ends.append(reason)
            continue
        what = "log end" if suffix is None else "start of the diverging tail"
        offset = facts.log_end_offset if suffix is None else suffix.start_offset
        text = f"{what} {offset} of broker {facts.broker_id}, which is in sync or eligible to lead"
        found.append(LogEnd(facts.broker_id, offset, text))
    candidates = members if reference.leader_id is None else {*members, reference.leader_id}
    open_ends += [f"no usable log of broker {broker_id} is here" for broker_id in sorted(candidates - here)]
    return found, open_ends


def _keeps_no_epochs(facts: ReplicaFacts, leader: ReplicaFacts, suffix: OffsetRange | None) -> bool:
    """True if a follower's log ends in records without epochs, or may have when it was emptied, or differs from the leader's since such a
    record, or its broker still has their message format: where the leader changes, it is cut at its own high watermark (A.3, B.1)."""
    if suffix is not None and any(one.is_epochless(suffix.start_offset) for one in (facts, leader)):
        return True
    shown = leader if facts.empty else facts
    ends_without = not (shown.needed_lineage or shown.empty)
    return ends_without or (facts.is_converted and not facts.file_entries)


def _why_out_of_sync(reference: Reference, facts: ReplicaFacts, times: CaptureTimes) -> str | None:
    """Reason, as a clause, why a log may have been copied before its broker came in sync. None if it was not, since it reaches the epoch of
    that moment, and the broker was down, its copy began later, or the log has a later epoch or a record that is as late."""
    history = reference.history
    members = [{*state.isr, *state.elr} for state in history]
    joined = [now for now, before, after in zip(history[1:], members, members[1:]) if facts.broker_id in after - before]
    if not joined:
        return None
    since = joined[-1]
    has_later = or_absent(facts.last_leader_epoch) > since.leader_epoch or any(
        (chunk.last_timestamp_ms or 0) >= since.time_ms for chunk in facts.chunks.values()
    )
    # Whoever joins the ISR has reached the start of the leader's epoch.
    is_short = facts.log_end_offset < or_absent(reference.facts.lineage.start_of(since.leader_epoch))
    if not is_short and (facts.is_at_rest or has_later or times.began_later(facts, since.time_ms)):
        return None
    return f"broker {facts.broker_id} may have been copied before it came in sync"


def _why_leader_is_open(
    reference: Reference, replicas: Sequence[ReplicaFacts], leadership: Leadership | None
) -> str | None:
    """Reason, as a clause, why the leader may have had more than the reference's files show; None if it may not."""
    leader = reference.facts
    if reference.predates:
        led = "led last" if reference.leader_id is None else f"began to lead in epoch {reference.leader_epoch}"
        return f"the files of broker {leader.broker_id} were copied before it {led}"
    if later := next(
        (one for one in replicas if one is not leader and reference.is_before(one.last_leader_epoch)), None
    ):
        newest = later.last_leader_epoch
        return f"broker {later.broker_id} has records of leader epoch {newest}, later than that of broker {leader.broker_id}"
    if led_with_another_log(leader, leadership):
        return f"the log of broker {leader.broker_id} is not the one with which it led last"
    if reason := why_open(leader, replicas, leadership) or why_down(leader, leadership):
        return reason
    # Where no source is newer than the logs, any assigned broker may lead in an unknown epoch.
    assigned = () if reference.outdated is None else reference.outdated.replicas or ()
    if unseen := {*assigned} - {facts.broker_id for facts in replicas}:
        return (
            f"the leadership given is older than the logs, and broker {min(unseen)}, of which no log is here, may lead"
        )
    return None


def why_open(facts: ReplicaFacts, replicas: Sequence[ReplicaFacts], leadership: Leadership | None) -> str | None:
    """Reason, as a clause, why a replica may have had more than its files show; None if it may not."""
    name = f"broker {facts.broker_id}"
    end = facts.log_end_offset
    checkpoint = facts.directory.high_watermark_checkpoint
    recovery_point = facts.directory.recovery_point_checkpoint
    if facts.is_left:
        return f"{name} left the disk with the log that is here"
    if facts.end_is_open:
        return f"the log of {name} may go on past {end}, as far as it is shown"
    if checkpoint is not None and checkpoint > end:
        return f"{name} ends at {end}, below its own checkpointed high watermark {checkpoint}"
    if recovery_point is not None and recovery_point > end:
        return f"{name} ends at {end}, below its own recovery point {recovery_point}"
    if facts.reached_offset > end:
        what = "the log" if facts.file_entries[-1][0] == facts.last_leader_epoch else "an epoch"
        return f"{name} ends at {end}, below {facts.reached_offset}, where {what} begins by its own epoch file"
    if facts.tail_kind == "zero_filled" and not is_preallocated(facts, replicas, leadership):
        return f"{name} has zeros after its last batch at {end}, where records may have been"
    if facts.tail_kind in ("partial", "garbage"):
        return f"{name} has unreadable bytes after its last sound batch, which ends at {end}"
    return None


def why_down(facts: ReplicaFacts, leadership: Leadership | None) -> str | None:
    """Reason, as a clause, why a replica may have lost its end in a kill or power loss; None if it runs or was stopped cleanly.

    A running broker never has the clean flag; the metadata log shows it as not fenced. An eligible leader replica left the ISR
    because it went down or lagged: if that is unknown, it may have been killed.
    """
    broker_id = facts.broker_id
    name = f"broker {facts.broker_id}"
    if facts.directory.clean_shutdown:
        return None
    if facts.killed:
        return f"{name} was killed, and may have had more than it has on disk"
    if leadership is None:
        return None
    if broker_id in leadership.perhaps_down:
        return f"{name} may have been killed, and may have had more than it has on disk"
    if leadership.fenced is None:
        unsure = broker_id in leadership.elr and broker_id != leadership.leader_id
        return f"{name} is eligible to lead, and may have been killed" if unsure else None
    if broker_id in leadership.fenced:
        return f"{name} was killed or lost power, and may have had more than it has on disk"
    return None


def is_preallocated(facts: ReplicaFacts, replicas: Sequence[ReplicaFacts], leadership: Leadership | None) -> bool:
    """True if zeros after the last batch are preallocated space (`log.preallocate`), not records lost in a power failure.

    A clean stop trims that space. Otherwise the file's length decides: that of `segment.bytes`, or the same on all replicas.
    """
    if facts.directory.clean_shutdown:
        return False
    length = facts.segments[-1].size_bytes
    configured = None if leadership is None else leadership.configs.get("segment.bytes")
    if configured == str(length) or length % _ROUND_BYTES == 0:
        return True
    lengths = {one.segments[-1].size_bytes if one.tail_kind == "zero_filled" else None for one in replicas}
    return len(replicas) > 1 and lengths == {length}


class RecordedHighWatermark(NamedTuple):
    """A high watermark recorded by a replica: everything below `offset` of the reference's log was committed."""

    offset: int
    reached: int
    """The recorded value; past `offset` if the reference lacks what was committed in its own epoch."""
    text: str
    may_be_later: bool = False
    """True if its replica's files are of moments in any order, so that it may be newer than the source of the ISR."""


def recorded_marks(
    reference: Reference,
    comparisons: Sequence[Comparison],
    leadership: Leadership | None,
    stable: tuple[int, RemoteSegment] | None,
) -> list[RecordedHighWatermark]:
    """High watermarks recorded by replicas that apply to the reference's lineage; never empty. Arguments as in `bound_high_watermark`.

    Each proves the log below an offset (`proven_below`). By the first line that fits:

    | the replica that recorded it | counts |
    |---|---|
    | knows only earlier epochs than a leader whose log is not here, which may have been elected uncleanly since | no |
    | conflicts with the reference around that offset | no |
    | was cut below that offset after its log was copied, so that the mark may be newer than the copy (`later_entry`, `_replaced_from`) | no |
    | has no batch in common with the reference, and the offset is the first that both could have | only if the reference is empty |
    | is any other, or the reference | yes |
    """
    leader = reference.facts
    led = reference.is_led
    clean = CleanElections.of(() if leadership is None else leadership.history)
    last_epoch = None if leadership is None else last_possible_term(leadership)
    latest = reference.complete(leader.lineage).latest_epoch
    if reference.leader_id is None and latest is not None and last_epoch is not None:
        latest = min(latest, last_epoch)  # the latest epoch has no leader, so no log starts it
    start = leader.log_start_offset
    found = [RecordedHighWatermark(start, start, f"log start {start} of broker {leader.broker_id}")]
    is_outdone = not led and _may_have_been_cut(leader, last_epoch, clean)
    if is_outdone:
        found = [
            RecordedHighWatermark(0, 0, "nothing: a later leader may have been elected without what the others have")
        ]
    for facts, stretches, agreed_above in (
        (leader, (), -1),
        *((item.follower, item.stretches, item.unseen_below) for item in comparisons),
    ):
        if not led and _may_have_been_cut(facts, last_epoch, clean):
            continue
        # Recorded under the reference's leadership or a later one. The reference may rightly lack what was recorded before,
        # unless every election since was clean. A log from before 0.11 does not show under whose leadership it was recorded.
        known = _latest_known_epoch(facts)
        is_current = latest is None or known >= latest or clean.between(known, latest) or not facts.has_epochs
        cut = later_entry(facts, (leader, *(item.follower for item in comparisons))) if facts.in_any_order else None
        replaced_from = _replaced_from(reference, comparisons) if facts is leader else None
        cut_at = cut.start_offset if cut is not None else replaced_from
        for value, name in _values(facts):
            if cut_at is not None and value > cut_at:
                continue
            offset = proven_below(leader, facts, value, clean)
            held = min(offset, facts.log_end_offset)
            # An empty leader shares no batch with the other, which had records from there on.
            from_empty = leader.empty and held == leader.log_end_offset >= agreed_above
            if _lies_within(stretches, held) or not (held > agreed_above or from_empty):
                continue
            passes = offset == leader.log_end_offset and not _lies_within(stretches, value) and is_current
            text = f"{name} {value} of broker {facts.broker_id}"
            text += "" if offset == value else f", which proves everything below {offset}"
            reached = value if passes else offset
            found.append(RecordedHighWatermark(offset, reached, text, may_be_later=facts.in_any_order))
    if stable is not None and not is_outdone:
        offset, segment = stable
        span = name_offsets(*segment.offsets)
        text = f"segment {segment.segment_id} in remote storage, {span}: only what is stable is copied"
        found.append(RecordedHighWatermark(min(offset, leader.log_end_offset), offset, text))
    return found


def _replaced_from(reference: Reference, comparisons: Sequence[Comparison]) -> int | None:
    """Offset from which a follower has later epochs' records in place of those of a reference copied before it led; None
    without one, or if the reference's mark is not newer than its log."""
    if not (reference.predates and reference.facts.in_any_order):
        return None
    last = or_absent(reference.facts.last_leader_epoch)
    later = (item for item in comparisons if or_absent(item.follower.last_leader_epoch) > last)
    return min((part.start_offset for item in later for part in item.stretches), default=None)


def _lies_within(stretches: Iterable[OffsetRange], offset: int) -> bool:
    return any(part.start_offset < offset <= part.end_offset for part in stretches)


def proven_below(leader: ReplicaFacts, facts: ReplicaFacts, value: int, clean: CleanElections) -> int:
    """Offset below which a replica's recorded high watermark `value` proves the reference's log committed.

    | value | the replica | offset |
    |---|---|---|
    | within both logs | | the value |
    | past the reference's end only | | that end |
    | past its own end | had the reference's records up to there | the value, or the reference's end |
    | past its own end | may not have had them | its own end |

    A value past an end was left by a lost tail or by a copy of another moment. It proves nothing from the start of the
    first epoch below it whose election may have been unclean: the replica may have been cut there since.
    """
    offset = min(value, leader.log_end_offset)
    if offset > facts.log_end_offset and not _wrote_up_to(leader, facts, offset):
        offset = facts.log_end_offset
    if value > min(facts.log_end_offset, leader.log_end_offset):
        offset = min(offset, _first_doubtful_start(leader, value, clean))
    return offset


def _values(facts: ReplicaFacts) -> list[tuple[int, str]]:
    directory = facts.directory
    found = [
        (
            directory.high_watermark_checkpoint,
            "high watermark" if directory.observed is not None else "checkpointed high watermark",
        ),
        (facts.log_start_offset, "log start"),
        (facts.committed_by_cleaner, "cleaner checkpoint"),
    ]
    return [(value, name) for value, name in found if value is not None]


def _wrote_up_to(leader: ReplicaFacts, facts: ReplicaFacts, offset: int) -> bool:
    """True if a log that ends below `offset` once had the leader's records up to there, as logs of one epoch have one leader.

    Its epoch file is written before the records, so its last epoch counts; it must be the leader's at `offset`.
    """
    entries = facts.file_entries
    if not entries or not facts.file_increases:
        return False
    epoch, start = entries[-1]
    known = start < facts.log_end_offset or leader.lineage.start_of(epoch) == start
    return known and leader.lineage.epoch_for_offset(offset - 1) == epoch


def _latest_known_epoch(facts: ReplicaFacts) -> int:
    return max((epoch for epoch, _ in facts.epoch_entries), default=-1)


def _may_have_been_cut(facts: ReplicaFacts, last_epoch: int | None, clean: CleanElections) -> bool:
    """True if an uncaptured leader may have been elected uncleanly, without what a replica had recorded."""
    known = _latest_known_epoch(facts)
    return last_epoch is not None and last_epoch > known and not clean.between(known, last_epoch)


def _first_doubtful_start(leader: ReplicaFacts, value: int, clean: CleanElections) -> int:
    """Start of the leader's first epoch below `value` that an unclean election may have preceded; else `value`.

    The first epoch of a log counts as clean.
    """
    starts: dict[int, int] = {}
    for epoch, start in (*leader.lineage, *(leader.file_lineage or ())):
        starts[epoch] = min(start, starts.get(epoch, start))
    entries = sorted(starts.items())
    for (before, _), (epoch, start) in zip(entries, entries[1:]):
        if start < value and not clean.between(before, epoch):
            return start
    return value


class HighWatermark(NamedTuple):
    """Interval [hw_lower, hw_upper] that contains the true high watermark, unless it moved during the capture (method capture_skew)."""

    hw_lower: int
    hw_upper: int | None
    """None if no log end bounds it."""
    proven_lower: int
    """End of what was committed, even if copies of different moments put the interval lower."""
    reached: int
    """Greatest high watermark seen by a replica; past `proven_lower` if the reference lacks what is between."""
    method: str
    proof: str
    """Clause on the proof of `proven_lower`."""
    lower_evidence: str
    upper_evidence: str
    limiting_broker_id: int | None
    """Follower whose log end bounds it; None if something else does."""
    leader_end_bounds: bool
    """True if the reference's log ends where the leader's did, so that nothing was committed past it."""
    lowest_suffix: tuple[int, int] | None = None
    """(broker id, offset) of the in-sync replica whose conflicting or unreadable suffix starts lowest below hw_lower."""
    earlier_suffix: tuple[int, int] | None = None
    """Such a suffix on a replica that may have been cut to match after its copy, or may no longer be in sync."""
    bounding_brokers: frozenset[int] = frozenset()
    """Brokers whose log ends bound it if they have not changed (`bounding_ends`)."""

    @property
    def exact(self) -> bool:
        return self.hw_lower == self.hw_upper

    def admits(self, offset: int) -> bool:
        """True if the interval contains `offset`."""
        return self.hw_lower <= offset and (self.hw_upper is None or offset <= self.hw_upper)

    def bounded(self, offset: int, evidence: str) -> HighWatermark:
        """Narrow the interval from above to `offset`."""
        method = "bounds_meet" if offset == self.hw_lower else "interval"
        return self._replace(hw_upper=offset, method=method, upper_evidence=evidence, limiting_broker_id=None)

    def settled(self, value: int, method: str, evidence: str) -> HighWatermark:
        """Narrow the interval to exactly `value`."""
        return self._replace(
            hw_lower=value,
            hw_upper=value,
            proven_lower=value,
            reached=value,
            method=method,
            proof=evidence,
            lower_evidence=evidence,
            upper_evidence=evidence,
            limiting_broker_id=None,
        )


def bound_high_watermark(
    reference: Reference,
    comparisons: Sequence[Comparison],
    *,
    leadership: Leadership | None,
    one_moment: bool,
    times: CaptureTimes,
    shorter: bool,
    stable: tuple[int, RemoteSegment] | None,
) -> HighWatermark:
    """Compute the interval for the reference's leadership, from all aligned replicas.

    `one_moment`: the copies are of one moment, so that no skew explains an in-sync replica that is too short. `shorter`:
    another replica's records past its end prove that the reference lost its tail or is not the leader. `stable`: offset up to
    which a segment in remote storage is of the reference's epochs, and that segment.
    """
    proofs = recorded_marks(reference, comparisons, leadership, stable)
    proof = max(proofs, key=lambda one: (one.offset, one.reached))
    lower = proof.offset
    ends, reasons = bounding_ends(reference, comparisons, leadership, one_moment=one_moment, times=times)
    bounding = frozenset(end.broker_id for end in ends)
    # A log end short of what was committed past the reference's end does not bound it.
    for end in [end for end in ends if lower <= end.offset < proof.reached or (shorter and end.of_reference)]:
        ends.remove(end)
        reasons.append(f"broker {end.broker_id} ends at {end.offset}, and another replica shows that there was more")
    down = () if one_moment or leadership is None else leadership.fenced or ()
    settled = max((one.offset for one in proofs if not one.may_be_later), default=0)
    suffix, earlier_suffix = _lowest_suffixes(
        reference, comparisons, lower, one_moment=one_moment, down=down, settled=settled
    )
    short = [end for end in ends if end.offset < lower]
    open_above = HighWatermark(
        hw_lower=lower,
        hw_upper=None,
        proven_lower=lower,
        reached=proof.reached,
        method="interval",
        proof=proof.text,
        lower_evidence=proof.text,
        upper_evidence="",
        limiting_broker_id=None,
        leader_end_bounds=False,
        lowest_suffix=suffix,
        earlier_suffix=earlier_suffix,
        bounding_brokers=bounding,
    )
    if short and suffix is None and not one_moment:
        least = min(short, key=lambda end: end.offset)
        return open_above._replace(
            hw_lower=least.offset,
            hw_upper=lower,
            method="capture_skew",
            lower_evidence=least.text,
            upper_evidence=proof.text,
            limiting_broker_id=least.limiting_broker_id,
        )
    ends = [end for end in ends if end not in short and (suffix is None or end.of_reference)]
    reasons += [f"broker {end.broker_id} ends at {end.offset}, below what is proven" for end in short]
    if reference.isr is None:
        reasons.append("the in-sync replicas are not known")
    if not ends:
        return open_above._replace(upper_evidence="; ".join(["no log end bounds it", *reasons]))
    least = min(ends, key=lambda end: end.offset)
    return open_above.bounded(least.offset, "; ".join([least.text, *reasons]))._replace(
        limiting_broker_id=least.limiting_broker_id, leader_end_bounds=any(end.of_reference for end in ends)
    )


def _lowest_suffixes(
    reference: Reference,
    comparisons: Sequence[Comparison],
    lower: int,
    *,
    one_moment: bool,
    down: Collection[int],
    settled: int,
) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """(`HighWatermark.lowest_suffix`, `earlier_suffix`) of in-sync replicas that provably cannot serve up to `lower`: they conflict
    there, or their ends are unreadable.

    None if the reference may have been cut since it was copied, as in-sync replicas may then have been cut to match it. A replica that
    does not know the reference's epoch may have been cut too: its suffix is an earlier one, unless the copies are of one moment, or the
    replica was down, is one of the brokers still `down`, and differs below `settled`, which was committed while it counted as in sync.
    """
    sure: list[tuple[int, int]] = []
    earlier: list[tuple[int, int]] = []
    members = () if reference.is_replaced else {*(reference.isr or ()), *reference.elr}
    replicas = (reference.facts, *(item.follower for item in comparisons))
    for item in comparisons:
        member = item.follower
        if member.broker_id not in members:
            continue
        suffix = item.diverging_suffix
        start = lower if suffix is None else max(suffix.start_offset, deleted_end(reference.facts, member))
        if start < lower:
            is_final = one_moment or (member.was_down and member.broker_id in down and start < settled)
            is_old = not is_final and (
                _latest_known_epoch(member) < (reference.leader_epoch or 0) or later_entry(member, replicas) is not None
            )
            (earlier if is_old else sure).append((member.broker_id, start))
        elif _lost_its_tail(member) and member.log_end_offset < lower:
            sure.append((member.broker_id, member.log_end_offset))
    return _lowest(sure), _lowest(earlier)


def _lowest(suffixes: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """The (broker id, offset) with the lowest offset, then the lowest id; None if there is none."""
    return min(suffixes, default=None, key=lambda suffix: (suffix[1], suffix[0]))


def _lost_its_tail(facts: ReplicaFacts) -> bool:
    """True if the bytes after the last sound batch are damage. Zeros may be preallocation, which a clean stop trims."""
    return facts.tail_kind == "garbage" or (facts.tail_kind == "zero_filled" and facts.directory.clean_shutdown is True)


def narrow_high_watermark(
    mark: HighWatermark,
    reference: Reference,
    comparisons: Sequence[Comparison],
    leadership: Leadership | None,
    kafka_version: tuple[int, ...] | None,
) -> HighWatermark:
    """Return the exact high watermark if one is known and within the bounds, else `mark`."""
    if leadership is None or leadership.source != "metadata_log" or reference.outdated or reference.predates:
        return mark
    if mark.method == "capture_skew" or mark.lowest_suffix is not None or not mark.leader_end_bounds:
        return mark
    replicas = {facts.broker_id: facts for facts in (reference.facts, *(item.follower for item in comparisons))}
    if (stop := _clean_shutdown(reference, replicas, leadership)) is not None:
        return _as_it_stopped(mark, stop, reference.facts.broker_id)
    found = _sole_isr(reference, leadership, kafka_version)
    return mark.settled(*found) if found is not None and mark.admits(found[0]) else mark


class _CleanStop(NamedTuple):
    """Values written by the last leader as it stopped."""

    checkpoint: int
    high_watermark: int
    """The checkpoint, limited to the log."""
    epoch_start: int
    """First offset of the epoch since which it led without interruption."""


def _as_it_stopped(mark: HighWatermark, stop: _CleanStop, broker_id: int) -> HighWatermark:
    """Settle `mark` by what the last leader wrote as it stopped cleanly (X1).

    A leader that did not advance the high watermark in its epoch has the value it learnt, which may be too low: an earlier
    leader may have committed more below the epoch. It knows what it committed itself.
    """
    written = f"high watermark {stop.checkpoint} that broker {broker_id} wrote as it stopped"
    if stop.high_watermark >= stop.epoch_start:
        text = f"{written}: it led last, and was stopped cleanly, as were all in sync with it"
        value = stop.high_watermark
        return mark.settled(value, "clean_shutdown", text) if mark.admits(value) else mark
    if mark.hw_upper is None or not mark.hw_lower <= stop.epoch_start < mark.hw_upper:
        return mark
    began = f"start {stop.epoch_start} of the epoch in which broker {broker_id} led last"
    stopped = "it stopped cleanly, as did all in sync with it"
    return mark.bounded(stop.epoch_start, f"{began}: {stopped}, and the {written} lies below")


def _clean_shutdown(
    reference: Reference, replicas: dict[int, ReplicaFacts], leadership: Leadership
) -> _CleanStop | None:
    """Stop of the last leader; None unless it and all in sync with it stopped cleanly.

    None, too, if its checkpoint lies below its log start, as no stop leaves it: the checkpoint was copied before the stop.
    """
    facts = reference.facts
    last = last_led(leadership.history)
    checkpoint = facts.directory.high_watermark_checkpoint
    if leadership.leader_id is not None or last is None or last.leader_id != facts.broker_id or checkpoint is None:
        return None
    if not all(one in replicas and replicas[one].was_stopped_before_copy for one in {*last.isr, facts.broker_id}):
        return None
    if checkpoint < facts.log_start_offset:
        return None
    first = _first_epoch(leadership.committed, last)
    starts = (start for epoch, start in facts.sound_entries if first <= epoch <= last.leader_epoch)
    return _CleanStop(checkpoint, facts.high_watermark, min(starts, default=facts.log_end_offset))


def _first_epoch(history: Sequence[PartitionState], last: PartitionState) -> int:
    """Epoch since which the leader of `last` has led without interruption; changes of the ISR may begin epochs too."""
    first = last.leader_epoch
    for state in reversed([one for one in history if one.leader_epoch < last.leader_epoch]):
        if state.leader_id != last.leader_id:
            break
        first = state.leader_epoch
    return first


def _sole_isr(
    reference: Reference, leadership: Leadership, kafka_version: tuple[int, ...] | None
) -> tuple[int, str, str] | None:
    """(high watermark, method, evidence) by X2: a leader alone in the ISR, with all others fenced, has committed all it wrote.

    Files in any order may be later than the source of the ISR, which another may have joined since.
    """
    facts = reference.facts
    if reference.leader_id != facts.broker_id or leadership.isr != (facts.broker_id,) or leadership.fenced is None:
        return None
    if facts.in_any_order:
        return None
    others = {*(leadership.replicas or ())} - {facts.broker_id}
    minimum = min_isr_of(leadership.configs, len(others) + 1)
    gated = stands_still_below_min_isr(kafka_version) is not False
    enough = not gated or (minimum is not None and minimum <= 1)
    if not enough or not others <= set(leadership.fenced):
        return None
    text = f"log end {facts.log_end_offset} of broker {facts.broker_id}, which alone is in sync; all others are fenced"
    return facts.log_end_offset, "sole_isr", text

"""High watermarks and recovery points that a replica's own log, or the replicas in sync, contradict (F.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    doubted,
    fate_of_copy,
    finding,
    likely,
    marked,
    name_copy,
    tell_image,
    undecided,
    unseen_above,
    why_perhaps_image,
)
from replica_audit.auditing.findings.cap_skew import skew
from replica_audit.auditing.replicas.later_files import later_entry
from replica_audit.auditing.replicas.lost_tails import (
    cut_end,
    cut_since_marks,
    is_tail_lost,
    may_have_been_cut,
    why_older,
)
from replica_audit.model import MIN_ISR, OffsetRange, without
from replica_audit.protocol.versions import may_mark_over_tail
from replica_audit.schema import Evidence
from replica_audit.text import count, name_brokers, name_offsets, name_source, verb

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


HWM_CP_ABOVE_LEO = Code(
    "HWM-CP-ABOVE-LEO",
    ("critical", "high", "medium", "info"),
    ("COMMITTED_LOSS", "LATENT_CORRUPTION", "INCONCLUSIVE"),
    traits=("gone", "lost_tail", "two_moments", "decided"),
)
HWM_RP_ABOVE_LEO = Code(
    "HWM-RP-ABOVE-LEO",
    ("high", "medium", "info"),
    ("LATENT_CORRUPTION", "INCONCLUSIVE"),
    traits=("lost_tail", "two_moments"),
)
HWM_ABOVE_ISR_PREFIX = Code(
    "HWM-ABOVE-ISR-PREFIX", ("critical", "high"), ("COMMITTED_DIVERGENCE", "INCONCLUSIVE"), traits=("moved_away",)
)
HWM_UNDER_MIN_ISR = Code("HWM-UNDER-MIN-ISR", ("medium",), traits=("decided",))


def judge(case: Case) -> Iterator[Finding]:
    """Yield findings on the marks of every compared replica, and of the partition."""
    for facts in case.replicas:
        yield from _past_log_end(case, facts)
    yield from _suffix(case)
    yield from _under_min_isr(case)


def _past_log_end(case: Case, facts: ReplicaFacts) -> Iterator[Finding]:
    """HWM-CP-ABOVE-LEO and HWM-RP-ABOVE-LEO: a high watermark or recovery point past the end of a replica's log.

    A cut of the log may explain it (`cut_since_marks`). Of a broker that ran, the log was cut after its checkpoints were copied: if it ends
    below the high watermark, both findings are likely, otherwise the recovery point is undecided. Of a broker that was down, a kill may have
    interrupted the cut: both are likely. Both are undecided if the partition was created meanwhile, and where `_unless_older` says so.
    """
    is_lost = is_tail_lost(case.reference, case.replicas, facts)
    # A log that ends below its own start restarts there (A.9).
    end = max(facts.log_end_offset, facts.log_start_offset)
    if may_have_been_cut(case.reference, case.replicas, facts):
        end = cut_end(facts)
    is_flushed_lost = not facts.end_is_open and facts.flushed_end > end
    if not (is_lost or is_flushed_lost):
        return
    was_down = case.were_at_rest(facts)
    may_be_cut = not facts.in_any_order and (was_down or not _gains_nothing(case, facts))
    is_cut = may_be_cut and cut_since_marks(case.reference, case.replicas, facts)
    again = f"copy broker {facts.broker_id} again"
    mark = facts.marked_end
    why_cut = None
    if is_cut and was_down and facts.flushed_end > facts.log_end_offset:
        why_cut = "likely, not proven: the broker may have been killed as it cut its log, before it wrote a smaller recovery point"
    elif is_cut and not was_down and mark > facts.log_end_offset:
        why_cut = f"likely, not proven: an unclean election may have cut it after its checkpoints were copied; {again}"
    why = case.why_of_earlier_topic(facts)
    told = None
    if is_lost:
        told = _unless_older(case, facts, _lost_below_mark(case, facts, mark), mark)
        told = undecided(likely(told, why_cut), why, "medium")
        yield told
    if is_flushed_lost:
        found = _lost_flushed(case, facts, is_cut, was_down=was_down)
        # In an image too, the recovery point was written after the records below it.
        if not _is_older_as_image_only(case, facts):
            same = f"it lost them, or was copied before they were written, as with its high watermark of {mark}"
            is_told = told is not None and told.verdict == "INCONCLUSIVE"
            found = _unless_older(case, facts, found, facts.flushed_end, same if is_told else None)
        if is_cut and not was_down and mark <= facts.log_end_offset:
            why = f"it lost them, or was cut after its recovery point was copied; {again}"
        yield undecided(likely(found, why_cut), why, "medium")


def _lost_below_mark(case: Case, facts: ReplicaFacts, mark: int) -> Finding:
    """HWM-CP-ABOVE-LEO of a replica, with the holders of the records between; critical if provably no replica has them."""
    end = facts.log_end_offset
    left = _held_nowhere(case, facts, mark, case.copies)
    perhaps = {
        one.broker_id
        for one in case.set_aside
        for part in left
        if not one.end_is_known or one.log_end_offset > part.start_offset
    }
    # A missing file may be on the broker; `.deleted` segments are only a part of a log.
    holes = [hole for one in case.copies if not one.is_about_to_go for hole in one.missing]
    is_whole = not any(hole.overlaps(*part) for hole in holes for part in left)
    is_known = is_whole and not perhaps and all(_gains_nothing(case, one) for one in case.copies)
    gone = bool(left) and is_known and _leader_lacks(case, facts, mark)
    elsewhere = _gone_from(case.reference.facts, left, end, mark)
    if perhaps:
        elsewhere = f"; the records between may be on {name_brokers(sorted(perhaps))}, whose logs were not compared"
    elsewhere += _only_about_to_go(case, facts, left, mark)
    # A later epoch file no longer has the epochs of these records.
    if later_entry(facts, case.replicas):
        elsewhere = ""
    return finding(
        HWM_CP_ABOVE_LEO,
        f"broker {facts.broker_id}: its high watermark was {mark}, but its log ends at {end}{elsewhere}",
        severity="critical" if gone else "high",
        verdict="COMMITTED_LOSS" if gone else "LATENT_CORRUPTION",
        confidence="likely" if gone else "proven",
        broker_id=facts.broker_id,
        offsets=(end, mark),
        evidence=[marked(facts), considered(f"a truncation just before the copy: {_say_cut(case, facts, mark)}")],
    )


def _lost_flushed(case: Case, facts: ReplicaFacts, is_cut: bool, *, was_down: bool) -> Finding:
    """HWM-RP-ABOVE-LEO of a replica; `is_cut`: it was perhaps cut after that checkpoint was copied, or while its broker was killed."""
    end = facts.log_end_offset
    flushed = facts.flushed_end
    cut = f"a truncation at {end}: no, it would have written a smaller recovery point at once"
    if is_cut:
        cut = (
            f"a truncation: perhaps, {'before a smaller one was written' if was_down else 'after this file was copied'}"
        )
    place = facts.directory.recovery_point_file.path
    return finding(
        HWM_RP_ABOVE_LEO,
        f"broker {facts.broker_id}: offsets below {flushed} were flushed to disk, but its log ends at {end}"
        + _deleted_since(case.reference.facts, flushed),
        broker_id=facts.broker_id,
        offsets=(end, flushed),
        evidence=[
            Evidence("checkpoint", text="recovery point", broker_id=facts.broker_id, path=place, value=str(flushed)),
            considered(cut),
        ],
    )


def may_lack_committed_everywhere(case: Case) -> bool:
    """True if a replica's checkpointed high watermark lies past the end of its log, and no copy has all the records between."""
    lost = (one for one in case.replicas if is_tail_lost(case.reference, case.replicas, one))
    return any(_held_nowhere(case, one, one.marked_end, case.copies) for one in lost)


def _gains_nothing(case: Case, facts: ReplicaFacts) -> bool:
    """True if nothing is appended to a replica's log after its copy: its broker was down, or nobody has led since before that began."""
    if case.were_at_rest(facts):
        return True
    since = None if case.leadership is None else case.leadership.leaderless_since_ms
    return since is not None and case.options.times.began_later(facts, since)


def _leader_lacks(case: Case, facts: ReplicaFacts, checkpoint: int) -> bool:
    """True if the leader (without a leader: every replica) is known to lack what a replica lost below its `checkpoint`
    and no copy here has. That is not known of a log that may be another topic's.

    The file of a follower that came back without its end does not have the epochs of that any more: where the leader reaches the checkpoint,
    it lacks the records only if the follower is of another history at its end.
    """
    reference = case.reference
    if reference.leader_id is None:
        is_here = not case.unread_replicas
    else:
        is_here = case.is_leaders and not reference.is_replaced
    if not is_here or facts is reference.facts:
        return is_here
    item = case.comparison_of(facts)
    if item is None:
        return False
    is_other = any(facts.log_end_offset <= part.end_offset for part in item.stretches)
    is_past = not reference.facts.end_is_open and reference.facts.log_end_offset < checkpoint
    return (is_other or is_past) and not may_mark_over_tail(case.options.kafka_version)


def _say_cut(case: Case, facts: ReplicaFacts, checkpoint: int) -> str:
    """Clause on a truncation as a possible reason why a log ends below its own `checkpoint`: then no other replica has reached it."""
    if may_have_been_cut(case.reference, case.replicas, facts):
        return f"perhaps, and then it lost them that way: no other replica here has ever reached {checkpoint}"
    flushed = facts.directory.recovery_point_checkpoint
    known = "no recovery point is known" if flushed is None else f"recovery point {flushed}"
    return f"no, {known}, and no other leader of a later epoch began between {facts.log_end_offset} and that high watermark"


def _unless_older(
    case: Case, facts: ReplicaFacts, found: Finding, mark: int, told_before: str | None = None
) -> Finding:
    """Return `found`, a finding on a checkpoint `mark` past the log end, as undecided if the log may be the older of the two;
    `told_before`: a clause that refers to another finding of the same log for the reason and for what decides it.

    | the log | finding |
    |---|---|
    | lacks what the reference has deleted since, and may be older, or ends where it `was_cut_inside` a batch | info: nothing depends on it |
    | is of no earlier moment than the checkpoint | as it is; likely if it may be an image or so cut, or its broker gone down meanwhile |
    | is of a broker that ran by the manifest, and other logs have the range | info: an earlier copy explains it |
    | is any other | undecided, with how far another has the range unless damaged batches reach the mark |

    A broker that comes back without its tail writes its checkpoints anew, but one below which a segment is deleted goes on.
    """
    is_deleted = case.reference.facts.log_start_offset >= mark
    is_split = is_deleted and case.was_cut_inside(facts, mark)
    if is_deleted and (facts.in_any_order or is_split):
        return found._replace(severity="info", verdict=None, confidence="suspect")
    if not facts.in_any_order:
        why = case.why_gone_down(facts) or why_perhaps_image(case, facts, facts.log_end_offset)
        if is_split is None:
            why = why or "likely, not proven: a log that was cut inside a batch ends where that began"
        return likely(found, why)
    left = _held_nowhere(case, facts, mark, case.copies)
    times = case.options.times
    if facts.is_live and not left:
        why = "its log was copied before its checkpoints"
        if times.is_image(facts):
            why = "an image of its disk lacks what had not reached the disk"
        text = f"{found.message}; the broker ran, and {why}"
        return found._replace(severity="info", verdict=None, confidence="suspect", message=text)
    down = state = kind = ""
    if not facts.is_live:
        down = f"that broker {facts.broker_id} was down, or "
        state = "while it is down, or "
        kind = "; if it was down, give its kind there"
    why = (
        f"the log lost its end, or was copied before that end was written: nothing shows {down}in which order its files were copied; "
        f"copy it again {state}its checkpoints first and with begin and end in manifest.json{kind}"
    )
    if _is_older_as_image_only(case, facts):
        why = f"the log lost its end, or that end had not reached the disk: {tell_image(case, facts)}"
    # Damaged bytes in the copy were not written after it.
    if facts.found_end_offset < mark:
        held_to = left[0].start_offset if left else mark
        found = found._replace(evidence=(*found.evidence, unseen_above(facts.broker_id, held_to)))
    return undecided(found, told_before or why, "medium")


def _is_older_as_image_only(case: Case, facts: ReplicaFacts) -> bool:
    """True if a log can be older than its checkpoints only as what was not on the disk yet is missing from an image of it."""
    times = case.options.times
    return times.is_image(facts) or (times.may_be_image(facts) and times.of(facts) is not None)


def _held_nowhere(case: Case, facts: ReplicaFacts, mark: int, copies: Iterable[ReplicaFacts]) -> list[OffsetRange]:
    """Offsets of records that a log lost between its end and `mark` and that none of `copies` has, without those
    that were since deleted from the reference."""
    held = [part for other in copies for part in _held_by(case, facts, other, mark)]
    return without([OffsetRange(max(facts.log_end_offset, case.reference.facts.log_start_offset), mark)], held)


def _held_by(case: Case, facts: ReplicaFacts, other: ReplicaFacts, mark: int) -> list[OffsetRange]:
    """Offsets of records that `facts` lost between its log end and `mark`, and that `other` has.

    An epoch file as found names the epochs of those records. Without one, records of a lineage that the reference has left do not
    count. Offsets without a batch are not held, nor those of a missing segment file, though its broker may have it.
    """
    lineage, begin = other.lineage, other.log_start_offset
    if other.is_about_to_go:
        # `.deleted` files still have what is below the log start.
        lineage = other.found_batches
        begin = min((segment.base_offset for segment in other.segments), default=begin)
    start = max(facts.log_end_offset, begin)
    end = min(other.log_end_offset, mark)
    if (lost := facts.sound_file_lineage) is not None:
        end = lost.agrees_to(lineage, start, end)
    elif (item := case.comparison_of(other)) is not None:
        is_left = any(part.start_offset < end <= part.end_offset for part in item.stretches)
        end = start if is_left else end
    return without(
        [OffsetRange(start, end)], (hole for hole in (*other.gaps, *other.missing) if not other.is_cleaned(*hole))
    )


def _only_about_to_go(case: Case, facts: ReplicaFacts, left: Sequence[OffsetRange], mark: int) -> str:
    """Clause on records lost between a log's end and `mark` that only `.deleted` segments have; "" without any.
    `left`: offsets that no copy has."""
    going = [one for one in case.copies if one.is_about_to_go and _held_by(case, facts, one, mark)]
    kept = _held_nowhere(case, facts, mark, (one for one in case.copies if not one.is_about_to_go))
    if kept == left:
        return ""
    is_all = not left and kept == _held_nowhere(case, facts, mark, ())
    them = "the records" if is_all else "some of the records"
    return f"; {them} between are only in {' and '.join(map(name_copy, going))}: {fate_of_copy(going[0])}"


def _deleted_since(reference: ReplicaFacts, mark: int) -> str:
    """Clause on the records between a log's end and `mark` if the reference's log begins above them; else empty."""
    if reference.log_start_offset < mark:
        return ""
    return f"; the records between have been deleted since: broker {reference.broker_id} begins at {reference.log_start_offset}"


def _gone_from(reference: ReplicaFacts, left: Sequence[OffsetRange], end: int, checkpoint: int) -> str:
    """Clause on the records past `end` that no replica has, `left`; empty if there is none."""
    if deleted := _deleted_since(reference, checkpoint):
        return deleted
    if not left:
        return ""
    first, *_ = left
    if first == (end, checkpoint):
        return "; no replica here has the records between"
    if first.end_offset == checkpoint:
        return f"; no replica here has the records from {first.start_offset} on"
    return f"; no replica here has {', '.join(name_offsets(*part) for part in left)}"


def _suffix(case: Case) -> Iterator[Finding]:
    earlier = case.high_watermark.earlier_suffix
    if earlier is not None:
        broker_id, start = earlier
        end = case.high_watermark.proven_lower
        text = f"broker {broker_id} counts as in sync but has other records from {start} on, though everything below {end} is committed"
        facts = next(one for one in case.replicas if one.broker_id == broker_id)
        yield skew(case, facts, text, start, end, is_undecided=True)
    suffix = case.high_watermark.lowest_suffix
    if suffix is None:
        return
    broker_id, start = suffix
    lower = case.high_watermark.hw_lower
    found = finding(
        HWM_ABOVE_ISR_PREFIX,
        f"broker {broker_id} counts as in sync but has other or unreadable records from {start} on, though everything below {lower} is committed",
        broker_id=broker_id,
        offsets=(start, lower),
        evidence=[Evidence("checkpoint", text=case.high_watermark.lower_evidence)],
    )
    item = next(item for item in case.comparisons if item.follower.broker_id == broker_id)
    found = undecided(found, _why_not_in_sync(case, item.follower, start))
    if item.follower.cannot_read(start, start + 1):
        found = likely(found, why_perhaps_image(case, item.follower, start))
    yield doubted(found, item)


def _why_not_in_sync(case: Case, member: ReplicaFacts, start: int) -> str | None:
    """Clause on why a member of the ISR may have had, when it was in sync, other records than its log shows; None if nothing says so."""
    may_be_image = member.in_any_order and (not member.is_live or case.options.times.may_be_image(member))
    if may_be_image and member.cannot_read(start, start + 1) and start >= member.flushed_end:
        return "these are damaged, or had not reached its disk when an image of that was made, which nothing rules out"
    reference = case.reference
    if reference.is_before(reference.facts.last_leader_epoch):
        who = f"broker {reference.facts.broker_id}"
        source = name_source(reference.source)
        return f"{source} is older than the log of {who}, which has epoch {reference.facts.last_leader_epoch}: it does not say who is in sync now"
    return why_older(member, member.log_end_offset) or case.why_led_later(member, start)


def _under_min_isr(case: Case) -> Iterator[Finding]:
    isr = case.reference.isr
    leadership = case.leadership
    if isr is None or leadership is None or case.reference.leader_id is None:
        return
    assigned = leadership.replicas
    minimum = case.config(MIN_ISR)
    if minimum is not None and minimum.isdigit() and len(isr) < min(int(minimum), len(assigned or isr) or int(minimum)):
        yield finding(
            HWM_UNDER_MIN_ISR,
            f"only {count(len(isr), 'replica')} {verb(len(isr), 'is', 'are')} in sync, but min.insync.replicas is {minimum}: "
            "writes with acks=all are refused, and since 3.7 the high watermark does not advance",
            evidence=[
                Evidence("leadership", text=f"min.insync.replicas={minimum}", value=name_source(leadership.source))
            ],
        )

"""Who is behind, ahead or too few (F.5, REP-*)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.comparing.comparison import Comparison
from replica_audit.auditing.findings.finding import Case, Evidence, Finding, considered, finding, offsets
from replica_audit.auditing.findings.rules.watermark import is_tail_lost
from replica_audit.auditing.leadership.capture_times import lacks_tail
from replica_audit.auditing.replicas.facts import ReplicaFacts
from replica_audit.wording import brokers, count


def judge(case: Case) -> Iterator[Finding]:
    """REP-*, HWM-UNDER-MIN-ISR, and CAP-SKEW where copies of different moments explain an end."""
    yield from _short_stand_in(case)
    for item in case.comparisons:
        yield from _ahead(case, item)
        yield from _short(case, item)
        yield from _lag(case, item)
    yield from _replication(case)


def _ahead(case: Case, item: Comparison) -> Iterator[Finding]:
    ahead, reference = item.alignment.ahead, case.reference
    if not ahead:
        return
    start, end = ahead[0].base_offset, ahead[-1].end_offset
    leader, follower = reference.facts, item.follower
    text = f"broker {follower.broker_id} has {offsets(start, end)}, past the end of broker {leader.broker_id} at {leader.log_end_offset}"
    newest = max((batch.epoch for batch in ahead if batch.epoch is not None), default=-1)
    # Of an empty log whose epoch nobody says, no epoch is later.
    unknown = reference.leader_epoch is None and leader.empty
    if not unknown and newest > (-1 if reference.leader_epoch is None else reference.leader_epoch):
        text += f", of leader epoch {newest}, which is later than that of broker {leader.broker_id}"
        if not case.one_moment:
            yield _skew(case, follower, f"{text}: the leadership given is older than the logs", start, end)
            return
    when = case.times.describe((follower, leader))
    if lacks_tail(reference, item, case.leadership, case.times, case.one_moment):
        shared = {"broker_id": follower.broker_id, "start_offset": start, "end_offset": end, "confidence": "likely"}
        if case.one_moment:
            why = "all copies were made while the cluster was at rest, so the reference lost its tail or is not the leader"
            evidence = [considered("capture skew: no, the cluster was at rest")]
        else:
            why = (
                f"they are of epoch {reference.leader_epoch}, in which broker {leader.broker_id} leads and wrote them itself, "
                "and its copy is the later one, so it lost its tail"
            )
            evidence = [
                Evidence("leadership", f"manifest.json: {when}"),
                considered("capture skew: no, a later copy has at least as much"),
            ]
        yield finding("REP-LEADER-SHORTER", f"{text}; {why}", evidence=evidence, **shared)
    elif not case.one_moment:
        yield _skew(case, follower, text, start, end, when, doubtful=is_tail_lost(case, leader))


def _skew(
    case: Case, facts: ReplicaFacts, text: str, start: int, end: int, when: str | None = None, *, doubtful: bool = False
) -> Finding:
    explains = "may explain it, unless records were lost" if doubtful else "explains it"
    if case.quiesced:
        why = f"brokers that are stopped one after the other end at different offsets, which {explains}"
    else:
        why = f"copies of a running cluster are of different moments, which {explains}"
    return finding(
        "CAP-SKEW",
        f"{text}; {why}",
        confidence="likely",
        broker_id=facts.broker_id,
        start_offset=start,
        end_offset=end,
        evidence=[
            *([Evidence("leadership", f"manifest.json: {when}")] if when else []),
            considered(
                "loss: a manifest with quiesced: true, or the metadata log of brokers that were stopped cleanly, would decide"
            ),
        ],
    )


def _short(case: Case, item: Comparison) -> Iterator[Finding]:
    """An in-sync replica without a conflict that ends below what is proven committed."""
    follower, lower = item.follower, case.high_watermark.proven_lower
    suffix = case.high_watermark.lowest_suffix
    if not case.in_isr(follower.broker_id) or item.conflicts or follower.found_end_offset >= lower:
        return
    if suffix is not None and suffix[0] == follower.broker_id:
        return
    start, end = follower.found_end_offset, lower
    text = f"broker {follower.broker_id} is in sync but ends at {start}, below {end}, which is proven committed"
    shared = {"broker_id": follower.broker_id, "start_offset": start, "end_offset": end}
    proof = Evidence("checkpoint", case.high_watermark.proof)
    checkpoint = follower.directory.high_watermark_checkpoint
    if case.one_moment:
        yield finding(
            "REP-ISR-SHORT",
            f"{text}: if it leads next, committed records are gone",
            severity="high",
            verdict="WILL_LOSE_ON_TRUNCATION",
            confidence="likely",
            evidence=[proof, considered("capture skew: no, the cluster was at rest")],
            **shared,
        )
    elif not follower.has_epochs and checkpoint == start and not follower.empty:
        yield finding(
            "REP-ISR-SHORT",
            f"{text}; it ends exactly at its own high watermark, as a follower does that was cut there before 0.11",
            severity="medium",
            verdict="INCONCLUSIVE",
            confidence="suspect",
            evidence=[proof, considered("capture skew: possible, a manifest with quiesced: true would decide")],
            **shared,
        )
    elif not is_tail_lost(case, follower):  # HWM-CP-ABOVE-LEO says more
        yield _skew(case, follower, text, start, end)


def _short_stand_in(case: Case) -> Iterator[Finding]:
    """The same of the replica that the others are compared with, where the leader's own log is not here."""
    reference, mark = case.reference, case.high_watermark
    facts, end = reference.facts, reference.facts.log_end_offset
    if reference.leader_id in (None, facts.broker_id) or not (case.one_moment and case.in_isr(facts.broker_id)):
        return
    if mark.reached > end and not is_tail_lost(case, facts):
        yield finding(
            "REP-ISR-SHORT",
            f"broker {facts.broker_id} is in sync but ends at {end}, and the high watermark had reached {mark.reached}: if "
            "it leads next, committed records are gone",
            severity="high",
            verdict="WILL_LOSE_ON_TRUNCATION",
            confidence="likely",
            broker_id=facts.broker_id,
            start_offset=end,
            end_offset=mark.reached,
            evidence=[Evidence("checkpoint", mark.proof), considered("capture skew: no, the cluster was at rest")],
        )


def _lag(case: Case, item: Comparison) -> Iterator[Finding]:
    follower, leader = item.follower, case.reference.facts
    assigned = case.leadership.replicas if case.leadership else None
    behind = leader.log_end_offset - follower.log_end_offset
    if behind <= 0 or item.diverging_suffix(leader.log_end_offset) is not None:
        return
    if assigned is not None and follower.broker_id not in assigned:
        return
    yield finding(
        "REP-LAG",
        f"broker {follower.broker_id} is {count(behind, 'offset')} and {count(item.lag.size_bytes, 'byte')} behind broker {leader.broker_id}",
        broker_id=follower.broker_id,
        start_offset=follower.log_end_offset,
        end_offset=leader.log_end_offset,
    )


def _replication(case: Case) -> Iterator[Finding]:
    isr = case.reference.isr
    if isr is None or case.stopped:
        return
    assigned = case.leadership.replicas
    if assigned is not None and len(isr) < len(assigned):
        yield finding(
            "REP-UNDER-REPLICATED",
            f"{len(isr) or 'none'} of {count(len(assigned), 'assigned replica')} "
            f"{'are' if len(isr) > 1 else 'is'} in sync{': ' if isr else ''}{brokers(sorted(isr)) if isr else ''}",
            evidence=[Evidence("leadership", case.leadership.source)],
        )
    minimum = case.config("min.insync.replicas")
    if minimum is not None and minimum.isdigit() and len(isr) < min(int(minimum), len(assigned or isr) or int(minimum)):
        yield finding(
            "HWM-UNDER-MIN-ISR",
            f"{count(len(isr), 'replica')} in sync, but min.insync.replicas is {minimum}: acks=all is refused, and since 3.7 the high "
            "watermark stands still",
            evidence=[Evidence("leadership", f"min.insync.replicas={minimum}", value=case.leadership.source)],
        )

"""Who is behind, ahead or too few (F.5, REP-*)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.comparison import Comparison
from replica_audit.auditing.facts import ReplicaFacts
from replica_audit.auditing.findings import Case, Evidence, Finding, considered, finding, offsets
from replica_audit.auditing.provenance import is_epoch_open


def judge(case: Case) -> Iterator[Finding]:
    """REP-*, HWM-UNDER-MIN-ISR, and CAP-SKEW where copies of different moments explain an end."""
    for item in case.comparisons:
        yield from _ahead(case, item)
        yield from _short(case, item)
        yield from _lag(case, item)
    yield from _replication(case)


def _ahead(case: Case, item: Comparison) -> Iterator[Finding]:
    ahead = item.alignment.ahead
    if not ahead:
        return
    start, end = ahead[0].base_offset, ahead[-1].end_offset
    leader = case.reference.facts
    text = f"broker {item.follower.broker_id} has {offsets(start, end)}, past the end of broker {leader.broker_id} at {leader.log_end_offset}"
    current = case.reference.leader_epoch
    led_later = max((batch.epoch for batch in ahead if batch.epoch is not None), default=-1) > (
        -1 if current is None else current
    )
    if led_later:
        yield _skew(
            item.follower, f"{text}, of a later leader epoch: the leadership given is older than the logs", start, end
        )
    elif case.quiesced and is_epoch_open(leader, case.is_epoch_said):
        return  # CAP-SECOND-HAND says what that leaves open
    elif case.quiesced:
        yield finding(
            "REP-LEADER-SHORTER",
            f"{text}; the copies are of one moment, so the reference lost its tail or is not the leader",
            confidence="likely",
            broker_id=item.follower.broker_id,
            start_offset=start,
            end_offset=end,
            evidence=[considered("capture skew: no, the cluster was at rest")],
        )
    elif _had_them(case, item):
        when = case.times.describe((item.follower, leader))
        yield finding(
            "REP-LEADER-SHORTER",
            f"{text}; they are of epoch {current}, in which broker {leader.broker_id} leads and wrote them itself, and its copy is the later "
            "one, so it lost its tail",
            confidence="likely",
            broker_id=item.follower.broker_id,
            start_offset=start,
            end_offset=end,
            evidence=[
                Evidence("leadership", f"manifest.json: {when}"),
                considered("capture skew: no, a later copy has at least as much"),
            ],
        )
    else:
        yield _skew(item.follower, text, start, end, case.times.describe((item.follower, leader)))


def _had_them(case: Case, item: Comparison) -> bool:
    """Whether the leader wrote what a follower has ahead of it before its own copy was begun, by the manifest's times."""
    reference = case.reference
    own = (
        reference.leader_epoch is not None
        and reference.leader_id == reference.facts.broker_id
        and not reference.outdated
    )
    if (
        not own
        or not case.times.is_later(reference.facts, item.follower)
        or is_epoch_open(reference.facts, case.is_epoch_said)
    ):
        return False
    return all(batch.epoch == reference.leader_epoch for batch in item.alignment.ahead)


def _skew(facts: ReplicaFacts, text: str, start: int, end: int, when: str | None = None) -> Finding:
    return finding(
        "CAP-SKEW",
        f"{text}; copies of a running cluster are of different moments, which explains it",
        confidence="likely",
        broker_id=facts.broker_id,
        start_offset=start,
        end_offset=end,
        evidence=[
            *([Evidence("leadership", f"manifest.json: {when}")] if when else []),
            considered("loss: a manifest with quiesced: true, or cleanly stopped brokers, would decide"),
        ],
    )


def proven_lower(case: Case) -> int:
    """The lower bound before the two were put in order (method capture_skew swaps them)."""
    mark = case.high_watermark
    return mark.hw_upper if mark.method == "capture_skew" else mark.hw_lower


def _short(case: Case, item: Comparison) -> Iterator[Finding]:
    """An in-sync replica without a conflict that ends below what is proven committed."""
    follower, lower = item.follower, proven_lower(case)
    suffix = case.high_watermark.lowest_suffix
    if not case.in_isr(follower.broker_id) or item.conflicts or follower.found_end_offset >= lower:
        return
    if suffix is not None and suffix[0] == follower.broker_id:
        return
    start, end = follower.found_end_offset, lower
    text = f"broker {follower.broker_id} is in sync but ends at {start}, below {end}, which is proven committed"
    shared = {"broker_id": follower.broker_id, "start_offset": start, "end_offset": end}
    proof = Evidence("checkpoint", case.high_watermark.lower_evidence)
    if case.quiesced:
        yield finding(
            "REP-ISR-SHORT",
            f"{text}: if it leads next, committed records are gone",
            severity="high",
            verdict="WILL_LOSE_ON_TRUNCATION",
            confidence="likely",
            evidence=[proof, considered("capture skew: no, the cluster was at rest")],
            **shared,
        )
    elif not follower.has_epochs and follower.directory.high_watermark_checkpoint == start and not follower.empty:
        yield finding(
            "REP-ISR-SHORT",
            f"{text}; it ends exactly at its own high watermark, as a follower does that was cut there before 0.11",
            severity="medium",
            verdict="INCONCLUSIVE",
            confidence="suspect",
            evidence=[proof, considered("capture skew: possible, a manifest with quiesced: true would decide")],
            **shared,
        )
    else:
        yield _skew(follower, text, start, end)


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
        f"broker {follower.broker_id} is {behind} offsets and {item.lag.size_bytes} bytes behind broker {leader.broker_id}",
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
            f"in sync: {_brokers(isr)}; assigned: {_brokers(assigned)}",
            evidence=[Evidence("leadership", case.leadership.source)],
        )
    minimum = case.config("min.insync.replicas")
    if minimum is not None and minimum.isdigit() and len(isr) < min(int(minimum), len(assigned or isr) or int(minimum)):
        yield finding(
            "HWM-UNDER-MIN-ISR",
            f"{len(isr)} in sync, min.insync.replicas is {minimum}: acks=all is refused, and since 3.7 the high watermark stands still",
            evidence=[Evidence("leadership", f"min.insync.replicas={minimum}", value=case.leadership.source)],
        )


def _brokers(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, sorted(ids))) or "none"

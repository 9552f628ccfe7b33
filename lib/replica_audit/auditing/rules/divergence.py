"""Records that differ (F.4): one finding per run, and damage that only one side has."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.comparison import Comparison, Run
from replica_audit.auditing.findings import Case, Evidence, Finding, considered, finding, offsets

_VERDICTS = {
    "DIV-EPOCH": ("medium", "UNCOMMITTED_DIVERGENCE"),
    "DIV-HIDDEN": ("critical", "COMMITTED_DIVERGENCE"),
    "DIV-CONTENT": ("critical", "COMMITTED_DIVERGENCE"),
    "DIV-PRESENCE": ("high", "COMMITTED_DIVERGENCE"),
}


def judge(case: Case) -> Iterator[Finding]:
    """DIV-* and LOG-CRC-BLIND."""
    for item in case.comparisons:
        for run in item.runs:
            yield _run(case, item, run)
        for pair in item.alignment.corrupt:
            yield finding(
                "DIV-CORRUPT" if pair.kind == "crc" else "LOG-CRC-BLIND",
                f"broker {pair.bad_broker_id}: {offsets(pair.start_offset, pair.end_offset)} are damaged and sound on broker "
                f"{pair.good_broker_id}, which they can be repaired from: {pair.detail}",
                broker_id=pair.bad_broker_id,
                start_offset=pair.start_offset,
                end_offset=pair.end_offset,
                evidence=[Evidence("batch", pair.detail, pair.bad_broker_id, position=pair.position)],
            )
        yield from _formats(item)
        yield from _compacted(case, item)


def _run(case: Case, item: Comparison, run: Run) -> Finding:
    severity, verdict = _VERDICTS[run.code]
    leader, follower = case.reference.facts, item.follower
    replay = item.replays[case.protocol]
    here = f"broker {follower.broker_id}"
    where = offsets(run.start_offset, run.end_offset)
    if run.kind == "hole_here":
        what = f"{here} has nothing at {where}, where broker {leader.broker_id} has records of epoch {run.leader_epoch}"
    elif run.kind == "hole_there":
        what = f"{here} has records of epoch {run.replica_epoch} at {where}, where broker {leader.broker_id} has nothing"
    else:
        other = "nothing any more" if run.leader_epoch is None and run.kind == "epoch" else f"other records{_epoch(run.leader_epoch)}"
        what = f"{here} has records{_epoch(run.replica_epoch)} at {where}, where broker {leader.broker_id} has {other}"
    fate = (
        f"the {case.protocol} protocol cuts them at {replay.truncate_to}"
        if run.start_offset >= replay.truncate_to
        else f"the {case.protocol} protocol keeps everything below {replay.truncate_to}, so this stays"
    )
    lag = "lag: no, the records differ" if run.conflicting else "lag: no, it lies inside both logs"
    return finding(
        run.code,
        f"{what}; {fate}",
        severity=severity,
        verdict=verdict,
        broker_id=follower.broker_id,
        start_offset=run.start_offset,
        end_offset=run.end_offset,
        replica_epoch=run.replica_epoch,
        evidence=[
            Evidence("replay", f"truncate to {replay.truncate_to}, {replay.reason}", follower.broker_id, value=case.protocol),
            considered(lag),
            considered("retention: no, it lies above both log starts"),
            considered("compaction: no, neither replica shows any"),
            considered("corruption: no, every batch compared has the right checksum"),
            considered("whether the election was clean is not known: the leadership given has no history"),
        ],
    )


def _epoch(epoch: int | None) -> str:
    return " without an epoch" if epoch is None else f" of epoch {epoch}"


def _formats(item: Comparison) -> Iterator[Finding]:
    found = [part for part in item.alignment.differences if part.kind == "format"]
    if found:
        start, end = found[0].start_offset, max(part.end_offset for part in found)
        yield finding(
            "DIV-FORMAT",
            f"broker {item.follower.broker_id} has {len(found)} batches within {offsets(start, end)} in another message format; "
            "their headers cannot show whether the records are equal",
            confidence="suspect",
            broker_id=item.follower.broker_id,
            start_offset=start,
            end_offset=end,
            evidence=[considered("conversion: followers got down-converted batches during upgrades before 4.0")],
        )


def _compacted(case: Case, item: Comparison) -> Iterator[Finding]:
    """Says of a compacted pair that only epochs and batch ranges were compared, where their batches do differ."""
    if not (case.reference.facts.compacted or item.follower.compacted):
        return
    leader, follower = case.reference.facts, item.follower
    floor = max(leader.local_start_offset, follower.local_start_offset)
    ceiling = min(leader.log_end_offset, follower.log_end_offset)
    own, theirs = (
        {(batch.base_offset, batch.last_offset, batch.crc) for batch in batches if batch.end_offset > floor and batch.base_offset < ceiling}
        for batches in (item.alignment.own, item.alignment.reference)
    )
    if own != theirs:
        yield finding(
            "DIV-PRESENCE",
            f"broker {item.follower.broker_id} and broker {case.reference.facts.broker_id} hold other batches of this compacted "
            "partition; only epochs and batch ranges were compared, where both have them, not records or latest values",
            severity="info",
            verdict=None,
            broker_id=item.follower.broker_id,
            evidence=[considered("compaction: each replica cleans on its own, so presence and bytes may differ")],
        )

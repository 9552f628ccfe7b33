"""Records that differ (F.4): one finding per run, and damage that only one side has."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.comparing.compacted import Compaction
from replica_audit.auditing.comparing.comparison import Comparison
from replica_audit.auditing.comparing.runs import Run
from replica_audit.auditing.findings.finding import Case, Evidence, Finding, considered, doubted, finding, offsets
from replica_audit.auditing.leadership.election_causes import describe
from replica_audit.auditing.replicas.facts import ReplicaFacts
from replica_audit.moments import render_time
from replica_audit.wording import count

_VERDICTS = {
    "DIV-EPOCH": ("medium", "UNCOMMITTED_DIVERGENCE"),
    "DIV-TAIL-PENDING": ("info", "UNCOMMITTED_DIVERGENCE"),
    "DIV-HIDDEN": ("critical", "COMMITTED_DIVERGENCE"),
    "DIV-CONTENT": ("critical", "COMMITTED_DIVERGENCE"),
    "DIV-PRESENCE": ("high", "COMMITTED_DIVERGENCE"),
}


def judge(case: Case) -> Iterator[Finding]:
    """DIV-* and LOG-CRC-BLIND."""
    for item in case.comparisons:
        for run in item.runs:
            yield doubted(_run(case, item, run), item)
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
        yield from _unread(item)


def _run(case: Case, item: Comparison, run: Run) -> Finding:
    severity, verdict = _VERDICTS[run.code]
    if run.code == "DIV-EPOCH" and run.cause is not None and run.cause.clean is False:
        severity, verdict = "high", "WILL_LOSE_ON_TRUNCATION"
    leader, follower = case.reference.facts, item.follower
    replay = item.replays[case.protocol]
    here = f"broker {follower.broker_id}"
    where = offsets(run.start_offset, run.end_offset)
    own, theirs = f"records{_epoch(run.replica_epoch)}", f"records{_epoch(run.leader_epoch)}"
    if run.kind == "hole_here":
        what = f"{here} has nothing at {where}, where broker {leader.broker_id} has {theirs}"
    elif run.kind == "hole_there":
        what = f"{here} has {own} at {where}, where broker {leader.broker_id} has nothing"
    elif run.leader_epoch is None and run.start_offset >= leader.log_end_offset:
        what = f"{here} has {own} at {where}; the log of broker {leader.broker_id} ends at {leader.log_end_offset}"
    else:
        # Its cleaner may have removed them since.
        has = "had" if leader.compacted else "has"
        what = f"{here} has {own} at {where}, where broker {leader.broker_id} {has} other {theirs}"
    fate = (
        f"the {case.protocol} protocol cuts the log at {replay.truncate_to}"
        if run.start_offset >= replay.truncate_to
        else f"the {case.protocol} protocol keeps everything below {replay.truncate_to}, so this stays"
    )
    lag = "lag: no, the records differ" if run.conflicting else "lag: no, it lies inside both logs"
    if run.likely is not None:
        fate += f"; {run.likely.text}"
    return finding(
        run.code,
        f"{what}; {fate}{_left_by(run)}",
        severity=severity,
        verdict=verdict,
        broker_id=follower.broker_id,
        start_offset=run.start_offset,
        end_offset=run.end_offset,
        replica_epoch=run.replica_epoch,
        evidence=[
            Evidence(
                "replay", f"truncate to {replay.truncate_to}, {replay.reason}", follower.broker_id, value=case.protocol
            ),
            considered(lag),
            considered("retention: no, it lies above both log starts"),
            considered(_compaction(leader, follower)),
            considered("corruption: no, every batch compared has the right checksum"),
            *told_by_history(run),
            *(
                Evidence("leadership", text, run.likely.broker_id, value=run.likely.value)
                for text in (run.likely.evidence if run.likely is not None else ())
            ),
        ],
    )


def _compaction(leader: ReplicaFacts, follower: ReplicaFacts) -> str:
    if not (leader.compacted or follower.compacted):
        return "compaction: no, neither replica shows any"
    return (
        f"compaction: no, the partition's cleaners came to {follower.cleaning.furthest}, and cleaners change no record"
    )


def _left_by(run: Run) -> str:
    election = run.cause.election if run.cause is not None else None
    if election is None or run.cause.clean is None:
        return ""
    kind = "clean" if run.cause.clean else "unclean"
    return f"; left behind by the {kind} election of broker {election.leader_id} at {render_time(election.time_ms)}"


def told_by_history(run: Run) -> list[Evidence]:
    """What the history of leadership says of a run: its election, and the loss counted three ways."""
    cause = run.cause
    if cause is None:
        return [considered("whether the election was clean is not known: the leadership given has no history")]
    found = []
    if cause.election is None or cause.clean is None:
        found.append(
            considered(
                "whether the election was clean is not known: the history does not reach back so far, or later leaders left no trace"
            )
        )
    for election in cause.elections:
        where = f"record {election.metadata_offset} of the metadata log: {describe(election)}"
        found.append(Evidence("leadership", where, election.leader_id, value=str(election.leader_epoch)))
    promised = "not known" if cause.promised_records is None else f"at most {cause.promised_records}"
    loss = (
        f"{count(run.data_records, 'record')}; proven committed: {run.committed_records}; promised by acks=all with "
        f"this topic's min.insync.replicas: {promised}"
    )
    return [*found, Evidence("loss", loss)]


def _epoch(epoch: int | None) -> str:
    return " without an epoch" if epoch is None or epoch < 0 else f" of epoch {epoch}"


def _formats(item: Comparison) -> Iterator[Finding]:
    """DIV-FORMAT and DIV-BATCHING: equal records stored differently, and other formats that were not read."""
    broker = item.follower.broker_id
    parts = [part for part in item.alignment.differences if part.kind in ("format", "batching")]
    for kind, compared in (("format", False), ("format", True), ("batching", True)):
        found = [part for part in parts if (part.kind, part.compared) == (kind, compared)]
        if not found:
            continue
        start, end = found[0].start_offset, max(part.end_offset for part in found)
        where = f"{count(len(found), 'batch', 'batches')} within {offsets(start, end)}"
        if not compared:
            message = (
                f"broker {broker} has {where} in another message format; the records could not be read, so it is not "
                "known whether they are equal"
            )
        elif kind == "format":
            message = f"broker {broker} has {where} in another message format; the records are equal"
        else:
            message = f"broker {broker} has the records of {where} in other batches than the reference, or stored otherwise; they are equal"
        yield finding(
            "DIV-FORMAT" if kind == "format" else "DIV-BATCHING",
            message,
            confidence="proven" if compared else "suspect",
            broker_id=broker,
            start_offset=start,
            end_offset=end,
            evidence=[considered("conversion: followers got down-converted batches during upgrades before 4.0")],
        )


def _unread(item: Comparison) -> Iterator[Finding]:
    """Batches whose records had to be compared and could not be had: CAP-UNREADABLE, or LOG-FIELD where they are there."""
    for broker_id in sorted({problem.broker_id for problem in item.problems}):
        of_broker = [problem for problem in item.problems if problem.broker_id == broker_id]
        for lost, code in ((True, "CAP-UNREADABLE"), (False, "LOG-FIELD")):
            found = [problem for problem in of_broker if problem.lost == lost]
            if not found:
                continue
            first = found[0]
            what = "could not be read" if lost else "cannot be decoded, by Kafka either, though the checksum is right"
            yield finding(
                code,
                f"broker {broker_id}: the records of {count(len(found), 'batch', 'batches')} that had to be compared {what}: {first.reason}",
                broker_id=broker_id,
                start_offset=min(problem.start_offset for problem in found),
                end_offset=max(problem.end_offset for problem in found),
                evidence=[Evidence("batch", first.reason, broker_id, first.path, first.position)],
            )


def _compacted(case: Case, item: Comparison) -> Iterator[Finding]:
    """What the records of a compacted pair showed; where they were not read, that only headers were compared."""
    if not (case.reference.facts.compacted or item.follower.compacted):
        return
    leader, follower = case.reference.facts, item.follower
    outcome = item.compaction
    if outcome is not None:
        yield from _key_state(case, item, outcome)
        yield _presence(case, item, outcome)
        return
    floor = max(leader.local_start_offset, follower.local_start_offset)
    ceiling = min(leader.log_end_offset, follower.log_end_offset)
    own, theirs = (
        {
            (batch.base_offset, batch.last_offset, batch.crc)
            for batch in batches
            if batch.end_offset > floor and batch.base_offset < ceiling
        }
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
            evidence=[_CLEANERS],
        )


_CLEANERS = considered("compaction: each replica cleans on its own, so presence and bytes may differ")


def _key_state(case: Case, item: Comparison, outcome: Compaction) -> Iterator[Finding]:
    keys, leader, follower = outcome.keys, case.reference.facts.broker_id, item.follower.broker_id
    if not keys.differing:
        return
    parts = [
        (keys.alive_on_follower, f"deleted on broker {leader} and still there on broker {follower}"),
        (keys.alive_on_reference, f"deleted on broker {follower} and still there on broker {leader}"),
        (keys.other_value, "with another latest value on each"),
    ]
    named = ", ".join(str(offset) for offset in keys.offsets)
    yield finding(
        "DIV-KEY-STATE",
        f"{count(keys.differing, 'key')} of this compacted partition {'has' if keys.differing == 1 else 'have'} different latest values: "
        + "; ".join(f"{count} {what}" for count, what in parts if count),
        confidence="proven" if case.quiesced else "likely",
        broker_id=follower,
        start_offset=keys.start_offset,
        end_offset=keys.end_offset,
        evidence=[
            Evidence("batch", f"first records in question at offsets {named}", follower, value=named),
            considered(f"lag: no, only offsets below {outcome.end_offset} count, and no key that has a later record"),
            considered("transactions: records of aborted ones were left out"),
            considered(
                "compaction: no, a cleaner removes a record only after a later one of its key, and a tombstone only after all of these"
            ),
        ],
    )


def _presence(case: Case, item: Comparison, outcome: Compaction) -> Finding:
    leader, follower, keys = case.reference.facts.broker_id, item.follower.broker_id, outcome.keys
    equal = not any(part.compared and part.kind in ("content", "epoch") for part in item.alignment.differences)
    said = [
        f"in this compacted partition broker {leader} has {count(outcome.only_reference, 'record')} that broker {follower} does not "
        f"have, and broker {follower} has {outcome.only_follower} that broker {leader} does not have"
    ]
    if not outcome.complete:
        said.append("some records could not be read")
    elif equal:
        said.append("every record that both have is equal")
    if not keys.differing and not keys.undecided:
        said.append(
            "so is the latest value of each key"
            if equal and outcome.complete
            else "no key was seen with another latest value"
        )
    if keys.undecided:
        said.append(
            f"{count(keys.undecided, 'key')} cannot be compared until what is missing has been replicated or read"
        )
    return finding(
        "DIV-PRESENCE",
        "; ".join(said),
        severity="info",
        verdict=None,
        broker_id=follower,
        evidence=[_CLEANERS],
    )

"""Replicas that differ: other records at the same offsets, other latest values of keys, or equal records stored differently (F.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.compare.distinct_records import has_data
from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    copy_again,
    corrupt_batch,
    doubted,
    fate_of_copy,
    finding,
    kept_keys,
    left_by,
    likely,
    name_copy,
    place_of_copy,
    told_by_history,
    undecided,
    unless_unwritten,
)
from replica_audit.auditing.replicas.reference import COPIED_BEFORE
from replica_audit.literals import Severity, Verdict
from replica_audit.schema import Evidence
from replica_audit.text import count, name_brokers, name_cut, name_offsets, verb

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.compacted import Compaction, KeyState
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.divergent_ranges import DivergentRange
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts

DIV_EPOCH = Code(
    "DIV-EPOCH",
    ("high", "medium", "info"),
    ("WILL_LOSE_ON_TRUNCATION", "INCONCLUSIVE", "UNCOMMITTED_DIVERGENCE"),
    traits=("records", "difference", "decided"),
)
DIV_TAIL_PENDING = Code("DIV-TAIL-PENDING", ("info",), ("UNCOMMITTED_DIVERGENCE",), traits=("records", "difference"))
DIV_HIDDEN = Code(
    "DIV-HIDDEN", ("critical",), ("COMMITTED_DIVERGENCE",), traits=("records", "difference", "moved_away", "two_sides")
)
DIV_CONTENT = Code(
    "DIV-CONTENT", ("critical",), ("COMMITTED_DIVERGENCE",), traits=("records", "difference", "moved_away", "two_sides")
)
DIV_CORRUPT = Code(
    "DIV-CORRUPT",
    ("high", "medium"),
    ("LATENT_CORRUPTION", "INCONCLUSIVE"),
    traits=("records", "difference", "moved_away"),
)
DIV_PRESENCE = Code(
    "DIV-PRESENCE", ("high", "info"), ("COMMITTED_DIVERGENCE",), traits=("records", "difference", "moved_away")
)
DIV_KEY_STATE = Code(
    "DIV-KEY-STATE",
    ("high", "medium"),
    ("COMMITTED_DIVERGENCE", "INCONCLUSIVE"),
    traits=("records", "difference", "moved_away", "copied_first", "two_sides"),
)
DIV_BATCHING = Code("DIV-BATCHING", ("low",), traits=("records",))
DIV_FORMAT = Code("DIV-FORMAT", ("info",), traits=("records",))


_CLEANERS = considered("compaction: each replica is cleaned independently, so presence and bytes may differ")


def judge(case: Case) -> Iterator[Finding]:
    """DIV-* of every follower, and of the copies in `Case.beside`."""
    yield from _records(case)
    for item in case.comparisons:
        yield from _formats(item)
        if item.compaction is not None:
            yield from _key_state(case, item, item.compaction)


def code_of_run(run: DivergentRange) -> Code:
    """The code of a run by F.4."""
    if run.kind == "content" and (run.survives or run.replica_epoch is not None):
        return DIV_CONTENT
    if run.kind in ("hole_here", "hole_there"):
        return DIV_HIDDEN if run.survives and not run.compacted else DIV_PRESENCE
    if run.survives:
        return DIV_HIDDEN
    # This includes records without epochs in a tail that will be truncated: an old leader's unreplicated end, before KIP-101. A
    # checkpoint that proves records committed contradicts that they are only an uncommitted tail.
    return DIV_TAIL_PENDING if run.is_uncommitted else DIV_EPOCH


def _records(case: Case) -> Iterator[Finding]:
    """DIV-* for the runs and damaged pairs of every follower, and for compacted pairs."""
    for item in case.comparisons:
        for run in item.runs:
            found = likely(_run(case, item, run), case.why_of_older_copy(item.follower, run.start_offset))
            if found.code == DIV_HIDDEN.code:
                found = likely(found, case.why_deleted_since(item, run.end_offset))
            yield doubted(found, item)
        yield from _never_committed(case, item)
        for pair in item.alignment.corrupt:
            if pair.kind == "crc":
                bad = item.follower if pair.bad_broker_id == item.follower.broker_id else case.reference.facts
                yield unless_unwritten(case, bad, corrupt_batch(DIV_CORRUPT, pair))
        yield from _compacted(case, item)
    for item in case.beside:
        for run in item.runs:
            if run.is_lost and any(has_data(batch) for batch in run.batches):
                yield _beside(case, item, run)


def _beside(case: Case, item: Comparison, run: DivergentRange) -> Finding:
    leader = case.reference.facts
    facts = item.follower
    there = (
        f"the log of broker {leader.broker_id} ends at {leader.log_end_offset}"
        if run.start_offset >= leader.log_end_offset
        else f"broker {leader.broker_id} has {'other records' if run.conflicting else 'nothing'} there"
    )
    severity, verdict = _of_old_tail(case, run)
    if facts.is_about_to_go:
        severity = "info"
        verdict = None  # it has been truncated: only HWM-LOSS, if it was committed, causes a verdict
    return finding(
        DIV_EPOCH,
        f"{name_copy(facts)} has {count(run.data_records, 'record')}{_epoch(run.replica_epoch)} at "
        f"{name_offsets(*run.offsets)}; {there}{left_by(run)}; {fate_of_copy(facts)}",
        severity=severity,
        verdict=verdict,
        broker_id=facts.broker_id,
        offsets=run.offsets,
        replica_epoch=run.replica_epoch,
        evidence=[place_of_copy(facts), considered("lag: no, the records differ"), *told_by_history(run)],
    )


def _never_committed(case: Case, item: Comparison) -> Iterator[Finding]:
    """DIV-TAIL-PENDING for records past the reference's end that were never committed."""
    tail = item.never_committed
    if tail is None:
        return
    follower = item.follower
    leader = case.reference.facts
    end = item.alignment.ahead[-1].end_offset
    yield finding(
        DIV_TAIL_PENDING,
        f"broker {follower.broker_id} has {name_offsets(tail.start_offset, end)}, past the end of broker {leader.broker_id} at "
        f"{leader.log_end_offset}, which were never committed: {tail.why}",
        broker_id=follower.broker_id,
        offsets=(tail.start_offset, end),
        replica_epoch=item.alignment.ahead[-1].epoch,
        evidence=[Evidence("leadership", text=tail.why)],
    )


def _run(case: Case, item: Comparison, run: DivergentRange) -> Finding:
    code = code_of_run(run)
    severity, verdict = _of_old_tail(case, run) if code is DIV_EPOCH else (code.severities[0], code.verdicts[0])
    follower = item.follower
    replay = item.replay
    is_deleted = _is_deleted(case, run)
    if run.is_written_again:
        lag = "loss: no, they were sent again to another leader"
    else:
        lag = "lag: no, the records differ" if run.conflicting else "lag: no, it lies inside both logs"
    fate = _fate(case, item, run)
    likely = run.likely
    if likely is not None:
        fate += f"; {likely.text}"
    # Of what the leader may have by now no election is known to have left it behind without a loss.
    left = "" if case.reference.is_replaced and run.is_uncommitted else left_by(run)
    return finding(
        code,
        f"{_both_contents(case, follower, run)}; {fate}{left}",
        severity=severity,
        verdict=verdict,
        broker_id=follower.broker_id,
        offsets=run.offsets,
        replica_epoch=run.replica_epoch,
        evidence=[
            Evidence(
                "replay",
                text=f"truncate to {replay.truncate_to}: {name_cut(replay.reason)}",
                broker_id=follower.broker_id,
                value=item.protocol,
            ),
            considered(lag),
            considered(f"retention: {_retention(case, is_deleted)}"),
            considered(_compaction(case.reference.facts, follower)),
            considered("corruption: no, every batch compared has the right checksum"),
            *told_by_history(run),
            *(likely.told() if likely is not None else ()),
        ],
    )


def _is_deleted(case: Case, run: DivergentRange) -> bool:
    """True if the leader's log begins above the run and had an earlier epoch there, so that the follower deletes the run."""
    return run.conflicting and run.leader_epoch is None and run.end_offset <= case.reference.facts.log_start_offset


def _both_contents(case: Case, follower: ReplicaFacts, run: DivergentRange) -> str:
    """Clause on what a follower has at the offsets of a run, and the leader."""
    leader = case.reference.facts
    where = name_offsets(*run.offsets)
    theirs = f"records{_epoch(run.leader_epoch)}"
    if run.kind == "hole_here":
        return f"broker {follower.broker_id} has nothing at {where}, where broker {leader.broker_id} has {theirs}"
    own = f"broker {follower.broker_id} has records{_epoch(run.replica_epoch)} at {where}"
    if run.kind == "hole_there":
        return f"{own}, where broker {leader.broker_id} has nothing"
    if run.leader_epoch is None and run.start_offset >= leader.log_end_offset:
        return f"{own}; the log of broker {leader.broker_id} ends at {leader.log_end_offset}"
    if _is_deleted(case, run):
        begins = f"which begins at {leader.log_start_offset}, had an earlier epoch there"
        if case.reference.is_replaced:
            return f"{own}; the log of broker {leader.broker_id}, {begins}, but {COPIED_BEFORE}"
        return f"{own}, which broker {leader.broker_id} never had: its log, {begins}"
    if run.is_written_again:
        return f"{own}, which broker {leader.broker_id} has too, as {theirs}"
    # The leader's cleaner may have removed its records since.
    return f"{own}, where broker {leader.broker_id} {'had' if leader.compacted else 'has'} other {theirs}"


def _fate(case: Case, item: Comparison, run: DivergentRange) -> str:
    """Clause on whether a run stays. The first condition that holds decides.

    | condition | fate |
    |---|---|
    | the leader's log begins above it | deleted |
    | nothing of it stays below the cut | cut; reserved if the leader's copy may be of before it led |
    | it lies in a batch that is dropped whole | a hole stays |
    | the replay keeps it | it stays |
    | the copies are of one moment | depends on who leads |
    | none of these | depends on what the leader has by now |
    """
    leader = case.reference.facts.broker_id
    cut = f"the {item.protocol} protocol cuts the log at {item.replay.kept_to}"
    if _is_deleted(case, run):
        return f"broker {item.follower.broker_id} deletes them when it moves its own beginning there"
    if run.start_offset >= item.differs_below:
        may_have = case.reference.is_replaced and not case.is_left_for_good(run.start_offset, run.replica_epoch)
        return f"{cut}, unless broker {leader} has them by now: its log {COPIED_BEFORE}" if may_have else cut
    if run.start_offset >= item.drops_from(item.protocol):
        return f"{cut}, inside a batch that is removed whole, which leaves a hole"
    if run.survives:
        return f"the {item.protocol} protocol keeps everything below {item.replay.truncate_to}, so this stays"
    if case.were_at_rest(*case.replicas):
        return (
            f"whether this stays depends on who leads: the source that names broker {leader} may be older than the logs"
        )
    return f"whether this stays depends on what broker {leader} has there by now: its copy may be older"


def _retention(case: Case, is_deleted: bool) -> str:
    if not is_deleted:
        return "no, it lies above both log starts"
    if case.reference.is_replaced:
        return "the leader may have received them since its log was copied"
    return "no, the leader never had them"


def _of_old_tail(case: Case, run: DivergentRange) -> tuple[Severity, Verdict | None]:
    """Severity and verdict of DIV-EPOCH, by the election that left the run behind."""
    if run.cause is None or run.is_written_again:
        return "medium", "UNCOMMITTED_DIVERGENCE"
    if run.cause.clean is False:
        return "high", "WILL_LOSE_ON_TRUNCATION"
    if run.cause.promised_records is None:
        # The history begins after the election.
        return "medium", "UNCOMMITTED_DIVERGENCE"
    committed, possible = case.committed_in(run)
    is_open = run.cause.elections and run.data_records and possible > max(committed, run.start_offset)
    return "medium", "INCONCLUSIVE" if is_open else "UNCOMMITTED_DIVERGENCE"


def _compaction(leader: ReplicaFacts, follower: ReplicaFacts) -> str:
    if not (leader.compacted or follower.compacted):
        return "compaction: no, neither replica shows any"
    return (
        f"compaction: no, the partition's cleaners got to {follower.cleaning.furthest}, and cleaners change no record"
    )


def _epoch(epoch: int | None) -> str:
    return " without an epoch" if epoch is None else f" of epoch {epoch}"


def _compacted(case: Case, item: Comparison) -> Iterator[Finding]:
    """DIV-PRESENCE of a compacted pair, by its records, or because only headers were compared."""
    leader = case.reference.facts
    follower = item.follower
    if not (leader.compacted or follower.compacted) or follower.compaction_is_assumed:
        return
    outcome = item.compaction
    if outcome is not None:
        yield _presence(case, item, outcome)
        return
    if item.differs_in("last_offset", "crc"):
        yield finding(
            DIV_PRESENCE,
            f"broker {item.follower.broker_id} and broker {case.reference.facts.broker_id} hold different batches of this compacted "
            "partition; only epochs and batch ranges that both have were compared, not records or latest values",
            severity="info",
            broker_id=item.follower.broker_id,
            evidence=[_CLEANERS],
        )


def _presence(case: Case, item: Comparison, outcome: Compaction) -> Finding:
    leader = case.reference.facts.broker_id
    follower = item.follower.broker_id
    keys = outcome.keys
    equal = not any(part.compared and part.conflicting for part in item.alignment.differences)
    said = []
    has = [(leader, outcome.only_reference, follower), (follower, outcome.only_follower, leader)]
    if told := [
        f"broker {one} has {count(records, 'record')} that broker {other} does not have"
        for one, records, other in has
        if records
    ]:
        said.append(f"in this compacted partition {', and '.join(told)}")
    if not outcome.complete:
        said.append("some records could not be read")
    elif equal:
        said.append("every record that both have is equal")
    if not keys.differing and not keys.undecided:
        said.append(
            "so is the latest value of each key"
            if equal and outcome.complete
            else "no key was seen with different latest values"
        )
    if keys.undecided:
        unknown = count(keys.undecided, "key")
        said.append(f"{unknown} cannot be compared until what is missing has been replicated or read")
    return finding(DIV_PRESENCE, "; ".join(said), severity="info", broker_id=follower, evidence=[_CLEANERS])


def _formats(item: Comparison) -> Iterator[Finding]:
    """DIV-FORMAT and DIV-BATCHING: equal records stored differently, and other formats that were not read."""
    broker = item.follower.broker_id
    parts = [part for part in item.alignment.differences if part.kind in ("format", "batching")]
    for kind, compared in (("format", False), ("format", True), ("batching", True)):
        found = [part for part in parts if (part.kind, part.compared) == (kind, compared)]
        if not found:
            continue
        start = found[0].start_offset
        end = max(part.end_offset for part in found)
        where = f"{count(len(found), 'batch', 'batches')} within {name_offsets(start, end)}"
        if not compared:
            message = (
                f"broker {broker} has {where} in another message format; the records could not be read, so it is not "
                "known whether they are equal"
            )
        elif kind == "format":
            message = f"broker {broker} has {where} in another message format; the records are equal"
        else:
            message = f"broker {broker} has the records of {where} batched or stored differently from the reference; they are equal"
        yield finding(
            DIV_FORMAT if kind == "format" else DIV_BATCHING,
            message,
            confidence="proven" if compared else "suspect",
            broker_id=broker,
            offsets=(start, end),
            evidence=[considered("conversion: followers got down-converted batches during upgrades before 4.0")],
        )


def _inherited(case: Case, item: Comparison, keys: KeyState) -> list[ReplicaFacts]:
    """The replicas that lack the later records of keys, if they may have inherited all of that from a cleaner that had gone on
    (`Cleaning.from_later_leader`); else none. Once in sync, a replica has what the cleaner removed them for."""
    reference = case.reference
    lacking = [item.follower] if keys.lacked_by_follower else []
    lacking += [reference.facts] if keys.lacked_by_follower < keys.differing else []
    is_sure = any(
        not facts.cleaning.from_later_leader
        or (case.in_isr(facts.broker_id) and not (facts is reference.facts and reference.predates))
        for facts in lacking
    )
    return [] if is_sure else lacking


def _key_state(case: Case, item: Comparison, outcome: Compaction) -> Iterator[Finding]:
    keys = outcome.keys
    leader = case.reference.facts.broker_id
    follower = item.follower.broker_id
    # A running follower may have fetched the tombstones since.
    if keys.kept and not case.reference.facts.cleaning.between_copies and case.were_at_rest(item.follower):
        yield finding(
            DIV_KEY_STATE,
            f"broker {leader} has deleted {count(keys.kept, 'key')} of this compacted partition past the end of broker {follower}, and the "
            f"{verb(keys.kept, 'tombstone is', 'tombstones are')} gone too: broker {follower} keeps the old "
            f"{verb(keys.kept, 'value', 'values')} as it follows",
            severity="medium",
            broker_id=follower,
            evidence=[kept_keys(leader, keys.kept)],
        )
    if not keys.differing:
        return
    parts = [
        (keys.alive_on_follower, f"gone from broker {leader} and still there on broker {follower}"),
        (keys.alive_on_reference, f"gone from broker {follower} and still there on broker {leader}"),
        (keys.other_value, "with a different latest value on each"),
    ]
    named = ", ".join(map(str, keys.offsets))
    sides = (case.reference.facts, item.follower)
    why = again = None
    cleaners = (
        "no, a cleaner removes a record only after a later one of its key, and a tombstone only after all of these"
    )
    if mixed := [facts for facts in sides if facts.cleaning.between_copies]:
        why = "a cleaner may have removed records or tombstones of these keys between the copies of two segments"
        cleaners = "may explain it, as the files were copied in no known order"
        again = copy_again(*mixed)
    elif late := _inherited(case, item, keys):
        here = name_brokers([facts.broker_id for facts in late])
        why = f"{here} may have fetched after a cleaner had removed these records for later ones, past the end of the copy"
        cleaners = "may explain it, as a cleaner may have gone on between the copies of the two"
        again = f"copy {here} again once in sync"
    found = finding(
        DIV_KEY_STATE,
        f"{count(keys.differing, 'key')} of this compacted partition {'has' if keys.differing == 1 else 'have'} different latest values: "
        + "; ".join(f"{count} {what}" for count, what in parts if count),
        confidence="proven" if case.evidence.was_at_rest else "likely",
        broker_id=follower,
        offsets=(keys.start_offset, keys.end_offset),
        evidence=[
            Evidence("batch", text=f"first records in question at offsets {named}", broker_id=follower, value=named),
            considered(f"lag: no, only offsets below {outcome.end_offset} count, and no key that has a later record"),
            considered("transactions: records of aborted ones were left out"),
            considered(f"compaction: {cleaners}"),
        ],
    )
    if why is not None:
        found = undecided(found, f"{why}; {again}", "medium")
    yield found

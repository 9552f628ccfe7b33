"""Truncations: replayed under the chosen protocol, and logged by brokers (F.6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    doubted,
    finding,
    likely,
    log_line,
    marked,
    replay_evidence,
    undecided,
)
from replica_audit.auditing.leadership.broker_log_evidence import (
    led_after,
    logged_cuts,
    losing_cuts,
    place,
    unclean_elections,
)
from replica_audit.protocol.versions import keeps_committed, may_mark_over_tail
from replica_audit.schema import Evidence
from replica_audit.text import count, name_offsets

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.leadership.broker_log_evidence import LoggedCut, LoggedElection
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts

TRN_BELOW_HW = Code(
    "TRN-BELOW-HW", ("critical", "high"), ("COMMITTED_LOSS", "INCONCLUSIVE"), traits=("records", "decided")
)
TRN_LOGGED = Code("TRN-LOGGED", ("medium", "info"), traits=("records",))
TRN_REPLAY_GAP = Code("TRN-REPLAY-GAP", ("critical",), ("COMMITTED_DIVERGENCE",), traits=("records", "moved_away"))
TRN_HW_FALLBACK = Code("TRN-HW-FALLBACK", ("medium",), traits=("records",))
TRN_MID_BATCH = Code("TRN-MID-BATCH", ("medium",), traits=("records", "moved_away"))
TRN_OVER_TRUNCATE = Code("TRN-OVER-TRUNCATE", ("low",), traits=("records",))
TRN_FULL = Code("TRN-FULL", ("low",), traits=("records",))
TRN_OUT_OF_RANGE = Code("TRN-OUT-OF-RANGE", ("info",), traits=("records",))
TRN_CACHE_DISAGREES = Code("TRN-CACHE-DISAGREES", ("medium",), traits=("records", "moved_away"))


def judge(case: Case) -> Iterator[Finding]:
    """TRN-* of every follower under the chosen protocol, and of truncations that brokers logged."""
    yield from _cuts(case)
    for item in case.comparisons:
        for found in (*_against_prefix(case, item), *_how(case, item)):
            yield doubted(found, item)


def _below_high_watermark(case: Case, item: Comparison) -> Iterator[Finding]:
    """TRN-BELOW-HW on a follower's next cut; undecided where the leader may have what is cut."""
    follower = item.follower
    cut = item.replay.kept_to
    checkpoint = follower.directory.high_watermark_checkpoint
    if checkpoint is None or not cut < checkpoint <= follower.log_end_offset:
        return
    cut_runs = [run for run in item.runs if run.conflicting and run.batches and run.end_offset > cut]
    leader = case.reference.facts
    shared_to = min(leader.log_end_offset, cut if item.common_prefix_end is None else item.common_prefix_end)
    # What the leader has as well is fetched again.
    if not cut_runs or shared_to >= checkpoint:
        return
    below = [run for run in cut_runs if run.start_offset < checkpoint]
    at_stake = below or cut_runs
    doubts = {run.start_offset: why for run in at_stake if (why := case.why_later(item, run))}
    # One run that is certainly lost is enough.
    later = next(iter(doubts.values())) if len(doubts) == len(at_stake) else None
    # A leader that had written in its epoch before it was copied had everything below.
    had_led = any(case.tail.was_written_before_copy(one) for one in case.comparisons)
    is_whole = case.tail.one_moment or case.evidence.was_at_rest or case.tail.state == "down" or had_led
    if not is_whole and not below:
        later = (
            f"broker {leader.broker_id} has nothing else there: its log ends at {leader.log_end_offset}, and may have been copied before "
            "it had them"
        )
    why = later or next(filter(None, (case.why_on_leader(cut, run.replica_epoch) for run in at_stake)), None)
    is_known = why is None
    is_outside = _is_outside(case, follower)
    goes, go = ("goes", "go") if is_known and not is_outside else ("would go", "would go")
    lost_runs = [run for run in cut_runs if later is not None or run.start_offset not in doubts]
    lost = item.committed_drops_of(lost_runs, item.protocol)
    in_runs = sum(run.batches.records_between(cut, run.end_offset) for run in cut_runs)
    dropped = max(in_runs, item.drops[item.protocol].record_count - max(0, shared_to - cut))
    gone = f"the end of a committed transaction {goes} with it"
    if lost or any(not run.batches.control.all() for run in cut_runs):
        number, what = (lost, "committed record") if lost else (dropped, "record")
        gone = f"{count(number, what)} {goes if number == 1 else go} with it"
        gone += "" if lost else f", and everything below {checkpoint} was committed"
    found = finding(
        TRN_BELOW_HW,
        f"broker {follower.broker_id} {'will' if is_known and not is_outside else 'would'} cut its log at {cut}, below its own high watermark "
        f"{checkpoint}{_IF_ASSIGNED if is_outside else ''}: {gone}; copy the replica before it follows",
        broker_id=follower.broker_id,
        offsets=(cut, checkpoint),
        evidence=[
            replay_evidence(item),
            marked(follower),
            considered("a stale checkpoint: a replica's high watermark never exceeds what its leader had committed"),
        ],
    )
    found = undecided(found, why)
    marks = [case.why_others_lost(run) or case.why_only_likely(item, run) for run in at_stake]
    yield doubted(likely(found, None if None in marks else marks[0]), item)


def _cuts(case: Case) -> Iterator[Finding]:
    """TRN-BELOW-HW under the chosen protocol, and TRN-LOGGED or TRN-BELOW-HW for truncations that happened."""
    for item in case.comparisons:
        yield from _below_high_watermark(case, item)
    history = bool(case.leadership and case.leadership.history)
    elections = [] if history else list(unclean_elections(case.log_events))
    losing = set(losing_cuts(case.log_events, case.reference))
    harmless: dict[int | None, list[Finding]] = {}
    for cut in logged_cuts(case.log_events):
        mark = cut.high_watermark
        if mark is not None and cut in losing:
            found = _lost(case, cut, mark)
        else:
            found = _cut(cut, led_after(cut, elections, case.log_events))
        if found.severity == "info":
            harmless.setdefault(cut.event.broker_id, []).append(found)
        else:
            yield found
    for *earlier, last in harmless.values():
        # Every restart and every new leader causes one: the last is reported, with their number.
        if earlier:
            text = f"{count(len(earlier), 'earlier truncation')} of this replica, in broker_log_events"
            last = last._replace(evidence=(*last.evidence, considered(text)))
        yield last


def _lost(case: Case, cut: LoggedCut, mark: int) -> Finding:
    """Finding on a cut below the replica's own high watermark `mark`, at an offset where the reference continues in another epoch."""
    start = cut.truncate_to
    reference = case.reference.facts
    epoch = max(epoch for epoch, begin in reference.epoch_entries if begin == start)
    broker = cut.event.broker_id
    who = "a broker" if broker is None else f"broker {broker}"
    suspect = bool(may_mark_over_tail(case.options.kafka_version))
    return finding(
        TRN_BELOW_HW,
        f"{who} cut its log at {start}, below its own high watermark {mark}: {name_offsets(start, mark)} were committed, but "
        f"broker {reference.broker_id} has records of epoch {epoch} from there on; by {place(cut.event)}",
        confidence="suspect" if suspect else "proven",
        broker_id=broker,
        offsets=(start, mark),
        replica_epoch=epoch - 1,
        evidence=[
            log_line(cut.event, f"high watermark {mark} before the cut"),
            Evidence(
                "lineage",
                text=f"epoch {epoch} of the reference begins at {start}",
                broker_id=reference.broker_id,
                value=str(start),
            ),
            considered("a truncation before fetching again: no, the leader's log differs from that very offset on"),
            considered("copies to salvage: none here, unless a `.deleted` file or a backup has them"),
        ],
    )


def _cut(cut: LoggedCut, election: LoggedElection | None) -> Finding:
    broker = cut.event.broker_id
    start = cut.truncate_to
    mark = cut.high_watermark
    doubtful = election is not None or cut.is_below_mark
    text = f"{'a broker' if broker is None else f'broker {broker}'} cut its log at {start}"
    if cut.is_below_mark:
        text += f", below its own high watermark {mark}"
    elif cut.asked is not None and cut.asked.high_watermark is not None:
        text += ", its own high watermark"
    elif cut.asked is not None:
        text += f", as its leader's epoch {cut.asked.leader_epoch} ends below the end of its own log"
    lines = [log_line(cut.event, f"cut at {start}")]
    again = "yes, as far as the captured logs show: the leader had what was dropped, or it was never committed"
    if election is not None:
        text += (
            f", and led in epoch {election.leader_epoch} without having been in sync again: anything committed from {start} on is "
            "missing from every replica that followed it"
        )
        lines.append(log_line(election.event, "elected"))
        again = "no, the leader was down, and this replica led next"
    return finding(
        TRN_LOGGED,
        f"{text}; by {place(cut.event)}",
        severity="medium" if doubtful else "info",
        confidence="likely" if doubtful else "proven",
        broker_id=broker,
        offsets=(start, mark if cut.is_below_mark else None),
        evidence=[*lines, considered(f"fetched again from the leader: {again}")],
    )


def _against_prefix(case: Case, item: Comparison) -> Iterator[Finding]:
    outcome = item.replay
    prefix = item.common_prefix_end
    if prefix is None or outcome.reason in ("full_truncate", "tiered_restart"):
        return
    follower = item.follower
    if item.differs_below > prefix:
        if keeps_committed(item.protocol) and not any(run.survives for run in item.runs):
            return  # by an older copy of the leader's log
        dropped = min(item.drops_from(item.protocol), outcome.truncate_to)
        stays = "the difference stays for good"
        if dropped < outcome.truncate_to:  # TRN-MID-BATCH
            stays = f"a hole stays at {name_offsets(dropped, outcome.truncate_to)}"
            stays += "" if dropped <= prefix else ", and the difference below"
        found = finding(
            TRN_REPLAY_GAP,
            f"broker {follower.broker_id} keeps everything below {dropped} under {item.protocol}, but agrees with broker "
            f"{case.reference.facts.broker_id} only up to {prefix}: {stays}",
            broker_id=follower.broker_id,
            offsets=(prefix, outcome.truncate_to),
            evidence=[replay_evidence(item)],
        )
        found = likely(found, case.why_of_older_copy(follower, prefix))
        last = max((run.end_offset for run in item.runs if run.survives), default=prefix)
        yield likely(found, case.why_deleted_since(item, last))
        return
    # By the epochs both logs have these records, but the leader may have lost its end.
    prefix = min(prefix, case.reference.facts.log_end_offset)
    is_unknown = item.is_cleaned_at_cut or any(gap.covers(outcome.truncate_to, prefix) for gap in follower.gaps)
    if max(outcome.truncate_to, follower.local_start_offset) < prefix and not is_unknown:
        # The topic still has them: if the leader's log starts above the cut, the follower's is emptied (TRN-FULL).
        yield finding(
            TRN_OVER_TRUNCATE,
            f"{_cut_by(case, item)}, though it agrees up to {prefix}; it fetches the same records again",
            broker_id=follower.broker_id,
            offsets=(outcome.truncate_to, prefix),
            evidence=[replay_evidence(item)],
        )


#: Ending of a sentence on a replica that follows nobody.
_IF_ASSIGNED = " if it were assigned the partition"


def _is_outside(case: Case, facts: ReplicaFacts) -> bool:
    """True if the partition is not assigned to the broker of a replica."""
    assigned = None if case.leadership is None else case.leadership.replicas
    return assigned is not None and facts.broker_id not in assigned


def _cut_by(case: Case, item: Comparison) -> str:
    follower = item.follower
    outcome = item.replay
    if outcome.reason == "recovery":
        place = f"{follower.loaded.cut_path} at byte {follower.loaded.cut_position}"
        return f"broker {follower.broker_id} was killed, and its next start will cut its log at {outcome.truncate_to} ({place})"
    will, unless = ("would", _IF_ASSIGNED) if _is_outside(case, follower) else ("will", "")
    return f"broker {follower.broker_id} {will} cut its log at {outcome.truncate_to} under {item.protocol}{unless}"


def _how(case: Case, item: Comparison) -> Iterator[Finding]:
    broker_id = item.follower.broker_id
    cut = item.replay.truncate_to
    for code, clause in _effects(case, item):
        yield finding(
            code,
            f"broker {broker_id} {clause}",
            broker_id=broker_id,
            offsets=(cut, None),
            evidence=[replay_evidence(item)],
        )


def _effects(case: Case, item: Comparison) -> Iterator[tuple[Code, str]]:
    """Codes for the way in which the chosen protocol truncates a follower's log, each with the predicate of a sentence on it."""
    follower = item.follower
    leader = case.reference.facts
    outcome = item.replay
    cut = outcome.truncate_to
    reason = outcome.reason
    is_fallback = reason == "hw_fallback" and item.protocol != "high-watermark"
    if is_fallback and follower.needed_lineage and follower.knows_high_watermark:
        yield (
            TRN_HW_FALLBACK,
            f"has no epoch that broker {leader.broker_id} can answer for, so it cuts its log at its own high watermark {cut}, "
            "as before 0.11",
        )
    inside = item.alignment.split_by(cut)
    if inside is not None and item.differs_below == item.replay.kept_to:
        yield (
            TRN_MID_BATCH,
            f"would be cut at {cut}, inside its batch {inside.base_offset} to {inside.last_offset}: the whole batch is removed, but the "
            f"log end is still {cut}, which leaves a hole",
        )
    if reason == "full_truncate":
        below = _below(item, leader.log_start_offset)
        yield TRN_FULL, f"{below} the leader's start: it empties its log and begins at {cut}"
    if reason == "tiered_restart":
        below = _below(item, leader.local_start_offset)
        yield (
            TRN_FULL,
            f"{below} the leader's local start: it empties its log and begins at {cut}; earlier records are read from remote "
            "storage",
        )
    if reason == "out_of_range_tail" and item.stretches:
        yield TRN_OUT_OF_RANGE, f"ends at {follower.log_end_offset}, past the leader's end: out of range, cut at {cut}"
    if item.file_replay is not None and item.file_replay.truncate_to != cut:
        yield (
            TRN_CACHE_DISAGREES,
            f"would be cut at {item.file_replay.truncate_to} by the epoch files, but at {cut} by the batches",
        )


def _below(item: Comparison, start: int) -> str:
    """Clause on the part of a follower's log that is below a leader's `start`: its end, or the cut by epochs.

    A log that ends below its own start restarts there.
    """
    follower = item.follower
    end = item.follower.log_end_offset
    if follower.following_end_offset >= start:
        return f"ends at {end}, but agrees with the leader only below"
    if end < follower.log_start_offset:
        return f"ends at {end}, below its own start, and restarts at {follower.log_start_offset}, below"
    return f"ends at {end}, below"

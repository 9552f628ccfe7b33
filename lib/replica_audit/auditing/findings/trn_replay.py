"""What the chosen protocol would do to each follower (F.6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.finding import Code, Finding, doubted, finding
from replica_audit.auditing.finding_evidence import replay_evidence

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.comparison import Comparison

TRN_REPLAY_GAP = Code(
    "TRN-REPLAY-GAP",
    severities=("critical",),
    verdicts=("COMMITTED_DIVERGENCE",),
    traits=("records", "retold"),
    summary="Truncation would stop above the first difference",
    meaning="The protocol keeps more than the common prefix: a difference survives and is never repaired. Normal "
    "for "
    "truncation to the high watermark and for the first generation of leader epochs (KIP-101) after fast "
    "failovers; with KIP-279 and later it takes a broker that was not fenced.",
    proof="The replayed offset with its steps, and the end of the common prefix.",
    remedy="See the divergence finding for the range; copy the follower, then rebuild it. Upgrade brokers that are older than 2.0.1.",
    traps="",
)
TRN_HW_FALLBACK = Code(
    "TRN-HW-FALLBACK",
    severities=("medium",),
    verdicts=(),
    traits=("records", "retold"),
    summary="Leader epochs could not be used: truncation falls back to the high watermark",
    meaning="The follower, or the leader's answer, had no epochs, so the rule of before 0.11 applies: cut at the "
    "follower's own high watermark. That may drop committed records or keep wrong ones.",
    proof="The lineages of both sides and the step at which the answer was undefined.",
    remedy="Find out why the epochs are missing (an old message format, a lost leader-epoch-checkpoint).",
    traps="A log of message format 0 or 1 has no epochs at all.",
)
TRN_MID_BATCH = Code(
    "TRN-MID-BATCH",
    severities=("medium",),
    verdicts=(),
    traits=("records", "retold"),
    summary="The truncation offset lies inside a batch",
    meaning="Kafka cuts whole batches but sets the log end to the offset asked for, and fetches on from there. "
    "The records of the batch below that offset are missing afterwards: a hole.",
    proof="The offset and the bounds of the batch that it lies in.",
    remedy="Copy the follower, and rebuild it instead of letting it truncate. Seen on 1.1 and before; elsewhere the lineage is "
    "damaged.",
    traps="",
)
TRN_OVER_TRUNCATE = Code(
    "TRN-OVER-TRUNCATE",
    severities=("low",),
    verdicts=(),
    traits=("records", "retold"),
    summary="Truncation would drop records that agree with the leader",
    meaning="The follower cuts below the common prefix and fetches the same records again. That costs time.",
    proof="The replayed offset and the end of the common prefix.",
    remedy="None while the leader is up and has the range. Keep it up until the follower has caught up.",
    traps="",
)
TRN_FULL = Code(
    "TRN-FULL",
    severities=("low",),
    verdicts=(),
    traits=("records", "retold"),
    summary="The follower would empty its log and begin at the leader's start",
    meaning="The follower ends below the leader's log start, so nothing that it has can be continued.",
    proof="The follower's log end and the leader's log start.",
    remedy="None; expect the whole partition to be fetched.",
    traps="",
)
TRN_OUT_OF_RANGE = Code(
    "TRN-OUT-OF-RANGE",
    severities=("info",),
    verdicts=(),
    traits=("records", "retold"),
    summary="The follower's log would be cut to the leader's log end",
    meaning="What is left after the epochs agreed still ends past the leader's log, and is cut there.",
    proof="Both log ends and the records between.",
    remedy="See the findings for that range, if any.",
    traps="Copies of different moments.",
)
TRN_CACHE_DISAGREES = Code(
    "TRN-CACHE-DISAGREES",
    severities=("medium",),
    verdicts=(),
    traits=("records", "retold"),
    summary="leader-epoch-checkpoint and the batches lead to different truncations",
    meaning="By the file, which Kafka uses, the follower would keep something else than by the epochs in its batches.",
    proof="Both replays with their steps, and the entries that differ.",
    remedy="Repair the file first (see EPO-CACHE-MISSING), or keep a copy of the replica and rebuild it.",
    traps="",
)
CODES = (
    TRN_REPLAY_GAP,
    TRN_HW_FALLBACK,
    TRN_MID_BATCH,
    TRN_OVER_TRUNCATE,
    TRN_FULL,
    TRN_OUT_OF_RANGE,
    TRN_CACHE_DISAGREES,
)


def judge(case: Case) -> Iterator[Finding]:
    """Of the protocol that was chosen."""
    for item in case.comparisons:
        for found in (*_against_prefix(case, item), *_how(case, item)):
            yield doubted(found, item)


def _against_prefix(case: Case, item: Comparison) -> Iterator[Finding]:
    outcome, prefix = item.replays[case.protocol], item.common_prefix_end
    if prefix is None or outcome.reason in ("full_truncate", "tiered_restart"):
        return
    follower = item.follower
    if outcome.truncate_to > prefix:
        yield finding(
            TRN_REPLAY_GAP,
            f"broker {follower.broker_id} keeps everything below {outcome.truncate_to} under {case.protocol}, but agrees with broker "
            f"{case.reference.facts.broker_id} only up to {prefix}: the difference stays for good",
            broker_id=follower.broker_id,
            start_offset=prefix,
            end_offset=outcome.truncate_to,
            evidence=[replay_evidence(case, item)],
        )
    elif max(outcome.truncate_to, follower.local_start_offset) < prefix and not _is_bare(
        item, outcome.truncate_to, prefix
    ):
        # The topic still has them: where the leader begins above the cut, the log is emptied (TRN-FULL).
        yield finding(
            TRN_OVER_TRUNCATE,
            f"{_cut_by(case, item)}, though it agrees up to {prefix}; it fetches the same records again",
            broker_id=follower.broker_id,
            start_offset=outcome.truncate_to,
            end_offset=prefix,
            evidence=[replay_evidence(case, item)],
        )


def _is_bare(item: Comparison, start: int, end: int) -> bool:
    """Whether the follower has nothing from `start` to `end`: its cleaner removed what was there."""
    return any(gap.start_offset <= start and end <= gap.end_offset for gap in item.follower.gaps)


def _cut_by(case: Case, item: Comparison) -> str:
    follower, outcome = item.follower, item.replays[case.protocol]
    if outcome.reason == "recovery":
        place = f"{follower.loaded.cut_path} at byte {follower.loaded.cut_position}"
        return f"broker {follower.broker_id} was killed, and its next start will cut its log at {outcome.truncate_to} ({place})"
    return f"broker {follower.broker_id} will cut its log at {outcome.truncate_to} under {case.protocol}"


def _how(case: Case, item: Comparison) -> Iterator[Finding]:
    follower, leader = item.follower, case.reference.facts
    outcome = item.replays[case.protocol]
    cut = outcome.truncate_to
    place: dict[str, Any] = {"broker_id": follower.broker_id, "start_offset": cut}
    shared = {**place, "evidence": [replay_evidence(case, item)]}
    drops = item.drops[case.protocol].record_count
    is_fallback = outcome.reason == "hw_fallback" and case.protocol != "high-watermark"
    if is_fallback and (follower.lineage or drops) and follower.knows_high_watermark:
        yield finding(
            TRN_HW_FALLBACK,
            f"broker {follower.broker_id} has no epoch that broker {leader.broker_id} can answer for, so it cuts its log at its own high "
            f"watermark {cut}, as before 0.11",
            **shared,
        )
    inside = item.split_by(cut)
    if inside is not None:
        yield finding(
            TRN_MID_BATCH,
            f"broker {follower.broker_id} would be cut at {cut}, inside its batch {inside.base_offset} to {inside.last_offset}: the whole "
            f"batch goes, the log end is {cut} all the same, and a hole is left",
            **shared,
        )
    if outcome.reason == "full_truncate":
        yield finding(
            TRN_FULL,
            f"broker {follower.broker_id} {_below(item, leader.log_start_offset)} the leader's start: it empties its log and begins at {cut}",
            **shared,
        )
    if outcome.reason == "tiered_restart":
        yield finding(
            TRN_FULL,
            f"broker {follower.broker_id} {_below(item, leader.local_start_offset)} the leader's local start: it empties its log and "
            f"begins at {cut}; what lies below is read from remote storage",
            **shared,
        )
    if outcome.reason == "out_of_range_tail" and item.stretches:
        yield finding(
            TRN_OUT_OF_RANGE,
            f"broker {follower.broker_id} ends at {follower.log_end_offset}, past the leader's end: out of range, cut at {cut}",
            **shared,
        )
    if item.file_replay is not None and item.file_replay.truncate_to != cut:
        yield finding(
            TRN_CACHE_DISAGREES,
            f"broker {follower.broker_id} would be cut at {item.file_replay.truncate_to} by the epoch files and should be at {cut} by the batches",
            **shared,
        )


def _below(item: Comparison, start: int) -> str:
    """What of a follower's log lies below a leader's `start`, in words: its end, or the cut that the epochs lead to.

    A log that ends below its own start begins anew there.
    """
    follower, end = item.follower, item.follower.log_end_offset
    if follower.following_end_offset >= start:
        return f"ends at {end}, but agrees with the leader only below"
    if end < follower.log_start_offset:
        return f"ends at {end}, below its own start, and begins anew at {follower.log_start_offset}, below"
    return f"ends at {end}, below"

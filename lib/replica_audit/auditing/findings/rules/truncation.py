"""What the chosen protocol would do to each follower (F.6)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.comparing.comparison import Comparison
from replica_audit.auditing.findings.finding import Case, Evidence, Finding, considered, doubted, finding
from replica_audit.wording import count


def judge(case: Case) -> Iterator[Finding]:
    """TRN-*, of the protocol that was chosen."""
    for item in case.comparisons:
        for found in (*_below_high_watermark(case, item), *_against_prefix(case, item), *_how(case, item)):
            yield doubted(found, item)


def _replay(case: Case, item: Comparison) -> Evidence:
    outcome = item.replays[case.protocol]
    return Evidence(
        "replay",
        f"truncate to {outcome.truncate_to} after {outcome.rounds} answers of the leader: {outcome.reason}",
        item.follower.broker_id,
        value=case.protocol,
    )


def _below_high_watermark(case: Case, item: Comparison) -> Iterator[Finding]:
    follower, cut = item.follower, item.replays[case.protocol].truncate_to
    checkpoint = follower.directory.high_watermark_checkpoint
    if checkpoint is None or not cut < checkpoint <= follower.log_end_offset:
        return
    if not any(part.end_offset > cut for part in item.stretches):
        return
    lost = item.committed_drops[case.protocol]
    gone = f"{count(lost, 'committed record')} {'goes' if lost == 1 else 'go'} with it"
    yield finding(
        "TRN-BELOW-HW",
        f"broker {follower.broker_id} will cut its log at {cut}, below its own high watermark {checkpoint}: "
        f"{gone if lost else 'the end of a committed transaction goes with it'}; copy the replica before it follows",
        broker_id=follower.broker_id,
        start_offset=cut,
        end_offset=checkpoint,
        evidence=[
            _replay(case, item),
            Evidence(
                "checkpoint",
                "high watermark",
                follower.broker_id,
                follower.directory.high_watermark_file.path,
                value=str(checkpoint),
            ),
            considered("a stale checkpoint: a replica's high watermark never exceeds what its leader had committed"),
        ],
    )


def _against_prefix(case: Case, item: Comparison) -> Iterator[Finding]:
    outcome, prefix = item.replays[case.protocol], item.common_prefix_end
    if prefix is None or outcome.reason == "full_truncate":
        return
    follower, leader = item.follower, case.reference.facts
    if outcome.truncate_to > prefix:
        yield finding(
            "TRN-REPLAY-GAP",
            f"broker {follower.broker_id} keeps everything below {outcome.truncate_to} under {case.protocol}, but agrees with broker "
            f"{leader.broker_id} only up to {prefix}: the difference stays for good",
            broker_id=follower.broker_id,
            start_offset=prefix,
            end_offset=outcome.truncate_to,
            evidence=[_replay(case, item)],
        )
    elif max(outcome.truncate_to, item.follower.local_start_offset) < prefix:
        gone = leader.local_start_offset > outcome.truncate_to
        yield finding(
            "TRN-OVER-TRUNCATE",
            f"{_cut_by(case, item)}, though it agrees up to {prefix}"
            + (
                "; the leader no longer has what it would fetch again"
                if gone
                else "; it fetches the same records again"
            ),
            severity="medium" if gone else "low",
            broker_id=follower.broker_id,
            start_offset=outcome.truncate_to,
            end_offset=prefix,
            evidence=[_replay(case, item)],
        )


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
    shared = {"broker_id": follower.broker_id, "start_offset": cut, "evidence": [_replay(case, item)]}
    drops = item.drops[case.protocol].record_count
    is_fallback = outcome.reason == "hw_fallback" and case.protocol != "high-watermark"
    if is_fallback and (follower.lineage or drops) and follower.knows_high_watermark:
        yield finding(
            "TRN-HW-FALLBACK",
            f"broker {follower.broker_id} has no epoch that broker {leader.broker_id} can answer for, so it cuts its log at its own high "
            f"watermark {cut}, as before 0.11",
            **shared,
        )
    inside = next((batch for batch in item.alignment.own if batch.base_offset < cut <= batch.last_offset), None)
    if inside is not None:
        yield finding(
            "TRN-MID-BATCH",
            f"broker {follower.broker_id} would be cut at {cut}, inside its batch {inside.base_offset} to {inside.last_offset}: the whole "
            f"batch goes, the log end is {cut} all the same, and a hole is left",
            **shared,
        )
    if outcome.reason == "full_truncate":
        yield finding(
            "TRN-FULL",
            f"broker {follower.broker_id} ends at {follower.log_end_offset}, below the leader's start: it empties its log and begins at {cut}",
            **shared,
        )
    if outcome.reason == "out_of_range_tail" and item.stretches:
        yield finding(
            "TRN-OUT-OF-RANGE",
            f"broker {follower.broker_id} ends at {follower.log_end_offset}, past the leader's end: out of range, cut at {cut}",
            **shared,
        )
    if item.file_replay is not None and item.file_replay.truncate_to != cut:
        yield finding(
            "TRN-CACHE-DISAGREES",
            f"broker {follower.broker_id} would be cut at {item.file_replay.truncate_to} by the epoch files and should be at {cut} by the batches",
            **shared,
        )

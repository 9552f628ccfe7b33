"""Codes for what replayed truncation would do (TRN-*)."""

from __future__ import annotations

from replica_audit.auditing.findings.codes import Code

CODES = (
    Code(
        code="TRN-BELOW-HW",
        severities=("critical",),
        verdicts=("COMMITTED_LOSS",),
        summary="A follower would truncate below its own high watermark",
        meaning="When this broker follows the leader it deletes records that it had seen committed, because the leader "
        "has others there. It is what a 4.x broker logs as 'Truncating ... below high watermark'; where a broker's own log says "
        "that it did so, the records are gone from that replica already.",
        proof="The replayed offset, the follower's checkpoint and log end, and the conflicting records between; or the line of the "
        "log, and the reference's epoch that begins at that offset.",
        remedy="As for HWM-LOSS: keep the broker from rejoining, copy its log directory, then decide.",
        traps="A tail that is merely ahead of an earlier copied leader does not conflict and is not reported.",
    ),
    Code(
        code="TRN-REPLAY-GAP",
        severities=("critical",),
        verdicts=("COMMITTED_DIVERGENCE",),
        summary="Truncation would stop above the first difference",
        meaning="The protocol keeps more than the common prefix: a difference survives and is never repaired. Normal "
        "for "
        "truncation to the high watermark and for the first generation of leader epochs (KIP-101) after fast "
        "failovers; with KIP-279 and later it takes a broker that was not fenced.",
        proof="The replayed offset with its steps, and the end of the common prefix.",
        remedy="See the divergence finding for the range; rebuild the follower. Upgrade brokers before 2.0.1.",
        traps="",
    ),
    Code(
        code="TRN-HW-FALLBACK",
        severities=("medium",),
        verdicts=(),
        summary="Leader epochs could not be used: truncation falls back to the high watermark",
        meaning="The follower, or the leader's answer, had no epochs, so the rule of before 0.11 applies: cut at the "
        "follower's own high watermark. That may drop committed records or keep wrong ones.",
        proof="The lineages of both sides and the step at which the answer was undefined.",
        remedy="Find out why the epochs are missing (an old message format, a lost leader-epoch-checkpoint).",
        traps="A log of message format 0 or 1 has no epochs at all.",
    ),
    Code(
        code="TRN-MID-BATCH",
        severities=("medium",),
        verdicts=(),
        summary="The truncation offset lies inside a batch",
        meaning="Kafka cuts whole batches but sets the log end to the offset asked for, and fetches on from there. "
        "The records of the batch below that offset are missing afterwards: a hole.",
        proof="The offset and the bounds of the batch that it lies in.",
        remedy="Rebuild the follower instead of letting it truncate. Seen on 1.1 and before; elsewhere the lineage is "
        "damaged.",
        traps="",
    ),
    Code(
        code="TRN-OVER-TRUNCATE",
        severities=("medium", "low"),
        verdicts=(),
        summary="Truncation would drop records that agree with the leader",
        meaning="The follower cuts below the common prefix and fetches the same records again. That costs time, and "
        "records if the leader no longer has them.",
        proof="The replayed offset and the end of the common prefix.",
        remedy="None while the leader is up and has the range. Do not lose the leader before the follower caught up.",
        traps="",
    ),
    Code(
        code="TRN-FULL",
        severities=("low",),
        verdicts=(),
        summary="The follower would empty its log and begin at the leader's start",
        meaning="The follower ends below the leader's log start, so nothing that it has can be continued.",
        proof="The follower's log end and the leader's log start.",
        remedy="None; expect the whole partition to be fetched.",
        traps="",
    ),
    Code(
        code="TRN-OUT-OF-RANGE",
        severities=("info",),
        verdicts=(),
        summary="The follower's log would be cut to the leader's log end",
        meaning="What is left after the epochs agreed still ends past the leader's log, and is cut there.",
        proof="Both log ends and the records between.",
        remedy="See the findings for that range, if any.",
        traps="Copies of different moments.",
    ),
    Code(
        code="TRN-LOGGED",
        severities=("medium", "info"),
        verdicts=(),
        summary="A broker's log tells of a truncation",
        meaning="The broker cut this replica's log at that time. Medium where it went below the replica's own high watermark, "
        "or where the replica then led without having been in sync again: committed records may be gone and no file shows it.",
        proof="The line of the broker's log: offset, time, and what it was cut to.",
        remedy="Compare with what producers were told at that time; records that were lost so are in backups only.",
        traps="A follower before 0.11 cuts to its high watermark at every start, and fetches the rest again.",
    ),
    Code(
        code="TRN-CACHE-DISAGREES",
        severities=("medium",),
        verdicts=(),
        summary="leader-epoch-checkpoint and the batches lead to different truncations",
        meaning="By the file, which Kafka uses, the follower would keep something else than by the epochs in its "
        "batches.",
        proof="Both replays with their steps, and the entries that differ.",
        remedy="Repair the file first (see EPO-CACHE-MISSING), or rebuild the replica.",
        traps="",
    ),
)

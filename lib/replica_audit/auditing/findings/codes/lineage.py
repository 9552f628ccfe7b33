"""Codes for leader epochs and their checkpoint file (EPO-*)."""

from __future__ import annotations

from replica_audit.auditing.findings.codes import Code

CODES = (
    Code(
        code="EPO-FILE-CORRUPT",
        severities=("high",),
        verdicts=("LATENT_CORRUPTION",),
        summary="leader-epoch-checkpoint cannot be read, or is empty though the log has epochs",
        meaning="The file that tells this replica where each leader's records begin is malformed, its entry count is "
        "wrong, or it is empty while batches carry epochs. A 4.3 broker refuses to start on the first two. "
        "Without the file a replica truncates by its high watermark, which loses or keeps the wrong records.",
        proof="The file, the line, what was expected and what was found; the epochs that the batches show.",
        remedy="Keep a copy of the file. If this replica leads, move leadership first. Then, with the broker stopped, "
        "move "
        "the partition directory away and let the broker fetch the partition anew. Deleting the file alone is not "
        "enough: "
        "after a clean stop nothing rebuilds it, after a crash only the segments past the recovery point are read.",
        traps="A file of 0 bytes beside a log without batches of format 2 is healthy.",
    ),
    Code(
        code="EPO-CACHE-MISSING",
        severities=("high", "info"),
        verdicts=("LATENT_CORRUPTION",),
        summary="A batch's epoch is not what leader-epoch-checkpoint says for its offset",
        meaning="The epoch in a batch and the epoch that the checkpoint file gives for the batch's offset differ. "
        "Kafka "
        "answers followers from the file, so truncation on either side goes wrong at the next change of leader.",
        proof="The batch with offset and epoch, the file's entries around that offset.",
        remedy="Trust the batches unless their epochs are out of order too. If this replica leads, move leadership "
        "first; "
        "then rebuild it from a replica whose file and batches agree.",
        traps="Info when the copies may be of different moments and only the newest epochs are missing: the file was copied "
        "before the segments. An epoch needs an entry only while a batch of it ends at or above the log start: after "
        "DeleteRecords up to the end and a restart the file rightly has none.",
    ),
    Code(
        code="EPO-CACHE-STALE",
        severities=("info",),
        verdicts=(),
        summary="leader-epoch-checkpoint has entries outside the log",
        meaning="Entries at or past the log end, or all below the log start. Kafka flushes the file after a truncation "
        "only later, and drops such entries when it loads the log.",
        proof="The entries, the log start and the log end.",
        remedy="None.",
        traps="A leader's entry at its log end is not stale: it was elected and has not written yet.",
    ),
    Code(
        code="EPO-NON-MONOTONIC",
        severities=("medium",),
        verdicts=(),
        summary="Epochs or start offsets do not increase in leader-epoch-checkpoint",
        meaning="Kafka keeps both strictly increasing. Brokers before 2.0.1 could write such a file; later ones drop "
        "the conflicting entries in memory and may leave the file as it is.",
        proof="The two neighbouring entries.",
        remedy="Compare the lineage that the batches show with the file's. If they differ, rebuild the replica.",
        traps="",
    ),
    Code(
        code="EPO-START-MISMATCH",
        severities=("high",),
        verdicts=("COMMITTED_DIVERGENCE",),
        summary="One epoch begins at different offsets on two replicas",
        meaning="An epoch has one leader and so one first offset. Where two replicas disagree, one of them holds "
        "another leader's records below: the trace of a broker that was not fenced (KAFKA-6880). No truncation "
        "protocol "
        "notices it when the tails agree.",
        proof="The first batch of the epoch on both replicas, each inside the range that can be compared.",
        remedy="Look at the divergence finding for the range between the two offsets, decide which side is right, and "
        "rebuild the other replica.",
        traps="Retention or compaction may have removed the first batch; an entry at the log end has no records yet.",
    ),
    Code(
        code="EPO-UNKNOWN-TO-LEADER",
        severities=("medium", "info"),
        verdicts=(),
        summary="A follower has records of an epoch that the leader's lineage does not have",
        meaning="Some earlier leader wrote records that the present one never got. With a conflicting tail that is the "
        "usual picture after a failover (info); without one something is missing from the leader.",
        proof="The epoch and its offsets on the follower, the leader's lineage around them.",
        remedy="See the divergence finding for the range. Without one, compare the leader's older segments.",
        traps="Retention may have removed the epoch on the leader.",
    ),
    Code(
        code="EPO-AHEAD-OF-METADATA",
        severities=("medium", "info"),
        verdicts=(),
        summary="A batch has a greater leader epoch than the newest metadata",
        meaning="Nobody can lead in an epoch that the controller has not given out. The metadata copy is older than "
        "the log, or the epoch field is wrong.",
        proof="The batch with offset and epoch, the leader epoch of the metadata and its source.",
        remedy="Copy the metadata log after the partitions. If the copies are of one moment, treat it as "
        "LOG-CRC-BLIND.",
        traps="Info when the copies may be of different moments.",
    ),
)

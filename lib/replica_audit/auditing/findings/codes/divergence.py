"""Codes for records that differ between replicas (DIV-*)."""

from __future__ import annotations

from replica_audit.auditing.findings.codes import Code

CODES = (
    Code(
        code="DIV-EPOCH",
        severities=("high", "medium"),
        verdicts=("WILL_LOSE_ON_TRUNCATION", "UNCOMMITTED_DIVERGENCE"),
        summary="A replica's tail was written by another leader and will be cut",
        meaning="From some offset on the replica has records that are not on the leader's lineage. When it follows the "
        "leader it cuts them. If they were acknowledged with acks=1 only, that is within what acks=1 promises; after "
        "an unclean election acknowledged records go.",
        proof="The range, the epochs on either side, and the replay that cuts at or before its start.",
        remedy="If the records matter, copy this broker's log directory before the broker rejoins. For the election, "
        "see META-UNCLEAN-ELECTION. Whether any were committed is said by HWM-LOSS, not by this code.",
        traps="Being below the leader's high watermark proves nothing: the uncommitted tail of a leader long gone "
        "normally is.",
    ),
    Code(
        code="DIV-TAIL-PENDING",
        severities=("info",),
        verdicts=("UNCOMMITTED_DIVERGENCE",),
        summary="An old leader's uncommitted tail, to be cut after a clean election",
        meaning="The replica led before, its last records never reached the in-sync replicas, and the election after "
        "it "
        "was clean. It cuts them as soon as it follows.",
        proof="The range, the epochs on either side, and the election in the metadata log.",
        remedy="None. Producers with acks=1 may miss these records.",
        traps="",
    ),
    Code(
        code="DIV-HIDDEN",
        severities=("critical",),
        verdicts=("COMMITTED_DIVERGENCE",),
        summary="Replicas differ where Kafka will never look again",
        meaning="The difference lies below the offset that the follower keeps. The tails agree, so the follower is in "
        "sync by every number that Kafka shows, and consumers get other records after the next change of leader.",
        proof="The range with the batches of both sides, and the replay that ends above it.",
        remedy="Decide which side is right (which one consumers have read, which one producers were acknowledged for), "
        "copy both, then rebuild the other replica. Do not move leadership meanwhile.",
        traps="Compaction and retention are taken out beforehand; other batches of equal records are DIV-BATCHING.",
    ),
    Code(
        code="DIV-CONTENT",
        severities=("critical",),
        verdicts=("COMMITTED_DIVERGENCE",),
        summary="Same offset, same leader epoch, different record",
        meaning="One leader wrote one record at an offset in its epoch; two replicas have two, both with a right "
        "checksum. That must never happen: two brokers led in one epoch, or a leader lost its tail and wrote again.",
        proof="The range with the batches of both sides, their epochs and checksums.",
        remedy="Copy both replicas' directories, find out which one consumers have read, rebuild the other. Find out "
        "whether there was a power loss, a disk snapshot rolled back or a volume restored.",
        traps="Compaction rewrites batches: compacted logs are compared record by record.",
    ),
    Code(
        code="DIV-CORRUPT",
        severities=("high",),
        verdicts=("LATENT_CORRUPTION",),
        summary="One replica's copy of a batch fails its checksum, another's is right",
        meaning="The batch is damaged on one side only, so it can be repaired from the other.",
        proof="The batch with position on both sides, which one fails, and the replica to repair from.",
        remedy="If the damaged replica leads, move leadership to the sound one. Then stop the broker with the damaged "
        "copy, move its partition directory away, and start it. Check the disk.",
        traps="",
    ),
    Code(
        code="DIV-PRESENCE",
        severities=("high", "info"),
        verdicts=("COMMITTED_DIVERGENCE",),
        summary="An offset is on one replica only, well inside both logs",
        meaning="One replica has a hole where another has records. In a compacted log that is normal (info).",
        proof="The range, who has it and who does not, and the batches on both sides of the hole.",
        remedy="Rebuild the replica with the hole. If it leads, move leadership first.",
        traps="Compaction, retention, tiered storage, DeleteRecords, transaction markers (which hold offsets of their "
        "own).",
    ),
    Code(
        code="DIV-KEY-STATE",
        severities=("high",),
        verdicts=("COMMITTED_DIVERGENCE",),
        summary="Compacted replicas have different latest values for a key",
        meaning="The latest record of a key differs from the leader's, for instance a deleted key that is alive on a "
        "replica that was down while its tombstone came and went. Log ends, epochs and ISR all agree.",
        proof="The number of keys, and the offsets of the records in question; never a key.",
        remedy="Rebuild the replica that kept the old value; use a longer delete.retention.ms than the longest "
        "time for which a broker may be down.",
        traps="Records of aborted transactions are left out of the comparison, as are keys with records past the shorter "
        "log's end, and keys that the longer log may have deleted there.",
    ),
    Code(
        code="DIV-BATCHING",
        severities=("low",),
        verdicts=(),
        summary="Equal records in other batches",
        meaning="The records agree, but how they were put into batches does not. Conversion of formats or a cleaner "
        "does this.",
        proof="The range and the batch bounds on both sides.",
        remedy="None.",
        traps="",
    ),
    Code(
        code="DIV-FORMAT",
        severities=("info",),
        verdicts=(),
        summary="Equal records in another message format",
        meaning="The records agree, one side has them in an older message format: a follower fetched during an "
        "upgrade.",
        proof="The range and the format version on both sides.",
        remedy="None.",
        traps="",
    ),
)

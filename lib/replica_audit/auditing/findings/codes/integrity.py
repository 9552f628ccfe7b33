"""Codes for the integrity of one replica's log (LOG-*)."""

from __future__ import annotations

from replica_audit.auditing.findings.codes import Code

CODES = (
    Code(
        code="LOG-CORRUPT-MID",
        severities=("high",),
        verdicts=("LATENT_CORRUPTION",),
        summary="Damaged bytes with sound records after them",
        meaning="A batch fails its checksum or its structure makes no sense, and sound batches follow in the same file "
        "or in later segments. A broker that recovers this log cuts it at the damage and deletes everything after it. "
        "After a clean stop, or below the recovery point, Kafka checks nothing, so the damage waits until a fetch "
        "hits it.",
        proof="The byte position, the length, what was expected there and what was found; the number of sound records "
        "after it that a recovery would destroy; whether the next start would notice.",
        remedy="Do not restart this broker before another in-sync replica is known to hold the range. Then stop it, "
        "move "
        "the partition directory away and let the broker fetch the partition anew. Check the disk.",
        traps="A tail that is cut short, or zeros at the end of the last segment, have codes of their own.",
    ),
    Code(
        code="LOG-TAIL-PARTIAL",
        severities=("medium", "low"),
        verdicts=(),
        summary="The last batch of the log is incomplete",
        meaning="The file ends inside a batch: it was copied, or the broker died, while the batch was written. "
        "Recovery cuts the fragment off. With the clean-shutdown flag it should not be there, and Kafka will not look "
        "for it.",
        proof="The position where the last sound batch ends and the number of bytes after it.",
        remedy="None after a crash or on a live copy. With the clean-shutdown flag, find out who wrote to the file "
        "after "
        "the stop; removing .kafka_cleanshutdown makes the broker recover the log.",
        traps="A live copy cuts files anywhere, often at a multiple of 4096 bytes.",
    ),
    Code(
        code="LOG-TAIL-ZERO",
        severities=("medium", "info"),
        verdicts=(),
        summary="The log ends in zero bytes",
        meaning="The bytes after the last sound batch are all zero: a file that was allocated in advance "
        "(log.preallocate), or a file system that lost unwritten pages at a power loss.",
        proof="The position of the first zero byte and the number of bytes up to the end of the file.",
        remedy="None with log.preallocate or after a crash: recovery cuts the zeros. With the clean-shutdown flag "
        "Kafka "
        "will not look; remove the flag so that the log is recovered.",
        traps="Preallocation trims the file at a clean stop only.",
    ),
    Code(
        code="LOG-TAIL-GARBAGE",
        severities=("medium",),
        verdicts=("LATENT_CORRUPTION",),
        summary="Bytes at the end of the log that are not a batch",
        meaning="After the last sound batch there are bytes that are neither the beginning of a batch nor zeros. "
        "Records may have been there.",
        proof="The position, the length, and what a batch header would have had there.",
        remedy="Compare with the other replicas: if they go on past this log end, let this broker fetch the partition "
        "anew; if none does, keep a copy of the file before the broker starts, since recovery cuts the bytes off.",
        traps="",
    ),
    Code(
        code="LOG-OFFSET-REGRESSION",
        severities=("high",),
        verdicts=("LATENT_CORRUPTION",),
        summary="Offsets go back: a batch begins at or below the last offset of the one before",
        meaning="Two batches of one log claim some of the same offsets. Readers get records twice or in the wrong "
        "order, "
        "and recovery may empty the whole segment (the class of KAFKA-3919).",
        proof="Both batches with their positions and offset ranges.",
        remedy="Rebuild this replica from one whose offsets are in order. If it is the leader, move leadership first.",
        traps="A compressed batch of format 0 or 1 carries its last offset; a .swap file beside the live segments.",
    ),
    Code(
        code="LOG-OFFSET-DUPLICATE",
        severities=("high",),
        verdicts=("LATENT_CORRUPTION",),
        summary="A batch lies wholly within offsets that the log already has",
        meaning="The same offsets are there twice: a batch was written a second time, or a file was copied into the "
        "directory. Consumers read the range twice.",
        proof="The batch's position and range and the last offset before it.",
        remedy="Rebuild this replica from one that has the range once. If it is the leader, move leadership first.",
        traps="A .swap file beside the segments that it replaces.",
    ),
    Code(
        code="LOG-EPOCH-REGRESSION",
        severities=("high",),
        verdicts=("LATENT_CORRUPTION",),
        summary="Leader epochs go back: a batch has a smaller epoch than the batch before it",
        meaning="Within a log leader epochs never decrease. The epoch field is outside the checksum, so a flipped bit "
        "there passes every check of Kafka and then misleads truncation.",
        proof="Both batches with position, offset and epoch; what the other replicas have at that offset.",
        remedy="Rebuild the replica whose epochs are out of order before it can become leader.",
        traps="Batches without an epoch (-1), as a cleaner writes them when it converts old formats, are left out.",
    ),
    Code(
        code="LOG-GAP",
        severities=("medium", "info"),
        verdicts=(),
        summary="Offsets are missing between two batches",
        meaning="The log goes on at a greater offset than the one that should follow. In a compacted log that is "
        "normal "
        "(info); elsewhere records were lost from this replica, for instance when an old follower cut inside a batch "
        "and fetched on from the middle of it.",
        proof="The last offset before and the first offset after the gap, and whether other replicas hold the range.",
        remedy="If another replica holds the range, rebuild this one from it. Do not let this replica become leader.",
        traps="Compaction, DeleteRecords, tiered storage. A topic that was compacted once keeps its gaps when its policy "
        "changes, and a follower that fetches from a cleaned leader gets that leader's gaps. A segment that the copy does "
        "not have is CAP-MISSING-SEGMENT.",
    ),
    Code(
        code="LOG-SEGMENT-NAME",
        severities=("medium",),
        verdicts=(),
        summary="A segment's name does not fit the offsets in it",
        meaning="The first batch lies below the offset that the file is named after, or the file spans more than "
        "2^31-1 offsets. Kafka finds records by these names and by 4-byte relative offsets in the index.",
        proof="The file's name and the offsets of its first and last batch.",
        remedy="Find out whether the file was renamed or copied by hand; rebuild the replica if so.",
        traps="Segments written by very old brokers.",
    ),
    Code(
        code="LOG-FIELD",
        severities=("medium",),
        verdicts=(),
        summary="A header field has a value that cannot be",
        meaning="A batch can be framed, but a count, a delta, an attribute bit, the codec or the format version is "
        "outside what Kafka writes.",
        proof="The position, the field, its value and what would be right.",
        remedy="Compare with the other replicas. If only this one has it, rebuild it; if all have it, look at the "
        "producer or at a broker of a newer version.",
        traps="A newer Kafka may give a meaning to bits that are unused today.",
    ),
    Code(
        code="LOG-CRC-BLIND",
        severities=("high",),
        verdicts=("LATENT_CORRUPTION",),
        summary="A field that no checksum covers contradicts its neighbours or the other replicas",
        meaning="Base offset, length, leader epoch and format version lie outside a batch's checksum. One of them is "
        "wrong although the checksum is right, so neither the broker nor kafka-dump-log will ever complain.",
        proof="The field and its value here, the value that the batches around it or the other replicas ask for. For a "
        "leader epoch: the same bytes in another epoch on another replica, and who knows which of the two epochs.",
        remedy="Rebuild this replica from one that agrees with its neighbours, before it can become leader.",
        traps="A producer's retry to a new leader leaves equal bytes in two epochs too; an election began the later one, so "
        "the epoch files or the metadata log know it. Recovery after an unclean stop writes a changed epoch into the "
        "replica's own file: without a metadata log that is a suspicion only.",
    ),
    Code(
        code="LOG-PRODUCER-DUPLICATE",
        severities=("medium",),
        verdicts=(),
        summary="One producer sequence at two offsets",
        meaning="The same producer id, producer epoch and sequence number were appended twice. An idempotent "
        "producer's "
        "broker should have refused the second one: it had lost its producer state, or the batch was copied.",
        proof="Both batches with offset, producer id, producer epoch and sequence.",
        remedy="Expect consumers to have read these records twice. Look for a loss of producer snapshots at that time.",
        traps="Sequences wrap at 2^31-1; unbroken sequences prove nothing in turn. Up to 2.4 a producer whose records had all "
        "been deleted began with sequence 0 again under the same id and epoch (UNKNOWN_PRODUCER_ID): that is none.",
    ),
)

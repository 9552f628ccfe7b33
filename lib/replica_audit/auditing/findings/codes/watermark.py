"""Codes for the high watermark, loss, lag, transactions and offset checkpoints (HWM-*, REP-*, TXN-*, CHK-*)."""

from __future__ import annotations

from replica_audit.auditing.findings.codes import Code

CODES = (
    Code(
        code="HWM-LOSS",
        severities=("critical",),
        verdicts=("COMMITTED_LOSS",),
        summary="Committed records are not in the leader's log",
        meaning="A replica has records that the leader does not have and that were committed: consumers may have read them, "
        "and they are gone from the partition unless they are taken from that replica before it truncates.",
        proof="The high watermark checkpoint of a replica lies inside a stretch that conflicts with the leader, at or below that "
        "replica's own log end; every replica with the same records is named. A checkpoint above the stretch proves nothing, as it "
        "may come from the present leader. Or the metadata log shows that the records' leader was alone in the ISR to the end of "
        "its epoch and knew it, with min.insync.replicas 1 and every other assigned replica fenced: then all that it had was "
        "committed. Where part of this is known from times only, it is likely, and said without this finding.",
        remedy="Keep the broker that holds them from rejoining (stop it, or copy its log directory now). Then decide: "
        "elect that broker, or take the records out and produce them again. Once it follows, they are deleted; "
        ".deleted files live on for file.delete.delay.ms (60 s).",
        traps="Before the fix of KAFKA-14704 (3.5) a follower could raise its high watermark over records it was about "
        "to cut: there the confidence is suspect.",
    ),
    Code(
        code="HWM-GONE",
        severities=("high",),
        verdicts=("COMMITTED_LOSS",),
        summary="Records that an earlier audit saw are on no replica any more",
        meaning="An earlier audit of this cluster in the warehouse found records that one replica held and the leader did not: "
        "committed, or left behind by an election known to be unclean. That replica has followed the leader since, and they are "
        "gone from the partition. All replicas agree now, which is not to say that nothing was lost.",
        proof="The earlier audit with its date, and what it saw: offsets, leader epoch, brokers. What each replica has there now: "
        "nothing, or another epoch. It is told once: a later audit knows it, and it asks for no verdict any more.",
        remedy="Look for a copy: the earlier snapshot, salvaged records, a backup, a `.deleted` file (file.delete.delay.ms, 60 s), "
        "a consumer that had read them. Produce them again from there, or note the loss; then accept the finding.",
        traps="Retention that has passed the range, a topic created again, compaction and tiered storage are left out; so are "
        "partitions where the log of an assigned replica, or of the one that held the records, is not in the snapshot.",
    ),
    Code(
        code="HWM-CP-ABOVE-LEO",
        severities=("critical", "high"),
        verdicts=("COMMITTED_LOSS", "LATENT_CORRUPTION"),
        summary="A replica's checkpointed high watermark lies past its log end",
        meaning="The replica once had records up to its checkpoint, committed ones, and has lost its tail: an "
        "unflushed file after a power loss, a deleted segment, a recovery that cut at damage. On the leader, with "
        "no replica holding the range, the records are gone for good.",
        proof="The checkpoint, the log end, and a recovery point that no truncation explains.",
        remedy="See which replica still has the range; it should lead. Check the disk and why the tail was lost.",
        traps="A truncation less than 5 s ago (then the recovery point equals the log end); a live copy whose checkpoint "
        "files were copied after the segments; a topic that was created anew less than 5 s ago.",
    ),
    Code(
        code="HWM-RP-ABOVE-LEO",
        severities=("high",),
        verdicts=("LATENT_CORRUPTION",),
        summary="The recovery point lies past the log end: flushed records are missing",
        meaning="Records up to the recovery point had been forced to disk, and they are not in the log. A truncation "
        "writes a smaller recovery point at once, so it does not explain this.",
        proof="The recovery point and the log end.",
        remedy="Suspect the disk, a restored volume or a deleted file. Rebuild the replica; do not let it lead.",
        traps="Files copied at different moments; a log that the loader itself cut less than 60 s ago.",
    ),
    Code(
        code="HWM-ABOVE-ISR-PREFIX",
        severities=("critical",),
        verdicts=("COMMITTED_DIVERGENCE",),
        summary="An in-sync replica does not have what is committed",
        meaning="A member of the ISR, which may lead next, has a conflicting or unreadable end below the proven high "
        "watermark. Electing it loses committed records although the election is clean.",
        proof="The start of the member's conflicting or unreadable end, the lower bound of the high watermark and what "
        "proves it.",
        remedy="Take that broker out of service before the leader goes down, and rebuild its replica from the leader.",
        traps="Copies of different moments.",
    ),
    Code(
        code="HWM-UNDER-MIN-ISR",
        severities=("medium",),
        verdicts=(),
        summary="Fewer in-sync replicas than min.insync.replicas",
        meaning="Producers with acks=all are refused. From 3.7 the high watermark stands still; before, it goes on "
        "over records that one broker alone may hold.",
        proof="The ISR and the topic's min.insync.replicas.",
        remedy="Bring the missing replicas back.",
        traps="",
    ),
    Code(
        code="HWM-STUCK",
        severities=("medium",),
        verdicts=(),
        summary="The high watermark did not move though nothing held it",
        meaning="By the rule (the least log end of the in-sync replicas) the high watermark should have advanced, and "
        "the observed one did not from one observation to the next; or one replica held it for longer than half as long "
        "again as replica.lag.time.max.ms, after which it has to leave the ISR. Consumers do not see the records above it.",
        proof="The timeline of observations with the recomputed and the observed high watermark.",
        remedy="Look at the leader's fetch sessions and at the ISR changes of that time; restarting the leader's "
        "fetchers, or moving leadership, sets it going.",
        traps="The high watermark moves one fetch after the log end does; below min.insync.replicas it stands still since 3.7.",
    ),
    Code(
        code="HWM-AHEAD",
        severities=("critical",),
        verdicts=("INCONCLUSIVE",),
        summary="An observed high watermark was above what the rule allows",
        meaning="Consumers may have read records that not every in-sync replica had (the class of KAFKA-13141). A "
        "change of leader then loses them.",
        proof="The observation, the log ends of the in-sync replicas known at that moment, and the recomputed value. "
        "Confidence suspect: the observations may lack a fetch.",
        remedy="Compare the in-sync replicas up to that offset; upgrade brokers before 3.1.",
        traps="Observations of different moments: read the high watermark first, then the log ends.",
    ),
    Code(
        code="HWM-REGRESSED",
        severities=("medium",),
        verdicts=(),
        summary="The high watermark went back within one leadership",
        meaning="A leader's high watermark never goes back. The leader restarted without a change of epoch, or its "
        "checkpoint is old.",
        proof="The two observations under one leader and epoch.",
        remedy="Look for a restart or a lost checkpoint file at that time.",
        traps="A follower's may go back under a new leader.",
    ),
    Code(
        code="REP-UNDER-REPLICATED",
        severities=("low",),
        verdicts=("LAGGING",),
        summary="The ISR is smaller than the assignment",
        meaning="A replica is down or behind; the partition has less redundancy than it was given.",
        proof="The ISR and the assignment.",
        remedy="Bring the missing brokers back, or find out why they do not keep up.",
        traps="A reassignment in progress.",
    ),
    Code(
        code="REP-LAG",
        severities=("info",),
        verdicts=("LAGGING",),
        summary="A replica is equal to the leader but shorter",
        meaning="Everything that the replica has is what the leader has; it only lacks the newest records.",
        proof="Both log ends; records and bytes behind.",
        remedy="None unless it lasts.",
        traps="",
    ),
    Code(
        code="REP-ISR-SHORT",
        severities=("high", "medium"),
        verdicts=("WILL_LOSE_ON_TRUNCATION", "INCONCLUSIVE"),
        summary="An in-sync replica ends below the proven high watermark",
        meaning="The member lacks committed records without a conflict. If it is elected, and it may be, they are lost "
        "from every replica.",
        proof="The member's log end, the proven lower bound of the high watermark and what proves it; and that the copies "
        "are of one moment (the manifest says quiesced, or all brokers were stopped cleanly and the metadata log knows every "
        "leader epoch), or that the member has no epochs and ends at its own checkpoint.",
        remedy="Keep the leader up until the member has caught up; do not restart the leader or move leadership. If "
        "the leader must stop, stop the short member first.",
        traps="Copies of different moments look the same, and so do brokers that were stopped one after the other: then it "
        "is CAP-SKEW and no finding of this code.",
    ),
    Code(
        code="REP-LEADER-SHORTER",
        severities=("high",),
        verdicts=("COMMITTED_LOSS",),
        summary="A replica goes on past the leader's log end though nothing was written while they were copied",
        meaning="The leader lost its tail, or another broker leads by now. Followers will cut these records to match it.",
        proof="The records past the leader's end with their epoch; and that the copies are of one moment (the manifest says "
        "quiesced, or all brokers were stopped cleanly and the metadata log knows every leader epoch), or that the leader "
        "wrote them before its own copy was begun.",
        remedy="Copy the longer replica's directory before it follows the leader. Consider electing it.",
        traps="Copies of different moments: the leader was copied earlier, or stopped earlier, or the listing is older than "
        "the logs. Then it is CAP-SKEW.",
    ),
    Code(
        code="TXN-HANGING",
        severities=("medium",),
        verdicts=(),
        summary="A transaction has records but will get no marker",
        meaning="The last stable offset stands still at its first record, so read_committed consumers see nothing "
        "after it, and the cleaner stops there as well.",
        proof="The producer id, producer epoch and first offset; no control record after them; the coordinator's log, or a "
        "later epoch of the producer, that says the transaction is over.",
        remedy="kafka-transactions.sh find-hanging, then abort, for this partition.",
        traps="A transaction that is simply in progress; a log that was copied before the marker was written.",
    ),
    Code(
        code="TXN-MARKER-LOST",
        severities=("medium",),
        verdicts=(),
        summary="A transaction is open on the leader and decided on a replica's conflicting tail",
        meaning="The marker was lost with the tail that the leader never had. The coordinator holds the transaction "
        "for finished and will not write another.",
        proof="The marker on the replica, the transaction's records on the leader.",
        remedy="kafka-transactions.sh abort for this partition, after finding out what the marker said.",
        traps="",
    ),
    Code(
        code="CHK-MISSING",
        severities=("medium", "low", "info"),
        verdicts=(),
        summary="No high watermark checkpoint for a partition, or none for a whole log directory",
        meaning="After a restart the high watermark of these logs begins at their log start. A replica without epochs "
        "would truncate to it, which is to say everything.",
        proof="The file, and the logs that have no entry in it.",
        remedy="If the file is gone or empty, start this broker after the others, and not as the only replica of "
        "anything.",
        traps="A partition created less than 5 s ago; an empty log.",
    ),
    Code(
        code="CHK-MALFORMED",
        severities=("high",),
        verdicts=("INCONCLUSIVE",),
        summary="An offset checkpoint file cannot be parsed",
        meaning="Wrong version, wrong count, a word or a negative number. A broker refuses to start on it, or marks "
        "the whole log directory offline.",
        proof="The file, the line, what was expected and what was found.",
        remedy="Keep a copy. With the broker stopped, delete the file (it is written again); for the high watermark "
        "that means CHK-MISSING.",
        traps="",
    ),
    Code(
        code="CHK-START-ABOVE-HW",
        severities=("low",),
        verdicts=(),
        summary="The log start lies above the checkpointed high watermark",
        meaning="The checkpoint is older than the last retention or DeleteRecords. Kafka raises the high watermark to "
        "the log start when it loads the log.",
        proof="The checkpoint and the log start.",
        remedy="None.",
        traps="",
    ),
    Code(
        code="CHK-ORPHAN-ENTRY",
        severities=("info",),
        verdicts=(),
        summary="A checkpoint names a partition that is not in its log directory",
        meaning="The partition was deleted or moved, or its directory was not copied.",
        proof="The file and the entry.",
        remedy="None; if the partition should be there, look for its directory.",
        traps="A copy that begins in the middle of a deletion.",
    ),
)

"""Codes for metadata and for the capture itself (META-*, CAP-*)."""

from __future__ import annotations

from replica_audit.auditing.findings.codes import Code

CODES = (
    Code(
        code="META-NO-LEADER",
        severities=("medium", "info"),
        verdicts=(),
        summary="The newest state of the partition has no leader",
        meaning="Nobody leads. After a clean stop of the whole cluster that is normal (info). The replicas are then "
        "compared with the one that would most likely be elected; the answers are for that case.",
        proof="The state and its source, and the reference that was chosen instead.",
        remedy="Bring back a broker of the ISR or of the eligible leader replicas. See what each choice would cost "
        "before an unclean election.",
        traps="",
    ),
    Code(
        code="META-UNCLEAN-ELECTION",
        severities=("high", "info"),
        verdicts=("WILL_LOSE_ON_TRUNCATION",),
        summary="A replica outside the ISR was elected",
        meaning="Its log may end below what was committed. High while a replica still holds records that conflict with "
        "the new lineage, since these can be saved; afterwards a note of what happened.",
        proof="The election in the metadata history: the leader was in neither the ISR nor the eligible leader "
        "replicas "
        "before. The bound of loss is the old leader's log end less the new epoch's start.",
        remedy="Keep the old leader from rejoining and copy its log directory, if the records matter.",
        traps="A last known leader that is elected again counts as unclean, and with ELR the setting "
        "unclean.leader.election.enable may be false; a clean election can lose records as well (HWM-LOSS).",
    ),
    Code(
        code="META-ISR-UNKNOWN",
        severities=("info",),
        verdicts=(),
        summary="The in-sync replicas are not known",
        meaning="Without the ISR only the leader's log end bounds the high watermark from above.",
        proof="The sources of leadership that were looked for.",
        remedy="Add the metadata log, the output of kafka-topics --describe as kafka-topics-describe.txt, or a "
        "leadership.json to the snapshot.",
        traps="",
    ),
    Code(
        code="META-TOPICID-MISMATCH",
        severities=("medium", "info"),
        verdicts=("INCONCLUSIVE",),
        summary="Directories of one name belong to different topics",
        meaning="The topic was deleted and created again while a broker was away, or a directory was restored. Logs of "
        "different topic ids are never compared.",
        proof="The topic ids and their files; or, without ids, no batch in common at all (suspect). Where the leader's log then "
        "begins in a later leader epoch than the other ever had, an empty replica was elected or the topic was created anew: that "
        "is judged as loss, likely and never proven, unless a broker's log dates the creation after the other's last record.",
        remedy="Leave the older directory alone if its broker is about to return, which makes a -stray directory of it. Otherwise "
        "remove it, once nothing in it is wanted.",
        traps="",
    ),
    Code(
        code="META-DUP-DIR",
        severities=("medium",),
        verdicts=(),
        summary="One broker has two current copies of a partition",
        meaning="Two log directories of a broker both hold the partition under its plain name. A broker with both "
        "refuses to start or takes either.",
        proof="Both directories, which one was used and why (the metadata names it, or it is longer).",
        remedy="Find out which one is current and move the other away while the broker is stopped.",
        traps="Two copies of one disk in the snapshot.",
    ),
    Code(
        code="META-FOREIGN-DIR",
        severities=("medium",),
        verdicts=(),
        summary="A log directory belongs to another cluster or node",
        meaning="The meta.properties of the directory names another cluster id or node id than the rest.",
        proof="The file and both values.",
        remedy="Take the directory out of the snapshot, or find out why it is mounted there.",
        traps="",
    ),
    Code(
        code="META-FORK",
        severities=("critical",),
        verdicts=("COMMITTED_DIVERGENCE",),
        summary="The controllers' metadata logs differ below what a majority has",
        meaning="The quorum has two histories: topics, leaders and ISRs depend on which controller is asked.",
        proof="The offsets, the epochs on either side, and the controllers that hold each.",
        remedy="Stop changing metadata. Copy all controllers' directories and keep the majority's history.",
        traps="An uncommitted tail on a single controller is normal.",
    ),
    Code(
        code="CAP-MISSING-REPLICA",
        severities=("medium", "info"),
        verdicts=(),
        summary="An assigned replica has no readable files in the snapshot",
        meaning="Nothing can be said about it. Medium when it is in the ISR, since it may lead next.",
        proof="The assignment and the log directories found.",
        remedy="Add the missing log directories to the snapshot.",
        traps="",
    ),
    Code(
        code="CAP-MISSING-SEGMENT",
        severities=("medium",),
        verdicts=("INCONCLUSIVE",),
        summary="A segment that must have been there is not in the snapshot",
        meaning="Index or snapshot files without their log, or other replicas, show that a segment is missing here; or a "
        "partition's directory has no .log at all, which Kafka never leaves. What it held cannot be compared, and where "
        "the log ends is not known.",
        proof="The files left behind, or the range that the others hold.",
        remedy="Copy again. If the broker itself lacks the file, rebuild the replica.",
        traps="Retention that deleted a segment during the copy.",
    ),
    Code(
        code="CAP-SKEW",
        severities=("info",),
        verdicts=(),
        summary="Copies of different moments explain what was seen",
        meaning="The brokers were running while they were copied one after the other, so ends and checkpoints do not "
        "belong together. What they cannot decide is not reported as a fault.",
        proof="The values that disagree, and when each directory was copied, where the manifest says so.",
        remedy="Stop the brokers, or copy followers first and the leader last, each with its checkpoints before its "
        "segments, and write a manifest.json.",
        traps="",
    ),
    Code(
        code="CAP-SECOND-HAND",
        severities=("medium", "info"),
        verdicts=("INCONCLUSIVE",),
        summary="A replica's log is known from a text or table only",
        meaning="The snapshot has no segments of it, but text of kafka-dump-log or a table of batches or records. What "
        "the files would have shown besides is not known. Medium where it leaves open what the log holds, or it cannot "
        "be compared with the others: then nothing is concluded from it.",
        proof="The text or table, and what it leaves unproven, point by point.",
        remedy="Copy the replica's directory. If there is only text: give the listing without --deep-iteration too, "
        "whole and of one moment, and all replicas in the same form.",
        traps="Checksums in a text are the verdicts of the tool that printed it.",
    ),
    Code(
        code="CAP-UNREADABLE",
        severities=("high",),
        verdicts=("INCONCLUSIVE",),
        summary="A directory, replica or file could not be read at all",
        meaning="It is left out of the comparison, so part of the answer is missing.",
        proof="The path and the reason.",
        remedy="Mend what the reason says (permissions, a link that leads out of the snapshot, a missing "
        "meta.properties) and run again.",
        traps="",
    ),
    Code(
        code="CAP-NOT-AUDITED",
        severities=("high",),
        verdicts=("INCONCLUSIVE",),
        summary="This partition could not be audited",
        meaning="The audit of this partition ended in an error, so nothing is known of it. All other partitions were audited.",
        proof="The error, the file where it names one, and the place in the program.",
        remedy="Where the error names a file, look at that file and copy it again. Otherwise it is a fault of replica-audit: "
        "report it with the message and the traceback in the log, and look at the partition by hand meanwhile.",
        traps="A snapshot that changed while it was read.",
    ),
)

"""Closed sets of words that fields and columns hold: each set once. The type checker refuses any other word where one is
compared or given."""

from __future__ import annotations

from typing import Literal, get_args

#: Worst first.
Severity = Literal["critical", "high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

#: Worst first: the order decides a partition's verdict if its findings ask for several.
Verdict = Literal[
    "COMMITTED_LOSS",
    "COMMITTED_DIVERGENCE",
    "LATENT_CORRUPTION",
    "WILL_LOSE_ON_TRUNCATION",
    "INCONCLUSIVE",
    "UNCOMMITTED_DIVERGENCE",
    "LAGGING",
    "CONSISTENT",
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
#: Verdicts of partitions that lost nothing and whose replicas do not differ.
CALM: tuple[Verdict, ...] = ("LAGGING", "CONSISTENT")

#: Confidence of a finding, surest first.
Confidence = Literal["proven", "likely", "suspect"]

#: State of a finding or a failed expectation relative to an earlier audit.
Status = Literal["new", "known", "resolved"]

#: Commitment of records that are gone; possible: every in-sync replica held them.
Committed = Literal["proven", "possible", "no"]

#: The four generations of follower truncation, oldest first (KIP-101, KIP-279, KIP-595 style fetch).
Protocol = Literal["high-watermark", "kip-101", "kip-279", "fetch"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)

#: Sources of leadership, most trusted first; inferred: no source names the leader.
LeadershipSource = Literal["metadata_log", "zookeeper", "topics_describe", "user", "inferred"]
LEADERSHIP_SOURCES: tuple[LeadershipSource, ...] = get_args(LeadershipSource)[:-1]

#: Event that began a state of a partition.
Occasion = Literal["snapshot", "created", "changed", "configured", "elr_cleared", "deleted"]

#: State of a file in a log dir; unreadable: the storage did not return its bytes, not_given: its existence is unknown.
FileState = Literal["present", "empty", "missing", "malformed", "unreadable", "not_given"]

#: The bytes after the last sound batch of a file.
TailKind = Literal["clean", "partial", "zero_filled", "garbage"]

#: A part of a segment without a usable batch; corrupt lies between sound batches or reaches the file's end, the others are tails.
DamageKind = Literal["corrupt", "partial", "zero_filled", "garbage"]

#: The rule of its log that a readable batch breaks (`model.Irregularity`).
IrregularityKind = Literal[
    "crc", "gap", "regression", "duplicate", "epoch_regression", "segment_name", "field", "producer_duplicate"
]

#: Reasons for which records of a batch cannot be compared; lost: the file is gone or has changed, or the batch is too large to expand,
#: not_captured: they are not part of the evidence, undecodable: Kafka could not read them either.
RecordProblemKind = Literal["lost", "not_captured", "unchecked", "undecodable"]

#: Source of a log; evidence: a segment of which evidence lacks bytes that an audit needs.
SegmentSource = Literal["segment", "evidence", "dump_text", "batch_table", "record_table"]

#: Kinds of difference between two logs (`Difference`).
DifferenceKind = Literal["epoch", "content", "hole_here", "hole_there", "batching", "format"]

#: Proof that records were committed: a high watermark in a checkpoint, or a leader alone in the ISR.
ProofKind = Literal["checkpoint", "lost_tail", "sole_isr"]

#: Damage of a batch that both logs hold (`CorruptPair`).
PairDamage = Literal["crc", "blind"]

#: State of a broker while it was copied (`kind` in manifest.json); image: it ran, and an image of its disk was copied.
CaptureKind = Literal["live", "image", "stopped", "killed"]
CAPTURE_KINDS: tuple[CaptureKind, ...] = get_args(CaptureKind)
#: Kinds of a broker that was up.
UP_KINDS: frozenset[CaptureKind] = frozenset(("live", "image"))

#: Part of a replica that is in a snapshot; awaited: evidence of it, with bytes still wanted; named: no log dir of its broker is
#: there, absent: one is, without the partition.
CaptureState = Literal["whole", "partial", "awaited", "named", "absent"]
#: What is missing of an absent replica if its broker has a directory of that name, of another topic id.
OF_OTHER_TOPIC = "directory of this topic id"

#: A copy of the metadata log relative to the others: used, the one that answers go by; agrees, with equal records; apart,
#: records differ and which are right is unknown; stale, it lacks committed records; refused, its whole history does or is spliced.
MetadataStanding = Literal["used", "agrees", "apart", "stale", "refused", "empty", "unreadable"]

#: Sources that name a replica: the present state, an earlier one (metadata_log), a checkpoint file, or the quorum's state.
NamedBy = Literal["assignment", "isr", "elr", "metadata_log", "checkpoint", "voters"]

#: Reasons for which an answer depends on a replica that was not captured.
Need = Literal[
    "elr", "leads", "isr", "led_before_unclean", "isr_before_unclean", "isr_before_crash", "former_disk", "no_history"
]

#: Verdict of `verify` on a follower.
FollowerVerdict = Literal["correct", "not_yet", "over_truncated", "under_truncated", "lost_committed"]

#: Role of a copy in the audit of its partition; the last five are put aside: Kafka does not serve from them.
Role = Literal[
    "leader",
    "reference",
    "compared",
    "foreign",
    "duplicate",
    "set_aside",
    "earlier",
    "future",
    "stray",
    "delete",
    "deleted_segments",
]

#: The right by which a replica may lead, best first.
Standing = Literal["leader", "isr", "elr", "last_known", "out_of_sync", "unknown", "unassigned"]
STANDINGS: tuple[Standing, ...] = get_args(Standing)

#: States of a segment in remote storage, in the order of their numbers (Kafka `RemoteLogSegmentState`).
RemoteState = Literal["copy_started", "copy_finished", "delete_started", "delete_finished"]

#: Relation of a segment in remote storage to the log of the reference.
RemoteLineage = Literal["own", "left", "past_end", "below_start", "other_topic", "unknown"]

#: State of a segment in a remote store that was read.
StoredForm = Literal["readable", "encrypted", "unknown", "incomplete", "absent"]

#: Evidence that remote storage has records, weakest first. log: its leader's files begin above them, and no segment of them is
#: known; metadata: `__remote_log_metadata` names a copied segment, and no object of it was seen; differs: one was, and its size or
#: content is not as told there; listing: one was, and nobody read it; content: it was read, and every batch is sound.
RemoteBasis = Literal["log", "metadata", "differs", "listing", "content"]
REMOTE_BASES: tuple[RemoteBasis, ...] = get_args(RemoteBasis)

#: Bases without an object that was seen.
UNSEEN = REMOTE_BASES[:2]
#: Bases with an object that was seen and has nothing wrong with it.
SEEN = REMOTE_BASES[3:]

#: Position of a group on the leader's log; past_end and epoch_differs: it has read records that are not there.
GroupEffect = Literal["unaffected", "past_end", "epoch_differs", "read_lost"]
#: Kinds of groups: each member of a consumer group (of Kafka Streams too) reads partitions of its own, those of a share group
#: share them record by record (KIP-932).
GroupKind = Literal["consumer", "share"]

#: Formats of salvaged records, in the order in which they are written, and encodings of their bytes in JSON.
RECORD_FORMS = ("jsonl", "parquet", "segments")
RECORD_ENCODINGS = ("base64", "text")

#: Roles of copies that are compared, and of those that are not though Kafka serves from them.
COMPARED = get_args(Role)[:3]
NOT_COMPARED = get_args(Role)[3:6]

#: Roles of copies that Kafka does not serve from: `ReplicaFacts.kind`.
PUT_ASIDE = get_args(Role)[-5:]

"""Gates of behaviour that depend on the broker's version, each once, by name. A version is (major, minor, …).

A gate is None where the version is unknown; the caller decides what follows.
"""

from __future__ import annotations

Version = tuple[int, ...]

_FIRST_OF_PROTOCOL = (((2, 8), "fetch"), ((2, 0, 1), "kip-279"), ((0, 11), "kip-101"))


def parse_kafka_version(text: str | None) -> tuple[int, ...] | None:
    """`4.3.1` as (4, 3, 1); None for None. Raises ValueError for anything but numbers and dots."""
    if text is None:
        return None
    parts = text.strip().split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"kafka version {text!r}: expected numbers and dots such as 3.9.1")
    return tuple(int(part) for part in parts)


def parse_protocol_version(text: str) -> tuple[int, ...] | None:
    """inter.broker.protocol.version, `2.8-IV1`, as (2, 8); None if brokers show none, or another text."""
    try:
        return parse_kafka_version(text.partition("-")[0])
    except ValueError:
        return None


def protocol_of(version: Version) -> str:
    """The protocol by which brokers of a version truncate, one of `literals.PROTOCOLS` (KIP-101, KIP-279, KIP-595)."""
    return next((name for first, name in _FIRST_OF_PROTOCOL if version >= first), "high-watermark")


def keeps_committed(protocol: str) -> bool:
    """True if a clean election under this protocol, one of `literals.PROTOCOLS`, keeps everything committed (KIP-279)."""
    return protocol in ("kip-279", "fetch")


def notes_elections(protocol: str) -> bool:
    """True if a leader's epoch is in its file as soon as it is elected, by a protocol, one of `literals.PROTOCOLS`; before, with its first
    record (2.0.1, KAFKA-7415)."""
    return protocol in ("kip-279", "fetch")


def stands_still_below_min_isr(version: Version | None) -> bool | None:
    """True if the high watermark does not move while the ISR is smaller than min.insync.replicas (3.7, KAFKA-15583, KIP-966)."""
    return _since(version, (3, 7))


def caps_min_isr(version: Version | None) -> bool | None:
    """True if min.insync.replicas counts as no more than a partition's replicas (3.7, KAFKA-15583, `Partition.effectiveMinIsr`)."""
    return _since(version, (3, 7))


def counts_fenced_outsiders(version: Version | None) -> bool | None:
    """True if a fenced replica outside the ISR holds the high watermark back while it counts as caught up (to 3.5, KAFKA-15021)."""
    return None if version is None else version < (3, 6)


def holds_pending_isr(version: Version | None) -> bool | None:
    """True if members of the maximal ISR, a pending expansion included, hold the high watermark back (2.7, KIP-497)."""
    return _since(version, (2, 7))


def tries_when_isr_changes(version: Version | None) -> bool | None:
    """True if a change of the ISR makes the leader try to advance; in 2.7 and 2.8 it came too late for that (KAFKA-13091)."""
    return None if version is None else not (2, 7) <= version < (3,)


def waits_thirty_seconds(version: Version | None) -> bool | None:
    """True if the default of replica.lag.time.max.ms is 30 s, not 10 s (2.5, KIP-537)."""
    return _since(version, (2, 5))


def cleans_below_mark(version: Version | None) -> bool | None:
    """True if the cleaner stays below the high watermark (3.1, KAFKA-13194)."""
    return _since(version, (3, 1))


def may_mark_over_tail(version: Version | None) -> bool | None:
    """True if a follower can checkpoint a high watermark over records that it is about to cut (2.8 to 3.4, KAFKA-14704)."""
    return None if version is None else (2, 8) <= version < (3, 5)


def can_be_kraft(version: Version | None) -> bool | None:
    """True if a cluster may run without ZooKeeper (2.8, KIP-500)."""
    return _since(version, (2, 8))


def runs_without_zookeeper(version: Version | None) -> bool | None:
    """True if every cluster is one of KRaft (4.0, KIP-500)."""
    return _since(version, (4,))


def can_have_elr(version: Version | None) -> bool | None:
    """True if partitions can have eligible leader replicas (4.0, KIP-966); those of clusters formatted by 4.1 or later do."""
    return _since(version, (4,))


def has_old_formats(version: Version | None) -> bool | None:
    """True if a topic may have a message format before 0.11, with which brokers keep no epochs (before 4.0, KIP-724)."""
    return None if version is None else version < (4,)


#: Prefixes of versions whose message format is 0 or 1, without transactions, headers and epochs.
_OLD_FORMATS = ("0.8.", "0.9.", "0.10.")
#: The earliest version of message format 2.
PRESENT_FORMAT = "0.11.0"


def is_old_format(version: str) -> bool:
    """True if a topic's message.format.version, such as 0.10.2-IV0, is of before 0.11."""
    return version.startswith(_OLD_FORMATS)


def heeds_old_formats(version: Version | None) -> bool | None:
    """True if brokers heed a topic's message.format.version: up to inter.broker.protocol.version 2.8, by default that of the brokers (KIP-724)."""
    return None if version is None else version < (3,)


def empties_unrecovered(version: Version | None) -> bool | None:
    """True if a broker empties a log that it cannot recover for want of space (4.0, `LogLoader.recoverLog`); before, it takes the log dir
    offline."""
    return _since(version, (4,))


def keeps_strays(version: Version | None) -> bool | None:
    """True if a broker that starts in KRaft renames directories of partitions that it is not assigned to -stray, and keeps them
    (3.7, `LogManager.isStrayKraftReplica`; `UnifiedLog.logStrayDirName`). From 3.3 on it deleted them
    (`ReplicaManager.deleteStrayReplicas`)."""
    return _since(version, (3, 7))


def has_log_dir_ids(version: Version | None) -> bool | None:
    """True if the controllers know in which log directory a broker has a partition (KIP-858)."""
    return _since(version, (3, 7))


def skips_unled_markers(version: Version | None) -> bool | None:
    """True if a coordinator of transactions takes partitions without a leader for deleted, and writes no marker there (seen in 4.3.1;
    `KRaftMetadataCache.getPartitionLeaderEndpoint` in Java). Before 4.0 it waits for a leader (3.9.1)."""
    return _since(version, (4,))


def counts_finished_only(version: Version | None) -> bool | None:
    """True if size retention of a tiered log leaves out copies that failed (3.9, KAFKA-17062, `RemoteLogManager.buildRetentionSizeData`)."""
    return _since(version, (3, 9))


def _since(version: Version | None, first: Version) -> bool | None:
    return None if version is None else version >= first

"""Every log of a partition that may hold records: replicas, and what Kafka has put aside of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replica_audit.auditing.case import Case
from replica_audit.auditing.catalogue import codes_with
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts, replica_facts
from replica_audit.elect.costs import replicas_of
from replica_audit.literals import PUT_ASIDE
from replica_audit.model import ReplicaDir
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.log_dir_names import parse_directory_name
from replica_audit.snapshot.segment_file import SegmentFile

#: Kinds of copies in the order in which a record is taken from them: the first that holds it is its source.
KINDS = ("replica", "duplicate", *PUT_ASIDE)


@dataclass(frozen=True, slots=True)
class Unread:
    """Something of a partition that may hold records and could not be read."""

    path: str
    reason: str
    broker_id: int | None = None
    position: int | None = None
    start_offset: int | None = None
    """Of the batch; None where it is not known."""
    end_offset: int | None = None
    record_count: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """One log, and the files that it is read from."""

    kind: str
    """One of `KINDS`."""
    facts: ReplicaFacts
    files: tuple[SegmentFile, ...]

    @property
    def broker_id(self) -> int:
        return self.facts.broker_id

    @property
    def path(self) -> str:
        """Its directory, relative to the snapshot."""
        return self.facts.directory.path


def unread_directories(inventory: Inventory) -> list[Unread]:
    """Log dirs, and directories of partitions that Kafka has put aside, that could not be listed."""
    log_dirs = {log_dir.path for log_dir in inventory.log_dirs}
    return [
        Unread(row.path, row.reason, row.broker_id)
        for row in inventory.quarantine
        if row.code in codes_with("unreadable")
        and row.topic is None
        and (row.path in log_dirs or parse_directory_name(row.path.rpartition("/")[2]).kind in PUT_ASIDE)
    ]


def copies_of(
    unplaced: Iterable[ReplicaDir],
    audit: PartitionAudit,
    case: Case,
    log: ReplicaFacts,
    files: Sequence[SegmentFile],
) -> tuple[list[Copy], list[ReplicaDir], list[Unread]]:
    """The copies of the topic that `case` is about, in the order of `KINDS`, without `log`, which they are laid beside.

    Where the next start of its broker cuts that log, the files of it as they are now are a copy too.

    `files` are the segments of its replicas and of what is put aside. Second come the directories that are put aside and
    of another topic of the same name, or may be: without an id on both sides nothing tells. Third, what could not be read.
    """
    copies: list[Copy] = []
    unread: list[Unread] = []
    by_key: dict[CopyKey, list[SegmentFile]] = {}
    for file in files:
        by_key.setdefault((file.broker_id, file.log_dir), []).append(file)
    compared = {item.follower.key: item.follower for item in case.beside}
    aside = [
        compared.get((directory.broker_id, directory.log_dir)) or replica_facts(directory, summaries)
        for directory, summaries in audit.evidence.put_aside
    ]
    present = (case.reference.facts.directory.topic_id, None)
    replicas = [("replica", facts) for facts in replicas_of(case) if not _is_whole(log, facts)]
    replicas += [("replica", facts) for facts in case.set_aside]
    replicas += [("duplicate", facts) for facts in case.duplicates]
    replicas += [(facts.kind, facts) for facts in aside if facts.directory.topic_id in present]
    for kind, facts in replicas:
        if facts.unread is not None:
            unread.append(Unread(facts.directory.path, facts.unread, facts.broker_id))
        copies.append(Copy(kind, facts, tuple(by_key.get(facts.key, ()))))
    copies.sort(key=lambda copy: (KINDS.index(copy.kind), copy.broker_id, copy.path))
    others = {facts.directory.path: facts.directory for facts in aside if facts.directory.topic_id not in present}
    others |= {one.path: one for one in unplaced}
    return copies, [others[path] for path in sorted(others)], unread


def _is_whole(log: ReplicaFacts, facts: ReplicaFacts) -> bool:
    return facts.key == log.key and facts.log_end_offset == log.log_end_offset

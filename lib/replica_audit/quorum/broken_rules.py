"""Failures if voters start with a copy (rules R1 to R7 of docs/semantics.md, part I)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.quorum.answer_model import Lost
from replica_audit.quorum.held_metadata import HeldMetadata
from replica_audit.snapshot.metadata.histories import find_barred, seen_epoch
from replica_audit.snapshot.metadata.log_copies import MetadataCopy
from replica_audit.snapshot.metadata.quorum import name_nodes, parting
from replica_audit.text import count, verb

#: Partitions named in a sentence before the rest is counted.
_NAMED = 3


def find_breaks(
    held: HeldMetadata, copy: MetadataCopy, lost: Lost | None, *, keeps_epoch: bool = False
) -> Iterator[str]:
    """Clauses on what fails, worst first. `keeps_epoch`: the copy's node starts with its present quorum-state."""
    yield from _dying_brokers(held, copy)
    yield from _meeting_epochs(held, copy, seen_epoch(copy) if keeps_epoch else copy.epoch)
    yield from _cut_controllers(held, copy)
    if lost is not None and lost.stray:
        records = sum(one.records for one in lost.stray)
        brokers = name_nodes(one.broker_id for one in lost.stray)
        yield (
            f"{count(len(lost.stray), 'directory', 'directories')} of {brokers} with {count(records, 'record')} become -stray (before "
            "Kafka 3.7: are deleted), since it knows no such replica"
        )
    yield from _epochs_again(held, copy)
    if gives_ids_again(held, copy, lost):
        yield (
            "producer ids are given out again: if a new producer gets the id of an old one, brokers take its first batches for repeated "
            "ones, acknowledge them, and do not write them"
        )
    if _is_overtaken(held, copy):
        yield (
            "other changes since then are not known: configurations, ACLs, features and the like are as it has them, and topics that were "
            "deleted are back, without records"
        )
    barred = find_barred(held.snapshot, copy, held.compared.copies)
    yield from (f"{one[0].lower()}{one[1:].rstrip('.')}" for one in barred)


def goes_on(other: MetadataCopy, copy: MetadataCopy) -> bool:
    """True if `other` has records that `copy` does not."""
    return parting(copy, other) is not None or other.end_offset > copy.end_offset


def gives_ids_again(held: HeldMetadata, copy: MetadataCopy, lost: Lost | None) -> bool:
    """True if controllers that start with a copy may give out producer ids again (`ProducerStateEntry.findDuplicateBatch`): another
    copy has later blocks or, in a snapshot at rest, no copy has all that brokers applied, or a producer id that they have."""
    if (lost is not None and lost.producer_id_blocks) or held.unknown_producer is not None:
        return True
    return _is_overtaken(held, copy)


def _is_overtaken(held: HeldMetadata, copy: MetadataCopy) -> bool:
    """True if, in a snapshot at rest, brokers applied records that no copy has, so that nothing here shows what else a copy lacks."""
    histories = held.histories
    is_refused = len(histories) == 1 and bool(histories[0].refused)
    return held.moments.at_rest and is_refused and held.history_of(copy) is not None


def _dying_brokers(held: HeldMetadata, copy: MetadataCopy) -> Iterator[str]:
    ahead = [one for one in _of_brokers(held) if goes_on(one, copy)]
    if ahead:
        parted = [parting(copy, one) for one in ahead]
        end = min(copy.end_offset if one is None else one for one in parted)
        nodes = name_nodes(one.node_id for one in ahead)
        dying = "a broker that is up dies as soon as a leader asks to truncate them"
        if any(held.proven[held.found.history_of(other) or 0].end_offset > end for other in ahead):
            yield f"{nodes} applied records from offset {end} on that it does not have: {dying}"
        else:
            # A broker has records before they are committed, and truncates those without harm.
            yield f"{nodes} {verb(len(ahead), 'has', 'have')} records from offset {end} on that it does not have: if these were committed, {dying}"


def _meeting_epochs(held: HeldMetadata, copy: MetadataCopy, known: int) -> Iterator[str]:
    seen = held.seen_epoch
    if known >= seen:
        return
    later = [one for one in held.copies if one.epoch > known and goes_on(one, copy)]
    if later and min(one.epoch for one in later) <= known + 1:
        yield (
            f"its next controller epoch, {known + 1}, exists already on {name_nodes(one.node_id for one in later)}: where the numbers "
            "meet, nodes go on with two histories, and no log line reports it"
        )
    yield (
        f"its next controller epoch, {known + 1}, is not above {seen}, which nodes have seen: brokers that know it never register, "
        "and shut down"
    )


def _epochs_again(held: HeldMetadata, copy: MetadataCopy) -> Iterator[str]:
    """Report partitions whose logs have a later leader epoch than the controllers would continue from."""
    ahead = {(one.topic, one.partition): known for one, known in held.ahead_of(copy)}
    for (topic, partition), known in list(ahead.items())[:_NAMED]:
        yield (
            f"the leader epochs of {topic}-{partition} are given out again above {known}, though logs already have records of those: until "
            "the leader's is above those, followers stay out of sync, or are cut to its end; if two logs have one epoch and differ, no log "
            "line reports it"
        )
    if len(ahead) > _NAMED:
        yield f"the leader epochs of {count(len(ahead) - _NAMED, 'more partition')} are given out again, too"


def _cut_controllers(held: HeldMetadata, copy: MetadataCopy) -> Iterator[str]:
    longer = [one for one in held.copies if one not in _of_brokers(held) and goes_on(one, copy)]
    if longer:
        nodes = name_nodes(copy.node_id for copy in longer)
        yield f"the log of {nodes} is cut to it without a warning: copy that before the node is started"


def _of_brokers(held: HeldMetadata) -> list[MetadataCopy]:
    return [one for one in held.copies if one.node_id not in held.voters.ids]

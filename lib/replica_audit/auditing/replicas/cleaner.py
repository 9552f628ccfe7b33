"""Progress of the log cleaner on each replica, and the gaps that it explains (F.0).

Removed records stay removed when the policy changes to `delete`, and a follower of a cleaned leader has its gaps, above the
progress of its own cleaner. So the policy and the progress are properties of the partition, not of one replica.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from replica_audit.auditing.replicas.replica_facts import Cleaning, ReplicaFacts
from replica_audit.model import Leadership, OffsetRange, joined

_POLICY = "cleanup.policy"
#: States of a cleaner-offset-checkpoint whose content is unknown.
_UNKNOWN = ("not_given", "malformed")


def _was_compacted(leadership: Leadership | None) -> bool:
    """True if the topic's policy includes `compact`, or did at any time of the history."""
    known = () if leadership is None else (leadership.configs, *(state.configs for state in leadership.committed))
    return any("compact" in configs.get(_POLICY, "") for configs in known)


def is_compacted_now(leadership: Leadership | None) -> bool | None:
    """True if cleaners still work on the topic; None if unknown.

    A source with configs but without cleanup.policy implies the brokers' default: `delete`, unless server.properties change it.
    """
    if leadership is None:
        return None
    if _POLICY in leadership.configs:
        return "compact" in leadership.configs[_POLICY]
    return False if leadership.configs or leadership.history else None


def with_cleaning(
    copies: Sequence[ReplicaFacts],
    leadership: Leadership | None,
    at_rest: bool,
    is_later: Callable[[ReplicaFacts, ReplicaFacts], bool],
) -> list[ReplicaFacts]:
    """Give each copy of a partition the progress of its own cleaner and of the others'.

    `at_rest`: all copies are of one moment, so that no cleaner advanced between the copies of a checkpoint and of the segments.
    `is_later` says whether the copy of the first surely began after that of the second had ended.
    """
    is_known = _was_compacted(leadership) or any(map(_shows_cleaner, copies))
    if not is_known and not _may_be_compacted(copies, leadership):
        return list(copies)
    own = [_cleaned_to(facts, copies) for facts in copies]
    is_still = at_rest or is_compacted_now(leadership) is False
    # An idle cleaner has not advanced since it wrote the copied checkpoint.
    is_final = [is_still or facts.was_stopped_before_copy for facts in copies]
    reached = [
        end if final else max(end, _may_reach(facts)) for facts, end, final in zip(copies, own, is_final, strict=True)
    ]
    found = []
    for place, facts in enumerate(copies):
        others = [other for other in copies if other is not facts]
        shared = joined(part for other in others for part in _absent(other, facts))
        between = facts.in_any_order and not is_final[place]
        later = any(
            not (other is facts or final or other.is_at_rest or is_later(other, facts))
            for other, final in zip(copies, is_final, strict=True)
        )
        cleaning = Cleaning(own[place], reached[place], max(own), max(reached), shared, between, later)
        found.append(replace(facts, compacted=True, compaction_is_assumed=not is_known, cleaning=cleaning))
    return found


def _may_be_compacted(copies: Sequence[ReplicaFacts], leadership: Leadership | None) -> bool:
    """True if the topic's policy is unknown (no DescribeConfigs for `observe`), and there are gaps that a cleaner may have made."""
    observed = any(facts.directory.observed is not None for facts in copies)
    return observed and is_compacted_now(leadership) is None and any(facts.gaps or facts.missing for facts in copies)


def _shows_cleaner(facts: ReplicaFacts) -> bool:
    """True if the replica's own files show that a cleaner worked; a gap between batches alone does not."""
    thinned = any(segment.has_delete_horizon or segment.has_sparse_batch for segment in facts.segments)
    return thinned or bool(facts.directory.cleaner_checkpoint)


def _cleaned_to(facts: ReplicaFacts, copies: Iterable[ReplicaFacts]) -> int:
    """Progress of the replica's own cleaner by its checkpoint; its log end if unknown.

    If another replica has an entry, one without it was never cleaned. If none has one, the entries are missing.
    """
    directory = facts.directory
    if directory.cleaner_checkpoint is not None:
        return directory.cleaner_checkpoint
    none_known = all(one.directory.cleaner_checkpoint is None for one in copies)
    return facts.log_end_offset if none_known or directory.cleaner_file.state in _UNKNOWN else 0


def _may_reach(facts: ReplicaFacts) -> int:
    """Offset that a running cleaner may have reached; it does not clean the active segment. If files are in any order, the
    last segment may have been cleaned and copied after the directory was listed, without the segments after it."""
    if facts.in_any_order:
        return facts.log_end_offset
    return facts.segments[-1].base_offset if facts.segments else 0


def _absent(other: ReplicaFacts, facts: ReplicaFacts) -> Iterable[OffsetRange]:
    """Offsets at which `other` has no batch; for gaps that its summaries only count, the range around them."""
    yield from other.gaps
    yield from other.missing
    following = [segment.base_offset for segment in other.segments[1:]] + [other.log_end_offset]
    for segment, end in zip(other.segments, following, strict=False):  # empty if no segment could be read
        kept = [item.base_offset for item in segment.irregularities if item.kind == "gap"]
        if segment.irregularity_counts.get("gap", 0) > len(kept):
            yield OffsetRange(kept[-1], end)
    # Equal chunks have the same gaps, including those that were not listed.
    for number, chunk in other.chunks.items():
        same = facts.chunks.get(number)
        if same is not None and (same.digest, same.batch_count) == (chunk.digest, chunk.batch_count):
            yield OffsetRange(chunk.base_offset, chunk.last_offset + 1)

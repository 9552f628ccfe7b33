"""Facts that quality suites check, a row for each replica and partition, from an audit's answers and its segments.

A fact is a number that is 0 in a sound log and null where it has no meaning, so that expectations need no exceptions.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import NamedTuple, TypeVar

from replica_audit.auditing.catalogue import codes_with
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.bronze_tables import PlacedSegment
from replica_audit.literals import COMPARED, PUT_ASIDE, Severity
from replica_audit.model import SegmentFile, SegmentSummary, TopicPartition
from replica_audit.protocol.lineage import Lineage
from replica_audit.results import FindingPlace, Results, by_place, place_of
from replica_audit.schema import Epochs, HighWatermarkRow, PartitionFactsRow, PartitionRow, ReplicaFactsRow, ReplicaRow
from replica_audit.text import parse_time

#: Suite on the number of findings, which the report shows anyway.
FINDINGS_SUITE = "findings"

#: Producers whose latest sequence is kept from segment to segment.
_PRODUCERS = 1000
_REPLICA = ("topic", "partition", "broker_id", "log_dir")


_Segment = TypeVar("_Segment", PlacedSegment, SegmentFile)


class SegmentCounts(NamedTuple):
    """Counts over the segments of one replica: irregular batches by kind, irregular borders between segments, and times."""

    crc: int = 0
    regression: int = 0
    duplicate: int = 0
    epoch_regression: int = 0
    sequence_gap: int = 0
    border_regression: int = 0
    border_epoch_regression: int = 0
    border_sequence_gap: int = 0
    latest_timestamp_ms: int | None = None
    copied_ms: int | None = None
    """End of the copy; None if the snapshot does not say."""
    base_offsets: Sequence[int] = ()
    """Base offsets in ascending order."""


_COUNTED = SegmentCounts._fields[: SegmentCounts._fields.index("latest_timestamp_ms")]


#: Counts by topic, partition, broker id and log dir.
CountsByReplica = Mapping[tuple[str, int, int, str], SegmentCounts]


class QualityFacts(NamedTuple):
    """Rows of `schema.FACT_TABLES`; fields are named for the tables."""

    replica_facts: list[ReplicaFactsRow]
    partition_facts: list[PartitionFactsRow]


def segment_counts(
    segments: Iterable[_Segment], read: Callable[[_Segment], SegmentSummary], times: CaptureTimes
) -> CountsByReplica:
    """Counts for every replica; summaries are read one at a time."""
    ordered = sorted(segments, key=attrgetter(*_REPLICA, "base_offset"))
    counted = {}
    for replica, of_replica in groupby(ordered, attrgetter(*_REPLICA)):
        copied = times.of_log_dir(*replica[2:])
        counted[replica] = count_segments(map(read, of_replica), None if copied is None else copied[1])
    return counted


def count_segments(summaries: Iterable[SegmentSummary], copied_ms: int | None) -> SegmentCounts:
    """Counts for one replica, whose segments are in order of base offset."""
    counts: Counter[str] = Counter()
    base_offsets = array("q")
    end = epoch = latest = None
    sequences: dict[tuple[int, int], int] = {}
    for one in summaries:
        base_offsets.append(one.base_offset)
        latest = max((time for time in (latest, one.last_timestamp_ms) if time is not None), default=None)
        counts.update(one.irregularity_counts)
        if end is not None:
            counts["border_regression"] += one.first_base_offset is not None and one.first_base_offset < end
            if one.first_base_offset is not None and one.first_base_offset > end:
                sequences.clear()  # producers of missing records are unknown
        first = one.first_leader_epoch
        counts["border_epoch_regression"] += epoch is not None and first is not None and 0 <= first < epoch
        own_end = one.base_offset if one.greatest_last_offset is None else one.greatest_last_offset + 1
        end = own_end if end is None else max(end, own_end)
        if one.last_leader_epoch is not None and one.last_leader_epoch >= 0:
            epoch = one.last_leader_epoch
        counts["border_sequence_gap"] += sum(
            sequence > sequences.get((producer, its_epoch), sequence) + 1
            for producer, its_epoch, sequence in one.first_sequences
        )
        for producer, its_epoch, sequence in one.last_sequences:
            sequences.pop((producer, its_epoch), None)  # the latest producers stay last
            sequences[producer, its_epoch] = sequence
        for key in list(sequences)[:-_PRODUCERS]:
            del sequences[key]
    return SegmentCounts._make((*(counts[name] for name in _COUNTED), latest, copied_ms, base_offsets))


def find_facts(results: Results, counts: CountsByReplica) -> QualityFacts:
    """Facts of one audit; `counts` may lack replicas without segments.

    Replicas that Kafka does not serve from are left out: segments about to be deleted overlap, and a replica being moved lags behind.
    """
    marks = {place_of(row): row for row in results.high_watermarks}
    doubted = {
        (one.topic, one.partition, one.broker_id)
        for one in results.findings
        if one.confidence == "suspect" and one.code in codes_with("two_moments")
    }
    audited_ms = parse_time(results.audit["started"])
    replicas = [
        _replica_facts(
            row,
            counts.get((row.topic, row.partition, row.broker_id, row.log_dir), SegmentCounts()),
            marks.get(place_of(row)),
            audited_ms,
            may_be_older=(row.topic, row.partition, row.broker_id) in doubted,
        )
        for row in results.replicas
        if row.role not in PUT_ASIDE
    ]
    return QualityFacts(replicas, list(_partition_facts(results, counts, marks)))


def name_place(topic: object, partition: object, broker_id: object = None, path: object = None) -> str:
    """A row's place in words, e.g. "orders-0 broker 2"."""
    parts = []
    if topic is not None:
        parts.append(f"{topic}-{partition}")
    if broker_id is not None:
        parts.append(f"broker {broker_id}")
    if path is not None:
        parts.append(str(path))
    return " ".join(parts) or "no partition"


def _replica_facts(
    replica: ReplicaRow,
    counts: SegmentCounts,
    mark: HighWatermarkRow | None,
    audited_ms: int,
    *,
    may_be_older: bool,
) -> ReplicaFactsRow:
    """Facts of one replica, whose log `may_be_older` than what shows more to be committed: then its end is compared with nothing."""
    start = replica.log_start_offset
    end = replica.log_end_offset
    end_of_checkpoints = None if may_be_older else end
    return ReplicaFactsRow(
        place=name_place(replica.topic, replica.partition, replica.broker_id),
        topic=replica.topic,
        partition=replica.partition,
        broker_id=replica.broker_id,
        log_dir=replica.log_dir,
        is_leader=replica.is_leader,
        in_isr=replica.in_isr,
        compacted=replica.compacted,
        tail_kind=replica.tail_kind,
        batch_count=replica.batch_count,
        log_start_offset=start,
        log_end_offset=end,
        wrong_crcs=counts.crc if counts.crc or not replica.unchecked_batches else None,
        unchecked_batches=replica.unchecked_batches,
        offset_gaps=replica.unexplained_gaps,
        offset_regressions=counts.regression + counts.duplicate + counts.border_regression,
        epoch_regressions=counts.epoch_regression + counts.border_epoch_regression,
        high_watermark_above_end=_excess(replica.high_watermark_checkpoint, end_of_checkpoints),
        recovery_point_above_end=_excess(replica.recovery_point_checkpoint, end_of_checkpoints),
        high_watermark_below_start=_excess(start, replica.high_watermark_checkpoint),
        lineage_conflicts=count_lineage_conflicts(replica.epochs, replica.checkpoint_epochs),
        isr_shortfall=None if may_be_older else _isr_shortfall(replica, mark),
        sequence_gaps=None if replica.compacted else counts.sequence_gap + counts.border_sequence_gap,
        timestamps_ahead_ms=_excess(counts.latest_timestamp_ms, counts.copied_ms),
        capture_age_ms=_excess(audited_ms, counts.copied_ms),
    )


def _excess(value: int | None, limit: int | None) -> int | None:
    return None if value is None or limit is None else max(0, value - limit)


def _isr_shortfall(replica: ReplicaRow, mark: HighWatermarkRow | None) -> int | None:
    """Offsets below the proven high watermark that a member of the ISR does not reach.

    None if the copies were made at different times: the high watermark moved in between.
    """
    if not replica.in_isr or mark is None or mark.method == "capture_skew":
        return None
    return _excess(mark.hw_lower, replica.log_end_offset)


def count_lineage_conflicts(epochs: Epochs | None, checkpoint_epochs: Epochs | None) -> int | None:
    """Epochs of the batches at whose first offset leader-epoch-checkpoint has another epoch; None without that file.

    Two kinds are not a conflict: epochs newer than the file, which may have been copied before the segments, and epochs
    below its first entry, since it is cut before old segments are deleted.
    """
    if checkpoint_epochs is None:
        return None
    written = Lineage.of([(epoch, start) for epoch, start in checkpoint_epochs])
    if not written:
        return 0
    (first_epoch, first_start) = written.entries[0]
    (latest_epoch, _) = written.entries[-1]
    return sum(
        written.epoch_for_offset(start) != epoch
        for epoch, start in epochs or ()
        if epoch <= latest_epoch and not (start < first_start and epoch <= first_epoch)
    )


def count_committed_copies(replicas: Sequence[ReplicaRow], mark: HighWatermarkRow | None) -> int | None:
    """Replicas that hold all proven committed records of the reference.

    None if fewer than two were copied, copies are of different times, or a replica was not compared.
    """
    reaches = _reaches(replicas, mark)
    return None if reaches is None or mark is None else sum(end >= mark.proven_lower for _, end in reaches)


def _reaches(replicas: Sequence[ReplicaRow], mark: HighWatermarkRow | None) -> list[tuple[ReplicaRow, int]] | None:
    """End of each replica's common prefix with the reference, and the reference's own end; None as for `count_committed_copies`."""
    served = [row for row in replicas if row.role in COMPARED]
    if mark is None or mark.method == "capture_skew" or len(served) < 2:
        return None
    # The reference has no prefix in common with itself.
    reaches = [row.log_end_offset if row.broker_id == mark.reference_id else row.common_prefix_end for row in served]
    known = [(row, end) for row, end in zip(served, reaches) if end is not None]
    return known if len(known) == len(served) else None


def count_segments_held_once(
    replicas: Sequence[ReplicaRow], mark: HighWatermarkRow | None, counts: CountsByReplica
) -> int | None:
    """Segments of the reference with proven committed records that no other replica holds completely; None as for
    `count_committed_copies`."""
    reaches = _reaches(replicas, mark)
    if reaches is None or mark is None:
        return None
    (reference,) = (row for row, _ in reaches if row.broker_id == mark.reference_id)
    others = [(row.log_start_offset, end) for row, end in reaches if row is not reference]
    start = reference.log_start_offset
    end = mark.proven_lower
    if any(begin <= start and reach >= end for begin, reach in others):
        return 0
    of_reference = counts.get((reference.topic, reference.partition, reference.broker_id, reference.log_dir))
    bases = of_reference.base_offsets if of_reference else ()
    # The part of each segment that is neither deleted nor unproven.
    ranges = ((max(base, start), min(following, end)) for base, following in pairwise((*bases, end)))
    return sum(
        first < last and not any(begin <= first and reach >= last for begin, reach in others) for first, last in ranges
    )


def _partition_facts(
    results: Results, counts: CountsByReplica, marks: Mapping[TopicPartition, HighWatermarkRow]
) -> Iterator[PartitionFactsRow]:
    """Facts of each partition, then of findings without a partition. Only new findings count."""
    severities: dict[FindingPlace, Counter[Severity]] = defaultdict(Counter)
    for finding in results.findings:
        if finding.status == "new":
            severities[finding.topic, finding.partition][finding.severity] += 1
    placed: dict[FindingPlace, PartitionRow] = {place_of(row): row for row in results.partitions}
    uncaptured = Counter(place_of(row) for row in results.captures if row.state != "whole")
    copies = by_place(results.replicas)
    for place in (*placed, *(place for place in severities if place not in placed)):
        row = placed.get(place)
        found = severities[place]
        lower = upper = held = once = None
        if row is not None:
            lower = row.hw_lower
            upper = row.hw_upper
            own = copies.get(place_of(row), ())
            mark = marks.get(place_of(row))
            held = count_committed_copies(own, mark)
            once = count_segments_held_once(own, mark, counts)
        yield PartitionFactsRow(
            place=name_place(*place),
            topic=place[0],
            partition=place[1],
            verdict=None if row is None else row.verdict,
            hw_lower=lower,
            hw_upper=upper,
            hw_width=None if lower is None or upper is None else upper - lower,
            uncaptured_replicas=None if row is None else uncaptured[place_of(row)],
            committed_copies=held,
            segments_held_once=once,
            critical_findings=found["critical"],
            high_findings=found["high"],
            medium_findings=found["medium"],
            low_findings=found["low"],
            info_findings=found["info"],
        )

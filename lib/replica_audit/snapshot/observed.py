"""`observed.json`: brokers' answers to `observe` about each replica, and refused requests; the batches are in tables beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from replica_audit.errors import FormatError
from replica_audit.model import CheckpointFile, GroupOffset, ObservedLog, ReplicaDir, SegmentFile
from replica_audit.parsing import is_whole, parse_json
from replica_audit.snapshot.provenance import ABOVE_HIGH_WATERMARK, UNPROVEN
from replica_audit.typed_json import ShapeError, from_object

OBSERVED = "observed.json"
SCHEMA_VERSION = 1
_HINT = "observe again into a new directory"

#: Broker, topic and partition.
_ReplicaPlace = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class ObservedReplica:
    """A broker's answer about one replica. Offsets are None if its log was not read, with the reason in `problem`."""

    broker_id: int
    topic: str
    partition: int
    topic_id: str | None
    log_start_offset: int | None
    read_from: int | None
    """The first offset that was requested."""
    end_offset: int | None
    """End of the last batch read."""
    high_watermark: int | None
    """The replica's own high watermark, up to which it was read."""
    log_end_offset: int | None
    """Log end; None if the broker did not give one."""
    last_epoch: int | None
    """Leader epoch of the last record."""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ObservedGroup:
    """The offset that a consumer group has committed for a partition."""

    group: str
    topic: str
    partition: int
    committed_offset: int
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """All answers of the brokers."""

    schema_version: int
    cluster_id: str | None
    observed_ms: int
    """Time at which the groups' offsets were requested."""
    replicas: tuple[ObservedReplica, ...]
    groups: tuple[ObservedGroup, ...]
    refused: tuple[str, ...]
    """Sentences on refused requests."""

    def committed_offsets(self) -> Iterator[GroupOffset]:
        """Offsets of groups. Their commit times are unknown, but not later than the request."""
        for one in self.groups:
            yield GroupOffset(
                one.group, one.topic, one.partition, one.committed_offset, one.leader_epoch, self.observed_ms
            )


def parse_observation(data: bytes, path: str) -> ObservedCluster:
    """Parse an observation. Raises FormatError."""
    content = parse_json(data, path, _HINT)
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise FormatError(path, None, f"an object with schema_version {SCHEMA_VERSION}", repr(version), _HINT)
    try:
        found = from_object(ObservedCluster, content)
        for number, one in enumerate(found.replicas):
            if not (is_whole(one.broker_id) and is_whole(one.partition)):
                raise ShapeError(f"replicas[{number}]", "a broker id and a partition")
            offsets = (one.log_start_offset, one.read_from, one.end_offset, one.high_watermark)
            if one.problem is None and any(offset is None or offset < 0 for offset in offsets):
                raise ShapeError(f"replicas[{number}]", "offsets of 0 or more, or a problem")
        return found
    except ShapeError as error:
        raise FormatError(path, None, str(error), "something else", _HINT) from None


def observed_offsets(read_bytes: Callable[[str], bytes]) -> list[GroupOffset]:
    """Offsets of consumer groups in a snapshot's observation, read by `read_bytes`; empty without one, or if it is
    unreadable, which discovery reports."""
    try:
        return list(parse_observation(read_bytes(OBSERVED), OBSERVED).committed_offsets())
    except (OSError, FormatError):
        return []


def with_observation(
    replicas: list[ReplicaDir],
    segments: list[SegmentFile],
    observation: ObservedCluster,
    is_wanted: Callable[[str], bool],
) -> tuple[list[ReplicaDir], list[SegmentFile]]:
    """The replicas and segments with those that were observed: tables lack replicas without batches.

    A replica whose files are in the snapshot stays as it is.
    """
    known = {_place(one): one for one in replicas}
    tabled = {_place(one) for one in segments if one.source == "batch_table"}
    filed = {_place(one) for one in segments} - tabled
    starts: dict[_ReplicaPlace, int] = {}
    added: list[SegmentFile] = []
    for one in observation.replicas:
        place = _place(one)
        if place in filed or not is_wanted(one.topic):
            continue
        replica = known.get(place) or ReplicaDir(one.broker_id, "", one.topic, one.partition, OBSERVED)
        known[place] = _with_answer(replica, one)
        if one.problem is not None or one.read_from is None or one.end_offset is None or one.high_watermark is None:
            continue
        starts[place] = one.read_from
        bases = {one.read_from}
        if place not in tabled:
            added.append(_empty_segment(one, one.read_from))
        if one.end_offset < one.high_watermark:
            # A cleaner removed the last records below the high watermark.
            added.append(_empty_segment(one, one.high_watermark))
            bases.add(one.high_watermark)
        known[place] = known[place]._replace(segment_bases=tuple(sorted(bases)))
    return list(known.values()), [*(_begun(one, starts) for one in segments), *added]


def _place(one: ReplicaDir | SegmentFile | ObservedReplica) -> _ReplicaPlace:
    return one.broker_id, one.topic, one.partition


def _begun(segment: SegmentFile, starts: Mapping[_ReplicaPlace, int]) -> SegmentFile:
    """A log's table as one segment that begins where reading began: offsets missing before its first batch are a hole."""
    start = starts.get(_place(segment))
    return segment if start is None else segment._replace(base_offset=start)


def _with_answer(replica: ReplicaDir, one: ObservedReplica) -> ReplicaDir:
    if one.problem is not None or one.high_watermark is None or one.log_start_offset is None:
        return replica._replace(problem=f"its log could not be read through its broker: {one.problem}")
    return replica._replace(
        topic_id=one.topic_id,
        observed=ObservedLog(one.high_watermark, one.log_start_offset, one.log_end_offset, one.last_epoch),
        high_watermark_file=CheckpointFile("present", OBSERVED),
        high_watermark_checkpoint=one.high_watermark,
    )


def _empty_segment(one: ObservedReplica, base: int) -> SegmentFile:
    """Placeholder for a log, or its end, without batches."""
    path = f"{OBSERVED} (broker {one.broker_id}, {one.topic}-{one.partition}/{base:020d}.log)"
    return SegmentFile(one.broker_id, "", one.topic, one.partition, path, base, 0, "batch_table")


def told_tail(directory: ReplicaDir) -> str | None:
    """Clause on the records of an observed replica that were not captured; None if there are none."""
    observed = directory.observed
    if observed is None or not observed.hides_tail:
        return None
    start = observed.high_watermark
    if observed.log_end_offset is None:
        return f"{UNPROVEN[ABOVE_HIGH_WATERMARK]}; its log may go on past {start}"
    epoch = "" if observed.last_epoch is None else f", the last one of leader epoch {observed.last_epoch}"
    return f"its log goes on above its own high watermark {start} to {observed.log_end_offset}{epoch}: what is there was not captured"

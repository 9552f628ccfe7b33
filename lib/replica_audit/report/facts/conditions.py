"""Conditions outside the verdict that the headline must mention, e.g. no leader, a missing replica, possible losses.

They are gathered from parts of the partitions, with sums over all partitions that no row contains.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar, get_args

from replica_audit.auditing.catalogue import at_or_above, codes_with, leaves_commitment_open
from replica_audit.auditing.detailed_partitions import NAMED
from replica_audit.auditing.earlier_losses import is_without_records
from replica_audit.auditing.finding import Wanted, find_wanted
from replica_audit.auditing.findings.tier import TIER_ORPHAN
from replica_audit.elect.cluster_state import deleted_places, find_lost_quorum, find_up, newest_states
from replica_audit.literals import COMPARED, CaptureState, RemoteBasis, StoredForm
from replica_audit.model import TopicPartition
from replica_audit.protocol.election import elections
from replica_audit.report.facts.losses import AboutToGo, Holder, find_about_to_go, find_holders, join_holders
from replica_audit.report.facts.lost_writers import LostWriters, find_writers, join_writers
from replica_audit.results import Results, nothing_given, place_of, present
from replica_audit.schema import CaptureRow, FindingRow, TruncationRow
from replica_audit.snapshot.leadership_rows import leadership_of_rows
from replica_audit.snapshot.log_dir_names import METADATA_PARTITION

#: States of `captures` in display order.
STATES = get_args(CaptureState)


class NeededBrokers(NamedTuple):
    """Brokers whose replicas of the same partitions were not captured and may hold committed records."""

    brokers: tuple[int, ...]
    places: tuple[TopicPartition, ...]
    is_up: bool | None
    """None if unknown."""
    state: str
    """One of `STATES`: some files of these replicas were captured, only other replicas of these brokers, or nothing of them."""


class Compared(NamedTuple):
    """Partitions whose only copy was compared with no other, or whose number of replicas is unknown, in the order of `partitions`."""

    alone: tuple[TopicPartition, ...]
    """Partitions with one copy in the snapshot that have, or may have, other replicas."""
    single: tuple[TopicPartition, ...]
    """Partitions with one copy in the snapshot and one replica."""
    unassigned: tuple[TopicPartition, ...]
    """Partitions with several copies whose number of replicas is unknown; of a whole audit at least the first `NAMED`."""
    unassigned_count: int
    copies: tuple[int, ...]
    """Numbers of copies that these have."""
    second_copies: tuple[tuple[TopicPartition, int], ...]
    """Partition and broker of a copy on another disk of the same broker, which does not count as its replica."""

    @property
    def uncompared(self) -> frozenset[TopicPartition]:
        """Partitions without any comparison."""
        return frozenset((*self.alone, *self.single))


def find_needed(results: Results) -> tuple[NeededBrokers, ...]:
    """Brokers whose replicas the answer needs and lacks, those of the most partitions first."""
    up = find_up(results)
    places: dict[tuple[int, str], list[TopicPartition]] = defaultdict(list)
    for row in results.captures:
        if row.needed is not None:
            places[row.broker_id, row.state].append(place_of(row))
    alike: dict[tuple[tuple[TopicPartition, ...], bool | None, str], list[int]] = defaultdict(list)
    for (broker_id, state), of_broker in sorted(places.items()):
        alike[tuple(dict.fromkeys(of_broker)), up.get(broker_id), state].append(broker_id)
    found = [NeededBrokers(tuple(brokers), of_all, is_up, state) for (of_all, is_up, state), brokers in alike.items()]
    return tuple(sorted(found, key=lambda one: (-len(one.places), one.brokers)))


def find_compared(results: Results, waiting: Collection[TopicPartition]) -> Compared:
    """Compare each partition's number of copies with its number of replicas; partitions `waiting` for bytes are left out
    because their comparison is not complete."""
    assigned = {place: state.replicas for place, state in newest_states(results).items()}
    copies = Counter(place_of(row) for row in results.replicas if row.role in COMPARED)
    alone: list[TopicPartition] = []
    single: list[TopicPartition] = []
    unassigned: list[TopicPartition] = []
    for row in results.partitions:
        place = place_of(row)
        replicas = assigned.get(place)
        count = copies[place]
        if place in waiting:
            continue
        if count == 1:
            (single if replicas is not None and len(replicas) == 1 else alone).append(place)
        elif count and replicas is None:
            unassigned.append(place)
    second = [(place_of(row), row.broker_id) for row in results.replicas if row.role == "duplicate"]
    numbers = {copies[place] for place in unassigned}
    return Compared(tuple(alone), tuple(single), tuple(unassigned), len(unassigned), tuple(numbers), tuple(second))


def is_incomplete(captures: Sequence[CaptureRow]) -> bool:
    """True if a replica is missing or captured in part; copies of the metadata log do not count."""
    return any(row.state != "whole" and not is_of_voter(row) for row in captures)


def is_of_voter(row: CaptureRow) -> bool:
    """True for a copy of the metadata log."""
    return row.topic == METADATA_PARTITION.topic


class Return(NamedTuple):
    """Return of the last replica in sync: it dropped out without a controlled shutdown and was elected cleanly again. It may
    have lost the end of its log in a crash, and its followers then lost the same."""

    place: TopicPartition
    time_ms: int
    """Time of the election, by the controller's clock."""


class Unchecked(NamedTuple):
    """Batches of one or more replicas of a broker whose checksums were never computed."""

    broker_id: int
    batches: int
    of: int
    """Number of batches they are a part of."""


class Conditions(NamedTuple):
    """Findings behind each condition. If all are empty and no finding is of medium severity or more, the audit is peaceful."""

    leaderless: tuple[FindingRow, ...]
    hanging: tuple[FindingRow, ...]
    past: tuple[FindingRow, ...]
    past_times: tuple[int, ...]
    """Times (ms) of the elections in `past`, as far as the history has them."""
    gone: tuple[FindingRow, ...]
    gone_ends: tuple[FindingRow, ...]
    """Findings as in `gone`, where no record is gone but ends of transactions or empty batches."""
    no_files: tuple[FindingRow, ...]
    loud: bool
    """True if a finding is of medium severity or more."""
    needed: tuple[NeededBrokers, ...]
    """Brokers whose replicas were not captured and may hold committed records."""
    cuts: tuple[FindingRow, ...]
    """Cuts below a high watermark known from broker logs; no file shows the records they removed."""
    compared: Compared
    restart_cuts: tuple[TruncationRow, ...]
    """Truncations of committed records by a restart under the audit's protocol."""
    incomplete: bool
    """True if a replica is missing in the snapshot or captured in part."""
    quorum: tuple[FindingRow, ...]
    """Findings of metadata logs that are stale or contradictory."""
    lost_quorum: tuple[int, ...]
    """See `find_lost_quorum`."""
    returns: tuple[Return, ...]
    """Last return of each partition with several replicas and no known lost record."""
    about_to_go: tuple[AboutToGo, ...]
    """Lost records that exist in `.deleted` segments only."""
    deleted: tuple[TopicPartition, ...]
    """Partitions whose topic is deleted by the metadata log."""
    past_the_end: bool
    """True if a replica's own high watermark is past the end of the log it is compared with: that log once lacked something committed."""
    wanted: tuple[Wanted, ...]
    """Bytes that the answer needs and the evidence lacks."""
    moved: tuple[FindingRow, ...]
    """Findings of partitions that moved during collection and have to be collected again."""
    doubted: tuple[FindingRow, ...]
    """Findings on the partitions in `moved` that the move may explain."""
    unchecked: tuple[Unchecked, ...]
    """Replicas with batches whose checksums were never computed."""

    unseen_heads: tuple[FindingRow, ...]
    """Findings of logs that were compared from an offset after their start."""
    unproven: tuple[FindingRow, ...]
    """Findings of losses by which it is less than proven that the records were committed."""

    @property
    def is_peace(self) -> bool:
        """True if nothing is wrong and that is certain: every assigned replica was captured completely and compared."""
        unclear = self.compared.alone or self.compared.unassigned or self.compared.second_copies
        in_doubt = (
            self.past
            or self.returns
            or self.gone
            or self.gone_ends
            or self.no_files
            or self.needed
            or self.cuts
            or unclear
            or self.about_to_go
            or self.unchecked
            or self.unseen_heads
            or self.lost_quorum
        )
        at_risk = self.leaderless or self.hanging or self.loud or self.past_the_end or self.restart_cuts
        return not (in_doubt or at_risk or self.incomplete)


def find_conditions(results: Results) -> Conditions:
    """Find the conditions of the partitions in `results` (all or a part of an audit) except `needed` and `lost_quorum`. Findings that a baseline
    resolved do not count, known ones do."""
    found = present(results.findings)
    gone = {place_of(row) for row in found if row.code == "HWM-GONE"}
    captures = results.captures
    wanted = tuple(find_wanted(found))
    needed = {(*place_of(row), row.broker_id) for row in captures if row.needed is not None}
    # Severity info: no replica still has records that the election left behind; losses that are certain have a sentence of their own.
    past = [row for row in found if may_have_lost(row) and place_of(row) not in gone]
    return Conditions(
        # Severity info: there is no leader because all brokers were stopped cleanly.
        leaderless=_slim(row for row in found if row.code == "META-NO-LEADER" and row.severity != "info"),
        # Suspect: a later transaction may be in progress, and its end ends both.
        hanging=_slim(row for row in found if row.code == "TXN-HANGING" and row.confidence != "suspect"),
        past=_slim(past),
        past_times=tuple(election_times(past, results)),
        gone=_slim(row for row in found if row.code == "HWM-GONE" and not is_without_records(row.evidence)),
        gone_ends=_slim(row for row in found if row.code == "HWM-GONE" and is_without_records(row.evidence)),
        # Needed replicas have a more detailed sentence; the others need a broker to name.
        no_files=_slim(
            row
            for row in found
            if row.code in codes_with("no_files")
            and row.topic is not None
            and row.broker_id is not None
            and (*place_of(row), row.broker_id) not in needed
        ),
        loud=any(at_or_above(row.severity, "medium") for row in found),
        needed=(),
        cuts=_slim(row for row in found if row.code == "TRN-LOGGED" and at_or_above(row.severity, "medium")),
        compared=find_compared(results, {one.place for one in wanted}),
        restart_cuts=tuple(row._replace(steps=()) for row in _restart_cuts(results, find_up(results))),
        incomplete=is_incomplete(captures),
        quorum=_slim(row for row in found if row.topic is None and row.code in codes_with("quorum")),
        lost_quorum=(),
        returns=tuple(_returns(results)),
        about_to_go=tuple(find_about_to_go(results)),
        deleted=tuple(sorted(deleted_places(newest_states(results)).intersection(map(place_of, results.partitions)))),
        past_the_end=_is_past_the_end(results),
        wanted=wanted,
        moved=_slim(find_moved(found)),
        doubted=_slim(_find_doubted(found)),
        unchecked=tuple(
            Unchecked(row.broker_id, row.unchecked_batches, row.batch_count)
            for row in results.replicas
            if row.unchecked_batches
        ),
        unseen_heads=_slim(row for row in found if row.code in codes_with("unseen_head")),
        unproven=_slim(filter(leaves_commitment_open, found)),
    )


def _slim(findings: Iterable[FindingRow]) -> tuple[FindingRow, ...]:
    """Drop the findings' messages and evidence, which these conditions do not show: there may be one per partition."""
    return tuple(row._replace(message="", evidence=()) for row in findings)


_Part = TypeVar("_Part", Compared, Conditions)


def _join(parts: Sequence[_Part]) -> _Part:
    """Join the conditions of several parts of an audit, in their order."""
    kind = type(parts[0])
    joined = {}
    for name, values in zip(kind._fields, zip(*parts)):
        if isinstance(values[0], Compared):
            joined[name] = _join(values)
        elif isinstance(values[0], bool):
            joined[name] = any(values)
        else:
            joined[name] = sum(values) if isinstance(values[0], int) else tuple(chain.from_iterable(values))
    return kind(**joined)


def _returns(results: Results) -> Iterator[Return]:
    for row in results.partitions:
        place = place_of(row)
        leadership = None if row.lost_records else leadership_of_rows(results.at(place).partition_states)
        if leadership is None or len(leadership.replicas or ()) < 2:
            continue
        times = [one.time_ms for one in elections(leadership.history) if one.clean and one.came_back]
        if times:
            yield Return(place, max(times))


def _restart_cuts(results: Results, up: Mapping[int, bool]) -> Iterator[TruncationRow]:
    """Truncations under the audit's protocol that remove committed records from a replica, although the leader has the same records.

    A broker that is up knows a later high watermark than its disk, and writes it when it stops.
    """
    protocol = results.protocol
    marks = {place_of(row): row.proven_lower for row in results.high_watermarks}
    for row in results.truncations:
        alike = row.common_prefix_end
        mark = marks.get(place_of(row))
        if row.protocol != protocol or alike is None or mark is None or up.get(row.broker_id):
            continue
        if row.truncate_to < min(alike, mark):
            yield row


def _is_past_the_end(results: Results) -> bool:
    ends = {place_of(row): row.log_end_offset for row in results.replicas if row.role in ("leader", "reference")}
    return any(
        row.role == "compared"
        and row.high_watermark_checkpoint is not None
        and (end := ends.get(place_of(row))) is not None
        and row.high_watermark_checkpoint > end
        for row in results.replicas
    )


def find_moved(findings: Iterable[FindingRow]) -> Iterator[FindingRow]:
    """Findings of partitions that moved during collection and have to be collected again."""
    return (row for row in findings if row.code in codes_with("moved"))


def _find_doubted(findings: Sequence[FindingRow]) -> Iterator[FindingRow]:
    """Findings that a move may explain, on partitions that have to be collected again."""
    moved = {place_of(row) for row in find_moved(findings)}
    return (
        row
        for row in findings
        if row.code in codes_with("two_moments")
        and (row.severity, row.confidence) == ("info", "suspect")
        and place_of(row) in moved
    )


def may_have_lost(row: FindingRow) -> bool:
    """True for an unclean election whose loss the files can no longer show, or not all of it."""
    known = any(item.kind == "loss" for item in row.evidence)
    is_open = any(item.kind == "considered" and (item.text or "").startswith("loss: ") for item in row.evidence)
    return row.code == "META-UNCLEAN-ELECTION" and (is_open or (row.severity == "info" and not known))


def places_of(findings: Sequence[FindingRow | TruncationRow]) -> list[TopicPartition]:
    """Partitions of findings, each once, in order."""
    places = (
        TopicPartition(row.topic, row.partition)
        for row in findings
        if row.topic is not None and row.partition is not None
    )
    return list(dict.fromkeys(places))


def election_times(findings: Sequence[FindingRow], results: Results) -> list[int]:
    """Times (ms) of the elections of META-UNCLEAN-ELECTION findings, as far as the history has them."""
    epochs = {
        (*place_of(row), int(item.value))
        for row in findings
        for item in row.evidence
        if item.kind == "leadership" and item.value is not None
    }
    times: dict[tuple[object, ...], int] = {}
    for row in results.partition_states:
        key = (*place_of(row), row.leader_epoch)
        if key in epochs and row.time_ms is not None:
            times[key] = min(row.time_ms, times.get(key, row.time_ms))
    return list(times.values())


class Stored(NamedTuple):
    """Form and basis of a segment in remote storage, from the table `remote_segments`."""

    form: StoredForm | None
    basis: RemoteBasis | None


class WholeAudit(NamedTuple):
    """Sums and exceptions over all partitions; a partition without problems adds to counts only."""

    conditions: Conditions
    holders: Mapping[int, Holder]
    """Lost records held by each broker, by broker id, most committed records first."""
    untimed: frozenset[TopicPartition]
    """Partitions with divergent records without times."""
    divergence_codes: frozenset[str]
    captures: Counter[tuple[int, str, bool]]
    """Number of rows of `captures` by broker, state and whether the replica is needed, without voters."""
    stored: frozenset[Stored]
    """Forms and bases of remote segments with lost committed records."""
    writers: LostWriters


def whole_audit(results: Results) -> WholeAudit:
    """Return `WholeAudit` of `results`, computed once; by tasks if there is an executor."""
    return results.once(
        "whole",
        WholeAudit,
        lambda: remember_whole(results, list(results.map_parts(whole_of_part, nothing_given, _OF_WHOLE))),
    )


def remember_whole(results: Results, parts: Sequence[WholeAudit]) -> WholeAudit:
    """Have `whole_audit` return the sum of `whole_of_part` of all `parts`, which is returned."""
    found = results.remembered["whole"] = WholeAudit(
        conditions=_join([part.conditions for part in parts])._replace(
            needed=find_needed(results), lost_quorum=find_lost_quorum(results)
        ),
        holders=join_holders(part.holders for part in parts),
        untimed=frozenset().union(*(part.untimed for part in parts)),
        divergence_codes=frozenset().union(*(part.divergence_codes for part in parts)),
        captures=sum((part.captures for part in parts), Counter()),
        stored=frozenset().union(*(part.stored for part in parts)),
        writers=join_writers(part.writers for part in parts),
    )
    return found


#: Tables read by `whole_of_part`.
_OF_WHOLE = (
    "partitions",
    "replicas",
    "captures",
    "high_watermarks",
    "partition_states",
    "divergences",
    "truncations",
    "remote_segments",
    "lost_producers",
    "findings",
)


def whole_of_part(part: Results, _: None) -> WholeAudit:
    """`WholeAudit` of a part of the partitions, without `needed`."""
    timeless = (run for run in part.divergences if run.code == "DIV-EPOCH" and run.first_timestamp_ms is None)
    captures = (row for row in part.captures if not is_of_voter(row))
    conditions = find_conditions(part)
    compared = conditions.compared
    return WholeAudit(
        # Often these are all partitions.
        conditions=conditions._replace(compared=compared._replace(unassigned=compared.unassigned[:NAMED])),
        holders=find_holders(part),
        untimed=frozenset(map(place_of, timeless)),
        divergence_codes=frozenset(run.code for run in part.divergences),
        captures=Counter((row.broker_id, row.state, row.needed is not None) for row in captures),
        stored=frozenset(_stored(part)),
        writers=find_writers(part),
    )


def _stored(part: Results) -> Iterator[Stored]:
    for partition in part.partitions:
        rows = part.at(place_of(partition))
        if partition.lost_committed and any(row.code == TIER_ORPHAN.code for row in present(rows.findings)):
            left = (row for row in rows.remote_segments if row.lineage in ("left", "past_end"))
            yield from (Stored(row.stored, row.basis) for row in left if row.state == "copy_finished")

"""The stored costs as a plan reads them (`costs.py` computes them): candidates, the cuts of all logs under each, and the replicas' rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from replica_audit.auditing.catalogue import codes_with
from replica_audit.auditing.finding import (
    KeptKeys,
    UnseenTail,
    find_kept_keys,
    find_unseen_tails,
    find_wanted,
    open_tails,
)
from replica_audit.auditing.leadership.needed_replicas import (
    LOG_IN_USE,
    LOG_OF_FORMER_DISK,
    LOG_OF_LAST_TERM,
)
from replica_audit.elect.cost_words import is_damage, perhaps_damaged
from replica_audit.elect.plan_model import Decision, SalvageSource
from replica_audit.literals import COMPARED, Role
from replica_audit.model import TopicPartition
from replica_audit.results import Results, nothing_given, place_of, present, with_places
from replica_audit.row_classes import pack_rows, unpack_rows
from replica_audit.schema import CaptureRow, ElectionRow, FindingRow, ReplicaRow, ReportRows
from replica_audit.snapshot.log_dir_names import EPOCH_CHECKPOINT, HIGH_WATERMARKS

#: Traits of findings on parts of a log that were not captured, or not checked.
UNSEEN_TRAITS = ("unseen_tail", "unseen_head", "unchecked")

_OfPlace = TypeVar("_OfPlace")


class Cut(NamedTuple):
    """The cut of a replica's log under a candidate: the columns of `elections` that differ by replica and that a plan reads."""

    topic: str
    partition: int
    candidate_id: int
    broker_id: int
    kept_to: int
    dropped_records: int
    lost_held: int
    lost_from: int | None
    lacked_records: int


class OtherLog(NamedTuple):
    """Another log of a partition that its broker has: on another disk, or its `-future` copy."""

    topic: str
    partition: int
    broker_id: int
    log_dir: str
    """The log dir in the snapshot; of a `-future` copy its own directory."""
    log_end_offset: int | None
    role: Role
    """duplicate or future."""


_other_log = attrgetter(*OtherLog._fields)

#: A row of `elections` as a `Cut`.
_cut = attrgetter(*Cut._fields)

#: Cuts of a partition by candidate and broker, the candidate's own included; empty for other candidates.
_Cuts = defaultdict[int, dict[int, Cut]]


class PackedCosts(NamedTuple):
    """Packed rows of those partitions of a part that have costs."""

    places: tuple[TopicPartition, ...]
    candidates: bytes
    """Rows of `elections` in which the replica is the candidate."""
    cuts: bytes
    replicas: bytes
    """Rows of compared replicas."""
    second: bytes
    """Rows of `OtherLog`; empty if there are none."""
    earlier: tuple[str, ...]
    """Directories in the snapshot whose contents, collected earlier, the brokers no longer have."""


def pack_costs(part: ReportRows, _: None) -> PackedCosts:
    """The rows of a part that `Matrix` holds."""
    places = dict.fromkeys(map(place_of, part.elections))
    replicas = [row for row in part.replicas if row.role in COMPARED and place_of(row) in places]
    own = [row for row in part.elections if row.broker_id == row.candidate_id]
    second = [one for one in _other_logs(part.replicas) if place_of(one) in places]
    return PackedCosts(
        tuple(places),
        pack_rows(own),
        pack_rows(map(_cut, part.elections)),
        pack_rows(replicas),
        pack_rows(second) if second else b"",
        tuple(_earlier(row for row in part.replicas if place_of(row) in places)),
    )


def remember_costs(results: Results, parts: list[PackedCosts]) -> None:
    """Have `Matrix` use `parts`, the `pack_costs` of every part."""
    results.remembered["costs"] = parts


def _costs(results: Results) -> Iterable[PackedCosts]:
    found = results.remembered.get("costs")
    return found if isinstance(found, list) else results.map_parts(pack_costs, nothing_given, ("elections", "replicas"))


class _Packed(Mapping[TopicPartition, _OfPlace], Generic[_OfPlace]):
    """Rows of many partitions, packed in parts; the part used last is held unpacked."""

    def __init__(
        self,
        part: Mapping[TopicPartition, int],
        packed: Sequence[bytes],
        unpack: Callable[[bytes], dict[TopicPartition, _OfPlace]],
        others: Mapping[TopicPartition, _OfPlace],
    ) -> None:
        """`part` has for each partition the index in `packed` of its rows; `others` are further partitions, with rows that are
        not packed."""
        self._part, self._packed, self._unpack, self._others = part, packed, unpack, others
        self._open: tuple[int, dict[TopicPartition, _OfPlace]] = (-1, {})

    def __getitem__(self, place: TopicPartition) -> _OfPlace:
        number = self._part.get(place)
        if number is None:
            return self._others[place]
        if number != self._open[0]:
            self._open = number, self._unpack(self._packed[number])
        return self._open[1][place]

    def __contains__(self, place: object) -> bool:
        return place in self._part or place in self._others

    def __iter__(self) -> Iterator[TopicPartition]:
        return chain(self._part, self._others)

    def __len__(self) -> int:
        return len(self._part) + len(self._others)


def _by_candidate(rows: Iterable[ElectionRow]) -> dict[TopicPartition, dict[int, ElectionRow]]:
    found: dict[TopicPartition, dict[int, ElectionRow]] = defaultdict(dict)
    for row in rows:
        if row.broker_id == row.candidate_id:
            found[place_of(row)][row.candidate_id] = row
    return found


def _cuts_by_candidate(cuts: Iterable[Cut]) -> dict[TopicPartition, _Cuts]:
    found: dict[TopicPartition, _Cuts] = defaultdict(lambda: defaultdict(dict))
    for one in cuts:
        found[place_of(one)][one.candidate_id][one.broker_id] = one
    return found


def _by_broker(rows: Iterable[ReplicaRow]) -> dict[TopicPartition, dict[int, ReplicaRow]]:
    found: dict[TopicPartition, dict[int, ReplicaRow]] = defaultdict(dict)
    for row in rows:
        if row.role in COMPARED:
            found[place_of(row)][row.broker_id] = row
    return found


def _other_logs(replicas: Iterable[ReplicaRow]) -> Iterator[OtherLog]:
    return (OtherLog._make(_other_log(row)) for row in replicas if row.role in ("duplicate", "future"))


def _others_by_broker(logs: Iterable[OtherLog]) -> dict[TopicPartition, dict[int, list[OtherLog]]]:
    found: dict[TopicPartition, dict[int, list[OtherLog]]] = defaultdict(lambda: defaultdict(list))
    for one in logs:
        found[place_of(one)][one.broker_id].append(one)
    return dict(found)


def _earlier(replicas: Iterable[ReplicaRow]) -> Iterator[str]:
    return (f"{row.log_dir}/{row.topic}-{row.partition}" for row in replicas if row.role == "earlier")


#: Without these a follower that was stopped cleanly is cut to its log start (`AbstractFetcherThread.truncateToHighWatermark`).
_FILES_OF_THE_CUT = frozenset((EPOCH_CHECKPOINT, HIGH_WATERMARKS))


class Matrix:
    """Costs of each candidate by partition, the cuts of logs under it, and the replicas' rows by partition and broker."""

    rows: Mapping[TopicPartition, dict[int, ElectionRow]]
    """Each candidate's own row of `elections`."""
    cuts: Mapping[TopicPartition, _Cuts]
    replicas: Mapping[TopicPartition, dict[int, ReplicaRow]]
    """Rows of partitions with costs, and of others as far as they are reported."""
    second: Mapping[TopicPartition, dict[int, list[OtherLog]]]
    """Other logs of a replica's broker, by partition and broker."""

    def __init__(self, results: Results) -> None:
        self.partitions = results.partition_of
        self.earlier = {*_earlier(results.replicas)}
        """`PackedCosts.earlier`, of all parts."""
        if results.stored is None:
            self.rows, self.replicas = _by_candidate(results.elections), _by_broker(results.replicas)
            self.cuts = _cuts_by_candidate(map(Cut._make, map(_cut, results.elections)))
            self.second = _others_by_broker(_other_logs(results.replicas))
        else:
            self._take_packed([part for part in _costs(results) if part.places], results.replicas)
        self.needed: dict[TopicPartition, list[int]] = defaultdict(list)
        """Brokers whose log was not captured though every answer depends on it."""
        self.other_logs: set[tuple[TopicPartition, int]] = set()
        """Brokers of `needed` whose captured log is not the one with which they last led or were in sync."""
        self.left: set[tuple[TopicPartition, int]] = set()
        """Brokers of `needed` of which only a disk that they no longer use was captured."""
        self._absent: set[tuple[TopicPartition, int]] = set()
        """Brokers of `needed` that have log dirs here, without the partition."""
        self.unmarked: dict[int, list[TopicPartition]] = defaultdict(list)
        """By broker, partitions for which neither an epoch file nor a checkpointed high watermark was captured."""
        self.awaited: set[TopicPartition] = set()
        """Partitions with a log whose evidence lacks bytes that every answer depends on."""
        self._take_captures(results.captures)
        findings = present(results.findings)
        self.wanted: dict[TopicPartition, dict[int, int]] = defaultdict(dict)
        """Number of bytes that the answer needs and the evidence lacks, by broker."""
        for one in find_wanted(findings):
            self.wanted[one.place][one.broker_id] = one.bytes
        self.moved: set[TopicPartition] = set()
        """Partitions that have to be collected again."""
        self.unseen: dict[TopicPartition, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        """Brokers with a log that was not, or perhaps not, completely captured or checked, by trait of `UNSEEN_TRAITS`."""
        self.unseen_tails: dict[TopicPartition, list[UnseenTail]] = defaultdict(list)
        """Ends that logs lost, or got only after they were copied."""
        self.kept_keys: dict[TopicPartition, dict[int, KeptKeys]] = defaultdict(dict)
        """Deleted keys that a broker keeps as it follows the leader."""
        self.perhaps_damaged: dict[TopicPartition, set[int | None]] = {}
        """Brokers whose files are either damaged or copies of different moments."""
        self._take_findings(findings)

    def _take_packed(self, parts: Sequence[PackedCosts], reported: Sequence[ReplicaRow]) -> None:
        """Costs of a large audit, unpacked by partition when they are read; `reported` are rows of other partitions too."""
        numbers = {place: number for number, part in enumerate(parts) for place in part.places}
        self.earlier.update(*(part.earlier for part in parts))
        self.rows = _Packed(
            numbers,
            [part.candidates for part in parts],
            lambda one: _by_candidate(unpack_rows(one, ElectionRow)),
            {},
        )
        self.cuts = _Packed(
            numbers, [part.cuts for part in parts], lambda one: _cuts_by_candidate(unpack_rows(one, Cut)), {}
        )
        self.replicas = _Packed(
            numbers,
            [part.replicas for part in parts],
            lambda one: _by_broker(unpack_rows(one, ReplicaRow)),
            _by_broker(row for row in reported if place_of(row) not in numbers),
        )
        self.second = _Packed(
            {place: number for place, number in numbers.items() if parts[number].second},
            [part.second for part in parts],
            lambda one: _others_by_broker(unpack_rows(one, OtherLog)),
            _others_by_broker(one for one in _other_logs(reported) if place_of(one) not in numbers),
        )

    def _take_captures(self, captures: Iterable[CaptureRow]) -> None:
        for capture in captures:
            place, broker_id = place_of(capture), capture.broker_id
            if _FILES_OF_THE_CUT.issubset(capture.missing):
                used = self.replicas.get(place, {}).get(broker_id)
                if used is not None and used.log_dir == capture.log_dir:
                    self.unmarked[broker_id].append(place)
            if capture.needed and capture.state == "awaited":
                self.awaited.add(place)
            elif capture.needed:
                self.needed[place].append(broker_id)
                if not {LOG_OF_LAST_TERM, LOG_OF_FORMER_DISK}.isdisjoint(capture.missing):
                    self.other_logs.add((place, broker_id))
                elif LOG_IN_USE in capture.missing:
                    self.left.add((place, broker_id))
                elif capture.state == "absent":
                    self._absent.add((place, broker_id))

    def _take_findings(self, findings: Iterable[FindingRow]) -> None:
        damage: dict[TopicPartition, list[FindingRow]] = defaultdict(list)
        for place, row in with_places(findings):
            if is_damage(row):
                damage[place].append(row)
            if row.code in codes_with("moved"):
                self.moved.add(place)
            for trait in UNSEEN_TRAITS:
                if row.code in codes_with(trait) and row.broker_id is not None:
                    self.unseen[place][trait].append(row.broker_id)
            if tails := find_unseen_tails([row]):
                self.unseen_tails[place] += tails
            if row.broker_id is not None and (kept := find_kept_keys(row)) is not None:
                self.kept_keys[place][row.broker_id] = kept
        self.perhaps_damaged = {place: brokers for place, rows in damage.items() if (brokers := perhaps_damaged(rows))}

    def holding(self) -> Iterator[ReplicaRow]:
        """Rows of the replicas that hold records which the reference lacks, by partition and broker."""
        for place in sorted(self.replicas):
            yield from (row for _, row in sorted(self.replicas[place].items()) if row.lost_held)

    def other_disks(self, place: TopicPartition, broker_id: int) -> Sequence[OtherLog]:
        """Logs of a partition on other disks of the broker."""
        return [one for one in self.second.get(place, {}).get(broker_id, ()) if one.role == "duplicate"]

    def future_copies(self, place: TopicPartition, broker_id: int) -> list[str]:
        """Directories in the snapshot of the `-future` copy with which a broker will replace its log."""
        return [one.log_dir for one in self.second.get(place, {}).get(broker_id, ()) if one.role == "future"]

    def is_absent(self, place: TopicPartition, broker_id: int) -> bool:
        """True if a broker has log dirs here without the partition, and nobody else has a copy of it either."""
        return (place, broker_id) in self._absent and not self.replicas.get(place)

    def log_dirs(self, places: Iterable[TopicPartition], broker_id: int) -> set[str]:
        """The log dirs here in which a broker has any of the partitions."""
        rows = (self.replicas.get(place, {}).get(broker_id) for place in places)
        return {row.log_dir for row in rows if row is not None}

    def log_dir(self, place: TopicPartition, broker_id: int) -> str | None:
        """A broker's log dir with a partition, as far as the snapshot shows it."""
        row = self.replicas.get(place, {}).get(broker_id)
        return None if row is None or row.clean_shutdown is None else row.log_dir

    def row(self, place: TopicPartition, candidate_id: int | None) -> ElectionRow | None:
        """The candidate's own row; None if there is none."""
        return None if candidate_id is None else self.rows.get(place, {}).get(candidate_id)

    def cut(self, place: TopicPartition, candidate_id: int, broker_id: int) -> Cut | None:
        """The cut of a replica under a candidate; None if unknown."""
        return self.cuts[place].get(candidate_id, {}).get(broker_id) if place in self.cuts else None

    def best(self, place: TopicPartition) -> int | None:
        return next((one for one, row in self.rows.get(place, {}).items() if row.choice == "best"), None)

    def choice(self, place: TopicPartition, candidate_id: int | None) -> int | None:
        """The candidate asked for, if the partition has it, else the best."""
        return candidate_id if candidate_id in self.rows.get(place, ()) else self.best(place)

    def open_tails(self, place: TopicPartition, candidate_id: int | None) -> list[UnseenTail]:
        """Ends of logs that leave open what is lost with the candidate asked for, if the partition has it, else with
        the best. Empty for a partition without costs: nobody is elected once the topic is deleted."""
        tails = self.unseen_tails.get(place)
        if not tails or place not in self.rows:
            return []
        row = self.row(place, self.choice(place, candidate_id))
        return open_tails(tails, None if row is None or row.standing != "leader" else (row.broker_id, row.kept_to))

    def all_open_tails(self, candidate_id: int | None) -> dict[TopicPartition, list[UnseenTail]]:
        """`open_tails` of each partition that has some, in order."""
        found = ((place, self.open_tails(place, candidate_id)) for place in sorted(self.unseen_tails))
        return {place: tails for place, tails in found if tails}

    def harmful(self, decisions: Iterable[Decision]) -> dict[TopicPartition, frozenset[tuple[int, int]]]:
        """By partition, the pairs (leader, follower) in which the follower's cut removes the last copy of records
        that the choice keeps. Partitions without any are left out; equal sets are one object."""
        found: dict[TopicPartition, frozenset[tuple[int, int]]] = {}
        known: dict[frozenset[tuple[int, int]], frozenset[tuple[int, int]]] = {}
        for decision in decisions:
            least = decision.chosen.loss
            worse = {one.candidate_id for one in decision.candidates if one.loss > least}
            pairs = frozenset(
                (leader, follower)
                for leader in worse
                for follower, cut in self.cuts[place_of(decision)][leader].items()
                if follower != leader and cut.lost_held
            )
            if pairs:
                found[place_of(decision)] = known.setdefault(pairs, pairs)
        return found

    def holed(self, decisions: Iterable[Decision]) -> dict[int, list[TopicPartition]]:
        """By broker, the partitions in which its log differs from the chosen replica's in a way that no truncation
        finds: a hole, or keys that the chosen one has deleted. The chosen one lacks nothing that another keeps. Left
        out if another disk of the broker also has a log: nothing shows which one it starts with."""
        found: dict[int, list[TopicPartition]] = defaultdict(list)
        for decision in decisions:
            place = place_of(decision)
            if decision.chosen.hidden_records:
                continue
            brokers = {*self.keeping_deleted(place, decision.candidate_id)}
            # A hole under the chosen one shows in some candidate's `hidden_records`: the cuts of other partitions are not opened.
            if any(one.hidden_records for one in decision.candidates):
                cuts = self.cuts[place][decision.candidate_id].items()
                brokers |= {broker for broker, cut in cuts if cut.lacked_records}
            for broker in sorted(brokers):
                if not self.other_disks(place, broker):
                    found[broker].append(place)
        return found

    def keeping_deleted(self, place: TopicPartition, leader_id: int) -> tuple[int, ...]:
        """Followers that keep keys which a leader has deleted."""
        return tuple(sorted(one for one, kept in self.kept_keys.get(place, {}).items() if kept.leader_id == leader_id))

    def instead(self, decision: Decision, candidate_id: int, why: str) -> Decision:
        """The decision with another candidate, for the reason `why`."""
        place = place_of(decision)
        return decision.instead(
            candidate_id, self.sources(place, candidate_id), self.keeping_deleted(place, candidate_id), why
        )

    def cut_logs(self, place: TopicPartition, candidate_id: int) -> list[int]:
        """Brokers whose log is cut under a candidate."""
        ends = {broker: row.log_end_offset for broker, row in self.replicas[place].items()}
        return [
            broker
            for broker, cut in self.cuts[place][candidate_id].items()
            if broker != candidate_id and (end := ends.get(broker)) is not None and cut.kept_to < end
        ]

    def sources(self, place: TopicPartition, candidate_id: int) -> tuple[SalvageSource, ...]:
        """Logs from which the records that a candidate loses can be taken: replicas first, then other copies."""
        row = self.rows[place][candidate_id]
        beside = (
            SalvageSource(one.broker_id, one.log_dir, one.start_offset, one.end_offset, one.lost_held, one.log_dir)
            for one in row.beside
            if one.log_dir not in self.earlier
        )
        if not row.lost_records:
            return tuple(beside)
        cuts = self.cuts[place][candidate_id].values()
        return (*_replica_sources(cuts, self.replicas[place], row.lost_records), *beside)

    def reference(self, place: TopicPartition) -> int | None:
        """The broker whose log the others are compared with."""
        row = self.partitions.get(place)
        return None if row is None else row.reference_id

    def lost(self, place: TopicPartition) -> int | None:
        """Number of records that the reference lacks; None if unknown."""
        row = self.partitions.get(place)
        return None if row is None else row.lost_records


def _replica_sources(cuts: Iterable[Cut], replicas: Mapping[int, ReplicaRow], lost_records: int) -> list[SalvageSource]:
    """Replicas that together hold the lost records, those with the most first; each record is taken from only one."""
    found: list[SalvageSource] = []
    seen = set()
    taken = 0
    for cut in sorted(cuts, key=lambda cut: (-cut.lost_held, cut.broker_id)):
        replica = replicas.get(cut.broker_id)
        if not cut.lost_held or taken >= lost_records or replica is None or replica.log_end_offset is None:
            continue
        lost_from = cut.kept_to if cut.lost_from is None else cut.lost_from
        start = max(lost_from, replica.log_start_offset, replica.local_start_offset or 0)
        end = replica.log_end_offset
        if (start, end, cut.lost_held) not in seen:
            seen.add((start, end, cut.lost_held))
            taken += cut.lost_held
            found.append(SalvageSource(cut.broker_id, replica.log_dir, start, end, cut.lost_held))
    return found

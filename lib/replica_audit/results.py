"""The answers of an audit: the object `audit` and the rows of every report table."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypedDict, TypeVar, overload

from replica_audit.cached_property import cached_property
from replica_audit.config import SETTINGS
from replica_audit.literals import UP_KINDS, CaptureKind, LeadershipSource, Occasion, Verdict
from replica_audit.model import TopicPartition
from replica_audit.redaction import redact
from replica_audit.row_classes import Int, Row, to_dict
from replica_audit.schema import (
    REPORT_ROWS,
    REPORT_TABLES,
    DivergenceRow,
    ElectionRow,
    FindingRow,
    GroupOffsetRow,
    HighWatermarkRow,
    HighWatermarkTimelineRow,
    LostProducerRow,
    PartitionRow,
    PartitionStateRow,
    RemoteSegmentRow,
    ReplicaRow,
    ReportRows,
    TruncationRow,
)

#: Placeholder for a snapshot whose location is unknown.
UNKNOWN_PLACE = "SNAPSHOT"
#: Directory, in commands, for copies that are made again.
COPIED_AGAIN = "copied-again"
#: File name, in commands and reports, for the list of bytes that evidence lacks (docs/evidence.md).
WANTED_FILE = "wanted.json"


class BrokerKind(TypedDict):
    """State of a broker while it was copied, by the manifest."""

    broker_id: int
    kind: CaptureKind | None
    """None if it was seen to run, or to be down, by some of its log dirs only."""


class CopiedBroker(TypedDict):
    """Beginning and end (ms) of the copy of a broker's log dir, by the manifest."""

    broker_id: int
    started_ms: int
    finished_ms: int


class BlankLogDir(TypedDict):
    """A broker's log dir that has nothing, as on a disk that was formatted and never used."""

    broker_id: int
    log_dir: str


class InputsObject(TypedDict, total=False):
    """`audit.inputs` of audit.json: what was read."""

    snapshot: str | None
    log_dirs: int
    replicas: int
    segments: int
    size_bytes: int | None
    files: Mapping[str, int] | None
    brokers: Sequence[BrokerKind]
    copied: Sequence[CopiedBroker]
    """Left out if the manifest has no times."""
    blank: Sequence[BlankLogDir]
    """Left out if there are none, or an earlier version made the ingest."""
    quarantined_bytes: int
    padding_bytes: int
    observations: int


class OptionsObject(TypedDict, total=False):
    """`audit.options` of audit.json: the settings that the answers were computed with."""

    protocol: str
    kafka_version: str | None
    topics: Sequence[str]
    quiesced: bool | None
    fail_on: str
    since: str
    remote: str
    verify_remote: bool
    """True if segments in the remote store were read."""
    given: Mapping[str, Sequence[str]]
    """Options that the user gave and the answers rest on, as words of a command line, by setting."""


class AuditObject(TypedDict, total=False):
    """`audit` of audit.json: the run. Only `table_versions` may be absent.

    `audit_id` and `snapshot_id` are None if nothing was written to a warehouse.
    """

    audit_id: str | None
    snapshot_id: str | None
    cluster_id: str | None
    tool_version: str
    started: str
    finished: str
    verdict: Verdict
    inputs: InputsObject
    options: OptionsObject | None
    table_versions: Mapping[str, int] | None


#: Topic and partition of a finding; (None, None) without a partition.
FindingPlace = tuple[str | None, int | None]


class Placed(Protocol):
    """A row of a partition."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...


_PlacedRow = TypeVar("_PlacedRow", bound=Placed)


class PartitionRows(NamedTuple):
    """One partition's rows of every table that may have several per partition; fields are named for the tables."""

    replicas: Sequence[ReplicaRow] = ()
    high_watermarks: Sequence[HighWatermarkRow] = ()
    high_watermark_timeline: Sequence[HighWatermarkTimelineRow] = ()
    partition_states: Sequence[PartitionStateRow] = ()
    divergences: Sequence[DivergenceRow] = ()
    truncations: Sequence[TruncationRow] = ()
    elections: Sequence[ElectionRow] = ()
    group_offsets: Sequence[GroupOffsetRow] = ()
    remote_segments: Sequence[RemoteSegmentRow] = ()
    lost_producers: Sequence[LostProducerRow] = ()
    findings: Sequence[FindingRow] = ()


Given = TypeVar("Given")
Found = TypeVar("Found")


class StoredRows(Protocol):
    """All rows of the audited partitions, read some partitions at a time and in order."""

    @property
    def places(self) -> Sequence[TopicPartition]:
        """The audited partitions, in order."""

    @property
    def outlet(self) -> str | None:
        """A directory that tasks and this process can reach, for results of `map`; None if it runs in this process."""

    def in_this_process(self) -> StoredRows:
        """Return the same rows with a `map` that runs in this process."""

    def map(
        self,
        work: Callable[[ReportRows, Given], Found],
        tables: Collection[str],
        given: Callable[[Sequence[TopicPartition]], Given],
    ) -> Iterator[Found]:
        """Apply `work`, a function that tasks can import, to the rows of `tables` and the `given` input of each part of the
        partitions: in tasks if there is an executor, else lazily in this process."""


def nothing_given(places: Sequence[TopicPartition]) -> None:
    """A `given` for `StoredRows.map` that passes nothing."""


class KnownState(NamedTuple):
    """The columns of a row of `partition_states` from which the present state of a cluster follows."""

    source: LeadershipSource
    entry: Int
    occasion: Occasion | None
    uncommitted: bool | None
    leader_id: Int | None
    leader_epoch: Int | None
    isr: Sequence[Int] | None
    elr: Sequence[Int]
    last_known_elr: Sequence[Int]
    replicas: Sequence[Int] | None
    removing: Sequence[Int] | None
    adding: Sequence[Int] | None
    fenced: Sequence[Int] | None
    configs: Mapping[str, str]
    perhaps_down: Sequence[Int] | None
    offline: Sequence[Int] | None
    inherits_unclean: bool | None


_known_state = attrgetter(*KnownState._fields)


class FurtherStates(NamedTuple):
    """Last states of partitions not in detail, each a partition and a state; equal states are one object."""

    places: list[TopicPartition]
    states: list[KnownState]


@dataclass(frozen=True)
class Results(ReportRows):
    """One finished audit, with the rows of its report tables.

    `location` is the snapshot's place as the user gave it, for the commands that a report prints; audit.json leaves it out. For
    a large audit only the rows that its report shows are held, and `further` states (`warehouse.told_rows`); `stored` yields
    all rows, some partitions at a time.
    """

    audit: AuditObject
    location: str | None = None
    stored: StoredRows | None = None
    further: FurtherStates = field(default_factory=lambda: FurtherStates([], []))

    @classmethod
    def of(cls, audit: AuditObject, rows: ReportRows, location: str | None = None) -> Results:
        tables: dict[str, Any] = {table: rows.table(table) for table in REPORT_ROWS}
        return cls(audit, location, **tables)

    def parts(self, tables: Collection[str] = tuple(REPORT_TABLES)) -> Iterator[Results]:
        """All rows of `tables`, some partitions at a time and in order; rows without an audited partition come first."""
        here = self if self.stored is None else replace(self, stored=self.stored.in_this_process())
        return here.map_parts(_itself, nothing_given, tables)

    def map_parts(
        self,
        work: Callable[[Results, Given], Found],
        given: Callable[[Sequence[TopicPartition]], Given],
        tables: Collection[str] = tuple(REPORT_TABLES),
    ) -> Iterator[Found]:
        """`work` applied to each of the `parts`, and to what `given` returns for its partitions (`StoredRows.map`)."""
        first = self
        if self.stored is not None:
            first = Results.of(self.audit, ReportRows(**self.unplaced(tables)), self.location)
        yield work(first, given(sorted(map(place_of, first.partitions))))
        if self.stored is not None:
            yield from self.stored.map(partial(_worked, work, self.audit, self.location), tables, given)

    def states(self) -> Iterator[tuple[TopicPartition, KnownState]]:
        """All rows of `partition_states` that are held, and the `further` states; those of one partition side by side, in order."""
        yield from ((place_of(row), KnownState._make(_known_state(row))) for row in self.partition_states)
        yield from zip(self.further.places, self.further.states)

    @cached_property
    def partition_of(self) -> Mapping[TopicPartition, PartitionRow]:
        """The row of each audited partition."""
        # The stored places are reused, so that each name is held once.
        places = map(place_of, self.partitions) if self.stored is None else self.stored.places
        return dict(zip(places, self.partitions, strict=True))

    def unplaced(self, tables: Iterable[str]) -> dict[str, list[Any]]:
        """Rows of `tables` without an audited partition, all of which are held."""
        return {table: [row for row in self.table(table) if place_of(row) not in self.partition_of] for table in tables}

    def gather(self, places: Iterable[FindingPlace]) -> None:
        """Find the rows of `places` for `at`, which otherwise finds those of all partitions."""
        if not (wanted := {*places} - self._found_at.keys()):
            return
        tables = [
            by_place(row for row in self.table(table) if place_of(row) in wanted) for table in PartitionRows._fields
        ]
        self._found_at.update((place, PartitionRows(*(rows.get(place, ()) for rows in tables))) for place in wanted)

    def at(self, place: FindingPlace) -> PartitionRows:
        found = self._found_at.get(place)
        if found is None:
            found = self._found_at[place] = PartitionRows(*(grouped.get(place, ()) for grouped in self._placed))
        return found

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Rows of `table` as the dicts of audit.json; empty if it was not computed. Raises KeyError for an unknown table."""
        return list(map(to_dict, self.table(table)))

    def command(self, name: str, *options: object, partitions: Sequence[str] = ()) -> str:
        """`replica-audit NAME SNAPSHOT partitions… options…` for a POSIX shell, with the snapshot and what the answers rest on as
        they were given.

        Credentials in a URI are left out, since a report is passed on. If a partition's name begins with a dash, options come first.
        """
        return self._command_on(self._place, name, options, partitions)

    def _command_on(self, place: str, name: str, options: Sequence[object], partitions: Sequence[str]) -> str:
        options = (*options, *self._given(name))
        words = [place, *partitions, *map(str, options)]
        if any(one.startswith("-") for one in partitions):
            words = [*map(str, options), place, "--", *partitions]
        return shlex.join(["replica-audit", name, *words])

    def _given(self, name: str) -> list[str]:
        """Options that the answers rest on and that the command `name` takes."""
        given = (self.options.get("given") or {}).items()
        return [word for setting, words in given if name in (SETTINGS[setting].commands or ()) for word in words]

    @property
    def inputs(self) -> InputsObject:
        """The input that was read; empty for results that are of no audit."""
        return self.audit.get("inputs") or {}

    @property
    def options(self) -> OptionsObject:
        """Settings of the answers; empty for an audit without options."""
        return self.audit.get("options") or {}

    @property
    def protocol(self) -> str:
        """Truncation protocol of findings and verdicts; `fetch` for an audit without options."""
        return self.options.get("protocol") or "fetch"

    @property
    def remote_store(self) -> str | None:
        """The remote store that was read; None if none was given."""
        return self.options.get("remote")

    @property
    def reads_store(self) -> bool:
        """True if the segments in the remote store were read."""
        return bool(self.options.get("verify_remote"))

    def bring(self, brokers: Sequence[int]) -> tuple[str, ...]:
        """Commands that bring missing evidence of brokers; the user fills in their log dirs."""
        found = self.inputs.get("brokers", ())
        kinds = {
            one.get("broker_id"): kind
            for one in found
            if (kind := one.get("kind")) is not None and kind not in UP_KINDS
        }
        script = ["capture-plan", "--wanted", WANTED_FILE, *_with_kinds(brokers, kinds), "--to", self._place]
        return (
            self.command("show", "--wanted", WANTED_FILE),
            f"{shlex.join(['replica-audit', *script])} > bring.sh",
            "bash bring.sh",
        )

    def copy_again(
        self,
        brokers: Sequence[int],
        kinds: Mapping[int, CaptureKind],
        options: Sequence[str] = (),
        partitions: Sequence[str] = (),
        *,
        at_once: bool = True,
    ) -> tuple[str, ...]:
        """Commands that copy the log dirs of brokers, in this order, to a new snapshot, and make the plan from it for
        `partitions` with `options` of `elect`. `at_once`: a single command, which makes the plan only if all was copied. The
        user fills in the log dirs. `kinds`: the states of brokers that do not run. What an earlier try copied is moved aside."""
        version = self.options.get("kafka_version")
        known = ["--kafka-version", version] if version else []
        script = ["capture-plan", "--move-aside", *_with_kinds(brokers, kinds), *known, "--to", COPIED_AGAIN]
        elect = self._command_on(COPIED_AGAIN, "elect", options, partitions)
        copy = f"{shlex.join(['replica-audit', *script])} > copy-again.sh && bash copy-again.sh"
        # Where it does not copy, the copies of an earlier try are still there.
        return (f"{copy} && {elect}",) if at_once else (copy, elect)

    @property
    def _place(self) -> str:
        """The snapshot in a command."""
        place = redact(self.location or UNKNOWN_PLACE)
        # A relative path that begins with a dash would be taken for an option.
        return f"./{place}" if place.startswith("-") else place

    @cached_property
    def remembered(self) -> dict[str, object]:
        """Cached conclusions from these rows, by name."""
        return {}

    def once(self, name: str, kind: type[Found], conclude: Callable[[], Found]) -> Found:
        """A cached conclusion from these rows, an object of class `kind`; `conclude` makes it on first use."""
        found = self.remembered.get(name)
        if not isinstance(found, kind):
            found = self.remembered[name] = conclude()
        return found

    @cached_property
    def _found_at(self) -> dict[FindingPlace, PartitionRows]:
        return {}

    @cached_property
    def _placed(self) -> list[dict[FindingPlace, list[Any]]]:
        return [by_place(self.table(table)) for table in PartitionRows._fields]


def _with_kinds(brokers: Sequence[int], kinds: Mapping[int, CaptureKind]) -> list[str]:
    """Arguments of `capture-plan`: brokers, each with a placeholder for its log dirs, and the kinds of those that do not run."""
    dirs = [f"{broker}=LOG_DIR_OF_{broker}" for broker in brokers]
    of_brokers = [kinds.get(broker, "live") for broker in brokers]
    if len({*of_brokers}) == 1:
        return dirs if "live" in of_brokers else ["--kind", of_brokers[0], *dirs]
    said = [f"{broker}={kind}" for broker, kind in zip(brokers, of_brokers, strict=True) if kind != "live"]
    return [*(word for one in said for word in ("--kind", one)), *dirs]


def _itself(part: Results, _: None) -> Results:
    return part


def _worked(
    work: Callable[[Results, Given], Found], audit: AuditObject, location: str | None, rows: ReportRows, given: Given
) -> Found:
    return work(Results.of(audit, rows, location), given)


def present(findings: Iterable[FindingRow]) -> list[FindingRow]:
    """Findings of this audit, without a baseline's resolved ones."""
    return [row for row in findings if row.status != "resolved"]


def with_places(findings: Iterable[FindingRow]) -> Iterator[tuple[TopicPartition, FindingRow]]:
    """The `findings` that belong to a partition, each with it."""
    return (
        (TopicPartition(row.topic, row.partition), row)
        for row in findings
        if row.topic is not None and row.partition is not None
    )


@overload
def place_of(row: Placed) -> TopicPartition: ...
@overload
def place_of(row: FindingRow) -> FindingPlace: ...
@overload
def place_of(row: Row) -> tuple[Any, Any]: ...
def place_of(row: object) -> tuple[Any, Any]:
    """The partition of a row; (None, None) in a table without partitions."""
    topic: Any = getattr(row, "topic", None)
    partition: Any = getattr(row, "partition", None)
    return TopicPartition(topic, partition)


@overload
def by_place(rows: Iterable[_PlacedRow]) -> dict[TopicPartition, list[_PlacedRow]]: ...
@overload
def by_place(rows: Iterable[FindingRow]) -> dict[FindingPlace, list[FindingRow]]: ...
@overload
def by_place(rows: Iterable[Row]) -> dict[tuple[Any, Any], list[Any]]: ...
def by_place(rows: Iterable[Any]) -> dict[Any, list[Any]]:
    """Rows by partition, in their order; by (None, None) in a table without partitions."""
    grouped = defaultdict(list)
    for row in rows:
        grouped[place_of(row)].append(row)
    return dict(grouped)

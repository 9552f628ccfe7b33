"""What the rows of one partition come to: who led and leads, which replicas agree, what differs and what becomes of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from replica_audit.auditing.catalogue import at_or_above, codes_with
from replica_audit.elect.cluster_state import states_of_source
from replica_audit.report.facts.by_partition import Row, Rows, compared_rows, reference_row, served_rows

#: Roles of copies that no other was compared with; a kind of agreement each.
NOT_COMPARED = ("foreign", "duplicate", "set_aside")


@dataclass(frozen=True, slots=True)
class Agreement:
    """A replica, or several alike, in which nothing differs from the reference, or which was not compared.

    `kind`: `alone` (the reference is the only one), `same` and `empty` (as the reference, to the same end), `shorter`,
    `longer`, `empty_elsewhere` (empty, with another end), `no_overlap` (no offset is on both), `cleaned` (only the
    cleaners made them differ), or one of `NOT_COMPARED`.
    """

    kind: str
    brokers: tuple[int, ...]
    reference: Row = field(default_factory=dict)
    """Its row; empty for a copy that was not compared."""
    replica: Row = field(default_factory=dict)
    """Its row, where it stands for one replica; else empty."""
    since: int = 0
    """First offset from which both have records; 0: both logs begin alike."""
    tail_lost: bool = False
    """`longer`: the reference is known to have lost its tail."""


def find_agreement(rows: Rows) -> Iterator[Agreement]:
    """One for each group of replicas that do not differ, then one for each copy that was not compared."""
    reference = reference_row(rows["replicas"])
    if reference is not None and reference["log_end_offset"] is not None:
        yield from _compared(reference, rows)
    for row in rows["replicas"]:
        if row["role"] in NOT_COMPARED:
            yield Agreement(row["role"], (row["broker_id"],), replica=row)


def _compared(reference: Row, rows: Rows) -> Iterator[Agreement]:
    others = [row for row in compared_rows(rows["replicas"]) if row["log_end_offset"] is not None]
    start, end = reference["log_start_offset"] or 0, reference["log_end_offset"]
    if len(served_rows(rows["replicas"])) < 2:
        yield Agreement("alone", (reference["broker_id"],), reference)
        return
    differing, cleaned, doubtful = _by_findings(rows)
    if reference["broker_id"] in doubtful:
        return
    if cleaned:
        yield Agreement("cleaned", tuple(sorted(cleaned)), reference)
    agreeing = [row for row in others if row["broker_id"] not in differing | cleaned | doubtful]
    equal: dict[int, list[Row]] = {}
    for row in agreeing:
        own_start = row["log_start_offset"] or 0
        since = max(start, own_start) if own_start != start else 0
        if row["log_end_offset"] == end:
            equal.setdefault(since, []).append(row)
        else:
            yield _unequal(reference, row, rows)
    for since, same in sorted(equal.items()):
        kind = "same" if reference["record_count"] else "empty"
        yield Agreement(kind, tuple(row["broker_id"] for row in same), reference, since=since)


def _unequal(reference: Row, row: Row, rows: Rows) -> Agreement:
    end, own = reference["log_end_offset"], row["log_end_offset"]
    start, own_start = reference["log_start_offset"] or 0, row["log_start_offset"] or 0
    brokers, first = (row["broker_id"],), max(start, own_start)
    if own <= own_start:
        return Agreement("empty_elsewhere", brokers, reference, row)
    if first >= min(end, own):
        return Agreement("no_overlap", brokers, reference, row)
    if own > end:
        tail_lost = any(item["code"] == "REP-LEADER-SHORTER" for item in rows["findings"])
        return Agreement("longer", brokers, reference, row, tail_lost=tail_lost)
    return Agreement("shorter", brokers, reference, row, first if own_start != start else 0)


def _by_findings(rows: Rows) -> tuple[set[int], set[int], set[int]]:
    """Brokers that differ, those that only a cleaner made different, and those that may hold anything."""
    differing = {row["broker_id"] for row in rows["divergences"]}
    cleaned, doubtful = set(), set()
    for row in rows["findings"]:
        code, broker = row["code"], row["broker_id"]
        if code == "DIV-PRESENCE" and row["severity"] == "info":
            cleaned.add(broker)
        elif code in codes_with("difference"):
            differing.add(broker)
        elif (
            code in codes_with("doubt")
            and at_or_above(row["severity"], "medium")
            or code == "DIV-FORMAT"
            and row["confidence"] != "proven"
        ):
            doubtful.add(broker)
    return differing, cleaned - differing, doubtful


@dataclass(frozen=True, slots=True)
class DifferingRun:
    """A row of `divergences` as a reader sees it.

    `kind`: `hole` (the replica has nothing), `past_end` (of the reference's log), `not_there` (the reference has
    nothing), `same_epoch`, `other_epoch`, or `without_epoch` (of at least one side the format has none).
    """

    kind: str
    row: Row
    reference_end: int | None
    epoch: int | None
    """Of the replica's records; None where their format has none."""
    other_epoch: int | None
    """The same of the reference's."""
    wholly_committed: bool
    """As far as is known; `committed_records` counts them where it is only a part."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """What the truncation by the audit's protocol does to one follower."""

    broker_id: int
    row: Row
    """Of `truncations`."""
    log_end: int | None
    """The follower's."""
    cuts: bool
    """Records go with it."""
    keeps_difference: bool
    """The follower keeps records that differ from the reference's."""
    elsewhere: tuple[OtherCut, ...]


@dataclass(frozen=True, slots=True)
class OtherCut:
    """Protocols under which a follower would be cut at another offset."""

    truncate_to: int
    protocols: tuple[str, ...]
    unseen: tuple[int, int] | None
    """Offsets [start, end) that would stay different."""


def find_runs(rows: Rows) -> Mapping[int, Sequence[DifferingRun]]:
    """The runs of one partition by broker."""
    reference = reference_row(rows["replicas"])
    ends = {} if reference is None else {reference["broker_id"]: reference["log_end_offset"]}
    by_broker: dict[int, list[DifferingRun]] = defaultdict(list)
    for row in rows["divergences"]:
        by_broker[row["broker_id"]].append(_run(row, ends.get(row["reference_id"])))
    return by_broker


def _run(row: Row, end: int | None) -> DifferingRun:
    epoch, other = _known(row["replica_epoch"]), _known(row["leader_epoch"])
    count = row["committed_records"]
    if not row["record_count"]:
        kind = "hole"
    elif end is not None and row["start_offset"] >= end:
        kind = "past_end"
    elif row["code"] in codes_with("hole") and row["leader_epoch"] is None and epoch is not None:
        kind = "not_there"
    elif epoch is not None and other is not None:
        kind = "same_epoch" if epoch == other else "other_epoch"
    else:
        kind = "without_epoch"
    return DifferingRun(kind, row, end, epoch, other, count is None or count == row["record_count"])


def _known(epoch: int | None) -> int | None:
    return epoch if epoch is not None and epoch >= 0 else None


def find_truncations(rows: Rows, protocol: str) -> Iterator[Truncation]:
    """What `protocol` does to each follower of one partition, where that is known."""
    ends = {row["broker_id"]: row["log_end_offset"] for row in compared_rows(rows["replicas"])}
    by_broker: dict[int, dict[str, Row]] = defaultdict(dict)
    for row in rows["truncations"]:
        by_broker[row["broker_id"]][row["protocol"]] = row
    for broker_id, by_protocol in by_broker.items():
        chosen = by_protocol.get(protocol)
        if chosen is None or chosen["truncate_to"] is None:
            continue
        cut, end = chosen["truncate_to"], ends.get(broker_id)
        yield Truncation(
            broker_id,
            chosen,
            end,
            cuts=bool(chosen["dropped_records"]),
            keeps_difference=_stays_different(chosen) is not None,
            elsewhere=tuple(_elsewhere(by_protocol, cut)),
        )


def _elsewhere(by_protocol: Mapping[str, Row], cut: int) -> Iterator[OtherCut]:
    by_cut: dict[int, list[str]] = defaultdict(list)
    for name, row in by_protocol.items():
        if row["truncate_to"] is not None and row["truncate_to"] != cut:
            by_cut[row["truncate_to"]].append(name)
    for other, names in by_cut.items():
        yield OtherCut(other, tuple(names), _stays_different(by_protocol[names[0]]))


def _stays_different(row: Row) -> tuple[int, int] | None:
    """Offsets that a truncation keeps though they differ; None where there are none."""
    prefix, cut = row["common_prefix_end"], row["truncate_to"]
    return (prefix, cut) if prefix is not None and cut > prefix else None


@dataclass(frozen=True, slots=True)
class LeadershipChange:
    """One change of leader or of the replicas in sync.

    `kind`: `nobody_led`, `became_leader`, `became_uncleanly` (it was neither in sync nor eligible) or `isr_changed`.
    """

    kind: str
    earlier: Row
    later: Row
    """Rows of partition_states before and after it."""
    entitled: tuple[int, ...] = ()
    """Who could have led, where the leader was elected uncleanly."""
    left: tuple[int, ...] = ()
    joined: tuple[int, ...] = ()


def find_changes(states: Sequence[Row]) -> list[LeadershipChange]:
    """Changes oldest first, from rows of partition_states; those without a time (a listing's) are left out."""
    timed = [row for row in states if row.get("time_ms") is not None and row.get("source") == "metadata_log"]
    timed.sort(key=lambda row: (row.get("entry") or 0, row["time_ms"]))
    return [change for earlier, later in zip(timed, timed[1:], strict=False) if (change := _change(earlier, later))]


def _change(earlier: Row, later: Row) -> LeadershipChange | None:
    if later["leader_id"] != earlier["leader_id"]:
        if later["leader_id"] is None or later["leader_id"] < 0:
            return LeadershipChange("nobody_led", earlier, later)
        entitled = {*(earlier["isr"] or ()), *(earlier["elr"] or ())}
        if later["leader_id"] in entitled or earlier["isr"] is None:
            return LeadershipChange("became_leader", earlier, later)
        return LeadershipChange("became_uncleanly", earlier, later, entitled=tuple(sorted(entitled)))
    before, now = set(earlier["isr"] or ()), set(later["isr"] or ())
    if before == now:
        return None
    left, joined = tuple(sorted(before - now)), tuple(sorted(now - before))
    return LeadershipChange("isr_changed", earlier, later, left=left, joined=joined)


@dataclass(frozen=True, slots=True)
class Leading:
    """Who leads.

    `kind`: `leads`, `taken` (for the leader: nothing says who leads), `nobody`, `deleted` (nobody leads, since the
    topic was deleted), `all_stopped` (nobody leads, since all brokers were stopped cleanly) or `nothing_compared` (no replica could be read).
    """

    kind: str
    source: str | None = None
    """What says so: `leadership_source`."""
    eligible: tuple[int, ...] = ()
    """Who may lead without being in sync (KIP-966), where nobody leads."""
    instead: str | None = None
    """Why the reference is not the leader: it has records of a `later_epoch`, the leader's files are missing
    (`no_files`), or, where nobody leads, it `led_last` or has the `newest` log; None where it leads or is alone."""


def find_leading(partition: Row, rows: Rows) -> Leading:
    """Who leads the partition of a row of `partitions`."""
    leader, reference = partition["leader_id"], partition["reference_id"]
    source = next((row["leadership_source"] for row in rows["high_watermarks"]), None)
    if reference is None:
        return Leading("nothing_compared")
    if leader is None:
        states = states_of_source(rows.get("partition_states", ()))
        if states and states[-1]["occasion"] == "deleted":
            return Leading("deleted", source)
        stopped = any(row["code"] == "META-NO-LEADER" and row["severity"] == "info" for row in rows["findings"])
        led = [row["leader_id"] for row in states if row["leader_id"] is not None]
        other = "led_last" if led and led[-1] == reference else "newest"
        eligible = tuple(states[-1]["elr"] or ()) if states else ()
        alone = len(served_rows(rows["replicas"])) < 2
        return Leading("all_stopped" if stopped else "nobody", source, eligible, None if alone else other)
    if source == "inferred":
        return Leading("taken", source)
    has_files = any(row["broker_id"] == leader for row in served_rows(rows["replicas"]))
    instead = None if reference == leader else "later_epoch" if has_files else "no_files"
    return Leading("leads", source, instead=instead)

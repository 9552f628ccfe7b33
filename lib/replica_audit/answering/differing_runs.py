"""What kind of difference each run of differing records is, and what the next truncation does about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from replica_audit.answering.by_partition import Row, Rows, compared_rows, reference_row
from replica_audit.auditing.findings.catalogue import codes_with


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

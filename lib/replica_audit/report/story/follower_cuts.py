"""Where each follower cuts its log when it follows the leader."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from replica_audit.report.facts.by_partition import compared_rows
from replica_audit.report.sentences import Sentence, Template, join_words, verb
from replica_audit.results import PartitionRows
from replica_audit.schema import TruncationRow
from replica_audit.text import name_offsets


@dataclass(frozen=True, slots=True)
class Truncation:
    """Truncation of one follower by the audit's protocol."""

    broker_id: int
    row: TruncationRow
    """The row of `truncations`."""
    log_end: int | None
    """The follower's."""
    cuts: bool
    """Records go with it."""
    elsewhere: tuple[OtherCut, ...]


@dataclass(frozen=True, slots=True)
class OtherCut:
    """Protocols under which a follower would be cut at another offset."""

    truncate_to: int
    protocols: tuple[str, ...]
    unseen: tuple[int, int] | None
    """Offsets [start, end) that would stay different."""


def find_truncations(rows: PartitionRows, protocol: str) -> Iterator[Truncation]:
    """Truncation of each follower of one partition by `protocol`, where it is known."""
    ends = {row.broker_id: row.log_end_offset for row in compared_rows(rows.replicas)}
    by_broker: dict[int, dict[str, TruncationRow]] = defaultdict(dict)
    for row in rows.truncations:
        by_broker[row.broker_id][row.protocol] = row
    for broker_id, by_protocol in by_broker.items():
        chosen = by_protocol.get(protocol)
        if chosen is None or chosen.truncate_to is None:
            continue
        cut, end = chosen.truncate_to, ends.get(broker_id)
        yield Truncation(
            broker_id,
            chosen,
            end,
            cuts=bool(chosen.dropped_records),
            elsewhere=tuple(_elsewhere(by_protocol, cut)),
        )


def _elsewhere(by_protocol: Mapping[str, TruncationRow], cut: int) -> Iterator[OtherCut]:
    by_cut: dict[int, list[str]] = defaultdict(list)
    for name, row in by_protocol.items():
        if row.truncate_to is not None and row.truncate_to != cut:
            by_cut[row.truncate_to].append(name)
    for other, names in by_cut.items():
        yield OtherCut(other, tuple(names), _stays_different(by_protocol[names[0]]))


def _stays_different(row: TruncationRow) -> tuple[int, int] | None:
    """Offsets that a truncation keeps though they differ; None where there are none."""
    prefix, cut = row.common_prefix_end, row.truncate_to
    return (prefix, cut) if prefix is not None and cut > prefix else None


CUT = Template("When broker {broker} follows, {how}it cuts its log at {cut}: *{range} {go} with it*{committed}.")
CUT_NOTHING = Template("When broker {broker} follows, {how}it cuts its log at {cut}, which removes no record.")
OTHER_PROTOCOL = Template("Under {protocols} broker {broker} would keep everything up to {cut}{unseen}.")


def tell_truncations(rows: PartitionRows, protocol: str) -> Iterator[Sentence]:
    """A sentence for each follower that `protocol` truncates, and for protocols that would cut it elsewhere."""
    for one in find_truncations(rows, protocol):
        if one.cuts:
            yield _cut(one)
        for other in one.elsewhere:
            unseen = (
                f", and {name_offsets(*other.unseen)} would stay different, unseen by Kafka" if other.unseen else ""
            )
            protocols = join_words(other.protocols)
            yield OTHER_PROTOCOL.say(protocols=protocols, broker=one.broker_id, cut=other.truncate_to, unseen=unseen)


def _cut(one: Truncation) -> Sentence:
    cut, end = one.row.truncate_to, one.log_end
    values = {"broker": one.broker_id, "cut": cut, "how": _asks(one.row)}
    if end is None or end <= cut:
        return CUT_NOTHING.say(**values)
    committed = ", committed records among them" if one.row.committed_dropped else ""
    return CUT.say(**values, range=name_offsets(cut, end), go=verb(end - cut, "goes", "go"), committed=committed)


def _asks(row: TruncationRow) -> str:
    """The leader's answers, in the order in which they come."""
    steps = [step for step in row.steps or () if step.leader_end_offset is not None]
    answers = [
        (step.request_epoch if step.leader_epoch is None else step.leader_epoch, step.leader_end_offset)
        for step in steps
    ]
    said = ", then that ".join(f"epoch {epoch} ends at {end}" for epoch, end in answers)
    return f"broker {row.leader_id} answers that {said}, and " if answers else ""

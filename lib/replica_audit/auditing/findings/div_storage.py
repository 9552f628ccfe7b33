"""Records that are equal and stored otherwise, and latest values of keys (F.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import Code, Finding, considered, finding, offsets
from replica_audit.schema import Evidence
from replica_audit.text import count

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.compacted import Compaction
    from replica_audit.auditing.compare.comparison import Comparison

DIV_KEY_STATE = Code(
    "DIV-KEY-STATE",
    severities=("high",),
    verdicts=("COMMITTED_DIVERGENCE",),
    traits=("records", "difference"),
    summary="Compacted replicas have different latest values for a key",
    meaning="The latest record of a key differs from the leader's, for instance a deleted key that is alive on a "
    "replica that was down while its tombstone came and went. Log ends, epochs and ISR all agree.",
    proof="The number of keys, and the offsets of the records in question; never a key.",
    remedy="Keep a copy of the replica that kept the old value, and rebuild it; if it leads, move leadership first. Use a longer "
    "delete.retention.ms than the longest time for which a broker may be down.",
    traps="Records of aborted transactions are left out of the comparison, as are keys with records past the shorter "
    "log's end, and keys that the longer log may have deleted there.",
)
DIV_BATCHING = Code(
    "DIV-BATCHING",
    severities=("low",),
    verdicts=(),
    traits=("records", "retold"),
    summary="Equal records in other batches",
    meaning="The records agree, but how they were put into batches does not. Conversion of formats or a cleaner "
    "does this.",
    proof="The range and the batch bounds on both sides.",
    remedy="None.",
    traps="",
)
DIV_FORMAT = Code(
    "DIV-FORMAT",
    severities=("info",),
    verdicts=(),
    traits=("records", "retold"),
    summary="Equal records in another message format",
    meaning="The records agree, one side has them in an older message format: a follower fetched during an upgrade.",
    proof="The range and the format version on both sides.",
    remedy="None.",
    traps="",
)
CODES = (
    DIV_KEY_STATE,
    DIV_BATCHING,
    DIV_FORMAT,
)


def judge(case: Case) -> Iterator[Finding]:
    """Formats, batches and keys of every follower beside the reference."""
    for item in case.comparisons:
        yield from _formats(item)
        if item.compaction is not None:
            yield from _key_state(case, item, item.compaction)


def _formats(item: Comparison) -> Iterator[Finding]:
    """DIV-FORMAT and DIV-BATCHING: equal records stored differently, and other formats that were not read."""
    broker = item.follower.broker_id
    parts = [part for part in item.alignment.differences if part.kind in ("format", "batching")]
    for kind, compared in (("format", False), ("format", True), ("batching", True)):
        found = [part for part in parts if (part.kind, part.compared) == (kind, compared)]
        if not found:
            continue
        start, end = found[0].start_offset, max(part.end_offset for part in found)
        where = f"{count(len(found), 'batch', 'batches')} within {offsets(start, end)}"
        if not compared:
            message = (
                f"broker {broker} has {where} in another message format; the records could not be read, so it is not "
                "known whether they are equal"
            )
        elif kind == "format":
            message = f"broker {broker} has {where} in another message format; the records are equal"
        else:
            message = f"broker {broker} has the records of {where} in other batches than the reference, or stored otherwise; they are equal"
        yield finding(
            DIV_FORMAT if kind == "format" else DIV_BATCHING,
            message,
            confidence="proven" if compared else "suspect",
            broker_id=broker,
            start_offset=start,
            end_offset=end,
            evidence=[considered("conversion: followers got down-converted batches during upgrades before 4.0")],
        )


def _key_state(case: Case, item: Comparison, outcome: Compaction) -> Iterator[Finding]:
    keys, leader, follower = outcome.keys, case.reference.facts.broker_id, item.follower.broker_id
    if not keys.differing:
        return
    parts = [
        (keys.alive_on_follower, f"gone from broker {leader} and still there on broker {follower}"),
        (keys.alive_on_reference, f"gone from broker {follower} and still there on broker {leader}"),
        (keys.other_value, "with another latest value on each"),
    ]
    named = ", ".join(str(offset) for offset in keys.offsets)
    yield finding(
        DIV_KEY_STATE,
        f"{count(keys.differing, 'key')} of this compacted partition {'has' if keys.differing == 1 else 'have'} different latest values: "
        + "; ".join(f"{count} {what}" for count, what in parts if count),
        confidence="proven" if case.quiesced else "likely",
        broker_id=follower,
        start_offset=keys.start_offset,
        end_offset=keys.end_offset,
        evidence=[
            Evidence("batch", text=f"first records in question at offsets {named}", broker_id=follower, value=named),
            considered(f"lag: no, only offsets below {outcome.end_offset} count, and no key that has a later record"),
            considered("transactions: records of aborted ones were left out"),
            considered(
                "compaction: no, a cleaner removes a record only after a later one of its key, and a tombstone only after all of these"
            ),
        ],
    )

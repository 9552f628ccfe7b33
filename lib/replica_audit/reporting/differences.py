"""Where replicas hold other records than the reference, and what a truncation does about it, in sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from replica_audit.answering.by_partition import Row, Rows
from replica_audit.auditing.findings.catalogue import codes_with
from replica_audit.moments import render_time
from replica_audit.reporting.layout import render_count
from replica_audit.reporting.sentences import Sentence, Template, join_words, name_offsets, verb

#: How many runs of one replica the story has; the tables below the story have them all.
RUN_LIMIT = 3

OTHER_EPOCH = Template(
    "At {where} broker {broker} has {records} of epoch {epoch}{written}, where broker {reference} has those of epoch "
    "{other}{fate}."
)
PAST_END = Template(
    "At {where} broker {broker} has {records} of epoch {epoch}{written}; the log of broker {reference} ends at {end}{fate}."
)
SAME_EPOCH = Template(
    "At {where} broker {broker} has {records} of epoch {epoch}{written}, and broker {reference} has others of the same "
    "epoch{fate}."
)
WITHOUT_EPOCH = Template(
    "At {where} broker {broker} has {records}{written}, and broker {reference} has others; {whose} format has no leader "
    "epochs{fate}."
)
NOT_THERE = Template("At {where} broker {broker} has {records}{written}, and broker {reference} has none{fate}.")
HOLE = Template("At {where} broker {broker} has no records, where broker {reference} has some{of_epoch}.")
MORE_RUNS = Template("Broker {broker} differs in {places} more, listed below.")

CUT = Template("When broker {broker} follows, {how}it cuts its log at {cut}: *{range} {go} with it*{committed}.")
CUT_NOTHING = Template("When broker {broker} follows, {how}it cuts its log at {cut}, which removes no record.")
KEPT = Template(
    "Broker {broker} keeps everything up to {cut} although it differs from {prefix} on: *no truncation will ever repair "
    "that*."
)
OTHER_PROTOCOL = Template("Under {protocols} broker {broker} would keep everything up to {cut}{unseen}.")


def tell_differences(rows: Rows) -> Iterator[Sentence]:
    """One sentence for each run of differing records, by broker."""
    first = [row for row in rows["replicas"] if row["role"] in ("leader", "reference")]
    ends = {row["broker_id"]: row["log_end_offset"] for row in first}
    by_broker: dict[int, list[Row]] = defaultdict(list)
    for row in rows["divergences"]:
        by_broker[row["broker_id"]].append(row)
    for broker_id, runs in by_broker.items():
        for row in runs[:RUN_LIMIT]:
            yield _run(row, ends.get(row["reference_id"]))
        if len(runs) > RUN_LIMIT:
            yield MORE_RUNS.say(broker=broker_id, places=render_count(len(runs) - RUN_LIMIT, "place"))


def _run(row: Row, end: int | None) -> Sentence:
    written = ""
    if row["first_timestamp_ms"] is not None:
        written = f", written {_span(row['first_timestamp_ms'], row['last_timestamp_ms'])}"
    epoch, other = row["replica_epoch"], row["leader_epoch"]
    values = {
        "where": name_offsets(row["start_offset"], row["end_offset"]),
        "broker": row["broker_id"],
        "reference": row["reference_id"],
        "records": render_count(row["record_count"], "record"),
        "written": written,
        "fate": _fate(row),
    }
    known, other_known = epoch is not None and epoch >= 0, other is not None and other >= 0
    if not row["record_count"]:
        return HOLE.say(**values, of_epoch=f" of epoch {other}" if other_known else "")
    if end is not None and row["start_offset"] >= end:
        values["records"] += "" if known else ", which carry no leader epoch,"
        return PAST_END.say(**values, epoch=epoch, end=end) if known else NOT_THERE.say(**values)
    if row["code"] in codes_with("hole") and other is None and known:
        values["records"] += f" of epoch {epoch}"
        return NOT_THERE.say(**values)
    if known and other_known:
        return (SAME_EPOCH if epoch == other else OTHER_EPOCH).say(**values, epoch=epoch, other=other)
    whose = "the former's" if other_known else "the latter's" if known else "their"
    return WITHOUT_EPOCH.say(**values, whose=whose)


def _fate(row: Row) -> str:
    """What is known of the records' commitment."""
    if not row["committed"]:
        return "; nothing proves that they were committed"
    count, proof = row["committed_records"], row["committed_evidence"]
    whole = count is None or count == row["record_count"]
    said = "they were committed" if whole else f"{count} of them {verb(count, 'was', 'were')} committed"
    return f"; {said}" + (f": {proof}" if proof else "")


def tell_truncations(rows: Rows, protocol: str) -> Iterator[Sentence]:
    """What the truncation by `protocol` does to each follower, and where others would end elsewhere."""
    ends = {row["broker_id"]: row["log_end_offset"] for row in rows["replicas"] if row["role"] == "compared"}
    by_broker: dict[int, dict[str, Row]] = defaultdict(dict)
    for row in rows["truncations"]:
        by_broker[row["broker_id"]][row["protocol"]] = row
    for broker_id, by_protocol in by_broker.items():
        chosen = by_protocol.get(protocol)
        if chosen is None or chosen["truncate_to"] is None:
            continue
        cut, prefix = chosen["truncate_to"], chosen["common_prefix_end"]
        if chosen["dropped_records"]:
            yield _cut(chosen, ends.get(broker_id))
        if prefix is not None and cut > prefix:
            yield KEPT.say(broker=broker_id, cut=cut, prefix=prefix)
        yield from _others(broker_id, by_protocol, protocol)


def _cut(row: Row, end: int | None) -> Sentence:
    values = {"broker": row["broker_id"], "cut": row["truncate_to"], "how": _asks(row)}
    if end is None or end <= row["truncate_to"]:
        return CUT_NOTHING.say(**values)
    committed = ", committed records among them" if row["committed_dropped"] else ""
    gone = name_offsets(row["truncate_to"], end)
    return CUT.say(**values, range=gone, go=verb(end - row["truncate_to"], "goes", "go"), committed=committed)


def _asks(row: Row) -> str:
    """The leader's answers, in the order in which they come."""
    steps = [step for step in row["steps"] or () if step["leader_end_offset"] is not None]
    answers = [
        (step["request_epoch"] if step["leader_epoch"] is None else step["leader_epoch"], step["leader_end_offset"])
        for step in steps
    ]
    said = ", then that ".join(f"epoch {epoch} ends at {end}" for epoch, end in answers)
    return f"broker {row['leader_id']} answers that {said}, and " if answers else ""


def _others(broker_id: int, by_protocol: dict[str, Row], chosen: str) -> Iterator[Sentence]:
    by_cut: dict[int, list[str]] = defaultdict(list)
    for name, row in by_protocol.items():
        if row["truncate_to"] is not None and row["truncate_to"] != by_protocol[chosen]["truncate_to"]:
            by_cut[row["truncate_to"]].append(name)
    for cut, names in by_cut.items():
        prefix = by_protocol[names[0]]["common_prefix_end"]
        unseen = ""
        if prefix is not None and cut > prefix:
            unseen = f", and {name_offsets(prefix, cut)} would stay different, unseen by Kafka"
        yield OTHER_PROTOCOL.say(protocols=join_words(names), broker=broker_id, cut=cut, unseen=unseen)


def _span(first: int, last: int | None) -> str:
    start, end = render_time(first), render_time(last)
    if last is None or start == end:
        return f"at {start}"
    if start[:11] == end[:11] and end.endswith("Z") and start.endswith("Z"):
        return f"{start[:10]} from {start[11:-1]} to {end[11:-1]} UTC"
    return f"from {start} to {end}"

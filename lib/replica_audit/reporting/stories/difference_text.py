"""Where replicas hold other records than the reference, and what a truncation does about it, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.answering.by_partition import Row, Rows
from replica_audit.answering.differing_runs import DifferingRun, Truncation, find_runs, find_truncations
from replica_audit.moments import render_time
from replica_audit.reporting.phrases.layout import render_count
from replica_audit.reporting.phrases.sentences import Sentence, Template, join_words, name_offsets, verb

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
    for broker_id, runs in find_runs(rows).items():
        yield from map(_tell_run, runs[:RUN_LIMIT])
        if len(runs) > RUN_LIMIT:
            yield MORE_RUNS.say(broker=broker_id, places=render_count(len(runs) - RUN_LIMIT, "place"))


def _tell_run(run: DifferingRun) -> Sentence:
    row, epoch, other = run.row, run.epoch, run.other_epoch
    written = ""
    if row["first_timestamp_ms"] is not None:
        written = f", written {_span(row['first_timestamp_ms'], row['last_timestamp_ms'])}"
    values = {
        "where": name_offsets(row["start_offset"], row["end_offset"]),
        "broker": row["broker_id"],
        "reference": row["reference_id"],
        "records": render_count(row["record_count"], "record"),
        "written": written,
        "fate": _fate(run),
    }
    if run.kind == "hole":
        return HOLE.say(**values, of_epoch="" if other is None else f" of epoch {other}")
    if run.kind == "past_end":
        if epoch is not None:
            return PAST_END.say(**values, epoch=epoch, end=run.reference_end)
        values["records"] += ", which carry no leader epoch,"
        return NOT_THERE.say(**values)
    if run.kind == "not_there":
        values["records"] += f" of epoch {epoch}"
        return NOT_THERE.say(**values)
    if run.kind == "without_epoch":
        whose = "the former's" if other is not None else "the latter's" if epoch is not None else "their"
        return WITHOUT_EPOCH.say(**values, whose=whose)
    return (SAME_EPOCH if run.kind == "same_epoch" else OTHER_EPOCH).say(**values, epoch=epoch, other=other)


def _fate(run: DifferingRun) -> str:
    """What is known of the records' commitment."""
    row = run.row
    if not row["committed"]:
        return "; nothing proves that they were committed"
    count, proof = row["committed_records"], row["committed_evidence"]
    said = "they were committed" if run.wholly_committed else f"{count} of them {verb(count, 'was', 'were')} committed"
    return f"; {said}" + (f": {proof}" if proof else "")


def tell_truncations(rows: Rows, protocol: str) -> Iterator[Sentence]:
    """What the truncation by `protocol` does to each follower, and where others would end elsewhere."""
    for one in find_truncations(rows, protocol):
        broker, cut = one.broker_id, one.row["truncate_to"]
        if one.cuts:
            yield _cut(one)
        if one.keeps_difference:
            yield KEPT.say(broker=broker, cut=cut, prefix=one.row["common_prefix_end"])
        for other in one.elsewhere:
            unseen = (
                f", and {name_offsets(*other.unseen)} would stay different, unseen by Kafka" if other.unseen else ""
            )
            protocols = join_words(other.protocols)
            yield OTHER_PROTOCOL.say(protocols=protocols, broker=broker, cut=other.truncate_to, unseen=unseen)


def _cut(one: Truncation) -> Sentence:
    cut, end = one.row["truncate_to"], one.log_end
    values = {"broker": one.broker_id, "cut": cut, "how": _asks(one.row)}
    if end is None or end <= cut:
        return CUT_NOTHING.say(**values)
    committed = ", committed records among them" if one.row["committed_dropped"] else ""
    return CUT.say(**values, range=name_offsets(cut, end), go=verb(end - cut, "goes", "go"), committed=committed)


def _asks(row: Row) -> str:
    """The leader's answers, in the order in which they come."""
    steps = [step for step in row["steps"] or () if step["leader_end_offset"] is not None]
    answers = [
        (step["request_epoch"] if step["leader_epoch"] is None else step["leader_epoch"], step["leader_end_offset"])
        for step in steps
    ]
    said = ", then that ".join(f"epoch {epoch} ends at {end}" for epoch, end in answers)
    return f"broker {row['leader_id']} answers that {said}, and " if answers else ""


def _span(first: int, last: int | None) -> str:
    start, end = render_time(first), render_time(last)
    if last is None or start == end:
        return f"at {start}"
    if start[:11] == end[:11] and end.endswith("Z") and start.endswith("Z"):
        return f"{start[:10]} from {start[11:-1]} to {end[11:-1]} UTC"
    return f"from {start} to {end}"

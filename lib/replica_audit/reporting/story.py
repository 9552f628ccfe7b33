"""The story of one partition in sentences: who leads, what is committed, who differs, what the next truncation does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.auditing.catalogue import SEVERITIES
from replica_audit.moments import render_time
from replica_audit.reporting.findings import worst_first
from replica_audit.reporting.grouping import Row, Rows
from replica_audit.reporting.history import tell_history
from replica_audit.reporting.layout import clean, render_count
from replica_audit.reporting.sentences import (
    SOURCES,
    Sentence,
    capitalise,
    end_sentence,
    join_words,
    name_brokers,
    name_offsets,
)
from replica_audit.results import Results

#: Runs of one replica, and findings, that are told; the tables below the story have them all.
RUN_LIMIT = 3
FINDING_LIMIT = 4

#: Families whose findings the other sentences do not tell.
_UNTOLD = ("LOG-", "EPO-", "CHK-", "CAP-", "META-", "REP-ISR", "REP-LEADER", "HWM-CP", "HWM-RP", "DIV-CORRUPT")


#: But these are told: leadership, and the history of it.
_TOLD = ("META-NO-", "META-UNCLEAN-")


def tell_story(partition: Row, rows: Rows, protocol: str) -> list[Sentence]:
    """Sentences in the order in which things happened and will happen; `protocol` is the truncation that is told."""
    return [
        *tell_history(rows.get("partition_states", ())),
        *_leadership(partition, rows),
        *_agreement(partition, rows),
        *_divergences(partition, rows),
        *_high_watermark(rows),
        *_truncations(rows, protocol),
        *_other_findings(rows),
    ]


def _leadership(partition: Row, rows: Rows) -> Iterator[Sentence]:
    sources = [row["leadership_source"] for row in rows["high_watermarks"]]
    reason = SOURCES.get(sources[0], "") if sources else ""
    said = f" ({reason})" if reason else ""
    isr = partition["isr"]
    in_sync = "which replicas are in sync is not known" if isr is None else f"in sync: {join_words(isr)}"
    epoch = "" if partition["leader_epoch"] is None else f" in leader epoch {partition['leader_epoch']}"
    if partition["leader_id"] is not None and sources == ["inferred"]:
        text = f"{epoch}: nothing says who leads, and it has the newest leader epoch, then the longest log; {in_sync}."
        yield ("", f"Broker {partition['leader_id']} is taken for the leader", text)
    elif partition["leader_id"] is not None:
        yield ("", f"Broker {partition['leader_id']} leads", f"{epoch}{said}; {in_sync}.")
    elif partition["reference_id"] is not None:
        text = (
            f"; the others are compared with broker {partition['reference_id']}{epoch and f', the newest log,{epoch}'}"
        )
        yield ("", "Nobody leads", f"{text}; {in_sync}.")
    else:
        yield ("No replica could be compared with the others.",)


def _agreement(partition: Row, rows: Rows) -> Iterator[Sentence]:
    reference = next((row for row in rows["replicas"] if row["broker_id"] == partition["reference_id"]), None)
    if reference is None or reference["log_end_offset"] is None:
        return
    end = reference["log_end_offset"]
    differing = {row["broker_id"] for row in rows["divergences"]}
    differing |= {row["broker_id"] for row in rows["findings"] if row["code"].startswith("DIV-")}
    others = [row for row in rows["replicas"] if row is not reference and row["broker_id"] not in differing]
    known = [row for row in others if row["log_end_offset"] is not None]
    equal = [row["broker_id"] for row in known if row["log_end_offset"] == end]
    if not rows["replicas"][1:]:
        held = name_offsets(reference["log_start_offset"] or 0, end) if end else "nothing"
        yield (f"Only broker {reference['broker_id']} has files here; it holds {held}.",)
    elif equal:
        held = (
            f"hold the same records, up to log end {end}"
            if reference["record_count"]
            else f"are empty, and end at {end}"
        )
        comma = "," if reference["is_leader"] else ""
        yield (f"{capitalise(name_brokers(equal))} and broker {_reference_name(reference)}{comma} {held}.",)
    for row in known:
        behind = end - row["log_end_offset"]
        if behind > 0:
            ends = f"ends {behind} earlier, at {row['log_end_offset']}"
            yield (f"Broker {row['broker_id']} holds the same records, but {ends}.",)
        elif behind < 0:
            further = f"goes on {-behind} further, to {row['log_end_offset']}"
            why = "copied later, or ahead of a leader that lost its tail"
            yield (f"Broker {row['broker_id']} agrees with it and {further}: {why}.",)


def _reference_name(row: Row) -> str:
    return f"{row['broker_id']}, the leader" if row["is_leader"] else f"{row['broker_id']}"


def _divergences(partition: Row, rows: Rows) -> Iterator[Sentence]:
    by_broker: dict[int, list[Row]] = {}
    for row in rows["divergences"]:
        by_broker.setdefault(row["broker_id"], []).append(row)
    for broker_id, runs in by_broker.items():
        for row in runs[:RUN_LIMIT]:
            where = name_offsets(row["start_offset"], row["end_offset"])
            held = f"{render_count(row['record_count'], 'record')} of {_epoch(row['replica_epoch'])}"
            held = held if row["record_count"] else "nothing"
            other = "has nothing any more" if row["leader_epoch"] is None else f"has {_epoch(row['leader_epoch'])}"
            written = ""
            if row["first_timestamp_ms"] is not None:
                written = f", written {_span(row['first_timestamp_ms'], row['last_timestamp_ms'])}"
            text = f"At {where} broker {broker_id} has {held}{written}, where broker {row['reference_id']} {other}"
            if not row["committed"]:
                yield (f"{text}; nothing proves that they were committed." if row["record_count"] else f"{text}.",)
                continue
            count = row["committed_records"]
            all_of_it = count is None or count == row["record_count"]
            said = "they were committed" if all_of_it else f"{count} of them were committed"
            yield (f"{text}; ", said, f": {row['committed_evidence']}." if row["committed_evidence"] else ".")
        if len(runs) > RUN_LIMIT:
            yield (f"Broker {broker_id} differs at {len(runs) - RUN_LIMIT} more places, listed below.",)


def _high_watermark(rows: Rows) -> Iterator[Sentence]:
    for row in rows["high_watermarks"]:
        lower, upper = row["hw_lower"], row["hw_upper"]
        if lower is None:
            yield ("Where the high watermark is cannot be told from these files.",)
            continue
        proofs = [text for text in (row["lower_evidence"], row["upper_evidence"]) if text]
        proof = f": {' and '.join(dict.fromkeys(proofs))}" if proofs else ""
        if row["exact"]:
            yield ("The high watermark is ", f"exactly {lower}", f"{proof}.")
        elif upper is None:
            yield ("The high watermark is ", f"at least {lower}", f"{proof}.")
        else:
            yield ("The high watermark is ", f"between {lower} and {upper}", f"{proof}.")


def _truncations(rows: Rows, protocol: str) -> Iterator[Sentence]:
    by_broker: dict[int, dict[str, Row]] = {}
    for row in rows["truncations"]:
        by_broker.setdefault(row["broker_id"], {})[row["protocol"]] = row
    for broker_id, by_protocol in by_broker.items():
        chosen = by_protocol.get(protocol)
        if chosen is None or chosen["truncate_to"] is None:
            continue
        cut = chosen["truncate_to"]
        if chosen["dropped_records"]:
            lost = f"{render_count(chosen['dropped_records'], 'record')} will be dropped"
            if chosen["committed_dropped"]:
                lost += f", {chosen['committed_dropped']} of them proven committed"
            yield (f"When broker {broker_id} follows, it {_asks(chosen)}cuts its log at {cut}: ", lost, ".")
        if chosen["common_prefix_end"] is not None and cut > chosen["common_prefix_end"]:
            prefix = chosen["common_prefix_end"]
            kept = f"Broker {broker_id} keeps everything up to {cut} although it differs from {prefix} on: "
            yield (kept, "no truncation will ever repair that", ".")
        for name, row in by_protocol.items():
            if row["truncate_to"] in (None, cut) or name == protocol:
                continue
            prefix = row["common_prefix_end"]
            after = f"drop {render_count(row['dropped_records'], 'record')}"
            if prefix is not None and row["truncate_to"] > prefix:
                after += f", and {name_offsets(prefix, row['truncate_to'])} would differ for ever, unseen"
            yield (f"Under {name} broker {broker_id} would keep up to {row['truncate_to']}, {after}.",)


def _asks(row: Row) -> str:
    steps = [step for step in row["steps"] or () if step["leader_end_offset"] is not None]
    if not steps:
        return ""
    asked = join_words([step["request_epoch"] for step in steps])
    told = join_words([step["leader_end_offset"] for step in steps])
    return f"asks for the end of epoch {asked}, is told {told}, and "


def _other_findings(rows: Rows) -> Iterator[Sentence]:
    worth_telling = SEVERITIES[:3]
    found = [
        row
        for row in worst_first(rows["findings"])
        if row["severity"] in worth_telling
        and row["code"].startswith(_UNTOLD)
        and row["status"] != "resolved"
        and not row["code"].startswith(_TOLD)
    ]
    for row in found[:FINDING_LIMIT]:
        yield (end_sentence(clean(row["message"] or row["code"])),)


def _epoch(epoch: int | None) -> str:
    return "no known epoch" if epoch is None or epoch < 0 else f"epoch {epoch}"


def _span(first: int, last: int | None) -> str:
    start, end = render_time(first), render_time(last)
    if last is None or start == end:
        return f"at {start}"
    if start[:11] == end[:11] and end.endswith("Z") and start.endswith("Z"):
        return f"{start[:10]} from {start[11:-1]} to {end[11:-1]} UTC"
    return f"from {start} to {end}"


def told_protocol(results: Results) -> str:
    """The protocol that the audit's findings and verdicts used; `fetch` for an audit that kept no options."""
    return (results.audit.get("options") or {}).get("protocol") or "fetch"

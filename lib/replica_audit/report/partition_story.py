"""The story of one partition: its leadership, which replicas agree, where others differ, what is committed, and where followers
truncate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from replica_audit.auditing.catalogue import at_or_above, codes_with
from replica_audit.elect.cluster_state import states_of_source
from replica_audit.literals import NOT_COMPARED
from replica_audit.report.facts.by_partition import compared_rows, reference_row, served_rows, worst_first
from replica_audit.report.facts.conditions import may_have_lost
from replica_audit.report.facts.leadership_changes import LeadershipChange, find_changes
from replica_audit.report.layout import clean
from replica_audit.report.sentences import Sentence, join_words, plain_text, say, tell_finding
from replica_audit.results import PartitionRows, present
from replica_audit.schema import (
    DivergenceRow,
    FindingRow,
    HighWatermarkRow,
    PartitionRow,
    PartitionStateRow,
    ReplicaRow,
    TruncationRow,
)
from replica_audit.text import capitalise, count, name_brokers, name_offsets, name_source, render_time, verb

#: Maximum numbers of leadership changes, of runs of one replica, and of other findings in a story; the tables below it have all.
CHANGE_LIMIT = 6
RUN_LIMIT = 3
FINDING_LIMIT = 4


def tell_story(partition: PartitionRow, rows: PartitionRows, protocol: str) -> list[Sentence]:
    """Tell the story in sentences, with the truncations of `protocol`."""
    return [
        *tell_history(rows.partition_states),
        # Unclean elections with a loss that no captured replica shows; others are among the differences.
        *map(tell_finding, filter(may_have_lost, present(rows.findings))),
        *_tell_leadership(partition, rows),
        *map(_tell_agreement, find_agreement(rows)),
        *_tell_differences(rows),
        *map(_tell_high_watermark, rows.high_watermarks),
        *_tell_truncations(rows, protocol),
        *map(tell_finding, find_untold(rows)[:FINDING_LIMIT]),
    ]


def tell_history(states: Sequence[PartitionStateRow]) -> Iterator[Sentence]:
    """Yield a sentence for each of the newest changes of leader or ISR, oldest first."""
    changes = find_changes(states)
    if (left := len(changes) - CHANGE_LIMIT) > 0:
        are = verb(left, "is", "are")
        yield say(f"{count(left, 'earlier change')} of leader or of the replicas in sync {are} left out here.")
    yield from map(_tell_change, changes[-CHANGE_LIMIT:])


def _tell_change(change: LeadershipChange) -> Sentence:
    later = change.later
    at = f"At {render_time(later.time_ms)}"
    isr = f"in sync: {join_words(later.isr)}"
    became = f"{at} broker {later.leader_id} became leader in epoch {later.leader_epoch}"
    match change.kind:
        case "nobody_led":
            eligible = f"; eligible: {join_words(later.elr)}" if later.elr else ""
            return say(
                f"{at} broker {change.earlier.leader_id} stopped leading and ", "nobody led", f"; {isr}{eligible}."
            )
        case "isr_changed":
            parts = [
                f"{name_brokers(brokers)} {moved} the replicas in sync"
                for brokers, moved in ((change.left, "left"), (change.joined, "joined"))
                if brokers
            ]
            return say(f"{at} {' and '.join(parts)}; {isr}.")
        case "became_leader":
            return say(f"{became}; {isr}.")
    who = f"only {name_brokers(change.entitled)}" if change.entitled else "nobody"
    was = verb(len(change.entitled) or 1, "was", "were")
    return say(f"{became}, ", "uncleanly", f": {who} {was} in sync or eligible; {isr}.")


class Leading(NamedTuple):
    """Leadership of a partition.

    `kind`: `leads`, `taken` (for the leader, whose leadership is unknown), `nobody`, `deleted` (no leader, since the topic was
    deleted), `all_stopped` (no leader, since all brokers were stopped cleanly) or `nothing_compared` (no replica could be read).
    """

    kind: str
    source: str | None = None
    """`leadership_source` of the partition."""
    eligible: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966), if there is no leader."""
    instead: str | None = None
    """Reason why the reference is not the leader: it has records of a `later_epoch`, the leader's files are missing
    (`no_files`), or, without a leader, it `led_last` or has the `newest` log; None if it leads or is alone."""


def find_leading(partition: PartitionRow, rows: PartitionRows) -> Leading:
    """Leadership of a partition at present."""
    leader = partition.leader_id
    reference = partition.reference_id
    source = next((row.leadership_source for row in rows.high_watermarks), None)
    if reference is None:
        return Leading("nothing_compared")
    if leader is None:
        states = states_of_source(rows.partition_states)
        if states and states[-1].occasion == "deleted":
            return Leading("deleted", source)
        stopped = any(row.code == "META-NO-LEADER" and row.severity == "info" for row in present(rows.findings))
        led = [row.leader_id for row in states if row.leader_id is not None]
        other = "led_last" if led and led[-1] == reference else "newest"
        eligible = tuple(states[-1].elr) if states else ()
        alone = len(served_rows(rows.replicas)) < 2
        return Leading("all_stopped" if stopped else "nobody", source, eligible, None if alone else other)
    if source == "inferred":
        return Leading("taken", source)
    has_files = any(row.broker_id == leader for row in served_rows(rows.replicas))
    if reference == leader:
        return Leading("leads", source)
    return Leading("leads", source, instead="later_epoch" if has_files else "no_files")


#: Clause for each value of `Leading.instead`.
_INSTEAD = {
    "later_epoch": "it has records of a later leader epoch",
    "no_files": "the snapshot has no files of the leader",
    "led_last": "which led last",
    "newest": "whose log is the newest of those that may lead",
}


def _tell_leadership(partition: PartitionRow, rows: PartitionRows) -> Iterator[Sentence]:
    """Sentences on the leader and the ISR, and on the reference if it is not the leader."""
    leading = find_leading(partition, rows)
    leader = f"Broker {partition.leader_id}"
    epoch = "" if partition.leader_epoch is None else f" in leader epoch {partition.leader_epoch}"
    isr = "which replicas are in sync is not known"
    if partition.isr is not None:
        isr = f"in sync: {join_words(partition.isr)}"
    isr_elr = f"{isr}; eligible: {join_words(leading.eligible)}" if leading.eligible else isr
    match leading.kind:
        case "leads":
            source = "nothing more is known" if leading.source is None else f"{name_source(leading.source)} says so"
            yield say("", f"{leader} leads", f"{epoch} ({source}); {isr}.")
        case "taken":
            why = "nothing says who leads, and it has the newest leader epoch, then the longest log"
            yield say("", f"{leader} is taken for the leader", f"{epoch}: {why}; {isr}.")
        case "nobody":
            yield say("", "Nobody leads", f": nothing can be written or read; {isr_elr}.")
        case "all_stopped":
            yield say("", "Nobody leads", f", since all brokers here were stopped cleanly; {isr_elr}.")
        case "deleted":
            yield say("", "The topic was deleted", ": nobody leads it, and brokers remove what is left of it.")
        case "nothing_compared":
            yield say("The snapshot has no replica of this partition that could be read.")
    if leading.instead is not None:
        mark = ": " if leading.kind == "leads" else ", "
        why = _INSTEAD[leading.instead]
        yield say(f"The other replicas are compared with broker {partition.reference_id}{mark}{why}.")


class Agreement(NamedTuple):
    """Replicas that do not differ from the reference and relate to it alike, or a copy that was not compared.

    `kind`: `alone` (the reference is the only one), `same` and `empty` (as the reference, to the same end), `shorter`,
    `longer`, `empty_elsewhere` (empty, with another end), `no_overlap` (no offset is on both), `cleaned` (only the
    cleaners made them differ), or one of `NOT_COMPARED`.
    """

    kind: str
    brokers: tuple[int, ...]
    reference: ReplicaRow
    """The replica compared with; for a copy that was not compared, that copy."""
    replica: ReplicaRow
    """The first of the replicas."""
    since: int = 0
    """First offset from which both have records; 0 if both logs start alike."""
    tail_lost: bool = False
    """True if the reference is known to have lost the tail of a `longer` one."""


def find_agreement(rows: PartitionRows) -> Iterator[Agreement]:
    """Groups of replicas that do not differ, then copies that were not compared."""
    reference = reference_row(rows.replicas)
    if reference is not None and reference.log_end_offset is not None:
        yield from _compared(reference, rows)
    for row in rows.replicas:
        if row.role in NOT_COMPARED:
            yield Agreement(row.role, (row.broker_id,), row, row)


def _compared(reference: ReplicaRow, rows: PartitionRows) -> Iterator[Agreement]:
    others = [row for row in compared_rows(rows.replicas) if row.log_end_offset is not None]
    start, end = _range(reference)
    if len(served_rows(rows.replicas)) < 2:
        yield Agreement("alone", (reference.broker_id,), reference, reference)
        return
    differing, cleaned, doubtful = _by_findings(rows)
    if reference.broker_id in doubtful:
        return
    if cleaned:
        yield Agreement("cleaned", tuple(sorted(cleaned)), reference, reference)
    agreeing = [row for row in others if row.broker_id not in differing | cleaned | doubtful]
    equal: dict[int, list[ReplicaRow]] = {}
    for row in agreeing:
        own_start, own_end = _range(row)
        since = max(start, own_start) if own_start != start else 0
        if own_end == end:
            equal.setdefault(since, []).append(row)
        else:
            yield _unequal(reference, row, rows)
    for since, same in sorted(equal.items()):
        kind = "same" if reference.record_count else "empty"
        yield Agreement(kind, tuple(row.broker_id for row in same), reference, same[0], since)


def _unequal(reference: ReplicaRow, row: ReplicaRow, rows: PartitionRows) -> Agreement:
    start, end = _range(reference)
    own_start, own = _range(row)
    brokers = (row.broker_id,)
    first = max(start, own_start)
    if own <= own_start:
        return Agreement("empty_elsewhere", brokers, reference, row)
    if first >= min(end, own):
        return Agreement("no_overlap", brokers, reference, row)
    if own > end:
        tail_lost = any(item.code == "REP-LEADER-SHORTER" for item in present(rows.findings))
        return Agreement("longer", brokers, reference, row, tail_lost=tail_lost)
    return Agreement("shorter", brokers, reference, row, first if own_start != start else 0)


def _by_findings(rows: PartitionRows) -> tuple[set[int], set[int], set[int]]:
    """Brokers that differ, those that differ by a cleaner only, and those with unknown content."""
    differing = {row.broker_id for row in rows.divergences}
    cleaned: set[int] = set()
    doubtful: set[int] = set()
    for row in present(rows.findings):
        code = row.code
        broker = row.broker_id
        if broker is None:
            continue
        if code == "DIV-PRESENCE" and row.severity == "info":
            cleaned.add(broker)
        elif code in codes_with("difference"):
            differing.add(broker)
        elif (
            code in codes_with("doubt")
            and at_or_above(row.severity, "medium")
            or code == "DIV-FORMAT"
            and row.confidence != "proven"
        ):
            doubtful.add(broker)
    return differing, cleaned - differing - doubtful, doubtful


def _tell_agreement(one: Agreement) -> Sentence:
    start, end = _range(one.reference)
    own_start, own_end = _range(one.replica)
    held = name_offsets(start, end) if end > start else ""
    reference = f"broker {one.reference.broker_id}"
    reference = f"the leader ({reference})" if one.reference.is_leader else reference
    first = f"Broker {one.brokers[0]}"
    number = len(one.brokers)
    brokers = capitalise(name_brokers(one.brokers))
    since = f" from {one.since} on" if one.since else ""
    distance = count(abs(end - own_end), "offset")
    match one.kind:
        case "alone":
            return say(f"Only broker {one.brokers[0]} has files here; it holds {held or 'no records'}.")
        case "cleaned":
            return say(
                f"{brokers} and {reference} were cleaned at different times: they hold different records of this compacted "
                "partition, which is as it should be."
            )
        case "same":
            hold = verb(number, "holds", "hold")
            return say(f"{brokers} {hold} the same records as {reference}{since}, up to log end {end}.")
        case "empty":
            are = verb(number, "is", "are")
            return say(f"{brokers} {are} empty like {reference}, and {verb(number, 'ends', 'end')} at {end}.")
        case "empty_elsewhere":
            side = "past" if own_end > end else "before"
            return say(f"{first} is empty and ends at {own_end}, {distance} {side} the end of {reference}.")
        case "no_overlap":
            own = name_offsets(own_start, own_end)
            return say(f"{first} holds {own}, and {reference} {held or 'nothing'}: no offset is on both.")
        case "longer":
            why = (
                f"{reference} lost its tail" if one.tail_lost else f"it was copied later, or {reference} lost its tail"
            )
            return say(f"{first} agrees with {reference} and goes on {distance} further, to {own_end}: {why}.")
        case "shorter":
            return say(
                f"{first} holds the same records as {reference}{since}, but ends {distance} earlier, at {own_end}."
            )
        case "foreign":
            topic = f"another topic of this name (topic id {clean(one.replica.topic_id)})"
            return say(f"{first} holds a copy that belongs to {topic}; it was not compared.")
        case "duplicate":
            return say(f"{first} has a second copy in {clean(one.replica.log_dir)}, which was not used.")
    return say(f"What broker {one.brokers[0]} holds is not known: what there is of its log could not be compared.")


def _range(row: ReplicaRow) -> tuple[int, int]:
    """Offsets of a log in local segments, without what only remote storage has."""
    return row.local_start_offset, row.log_end_offset or 0


class DifferingRun(NamedTuple):
    """A row of `divergences`, and its finding."""

    row: DivergenceRow
    finding: FindingRow


def find_runs(rows: PartitionRows) -> Mapping[int, Sequence[DifferingRun]]:
    """The runs of one partition by broker."""
    findings = {(one.broker_id, one.start_offset, one.code): one for one in present(rows.findings)}
    by_broker: dict[int, list[DifferingRun]] = defaultdict(list)
    for row in rows.divergences:
        if finding := findings.get((row.broker_id, row.start_offset, row.code)):
            by_broker[row.broker_id].append(DifferingRun(row, finding))
    return by_broker


def _tell_differences(rows: PartitionRows) -> Iterator[Sentence]:
    """A sentence or two for each run of differing records, by broker."""
    for broker_id, runs in find_runs(rows).items():
        yield from map(_tell_run, runs[:RUN_LIMIT])
        if (left := len(runs) - RUN_LIMIT) > 0:
            yield say(f"Broker {broker_id} differs in {count(left, 'place')} more, listed below.")


def _tell_run(run: DifferingRun) -> Sentence:
    row = run.row
    said = tell_finding(run.finding)
    if not row.record_count:
        return said
    written = ""
    if row.first_timestamp_ms is not None:
        written = f", written {_span(row.first_timestamp_ms, row.last_timestamp_ms)}"
    records = f"There {verb(row.record_count, 'is', 'are')} {count(row.record_count, 'record')}{written}"
    return say(f"{plain_text(said)} {records}; {_fate(row)}.")


def _fate(row: DivergenceRow) -> str:
    """Clause on whether the records were committed."""
    if not row.committed:
        return "nothing proves that they were committed"
    number = row.committed_records
    said = "they were committed"
    if number is not None and number != row.record_count:
        said = f"{number} of them {verb(number, 'was', 'were')} committed"
    return f"{said}: {row.committed_evidence}" if row.committed_evidence else said


def _span(first: int, last: int | None) -> str:
    start = render_time(first)
    end = render_time(last)
    if last is None or start == end:
        return f"at {start}"
    if start[:11] == end[:11] and end.endswith("Z") and start.endswith("Z"):
        return f"{start[:10]} from {start[11:-1]} to {end[11:-1]} UTC"
    return f"from {start} to {end}"


def _tell_high_watermark(row: HighWatermarkRow) -> Sentence:
    proofs = [text for text in (row.lower_evidence, row.upper_evidence) if text]
    proof = f": {' and '.join(dict.fromkeys(proofs))}" if proofs else ""
    where = f"between {row.hw_lower} and {row.hw_upper}"
    if row.exact:
        where = f"exactly {row.hw_lower}"
    elif row.hw_upper is None:
        where = f"at least {row.hw_lower}"
    return say("The high watermark is ", where, f"{proof}.")


class Truncation(NamedTuple):
    """Truncation of one follower by the audit's protocol."""

    row: TruncationRow
    """The row of `truncations`."""
    log_end: int | None
    """The follower's."""
    elsewhere: tuple[OtherCut, ...]


class OtherCut(NamedTuple):
    """Protocols that would truncate a follower at another offset."""

    truncate_to: int
    protocols: tuple[str, ...]
    unseen: tuple[int, int] | None
    """Half-open range of offsets that would stay different."""


def find_truncations(rows: PartitionRows, protocol: str) -> Iterator[Truncation]:
    """Yield the truncation of each follower of one partition by `protocol`, if known."""
    ends = {row.broker_id: row.log_end_offset for row in compared_rows(rows.replicas)}
    by_broker: dict[int, dict[str, TruncationRow]] = defaultdict(dict)
    for row in rows.truncations:
        by_broker[row.broker_id][row.protocol] = row
    for broker_id, by_protocol in by_broker.items():
        chosen = by_protocol.get(protocol)
        if chosen is None or chosen.truncate_to is None:
            continue
        yield Truncation(chosen, ends.get(broker_id), tuple(_elsewhere(by_protocol, chosen.truncate_to)))


def _elsewhere(by_protocol: Mapping[str, TruncationRow], cut: int) -> Iterator[OtherCut]:
    by_cut: dict[int, list[str]] = defaultdict(list)
    for name, row in by_protocol.items():
        if row.truncate_to is not None and row.truncate_to != cut:
            by_cut[row.truncate_to].append(name)
    for other, names in by_cut.items():
        yield OtherCut(other, tuple(names), _stays_different(by_protocol[names[0]]))


def _stays_different(row: TruncationRow) -> tuple[int, int] | None:
    """Half-open range of offsets that a truncation keeps although they differ; None if empty."""
    prefix = row.common_prefix_end
    cut = row.truncate_to
    return (prefix, cut) if prefix is not None and cut > prefix else None


def _tell_truncations(rows: PartitionRows, protocol: str) -> Iterator[Sentence]:
    """A sentence for each follower that `protocol` truncates, and for protocols that would truncate it elsewhere."""
    for one in find_truncations(rows, protocol):
        if one.row.dropped_records:
            yield _tell_cut(one)
        for other in one.elsewhere:
            unseen = (
                f", and {name_offsets(*other.unseen)} would stay different, unseen by Kafka" if other.unseen else ""
            )
            kept = f"broker {one.row.broker_id} would keep everything up to {other.truncate_to}"
            yield say(f"Under {join_words(other.protocols)} {kept}{unseen}.")


def _tell_cut(one: Truncation) -> Sentence:
    cut = one.row.truncate_to
    end = one.log_end
    does = f"When broker {one.row.broker_id} follows, {_asks(one.row)}it cuts its log at {cut}"
    if end is None or end <= cut:
        return say(f"{does}, which removes no record.")
    committed = ", committed records among them" if one.row.committed_dropped else ""
    return say(f"{does}: ", f"{name_offsets(cut, end)} {verb(end - cut, 'goes', 'go')} with it", f"{committed}.")


def _asks(row: TruncationRow) -> str:
    """Clause with the leader's answers to the follower's epoch requests, in order."""
    steps = [step for step in row.steps if step.leader_end_offset is not None]
    answers = [
        (step.request_epoch if step.leader_epoch is None else step.leader_epoch, step.leader_end_offset)
        for step in steps
    ]
    said = ", then that ".join(f"epoch {epoch} ends at {end}" for epoch, end in answers)
    return f"broker {row.leader_id} answers that {said}, and " if answers else ""


def find_untold(rows: PartitionRows) -> list[FindingRow]:
    """Findings that no sentence of the story reports, worst first: those of medium severity or more, and missing files.

    Positions of consumer groups have a table of their own.
    """
    return [
        row
        for row in worst_first(present(rows.findings))
        if (at_or_above(row.severity, "medium") or row.code in codes_with("no_files"))
        and not any(item.kind == "group" for item in row.evidence)
        and not (is_of_leadership(row, rows) or is_differing_run(row, rows))
    ]


def is_of_leadership(finding: FindingRow, rows: PartitionRows) -> bool:
    """True for a finding that there is no leader, and for an unclean election that the history shows or whose loss is unknown."""
    if finding.code != "META-UNCLEAN-ELECTION":
        return finding.code == "META-NO-LEADER"
    shown = {change.later.leader_epoch for change in find_changes(rows.partition_states)[-CHANGE_LIMIT:]}
    epochs = {item.value for item in finding.evidence if item.kind == "leadership"}
    return may_have_lost(finding) or bool(epochs & set(map(str, shown)))


def is_differing_run(finding: FindingRow, rows: PartitionRows) -> bool:
    """True for a finding on one of the runs: it differs, was committed, or is kept or dropped by a replayed truncation."""
    if finding.start_offset is None or finding.end_offset is None:
        return False
    runs = [row for row in rows.divergences if row.broker_id == finding.broker_id]
    if any(item.kind == "replay" for item in finding.evidence):
        return any(row.start_offset < finding.end_offset and finding.start_offset < row.end_offset for row in runs)
    return any(
        row.start_offset == finding.start_offset and row.committed and finding.code in codes_with("held")
        for row in runs
    )

"""The story of one partition: its leadership, which replicas agree, where others differ, what is committed, and where followers
truncate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import starmap

from replica_audit.auditing.catalogue import at_or_above, codes_with
from replica_audit.auditing.findings.cap_skew import CAP_SKEW
from replica_audit.elect.cluster_state import states_of_source
from replica_audit.literals import NOT_COMPARED
from replica_audit.report.facts.by_partition import compared_rows, reference_row, served_rows, worst_first
from replica_audit.report.facts.cluster_events import LeadershipChange, find_changes
from replica_audit.report.facts.conditions import may_have_lost
from replica_audit.report.layout import clean
from replica_audit.report.sentences import Sentence, join_words, plain_text, say, say_unproven, tell_finding
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
        *_tell_agreement(rows),
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


def _tell_leadership(partition: PartitionRow, rows: PartitionRows) -> Iterator[Sentence]:
    """Sentences on the leader and the ISR, and on the reference if it is not the leader."""
    leader_id = partition.leader_id
    reference_id = partition.reference_id
    isr = "which replicas are in sync is not known"
    if partition.isr is not None:
        isr = f"in sync: {join_words(partition.isr)}"
    if reference_id is None:
        yield say("The snapshot has no replica of this partition that could be read.")
    elif leader_id is None:
        yield from _tell_no_leader(reference_id, isr, rows)
    else:
        source = next((row.leadership_source for row in rows.high_watermarks), None)
        epoch = "" if partition.leader_epoch is None else f" in leader epoch {partition.leader_epoch}"
        if source == "inferred":
            why = "nothing says who leads, and it has the newest leader epoch, then the longest log"
            yield say("", f"Broker {leader_id} is taken for the leader", f"{epoch}: {why}; {isr}.")
            return
        known = "nothing more is known" if source is None else f"{name_source(source)} says so"
        yield say("", f"Broker {leader_id} leads", f"{epoch} ({known}); {isr}.")
        if reference_id != leader_id:
            has_files = any(row.broker_id == leader_id for row in served_rows(rows.replicas))
            why = "it has records of a later leader epoch" if has_files else "the snapshot has no files of the leader"
            yield say(f"The other replicas are compared with broker {reference_id}: {why}.")


def _tell_no_leader(reference_id: int, isr: str, rows: PartitionRows) -> Iterator[Sentence]:
    """Sentences on why nobody leads, and on the replica that the others are compared with, if there are any."""
    states = states_of_source(rows.partition_states)
    if states and states[-1].occasion == "deleted":
        yield say("", "The topic was deleted", ": nobody leads it, and brokers remove what is left of it.")
        return
    eligible = f"; eligible: {join_words(states[-1].elr)}" if states and states[-1].elr else ""
    if _are_all_stopped(rows):
        yield say("", "Nobody leads", f", since all brokers here were stopped cleanly; {isr}{eligible}.")
    else:
        yield say("", "Nobody leads", f": nothing can be written or read; {isr}{eligible}.")
    if len(served_rows(rows.replicas)) > 1:
        led = [row.leader_id for row in states if row.leader_id is not None]
        why = "which led last" if led[-1:] == [reference_id] else "whose log is the newest of those that may lead"
        yield say(f"The other replicas are compared with broker {reference_id}, {why}.")


def _are_all_stopped(rows: PartitionRows) -> bool:
    """True if there is no leader because all brokers were stopped cleanly."""
    return any(row.code == "META-NO-LEADER" and row.severity == "info" for row in present(rows.findings))


def _tell_agreement(rows: PartitionRows) -> Iterator[Sentence]:
    """Sentences on replicas that do not differ from the reference, then on copies that were not compared."""
    reference = reference_row(rows.replicas)
    if reference is not None and reference.log_end_offset is not None:
        yield from _tell_compared(reference, rows)
    yield from (_tell_not_compared(row) for row in rows.replicas if row.role in NOT_COMPARED)


def _tell_not_compared(row: ReplicaRow) -> Sentence:
    match row.role:
        case "foreign":
            topic = f"another topic of this name (topic id {clean(row.topic_id)})"
            return say(f"Broker {row.broker_id} holds a copy that belongs to {topic}; it was not compared.")
        case "duplicate":
            return say(f"Broker {row.broker_id} has a second copy in {clean(row.log_dir)}, which was not used.")
    return say(f"What broker {row.broker_id} holds is not known: what there is of its log could not be compared.")


def _tell_compared(reference: ReplicaRow, rows: PartitionRows) -> Iterator[Sentence]:
    if len(served_rows(rows.replicas)) < 2:
        yield say(f"Only broker {reference.broker_id} has files here; it holds {_held(reference) or 'no records'}.")
        return
    differing, cleaned, doubtful = _by_findings(rows)
    if reference.broker_id in doubtful:
        return
    name = _name_reference(reference)
    if cleaned:
        yield say(
            f"{capitalise(name_brokers(sorted(cleaned)))} and {name} were cleaned at different times: they hold different records of "
            "this compacted partition, which is as it should be."
        )
    start, end = _range(reference)
    equal: dict[int, list[int]] = defaultdict(list)
    for row in compared_rows(rows.replicas):
        if row.log_end_offset is None or row.broker_id in differing | cleaned | doubtful:
            continue
        own_start, own_end = _range(row)
        if own_end == end:
            since = max(start, own_start) if own_start != start else 0
            equal[since].append(row.broker_id)
        else:
            yield _tell_unequal(row, reference, is_tail_lost=_is_tail_lost(rows))
    for since, same in sorted(equal.items()):
        brokers = capitalise(name_brokers(same))
        number = len(same)
        if reference.record_count:
            hold = verb(number, "holds", "hold")
            yield say(f"{brokers} {hold} the same records as {name}{_tell_start(since)}, up to log end {end}.")
        else:
            are = verb(number, "is", "are")
            yield say(f"{brokers} {are} empty like {name}, and {verb(number, 'ends', 'end')} at {end}.")


def _tell_unequal(row: ReplicaRow, reference: ReplicaRow, *, is_tail_lost: bool) -> Sentence:
    """Sentence on a replica that agrees with the reference as far as both go, but ends elsewhere."""
    start, end = _range(reference)
    own_start, own_end = _range(row)
    first = max(start, own_start)
    broker = f"Broker {row.broker_id}"
    name = _name_reference(reference)
    distance = count(abs(end - own_end), "offset")
    if own_end <= own_start:
        side = "past" if own_end > end else "before"
        return say(f"{broker} is empty and ends at {own_end}, {distance} {side} the end of {name}.")
    if first >= min(end, own_end):
        return say(f"{broker} holds {_held(row)}, and {name} {_held(reference) or 'nothing'}: no offset is on both.")
    if own_end > end:
        why = f"{name} lost its tail" if is_tail_lost else f"it was copied later, or {name} lost its tail"
        return say(f"{broker} agrees with {name} and goes on {distance} further, to {own_end}: {why}.")
    since = _tell_start(first if own_start != start else 0)
    return say(f"{broker} holds the same records as {name}{since}, but ends {distance} earlier, at {own_end}.")


def _is_tail_lost(rows: PartitionRows) -> bool:
    """True if the reference is known to have lost its tail."""
    return any(item.code == "REP-LEADER-SHORTER" for item in present(rows.findings))


def _name_reference(reference: ReplicaRow) -> str:
    name = f"broker {reference.broker_id}"
    return f"the leader ({name})" if reference.is_leader else name


def _held(row: ReplicaRow) -> str:
    """The offsets of a log; empty for an empty log."""
    start, end = _range(row)
    return name_offsets(start, end) if end > start else ""


def _tell_start(since: int) -> str:
    """Clause on the first offset from which two logs are alike; empty for 0, where they begin alike."""
    return f" from {since} on" if since else ""


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


def _range(row: ReplicaRow) -> tuple[int, int]:
    """Offsets of a log in local segments, without what only remote storage has."""
    return row.local_start_offset, row.log_end_offset or 0


def _tell_differences(rows: PartitionRows) -> Iterator[Sentence]:
    """A sentence or two for each run of differing records that has a finding, by broker."""
    findings = {(one.broker_id, one.start_offset, one.code): one for one in present(rows.findings)}
    by_broker: dict[int, list[tuple[DivergenceRow, FindingRow, list[FindingRow]]]] = defaultdict(list)
    for row in rows.divergences:
        if finding := findings.get((row.broker_id, row.start_offset, row.code)):
            losses = [findings.get((row.broker_id, row.start_offset, code)) for code in codes_with("held")]
            by_broker[row.broker_id].append((row, finding, list(filter(None, losses))))
    for broker_id, runs in by_broker.items():
        yield from starmap(_tell_run, runs[:RUN_LIMIT])
        if (left := len(runs) - RUN_LIMIT) > 0:
            yield say(f"Broker {broker_id} differs in {count(left, 'place')} more, listed below.")


def _tell_run(row: DivergenceRow, finding: FindingRow, losses: Sequence[FindingRow]) -> Sentence:
    """The sentence of a run's finding, and one on its records; `losses`: findings of the run's records as lost."""
    said = tell_finding(finding)
    if not row.record_count:
        return said
    written = ""
    if row.first_timestamp_ms is not None:
        written = f", written {_span(row.first_timestamp_ms, row.last_timestamp_ms)}"
    records = f"There {verb(row.record_count, 'is', 'are')} {count(row.record_count, 'record')}{written}"
    return say(f"{plain_text(said)} {records}; {_fate(row, losses)}.")


def _fate(row: DivergenceRow, losses: Sequence[FindingRow]) -> str:
    """Clause on whether the records were committed."""
    if not row.committed:
        return f"nothing proves that {verb(row.record_count, 'it was', 'they were')} committed"
    number = row.committed_records
    if number is None or number == row.record_count:
        said = f"{verb(row.record_count, 'it was', 'they were')} committed"
    elif number:
        said = f"{number} of them {verb(number, 'was', 'were')} committed"
    else:
        markers = verb(
            row.record_count, "it, the marker of a transaction, was", "only markers of transactions among them were"
        )
        said = f"{markers} committed"
    if losses and all(one.confidence != "proven" for one in losses):
        said = f"that {said} is {say_unproven(losses)}"
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


def _tell_truncations(rows: PartitionRows, protocol: str) -> Iterator[Sentence]:
    """A sentence for each follower that `protocol` truncates, and for protocols that would truncate it elsewhere."""
    ends = {row.broker_id: row.log_end_offset for row in compared_rows(rows.replicas)}
    by_broker: dict[int, dict[str, TruncationRow]] = defaultdict(dict)
    for row in rows.truncations:
        by_broker[row.broker_id][row.protocol] = row
    differing = {row.broker_id for row in rows.divergences}
    # The log of a copy made later is not cut: the leader's has gone on, too.
    later = {row.broker_id for row in present(rows.findings) if row.code == CAP_SKEW.code} - differing
    for broker_id, by_protocol in by_broker.items():
        chosen = by_protocol.get(protocol)
        if chosen is None:
            continue
        if chosen.dropped_records and broker_id not in later:
            yield _tell_cut(chosen, ends.get(broker_id))
        elsewhere: dict[int, list[TruncationRow]] = defaultdict(list)
        for row in by_protocol.values():
            if row.truncate_to != chosen.truncate_to:
                elsewhere[row.truncate_to].append(row)
        for cut, others in elsewhere.items():
            prefix = others[0].common_prefix_end
            unseen = ""
            if prefix is not None and cut > prefix:
                unseen = f", and the difference at {prefix} would stay, unseen by Kafka"
            protocols = join_words([row.protocol for row in others])
            does = "keep all of its log" if cut == ends.get(broker_id) else f"be cut at {cut}"
            yield say(f"Under {protocols}, broker {broker_id} would {does}{unseen}.")


def _tell_cut(row: TruncationRow, end: int | None) -> Sentence:
    """Sentence on a truncation of a follower whose log ends at `end`."""
    cut = row.truncate_to
    does = f"When broker {row.broker_id} follows, {_asks(row)}it cuts its log at {cut}"
    if end is None or end <= cut:
        return say(f"{does}, which removes no record.")
    committed = ", committed records among them" if row.committed_dropped else ""
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

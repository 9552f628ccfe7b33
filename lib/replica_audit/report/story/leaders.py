"""Leadership of one partition: its changes, and who leads now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replica_audit.elect.cluster_state import states_of_source
from replica_audit.report.facts.by_partition import present, served_rows
from replica_audit.report.facts.conditions import may_have_lost
from replica_audit.report.layout import render_count
from replica_audit.report.sentences import Sentence, Template, join_words, tell_finding, verb
from replica_audit.results import PartitionRows
from replica_audit.schema import FindingRow, PartitionRow, PartitionStateRow
from replica_audit.text import name_brokers, name_source, render_time


@dataclass(frozen=True, slots=True)
class LeadershipChange:
    """One change of leader or of the replicas in sync.

    `kind`: `nobody_led`, `became_leader`, `became_uncleanly` (it was neither in sync nor eligible) or `isr_changed`.
    """

    kind: str
    earlier: PartitionStateRow
    later: PartitionStateRow
    """PartitionRows of partition_states before and after it."""
    entitled: tuple[int, ...] = ()
    """Brokers that could have led, where the leader was elected uncleanly."""
    left: tuple[int, ...] = ()
    joined: tuple[int, ...] = ()


def find_changes(states: Sequence[PartitionStateRow]) -> list[LeadershipChange]:
    """Changes oldest first, from rows of partition_states; those without a time (a listing's) are left out."""
    timed = [row for row in states if row.time_ms is not None and row.source == "metadata_log"]
    timed.sort(key=lambda row: (row.entry or 0, row.time_ms or 0))
    return [change for earlier, later in zip(timed, timed[1:], strict=False) if (change := _change(earlier, later))]


def _change(earlier: PartitionStateRow, later: PartitionStateRow) -> LeadershipChange | None:
    if later.leader_id != earlier.leader_id:
        if later.leader_id is None or later.leader_id < 0:
            return LeadershipChange("nobody_led", earlier, later)
        entitled = {*(earlier.isr or ()), *(earlier.elr or ())}
        if later.leader_id in entitled or earlier.isr is None:
            return LeadershipChange("became_leader", earlier, later)
        return LeadershipChange("became_uncleanly", earlier, later, entitled=tuple(sorted(entitled)))
    before = set(earlier.isr or ())
    now = set(later.isr or ())
    if before == now:
        return None
    left = tuple(sorted(before - now))
    joined = tuple(sorted(now - before))
    return LeadershipChange("isr_changed", earlier, later, left=left, joined=joined)


@dataclass(frozen=True, slots=True)
class Leading:
    """Leadership of a partition.

    `kind`: `leads`, `taken` (for the leader: nothing says who leads), `nobody`, `deleted` (nobody leads, since the
    topic was deleted), `all_stopped` (nobody leads, since all brokers were stopped cleanly) or `nothing_compared` (no replica could be read).
    """

    kind: str
    source: str | None = None
    """Its source: `leadership_source`."""
    eligible: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966), where nobody leads."""
    instead: str | None = None
    """Why the reference is not the leader: it has records of a `later_epoch`, the leader's files are missing
    (`no_files`), or, where nobody leads, it `led_last` or has the `newest` log; None where it leads or is alone."""


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
        stopped = any(row.code == "META-NO-LEADER" and row.severity == "info" for row in rows.findings)
        led = [row.leader_id for row in states if row.leader_id is not None]
        other = "led_last" if led and led[-1] == reference else "newest"
        eligible = tuple(states[-1].elr or ()) if states else ()
        alone = len(served_rows(rows.replicas)) < 2
        return Leading("all_stopped" if stopped else "nobody", source, eligible, None if alone else other)
    if source == "inferred":
        return Leading("taken", source)
    has_files = any(row.broker_id == leader for row in served_rows(rows.replicas))
    if reference == leader:
        return Leading("leads", source)
    return Leading("leads", source, instead="later_epoch" if has_files else "no_files")


def is_of_leadership(finding: FindingRow, rows: PartitionRows) -> bool:
    """True for a finding that nobody leads, and for an unclean election that the history has or whose loss is not known."""
    if finding.code != "META-UNCLEAN-ELECTION":
        return finding.code == "META-NO-LEADER"
    shown = {change.later.leader_epoch for change in find_changes(rows.partition_states)[-LIMIT:]}
    epochs = {item.value for item in finding.evidence or () if item.kind == "leadership"}
    return may_have_lost(finding) or bool(epochs & set(map(str, shown)))


#: Most changes that are shown; older ones are left out.
LIMIT = 6
LEFT_OUT = Template("{changes} of leader or of the replicas in sync {are} left out here.")
NOBODY_LED = Template("At {time} broker {leader} stopped leading and *nobody led*; in sync: {isr}{eligible}.")
BECAME_LEADER = Template("At {time} broker {leader} became leader in epoch {epoch}; in sync: {isr}.")
BECAME_UNCLEANLY = Template(
    "At {time} broker {leader} became leader in epoch {epoch}, *uncleanly*: {why}; in sync: {isr}."
)
ISR_CHANGED = Template("At {time} {changes}; in sync: {isr}.")


def tell_history(states: Sequence[PartitionStateRow]) -> Iterator[Sentence]:
    """One sentence for each of the newest changes of leader or of the replicas in sync, oldest first.

    `states` are rows of partition_states; those without a time (a listing's) are left out.
    """
    changes = find_changes(states)
    if len(changes) > LIMIT:
        left = len(changes) - LIMIT
        yield LEFT_OUT.say(changes=render_count(left, "earlier change"), are=verb(left, "is", "are"))
    yield from map(_tell, changes[-LIMIT:])


def _tell(change: LeadershipChange) -> Sentence:
    later = change.later
    entitled = change.entitled
    values: dict[str, object] = {"time": render_time(later.time_ms), "isr": join_words(later.isr or ())}
    if change.kind == "nobody_led":
        eligible = f"; eligible: {join_words(later.elr)}" if later.elr else ""
        return NOBODY_LED.say(**values, leader=change.earlier.leader_id, eligible=eligible)
    if change.kind == "isr_changed":
        parts = [
            f"{name_brokers(brokers)} {verb_} the replicas in sync"
            for brokers, verb_ in ((change.left, "left"), (change.joined, "joined"))
            if brokers
        ]
        return ISR_CHANGED.say(**values, changes=" and ".join(parts))
    values.update(leader=later.leader_id, epoch=later.leader_epoch)
    if change.kind == "became_leader":
        return BECAME_LEADER.say(**values)
    who = f"only {name_brokers(entitled)}" if entitled else "nobody"
    return BECAME_UNCLEANLY.say(**values, why=f"{who} {verb(len(entitled) or 1, 'was', 'were')} in sync or eligible")


LEADS = Template("*Broker {leader} leads*{epoch} ({source}); {isr}.")
TAKEN_FOR_LEADER = Template(
    "*Broker {leader} is taken for the leader*{epoch}: nothing says who leads, and it has the newest leader epoch, then "
    "the longest log; {isr}."
)
COMPARED_INSTEAD = Template("The other replicas are compared with broker {reference}: {why}.")
NOBODY_LEADS = Template("*Nobody leads*: nothing can be written or read; {isr}{eligible}.")
ALL_STOPPED = Template("*Nobody leads*, since all brokers here were stopped cleanly; {isr}{eligible}.")
DELETED = Template("*The topic was deleted*: nobody leads it, and brokers remove what is left of it.")
STANDS_IN = Template("The other replicas are compared with broker {reference}{why}.")
NOTHING_COMPARED = Template("The snapshot has no replica of this partition that could be read.")
#: By `Leading.kind`.
_LEADING = {
    "leads": LEADS,
    "taken": TAKEN_FOR_LEADER,
    "nobody": NOBODY_LEADS,
    "deleted": DELETED,
    "all_stopped": ALL_STOPPED,
    "nothing_compared": NOTHING_COMPARED,
}


def tell_past_elections(rows: PartitionRows) -> Iterator[Sentence]:
    """Sentences on unclean elections whose losses no captured replica shows; others are among the differences."""
    yield from map(tell_finding, filter(may_have_lost, present(rows.findings)))


#: Why the others are compared with a replica that does not lead, by `Leading.instead`.
_INSTEAD = {
    "later_epoch": "it has records of a later leader epoch",
    "no_files": "the snapshot has no files of the leader",
    "led_last": ", which led last",
    "newest": ", whose log is the newest of those that may lead",
}


def tell_leadership(partition: PartitionRow, rows: PartitionRows) -> Iterator[Sentence]:
    """Sentences on the leader and the ISR, and on the reference if it is not the leader."""
    leading = find_leading(partition, rows)
    reference = partition.reference_id
    isr = partition.isr
    values = {
        "leader": partition.leader_id,
        "epoch": "" if partition.leader_epoch is None else f" in leader epoch {partition.leader_epoch}",
        "isr": "which replicas are in sync is not known" if isr is None else f"in sync: {join_words(isr)}",
        "eligible": f"; eligible: {join_words(leading.eligible)}" if leading.eligible else "",
        "source": "nothing more is known" if leading.source is None else f"{name_source(leading.source)} says so",
    }
    yield _LEADING[leading.kind].say(**values)
    if leading.instead is not None:
        template = COMPARED_INSTEAD if leading.kind == "leads" else STANDS_IN
        yield template.say(reference=reference, why=_INSTEAD[leading.instead])

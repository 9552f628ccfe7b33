"""Leadership over time in sentences, where a metadata log told it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.answering.by_partition import Row
from replica_audit.answering.leadership_changes import LeadershipChange, find_changes
from replica_audit.moments import render_time
from replica_audit.reporting.phrases.layout import render_count
from replica_audit.reporting.phrases.sentences import Sentence, Template, join_words, name_brokers, verb

#: How many changes are shown, the newest.
LIMIT = 6

LEFT_OUT = Template("{changes} of leader or of the replicas in sync {are} left out here.")
NOBODY_LED = Template("At {time} broker {leader} stopped leading and *nobody led*; in sync: {isr}{eligible}.")
BECAME_LEADER = Template("At {time} broker {leader} became leader in epoch {epoch}; in sync: {isr}.")
BECAME_UNCLEANLY = Template(
    "At {time} broker {leader} became leader in epoch {epoch}, *uncleanly*: {why}; in sync: {isr}."
)
ISR_CHANGED = Template("At {time} {changes}; in sync: {isr}.")


def tell_history(states: Sequence[Row]) -> Iterator[Sentence]:
    """One sentence for each of the newest changes of leader or of the replicas in sync, oldest first.

    `states` are rows of partition_states; those without a time (a listing's) are left out.
    """
    changes = find_changes(states)
    if len(changes) > LIMIT:
        left = len(changes) - LIMIT
        yield LEFT_OUT.say(changes=render_count(left, "earlier change"), are=verb(left, "is", "are"))
    yield from map(_tell, changes[-LIMIT:])


def _tell(change: LeadershipChange) -> Sentence:
    later, entitled = change.later, change.entitled
    values = {"time": render_time(later["time_ms"]), "isr": join_words(later["isr"] or ())}
    if change.kind == "nobody_led":
        eligible = f"; eligible: {join_words(later['elr'])}" if later["elr"] else ""
        return NOBODY_LED.say(**values, leader=change.earlier["leader_id"], eligible=eligible)
    if change.kind == "isr_changed":
        parts = [
            f"{name_brokers(brokers)} {verb_} the replicas in sync"
            for brokers, verb_ in ((change.left, "left"), (change.joined, "joined"))
            if brokers
        ]
        return ISR_CHANGED.say(**values, changes=" and ".join(parts))
    values.update(leader=later["leader_id"], epoch=later["leader_epoch"])
    if change.kind == "became_leader":
        return BECAME_LEADER.say(**values)
    who = f"only {name_brokers(entitled)}" if entitled else "nobody"
    return BECAME_UNCLEANLY.say(**values, why=f"{who} {verb(len(entitled) or 1, 'was', 'were')} in sync or eligible")

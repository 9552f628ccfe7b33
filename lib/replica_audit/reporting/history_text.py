"""Leadership over time in sentences, where a metadata log told it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.answering.by_partition import Row
from replica_audit.moments import render_time
from replica_audit.reporting.layout import render_count
from replica_audit.reporting.sentences import Sentence, Template, join_words, name_brokers, verb

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
    """One sentence for each change of leader or of the replicas in sync, oldest first.

    `states` are rows of partition_states; those without a time (a listing's) are left out.
    """
    timed = [row for row in states if row.get("time_ms") is not None and row.get("source") == "metadata_log"]
    timed.sort(key=lambda row: (row.get("entry") or 0, row["time_ms"]))
    changes = [change for earlier, later in zip(timed, timed[1:], strict=False) if (change := _change(earlier, later))]
    if len(changes) > LIMIT:
        left = len(changes) - LIMIT
        yield LEFT_OUT.say(changes=render_count(left, "earlier change"), are=verb(left, "is", "are"))
    yield from changes[-LIMIT:]


def _change(earlier: Row, later: Row) -> Sentence | None:
    values = {
        "time": render_time(later["time_ms"]),
        "leader": later["leader_id"],
        "epoch": later["leader_epoch"],
        "isr": join_words(later["isr"] or ()),
    }
    if later["leader_id"] != earlier["leader_id"]:
        if later["leader_id"] is None or later["leader_id"] < 0:
            eligible = f"; eligible: {join_words(later['elr'])}" if later["elr"] else ""
            return NOBODY_LED.say(**{**values, "leader": earlier["leader_id"]}, eligible=eligible)
        entitled = {*(earlier["isr"] or ()), *(earlier["elr"] or ())}
        if later["leader_id"] in entitled or earlier["isr"] is None:
            return BECAME_LEADER.say(**values)
        who = f"only {name_brokers(sorted(entitled))}" if entitled else "nobody"
        return BECAME_UNCLEANLY.say(
            **values, why=f"{who} {verb(len(entitled) or 1, 'was', 'were')} in sync or eligible"
        )
    before, now = set(earlier["isr"] or ()), set(later["isr"] or ())
    parts = []
    if before - now:
        parts.append(f"{name_brokers(sorted(before - now))} left the replicas in sync")
    if now - before:
        parts.append(f"{name_brokers(sorted(now - before))} joined the replicas in sync")
    return ISR_CHANGED.say(**values, changes=" and ".join(parts)) if parts else None

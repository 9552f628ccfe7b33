"""Leadership over time in sentences, where a metadata log told it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.moments import render_time
from replica_audit.reporting.grouping import Row
from replica_audit.reporting.sentences import Sentence, join_words, name_brokers

#: Changes that are told, the newest.
LIMIT = 6


def tell_history(states: Sequence[Row]) -> Iterator[Sentence]:
    """One sentence for each change of leader or of the replicas in sync, oldest first.

    `states` are rows of partition_states; those without a time (a listing's) are no history.
    """
    timed = [row for row in states if row.get("time_ms") is not None and row.get("source") == "metadata_log"]
    timed.sort(key=lambda row: (row.get("entry") or 0, row["time_ms"]))
    changes = [change for earlier, later in zip(timed, timed[1:], strict=False) if (change := _change(earlier, later))]
    if len(changes) > LIMIT:
        yield (f"{len(changes) - LIMIT} earlier changes of leader or of the replicas in sync are left out here.",)
    yield from changes[-LIMIT:]


def _change(earlier: Row, later: Row) -> Sentence | None:
    when = f"At {render_time(later['time_ms'])} "
    isr = f"; in sync: {join_words(later['isr'] or ())}"
    if later["leader_id"] != earlier["leader_id"]:
        if later["leader_id"] is None or later["leader_id"] < 0:
            eligible = f"; eligible: {join_words(later['elr'])}" if later["elr"] else ""
            return (f"{when}broker {earlier['leader_id']} stopped leading and ", "nobody led", f"{isr}{eligible}.")
        text = f"{when}broker {later['leader_id']} became leader in epoch {later['leader_epoch']}"
        entitled = {*(earlier["isr"] or ()), *(earlier["elr"] or ())}
        if later["leader_id"] not in entitled and earlier["isr"] is not None:
            why = f"it was not among {join_words(sorted(entitled))}" if entitled else "nobody was in sync or eligible"
            return (f"{text}, ", "uncleanly", f": {why}{isr}.")
        return (f"{text}{isr}.",)
    before, now = set(earlier["isr"] or ()), set(later["isr"] or ())
    parts = []
    if before - now:
        parts.append(f"{name_brokers(sorted(before - now))} left the replicas in sync")
    if now - before:
        parts.append(f"{name_brokers(sorted(now - before))} joined the replicas in sync")
    return (f"{when}{' and '.join(parts)}{isr}.",) if parts else None

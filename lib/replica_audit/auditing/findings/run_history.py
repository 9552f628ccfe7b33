"""What the history of leadership says of a run, as clause and evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica_audit.auditing.findings.finding import Evidence, considered
from replica_audit.auditing.leadership.election_causes import describe
from replica_audit.moments import render_time
from replica_audit.wording import count

if TYPE_CHECKING:
    from replica_audit.auditing.comparing.runs import Run


def left_by(run: Run) -> str:
    """A clause that names the election which left a run behind; '' where nothing is known of it."""
    cause = run.cause
    election = cause.election if cause is not None else None
    if cause is None or election is None or cause.clean is None:
        return ""
    kind = "clean" if cause.clean else "unclean"
    which = f"the {kind} election of broker {election.leader_id} at {render_time(election.time_ms)}"
    if cause.suspects == 1:
        return f"; left behind by {which}"
    return f"; left behind by one of {cause.suspects} elections, among them {which}"


def told_by_history(run: Run) -> list[Evidence]:
    """What the history of leadership says of a run: its election, and the loss counted three ways."""
    cause = run.cause
    if cause is None:
        return [considered("whether the election was clean is not known: the leadership given has no history")]
    found = []
    if cause.election is None or cause.clean is None:
        found.append(
            considered(
                "whether the election was clean is not known: the history does not reach back so far, or later leaders left no trace"
            )
        )
    for election in cause.elections:
        where = f"record {election.metadata_offset} of the metadata log: {describe(election)}"
        found.append(Evidence("leadership", where, election.leader_id, value=str(election.leader_epoch)))
    promised = "not known" if cause.promised_records is None else f"at most {cause.promised_records}"
    loss = (
        f"{count(run.data_records, 'record')}; proven committed: {run.committed_records}; promised by acks=all with "
        f"this topic's min.insync.replicas: {promised}"
    )
    return [*found, Evidence("loss", loss)]

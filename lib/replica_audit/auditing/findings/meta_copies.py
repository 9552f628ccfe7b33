"""Copies of the metadata log that contradict each other, or are older than what brokers have applied (F.7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import Code, Finding, considered, finding
from replica_audit.auditing.finding_evidence import unusable_input
from replica_audit.auditing.replicas.reference import log_epoch
from replica_audit.schema import Evidence, QuarantineRow
from replica_audit.text import name_brokers, name_source

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.model import Leadership, PartitionState

META_FORK = Code("META-FORK", ("critical",), ("COMMITTED_DIVERGENCE",), traits=("quorum",))
META_STALE = Code("META-STALE", ("high",), ("WILL_LOSE_ON_TRUNCATION", "INCONCLUSIVE"), traits=("quorum",))
CODES = (META_FORK, META_STALE)

#: Sources that a cluster elects by when it starts.
_ELECTS_BY = ("metadata_log", "zookeeper")


def judge(case: Case) -> Iterator[Finding]:
    """A source of leadership that the logs have overtaken, where no skew of the copies explains it."""
    older = case.reference.outdated
    if older is not None and not explained_by_skew(case, older):
        yield _overtaken(case, older)
    yield from _lacked(case)


def of_input(row: QuarantineRow) -> Finding | None:
    """Finding of a quarantine row of a copy of the metadata log; None for any other row."""
    code = {META_FORK.code: META_FORK, META_STALE.code: META_STALE}.get(row.code)
    return None if code is None else unusable_input(code, row)


def explained_by_skew(case: Case, older: Leadership) -> bool:
    """True if the leadership may have changed between two copies, or while brokers were stopped after it was listed."""
    if not case.quiesced:
        return True
    stopped = all(one.directory.clean_shutdown for one in case.replicas)
    return stopped and older.source not in _ELECTS_BY


def overtaken_text(case: Case, older: Leadership) -> str:
    """Clause naming the leader by the older source, and the epoch that shows that the source is older."""
    facts = case.reference.facts
    said = "names no leader" if older.leader_id is None else f"names broker {older.leader_id}"
    in_epoch = "" if older.leader_epoch is None else f" in leader epoch {older.leader_epoch}"
    return (
        f"{name_source(older.source)} {said}{in_epoch}; broker {facts.broker_id} knows leader epoch {log_epoch(facts)}, "
        f"which came later: what {name_source(older.source)} says is older than the logs, so broker {facts.broker_id} counts as the leader, "
        "and the in-sync replicas as unknown"
    )


def _overtaken(case: Case, older: Leadership) -> Finding:
    facts = case.reference.facts
    return finding(
        META_STALE,
        overtaken_text(case, older),
        verdict="WILL_LOSE_ON_TRUNCATION" if older.source in _ELECTS_BY else "INCONCLUSIVE",
        broker_id=facts.broker_id,
        replica_epoch=log_epoch(facts),
        evidence=[
            Evidence("leadership", text=name_source(older.source)),
            Evidence(
                "lineage",
                text=f"leader epoch {log_epoch(facts)}",
                broker_id=facts.broker_id,
                path=facts.directory.epoch_file.path,
            ),
            considered("skew of the copies: no, they are of one moment"),
        ],
    )


def _lacked(case: Case) -> Iterator[Finding]:
    """META-STALE for controllers whose copies lack the newest state of this partition."""
    history = [state for state in case.leadership.history if not state.uncommitted] if case.leadership else []
    if case.leadership is None or not history or not history[-1].lacked_by:
        return
    now = history[-1]
    nodes = history[-1].lacked_by
    before = next((state for state in reversed(history) if not state.lacked_by), None)
    if before is not None and _elects(before) == _elects(now):
        return
    controllers = f"controller{'s' if len(nodes) > 1 else ''} {', '.join(map(str, nodes))}"
    yield finding(
        META_STALE,
        f"{controllers} {'lack' if len(nodes) > 1 else 'lacks'} the newest metadata of this partition: {_state_text(now)}; "
        + (
            f"by what {'they have' if len(nodes) > 1 else 'it has'}, {_state_text(before)}, and a cluster that starts with that may elect "
            "a leader that lacks committed records"
            if before is not None
            else f"topic id {case.leadership.topic_id} is unknown there, and a broker that starts with that sets its directory aside as -stray"
        ),
        evidence=[
            Evidence(
                "leadership",
                text=f"record {now.metadata_offset} of the metadata log",
                value=name_source(case.leadership.source),
            ),
            considered("skew of the copies: no, the record was written before these copies were made"),
        ],
    )


def _elects(state: PartitionState) -> tuple:
    return state.leader_id, state.leader_epoch, state.isr, state.elr


def _state_text(state: PartitionState) -> str:
    leader = "nobody leads" if state.leader_id is None else f"broker {state.leader_id} leads"
    in_sync = f"with {name_brokers(state.isr)} in sync" if state.isr else "with nobody in sync"
    return f"{leader} in leader epoch {state.leader_epoch}, {in_sync}"

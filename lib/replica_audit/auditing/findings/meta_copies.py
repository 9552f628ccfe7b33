"""Copies of the metadata log that contradict each other, or are older than what brokers have applied (F.7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import Code, Finding, considered, finding
from replica_audit.auditing.finding_evidence import unusable_input
from replica_audit.auditing.replicas.reference import log_epoch
from replica_audit.schema import Evidence, QuarantineRow
from replica_audit.text import brokers, name_source

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.model import Leadership, PartitionState

META_FORK = Code(
    "META-FORK",
    severities=("critical",),
    verdicts=("COMMITTED_DIVERGENCE",),
    traits=("quorum",),
    summary="Copies of the metadata log contradict each other",
    meaning="The quorum has two histories, or one copy is spliced from two: topics, leaders and ISRs depend on which node is "
    "asked. Which log is right is judged by rules, since a majority proves nothing. R1: candidates are the copies of all "
    "controllers and all brokers; the greatest (last epoch, end) only orders those that R2, R3 and R5 leave, and not even that "
    "where one epoch begins at two offsets. R2: what a broker has applied was committed; a log that does not know the topic id "
    "of a partition's directory (a -stray one apart), or a leader epoch in a log or epoch file, lacks it. R3: a log that ends or "
    "parts below what is proven committed, such as what another's .checkpoint was taken of, lacks it. R4: the next election "
    "must be in an epoch above every one in any quorum-state or log: where the right log ends below it, leaderEpoch is set in the "
    "quorum-state of the voters that start with it. An election in an epoch that another log had reached before shows voters that "
    "lost their quorum-state; such a log comes last. R5: voters whose logs are equal may have been "
    "seeded from one disk; their agreement is not a vote. Nor is a directory whose directory.id is not the one that the last "
    "VotersRecord names (KIP-853): such a voter never votes until that id is in its meta.properties again. R6: the best copy is "
    "kept before its controller starts, which may cut it without a warning. R7: "
    "brokers are stopped before a shorter log is put in, or it is not put in at all.",
    proof="The offsets at which records differ, the epochs on either side, the nodes that hold each, where a spliced log goes on "
    "with another history, what each history lacks of what brokers applied, elections in epochs that were reached before, and the "
    "directory ids of voters.",
    remedy="Copy __cluster_metadata-0 and meta.properties of every controller and broker before any controller starts or is started "
    "again, and change no metadata. Then choose the log by the rules of replica-audit explain META-FORK, however many nodes hold it. "
    "Where every log lacks something, none is right.",
    traps="An uncommitted tail on a single controller is normal.",
)
META_STALE = Code(
    "META-STALE",
    severities=("high",),
    verdicts=("WILL_LOSE_ON_TRUNCATION", "INCONCLUSIVE"),
    traits=("quorum",),
    summary="What says who leads is older than the logs",
    meaning="Controllers lack metadata that brokers have applied, as after a restore from a backup, or a state or listing "
    "names a leader of an earlier epoch than the logs have. A cluster that starts with such controllers elects by the old "
    "state: brokers cut committed records to what the old leader has, and topics created since become -stray directories.",
    proof="Leader epochs in logs and epoch files, topic ids of directories, and records of the metadata log that the "
    "stale copy lacks; the snapshot is of one moment, or the stale copy was made after these records were written.",
    remedy="Start no controller and no broker yet. Copy __cluster_metadata-0 of every controller and broker first. The copy "
    "that lacks nothing is to be put in place of the stale ones; explain META-FORK has the rules. A stale listing needs only "
    "to be made again.",
    traps="An election between two copies of a running cluster, and one controller that lags behind a majority, are normal "
    "(CAP-SKEW).",
)
CODES = (
    META_FORK,
    META_STALE,
)

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
    in_sync = f"with {brokers(state.isr)} in sync" if state.isr else "with nobody in sync"
    return f"{leader} in leader epoch {state.leader_epoch}, {in_sync}"

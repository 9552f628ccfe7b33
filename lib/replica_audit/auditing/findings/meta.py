"""Leadership of a partition: unclean elections, its leader and directories, and copies of the metadata log that contradict it (F.7)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from replica_audit.auditing.compare.divergence_cause import promised_in_all
from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    finding,
    in_directory,
    in_epoch_file,
    log_line,
    name_holder,
    recorded,
    unusable_input,
    why_undecided,
)
from replica_audit.auditing.leadership.broker_log_evidence import place, unclean_elections
from replica_audit.auditing.leadership.election_causes import describe, were_in_sync
from replica_audit.model import span_of
from replica_audit.schema import Evidence, QuarantineRow
from replica_audit.text import count, name_brokers, name_source, render_time, say_offline, verb

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.compare.divergent_ranges import DivergentRange
    from replica_audit.auditing.leadership.broker_log_evidence import LoggedElection
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import Leadership, PartitionState
    from replica_audit.protocol.election import Election


META_UNCLEAN_ELECTION = Code(
    "META-UNCLEAN-ELECTION", ("high", "info"), ("WILL_LOSE_ON_TRUNCATION",), traits=("decided",)
)
META_NO_LEADER = Code("META-NO-LEADER", ("medium", "info"), traits=("own_step",))
META_DIR_OFFLINE = Code("META-DIR-OFFLINE", ("low",))
META_ISR_UNKNOWN = Code("META-ISR-UNKNOWN", ("info",))
META_TOPICID_MISMATCH = Code("META-TOPICID-MISMATCH", ("medium", "info"), ("INCONCLUSIVE",), traits=("doubt",))
META_DUP_DIR = Code("META-DUP-DIR", ("medium",))
META_FOREIGN_DIR = Code("META-FOREIGN-DIR", ("medium",))
META_DIR_OWNER = Code("META-DIR-OWNER", ("high",), traits=("other_owner",))
META_FORK = Code("META-FORK", ("critical",), ("COMMITTED_DIVERGENCE",), traits=("quorum",))
META_STALE = Code("META-STALE", ("high",), ("WILL_LOSE_ON_TRUNCATION", "INCONCLUSIVE"), traits=("quorum",))

#: Sources of leadership that a starting cluster uses for elections.
_ELECTS_BY = ("metadata_log", "zookeeper")


def judge(case: Case) -> Iterator[Finding]:
    """META-* of the partition's history, of its leader and directories, and of copies of the metadata log."""
    yield from _elections(case)
    yield from _identity(case)
    yield from _overtaken(case)
    yield from _lacked(case)


def of_input(row: QuarantineRow) -> Finding | None:
    """Finding for a quarantine row on a log dir of another cluster or node, or on a copy of the metadata log; None for any other row."""
    code = next(
        (one for one in (META_FOREIGN_DIR, META_DIR_OWNER, META_FORK, META_STALE) if one.code == row.code), None
    )
    return None if code is None else unusable_input(code, row)


def _elections(case: Case) -> Iterator[Finding]:
    """META-UNCLEAN-ELECTION for each such election, high while a replica still holds records that it left behind."""
    if not (case.leadership and case.leadership.history):
        yield from (_logged(case, election) for election in unclean_elections(case.log_events))
    past = case.past_elections
    if past is None:
        return
    for election in past.elections:
        if not election.clean:
            yield _unclean(case, election, past.start_of(election.leader_epoch))


def _unclean(case: Case, election: Election, start: int | None) -> Finding:
    """Finding on one election, by what was captured of the records that it left behind.

    | what is here | severity | verdict | what is said |
    |---|---|---|---|
    | some, on a replica that follows | high | WILL_LOSE_ON_TRUNCATION | who still has them; that more may be lost, if none was in sync |
    | some, only in files about to go | info | | the same, and that more may be lost |
    | none; remote storage has an earlier epoch | info | | records were lost |
    | none | info | | records may have been lost |
    """
    left, likely, to_be_cut, doubt = _left_behind(case, election)
    end = max((run.end_offset for runs in left.values() for run in runs), default=None)
    if left:
        said, reason = _told_left(case, election, left, likely, to_be_cut)
        said = f"{said}; {doubt}" if doubt else said
    elif stored := _in_remote_storage(case, election):
        said = f"{stored}; it may have lost more"
        reason = Evidence("loss", text=stored)
    else:
        aside = sorted({facts.broker_id for facts in case.set_aside})
        why = "no replica here still holds any that it left behind"
        if aside:
            why = f"no log of {name_brokers(aside)} was compared"
        elif case.reference.predates and election.leader_id == case.reference.facts.broker_id:
            why = f"the log of broker {election.leader_id} was copied before it was elected"
        said = f"it may have lost records, and these files cannot tell: {why}"
        reason = considered(_unseen(case, election))
    began = "" if start is None else f"; it leads from offset {start}"
    return finding(
        META_UNCLEAN_ELECTION,
        f"{describe(election)}{began}; {said}",
        severity="high" if to_be_cut else "info",
        broker_id=election.leader_id,
        offsets=(start, end if start is not None and end is not None and end > start else None),
        replica_epoch=election.leader_epoch,
        evidence=[recorded(election), reason],
    )


def may_have_lost_unseen(case: Case) -> bool:
    """True if an unclean election may have lost more than replicas still have."""
    past = case.past_elections
    return past is not None and any(_lost_unseen(case, one) for one in past.elections if not one.clean)


def _lost_unseen(case: Case, election: Election) -> bool:
    """True if replicas still have records that an election left behind, but none of those in sync before it does, so
    that more may have been committed than any has."""
    holders = {item.follower.broker_id for item, _ in _runs_left(case, election)}
    return bool(holders and election.had_all) and holders.isdisjoint(election.had_all)


def _runs_left(case: Case, election: Election) -> Iterator[tuple[Comparison, DivergentRange]]:
    """Runs that an election left behind, each with its comparison."""
    for item in (*case.comparisons, *case.beside):
        for run in item.runs:
            if run.cause is not None and run.batches and election in run.cause.elections:
                yield item, run


def _left_behind(case: Case, election: Election) -> tuple[dict[str, list[DivergentRange]], set[str], bool, str | None]:
    """`_runs_left`, by the name of the copy that has them; the names of those with records that are only likely committed; whether any
    will be truncated; and a clause on why the committed ones may not be lost, or None."""
    left: dict[str, list[DivergentRange]] = {}
    likely: set[str] = set()
    to_be_cut = False
    doubt = None
    for item, run in _runs_left(case, election):
        holder = name_holder(case, item) + (" had" if item.follower.is_earlier else " still has")
        left.setdefault(holder, []).append(run)
        to_be_cut = to_be_cut or not item.follower.is_about_to_go
        if run.committed_records and case.why_only_likely(item, run):
            likely.add(holder)
        if run.committed_records and doubt is None:
            doubt = why_undecided(case, item, run) or case.why_others_lost(run)
    return left, likely, to_be_cut, doubt


def _told_left(
    case: Case, election: Election, left: Mapping[str, list[DivergentRange]], likely: Collection[str], to_be_cut: bool
) -> tuple[str, Evidence]:
    """Clause on the holders of the records, and on why these are not, or not all, lost records; and its evidence."""
    parts = "; ".join(f"{holder} {_loss(runs, is_likely=holder in likely)}" for holder, runs in left.items())
    said = f"{parts}; broker {case.reference.facts.broker_id} has none of them"
    if to_be_cut and not _lost_unseen(case, election):
        return said, considered("healed: no, they are cut as soon as their broker follows")
    why = "the replicas that held more have been cut since"
    if to_be_cut:
        why = "no replica that was in sync before has kept its log as it was then"
    return f"{said}; it may have lost more, and these files cannot tell: {why}", considered(_unseen(case, election))


def _loss(runs: list[DivergentRange], *, is_likely: bool) -> str:
    """Clause with the three counts of the records that one replica holds: all, committed, proven or likely, and acknowledged."""
    known_as = "likely committed" if is_likely else "proven committed"
    records = sum(run.data_records for run in runs)
    committed = sum(run.committed_records for run in runs)
    known = promised_in_all(run.cause for run in runs)
    start = min(run.start_offset for run in runs)
    if not records:
        return f"only transaction markers or empty batches from {start} on"
    held = f"{count(records, 'record')} from {start} on"
    if committed == records:
        return f"{held}, all {known_as}"
    more = "" if known is None else f", at most {known} promised by acks=all"
    return f"{held} ({committed or 'none'} {known_as}{more})"


def _in_remote_storage(case: Case, election: Election) -> str | None:
    """Clause on records in remote storage of an earlier epoch that the log has left; None without any."""
    found = [one for one in case.lost_remotely.orphans if one.leader_epoch < election.leader_epoch]
    still = bool(found)
    found = found or [one for one in case.lost_remotely.vanished if one.leader_epoch < election.leader_epoch]
    if not found:
        return None
    span = span_of(found)
    has = "by __remote_log_metadata remote storage still has" if still else "__remote_log_metadata names"
    return f"it lost records: {has} segments of an earlier epoch from {span.start_offset} to {span.end_offset - 1}"


def _unseen(case: Case, election: Election) -> str:
    here = {facts.broker_id for facts in case.replicas}
    before = election.previous_leader_id
    if before in {facts.broker_id for facts in case.set_aside} - here:
        return f"loss: not known, the log of broker {before}, which led before, was not compared"
    if before is not None and before != election.leader_id and before not in here:
        return f"loss: not known, broker {before}, which led before, is not in the snapshot"
    return (
        "loss: anything above that offset on the previous leader has been cut since; nothing shows how much there was"
    )


def _logged(case: Case, election: LoggedElection) -> Finding:
    members = election.previous_isr
    before = "who was in sync is not known" if members is None else were_in_sync(members)
    differs = any(run.conflicting and run.batches for item in case.comparisons for run in item.runs)
    left = differs and (election.said or election.witnessed) and election.leader_id == case.reference.leader_id
    epoch = "" if election.leader_epoch is None else f" in epoch {election.leader_epoch}"
    entries = case.reference.facts.epoch_entries
    start = min((begin for known, begin in entries if known == election.leader_epoch), default=None)
    joined = "no, a line says that no in-sync replica was alive"
    if not election.said:
        unseen = f"; but the log of broker {election.previous_leader_id}, which led before, is not here"
        joined = "no line says so" + ("" if election.witnessed else unseen)
    return finding(
        META_UNCLEAN_ELECTION,
        f"broker {election.leader_id} was elected{epoch} though it was not in sync ({before}); "
        f"by {place(election.event)}",
        severity="high" if left else "info",
        confidence="proven" if election.said else "likely",
        broker_id=election.leader_id,
        offsets=(start, None),
        replica_epoch=election.leader_epoch,
        evidence=[
            log_line(election.event, "elected"),
            considered(f"it had joined the ISR again: {joined}"),
        ],
    )


def _identity(case: Case) -> Iterator[Finding]:
    """META-NO-LEADER, META-ISR-UNKNOWN, META-TOPICID-MISMATCH and META-DUP-DIR."""
    yield from _leader(case)
    yield from _topic_ids(case)
    for facts in case.duplicates:
        if facts.is_earlier:
            continue
        text = f"broker {facts.broker_id} has this partition twice; '{facts.directory.path}' was not used"
        if facts.is_left:
            text = (
                f"by the manifest broker {facts.broker_id} ran with an empty log directory when it was copied, not with the disk that has "
                f"'{facts.directory.path}', which was not used"
            )
        elif facts.may_be_in_use:
            text += ", as it is the longer one and nothing says which the broker uses"
        yield finding(
            META_DUP_DIR,
            text,
            broker_id=facts.broker_id,
            evidence=[in_directory(facts, f"log end {facts.log_end_offset}")],
        )


def _leader(case: Case) -> Iterator[Finding]:
    reference = case.reference
    if case.leadership is not None and case.leadership.is_deleted:
        yield _deleted(case.leadership)
        return
    if reference.leader_id is None:
        yield finding(
            META_NO_LEADER,
            f"no leader{_say_offline(case.leadership)}; the others are compared with broker {reference.facts.broker_id}, and cuts are shown as "
            "if it were elected",
            severity="info" if case.stopped else "medium",
            evidence=[Evidence("leadership", text=name_source(reference.source))],
        )
    else:
        yield from _offline(case.leadership)
    if reference.isr is None:
        bound = f"only the log end of broker {reference.facts.broker_id} bounds the high watermark from above"
        if case.high_watermark.hw_upper is None:
            bound = "no log end bounds the high watermark from above"
        yield finding(
            META_ISR_UNKNOWN,
            f"{_why_unknown(case)}; {bound}",
            evidence=[Evidence("leadership", text=name_source(reference.source))],
        )


def _offline(leadership: Leadership | None) -> Iterator[Finding]:
    """META-DIR-OFFLINE for each broker that has a partition with a leader on a log dir which is offline."""
    if leadership is None or not leadership.history:
        return
    state = leadership.history[-1]
    for broker in leadership.offline:
        text = (
            f"the log directory of broker {broker} that has it is offline: that replica does not catch up until the directory is back in "
            "place and the broker has been restarted"
        )
        if broker in state.adding:
            text = f"{text}; until then the reassignment that adds broker {broker} does not complete"
        if broker in state.removing:
            text = (
                f"{text}; the reassignment that removes broker {broker} completes without it, and its copy stays there, as -stray once the "
                "broker starts with it"
            )
        yield finding(
            META_DIR_OFFLINE,
            text,
            broker_id=broker,
            evidence=[Evidence("leadership", text=name_source(leadership.source))],
        )


def _say_offline(leadership: Leadership | None) -> str:
    """Clause on brokers that the controller passes over (KIP-858); "" if there are none."""
    if leadership is None or not leadership.offline:
        return ""
    return f", and {name_brokers(leadership.offline, 'or')} is not elected: {say_offline(leadership.offline)}"


def _why_unknown(case: Case) -> str:
    """Reason, as a clause, why the in-sync replicas are unknown."""
    source = name_source(case.reference.source)
    if case.leadership is not None and case.leadership.overtaken and not case.reference.outdated:
        return (
            f"{source} is not used to tell who is in sync, because it is older than the logs: those of another partition "
            "know a later leader epoch"
        )
    return f"nothing says who is in sync (leadership: {source})"


def _deleted(leadership: Leadership) -> Finding:
    last = leadership.history[-1]
    return finding(
        META_NO_LEADER,
        f"the topic was deleted at {render_time(last.time_ms)} by record {last.metadata_offset} of the metadata log; a broker that "
        "still has a directory of it removes it, or sets it aside as -stray, once it has caught up",
        severity="info",
        evidence=[Evidence("leadership", text=f"topic id {leadership.topic_id}", value=name_source(leadership.source))],
    )


def _topic_ids(case: Case) -> Iterator[Finding]:
    """Findings on copies of another topic id: of an earlier topic with that name if the listing has the present id, else unclear."""
    for item, reason in case.strangers:
        yield finding(
            META_TOPICID_MISMATCH,
            reason,
            confidence="suspect",
            broker_id=item.follower.broker_id,
            evidence=[considered("divergence: two logs of one topic share at least their first batches")],
        )
    present = case.reference.facts.directory.topic_id
    yield from of_other_topics(case.foreign, case.leadership, f"the others have {present}")


def instead_of_replicas(foreign: Iterable[ReplicaFacts], leadership: Leadership | None) -> Iterator[Finding]:
    """META-TOPICID-MISMATCH if there are copies, but none with the metadata log's topic id."""
    history = () if leadership is None else leadership.history
    created = next((f", created at {render_time(one.time_ms)}" for one in history if one.occasion == "created"), "")
    named = None if leadership is None else leadership.topic_id
    for found in of_other_topics(foreign, leadership, f"the metadata log names {named}{created}"):
        yield found._replace(severity="medium", verdict="INCONCLUSIVE")


def of_other_topics(foreign: Iterable[ReplicaFacts], leadership: Leadership | None, others: str) -> Iterator[Finding]:
    """META-TOPICID-MISMATCH for copies with another topic id than the present one; `others`: clause on the present one."""
    known = leadership.topic_id if leadership is not None else None
    is_logged = leadership is not None and leadership.source == "metadata_log"
    unless = ", unless that is older than this directory (META-STALE)" if is_logged else ""
    for facts in foreign:
        yield finding(
            META_TOPICID_MISMATCH,
            f"broker {facts.broker_id}: {facts.directory.path} has topic id {facts.directory.topic_id}, {others}; not compared",
            severity="medium" if known is None else "info",
            broker_id=facts.broker_id,
            evidence=[
                in_directory(facts, "partition.metadata", facts.directory.topic_id),
                considered(
                    "topic re-created: possible, nothing says which id is the present one"
                    if leadership is None or known is None
                    else f"topic re-created: yes, {name_source(leadership.source)} names {known}{unless}; Kafka sets such a "
                    "directory aside as -stray"
                ),
            ],
        )


def _overtaken(case: Case) -> Iterator[Finding]:
    """META-STALE for a source of leadership that is older than the logs, if no skew of the copies explains it."""
    older = case.reference.outdated
    if older is None or explained_by_skew(case, older):
        return
    facts = case.reference.facts
    yield finding(
        META_STALE,
        overtaken_text(case, older),
        verdict="WILL_LOSE_ON_TRUNCATION" if older.source in _ELECTS_BY else "INCONCLUSIVE",
        broker_id=facts.broker_id,
        replica_epoch=facts.log_epoch,
        evidence=[
            Evidence("leadership", text=name_source(older.source)),
            in_epoch_file(facts, f"leader epoch {facts.log_epoch}"),
            considered("skew of the copies: no, they are of one moment"),
        ],
    )


def explained_by_skew(case: Case, older: Leadership) -> bool:
    """True if the leadership may have changed between two copies, or while brokers were stopped after it was listed."""
    if not case.evidence.was_at_rest:
        return True
    stopped = all(one.directory.clean_shutdown for one in case.replicas)
    return stopped and older.source not in _ELECTS_BY


def overtaken_text(case: Case, older: Leadership) -> str:
    """Clause that names the leader by the older source, and the epoch that proves the source older."""
    facts = case.reference.facts
    said = "names no leader" if older.leader_id is None else f"names broker {older.leader_id}"
    in_epoch = "" if older.leader_epoch is None else f" in leader epoch {older.leader_epoch}"
    return (
        f"{name_source(older.source)} {said}{in_epoch}; broker {facts.broker_id} knows leader epoch {facts.log_epoch}, "
        f"which is later: {name_source(older.source)} is older than the logs, so broker {facts.broker_id} counts as the leader, "
        "and the in-sync replicas as unknown"
    )


def _lacked(case: Case) -> Iterator[Finding]:
    """META-STALE for controllers whose copies lack the newest state of this partition."""
    history = case.leadership.committed if case.leadership else ()
    if case.leadership is None or not history or not history[-1].lacked_by:
        return
    now = history[-1]
    nodes = now.lacked_by
    before = next((state for state in reversed(history) if not state.lacked_by), None)
    if before is not None and _elects(before) == _elects(now):
        return
    number = len(nodes)
    known = (
        f"{verb(number, 'it does', 'they do')} not know topic id {case.leadership.topic_id}, and a broker that starts with it sets its "
        "directory aside as -stray"
    )
    if before is not None:
        elects = "a cluster that starts with that metadata may elect a leader that lacks committed records"
        known = f"by {verb(number, 'its copy', 'their copies')}, {_state_text(before)}, and {elects}"
    yield finding(
        META_STALE,
        f"{verb(number, 'controller', 'controllers')} {', '.join(map(str, nodes))} {verb(number, 'lacks', 'lack')} the newest metadata of "
        f"this partition: {_state_text(now)}; {known}",
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

"""The verdict on the copies: is a decision needed, and which copy is best (rules R1 to R7)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from replica_audit.elect.step_list import list_names
from replica_audit.errors import UsageError
from replica_audit.quorum.answer_model import QuorumVerdict
from replica_audit.quorum.held_metadata import HeldMetadata
from replica_audit.quorum.lost_metadata import assigned_by
from replica_audit.snapshot.metadata.histories import QuorumHistory, prefer_history, seen_epoch
from replica_audit.snapshot.metadata.log_copies import MetadataCopy
from replica_audit.snapshot.metadata.quorum import name_nodes, newest_copy, parting
from replica_audit.snapshot.producer_snapshots import tell_producer
from replica_audit.text import capitalise, count, listed, name_offsets, verb

_SKEW = (
    "If the controllers ran while they were copied, this is only the order in which they were copied, and nothing has to be "
    "done: copy them once more, the controllers last"
)

_MIGRATION = "No copy knows of any topic: if this cluster is being moved from ZooKeeper, its topics are still there only, and nothing has to be done"

#: Reason why a voter that lost its partitions is not started as a broker at once (D7).
EMPTY_LEADS = "where an empty replica leads, the others cut their logs to nothing"
#: Maximum time to copy all nodes one after the other.
_LONGEST_COPY_MS = 3_600_000


class _Need(NamedTuple):
    """A reason to choose a copy."""

    reason: str
    may_be_skew: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """The verdict with its reason, and the best copy if there is one."""

    verdict: QuorumVerdict
    reason: str
    copy: MetadataCopy | None = None
    may_be_skew: bool = False
    """True if the copies of a running cluster may differ only because they were made one after the other; then nothing has to be done."""
    asked: bool = False
    """True if the operator chose the copy."""
    is_tentative: bool = False
    """True if nothing has to be decided, although some copies have records that others lack and nothing shows to be committed."""


def choose(held: HeldMetadata) -> Chosen:
    """Choose among the copies of a snapshot, of which at least one must be readable."""
    unread = _unread_text(held) or _unapplied_text(held)
    if held.found.quorum.forks:
        chosen = _of_forked(held)
        return chosen if not unread else replace(chosen, verdict="none", reason=unread, copy=None)
    need = _needs_one(held)
    beyond = _zookeeper_text(held) if held.only_in_zookeeper else ""
    if beyond and (need or held.moments.at_rest or held.is_alone):
        return Chosen("none", beyond if need is None else f"{need.reason}. {beyond}")
    if need is None:
        chosen = _of_agreeing(held)
        hidden = _hidden_text(held) if held.hidden else ""
        nodes = (foreign_text, _ran_ahead_text, _stuck_text, _damaged_text, _misled_text)
        found = (unread, hidden, beyond, *(tell(held) for tell in (*nodes, _stray_text, _ids_text, _bare_text)))
        doubts = [one for one in found if one]
        return replace(chosen, reason=f"{chosen.reason}. But {_sentences(doubts)}") if doubts else chosen
    if unread:
        return Chosen("none", f"{need.reason}. {capitalise(unread)}")
    newest = held.histories[0]
    if newest.refused and held.moments.at_rest:
        text = f"{need.reason}. The newest log, of {newest.nodes}, is not enough: {'; '.join(newest.refused)}"
        knows_topics = any(map(held.known_topics, held.copies))
        return Chosen("none", text if knows_topics else f"{text}. {_MIGRATION}")
    copy = best_of(held, newest)
    text = f"{need.reason}. {capitalise(_alone_text(held)) if held.is_alone else _newest_text(held, copy)}"
    if newest.refused:
        text += f". But {'; '.join(newest.refused)}: unless that came after the logs were copied, a newer one exists, or existed"
    return Chosen("choose", text, copy, need.may_be_skew)


def _sentences(texts: Sequence[str]) -> str:
    """Texts as sentences; the first one continues the text before it, so it is not capitalised."""
    return ". ".join([*texts[:1], *map(capitalise, texts[1:])])


def choose_asked(held: HeldMetadata, node_id: int) -> Chosen:
    """The operator's choice in place of the best: the newest log of node `node_id`, if there is something to decide. Raises
    UsageError if that node has no readable log."""
    best = choose(held)
    own = [copy for copy in held.copies if copy.node_id == node_id]
    if not own:
        nodes = name_nodes(copy.node_id for copy in held.copies)
        raise UsageError(f"--choose {node_id}: node {node_id} has no metadata log here that can be read; {nodes} do")
    is_open = best.verdict in ("choose", "keep_both") or (best.verdict == "none" and may_go_on(held))
    if not is_open and not (best.verdict == "agree" and best.is_tentative and len(held.histories) == 1):
        why = (
            "the right log is not among those that can be read"
            if best.verdict == "none"
            else "nothing has to be chosen"
        )
        return replace(best, reason=f"{best.reason}. --choose {node_id} has no effect: {why}")
    copy = newest_copy(own)
    whose = "No log is the best" if best.copy is None else f"The best is the log of {_whose(best.copy)}"
    reason = f"{whose}. {capitalise(best.reason)}"
    number = held.history_of(copy)
    refused = [] if number is None else [one for one in held.histories[number].refused if one not in best.reason]
    if refused:
        reason += f". The log of node {node_id} cannot be the right one: {'; '.join(refused)}"
    return replace(best, verdict="choose", reason=reason, copy=copy, asked=True)


def may_go_on(held: HeldMetadata) -> bool:
    """True if the cluster can go on with a log here although none is right: each is known to its end, and ZooKeeper has no more."""
    knows_topics = any(map(held.known_topics, held.copies))
    return knows_topics and not (held.unread or held.unapplied or held.hidden or held.only_in_zookeeper)


def _whose(copy: MetadataCopy) -> str:
    return copy.log.path if copy.node_id is None else f"node {copy.node_id}"


def _unread_text(held: HeldMetadata) -> str:
    """Copies that extend further than any readable one; empty without such copies."""
    if not held.unread:
        return ""
    end = max(copy.reach[1] for copy in held.unread)
    nodes = name_nodes(copy.node_id for copy in held.unread)
    return (
        f"the log of {nodes} goes further than any that can be read, to offset {end}, and cannot be read there: if other nodes were "
        "restored from older disks, only it has what was committed since"
    )


def _unapplied_text(held: HeldMetadata) -> str:
    """Histories whose contents are unknown; empty if all are known."""
    return "; ".join(
        f"what the log of {nodes} holds is not known, since its records cannot be applied: {why}"
        for nodes, why in held.unapplied.items()
    )


def _stuck(held: HeldMetadata) -> set[int | None]:
    return {copy.node_id for copy in held.compared.copies if held.is_stuck(copy)}


def _loading_damaged(held: HeldMetadata) -> set[int | None]:
    return {copy.node_id for copy in held.copies if held.loads_damaged(copy)}


def _are_needed(held: HeldMetadata, nodes: Collection[int | None], able: Sequence[int]) -> bool:
    """True if there are such `nodes` and the other `able` voters are not a majority."""
    return bool(nodes) and len(able) - len(nodes) <= len(held.voters.ids) // 2


def _stuck_text(held: HeldMetadata) -> str:
    """Nodes that cannot start with their quorum-state; empty without such nodes."""
    if not (nodes := _stuck(held)):
        return ""
    return (
        f"quorum-state of {name_nodes(nodes)} cannot be read, and no node starts with such a one: once the others have a leader, put "
        "the log aside with it, and the node fetches all from there"
    )


def _say_damaged(nodes: Collection[int | None]) -> str:
    return (
        f"the newest .checkpoint of {name_nodes(nodes)} is damaged: a node loads it when it starts, and ends, or goes on with part of the "
        "metadata, and no log line tells of it"
    )


def _damaged_text(held: HeldMetadata) -> str:
    """Nodes that would load a damaged snapshot; empty if there are none."""
    if not (nodes := _loading_damaged(held)):
        return ""
    return f"{_say_damaged(nodes)}. Start the others first and, once they have a leader, put the log aside: the node fetches all from there"


def _misled_text(held: HeldMetadata) -> str:
    """Voters that others name as leader of the latest epoch although they have no records or, in a snapshot at rest, only
    those of an earlier epoch (D6); empty if there are none."""
    blank = {one.node_id for one in held.compared.copies if not one.holds_something and not one.problems}
    blank -= held.available
    seen = held.seen_epoch
    late = {one.node_id for one in held.compared.copies if seen_epoch(one) == seen}
    older = {one.node_id for one in held.copies} - late if held.moments.at_rest else set()
    naming: dict[int | None, set[int | None]] = defaultdict(set)
    for one in held.compared.copies:
        state = one.state
        if state is not None and state.leader_id in blank | older and state.leader_epoch == seen:
            naming[state.leader_id].add(one.node_id)
    told = []
    for leader, nodes in naming.items():
        if leader not in nodes:
            name = "quorum-state of {} names" if len(nodes) == 1 else "quorum-states of {} name"
            whose = "whose metadata log is empty" if leader in blank else "whose disk is older than that"
            told.append(
                f"the {name.format(name_nodes(nodes))} node {leader}, {whose}, as the leader of epoch {seen}: it ends as "
                f"soon as another node names it so. Start it once the others have a leader in epoch {seen + 1} or later"
            )
    return _sentences(told)


def best_of(held: HeldMetadata, history: QuorumHistory) -> MetadataCopy:
    """The copy with the greatest (epoch, end); ties go to one without problems, then to a voter that may vote, then to
    the lowest node id."""

    def rank(copy: MetadataCopy) -> tuple:
        return (
            -copy.epoch,
            -copy.end_offset,
            bool(copy.problems) or held.loads_damaged(copy),
            held.is_stuck(copy),
            not held.voters.admits(copy.node_id, copy.log.directory_id),
            copy.start_offset,
            str(copy.node_id).zfill(10),
        )

    return min(history.copies, key=rank)


def _of_forked(held: HeldMetadata) -> Chosen:
    left = [one for one in held.histories if not one.refused]
    told = [
        f"The log of {one.nodes} cannot be the right one: {'; '.join(one.refused)}"
        for one in held.histories
        if one.refused
    ]
    if len(left) == 1:
        copy = best_of(held, left[0])
        reason = f"It is of the only history that lacks nothing known here. {'. '.join(told)}"
        return Chosen("choose", reason, copy)
    if not left:
        nodes = [one.nodes for one in held.histories]
        reason = (
            f"{listed(nodes)} hold {count(len(nodes), 'history', 'histories')} and each of them has committed records that another "
            f"lacks, or is spliced. {'. '.join(told)}"
        )
        return Chosen("keep_both", reason)
    preferred, why = prefer_history(left)
    said = "".join(f"{one}. " for one in told)
    if preferred is None:
        nodes = [one.nodes for one in left]
        return Chosen("keep_both", f"{said}The logs of {listed(nodes)} differ, and {why}")
    copy = best_of(held, preferred)
    return Chosen("choose", f"{said}Of the remaining histories, {why}", copy)


def _of_agreeing(held: HeldMetadata) -> Chosen:
    copies = held.copies
    text = "the copy agrees with what else is here" if len(copies) == 1 else "all copies agree"
    if held.is_alone:
        text = f"{_alone_text(held)}. Look for others before it is started"
    tail = _single_tail(held)
    if len(held.histories) > 1:
        tails = list(_tails(held))
        named = f": {listed(tails)}" if tails else ""
        text = (
            f"copies differ only at their ends, in records that nothing shows to be committed{named}. A node that follows "
            "another leader cuts its own, as is normal in Raft"
        )
    elif tail:
        text += f"{', as far as they go' if held.moments.at_rest else ''}. {tail}"
    barred = barred_voters(held)
    if barred:
        reason = (
            f"{text}, and a majority can vote; {name_nodes(barred)} cannot, since the log names another directory than theirs, which "
            "was formatted again, or is an old one"
        )
        return Chosen("rejoin", reason)
    return Chosen("agree", text, is_tentative=bool(tail) or len(held.histories) > 1)


def _alone_text(held: HeldMetadata) -> str:
    """Clause on the only copy of a snapshot that has nothing from a broker."""
    return (
        f"the copy of {_whose(held.copies[0])} is the only one here: if it is from a backup, or others went on while its node was down, "
        "nothing here shows what it lacks, and brokers and other controllers that follow it lose that"
    )


def _single_tail(held: HeldMetadata) -> str:
    """Sentences on records of the only history that nothing shows to be committed; empty if these change nothing. Unless
    the snapshot is at rest, only records that brokers have count: controllers, copied last, have more anyway."""
    if len(held.histories) > 1 or not held.voters.ids:
        return ""
    history, end = held.histories[0], held.proven[0].end_offset
    copies = [one for one in history.copies if held.moments.at_rest or one.node_id not in held.voters.ids]
    first_ms = held.first_change(newest_copy(copies), end) if copies else None
    if first_ms is None or (not held.moments.at_rest and _may_be_copied_first(held, end, first_ms)):
        return ""
    node = best_of(held, history).node_id
    keep = "" if node is None else f"; quorum --choose {node} has the plan that keeps them"
    if held.moments.at_rest:
        return f"Nothing shows that {_tail(history, end)} were committed: a leader that lacks them cuts them{keep}"
    return (
        f"{_tail(history, end)} are not on a majority of the voters here. If these ran while they were copied, that is only due to the order "
        "of the copies: copy them once more, controllers last. If not, a leader that lacks them cuts them, and if they were committed, brokers "
        f"that are up and have them die{keep}"
    )


def _may_be_copied_first(held: HeldMetadata, end: int, time_ms: int) -> bool:
    """True if voters may lack a record of `time_ms`, past `end`, only because they were copied earlier: the others are a majority without
    those that certainly lacked it. The leader's clock, which gave that time, may be wrong, but a running quorum writes every half
    second, so such a copy ends shortly before by the same clock."""
    voters = [one for one in held.copies if one.node_id in held.voters.ids]
    lacking = {
        one.node_id
        for one in voters
        if one.end_offset <= end
        and not (held.moments.is_before(one.log, time_ms) and time_ms - one.last_time_ms <= _LONGEST_COPY_MS)
    }
    return not lacking or len({one.node_id for one in voters} - lacking) > len(held.voters.ids) // 2


def _tails(held: HeldMetadata) -> Iterator[str]:
    """For each history, the records that others lack and nothing shows to be committed, with the nodes that hold them."""
    best = [best_of(held, one) for one in held.histories]
    for one, copy, proven in zip(held.histories, best, held.proven, strict=True):
        partings = [at for other in best if other is not copy and (at := parting(copy, other)) is not None]
        if partings and (tail := _tail(one, max(min(partings), proven.end_offset))):
            yield tail


def _tail(history: QuorumHistory, start: int) -> str:
    """The records of a history from `start` on, with the nodes that hold them; empty if there are none."""
    end = max(copy.end_offset for copy in history.copies)
    if end <= start:
        return ""
    nodes = name_nodes(copy.node_id for copy in history.copies if copy.end_offset > start)
    # Kafka never compacts this log: each offset is a record.
    return f"{count(end - start, 'record')} of {nodes} ({name_offsets(start, end)})"


def barred_voters(held: HeldMetadata) -> list[int]:
    """Voters that have directories here but may not vote from any of them (KIP-853)."""
    directories = [(one.broker_id, one.directory_id) for one in held.inventory.log_dirs]
    found = []
    for node in held.voters.ids:
        own = [directory for of, directory in directories if of == node]
        if own and not any(held.voters.admits(node, one) for one in own):
            found.append(node)
    return found


def _needs_one(held: HeldMetadata) -> _Need | None:
    """Reason to choose although no copies contradict each other; None if there is nothing to decide."""
    stale = held.found.stale
    voters = held.voters
    if stale is not None and (lacking := [*stale.copies, *stale.skewed]):
        if not stale.elect_apart:
            danger = "Too few voters have it, so the others may elect a leader without it"
        elif len(lacking) == 1:
            danger = "By its own log, from before others were added, it is the only voter, and elects itself as soon as it starts"
        else:
            danger = "By their own logs, from before the voters changed, they are a majority, and may elect a leader among themselves"
        text = (
            f"{capitalise(name_nodes(copy.node_id for copy in lacking))} {verb(len(lacking), 'lacks', 'lack')} what was committed: "
            f"{stale.applied.proof}. {danger}"
        )
        return _need(text, _may_be_skew(held, lacking))
    if not voters.ids:
        return None
    able = held.able_voters()
    if len(able) > len(voters.ids) // 2:
        reasons = (_refused_at_rest(held), _forgotten_epoch(held), _cannot_start(held, able), _damaged_logs(held, able))
        reason = next(filter(None, reasons), None)
        return None if reason is None else _Need(reason)
    proven = held.proven[0]
    of = f" up to offset {proven.end_offset}" if proven.end_offset else ""
    who = (
        f"Of the voters {listed(voters.ids)} {f'only {name_nodes(able)}' if able else 'none'} {'have' if len(able) > 1 else 'has'}"
        if len(voters.ids) > 1
        else f"The only voter, {listed(voters.ids)}, does not have"
    )
    majority = f"; a majority is {len(voters.ids) // 2 + 1}" if len(voters.ids) > 1 else ""
    text = f"{who} the committed metadata{of} in this snapshot{majority}"
    others = [node for node in voters.ids if node not in able]
    short = [node for node in others if node in held.available]
    if short:
        text += f". {capitalise(name_nodes(short))} {verb(len(short), 'lacks', 'lack')} some of it: {proven.proof}"
    if rest := [node for node in others if node not in short]:
        text += f". {capitalise(name_nodes(rest))} {verb(len(rest), 'counts', 'count')} as lost: a disk that still exists may hold more"
    lacking = [copy for copy in held.copies if copy.node_id in short]
    return _need(text, not rest and _may_be_skew(held, lacking))


def _need(text: str, may_be_skew: bool) -> _Need:
    return _Need(f"{text}. {_SKEW}" if may_be_skew else text, may_be_skew)


def _may_be_skew(held: HeldMetadata, lacking: Sequence[MetadataCopy]) -> bool:
    """True if `lacking` copies may only have been made earlier: the snapshot is not known to be of one moment, and their last
    records are little older than the newest. A running quorum writes every half second (`metadata.max.idle.interval.ms`)."""
    newest = max(copy.last_time_ms for copy in held.copies)
    return not held.moments.at_rest and all(newest - copy.last_time_ms < _LONGEST_COPY_MS for copy in lacking)


def _refused_at_rest(held: HeldMetadata) -> str | None:
    """Report that brokers applied records that no copy has, although nothing ran while all were copied; None otherwise."""
    if held.moments.at_rest and held.histories[0].refused:
        return "Brokers have applied metadata that no copy has"
    return None


def foreign_text(held: HeldMetadata) -> str:
    """Log dirs of another cluster; empty if there are none."""
    if not held.foreign:
        return ""
    nodes = name_nodes(one.broker_id for one in held.foreign)
    clusters = listed(sorted({one.cluster_id or "" for one in held.foreign}))
    return (
        f"what {nodes} {verb(len(held.foreign), 'has', 'have')} is of cluster {clusters} and was left out, and the rest is of cluster "
        f"{held.inventory.cluster_id}. If these are two clusters, disks were swapped: put each back into its own, and change no id, since a "
        "node cuts its log to that of the quorum that it joins. If they are one, some were formatted with a new id: keep every disk, start "
        "none of these nodes, put the old id as cluster.id into the meta.properties of each of their log directories, and of its copy in "
        "this snapshot, and run quorum again"
    )


def _forgotten_epoch(held: HeldMetadata) -> str | None:
    """Report that no voter knows an epoch that another node has seen, though its leader needed their votes (R4); None otherwise."""
    if not held.moments.at_rest or not (ahead := _ahead_of_voters(held)):
        return None
    return (
        f"{capitalise(ahead)}: they lost their quorum-state, and brokers never register unless the epoch is above the one that they have "
        "seen"
    )


def _cannot_start(held: HeldMetadata, able: Sequence[int]) -> str | None:
    """Report that too few voters with the log can start to make a majority; None if enough can."""
    stuck = _stuck(held).intersection(able)
    damaged = _loading_damaged(held).intersection(able)
    if not _are_needed(held, stuck | damaged, able):
        return None
    if damaged:
        return f"{capitalise(_say_damaged(damaged))}. Without {name_nodes(damaged)} there is no majority"
    return f"The quorum-state of {name_nodes(stuck)} cannot be read: no node starts with that, and without it there is no majority"


def _damaged_logs(held: HeldMetadata, able: Sequence[int]) -> str | None:
    """Report that too few voters have an undamaged log to make a majority, and no readable copy goes as far; None otherwise."""
    damaged = {copy.node_id for copy in held.unread if copy.problems}.intersection(able)
    if not _are_needed(held, damaged, able):
        return None
    return f"The log of {name_nodes(damaged)} is damaged, and without it there is no majority"


def _ahead_of_voters(held: HeldMetadata) -> str:
    """Clause on an epoch that nodes have seen and no voter knows; empty without one."""
    voters = held.voters.ids
    known = max((seen_epoch(copy) for copy in held.compared.copies if copy.node_id in voters), default=-1)
    seen = held.seen_epoch
    if not voters or seen <= known:
        return ""
    nodes = name_nodes(copy.node_id for copy in held.compared.copies if seen_epoch(copy) == seen)
    return f"{nodes} reached controller epoch {seen}, and the voters know none above {known}"


def _ran_ahead_text(held: HeldMetadata) -> str:
    """An epoch that no voter knows, in copies that may be of different moments; empty if there is none."""
    if not (ahead := _ahead_of_voters(held)):
        return ""
    return (
        f"{ahead}: unless an election took place while they were copied, the voters lost their quorum-state, and brokers will not "
        "register. Copy them once more, brokers first, and run quorum again"
    )


def _newest_text(held: HeldMetadata, copy: MetadataCopy) -> str:
    equal: Sequence[MetadataCopy] = [one for one in held.copies if one.newness == copy.newness]
    nodes = name_nodes(one.node_id for one in equal)
    hidden = f". {capitalise(_hidden_text(held))}" if held.hidden else ""
    return f"The log of {nodes} has the greatest last epoch and end ({copy.epoch}, {copy.end_offset}), and holds all that the others hold{hidden}"


def _stray_text(held: HeldMetadata) -> str:
    """Topics that brokers had and no log here knows, and unassigned partitions of existing topics; empty if there are none."""
    known = {topic_id for copy in held.copies for topic_id in held.known_topics(copy)}
    now, *older = (held.contents(copy) for copy in sorted(held.copies, key=lambda one: one.newness, reverse=True))
    existing = set() if isinstance(now, str) else set(now.topics)
    partitions = {at for state in (now, *older) if not isinstance(state, str) for at in state.partitions}
    topics = [one for one in held.stray if one.topic_id is not None and one.topic_id not in known]
    added = [one for one in held.stray if one.topic_id in existing and (one.topic_id, one.partition) not in partitions]
    if not topics and not added:
        return ""
    lost = [*topics, *added]
    nodes = name_nodes(one.broker_id for one in lost)
    names = sorted({one.topic for one in topics} | {f"{one.topic}-{one.partition}" for one in added})
    gone = f"unless {verb(len(names), 'this topic was', 'these topics were')} deleted, " if topics else ""
    return (
        f"{nodes} {'has' if len({one.broker_id for one in lost}) == 1 else 'have'} set {count(len(lost), 'directory', 'directories')} of "
        f"{list_names(names)} aside as -stray, which no log here knows: {gone}the voters forgot it, and an older disk of a controller or a "
        "broker may still know. Delete no such directory before that is clear"
    )


def _ids_text(held: HeldMetadata) -> str:
    """A producer id that no log here has given out, in a snapshot at rest; empty if there is none (Q13)."""
    seen = held.unknown_producer
    if seen is None:
        return ""
    given = f"only ids below {held.next_producer_id}" if held.next_producer_id else "no ids"
    return (
        f"{tell_producer(seen)}, and by every log here controllers have given out {given}: these logs are older than the one that it came "
        "from, unless a client made the id up or the directory came from another cluster. Look for a newer log on the disks and in "
        "backups of all nodes before a controller starts. If there is none, or the cluster has gone on without it already, ids are given "
        "out again, and brokers acknowledge the first batches of a new producer with such an id and do not write them: keep producers "
        "stopped until brokers have forgotten the old ones (producer.id.expiration.ms)"
    )


def _bare_text(held: HeldMetadata) -> str:
    """Voters that are also brokers and have no partition here, although others have (D7); empty if there are none."""
    if not held.brokers:
        return ""
    having = {*held.brokers, *(one.broker_id for one in held.stray)}
    nodes = {broker for broker, _, _ in assigned_by(held.newest_state)}.intersection(held.voters.ids) - having
    if not nodes:
        return ""
    what, starts = ("a broker too, has", "it starts") if len(nodes) == 1 else ("brokers too, have", "they start")
    return (
        f"{name_nodes(nodes)}, {what} no partitions here, and {EMPTY_LEADS}. If these are lost, follow what elect says of this snapshot "
        f"before {starts}"
    )


def _zookeeper_text(held: HeldMetadata) -> str:
    """Metadata that ZooKeeper has and no log here, during the migration from ZooKeeper (Q9)."""
    skew = "" if held.moments.at_rest else ", unless it was written after these logs were copied"
    return (
        f"ZooKeeper has {list_names(held.only_in_zookeeper)}, which no log here has{skew}, though controllers write to their log first: "
        "the first controller that leads with one of these writes its older states over those in ZooKeeper, and deletes topics there that "
        "it does not know"
    )


def _hidden_text(held: HeldMetadata) -> str:
    nodes = name_nodes(copy.node_id for copy in held.hidden)
    return f"the log of {nodes} cannot be read to its end: how far it goes is not known"

"""The first steps of a plan: copies of logs that may be lost, and brokers that must not be touched meanwhile.

None of these starts, stops or elects anything: each only keeps a later step possible.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from replica_audit.auditing.findings.rep import REP_ISR_SHORT
from replica_audit.auditing.findings.tier import TIER_UNKNOWN
from replica_audit.elect.cluster_state import METADATA_IN_DOUBT, WITHIN_QUORUM, PresentState, placed, tell_voteless
from replica_audit.elect.copied_again import CopiedAgain
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.cost_words import hold_until_brought, say_uncaptured
from replica_audit.elect.kafka_commands import Copies, Tools
from replica_audit.elect.plan_model import Decision, SalvageSource, Step
from replica_audit.elect.remote_steps import check_remote, copy_remote, keep_remote
from replica_audit.elect.step_list import copy_commands, list_names, list_places
from replica_audit.model import TopicPartition
from replica_audit.protocol.versions import keeps_strays
from replica_audit.results import Results, place_of
from replica_audit.snapshot.log_dir_names import directory_of_deleted, parse_directory_name
from replica_audit.text import count, name_brokers, verb

_WHEN = {"down": "before the broker is started", "up": "now", "unknown": "now, or before the broker is started"}

#: Fate of a directory that Kafka does not serve from (docs/semantics.md H8, H15).
_FATE = {
    "future": "Kafka cuts it to the current log as the broker starts",
    "delete": "Kafka deletes it",
    "stray": "no log has them once it is removed",
}
_FATE_OF_A_SECOND_DISK = "a broker does not start with two directories of one partition"


def copy_put_aside(
    state: PresentState, decisions: Sequence[Decision], copies: Copies, again: Collection[int] = ()
) -> Iterator[Step]:
    """A step that copies each directory with records that a choice loses, then one for each broker with such
    `.deleted` files; none for brokers that are copied `again`."""
    deleted: dict[int, list[tuple[TopicPartition, SalvageSource, str]]] = defaultdict(list)
    for decision in decisions:
        place = place_of(decision)
        for one in decision.salvage:
            if one.directory is None or one.name is None or one.broker_id in again:
                continue
            if directory := directory_of_deleted(one.directory):
                deleted[one.broker_id].append((place, one, directory))
                continue
            fate = _FATE.get(parse_directory_name(one.name).kind)
            where = "" if fate else f", from the disk that is {one.directory.rpartition('/')[0]} in this snapshot,"
            yield Step(
                action="copy",
                text=f"Copy {one.name} of broker {one.broker_id}{where} {_WHEN[state.liveness(one.broker_id)]}: it holds "
                f"{count(one.records, 'record')} of {decision.topic}-{decision.partition} that the choice loses, and "
                f"{fate or _FATE_OF_A_SECOND_DISK}",
                brokers=(one.broker_id,),
                partitions=(place,),
                commands=(copies.of_directories(one.broker_id, [one.name]),),
                snapshot=(one.directory,),
            )
    for broker, found in sorted(deleted.items()):
        yield _copy_deleted(broker, found, state, copies)


def _copy_deleted(
    broker: int, found: Sequence[tuple[TopicPartition, SalvageSource, str]], state: PresentState, copies: Copies
) -> Step:
    """Step that copies one broker's directories with `.deleted` files, a command for each log dir."""
    names: dict[str, list[str]] = defaultdict(list)
    for _, _, directory in found:
        log_dir, _, name = directory.rpartition("/")
        names[log_dir].append(name)
    records = sum(one.records for _, one, _ in found)
    return Step(
        action="copy",
        text=f"Copy {list_names(name for some in names.values() for name in some)} of broker {broker} "
        f"{_WHEN[state.liveness(broker)]}: files there that Kafka is about to delete (*.deleted) hold "
        f"{count(records, 'record')} that the choice loses; they go after file.delete.delay.ms (60 s), or as the broker starts",
        brokers=(broker,),
        partitions=tuple(place for place, _, _ in found),
        commands=tuple(copies.of_directories(broker, some) for _, some in sorted(names.items())),
        snapshot=tuple(one.directory for _, one, _ in found if one.directory),
    )


class RecordsAtRisk(NamedTuple):
    """Records of one partition that a broker loses once it follows the log that the others are compared with."""

    place: TopicPartition
    records: int
    committed: int
    is_only_likely: bool
    """True if it is likely, not proven, that they were committed."""
    log_dir: str | None
    """Relative to the snapshot; None if only a text or table describes the log."""


def safeguard_steps(
    results: Results,
    matrix: Matrix,
    state: PresentState,
    decisions: Sequence[Decision],
    tools: Tools,
    copies: Copies,
    about: Container[TopicPartition],
    candidate_id: int | None,
    again: CopiedAgain,
) -> Iterator[Step]:
    """Steps without numbers, most urgent first, for the partitions that the plan is `about`: what remote storage may delete,
    what was not captured, what only one broker holds, who has to stay up. `candidate_id`: the candidate asked for."""
    planned = [one for one in decisions if one.procedure != "unplanned"]
    waiting = [one for one in planned if not one.is_deleting]
    # First what is being deleted: its copy shows whether it is still there. Other steps rely on the look into the store.
    yield from copy_remote([one for one in planned if one.is_deleting])
    yield from keep_remote(results, state, decisions, tools, about)
    yield from check_remote(results, waiting)
    yield from copy_remote(waiting)
    yield from _copy_metadata(state, copies)
    yield from _bring(results, matrix, state, about)
    # Kafka deletes some of these within a minute; copies of whole brokers take longer.
    yield from copy_put_aside(state, decisions, copies, state.down.intersection(again.brokers))
    if again.tails:
        yield again.step(results, state)
    yield from _capture(matrix, state, copies, about, candidate_id)
    yield from _copy(results, matrix, state, decisions, copies, about, again.brokers)
    yield from _keep_up(results, state, about)


def _copy_metadata(state: PresentState, copies: Copies) -> Iterator[Step]:
    """Copy the metadata logs if they contradict each other or too few can vote: a controller that starts may cut the only good one."""
    known = state.controllers
    if not (known.is_doubted or known.is_lost):
        return
    brokers, controllers = known.holders
    why = METADATA_IN_DOUBT if known.is_doubted else tell_voteless(known.voteless)
    yield Step(
        action="copy",
        text=f"Start no controller and no broker until __cluster_metadata-0 of every one of them is copied: "
        f"{why}, and a node that follows cuts its own without a warning. With all of them in the snapshot, replica-audit "
        f"quorum SNAPSHOT says which is the right one{WITHIN_QUORUM}",
        brokers=brokers,
        controllers=controllers,
        commands=(
            *(copies.of_metadata(node) for node in brokers),
            *(copies.of_metadata(node, "controller") for node in controllers),
        ),
    )


def _bring(results: Results, matrix: Matrix, state: PresentState, about: Container[TopicPartition]) -> Iterator[Step]:
    """A step for all bytes that an answer needs and the evidence lacks, and for partitions to collect again."""
    places = [place for place in sorted(matrix.wanted) if place in about]
    moved = [place for place in sorted(matrix.moved) if place in about]
    sizes: Counter[int] = Counter()
    for place in places:
        sizes.update(matrix.wanted[place])
    brokers = sorted(sizes)
    parts = []
    if places:
        stays = [broker for broker in brokers if state.liveness(broker) != "up"]
        are_down = all(state.liveness(broker) == "down" for broker in stays)
        keep = f". {hold_until_brought(stays, are_down)}" if stays else ""
        parts.append(
            f"Bring {count(sizes.total(), 'byte')} of {name_brokers(brokers)} that were not collected, and audit again: without them it is "
            f"not known what {list_places(places)} {verb(len(places), 'has', 'have')}{keep}"
        )
    if moved:
        brokers = sorted({row.broker_id for row in results.captures})
        parts.append(
            f"Collect {list_places(moved)} again on all brokers, and audit again: {verb(len(moved), 'it', 'they')} moved meanwhile, "
            "so the evidence is of different moments. Until then stop and start none of their brokers"
        )
    if parts:
        yield Step(
            action="capture",
            text=". ".join(parts),
            partitions=tuple(sorted({*places, *moved})),
            commands=results.bring(brokers),
        )


def _capture(
    matrix: Matrix, state: PresentState, copies: Copies, about: Container[TopicPartition], candidate_id: int | None
) -> Iterator[Step]:
    """Steps for uncaptured replicas on which every answer depends; brokers with the same text share one. None for
    partitions whose log dirs first have to go back to their own brokers."""
    missing: dict[int, list[TopicPartition]] = defaultdict(list)
    for place, brokers in sorted(matrix.needed.items()):
        if place in about and not state.disowned_of(place, matrix.replicas[place]):
            for broker in brokers:
                missing[broker].append(place)
    groups: dict[tuple[tuple[TopicPartition, ...], str, bool], list[int]] = defaultdict(list)
    for broker, places in sorted(missing.items()):
        is_blank = broker in state.blank
        others = tuple(place for place in places if is_blank or (place, broker) in matrix.other_logs)
        if others:
            old = {one.log_dir for place in others for one in matrix.other_disks(place, broker)}
            left = (matrix.log_dir(place, broker) for place in others if (place, broker) in matrix.left)
            old |= set(filter(None, left))
            if is_blank and old:
                yield _leave_new_disk(broker, others, state.blank[broker], list_names(sorted(old)), copies)
            else:
                yield _find_log(matrix, broker, others, state, copies, candidate_id)
        for is_absent in (False, True):
            if rest := tuple(
                place for place in places if place not in others and matrix.is_absent(place, broker) is is_absent
            ):
                groups[rest, state.liveness(broker), is_absent].append(broker)
    for (together, _, is_absent), brokers in groups.items():
        places = list(together)
        one = len(brokers) == 1
        what = "what it has" if one else "what each of them has"
        may = f"{what} of {list_places(places)} {say_uncaptured(1)}"
        if is_absent:
            may = (
                f"{'its' if one else 'their'} log directories here do not have {list_places(places)}. Others may, with committed records, unless "
                f"the {'topic was' if len({topic for topic, _ in places}) == 1 else 'topics were'} deleted since: tar warns of missing ones"
            )
        disks = (
            "If a broker has them in several log directories, run tar for each, into an archive of its own. "
            if len(places) > 1
            else ""
        )
        then = f"{disks}Add the {'copy' if one else 'copies'} to the snapshot and audit again"
        lost = f"If {'its disk is' if one else 'their disks are'} lost, {_go_on_without(matrix, places, candidate_id)}"
        yield Step(
            action="capture",
            text=f"{_hold(brokers, state) if one else _hold_each(brokers, state)}: {may}. {then}. {lost}",
            brokers=tuple(brokers),
            partitions=together,
            commands=tuple(copies.of_partitions(broker, places, are_there=not is_absent) for broker in brokers),
        )


def _go_on_without(matrix: Matrix, places: Sequence[TopicPartition], candidate_id: int | None) -> str:
    """Request for the case that a log of these partitions is lost; `candidate_id` as for `safeguard_steps`."""
    told = []
    if left := [place for place in places if matrix.replicas.get(place)]:
        these = (
            "this partition"
            if len(places) == 1
            else list_places(left)
            if len(left) < len(places)
            else "these partitions"
        )
        again = f"follow the plan of elect with {these} and --candidate instead"
        told.append(again if candidate_id is None else "go on without")
    if gone := [place for place in places if place not in left]:
        told.append(
            f"no record of {list_places(gone)} is left. Then delete the topic and create it anew; or, once the plan for the other partitions of "
            "its brokers is carried out and one of its replicas is up with an empty log directory, elect that uncleanly "
            "(kafka-leader-election.sh --election-type unclean): it leads with an empty log, and groups go on as auto.offset.reset says"
        )
    return "; ".join(told)


def _leave_new_disk(
    broker: int, places: tuple[TopicPartition, ...], blank: Sequence[str], old: str, copies: Copies
) -> Step:
    """Step for a broker that ran with an empty log dir; the disk that it had before, `old`, is here."""
    return Step(
        action="capture",
        text=f"Stop broker {broker} if it runs: when it was copied it ran with {list_names(blank)}, which was empty, and its followers "
        f"are cut to what it has there. Copy {list_places(places)} from there (LOG_DIR_OF_{broker} means here that log directory, "
        f"wherever it is mounted) into {list_names(blank)} of the snapshot, and audit again. If it still has none, as when {old} is "
        f"offline, remove {list_names(blank)} from the snapshot and put {old} back in its place: it has what the broker had before",
        brokers=(broker,),
        partitions=places,
        commands=(copies.of_partitions(broker, places, are_there=False),),
    )


def _find_log(
    matrix: Matrix,
    broker: int,
    places: tuple[TopicPartition, ...],
    state: PresentState,
    copies: Copies,
    candidate_id: int | None,
) -> Step:
    """Step to find the log with which a broker led last; another log, or only an empty log dir, was captured."""
    if blank := state.blank.get(broker):
        what = (
            f"{list_names(blank)} {verb(len(blank), 'is', 'are')} empty. What it had of {list_places(places)} is on another disk, perhaps "
            "one that was replaced since"
        )
    else:
        what = (
            f"what was captured of {list_places(places)} is not the log with which it led last, or was in sync. That was on a disk "
            "that has been replaced, or restored from a backup, since"
        )
    hold = _hold([broker], state)
    if state.liveness(broker) == "up":
        hold = f"Keep every disk that broker {broker} had before"
    return Step(
        action="capture",
        text=f"{hold}: {what}, and may hold committed records. Look for that disk, or for a later backup: "
        f"LOG_DIR_OF_{broker} means that one here, wherever it is mounted. Add a copy of it to the snapshot, in a log directory of its own, "
        "and audit again. If there is none, "
        f"{_go_on_without(matrix, places, candidate_id)}",
        brokers=(broker,),
        partitions=places,
        commands=(copies.of_partitions(broker, places),),
    )


def _copy(
    results: Results,
    matrix: Matrix,
    state: PresentState,
    decisions: Sequence[Decision],
    copies: Copies,
    about: Container[TopicPartition],
    again: Collection[int],
) -> Iterator[Step]:
    """Steps to copy records that a broker deletes as soon as it follows, then those that exist once or that the choice loses; none of
    brokers that are copied `again` as a whole."""
    holdings = {broker: held for broker, held in _find_holdings(matrix, about).items() if broker not in again}
    groups: dict[tuple, list[int]] = defaultdict(list)
    for broker, held in holdings.items():
        numbers = tuple((one.place, one.records, one.committed) for one in held)
        is_all = all(one.records == matrix.lost(one.place) for one in held)
        groups[numbers if is_all else broker, state.liveness(broker)].append(broker)
    for _, brokers in sorted(groups.items(), key=lambda item: min(item[1])):
        held = holdings[min(brokers)]
        places = [one.place for one in held]
        yield Step(
            action="copy",
            text=f"{_hold(brokers, state)}: {_tell_holding(brokers, held, matrix, state)}",
            brokers=tuple(sorted(brokers)),
            partitions=tuple(places),
            commands=tuple(copy_commands(matrix, copies, min(brokers), places)),
            snapshot=tuple(f"{one.log_dir}/{one.place[0]}-{one.place[1]}" for one in held if one.log_dir is not None),
        )
    copied = {(broker, one.place) for broker, held in holdings.items() for one in held}

    def not_copied(found: Iterable[tuple[int, TopicPartition]]) -> dict[int, list[TopicPartition]]:
        wanted: dict[int, list[TopicPartition]] = defaultdict(list)
        for broker, place in found:
            if broker not in again and (broker, place) not in copied:
                copied.add((broker, place))
                wanted[broker].append(place)
        return wanted

    if doubted := not_copied(_find_doubted(results, about)):
        why = "what they have is deleted as soon as they follow, and lost if the leader's log goes on in remote storage, which is not known"
        yield _copy_other(matrix, doubted, copies, why)
    if others := not_copied(_find_other(matrix, state, decisions)):
        tiered = set(map(place_of, results.remote_segments))
        is_tiered = not all(map(tiered.isdisjoint, others.values()))
        store = " (remote storage counts only where its objects were seen)" if is_tiered else ""
        yield _copy_other(
            matrix,
            others,
            copies,
            f"they hold data that no other replica here has{store}, or that the chosen leader lacks",
        )
    if cut := not_copied(_find_cut(matrix, decisions)):
        why = "they hold data that is deleted once they follow the log they were compared with, as it is here or after its next start"
        yield _copy_other(matrix, cut, copies, why)


def _find_doubted(results: Results, about: Container[TopicPartition]) -> Iterator[tuple[int, TopicPartition]]:
    """Brokers and partitions with another history below the first file of a log that may go on in remote storage."""
    for place, row in placed(results, TIER_UNKNOWN, about):
        if row.severity != "info" and row.broker_id is not None:
            yield row.broker_id, place


def _find_other(
    matrix: Matrix, state: PresentState, decisions: Sequence[Decision]
) -> Iterator[tuple[int, TopicPartition]]:
    """Brokers and partitions with other records that exist only once or that the choice loses, or whose log the choice cuts and
    with it the end of a transaction; none if the leader stays and lacks only records that were never committed."""
    for decision in decisions:
        place = place_of(decision)
        stays = decision.procedure != "unplanned" and state.may_lead(place, decision.candidate_id)
        sources: set[int] = set()
        if decision.chosen.cut_transactions:
            sources |= set(matrix.cut_logs(place, decision.candidate_id))
        if not stays or decision.loses_acknowledged or decision.chosen.hidden_records:
            sources |= {one.broker_id for one in decision.salvage if one.directory is None}
            sources |= {broker for broker, row in matrix.rows[place].items() if row.only_here}
        yield from ((broker, place) for broker in sources)


def _find_cut(matrix: Matrix, decisions: Sequence[Decision]) -> Iterator[tuple[int, TopicPartition]]:
    """Chosen brokers and partitions whose reference log would cut possibly committed records off every replica."""
    for decision in decisions:
        place = place_of(decision)
        followed = next((one for one in decision.candidates if one.candidate_id == matrix.reference(place)), None)
        if followed is None or followed.loss[:3] <= decision.chosen.loss[:3]:
            continue
        if (cut := matrix.cut(place, followed.candidate_id, decision.candidate_id)) is not None and cut.lost_held:
            yield decision.candidate_id, place


def _copy_other(matrix: Matrix, wanted: Mapping[int, Sequence[TopicPartition]], copies: Copies, why: str) -> Step:
    return Step(
        action="copy",
        text=f"Copy these directories of {name_brokers(sorted(wanted))} before you start or stop anything: {why}",
        brokers=tuple(sorted(wanted)),
        partitions=tuple(sorted({place for places in wanted.values() for place in places})),
        commands=tuple(
            one for broker, places in sorted(wanted.items()) for one in copy_commands(matrix, copies, broker, places)
        ),
    )


def copy_of_outrun(matrix: Matrix, outrun: Sequence[tuple[int, TopicPartition]]) -> list[Step]:
    """Steps that copy leaders stopped for other partitions, in whose place one with fewer records may lead meanwhile."""
    wanted: dict[int, list[TopicPartition]] = defaultdict(list)
    for broker, place in outrun:
        wanted[broker].append(place)
    copies = Copies("before-its-stop")
    return [
        Step(
            action="copy",
            text=f"Copy these directories of broker {broker} before it is stopped for other partitions: a replica that starts "
            f"before it may lead {list_places(places)} without the end of its log",
            brokers=(broker,),
            partitions=tuple(places),
            commands=commands,
            files=copies.files_of(commands),
        )
        for broker, places in sorted(wanted.items())
        for commands in [tuple(copy_commands(matrix, copies, broker, places))]
    ]


def _find_holdings(matrix: Matrix, about: Container[TopicPartition]) -> dict[int, list[RecordsAtRisk]]:
    """By broker, what it loses under the log that the others are compared with, most committed records first."""
    found: dict[int, list[RecordsAtRisk]] = defaultdict(list)
    for row in matrix.holding():
        place = place_of(row)
        broker = row.broker_id
        reference = matrix.reference(place)
        if place not in about or broker == reference:
            continue
        cut = None if reference is None else matrix.cut(place, reference, broker)
        # Without costs any of it may be cut.
        if row.lost_held and (cut is None or cut.lost_held):
            here = None if row.clean_shutdown is None else row.log_dir
            costs = matrix.row(place, reference)
            is_only_likely = costs is not None and costs.is_only_likely
            found[broker].append(
                RecordsAtRisk(place, row.lost_held, row.lost_committed_held or 0, is_only_likely, here)
            )
    return dict(sorted(found.items(), key=lambda item: (-sum(one.committed for one in item[1]), item[0])))


def _keep_up(results: Results, state: PresentState, about: Container[TopicPartition]) -> Iterator[Step]:
    """Steps to keep leaders up while a member of the ISR, which would lead next, lacks committed records."""
    members: dict[tuple[int, int], list[TopicPartition]] = defaultdict(list)
    for place, row in placed(results, REP_ISR_SHORT, about):
        leader = state.registered_leader(place)
        if row.broker_id is not None and leader is not None and leader not in state.down:
            members[leader, row.broker_id].append(place)
    for (leader, member), places in sorted(members.items()):
        yield Step(
            action="keep_up",
            text=f"Keep broker {leader} up until broker {member} has caught up in {list_places(places)}: broker {member} is in sync "
            f"but lacks some of what is committed. If broker {leader} must stop, stop broker {member} first",
            brokers=(leader,),
            partitions=tuple(places),
        )


def _hold(brokers: Sequence[int], state: PresentState) -> str:
    """Instruction for brokers of equal liveness until the log directory of one of them is copied."""
    several = len(brokers) > 1
    whose = "the log directory of one of them" if several else "its log directory"
    name = f"broker {' or '.join(map(str, sorted(brokers)))}"
    liveness = state.liveness(min(brokers))
    if liveness == "down":
        return f"Do not start {name} until {whose} is copied"
    if liveness == "up":
        return f"Copy the log directory of {name} now"
    return f"If {name} is down, do not start it until {whose} is copied; if it is up, copy the directory now"


def _hold_each(brokers: Sequence[int], state: PresentState) -> str:
    """Instruction for brokers of equal liveness until the log directory of each is copied."""
    names = name_brokers(brokers)
    liveness = state.liveness(min(brokers))
    if liveness == "down":
        return f"Do not start {names} until their log directories are copied"
    if liveness == "up":
        return f"Copy the log directories of {names} now"
    return f"Do not start any of {names} that is down until its log directory is copied; copy those of the others now"


def _tell_holding(brokers: Sequence[int], held: Sequence[RecordsAtRisk], matrix: Matrix, state: PresentState) -> str:
    records = sum(one.records for one in held)
    committed = sum(one.committed for one in held)
    known_as = "likely committed" if any(one.committed and one.is_only_likely for one in held) else "committed"
    if committed == records:
        said = count(records, f"{known_as} record")
    else:
        rest = f", {committed} of them {known_as}," if committed else ", perhaps acknowledged,"
        said = count(records, "record") + rest
    several = len(brokers) > 1
    holds, follow = ("each holds the same", "they follow") if several else ("it holds", "it follows")
    gone = "it is deleted" if records == 1 else "they are deleted"
    places = [one.place for one in held]
    is_deleted = state.deleted.issuperset(places)
    outside = [place for place in places if all(_is_outside(matrix, place, broker) for broker in brokers)]
    if is_deleted:
        follow = "the broker learns of it" if not several else "they learn of it"
        gone = f"the topic was deleted, and {gone.replace('deleted', 'removed')}"
    fate = f"{gone} as soon as {follow}"
    if outside and not is_deleted:
        follows = "" if len(outside) == len(places) else f"{fate}, except in {list_places(outside)}: "
        fate = f"{follows}{_fate_outside(several, state)}"
    return f"{holds} {said} that {_who_lacks(places, matrix)} not have, in {list_places(places)}; {fate}"


def _is_outside(matrix: Matrix, place: TopicPartition, broker_id: int) -> bool:
    row = matrix.row(place, broker_id)
    return row is not None and row.standing == "unassigned"


def _fate_outside(several: bool, state: PresentState) -> str:
    """Clause on directories of partitions that their brokers are not assigned: these follow nobody (docs/semantics.md H8)."""
    outside = f"it is not assigned to {'the brokers' if several else 'the broker'}, and"
    if state.mode == "zookeeper":
        return f"{outside} its directory stays as it is until it is assigned again"
    keeps = keeps_strays(state.kafka_version)
    deletes, stray = "deletes its directory", "aside as -stray, which Kafka never deletes"
    does = f"sets its directory {stray}" if keeps else deletes
    if keeps is None:
        does = f"{deletes} before Kafka 3.7, and since then sets it {stray}"
    of_kraft = "" if state.mode == "kraft" else " in KRaft"
    return f"{outside}{of_kraft} the next start {does}"


def _who_lacks(places: Iterable[TopicPartition], matrix: Matrix) -> str:
    """Subject and verb: the leader, or the stand-in for leaders that were not captured or do not exist."""
    rows = [row for place in places if (row := matrix.partitions.get(place)) is not None]
    if all(row.reference_id in (None, row.leader_id) for row in rows):
        return "the leader does"
    compared = {row.reference_id for row in rows}
    return f"broker {compared.pop()} does" if len(compared) == 1 else "the logs they are compared with do"

"""The plan for a whole cluster: save, elect, set groups back, restore and mend, in this order."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from replica_audit import __version__
from replica_audit.elect.cluster_state import PresentState, present_state
from replica_audit.elect.copied_again import CopiedAgain
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.cost_words import say_unread
from replica_audit.elect.decisions import decide, held_back
from replica_audit.elect.disk_steps import brokers_with_disks, check_disks, name_disk
from replica_audit.elect.follow_up_steps import mending_steps, reset_steps
from replica_audit.elect.hit_groups import committed_offsets
from replica_audit.elect.kafka_commands import BOOTSTRAP, Copies, Tools, for_names, in_order
from replica_audit.elect.order_search import Search
from replica_audit.elect.plan_model import Conflict, Decision, Plan, Step, is_salvaged
from replica_audit.elect.premises import rests_on
from replica_audit.elect.remote_steps import unread_records
from replica_audit.elect.safeguards import copy_of_outrun, safeguard_steps
from replica_audit.elect.step_list import list_names, list_places
from replica_audit.model import APPEND_TIME, CREATE_TIME, TopicPartition
from replica_audit.protocol.versions import PRESENT_FORMAT
from replica_audit.results import Results, place_of
from replica_audit.text import count, name_brokers, verb

#: File names in a plan's commands.
PLAN_FILE = "plan.json"
SALVAGED = "salvaged"


def salvage_steps(
    results: Results, decisions: Sequence[Decision], made_with: Sequence[str], partitions: Sequence[str]
) -> Iterator[Step]:
    """A step that salvages everything a copy has and the plan's leaders lack, and one on what cannot be read in the given
    store. `made_with` are the options of `elect` that make this plan, `partitions` those that it was asked for."""
    store = results.remote_store
    salvaged = _salvaged(results, decisions)
    if salvaged:
        places = tuple(map(place_of, salvaged))
        records = sum(_salvageable(one, store) for one in salvaged)
        yield Step(
            action="salvage",
            text=f"Salvage what the planned leaders of {list_places(places)} lack (at most {count(records, 'record')})",
            partitions=places,
            commands=(
                results.command("elect", *made_with, "--plan", PLAN_FILE, partitions=partitions),
                results.command("salvage", "--plan", PLAN_FILE, "--payloads", "--to", SALVAGED),
            ),
            before=tuple(_has_records(results, salvaged)),
        )
    unread = [one for one in decisions if _is_losing(one) and one.chosen.remote_unread]
    if unread:
        places = tuple(map(place_of, unread))
        records, encrypted = unread_records(unread)
        yield Step(
            action="salvage",
            text=f"Keep what salvage cannot take out of remote storage for {list_places(places)} (at most {count(records, 'record')}): "
            f"{say_unread(records, encrypted)}. Retention stays off until they are safe elsewhere",
            partitions=places,
        )


def restore_steps(
    results: Results, matrix: Matrix, state: PresentState, decisions: Sequence[Decision], tools: Tools
) -> Iterator[Step]:
    """A step that produces the salvaged records again, with their own times; none while one of their partitions has no plan."""
    salvaged = _salvaged(results, decisions)
    places = tuple(map(place_of, salvaged))
    if places:
        config = [] if tools.client_config is None else ["--command-config", tools.client_config]
        is_compacted = any(row.compacted for place in places for row in matrix.replicas[place].values())
        skip = ["--skip-superseded"] if is_compacted else []
        command = [
            "replica-audit",
            "restore",
            SALVAGED,
            "--bootstrap-servers",
            tools.bootstrap,
            *config,
            "--to-original",
            *skip,
        ]
        old = sorted(state.old_format & {place.topic for place in places})
        raised, of_raised = for_names(old, "message-format.txt", tools.raise_format)
        formats = (
            f". {list_names(old)} {verb(len(old), 'gets', 'get')} message format {PRESENT_FORMAT}, the first with transactions, and "
            f"{verb(len(old), 'keeps', 'keep')} it: under a lower one replicas delete their leader epochs"
            if old
            else ""
        )
        stamped = sorted(state.append_time & {place.topic for place in places})
        meanwhile, files = for_names(
            stamped, "append-time.txt", lambda topic: tools.set_timestamp_type(topic, CREATE_TIME)
        )
        again, _ = for_names(stamped, "append-time.txt", lambda topic: tools.set_timestamp_type(topic, APPEND_TIME))
        times = f". Records of {list_names(stamped)} get their producers' times until that is done" if stamped else ""
        restore = (shlex.join([*command, "--dry-run"]), shlex.join([*command, "--yes"]))
        yield Step(
            action="restore",
            text=f"Restore the salvaged records of {list_places(places)}: they are appended at the end of the log{formats}{times}",
            partitions=places,
            commands=tuple(in_order(raised, meanwhile, restore, again)),
            files=files | of_raised,
            before=(
                "Each of these partitions has its planned leader, or its preferred leader, which took over in sync",
                *_is_decided([place_of(one) for one in salvaged if one.chosen.hidden_records]),
                "The dry run shows what you expect: with --yes the second command writes without asking",
            ),
        )


def _is_decided(hidden: Sequence[TopicPartition]) -> Iterator[str]:
    """A condition for partitions in which another replica keeps the restored records."""
    if hidden:
        yield (
            f"You have decided which side of {list_places(hidden)} is right (replica-audit explain DIV-HIDDEN): another replica keeps the "
            "restored records, too, so consumers read them twice once it leads, unless it is rebuilt. If the leader's side is right, "
            "restore only the other topics (--topic)"
        )


def _has_records(results: Results, decisions: Sequence[Decision]) -> Iterator[str]:
    """A condition if the snapshot has only a text or table in place of a log that salvage has to read."""
    needed = {
        (*place_of(one), broker)
        for one in decisions
        for broker in (one.candidate_id, *(source.broker_id for source in one.salvage))
    }
    # Any replica may keep hidden records.
    hidden = {place_of(one) for one in decisions if one.chosen.hidden_records}
    told = [row for row in results.replicas if row.clean_shutdown is None]
    brokers = sorted(
        {
            row.broker_id
            for row in told
            if place_of(row) in hidden or (row.topic, row.partition, row.broker_id) in needed
        }
    )
    if brokers:
        yield (
            f"The snapshot has copied directories of {name_brokers(brokers)} instead of a text or table, and you have audited it "
            "again: salvage reads records from files"
        )


def _salvaged(results: Results, decisions: Sequence[Decision]) -> list[Decision]:
    """Planned decisions whose lost records salvage takes from copies, or from the given remote store; none unless some may have been
    acknowledged."""
    topics = results.options.get("topics", ())
    held = [
        one
        for one in decisions
        if one.procedure != "unplanned" and is_salvaged(one.topic, topics) and _salvageable(one, results.remote_store)
    ]
    return held if any(_is_losing(one) or one.chosen.hidden_records for one in held) else []


def _is_losing(decision: Decision) -> bool:
    """True for a planned decision that loses possibly acknowledged records."""
    return decision.loses_acknowledged and decision.procedure != "unplanned"


def _salvageable(decision: Decision, store: str | None) -> int:
    """Upper bound of the records that the chosen leader lacks and the sources hold: two copies may hold the same ones."""
    held = sum(source.records for source in decision.salvage)
    if store is not None:
        held += decision.chosen.remote_records - decision.chosen.remote_unread
    return min(decision.chosen.lost_records, held) + decision.chosen.hidden_records


def plan_elections(
    results: Results,
    *,
    asked: Collection[TopicPartition] = (),
    candidate_id: int | None = None,
    up: Iterable[int] | None = None,
    stopped_cleanly: Iterable[int] | None = None,
    bootstrap: str = BOOTSTRAP,
    client_config: str | None = None,
    made_with: Sequence[str] = (),
    premises: bool = True,
) -> Plan:
    """The plan for the partitions `asked` for, or for all that need a decision.

    `results` have rows of `elections` for these. `candidate_id` is chosen instead of the best; `up` and `stopped_cleanly`
    override fencing and flags. Raises UsageError for a candidate that a partition does not have. `made_with` are the options that
    make this plan again; without `premises` nothing can be checked against it later.
    """
    matrix = Matrix(results)
    state = present_state(results, up, stopped_cleanly)
    groups = committed_offsets(results)
    decisions, conflicts = decide(matrix, state, asked, candidate_id, groups)
    tools = Tools(state.kafka_version, bootstrap, client_config, state.mode)
    about = frozenset(asked) or _Everything()
    copies = Copies()
    outcome = Search(state, matrix, tools).best(decisions)
    tails = matrix.all_open_tails(candidate_id)
    held = held_back(matrix, outcome.decisions, tails)
    if held:
        unplanned = [one.by("unplanned") for one in outcome.decisions if place_of(one) in held]
        conflicts += [Conflict(*place, held[place]) for place in sorted(held)]
        outcome = Search(state, matrix, tools).best([one for one in decisions if place_of(one) not in held])
        outcome = outcome._replace(decisions=tuple(sorted((*outcome.decisions, *unplanned), key=place_of)))
    started = {broker for step in outcome.steps if step.action == "start" for broker in step.brokers}
    aside = [step for step in outcome.steps if step.action == "put_aside"]
    fetched_anew = {(broker, place) for step in aside for broker in step.brokers for place in step.partitions}
    last = [
        *reset_steps(matrix, outcome.decisions, groups or (), tools),
        *restore_steps(results, matrix, state, outcome.decisions, tools),
        *mending_steps(results, matrix, outcome.decisions, tools, about, state.deleted, started, fetched_anew),
    ]
    # Mending a replica includes a restart of its broker.
    holding = {broker for step in last if step.action == "mend" for broker in step.brokers}
    holding |= {broker for place in held for broker in matrix.replicas[place]}
    tails = {
        place: some
        for place, some in tails.items()
        if (place in about or holding & matrix.replicas[place].keys())
        and not state.disowned_of(place, matrix.replicas[place])
    }
    names = tuple(map(str, asked))
    # One plan for all, unless a candidate was asked for: that is not to lead other partitions.
    again = CopiedAgain.of(
        matrix, state, tails, held if tails else (), made_with, () if candidate_id is None else names
    )
    first = [
        *(
            replace(step, files={**step.files, **copies.files_of(step.commands)})
            for step in safeguard_steps(
                results, matrix, state, outcome.decisions, tools, copies, about, candidate_id, again
            )
        ),
        *copy_of_outrun(matrix, outcome.outrun),
        *salvage_steps(results, outcome.decisions, made_with, names),
    ]
    if first or outcome.steps:
        controllers = {node for step in (*first, *outcome.steps) for node in step.controllers}
        first = [*check_disks(results, matrix, outcome.decisions, controllers), *first]
    # Each step names its partitions: a name is held once.
    names_of: dict[TopicPartition, TopicPartition] = {}
    several = brokers_with_disks(matrix, (*first, *outcome.steps))
    numbered = (
        replace(step, number=number, partitions=tuple(names_of.setdefault(one, one) for one in step.partitions))
        for number, step in enumerate((*first, *outcome.steps, *last), 1)
    )
    return Plan(
        cluster_id=results.audit["cluster_id"],
        tool_version=__version__,
        kafka_version=results.options.get("kafka_version"),
        mode=state.mode,
        protocol=results.protocol,
        up=tuple(sorted(state.up)),
        down=tuple(sorted(state.down)),
        stopped_cleanly=tuple(sorted(state.clean)),
        unknown=tuple(sorted(state.unknown | state.unheard)),
        fenced=tuple(sorted(state.fenced_running)),
        decisions=outcome.decisions,
        steps=tuple(name_disk(step, matrix, state, several) for step in numbered),
        keep_down=tuple(replace(one, until_step=one.until_step + len(first)) for one in outcome.keep_down),
        conflicts=(*conflicts, *outcome.conflicts),
        alternatives=outcome.alternatives,
        rests_on=tuple(rests_on(results, matrix, {place_of(one) for one in decisions})) if premises else (),
        leaderless=tuple(one for one in state.leaderless() if one in about),
    )


class _Everything:
    """A container of every partition, and of the snapshot itself."""

    def __contains__(self, place: object) -> bool:
        return True


def advise(results: Results) -> Plan:
    """The plan for everything in `results` that needs a decision or an action, shown in headline, Do first, What to do, page, summary and
    `elect`. Cached; without premises, which only plan.json has."""
    return results.once("plan", Plan, lambda: plan_elections(results, premises=False))

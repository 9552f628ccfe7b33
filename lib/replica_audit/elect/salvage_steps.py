"""Steps that take out the records which a plan loses, and put them back once its leaders lead."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from replica_audit.command_line import render_command
from replica_audit.elect.plan_model import Decision, Step
from replica_audit.elect.step_list import list_places
from replica_audit.model import Place
from replica_audit.results import Results
from replica_audit.text import count, name_brokers

#: Names in the commands of a plan.
PLAN_FILE, SALVAGED = "plan.json", "salvaged"


def salvage_steps(
    results: Results, decisions: Sequence[Decision], made_with: Sequence[str], partitions: Sequence[str]
) -> Iterator[Step]:
    """One step for everything that the plan's leaders lack, and a copy has; `made_with` are the options of its `elect`, and
    `partitions` those that it was asked for.
    """
    places = _worth_it(decisions)
    if places:
        records = sum(
            # Two copies may hold the same ones.
            min(one.chosen.lost_records, sum(source.records for source in one.salvage))
            for one in decisions
            if (one.topic, one.partition) in places
        )
        yield Step(
            action="salvage",
            text=f"Salvage what the plan's leaders of {list_places(places)} do not have ({count(records, 'record')} at most)",
            partitions=tuple(places),
            commands=(
                render_command(results, "elect", *made_with, "--plan", PLAN_FILE, partitions=partitions),
                render_command(results, "salvage", "--plan", PLAN_FILE, "--payloads", "--to", SALVAGED),
            ),
            before=tuple(_has_records(results, decisions, places)),
        )


def restore_steps(decisions: Sequence[Decision], bootstrap: str, client_config: str | None) -> Iterator[Step]:
    """One step that produces again what was salvaged; none while a partition of it has no plan."""
    places = _worth_it(decisions)
    if places:
        config = [] if client_config is None else ["--command-config", client_config]
        command = ["replica-audit", "restore", SALVAGED, "--bootstrap-servers", bootstrap, *config, "--to-original"]
        yield Step(
            action="restore",
            text=f"Put the salvaged records of {list_places(places)} back: they are produced at the end of the log",
            partitions=tuple(places),
            commands=(shlex.join([*command, "--dry-run"]), shlex.join([*command, "--yes"])),
            before=(
                "Every partition of them has the leader that the plan gives it",
                "The dry run shows what you expect: after it nobody is asked",
            ),
        )


def _has_records(results: Results, decisions: Sequence[Decision], places: Sequence[Place]) -> Iterator[str]:
    """A condition if the snapshot has a text or table in place of a log that salvage has to read."""
    needed = {
        (*place, broker)
        for one in decisions
        if (place := (one.topic, one.partition)) in places
        for broker in (one.candidate_id, *(source.broker_id for source in one.salvage))
    }
    told = [row for row in results.replicas if row.clean_shutdown is None]
    brokers = sorted({row.broker_id for row in told if (row.topic, row.partition, row.broker_id) in needed})
    if brokers:
        yield (
            f"The snapshot has the copied directories of {name_brokers(brokers)} in place of a text or table, and was audited "
            "again: salvage takes records from files"
        )


def _worth_it(decisions: Sequence[Decision]) -> list[Place]:
    """Partitions that lose what may have been acknowledged and a copy still has."""
    return [
        (one.topic, one.partition)
        for one in decisions
        if one.salvage and one.loses_acknowledged and one.procedure != "unplanned"
    ]

"""The plan of `elect`: the cost of each choice of leader, and how to elect the best. Contacts no cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from replica_audit.api.argument_settings import of_snapshot, resolved
from replica_audit.api.typed_table import Tables
from replica_audit.config import Settings
from replica_audit.elect.cluster_state import check_named
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.kafka_commands import BOOTSTRAP
from replica_audit.elect.plan_model import Plan, Step, plan_object, read_plan
from replica_audit.elect.premises import ChangedPremise, moved_since
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.parsing import parse_partition
from replica_audit.paths import check_files, check_outside
from replica_audit.progress import Progress
from replica_audit.redaction import redact
from replica_audit.report.layout import render_object
from replica_audit.report.plan_text import render_moved, render_plan, tell_long_file
from replica_audit.report.whole_files import write_file
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all, not_in
from replica_audit.schema import REPORT_ROWS
from replica_audit.text import name_brokers, verb


class ElectionOptions(NamedTuple):
    """Facts and wishes that the caller adds to the snapshot."""

    candidate: int | None = None
    up: Sequence[int] | None = None
    stopped_cleanly: Sequence[int] | None = None
    bootstrap_server: str | None = None
    command_config: str | None = None

    def made_with(self) -> list[str]:
        """The options that the plan depends on, for the commands in it."""
        given = {
            "--candidate": self.candidate,
            "--up": self.up,
            "--stopped-cleanly": self.stopped_cleanly,
            "--bootstrap-server": self.bootstrap_server,
            "--command-config": self.command_config,
        }
        words = []
        for name, value in given.items():
            if value is not None:
                words += [name, str(value) if isinstance(value, (int, str)) else ",".join(map(str, value))]
        return words


class PlannedElection(Tables):
    """A plan: `plan` has its decisions and steps, `election["elections"]` the cost of each choice for each replica.

    Given an earlier plan, `moved` lists what has changed since; the exit status is then 1 if anything has, otherwise if
    a partition has no plan.
    """

    def __init__(self, results: Results, plan: Plan, before: Plan | None) -> None:
        super().__init__({"elections": REPORT_ROWS["elections"]}, lambda _: results.elections)
        self.plan = plan
        changes = [] if before is None else moved_since(before, plan.cluster_id, plan.rests_on)
        self.moved: Sequence[ChangedPremise] = list(changes)
        self._is_check = before is not None

    @property
    def exit_status(self) -> int:
        """Exit status of the command line."""
        return int(bool(self.moved if self._is_check else self.plan.conflicts))

    def to_dict(self) -> Mapping[str, object]:
        """The content of `plan.json`."""
        return plan_object(self.plan)

    def write(self, path: str) -> None:
        """Write `plan.json`, and beside it the files that its steps need. Raises UsageError."""
        write_plan_files(path, render_object(plan_object(self.plan)), self.plan.steps)

    def __str__(self) -> str:
        """The text that `elect` prints."""
        return render_moved(self.moved) if self._is_check else render_plan(self.plan)


def elect(
    path: str,
    partitions: Sequence[str] = (),
    *,
    candidate: int | None = None,
    up: Sequence[int] | None = None,
    stopped_cleanly: Sequence[int] | None = None,
    bootstrap_server: str | None = None,
    command_config: str | None = None,
    plan: str | None = None,
    check: str | None = None,
    topics: Sequence[str] = (),
    leadership: str | None = None,
    leadership_source: str | None = None,
    remote: str | None = None,
    verify_remote: bool = False,
    protocol: str | None = None,
    kafka_version: str | None = None,
    config: str | None = None,
    progress: Progress | None = None,
) -> PlannedElection:
    """Compare the choices of leader in the snapshot at `path`, for `partitions` ("orders-0") or all that need a decision.

    The plan is written to the file `plan`; `check` is a file written before. Raises UsageError and InputError.
    """
    given = {
        **of_snapshot(topics, leadership, leadership_source, protocol, kafka_version, remote),
        "verify_remote": verify_remote,
    }
    choices = ElectionOptions(candidate, up, stopped_cleanly, bootstrap_server, command_config)
    return elect_snapshot(path, partitions, choices, resolved(given, config), progress, plan, check)


def elect_snapshot(
    path: str,
    partitions: Sequence[str],
    choices: ElectionOptions,
    settings: Settings,
    progress: Progress | None,
    plan_file: str | None,
    check: str | None,
) -> PlannedElection:
    """`elect` with resolved settings and options; `plan_file` is its `plan`."""
    check_files(settings)
    check_plan_file(plan_file, path, is_check=check is not None)
    if both := sorted({*(choices.up or ())} & {*(choices.stopped_cleanly or ())}):
        raise UsageError(f"--stopped-cleanly: {name_brokers(both)} {verb(len(both), 'is', 'are')} up by --up")
    before = None if check is None else read_plan(check, "--check")
    asked = [parse_partition(text) for text in partitions]
    if before is not None:
        asked = [TopicPartition(one.topic, one.partition) for one in before.rests_on]
    results = audit_all(path, settings, progress, asked, choices.up)
    missing = [one for one in asked if one not in results.partition_of]
    if missing and before is None:
        raise not_in(path, missing[0], results.partition_of)
    check_named(results, "--up", choices.up)
    check_named(results, "--stopped-cleanly", choices.stopped_cleanly)
    plan = plan_elections(
        results,
        asked=[one for one in asked if one in results.partition_of],
        candidate_id=choices.candidate,
        up=choices.up,
        stopped_cleanly=choices.stopped_cleanly,
        bootstrap=choices.bootstrap_server or BOOTSTRAP,
        client_config=choices.command_config,
        made_with=choices.made_with(),
    )
    found = PlannedElection(results, plan, before)
    if plan_file is not None:
        found.write(plan_file)
    return found


def check_plan_file(path: str | None, snapshot: str, *, is_check: bool) -> None:
    """Raise UsageError if a plan cannot be written to `path`, which may be None: it is inside the snapshot, or no plan is made."""
    if path is not None and is_check:
        raise UsageError("--plan: with --check no plan is written: give one of the two")
    if path is not None:
        check_outside("--plan", path, snapshot)


def write_plan_files(path: str, content: str, steps: Iterable[Step]) -> None:
    """Write the `content` of a plan to `path`, and beside it the files that its `steps` need. Raises UsageError."""
    directory = os.path.dirname(path) or "."
    try:
        os.makedirs(directory, exist_ok=True)
        for step in steps:
            for name, text in step.files.items():
                if tell_long_file(name, text) is not None:
                    write_file(os.path.join(directory, name), text)
        write_file(path, redact(content))
    except OSError as error:
        raise UsageError(f"--plan {path}: cannot be written: {error.strerror}") from error

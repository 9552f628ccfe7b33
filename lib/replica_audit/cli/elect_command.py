"""`elect`: compares the choices of leader in a snapshot and prints the plan for the best. No cluster is contacted."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict

from replica_audit.cli.inputs import check_snapshot
from replica_audit.cli.output import print_note, print_result
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.kafka_commands import BOOTSTRAP
from replica_audit.elect.plan_model import Plan, plan_object, read_plan
from replica_audit.elect.premises import moved_since
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.parsing import parse_partition
from replica_audit.paths import check_files, check_outside
from replica_audit.quorum.answer_model import QuorumAnswer
from replica_audit.redaction import redact
from replica_audit.report.layout import render_object
from replica_audit.report.plan_text import render_moved, render_plan, tell_long_file
from replica_audit.report.whole_files import write_file
from replica_audit.runner.in_process import audit_all


def elect(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print costs and plan; 1 if a partition that was asked for has no plan or, with `--check`, if anything has moved."""
    check_snapshot(arguments.snapshot)
    check_files(settings)
    if arguments.plan is not None:
        check_outside("--plan", arguments.plan, arguments.snapshot)
    before = None if arguments.check is None else read_plan(arguments.check, "--check")
    asked = [parse_partition(text) for text in arguments.topic_partitions]
    if before is not None:
        asked = [TopicPartition(one.topic, one.partition) for one in before.rests_on]
    results = audit_all(arguments.snapshot, settings, ProgressLine(settings.quiet), asked, arguments.up)
    known = {(row.topic, row.partition) for row in results.partitions}
    places = [(one.topic, one.partition) for one in asked]
    missing = [one for one, place in zip(asked, places) if place not in known]
    if missing and before is None:
        raise UsageError(f"{missing[0]} is not in {arguments.snapshot}")
    plan = plan_elections(
        results,
        asked=[place for place in places if place in known],
        candidate_id=arguments.candidate,
        up=arguments.up,
        stopped_cleanly=arguments.stopped_cleanly,
        bootstrap=arguments.bootstrap_server or BOOTSTRAP,
        client_config=arguments.command_config,
        made_with=_made_with(arguments),
    )
    if before is not None:
        return _check(before, plan, settings)
    content = render_object(plan_object(plan))
    if arguments.plan is not None:
        write_plan(arguments.plan, content, plan)
    if settings.format == "json":
        print_result(content.rstrip("\n"))
    else:
        print_result(render_plan(plan))
    return 1 if plan.conflicts else 0


def _made_with(arguments: argparse.Namespace) -> list[str]:
    """The options that the plan depends on, for the commands in it."""
    given = {
        "--candidate": arguments.candidate,
        "--up": None if arguments.up is None else ",".join(map(str, arguments.up)),
        "--stopped-cleanly": None
        if arguments.stopped_cleanly is None
        else ",".join(map(str, arguments.stopped_cleanly)),
    }
    return [word for name, value in given.items() if value is not None for word in (name, str(value))]


def _check(before: Plan, plan: Plan, settings: Settings) -> int:
    changes = list(moved_since(before, plan.cluster_id, plan.rests_on))
    if settings.format == "json":
        print_result(render_object({"moved": [asdict(one) for one in changes]}).rstrip("\n"))
    else:
        print_result(render_moved(changes))
    return 1 if changes else 0


def write_plan(path: str, content: str, plan: Plan | QuorumAnswer) -> None:
    """Write the plan, and beside it the files of its steps that are too long to print."""
    directory = os.path.dirname(path) or "."
    try:
        os.makedirs(directory, exist_ok=True)
        for step in plan.steps:
            for name, text in step.files.items():
                if tell_long_file(name, text) is not None:
                    write_file(os.path.join(directory, name), text)
        write_file(path, redact(content))
    except OSError as error:
        raise UsageError(f"--plan {path}: {error}") from error
    print_note(f"plan: {path}")

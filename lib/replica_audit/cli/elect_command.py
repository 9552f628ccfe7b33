"""`elect`: a snapshot in, what each choice of leader costs and the plan for the best out. No cluster is contacted."""

from __future__ import annotations

import argparse
import os
from typing import Any

from replica_audit.cli.output import print_note, print_result, stdout_colour
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.cli.snapshot_argument import check_snapshot
from replica_audit.config import Settings
from replica_audit.errors import FormatError, UsageError
from replica_audit.model import TopicPartition
from replica_audit.parsing import parse_json
from replica_audit.paths import check_files, lies_inside
from replica_audit.redaction import redact
from replica_audit.report.audit_json import render_object


def add_elect_arguments(command: argparse.ArgumentParser, arguments: Any) -> None:
    """The options of `elect`, and its arguments into their group."""
    text = "for example orders-0; without, every partition that has something to decide"
    arguments.add_argument("topic_partitions", metavar="TOPIC-PARTITION", nargs="*", help=text)
    command.add_argument("--candidate", metavar="ID", type=_broker, help="plan for this broker, whatever it costs")
    text = "brokers that are up, as in 1,3 (default: as fencing and clean-shutdown flags show)"
    command.add_argument("--up", metavar="IDS", type=_brokers, help=text)
    command.add_argument(
        "--stopped-cleanly", metavar="IDS", type=_brokers, help="brokers that are down and were stopped cleanly"
    )
    command.add_argument("--bootstrap-server", metavar="HOST:PORT", help="brokers to name in the commands of the plan")
    command.add_argument(
        "--command-config", metavar="FILE", help="client properties to name in the commands of the plan"
    )
    command.add_argument("--plan", metavar="FILE", help="write the plan as JSON to this file")
    command.add_argument(
        "--check", metavar="PLAN", help="say what has moved since this plan was made; 1 if anything has"
    )


def elect(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print what each choice of leader costs and the plan; 1 where a partition that was asked for has none, or with
    `--check` where anything has moved.
    """
    from replica_audit.elect.election_plan import plan_elections
    from replica_audit.elect.plan_model import plan_object
    from replica_audit.report.plan_text import render_plan
    from replica_audit.runner.in_process import audit_all

    check_snapshot(arguments.snapshot)
    check_files(settings)
    if arguments.plan is not None and lies_inside(arguments.plan, arguments.snapshot):
        raise UsageError(f"--plan {arguments.plan} lies inside the snapshot {arguments.snapshot}, which is only read")
    before = None if arguments.check is None else read_plan(arguments.check, "--check")
    asked = [_partition(text) for text in arguments.topic_partitions]
    if before is not None:
        asked = [TopicPartition(one["topic"], one["partition"]) for one in before["rests_on"]]
    results = audit_all(arguments.snapshot, settings, ProgressLine(settings.quiet), asked)
    known = {(row["topic"], row["partition"]) for row in results.rows("partitions")}
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
        **({} if arguments.bootstrap_server is None else {"bootstrap": arguments.bootstrap_server}),
        client_config=arguments.command_config,
        made_with=_made_with(arguments),
    )
    if before is not None:
        return _check(before, plan, settings)
    content = render_object(plan_object(plan))
    if arguments.plan is not None:
        _write(arguments.plan, content)
    if settings.format == "json":
        print_result(content.rstrip("\n"))
    else:
        print_result(render_plan(plan, stdout_colour()))
    return 1 if plan.conflicts else 0


def _made_with(arguments: argparse.Namespace) -> list[str]:
    """The arguments that decide on the plan, for its own commands."""
    given = {
        "--candidate": arguments.candidate,
        "--up": None if arguments.up is None else ",".join(map(str, arguments.up)),
        "--stopped-cleanly": None
        if arguments.stopped_cleanly is None
        else ",".join(map(str, arguments.stopped_cleanly)),
    }
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    return [*map(str, arguments.topic_partitions), *options]


def _check(before: Any, plan: Any, settings: Settings) -> int:
    from replica_audit.elect.plan_check import moved
    from replica_audit.report.plan_text import render_moved

    changes = list(moved(before, plan))
    if settings.format == "json":
        print_result(render_object({"moved": changes}).rstrip("\n"))
    else:
        print_result(render_moved(changes, stdout_colour()))
    return 1 if changes else 0


def read_plan(path: str, option: str) -> Any:
    """The content of the plan.json at `path`, which `option` named; raises UsageError for any other file."""
    from replica_audit.elect.plan_check import check_object

    try:
        with open(path, encoding="utf-8") as file:
            return check_object(parse_json(file.read(), path, "give the plan.json of replica-audit elect"))
    except FormatError as error:
        raise UsageError(f"{option} {error}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{option} {path}: {error}") from error
    except UsageError as error:
        raise UsageError(f"{option} {path}: {error}") from error


def _write(path: str, content: str) -> None:
    from replica_audit.report.report_files import write_file

    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        write_file(path, redact(content))
    except OSError as error:
        raise UsageError(f"--plan {path}: {error}") from error
    print_note(f"plan: {path}")


def _partition(text: str) -> TopicPartition:
    try:
        return TopicPartition.parse(text)
    except ValueError as error:
        raise UsageError(f"{error}: give a partition such as orders-0") from error


def _broker(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a broker id")
    return int(text)


def _brokers(text: str) -> list[int]:
    return [_broker(part.strip()) for part in text.split(",") if part.strip()]

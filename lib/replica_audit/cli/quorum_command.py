"""`quorum`: compares the copies of the metadata log in a snapshot and prints which is the right one. No cluster is contacted."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from replica_audit.cli.elect_command import write_plan
from replica_audit.cli.output import print_object, print_result
from replica_audit.config import Settings
from replica_audit.elect.kafka_commands import BOOTSTRAP
from replica_audit.paths import check_outside
from replica_audit.quorum.answer_model import answer_object, read_answer
from replica_audit.quorum.moved_copies import moved_since
from replica_audit.quorum.quorum_answer import answer_quorum
from replica_audit.report.layout import render_object
from replica_audit.report.plan_text import render_moved
from replica_audit.report.quorum_text import render_quorum
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.storage import Snapshot


def quorum(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the answer; 1 if no copy is the best or there is no plan or, with `--check`, if anything has moved."""
    if arguments.plan is not None:
        check_outside("--plan", arguments.plan, arguments.snapshot)
    before = None if arguments.check is None else read_answer(arguments.check, "--check")
    snapshot = Snapshot.open(arguments.snapshot)
    answer = answer_quorum(
        snapshot,
        discover(snapshot),
        kafka_version=settings.kafka_version,
        bootstrap=arguments.bootstrap_server or BOOTSTRAP,
        client_config=arguments.command_config,
        node_id=arguments.choose,
    )
    if before is not None:
        changes = list(moved_since(before, answer))
        print_object({"moved": [asdict(one) for one in changes]}, render_moved(changes), settings)
        return 1 if changes else 0
    content = render_object(answer_object(answer))
    if arguments.plan is not None:
        write_plan(arguments.plan, content, answer.steps)
    print_result(content.rstrip("\n") if settings.format == "json" else render_quorum(answer))
    return 1 if answer.no_plan is not None else 0

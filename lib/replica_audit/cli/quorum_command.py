"""`quorum`: compares the copies of the metadata log in a snapshot and prints which one is right. Contacts no cluster."""

from __future__ import annotations

import argparse

from replica_audit.api import compared_quorum
from replica_audit.cli.output import print_plan
from replica_audit.config import Settings


def quorum(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the answer; 1 if no copy is best or there is no plan or, with `--check`, if a premise has changed."""
    found = compared_quorum.quorum(
        arguments.snapshot,
        bootstrap_server=arguments.bootstrap_server,
        command_config=arguments.command_config,
        plan=arguments.plan,
        check=arguments.check,
        kafka_version=settings.kafka_version,
        choose=arguments.choose,
    )
    return print_plan(found, arguments.plan, arguments.check, settings)

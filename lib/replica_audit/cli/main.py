"""Runs one command: arguments in, exit status out; the one place that catches errors."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from replica_audit.cli.commands import COMMANDS, Run
from replica_audit.cli.failure import leave_verdict, tell_fault
from replica_audit.cli.interruption import INTERRUPTION
from replica_audit.cli.output import (
    open_closed_streams,
    print_error,
    print_fault,
    print_note,
    print_object,
    stdout_colour,
    stdout_columns,
)
from replica_audit.cli.parser import given_flags, parse_arguments
from replica_audit.config import Resolved, Settings, check_choices, resolve_settings
from replica_audit.errors import EngineError, FormatError, InputError, ReplicaAuditError, UsageError
from replica_audit.install.extras import check_extra
from replica_audit.paths import local_path
from replica_audit.process_start import leave_to_system
from replica_audit.report.layout import set_colour, set_text_width
from replica_audit.report.settings_text import build_settings, render_settings
from replica_audit.report.verdict_object import render_status_line
from replica_audit.scratch import finish_result, say_left, unfinished_results

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; raises nothing but SystemExit, for --help and --version."""
    try:
        return _run_command(argv)
    finally:
        for path in unfinished_results():
            finish_result(path)
            print_note(say_left(path))


def _run_command(argv: Sequence[str] | None) -> int:
    arguments: argparse.Namespace | None = None
    settings: Settings | None = None
    open_closed_streams()
    set_text_width(stdout_columns())
    try:
        arguments = parse_arguments(list(sys.argv[1:] if argv is None else argv))
        command = COMMANDS[arguments.command]
        if not command.common:
            return _load(arguments.command)(arguments, Settings())
        resolved = resolve_settings(given_flags(arguments), config_file=arguments.config)
        settings = resolved.settings
        set_colour(stdout_colour(settings.color))
        check_choices(arguments.command, resolved)
        if arguments.print_config:
            return _print_config(resolved)
        run = _load(arguments.command)
        for name in command.snapshots:
            _check_snapshot(getattr(arguments, name))
        return run(arguments, settings)
    except KeyboardInterrupt:
        INTERRUPTION.wait_for_end()
        print_note("replica-audit: interrupted")
        if settings is not None and arguments is not None and arguments.command == "run":
            leave_verdict(settings, INTERRUPTED, "interrupted")
        return INTERRUPTED
    except SystemExit as leave:
        # argparse exits with 0 after --help and --version.
        return leave.code if isinstance(leave.code, int) else 0
    except UsageError as error:
        print_error(str(error))
        return error.exit_status
    except ReplicaAuditError as error:
        print_error(str(error))
        return _fail(arguments, settings, error.exit_status, str(error))
    except FormatError as error:
        print_error(str(error))
        return _fail(arguments, settings, InputError.exit_status, str(error))
    except Exception as error:
        if (sentence := tell_fault(error, settings)) is not None:
            return _fail(arguments, settings, EngineError.exit_status, sentence)
        print_fault()
        return _fail(arguments, settings, EngineError.exit_status, f"internal error: {type(error).__name__}")


def entry_point(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command in a process of its own, and end it; `start.entry_point` calls it."""
    open_closed_streams()  # before the signal pipe takes their numbers
    INTERRUPTION.install()
    status = main(argv)
    leave_to_system()
    sys.exit(status)


def _load(name: str) -> Run:
    command = COMMANDS[name]
    if command.extra is not None:
        check_extra(command.extra, f"replica-audit {name}")
    return command.load()


def _print_config(resolved: Resolved) -> int:
    print_object(build_settings(resolved), render_settings(resolved), resolved.settings)
    return 0


def _fail(arguments: argparse.Namespace | None, settings: Settings | None, status: int, reason: str) -> int:
    """Leave the status where schedulers look for it: in verdict.json and the last line of `run`."""
    if arguments is None or settings is None or arguments.command != "run":
        return status
    failure = leave_verdict(settings, status, reason)
    print_object(failure, render_status_line(failure), settings)
    return status


def _check_snapshot(snapshot: str) -> None:
    """Raise UsageError unless a local `snapshot` is a directory or an archive; other URIs are not checked.

    Prints a note on stderr if the snapshot is the log dir of a single broker.
    """
    path = local_path(snapshot)
    if path is None:
        return
    if not os.path.exists(path):
        raise UsageError(f"snapshot {snapshot} does not exist")
    if not os.path.isdir(path):
        from replica_audit.snapshot.storage import Snapshot

        try:
            Snapshot.open(path)
        except OSError as error:
            raise UsageError(str(error)) from error
    if os.path.isfile(os.path.join(path, "meta.properties")):
        print_note(
            f"note: {snapshot} is the log dir of one broker, which is audited alone; to compare replicas, give the "
            "directory that contains the log dirs of all brokers"
        )

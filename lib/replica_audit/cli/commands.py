"""The table of commands: purpose, arguments and exit statuses of each, and the function that runs it.

A command's module is imported when the command is run; neither `--help` nor completion imports one.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple

from replica_audit.config import Settings
from replica_audit.literals import CAPTURE_KINDS, RECORD_ENCODINGS, RECORD_FORMS
from replica_audit.text import parse_time

SHELLS = ("bash", "zsh", "fish")

DEFAULT_TARGET = "/backup/snapshot"

EXIT_STATUS = """exit status:
  0    no finding at or above --fail-on
  1    findings at or above --fail-on
  2    usage or configuration error
  3    the audit is incomplete and cannot be fully trusted
  4    engine or internal error
  130  interrupted (143: terminated)
"""

EXIT_STATUS_OF_INGEST = """exit status:
  0    the snapshot is in the warehouse
  2    usage or configuration error
  3    the snapshot has nothing to ingest, or the warehouse cannot be read
  4    engine or internal error
  130  interrupted (143: terminated)
"""

EXIT_STATUS_OF_ELECT = """exit status:
  0    every partition has a plan or needs none
  1    a partition has no plan; with --check: something has moved
  2    usage or configuration error
  4    internal error
"""

EXIT_STATUS_OF_QUORUM = """exit status:
  0    nothing has to be decided, or there is a plan
  1    no copy is the best, or there is no plan; with --check: something has moved
  2    usage or configuration error
  4    internal error
"""

EXIT_STATUS_OF_VERIFY = """exit status:
  0    every replica kept exactly what it should have
  1    a replica did not, or has not followed yet, or committed records are lost
  2    usage or configuration error
  3    some of it could not be judged
  4    internal error
"""

EXIT_STATUS_OF_SALVAGE = """exit status:
  0    every record was written (without --payloads: can be read)
  1    some records that are known to exist were not
  2    usage or configuration error
  3    something that may hold records could not be read
  4    internal error
"""

EXIT_STATUS_OF_PRINTING = """exit status:
  0    done
  2    usage or configuration error
  4    internal error
"""

EXIT_STATUS_OF_SETUP = """exit status:
  0    all that is needed is there
  2    usage error
  4    something needed is missing, or could not be installed
"""

EXIT_STATUS_OF_OBSERVE = """exit status:
  0    every replica on a live broker was read
  1    some were not, or something else was refused: both are named
  2    usage or configuration error, or refused: nothing was written
  4    the cluster did not answer
"""

EXIT_STATUS_OF_RESTORE = """exit status:
  0    all records are in the target (--check: once, in order)
  1    --check found a difference
  2    usage or configuration error, or refused: nothing was produced
  4    the cluster did not answer as expected
"""

#: Runs a command with its arguments and the settings; returns the exit status.
Run = Callable[[argparse.Namespace, Settings], int]


class Command(NamedTuple):
    """One command of the program."""

    place: str
    """Dotted name of its function."""
    line: str
    """Purpose of the command in one line."""
    takes: str
    """Arguments in the usage line."""
    add_arguments: Callable[[argparse.ArgumentParser], None]
    """Adds the command's own arguments and options to its parser."""
    snapshots: tuple[str, ...] = ()
    """Names of the arguments that name a snapshot."""
    epilog: str | None = EXIT_STATUS
    """Text at the end of its help."""
    common: bool = True
    """True if it takes the common options and has settings; False for commands about the program itself."""
    extra: str | None = None
    """Extra of the distribution that it needs (`install.extras`)."""

    def load(self) -> Run:
        """Import its function."""
        module, _, name = self.place.rpartition(".")
        run: Run = getattr(import_module(module), name)
        return run


# Types of arguments; each raises ArgumentTypeError with what was expected.


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """Type of an argument that is one of `choices`; the error names the closest one."""

    def check(text: str) -> str:
        if text not in choices:
            near = difflib.get_close_matches(text, choices, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(choices)}{hint}")
        return text

    return check


#: Metavar of a kind of copy: KIND of all brokers, ID=KIND of one.
KIND_OF_BROKER = "[ID=]KIND"


def kind_of_broker(text: str) -> tuple[int | None, str]:
    """(broker id, kind) in `2=killed`; the id is None in `killed`."""
    broker, has_id, kind = text.rpartition("=")
    return (broker_id(broker) if has_id else None), one_of(CAPTURE_KINDS)(kind)


def broker_id(text: str) -> int:
    """A broker id."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a broker id")
    return int(text)


def broker_ids(text: str) -> list[int]:
    """Comma-separated broker ids; an empty list for an empty text."""
    return [broker_id(part.strip()) for part in text.split(",") if part.strip()]


def positive_count(text: str) -> int:
    """A whole number of 1 or more."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def moment(text: str) -> int:
    """A time in ISO 8601, as milliseconds since the epoch."""
    try:
        return parse_time(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2025-01-31T10:00:00Z") from None


def names_list(text: str) -> list[str]:
    """Comma-separated names, at least one."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} has no names; they are separated by commas")
    return names


def _add_place(arguments: argparse._ArgumentGroup) -> None:
    # Optional, since --print-config needs none; otherwise `parser.parse_arguments` requires it.
    text = "directory or URI of the copied log dirs, or of evidence"
    arguments.add_argument("snapshot", metavar="SNAPSHOT", nargs="?", help=text)


def _add_snapshot(command: argparse.ArgumentParser) -> None:
    _add_place(command.add_argument_group("arguments"))


def _add_snapshot_id(command: argparse.ArgumentParser) -> None:
    command.add_argument("--snapshot-id", metavar="ID", help="ingested snapshot to audit (default: the latest)")


def _add_table(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("one table of the answer")
    text = "print this table only (default with --format csv: the first); docs/reference.md, Tables"
    group.add_argument("--table", metavar="NAME", help=text)
    text = "columns to print, such as topic,partition,verdict (default: all)"
    group.add_argument("--columns", metavar="NAMES", type=names_list, help=text)


def _add_report_arguments(command: argparse.ArgumentParser) -> None:
    _add_audit_id(command)
    _add_table(command)


def _add_audit_id(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--audit-id", metavar="ID", help="id of the finished audit to use, or its beginning (default: the latest)"
    )


def _add_history_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--limit", metavar="N", type=positive_count, help="show only the latest N audits (default: all)"
    )
    text = "first remove audits beyond keep_days and keep_audits, and leftovers of killed runs"
    command.add_argument("--prune", action="store_true", help=text)
    _add_table(command)


def _add_show_arguments(command: argparse.ArgumentParser) -> None:
    arguments = command.add_argument_group("arguments")
    _add_place(arguments)
    text = "for example orders-0 (default: a triage of all partitions)"
    arguments.add_argument("topic_partition", metavar="TOPIC-PARTITION", nargs="?", help=text)
    _add_table(command)
    text = "if SNAPSHOT is evidence: write to FILE the bytes that the answer still needs, for capture-plan --wanted"
    command.add_argument("--wanted", metavar="FILE", help=text)


def _add_plan(command: argparse.ArgumentParser, written: str) -> None:
    """Add the arguments of a command that makes a plan; `written` names what --plan writes."""
    command.add_argument("--bootstrap-server", metavar="HOST:PORT", help="brokers to name in the plan's commands")
    text = "client properties file to name in the plan's commands"
    command.add_argument("--command-config", metavar="FILE", help=text)
    command.add_argument("--plan", metavar="FILE", help=f"write {written} to this file, as JSON")
    text = "list the changes since this plan was made; exit status 1 if there are any"
    command.add_argument("--check", metavar="PLAN", help=text)


def _add_elect_arguments(command: argparse.ArgumentParser) -> None:
    arguments = command.add_argument_group("arguments")
    _add_place(arguments)
    text = "for example orders-0 (default: every partition that needs a decision)"
    arguments.add_argument("topic_partitions", metavar="TOPIC-PARTITION", nargs="*", help=text)
    text = "plan for this broker, whatever it costs"
    command.add_argument("--candidate", metavar="ID", type=broker_id, help=text)
    text = "brokers that are up, such as 1,3 (default: what fencing and clean-shutdown flags show)"
    command.add_argument("--up", metavar="IDS", type=broker_ids, help=text)
    text = "brokers that are down and were stopped cleanly"
    command.add_argument("--stopped-cleanly", metavar="IDS", type=broker_ids, help=text)
    _add_plan(command, "the plan")


def _add_quorum_arguments(command: argparse.ArgumentParser) -> None:
    _add_place(command.add_argument_group("arguments"))
    text = "plan for the log of this node, once people have chosen its history (default: the best; no effect if there is nothing to choose)"
    command.add_argument("--choose", metavar="NODE", type=broker_id, help=text)
    _add_plan(command, "the answer with its plan")


def _add_verify_arguments(command: argparse.ArgumentParser) -> None:
    arguments = command.add_argument_group("arguments")
    arguments.add_argument("before", metavar="BEFORE", nargs="?", help="the earlier copy of the log dirs")
    arguments.add_argument("after", metavar="AFTER", nargs="?", help="a later copy, of the same cluster")
    text = "plan.json of elect: compare with what it predicted"
    command.add_argument("--plan", metavar="FILE", help=text)
    _add_table(command)


def _add_salvage_arguments(command: argparse.ArgumentParser) -> None:
    _add_place(command.add_argument_group("arguments"))
    command.add_argument("--to", metavar="DIR", help="new directory for the result (required)")
    text = "write the records themselves: keys, values and headers"
    command.add_argument("--payloads", action="store_true", help=text)
    text = f"format of the records: {', '.join(RECORD_FORMS)}; repeatable (default: all)"
    command.add_argument(
        "--form", metavar="FORM", action="append", type=one_of(RECORD_FORMS), choices=RECORD_FORMS, help=text
    )
    text = f"bytes in records.jsonl: {', '.join(RECORD_ENCODINGS)} where they are UTF-8 (default: %(default)s)"
    command.add_argument(
        "--encoding",
        metavar="NAME",
        type=one_of(RECORD_ENCODINGS),
        choices=RECORD_ENCODINGS,
        default="base64",
        help=text,
    )
    text = "salvage what the leaders chosen by this plan.json lose (default: what the present leaders lack)"
    command.add_argument("--plan", metavar="FILE", help=text)
    text = "include records of aborted and open transactions"
    command.add_argument("--include-aborted", action="store_true", help=text)
    text = "include records past the leader's end that may only be missing because it was copied earlier"
    command.add_argument("--include-ahead", action="store_true", help=text)
    text = "if SNAPSHOT is evidence: write to FILE the bytes that the salvage still needs, for capture-plan --wanted"
    command.add_argument("--wanted", metavar="FILE", help=text)


def _add_restore_arguments(command: argparse.ArgumentParser) -> None:
    arguments = command.add_argument_group("arguments")
    arguments.add_argument("directory", metavar="DIR", nargs="?", help="the directory that salvage --payloads wrote")
    command.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="the cluster (required)")
    text = "client properties: security.protocol, sasl.*, ssl.* and others"
    command.add_argument("--command-config", metavar="FILE", help=text)
    text = "produce to the topics that the records came from (default: to TOPIC.salvaged)"
    command.add_argument("--to-original", action="store_true", help=text)
    text = "do not add headers that name each record's source"
    command.add_argument("--no-headers", action="store_true", help=text)
    text = "nothing was restored before: start at the first record if no progress is recorded"
    command.add_argument("--from-start", action="store_true", help=text)
    text = "skip records that the leader of their own partition still holds: they were never lost"
    command.add_argument("--skip-present", action="store_true", help=text)
    text = "skip records of compacted topics whose key has a later value (with --to-original)"
    command.add_argument("--skip-superseded", action="store_true", help=text)
    text = "most records in one transaction (default: %(default)s)"
    command.add_argument("--transaction-records", metavar="N", type=positive_count, default=500, help=text)
    group = command.add_mutually_exclusive_group()
    group.add_argument("--dry-run", action="store_true", help="do everything except write")
    group.add_argument("--check", action="store_true", help="only read the target and compare it with the manifest")
    command.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _add_observe_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="the cluster (required)")
    text = "client properties by Kafka's names: security.protocol, sasl.*, ssl.* and others"
    command.add_argument("--command-config", metavar="FILE", help=text)
    command.add_argument("--to", metavar="DIR", help="new directory for the snapshot (required)")
    text = "read only the last N offsets of a partition, and as much more as a replica is behind"
    command.add_argument("--last", metavar="N", type=positive_count, help=text)
    text = "read only from the first record of this time on, ISO 8601 (UTC where no zone is given)"
    command.add_argument("--since", metavar="TIME", dest="since_ms", type=moment, help=text)
    text = "most MiB to read from one broker in a second (default: %(default)s)"
    command.add_argument("--rate-mib", metavar="N", type=positive_count, default=10, help=text)
    text = "most MiB to read from all of them before asking again (default: twice the estimate)"
    command.add_argument("--at-most-mib", metavar="N", type=positive_count, help=text)
    text = "do not ask for confirmation before reading"
    command.add_argument("--yes", action="store_true", help=text)


def _add_capture_arguments(command: argparse.ArgumentParser) -> None:
    arguments = command.add_argument_group("arguments")
    text = "a broker and its log dirs: ID=DIR, ID=DIR,DIR (several disks), ID@HOST=DIR (over ssh)"
    arguments.add_argument("brokers", metavar="BROKER", nargs="*", help=text)
    text = "directory to copy the snapshot to (default: %(default)s)"
    command.add_argument("--to", metavar="DIR", default=DEFAULT_TARGET, help=text)
    text = "rename what an earlier try left in DIR, instead of refusing it"
    command.add_argument("--move-aside", action="store_true", help=text)
    text = "topic listing: brokers that lead fewer partitions are copied first (default: the order given)"
    command.add_argument("--describe", metavar="FILE", help=text)
    command.add_argument("--bootstrap-server", metavar="HOST:PORT", help="have the script take the topic listing")
    text = (
        f"state of the brokers during the copy, {', '.join(CAPTURE_KINDS)}, or of one of them (default: live where the script sees "
        "that a broker runs, else unknown)"
    )
    command.add_argument("--kind", metavar=KIND_OF_BROKER, type=kind_of_broker, action="append", default=[], help=text)
    text = "collect evidence instead of copies (docs/evidence.md)"
    command.add_argument("--evidence", action="store_true", help=text)
    text = "as --evidence, but leave out what archives in --to have already, and what has not changed since"
    command.add_argument("--after", action="store_true", dest="goes_on", help=text)
    text = "with --evidence: who reads on the brokers, by sudo without a password (default: who logs in)"
    command.add_argument("--sudo", metavar="USER", help=text)
    text = "as --evidence, but collect only the bytes that FILE names, a wanted.json of show, salvage or a report"
    command.add_argument("--wanted", metavar="FILE", help=text)
    text = "with --evidence: options for the collector, such as '--topic orders --rate-mib 20'"
    command.add_argument("--collect-options", metavar="TEXT", default="", help=text)
    command.add_argument("--collector", action="store_true", help="print the collector alone, collect.py")


def _add_evidence_arguments(command: argparse.ArgumentParser) -> None:
    arguments = command.add_argument_group("arguments")
    text = "directory that capture-plan --evidence collected into"
    arguments.add_argument("directory", metavar="DIR", nargs="?", help=text)
    text = "delete archives that were collected more than DAYS days ago, unless later evidence names files of them"
    command.add_argument("--prune", metavar="DAYS", type=positive_count, help=text)
    command.add_argument("--dry-run", action="store_true", help="with --prune: only say what it would delete")


def _add_explain_arguments(command: argparse.ArgumentParser) -> None:
    text = "a code such as HWM-LOSS, a prefix such as DIV, a verdict, or the id of a finding"
    command.add_argument_group("arguments").add_argument("code", metavar="CODE", nargs="?", help=text)


def _add_setup_arguments(command: argparse.ArgumentParser) -> None:
    what = command.add_mutually_exclusive_group()
    what.add_argument(
        "--check",
        action="store_true",
        help="only report what is there and what is missing; exit status 4 if something needed is missing",
    )
    what.add_argument("--remove", action="store_true", help="delete what was installed")
    source = command.add_mutually_exclusive_group()
    source.add_argument("--offline", metavar="DIR", help="take the JARs from this directory, and reach no network")
    source.add_argument(
        "--ivy-settings", metavar="FILE", help="where the JARs come from: a mirror, in a copy of conf/ivysettings.xml"
    )


def _add_completion_arguments(command: argparse.ArgumentParser) -> None:
    arguments = command.add_argument_group("arguments")
    arguments.add_argument("shell", metavar="SHELL", type=one_of(SHELLS), choices=SHELLS, help=", ".join(SHELLS))


def _add_help_arguments(command: argparse.ArgumentParser) -> None:
    arguments = command.add_argument_group("arguments")
    known = tuple(COMMANDS)
    text = "command to explain"
    arguments.add_argument("about", metavar="COMMAND", nargs="?", type=one_of(known), choices=known, help=text)


COMMANDS: dict[str, Command] = {
    "run": Command(
        "replica_audit.cli.warehouse_commands.run",
        "ingest a snapshot, audit it, check the quality and write the report: the main job",
        "SNAPSHOT",
        _add_snapshot,
        ("snapshot",),
        extra="spark",
    ),
    "ingest": Command(
        "replica_audit.cli.warehouse_commands.ingest",
        "read a snapshot into the warehouse",
        "SNAPSHOT",
        _add_snapshot,
        ("snapshot",),
        EXIT_STATUS_OF_INGEST,
        extra="spark",
    ),
    "audit": Command(
        "replica_audit.cli.warehouse_commands.audit",
        "audit an ingested snapshot",
        "",
        _add_snapshot_id,
        extra="spark",
    ),
    "quality": Command(
        "replica_audit.cli.warehouse_commands.quality",
        "check the quality of a finished audit with Great Expectations",
        "",
        _add_audit_id,
        extra="quality",
    ),
    "report": Command(
        "replica_audit.cli.warehouse_commands.report",
        "write the report of a finished audit",
        "",
        _add_report_arguments,
        extra="report",
    ),
    "history": Command(
        "replica_audit.cli.warehouse_commands.history",
        "list the audits in a warehouse: verdicts over time, and when each finding first appeared",
        "",
        _add_history_arguments,
        epilog=EXIT_STATUS_OF_PRINTING,
        extra="report",
    ),
    "show": Command(
        "replica_audit.cli.show_command.show",
        "audit in the terminal, without Spark: one partition, or a triage of all",
        "SNAPSHOT [TOPIC-PARTITION]",
        _add_show_arguments,
        ("snapshot",),
    ),
    "elect": Command(
        "replica_audit.cli.elect_command.elect",
        "compare the cost of each choice of leader, and plan the election of the best",
        "SNAPSHOT [TOPIC-PARTITION...]",
        _add_elect_arguments,
        ("snapshot",),
        EXIT_STATUS_OF_ELECT,
    ),
    "quorum": Command(
        "replica_audit.cli.quorum_command.quorum",
        "compare the copies of the metadata log, and plan to put the right one into force",
        "SNAPSHOT",
        _add_quorum_arguments,
        ("snapshot",),
        EXIT_STATUS_OF_QUORUM,
    ),
    "verify": Command(
        "replica_audit.cli.verify_command.verify",
        "check in two snapshots of a cluster that every follower kept exactly what it should have",
        "BEFORE AFTER",
        _add_verify_arguments,
        ("before", "after"),
        EXIT_STATUS_OF_VERIFY,
    ),
    "salvage": Command(
        "replica_audit.cli.salvage_command.salvage",
        "extract records that other replicas hold and the leader's log lacks",
        "SNAPSHOT --to DIR",
        _add_salvage_arguments,
        ("snapshot",),
        EXIT_STATUS_OF_SALVAGE,
    ),
    "restore": Command(
        "replica_audit.cli.restore_command.restore",
        "produce salvaged records to a cluster, each exactly once; the only command that writes to one",
        "DIR --bootstrap-servers HOST:PORT",
        _add_restore_arguments,
        epilog=EXIT_STATUS_OF_RESTORE,
    ),
    "capture-plan": Command(
        "replica_audit.cli.capture_plan_command.capture_plan",
        "print a shell script that copies the log dirs of the given brokers, or collects evidence of them",
        "BROKER...",
        _add_capture_arguments,
        epilog=EXIT_STATUS_OF_PRINTING,
    ),
    "evidence": Command(
        "replica_audit.cli.evidence_command.evidence",
        "list archives of evidence, and delete those that no audit needs any more",
        "DIR",
        _add_evidence_arguments,
        epilog=EXIT_STATUS_OF_PRINTING,
    ),
    "observe": Command(
        "replica_audit.cli.observe_command.observe",
        "read the batch headers of every live replica of a running cluster, as a client, into a snapshot",
        "--bootstrap-servers HOST:PORT --to DIR",
        _add_observe_arguments,
        epilog=EXIT_STATUS_OF_OBSERVE,
    ),
    "explain": Command(
        "replica_audit.cli.explain_command.explain",
        "explain a finding or a verdict: meaning, proof and remedy; without an argument, list all codes",
        "[CODE | FINDING_ID]",
        _add_explain_arguments,
        epilog=EXIT_STATUS_OF_PRINTING,
    ),
    "setup": Command(
        "replica_audit.cli.setup_command.setup",
        "install what a run on this machine needs besides packages: JARs, and what makes it start sooner",
        "",
        _add_setup_arguments,
        epilog=EXIT_STATUS_OF_SETUP,
        common=False,
        extra="spark",
    ),
    "completion": Command(
        "replica_audit.cli.completion.print_completion",
        "print the completion script for your shell",
        "SHELL",
        _add_completion_arguments,
        epilog=None,
        common=False,
    ),
    "help": Command(
        "replica_audit.cli.parser.print_help",
        "show this help, or that of a command",
        "[COMMAND]",
        _add_help_arguments,
        epilog=None,
        common=False,
    ),
}

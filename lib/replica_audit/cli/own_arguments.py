"""What each command takes beside the common options (`options`): its arguments, options of its own, and its exit status in words."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from replica_audit.cli.options import one_of
from replica_audit.report.capture_script import KINDS

SHELLS = ("bash", "zsh", "fish")

#: As in `salvage.record_files`, which is not imported for the help.
FORMS = ("jsonl", "parquet", "segments")
ENCODINGS = ("base64", "text")

DEFAULT_TARGET = "/backup/snapshot"

EXIT_STATUS = """exit status:
  0    nothing at or above --fail-on
  1    findings at or above --fail-on
  2    usage or configuration
  3    the audit cannot be trusted whole
  4    engine or internal error
  130  interrupted (143: terminated)
"""

EXIT_STATUS_OF_VERIFY = """exit status:
  0    every replica kept exactly what it should have
  1    one did not, has not followed yet, or committed records are lost
  2    usage or configuration
  3    part of it could not be judged
  4    internal error
"""

EXIT_STATUS_OF_SALVAGE = """exit status:
  0    all that is there was written (without --payloads: can be read)
  1    records that are known to be there were not
  2    usage or configuration
  3    something that may hold records could not be read
  4    internal error
"""

EXIT_STATUS_OF_RESTORE = """exit status:
  0    all records are there (--check: once, in order)
  1    --check found a difference
  2    usage, configuration, or refused: nothing was produced
  4    the cluster did not do what it was asked to
"""


def _add_place(arguments: argparse._ArgumentGroup) -> None:
    """SNAPSHOT, which may be left out together with --print-config; `parser.parse_arguments` asks for it otherwise."""
    text = "directory or URI of the copied log dirs"
    arguments.add_argument("snapshot", metavar="SNAPSHOT", nargs="?", help=text)


def add_snapshot(command: argparse.ArgumentParser) -> None:
    """SNAPSHOT, of `run` and `ingest`."""
    _add_place(command.add_argument_group("arguments"))


def add_snapshot_id(command: argparse.ArgumentParser) -> None:
    """The options of `audit`."""
    command.add_argument("--snapshot-id", metavar="ID", help="which ingested snapshot (default: the latest)")


def add_audit_id(command: argparse.ArgumentParser) -> None:
    """The options of `report` and `quality`."""
    command.add_argument("--audit-id", metavar="ID", help="which finished audit (default: the latest)")


def add_history_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `history`."""
    command.add_argument("--limit", metavar="N", type=_count, help="only the latest N audits (default: all)")
    text = "first remove audits that keep_days and keep_audits do not keep, and what killed runs left"
    command.add_argument("--prune", action="store_true", help=text)


def add_show_arguments(command: argparse.ArgumentParser) -> None:
    """The arguments of `show`."""
    arguments = command.add_argument_group("arguments")
    _add_place(arguments)
    text = "for example orders-0; without, all partitions are triaged"
    arguments.add_argument("topic_partition", metavar="TOPIC-PARTITION", nargs="?", help=text)


def add_elect_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `elect`, and its arguments into their group."""
    arguments = command.add_argument_group("arguments")
    _add_place(arguments)
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


def add_verify_arguments(command: argparse.ArgumentParser) -> None:
    """The arguments of `verify`, and its option."""
    arguments = command.add_argument_group("arguments")
    arguments.add_argument("before", metavar="BEFORE", nargs="?", help="the log dirs as they were")
    arguments.add_argument("after", metavar="AFTER", nargs="?", help="those of the same cluster, copied later")
    text = "plan.json of elect: say whether what it predicted happened"
    command.add_argument("--plan", metavar="FILE", help=text)


def add_salvage_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `salvage`."""
    _add_place(command.add_argument_group("arguments"))
    command.add_argument("--to", metavar="DIR", help="new directory for the result (needed)")
    text = "write the records themselves, too: keys, values and headers"
    command.add_argument("--payloads", action="store_true", help=text)
    text = f"how records are written: {', '.join(FORMS)}; repeatable (default: all of them)"
    command.add_argument("--form", metavar="FORM", action="append", type=one_of(FORMS), choices=FORMS, help=text)
    text = f"bytes in records.jsonl: {', '.join(ENCODINGS)} where they are UTF-8 (default: %(default)s)"
    command.add_argument(
        "--encoding", metavar="NAME", type=one_of(ENCODINGS), choices=ENCODINGS, default="base64", help=text
    )
    text = "take out what the leaders that this plan.json chose lose (default: what the present leaders lack)"
    command.add_argument("--plan", metavar="FILE", help=text)
    text = "take records of aborted and open transactions, too"
    command.add_argument("--include-aborted", action="store_true", help=text)
    text = "take records past the leader's end, too, where only the moments of the copies may differ"
    command.add_argument("--include-ahead", action="store_true", help=text)


def add_restore_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `restore`, and its argument into its group."""
    arguments = command.add_argument_group("arguments")
    arguments.add_argument("directory", metavar="DIR", nargs="?", help="what salvage --payloads wrote")
    command.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="the cluster (needed)")
    text = "client properties: security.protocol, sasl.*, ssl.* and others"
    command.add_argument("--command-config", metavar="FILE", help=text)
    text = "produce to the topics that the records are of (default: to TOPIC.salvaged)"
    command.add_argument("--to-original", action="store_true", help=text)
    command.add_argument(
        "--no-headers", action="store_true", help="leave out the headers that name each record's source"
    )
    text = "nothing was restored before: begin with the first record where no progress is known"
    command.add_argument("--from-start", action="store_true", help=text)
    text = "leave out records that the leader of their own partition holds: they were never lost"
    command.add_argument("--skip-present", action="store_true", help=text)
    text = "records that one transaction holds at most (default: %(default)s)"
    command.add_argument("--transaction-records", metavar="N", type=_count, default=500, help=text)
    group = command.add_mutually_exclusive_group()
    group.add_argument("--dry-run", action="store_true", help="do everything but write")
    group.add_argument("--check", action="store_true", help="only read the target and compare it with the manifest")
    command.add_argument("--yes", action="store_true", help="do not ask")


def add_capture_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `capture-plan`, and its arguments into their group."""
    arguments = command.add_argument_group("arguments")
    text = "a broker and its log dirs: ID=DIR, ID=DIR,DIR (several disks), ID@HOST=DIR (by ssh)"
    arguments.add_argument("brokers", metavar="BROKER", nargs="*", help=text)
    command.add_argument(
        "--to", metavar="DIR", default=DEFAULT_TARGET, help="where the snapshot goes (default: %(default)s)"
    )
    text = "listing of the topics: brokers that lead less are copied first (default: the order given)"
    command.add_argument("--describe", metavar="FILE", help=text)
    command.add_argument("--bootstrap-server", metavar="HOST:PORT", help="let the plan take the listing of the topics")
    text = f"what the brokers do meanwhile: {', '.join(KINDS)} (default: %(default)s)"
    command.add_argument("--kind", metavar="KIND", type=one_of(KINDS), choices=KINDS, default="live", help=text)


def add_explain_arguments(command: argparse.ArgumentParser) -> None:
    """The argument of `explain`."""
    text = "a code such as HWM-LOSS, the beginning of some such as DIV, a verdict, or the id of a finding"
    command.add_argument_group("arguments").add_argument("code", metavar="CODE", nargs="?", help=text)


def add_completion_arguments(command: argparse.ArgumentParser) -> None:
    """The argument of `completion`."""
    arguments = command.add_argument_group("arguments")
    arguments.add_argument("shell", metavar="SHELL", type=one_of(SHELLS), choices=SHELLS, help=", ".join(SHELLS))


def add_help_arguments(command: argparse.ArgumentParser, known: Iterable[str]) -> None:
    """The argument of `help`, one of the commands that are `known`."""
    arguments = command.add_argument_group("arguments")
    known = tuple(known)
    arguments.add_argument("about", metavar="COMMAND", nargs="?", type=one_of(known), choices=known, help="which")


def _broker(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a broker id")
    return int(text)


def _brokers(text: str) -> list[int]:
    return [_broker(part.strip()) for part in text.split(",") if part.strip()]


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)

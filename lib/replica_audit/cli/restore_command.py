"""`restore`: produces salvaged records to a cluster. The only command that writes to one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from replica_audit.cli.output import ask_for_consent, print_note, print_object
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.client_properties import read_client_properties
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.paths import local_path
from replica_audit.report.layout import align_columns, clean, wrap
from replica_audit.restore.checking import Check, check_partition
from replica_audit.restore.kafka_client import Contact
from replica_audit.restore.restore import (
    PlannedRestore,
    RestoredPartition,
    RestoreOptions,
    counts_of,
    plan_restore,
    preview,
    targets_of,
)
from replica_audit.restore.restore import restore as restore_records
from replica_audit.restore.salvaged_records import SalvagedRecords
from replica_audit.text import count, verb

DIFFERENT = 1


def restore(arguments: argparse.Namespace, settings: Settings) -> int:
    """Restore, or check; 1 if a check finds a difference. Raises UsageError for a refused restore."""
    if arguments.directory is None:
        raise UsageError("restore: DIR is missing: give a directory that replica-audit salvage --payloads wrote")
    properties = read_client_properties(arguments.command_config)
    bootstrap = properties.bootstrap("restore", arguments.bootstrap_servers)
    place = local_path(arguments.directory)
    if place is None:
        raise UsageError(f"restore: {arguments.directory} is not a local directory: copy what salvage wrote to one")
    records = SalvagedRecords(Path(place), settings.topics)
    contact = Contact(bootstrap, properties)
    for note in properties.notes:
        print_note(note)
    options = RestoreOptions(
        arguments.to_original,
        not arguments.no_headers,
        arguments.from_start,
        arguments.skip_present,
        arguments.skip_superseded,
    )
    if arguments.check or (arguments.yes and not arguments.dry_run):  # else the plan says it
        for note in records.notes():
            print_note(note)
    if arguments.check:
        checks = [
            check_partition(records, source, target, contact, options)
            for source, target in targets_of(records, contact, options)
        ]
        status = 0 if all(check.is_whole for check in checks) else DIFFERENT
        content = {"checks": [check.row() for check in checks], "exit_status": status}
        print_object(content, _render_checks(checks), settings)
        return status
    plan = plan_restore(records, contact, options)
    before = preview(records, plan, contact, options)
    counts = counts_of(before)
    text = _render_plan(plan, before, arguments.dry_run)
    if arguments.dry_run:
        said = {
            "cluster_id": plan.cluster_id,
            "new_topics": [asdict(topic) for topic in plan.new_topics],
            "notes": list(plan.notes),
        }
        content = {"plan": said, "partitions": [one.row() for one in before], **counts, "exit_status": 0}
        print_object(content, text, settings)
        return 0
    if counts["left"] and not arguments.yes:
        print_note(text.rstrip("\n"))
        nobody = "restore: nobody can be asked here: give --yes to produce, or --dry-run to look"
        ask_for_consent(f"Produce {count(counts['left'], 'record')}?", nobody, "restore: nothing was produced")
    progress = ProgressLine(settings.quiet)
    progress.begin("restoring records")
    try:
        outcomes = restore_records(records, plan, contact, options, arguments.transaction_records)
    finally:
        progress.end()
    content = {"partitions": [one.row() for one in outcomes], **counts_of(outcomes), "exit_status": 0}
    print_object(content, _render_outcomes(outcomes), settings)
    return 0


def _render_plan(plan: PlannedRestore, partitions: Sequence[RestoredPartition], dry: bool) -> str:
    """Render the plan, with the records already in the targets."""
    lines = wrap(f"Cluster {clean(plan.cluster_id)}")
    table: list[tuple[str, ...]] = [("TARGET", "PART", "RECORDS", "THERE ALREADY", "NEVER LOST")]
    table += [
        (clean(one.target.topic), *map(str, (one.target.partition, one.records, one.before, one.present)))
        for one in partitions
    ]
    lines += ["", *align_columns(table, (1, 2, 3, 4)), ""]
    for topic in plan.new_topics:
        configs = ", ".join(f"{name}={value}" for name, value in sorted(topic.configs.items()))
        lines += wrap(f"Topic {clean(topic.name)} is created: {count(topic.partitions, 'partition')}, {configs}.")
    for note in plan.notes:
        lines += wrap(note)
    old = [one for one in partitions if one.superseded]
    if old:
        each = ", ".join(f"{clean(one.target)} {one.superseded} of {one.records}" for one in old)
        lines += wrap(f"Left out, since their keys have later values: {each}.")
    left = sum(one.left for one in partitions)
    lines += wrap(f"{count(left, 'record')} {'would' if dry else 'will'} be produced.")
    return "\n".join(lines) + "\n"


def _render_outcomes(partitions: Sequence[RestoredPartition]) -> str:
    """Render for each target how many records were produced, were there before, and were left out."""
    lines = []
    for row in partitions:
        more = f", {row.before} were there before" if row.before else ""
        more += f", {row.present} left out: they were never lost" if row.present else ""
        more += f", {row.superseded} left out: their keys have later values" if row.superseded else ""
        lines += wrap(f"{clean(row.target)}: {count(row.left, 'record')} produced{more}.")
    return "\n".join([*lines, "restore --check compares the target with the manifest."]) + "\n"


def _render_checks(checks: Sequence[Check]) -> str:
    """Render for each target whether it has every record of the manifest once and in order."""
    lines = []
    for row in checks:
        place = clean(row.target)
        counted = {
            "missing": row.missing,
            "there again": row.repeated,
            "out of order": row.out_of_order,
            "changed": row.changed,
        }
        wrong = [f"{number} {words}" for words, number in counted.items() if number]
        if wrong:
            lines += wrap(f"DIFFERENT: {place}: of {count(row.records, 'record')} {', '.join(wrong)}.")
        else:
            own = row.records - row.present - row.superseded
            more = f"; {row.present} more were never lost" if row.present else ""
            more += f"; the keys of {row.superseded} more have later values" if row.superseded else ""
            lines += wrap(f"OK: {place}: {count(own, 'record')} {verb(own, 'is', 'are')} there once, in order{more}.")
    return "\n".join(lines) + "\n"

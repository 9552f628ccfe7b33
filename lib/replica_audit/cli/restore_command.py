"""`restore`: produces salvaged records to a cluster. The only command that writes to one."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from replica_audit.cli.output import ask_for_consent, print_note, print_object
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.client_properties import read_client_properties
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.paths import local_path
from replica_audit.report.restore_text import render_checks, render_outcomes, render_plan
from replica_audit.restore.checking import check_partition
from replica_audit.restore.kafka_client import Contact
from replica_audit.restore.restore import RestoreOptions, counts_of, plan_restore, preview, targets_of
from replica_audit.restore.restore import restore as restore_records
from replica_audit.restore.salvaged_records import SalvagedRecords
from replica_audit.text import count

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
        print_object(content, render_checks(checks), settings)
        return status
    plan = plan_restore(records, contact, options)
    before = preview(records, plan, contact, options)
    counts = counts_of(before)
    text = render_plan(plan, before, arguments.dry_run)
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
    print_object(content, render_outcomes(outcomes), settings)
    return 0

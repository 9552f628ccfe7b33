"""`evidence`: lists the archives of evidence in a directory, and deletes those no longer needed."""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from replica_audit.cli.output import print_note, print_object
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.report.evidence_text import DAY_MS, render_archives
from replica_audit.snapshot.evidence_retention import claim_archives, delete_archives, find_archives, lock_of
from replica_audit.text import count, now_ms


def evidence(arguments: argparse.Namespace, settings: Settings) -> int:
    """List the archives, and with `--prune` delete those that are not needed."""
    if arguments.directory is None:
        raise UsageError("evidence: no directory; give the one that capture-plan --evidence collected into")
    directory = arguments.directory
    days = arguments.prune
    if arguments.dry_run and days is None:
        raise UsageError("evidence: --dry-run says what --prune DAYS would delete: give both")
    now = now_ms()
    since = now - (days or 0) * DAY_MS
    deletes = days is not None and not arguments.dry_run
    try:
        with ExitStack() as held:
            if deletes:
                archives, problems, busy = claim_archives(directory, since, held)
                for broker_id in busy:
                    print_note(
                        f"broker {broker_id}: all is kept, since a collection of it goes on; if none does, remove "
                        f"{lock_of(directory, broker_id)}"
                    )
            else:
                archives, problems = find_archives(directory, since)
            content = {
                "archives": [one._asdict() for one in archives],
                "unreadable": [{"path": path, "reason": reason} for path, reason in sorted(problems.items())],
            }
            print_object(content, render_archives(archives, problems, None if days else now), settings)
            gone = [one for one in archives if not one.needed]
            left = delete_archives(directory, gone) if deletes else {}
    except OSError as error:
        raise UsageError(f"evidence: {error}") from error
    if days is not None:
        done = "would be deleted" if arguments.dry_run else "deleted"
        freed = sum(one.bytes for one in gone if one.path not in left)
        print_note(f"{count(len(gone) - len(left), 'archive')} of {len(archives)} {done}, {freed / 2**20:.1f} MiB")
    if left:
        raise UsageError(f"evidence: not deleted: {', '.join(f'{path}: {reason}' for path, reason in left.items())}")
    return 0

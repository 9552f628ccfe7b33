"""The command `evidence`: which archives of evidence a directory has, and which of them are still needed."""

from __future__ import annotations

import argparse
import time

from replica_audit.cli.output import print_note, print_object
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.report.evidence_text import render_archives
from replica_audit.snapshot.evidence_retention import find_archives, prune_archives
from replica_audit.text import count

_DAY_MS = 86_400_000


def evidence(arguments: argparse.Namespace, settings: Settings) -> int:
    """List the archives, and with `--prune` delete those that are not needed."""
    if arguments.directory is None:
        raise UsageError("evidence: no directory; give the one that capture-plan --evidence collected into")
    days = arguments.prune
    if arguments.dry_run and days is None:
        raise UsageError("evidence: --dry-run says what --prune DAYS would delete: give both")
    since = time.time() * 1000 - (days or 0) * _DAY_MS
    try:
        archives, problems = find_archives(arguments.directory, since)
        if days is not None and not arguments.dry_run:
            prune_archives(arguments.directory, archives)
    except OSError as error:
        raise UsageError(f"evidence: {error}") from error
    content = {
        "archives": [one._asdict() for one in archives],
        "unreadable": [{"path": path, "reason": reason} for path, reason in sorted(problems.items())],
    }
    print_object(content, render_archives(archives, problems), settings)
    gone = [one for one in archives if not one.needed]
    if days is not None:
        done = "would be deleted" if arguments.dry_run else "deleted"
        freed = sum(one.bytes for one in gone)
        print_note(f"{count(len(gone), 'archive')} of {len(archives)} {done}, {freed / 2**20:.1f} MiB")
    return 0

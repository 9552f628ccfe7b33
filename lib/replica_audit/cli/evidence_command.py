"""`evidence`: lists the archives of evidence in a directory, and deletes those no longer needed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from contextlib import ExitStack

from replica_audit.cli.output import print_note, print_object
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.report.evidence_text import DAY_MS, render_archives
from replica_audit.snapshot.evidence_retention import Archive, claim_broker, find_archives
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
            archives, problems = _claimed(directory, since, held) if deletes else find_archives(directory, since)
            content = {
                "archives": [one._asdict() for one in archives],
                "unreadable": [{"path": path, "reason": reason} for path, reason in sorted(problems.items())],
            }
            print_object(content, render_archives(archives, problems, None if days else now), settings)
            gone = [one for one in archives if not one.needed]
            left = _delete(directory, gone) if deletes else {}
    except OSError as error:
        raise UsageError(f"evidence: {error}") from error
    if days is not None:
        done = "would be deleted" if arguments.dry_run else "deleted"
        freed = sum(one.bytes for one in gone if one.path not in left)
        print_note(f"{count(len(gone) - len(left), 'archive')} of {len(archives)} {done}, {freed / 2**20:.1f} MiB")
    if left:
        raise UsageError(f"evidence: not deleted: {', '.join(f'{path}: {reason}' for path, reason in left.items())}")
    return 0


def _claimed(directory: str, since: int, held: ExitStack) -> tuple[list[Archive], dict[str, str]]:
    """The archives, with their problems. All archives of a broker whose collection is running count as needed; no other
    collection can begin while `held` is open."""
    archives, problems = find_archives(directory, since)
    free = set()
    for broker_id in sorted({one.broker_id for one in archives if not one.needed}):
        if held.enter_context(claim_broker(directory, broker_id)):
            free.add(broker_id)
        else:
            lock = f"{directory}/.lock-{broker_id}"
            print_note(
                f"broker {broker_id}: all is kept, since a collection of it goes on; if none does, remove {lock}"
            )
    if free:
        # A collection may have ended meanwhile, and its archive may name others.
        archives, problems = find_archives(directory, since)
    return [one._replace(needed=one.needed or one.broker_id not in free) for one in archives], problems


def _delete(directory: str, archives: Iterable[Archive]) -> dict[str, str]:
    """Delete archives; returns those that could not be deleted, with the reason."""
    left = {}
    for one in archives:
        try:
            os.unlink(os.path.join(directory, one.path))
        except OSError as error:
            left[one.path] = error.strerror or str(error)
    return left

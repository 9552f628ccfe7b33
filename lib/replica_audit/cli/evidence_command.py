"""`evidence`: lists the archives of evidence in a directory, and deletes those no longer needed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from replica_audit.cli.output import print_note, print_object
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.report.layout import align_columns, clean
from replica_audit.snapshot.evidence_retention import Archive, claim_archives, delete_archives, find_archives, lock_of
from replica_audit.text import count, now_ms, render_time

_DAY_MS = 86_400_000


def evidence(arguments: argparse.Namespace, settings: Settings) -> int:
    """List the archives, and with `--prune` delete those that are not needed."""
    if arguments.directory is None:
        raise UsageError("evidence: no directory; give the one that capture-plan --evidence collected into")
    directory = arguments.directory
    days = arguments.prune
    if arguments.dry_run and days is None:
        raise UsageError("evidence: --dry-run says what --prune DAYS would delete: give both")
    now = now_ms()
    since = now - (days or 0) * _DAY_MS
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
            print_object(content, _render_archives(directory, archives, problems, None if days else now), settings)
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


def _render_archives(
    directory: str, archives: Sequence[Archive], problems: Mapping[str, str], now_ms: int | None
) -> str:
    """Render a table of the archives, and a line for each unreadable one; `now_ms` is given if no age limit for deletion was."""
    rows = [
        [
            clean(one.path),
            f"broker {one.broker_id}",
            one.kind,
            render_time(one.started_ms, "seconds"),
            f"{one.bytes / 2**20:.1f} MiB",
            _standing(one, now_ms),
        ]
        for one in archives
    ]
    lines = align_columns(rows) if rows else [f"{clean(directory)} has no archive of evidence"]
    lines += [f"{clean(path)}: kept, since it cannot be read: {clean(reason)}" for path, reason in problems.items()]
    return "\n".join(lines)


def _standing(one: Archive, now_ms: int | None) -> str:
    if one.named:
        return f"needed: later evidence names {count(one.named, 'file')} of it"
    if one.needed:
        return "kept"
    if now_ms is not None:
        return f"not named, {count((now_ms - one.started_ms) // _DAY_MS, 'day')} old"
    return "not needed" if one.kind != "wanted" else "expires"

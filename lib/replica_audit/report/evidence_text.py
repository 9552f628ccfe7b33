"""Text of `evidence`: a line for each archive, with the reason why it is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replica_audit.report.layout import align_columns, clean
from replica_audit.snapshot.evidence_retention import Archive
from replica_audit.text import count, render_time

DAY_MS = 86_400_000


def render_archives(archives: Sequence[Archive], problems: Mapping[str, str], now_ms: int | None) -> str:
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
    lines = align_columns(rows) if rows else ["no evidence"]
    lines += [f"{clean(path)}: kept, since it cannot be read: {clean(reason)}" for path, reason in problems.items()]
    return "\n".join(lines)


def _standing(one: Archive, now_ms: int | None) -> str:
    if one.named:
        return f"needed: later evidence names {count(one.named, 'file')} of it"
    if one.needed:
        return "kept"
    if now_ms is not None:
        return f"not named, {count((now_ms - one.started_ms) // DAY_MS, 'day')} old"
    return "not needed" if one.kind != "wanted" else "expires"

"""Text of `salvage` for a terminal: salvaged records, those left out, and unreadable input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from replica_audit.report.layout import align_columns, clean, cut_column, drop_columns, paint, wrap
from replica_audit.report.sentences import join_some
from replica_audit.salvage.compared_logs import KINDS, REMOTE_KIND
from replica_audit.salvage.salvage_manifest import (
    ManifestEpoch,
    ManifestFinds,
    ManifestHead,
    ManifestPartition,
    ManifestTotals,
    ManifestUnexpanded,
    ManifestUnread,
)
from replica_audit.text import count, name_brokers, name_offsets, render_time, verb

_HEAD = ("TOPIC", "PART", "RECORDS", "COMMITTED", "OFFSETS", "EPOCH", "FIRST TIME", "LAST TIME", "HELD BY")
_RIGHT = (1, 2, 3, 5)
_GIVE_WAY = ("FIRST TIME", "EPOCH", "COMMITTED", "LAST TIME")
_SHOWN = 40

#: Kinds of copies that are easily overlooked.
_ASIDE = frozenset(KINDS) - {"replica", "deleted_segments", REMOTE_KIND}

#: Clause by reason for which records were not salvaged, in the order of the text.
_LEFT = {
    "aborted_transaction": "of aborted transactions (--include-aborted takes them too)",
    "open_transaction": "of transactions that no marker ends (--include-aborted takes them too)",
    "ahead": "past the leader's end in its own epoch: the copies may be of different moments (--include-ahead takes them too)",
    "cleaned": "removed by the cleaner on the leader, or not yet fetched when it was compacted",
    "below_log_start": "below the log start of the leader or of the copy: deleted by retention or DeleteRecords",
    "in_remote_storage": "below the leader's local files, where it reads from remote storage",
    "control": "that end transactions (control records)",
    "repeated": "that one log holds twice",
}


def render_salvage(head: ManifestHead, target: str) -> str:
    """The head of a salvage's manifest as text; `target` is the directory that it lies in."""
    totals = head.totals
    partitions = head.partitions
    holding = [row for row in partitions if row.records]
    lines = [*wrap(_headline(head, holding)), *_unchecked(head)]
    if holding:
        rows = [
            list(_HEAD),
            *(_cells(row, finds, epoch) for row, finds in _with_finds(holding) for epoch in finds.epochs),
        ]
        shown = cut_column(drop_columns(rows[: _SHOWN + 1], _GIVE_WAY))
        right = [number for number, name in enumerate(shown[0]) if _HEAD.index(name) in _RIGHT]
        first, *others = align_columns(shown, right)
        lines += ["", paint(first, "head"), *others]
        if len(rows) > len(shown):
            lines.append(f"... {count(len(rows) - len(shown), 'more line')}, in manifest.json")
        about = _about(holding)
        lines += ["", *about] if about else []
    lines += _beside_plan(partitions)
    lines += _left(partitions, head.internal_partitions)
    if without := head.partitions_without_steps:
        text = (
            f"For {', '.join(map(clean, without[:5]))}{' and others' if len(without) > 5 else ''} the plan has no steps"
        )
        lines += [
            "",
            *wrap(f"{text}, so nothing was salvaged there; salvage without --plan uses the present leaders."),
        ]
    if head.unexpanded:
        lines += ["", *_unexpanded(head.unexpanded, head.payloads)]
    if head.unread:
        lines += ["", *_unread(head.unread)]
    lines += ["", *wrap(_written(totals, holding, target))]
    return "\n".join(lines) + "\n"


def _headline(head: ManifestHead, holding: Sequence[ManifestPartition]) -> str:
    if not head.partitions:
        return "No partition was searched."
    searched = f"{count(len(head.partitions), 'partition')} searched"
    one = len(holding) < 2
    logs = "its leader's log" if one else "their leaders' logs"
    if not all(row.log is None or row.log.is_leaders for row in holding or head.partitions):
        logs = "the log that it is compared with" if one else "the logs that they are compared with"
    if head.plan is not None:
        logs = "the log of the leader that the plan chose" if one else "the logs of the leaders that the plan chose"
    if not holding and (head.unread or head.unexpanded):
        return f"No record was found that is not in {logs}, but not everything could be read ({searched})."
    if not holding:
        return f"No copy in the snapshot holds a record that is not in {logs} ({searched})."
    records = count(head.totals.records, "record")
    are = verb(head.totals.records, "is", "are")
    held = {copy.kind for _, finds in _with_finds(holding) for copy in finds.copies if copy.holds}
    where = "in the remote store" if held == {REMOTE_KIND} else "in a copy"
    if REMOTE_KIND in held and len(held) > 1:
        where = "in a copy or the remote store"
    return f"{records} of {count(len(holding), 'partition')} {are} {where} and not in {logs} ({searched})."


def _unchecked(head: ManifestHead) -> list[str]:
    """Lines on batches of leaders' logs whose headers alone are in the evidence."""
    number = sum(one.log.unchecked_batches for one in head.partitions if one.log is not None)
    if not number:
        return []
    these = "batch of these logs, whose checksum was" if number == 1 else "batches of these logs, whose checksums were"
    return wrap(f"Damage inside {number:,} {these} not computed, would go unseen.")


def _cells(row: ManifestPartition, finds: ManifestFinds, epoch: ManifestEpoch) -> list[str]:
    is_first = epoch is finds.epochs[0]
    holders = [name_brokers(epoch.brokers)] if epoch.brokers else []
    if epoch.in_remote:
        holders.append("store")
    return [
        clean(row.topic),
        str(row.partition),
        str(epoch.records),
        str(finds.committed) if is_first else "",
        f"[{epoch.start_offset}, {epoch.end_offset})",
        "-" if epoch.leader_epoch is None else str(epoch.leader_epoch),
        render_time(finds.first_timestamp_ms, "seconds") if is_first else "",
        render_time(finds.last_timestamp_ms, "seconds") if is_first else "",
        " and ".join(holders),
    ]


def _with_finds(partitions: Sequence[ManifestPartition]) -> list[tuple[ManifestPartition, ManifestFinds]]:
    """Examined partitions with their finds."""
    return [(row, row.finds) for row in partitions if row.finds is not None]


def _about(holding: Sequence[ManifestPartition]) -> list[str]:
    """Sentences on producers, transactions, copies that are easily overlooked, and keys."""
    producers = {one.producer_id for _, finds in _with_finds(holding) for one in finds.producers} - {None}
    transactions: Counter[str] = Counter()
    for _, finds in _with_finds(holding):
        transactions.update(finds.transactions)
    lines = []
    if producers:
        lines.append(
            f"They were written by {count(len(producers), 'producer')} with an id (producers in manifest.json)."
        )
    if transactions:
        parts = [f"{number} {word}" for word, number in sorted(transactions.items())]
        lines.append(f"Transactions with records among them: {', '.join(parts)}.")
    holders = [copy for _, finds in _with_finds(holding) for copy in finds.copies if copy.records]
    if deleted := sorted({copy.path for copy in holders if copy.kind == "deleted_segments"}):
        lines.append(
            f"Some of them are only in files that Kafka is about to delete (*.deleted), in {join_some(deleted, 5, 'place')}."
        )
    if aside := sorted({copy.path for copy in holders if copy.kind in _ASIDE}):
        lines.append(f"Some of them are only in directories that Kafka has put aside: {join_some(aside, 5, 'place')}.")
    if stored := sum(copy.records for copy in holders if copy.kind == REMOTE_KIND):
        lines.append(
            f"{stored} of them {verb(stored, 'is', 'are')} taken out of the remote store: no log here has them."
        )
    for row, finds in _with_finds(holding):
        if finds.later_value is not None:
            of_keys = f"{clean(row.topic)}-{row.partition} is compacted: its leader has a later value"
            lines.append(f"{of_keys} of the key for {finds.later_value} of {count(row.records, 'record')}.")
    return [line for text in lines for line in wrap(text)]


def _beside_plan(partitions: Sequence[ManifestPartition]) -> list[str]:
    """Reason why the number of records differs from the plan's; empty if it does not."""
    known = [(row.plan.planned_loss, row.records) for row in partitions if row.plan is not None]
    planned, records = (sum(numbers) for numbers in zip(*known)) if known else (0, 0)
    if planned == records:
        return []
    counts = f"The plan counts {count(planned, 'record')} as lost"
    if planned < records:
        others = "the others are in copies that the plan does not cut, but in no log that consumers read"
    else:
        others = "those that are missing here are named below"
    return ["", *wrap(f"{counts}; {others}.")]


def _left(partitions: Sequence[ManifestPartition], internal: Sequence[str]) -> list[str]:
    counted: Counter[str] = Counter()
    for _, finds in _with_finds(partitions):
        counted.update(finds.left_out)
    others = [one for _, finds in _with_finds(partitions) for one in finds.other_topics]
    lines = []
    if any(counted.values()):
        lines += ["", "Not salvaged, counted for each copy:"]
        for word, text in _LEFT.items():
            if counted[word]:
                lines += wrap(f"{count(counted[word], 'record')} {text}", "  ", "    ")
    if others:
        are = verb(len(others), "directory of the same name is", "directories of the same names are")
        lines += wrap(
            f"{len(others)} {are} of another topic, or may be, and not searched (other_topics in manifest.json)."
        )
    if internal:
        are = verb(len(internal), "was", "were")
        text = (
            f"{count(len(internal), 'partition')} of Kafka's own topics {are} not searched; --topic NAME includes them"
        )
        lines += ["", *wrap(f"{text}.")]
    return lines


def _unexpanded(unexpanded: Sequence[ManifestUnexpanded], payloads: bool) -> list[str]:
    """Lines on batches too large to be expanded, and where they were copied."""
    records = sum(row.records or 0 for row in unexpanded)
    size = f"{count(len(unexpanded), 'batch', 'batches')} of {count(records, 'record')}"
    copied = sum(row.copied_to is not None for row in unexpanded)
    first = unexpanded[0]
    are = verb(len(unexpanded), "is", "are")
    lines = wrap(
        f"{size} {are} not in the leader's log either, and {are} not expanded: {first.file} at offset "
        f"{first.start_offset} {first.reason}."
    )
    if copied:
        return lines + wrap("Copied as they are, below segments/*.unexpanded; restore does not produce them.")
    if payloads:
        return lines + wrap("Not copied: --form segments, or no --form, copies them as they are.")
    return lines


def _unread(unread: Sequence[ManifestUnread]) -> list[str]:
    lines = [paint("Not readable, may hold records:", "high")]
    for row in unread[:_SHOWN]:
        place = ""
        if row.start_offset is not None:
            end = row.start_offset + 1 if row.end_offset is None else row.end_offset
            place = f" ({name_offsets(row.start_offset, end)})"
        lines += wrap(f"{row.path}{place}: {row.reason}", "  ", "    ")
    if len(unread) > _SHOWN:
        lines.append(f"  ... {len(unread) - _SHOWN} more, in manifest.json")
    return lines


def _written(totals: ManifestTotals, holding: Sequence[ManifestPartition], target: str) -> str:
    if totals.written is None:
        more = ", without the records: --payloads writes them" if holding else ""
        return f"{target}/manifest.json has all of this{more}."
    whole = totals.written == totals.expected
    number = count(totals.written, "record") if whole else f"{totals.written} of {count(totals.expected, 'record')}"
    return f"{number} written to {target}; manifest.json says where each comes from."

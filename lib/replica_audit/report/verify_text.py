"""Text of `verify`: a line for each replica that dropped records, and the status line."""

from __future__ import annotations

from collections.abc import Sequence

from replica_audit.report.audit_json import render_tables
from replica_audit.report.layout import (
    align_columns,
    clean,
    cut_column,
    drop_columns,
    paint,
    render_range,
    render_rest,
    wrap,
)
from replica_audit.results import place_of
from replica_audit.schema import VERIFICATION_TABLES, GoneRecordsRow, SurpriseRow, VerificationRow
from replica_audit.text import count, name_brokers, verb
from replica_audit.verify.verification import Verification

#: Maximum number of rows of each kind; --format json has all.
ROW_LIMIT = 60

#: Words and style of each verdict, in the order in which they are counted.
_VERDICTS = {
    "correct": ("correct", "good"),
    "not_yet": ("yet to follow", "medium"),
    "over_truncated": ("cut too far", "high"),
    "under_truncated": ("cut too little", "critical"),
    "lost_committed": ("lost committed records", "critical"),
}
_STATUS_STYLES = {"OK": "good", "CRITICAL": "critical", "UNKNOWN": "medium"}
_HEAD = ("TOPIC", "PART", "BROKER", "END BEFORE", "KEPT TO", "EXPECTED", "END AFTER", "VERDICT")
_GIVE_WAY = ("END BEFORE", "KEPT TO")
_COMMITTED = {"proven": "committed ", "possible": "possibly committed ", "no": ""}


def render_verification(found: Verification) -> str:
    """Render replicas that dropped records or are not correct, lost records, surprises, and the status line."""
    inputs = found.inputs
    cluster = f", cluster {inputs['cluster_id']}" if inputs["cluster_id"] else ""
    lines = wrap(
        f"Before: {inputs['before']}; after: {inputs['after']}{cluster}; truncation protocol: {inputs['protocol']}"
    )
    if inputs["copied_first"]:
        lines += wrap("By manifest.json the second snapshot was copied before the first: name the earlier one first")
    if went_back := inputs["went_back"]:
        lines += wrap(
            f"By the metadata log, or by leader epochs, {count(went_back, 'partition')} went back to an older state: name the earlier "
            "snapshot first, unless the later one has older copies of these, or was restored from older ones"
        )
    told = [row for row in found.verifications if _is_told(row)]
    if told:
        lines += ["", *_table(told[:ROW_LIMIT]), *render_rest(len(told) - ROW_LIMIT)]
    quiet = len(found.verifications) - len(told)
    if quiet:
        lines += [
            "",
            f"{count(quiet, 'other replica' if told else 'replica')} kept all that {verb(quiet, 'it', 'they')} held",
        ]
    if found.gone_records:
        lines += ["", paint("Held before, and on no replica now", "head")]
        for gone in found.gone_records[:ROW_LIMIT]:
            lines += wrap(_gone(gone), "", "  ")
        lines += render_rest(len(found.gone_records) - ROW_LIMIT)
    if found.surprises:
        lines += ["", paint("Different from what the plan predicted", "head")]
        for surprise in found.surprises[:ROW_LIMIT]:
            lines += wrap(_surprise(surprise), "", "  ")
        lines += render_rest(len(found.surprises) - ROW_LIMIT)
    if found.not_verified:
        lines += ["", paint("Not compared", "head")]
        for left in found.not_verified[:ROW_LIMIT]:
            lines += wrap(f"{clean(left.topic)}-{left.partition}: {left.reason}", "", "  ")
        lines += render_rest(len(found.not_verified) - ROW_LIMIT)
    return "\n".join([*lines, "", render_verification_status(found)]) + "\n"


def render_verification_status(found: Verification) -> str:
    """Render the last line: OK, CRITICAL or UNKNOWN, with counts."""
    replicas = len(found.verifications)
    partitions = found.inputs["partitions"]
    status = paint(found.status, _STATUS_STYLES[found.status])
    line = f"{status}: {count(replicas, 'replica')} of {count(partitions, 'partition')}"
    if not found.lost and all(row.verdict == "correct" for row in found.verifications):
        line += f" kept exactly what {verb(replicas, 'it', 'they')} should"
    for verdict, (words, _) in _VERDICTS.items():
        number = sum(row.verdict == verdict for row in found.verifications)
        if number and verdict != "correct":
            line += f", {number} {words}"
    if lost := found.lost_records:
        word = "committed records" if found.lost_proven == lost else "records that were or may have been committed"
        line += f"; {word} on no replica now: {lost}"
    if found.planned:
        surprises = count(len(found.surprises), "prediction")
        line += f"; {surprises} of the plan failed" if found.surprises else "; as the plan predicted"
    if found.open:
        line += f"; {count(len({place_of(row) for row in found.open}), 'partition')} not judged"
    return line


def render_verification_json(found: Verification) -> str:
    """Render one JSON object with inputs, status and tables."""
    head = {"inputs": dict(found.inputs), "status": found.status, "exit_status": found.exit_status}
    return render_tables(head, {name: getattr(found, name) for name in VERIFICATION_TABLES})


def _is_told(row: VerificationRow) -> bool:
    return row.verdict != "correct" or row.kept_to != row.end_before


def _table(rows: Sequence[VerificationRow]) -> list[str]:
    names = ("partition", "broker_id", "end_before", "kept_to", "expected", "end_after")
    cells = [
        [clean(row.topic), *(clean(getattr(row, name)) for name in names), _VERDICTS[row.verdict][0]] for row in rows
    ]
    table = cut_column(drop_columns([_HEAD, *cells], _GIVE_WAY))
    lines = align_columns(table, right=range(1, len(table[0]) - 1))
    told = [paint(lines[0], "head")]
    for line, row in zip(lines[1:], rows, strict=True):
        told.append(paint(line, _VERDICTS[row.verdict][1]))
        told += wrap(row.reason, "    ", "    ")
    return told


def _gone(row: GoneRecordsRow) -> str:
    where = f"{clean(row.topic)}-{row.partition} {render_range(row.start_offset, row.end_offset)}"
    records = count(row.record_count, f"{_COMMITTED[row.committed]}record")
    epoch = f" of epoch {row.leader_epoch}" if row.leader_epoch is not None else ""
    text = f"{where}: {records}{epoch}, held by {name_brokers(row.broker_ids)}"
    if row.may_hold:
        text += f"; {name_brokers(row.may_hold)} may still have them: that log is not in the later snapshot"
    return text


def _surprise(row: SurpriseRow) -> str:
    broker = "" if row.broker_id is None else f" broker {row.broker_id}"
    was = clean(row.found) if row.found is not None else "none"
    return f"{clean(row.topic)}-{row.partition}{broker}: {row.what}: {clean(row.predicted)} was predicted, found {was}"

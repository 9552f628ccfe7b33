"""audit.jsonl.gz: a line for each partition of a large audit. With an executor, tasks render and compress their partitions'
lines and this process concatenates the parts (gzip members may follow each other)."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

from replica_audit.elect.election_plan import advise
from replica_audit.elect.plan_model import Decision, Plan
from replica_audit.model import Place
from replica_audit.report.audit_json import SCHEMA_VERSION, in_order, render_value, texts_by_place, told_audit
from replica_audit.report.whole_files import LINES, write_file
from replica_audit.results import Results, by_place
from replica_audit.schema import REPORT_TABLES
from replica_audit.typed_json import to_object
from replica_audit.warehouse.left_parts import LeftParts

#: Partitions whose texts are held at once.
STRETCH = 128

#: gzip level: level 6 takes 2.4 times as long for 0.7 of the size.
_LEVEL = 3


def write_lines(path: str, results: Results, tell: Callable[[str], None]) -> None:
    """Replace the file at `path`: a line with the rows of no partition, then a line for each partition with its rows and decisions.

    The content is deterministic, wherever tasks run. If tasks cannot write beside the tables, this process writes all lines and
    reports that through `tell`, as it does parts that cannot be deleted.
    """
    advice = advise(results)
    decisions = by_place(advice.decisions)
    head = _head(results, advice)

    def given(places: Sequence[Place]) -> _Decisions:
        return {place: decisions[place] for place in places if place in decisions}

    def put_together(parts: Iterable[Iterable[bytes]]) -> None:
        write_file(path, chain(_pack([head]), chain.from_iterable(parts)))

    stored = results.stored
    if stored is not None and stored.outlet is not None:
        run = LeftParts(stored.outlet)
        try:
            answers = list(results.map_parts(partial(_leave, run), lambda places: _pickled(given(places))))
            refused = next((one for one in answers if isinstance(one, _Refusal)), None)
            if refused is None:
                put_together(run.read(one) for one in answers if isinstance(one, str))
                return
        finally:
            if stays := run.discard():
                tell(
                    f"parts of {LINES} that tasks wrote stay in {run.directory}, since they could not be deleted ({stays}): once they "
                    f"are a day old, history --prune deletes them, where it may; their names begin with {run.run}"
                )
        tell(
            f"tasks could not write parts of {LINES} to {run.directory} ({refused.reason}): one process writes it, which takes longer"
        )
        results = replace(results, stored=stored.in_this_process())
    put_together(results.map_parts(_packed, given))


#: Decisions of some partitions.
_Decisions = Mapping[Place, Sequence[Decision]]


class _Refusal(NamedTuple):
    """Reason why a task could not write its part."""

    reason: str


def _leave(run: LeftParts, part: Results, pickled: bytes) -> str | _Refusal | None:
    """Name of the file with a part's lines; None if it has no partitions."""
    try:
        return run.leave(_packed(part, pickle.loads(zlib.decompress(pickled)))) if part.partitions else None
    except OSError as error:
        return _Refusal(str(error))


def _pickled(decisions: _Decisions) -> bytes:
    return zlib.compress(pickle.dumps(decisions, pickle.HIGHEST_PROTOCOL), 1)


def _packed(part: Results, decisions: _Decisions) -> Iterator[bytes]:
    """The lines of a part as a gzip member; empty if it has no partitions."""
    if part.partitions:
        yield from _pack(_lines(part, decisions))


def _pack(lines: Iterable[str]) -> Iterator[bytes]:
    # The gzip header has no time, so that the bytes are deterministic.
    packer = zlib.compressobj(_LEVEL, wbits=16 + zlib.MAX_WBITS)
    for line in lines:
        yield packer.compress(line.encode())
    yield packer.flush()


def _head(results: Results, advice: Plan) -> str:
    """The line with the rows that belong to no audited partition."""
    members = {
        "schema_version": render_value(SCHEMA_VERSION, "schema_version"),
        "audit": render_value(told_audit(results), "audit"),
    }
    members.update(
        (table, _in_one(in_order(table, rows))) for table, rows in results.unplaced(REPORT_TABLES).items() if rows
    )
    return _line({**members, "steps": render_value(list(map(to_object, advice.steps)), "steps")})


def _lines(part: Results, decisions: _Decisions) -> Iterator[str]:
    grouped = {table: by_place(part.table(table)) for table in ("partitions", *REPORT_TABLES)}
    places = sorted(grouped["partitions"])
    for start in range(0, len(places), STRETCH):
        stretch = places[start : start + STRETCH]
        texts = {
            table: texts_by_place(table, [row for place in stretch for row in rows.get(place, ())])
            for table, rows in grouped.items()
        }
        for place in stretch:
            members = {table: _in_one(found[place]) for table, found in texts.items() if place in found}
            if place in decisions:
                members["decisions"] = render_value(list(map(to_object, decisions[place])), "decisions")
            yield _line(members)


def _line(members: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{name}": {text}' for name, text in members.items()) + "}\n"


def _in_one(texts: Iterable[str]) -> str:
    return f"[{', '.join(texts)}]"

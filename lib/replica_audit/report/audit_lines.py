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

from replica_audit.elect.cost_matrix import PackedCosts, pack_costs, remember_costs
from replica_audit.elect.election_plan import advise
from replica_audit.elect.plan_model import Decision, Plan
from replica_audit.model import TopicPartition
from replica_audit.report.audit_json import SCHEMA_VERSION, in_order, render_value, texts_by_place, told_audit
from replica_audit.report.facts.conditions import WholeAudit, remember_whole, whole_of_part
from replica_audit.report.whole_files import LINES, write_file
from replica_audit.results import Results, by_place, nothing_given, place_of
from replica_audit.schema import REPORT_TABLES
from replica_audit.typed_json import to_object
from replica_audit.warehouse.left_parts import LeftParts

#: Partitions whose texts are held at once.
STRETCH = 128

#: End of a line.
_END = b"}\n"

#: gzip level: level 6 takes 2.4 times as long for 0.7 of the size.
_LEVEL = 3


def write_lines(path: str, results: Results, tell: Callable[[str], None]) -> None:
    """Replace the file at `path`: a line with the rows of no partition, then a line for each partition with its rows and decisions.

    The content is deterministic, wherever tasks run. Tasks read the rows once: the sums and costs of the whole audit, which are
    remembered, are of the same job. If tasks cannot write beside the tables, this process writes all lines and reports that
    through `tell`, as it does parts that cannot be deleted.
    """
    stored = results.stored
    there = results
    if stored is not None and stored.outlet is not None:
        run = LeftParts(stored.outlet)
        try:
            refused = _write_by_tasks(path, results, run)
        finally:
            if stays := run.discard():
                tell(
                    f"parts of {LINES} that tasks wrote stay in {run.directory}, since they could not be deleted ({stays}): once they "
                    f"are a day old, history --prune deletes them, where it may; their names begin with {run.run}"
                )
        if refused is None:
            return
        tell(
            f"tasks could not write parts of {LINES} to {run.directory} ({refused.reason}): one process writes it, which takes longer"
        )
        there = replace(results, stored=stored.in_this_process())
    advice = advise(results)
    _write(path, results, advice, there.map_parts(_packed, _numbered(advice)))


#: Decisions of the partitions of a part that have some, by the number of the partition.
_Decisions = Mapping[int, Sequence[Decision]]


def _numbered(advice: Plan) -> Callable[[Sequence[TopicPartition]], _Decisions]:
    """A function that gives the decisions of some partitions, in their order."""
    decisions = by_place(advice.decisions)
    return lambda places: {number: decisions[place] for number, place in enumerate(places) if place in decisions}


def _write(path: str, results: Results, advice: Plan, parts: Iterable[Iterable[bytes]]) -> None:
    write_file(path, chain(_pack(_head(results, advice)), chain.from_iterable(parts)))


class _Refusal(NamedTuple):
    """Reason why a task could not write its part."""

    reason: str


class _Draft(NamedTuple):
    """Lines, sums and costs of a part, from which decisions are made."""

    places: tuple[TopicPartition, ...]
    """The part's first partition, its name from here on; empty if it has none."""
    lines: str | _Refusal | None
    """Name of the file with its lines, without decisions."""
    whole: WholeAudit
    costs: PackedCosts


def _write_by_tasks(path: str, results: Results, run: LeftParts) -> _Refusal | None:
    """Let tasks write the lines; decide here, from what they return; then let tasks add the decisions."""
    drafts = list(results.map_parts(partial(_draft, run), nothing_given))
    remember_whole(results, [one.whole for one in drafts])
    remember_costs(results, [one.costs for one in drafts])
    refused = _refusal(one.lines for one in drafts)
    if refused is not None:
        return refused
    names = {place: one.lines for one in drafts for place in one.places if isinstance(one.lines, str)}
    advice = advise(results)
    numbered = _numbered(advice)

    def given(places: Sequence[TopicPartition]) -> tuple[str | None, bytes]:
        decisions = numbered(places)
        packed = zlib.compress(pickle.dumps(decisions, pickle.HIGHEST_PROTOCOL), 1) if decisions else b""
        return names[places[0]] if places else None, packed

    ready: list[str | _Refusal | None] = list(names.values())
    if advice.decisions:
        ready = list(results.map_parts(partial(_complete, run), given, ()))
    refused = _refusal(ready)
    if refused is None:
        _write(path, results, advice, (run.read(one) for one in ready if isinstance(one, str)))
    return refused


def _refusal(answers: Iterable[str | _Refusal | None]) -> _Refusal | None:
    return next((one for one in answers if isinstance(one, _Refusal)), None)


def _draft(run: LeftParts, part: Results, _: None) -> _Draft:
    first = tuple(sorted(map(place_of, part.partitions))[:1])
    lines = _leave(run, _packed(part, {})) if first else None
    return _Draft(first, lines, whole_of_part(part, None), pack_costs(part, None))


def _complete(run: LeftParts, _: Results, given: tuple[str | None, bytes]) -> str | _Refusal | None:
    """Name of the file with a part's lines, decisions included."""
    name, decisions = given
    if name is None or not decisions:
        return name
    lines = zlib.decompress(b"".join(run.read(name)), wbits=16 + zlib.MAX_WBITS).splitlines(keepends=True)
    return _leave(run, _pack(_with_decisions(lines, pickle.loads(zlib.decompress(decisions)))))


def _leave(run: LeftParts, content: Iterable[bytes]) -> str | _Refusal:
    try:
        return run.leave(content)
    except OSError as error:
        return _Refusal(str(error))


def _packed(part: Results, decisions: _Decisions) -> Iterator[bytes]:
    """The lines of a part as a gzip member; empty if it has no partitions."""
    if part.partitions:
        yield from _pack(_with_decisions(_lines(part), decisions))


def _with_decisions(lines: Iterable[bytes], decisions: _Decisions) -> Iterator[bytes]:
    """The lines, each with the decisions of its number as last member."""
    for number, line in enumerate(lines):
        if number in decisions:
            told = render_value(list(map(to_object, decisions[number])), "decisions")
            line = line.removesuffix(_END) + f', "decisions": {told}'.encode() + _END
        yield line


def _pack(lines: Iterable[bytes]) -> Iterator[bytes]:
    # The gzip header has no time, so that the bytes are deterministic.
    packer = zlib.compressobj(_LEVEL, wbits=16 + zlib.MAX_WBITS)
    for line in lines:
        yield packer.compress(line)
    yield packer.flush()


def _head(results: Results, advice: Plan) -> Iterator[bytes]:
    """The line with the rows that belong to no audited partition, and the steps, yielded one after the other since
    each may name every partition."""
    members = {
        "schema_version": render_value(SCHEMA_VERSION, "schema_version"),
        "audit": render_value(told_audit(results), "audit"),
    }
    members.update(
        (table, _in_one(in_order(table, rows))) for table, rows in results.unplaced(REPORT_TABLES).items() if rows
    )
    yield f'{{{_joined(members)}, "steps": ['.encode()
    for number, step in enumerate(advice.steps):
        yield ((", " if number else "") + render_value(to_object(step), "steps")).encode()
    yield b"]" + _END


def _lines(part: Results) -> Iterator[bytes]:
    """A line for each partition, in their order, without decisions."""
    grouped = {table: by_place(part.table(table)) for table in ("partitions", *REPORT_TABLES)}
    places = sorted(grouped["partitions"])
    for start in range(0, len(places), STRETCH):
        stretch = places[start : start + STRETCH]
        texts = {
            table: texts_by_place(table, [row for place in stretch for row in rows.get(place, ())])
            for table, rows in grouped.items()
        }
        for place in stretch:
            yield _line({table: _in_one(found[place]) for table, found in texts.items() if place in found})


def _line(members: Mapping[str, str]) -> bytes:
    return f"{{{_joined(members)}".encode() + _END


def _joined(members: Mapping[str, str]) -> str:
    return ", ".join(f'"{name}": {text}' for name, text in members.items())


def _in_one(texts: Iterable[str]) -> str:
    return f"[{', '.join(texts)}]"

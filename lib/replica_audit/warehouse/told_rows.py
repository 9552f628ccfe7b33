"""Selection of the rows that the report of a large audit shows: all of the worst partitions, and of others what a conclusion names.

Tables are read some rows at a time, and rows left out never become Python objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from replica_audit.arrow_rows import arrow_to_numbers, arrow_to_rows, joined, numbers_to_arrow, values_to_arrow
from replica_audit.auditing.detailed_partitions import told_places
from replica_audit.auditing.finding import KEPT_KEYS, UNSEEN_TAIL, WANTED
from replica_audit.literals import COMPARED
from replica_audit.model import TopicPartition
from replica_audit.results import FurtherStates, KnownState, place_of
from replica_audit.row_classes import Row
from replica_audit.schema import REPORT_ROWS, FindingRow, PartitionRow

#: Kinds of evidence that a conclusion on the whole audit uses.
_EVIDENCE = ("loss", "leadership", "transaction", WANTED, UNSEEN_TAIL, KEPT_KEYS)
#: Present effects on consumer groups.
_EFFECTS = ("past_end", "epoch_differs", "read_lost")

#: Rows of a table, some at a time.
Files = Iterable[pa.Table]

#: Number of the partition of each row, and mask of chosen rows.
_Codes = NDArray[np.int64]
_Flags = NDArray[np.bool_]


class ToldRows:
    """Selection of an audit's rows that are reported, given its rows of `partitions`."""

    def __init__(self, partitions: list[PartitionRow]) -> None:
        told = told_places(partitions)
        self.is_all = len(told) == len(partitions)
        self.places = sorted(map(place_of, partitions))
        """The audited partitions."""
        self.further = FurtherStates([], [])
        """Last states of partitions not in detail."""
        self._topics = {topic: number for number, topic in enumerate(sorted({topic for topic, _ in self.places}))}
        self._told = self._codes_of(sorted(told))
        self._audited = self._codes_of(self.places)
        self._decided = np.empty(0, np.int64)
        self._has_elr = False
        self._states: dict[tuple[object, ...], KnownState] = {}
        self._seen: dict[str, set[tuple[object, ...]]] = {}

    def _codes_of(self, places: Iterable[TopicPartition]) -> _Codes:
        """Number of each partition, in the given order: topic index << 32 | partition."""
        return np.array([self._topics[topic] << 32 | partition for topic, partition in places], np.int64)

    def _codes(self, rows: pa.Table) -> _Codes:
        """Number of each row's partition, as in `_codes_of`; negative for a topic that was not audited."""
        topics = joined(rows["topic"]).dictionary_encode()
        numbers = np.array([*(self._topics.get(topic, -1) for topic in topics.dictionary.to_pylist()), -1], np.int64)
        return numbers[arrow_to_numbers(topics.indices, -1)] << 32 | arrow_to_numbers(rows["partition"], 0)

    def select(self, table: str, files: Files) -> Iterator[Row]:
        """Rows of a table as objects; `elections` must come before tables that depend on the open decisions."""
        if table == "partition_states" and not self.is_all:
            files = self._undivided(files)
        for rows in files:
            if not self.is_all and "topic" in rows.schema.names:
                codes = self._codes(rows)
                if table == "elections":
                    self._decided = np.union1d(self._decided, codes)
                if table == "findings":
                    yield from self._findings(rows, codes)
                    continue
                if table == "partition_states":
                    self._keep_states(rows, codes)
                rows = rows.filter(numbers_to_arrow(self._cited(table, rows, codes)))
            yield from arrow_to_rows(rows, REPORT_ROWS[table])

    def _undivided(self, files: Files) -> Files:
        """`files` with neighbouring rows of one partition in one table."""
        rest: list[pa.Table] = []
        for rows in files:
            codes = self._codes(rows)
            if (others := (codes != codes[-1:]).nonzero()[0]).size:
                begun = int(others[-1]) + 1
                yield pa.concat_tables([*rest, rows[:begun]])
                rest, rows = [], rows[begun:]
            rest.append(rows)
        if rest:
            yield pa.concat_tables(rest)

    def _cited(self, table: str, rows: pa.Table, codes: _Codes) -> _Flags:
        whole, more = self._is_whole(codes), _MORE.get(table)
        return whole if more is None else whole | more(self, rows, codes)

    def _is_whole(self, codes: _Codes) -> _Flags:
        """True for rows of partitions in detail, and of no audited partition."""
        return _are_in(codes, self._told) | ~_are_in(codes, self._audited)

    def _findings(self, rows: pa.Table, codes: _Codes) -> Iterator[FindingRow]:
        """All findings; those of partitions not in detail without the evidence that is only shown on a partition's own page."""
        told = self._is_whole(codes)
        yield from arrow_to_rows(rows.filter(numbers_to_arrow(told)), FindingRow)
        others = rows.filter(numbers_to_arrow(~told))
        column = others.schema.get_field_index("evidence")
        evidence = _of_kinds(joined(others["evidence"]), _EVIDENCE)
        yield from arrow_to_rows(others.set_column(column, "evidence", evidence), FindingRow)

    def _captures(self, rows: pa.Table, codes: _Codes) -> _Flags:
        lacking = ~_is_one_of(rows["state"], ("whole",)) | arrow_to_numbers(pc.is_valid(rows["needed"]))
        return lacking | self._first("captures", rows, ("broker_id",))

    def _replicas(self, rows: pa.Table, codes: _Codes) -> _Flags:
        """Copies whose place a plan names, besides replicas that come with the costs, and one row for each broker's copies."""
        holding = arrow_to_numbers(rows["lost_held"], 0) > 0
        decided = _are_in(codes, self._decided)
        costed = decided & _is_one_of(rows["role"], COMPARED)
        told = (holding & ~costed) | (decided & arrow_to_numbers(pc.is_null(rows["clean_shutdown"])))
        return told | self._first("replicas", rows, ("broker_id", "clean_shutdown"))

    def _group_offsets(self, rows: pa.Table, codes: _Codes) -> _Flags:
        hit = _is_one_of(rows["effect"], _EFFECTS) | _are_in(codes, self._decided)
        return hit | self._first("group_offsets", rows, ())

    def _keep_states(self, rows: pa.Table, codes: _Codes) -> None:
        """Keep, for each partition not in detail, the last and the last committed state of each source, and all with
        `fenced`; also, once in all, a state with eligible leader replicas."""
        names = ("source", "entry", "uncommitted", "fenced")
        columns = [codes.tolist(), *(rows[name].to_pylist() for name in names)]
        last: dict[tuple[object, ...], tuple[int, int]] = {}
        kept = np.zeros(rows.num_rows, bool)
        for number, (code, source, entry, uncommitted, fenced) in enumerate(zip(*columns, strict=True)):
            kept[number] = fenced is not None
            for state in ((code, source, True), (code, source, False)):
                if (state[2] or not uncommitted) and (entry or 0, number) > last.get(state, (-1, -1)):
                    last[state] = (entry or 0, number)
        kept[[number for _, number in last.values()]] = True
        elr = (arrow_to_numbers(pc.list_value_length(rows[name]), 0) for name in ("elr", "last_known_elr"))
        if not self._has_elr:
            with_elr = np.logical_or(*elr).nonzero()[0]
            kept[with_elr[:1]] = True
            self._has_elr = bool(with_elr.size)
        kept &= ~self._is_whole(codes)
        self.further.places.extend(map(self.places.__getitem__, np.searchsorted(self._audited, codes[kept]).tolist()))
        for found in arrow_to_rows(rows.filter(numbers_to_arrow(kept)), KnownState):
            # Equal lists and maps of neighbouring rows are one object, which a state that is held keeps.
            key = tuple(id(value) if isinstance(value, (list, dict)) else value for value in found)
            self.further.states.append(self._states.setdefault(key, found))

    def _first(self, table: str, rows: pa.Table, names: Collection[str]) -> _Flags:
        """True for the first row with each combination of values, over all files."""
        seen = self._seen.setdefault(table, set())
        found = np.zeros(rows.num_rows, bool)
        columns = [rows[name].to_pylist() for name in names] or [[None] * rows.num_rows]
        for number, values in enumerate(zip(*columns, strict=True)):
            if values not in seen:
                seen.add(values)
                found[number] = True
        return found


def _are_in(codes: _Codes, known: _Codes) -> _Flags:
    """True for each of `codes` that is among the sorted `known`."""
    return np.searchsorted(known, codes, "right") > np.searchsorted(known, codes)


def _of_kinds(evidence: pa.ListArray, kinds: Sequence[str]) -> pa.ListArray:
    """Lists of evidence, reduced to some kinds."""
    pieces = evidence.flatten()
    chosen = _is_one_of(pieces.field("kind"), kinds)
    ends = np.cumsum([0, *arrow_to_numbers(evidence.value_lengths(), 0)])
    kept = np.concatenate([[0], np.cumsum(chosen)])[ends].astype(np.int32)
    return pa.ListArray.from_arrays(numbers_to_arrow(kept), pieces.filter(numbers_to_arrow(chosen)))


def _is_one_of(column: pa.Array | pa.ChunkedArray, texts: Sequence[str]) -> _Flags:
    return arrow_to_numbers(pc.is_in(column, values_to_arrow(texts, pa.string())))


#: Rows reported of partitions without details, besides `partitions` and `findings`.
_MORE: Mapping[str, Callable[[ToldRows, pa.Table, _Codes], _Flags]] = {
    "captures": ToldRows._captures,
    "replicas": ToldRows._replicas,
    "group_offsets": ToldRows._group_offsets,
}

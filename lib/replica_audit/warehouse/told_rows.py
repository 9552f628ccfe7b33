"""The rows of a finished audit that its report tells: all rows of the partitions in detail, and of the others those that a
conclusion on the whole names.

Tables are read file by file, and what is left out never becomes a Python object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.arrow_rows import arrow_to_rows, values_to_arrow
from replica_audit.auditing.detailed_partitions import told_places
from replica_audit.schema import REPORT_ROWS, FindingRow, PartitionRow, Row
from replica_audit.warehouse.table_reads import keys_of, place_keys

#: Kinds of evidence that a conclusion on the whole looks at.
_EVIDENCE = ("loss", "leadership", "transaction")
#: What consumer groups suffer now.
_EFFECTS = ("past_end", "epoch_differs", "read_lost")

#: Rows of a table, file by file.
Files = Iterable[pa.Table]


def to_objects(table: str, rows: pa.Table) -> Iterator[Row]:
    """Rows of a report table as objects of its class."""
    return arrow_to_rows(rows, REPORT_ROWS[table])


class ToldRows:
    """Which rows of an audit are reported, from its rows of `partitions` on."""

    def __init__(self, partitions: list[PartitionRow]) -> None:
        told = told_places(partitions)
        self.is_all = len(told) == len(partitions)
        self._told = keys_of(told)
        self._audited = keys_of((row.topic, row.partition) for row in partitions)
        self._decided = keys_of(())
        self._seen: dict[str, set[tuple[object, ...]]] = {}

    def select(self, table: str, files: Files) -> Iterator[Row]:
        """Rows of a table as objects; `elections` come before tables that depend on what there is to decide."""
        for rows in files:
            if not self.is_all and "topic" in rows.schema.names:
                if table == "elections":
                    self._decided = pa.chunked_array([self._decided, pc.unique(place_keys(rows))]).combine_chunks()
                if table == "findings":
                    yield from self._findings(rows)
                    continue
                rows = rows.filter(self._cited(table, rows))
            yield from to_objects(table, rows)

    def _cited(self, table: str, rows: pa.Table) -> pa.Array:
        keys = place_keys(rows)
        whole, more = self._is_whole(keys), _MORE.get(table)
        return whole if more is None else pc.or_(whole, more(self, rows, keys))

    def _is_whole(self, keys: pa.Array) -> pa.Array:
        """True for rows of partitions in detail, and of none that was audited."""
        return pc.or_(pc.is_in(keys, self._told), pc.invert(pc.is_in(keys, self._audited)))

    def _findings(self, rows: pa.Table) -> Iterator[FindingRow]:
        """All of them; of partitions that are not told without the evidence that only their own page shows."""
        told = self._is_whole(place_keys(rows))
        yield from arrow_to_rows(rows.filter(told), FindingRow)
        for row in arrow_to_rows(rows.filter(pc.invert(told)), FindingRow):
            yield row._replace(evidence=tuple(one for one in row.evidence or () if one.kind in _EVIDENCE))

    def _captures(self, rows: pa.Table, keys: pa.Array) -> pa.Array:
        lacking = pc.or_(pc.not_equal(rows["state"], "whole"), pc.is_valid(rows["needed"]))
        return pc.or_(lacking, self._first("captures", rows, ("broker_id",)))

    def _replicas(self, rows: pa.Table, keys: pa.Array) -> pa.Array:
        """Those that a plan cites, and one for what a broker's copies say of it."""
        holding = pc.fill_null(pc.greater(rows["lost_held"], 0), False)
        cited = pc.or_(holding, pc.is_in(keys, self._decided))
        return pc.or_(cited, self._first("replicas", rows, ("broker_id", "clean_shutdown")))

    def _group_offsets(self, rows: pa.Table, keys: pa.Array) -> pa.Array:
        hit = pc.is_in(rows["effect"], values_to_arrow(_EFFECTS, pa.string()))
        return pc.or_(pc.or_(hit, pc.is_in(keys, self._decided)), self._first("group_offsets", rows, ()))

    def _partition_states(self, rows: pa.Table, keys: pa.Array) -> pa.Array:
        """The last state of each source, and the last that is committed; one of those that have eligible leader replicas."""
        names = ("source", "entry", "uncommitted", "fenced")
        columns = [keys.to_pylist(), *(rows[name].to_pylist() for name in names)]
        last: dict[tuple[object, ...], tuple[int, int]] = {}
        kept = [False] * rows.num_rows
        for number, (key, source, entry, uncommitted, fenced) in enumerate(zip(*columns, strict=True)):
            kept[number] = fenced is not None
            for state in ((key, source, True), (key, source, False)):
                if (state[2] or not uncommitted) and (entry or 0, number) > last.get(state, (-1, -1)):
                    last[state] = (entry or 0, number)
        for _, number in last.values():
            kept[number] = True
        elr = (pc.greater(pc.fill_null(pc.list_value_length(rows[name]), 0), 0) for name in ("elr", "last_known_elr"))
        with_elr = pc.index(pc.or_(*elr), True).as_py()
        if with_elr >= 0:
            kept[with_elr] = True
        return values_to_arrow(kept, pa.bool_())

    def _first(self, table: str, rows: pa.Table, names: Collection[str]) -> pa.Array:
        """True for the first row with each combination of values, over all files."""
        seen = self._seen.setdefault(table, set())
        found = [False] * rows.num_rows
        columns = [rows[name].to_pylist() for name in names]
        for number, values in enumerate(zip(*columns, strict=True) if columns else [()] * min(1, rows.num_rows)):
            if values not in seen:
                seen.add(values)
                found[number] = True
        return values_to_arrow(found, pa.bool_())


def _all(told: ToldRows, rows: pa.Table, keys: pa.Array) -> pa.Array:
    return values_to_arrow([True] * rows.num_rows, pa.bool_())


#: What is reported of partitions without details, besides `findings`.
_MORE: Mapping[str, Callable[[ToldRows, pa.Table, pa.Array], pa.Array]] = {
    "partitions": _all,
    "elections": _all,
    "lost_producers": _all,
    "captures": ToldRows._captures,
    "replicas": ToldRows._replicas,
    "group_offsets": ToldRows._group_offsets,
    "partition_states": ToldRows._partition_states,
}

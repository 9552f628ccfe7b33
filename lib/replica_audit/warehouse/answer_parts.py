"""The rows of a large audit, some partitions at a time: read by tasks, or in this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from replica_audit.model import TopicPartition
from replica_audit.results import Found, Given, by_place
from replica_audit.schema import REPORT_ROWS, HighWatermarkTimelineRow, ReportRows
from replica_audit.warehouse.table_reads import PlacedFiles, WantedPlaces

#: Partitions whose rows are held at a time.
STRETCH = 1000

_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")


class TaskRunner(Protocol):
    """The part of an executor (`runner.executor.Executor`) that reading needs."""

    @property
    def is_apart(self) -> bool:
        """True while tasks run in other processes."""

    def map(self, tasks: Sequence[_Task], work: Callable[[_Task], Iterable[_Answer]]) -> list[_Answer]: ...


class Stretch(NamedTuple):
    """Partitions whose rows are read together."""

    places: Sequence[TopicPartition]
    timeline: Sequence[HighWatermarkTimelineRow] = ()
    """Their timeline rows, which are not read again."""


def read_part(files: Mapping[str, PlacedFiles], stretch: Stretch, tables: Collection[str]) -> ReportRows:
    """The rows of `tables` in `files`, in order."""
    wanted, part = WantedPlaces(stretch.places), ReportRows()
    for table, of_table in files.items():
        if table in tables:
            part.table(table).extend(of_table.read_rows(REPORT_ROWS[table], wanted))
    return replace(part.in_order(), high_watermark_timeline=list(stretch.timeline))


@dataclass(frozen=True, slots=True)
class AnswerParts:
    """The rows of the audited partitions by table (`results.StoredRows`)."""

    places: Sequence[TopicPartition]
    """The audited partitions, in order."""
    files: Mapping[str, PlacedFiles]
    """By report table."""
    timeline: Sequence[HighWatermarkTimelineRow]
    """Rows of the timeline in order."""
    runner: TaskRunner | None = None

    @property
    def outlet(self) -> str | None:
        return self.files["partitions"].directory if self._is_apart else None

    def in_this_process(self) -> AnswerParts:
        return replace(self, runner=None)

    def map(
        self,
        work: Callable[[ReportRows, Given], Found],
        tables: Collection[str],
        given: Callable[[Sequence[TopicPartition]], Given],
    ) -> Iterator[Found]:
        tasks = ((stretch, given(stretch.places)) for stretch in self._stretches(tables))
        run = partial(_run, work, self.files, tables)
        if self._is_apart and self.runner is not None:
            yield from self.runner.map(list(tasks), run)
        else:
            for task in tasks:
                yield from run(task)

    @property
    def _is_apart(self) -> bool:
        return self.runner is not None and self.runner.is_apart

    def _stretches(self, tables: Collection[str]) -> Iterator[Stretch]:
        timeline = by_place(self.timeline) if "high_watermark_timeline" in tables else {}
        for start in range(0, len(self.places), STRETCH):
            stretch = self.places[start : start + STRETCH]
            yield Stretch(stretch, [row for place in stretch for row in timeline.get(place, ())])


def _run(
    work: Callable[[ReportRows, Given], Found],
    files: Mapping[str, PlacedFiles],
    tables: Collection[str],
    task: tuple[Stretch, Given],
) -> list[Found]:
    stretch, given = task
    return [work(read_part(files, stretch, tables), given)]

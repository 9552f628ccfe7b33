"""A stand-in for a Spark session that runs tasks one after another in this process, for tests of what stages commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


class _Parts:
    def __init__(self, parts: list[list[Any]]) -> None:
        self._parts = parts

    def mapPartitions(self, function: Callable[[Iterator[Any]], Iterable[Any]]) -> _Parts:
        return _Parts([list(function(iter(part))) for part in self._parts])

    def groupByKey(self, count: int, partitionFunc: Callable[[Any], int]) -> _Parts:
        parts: list[dict[Any, list[Any]]] = [{} for _ in range(count)]
        for key, value in (pair for part in self._parts for pair in part):
            parts[partitionFunc(key) % count].setdefault(key, []).append(value)
        return _Parts([list(part.items()) for part in parts])

    def collect(self) -> list[Any]:
        return [item for part in self._parts for item in part]


class _Sum:
    def __init__(self, value: Any, param: Any) -> None:
        self.value, self._param = value, param

    def add(self, term: Any) -> None:
        self.value = self._param.addInPlace(self.value, term)


class _Context:
    defaultParallelism = 2

    def parallelize(self, items: Sequence[Any], count: int) -> _Parts:
        return _Parts([list(items[number::count]) for number in range(count)])

    def accumulator(self, value: Any, param: Any) -> _Sum:
        return _Sum(value, param)


class InProcessSession:
    """What `spark/tasks.py` uses of a classic session, without a JVM."""

    sparkContext = _Context()

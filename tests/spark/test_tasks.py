"""Functions as Spark tasks: one task each, results in order, and word of each that has ended."""

from __future__ import annotations

import pytest

from replica_audit.runner.executor import InProcess, deal
from replica_audit.spark.tasks import SparkExecutor, is_remote


@pytest.mark.parametrize("count", [1, 3, 7, 50])
def test_parts_are_dealt_out_in_their_order_and_evenly(count):
    dealt = deal(range(7), count)
    assert [part for task in dealt for part in task] == list(range(7))
    assert len(dealt) == min(count, 7)
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
    assert deal([], count) == []


def test_results_come_in_the_order_of_the_tasks_and_each_end_is_told_once(spark):
    ended = []

    def work(task):
        import os

        yield from ((os.getpid(), number) for number in range(task))

    assert not is_remote(spark)
    for executor in (SparkExecutor(spark), InProcess()):
        found = executor.map([3, 0, 2], work, ended.append)
        assert [number for _, number in found] == [0, 1, 2, 0, 1]
        assert sorted(ended) == [0, 2, 3]
        ended.clear()


def test_without_tasks_nothing_starts():
    assert SparkExecutor(None).map([], None) == InProcess().map([], None) == []


def test_of_many_items_a_task_is_one_stretch_and_of_few_the_costly_neighbours_are_dealt_out():
    executor = SparkExecutor(None)
    executor.parallelism = 2
    items = list(range(4000))
    cut = executor.cut(items, lambda _: 1000, 200_000)
    assert [one for task in cut for one in task] == items
    assert len(cut) == 8 and max(map(len, cut)) - min(map(len, cut)) < 10
    heavy = executor.cut(items[:400], lambda one: 20_000 if one < 20 else 1000, 200_000)
    assert sorted(one for task in heavy for one in task) == items[:400]
    assert len(heavy) == 4 and max(sum(one < 20 for one in task) for task in heavy) <= 6


def test_an_error_in_a_task_is_raised_and_no_end_is_told(spark):
    ended = []

    def work(task):
        raise ValueError(f"task {task} has nothing to read")

    with pytest.raises(Exception, match="task 5 has nothing to read"):
        SparkExecutor(spark).map([5], work, ended.append)
    assert ended == []

"""The order of a table's rows."""

from __future__ import annotations

from random import Random
from tracemalloc import get_traced_memory, start, stop

from replica_audit.row_classes import sort_keys, sort_rows
from replica_audit.schema import FindingRow


def findings(number: int) -> list[FindingRow]:
    random = Random(1)
    return [
        FindingRow(
            f"{one}", random.choice("AB"), "medium", "proven", random.choice(("a", "b", None)),
            random.choice((None, 1, 2)), random.choice((None, 1, 2)), random.randrange(3), 9, "", [], "new",
        )
        for one in range(number)
    ]  # fmt: skip


def test_rows_are_in_the_order_of_their_keys_and_equal_ones_stay_as_they_are():
    rows = findings(500)
    keyed = sorted(zip(sort_keys(rows), range(500), rows))
    assert len({key for key, *_ in keyed}) < 500
    assert [row.finding_id for row in sort_rows(rows)] == [row.finding_id for *_, row in keyed]


def test_a_row_takes_no_memory_for_its_keys():
    rows = [row._replace(topic="a", partition=1, broker_id=1) for row in findings(20_000)]
    start()
    sort_rows(rows)
    peak = get_traced_memory()[1]
    stop()
    assert peak / 20_000 < 40

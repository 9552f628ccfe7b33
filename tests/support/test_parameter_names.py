"""A failure's line says what the parameters were."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.parameter_names import ROOT, name_parameter

from replica_audit.model import TopicPartition


class _Pair(NamedTuple):
    one: int
    other: int = 0


@dataclass
class _Copy:
    broker: int
    batches: tuple[bytes, ...] = ()


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ((1, 2), "1 2"),
        (((0, 0), (1, 10)), "(0 0) (1 10)"),
        ([], "none"),
        ({"b", "a"}, "a b"),
        ({"min.insync.replicas": "2", "isr": [1]}, "min.insync.replicas=2 isr=(1)"),
        ([_Pair(3), _Pair(3, 1)], "_Pair(one=3) _Pair(one=3 other=1)"),
        (_Copy(1, (b"abc", b"ab")), "_Copy(broker=1 batches=2 of 5 bytes)"),
        ({"before": b"abc", "at": object()}, "before=3 bytes at=object"),
        (TopicPartition("orders", 0), "orders-0"),
        ((len, _Pair), "len _Pair"),
        (Path("/somewhere/diverged"), "diverged"),
        (["on\n two lines"], "on two lines"),
        (["log-dir", "/proc=\udcff"], r"log-dir /proc=\udcff"),
        (f"show {ROOT}/data", "show data"),
        (list(range(100, 160)), "100 101 102 103 104 105 106 107 108 109 110 111"),
        (["x" * 100], f"{'x' * 60}.."),
        ("text", None),
        (7, None),
        (b"abc", None),
        (_Pair, None),
    ],
)
def test_it_says_what_a_parameter_holds(value: object, name: str | None) -> None:
    assert name_parameter(value) == name

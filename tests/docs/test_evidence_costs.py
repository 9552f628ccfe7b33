"""Figures for a TB in docs/evidence.md follow from those measured for a GiB."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from replica_audit.collect import collect

TEXT = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text(encoding="utf-8")
#: GiB of a TB.
GIB = 10**12 / 2**30


def _rows(heading: str) -> dict[str, list[float]]:
    table = re.search(rf"^\| batches of \| {heading}.*\n\|[-|]+\n((?:\|.*\n)+)", TEXT, re.M)
    assert table is not None
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table[1].splitlines()]
    return {name: [float(re.match(r"[\d.]+", one)[0]) for one in values] for name, *values in cells}  # type: ignore[index]


@pytest.mark.parametrize("batches", ["170 bytes", "16 KiB", "1 MiB"])
def test_a_tb_is_so_many_gib(batches: str) -> None:
    hours, minutes, gigabytes, scanning = _rows("hours")[batches]
    library, _, _, _, evidence, _, of_evidence = _rows("CPU")[batches]
    assert hours == round(10**12 / 2**20 / collect.parse_arguments(["--log-dir", "/"]).rate_mib / 3600, 1)
    assert minutes == round(library * GIB / 60)
    assert gigabytes == round(evidence * GIB * 2**20 / 10**9, 1 if evidence > 0.1 else 2)
    assert scanning == round(of_evidence * GIB / 60)


def test_ten_tb_take_as_long_as_is_said() -> None:
    assert f"10 TB take {_rows('hours')['1 MiB'][0] * 10:.0f} hours" in TEXT

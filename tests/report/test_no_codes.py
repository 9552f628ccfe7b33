"""No text shows a raw code of a closed set: what a column calls `topics_describe` is the listing of the topics in prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args, get_origin

import pytest
from tests.support.captures import audit_whole
from tests.support.closed_sets import COLUMNS
from tests.support.fixtures import ATTACKS, CAPTURES, FIXTURES
from tests.support.samples import SAMPLES
from tests.support.some import some

from replica_audit import literals as closed_sets
from replica_audit import text as wording
from replica_audit.elect.election_plan import plan_elections
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.markdown import render_markdown
from replica_audit.report.plan_text import render_plan
from replica_audit.report.show_text import render_partition, render_summary
from replica_audit.results import Results

SNAPSHOTS = [
    *(FIXTURES / name for name in CAPTURES),
    *(path for attack in sorted(ATTACKS.iterdir()) for path in sorted(attack.iterdir()) if path.is_dir()),
    *(path for path in sorted(SAMPLES.iterdir()) if path.is_dir()),
]

#: Columns whose codes are in no closed set: why a truncation stops, and how the high watermark is bounded.
OPEN_COLUMNS = (("truncations", "reason"), ("high_watermarks", "method"))


@cache
def closed_codes() -> frozenset[str]:
    """Every value of a closed set that no reader would take for a word of English; verdicts are names, and are printed."""
    literals = (
        one for one in vars(closed_sets).values() if get_origin(one) is not None and isinstance(get_args(one), tuple)
    )
    values = {str(value) for one in literals for value in get_args(one)}
    values |= {value for column in COLUMNS.values() for value in column}
    return frozenset(value for value in values if "_" in value and value.islower())


def texts(results: Results) -> Iterator[tuple[str, str]]:
    yield "show", render_summary(results)
    yield "show TOPIC-PARTITION", render_partition(results)
    yield "elect", render_plan(plan_elections(results))
    yield "summary.md", render_markdown(results, build_verdict(results, "high"))


def test_the_sets_have_codes():
    assert {"topics_describe", "metadata_log", "zero_filled", "last_known", "not_given"} <= closed_codes()


@pytest.mark.parametrize("path", SNAPSHOTS, ids=[f"{path.parent.name}-{path.name}" for path in SNAPSHOTS])
def test_no_text_of_a_snapshot_has_one(path: Path):
    results = audit_whole(path)
    codes = closed_codes() | {
        str(row[column]) for table, column in OPEN_COLUMNS for row in results.rows(table) if "_" in str(row[column])
    }
    # A topic may be named like one.
    codes -= {row["topic"] for row in results.rows("partitions")}
    for name, text in some(texts(results)):
        found = codes & {word.rstrip(".") for word in re.findall(r"[\w./-]+", text)}
        assert not found, (name, found)


def test_every_source_and_every_reason_has_words():
    assert all("_" not in wording.name_source(source) for source in get_args(closed_sets.LeadershipSource))
    with pytest.raises(KeyError):
        wording.name_source("nobody")


def test_every_reason_that_a_truncation_gives_has_words():
    source = Path(wording.__file__).parent / "protocol" / "truncation.py"
    given = set(re.findall(r'"((?:[a-z]+_)+[a-z]+|none)"', source.read_text(encoding="utf-8")))
    assert {"epoch_match", "stepped_back", "hw_fallback", "full_truncate"} <= given
    assert all("_" not in wording.name_cut(reason) for reason in given)

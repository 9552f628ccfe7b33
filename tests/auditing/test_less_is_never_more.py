"""Less is never more: of a part of a snapshot an audit may know less than of the whole, but never says more.

Brokers, directories, side files and sources of leadership are taken away at random from every capture, every attack, and
states of the model of tests/exhaustive.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.exhaustive.states import walks
from tests.exhaustive.written_snapshots import write_snapshot
from tests.support.captures import SNAPSHOTS, audited, whole
from tests.support.less import CALM, rows_of, some_parts, take_away, too_calm
from tests.support.some import some

from replica_audit.model import TopicPartition
from replica_audit.report.facts.conditions import find_compared
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.results import Results

#: Parts of each snapshot; `PARTS=30` for a long run, which has as many times more histories, of a few parts each.
PARTS = int(os.environ.get("PARTS", "2"))
PARTS_OF_A_HISTORY = 2


def names(part: Results, place: TopicPartition) -> bool:
    """True if the part names a missing replica that it needs or a missing file, knows the leader from an outdated source only,
    or lists no replicas."""
    if any("older than the logs" in row["message"] for row in rows_of(part, "findings").get(place, ())):
        return True
    rows = rows_of(part, "captures").get(place, ())
    lacks = any(row["needed"] or (row["missing"] and row["state"] == "partial") for row in rows)
    return lacks or place in find_compared(part, ()).unassigned


def names_for_election(part: Results, place: TopicPartition, candidate: int) -> bool:
    """True if the part also names an in-sync replica that was not captured, or what the candidate's next start truncates."""
    absent = (
        row["state"] in ("named", "absent") and "isr" in row["named_by"] for row in rows_of(part, "captures")[place]
    )
    findings = rows_of(part, "findings").get(place, ())
    damaged = any(row["code"].startswith("LOG-CORRUPT") and row["broker_id"] == candidate for row in findings)
    return damaged or any(absent)


def cannot_tell(part: Results, place: TopicPartition) -> bool:
    """True if the part reports that the loss is unknown: nothing was compared, or no log has the records of a checkpoint."""
    codes = {row["code"] for row in rows_of(part, "findings").get(place, ())}
    return one(part, "partitions", place)["verdict"] == "INCONCLUSIVE" or "HWM-CP-ABOVE-LEO" in codes


def one(results: Results, table: str, place: TopicPartition) -> Mapping:
    return rows_of(results, table)[place][0]


def no_loss_turns_into_calm(of_whole: Results, part: Results) -> Iterator[str]:
    """No committed loss of the whole becomes an answer that sees none, unless the part names what it lacks."""
    for row in of_whole.rows("partitions"):
        place = (row["topic"], row["partition"])
        if not row["lost_committed"] or place not in rows_of(part, "partitions"):
            continue
        verdict = one(part, "partitions", place)["verdict"]
        if verdict in CALM and not names(part, place):
            yield f"{place}: {row['lost_committed']} committed records lost become {verdict}"
        if build_verdict(part, "high")["exit_status"] == 0 and not names(part, place):
            yield f"{place}: {row['lost_committed']} committed records lost become status 0"


def the_mark_stays_inside(of_whole: Results, part: Results) -> Iterator[str]:
    """A high watermark that the whole knows exactly lies in the part's interval, of the same leader."""
    for row in of_whole.rows("high_watermarks"):
        place = (row["topic"], row["partition"])
        if not row["exact"] or place not in rows_of(part, "high_watermarks"):
            continue
        other = one(part, "high_watermarks", place)
        if other["reference_id"] != row["reference_id"]:
            continue
        mark, lower, upper = row["hw_lower"], other["hw_lower"], other["hw_upper"]
        if lower is not None and lower > mark or upper is not None and upper < mark:
            yield f"{place}: {mark} ({row['method']}) is not in [{lower}, {upper}] ({other['method']})"


def elections_never_become_surer(of_whole: Results, part: Results) -> Iterator[str]:
    """A candidate loses no less than the whole proves, unless the part names what it lacks, or that it cannot tell."""
    for place, rows in rows_of(part, "elections").items():
        before = {row["candidate_id"]: row for row in rows_of(of_whole, "elections").get(place, ())}
        if names(part, place) or cannot_tell(part, place):
            continue
        for row in rows:
            candidate = row["candidate_id"]
            if row["broker_id"] != candidate or candidate not in before or before[candidate]["lost_at_most"]:
                continue
            if names_for_election(part, place, candidate):
                continue
            told, proven = row["lost_committed"] + row["lost_possible"], before[candidate]["lost_committed"]
            if told < proven:
                yield f"{place}: candidate {candidate} loses {told} at most, of {proven} committed"


def the_verdict_is_no_calmer_than_the_costs(_: Results, part: Results) -> Iterator[str]:
    """Nor is it on a part."""
    return too_calm(part)


RULES: tuple[Callable[[Results, Results], Iterator[str]], ...] = (
    no_loss_turns_into_calm,
    the_mark_stays_inside,
    elections_never_become_surer,
    the_verdict_is_no_calmer_than_the_costs,
)


def contradictions(snapshot: Path, of_whole: Results, place: Path, parts: int, seed: object) -> Iterator[str]:
    """Statements on `parts` of a snapshot that are more certain than those on the whole; `place` is where the parts are made."""
    for number, without in enumerate(some_parts(snapshot, parts, seed)):
        target = place / str(number)
        take_away(snapshot, without, target)
        part = audited(target)
        shutil.rmtree(target)
        if part is not None:
            for rule in RULES:
                yield from (f"without {', '.join(without)}: {said}" for said in rule(of_whole, part))


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_part_of_a_snapshot_never_says_more_than_the_whole(snapshot, tmp_path):
    said = list(contradictions(snapshot, whole(snapshot), tmp_path, PARTS, snapshot.name))
    assert not said, "\n".join(said)


@pytest.mark.parametrize("events", [4, 5, 6])
def test_a_part_of_a_history_never_says_more_than_the_whole(events, tmp_path):
    for number, state in enumerate(some(walks(100 + events, events, 6 * PARTS))):
        snapshot = tmp_path / "whole"
        write_snapshot(state, snapshot, quiesced=number % 2 == 1 or None)
        said = list(contradictions(snapshot, audited(snapshot), tmp_path, PARTS_OF_A_HISTORY, number))
        assert not said, "\n".join([*said, *state.story])
        shutil.rmtree(snapshot)

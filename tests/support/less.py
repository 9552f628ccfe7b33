"""Snapshots of which something was taken away, and what an answer on such a part must not say.

Less is never more: of a part the audit may know less than of the whole, but it never contradicts the whole with more
confidence.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.parts import link
from tests.support.row_tables import rows_of

from replica_audit.model import Place
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.results import Results

#: Verdicts that see no loss.
CALM = ("CONSISTENT", "LAGGING")
#: Sentences that no part may say of which a needed replica is missing.
CALMING = re.compile("All is well|Nothing is lost|captured replicas agree|Bring the missing brokers back|loses nothing")


def without(source: Path, target: Path, *, brokers: Collection[int] = (), names: Collection[str] = ()) -> Path:
    """A copy of the capture `source` at `target` without the directories of `brokers` and without files and directories
    called one of `names`, wherever they lie. What lies beside a capture and is not part of it is left out too.
    """
    gone = {"dump", "recovered"} | {f"broker-{broker_id}" for broker_id in brokers} | set(names)
    shutil.copytree(source, target, ignore=lambda _, entries: gone.intersection(entries), copy_function=link)
    return target


def lost_places(results: Results) -> set[Place]:
    """Partitions that lost committed records."""
    return {_place(row) for row in results.rows("partitions") if row["verdict"] == "COMMITTED_LOSS"}


def holders(results: Results) -> set[int]:
    """Brokers that hold lost records."""
    return {row["broker_id"] for row in results.rows("replicas") if row["lost_committed_held"] or row["lost_held"]}


def too_sure(whole: Results, part: Results) -> Iterator[str]:
    """What the answer on a part says with more confidence than that on the whole, which lost committed records.

    The part may not know of the loss where it names all brokers that hold the records, and says nothing that calms.
    """
    lost = lost_places(whole)
    unseen = {(*_place(row), row["broker_id"]) for row in part.rows("captures") if row["state"] != "whole"}
    needed = {_place(row) for row in part.rows("captures") if row["needed"] is not None}
    named = {
        place
        for place in lost
        if unseen.issuperset((*place, row["broker_id"]) for row in whole.rows("replicas") if _holds(row, place))
    }
    for row in part.rows("partitions"):
        place, calm = _place(row), row["verdict"] in CALM
        if place in lost and calm and (place in needed or place not in named):
            yield f"{place}: {row['verdict']}"
        if place in needed and row["lost_records"] == 0:
            yield f"{place}: no record is lost"
        if place in needed and row["lost_records"] and not row["lost_at_least"]:
            yield f"{place}: {row['lost_records']} records are lost, and not at least so many"
    verdict = build_verdict(part, "high")
    if verdict["exit_status"] not in (1, 3) and (needed or lost - named):
        yield f"exit status {verdict['exit_status']}"
    if lost and (said := CALMING.search(build_answer(part, verdict).headline)):
        yield f"headline: {said[0]}"


def too_calm(results: Results) -> Iterator[str]:
    """Partitions whose verdict sees no loss, though keeping the present leader may cost committed records that a log holds.

    What only `.deleted` segments hold is gone whoever leads.
    """
    for row in results.rows("partitions"):
        place = _place(row)
        for cost in rows_of(results, "elections").get(place, ()) if row["verdict"] in CALM else ():
            stays = cost["candidate_id"] == cost["broker_id"] == row["leader_id"]
            gone = sum(one["lost_held"] for one in cost["beside"] if one["log_dir"].endswith("/*.deleted"))
            if stays and (lost := cost["lost_committed"] + cost["lost_possible"]) > gone:
                yield f"{place}: {row['verdict']}, and broker {row['leader_id']} may lose {lost} committed records"


def _holds(row: Mapping[str, Any], place: Place) -> bool:
    return _place(row) == place and bool(row["lost_held"])


def _place(row: Mapping[str, Any]) -> Place:
    return row["topic"], row["partition"]

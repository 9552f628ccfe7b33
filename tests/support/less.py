"""Parts of snapshots, of which something was taken away, and what an answer on such a part must not say.

Less is never more: of a part the audit may know less than of the whole, but it never contradicts the whole with more confidence.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from replica_audit.model import TopicPartition
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.results import Results

#: Files beside the segments that a log dir is sound without, and that say nothing by not being there. That a clean
#: shutdown's flag is absent is a statement, so it is not among them, nor is meta.properties, which says whose the files are.
SIDE_FILES = re.compile(
    r"(replication-offset|recovery-point-offset|log-start-offset|cleaner-offset|leader-epoch)-checkpoint|partition\.metadata"
)
#: Files beside the log dirs that say who leads, or how the copies were made.
SOURCES = re.compile(
    r".*topics-describe.*|leadership\.json|.*zookeeper.*|manifest\.json|(server|state-change|controller)\.log.*"
)
_PARTITION = re.compile(r"(?!__cluster_metadata).+-\d+")


def removable(snapshot: Path) -> list[str]:
    """Paths below a snapshot of which any may be missing from a copy: files, and directories with all that they hold."""
    return sorted({path.relative_to(snapshot).as_posix() for path in _removable(snapshot)})


def _removable(snapshot: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(snapshot):
        place = Path(folder)
        if place != snapshot and ("meta.properties" in files or any(map(_PARTITION.fullmatch, folders))):
            yield place
        yield from (place / name for name in folders if _PARTITION.fullmatch(name) or name == "__cluster_metadata-0")
        yield from (place / name for name in files if SIDE_FILES.fullmatch(name) or SOURCES.fullmatch(name))


def take_away(snapshot: Path, without: Iterable[str], target: Path) -> None:
    """Write at `target` what is left of `snapshot`; files are linked, not copied, where that can be done."""
    gone = {str(snapshot / path) for path in without}

    def passed_over(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if os.path.join(folder, name) in gone]

    shutil.copytree(snapshot, target, ignore=passed_over, copy_function=link)


def link(source: str, target: str) -> None:
    """A file that is only read needs no copy of its bytes, where it can be linked."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def some_parts(snapshot: Path, count: int, seed: object) -> Iterator[list[str]]:
    """`count` lists of what to take away: now one thing, now several, never all log dirs."""
    chance, paths = random.Random(f"{seed}"), removable(snapshot)
    for _ in range(count if paths else 0):
        yield sorted(chance.sample(paths, min(len(paths), chance.choice((1, 1, 1, 2, 2, 3, 5)))))


def rows_of(results: Results, table: str) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The rows of a table by partition, which nobody may change; one without rows is not there."""

    def by_partition() -> dict[tuple[str, int], list[dict[str, Any]]]:
        found = defaultdict(list)
        for row in results.rows(table):
            found[row["topic"], row["partition"]].append(row)
        return dict(found)

    return results.once(f"{table} by partition", dict, by_partition)


#: Verdicts that see no loss.
CALM = ("CONSISTENT", "LAGGING")
#: Sentences that no part may say of which a needed replica is missing.
CALMING = re.compile("All is well|Nothing is lost|captured replicas agree|Bring the missing brokers back|loses nothing")


def without(source: Path, target: Path, *, brokers: Collection[int] = (), names: Collection[str] = ()) -> Path:
    """A copy of the capture `source` at `target` without the directories of `brokers` and without files and directories called
    one of `names`, wherever they lie. What lies beside a capture and is not part of it is left out too."""
    gone = {"dump", "recovered"} | {f"broker-{broker_id}" for broker_id in brokers} | set(names)
    shutil.copytree(source, target, ignore=lambda _, entries: gone.intersection(entries), copy_function=link)
    return target


def lost_places(results: Results) -> set[TopicPartition]:
    """Partitions that lost committed records."""
    return {_place(row) for row in results.rows("partitions") if row["verdict"] == "COMMITTED_LOSS"}


def holders(results: Results) -> set[int]:
    """Brokers that hold lost records."""
    return {row["broker_id"] for row in results.rows("replicas") if row["lost_committed_held"] or row["lost_held"]}


def too_sure(whole: Results, part: Results) -> Iterator[str]:
    """Statements on a part that are more certain than those on the whole, which lost committed records.

    The part may be ignorant of the loss if it names all brokers that hold the records, and does not claim peace.
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


def _holds(row: Mapping[str, Any], place: TopicPartition) -> bool:
    return _place(row) == place and bool(row["lost_held"])


def _place(row: Mapping[str, Any]) -> TopicPartition:
    return row["topic"], row["partition"]

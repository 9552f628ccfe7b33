"""Parts of snapshots: what is left when brokers, directories, side files or sources of leadership are taken away."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

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
    gone = {snapshot / path for path in without}

    def passed_over(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if Path(folder) / name in gone]

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

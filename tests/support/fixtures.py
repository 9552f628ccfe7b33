"""The captures of real clusters (tests/fixtures) and the attacks (tests/attacks), unpacked once into the build directory.

In the repository they are archives; every test finds the files of a snapshot below `FIXTURES` or `ATTACKS`, and never
writes there. What is true of a capture, and the answers worked out for it, are text beside the archives.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.support.archives import SUFFIX, Files, read_archive, write_directory

ROOT = Path(__file__).parents[2]
ARCHIVED = ROOT / "tests" / "fixtures"
ARCHIVED_ATTACKS = ROOT / "tests" / "attacks"
UNPACKED = ROOT / "build" / "fixtures"

#: What was changed where in the damaged copies (`corrupted-*`) of one sound partition.
DAMAGE_TABLE = ARCHIVED / "damaged.json"
#: Golden files of the format of evidence.
GOLDEN = ARCHIVED / "evidence-1"


def archives(directory: Path) -> list[Path]:
    """The archives of a directory, in the order of their names."""
    return sorted(directory.glob(f"*{SUFFIX}"))


def damaged_copy(sound: Files, changes: list[dict]) -> Files:
    """The files of a sound partition with one copy's changes.

    A change takes a file away (`gone`), or replaces `drop` bytes from position `at` by those of `put` (hex) or by as many `zeros`.
    """
    files = dict(sound)
    for change in changes:
        content = files.pop(change["file"])
        if not change.get("gone"):
            at, drop = change["at"], change.get("drop", 0)
            put = bytes.fromhex(change.get("put", "")) + bytes(change.get("zeros", 0))
            files[change["file"]] = content[:at] + put + content[at + drop :]
    return files


def sound_partition(captures: Path, table: dict) -> Files:
    """The files from which the damaged copies are made."""
    sound = captures / table["from"]
    found = (path for pattern in table["files"] for path in sound.glob(pattern))
    return {path.relative_to(sound).as_posix(): path.read_bytes() for path in found}


def _unpack_captures(target: Path) -> None:
    for archive in archives(ARCHIVED):
        write_directory(read_archive(archive), target)
    table = json.loads(DAMAGE_TABLE.read_text(encoding="utf-8"))
    sound = sound_partition(target, table)
    for name, changes in table["copies"].items():
        write_directory(damaged_copy(sound, changes), target / name)


def _unpack_attacks(target: Path) -> None:
    for archive in archives(ARCHIVED_ATTACKS):
        write_directory(read_archive(archive), target)


def unpack_once(sources: list[Path], parent: Path, unpack: Callable[[Path], None]) -> Path:
    """The directory below `parent` that `unpack` filled from these sources, made only where there is none yet.

    Its name is the digest of the sources. It is filled under another name and renamed: of two processes that unpack at
    once one comes too late and takes the other's.
    """
    digest = hashlib.sha256()
    for source in [*sources, Path(__file__)]:
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    target = parent / digest.hexdigest()[:16]
    if not target.is_dir():
        parent.mkdir(parents=True, exist_ok=True)
        filled = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=parent))
        try:
            unpack(filled)
            filled.chmod(0o755)
            os.rename(filled, target)
        except OSError:
            if not target.is_dir():
                raise
        finally:
            shutil.rmtree(filled, ignore_errors=True)
    return target


#: By the name of a capture, its snapshot: log directories, listings, and `dump/` of the official tool.
FIXTURES = unpack_once([*archives(ARCHIVED), DAMAGE_TABLE], UNPACKED / "captures", _unpack_captures)
CAPTURES = sorted(path.name for path in FIXTURES.iterdir())
#: By class and name, the snapshots that are easily answered wrongly.
ATTACKS = unpack_once(archives(ARCHIVED_ATTACKS), UNPACKED / "attacks", _unpack_attacks)
#: By capture and partition: what follows from the files and the listing, worked out by an independent script.
EXPECTED = json.loads((ARCHIVED / "expected.json").read_text(encoding="utf-8"))


@cache
def truth(capture: str) -> dict:
    """Truth about a capture: records produced and acknowledged, what clients saw, what brokers logged. Decoded once and shared,
    so it must not be changed."""
    return json.loads((ARCHIVED / "truth" / f"{capture}.json").read_text(encoding="utf-8"))


def is_up(told: dict, broker: int) -> bool:
    """True if the broker ran when the capture with this truth was made."""
    return told["process_state"][f"broker-{broker}"] == "running"

"""Temporary files of a process: one directory that is removed at exit, and results that are removed unless finished."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

#: Directories whose content is not finished.
_UNFINISHED: list[Path] = []


def begin_result(path: Path) -> None:
    """Register a directory that is removed at exit unless `finish_result` is called."""
    _UNFINISHED.append(path)


def finish_result(path: Path) -> None:
    """Forget the directory: its content is finished, or somebody else removes it."""
    _UNFINISHED.remove(path)


def remove_unfinished() -> None:
    """Remove what is not finished; what cannot be removed is among `unfinished_results` still."""
    for path in list(_UNFINISHED):
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.lexists(path):
            finish_result(path)


def unfinished_results() -> tuple[Path, ...]:
    """Directories whose content is not finished."""
    return tuple(_UNFINISHED)


def say_left(path: Path) -> str:
    """Sentence for a directory that could not be removed."""
    return f"replica-audit: {path} could not be removed, and holds what was written so far: remove it yourself"


@cache
def scratch_directory() -> Path:
    """A directory of this process below the system's temporary one, made at the first call and removed at the end."""
    path = Path(tempfile.mkdtemp(prefix="replica-audit-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def remove_scratch() -> None:
    """Remove the directory, where it was made, ahead of an end that runs no exit handlers."""
    if scratch_directory.cache_info().currsize:
        shutil.rmtree(scratch_directory(), ignore_errors=True)

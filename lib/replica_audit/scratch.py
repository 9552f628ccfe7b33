"""Files of a process that are removed unless finished: a temporary directory, and results that appear completely or not at all."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

from replica_audit.errors import UsageError

#: Directories whose content is not finished.
_UNFINISHED: list[Path] = []


def begin_result(path: Path) -> None:
    """Register a directory that is removed at exit unless `finish_result` is called."""
    _UNFINISHED.append(path)


def finish_result(path: Path) -> None:
    """Forget the directory: its content is finished, or its removal is left to others."""
    _UNFINISHED.remove(path)


def remove_unfinished() -> None:
    """Remove unfinished directories; those that cannot be removed stay in `unfinished_results`."""
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
    """A directory of this process below the system's temporary one, made on the first call and removed at exit."""
    path = Path(tempfile.mkdtemp(prefix="replica-audit-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def remove_scratch() -> None:
    """Remove the directory, if it was made, before an exit that runs no exit handlers."""
    if scratch_directory.cache_info().currsize:
        shutil.rmtree(scratch_directory(), ignore_errors=True)


_STEP = 1 << 20


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """A new directory (0700) beside `target` that takes its name on success, and is otherwise removed with its contents.

    It is also removed when the process is interrupted (`scratch.remove_unfinished`). Raises UsageError if `target` exists,
    unless as an empty directory, or its parent is not writable.
    """
    if target.is_symlink() or target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UsageError(
            f"--to {target}: it exists already, and no earlier result is written over: give another directory"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"--to {target}: a directory above it is a file: give a directory that can be made") from None
    except OSError as error:
        raise UsageError(f"--to {target}: cannot be written: {error.strerror}") from error
    begin_result(made)
    try:
        yield made
        os.rename(made, target)
    except OSError as error:
        remove_unfinished()
        raise UsageError(f"--to {target}: cannot be written: {error.strerror}") from error
    except BaseException:
        remove_unfinished()
        raise
    finish_result(made)


def new_file(path: Path) -> BinaryIO:
    """A new file (0600) below a directory of `new_directory`, opened for writing; its parents are made (0700)."""
    missing = [parent for parent in path.parents if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=0o700)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def hash_file(path: Path) -> str:
    """Hex digits of a file's SHA-256."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_STEP):
            digest.update(chunk)
    return digest.hexdigest()

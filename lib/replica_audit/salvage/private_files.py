"""A directory that nobody else can look into and that comes into being whole, or not at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from replica_audit.errors import UsageError
from replica_audit.scratch import begin_result, finish_result, remove_unfinished

_STEP = 1 << 20


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """A new directory (0700) beside `target` that takes its name when all went well, and else goes with all that is in it.

    It goes when the process is interrupted, too (`scratch.remove_unfinished`).
    Raises UsageError where `target` is there already, unless as an empty directory, or its parent cannot be written to.
    """
    if target.is_symlink() or target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UsageError(
            f"--to {target}: it exists already, and no earlier result is written over: give another directory"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
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
    """Hex digits of the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_STEP):
            digest.update(chunk)
    return digest.hexdigest()

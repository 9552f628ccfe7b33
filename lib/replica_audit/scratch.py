"""The one temporary directory of a process: what the engine leaves in it goes when the process ends, however it ends."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


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

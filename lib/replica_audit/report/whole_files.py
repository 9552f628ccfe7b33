"""Files of a report, written under a temporary name and renamed, and the places that they go to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from replica_audit.paths import local_path

#: File with the rows of all partitions of a report whose audit.json would be too long.
LINES = "audit.jsonl.gz"


def write_file(path: str, content: str | Iterable[str | bytes]) -> None:
    """Atomically replace the file at `path` with text (UTF-8) or bytes, given completely or in parts."""
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=os.path.dirname(path) or ".")
    try:
        with os.fdopen(handle, "wb") as file:
            parts = [content] if isinstance(content, str) else content
            file.writelines(part if isinstance(part, bytes) else part.encode() for part in parts)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp creates files with 0600; a report should be as readable as other new files of its user.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def make_directory(directory: str) -> str:
    """Create the directory of a report, given as a path or a file URI, and return its path."""
    path = local_path(directory) or directory
    os.makedirs(path, exist_ok=True)
    return path


def page_url(path: str, published: str | None) -> str:
    """Address of the page of a report in the directory `path`: `published` if given, else its file URI."""
    return published or Path(path).absolute().joinpath("index.html").as_uri()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

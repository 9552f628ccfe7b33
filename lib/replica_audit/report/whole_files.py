"""Files that a reader sees whole or not at all: written beside their place and renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: File of a report that has the rows of all partitions where audit.json would be too long.
LINES = "audit.jsonl.gz"


def write_file(path: str, content: str | Iterable[str | bytes]) -> None:
    """Replace the file at `path` by a text or parts of one, in UTF-8, or bytes, at once or not at all."""
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=os.path.dirname(path) or ".")
    try:
        with os.fdopen(handle, "wb") as file:
            parts = [content] if isinstance(content, str) else content
            file.writelines(part if isinstance(part, bytes) else part.encode() for part in parts)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp gives 0600; a report is as readable as other new files of its user.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def make_directory(directory: str) -> str:
    """Make the directory of a report, a path or a file URI, where it is not there; returns its path."""
    path = unquote(urlsplit(directory).path) if directory.startswith("file:") else directory
    os.makedirs(path, exist_ok=True)
    return path


def page_url(path: str, published: str | None) -> str:
    """Address of the page of a report in the directory `path`: where it is `published`, else that of its file."""
    return published or Path(path).absolute().joinpath("index.html").as_uri()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

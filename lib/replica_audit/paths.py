"""Input and output paths of an audit: files named in settings must exist, and nothing is written inside the snapshot."""

from __future__ import annotations

import os
import posixpath
from urllib.parse import unquote, urlsplit

from replica_audit.config import Settings
from replica_audit.errors import UsageError


def local_path(place: str) -> str | None:
    """The local path of `place` (a path or file URI); None for another URI."""
    if "://" in place or place.startswith("file:"):
        parts = urlsplit(place)
        return unquote(parts.path) if parts.scheme == "file" else None
    return place


def check_outputs(snapshot: str | None, settings: Settings, *, report: bool = True) -> None:
    """Raise UsageError if the warehouse or the report would lie inside the snapshot or cannot be a directory."""
    outputs = [] if settings.catalog is not None else [("warehouse", settings.warehouse)]
    if report:
        outputs.append(("report", settings.report))
    for name, place in outputs:
        if snapshot is not None:
            check_outside(f"--{name}", place, snapshot)
        _check_directory(name, place)
    # The report is written to a local directory: it is for scripts and people, not for executors.
    if report and local_path(settings.report) is None:
        raise UsageError(f"report {settings.report}: the report is written to a local directory")


def check_files(settings: Settings) -> None:
    """Raise UsageError for a missing file named in the settings, and for --verify-remote without a store."""
    for name in ("leadership", "baseline"):
        path = getattr(settings, name)
        if path is not None and not os.path.isfile(local_path(path) or ""):
            raise UsageError(f"--{name} {path}: no such local file")
    if settings.verify_remote and settings.remote is None:
        raise UsageError("--verify-remote: there is no store to read: name it with --remote")
    suites = settings.suites if settings.quality else ()
    for path in suites:
        if not os.path.isfile(path):
            raise UsageError(f"--suites {path}: no such local file")


def check_outside(option: str, place: str, snapshot: str) -> None:
    """Raise UsageError if the `place` that an option names is `snapshot` or below it."""
    if lies_inside(place, snapshot):
        inside = f"{option} {place} lies inside the snapshot {snapshot}, which is only read"
        raise UsageError(f"{inside}: choose another {option}")


def lies_inside(place: str, snapshot: str) -> bool:
    """True if `place` is `snapshot` or below it, after symbolic links and `..`; the schemes s3a and s3 are the same."""
    path, root = local_path(place), local_path(snapshot)
    if (path is None) != (root is None):
        return False
    if path is None or root is None:
        parts, root_parts = _remote_parts(place), _remote_parts(snapshot)
        return parts[: len(root_parts)] == root_parts
    real, real_root = os.path.realpath(path), os.path.realpath(root)
    if os.path.commonpath([real, real_root]) == real_root:
        return True
    # A bind mount has other names for the same directory, so ancestors are compared by identity as well.
    while not os.path.exists(real):
        real = os.path.dirname(real)
    while True:
        if os.path.exists(real_root) and os.path.samefile(real, real_root):
            return True
        parent = os.path.dirname(real)
        if parent == real:
            return False
        real = parent


def _remote_parts(uri: str) -> list[str]:
    parts = urlsplit(uri)
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    path = posixpath.normpath("/" + parts.path).strip("/")
    return [scheme, parts.netloc, *(part for part in path.split("/") if part)]


def _check_directory(name: str, place: str) -> None:
    path = local_path(place)
    if path is None:
        return
    existing = os.path.abspath(path)
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    if not os.path.isdir(existing):
        raise UsageError(f"{name} {place}: {existing} is not a directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(f"{name} {place}: no permission to write in {existing}")

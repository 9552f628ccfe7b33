"""Where a warehouse lies: the same place as every process, Spark and Arrow call it."""

from __future__ import annotations

import os

from pyarrow import fs


def absolute_location(location: str) -> str:
    """A path or URI that every process understands, without a final slash; `s3a://` is taken as `s3://`."""
    location = location.rstrip("/") or "/"
    if location.startswith("s3a://"):
        return "s3://" + location[len("s3a://") :]
    if "://" in location:
        return location
    if location.startswith("file:"):
        location = location[len("file:") :]
    return os.path.abspath(location)


def spark_location(location: str) -> str:
    """The same place as Spark calls it, whose reader of S3 is that of Hadoop."""
    return "s3a://" + location[len("s3://") :] if location.startswith("s3://") else location


def open_directory(location: str) -> tuple[fs.FileSystem, str]:
    """The file system and the path in it of a table's directory."""
    if "://" not in location:
        return fs.LocalFileSystem(), location
    filesystem, root = fs.FileSystem.from_uri(location)
    return filesystem, root.rstrip("/")

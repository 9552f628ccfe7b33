"""Directories of snapshots as compressed archives: packed to the same bytes from the same files, each with a manifest.

An archive is a tar of regular files in the order of their paths, with time 0 and no owner, compressed with xz. Its
manifest is text, one file a line: SHA-256, size in bytes and path.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import tarfile
from collections.abc import Iterable
from pathlib import Path

SUFFIX = ".tar.xz"
#: Equal files lie megabytes apart: the dictionary has to span a whole archive.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 64 << 20}]

Files = dict[str, bytes]


def read_directory(directory: Path, names: Iterable[str] = (".",)) -> Files:
    """The files below the named directories, by default all, by their path in `directory`."""
    found = (path for name in names for path in (directory / name).rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def write_directory(files: Files, directory: Path) -> None:
    """Writes the files below `directory`, with the directories that they need."""
    made: set[Path] = set()
    for name, content in files.items():
        path = directory / name
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        path.write_bytes(content)


def tar_bytes(files: Files) -> bytes:
    """The files as an uncompressed tar, which depends on their paths and contents only."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def manifest_of(files: Files) -> str:
    """SHA-256, size in bytes and path of each file, in the order of the paths."""
    lines = (
        f"{hashlib.sha256(content).hexdigest()} {len(content):>8} {name}" for name, content in sorted(files.items())
    )
    return "".join(f"{line}\n" for line in lines)


def manifest_path(archive: Path) -> Path:
    """Path of an archive's manifest, beside it."""
    return archive.with_name(archive.name.removesuffix(SUFFIX) + ".manifest.txt")


def write_archive(files: Files, archive: Path) -> None:
    """Packs the files into `archive` and writes its manifest."""
    archive.write_bytes(lzma.compress(tar_bytes(files), format=lzma.FORMAT_XZ, filters=FILTERS))
    manifest_path(archive).write_text(manifest_of(files), encoding="utf-8")


def read_archive(archive: Path) -> Files:
    """The files of an archive, by path."""
    with tarfile.open(archive, "r:xz") as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def unpack(archive: Path | bytes, place: Path) -> None:
    """Unpack a tar file, or its content, at `place`, as this process's own; the first releases of Python 3.10 and 3.11 cannot be
    told so.
    """
    with tarfile.open(fileobj=io.BytesIO(archive if isinstance(archive, bytes) else archive.read_bytes())) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(place, filter="data")
        else:
            tar.extractall(place)

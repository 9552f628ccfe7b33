"""Unpacks an archive of snapshots to be changed, and packs a directory of them again.

python -m tests.pack unpack tests/fixtures/kafka-4.3.tar.xz /tmp/kafka-4.3
python -m tests.pack pack /tmp/kafka-4.3 tests/fixtures/kafka-4.3.tar.xz
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.support.archives import SUFFIX, manifest_path, read_archive, read_directory, write_archive, write_directory

TRUTH = "truth.json"


def unpack(archive: Path, directory: Path) -> None:
    """Writes the archive's files below `directory`, which must not have any yet."""
    if directory.exists() and any(directory.iterdir()):
        sys.exit(f"error: {directory} is not empty: give a new directory")
    write_directory(read_archive(archive), directory)


def pack(directory: Path, archive: Path) -> None:
    """Packs all below `directory` into `archive` and writes its manifest."""
    if not archive.name.endswith(SUFFIX):
        sys.exit(f"error: expected a name that ends in {SUFFIX}, found {archive.name}")
    files = read_directory(directory)
    if not files:
        sys.exit(f"error: no file below {directory}")
    if told := [name for name in files if name.rsplit("/", 1)[-1] == TRUTH]:
        sys.exit(f"error: {told[0]} has to stay readable: move it to {archive.parent / 'truth'}")
    write_archive(files, archive)
    print(f"{archive}: {len(files)} files, {archive.stat().st_size} bytes; what changed is in {manifest_path(archive)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["unpack", "pack"])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    {"unpack": unpack, "pack": pack}[arguments.action](arguments.source, arguments.target)


if __name__ == "__main__":
    main()

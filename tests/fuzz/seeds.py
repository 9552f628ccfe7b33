"""Seeds: small inputs of every target in one archive, which depends on nothing but them, and inputs that once were crashes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.support.archives import Files, read_archive

ROOT = Path(__file__).parents[2]
ARCHIVE = Path(__file__).parent / "seeds.tar.xz"
#: Inputs that once were a crash, minimised; by target and what it was.
CRASHERS = Path(__file__).parent / "crashers"
CORPUS = ROOT / "build" / "fuzz" / "corpus"


def kept_seeds() -> Files:
    """The inputs of the archive and those that were crashes, as `target/name`."""
    found = read_archive(ARCHIVE)
    crashers = (path for path in CRASHERS.rglob("*") if path.is_file())
    return found | {path.relative_to(CRASHERS).as_posix(): path.read_bytes() for path in crashers}


def unpack() -> None:
    """Add the kept seeds to the corpora."""
    for name, data in kept_seeds().items():
        add(name.split("/")[0], data)


def add(target: str, data: bytes) -> None:
    path = CORPUS / target / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)

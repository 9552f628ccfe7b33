"""The collector under every Python from 3.6 on that is at hand, as it is run on a broker, and without the right to read a file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from functools import partial
from pathlib import Path

import pytest
from tests.support.collected import lines_of, settle
from tests.support.encoder import encode_batch, encode_marker
from tests.support.snapshots import Replica, write_snapshot

from replica_audit.cli.capture_plan_command import collector_text
from replica_audit.segments.frames import HEADERS, MAGIC, FrameFile

_PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


def _at_hand() -> dict[str, str]:
    """Interpreters by their minor version, that of the tests among them."""
    found = {f"3.{sys.version_info.minor}": sys.executable}
    for minor in range(6, 20):
        places = [*map(str, sorted(_PYENV.glob(f"3.{minor}.*/bin/python"))), shutil.which(f"python3.{minor}")]
        for place in filter(None, places):
            # What pyenv puts on the path may lead nowhere.
            if (
                f"3.{minor}" not in found
                and not subprocess.run([place, "-c", ""], capture_output=True, check=False).returncode
            ):
                found[f"3.{minor}"] = place
    return found


PYTHONS = _at_hand()


def _run(python: str, log_dir: Path, archive: Path, *before: str) -> subprocess.CompletedProcess[bytes]:
    command = [*before, python, "-I", "-B", "-", "--log-dir", str(log_dir), "--headers", "always"]
    with archive.open("wb") as out:
        return subprocess.run(command, input=collector_text().encode(), stdout=out, stderr=subprocess.PIPE, check=False)


def _log_dir(place: Path) -> Path:
    batches = [encode_batch(at * 10, 10, 0) for at in range(50)]
    replica = Replica([*batches, encode_marker(500, "COMMIT", 0, producer_id=7, producer_epoch=0)], tail=b"\x09" * 40)
    log_dir = write_snapshot(place, {1: replica}) / "broker-1"
    settle(log_dir)
    return log_dir


def _taken(archive: Path) -> dict[str, bytes | list[tuple[bytes, int, int, bytes | None]]]:
    """The files of an archive; what frames hold as it inflates, since each Python has a zlib of its own."""
    found: dict[str, bytes | list[tuple[bytes, int, int, bytes | None]]] = {}
    with tarfile.open(archive) as tar:
        for info in tar:
            data = tar.extractfile(info).read()  # type: ignore[union-attr]
            if data.startswith(MAGIC):
                file = FrameFile(info.name, [partial(bytes, data)])
                found[info.name] = [
                    (one.kind, one.position, one.end, file.inflate(one) if one.kind in (*HEADERS, b"X", b"R") else None)
                    for one in file.frames
                ]
            elif not info.name.startswith("evidence-"):
                found[info.name] = data
    return found


@pytest.mark.parametrize("version", PYTHONS)
def test_the_evidence_is_the_same_by_every_python(version: str, tmp_path: Path) -> None:
    log_dir = _log_dir(tmp_path / "snapshot")
    ours, theirs = tmp_path / "ours.tar", tmp_path / "theirs.tar"
    assert _run(sys.executable, log_dir, ours).returncode == 0
    ended = _run(PYTHONS[version], log_dir, theirs)
    assert (
        ended.returncode == 0
        and ended.stderr.count(b"\n") == 1
        and b"headers alone were taken of 1 of 1" in ended.stderr
    )
    assert _taken(theirs) == _taken(ours)
    # What digests are of is compressed.
    listed, expected = (
        [{name: line[name] for name in line if name != "parts"} for line in lines_of(one)] for one in (theirs, ours)
    )
    assert listed == expected
    with tarfile.open(theirs) as tar:
        assert tar.getnames()[-1] == "evidence-1.json"


def test_a_file_that_may_not_be_read_is_named_and_ends_with_1(tmp_path: Path) -> None:
    log_dir = _log_dir(tmp_path / "snapshot")
    segment = log_dir / "orders-0" / f"{0:020d}.log"
    segment.chmod(0)
    # Whoever is root may read everything, unless that right is given up.
    rights = "-dac_override,-dac_read_search"
    before = ("setpriv", f"--inh-caps={rights}", f"--bounding-set={rights}") if os.geteuid() == 0 else ()
    ended = _run(sys.executable, log_dir, tmp_path / "evidence.tar", *before)
    assert ended.returncode == 1
    assert f"broker-1/orders-0/{0:020d}.log: Permission denied".encode() in ended.stderr
    assert not [
        line for line in lines_of(tmp_path / "evidence.tar") if line["path"].endswith(".log") and line["as"] == "frames"
    ]

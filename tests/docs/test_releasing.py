"""`make release` publishes nothing that the change log does not name, or that is not committed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from replica_audit import __version__

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with what the target reads; the targets that it makes write what they were asked for."""
    place = tmp_path / "clone"
    (place / "lib" / "replica_audit").mkdir(parents=True)
    shutil.copy(ROOT / "lib" / "replica_audit" / "__init__.py", place / "lib" / "replica_audit")
    (place / "lib" / "replica_audit" / "collect").mkdir()
    shutil.copy(ROOT / "lib" / "replica_audit" / "collect" / "collect.py", place / "lib" / "replica_audit" / "collect")
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    target = recipe[recipe.index("\nSIGNING_KEY ?=") : recipe.index("\nzip:")]
    head = "SHELL := /bin/bash\n.SHELLFLAGS := -euo pipefail -c\n"
    (place / "Makefile").write_text(
        f"{head}{target}\ntest-dist sbom:\n\t@echo $@; mkdir -p dist build; echo $@ > dist/$@.whl; echo $@ > build/sbom.json\n"
    )
    (place / "CHANGELOG.md").write_text(f"# Changes\n\n## [Unreleased]\n\n## [{__version__}] - 2026-11-28\n")
    (place / ".gitignore").write_text("dist\nbuild\n")
    _git(place, "init", "-q")
    _git(place, "add", "-A")
    _git(place, "-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-qm", "c")
    return place


def _git(place: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=place, check=True, timeout=60)


def _release(clone: Path, path: str = "/usr/bin:/bin", *arguments: str) -> tuple[int, str]:
    command = ["make", "release", *arguments]
    ended = subprocess.run(command, cwd=clone, env={"PATH": path}, capture_output=True, text=True, timeout=60)
    return ended.returncode, ended.stdout + ended.stderr


def test_it_makes_and_signs_what_is_published(clone: Path, tmp_path: Path) -> None:
    status, said = _release(clone)
    assert status == 0 and said.splitlines()[:2] == ["test-dist", "sbom"] and "not signed" in said
    tool = tmp_path / "tools" / "sigstore"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "signed: $*"\n')
    tool.chmod(0o755)
    status, said = _release(clone, f"{tool.parent}:/usr/bin:/bin")
    published = "dist/sbom.whl dist/test-dist.whl build/sbom.json build/collect.py build/SHA256SUMS"
    assert status == 0 and said.splitlines()[2:] == [f"signed: sign --overwrite --output-directory build {published}"]


def test_a_key_signs_the_checksums_of_what_is_published(clone: Path, tmp_path: Path) -> None:
    """Verified as docs/releasing.md says, by somebody who has all of it in one directory."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=60)
    for _ in range(2):
        status, said = _release(clone, "/usr/bin:/bin", f"SIGNING_KEY={key}")
        assert status == 0 and "not signed" not in said, said
    place = tmp_path / "published"
    place.mkdir()
    for path in (*(clone / "dist").iterdir(), *(clone / "build").iterdir()):
        shutil.copy(path, place)
    (place / "signers").write_text(f"releases {(tmp_path / 'key.pub').read_text()}")
    (line,) = (
        line for line in (ROOT / "docs" / "releasing.md").read_text().splitlines() if "ssh-keygen -Y verify" in line
    )
    verify = ["bash", "-c", line.strip().removeprefix("$ ")]
    checked = subprocess.run(verify, cwd=place, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0 and checked.stdout.count(": OK") == 4, checked
    (place / "sbom.whl").write_text("another\n")
    assert subprocess.run(verify, cwd=place, capture_output=True, timeout=60).returncode
    shutil.copy(clone / "dist" / "sbom.whl", place)
    with (place / "SHA256SUMS").open("a") as file:
        file.write("\n")
    assert subprocess.run(verify, cwd=place, capture_output=True, timeout=60).returncode


def test_a_version_without_a_section_is_not_released(clone: Path) -> None:
    (clone / "CHANGELOG.md").write_text("# Changes\n\n## [Unreleased]\n")
    status, said = _release(clone)
    assert status != 0 and f"CHANGELOG.md has no section for {__version__} with its day" in said and "sbom" not in said


def test_what_is_not_committed_is_not_released(clone: Path) -> None:
    (clone / "new").touch()
    status, said = _release(clone)
    assert status != 0 and "not committed" in said and "sbom" not in said

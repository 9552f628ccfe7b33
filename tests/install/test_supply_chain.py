"""Supply chain of an installation: licences that the project accepts, and a checksum for everything."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.some import some

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / ".ci" / "sbom.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _component(distribution: metadata.Distribution) -> dict:
    about = distribution.metadata
    named = [about.get("License-Expression"), about.get("License")]
    named += [
        line.rpartition("::")[2].strip() for line in about.get_all("Classifier") or [] if line.startswith("License")
    ]
    licences = [{"license": {"name": text}} for text in named if text]
    return {"name": distribution.name, "version": distribution.version, "licenses": licences}


def test_every_installed_package_has_a_licence_that_the_project_takes(sbom: ModuleType) -> None:
    assert sbom.refused([_component(one) for one in metadata.distributions()]) == []


@pytest.mark.parametrize("licence", ["LGPL-2.1-or-later", "GPL-3.0-only", "AGPL-3.0", "Proprietary", None])
def test_another_licence_is_looked_at_by_a_person(licence: str | None, sbom: ModuleType, tmp_path: Path) -> None:
    licences = [{"license": {"id": licence}}] if licence else []
    packages = tmp_path / "packages.json"
    packages.write_text(json.dumps({"components": [{"name": "x", "version": "1", "licenses": licences}]}))
    assert sbom.main(str(packages), str(tmp_path / "sbom.json")) == 1


def test_the_bill_has_every_jar_with_its_checksum(sbom: ModuleType, tmp_path: Path) -> None:
    packages = tmp_path / "packages.json"
    packages.write_text(json.dumps({"components": []}))
    assert sbom.main(str(packages), str(tmp_path / "sbom.json")) == 0
    bill = {one["purl"]: one for one in json.loads((tmp_path / "sbom.json").read_text())["components"]}
    locks = "".join(path.read_text() for path in (ROOT / "conf").glob("jars*.lock"))
    named = [line for line in locks.splitlines() if line and not line.startswith("#")]
    assert len(bill) == len(set(named)) > 0
    assert all(one["hashes"][0]["content"] in locks for one in bill.values())


def test_every_locked_package_has_a_checksum() -> None:
    for path in some((ROOT / ".locks").glob("*.txt")):
        text = path.read_text()
        packages = re.findall(r"^[A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?==.*(?:\n    .*)*", text, re.MULTILINE)
        assert packages, path.name
        assert all("--hash=sha256:" in one for one in packages), path.name
        assert "://" not in re.sub(r"^\s*#.*", "", text, flags=re.MULTILINE), path.name


#: Stands for pip-audit: knows what `requests` and `other` have, and services by name.
_PIP_AUDIT = """#!{python}
import json, re, sys
service, lock = sys.argv[sys.argv.index("-s") + 1], open(sys.argv[-1]).read()
if service not in {services!r}:
    sys.exit("Traceback: no such host")
known = {{}} if {mirror} else {{"requests": ["CVE-2018-18074"], "other": ["CVE-1"]}}
found = [
    {{"name": name, "skip_reason": "not found on PyPI"}} if name == "unheard" else
    {{"name": name, "version": "1", "vulns": [{{"id": one, "fix_versions": ["2"]}} for one in known.get(name, [])]}}
    for name in re.findall(r"^([a-z]+)==", lock, re.M)
]
print(json.dumps({{"dependencies": found}}))
"""


@pytest.mark.parametrize(
    ("services", "mirror", "lock", "status", "said"),
    [
        (["pypi"], False, "sound==1\n", 0, "1 pins of 1 locks looked up in the advisories of pypi"),
        (["osv"], False, "sound==1\nother==1\n", 1, "other 1: CVE-1, fixed in 2"),
        (["pypi"], False, "sound==1\nunheard==1\n", 2, "not checked: unheard"),
        (["pypi"], True, "sound==1\n", 2, "no advisory database can be reached"),
        ([], False, "sound==1\n", 2, "no advisory database can be reached"),
    ],
    ids=["none known", "one known", "not in the database", "a mirror without advisories", "no network"],
)
def test_advisories_are_believed_only_from_a_database_that_knows_some(
    services: list[str], mirror: bool, lock: str, status: int, said: str, tmp_path: Path
) -> None:
    tool, locks = tmp_path / "pip-audit", tmp_path / "lock.txt"
    tool.write_text(_PIP_AUDIT.format(python=sys.executable, services=services, mirror=mirror))
    tool.chmod(0o755)
    locks.write_text(lock)
    program = [sys.executable, str(ROOT / ".ci" / "advisories.py"), str(tool), str(locks)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    if "no advisory" in said:
        assert len((done.stdout + done.stderr).splitlines()) == 1


def test_a_licence_in_free_text_is_read(sbom: ModuleType, tmp_path: Path) -> None:
    packages = tmp_path / "packages.json"
    free = [one for one in ("protobuf", "PySocks") if sbom.named_in_metadata(one)]
    assert free, "neither is installed any more: name another whose metadata has no SPDX expression"
    packages.write_text(json.dumps({"components": [{"name": name, "version": "1"} for name in free]}))
    assert sbom.main(str(packages), str(tmp_path / "sbom.json")) == 0

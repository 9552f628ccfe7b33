"""Known vulnerabilities of the locked packages, from the first advisory database that can be reached.

    python .ci/advisories.py PIP-AUDIT LOCK...

A database is believed when it knows the vulnerabilities of an old package that is asked for first: a mirror that answers, but
has no advisories, would else pass for good news. Status 0: none is known; 1: some are, one line each; 2: no database was
reached, or it does not know a package, so that nothing is proven.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

#: PyPI's own, then OSV's, which has the same advisories.
SERVICES = ("pypi", "osv")

#: CVE-2018-18074 and later ones.
PLANTED = "requests==2.19.0\n"


def ask(tool: str, service: str, requirements: Path) -> list[dict[str, Any]] | None:
    """The packages of `requirements`, each with `vulns` or `skip_reason`; None where the database gives no answer."""
    command = [tool, "-s", service, "--progress-spinner", "off", "--disable-pip", "--no-deps", "-f", "json", "-r"]
    done = subprocess.run([*command, str(requirements)], capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return None


def reached(tool: str) -> str | None:
    """The first service that knows what is vulnerable."""
    with tempfile.TemporaryDirectory() as directory:
        planted = Path(directory) / "planted.txt"
        planted.write_text(PLANTED)
        for service in SERVICES:
            if any(package.get("vulns") for package in ask(tool, service, planted) or ()):
                return service
    return None


def main(tool: str, *locks: str) -> int:
    service = reached(tool)
    if service is None:
        print("no advisory database can be reached (PyPI's, OSV's): nothing was checked", file=sys.stderr)
        return 2
    status, checked = 0, 0
    for lock in locks:
        packages = ask(tool, service, Path(lock))
        for package in packages or ():
            checked += 1
            for one in package.get("vulns") or ():
                fixed = ", ".join(one.get("fix_versions") or ()) or "none"
                print(f"{lock}: {package['name']} {package['version']}: {one['id']}, fixed in {fixed}")
                status = status or 1
        unknown = ["the whole lock"] if not packages else [one["name"] for one in packages if "skip_reason" in one]
        if unknown:
            print(f"{lock}: not checked: {', '.join(unknown)}", file=sys.stderr)
            status = 2
    print(f"{checked} pins of {len(locks)} locks looked up in the advisories of {service}")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

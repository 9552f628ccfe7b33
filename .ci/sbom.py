"""Bill of materials of the installed project: packages as CycloneDX's own tool lists them, and the JARs of conf/jars*.lock.

    python .ci/sbom.py PACKAGES.json OUT.json

PACKAGES.json is what `cyclonedx-py environment` wrote. Ends with status 1, one line each, when a licence is not among those
that the project takes, so that a new dependency is looked at by a person.
"""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

#: Licences of what the project installs, as packages name them: SPDX, or a classifier's last words.
TAKEN = re.compile(
    r"Apache|MIT|BSD|0BSD|ISC|PSF|Python Software Foundation|Zlib|CC0|Unicode|HPND|Unlicense|Copyright \(c\) .*Vega-Altair|DFSG approved"
)

#: Packages under other licences, each with the reason that it is taken.
EXCEPTIONS = {
    "certifi": "MPL-2.0: a list of certificates, used as it is; requests wants it",
    "tqdm": "MPL-2.0 and MIT: used as it is; Great Expectations wants it",
    "shtab": "MPL-2.0: used as it is",
    "hypothesis": "MPL-2.0: tests only",
}

_JAR = re.compile(r"([\w.-]+):([\w.-]+):([\w.-]+) sha256:([0-9a-f]{64})")


def named_in_metadata(name: str) -> list[dict[str, Any]]:
    """The licence in the metadata of an installed package, as an entry of the bill: the tool passes over free text."""
    try:
        text = metadata.metadata(name).get("License") or ""
    except metadata.PackageNotFoundError:
        return []
    return [{"license": {"name": text.strip().splitlines()[0]}}] if text.strip() else []


def licences(component: dict[str, Any]) -> list[str]:
    """Licences of a component of the bill: SPDX identifiers, expressions or names."""
    found = []
    for one in component.get("licenses", []):
        licence = one.get("license", {})
        found.append(one.get("expression") or licence.get("id") or licence.get("name") or "")
    return [text for text in found if text]


def refused(components: list[dict[str, Any]]) -> list[str]:
    """A line for each component without a licence, or without one that the project takes."""
    lines = []
    for component in components:
        name, named = component["name"], licences(component)
        if name in EXCEPTIONS or any(TAKEN.search(text) for text in named):
            continue
        lines.append(f"{name} {component.get('version')}: {', '.join(named) or 'no licence named'}")
    return lines


def jars() -> list[dict[str, Any]]:
    """The JARs that an installation brings, with the checksums that it holds them to."""
    found = {}
    for lock in sorted((ROOT / "conf").glob("jars*.lock")):
        for group, name, version, digest in _JAR.findall(lock.read_text(encoding="utf-8")):
            purl = f"pkg:maven/{group}/{name}@{version}"
            found[purl] = {
                "type": "library", "bom-ref": purl, "group": group, "name": name, "version": version, "purl": purl,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }  # fmt: skip
    return [found[purl] for purl in sorted(found)]


def main(packages: str, out: str) -> int:
    bill = json.loads(Path(packages).read_text(encoding="utf-8"))
    for component in bill["components"]:
        if not licences(component):
            component["licenses"] = named_in_metadata(component["name"])
    lines = refused(bill["components"])
    bill["components"] += jars()
    Path(out).write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for line in lines:
        print(f"licence to be looked at: {line}", file=sys.stderr)
    print(f"{out}: {len(bill['components'])} components")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

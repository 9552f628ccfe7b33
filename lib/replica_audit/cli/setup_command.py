"""`setup`: installs what a run on this machine needs besides packages."""

from __future__ import annotations

import argparse
from pathlib import Path

from replica_audit.cli.output import print_note, print_result
from replica_audit.config import Settings
from replica_audit.errors import EngineError, UsageError
from replica_audit.install.setup import remove, requirements, set_up


def setup(arguments: argparse.Namespace, settings: Settings) -> int:
    """Install what is missing, with `--check` only report it, with `--remove` delete it; 4 if a requirement is missing."""
    if arguments.remove:
        removed = remove()
        print_result(f"removed {removed}" if removed else "nothing to remove")
        return 0
    ivy_settings = _path(arguments.ivy_settings)
    offline = _path(arguments.offline)
    if ivy_settings is not None and not ivy_settings.is_file():
        raise UsageError(f"--ivy-settings {arguments.ivy_settings}: no such file")
    if offline is not None and not offline.is_dir():
        raise UsageError(f"--offline {arguments.offline}: no such directory")
    if not arguments.check:
        print_note("replica-audit: setting up: about 20 seconds, and a download of 30 MB if JARs are missing")
        set_up(ivy_settings, offline)
    found = requirements()
    for one in found:
        lacking = "missing" if one.needed else "no"
        print_result(f"{'ok' if one.there else lacking:8}{one.name}: {one.state}")
    if all(one.there for one in found if one.needed):
        return 0
    return EngineError.exit_status


def _path(given: str | None) -> Path | None:
    return Path(given) if given else None

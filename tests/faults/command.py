"""The command line with a session that needs no JVM, in the process that a test has started for it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.support.in_process import run_in_process

import replica_audit.spark.pipeline  # noqa: F401  so that a process that is forked from this one has it
from replica_audit.cli import failure
from replica_audit.cli.main import main

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000


def run_command(directory: str, arguments: list[str], before: str, after: str) -> None:
    """End the process as the command ends; its output is in files of `directory`, beside its temporary files.

    `before` and `after` are shell lines that run there; where there are any, the process has mounts of its own.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(f"{directory}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.environ["TMPDIR"] = tempfile.tempdir = failure.TEMPORARY = f"{directory}/temporary"
    if before or after:
        _leave_mounts()
        subprocess.run(["sh", "-ec", before], cwd=directory, check=True)
    run_in_process(pytest.MonkeyPatch())
    status = main(arguments)
    sys.stdout.flush()
    subprocess.run(["sh", "-ec", after], cwd=directory, check=True)
    sys.exit(status)


def _leave_mounts() -> None:
    """Give this process mounts of its own, as `unshare --user --mount --map-root-user` does without privileges."""
    user, group = os.getuid(), os.getgid()
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_NEW_USER | _NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "no mounts of its own")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        Path("/proc/self", name).write_text(text)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)

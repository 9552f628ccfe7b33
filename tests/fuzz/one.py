"""One target under libFuzzer, in a process of its own: `python -m tests.fuzz.one TARGET [libFuzzer's arguments]`."""

from __future__ import annotations

import shlex
import sys

import atheris

with atheris.instrument_imports(include=["replica_audit"]):
    from tests.fuzz.targets import execute

    name = sys.argv.pop(1)
    execute(name, b"")  # what is imported late is instrumented too
# What libFuzzer starts other processes with, through a shell, when it merges.
sys.argv[0] = f"{shlex.quote(sys.executable)} -m tests.fuzz.one {name}"
atheris.Setup(sys.argv, lambda data: execute(name, data))
atheris.Fuzz()

"""Memory freed by a process is reused without asking the system for new pages."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_PROGRAM = """
import resource, sys
from replica_audit.process_tuning import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def allocate():
    bytearray(40 << 20)  # above what glibc keeps by itself
allocate()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    allocate()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no such setting")
def test_freed_memory_is_kept() -> None:
    faults = {
        how: int(
            subprocess.run([sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, check=True).stdout
        )
        for how in ("kept", "left alone")
    }
    assert faults["kept"] < 100 < faults["left alone"]

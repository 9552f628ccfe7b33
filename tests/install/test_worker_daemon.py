"""The process that forks Python workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIBRARY = Path(__file__).parents[2] / "lib"


def test_files_of_the_current_directory_are_not_taken_for_modules(tmp_path: Path) -> None:
    """Named like a module of Python that pyspark imports, as any file of a user may be."""
    for name in ("numbers.py", "signal.py", "select.py", "decimal.py"):
        (tmp_path / name).write_text("raise RuntimeError('a file of the user')\n")
    done = subprocess.run(
        [sys.executable, "-m", "replica_audit.install.worker_daemon"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(LIBRARY)},
    )  # fmt: skip
    assert b"a file of the user" not in done.stderr and len(done.stdout) == 4, done.stderr

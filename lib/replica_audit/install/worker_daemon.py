"""The process that forks Python workers: pyspark's daemon, compiled where it is installed, with settings that save CPU time."""

from __future__ import annotations

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    # `python -m` puts the current directory first, where a file numbers.py would be taken for Python's own module.
    del sys.path[0]

import runpy

from replica_audit.process_start import collect_rarely, keep_freed_memory, prefer_compiled_pyspark

if __name__ == "__main__":
    prefer_compiled_pyspark()
    keep_freed_memory()
    collect_rarely()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)

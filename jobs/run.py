"""`replica-audit run` for spark-submit: the same arguments, the same exit status."""

from __future__ import annotations

import sys

from replica_audit.cli.start import entry_point

if __name__ == "__main__":
    entry_point(["run", *sys.argv[1:]])

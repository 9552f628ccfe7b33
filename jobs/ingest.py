"""`replica-audit ingest` for spark-submit: the same arguments, the same exit status."""

from __future__ import annotations

import sys

from replica_audit.cli.start import entry_point

if __name__ == "__main__":
    entry_point(["ingest", *sys.argv[1:]])

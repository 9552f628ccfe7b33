"""`replica-audit history` for spark-submit: the same arguments, the same exit status."""

from __future__ import annotations

import sys

from replica_audit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["history", *sys.argv[1:]]))

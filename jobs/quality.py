"""`replica-audit quality` for spark-submit: the same arguments, the same exit status."""

from __future__ import annotations

import sys

from replica_audit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["quality", *sys.argv[1:]]))

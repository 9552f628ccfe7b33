"""`replica-audit quality` for spark-submit; a version without that command says so and returns 2."""

from __future__ import annotations

import sys

from replica_audit.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["quality", *sys.argv[1:]]))

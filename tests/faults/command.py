"""The command line with a session that needs no JVM: `python -m tests.faults.command ARGUMENTS…`."""

from __future__ import annotations

import sys

from tests.support.in_process import InProcessSession

import replica_audit.spark.session
from replica_audit.cli.main import main


class _Session(InProcessSession):
    def stop(self) -> None:
        pass


if __name__ == "__main__":
    replica_audit.spark.session.start_session = lambda *arguments, **named: _Session()
    sys.exit(main(sys.argv[1:]))

"""stdout and stderr as a shell gives them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[2] / "lib"
MAIN = "import sys; from replica_audit.cli.main import main; sys.exit(main())"


def _environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("REPLICA_AUDIT_")}
    return {**kept, "PYTHONPATH": str(LIBRARY), **more}


def test_a_reader_that_goes_away_does_not_change_the_status() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "explain", "HWM-LOSS"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_stdout_that_lacks_a_character_gets_its_number(encoding: str) -> None:
    program = "from replica_audit.cli.output import print_result; print_result('caf\\u00e9')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        env=_environment(PYTHONIOENCODING=encoding),
        check=True,
    )
    assert done.stdout == ("caf\u00e9\n" if encoding == "utf-8" else "caf\\xe9\n").encode(encoding)


def test_output_to_a_pipe_has_no_colour() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "explain", "HWM-LOSS"], capture_output=True, env=_environment(), check=True
    )
    assert b"\x1b" not in done.stdout

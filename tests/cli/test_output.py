"""stdout and stderr as a shell gives them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.samples import SAMPLES

from replica_audit.cli.main import main

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


@pytest.mark.parametrize(
    ("options", "environment", "is_coloured"),
    [
        ([], {}, False),
        (["--color", "always"], {"NO_COLOR": "1", "TERM": "dumb"}, True),
        (["--color=never"], {}, False),
        ([], {"REPLICA_AUDIT_COLOR": "always"}, True),
        (["--color=auto"], {"REPLICA_AUDIT_COLOR": "always"}, False),
    ],
)
def test_output_to_a_pipe_has_colour_where_it_is_asked_for(
    options: list[str], environment: dict[str, str], is_coloured: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "explain", "HWM-LOSS", *options],
        capture_output=True,
        env=_environment(**environment),
        check=True,
    )
    assert (b"\x1b" in done.stdout) == is_coloured


@pytest.mark.parametrize("columns", [60, 80, 110])
def test_output_to_a_pipe_is_as_wide_as_columns_says(columns: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "explain", "HWM-LOSS"],
        capture_output=True,
        env=_environment(COLUMNS=str(columns)),
        check=True,
    )
    assert columns - 15 < max(map(len, done.stdout.decode().splitlines())) <= columns


ENTRY_POINT = MAIN.replace("main", "entry_point").replace("cli.entry_point", "cli.main")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("program", "arguments", "status"),
    [
        *((MAIN, "explain HWM-LOSS", 0), (MAIN, "help", 0), (MAIN, "-v", 2), (MAIN, "show nowhere", 2)),
        *((ENTRY_POINT, "help", 0), (ENTRY_POINT, "show nowhere", 2)),
    ],
)
def test_a_closed_stream_gives_no_traceback_and_the_same_status(
    program: str, closed: str, arguments: str, status: int
) -> None:
    command = f"\"$0\" -c '{program}' {arguments} {closed}"
    done = subprocess.run(["bash", "-c", command, sys.executable], capture_output=True, env=_environment())
    assert done.returncode == status and b"Traceback" not in done.stdout + done.stderr
    if closed == "2>&-":
        assert done.stderr == b""


def test_a_file_that_is_opened_later_does_not_become_the_output(tmp_path: Path) -> None:
    program = (
        "import sys; from replica_audit.cli.output import open_closed_streams, print_result; open_closed_streams(); "
        "file = open(sys.argv[1], 'w'); print_result('a result'); file.write('content'); file.close()"
    )
    command = f'"$0" -c "{program}" {tmp_path}/file >&- <&-'
    subprocess.run(["bash", "-c", command, sys.executable], check=True, env=_environment())
    assert (tmp_path / "file").read_text() == "content"


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize(
    "words",
    [
        "elect {samples}/tiered-unclean",
        "quorum {samples}/lost-quorum",
        "verify {samples}/diverged-unclean {samples}/diverged-unclean",
        "verify {long} {long}",
        "salvage {samples}/last-replica-standing",
        "salvage {long}",
        "show {long}",
    ],
)
def test_no_line_but_the_last_is_wider_than_the_terminal(
    words: str, columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = tmp_path / "long"
    shutil.copytree(SAMPLES / "hw-truncation-lost", long)
    topic = "payments.card-authorisations." * 4
    for place in list(long.glob("*/orders-0")):
        place.rename(place.with_name(f"{topic}-0"))
    for text in [*long.glob("*.txt"), *long.glob("*/*-checkpoint")]:
        text.write_text(text.read_text().replace("orders", topic))
    monkeypatch.setenv("COLUMNS", str(columns))
    to = ["--to", str(tmp_path / "salvaged")] if words.startswith("salvage") else []
    assert main([*words.format(samples=SAMPLES, long=long).split(), *to]) in (0, 1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5
    # The last is the status line, which programs read; a long word of a command stays whole.
    assert [line for line in lines[:-1] if len(line) > columns and not re.fullmatch(r" {5}\S+( \\)?", line)] == []

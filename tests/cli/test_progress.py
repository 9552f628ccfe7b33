"""Progress: for people at a terminal, and only for them."""

from __future__ import annotations

import io

from replica_audit.cli.progress import Progress, render_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _scan(progress: Progress) -> None:
    progress.begin("scan", 3, 3 * 1024)
    for _ in range(3):
        progress.advance(1, 1024)
    progress.end()


def test_a_terminal_sees_files_and_bytes_done_of_total() -> None:
    stream = Terminal()
    _scan(Progress(stream=stream))
    assert "scan  0 of 3 files  0 B of 3.0 KiB (0 %)" in stream.getvalue()
    assert stream.getvalue().endswith("scan  3 of 3 files  3.0 KiB of 3.0 KiB (100 %)\n")


def test_a_pipe_and_a_quiet_run_see_nothing() -> None:
    pipe, terminal = io.StringIO(), Terminal()
    _scan(Progress(stream=pipe))
    _scan(Progress(quiet=True, stream=terminal))
    assert pipe.getvalue() == "" and terminal.getvalue() == ""


def test_a_shorter_line_covers_a_longer_one() -> None:
    stream = Terminal()
    progress = Progress(stream=stream)
    progress.begin("a stage with a long name")
    progress.begin("short")
    assert stream.getvalue().split("\r")[-1] == "short".ljust(len("a stage with a long name"))


def test_unknown_totals_are_left_out() -> None:
    assert render_progress("compare", 0, 0, 0, 0) == "compare"
    assert render_progress("scan", 2, 0, 2048, 0) == "scan  2 files  2.0 KiB"

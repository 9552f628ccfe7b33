"""Progress: at once for people at a terminal, every ten seconds in a log."""

from __future__ import annotations

import io
import time

from tests.support.samples import SAMPLES

from replica_audit.cli.progress_lines import LOG_SECONDS, ProgressLine, render_pace, render_progress
from replica_audit.config import Settings
from replica_audit.runner.in_process import audit_all


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _scan(progress: ProgressLine) -> None:
    progress.begin("scan", 3, 3 * 1024)
    for _ in range(3):
        progress.advance(1, 1024)
    progress.end()


def test_a_terminal_sees_files_and_bytes_done_of_total() -> None:
    stream = Terminal()
    _scan(ProgressLine(stream=stream))
    assert "scan  0 of 3 files  0 B of 3.0 KiB (0 %)" in stream.getvalue()
    assert stream.getvalue().endswith("scan  3 of 3 files  3.0 KiB of 3.0 KiB (100 %)\n")


def test_a_short_stage_in_a_log_and_a_quiet_run_say_nothing() -> None:
    log, quiet_log, terminal = io.StringIO(), io.StringIO(), Terminal()
    _scan(ProgressLine(stream=log))
    _scan(ProgressLine(quiet=True, stream=terminal))
    quiet = ProgressLine(quiet=True, stream=quiet_log, every=0.01)
    quiet.begin("audit")
    time.sleep(0.05)
    quiet.end()
    assert log.getvalue() == quiet_log.getvalue() == terminal.getvalue() == ""


def test_a_log_gets_a_line_from_time_to_time_though_nothing_is_counted() -> None:
    log = io.StringIO()
    progress = ProgressLine(stream=log, every=0.02)
    progress.begin("audit", 1, 2048)
    while log.getvalue().count("\n") < 2:
        time.sleep(0.01)
    progress.advance(1, 1024)
    told = log.getvalue().count("\n")
    while log.getvalue().count("\n") == told:
        time.sleep(0.01)
    progress.end()
    lines = log.getvalue().splitlines()
    assert lines[0] == "replica-audit: audit  0 of 1 file  0 B of 2.0 KiB (0 %)  0 s"
    assert "1 of 1 file  1.0 KiB of 2.0 KiB (50 %)" in lines[-1] and "\r" not in log.getvalue()
    time.sleep(0.06)
    assert log.getvalue().splitlines() == lines
    assert LOG_SECONDS == 10


def test_a_shorter_line_covers_a_longer_one() -> None:
    stream = Terminal()
    progress = ProgressLine(stream=stream)
    progress.begin("a stage with a long name")
    progress.begin("short")
    assert stream.getvalue().split("\r")[-1] == "short".ljust(len("a stage with a long name"))


def test_unknown_totals_are_left_out() -> None:
    assert render_progress("compare", 0, 0, 0, 0) == "compare"
    assert render_progress("scan", 2, 0, 2048, 0) == "scan  2 files  2.0 KiB"
    assert render_progress("auditing partitions", 1200, 20_000, 0, 0) == "auditing partitions  1,200 of 20,000"


def test_the_pace_is_of_bytes_where_these_are_known_and_tells_what_is_left() -> None:
    assert render_pace(1, 4, 50 << 20, 200 << 20, 10) == "5.0 MiB/s, 30 s left"
    assert render_pace(500, 100_000, 0, 0, 10) == "50/s, 33 min left"
    assert render_pace(5, 100_000, 0, 0, 10) == "0.5/s, 56 h left"
    for nothing in ((0, 4, 0, 0, 10), (4, 4, 0, 0, 10), (1, 4, 0, 0, 1), (3, 0, 2048, 0, 10)):
        assert render_pace(*nothing) == ""
    stream = Terminal()
    progress = ProgressLine(stream=stream)
    progress.begin("auditing partitions", 100)
    progress._began_at -= 10
    progress.advance(50)
    progress._draw(force=True)
    assert stream.getvalue().endswith("auditing partitions  50 of 100  5.0/s, 10 s left")


def test_show_says_that_it_lists_a_large_directory_before_it_audits() -> None:
    stream = Terminal()
    audit_all(str(SAMPLES / "last-replica-standing"), Settings(), ProgressLine(stream=stream))
    told = stream.getvalue()
    assert 0 <= told.index("listing log dirs") < told.index("auditing")

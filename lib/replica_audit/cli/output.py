"""Output on stdout and stderr; no other module writes to either."""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.redaction import redact
from replica_audit.report.layout import clean, render_object

if TYPE_CHECKING:
    from replica_audit.api.compared_quorum import ComparedQuorum
    from replica_audit.api.elected import PlannedElection


def print_result(text: str) -> None:
    """Write `text` and a line end to stdout.

    A reader that went away (`| head`) does not change the exit status; the rest is discarded.
    """
    print_pieces([text if text.endswith("\n") else text + "\n"])


def print_object(content: Mapping[str, object], text: str, settings: Settings) -> None:
    """Write `content` to stdout as JSON where --format asks for it, else `text`."""
    print_result(render_object(content) if settings.format == "json" else text)


def print_plan(found: PlannedElection | ComparedQuorum, plan: str | None, check: str | None, settings: Settings) -> int:
    """Print a plan, and name the file `plan` that it was written to; with `check` print the changed premises. Returns the exit status."""
    if check is not None:
        print_object({"moved": [asdict(one) for one in found.moved]}, str(found), settings)
        return found.exit_status
    if plan is not None:
        print_note(f"plan: {plan}")
    print_object(found.to_dict(), str(found), settings)
    return found.exit_status


def print_pieces(pieces: Iterable[str]) -> None:
    """Write the `pieces` of a text too long to hold in memory, as `print_result` does. No secret to be redacted may span two pieces."""
    # A terminal that cannot show a character gets its code instead of an error.
    encoding = sys.stdout.encoding or "utf-8"
    try:
        for text in pieces:
            sys.stdout.write(redact(text).encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def open_closed_streams() -> None:
    """Open the null device as stdin, stdout or stderr where the caller closed them (`>&-`).

    Otherwise the next file opened gets their number, and a child's output is written into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one, since those below are open.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def print_note(text: str) -> None:
    """Write a line for the person at the terminal to stderr."""
    print(redact(text), file=sys.stderr, flush=True)


def print_error(message: str) -> None:
    """Write an error that the user can act on to stderr; names in it are untrusted."""
    print_note("\n".join(clean(line) for line in f"replica-audit: {message}".split("\n")))


def print_fault() -> None:
    """Write the traceback of the current exception, a bug, to stderr."""
    print_note(traceback.format_exc().rstrip("\n"))
    print_note("replica-audit: internal error, please report the lines above")


def stdout_colour(when: str) -> bool:
    """True if text on stdout is coloured; `when` is one of `config.COLORS`. auto: on a terminal (https://no-color.org)."""
    if when != "auto":
        return when == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def stdout_columns() -> int | None:
    """Columns of the terminal on stdout, or those that COLUMNS says; None for a file or a pipe without COLUMNS."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() or os.environ.get("COLUMNS") else None


def ask_for_consent(question: str, nobody: str, no: str) -> None:
    """Ask on the terminal. Raises UsageError with `nobody` if there is no terminal, with `no` for any answer except yes."""
    if not sys.stdin.isatty():
        raise UsageError(nobody)
    if not is_consent(question):
        raise UsageError(no)


def is_consent(question: str) -> bool:
    """True if there is a terminal and the answer on it is yes."""
    if not sys.stdin.isatty():
        return False
    print_note(f"{question} [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")

"""Forwards the JVM's stderr; logged errors are held back for the exception handler."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from typing import BinaryIO

from replica_audit.redaction import redact

#: Said by every JVM that spark-submit starts, since it asks for that module; nothing can be done about it.
_NOISE = (b"WARNING: Using incubator modules",)

#: The beginning of an entry of the JVM's log, as conf/log4j2.properties has it.
_LOG_ENTRY = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z ([A-Z]+) ")
HELD_BACK: deque[bytes] = deque(maxlen=20_000)


class Relay:
    """Copies what the JVM writes to our stderr, line by line, without `_NOISE`.

    What it logs as errors, traces with them, is held back: whoever catches the error tells it in a sentence.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._lines: deque[bytes] = deque(maxlen=5)
        self._holding = False
        self.thread = threading.Thread(target=self._run, name="jvm-stderr", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        # Where stderr leads to now, not where it led at the start: at an interruption it leads nowhere.
        with os.fdopen(2, "wb", buffering=0, closefd=False) as target, self._source as source:
            rest = b""
            while block := source.read(1 << 16):
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    if not line.startswith(_NOISE):
                        self._pass_on(line, target)
            if rest:
                self._pass_on(rest, target)

    def _pass_on(self, line: bytes, target: BinaryIO) -> None:
        self._lines.append(line)
        if entry := _LOG_ENTRY.match(line):
            self._holding = entry[1] in (b"ERROR", b"FATAL")
        if self._holding:
            HELD_BACK.append(line)
        else:
            target.write(redact(line.decode(errors="surrogateescape")).encode(errors="surrogateescape") + b"\n")

    def last_words(self) -> str:
        return b" / ".join(self._lines).decode(errors="replace")


def logged_errors() -> str:
    """What the JVMs of this process logged as errors so far, traces included; the latest lines of very many."""
    return b"\n".join(HELD_BACK).decode(errors="replace")

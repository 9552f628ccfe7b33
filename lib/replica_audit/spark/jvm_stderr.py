"""Forwards the JVM's stderr; logged errors are held back for the exception handler."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from typing import BinaryIO

from replica_audit.redaction import redact

#: Printed by every JVM that spark-submit starts, since it asks for that module; nothing can be done about it.
_NOISE = (b"WARNING: Using incubator modules",)

#: The beginning of an entry of the JVM's log, by conf/log4j2.properties.
_LOG_ENTRY = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z ([A-Z]+) ")
HELD_BACK: deque[bytes] = deque(maxlen=20_000)


class Relay:
    """Copies what the JVM writes to our stderr, line by line, without `_NOISE`.

    Errors that it logs, with their traces, are held back for the exception handler, which reports them in a sentence.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._lines: deque[bytes] = deque(maxlen=5)
        self._holding = False
        self.thread = threading.Thread(target=self._run, name="jvm-stderr", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        # The present destination of stderr, not the one at the start: after an interruption it leads nowhere.
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
    """Errors that the JVMs of this process logged so far, with traces; of very many only the latest lines."""
    return b"\n".join(HELD_BACK).decode(errors="replace")

"""Commands that a report tells its reader to run, as a shell takes them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from replica_audit.redaction import redact
from replica_audit.results import Results

#: A command within a sentence of ours: it ends at a comma, or with the sentence.
_COMMAND = re.compile(r"((?:tar -|kafka-[a-z-]+\.sh --|replica-audit [a-z-]+ )[^,]*?)(?=,|\.?$)")

#: A partition or a date: a line may not end after one of its hyphens, unless it is very long.
_NAME = re.compile(r"((?<!\S)(?=\S*-\d)[^\s,;:]{3,40}(?![^\s,;:]))")

#: What stands for a snapshot whose place nobody knows.
UNKNOWN_PLACE = "SNAPSHOT"


def render_command(results: Results, command: str, *arguments: object) -> str:
    """`replica-audit command SNAPSHOT arguments…` with the snapshot of `results` as it was given, each word quoted for a POSIX shell.

    Credentials in a URI are left out: a report is passed on.
    """
    place = redact(results.location or UNKNOWN_PLACE)
    # A relative path that begins with a dash would be taken for an option.
    place = f"./{place}" if place.startswith("-") else place
    return shlex.join(["replica-audit", command, place, *map(str, arguments)])


def split_words(text: str) -> Iterator[tuple[str, str]]:
    """Parts of a sentence, each with what it is: command, name (of a partition, a date) or "", so that a page can set
    commands as such and leaves names in one piece.
    """
    for number, part in enumerate(_COMMAND.split(text)):
        if number % 2:
            yield part, "command"
        else:
            yield from ((word, "name" if place % 2 else "") for place, word in enumerate(_NAME.split(part)) if word)

"""Commands and names within a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: A command within a sentence of ours: it ends at a comma or a parenthesis, or with its sentence.
_COMMAND = re.compile(r"((?:tar -|kafka-[a-z-]+\.sh --|replica-audit [a-z-]+ )[^,]*?)(?=,|\)|\. [A-Z]|\.?$)")

#: A partition or a date: a line may not end after one of its hyphens, unless it is very long.
_NAME = re.compile(r"((?<!\S)(?=\S*-\d)[^\s,;:]{3,40}(?![^\s,;:]))")


def split_words(text: str) -> Iterator[tuple[str, str]]:
    """Parts of a sentence, each with what it is: command, name (of a partition, a date) or "", so that a page can set
    commands as such and leaves names in one piece.
    """
    for number, part in enumerate(_COMMAND.split(text)):
        if number % 2:
            yield part, "command"
        else:
            yield from ((word, "name" if place % 2 else "") for place, word in enumerate(_NAME.split(part)) if word)

"""Copies of partitions of Kafka's own topics that are read for what they say of others: each as a whole, the furthest counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from replica_audit.formats.format_error import FormatError
from replica_audit.model import QuarantineRow


class ReadCopy(Protocol):
    """What one copy of a partition says, and how far it goes."""

    @property
    def partition(self) -> int: ...

    @property
    def path(self) -> str: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def unread(self) -> tuple[tuple[str, int | None, str], ...]:
        """(path, position, reason) of what could not be taken apart."""


_Read = TypeVar("_Read", bound=ReadCopy)


def try_copy(path: str, read: Callable[[], _Read], may_say: str) -> tuple[_Read | None, list[QuarantineRow]]:
    """What `read` gives of the copy at `path`, None where it cannot be read, with rows of quarantine for all that could not.

    `may_say` is a clause on what is missing with it.
    """
    found: _Read | None = None
    unread: tuple[tuple[str, int | None, str], ...]
    try:
        found = read()
        unread = found.unread
    except (OSError, FormatError) as error:
        unread = ((path, None, str(error)),)
    text = f"could not be read, and may say {may_say}"
    rows = [
        QuarantineRow(None, where, position, None, "INPUT-IGNORED", f"{text}: {reason}")
        for where, position, reason in unread
    ]
    return found, rows


def furthest(copies: Iterable[_Read]) -> list[_Read]:
    """The copy of each partition that goes on longest: of the greatest leader epoch, then log end."""
    best: dict[int, _Read] = {}
    for one in copies:
        known = best.get(one.partition)
        if known is None or _reach(one) > _reach(known):
            best[one.partition] = one
    return list(best.values())


def _reach(copy: ReadCopy) -> tuple[int, int, str]:
    return copy.leader_epoch, copy.end_offset, copy.path

"""The one error of this room: input that is not what its format says."""

from __future__ import annotations


class FormatError(ValueError):
    """A file that breaks its format, with all that is needed to find the place.

    `position` is a byte position, or None where the whole file is meant; text formats put the line number into
    `expected`. Pickles, so that it survives the way back from an executor.
    """

    def __init__(self, path: str, position: int | None, expected: str, found: str, hint: str) -> None:
        super().__init__(path, position, expected, found, hint)
        self.path = path
        self.position = position
        self.expected = expected
        self.found = found
        self.hint = hint

    def __str__(self) -> str:
        place = self.path if self.position is None else f"{self.path} at byte {self.position}"
        return f"{place}: expected {self.expected}, found {self.found}; {self.hint}"

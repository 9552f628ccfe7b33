"""What depends on the broker's version: the gates, each named once. A version is (major, minor, …); None: not known."""

from __future__ import annotations

Version = tuple[int, ...]


def may_mark_over_tail(version: Version | None) -> bool:
    """Whether a follower could checkpoint a high watermark over records that it was about to cut (KAFKA-14704)."""
    return version is not None and (2, 8) <= version[:2] < (3, 5)

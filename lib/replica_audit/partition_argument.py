"""A partition as a user names it."""

from __future__ import annotations

from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition


def parse_partition(text: str) -> TopicPartition:
    """The partition of a text such as orders-0. Raises UsageError."""
    try:
        return TopicPartition.parse(text)
    except ValueError as error:
        raise UsageError(f"{error}: give a partition such as orders-0") from error

"""States of a segment in remote storage, by their numbers in `__remote_log_metadata` (Kafka `RemoteLogSegmentState`)."""

from __future__ import annotations

STATES = ("copy_started", "copy_finished", "delete_started", "delete_finished")
COPY_FINISHED, DELETE_STARTED = STATES.index("copy_finished"), STATES.index("delete_started")

"""What a file of a snapshot is, by its name alone: what people and tools put beside the files of a log dir."""

from __future__ import annotations

from fnmatch import fnmatchcase

from replica_audit.formats.leadership.broker_logs import is_broker_log
from replica_audit.formats.progress.replica_progress import progress_form

_TABLE_ENDINGS = (".jsonl", ".csv", ".parquet")


def kind_by_name(path: str) -> str:
    """replica_progress, broker_log, dump_text, batch_table or unknown."""
    if progress_form(path):
        return "replica_progress"
    if is_broker_log(path):
        return "broker_log"
    return _stand_in(path) or "unknown"


def is_put_beside(path: str) -> bool:
    """Whether a file keeps its kind inside a log dir too: broker logs, and what stands in for segments."""
    return is_broker_log(path) or _stand_in(path) is not None


def _stand_in(path: str) -> str | None:
    """dump_text or batch_table by the name of a file."""
    folder, _, name = path.rpartition("/")
    if name.endswith(".dump.txt") or (name.endswith(".txt") and folder.rpartition("/")[2] == "dump"):
        return "dump_text"
    return "batch_table" if name.endswith(_TABLE_ENDINGS) and not fnmatchcase(name, "replica[_-]progress*") else None

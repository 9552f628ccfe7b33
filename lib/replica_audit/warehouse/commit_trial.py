"""Trial of concurrent commits: a commit to an object store is a conditional put, and some stores accept two of them under one name.

Tried once for each warehouse: writers commit to a trial table at the same moment, and every commit has to be there afterwards.
The result is stored in `commits.json` beside the tables.
"""

from __future__ import annotations

import json
import re
import threading
import uuid

import pyarrow as pa
from pyarrow import fs

from replica_audit.errors import InputError
from replica_audit.redaction import redact
from replica_audit.warehouse.table_layout import absolute_location, open_directory

_FILE = "commits.json"
_WRITERS, _ROUNDS = 6, 2


def loses_commits(location: str) -> bool:
    """True if concurrent commits to the warehouse at `location` may be lost, so that only one run at a time may write to it.

    A local directory loses none. Raises InputError if the store accepts no commit at all.
    """
    location = absolute_location(location)
    if "://" not in location or location.startswith("hdfs://"):
        return False
    filesystem, root = open_directory(location)
    known = _read(filesystem, f"{root}/{_FILE}")
    if known is None:
        known = not _keeps_commits(location)
        with filesystem.open_output_stream(f"{root}/{_FILE}") as stream:
            stream.write(json.dumps({"schema_version": 1, "loses_commits": known}).encode("ascii"))
    return known


def _read(filesystem: fs.FileSystem, path: str) -> bool | None:
    if filesystem.get_file_info(path).type != fs.FileType.File:
        return None
    with filesystem.open_input_stream(path) as stream:
        return json.loads(stream.read())["loses_commits"]


def _keeps_commits(location: str) -> bool:
    from deltalake import DeltaTable, write_deltalake

    uri = f"{location}/commit-trial-{uuid.uuid4().hex}"
    row = pa.table({"writer": pa.array([0], pa.int32())})
    try:
        try:
            write_deltalake(uri, row)
        except OSError as error:
            raise InputError(
                f"{redact(location)}: the store takes no commit, which is a conditional put (If-None-Match): "
                f"{_in_one_line(error)}; keep the warehouse in a store that does, or in a directory"
            ) from error
        for _ in range(_ROUNDS):
            tables = [DeltaTable(uri) for _ in range(_WRITERS)]
            version, start = tables[0].version(), threading.Barrier(_WRITERS)

            def write(table: DeltaTable, start: threading.Barrier = start) -> None:
                start.wait()
                write_deltalake(table, row, mode="append")

            writers = [threading.Thread(target=write, args=(table,)) for table in tables]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            if DeltaTable(uri).version() != version + _WRITERS:
                return False
        return True
    finally:
        filesystem, root = open_directory(uri)
        if filesystem.get_file_info(root).type == fs.FileType.Directory:
            filesystem.delete_dir(root)


def _in_one_line(error: OSError) -> str:
    words = re.sub(r"\x1b\[[0-9;]*m|\u21b3", " ", redact(str(error)))
    return " ".join(words.split())[:300]

"""Engine faults in one sentence with the remedy; traces go to a file."""

from __future__ import annotations

import errno
import re

from replica_audit.config import Settings
from replica_audit.warehouse.table_reads import damage_sentence

#: deltalake's errors are of the C module `_internal`.
_ENGINE_PACKAGES = ("py4j", "pyspark", "delta", "deltalake", "_internal", "pyarrow")

#: Words of Java, Spark, Delta and the operating system.
_FULL = re.compile(r"No space left on device|Disk quota exceeded", re.I)
_FORBIDDEN = re.compile(r"Permission denied|AccessDenied|Read-only file system", re.I)
_GONE = re.compile(
    r"DELTA_FILE_NOT_FOUND|FILE_NOT_EXIST|FileNotFoundException|FileNotFoundError|NoSuchFile|No such file", re.I
)
_BROKEN = re.compile(
    r"JsonParseException|JsonEOFException|JsonMappingException|Invalid JSON|Json error|MalformedInput"
    r"|DELTA_(?:LOG|STATE|TRUNCATED|MISSING|VERSIONS_NOT)\w*|No table metadata or protocol"
    r"|is not a Parquet file|CANNOT_READ_FILE_FOOTER|CORRUPT_FILE|Could not read footer|Parquet magic|ParquetError|EOF while parsing",
    re.I,
)
_ENDED = re.compile(
    r"Answer from Java side is empty|Py4JNetworkError|Connection refused|Connection reset by peer|GatewayError", re.I
)
_MEMORY = re.compile(r"OutOfMemoryError|Java heap space|GC overhead limit", re.I)
_PATH = re.compile(r"(?:file:(?://)?)?(/[^\s'\",;:()<>\[\]]+\.(?:snappy\.)?(?:parquet|json|crc))")
_TASK = re.compile(r"^(\w+(?:\.\w+)*(?:Error|Exception)\b.*)$", re.M)


def describe_fault(error: BaseException, settings: Settings) -> str | None:
    """One sentence for `error` and its causes; None for a fault of this program outside the engine."""
    chain = _chain(error)
    if not any(_is_of_engine(one) for one in chain):
        return None
    text = "\n".join(f"{type(one).__name__}: {one}" for one in chain)
    places = f"the warehouse ({settings.catalog or settings.warehouse}), the report ({settings.report}) and the temporary directory"
    path = _PATH.search(text)
    file = next((one.filename for one in chain if isinstance(one, OSError) and one.filename), path and path[1])
    named = None if file is None else str(file)
    if _FULL.search(text) or any(isinstance(one, OSError) and one.errno == errno.ENOSPC for one in chain):
        return f"no space is left on the disk{_at(named)}: make room where {places} are, and run again"
    if _FORBIDDEN.search(text):
        return f"no permission to write or read{_at(named)}: check {places}, or choose others with --warehouse and --report"
    if _MEMORY.search(text):
        return "Java ran out of memory: give it more with spark.driver.memory under spark: in a --config file"
    if _ENDED.search(text):
        return "the Java process ended unexpectedly (was it killed, or the machine out of memory?): run again"
    if (_GONE.search(text) or _BROKEN.search(text)) and not isinstance(chain[0], OSError):
        what = "cannot be read" if _BROKEN.search(text) else "is missing"
        return damage_sentence(f"{named or 'a file of it'} {what}", settings.catalog or settings.warehouse)
    if isinstance(chain[0], OSError):
        return f"{chain[0].strerror or chain[0]}{_at(named)}"
    told = _TASK.findall(text)
    return f"the engine failed: {_first_line(told[-1] if told else str(chain[0]) or type(chain[0]).__name__)}"


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in found:
        found.append(one)
        one = one.__cause__ or one.__context__
    return found


def _is_of_engine(error: BaseException) -> bool:
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _ENGINE_PACKAGES


def _at(named: str | None) -> str:
    return f" ({named})" if named else ""


def _first_line(text: str) -> str:
    line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    return line if len(line) <= 300 else line[:297] + "..."

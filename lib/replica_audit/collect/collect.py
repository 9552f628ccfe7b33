"""Collects the evidence of one broker: batch headers in place of segments, all else that an audit reads as it is.

Runs on the broker, with nothing but Python 3.6 or later, and only reads there:

    ssh HOST 'python3 -I -B - --log-dir /var/lib/kafka/data' < collect.py > evidence-1.tar

What it writes is docs/evidence.md. The checksum of each batch is computed here and nothing else is judged: where the first
batch ends that is not a sound one, the rest of the file is bytes, which are kept with --raw only.
"""

# Of Python 3.6, with what it knows of types.
# ruff: noqa: UP006, UP007, UP031, UP035, UP045, B904
import argparse
import ctypes
import errno
import fnmatch
import hashlib
import json
import os
import re
import resource
import stat
import struct
import sys
import tarfile
import time
import zlib
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

FORMAT = 1
VERSION = "1"

MAGIC = b"RAFRAME1"
#: Type, position in the file, bytes of the file, batches, bytes of the payload and their CRC-32.
FRAME = struct.Struct(">cQQIII")
#: Base offset, length, magic, CRC, attributes and last offset delta of a batch's 61 bytes.
HEAD = struct.Struct(">qi4xBIHi")
HEADER_BYTES = 61
CRC_FROM = 21
CONTROL = 0x20
BATCHES_IN_FRAME = 65536
LARGEST_CONTROL = 4096
CONTROL_BYTES = 4 << 20
STEP = 1 << 20
PART_BYTES = 8 << 20
LIST_BYTES = 1 << 20
LARGEST_SIDE_FILE = 4 << 20
TRIES = 5

SEGMENT = re.compile(r"[0-9]{20}\.log(?:\.(?:deleted|swap))?")
STUB = re.compile(r"[0-9]{20}\.(?:(?:index|timeindex|txnindex|snapshot)(?:\.(?:deleted|cleaned|swap))?|log\.cleaned)")
PARTITION = re.compile(r"(.+)-[0-9]+(?:\.[0-9a-f]{32}-(?:delete|future|stray))?")
#: Files that are taken as they are: of a log dir, and of a partition.
OF_LOG_DIR = (
    "meta.properties",
    ".kafka_cleanshutdown",
    "bootstrap.checkpoint",
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
OF_PARTITION = ("leader-epoch-checkpoint", "partition.metadata")
METADATA = "__cluster_metadata"
#: Topics of Kafka's own whose records the audit reads.
WHOLE = (METADATA, "__consumer_offsets", "__transaction_state", "__remote_log_metadata")

#: From which the CRC-32C of some bytes follows, given that of those before them.
Extend = Callable[[int, bytes], int]
Line = Dict[str, Any]


class CollectError(Exception):
    """What ends the collection with this exit status: nothing that was written is evidence."""

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status


class FileChangedError(Exception):
    """The broker changed a file while it was read, in what had been read of it."""


def find_crc32c() -> Tuple[str, Extend]:
    """Name and function of a library that computes CRC-32C. Raises CollectError where there is none."""
    found = []  # type: List[Tuple[str, Extend]]
    try:
        import google_crc32c

        if google_crc32c.implementation == "c":
            found.append(("google_crc32c", google_crc32c.extend))
    except ImportError:
        pass
    for library, symbol in (("libcrc32c.so.1", "crc32c_extend"), ("libisal.so.2", "crc32_iscsi")):
        try:
            function = getattr(ctypes.CDLL(library), symbol)
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_uint32
        if symbol == "crc32c_extend":
            function.argtypes = (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t)
            found.append((library, _castagnoli_of(function)))
        else:
            function.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32)
            found.append((library, _inverted_of(function)))
    for name, extend in found:
        if extend(extend(0, b"1234"), b"56789") == 0xE3069283:
            return name, extend
    raise CollectError(
        "no library computes CRC-32C here: install google-crc32c for this Python (python3-google-crc32c), libcrc32c1 or"
        " libisal2, or copy the log directories instead (docs/capture.md)"
    )


def _castagnoli_of(function: Callable[[int, bytes, int], int]) -> Extend:
    return lambda crc, data: function(crc, data, len(data))


def _inverted_of(function: Callable[[bytes, int, int], int]) -> Extend:
    return lambda crc, data: ~function(data, len(data), ~crc & 0xFFFFFFFF) & 0xFFFFFFFF


class Limit:
    """Bytes and reads a second, with at most one second's burst. A read counts as 4 KiB at least."""

    def __init__(self, bytes_per_second: float, reads_per_second: float) -> None:
        self.bytes_read = 0
        self.reads = 0
        self._rates = bytes_per_second, reads_per_second
        self._due = 0.0

    def take(self, size: int) -> None:
        """Wait until a read of `size` bytes is due."""
        self.bytes_read += size
        self.reads += 1
        now = time.monotonic()
        cost = max(max(size, 4096) / self._rates[0], 1 / self._rates[1])
        self._due = max(self._due, now - 1) + cost
        if self._due > now:
            time.sleep(self._due - now)


class Tar:
    """The archive on standard output, written without a buffer. Raises CollectError where it takes no more."""

    def __init__(self, out: int) -> None:
        self._out = out

    def add(self, name: str, data: bytes, modified: float) -> None:
        """Add a member."""
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = len(data), int(modified), 0o600
        self._write(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))
        self._write(data)
        self._write(bytes(-len(data) % tarfile.BLOCKSIZE))

    def close(self) -> None:
        """End the archive."""
        self._write(bytes(2 * tarfile.BLOCKSIZE))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while len(view):
                view = view[os.write(self._out, view) :]
        except OSError as error:
            raise CollectError("the archive could not be written: %s" % error.strerror, 1)


class Parts:
    """Members of the archive that together are one file of the evidence, each of at most `PART_BYTES`."""

    def __init__(self, tar: Tar, name: str, modified: float) -> None:
        self._tar, self._name, self._modified = tar, name, modified
        self._held = bytearray(MAGIC)
        self.written = []  # type: List[List[Any]]

    def add(self, kind: bytes, position: int, length: int, payload: bytes = b"", count: int = 0) -> None:
        """Add a frame."""
        if len(self._held) + FRAME.size + len(payload) > PART_BYTES:
            self.close()
            self._held = bytearray(MAGIC)
        self._held += FRAME.pack(kind, position, length, count, len(payload), zlib.crc32(payload)) + payload

    def close(self) -> None:
        """Write what is held."""
        number = len(self.written)
        name = self._name if not number else "%s.%d" % (self._name, number)
        data = bytes(self._held)
        self._tar.add(name, data, self._modified)
        self.written.append([name, len(data), hashlib.sha256(data).hexdigest()])


class Lists:
    """Members that list the files of the evidence, a JSON object a line."""

    def __init__(self, tar: Tar, stem: str) -> None:
        self._tar, self._stem = tar, stem
        self._held = bytearray()
        self.written = []  # type: List[List[Any]]

    def add(self, line: Line) -> None:
        self._held += json.dumps(line, sort_keys=True).encode("ascii") + b"\n"
        if len(self._held) >= LIST_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._held:
            name = "%s.files-%d.jsonl" % (self._stem, len(self.written))
            data = bytes(self._held)
            self._tar.add(name, data, time.time())
            self.written.append([name, len(data), hashlib.sha256(data).hexdigest()])
            self._held = bytearray()


class BrokerFile:
    """An open file of the broker."""

    def __init__(self, path: str, limit: Limit) -> None:
        self.path = path
        self._limit = limit
        self.number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.state = os.fstat(self.number)
        if not stat.S_ISREG(self.state.st_mode):
            os.close(self.number)
            raise OSError(errno.EINVAL, "not a file")

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes at `position`, fewer only at the end of the file."""
        parts = []
        while size > 0:
            self._limit.take(size)
            part = os.pread(self.number, size, position)
            if not part:
                break
            parts.append(part)
            position += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def size_now(self) -> int:
        return os.fstat(self.number).st_size

    def line(self, path: str, size: int) -> Line:
        """What the list says of the file."""
        state = self.state
        return {
            "path": path,
            "size": size,
            "mtime_ns": state.st_mtime_ns,
            "inode": state.st_ino,
            "device": state.st_dev,
        }

    def close(self) -> None:
        os.close(self.number)


class SegmentFrames:
    """The frames of one segment: headers as long as batches are sound, then the rest."""

    def __init__(self, source: BrokerFile, parts: Parts, extend: Extend, raw: bool) -> None:
        self._source, self._parts, self._extend, self._raw = source, parts, extend, raw
        self.size = source.state.st_size
        self.batches = 0
        self.not_captured = 0
        self._position = 0
        self._data, self._start = b"", 0
        self._begin_frame()
        self._edges = []  # type: List[Tuple[int, bytes]]

    def write(self) -> None:
        """Write all of them. Raises FileChangedError and OSError."""
        while self._take_batch():
            if self._count == BATCHES_IN_FRAME or len(self._control) >= CONTROL_BYTES:
                self._end_frame()
        self._end_frame()
        write_rest(self._source, self._parts, self._position, self.size, self._raw, self)
        for position, header in self._edges:
            if self._source.read(position, HEADER_BYTES) != header:
                raise FileChangedError()

    def _begin_frame(self) -> None:
        self._begun = self._position
        self._count = 0
        self._headers, self._control = bytearray(), bytearray()

    def _end_frame(self) -> None:
        if not self._count:
            return
        headers = bytes(self._headers)
        planes = b"".join(headers[plane::HEADER_BYTES] for plane in range(HEADER_BYTES))
        length = self._position - self._begun
        self._parts.add(b"V", self._begun, length, zlib.compress(planes), self._count)
        if self._control:
            self._parts.add(b"X", self._begun, length, zlib.compress(bytes(self._control)))
        self._edges += [(self._begun, headers[:HEADER_BYTES]), (self._last, headers[-HEADER_BYTES:])]
        self.batches += self._count
        self._begin_frame()

    def _load(self, size: int) -> bool:
        """See that `size` bytes from the position on are held; False where the file does not have them."""
        while self._start + len(self._data) < self._position + size:
            held = self._data[self._position - self._start :]
            at = self._position + len(held)
            more = self._source.read(at, min(STEP, self.size - at))
            if not more:
                return False
            self._data, self._start = held + more, self._position
        return True

    def _take_batch(self) -> bool:
        """Take the batch at the position into the frame; False where it is not a sound one of magic 2."""
        if self._position + HEADER_BYTES > self.size or not self._load(HEADER_BYTES):
            return False
        at = self._position - self._start
        header = self._data[at : at + HEADER_BYTES]
        base, length, magic, said, attributes, delta = HEAD.unpack_from(header)
        size = 12 + length
        if magic < 2 or size < HEADER_BYTES or base < 0 or delta < 0 or base + delta >= 1 << 63:
            return False
        end = self._position + size
        if end > self.size:
            # What was half written as the file was opened may be whole now.
            if self._source.size_now() < end:
                return False
            self.size = end
        if size <= STEP:
            if not self._load(size):
                return False
            at = self._position - self._start
            crc = self._extend(0, self._data[at + CRC_FROM : at + size])
            if crc == said and attributes & CONTROL and size <= LARGEST_CONTROL:
                self._control += struct.pack(">QI", self._position, size) + self._data[at : at + size]
        else:
            crc = self._crc_of(self._position + CRC_FROM, end)
        if crc != said:
            return False
        self._headers += header
        self._count += 1
        self._last = self._position
        self._position = end
        if end > self._start + len(self._data):
            self._data, self._start = b"", end
        return True

    def _crc_of(self, position: int, end: int) -> int:
        crc = 0
        while position < end:
            data = self._source.read(position, min(STEP, end - position))
            if not data:
                return -1
            crc = self._extend(crc, data)
            position += len(data)
        return crc


def write_rest(
    source: BrokerFile, parts: Parts, position: int, size: int, raw: bool, told: Optional[SegmentFrames] = None
) -> None:
    """Frames of the bytes [position, size): zeros, bytes, or that they were not taken."""
    while position < size:
        data = source.read(position, min(STEP, size - position))
        if not data:
            parts.add(b"S", position, size - position)
        elif data.count(0) == len(data):
            parts.add(b"Z", position, len(data))
            position += len(data)
            continue
        elif raw:
            parts.add(b"R", position, len(data), zlib.compress(data))
            position += len(data)
            continue
        else:
            parts.add(b"U", position, size - position)
        if told is not None:
            told.not_captured = size - position
        return


class CollectedDir(NamedTuple):
    """A log dir, and the directory of the evidence that stands for it."""

    path: str
    name: str


class Collection:
    """One collection: what it has found, and what it could not read."""

    def __init__(self, tar: Tar, stem: str, extend: Extend, arguments: argparse.Namespace) -> None:
        self.limit = Limit(arguments.rate_mib * (1 << 20), arguments.iops)
        self.lists = Lists(tar, stem)
        self.problems = 0
        self.batches = 0
        self.not_captured = 0
        self._tar, self._extend, self._arguments = tar, extend, arguments

    def log_dir(self, log_dir: CollectedDir) -> Iterator[None]:
        """Collect a log dir; stops once before its metadata log, which has to be read after all else."""
        names = self._list(log_dir.path, log_dir.name)
        metadata = [name for name in names if name == METADATA + "-0"]
        for name in names:
            if name in OF_LOG_DIR:
                self._side_file(os.path.join(log_dir.path, name), log_dir.name + "/" + name)
            elif name == ".lock":
                self._stub(os.path.join(log_dir.path, name), log_dir.name + "/" + name)
        for name in names:
            path = os.path.join(log_dir.path, name)
            if name not in metadata and os.path.isdir(path):
                self._directory(path, log_dir.name + "/" + name, name)
            elif name not in OF_LOG_DIR and name != ".lock" and name not in metadata:
                self.lists.add({"path": printable(log_dir.name + "/" + name), "as": "left_out"})
        yield
        for name in metadata:
            self._partition(os.path.join(log_dir.path, name), log_dir.name + "/" + name, METADATA)

    def wanted(self, log_dirs: List[CollectedDir], wanted: List[Line], suffix: str) -> None:
        """Collect the ranges that an audit named."""
        names = {log_dir.path: log_dir.name for log_dir in log_dirs}
        for one in wanted:
            if one["log_dir"] not in names:
                continue
            shown = names[one["log_dir"]] + "/" + one["path"]
            source = self._try_open(os.path.join(one["log_dir"], one["path"]), shown)
            if source is None:
                continue
            try:
                parts = Parts(self._tar, shown + suffix, source.state.st_mtime)
                size = source.state.st_size
                for start, length in one["ranges"]:
                    write_rest(source, parts, start, size if length is None else min(size, start + length), True)
                parts.close()
                self.lists.add(dict(source.line(shown, size), **{"as": "bytes", "parts": parts.written}))
            except OSError as error:
                self.tell(shown, error.strerror or str(error))
            finally:
                source.close()

    def tell(self, path: str, reason: str) -> None:
        """Note what could not be read."""
        self.problems += 1
        self.lists.add({"path": printable(path), "as": "unread", "reason": reason})
        sys.stderr.write("%s: %s\n" % (printable(path), reason))

    def _list(self, path: str, shown: str) -> List[str]:
        try:
            names = sorted(os.listdir(path))
        except OSError as error:
            self.tell(shown, "the directory could not be listed: %s" % error.strerror)
            return []
        for name in names:
            if printable(name) != name:
                self.tell(shown + "/" + name, "the name is not UTF-8")
        return [name for name in names if printable(name) == name]

    def _directory(self, path: str, shown: str, name: str) -> None:
        match = PARTITION.fullmatch(name)
        patterns = self._arguments.topic
        if match is None or (patterns and not any(fnmatch.fnmatchcase(match.group(1), one) for one in patterns)):
            self.lists.add({"path": shown, "as": "left_out"})
        else:
            self._partition(path, shown, match.group(1))

    def _partition(self, path: str, shown: str, topic: str) -> None:
        """Collect a partition as of the moment at which its files are opened: what is deleted meanwhile stays readable."""
        self.lists.add({"path": shown, "as": "directory"})
        for _ in range(TRIES):
            names = self._list(path, shown)
            sources, vanished = self._open_all(path, shown, [name for name in names if self._is_read(name, topic)])
            if not vanished and set(sources) <= set(self._list(path, shown)):
                break
            for source in sources.values():
                source.close()
            sources = {}
        else:
            self.tell(shown, "its files changed each time they were opened: collect this topic again")
            return
        for name in names:
            if name in OF_PARTITION:
                self._side_file(os.path.join(path, name), shown + "/" + name)
            elif name not in sources and STUB.fullmatch(name):
                self._stub(os.path.join(path, name), shown + "/" + name)
            elif name not in sources and not SEGMENT.fullmatch(name):
                self.lists.add({"path": shown + "/" + name, "as": "left_out"})
        for name in sorted(sources):
            source = sources.pop(name)
            try:
                self._frames(source, shown + "/" + name, topic)
            except FileChangedError:
                self.tell(shown + "/" + name, "the broker cut it while it was read: collect this topic again")
            except OSError as error:
                self.tell(shown + "/" + name, error.strerror or str(error))
            finally:
                source.close()

    @staticmethod
    def _is_read(name: str, topic: str) -> bool:
        if topic == METADATA:
            return STUB.fullmatch(name) is None and name not in OF_PARTITION
        return SEGMENT.fullmatch(name) is not None

    def _open_all(self, path: str, shown: str, names: List[str]) -> Tuple[Dict[str, BrokerFile], bool]:
        """Open files; True where one has vanished."""
        sources = {}  # type: Dict[str, BrokerFile]
        for name in names:
            try:
                sources[name] = BrokerFile(os.path.join(path, name), self.limit)
            except OSError as error:
                if error.errno == errno.ENOENT:
                    return sources, True
                self.tell(shown + "/" + name, error.strerror or str(error))
        return sources, False

    def _frames(self, source: BrokerFile, shown: str, topic: str) -> None:
        parts = Parts(self._tar, shown + ".frames", source.state.st_mtime)
        if topic in WHOLE:
            size, missing = source.state.st_size, 0
            write_rest(source, parts, 0, size, True)
        else:
            frames = SegmentFrames(source, parts, self._extend, self._arguments.raw)
            frames.write()
            size, missing = frames.size, frames.not_captured
            self.batches += frames.batches
            self.not_captured += missing
        parts.close()
        self.lists.add(
            dict(source.line(shown, size), **{"as": "frames", "parts": parts.written, "not_captured": missing})
        )

    def _try_open(self, path: str, shown: str) -> Optional[BrokerFile]:
        try:
            return BrokerFile(path, self.limit)
        except OSError as error:
            self.tell(shown, error.strerror or str(error))
            return None

    def _side_file(self, path: str, shown: str) -> None:
        try:
            source = BrokerFile(path, self.limit)
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.tell(shown, error.strerror or str(error))
            return
        try:
            # Kafka replaces these files; what is longer than any of them is taken apart.
            if source.state.st_size <= LARGEST_SIDE_FILE:
                data = source.read(0, source.state.st_size)
                self._tar.add(shown, data, source.state.st_mtime)
                written = [[shown, len(data), hashlib.sha256(data).hexdigest()]]
                self.lists.add(dict(source.line(shown, len(data)), **{"as": "whole", "parts": written}))
            else:
                self._frames(source, shown, METADATA)
        except OSError as error:
            self.tell(shown, error.strerror or str(error))
        finally:
            source.close()

    def _stub(self, path: str, shown: str) -> None:
        try:
            state = os.stat(path)
        except OSError:
            return  # a name is all that was wanted of it
        self.lists.add({"path": shown, "as": "stub", "size": state.st_size, "mtime_ns": state.st_mtime_ns})


def printable(text: str) -> str:
    """The text, with backslashes for what is not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def find_broker_id(log_dirs: List[str]) -> int:
    """The broker's id, from meta.properties. Raises CollectError."""
    for log_dir in log_dirs:
        try:
            with open(os.path.join(log_dir, "meta.properties"), encoding="utf-8", errors="replace") as file:
                match = re.search(r"^\s*(?:node|broker)\.id\s*=\s*([0-9]{1,10})\s*$", file.read(1 << 16), re.M)
        except OSError:
            continue
        if match:
            return int(match.group(1))
    raise CollectError("no broker.id or node.id in meta.properties of %s: give --broker-id" % ", ".join(log_dirs))


def read_wanted(path: Optional[str]) -> Optional[List[Line]]:
    """The ranges that an audit wants: of the file, or of what capture-plan put before this text. Raises CollectError."""
    text = globals().get("WANTED")
    if path is not None:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise CollectError("--wanted %s: %s" % (path, error.strerror))
        except ValueError:
            raise CollectError("--wanted %s: not UTF-8" % path)
    if text is None:
        return None
    try:
        found = json.loads(text)
        if found["format"] != FORMAT:
            raise CollectError("wanted ranges of format %r, and this collector knows %d" % (found["format"], FORMAT))
        for one in found["wanted"]:
            one["ranges"] = [(int(start), None if length is None else int(length)) for start, length in one["ranges"]]
            if any(part in ("", ".", "..") for part in one["path"].split("/")):
                raise ValueError(one["path"])
        return list(found["wanted"])
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise CollectError("the wanted ranges could not be read: %s %s" % (type(error).__name__, error))


def parse_arguments(given: Optional[List[str]]) -> argparse.Namespace:
    """The arguments; ends the program for wrong ones."""
    parser = argparse.ArgumentParser(
        prog="collect.py", description="Write the evidence of this broker as a tar to standard output."
    )
    parser.add_argument("--log-dir", action="append", required=True, metavar="DIR[=NAME]", help="each of log.dirs")
    parser.add_argument("--broker-id", type=int, metavar="N", help="where meta.properties does not say it")
    parser.add_argument("--topic", action="append", default=[], metavar="PATTERN", help="only these (default: all)")
    parser.add_argument("--raw", action="store_true", help="keep bytes that belong to no sound batch; may hold records")
    parser.add_argument("--wanted", metavar="FILE", help="only the ranges that replica-audit show --wanted wrote")
    parser.add_argument("--kind", choices=("live", "stopped", "killed"), help="what the broker does meanwhile")
    parser.add_argument("--rate-mib", type=float, default=50, metavar="N", help="MiB read a second (default: 50)")
    parser.add_argument("--iops", type=float, default=200, metavar="N", help="reads a second (default: 200)")
    arguments = parser.parse_args(given)
    if not (arguments.rate_mib > 0 and arguments.iops > 0):
        parser.error("--rate-mib and --iops have to be above 0")
    if arguments.broker_id is not None and not 0 <= arguments.broker_id < 1 << 31:
        parser.error("--broker-id has to be from 0 to 2147483647")
    return arguments


def split_log_dir(text: str) -> Tuple[str, str]:
    """Directory and NAME of DIR[=NAME]; the directory may have a = of its own."""
    path, _, name = text.rpartition("=")
    return (path, name) if path and not os.path.isdir(text) else (text, "")


def check_log_dirs(log_dirs: List[CollectedDir]) -> None:
    """Raise CollectError where one is none, or the evidence could not tell one from another."""
    known = []  # type: List[CollectedDir]
    for one in log_dirs:
        if not os.path.isdir(one.path):
            raise CollectError("%s: no such directory" % one.path)
        if printable(one.path + one.name) != one.path + one.name:
            raise CollectError("%s: the name is not UTF-8: give a link to it" % printable(one.path + one.name))
        if os.path.isabs(one.name) or any(part in ("", ".", "..") for part in one.name.split("/")):
            raise CollectError("%s: not the name of a directory of the evidence" % one.name)
        for other in known:
            if os.path.samefile(one.path, other.path):
                raise CollectError("%s and %s are the same directory" % (other.path, one.path))
            if (one.name + "/").startswith(other.name + "/") or other.name.startswith(one.name + "/"):
                raise CollectError(
                    "%s and %s: one name cannot be in another: give each its own" % (other.name, one.name)
                )
        known.append(one)


def collect(arguments: argparse.Namespace, out: int) -> int:
    """Write the archive to the open file `out`; the number of files that could not be read. Raises CollectError."""
    wanted = read_wanted(arguments.wanted)
    given = [split_log_dir(text) for text in arguments.log_dir]
    broker_id = find_broker_id([path for path, _ in given]) if arguments.broker_id is None else arguments.broker_id
    several = len(given) > 1
    log_dirs = [
        CollectedDir(path, name or ("broker-%d/disk-%d" % (broker_id, number) if several else "broker-%d" % broker_id))
        for number, (path, name) in enumerate(given, 1)
    ]
    check_log_dirs(log_dirs)
    crc, extend = find_crc32c()
    started = time.time()
    stem = "evidence-%d" % broker_id
    suffix = ".bytes-%d" % int(started * 1000)
    stem += "" if wanted is None else suffix
    tar = Tar(out)
    collection = Collection(tar, stem, extend, arguments)
    times = {}  # type: Dict[CollectedDir, List[float]]
    if wanted is None:
        begun = []
        for log_dir in log_dirs:
            times[log_dir] = [time.time()]
            begun.append(collection.log_dir(log_dir))
            next(begun[-1], None)
        for one in begun:
            next(one, None)
    else:
        collection.wanted(log_dirs, wanted, suffix)
    collection.lists.flush()
    head = {
        "format": FORMAT,
        "collector": {"version": VERSION, "python": sys.version.split()[0], "crc32c": crc},
        "broker_id": broker_id,
        "of": "files" if wanted is None else "wanted",
        "raw": arguments.raw or wanted is not None,
        "topics": arguments.topic,
        "kind": arguments.kind,
        "log_dirs": [
            {
                "log_dir": one.path,
                "as": one.name,
                "started": milliseconds(begun_at),
                "finished": milliseconds(time.time()),
            }
            for one, (begun_at,) in times.items()
        ],
        "lists": collection.lists.written,
        "unread": collection.problems,
        "batches": collection.batches,
        "not_captured": collection.not_captured,
        "bytes_read": collection.limit.bytes_read,
        "reads": collection.limit.reads,
    }
    tar.add(stem + ".json", json.dumps(head, sort_keys=True, indent=1).encode("ascii") + b"\n", time.time())
    tar.close()
    return collection.problems


def milliseconds(seconds: float) -> int:
    """Milliseconds since the epoch."""
    return int(seconds * 1000)


def main(given: Optional[List[str]] = None) -> int:
    """Exit status 0; 1 where something could not be read, or the archive could not be written; 2 where nothing was begun."""
    arguments = parse_arguments(given)
    if os.isatty(1):
        sys.stderr.write("collect.py writes a tar to standard output: redirect it to a file\n")
        return 2
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if soft != resource.RLIM_INFINITY else soft, hard))
    os.nice(10)
    try:
        problems = collect(arguments, 1)
    except CollectError as error:
        sys.stderr.write("collect.py: %s\n" % error)
        return error.status
    if problems:
        sys.stderr.write("%d files or directories could not be read; the evidence says which\n" % problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

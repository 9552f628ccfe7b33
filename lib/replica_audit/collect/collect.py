"""Collector of one broker's evidence: batch headers in place of segments, and everything else that an audit reads as it is.

Runs on the broker, needs nothing but Python 3.6 or later, and only reads there (a Java class apart: `JavaChecksums`):

    ssh HOST 'python3 -I -B - --log-dir /var/lib/kafka/data' < collect.py > evidence-1.tar

docs/evidence.md describes its output. Except with --headers it computes the checksum of each batch, and judges nothing else:
from the first batch that is not sound, the rest of a file is plain bytes, which are kept with --raw only.
"""

# For Python 3.6 and its type hints.
# ruff: noqa: UP006, UP007, UP031, UP035, UP045, B904
import argparse
import base64
import ctypes
import errno
import fcntl
import fnmatch
import glob
import hashlib
import json
import mmap
import os
import re
import resource
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

FORMAT = 1
VERSION = "1"

MAGIC = b"RAFRAME1"
#: Type, position in the file, length in the file, batches, length of the payload and its CRC-32.
FRAME = struct.Struct(">cQQIII")
#: Base offset, length, magic, CRC, attributes and last offset delta in a batch's 61 bytes, and the position of its record count.
HEAD = struct.Struct(">qi4xBIHi")
RECORDS = struct.Struct(">57xi")
HEADER_BYTES = 61
CRC_FROM = 21
CONTROL = 0x20
#: Valid attributes of a batch of magic 2, the mask of its codec, and the greatest codec.
ATTRIBUTES, CODEC, GREATEST_CODEC = 0x7F, 7, 4
#: Greatest span of offsets in a segment.
GREATEST_SPAN = (1 << 31) - 1
#: Below this size hopping from header to header costs more than reading everything.
LEAST_HOP = 16 << 10
BATCHES_IN_FRAME = 65536
LARGEST_CONTROL = 4096
CONTROL_BYTES = 4 << 20
STEP = 1 << 20
PART_BYTES = 8 << 20
LIST_BYTES = 1 << 20
LIST_SECONDS = 60.0
LARGEST_SIDE_FILE = 4 << 20
TRIES = 5
#: A file changed this recently may change again without a new modification time.
SETTLED_NS = 2 * 10**9
#: How often the operator's command is run, how long it may take, and how long reading waits for it.
WATCH_SECONDS = 10.0
WATCH_PATIENCE = 900.0

SEGMENT = re.compile(r"[0-9]{20}\.log(?:\.(?:deleted|swap))?")
STUB = re.compile(r"[0-9]{20}\.(?:(?:index|timeindex|txnindex|snapshot)(?:\.(?:deleted|cleaned|swap))?|log\.cleaned)")
#: List of files in an archive; the group is the broker's id.
LIST_NAME = re.compile(r"evidence-([0-9]{1,10})\.files-[0-9]+\.jsonl")
PARTITION = re.compile(r"((.+)-[0-9]+)(?:\.[0-9a-f]{32}-(?:delete|future|stray))?")
#: Files copied as they are: of a log dir, and of a partition.
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
#: Kafka's own topics whose records the audit reads.
WHOLE = (METADATA, "__consumer_offsets", "__share_group_state", "__transaction_state", "__remote_log_metadata")

#: The CRC-32C of b"123456789".
KNOWN = 0xE3069283
ANSWER_SECONDS = 60.0
#: Keep the JVM from writing files below /tmp, or a dump of its memory.
JAVA_OPTIONS = [
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Xmx32m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-XX:-CreateCoredumpOnCrash",
    "-XX:ErrorFile=/dev/null",
]
#: Variables for the broker's JVM that this one must not inherit: agents, ports, heaps.
JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "OPENJ9_JAVA_OPTIONS", "CLASSPATH")
#: Crc32cPipe.java, compiled by `javac --release 9 -g:none`.
JAVA_CLASS = (
    "yv66vgAAADUAXQoAAgADBwAEDAAFAAYBABBqYXZhL2xhbmcvT2JqZWN0AQAGPGluaXQ+AQADKClWBwAIAQAXamF2YS9pby9GaWxlSW5wdXRTdHJl"
    "YW0JAAoACwcADAwADQAOAQAWamF2YS9pby9GaWxlRGVzY3JpcHRvcgEAAmluAQAYTGphdmEvaW8vRmlsZURlc2NyaXB0b3I7CgAHABAMAAUAEQEA"
    "GyhMamF2YS9pby9GaWxlRGVzY3JpcHRvcjspVgcAEwEAGGphdmEvaW8vRmlsZU91dHB1dFN0cmVhbQkACgAVDAAWAA4BAANvdXQKABIAEAcAGQEA"
    "FGphdmEvdXRpbC96aXAvQ1JDMzJDCgAYAAMKABwAHQcAHgwAHwAgAQATamF2YS9uaW8vQnl0ZUJ1ZmZlcgEACGFsbG9jYXRlAQAYKEkpTGphdmEv"
    "bmlvL0J5dGVCdWZmZXI7CgAcACIMACMAJAEABWFycmF5AQAEKClbQgoAJgAnBwAoDAApACoBAApDcmMzMmNQaXBlAQAEcmVhZAEAHyhMamF2YS9p"
    "by9GaWxlSW5wdXRTdHJlYW07W0JJKVoKABwALAwALQAuAQAGZ2V0SW50AQAEKEkpSQoAHAAwDAAxADIBAAR3cmFwAQAZKFtCKUxqYXZhL25pby9C"
    "eXRlQnVmZmVyOwoAHAA0DAA1ACABAAZwdXRJbnQKABgANwwAOAAGAQAFcmVzZXQKABgAOgwAOwA8AQAGdXBkYXRlAQAHKFtCSUkpVgoAGAA+DAA/"
    "AEABAAhnZXRWYWx1ZQEAAygpSgoAEgBCDABDAEQBAAV3cml0ZQEABShbQilWAwABAAAKAEcASAcASQwASgBLAQAOamF2YS9sYW5nL01hdGgBAANt"
    "aW4BAAUoSUkpSQoABwBNDAApAE4BAAcoW0JJSSlJAQAMTU9TVF9BVF9PTkNFAQABSQEADUNvbnN0YW50VmFsdWUBAARDb2RlAQAEbWFpbgEAFihb"
    "TGphdmEvbGFuZy9TdHJpbmc7KVYBAA1TdGFja01hcFRhYmxlBwBXAQATW0xqYXZhL2xhbmcvU3RyaW5nOwcAWQEAAltCAQAKRXhjZXB0aW9ucwcA"
    "XAEAE2phdmEvaW8vSU9FeGNlcHRpb24AMQAmAAIAAAABABoATwBQAAEAUQAAAAIARQADAAIABQAGAAEAUgAAABEAAQABAAAABSq3AAGxAAAAAAAJ"
    "AFMAVAACAFIAAAFDAAYADAAAAOa7AAdZsgAJtwAPTLsAElmyABS3ABdNuwAYWbcAGk4QELgAGzoEA7wIOgUrGQS2ACEQELgAJZkAsBkEB7YAKzYG"
    "EAgVBmgZBBAMtgArYDYHGQW+FQeiAAkVB7wIOgUrGQUVB7gAJZoABLEZBbgALzoIBwcVBmhguAAbOgkZCRkEA7YAK7YAM1cDNgoVChUGogBLGQgQ"
    "CBUKaLYAKzYLGQQQCLYAK5oABy22ADYtGQUQCBUGaBULYBkIEAgVCmgHYLYAKxULZLYAORkJLbYAPYi2ADNXhAoBp/+0LBkJtgAhtgBBp/9IsQAA"
    "AAEAVQAAAEsAB/8AKgAGBwBWBwAHBwASBwAYBwAcBwBYAAD9ADIBAQv+ACAHABwHABwB/AAgAfkALf8ACwAGBwBWBwAHBwASBwAYBwAcBwBYAAAA"
    "WgAAAAQAAQBbAAoAKQAqAAIAUgAAAEcABQAFAAAAKAM+HRyiACIqKx0cHWQSRbgARrYATDYEFQScAAUDrB0VBGA+p//fBKwAAAABAFUAAAANAAP8"
    "AAIB/AAbAfkABwBaAAAABAABAFsAAA=="
)
JAVA_CLASS_SHA256 = "80fe6dccb765a581a69d8d41e4bd2e93b39d3a2205b2bae9a4b55ff999a1e6f7"

#: Continues a CRC-32C over further bytes.
Extend = Callable[[int, bytes], int]
Line = Dict[str, Any]


class CollectError(Exception):
    """Ends the collection with this exit status: nothing that was written is evidence."""

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status


class FileChangedError(Exception):
    """The broker changed a part of a file that had been read already."""


class Checksums:
    """Computation of CRC-32C, its name in the manifest, and the SHA-256 of the Java class that was written for it."""

    name = None  # type: Optional[str]
    java_class = None  # type: Optional[str]

    def of_ranges(self, data: bytes, ends: List[int]) -> Sequence[int]:
        """Checksums of `data[ends[0]:ends[1]]`, `data[ends[2]:ends[3]]` …"""
        raise NotImplementedError

    def of_pieces(self, pieces: Iterable[bytes]) -> int:
        """Checksum of all pieces together; there is at least one."""
        raise NotImplementedError

    def are_right(self) -> bool:
        """True if both methods give known checksums."""
        of_ranges = self.of_ranges(b"-123456789-", [1, 10, 0, 0, 1, 10])
        return list(of_ranges) == [KNOWN, 0, KNOWN] and self.of_pieces([b"1234", b"56789"]) == KNOWN

    def close(self) -> None:
        """Release what was started for it."""


class LibraryChecksums(Checksums):
    """CRC-32C by a library in C."""

    def __init__(self, name: str, extend: Extend) -> None:
        self.name, self._extend = name, extend

    def of_ranges(self, data: bytes, ends: List[int]) -> Sequence[int]:
        extend = self._extend
        return [extend(0, data[begin:end]) for begin, end in zip(ends[::2], ends[1::2])]

    def of_pieces(self, pieces: Iterable[bytes]) -> int:
        crc = 0
        for piece in pieces:
            crc = self._extend(crc, piece)
        return crc


class JavaChecksums(Checksums):
    """CRC-32C by a JVM with the class `Crc32cPipe`, which lies in its own directory below $TMPDIR until it is loaded.

    Raises CollectError if this `java` is unfit; later too, if the JVM ends.
    """

    java_class = JAVA_CLASS_SHA256

    def __init__(self, java: str) -> None:
        self.name = "java.util.zip.CRC32C of " + printable(java)
        self._java, self._number = java, 0
        self._process = None  # type: Optional[subprocess.Popen[bytes]]
        try:
            directory = tempfile.mkdtemp(prefix="replica-audit-")
        except OSError as error:
            raise CollectError("no directory for its class (TMPDIR): %s" % error.strerror)
        try:
            with open(os.path.join(directory, "Crc32cPipe.class"), "xb") as file:
                file.write(base64.b64decode(JAVA_CLASS))
            self._start(directory)
            if not self.are_right():
                raise CollectError("it computes something else")
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise CollectError(error.strerror or str(error))
            raise
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _start(self, directory: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in JAVA_VARIABLES}
        self._errors, errors = os.pipe()
        # Unread error output must not block the JVM.
        os.set_blocking(self._errors, False)
        os.set_blocking(errors, False)
        try:
            self._process = subprocess.Popen(
                [self._java] + JAVA_OPTIONS + ["-cp", directory, "Crc32cPipe"],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd="/",
                env=environment,
            )
        except OSError:
            os.close(self._errors)
            raise
        finally:
            os.close(errors)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)

    def of_ranges(self, data: bytes, ends: List[int]) -> Sequence[int]:
        return self._ask(data, ends, False)

    def of_pieces(self, pieces: Iterable[bytes]) -> int:
        crc, goes_on = 0, False
        for piece in pieces:
            (crc,) = self._ask(piece, [0, len(piece)], goes_on)
            goes_on = True
        return crc

    def _ask(self, data: bytes, ends: List[int], goes_on: bool) -> Sequence[int]:
        self._number += 1
        count = len(ends) // 2
        head = struct.pack(">4I%dI" % len(ends), self._number, count, goes_on, len(data), *ends)
        answer = bytearray()
        wanted = 4 + 4 * count
        try:
            waiting = [memoryview(data), memoryview(head)]
            while len(answer) < wanted:
                ready = select.select([self._from], [self._to] if waiting else [], [], ANSWER_SECONDS)
                if not ready[0] and not ready[1]:
                    raise CollectError(self._lost("does not answer"), 1)
                if ready[1]:
                    rest = waiting.pop()
                    rest = rest[os.write(self._to, rest) :]
                    if len(rest):
                        waiting.append(rest)
                if ready[0]:
                    part = os.read(self._from, wanted - len(answer))
                    if not part:
                        raise CollectError(self._lost("ended"), 1)
                    answer += part
        except BrokenPipeError:
            raise CollectError(self._lost("ended"), 1)
        number, *found = struct.unpack(">%dI" % (1 + count), answer)
        if number != self._number:
            raise CollectError(self._lost("gave another answer than was asked for"), 1)
        return found

    def _lost(self, what: str) -> str:
        try:
            said = os.read(self._errors, 1 << 16).decode("utf-8", "replace")
        except BlockingIOError:
            said = ""
        if "UnsupportedClassVersionError" in said:
            return "it is older than Java 9"
        said = next((line for line in said.splitlines() if line.strip() and not line.startswith("Picked up")), "")
        return "the JVM that computes the checksums %s%s" % (what, said and ": " + said[:300])

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:
                os.close(self._errors)


def find_checksums(java: bool) -> Checksums:
    """A library in C or else, if `java` allows it, a JVM. Raises CollectError if there is neither."""
    for library in find_libraries():
        if library.are_right():
            return library
    tried = []  # type: List[str]
    javas = find_javas() if java else []
    for path in javas:
        try:
            return JavaChecksums(path)
        except CollectError as error:
            tried.append("%s: %s" % (printable(path), error))
    raise CollectError(
        "nothing computes CRC-32C here (%s): install google-crc32c for this Python (python3-google-crc32c), libcrc32c1,"
        " libisal2, or Java 9 or later (JAVA_HOME), or copy the log directories instead (docs/capture.md), or take headers"
        " alone (--headers always), which do not show damage inside batches"
        % ("no library, and " + ("; ".join(tried) or ("no java was found" if java else "--no-java was given")))
    )


def find_libraries() -> Iterator[Checksums]:
    """Installed libraries in C that compute CRC-32C."""
    try:
        import google_crc32c

        if google_crc32c.implementation == "c":
            yield LibraryChecksums("google_crc32c", google_crc32c.extend)
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
            yield LibraryChecksums(library, _castagnoli_of(function))
        else:
            function.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32)
            yield LibraryChecksums(library, _inverted_of(function))


def _castagnoli_of(function: Callable[[int, bytes, int], int]) -> Extend:
    return lambda crc, data: function(crc, data, len(data))


def _inverted_of(function: Callable[[bytes, int, int], int]) -> Extend:
    return lambda crc, data: ~function(data, len(data), ~crc & 0xFFFFFFFF) & 0xFFFFFFFF


def find_javas() -> List[str]:
    """Paths of `java`: that of JAVA_HOME, of the brokers running here, and on PATH."""
    found = []  # type: List[str]
    if os.environ.get("JAVA_HOME"):
        found.append(os.path.join(os.environ["JAVA_HOME"], "bin", "java"))
    found += javas_of_brokers("/proc")
    in_path = shutil.which("java")
    if in_path is not None:
        found.append(in_path)
    distinct = {os.path.realpath(path): path for path in reversed(found)}
    return [path for path in found if distinct[os.path.realpath(path)] == path]


def javas_of_brokers(processes: str) -> Iterator[str]:
    """Paths of the `java` of running brokers that may be run as this user; `processes` is a directory like /proc."""
    for process in sorted(glob.glob(processes + "/[0-9]*")):
        try:
            with open(os.path.join(process, "cmdline"), "rb") as file:
                is_broker = re.search(rb"\.(?:Supported)?Kafka\0", file.read(1 << 20)) is not None
            path = os.readlink(os.path.join(process, "exe")) if is_broker else ""
            is_ours = is_broker and os.stat(process).st_uid == os.geteuid()
            # A file that others may replace is not run as another user than its owner.
            if os.path.basename(path) == "java" and (is_ours or _is_of_root(path)):
                yield path
        except OSError:
            continue


def _is_of_root(path: str) -> bool:
    """True if nobody but root can put another file there."""
    while True:
        state = os.stat(path)
        if state.st_uid != 0 or state.st_mode & 0o022:
            return False
        if path == os.path.dirname(path):
            return True
        path = os.path.dirname(path)


class Watch:
    """The operator's command, which prints a number that rises when the broker is under pressure. Raises CollectError."""

    def __init__(self, command: str, limit: Optional[float]) -> None:
        self._command = command
        found = self._run()
        if found is None:
            raise CollectError("--watch: the command failed, or printed something else than a number: %s" % command)
        self._limit = found if limit is None else limit
        self._due = time.monotonic() + WATCH_SECONDS

    def wait(self) -> None:
        """Wait while the number is above the limit, or unknown."""
        begun = time.monotonic()
        if begun < self._due:
            return
        said = ""
        while True:
            found = self._run()
            if found is not None and found <= self._limit:
                break
            if not said:
                said = "--watch: %s, above %g" % ("no number" if found is None else "%g" % found, self._limit)
                sys.stderr.write("reading waits: %s\n" % said)
            if time.monotonic() - begun > WATCH_PATIENCE:
                text = "%s, and not better in %d minutes: collect again later, with --after what was written"
                raise CollectError(text % (said, WATCH_PATIENCE / 60), 1)
            time.sleep(WATCH_SECONDS)
        self._due = time.monotonic() + WATCH_SECONDS

    def _run(self) -> Optional[float]:
        given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "start_new_session": True}  # type: Line
        try:
            with subprocess.Popen(self._command, shell=True, **given) as run:
                try:
                    found = float(run.communicate(timeout=WATCH_SECONDS)[0])
                    return found if run.returncode == 0 and found == found else None
                finally:
                    if run.returncode is None:
                        # With its children, which would hold the pipe open.
                        os.killpg(run.pid, signal.SIGKILL)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None


class Limit:
    """Limit of bytes and reads per second, with at most one second's burst. A read counts as at least 4 KiB."""

    def __init__(self, bytes_per_second: float, reads_per_second: float, watch: Optional[Watch] = None) -> None:
        self.bytes_read = 0
        self.reads = 0
        self._rates = bytes_per_second, reads_per_second
        #: Bytes that may be read in the time of one read.
        self.bytes_of_read = bytes_per_second / reads_per_second
        self._watch = watch
        self._due = 0.0

    def take(self, size: int) -> None:
        """Wait until a read of `size` bytes is due."""
        self.bytes_read += size
        self.reads += 1
        if self._watch is not None:
            self._watch.wait()
        now = time.monotonic()
        cost = max(max(size, 4096) / self._rates[0], 1 / self._rates[1])
        self._due = max(self._due, now - 1) + cost
        if self._due > now:
            time.sleep(self._due - now)


class Tar:
    """The archive on standard output, written without a buffer. Raises CollectError if it cannot be written."""

    def __init__(self, out: int) -> None:
        self._out = out

    def add(self, name: str, data: bytes, modified: float) -> List[Any]:
        """Add a member; returns its entry in a list: name, size and SHA-256."""
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = len(data), int(modified), 0o600
        self._write(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))
        self._write(data)
        self._write(bytes(-len(data) % tarfile.BLOCKSIZE))
        return [name, len(data), hashlib.sha256(data).hexdigest()]

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
    """Archive members that together make one file of the evidence, each of at most `PART_BYTES`."""

    def __init__(self, tar: Tar, name: str, modified: float) -> None:
        self._tar, self._name, self._modified = tar, name, modified
        self._held = bytearray(MAGIC)
        self.written = []  # type: List[List[Any]]

    def add(self, kind: bytes, position: int, length: int, payload: bytes = b"", count: int = 0) -> None:
        if len(self._held) + FRAME.size + len(payload) > PART_BYTES:
            self.close()
            self._held = bytearray(MAGIC)
        self._held += FRAME.pack(kind, position, length, count, len(payload), zlib.crc32(payload)) + payload

    def close(self) -> None:
        """Write the buffered frames."""
        number = len(self.written)
        name = self._name if not number else "%s.%d" % (self._name, number)
        self.written.append(self._tar.add(name, bytes(self._held), self._modified))


class Lists:
    """Archive members that list the files of the evidence, a JSON object per line."""

    def __init__(self, tar: Tar, stem: str) -> None:
        self._tar, self._stem = tar, stem
        self._held = bytearray()
        self._due = time.monotonic() + LIST_SECONDS
        self.written = []  # type: List[List[Any]]

    def add(self, line: Line) -> None:
        self._held += json.dumps(line, sort_keys=True).encode("ascii") + b"\n"
        # Often enough for `--after`: in an archive that broke off, files not yet listed have to be read again.
        if len(self._held) >= LIST_BYTES or time.monotonic() > self._due:
            self.flush()

    def flush(self) -> None:
        if self._held:
            name = "%s.files-%d.jsonl" % (self._stem, len(self.written))
            self.written.append(self._tar.add(name, bytes(self._held), time.time()))
            self._held = bytearray()
        self._due = time.monotonic() + LIST_SECONDS


class BrokerFile:
    """An open file of the broker. A file no longer written is read past the broker's page cache."""

    #: Page-aligned memory, as O_DIRECT needs.
    _buffer = mmap.mmap(-1, STEP + 2 * mmap.PAGESIZE)

    def __init__(self, path: str, limit: Limit, is_written: bool = True) -> None:
        self._limit = limit
        self._is_written = is_written
        self.number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.state = os.fstat(self.number)
        if not stat.S_ISREG(self.state.st_mode):
            os.close(self.number)
            raise OSError(errno.EINVAL, "not a file")
        self._is_direct = not is_written and self._set_direct(True)

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes at `position`; fewer only at the end of the file."""
        parts = []
        while size > 0:
            count = min(size, STEP)
            self._limit.take(count)
            part = self._read(position, count)
            if not part:
                break
            parts.append(part)
            position += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read(self, position: int, size: int) -> bytes:
        if self._is_written:
            return os.pread(self.number, size, position)
        before = position % mmap.PAGESIZE
        start = position - before
        length = -(-(before + size) // mmap.PAGESIZE) * mmap.PAGESIZE
        if self._is_direct:
            try:
                os.lseek(self.number, start, os.SEEK_SET)
                with memoryview(self._buffer) as view, view[:length] as part:
                    found = os.readv(self.number, [part])
                if found > before:
                    return self._buffer[before : min(found, before + size)]
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self._is_direct = self._set_direct(False)
        pages = resident_pages(self.number, start, length)
        data = os.pread(self.number, size, position)
        # Pages that were in memory are needed by others.
        for run in re.finditer(b"\0+", pages):
            place = start + run.start() * mmap.PAGESIZE, len(run.group()) * mmap.PAGESIZE
            os.posix_fadvise(self.number, place[0], place[1], os.POSIX_FADV_DONTNEED)
        return data

    def _set_direct(self, on: bool) -> bool:
        """Turn reading past the page cache on or off; True if it is on. Otherwise disable read-ahead, so that pages can be
        dropped again."""
        flags = fcntl.fcntl(self.number, fcntl.F_GETFL) & ~os.O_DIRECT
        try:
            fcntl.fcntl(self.number, fcntl.F_SETFL, flags | (os.O_DIRECT if on else 0))
        except OSError:
            on = False
        if not on:
            os.posix_fadvise(self.number, 0, 0, os.POSIX_FADV_RANDOM)
        return on

    def size_now(self) -> int:
        return os.fstat(self.number).st_size

    def line(self, path: str) -> Line:
        """The file's entry in the list, as of when it was opened."""
        state = self.state
        return {
            "path": path,
            "size": state.st_size,
            "mtime_ns": state.st_mtime_ns,
            "inode": state.st_ino,
            "device": state.st_dev,
        }

    def edges(self) -> Optional[int]:
        """CRC-32 of the first and the last 61 bytes; None if the file was changed just now."""
        if self.state.st_mtime_ns > time.time() * 1e9 - SETTLED_NS:
            return None
        last = max(0, self.state.st_size - HEADER_BYTES)
        return zlib.crc32(self.read(0, HEADER_BYTES) + self.read(last, HEADER_BYTES))

    def close(self) -> None:
        os.close(self.number)


def resident_pages(number: int, start: int, length: int) -> bytes:
    """A byte for each page of an open file: 0 if it is not in memory. All are 1 if the kernel does not tell this user."""
    length = min(length, os.fstat(number).st_size - start)
    if length <= 0:
        return b""
    pages = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))(*[1] * -(-length // mmap.PAGESIZE))
    try:
        with mmap.mmap(number, length, access=mmap.ACCESS_COPY, offset=start) as mapped:
            first = ctypes.c_char.from_buffer(mapped)
            try:
                ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(length), pages)
            finally:
                del first
    except (AttributeError, OSError, ValueError):
        pass
    return bytes(pages)


class SegmentFrames:
    """The frames of one segment: headers while batches are sound (with `hops`: plausible), then the rest.

    `headers`: whether it hops from header to header over batches larger than `hop_from`: always, never, or auto (if that is
    faster than reading everything).
    """

    def __init__(
        self,
        source: BrokerFile,
        parts: Parts,
        checksums: Checksums,
        raw: bool,
        headers: str = "never",
        base_offset: int = 0,
        hop_from: float = LEAST_HOP,
    ) -> None:
        self._source, self._parts, self._checksums, self._raw = source, parts, checksums, raw
        self._headers_asked, self._base_offset, self._hop_from = headers, base_offset, hop_from
        self.size = source.state.st_size
        self.batches = 0
        #: Batches whose checksums were not computed and that are not kept whole, as control batches are.
        self.unchecked = 0
        self.hops = False
        self.not_captured = 0
        self._position = 0
        self._step = STEP
        #: End of the last batch large enough to skip, and how many bytes after the one before were used.
        self._landing, self._used = -1, HEADER_BYTES
        self._data, self._start = b"", 0
        self._last = self._before_last = self._control_before = self._controls_before = 0
        self._next_offset = base_offset
        self._begin_frame()
        self._edges = []  # type: List[Tuple[int, bytes]]

    def write(self) -> None:
        """Write all frames. Raises FileChangedError and OSError."""
        self.hops = self._headers_asked == "always" or (self._headers_asked == "auto" and self._is_hopped_sooner())
        while self._hop() if self.hops else self._take_batches():
            pass
        if self.hops and self._count and self._position < self.size:
            # A wrong length in the last header may have led to what follows.
            end = self._position
            self._give_back()
            self._end_frame()
            write_rest(self._source, self._parts, self._position, end, self._raw, self)
            self._position = end
        self._end_frame()
        write_rest(self._source, self._parts, self._position, self.size, self._raw, self)
        for position, header in self._edges:
            if self._source.read(position, HEADER_BYTES) != header:
                raise FileChangedError()

    def _begin_frame(self) -> None:
        self._begun = self._position
        self._count = self._controls = 0
        self._headers, self._control = bytearray(), bytearray()

    def _end_frame(self) -> None:
        if not self._count:
            return
        headers = bytes(self._headers)
        planes = b"".join(headers[plane::HEADER_BYTES] for plane in range(HEADER_BYTES))
        length = self._position - self._begun
        self._parts.add(b"H" if self.hops else b"V", self._begun, length, zlib.compress(planes), self._count)
        if self._control:
            self._parts.add(b"X", self._begun, length, zlib.compress(bytes(self._control)))
        self._edges += [(self._begun, headers[:HEADER_BYTES]), (self._last, headers[-HEADER_BYTES:])]
        self.batches += self._count
        self.unchecked += self._count - self._controls if self.hops else 0
        self._begin_frame()

    def _load(self, size: int, step: int = STEP) -> bool:
        """Load `size` bytes from the current position; False if the file does not have them."""
        while self._start + len(self._data) < self._position + size:
            held = self._data[self._position - self._start :]
            at = self._position + len(held)
            more = self._source.read(at, min(step, self.size - at))
            if not more:
                return False
            self._data, self._start = held + more, self._position
        return True

    def _is_hopped_sooner(self) -> bool:
        """True if no library computes checksums, or if, by the first batches, a read takes more time than reading a batch."""
        if self._checksums.name is None:
            return True
        if self.size <= STEP or not self._load(HEADER_BYTES):
            return False
        at = count = 0
        head = self._head(at)
        while head is not None:
            at, count = at + head[0], count + 1
            head = self._head(at)
        return count > 0 and at / count > self._hop_from

    def _hop(self) -> bool:
        """Take the header of the next batch; False if there is none of magic 2 that may follow."""
        if self._position + HEADER_BYTES > self.size or not self._load_where_landed(HEADER_BYTES):
            return False
        at = self._position - self._start
        head = self._head(at)
        if head is None:
            return False
        header = self._data[at : at + HEADER_BYTES]
        next_offset = self._offset_behind(header)
        size, _, attributes = head
        if next_offset is None or not self._is_in_file(self._position + size):
            return False
        self._next_offset = next_offset
        control = b""
        if attributes & CONTROL and size <= LARGEST_CONTROL:
            if not self._load_where_landed(size):
                return False
            at = self._position - self._start
            control = self._data[at : at + size]
        if size > self._hop_from:
            self._used = self._position + HEADER_BYTES - max(0, self._landing)
            self._landing = self._position + size
        self._take(header, size, control)
        return True

    def _load_where_landed(self, size: int) -> bool:
        """`_load` with little read-ahead after a skipped batch: whole pages, and as much as was used the last time, such as a
        marker and the header after it. If that is not enough, each read is four times the one before."""
        held = self._start + len(self._data)
        if held >= self._position + size:
            return True
        if self._position == self._landing:
            end = self._position + max(size, self._used)
            self._step = min(STEP, -(-end // mmap.PAGESIZE) * mmap.PAGESIZE - max(held, self._position))
        else:
            self._step = min(STEP, 4 * self._step)
        return self._load(size, self._step)

    def _offset_behind(self, header: bytes) -> Optional[int]:
        """The offset after a batch by its header; None unless it has magic 2, fields as brokers write them, and offsets after
        those of the batch before."""
        base, _, magic, _, attributes, delta = HEAD.unpack_from(header)
        (records,) = RECORDS.unpack(header)
        if (
            magic != 2
            or attributes & ~ATTRIBUTES
            or attributes & CODEC > GREATEST_CODEC
            or not 0 <= records <= delta + 1
            or base < self._next_offset
            or base + delta - self._base_offset > GREATEST_SPAN
        ):
            return None
        return base + delta + 1

    def _give_back(self) -> None:
        """Undo the last `_take`."""
        del self._control[self._control_before :]
        self._controls = self._controls_before
        del self._headers[-HEADER_BYTES:]
        self._count -= 1
        self._position, self._last = self._last, self._before_last

    def _take_batches(self) -> bool:
        """Take the next batches into frames, all loaded ones or one; False if the next is not a sound one of magic 2."""
        found, ends = self._held()
        if not found:
            return self._take_one()
        data, start = self._data, self._start
        for (size, said, attributes), crc in zip(found, self._checksums.of_ranges(data, ends)):
            if crc != said:
                return False
            at = self._position - start
            is_kept = attributes & CONTROL and size <= LARGEST_CONTROL
            self._take(data[at : at + HEADER_BYTES], size, data[at : at + size] if is_kept else b"")
        return True

    def _held(self) -> Tuple[List[Tuple[int, int, int]], List[int]]:
        """Size, checksum and attributes of each fully loaded entry that may be a batch, and bounds of the bytes its checksum covers."""
        found = []  # type: List[Tuple[int, int, int]]
        ends = []  # type: List[int]
        at = self._position - self._start
        while True:
            head = self._head(at)
            if head is None or at + head[0] > len(self._data):
                return found, ends
            found.append(head)
            ends += (at + CRC_FROM, at + head[0])
            at += head[0]

    def _head(self, at: int) -> Optional[Tuple[int, int, int]]:
        """Size, checksum and attributes in the header at `at`; None if it is not loaded, or not a batch's."""
        if at + HEADER_BYTES > len(self._data):
            return None
        base, length, magic, said, attributes, delta = HEAD.unpack_from(self._data, at)
        if magic < 2 or length < HEADER_BYTES - 12 or base < 0 or delta < 0 or base + delta >= 1 << 63:
            return None
        return 12 + length, said, attributes

    def _is_in_file(self, end: int) -> bool:
        """True if the file reaches `end`. A batch half written when the file was opened may be complete now."""
        if end > self.size:
            if self._source.size_now() < end:
                return False
            self.size = end
        return True

    def _take_one(self) -> bool:
        """Load the next batch, or take it if it is longer than a step; False as `_take_batches`."""
        if self._position + HEADER_BYTES > self.size or not self._load(HEADER_BYTES):
            return False
        at = self._position - self._start
        head = self._head(at)
        if head is None:
            return False
        size, said, _ = head
        end = self._position + size
        if not self._is_in_file(end):
            return False
        if size <= STEP:
            return self._load(size)
        header = self._data[at : at + HEADER_BYTES]
        try:
            crc = self._checksums.of_pieces(self._pieces(self._position + CRC_FROM, end))
        except EOFError:
            return False
        if crc != said:
            return False
        self._take(header, size)
        return True

    def _take(self, header: bytes, size: int, control: bytes = b"") -> None:
        if self._count == BATCHES_IN_FRAME or len(self._control) >= CONTROL_BYTES:
            self._end_frame()
        self._control_before, self._controls_before = len(self._control), self._controls
        if control:
            self._control += struct.pack(">QI", self._position, size) + control
            self._controls += 1
        self._headers += header
        self._count += 1
        self._before_last, self._last = self._last, self._position
        self._position += size

    def _pieces(self, position: int, end: int) -> Iterator[bytes]:
        """The bytes [position, end), loaded ones first; afterwards the last read, with what follows them, stays loaded."""
        while True:
            yield self._data[position - self._start : end - self._start]
            position = self._start + len(self._data)
            if position >= end:
                return
            data = self._source.read(position, min(STEP, self.size - position))
            if not data:
                raise EOFError()
            self._data, self._start = data, position


def write_rest(
    source: BrokerFile, parts: Parts, position: int, size: int, raw: bool, told: Optional[SegmentFrames] = None
) -> None:
    """Write frames for the bytes [position, size): zeros, bytes, or skipped."""
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
            told.not_captured += size - position
        return


class CollectedDir(NamedTuple):
    """A log dir, and the directory of the evidence that stands for it."""

    path: str
    name: str


def is_of(broker_id: int, wanted: Line) -> bool:
    """True if a wanted range is of this broker, which paths do not tell: those of log dirs are the same on many."""
    return wanted.get("broker_id") in (None, broker_id)


class Hopped:
    """Count of segments of which only headers were taken, and of their batches without a computed checksum."""

    def __init__(self) -> None:
        self.batches = 0
        self._segments = self._others = 0

    def add(self, frames: SegmentFrames) -> None:
        self.batches += frames.unchecked
        self._segments += frames.hops
        self._others += not frames.hops

    def describe(self) -> str:
        """A sentence on the counts."""
        if not self._segments:
            return "all checksums of what was read were computed" if self._others else "no segment had to be read"
        text = "headers alone were taken of %d of %d segments" % (self._segments, self._segments + self._others)
        return text + ", and damage inside %d of their batches is not seen" % self.batches if self.batches else text


class Collection:
    """One collection: what was found, and what could not be read."""

    def __init__(
        self, tar: Tar, stem: str, checksums: Checksums, arguments: argparse.Namespace, known: Optional[Set[int]]
    ) -> None:
        watch = None if arguments.watch is None else Watch(arguments.watch, arguments.watch_limit)
        self.limit = Limit(arguments.rate_mib * (1 << 20), arguments.iops, watch)
        #: Reading a larger batch takes longer than one more read.
        self.hop_from = max(LEAST_HOP, self.limit.bytes_of_read)
        self.lists = Lists(tar, stem)
        self._known = known or set()
        self.problems = 0
        self.batches = 0
        self.hopped = Hopped()
        self.not_captured = 0
        self._tar, self._checksums, self._arguments = tar, checksums, arguments

    def log_dir(self, log_dir: CollectedDir, only: Optional[Set[str]] = None) -> Iterator[None]:
        """Collect a log dir, or `only` these partitions of it; pauses once before its metadata log, which has to be read after
        everything else."""
        names = self._list(log_dir.path, log_dir.name)
        if only is not None:
            whose = {name: PARTITION.fullmatch(name) for name in names}
            names = [
                name
                for name in names
                if name in OF_LOG_DIR or name == METADATA + "-0" or (whose[name] and whose[name].group(1) in only)  # type: ignore[union-attr]
            ]
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

    def wanted(self, broker_id: int, log_dirs: List[CollectedDir], wanted: List[Line], suffix: str) -> None:
        """Collect the ranges that an audit asked of this broker."""
        names = {log_dir.path: log_dir.name for log_dir in log_dirs}
        for one in wanted:
            if one["log_dir"] not in names or not is_of(broker_id, one) or one.get("again"):
                continue
            shown = names[one["log_dir"]] + "/" + one["path"]
            try:
                source = self._open(*os.path.split(os.path.join(one["log_dir"], one["path"])))
            except OSError as error:
                self.tell(shown, error.strerror or str(error))
                continue
            try:
                parts = Parts(self._tar, shown + suffix, source.state.st_mtime)
                size = source.state.st_size
                for start, length in one["ranges"]:
                    write_rest(source, parts, start, size if length is None else min(size, start + length), True)
                parts.close()
                self.lists.add(dict(source.line(shown), **{"as": "bytes", "parts": parts.written}))
            except OSError as error:
                self.tell(shown, error.strerror or str(error))
            finally:
                source.close()

    def tell(self, path: str, reason: str) -> None:
        """Note something that could not be read."""
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
        if match is None or (patterns and not any(fnmatch.fnmatchcase(match.group(2), one) for one in patterns)):
            self.lists.add({"path": shown, "as": "left_out"})
        else:
            self._partition(path, shown, match.group(2))

    def _partition(self, path: str, shown: str, topic: str) -> None:
        """Collect a partition as of the moment when its files are opened: files deleted meanwhile stay readable."""
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
        """Open files; True if one has vanished."""
        sources = {}  # type: Dict[str, BrokerFile]
        newest = newest_segment(names)
        for name in names:
            try:
                sources[name] = BrokerFile(os.path.join(path, name), self.limit, name == newest)
            except OSError as error:
                if error.errno == errno.ENOENT:
                    return sources, True
                self.tell(shown + "/" + name, error.strerror or str(error))
        return sources, False

    def _open(self, path: str, name: str) -> BrokerFile:
        return BrokerFile(os.path.join(path, name), self.limit, name == newest_segment(os.listdir(path)))

    def _is_known(self, key: int) -> bool:
        """True if a file need not be read; with --again-days each is read again on one day in so many, to find damage."""
        days = self._arguments.again_days
        return key in self._known and not (days and key % days == int(time.time() // 86400) % days)

    def _frames(self, source: BrokerFile, shown: str, topic: str) -> None:
        line = source.line(shown)
        edges = source.edges()
        if edges is not None:
            line["edges"] = edges
            if self._is_known(key_of(line)):
                self.lists.add(dict(line, **{"as": "same"}))
                return
        parts = Parts(self._tar, shown + ".frames", source.state.st_mtime)
        if topic in WHOLE:
            size, missing = source.state.st_size, 0
            write_rest(source, parts, 0, size, True)
        else:
            frames = SegmentFrames(
                source,
                parts,
                self._checksums,
                self._arguments.raw,
                self._arguments.headers,
                int(shown.rpartition("/")[2][:20]),
                self.hop_from,
            )
            frames.write()
            self.hopped.add(frames)
            if frames.hops:
                line["unchecked"] = frames.batches
            size, missing = frames.size, frames.not_captured
            self.batches += frames.batches
            self.not_captured += missing
        parts.close()
        self.lists.add(dict(line, **{"as": "frames", "size": size, "parts": parts.written, "not_captured": missing}))

    def _side_file(self, path: str, shown: str) -> None:
        try:
            source = BrokerFile(path, self.limit)
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.tell(shown, error.strerror or str(error))
            return
        try:
            # Kafka replaces these files, so they are read whole; a longer file is none of them and is split.
            if source.state.st_size <= LARGEST_SIDE_FILE:
                data = source.read(0, source.state.st_size)
                written = [self._tar.add(shown, data, source.state.st_mtime)]
                self.lists.add(dict(source.line(shown), **{"as": "whole", "size": len(data), "parts": written}))
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
            return  # only its name was wanted
        self.lists.add({"path": shown, "as": "stub", "size": state.st_size, "mtime_ns": state.st_mtime_ns})


def newest_segment(names: Iterable[str]) -> str:
    """The segment being written, by the file names in a partition's directory."""
    return max((name for name in names if name.endswith(".log")), default="")


#: Fields by which a file is recognised as the one that an earlier collection read.
IDENTITY = ("path", "device", "inode", "size", "mtime_ns", "edges")


def key_of(line: Line) -> int:
    """64-bit key that tells a listed file from all others, and from earlier states of itself."""
    text = json.dumps([line[name] for name in IDENTITY]).encode("ascii")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")


def files_of(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The files in a tar. Raises OSError, tarfile's errors, and ValueError for a tar that would never end."""
    behind = 0
    while True:
        info = archive.next()
        if info is None:
            return
        # tarfile keeps what it has read, and goes back where a size is negative.
        archive.members = []  # type: ignore[attr-defined]
        if archive.offset <= behind:
            raise ValueError("the member at %d ends before it begins" % info.offset)
        behind = archive.offset
        if info.isreg() and not info.issparse():
            yield info


def read_known(
    paths: Iterable[str], broker: Optional[str] = None, headers: str = "never", is_all: bool = True
) -> Set[int]:
    """Keys of the files that need not be read again, from archives of one broker or any, including incomplete ones. Raises CollectError.

    If these are all archives that exist (`is_all`), a file counts only if one of them contains it: an archive that merely names
    it may have outlived the one that does. If a file was read several times, the last time counts: its bytes may not have been
    captured then or, where `headers` is never, its checksums not computed.
    """
    latest = {}  # type: Dict[int, Tuple[int, bool]]
    for path in paths:
        try:
            for key, read in _read_lists(path, broker, headers, is_all):
                latest[key] = max(read, latest.get(key, read))
        except tarfile.TarError:
            continue  # it is incomplete
        except OSError as error:
            raise CollectError("--after %s: %s" % (path, error.strerror))
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise CollectError("--after %s: not evidence: %s %s" % (path, type(error).__name__, error))
    return {key for key, (_, is_missed) in latest.items() if not is_missed}


def _read_lists(path: str, broker: Optional[str], headers: str, is_all: bool) -> Iterator[Tuple[int, Tuple[int, bool]]]:
    """The key of each listed file, and when it was read, with True if it has to be read again."""
    with open(path, "rb") as file, tarfile.open(fileobj=file, mode="r:") as archive:
        for info in files_of(archive):
            named = LIST_NAME.fullmatch(info.name)
            if named is None or broker not in (None, named.group(1)):
                continue
            if info.size > PART_BYTES:
                raise ValueError("%s of %d bytes" % (info.name, info.size))
            for text in archive.extractfile(info).read().splitlines():  # type: ignore[union-attr]
                line = json.loads(text.decode("ascii"))
                if "edges" not in line or (is_all and line["as"] == "same"):
                    continue
                is_missed = line.get("not_captured") or (line.get("unchecked") and headers == "never")
                # An archive that only names a file has not read it.
                is_read = line["as"] != "same"
                yield key_of(line), (int(info.mtime), bool(is_missed)) if is_read else (0, False)


def known_files(paths: List[str], headers: str = "never") -> Optional[Set[int]]:
    """Keys of the files of earlier evidence: in archives here, or embedded by capture-plan before this text; None without either.
    Raises CollectError."""
    text = globals().get("AFTER")
    if text is None and not paths:
        return None
    given = base64.b64decode(text or "")
    known = read_known(paths, None, headers, len(paths) > 1)
    for path in paths:
        if not tarfile.is_tarfile(path):
            raise CollectError("--after %s: not evidence: give an archive that an earlier collection wrote" % path)
    return {*struct.unpack(">%dQ" % (len(given) // 8), given), *known}


def printable(text: str) -> str:
    """The text, with backslash escapes for bytes that are not UTF-8."""
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
    """The ranges that an audit wants: from the file, or embedded by capture-plan before this text. Raises CollectError."""
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
    """The arguments; ends the program if they are wrong."""
    parser = argparse.ArgumentParser(
        prog="collect.py", description="Write the evidence of this broker as a tar to standard output."
    )
    parser.add_argument("--log-dir", action="append", required=True, metavar="DIR[=NAME]", help="each of log.dirs")
    parser.add_argument("--broker-id", type=int, metavar="N", help="where meta.properties does not say it")
    parser.add_argument("--topic", action="append", default=[], metavar="PATTERN", help="only these (default: all)")
    text = (
        "take headers alone, and compute no checksums; auto: where batches are so large that this is sooner done, or nothing"
        " computes checksums here (default: never)"
    )
    parser.add_argument("--headers", choices=("never", "auto", "always"), default="never", help=text)
    parser.add_argument("--raw", action="store_true", help="keep bytes that belong to no sound batch; may hold records")
    parser.add_argument(
        "--wanted", metavar="FILE", help="only the ranges that a wanted.json names, of show, salvage or a report"
    )
    text = "name files that this archive has, and that are as they were, in place of reading them"
    parser.add_argument("--after", action="append", default=[], metavar="EVIDENCE", help=text)
    text = "read each file again once in so many days, though it has not changed (default: never)"
    parser.add_argument("--again-days", type=int, default=0, metavar="N", help=text)
    text = "what the broker does meanwhile (default: live where its lock on a log dir is seen, else unknown)"
    parser.add_argument("--kind", choices=("live", "image", "stopped", "killed"), help=text)
    parser.add_argument("--no-java", action="store_true", help="start no JVM where no library computes CRC-32C")
    parser.add_argument("--rate-mib", type=float, default=50, metavar="N", help="MiB read a second (default: 50)")
    parser.add_argument("--iops", type=float, default=200, metavar="N", help="reads a second (default: 200)")
    text = "a shell command that prints a number, such as how many partitions are under-replicated; run every 10 s"
    parser.add_argument("--watch", metavar="COMMAND", help=text)
    parser.add_argument(
        "--watch-limit",
        type=float,
        metavar="N",
        help="reading waits while the number is above N (default: what it was at first)",
    )
    arguments = parser.parse_args(given)
    if not (arguments.rate_mib > 0 and arguments.iops > 0):
        parser.error("--rate-mib and --iops have to be above 0")
    if arguments.again_days < 0:
        parser.error("--again-days has to be from 0 on")
    if arguments.broker_id is not None and not 0 <= arguments.broker_id < 1 << 31:
        parser.error("--broker-id has to be from 0 to 2147483647")
    return arguments


def split_log_dir(text: str) -> Tuple[str, str]:
    """Directory and NAME of DIR[=NAME]; the directory itself may contain a =."""
    path, _, name = text.rpartition("=")
    return (path, name) if path and not os.path.isdir(text) else (text, "")


def check_log_dirs(log_dirs: List[CollectedDir]) -> None:
    """Raise CollectError if one is not a directory, or the evidence could not tell one from another."""
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


def is_seen_running(log_dirs: List[CollectedDir]) -> bool:
    """True if a process holds the lock that a broker takes on a log dir. False proves nothing: that process may be out of sight."""
    try:
        with open("/proc/locks") as file:
            held = {line.split()[-3] for line in file}
        locks = (os.stat(os.path.join(one.path, ".lock")) for one in log_dirs)
        # Inodes of other devices have the same numbers.
        return any("%02x:%02x:%d" % (os.major(one.st_dev), os.minor(one.st_dev), one.st_ino) in held for one in locks)
    except (OSError, IndexError):
        return False


def collect(arguments: argparse.Namespace, out: int) -> int:
    """Write the archive to the open file `out`; returns the number of files that could not be read. Raises CollectError."""
    wanted = read_wanted(arguments.wanted)
    given = [split_log_dir(text) for text in arguments.log_dir]
    broker_id = find_broker_id([path for path, _ in given]) if arguments.broker_id is None else arguments.broker_id
    several = len(given) > 1
    log_dirs = [
        CollectedDir(path, name or ("broker-%d/disk-%d" % (broker_id, number) if several else "broker-%d" % broker_id))
        for number, (path, name) in enumerate(given, 1)
    ]
    check_log_dirs(log_dirs)
    known = known_files(arguments.after, arguments.headers)
    # Ranges are taken as they are.
    checksums = Checksums()
    if arguments.headers != "always" and (wanted is None or any(one.get("again") for one in wanted)):
        try:
            checksums = find_checksums(not arguments.no_java)
        except CollectError:
            if arguments.headers == "never" and wanted is None:
                raise
            arguments.headers = "always" if arguments.headers == "never" else arguments.headers
    try:
        return _collect(arguments, out, broker_id, log_dirs, wanted, checksums, known)
    finally:
        checksums.close()


def _collect(
    arguments: argparse.Namespace,
    out: int,
    broker_id: int,
    log_dirs: List[CollectedDir],
    wanted: Optional[List[Line]],
    checksums: Checksums,
    known: Optional[Set[int]],
) -> int:
    started = time.time()
    stem = "evidence-%d" % broker_id
    suffix = ".bytes-%d" % int(started * 1000)
    stem += "" if wanted is None else suffix
    tar = Tar(out)
    collection = Collection(tar, stem, checksums, arguments, known)
    times = {}  # type: Dict[CollectedDir, List[float]]
    given, is_running = log_dirs, is_seen_running(log_dirs)
    only = None  # type: Optional[Set[str]]
    if wanted is not None:
        collection.wanted(broker_id, log_dirs, wanted, suffix)
        only = {one["path"] for one in wanted if one.get("again") and is_of(broker_id, one)}
        # A directory for files of another moment than those already collected.
        again = "again-%d/" % int(started * 1000)
        log_dirs = [CollectedDir(one.path, again + one.name) for one in log_dirs] if only else []
    begun = []
    for log_dir in log_dirs:
        times[log_dir] = [time.time()]
        begun.append(collection.log_dir(log_dir, only))
        next(begun[-1], None)
    for one in begun:
        next(one, None)
    collection.lists.flush()
    head = {
        "format": FORMAT,
        "collector": {
            "version": VERSION,
            "python": sys.version.split()[0],
            "crc32c": checksums.name,
            "java_class": checksums.java_class,
        },
        "broker_id": broker_id,
        "raw": arguments.raw or wanted is not None,
        "topics": arguments.topic,
        "after": known is not None,
        "kind": arguments.kind or ("live" if is_running and is_seen_running(given) else None),
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
        "headers": arguments.headers,
        "unchecked": collection.hopped.batches,
        "not_captured": collection.not_captured,
        "bytes_read": collection.limit.bytes_read,
        "reads": collection.limit.reads,
    }
    if only:
        head["again"] = sorted(only)
    if wanted is None and arguments.headers != "never":
        if arguments.headers == "always":
            why = "--headers always"
        elif checksums.name is None:
            why = "nothing computes CRC-32C here"
        else:
            why = (
                "--headers auto takes them where batches are larger than %d KiB, since reading one costs more than a read"
                % (collection.hop_from / 1024)
            )
        sys.stderr.write("collect.py: %s (%s)\n" % (collection.hopped.describe(), why))
    tar.add(stem + ".json", json.dumps(head, sort_keys=True, indent=1).encode("ascii") + b"\n", time.time())
    tar.close()
    return collection.problems


def milliseconds(seconds: float) -> int:
    """Whole milliseconds of a time in seconds."""
    return int(seconds * 1000)


def _end(number: int, _frame: Any) -> None:
    """End by a signal as by any early exit, with clean-up."""
    sys.exit(128 + number)


def main(given: Optional[List[str]] = None) -> int:
    """Exit status 0; 1 if something could not be read, or the archive not be written; 2 if nothing was begun."""
    arguments = parse_arguments(given)
    if os.isatty(1):
        sys.stderr.write("collect.py writes a tar to standard output: redirect it to a file\n")
        return 2
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if soft != resource.RLIM_INFINITY else soft, hard))
    os.nice(10)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
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

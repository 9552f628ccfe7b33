"""Evidence of a segment: frames that cover every byte of the file, read as a stream of it (docs/evidence.md).

Headers are passed to the scan as known batches; bytes are read as if from the file, and bytes that were not captured raise an
error. Nothing is judged here.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from replica_audit.cached_property import cached_property
from replica_audit.errors import FormatError
from replica_audit.segments.record_batch import (
    CRC_FROM,
    HEADER_BYTES,
    HEADER_DTYPE,
    PREFIX_BYTES,
    decode_headers,
)
from replica_audit.segments.streams import PositionedReads

MAGIC = b"RAFRAME1"
_FRAME = struct.Struct(">cQQIII")
_CONTROL = struct.Struct(">QI")
#: Kinds of frames with headers.
HEADERS = (b"V", b"H")
#: Kinds of frames with bytes.
_BYTES = (b"R", b"Z")
#: Limits of a frame, which bound every expansion.
GREATEST_COUNT = 65536
GREATEST_BYTES = 1 << 20
_GREATEST_CONTROL = (4 << 20) + 4096 + _CONTROL.size
_HINT = "collect this broker again"

#: Reads one part of a file of the evidence. Raises OSError if its content has changed.
ReadPart = Callable[[], bytes]
#: Reads some bytes of a file between two positions; empty if there are none.
_ReadBytes = Callable[[int, int], bytes]


class NotCapturedError(OSError):
    """Bytes of a file that the evidence does not include."""


class Frame(NamedTuple):
    """A frame for the bytes [position, end) of the file, with the place of its payload."""

    kind: bytes
    """V: headers with right checksums, H: headers whose checksums were never computed, X: control batches among them, R: bytes,
    Z: zeros, U: not taken, S: cut off."""
    position: int
    end: int
    batches: int
    part: int
    start: int
    size: int


class FrameFile:
    """The frames of one file of evidence. Raises FormatError if they violate the format."""

    def __init__(self, path: str, parts: Sequence[ReadPart]) -> None:
        """Read all parts once. Raises OSError and FormatError, which name the file `path`."""
        self.path = path
        self._parts = parts
        self._held: tuple[int, bytes] | None = None
        self._inflated: tuple[Frame, bytes] | None = None
        self.frames: list[Frame] = []
        for number in range(len(parts)):
            self.frames += self._index(number)

    def inflate(self, frame: Frame) -> bytes:
        """The expanded payload of a frame."""
        if self._inflated is None or self._inflated[0] != frame:
            data = self._part(frame.part)[frame.start : frame.start + frame.size]
            self._inflated = frame, self._expand(frame, data)
        return self._inflated[1]

    def read(self, frame: Frame, at: int, end: int) -> bytes:
        """Bytes from `at` up to `end`, or to the end of the frame, which must be of bytes or zeros."""
        end = min(end, frame.end)
        if frame.kind == b"Z":
            return bytes(end - at)
        return self.inflate(frame)[at - frame.position : end - frame.position]

    def _expand(self, frame: Frame, data: bytes) -> bytes:
        whole = _GREATEST_CONTROL if frame.kind == b"X" else frame.end - frame.position
        whole = HEADER_BYTES * frame.batches if frame.kind in HEADERS else whole
        inflater = zlib.decompressobj()
        try:
            found = inflater.decompress(data, whole + 1)
        except zlib.error as error:
            raise self.refuse(frame.position, "a payload that zlib inflates", str(error)) from None
        if len(found) > whole or not inflater.eof or (frame.kind != b"X" and len(found) != whole):
            more = "more" if len(found) > whole else f"{len(found)} bytes"
            raise self.refuse(frame.position, f"a payload of {whole} bytes", more)
        return found

    def refuse(self, position: int | None, expected: str, found: str) -> FormatError:
        """The error for unusable frames; `position` is in the file that they stand for."""
        return FormatError(self.path, position, f"in its evidence {expected}", found, _HINT)

    def _part(self, number: int) -> bytes:
        if self._held is None or self._held[0] != number:
            self._held = number, self._parts[number]()
        return self._held[1]

    def _index(self, number: int) -> Iterator[Frame]:
        data = self._part(number)
        if data[: len(MAGIC)] != MAGIC:
            raise self.refuse(None, f"frames that begin with {MAGIC.decode()}", "another beginning")
        at = len(MAGIC)
        while at < len(data):
            if at + _FRAME.size > len(data):
                raise self.refuse(None, "whole frames", f"{len(data) - at} bytes after the last one")
            kind, position, length, count, size, crc = _FRAME.unpack_from(data, at)
            at += _FRAME.size
            payload = data[at : at + size]
            if kind not in (*HEADERS, b"X", b"R", b"Z", b"U", b"S"):
                raise self.refuse(position, "a frame of format 1", f"one of type {kind!r}")
            if len(payload) != size or zlib.crc32(payload) != crc:
                raise self.refuse(position, "a frame with its payload", "another checksum of it")
            if (
                not length
                or (kind in HEADERS) != (0 < count <= GREATEST_COUNT)
                or (kind in _BYTES and length > GREATEST_BYTES)
            ):
                raise self.refuse(position, "a frame within its limits", f"{length} bytes, {count} batches")
            yield Frame(kind, position, position + length, count, number, at, size)
            at += size


class FrameStream(PositionedReads):
    """A segment or other file as a binary stream of `size_bytes`, from its frames.

    Readable are the bytes of R, X and Z, those `brought` later, and the 61 of a header where a batch begins; all others raise
    NotCapturedError. The checksum of a batch in H whose bytes are there is computed here.
    """

    def __init__(
        self,
        file: FrameFile,
        size_bytes: int,
        brought: Sequence[FrameFile] = (),
        brought_changed: Sequence[FrameFile] = (),
    ) -> None:
        """Raises FormatError unless the frames cover each byte of the file once.

        Bytes in `brought_changed` were collected after the file had changed; they count only if a header confirms them.
        """
        super().__init__(size_bytes)
        self._file = file
        self._frames = [frame for frame in file.frames if frame.kind != b"X"]
        self._controls = {frame.position: frame for frame in file.frames if frame.kind == b"X"}
        self._pieces = _Pieces(brought)
        self._pieces_of_batches = _Pieces([*brought, *brought_changed]) if brought_changed else self._pieces
        self._held_controls: tuple[Frame, dict[int, bytes]] | None = None
        self._source: tuple[int, _ReadBytes | None] | None = None
        self._batches: tuple[Frame, NDArray[np.void], NDArray[np.int64]] | None = None
        end, headers_end = 0, 0
        for frame in self._frames:
            if frame.position != end:
                raise file.refuse(end, f"a frame that begins at {end}", f"one at {frame.position}")
            if frame.kind in HEADERS and headers_end != end:
                raise file.refuse(end, "headers before all else", "headers after other frames")
            end = frame.end
            headers_end = end if frame.kind in HEADERS else headers_end
        if end != size_bytes:
            raise file.refuse(end, f"frames of {size_bytes} bytes", f"frames of {end}")
        self._starts = [frame.position for frame in self._frames]
        self._headers_end = headers_end

    @cached_property
    def known_end(self) -> int:
        """Position after the last batch that is known by its header.

        Ends before a batch with a wrong checksum whose size is not confirmed by a next header that continues its offsets: only
        bytes show how far the damage goes.
        """
        for place in (place for place in self._judged if not self._verdicts[place]):
            _, header = self._batch_at(self._frame_at(place), place)
            end = _end_of(place, header)
            if end >= self._headers_end:
                return place
            _, following = self._batch_at(self._frame_at(end), end)
            if int(following["base_offset"]) != int(header["base_offset"]) + int(header["last_offset_delta"]) + 1:
                return place
        return self._headers_end

    @cached_property
    def missing(self) -> tuple[tuple[int, int], ...]:
        """[start, end) of bytes that no header covers and that were not brought later."""
        found = []
        for frame in self._frames:
            at = max(frame.position, self.known_end) if frame.kind in HEADERS else frame.position
            if at < frame.end and frame.kind in (*HEADERS, b"U", b"S"):
                at = self._pieces.end_of(at)
                if at < frame.end:
                    found.append((at, frame.end))
        return tuple(found)

    def known(self) -> Iterator[NDArray[np.void]]:
        """The batches that the file begins with, by their headers, as `BATCH_DTYPE`. Raises FormatError for impossible ones."""
        for frame in self._frames:
            if frame.kind in HEADERS and frame.position < self.known_end:
                headers, positions = self._headers(frame)
                batches, broken = decode_headers(headers, positions)
                if broken.any() or (batches["magic"].view(np.uint8) < 2).any():
                    raise self._file.refuse(int(positions[broken][:1].sum()), "headers of batches of magic 2", "others")
                batches["crc_valid"] = True
                batches["crc_unchecked"] = frame.kind == b"H"
                # In order, as the frames are.
                low, high = (bisect_left(self._judged, place) for place in (frame.position, frame.end))
                for place in self._judged[low:high]:
                    index = positions.searchsorted(place)
                    batches["crc_valid"][index] = self._verdicts[place]
                    batches["crc_unchecked"][index] = False
                yield batches[positions < self.known_end]

    def read(self, count: int | None = -1) -> bytes:
        """Up to `count` bytes, fewer only at the end.

        Raises NotCapturedError, FormatError, and OSError for a position among headers where no batch begins, since those bytes
        are missing.
        """
        at, end = self._position, self._end_of(count)
        self._check_start(at)
        parts = []
        while at < end:
            parts.append(self._piece(at, end))
            at += len(parts[-1])
        self._position = max(self._position, end)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _check_start(self, at: int) -> None:
        if at < self.known_end:
            _, positions = self._headers(self._frame_at(at))
            index = int(positions.searchsorted(at))
            if index == len(positions) or positions[index] != at:
                raise OSError(f"no batch begins at {at}")

    def _piece(self, at: int, end: int) -> bytes:
        """Some bytes from `at` on, at least one."""
        frame = self._frame_at(at)
        if frame.kind in _BYTES:
            return self._file.read(frame, at, end)
        found = self._of_batch(frame, at, end) if at < self.known_end else self._pieces.at(at, min(end, frame.end))
        if not found:
            raise NotCapturedError(f"the bytes at {at} are not part of the evidence")
        return found[: end - at]

    def _frame_at(self, position: int) -> Frame:
        return self._frames[bisect_right(self._starts, position) - 1]

    def _headers(self, frame: Frame) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """The headers of a frame (`HEADER_DTYPE`), and their positions in the file."""
        if self._batches is None or self._batches[0] != frame:
            planes = np.frombuffer(self._file.inflate(frame), np.uint8).reshape(HEADER_BYTES, frame.batches)
            headers = np.ascontiguousarray(planes.T).view(HEADER_DTYPE).reshape(frame.batches)
            sizes = headers["length"].astype(np.int64) + PREFIX_BYTES
            ends = frame.position + np.cumsum(sizes)
            if (sizes < HEADER_BYTES).any() or ends[-1] != frame.end:
                raise self._file.refuse(frame.position, f"batches up to {frame.end}", "lengths that lead elsewhere")
            self._batches = frame, headers, ends - sizes
        return self._batches[1:]

    def _batch_at(self, frame: Frame, position: int) -> tuple[int, np.void]:
        """Start and header of the batch around a position in a frame of headers."""
        headers, positions = self._headers(frame)
        index = int(positions.searchsorted(position, side="right")) - 1
        return int(positions[index]), headers[index]

    @cached_property
    def _verdicts(self) -> dict[int, bool]:
        """For each batch in H whose bytes are available, by position: True if its checksum is right."""
        found = {}
        for frame in self._frames:
            if frame.kind != b"H":
                continue
            ranges = self._pieces_of_batches.ranges_in(frame.position, frame.end)
            ranges += [(position, position + 1) for position in self._control_batches(frame)]
            if not ranges:
                continue
            headers, positions = self._headers(frame)
            chosen = np.zeros(len(positions), bool)
            for start, end in ranges:
                first = max(0, int(positions.searchsorted(start, side="right")) - 1)
                chosen[first : positions.searchsorted(end)] = True
            for index in chosen.nonzero()[0].tolist():
                start, header = int(positions[index]), headers[index]
                crcs = (_crc_of(read, start, header) for read in self._sources(frame, start, header))
                crc = next((one for one in crcs if one is not None), None)
                if crc is not None:
                    found[start] = bool(crc == header["crc"])
        return found

    @cached_property
    def _judged(self) -> list[int]:
        """Positions in `_verdicts`, in order."""
        return sorted(self._verdicts)

    def _of_batch(self, frame: Frame, at: int, end: int) -> bytes:
        """Some bytes of a batch from `at` on, up to `end`; only the header's, or none, if the rest is missing."""
        start, header = self._batch_at(frame, at)
        if self._source is None or self._source[0] != start:
            self._source = start, self._whole_batch(frame, start, header)
        read = self._source[1]
        if read is None:
            return header.tobytes()[at - start :]
        return read(at, min(end, _end_of(start, header)))

    def _whole_batch(self, frame: Frame, start: int, header: np.void) -> _ReadBytes | None:
        """Reader of all bytes of a batch that match its header; None if there is none."""
        for read in self._sources(frame, start, header):
            crc = _crc_of(read, start, header)
            # In H a wrong checksum is a finding; in V it shows that these are other bytes.
            if crc is not None and (frame.kind == b"H" or crc == header["crc"]):
                return read
        return None

    def _sources(self, frame: Frame, start: int, header: np.void) -> Iterator[_ReadBytes]:
        """Possible readers of a batch's bytes, in order: control batches, what was brought of the unchanged file, everything brought."""
        control = self._control_batches(frame).get(start, b"")
        if len(control) == _end_of(start, header) - start:
            yield lambda at, end: control[at - start : end - start]
        yield self._pieces.at
        if self._pieces_of_batches is not self._pieces:
            yield self._pieces_of_batches.at

    def _control_batches(self, frame: Frame) -> dict[int, bytes]:
        """The control batches that a frame of headers has completely, by position."""
        controls = self._controls.get(frame.position)
        if controls is None:
            return {}
        if self._held_controls is None or self._held_controls[0] != controls:
            data, at, found = self._file.inflate(controls), 0, {}
            while at + _CONTROL.size <= len(data):
                position, size = _CONTROL.unpack_from(data, at)
                at += _CONTROL.size
                found[position] = data[at : at + size]
                at += size
            self._held_controls = controls, found
        return self._held_controls[1]


def _end_of(start: int, header: np.void) -> int:
    """Position after the batch that begins at `start`."""
    return start + PREFIX_BYTES + int(header["length"])


def _crc_of(read: _ReadBytes, start: int, header: np.void) -> int | None:
    """The CRC-32C of a batch, computed piece by piece; None if bytes are missing or its header differs."""
    if b"".join(_all_of(read, start, start + HEADER_BYTES)) != header.tobytes():
        return None
    at, end, crc = start + CRC_FROM, _end_of(start, header), 0
    for piece in _all_of(read, at, end):
        crc = google_crc32c.extend(crc, piece)
        at += len(piece)
    return crc if at == end else None


def _all_of(read: _ReadBytes, at: int, end: int) -> Iterator[bytes]:
    """The bytes [at, end) piece by piece, until one is missing."""
    while at < end and (piece := read(at, end)):
        yield piece
        at += len(piece)


class _Pieces:
    """Bytes of a file brought later."""

    def __init__(self, brought: Sequence[FrameFile]) -> None:
        found = ((frame, file) for file in brought for frame in file.frames if frame.kind in _BYTES)
        #: Sorted, without pieces inside others, so that starts and ends both increase.
        self._pieces: list[tuple[Frame, FrameFile]] = []
        #: [start, end) of contiguous bytes.
        self._ranges: list[list[int]] = []
        for frame, file in sorted(found, key=lambda piece: piece[0].position):
            if not self._ranges or frame.position > self._ranges[-1][1]:
                self._ranges.append([frame.position, frame.end])
            elif frame.end > self._ranges[-1][1]:
                self._ranges[-1][1] = frame.end
            else:
                continue
            self._pieces.append((frame, file))
        self._starts = [frame.position for frame, _ in self._pieces]
        self._range_ends = [end for _, end in self._ranges]

    def ranges_in(self, start: int, end: int) -> list[tuple[int, int]]:
        """The available parts of [start, end)."""
        number, found = bisect_right(self._range_ends, start), []
        while number < len(self._ranges) and self._ranges[number][0] < end:
            found.append((max(start, self._ranges[number][0]), min(end, self._ranges[number][1])))
            number += 1
        return found

    def end_of(self, at: int) -> int:
        """End of the contiguous bytes from `at` on; `at` if there are none."""
        number = bisect_right(self._range_ends, at)
        is_there = number < len(self._ranges) and self._ranges[number][0] <= at
        return self._ranges[number][1] if is_there else at

    def at(self, at: int, end: int) -> bytes:
        """Some bytes from `at` on, up to `end`; empty if there are none."""
        number = bisect_right(self._starts, at) - 1
        if number < 0 or self._pieces[number][0].end <= at:
            return b""
        frame, file = self._pieces[number]
        return file.read(frame, at, end)

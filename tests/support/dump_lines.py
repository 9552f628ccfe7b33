"""Lines of kafka-dump-log as its generations print them, written from the format alone."""

from __future__ import annotations

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def batch_line(
    base: int,
    last: int,
    position: int,
    size: int,
    *,
    version: str = "4.3",
    epoch: int = 0,
    crc: int = 1,
    valid: bool = True,
    codec: int = 0,
    timestamp: int = 1_700_000_000_000,
    transactional: bool = False,
    control: bool = False,
    horizon: int | None = None,
) -> str:
    """The line of a batch of magic 2 in the words of `version`: 1.1, 2.1, 2.8, 3.0 or 4.3."""
    number = tuple(int(part) for part in version.split("."))
    verdict = f" isvalid: {str(valid).lower()}"
    name = CODECS[codec]
    text = f"baseOffset: {base} lastOffset: {last}"
    text += f" count: {last - base + 1}" if number >= (2, 0) else ""
    producer, sequence = (7, -1 if control else base) if transactional else (-1, -1)
    text += f" baseSequence: {sequence} lastSequence: {sequence} producerId: {producer} producerEpoch: {-1 if producer < 0 else 0}"
    text += f" partitionLeaderEpoch: {epoch} isTransactional: {str(transactional).lower()}"
    text += f" isControl: {str(control).lower()}" if number >= (2, 0) else ""
    if number >= (3, 2):
        text += " deleteHorizonMs: OptionalLong" + (".empty" if horizon is None else f"[{horizon}]")
    text += f" position: {position} CreateTime: {timestamp}" + (verdict if number < (2, 2) else "")
    text += f" size: {size} magic: 2 compresscodec: {name if number >= (3, 0) else name.upper()} crc: {crc}"
    return text + (verdict if number >= (2, 2) else "")


def record_line(offset: int, key: str | None, value: str | None, *, version: str = "4.3", shows: bool = True) -> str:
    """A record below its batch (2.2 and later) or on its own (0.11 to 2.1), with key and payload unless `shows` is false."""
    sizes = [-1 if part is None else len(part.encode()) for part in (key, value)]
    time = "CreateTime: 1700000000000"
    if version == "1.1":
        text = f"offset: {offset} position: 0 {time} isvalid: true keysize: {sizes[0]} valuesize: {sizes[1]} magic: 2 compresscodec: NONE"
        text += " producerId: -1 producerEpoch: -1 sequence: -1 isTransactional: false headerKeys: []"
    elif version == "2.8":
        text = f"| offset: {offset} isValid: true crc: null keySize: {sizes[0]} valueSize: {sizes[1]} {time} baseOffset: {offset} headerKeys: []"
    elif version == "2.2":
        text = f"| offset: {offset} {time} keysize: {sizes[0]} valuesize: {sizes[1]} sequence: -1 headerKeys: []"
    else:
        text = f"| offset: {offset} {time} keySize: {sizes[0]} valueSize: {sizes[1]} sequence: -1 headerKeys: []"
    if shows:
        text += "" if key is None else f" key: {key}"
        text += "" if value is None else f" payload: {value}"
    return text


def old_line(
    offset: int,
    position: int,
    value: int,
    *,
    key: int | None = None,
    magic: int = 1,
    codec: str = "NONE",
    crc: int = 5,
    shown: str = "",
) -> str:
    """A message as 0.10 prints it, whole entry or inside one; `value` and `key` are sizes."""
    text = f"offset: {offset} position: {position} CreateTime: 1700000000000 isvalid: true payloadsize: {value} magic: {magic}"
    text += f" compresscodec: {codec} crc: {crc}" + ("" if key is None else f" keysize: {key}")
    return text + shown


def listing(path: str, *lines: str, word: str = "Log starting offset") -> str:
    """A `Dumping` section with a line feed after every line."""
    base = int(path.rpartition("/")[2][:20])
    return "\n".join([f"Dumping {path}", f"{word}: {base}", *lines, ""])

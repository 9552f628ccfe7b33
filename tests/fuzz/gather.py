"""Makes the archive of seeds: inputs from the captures, and what the fuzzer found beyond them.

python -m tests.fuzz.gather          corpora below build/fuzz/corpus from the captures and the archive
python -m tests.fuzz.gather --pack   the corpora that are there, merged into as few inputs as cover the same, into the archive
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import lzma
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from tests.fuzz.evidence import short_bytes, shortened
from tests.fuzz.memory import entries_of
from tests.fuzz.seeds import ARCHIVE, CORPUS, ROOT, add, unpack
from tests.fuzz.stood_in import first_stood_in
from tests.fuzz.targets import TARGETS
from tests.fuzz.whole import first_changes
from tests.fuzz.written import WRITTEN
from tests.support.archives import FILTERS, Files, tar_bytes
from tests.support.collected import collect_into
from tests.support.encoder import encode_batch, encode_marker, flip
from tests.support.fixtures import ATTACKS, FIXTURES
from tests.support.remote_stores import compressed, manifest
from tests.support.snapshots import Replica, write_snapshot

from replica_audit.batch_header import CODEC_MASK
from replica_audit.segments.compression import CODEC_NAMES, CodecError, decompress
from replica_audit.segments.record_batch import HEADER_BYTES, MAGIC_AT
from replica_audit.segments.records import RecordError, read_records

#: Of one target; more cost the test time and add little.
MOST_SEEDS = 150
_ATTRIBUTES_AT, _COUNT_AT = 22, 57

_TARGET_OF_NAME = {
    "leader-epoch-checkpoint": "epoch_checkpoint",
    "replication-offset-checkpoint": "offset_checkpoint",
    "recovery-point-offset-checkpoint": "offset_checkpoint",
    "log-start-offset-checkpoint": "offset_checkpoint",
    "cleaner-offset-checkpoint": "offset_checkpoint",
    "partition.metadata": "partition_metadata",
    "meta.properties": "meta_properties",
    "quorum-state": "quorum_state",
    "manifest.json": "manifest_json",
    "leadership.json": "leadership_json",
    "zookeeper.json": "zookeeper_json",
    "kafka-topics-describe.txt": "topics_describe",
    "replica_progress.jsonl": "progress_jsonl",
    "batches.jsonl": "table_jsonl",
    "server.log": "broker_log",
}


def gather() -> Iterator[tuple[str, bytes]]:
    """Targets and inputs that the captures, the samples and the configuration hold; too long ones are cut."""
    for root in (FIXTURES, ATTACKS, ROOT / "data" / "samples"):
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            yield from _of_capture(path)
    yield from _of_tables((FIXTURES, ATTACKS))
    for name, path in (("config_yaml", "conf/audit.yaml"), ("suites_yaml", "conf/quality.yaml")):
        yield from ((name, one) for one in _pieces((ROOT / path).read_bytes(), TARGETS[name].greatest))
    yield from ((name, text.encode()) for name, texts in WRITTEN.items() for text in texts)
    for name, path in (
        ("consumer_offsets", "consumer_offsets/kafka-4.3.1.log.b64"),
        ("share_state", "share_state/kafka-4.3.1-1.log.b64"),
    ):
        log = base64.b64decode((ROOT / "tests/snapshot" / path).read_bytes())
        yield from ((name, entry) for entry in entries_of(log))
    yield from (("snapshot", change) for change in first_changes())
    for stored, head in (compressed(bytes(range(200))), compressed(b"x", 7), (b"x" * 30, manifest(30, encryption={}))):
        yield "remote_chunks", head + b"\n" + stored
    yield from _of_evidence()
    yield from first_stood_in()


def _of_evidence() -> Iterator[tuple[str, bytes]]:
    """Parts of small segments and lists of files, as the collector writes them."""
    batches = [encode_batch(0, 2, 0), encode_marker(2, "COMMIT", 0, producer_id=7, producer_epoch=0)]
    apart = [batches[0], encode_batch(9, 2, 0)]
    headers = ("--headers", "always")
    of_one = ((b"", ()), (b"\x09" * 40, ()), (b"\x09" * 40, ("--raw",)), (bytes(50), ()), (b"", headers))
    for batches, tail, raw in (*((batches, *one) for one in of_one), (apart, b"", headers)):
        with tempfile.TemporaryDirectory() as place:
            snapshot = write_snapshot(Path(place, "snapshot"), {1: Replica(batches, tail=tail)})
            collect_into(Path(place, "evidence.tar"), "--log-dir", str(snapshot / "broker-1"), *raw)
            with tarfile.open(Path(place, "evidence.tar")) as archive:
                for info in archive:
                    data = archive.extractfile(info).read()  # type: ignore[union-attr]
                    if info.name.endswith(".frames"):
                        yield "evidence_frames", shortened(data)
                        if raw == headers:
                            found = _with_brought(shortened(data), batches[0])
                            yield from (("evidence_frames", one) for one in found)
                    elif info.name.endswith(".jsonl"):
                        lines = sorted(data.splitlines(), key=len)
                        yield from (("evidence_lists", b"{}\n" + line) for line in lines)
                        log = next(line for line in lines if b".log.frames" in line)
                        yield "evidence_lists", b'{"after": true, "kind": "live"}\n' + b"\n".join([log, *lines[:3]])
                        yield "evidence_lists", b"{}\n" + log.replace(b'"frames"', b'"same"')


def _with_brought(frames: bytes, first: bytes) -> Iterator[bytes]:
    """Frames, and a batch as it was brought later: sound, and damaged."""
    for batch in (first, flip(first)):
        later = short_bytes(0, batch)
        # The two halves are as long, but for the byte that says that there are two.
        filler = bytes(max(0, len(frames) + 1 - len(later) - len(short_bytes(0, b""))))
        yield frames + later + short_bytes(1 << 15, filler)


def _of_capture(path: Path) -> Iterator[tuple[str, bytes]]:
    data, folder = path.read_bytes(), path.parent.name
    if name := _TARGET_OF_NAME.get(path.name):
        yield from ((name, one) for one in _pieces(data, TARGETS[name].greatest))
    elif path.suffix == ".txt" and path.parent.name == "dump":
        for name in ("dump_text", "dump_stand_in"):
            yield name, _head(data, TARGETS[name].greatest)
    elif path.suffix == ".checkpoint":
        yield "metadata_snapshot", data
    elif path.suffix in (".log", ".deleted") and folder.startswith("__cluster_metadata"):
        yield "metadata_log", data[: TARGETS["metadata_log"].greatest]
        found = list(_messages(data))
        yield from found
        values = [value for name, value in found if name == "metadata_message" and len(value) < 255]
        for start in range(0, len(values), 8):
            batches = (values[at : at + 3] for at in range(start, min(start + 8, len(values)), 3))
            records = (b"".join(bytes([len(one)]) + one for one in batch) for batch in batches)
            yield "metadata_records", bytes([start & 1]) + b"\xff".join(records)
    elif path.suffix in (".log", ".deleted") and path.name[:20].isdigit():
        yield from _of_segment(data, folder)
    if path.name[:20].isdigit():
        yield "names", path.name.encode()
        yield "names", folder.encode()


def _of_segment(data: bytes, folder: str) -> Iterator[tuple[str, bytes]]:
    entries = entries_of(data[: 64 << 10])
    for most in (1, 4, 20):
        few = b"".join(entries[:most])
        if len(few) <= TARGETS["segment"].greatest:
            yield "segment", few
            yield "segment_checksums_right", few
    for entry in entries:
        for topic, name in (("__transaction_state", "transaction_state"), ("__remote_log_metadata", "remote_log")):
            if folder.startswith(topic):
                yield name, entry
        if len(entry) <= TARGETS["records"].greatest:
            yield "records", entry
            codec = entry[_ATTRIBUTES_AT] & CODEC_MASK if entry[MAGIC_AT] == 2 and len(entry) > HEADER_BYTES else 0
            if 0 < codec < len(CODEC_NAMES):
                yield CODEC_NAMES[codec], entry[HEADER_BYTES:]
            elif entry[MAGIC_AT] == 2:
                yield "records_compressed", bytes([len(entry) % 4]) + entry
            else:
                yield "records_compressed", bytes([len(entry) % 4]) + entry * 2


def _messages(data: bytes) -> Iterator[tuple[str, bytes]]:
    for entry in entries_of(data):
        codec, count = entry[_ATTRIBUTES_AT] & CODEC_MASK, int.from_bytes(entry[_COUNT_AT:HEADER_BYTES], "big")
        # Some captures are damaged.
        with suppress(CodecError, RecordError):
            for _, _, key, value, _ in read_records(decompress(codec, entry[HEADER_BYTES:]), count):
                if value is not None:
                    yield ("metadata_message", value) if key is None else ("metadata_control", b"\0" + value)


def _of_tables(captures: tuple[Path, ...]) -> Iterator[tuple[str, bytes]]:
    """Rows of JSON lines as the other formats of tables."""
    for target, names in (("table", "batches.jsonl"), ("progress", "replica_progress.jsonl")):
        for path in sorted(path for root in captures for path in root.rglob(names)):
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[:4]]
            text = "\n".join([",".join(rows[0]), *(",".join(map(_cell, row.values())) for row in rows)])
            yield f"{target}_csv", text.encode() + b"\n"
            sink = pa.BufferOutputStream()
            pa.parquet.write_table(pa.Table.from_pylist(rows), sink, compression="none", use_dictionary=False)
            yield f"{target}_parquet", sink.getvalue().to_pybytes()


def _cell(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    return '"' + json.dumps(value) + '"' if isinstance(value, list) else str(value)


def _pieces(data: bytes, greatest: int) -> Iterator[bytes]:
    while data:
        yield (piece := _head(data, greatest))
        data = data[len(piece) :]


def _head(data: bytes, greatest: int) -> bytes:
    """Whole lines, where there are any."""
    cut = data[:greatest]
    return cut if cut == data or b"\n" not in cut else cut[: cut.rindex(b"\n") + 1]


def pack() -> None:
    """Merge the corpora, keep the smallest inputs of each, and write the archive."""
    kept: Files = {}
    for target in TARGETS:
        merged = CORPUS.parent / "merged" / target
        merged.mkdir(parents=True, exist_ok=True)
        options = [f"-max_len={TARGETS[target].greatest}", "-rss_limit_mb=2048"]
        command = [sys.executable, "-m", "tests.fuzz.one", target, "-merge=1", *options, merged, CORPUS / target]
        subprocess.run(list(map(str, command)), cwd=ROOT, check=True, capture_output=True)
        inputs = sorted((path.read_bytes() for path in merged.iterdir()), key=lambda data: (len(data), data))
        kept |= {f"{target}/{hashlib.sha256(data).hexdigest()[:8]}": data for data in inputs[:MOST_SEEDS]}
    write(kept)


def write(seeds: Files) -> None:
    """The archive of these seeds: the same bytes from the same seeds."""
    ARCHIVE.write_bytes(lzma.compress(tar_bytes(seeds), format=lzma.FORMAT_XZ, filters=FILTERS))
    print(f"{ARCHIVE}: {len(seeds)} seeds, {ARCHIVE.stat().st_size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", action="store_true", help="merge the corpora and write the archive")
    arguments = parser.parse_args()
    if arguments.pack:
        pack()
        return
    for target, data in gather():
        add(target, data[: TARGETS[target].greatest])
    if ARCHIVE.exists():
        unpack()


if __name__ == "__main__":
    main()

"""States of the model as snapshots on disk: segments, checkpoints, epoch files, a metadata log and a manifest."""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from pathlib import Path

from tests.exhaustive.model_replica import RECORDS, Batch, Replica
from tests.exhaustive.partition import BROKERS, Aside, Coordinator, Entry, State
from tests.support import metadata_log as write
from tests.support import snapshots
from tests.support.encoder import TIMESTAMP_MS, Record, encode_batch, encode_marker
from tests.support.snapshots import make_uuid, write_log_dir, write_partition

TOPIC = "t"
TOPIC_ID = make_uuid("exhaustive topic")
CONTROLLER = 100
VERSION = "4.1.0"
#: `metadata.version` of 4.1.
FEATURE_LEVEL = 27
#: Between two events.
EVENT_MS = 60_000
PRODUCER = 7
#: Of the directory of a copy, and of the disk that it lies on.
UNIQUE, OTHER_DISK = "5ce01f624f974a48b95f875be0c0e41b", "other"


def write_snapshot(state: State, path: Path, *, quiesced: bool | None, unclean: bool = False) -> None:
    """Write what a copy of all nodes at this instant holds; `quiesced` is what the manifest says of it, and `unclean` that the
    topic allows unclean elections.
    """
    for broker in BROKERS:
        replica = state.replicas[broker]
        is_stopped = replica.status == "stopped"
        disk = make_uuid(f"disk {broker}")
        write_log_dir(
            path / f"broker-{broker}", broker, (_files(replica),), clean_shutdown=is_stopped, directory_id=disk
        )
    for aside in state.aside:
        _write_aside(state, aside, path)
    if state.coordinator is not None:
        write_partition(path / "broker-0" / "__transaction_state-0", _transaction_state(state.coordinator))
    content = b"".join(_metadata(state, unclean))
    log = write.MetadataLog({0: content}, voters=(CONTROLLER,), log_dir="controller")
    write.write_metadata_log(path, CONTROLLER, log)
    (path / "manifest.json").write_text(json.dumps(_manifest(state, quiesced)))


def directory_of(aside: Aside, topic: str = TOPIC) -> str:
    """The copy's own directory, from its broker's on."""
    if aside.kind == "duplicate":
        return f"{OTHER_DISK}/{topic}-0"
    name = f"{topic}-0.{UNIQUE}-{aside.kind}"
    return f"{OTHER_DISK}/{name}" if aside.kind == "future" else name


def _write_aside(state: State, aside: Aside, path: Path) -> None:
    broker = path / f"broker-{aside.broker}"
    if directory_of(aside).startswith(OTHER_DISK):
        is_stopped = state.replicas[aside.broker].status == "stopped"
        disk = make_uuid(f"other disk {aside.broker}")
        write_log_dir(broker / OTHER_DISK, aside.broker, (), clean_shutdown=is_stopped, directory_id=disk)
    write_partition(broker / directory_of(aside), _files(aside.log))


@lru_cache(maxsize=4096)
def _encoded(batch: Batch) -> tuple[bytes, ...]:
    time, mark, part = TIMESTAMP_MS + EVENT_MS * batch.time, f"{batch.base} {batch.epoch}", batch.part
    if part is None or part.outcome is None:
        # Every batch has a sequence of its own.
        producer = {} if part is None else {"base_sequence": 1000 * batch.time + batch.base, "transactional": True}
        if part is not None:
            producer |= {"producer_id": PRODUCER, "producer_epoch": part.producer_epoch}
        return (encode_batch(batch.base, RECORDS, batch.epoch, timestamp_ms=time, mark=mark, **producer),)
    marker = encode_marker(
        batch.base + batch.records,
        part.outcome,
        batch.epoch,
        producer_id=PRODUCER,
        producer_epoch=part.producer_epoch,
        timestamp_ms=time,
    )
    return encode_batch(batch.base, batch.records, batch.epoch, timestamp_ms=time, mark=mark), marker


def _files(replica: Replica) -> snapshots.Replica:
    return snapshots.Replica(
        tuple(one for batch in replica.batches for one in _encoded(batch)),
        replica.epochs,
        high_watermark=replica.mark,
        recovery_point=replica.recovery_point,
        log_start=replica.start_mark,
        topic_id=TOPIC_ID,
        topic=TOPIC,
        first_base_offset=replica.first,
    )


def _transaction_state(said: Coordinator) -> snapshots.Replica:
    """The coordinator's log with its last word: `TransactionLogKey` and `TransactionLogValue` of version 0."""
    names = {"Ongoing": 1, "CompleteCommit": 4, "CompleteAbort": 5}
    text = struct.pack(">hqhib", 0, PRODUCER, said.producer_epoch, EVENT_MS, names[said.state])
    if said.state == "Ongoing":
        text += struct.pack(">ih", 1, len(TOPIC)) + TOPIC.encode() + struct.pack(">ii", 1, 0)
    else:
        text += struct.pack(">i", 0)
    # The marker is written before the coordinator says that the transaction is complete.
    moment = TIMESTAMP_MS + EVENT_MS * said.time + 1
    record = Record(struct.pack(">hh", 0, 2) + b"id", text + struct.pack(">qq", moment, TIMESTAMP_MS))
    batch = encode_batch(0, [record], 0, timestamp_ms=moment)
    return snapshots.Replica([batch], ((0, 0),), topic="__transaction_state", topic_id=None)


def _manifest(state: State, quiesced: bool | None) -> dict:
    moment = TIMESTAMP_MS + EVENT_MS * (state.clock + 1)
    kinds = {"up": "live", "stopped": "stopped", "killed": "killed"}
    log_dirs = [(broker, f"broker-{broker}") for broker in BROKERS]
    log_dirs += [
        (one.broker, f"broker-{one.broker}/{OTHER_DISK}")
        for one in state.aside
        if directory_of(one).startswith(OTHER_DISK)
    ]
    brokers = [
        {
            "broker_id": broker,
            "log_dir": log_dir,
            "started": moment,
            "finished": moment + 1000,
            "kind": kinds[state.replicas[broker].status],
        }
        for broker, log_dir in log_dirs
    ]
    return {"schema_version": 1, "quiesced": quiesced, "kafka_version": VERSION, "brokers": brokers}


def _metadata(state: State, unclean: bool) -> list[bytes]:
    """The batches of the metadata log, from the creation of the topic on."""
    messages = [write.feature("metadata.version", FEATURE_LEVEL)]
    messages += [write.feature("eligible.leader.replicas.version", 1)] if state.elr_on else []
    for broker in BROKERS:
        messages += [write.register_broker(broker, fenced=True), write.registration_change(broker, -1)]
    messages += [
        write.topic(TOPIC, TOPIC_ID),
        write.config(2, TOPIC, "min.insync.replicas", str(state.min_isr)),
        *([write.config(2, TOPIC, "unclean.leader.election.enable", "true")] if unclean else []),
        write.partition(TOPIC_ID, BROKERS, 0, directories=[make_uuid(f"disk {broker}") for broker in BROKERS]),
    ]
    groups = [(0, messages)]
    groups += [(event, [_message(entry) for entry in entries]) for event, entries in state.metadata]
    offset, batches = 1, [write.leader_change(0, CONTROLLER, (CONTROLLER,), time_ms=TIMESTAMP_MS - EVENT_MS)]
    for event, group in groups:
        batches.append(write.batch(offset, group, time_ms=TIMESTAMP_MS + EVENT_MS * event - (event == 0)))
        offset += len(group)
    return batches


def _message(entry: Entry) -> bytes:
    if entry.kind == "change":
        return write.change(
            TOPIC_ID,
            isr=entry.isr,
            leader=entry.leader,
            elr=entry.elr,
            last_known_elr=entry.last_known,
            recovering=entry.recovering,
            replicas=entry.replicas,
            adding=entry.adding,
        )
    if entry.kind == "register":
        return write.register_broker(entry.broker, fenced=True)
    if entry.kind == "stopping":
        return write.registration_change(entry.broker, stopping=1)
    return write.registration_change(entry.broker, 1 if entry.kind == "fence" else -1)

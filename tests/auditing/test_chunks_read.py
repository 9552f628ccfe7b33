"""A file is read a second time only where its chunks are asked for."""

from __future__ import annotations

from tests.support.encoder import encode_batch
from tests.support.scenario import audit
from tests.support.snapshots import TOPIC, Replica

from replica_audit.auditing import opened_snapshot
from replica_audit.config import Settings
from replica_audit.model import CHUNK_OFFSETS, TopicPartition
from replica_audit.runner.in_process import audit_one


def test_of_a_log_only_the_files_with_chunks_that_are_asked_for_are_read_again(tmp_path, monkeypatch):
    """A high watermark below the log end asks for the last chunk of each replica."""
    end = 4 * CHUNK_OFFSETS
    log = [encode_batch(base, 1, 0, mark=f"{base} ") for base in range(0, end, 16_384)]
    log.append(encode_batch(end - 1, 1, 0))
    brokers = {broker: Replica(log, high_watermark=end - 3, per_segment=4) for broker in (1, 2)}
    audit(tmp_path, brokers, configs={"cleanup.policy": "compact"})
    again = []
    real = opened_snapshot.open_source

    def opened(snapshot, file):
        again.append(file.path.rpartition("/")[2])
        return real(snapshot, file)

    monkeypatch.setattr(opened_snapshot, "open_source", opened)
    results = audit_one(str(tmp_path), TopicPartition(TOPIC, 0), Settings())
    assert results.rows("partitions")[0]["reference_id"] == 1
    assert again and len(set(again)) < 5
    assert min(again) >= f"{3 * CHUNK_OFFSETS:020d}.log", again

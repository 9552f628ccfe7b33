"""Options from settings and manifest, and their place in the answers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.samples import SAMPLES
from tests.support.snapshots import write_manifest

from replica_audit.auditing.evidence import resolve_options
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.protocol.versions import parse_kafka_version, protocol_of
from replica_audit.runner.in_process import audit_one
from replica_audit.snapshot.inventory import CopiedLogDir

KIP279 = TopicPartition("kip279", 0)


@pytest.mark.parametrize(
    ("version", "protocol"),
    [
        ("0.10.2.2", "high-watermark"), ("0.11", "kip-101"), ("0.11.0.3", "kip-101"), ("1.1.1", "kip-101"),
        ("2.0", "kip-101"), ("2.0.0", "kip-101"), ("2.0.1", "kip-279"), ("2.1", "kip-279"), ("2.7.2", "kip-279"),
        ("2.8", "fetch"), ("2.8.0", "fetch"), ("3.9.1", "fetch"), ("4.3.1", "fetch"),
    ],
)  # fmt: skip
def test_a_version_truncates_by_its_own_protocol(version: str, protocol: str) -> None:
    assert protocol_of(parse_kafka_version(version)) == protocol


@pytest.mark.parametrize(
    ("protocol", "flag", "manifest", "chosen"),
    [
        (None, None, None, "fetch"),
        (None, "1.1.1", None, "kip-101"),
        (None, None, "0.10.2", "high-watermark"),
        (None, "2.8", "0.10.2", "fetch"),
        ("kip-279", "1.1.1", "0.10.2", "kip-279"),
    ],
)
def test_the_protocol_is_the_one_given_then_that_of_the_version_given_then_of_the_manifest(
    protocol: str | None, flag: str | None, manifest: str | None, chosen: str
) -> None:
    settings = Settings(protocol=protocol, kafka_version=flag)
    assert resolve_options(settings, manifest, None, None, CaptureTimes()).protocol == chosen


def test_a_version_in_the_manifest_that_is_not_one_is_told() -> None:
    with pytest.raises(UsageError, match="newest"):
        resolve_options(Settings(), "newest", None, None, CaptureTimes())


def test_inputs_say_what_brokers_did_and_when_their_log_dirs_were_copied() -> None:
    copies = (
        CopiedLogDir(2, "b", 500, 900, "stopped"),
        CopiedLogDir(1, "a", 100, 200, None),
        CopiedLogDir(1, "c", None, 300, "live"),
    )
    assert CaptureTimes(copies).as_inputs() == {
        "brokers": [
            {"broker_id": 1, "kind": None}, {"broker_id": 1, "kind": "live"}, {"broker_id": 2, "kind": "stopped"},
        ],
        "copied": [
            {"broker_id": 1, "started_ms": 100, "finished_ms": 200}, {"broker_id": 2, "started_ms": 500, "finished_ms": 900},
        ],
    }  # fmt: skip
    assert CaptureTimes(copies[2:]).as_inputs() == {"brokers": [{"broker_id": 1, "kind": "live"}]}


def test_findings_and_the_options_of_the_answer_are_of_the_chosen_version() -> None:
    found = audit_one(str(SAMPLES / "kip279-1-before"), KIP279, Settings(kafka_version="1.1.1", fail_on="low"))
    assert found.audit["options"] == {
        "protocol": "kip-101", "kafka_version": "1.1.1", "topics": [], "quiesced": None, "fail_on": "low",
        "given": {"kafka_version": ["--kafka-version", "1.1.1"]},
    }  # fmt: skip
    gap = next(row for row in found.rows("findings") if row["code"] == "TRN-REPLAY-GAP")
    assert "under kip-101" in gap["message"]
    by_default = audit_one(str(SAMPLES / "kip279-1-before"), KIP279, Settings())
    assert by_default.audit["options"]["protocol"] == "fetch"
    assert not [row for row in by_default.rows("findings") if row["code"] == "TRN-REPLAY-GAP"]


def test_what_the_manifest_says_of_version_rest_and_brokers_stands_in_the_answer(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "kip279-1-before", tmp_path, dirs_exist_ok=True)
    brokers = [{"broker_id": 0, "log_dir": "broker-0", "kind": "killed"}, {"broker_id": 1, "log_dir": "broker-1"}]
    write_manifest(tmp_path, quiesced=True, kafka_version="1.1.1", brokers=brokers)
    audit = audit_one(str(tmp_path), KIP279, Settings()).audit
    assert (audit["options"]["protocol"], audit["options"]["quiesced"]) == ("kip-101", True)
    assert audit["inputs"]["brokers"] == [{"broker_id": 0, "kind": "killed"}]

"""`observe` against real brokers: a sound cluster under load, a follower with other bytes, nobody leading, and an authorizer that refuses."""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import threading
import time
from pathlib import Path

import google_crc32c
import pytest
from tests.brokers.captured_cluster import JARS, CapturedCluster, free_ports
from tests.support.fixtures import FIXTURES

from replica_audit.auditing.catalogue import at_or_above
from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.observe import kafka_brokers
from replica_audit.observe.broker_answers import Throttled
from replica_audit.observe.kafka_brokers import KafkaBrokers
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all

_TOPICS = "org.apache.kafka.tools.TopicCommand"
_BROKERS = (0, 1, 2)


def _observe(bootstrap: str, target: Path, *options: str, status: int = 0) -> Results:
    """The audit of what `observe` writes."""
    given = ["observe", "--bootstrap-servers", bootstrap, "--to", str(target), "--yes", "--quiet", "--topic", "o-*"]
    assert main([*given, *options]) == status
    return audit_all(str(target), Settings(quiet=True))


def _loud(results: Results) -> set[tuple[str, int | None]]:
    return {(row.code, row.broker_id) for row in results.findings if at_or_above(row.severity, "medium")}


def _create(cluster: CapturedCluster, bootstrap: str, topic: str) -> None:
    sizes = ("--partitions", "3", "--replication-factor", "3", "--config", "segment.bytes=1048576")
    cluster.tool(_TOPICS, "--bootstrap-server", bootstrap, "--create", "--topic", topic, *sizes)


def _produce(bootstrap: str, topic: str, number: int, ended: threading.Event | None = None) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all", linger_ms=2, batch_size=8192)
    for one in range(number):
        producer.send(topic, value=os.urandom(500), partition=one % 3)
        if ended is not None and ended.is_set():
            break
        if one % 50 == 0:
            time.sleep(0.01)
    producer.flush()
    producer.close()


def _change_record(path: Path) -> None:
    """One byte of the first batch of a segment, with the checksum that fits it."""
    data = bytearray(path.read_bytes())
    length = struct.unpack_from(">i", data, 8)[0]
    end = 12 + length
    data[end - 20] ^= 0x55
    struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:end])))
    path.write_bytes(data)


def _verification(cluster: CapturedCluster, bootstrap: str) -> str:
    """Output of Kafka's own tool for the same topics within some seconds."""
    arguments = [
        "--broker-list",
        bootstrap,
        "--topics-include",
        "o-diverged",
        "--time",
        "-2",
        "--report-interval-ms",
        "2000",
    ]
    command = [*cluster.java("256m"), "org.apache.kafka.tools.ReplicaVerificationTool", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired as expired:
        return (expired.stdout or b"").decode() + (expired.stderr or b"").decode()
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_cluster_under_load_is_quiet_and_a_hidden_divergence_is_found(tmp_path: Path) -> None:
    ended = threading.Event()
    with CapturedCluster(FIXTURES / "healthy-running", tmp_path / "run") as cluster:
        bootstrap = cluster.start(*_BROKERS)
        _create(cluster, bootstrap, "o-live")
        _create(cluster, bootstrap, "o-diverged")
        _produce(bootstrap, "o-diverged", 300)
        load = threading.Thread(target=_produce, args=(bootstrap, "o-live", 1_000_000, ended))
        load.start()
        try:
            for number in range(3):
                results = _observe(bootstrap, tmp_path / f"live-{number}")
                assert not _loud(results), _loud(results)
                assert {row.verdict for row in results.partitions} <= {"CONSISTENT", "LAGGING"}
                assert len(results.partitions) == 6 and len(results.replicas) == 18
        finally:
            ended.set()
            load.join()
        # One broker stops, and one record on its disk changes.
        cluster.end(2)
        _change_record(cluster.directory(2) / "o-diverged-1" / f"{0:020d}.log")
        cluster.start_again(2)
        results = _observe(bootstrap, tmp_path / "diverged")
        assert ("DIV-CONTENT", 2) in _loud(results)
        assert {row.topic for row in results.findings if at_or_above(row.severity, "medium")} == {"o-diverged"}
        assert {row.partition for row in results.findings if row.code == "DIV-CONTENT"} == {1}
        told = _verification(cluster, bootstrap)
        assert re.search("partition o-diverged-1 .*(doesn't match|checksum)", told), told[-3000:]


@pytest.mark.slow
def test_a_clients_quota_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    throttled: list[int] = []

    class Counting(KafkaBrokers):
        """Notes which brokers held an answer back."""

        def fetch(self, broker_id, starts, max_bytes, each_bytes):
            found = super().fetch(broker_id, starts, max_bytes, each_bytes)
            throttled.extend(broker_id for one in found.values() if isinstance(one, Throttled))
            return found

    monkeypatch.setattr(kafka_brokers, "KafkaBrokers", Counting)
    with CapturedCluster(FIXTURES / "healthy-running", tmp_path / "run") as cluster:
        bootstrap = cluster.start(*_BROKERS)
        _create(cluster, bootstrap, "o-slow")
        _produce(bootstrap, "o-slow", 3000)
        # 4.5 MB, of which nobody agreed to more than one.
        results = _observe(bootstrap, tmp_path / "little", "--at-most-mib", "1", status=1)
        told = capsys.readouterr()
        assert "nobody agreed to read more than the" in " ".join(told.out.split())
        assert "0, 1 and 2 are as the brokers report them" in " ".join(told.err.split())
        assert {row.verdict for row in results.partitions} <= {"CONSISTENT", "INCONCLUSIVE"}
        assert "INCONCLUSIVE" in {row.verdict for row in results.partitions}
        quota = ("--alter", "--add-config", "consumer_byte_rate=100000", "--entity-type", "clients")
        of = ("--entity-name", "replica-audit-observe")
        cluster.tool("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, *quota, *of)
        time.sleep(2)
        results = _observe(bootstrap, tmp_path / "s")
        assert set(throttled) == set(_BROKERS)
        assert not _loud(results) and {row.verdict for row in results.partitions} == {"CONSISTENT"}
        assert {row.log_end_offset for row in results.replicas} == {1000}


def test_what_leads_nobody_is_read(tmp_path: Path) -> None:
    with CapturedCluster(FIXTURES / "healthy-running", tmp_path / "run") as cluster:
        bootstrap = cluster.start(*_BROKERS)
        more = ("--partitions", "1", "--replica-assignment", "0:1:2", "--config", "min.insync.replicas=1")
        cluster.tool(_TOPICS, "--bootstrap-server", bootstrap, "--create", "--topic", "o-alone", *more[2:])
        _produce_to(bootstrap, "o-alone")
        # The leader is alone in sync when it dies: the others are up, and may not lead.
        cluster.end(1, signal.SIGKILL)
        cluster.end(2, signal.SIGKILL)
        _await_isr(cluster, bootstrap, "o-alone", "0")
        cluster.end(0, signal.SIGKILL)
        left = cluster.start_again(1, 2)
        results = _observe(left, tmp_path / "s")
        (partition,) = results.partitions
        assert partition.leader_id is None and partition.verdict == "INCONCLUSIVE"
        ends = {row.broker_id: row.log_end_offset for row in results.replicas}
        assert ends == {1: 40, 2: 40}
        assert ("CAP-MISSING-REPLICA", 0) in _loud(results)


def _produce_to(bootstrap: str, topic: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all")
    for one in range(40):
        producer.send(topic, value=b"%d" % one, partition=0).get(30)
    producer.close()
    time.sleep(7)  # until followers know the last high watermark, and have it in their checkpoints


def _await_isr(cluster: CapturedCluster, bootstrap: str, topic: str, isr: str) -> None:
    until = time.monotonic() + 60
    while not re.search(
        rf"Isr: {isr}\s", cluster.tool(_TOPICS, "--bootstrap-server", bootstrap, "--describe", "--topic", topic)
    ):
        assert time.monotonic() < until
        time.sleep(1)


class _SecuredCluster(CapturedCluster):
    """Cluster with a SASL_SSL listener for clients, and an authorizer."""

    def __init__(self, capture: Path, out: Path, jars: Path) -> None:
        self.secured: dict[int, int] = {}
        self._store = out.parent / "broker.p12"
        _keytool("-genkeypair", "-alias", "b", "-keyalg", "RSA", "-dname", "CN=localhost", "-ext", "SAN=ip:127.0.0.1",
                 "-validity", "30", "-keystore", str(self._store), "-storetype", "PKCS12", "-storepass", "storesecret")  # fmt: skip
        self.certificate = out.parent / "ca.pem"
        self.certificate.write_text(
            _keytool("-exportcert", "-rfc", "-alias", "b", "-keystore", str(self._store), "-storepass", "storesecret")
        )
        super().__init__(capture, out, jars)

    def _configure(self, node: int, directory: Path, voters: str) -> None:
        super()._configure(node, directory, voters)
        path = self._out / f"{node}.properties"
        text = path.read_text() + (
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:ANONYMOUS\n"
        )
        if node not in self._controllers:
            (port,) = free_ports(1)
            self.secured[node] = port
            login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
            text = re.sub(r"(?m)^listeners=(.*)$", rf"listeners=\1,SASL_SSL://127.0.0.1:{port}", text)
            text = re.sub(r"(?m)^(listener.security.protocol.map=.*)$", r"\1,SASL_SSL:SASL_SSL", text)
            text += (
                "inter.broker.listener.name=PLAINTEXT\nsasl.enabled.mechanisms=PLAIN\n"
                f'listener.name.sasl_ssl.plain.sasl.jaas.config={login} user_audit="audit-secret" user_poor="poor-secret";\n'
                f"ssl.keystore.location={self._store}\nssl.keystore.type=PKCS12\nssl.keystore.password=storesecret\n"
                "ssl.key.password=storesecret\n"
            )
        path.write_text(text)


def _keytool(*arguments: str) -> str:
    done = subprocess.run(["keytool", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _properties(cluster: _SecuredCluster, path: Path, user: str) -> str:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={login} username="{user}" password="{user}-secret";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={cluster.certificate}\n"
    )
    return str(path)


@pytest.mark.parametrize(
    ("capture", "kafka", "tool"),
    [
        ("healthy-running", "4.3.1", "org.apache.kafka.tools.AclCommand"),
        ("kafka-3.9-diverged-healed", "3.9.1", "kafka.admin.AclCommand"),
    ],
)
def test_by_sasl_and_ssl_what_an_authorizer_refuses_is_told(
    capture: str, kafka: str, tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with _SecuredCluster(FIXTURES / capture, tmp_path / "run", JARS[kafka]) as cluster:
        bootstrap = cluster.start(*_BROKERS)
        secured = ",".join(f"127.0.0.1:{cluster.secured[one]}" for one in _BROKERS)
        for topic in ("o-open", "o-closed"):
            _create(cluster, bootstrap, topic)
            _produce(bootstrap, topic, 100)
        acls = (tool, "--bootstrap-server", bootstrap, "--add", "--allow-principal", "User:audit")
        cluster.tool(*acls, "--operation", "Read", "--topic", "o-open")
        cluster.tool(*acls, "--operation", "Describe", "--topic", "o-closed")
        time.sleep(2)
        audit = ("--command-config", _properties(cluster, tmp_path / "audit.properties", "audit"))
        results = _observe(secured, tmp_path / "s", *audit, status=1)
        said = capsys.readouterr()
        assert "o-closed-0" in said.out and "TOPIC_AUTHORIZATION_FAILED" in said.out
        assert "the configuration of topic o-open: TOPIC_AUTHORIZATION_FAILED" in said.out
        assert "audit-secret" not in said.out + said.err
        assert "the brokers do not report them: CLUSTER_AUTHORIZATION_FAILED" in " ".join(said.err.split())
        verdicts = {row.topic: row.verdict for row in results.partitions}
        assert verdicts == {"o-open": "CONSISTENT", "o-closed": "INCONCLUSIVE"}
        cluster.tool(*acls, "--operation", "DescribeConfigs", "--topic", "o-open")
        cluster.tool(*acls, "--operation", "Describe", "--cluster")
        time.sleep(2)
        given = ["observe", "--bootstrap-servers", secured, "--to", str(tmp_path / "t"), "--yes", "--topic", "o-open"]
        assert main([*given, *audit]) == 0
        assert "Log sizes on brokers 0, 1 and 2 are as the brokers report them." in " ".join(
            capsys.readouterr().err.split()
        )
        # Nothing may be described, a wrong password, and no password at all.
        poor = ("--command-config", _properties(cluster, tmp_path / "poor.properties", "poor"))
        assert main([*given[:4], str(tmp_path / "u"), *given[5:], *poor]) == 2
        assert "topic o-open: TOPIC_AUTHORIZATION_FAILED" in capsys.readouterr().err
        wrong = tmp_path / "wrong.properties"
        wrong.write_text((tmp_path / "audit.properties").read_text().replace("audit-secret", "other-secret"))
        assert main([*given[:4], str(tmp_path / "u"), *given[5:], "--command-config", str(wrong)]) == 4
        said = capsys.readouterr()
        text = " ".join(said.err.split())
        assert re.search("Authentication failed|the login was refused: look at the password", text), text
        assert "other-secret" not in said.err
        assert not (tmp_path / "u").exists()

"""The client properties file: what of it reaches either client, and that no value of it is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.client_properties import ClientProperties, read_client_properties
from replica_audit.errors import UsageError
from replica_audit.restore.kafka_client import check_properties

SECRET = "hunter2-of-the-cluster"


def _read(path: Path, text: str) -> ClientProperties:
    (path / "client.properties").write_text(text)
    return read_client_properties(str(path / "client.properties"))


TEXT = (
    "# a comment\n\nbootstrap.servers=k1:9093,k2:9093\nsecurity.protocol=SASL_SSL\n sasl.mechanism = SCRAM-SHA-512 \n"
    "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
    f'  username="audit" \\\n  password="{SECRET}";\nssl.truststore.type=PEM\nssl.truststore.location=/etc/ca.pem\n'
)


def test_a_file_of_kafkas_tools_serves_both_clients(tmp_path: Path) -> None:
    found = _read(
        tmp_path,
        TEXT + "ssl.keystore.type=PEM\nssl.keystore.location=/etc/me.pem\nssl.key.password=pem-secret\n"
        "ssl.endpoint.identification.algorithm=\nrequest.timeout.ms=5000\n",
    )
    assert found.bootstrap == "k1:9093,k2:9093"
    assert found.for_librdkafka() == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "audit",
        "sasl.password": SECRET,
        "ssl.ca.location": "/etc/ca.pem",
        "ssl.certificate.location": "/etc/me.pem",
        "ssl.key.location": "/etc/me.pem",
        "ssl.key.password": "pem-secret",
        "ssl.endpoint.identification.algorithm": "none",
        "socket.timeout.ms": "5000",
    }
    assert found.for_kafka_python() == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "audit",
        "sasl_plain_password": SECRET,
        "ssl_cafile": "/etc/ca.pem",
        "ssl_certfile": "/etc/me.pem",
        "ssl_password": "pem-secret",
        "ssl_check_hostname": False,
        "request_timeout_ms": 5000,
    }


def test_names_of_librdkafka_go_on_working_for_librdkafka(tmp_path: Path) -> None:
    found = _read(tmp_path, f"ssl.ca.location=/etc/ca.pem\nsasl.username=audit\nsasl.password={SECRET}\n")
    assert found.for_librdkafka() == found.values
    with pytest.raises(UsageError, match=r"line 1: ssl\.ca\.location: .*ssl\.truststore\.location"):
        found.for_kafka_python()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (f"sasl.password={SECRET}", "give sasl.jaas.config"),
        (f"max.poll.records={SECRET}", "expected one of client.dns.lookup, "),
        ("request.timeout.ms=soon", "a number of milliseconds"),
        ("sasl.mechanism=OAUTHBEARER", "expected one of PLAIN"),
    ],
)
def test_what_kafkas_clients_do_not_know_is_refused_by_name(line: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=text) as caught:
        _read(tmp_path, f"client.id=a\n{line}\n").for_kafka_python()
    assert "line 2" in str(caught.value) and SECRET not in str(caught.value)


def test_every_name_that_kafka_python_gets_is_one_of_its_own(tmp_path: Path) -> None:
    from kafka.net.manager import KafkaConnectionManager

    from replica_audit.client_properties import KNOWN

    assert {names.kafka_python for names in KNOWN.values()} <= set(KafkaConnectionManager.DEFAULT_CONFIG)


def test_values_are_hidden_wherever_they_appear(tmp_path: Path) -> None:
    found = _read(tmp_path, f"ssl.key.password={SECRET}\nssl.key.pem=-----{SECRET}pem\nsecurity.protocol=SSL\n")
    shown = found.hide(f'Invalid value "{SECRET}" for ssl.key.password; SSL, -----{SECRET}pem')
    assert SECRET not in shown and "SSL" in shown


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (f"sasl.jaas.config=SomethingElse required token='{SECRET}';", "expected in sasl.jaas.config"),
        (f"ssl.truststore.password={SECRET}", "ssl.truststore.location"),
        (f"ssl.keystore.password={SECRET}", "ssl.keystore.type=PEM"),
        ("ssl.truststore.type=JKS", "expected PEM"),
        ("ssl.truststore.location=/etc/trust.p12", "a PEM file"),
        (SECRET, "expected name=value"),
    ],
)
def test_what_is_wrong_is_told_without_the_value(line: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=text) as caught:
        _read(tmp_path, f"a=b\n{line}\n")
    assert "line 2" in str(caught.value) and SECRET not in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_client_properties("/nowhere/client.properties")


def test_what_restore_sets_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"line 1: transactional\.id: restore sets it itself") as caught:
        check_properties(_read(tmp_path, f"transactional.id={SECRET}\n"))
    assert SECRET not in str(caught.value)

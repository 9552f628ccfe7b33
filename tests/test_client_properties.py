"""The client properties file: what of it reaches either client, and that no value of it is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.client_properties import ClientProperties, read_client_properties
from replica_audit.errors import UsageError
from replica_audit.redaction import redact
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
    assert found.bootstrap("restore", None) == "k1:9093,k2:9093"
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
    with pytest.raises(UsageError, match=r"line 1: ssl\.ca\.location cannot be used: .*ssl\.truststore\.location"):
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
        (
            f"sasl.jaas.config=SomethingElse required token='{SECRET}';",
            "sasl.jaas.config cannot be used: expected one of IAMLoginModule",
        ),
        ("sasl.jaas.config=a.PlainLoginModule required username='u';", "PlainLoginModule lacks password"),
        (f"sasl.jaas.config=a.PlainLoginModule username='u' password='{SECRET}';", "then `required`"),
        (f"sasl.jaas.config=a.PlainLoginModule required username='u' password='{SECRET}'", "`;` at its end"),
        (f"sasl.jaas.config=a.PlainLoginModule required username='u' password='{SECRET};", "quotation mark has no end"),
        (f"sasl.jaas.config=a.PlainLoginModule required username='u' password=my {SECRET};", 'expected option="value"'),
        (
            f"sasl.jaas.config=a.ScramLoginModule required username='u' password='{SECRET}' tokenauth='true';",
            "tokenauth of ScramLoginModule has no counterpart here: .*delegation tokens are not supported",
        ),
        (
            f"sasl.jaas.config=a.IAMLoginModule required awsProfileName='{SECRET}';",
            "awsProfileName of IAM.*AWS_PROFILE",
        ),
        (f"sasl.jaas.config=a.Krb5LoginModule required keyTab='{SECRET}';", "keyTab of Krb5LoginModule.*kinit"),
        (f"sasl.client.callback.handler.class={SECRET}", "expected software.amazon.msk"),
        (f"ssl.keystore.password: {SECRET}", "ssl.keystore.password cannot be used: give"),
        (f"ssl.keystore.password {SECRET}=", "ssl.keystore.password cannot be used: give"),
        (f"{SECRET}==", "expected name=value with the name of a setting"),
        (f"client.id=\\u12 {SECRET}", "four hexadecimal digits"),
        ("ssl.endpoint.identification.algorithm=none", "expected https, or nothing"),
        (f"ssl.truststore.password={SECRET}", "ssl.truststore.location"),
        (f"ssl.keystore.password={SECRET}", "ssl.keystore.type=PEM"),
        ("ssl.truststore.type=JKS", "expected PEM"),
        ("ssl.truststore.location=/etc/trust.p12", "a PEM file"),
        (SECRET, "expected name=value"),
        ("client.id", "expected name=value"),
    ],
)
def test_what_is_wrong_is_told_without_the_value(line: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=text) as caught:
        _read(tmp_path, f"client.id=b\n{line}\n")
    assert "line 2" in str(caught.value) and SECRET not in str(caught.value)
    # What is printed passes `redact`, which must not take the reason for a value.
    assert redact(str(caught.value)) == str(caught.value)


def test_lines_of_a_key_that_lost_their_backslashes_are_not_taken_for_names(tmp_path: Path) -> None:
    for line in ("MIIEvQIBADANBgkqSECRET==", "q8==", "-----END PRIVATE KEY-----", "abc+/def=", "hunter2"):
        with pytest.raises(UsageError, match="line 2: expected name=value with the name of a setting") as caught:
            _read(tmp_path, f"ssl.keystore.key=-----BEGIN PRIVATE KEY-----\n{line}\n")
        assert line.strip("=") not in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_client_properties("/nowhere/client.properties")


def test_what_restore_sets_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"line 1: transactional\.id cannot be used: restore sets it itself") as caught:
        check_properties(_read(tmp_path, f"transactional.id={SECRET}\n"))
    assert SECRET not in str(caught.value)


MSK = (
    "security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\nsasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;\n"
    "sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler\n"
)


def test_the_ordinary_file_of_msk_serves_observe_and_restore_says_why_not(tmp_path: Path) -> None:
    found = _read(tmp_path, MSK)
    assert found.for_kafka_python() == {"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM"}
    with pytest.raises(
        UsageError, match=r"line 2: sasl\.mechanism cannot be used: librdkafka, which restore uses, has no AWS_MSK_IAM"
    ):
        found.for_librdkafka()


def test_kerberos_with_the_ticket_of_kinit(tmp_path: Path) -> None:
    login = "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required;\n"
    found = _read(tmp_path, f"sasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n{login}")
    assert found.for_kafka_python() == {"sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "kafka"}


def test_a_login_module_of_another_mechanism_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"PlainLoginModule is for sasl\.mechanism=PLAIN, line 1 has another"):
        _read(
            tmp_path,
            "sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config=a.PlainLoginModule required username='u' password='p';\n",
        )


@pytest.mark.parametrize(
    ("written", "password"),
    [
        (r'password="a\\\\b"', "a\\b"),  # of four backslashes Properties leaves two, JAAS one
        (r'password="a\\"b"', 'a"b'),
        (r'password="\u00e4;=b"', "\u00e4;=b"),
        (r"password='a b'", "a b"),
        (r'password="\\101"', "A"),
        (r'password="9"', "9"),
        ("password=plain!word", "plain!word"),
    ],
)
def test_passwords_are_unescaped_as_java_does(written: str, password: str, tmp_path: Path) -> None:
    found = _read(tmp_path, f"sasl.jaas.config=a.PlainLoginModule required username=u {written};\n")
    assert found.for_kafka_python() == {"sasl_plain_username": "u", "sasl_plain_password": password}
    assert found.for_librdkafka() == {"sasl.username": "u", "sasl.password": password}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("client.id: a=b", {"client.id": "a=b"}),
        ("client.id\ta:b", {"client.id": "a:b"}),
        (r"client\u002eid = a", {"client.id": "a"}),
        ("client.id=a\\\n  # b", {"client.id": "a# b"}),
        ("client.id=a\\\\\n# b", {"client.id": "a\\"}),
        ("! no\n# no\\\nclient.id=a\r\n\f\nssl.key.password=a ", {"client.id": "a", "ssl.key.password": "a "}),
        ("client.id=a\x85b", {"client.id": "a\x85b"}),
        ("client.id=a\\", {"client.id": "a"}),
    ],
)
def test_lines_are_split_as_java_does(text: str, values: dict[str, str], tmp_path: Path) -> None:
    assert _read(tmp_path, text).values == values


def test_that_names_in_certificates_are_not_checked_is_said(tmp_path: Path) -> None:
    off = _read(tmp_path, "client.id=a\nssl.endpoint.identification.algorithm\n")
    assert off.for_kafka_python()["ssl_check_hostname"] is False
    assert off.for_librdkafka()["ssl.endpoint.identification.algorithm"] == "none"
    (note,) = off.notes
    assert "line 2: ssl.endpoint.identification.algorithm is empty" in note
    on = _read(tmp_path, "ssl.endpoint.identification.algorithm=HTTPS\n")
    assert on.for_kafka_python() == {"ssl_check_hostname": True} and not on.notes
    assert on.for_librdkafka() == {"ssl.endpoint.identification.algorithm": "https"}
    assert not _read(tmp_path, "client.id=a\n").notes

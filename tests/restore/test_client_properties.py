"""The client properties file: what of it reaches librdkafka, and that no value of it is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.errors import UsageError
from replica_audit.restore.kafka_client import read_client_properties

SECRET = "hunter2-of-the-cluster"


def _read(path: Path, text: str):
    (path / "client.properties").write_text(text)
    return read_client_properties(str(path / "client.properties"))


def test_a_file_of_kafkas_tools(tmp_path: Path) -> None:
    found = _read(
        tmp_path,
        "# a comment\n\nsecurity.protocol=SASL_SSL\n sasl.mechanism = SCRAM-SHA-512 \n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'  username="audit" \\\n  password="{SECRET}";\nssl.ca.location=/etc/ca.pem\n',
    )
    assert found.values == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "audit",
        "sasl.password": SECRET,
        "ssl.ca.location": "/etc/ca.pem",
    }


def test_values_are_hidden_wherever_they_appear(tmp_path: Path) -> None:
    found = _read(tmp_path, f"ssl.key.password={SECRET}\nssl.key.pem=-----{SECRET}pem\nsecurity.protocol=SSL\n")
    shown = found.hide(f'Invalid value "{SECRET}" for ssl.key.password; SSL, -----{SECRET}pem')
    assert SECRET not in shown and "SSL" in shown


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (f"sasl.jaas.config=SomethingElse required token='{SECRET}';", "expected in sasl.jaas.config"),
        (f"ssl.truststore.password={SECRET}", "ssl.ca.location"),
        (f"transactional.id={SECRET}", "sets transactional.id itself"),
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

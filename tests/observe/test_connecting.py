"""Connecting: an address that is none, nobody there, and whoever closes the connection."""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka.errors import KafkaConnectionError, NodeNotReadyError

from replica_audit.cli.main import main
from replica_audit.client_properties import read_client_properties
from replica_audit.errors import EngineError
from replica_audit.observe.kafka_brokers import connect, reach_one


@pytest.fixture(params=[False, True], ids=["closed", "reset"])
def closing(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address that takes connections and closes them, as a listener does that wants another protocol; one that has not read what
    was sent resets them.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            try:
                while True:
                    taken = server.accept()[0]
                    if request.param:
                        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    taken.close()
            except OSError:
                return  # the test is over

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def test_a_connection_that_is_closed_says_why_that_may_be(closing: str) -> None:
    with pytest.raises(EngineError, match=r"another security\.protocol, or the login was refused"):
        connect(closing, read_client_properties(None))


@dataclass
class _Waiting:
    """A manager of connections that waits after a failed attempt, as kafka-python's does, and whose brokers close every connection."""

    waits: list[bool]
    """For each further attempt, whether the address is waited for then."""
    slept: list[float] = field(default_factory=list)
    cluster: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(bootstrap_brokers=lambda: [SimpleNamespace(node_id="bootstrap-2")])
    )

    async def get_connection(self, node_id: str) -> None:
        if self.waits.pop(0):
            raise NodeNotReadyError(node_id)
        raise KafkaConnectionError("disconnected")

    def connection_delay(self, node_id: str) -> float:
        return 0.25

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.mark.parametrize("waits", [[True, False], [True, True, True]])
@pytest.mark.parametrize(
    ("logs_in", "told"), [(True, "closed the connection while logging in.*sasl.mechanism"), (False, "was closed")]
)
def test_an_address_that_is_still_waited_for_is_tried_again_and_hides_no_reason(
    waits: list[bool], logs_in: bool, told: str
) -> None:
    manager = _Waiting(list(waits))
    with pytest.raises(KafkaConnectionError, match=told) as caught:
        asyncio.run(reach_one(manager, manager, logs_in))
    assert "NotReady" not in str(caught.value) and "bootstrap-2" not in str(caught.value)
    assert not manager.waits and manager.slept == [0.25] * sum(waits[:2])


def test_a_login_to_a_listener_that_closes_says_what_to_look_at(closing: str, tmp_path: Path) -> None:
    (tmp_path / "p").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="s3cret";\n'
    )
    with pytest.raises(EngineError, match="while logging in") as caught:
        connect(closing, read_client_properties(str(tmp_path / "p")))
    assert "s3cret" not in str(caught.value)


def test_a_listener_that_closes_a_connection_by_tls_without_a_login_asks_for_no_password(
    closing: str, tmp_path: Path
) -> None:
    (tmp_path / "p").write_text("security.protocol=SSL\n")
    with pytest.raises(EngineError) as caught:
        connect(closing, read_client_properties(str(tmp_path / "p")))
    assert "password" not in str(caught.value) and "mechanism" not in str(caught.value)


def test_a_port_that_nobody_listens_on_is_told() -> None:
    with pytest.raises(EngineError, match="ECONNREFUSED; check --bootstrap-servers and --command-config"):
        connect("127.0.0.1:1", read_client_properties(None))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["observe"], "--bootstrap-servers is missing"),
        (["observe", "--bootstrap-servers", "h:1"], "--to is missing"),
        (["observe", "--bootstrap-servers", "h", "--to", "new"], "expected HOST:PORT"),
        (["observe", "--bootstrap-servers", "h:1", "--to", "s3://b/x"], "a new local directory"),
        (["observe", "--bootstrap-servers", "h:1", "--to", "."], "exists"),
        (["observe", "--bootstrap-servers", "h:1", "--to", "a/b"], "is not a directory"),
        (["observe", "--bootstrap-servers", "h:1", "--to", "new", "--last", "0"], "1 or more"),
        (["observe", "--bootstrap-servers", "h:1", "--to", "new", "--since", "soon"], "is not a time such as"),
        (["observe", "--bootstrap-servers", "h:1", "--to", "new", "--command-config", "none"], "No such file"),
    ],
)
def test_what_is_missing_or_wrong_is_2(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_the_client_it_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys\nsys.modules['kafka'] = None\nfrom replica_audit.cli.main import main\n"
        f"sys.exit(main(['observe', '--bootstrap-servers', 'h:1', '--to', {str(tmp_path / 'new')!r}]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 4 and "pip install 'replica-audit[cluster]'" in done.stderr


def test_what_of_the_file_is_not_as_expected_is_said_before_anyone_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p").write_text("client.id=nightly\nssl.endpoint.identification.algorithm=\n")
    command = ["observe", "--bootstrap-servers", "127.0.0.1:1", "--to", str(tmp_path / "s"), "--command-config"]
    assert main([*command, str(tmp_path / "p")]) == 4
    said = capsys.readouterr().err
    assert "line 2: ssl.endpoint.identification.algorithm is empty" in said
    assert "client.id of the file is not used: brokers and quotas know this reader as replica-audit-observe" in said
    (tmp_path / "p").write_text("security.protocol=PLAINTEXT\n")
    assert main([*command, str(tmp_path / "p")]) == 4
    assert "is not" not in capsys.readouterr().err

"""No text that leaves the program shows credentials: one function takes them out, and every way out goes through it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import fs
from tests.support.engine import Engine
from tests.support.in_process import run_in_process
from tests.support.samples import SAMPLES

from replica_audit.cli import failure
from replica_audit.cli.commands import COMMANDS
from replica_audit.cli.main import main
from replica_audit.cli.parser import build_parser, parsers_of
from replica_audit.errors import EngineError
from replica_audit.redaction import NOT_SHOWN, redact
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.object_store import ObjectStore
from replica_audit.snapshot.storage import Snapshot

SAMPLE = SAMPLES / "last-replica-standing"
KEY, SECRET = "AKIAPLANTED", "pl4nted/s3cret+x"
URI = f"s3://{KEY}:{SECRET}@bucket/snapshots"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (URI, "s3://bucket/snapshots"),
        (f"{URI}: no such directory", "s3://bucket/snapshots: no such directory"),
        ("s3a://k:123/45@bucket", "s3a://bucket"),
        ("https://token@host/x", "https://host/x"),
        ("cannot open s3://AKIA:a-long-passw...", f"cannot open s3://{NOT_SHOWN}"),
        ("http://[::1]:80/x http://host:8080 s3://bucket:", "http://[::1]:80/x http://host:8080 s3://bucket:"),
        ("hdfs://nn:9000/day@1/", "hdfs://nn:9000/day@1/"),
        ("s3://bucket/part:x@y", "s3://bucket/part:x@y"),
        ("s3://bucket?region=x&secret_key=abc&scheme=http", f"s3://bucket?region=x&secret_key={NOT_SHOWN}&scheme=http"),
        ("https://h/x?X-Amz-Credential=AKIA%2F1&X-Amz-Signature=ab12", f"https://h/x?X-Amz-Credential={NOT_SHOWN}&X-Amz-Signature={NOT_SHOWN}"),
        ("spark.hadoop.fs.s3a.secret.key=abc spark.x=1", f"spark.hadoop.fs.s3a.secret.key={NOT_SHOWN} spark.x=1"),
        ('{"fs.s3a.access.key": "AKIA", "a": 1}', '{"fs.s3a.access.key": ' + NOT_SHOWN + ', "a": 1}'),
        ("sasl.jaas.config=org.apache.PlainLoginModule required username='u' password='p q';",
         f"sasl.jaas.config={NOT_SHOWN} required username='u' password={NOT_SHOWN};"),
        ("ssl.keystore.password: hunter2", f"ssl.keystore.password: {NOT_SHOWN}"),
        ("topic tokens-0 is CONSISTENT; the password is not in it", "topic tokens-0 is CONSISTENT; the password is not in it"),
    ],
)  # fmt: skip
def test_credentials_are_left_out_and_the_rest_stays(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize("part", ["token", "s3://", "x://a:", "a@", "password=", 'password="', "secret."])
def test_time_grows_with_the_length_of_a_text(part: str) -> None:
    # Not a measurement: a pattern that backtracks over the whole text would not come to an end here.
    redact(part * 50_000 + "@")


def _leaks(*texts: str) -> bool:
    return any(word in text for text in texts for word in (KEY, SECRET, SECRET.partition("/")[0]))


def test_an_error_of_the_storage_names_the_place_without_its_credentials() -> None:
    with pytest.raises(ValueError) as caught:
        Snapshot.open(f"gopher://{KEY}:{SECRET}@bucket/x")
    assert "gopher://bucket/x" in str(caught.value)
    assert not _leaks(str(caught.value))
    assert caught.value.__cause__ is None


def test_the_place_of_a_snapshot_is_stored_without_credentials(tmp_path: Path) -> None:
    from replica_audit.runner.ingest import snapshot_row

    snapshot = Snapshot(URI, "/", ObjectStore(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())))
    assert snapshot.location == URI  # executors open it again
    row = snapshot_row(snapshot, discover(Snapshot.open(tmp_path)), None)
    assert row.location == "s3://bucket/snapshots"
    assert not _leaks(json.dumps(row))


@pytest.mark.parametrize("form", ["text", "json"])
def test_settings_are_printed_without_secrets(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "audit.yaml"
    config.write_text(f"warehouse: '{URI}'\nspark:\n  spark.hadoop.fs.s3a.secret.key: '{SECRET}'\n  spark.x: '1'\n")
    assert main(["run", "x", "--config", str(config), "--print-config", "--format", form]) == 0
    said = capsys.readouterr()
    assert not _leaks(said.out, said.err)
    assert "s3://bucket/snapshots" in said.out
    assert NOT_SHOWN in said.out


@pytest.mark.parametrize(
    "error",
    [
        EngineError(f"cannot write to {URI}"),
        OSError(5, "Input/output error", URI),
        RuntimeError(f"fs.s3a.secret.key={SECRET} at {URI}"),
        KeyError(URI),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_failed_run_shows_no_credentials_anywhere(
    error: Exception,
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(failure, "TEMPORARY", str(tmp_path))
    engine.error, engine.logged = error, f"ERROR fs.s3a.secret.key={SECRET} {URI}"
    report = tmp_path / "report"
    assert (
        main(["run", URI, "--warehouse", URI.replace("snapshots", "tables"), "--report", str(report), "--no-quality"])
        != 0
    )
    said = capsys.readouterr()
    files = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert any("verdict" in text for text in files)
    assert not _leaks(said.out, said.err, *files)


#: What each command is given besides the option in question; `{new}` is a place where nothing is.
_GIVEN = {
    "run": ["{sample}", "--no-quality"],
    "ingest": ["{sample}"],
    "audit": [],
    "quality": [],
    "report": [],
    "history": [],
    "show": ["{sample}"],
    "elect": ["{sample}", "--plan", "{new}"],
    "quorum": ["{sample}", "--plan", "{new}"],
    "verify": ["{sample}", "{sample}"],
    "salvage": ["{sample}", "--to", "{new}"],
    "restore": ["{new}", "--bootstrap-servers", "h:1"],
    "observe": ["--bootstrap-servers", "127.0.0.1:1", "--to", "{sample}", "--yes"],
    "capture-plan": ["1=/data"],
    "evidence": ["{sample}"],
    "explain": [],
    "setup": [],
    "completion": [],
    "help": [],
}
#: Globs of topics: no place, and stored as they were given.
_STORED = ("--topic",)


def test_every_command_is_given_secrets() -> None:
    assert set(_GIVEN) == set(parsers_of(build_parser()))


@pytest.mark.parametrize("secret", [SECRET, "pl4nted" * 40], ids=["short", "longer than a line"])
@pytest.mark.parametrize("command", _GIVEN)
def test_whatever_argument_has_credentials_shows_none(
    command: str, secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_in_process(monkeypatch)
    monkeypatch.setattr(failure, "TEMPORARY", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    uri = f"gopher://{KEY}:{secret}@bucket/snapshots"
    actions = parsers_of(build_parser())[command]._actions
    places = [action for action in actions if action.nargs != 0 and not {*action.option_strings} & {*_STORED}]
    told = 0
    for number, action in enumerate(places):
        given = [part.format(sample=SAMPLE, new=tmp_path / f"new-{number}") for part in _GIVEN[command]]
        if action.option_strings:
            arguments = [command, *given, action.option_strings[0], uri]
        else:
            at = [one for one in places if not one.option_strings].index(action)
            arguments = [command, *given[:at], uri, *given[at + 1 :]]
        main(arguments)
        # In JSON no text is broken into lines.
        if secret == SECRET and COMMANDS[command].common and "--format" not in arguments:
            main([*arguments, "--format", "json"])
        said = capsys.readouterr()
        told += "gopher://bucket/snapshots" in said.err
        files = [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
        assert not _leaks(said.out, said.err, *files), arguments
    assert told or command in ("completion", "help")


@pytest.mark.parametrize("command", [name for name in _GIVEN if COMMANDS[name].common])
def test_settings_of_every_command_are_printed_without_secrets(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "audit.yaml"
    config.write_text(f"warehouse: '{URI}'\nspark:\n  spark.hadoop.fs.s3a.secret.key: '{SECRET}'\n")
    assert main([command, "--config", str(config), "--print-config"]) == 0
    said = capsys.readouterr()
    assert NOT_SHOWN in said.out and not _leaks(said.out, said.err)


def test_what_java_logs_is_passed_on_without_secrets() -> None:
    program = (
        "import io, os, sys; from replica_audit.spark.jvm_stderr import Relay\n"
        f"relay = Relay(io.BytesIO(b'fs.s3a.secret.key={SECRET} {URI} \\xff\\n')); relay.thread.join()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert not _leaks(done.stderr.decode("latin-1"))
    assert b"s3://bucket/snapshots \xff\n" in done.stderr

"""`replica-audit setup`: what is there, what is brought, from where, and that nothing of it stays."""

from __future__ import annotations

import shutil

import pytest

from replica_audit.cli.main import main
from replica_audit.install import installation, session_settings, setup
from replica_audit.install.environment import check_jars
from replica_audit.install.installation import JARS_VARIABLE, locked_jars
from replica_audit.install.setup import reason_of


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory of its own for what `setup` brings, with nothing in it."""
    target = tmp_path / "cache"
    for module in (installation, setup, session_settings):
        monkeypatch.setattr(module, "share_directory", lambda: target)
    monkeypatch.delenv(JARS_VARIABLE, raising=False)
    return target


@pytest.fixture
def jars(tmp_path):
    """The JARs of this installation, in a directory as somebody carried it here."""
    source = tmp_path / "carried"
    source.mkdir()
    for path in check_jars():
        shutil.copy(path, source)
    return source


def test_a_check_says_what_is_missing_and_changes_nothing(place, capsys):
    assert main(["setup", "--check"]) == 4
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ok", "ok", "missing", "no"]
    assert str(place / "jars" / locked_jars()[0].file_name) + " is missing" in lines[2]
    assert not place.exists()


def test_without_a_network_the_jars_come_from_a_directory(jars, place, monkeypatch, capsys):
    monkeypatch.setattr(setup, "TRAINING", "no_such_module")
    assert main(["setup", "--offline", str(jars)]) == 0
    told = capsys.readouterr()
    assert "no class archive" in told.err and "JARs of Delta: 7 in" in told.out
    assert sorted(path.name for path in (place / "jars").iterdir()) == sorted(jar.file_name for jar in locked_jars())
    assert (place / "spark-local.conf").is_file() and (place / "spark-cluster.conf").is_file()
    assert main(["setup", "--remove"]) == 0 and not place.exists()
    assert main(["setup", "--remove"]) == 0
    assert "nothing to remove" in capsys.readouterr().out


def test_jars_that_are_not_as_locked_are_not_copied(jars, place, capsys):
    (jars / locked_jars()[0].file_name).write_bytes(b"something else")
    assert main(["setup", "--offline", str(jars)]) == 4
    assert "expected " + locked_jars()[0].sha256 in capsys.readouterr().err
    assert not (place / "jars").exists()


def test_a_package_outside_a_clone_uses_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(
        installation, "__file__", str(tmp_path / "site-packages" / "replica_audit" / "install" / "x.py")
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert installation.share_directory().parent == tmp_path / "cache" / "replica-audit"


@pytest.mark.parametrize("option", ["--offline", "--ivy-settings"])
def test_a_source_that_is_not_there_is_an_error_of_usage(option, place, tmp_path, capsys):
    assert main(["setup", option, str(tmp_path / "none")]) == 2
    assert f"{option} {tmp_path}/none: no such" in capsys.readouterr().err
    assert not place.exists()


def test_of_a_trace_of_java_the_deepest_cause_is_shown():
    trace = (
        b"Exception: it failed\n\tat a.b\nCaused by: outer\n\tat c\nCaused by: no space left\n\tat d\n\t... 81 more\n"
    )
    assert reason_of(trace) == "Caused by: no space left"
    assert (reason_of(b"one\ntwo\n"), reason_of(b"")) == ("two", "nothing")

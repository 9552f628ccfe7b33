"""The lock of the JARs: what it must say, and how missing or changed JARs are told and repaired."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import pytest
from tests.support.some import some

from replica_audit.errors import EngineError
from replica_audit.install import jars
from replica_audit.install.environment import check_jars
from replica_audit.install.installation import (
    JARS_VARIABLE,
    RELEASES,
    LockedJar,
    conf_file,
    jar_directory,
    locked_jars,
    minor_of,
    parse_lock,
)

ROOT = Path(__file__).parents[2]


def a_jar(name: str, content: bytes) -> LockedJar:
    return LockedJar("org.example", name, "1.0", hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize(("minor", "count"), [("4.0", 2), ("4.1", 3), ("4.2", 7)])
def test_each_minor_of_spark_has_a_lock_with_the_jars_of_its_delta(minor, count):
    release = RELEASES[minor]
    locked = locked_jars(release.spark)
    assert len(locked) == count
    assert {jar.version for jar in locked if jar.group == "io.delta"} == {release.delta}
    assert release.package in {jar.coordinates for jar in locked}


def test_the_locks_of_packages_pin_the_pairs():
    for minor, release in RELEASES.items():
        newest = minor == minor_of([*RELEASES.values()][-1].spark)
        for lock in some((ROOT / ".locks").glob("py3*.txt" if newest else f"spark{minor.replace('.', '')}.txt")):
            text = lock.read_text()
            assert f"pyspark=={release.spark} " in text and f"delta-spark=={release.delta} " in text, lock


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("io.delta:x:1", "line 1: expected 'group:artifact:version sha256:hex'"),
        ("io.delta:x:1 md5:" + "0" * 64, "found 'io.delta:x:1 md5:0"),
        ("io.delta:x sha256:" + "0" * 64, "line 1"),
        ("io.delta:x:1 sha256:abc", "line 1"),
        ("# nothing", "expected at least one JAR, found none"),
    ],
)
def test_a_broken_lock_is_told_with_its_line(line, said):
    with pytest.raises(EngineError, match=re.escape(said)):
        parse_lock(line, "jars.lock")


def test_conf_files_are_found_in_the_checkout():
    found = conf_file("jars-4.2.lock")
    assert found is not None and found.samefile(ROOT / "conf" / "jars-4.2.lock")
    assert conf_file("no-such-file") is None


def test_the_installed_jars_are_those_of_the_lock():
    assert [path.name for path in check_jars()] == [jar.file_name for jar in locked_jars()]


def test_a_missing_and_a_corrupt_jar_are_named_with_the_remedy(tmp_path, monkeypatch):
    for path in check_jars():
        (tmp_path / path.name).symlink_to(path)
    missing, corrupt = (tmp_path / jar.file_name for jar in locked_jars()[:2])
    missing.unlink()
    corrupt.unlink()
    corrupt.write_bytes(b"half a downl")
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))
    assert jar_directory() == tmp_path
    with pytest.raises(EngineError) as caught:
        check_jars()
    said = str(caught.value)
    assert f"{missing} is missing" in said
    assert f"{corrupt} (12 bytes) has SHA-256" in said
    assert "run: replica-audit setup" in said
    assert caught.value.exit_status == 4


def test_only_what_is_missing_or_changed_is_brought_again(tmp_path, monkeypatch):
    good, bad, absent = a_jar("good", b"good"), a_jar("bad", b"bad"), a_jar("absent", b"absent")
    (tmp_path / good.file_name).write_bytes(b"good")
    (tmp_path / bad.file_name).write_bytes(b"b")

    def served(wanted, target, settings):
        for jar in wanted:
            (target / jar.file_name).write_bytes(jar.artifact.encode())

    monkeypatch.setattr(jars, "retrieve", served)
    assert jars.install_jars([good, bad, absent], tmp_path, None) == [bad, absent]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["absent-1.0.jar", "bad-1.0.jar", "good-1.0.jar"]
    assert (tmp_path / bad.file_name).read_bytes() == b"bad"
    assert jars.install_jars([good, bad, absent], tmp_path, None) == []


def test_nothing_is_installed_when_the_repository_serves_other_bytes(tmp_path, monkeypatch):
    first, second = a_jar("first", b"first"), a_jar("second", b"second")

    def served(wanted, target, settings):
        (target / first.file_name).write_bytes(b"first")
        (target / second.file_name).write_bytes(b"something else")

    monkeypatch.setattr(jars, "retrieve", served)
    said = r"org\.example:second:1\.0 as resolved: .* expected .*; nothing was installed"
    with pytest.raises(EngineError, match=said):
        jars.install_jars([first, second], tmp_path, None)
    assert list(tmp_path.iterdir()) == []


def test_ivy_that_reaches_nothing_is_told_in_a_sentence(tmp_path):
    settings = tmp_path / "nowhere.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="nowhere"/><resolvers><filesystem name="nowhere" m2compatible="true">'
        f'<artifact pattern="{tmp_path}/none/[artifact]-[revision].[ext]"/></filesystem></resolvers></ivysettings>'
    )
    said = r"(?s)Ivy could not resolve .*nowhere.*org\.example.*replica-audit setup --ivy-settings FILE"
    with pytest.raises(EngineError, match=said):
        jars.install_jars([a_jar("first", b"first")], tmp_path / "jars", settings)
    assert list((tmp_path / "jars").iterdir()) == []


def test_ivy_brings_a_jar_from_a_repository_of_files(tmp_path):
    jar, content = a_jar("first", b"content"), b"content"
    place = tmp_path / "a repository" / "org.example" / "first"
    place.mkdir(parents=True)
    (place / "first-1.0.jar").write_bytes(content)
    settings = tmp_path / "files.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="files"/><resolvers><filesystem name="files">'
        f'<artifact pattern="{tmp_path}/a repository/[organisation]/[module]/[artifact]-[revision].[ext]"/>'
        "</filesystem></resolvers></ivysettings>"
    )
    directory = tmp_path / "jars with spaces"
    assert jars.install_jars([jar], directory, settings) == [jar]
    assert (directory / jar.file_name).read_bytes() == content


def test_proxies_of_the_environment_are_handed_to_java():
    flags = jars.proxy_flags({"https_proxy": "http://proxy.example:3128", "HTTP_PROXY": "http://other.example"})
    assert flags == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.proxyHost=other.example",
        "-Dhttp.proxyPort=80",
    ]


def test_locks_name_no_registry_and_hash_every_package():
    locks = sorted((ROOT / ".locks").glob("py*.txt"))
    assert [lock.stem for lock in locks] == ["py310", "py311", "py312", "py313", "py314"]
    others = ["airflow", "build", "cluster", "restore", "spark40", "spark41"]
    for lock in [*locks, *(ROOT / ".locks" / f"{name}.txt" for name in others)]:
        text = lock.read_text()
        assert "://" not in text and not re.search(r"\s/\w", text), lock
        packages = re.findall(r"(?m)^([a-z0-9._-]+)==\S+ (?:;[^\\\n]+ )?\\\n    --hash=sha256:[0-9a-f]{64}", text)
        assert packages and len(packages) == len(re.findall(r"(?m)^\S+==", text)), lock


def test_ignore_rules_keep_kafkas_dotfiles():
    paths = [
        "data/samples/last-replica-standing/broker-1/.kafka_cleanshutdown",
        "data/samples/x/broker-1/orders-0/00000000000000000000.log",
        "data/samples/build/dist/report.html",
        "tests/fixtures/kafka-4.3.tar.xz",
    ]
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "-C", str(ROOT), "check-ignore", "--no-index", *paths]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (1, ""), result.stderr

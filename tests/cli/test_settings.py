"""Origins of settings, and errors on wrong ones."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.some import some

from replica_audit.cli.commands import COMMANDS
from replica_audit.cli.parser import build_parser, given_flags, parse_arguments, parsers_of
from replica_audit.config import KEYS, Settings, flag_of, key_of, resolve_settings
from replica_audit.errors import UsageError
from replica_audit.report.settings_text import build_settings, render_settings

AUDIT_YAML = Path(__file__).parents[2] / "conf" / "audit.yaml"


def _file(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


#: Two values for each setting: as in a file, as in the environment, and as the field then is.
OTHER_VALUES: dict[str, tuple[Any, str, Any, Any]] = {
    "warehouse": ("file-w", "env-w", "file-w", "env-w"),
    "catalog": ("a.b", "c.d", "a.b", "c.d"),
    "report": ("file-r", "env-r", "file-r", "env-r"),
    "report_url": ("file:///f", "s3://e", "file:///f", "s3://e"),
    "topics": (["a*", "b"], "c*, d", ("a*", "b"), ("c*", "d")),
    "leadership": ("f.json", "e.json", "f.json", "e.json"),
    "remote": ("f-tier", "e-tier", "f-tier", "e-tier"),
    "verify_remote": (True, "true", True, True),
    "leadership_source": ("user", "zookeeper", "user", "zookeeper"),
    "protocol": ("kip-101", "kip-279", "kip-101", "kip-279"),
    "kafka_version": ("3.9.1", "3.10", "3.9.1", "3.10"),
    "since": ("a1", "a2", "a1", "a2"),
    "fail_on": ("low", "never", "low", "never"),
    "baseline": ("f.json", "e.json", "f.json", "e.json"),
    "accept": ("f.yaml", "e.yaml", "f.yaml", "e.yaml"),
    "format": ("json", "json", "json", "json"),
    "quality": (False, "off", False, False),
    "full": (True, "yes", True, True),
    "suites": (["a.yaml"], "b.yaml, c.yaml", ("a.yaml",), ("b.yaml", "c.yaml")),
    "keep_days": (30, "60", 30, 60),
    "keep_audits": (7, "8", 7, 8),
    "time_travel_days": (90, "30", 90, 30),
    "color": ("never", "always", "never", "always"),
    "quiet": (True, "yes", True, True),
}

#: A flag for each setting that has one, and the field's value then.
FLAGS: dict[str, tuple[list[str], Any]] = {
    "warehouse": (["--warehouse", "flag-w"], "flag-w"),
    "catalog": (["--catalog", "e.f"], "e.f"),
    "report": (["--report", "flag-r"], "flag-r"),
    "report_url": (["--report-url", "https://g/x"], "https://g/x"),
    "topics": (["--topic", "x", "--topic", "y*"], ("x", "y*")),
    "leadership": (["--leadership", "g.json"], "g.json"),
    "remote": (["--remote", "s3://tier/there"], "s3://tier/there"),
    "verify_remote": (["--verify-remote"], True),
    "leadership_source": (["--leadership-source", "metadata_log"], "metadata_log"),
    "protocol": (["--protocol", "high-watermark"], "high-watermark"),
    "kafka_version": (["--kafka-version", "2.8"], "2.8"),
    "since": (["--since", "a3"], "a3"),
    "fail_on": (["--fail-on", "critical"], "critical"),
    "baseline": (["--baseline", "g.json"], "g.json"),
    "accept": (["--accept", "g.yaml"], "g.yaml"),
    "format": (["--format", "text"], "text"),
    "quality": (["--no-quality"], False),
    "full": (["--full"], True),
    "suites": (["--suites", "d.yaml", "--suites", "e.yaml"], ("d.yaml", "e.yaml")),
    "keep_days": (["--keep-days", "90"], 90),
    "keep_audits": (["--keep-audits", "9"], 9),
    "time_travel_days": (["--time-travel-days", "7"], 7),
    "color": (["--color", "always"], "always"),
    "quiet": (["--quiet"], True),
}


def test_every_setting_is_tried_here() -> None:
    names = {item.name for item in fields(Settings)}
    assert set(FLAGS) == set(OTHER_VALUES) == names - {"spark", "driver_rows"}


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_flag_goes_before_environment_before_file_before_default(name: str, tmp_path: Path) -> None:
    in_file, in_environment, as_file, as_environment = OTHER_VALUES[name]
    flag, as_flag = FLAGS[name]
    file = _file(tmp_path / "c.yaml", yaml.safe_dump({key_of(name): in_file}))
    variable = f"REPLICA_AUDIT_{key_of(name).upper()}"
    flags = given_flags(parse_arguments(["run", "snapshot", *flag]))
    assert list(flags) == [name]

    default = resolve_settings({}, {})
    assert getattr(default.settings, name) == getattr(Settings(), name) and default.origins[name] == "default"
    by_file = resolve_settings({}, {}, file)
    assert getattr(by_file.settings, name) == as_file and by_file.origins[name] == f"file {file}"
    by_environment = resolve_settings({}, {variable: in_environment}, file)
    assert getattr(by_environment.settings, name) == as_environment
    assert by_environment.origins[name] == f"environment {variable}"
    by_flag = resolve_settings(flags, {variable: in_environment}, file)
    assert getattr(by_flag.settings, name) == as_flag and by_flag.origins[name] == f"flag {flag[0]}"


def test_audit_yaml_has_every_setting_with_its_default() -> None:
    content = yaml.safe_load(AUDIT_YAML.read_text())
    assert list(content) == list(KEYS)
    assert resolve_settings({}, {}, str(AUDIT_YAML)).settings == Settings()


def test_audit_yaml_explains_every_setting() -> None:
    lines = AUDIT_YAML.read_text().splitlines()
    for key in KEYS:
        at = next(number for number, line in enumerate(lines) if line.startswith(f"{key}:"))
        assert lines[at - 1].startswith("# ") and not lines[at - 1].startswith("# A key that"), key


def test_every_setting_with_a_flag_is_in_the_parser_of_every_command() -> None:
    for command, parser in some(parsers_of(build_parser()).items()):
        known = {option for action in parser._actions for option in action.option_strings}
        assert {flag_of(name) for name in FLAGS} <= known or not COMMANDS[command].common, command


def test_the_configuration_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    file = _file(tmp_path / "c.yaml", "fail-on: low\n")
    assert resolve_settings({}, {"REPLICA_AUDIT_CONFIG": file}).settings.fail_on == "low"


def test_spark_settings_are_text() -> None:
    resolved = resolve_settings({}, {}, str(AUDIT_YAML))
    assert resolved.settings.spark == {}


def test_spark_settings_keep_what_spark_would_read(tmp_path: Path) -> None:
    file = _file(tmp_path / "c.yaml", "spark:\n  spark.ui.enabled: false\n  spark.sql.shuffle.partitions: 4\n")
    assert resolve_settings({}, {}, file).settings.spark == {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
    }


def test_a_catalog_replaces_a_warehouse_of_a_weaker_source(tmp_path: Path) -> None:
    file = _file(tmp_path / "c.yaml", "catalog: main.audit\n")
    assert resolve_settings({"warehouse": "w"}, {}, file).settings == Settings(warehouse="w")
    file = _file(tmp_path / "d.yaml", "warehouse: w\n")
    assert resolve_settings({"catalog": "main.audit"}, {}, file).settings == Settings(catalog="main.audit")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fail_one: high", "fail_one: no such setting; did you mean fail_on"),
        ("fail_on: sever", "'sever' is not one of critical"),
        ("kafka_version: 3.10", "in quotes"),
        ("kafka_version: newest", "not a Kafka version"),
        ("quality: maybe", "expected true or false"),
        ("keep_days: 0", "a whole number of 1 or more"),
        ("keep_audits: many", "a whole number of 1 or more"),
        ("time_travel_days: true", "a whole number of 1 or more"),
        ("keep_days: 365001", "a whole number of 365000 or less"),
        ("keep_audits: " + "9" * 70, "a whole number of 999999999 or less"),
        ("keep_days: " + "9" * 5000, "put text in quotes"),
        ("kafka_version: 2026-13-01", "put text in quotes"),
        ("quiet: !!bool 5", "put text in quotes"),
        ("quiet: !!int ''", "put text in quotes"),
        ("topic: " + "[" * 5000, "nested too deep"),
        ("? [a, b]\n: c", "line 1: a key that is not text"),
        ("topic: &a [*a]", "more than 10000 values"),
        (
            "a: &a {x: 1}\n"
            + "".join(f"{n}: &{n} {{<<: [{','.join(['*' + m] * 9)}]}}\n" for m, n in zip("abcdefgh", "bcdefghi")),
            "more",
        ),
        ("topic: [1]", "expected a list of texts"),
        ("catalog: main", "expected NAME.SCHEMA"),
        ("warehouse: ''", "expected text"),
        ("warehouse: null", "expected text"),
        ("spark: [a]", "expected settings"),
        ("spark: {a: [b]}", "a: expected a single value"),
        ("quiet: true\nquiet: false", "line 2: quiet is set twice"),
        ("fail_on: low\nfail-on: high", "set twice"),
        ("- a", "expected lines"),
        ("a: [", "line"),
        ("warehouse: w\ncatalog: a.b", "give one of them"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(text: str, said: str, tmp_path: Path) -> None:
    file = _file(tmp_path / "c.yaml", text + "\n")
    with pytest.raises(UsageError) as caught:
        resolve_settings({}, {}, file)
    assert said in str(caught.value) and file in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("REPLICA_AUDIT_FAILON", "high", "did you mean REPLICA_AUDIT_FAIL_ON?"),
        ("REPLICA_AUDIT_TOPICS", "a", "did you mean REPLICA_AUDIT_TOPIC?"),
        ("REPLICA_AUDIT_SPARK", "x", "no such setting"),
        ("REPLICA_AUDIT_QUIET", "maybe", "expected true or false"),
        ("REPLICA_AUDIT_PROTOCOL", "kip-279 ", "did you mean kip-279?"),
        ("REPLICA_AUDIT_CONFIG", "/no/such/file", "cannot read /no/such/file"),
    ],
)
def test_a_wrong_variable_is_refused_by_its_name(variable: str, value: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_settings({}, {variable: value})
    assert said in str(caught.value) and variable in str(caught.value)


def test_printed_settings_are_a_file_that_gives_the_same_settings(tmp_path: Path) -> None:
    first = resolve_settings({"topics": ["a*", "#b"], "fail_on": "never"}, {"REPLICA_AUDIT_KAFKA_VERSION": "3.10"})
    text = render_settings(first)
    assert "fail_on: never  # flag --fail-on" in text
    assert 'kafka_version: "3.10"  # environment REPLICA_AUDIT_KAFKA_VERSION' in text
    file = _file(tmp_path / "c.yaml", text)
    assert resolve_settings({}, {}, file).settings == first.settings


def test_printed_settings_do_not_show_secrets(tmp_path: Path) -> None:
    file = _file(tmp_path / "c.yaml", "spark:\n  spark.hadoop.fs.s3a.secret.key: hunter2\n  spark.x: shown\n")
    resolved = resolve_settings({}, {}, file)
    assert "hunter2" not in render_settings(resolved) + str(build_settings(resolved))
    assert resolved.settings.spark["spark.hadoop.fs.s3a.secret.key"] == "hunter2"

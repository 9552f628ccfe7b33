"""`restore` before it reaches a cluster: what it needs, and what it says where that is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.lost_records import write_lost_records

from replica_audit.cli.main import main


def test_without_the_client_it_says_what_to_install(tmp_path: Path) -> None:
    target = write_lost_records(tmp_path, {0: 1})
    program = (
        "import sys\n"
        "sys.modules['confluent_kafka'] = None\n"
        "from replica_audit.cli.main import main\n"
        f"sys.exit(main(['restore', {str(target)!r}, '--bootstrap-servers', 'localhost:9092', '--yes']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    (line,) = done.stderr.strip().splitlines()
    assert "pip install 'replica-audit[restore]'" in line


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["restore"], "DIR is missing"),
        (["restore", "x"], "--bootstrap-servers is missing"),
        (["restore", "x", "--bootstrap-servers", "h:1"], "replica-audit salvage wrote"),
        (["restore", "x", "--bootstrap-servers", "h:1", "--dry-run", "--check"], "not allowed with"),
        (["restore", "x", "--bootstrap-servers", "h:1", "--transaction-records", "0"], "1 or more"),
    ],
)
def test_what_is_missing_is_2(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert told in capsys.readouterr().err


def test_print_config_needs_neither(capsys: Any) -> None:
    assert main(["restore", "--print-config"]) == 0
    assert "fail_on" in capsys.readouterr().out

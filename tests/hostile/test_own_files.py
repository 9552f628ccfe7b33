"""Files that earlier commands wrote and a hand may have changed: a plan, a salvage, a report; anything in them is one sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.lost_records import write_lost_records
from tests.support.samples import SAMPLES

from replica_audit.cli.main import main

SAMPLE = str(SAMPLES / "last-replica-standing")
WRONG = (None, "x", -1, 10**30, [], {"a": 1}, [None], [[]])


def _changed(content: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """Every place in a JSON value (of a list the first), each with what does not belong there."""
    inner = (
        content.items() if isinstance(content, dict) else enumerate(content[:1]) if isinstance(content, list) else ()
    )
    for name, value in inner:
        for other in WRONG:
            yield (*path, name), other
        yield from _changed(value, (*path, name))


def _texts(content: Any) -> Iterator[str]:
    yield from ("", "12", "[" * 60_000, '{"schema_version": ' + "9" * 5_000 + "}", "\0" * 9)
    for path, other in _changed(content):
        changed = at = json.loads(json.dumps(content))
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = other
        yield json.dumps(changed, indent=1)


def _ends_well(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status = main(arguments)
    said = capsys.readouterr()
    assert status in (0, 1, 2, 3) and "Traceback" not in said.err, (arguments, said.err[-1500:])


def test_a_plan_of_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from replica_audit.api import elected
    from replica_audit.cli import verify_command
    from replica_audit.progress import Progress
    from replica_audit.verify.verification import with_plan

    plan = tmp_path / "plan.json"
    assert main(["elect", SAMPLE, "--plan", str(plan)]) == 0
    content = json.loads(plan.read_text())
    # What is compared with the plan stays the same.
    results = elected.audit_all(SAMPLE, _settings())
    monkeypatch.setattr(elected, "audit_all", lambda *_: results)
    before = verify_command.verify_snapshots(SAMPLE, SAMPLE, _settings(), Progress(), None)
    monkeypatch.setattr(
        verify_command,
        "verify_snapshots",
        lambda *arguments: with_plan(before, arguments[-1]) if arguments[-1] else before,
    )
    for text in _texts({name: content[name] for name in ("schema_version", "cluster_id", "rests_on", "steps")}):
        plan.write_text(text)
        _ends_well(["elect", SAMPLE, "--check", str(plan)], capsys)
        _ends_well(["verify", SAMPLE, SAMPLE, "--plan", str(plan)], capsys)


def _settings() -> Any:
    from replica_audit.config import Settings

    return Settings()


def test_a_salvage_of_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    salvage = write_lost_records(tmp_path, {0: 2})
    monkeypatch.setattr("replica_audit.cli.restore_command.Contact", lambda *_: FakeCluster())
    manifest = salvage / "manifest.json"
    sound = manifest.read_text()
    content = json.loads(sound)
    records = sound[sound.index(',\n"records": [') :]
    del content["records"]
    heads = (text.removesuffix("\n}") + records for text in _texts(content))
    for text in (
        *heads,
        sound.replace('"offset":', '"offset":"'),
        sound.replace('"offset":', '"offset":null,"x":'),
        sound[:-40],
    ):
        manifest.write_text(text)
        _ends_well(["restore", str(salvage), "--bootstrap-servers", "h:1", "--dry-run"], capsys)
    shutil.rmtree(salvage)
    _ends_well(["restore", str(salvage), "--bootstrap-servers", "h:1", "--dry-run"], capsys)


@pytest.mark.parametrize(
    "text", ["[" * 60_000, "", "12", "[]", '{"findings": [], "audit": 5}', '{"findings": 5, "audit": {}}']
)
def test_a_report_of_anything(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "audit.json").write_text(text)
    _ends_well(
        ["explain", "0123456789abcdef", "--report", str(tmp_path), "--warehouse", str(tmp_path / "none")], capsys
    )
    _ends_well(["show", SAMPLE, "--baseline", str(tmp_path / "audit.json")], capsys)

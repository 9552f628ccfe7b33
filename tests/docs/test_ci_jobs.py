"""The jobs of docs/operations.md leave the summary where GitHub and GitLab show it, and fail when the audit does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
JOBS = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
GITHUB = next(job["jobs"]["audit"] for job in JOBS if "jobs" in job)
GITLAB = next(job["audit"] for job in JOBS if "jobs" not in job)
#: In place of a run, which needs Spark: the same answers and the same files.
AUDIT = """
import sys, replica_audit
answers = replica_audit.show(sys.argv[2])
answers.report(sys.argv[sys.argv.index("--report") + 1])
sys.exit(answers.exit_status)
"""


@pytest.fixture
def shell(tmp_path: Path) -> Any:
    """Runs lines as a job does: in its directory, with an audit and a curl that writes down what it is given."""
    commands = tmp_path / "bin"
    commands.mkdir()
    (tmp_path / "audit.py").write_text(AUDIT)
    for name, line in (
        ("replica-audit", f'exec "{sys.executable}" "{tmp_path}/audit.py" "$@"'),
        ("curl", f'printf "%s\\n" "$@" > "{tmp_path}/curl"'),
    ):
        (commands / name).write_text(f"#!/bin/sh\n{line}\n")
        (commands / name).chmod(0o755)

    def run(line: str, **variables: str) -> int:
        environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", **variables}
        return subprocess.run(["bash", "-e", "-c", line], cwd=tmp_path, env=environment, timeout=60).returncode

    return run


def sample(name: str) -> str:
    return str(ROOT / "data" / "samples" / name)


def test_github_shows_the_summary_and_the_job_fails(shell: Any, tmp_path: Path) -> None:
    install, audit, summary, upload = GITHUB["steps"]
    assert "pip install" in install["run"] and upload["with"]["path"] == "report"
    target = str(tmp_path / "step-summary.md")
    assert shell(audit["run"], SNAPSHOT=sample("last-replica-standing")) == 1
    # What follows a step that failed is run only where it says so.
    assert {step["if"] for step in (summary, upload)} == {"${{ !cancelled() }}"}
    assert shell(summary["run"], GITHUB_STEP_SUMMARY=target) == 0
    assert "7 committed records" in Path(target).read_text(encoding="utf-8")


def test_github_has_nothing_to_show_of_an_audit_that_did_not_begin(shell: Any, tmp_path: Path) -> None:
    summary = GITHUB["steps"][2]["run"]
    assert shell(summary, GITHUB_STEP_SUMMARY=str(tmp_path / "step-summary.md")) == 0
    assert not (tmp_path / "step-summary.md").exists()


def test_gitlab_keeps_the_report_and_comments_the_merge_request(shell: Any, tmp_path: Path) -> None:
    (audit,), (comment,) = GITLAB["script"], GITLAB["after_script"]
    job = {"CI_JOB_URL": "https://gitlab.example/jobs/7", "CI_API_V4_URL": "https://gitlab.example/api/v4"}
    assert shell(audit, SNAPSHOT=sample("last-replica-standing"), **job) == 1
    for path in (*GITLAB["artifacts"]["paths"], *GITLAB["artifacts"]["reports"].values(), "report/index.html"):
        assert (tmp_path / path).exists(), path
    assert shell(comment, **job, CI_MERGE_REQUEST_IID="") == 0 and not (tmp_path / "curl").exists()
    shell(comment, **job, CI_PROJECT_ID="3", CI_MERGE_REQUEST_IID="12", AUDIT_TOKEN="secret")
    given = (tmp_path / "curl").read_text().splitlines()
    assert given[-1] == "https://gitlab.example/api/v4/projects/3/merge_requests/12/notes"
    assert "body@report/summary.md" in given and "PRIVATE-TOKEN: secret" in given

"""The DAG under a real Airflow: two days of one cluster, the second with a new divergence, and tools that fail.

Airflow is that of .venv-airflow (`make test-airflow`); `dag.test()` runs every task here, spark-submit a local Spark.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.airflow.hosts import Hosts
from tests.airflow.nightly_snapshots import append_other_records, write_brokers, write_day
from tests.support.collected import lines_of

from replica_audit.install.environment import check_jars, find_java

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-airflow" / "bin" / "python"

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not PYTHON.exists(), reason="no Airflow in .venv-airflow: run make test-airflow"),
]

ALL_ASSETS = [
    f"replica_audit.{name}"
    for name in ("divergences", "findings", "high_watermarks", "partitions", "replicas", "report", "truncations")
]


#: Tasks up to the audit of a snapshot that the run is given.
NOTHING_COLLECTED = {
    "brokers": ("success", 1), "collect": ("skipped", 0), "not_collected": ("success", 1), "arguments": ("success", 1),
    "audit": ("success", 1), "wanted": ("success", 1), "bring": ("skipped", 0), "not_brought": ("skipped", 1),
    "audit_again": ("skipped", 0), "prune": ("skipped", 1),
}  # fmt: skip


class Scheduler:
    """An Airflow of its own in a directory, with the warehouse and the reports of its audits."""

    def __init__(self, directory: Path) -> None:
        import pyspark

        self.directory, self.warehouse, self.reports = directory, directory / "warehouse", directory / "reports"
        home = Path(pyspark.__file__).parent
        self.properties = directory / "spark.conf"
        self.properties.write_text(
            "spark.sql.extensions io.delta.sql.DeltaSparkSessionExtension\n"
            "spark.sql.catalog.spark_catalog org.apache.spark.sql.delta.catalog.DeltaCatalog\n"
            f"spark.jars {','.join(map(str, check_jars()))}\n"
            "spark.ui.enabled false\n"
            "spark.log.level WARN\n"
            "spark.sql.shuffle.partitions 2\n"
            "spark.databricks.delta.snapshotPartitions 2\n"
            "spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC\n"
        )
        clone = directory / "clone"
        clone.mkdir()
        for name in ("build", "conf", "data", "jobs"):
            (clone / name).symlink_to(ROOT / name)
        (clone / ".venv").symlink_to(sys.prefix)
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        self.environment = {
            **kept,
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "HOME": str(directory),
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "AIRFLOW_HOME": str(directory / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "jobs" / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "AIRFLOW_VAR_REPLICA_AUDIT_HOME": str(clone),
            "AIRFLOW_VAR_REPLICA_AUDIT_SNAPSHOTS": str(directory / "snapshots"),
            "AIRFLOW_VAR_REPLICA_AUDIT_WAREHOUSE": str(self.warehouse),
            "AIRFLOW_VAR_REPLICA_AUDIT_REPORTS": str(self.reports),
            "AIRFLOW_VAR_REPLICA_AUDIT_PROPERTIES": str(self.properties),
        }
        self.say([str(PYTHON.parent / "airflow"), "db", "migrate"])

    def say(self, command: list[str], given: str = "", **environment: str) -> str:
        done = subprocess.run(
            command, input=given, env={**self.environment, **environment}, cwd=self.directory,
            capture_output=True, text=True, timeout=900,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        self.log = done.stdout + done.stderr
        return done.stdout

    def run(self, variables: dict[str, str] | None = None, **conf) -> dict:
        """Run the DAG once; `variables` are Airflow's environment, `conf` the parameters of the run."""
        asked = json.dumps({"dags": str(ROOT / "jobs" / "airflow"), "conf": conf, "retry_seconds": 1})
        printed = self.say([str(PYTHON), str(ROOT / "tests" / "airflow" / "runner.py")], asked, **(variables or {}))
        return json.loads(printed.splitlines()[-1])


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    subprocess.run(["make", "--silent", "zip"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=60)
    return Scheduler(tmp_path_factory.mktemp("scheduler"))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    found = Hosts(tmp_path_factory.mktemp("hosts"))
    yield found
    found.close()


def test_the_evidence_comes_by_an_sshd_on_loopback(hosts):
    if hosts.program is None:
        pytest.skip("no sshd (Debian: apt-get install openssh-server): an ssh that runs commands here stands in for it")
    assert hosts.is_real, hosts.log


def test_airflow_takes_the_file_without_errors(scheduler):
    def listed(command):
        printed = scheduler.say([str(PYTHON.parent / "airflow"), "dags", command, "--local", "--output", "json"])
        return json.loads(printed.splitlines()[-1])

    assert listed("list-import-errors") == []
    assert [dag["dag_id"] for dag in listed("list")] == ["replica_audit"]


def test_two_days_the_second_with_a_new_divergence(scheduler):
    days = {
        day: write_day(scheduler.directory / "snapshots" / day, diverged)
        for day, diverged in (("2025-01-30", False), ("2025-01-31", True))
    }
    first = scheduler.run(snapshot=str(days["2025-01-30"]))
    assert first["state"] == "success", scheduler.log[-4000:]
    assert {name: (task["state"], task["tries"]) for name, task in first["tasks"].items()} == {
        **NOTHING_COLLECTED, "publish": ("success", 1), "gate": ("success", 1),
    }  # fmt: skip
    assert first["assets"] == ALL_ASSETS
    (report,) = scheduler.reports.iterdir()
    before = json.loads((report / "verdict.json").read_text())
    assert (before["verdict"], before["fail_on"], before["exit_status"]) == ("CONSISTENT", "never", 0)

    second = scheduler.run(snapshot=str(days["2025-01-31"]))
    assert {name: (task["state"], task["tries"]) for name, task in second["tasks"].items()} == {
        **NOTHING_COLLECTED, "publish": ("success", 1), "gate": ("failed", 1), "prune": ("upstream_failed", 0),
    }  # fmt: skip
    assert second["state"] == "failed"
    assert second["assets"] == ALL_ASSETS, "tables were added to, whatever the gate says"
    (report,) = set(scheduler.reports.iterdir()) - {report}
    after = json.loads((report / "verdict.json").read_text())
    assert (after["verdict"], after["exit_status"]) == ("COMMITTED_LOSS", 0)
    assert f"COMMITTED_LOSS; findings: {after['findings']['critical']} critical" in scheduler.log
    page = " ".join((report / "index.html").read_text().split())
    assert "verdicts: 1 worse" in page and "Nothing to compare with" not in page

    past = json.loads(history(scheduler.warehouse, "--format", "json"))
    assert [(audit["audit_id"], audit["verdict"]) for audit in past["audits"]] == [
        (before["audit_id"], "CONSISTENT"), (after["audit_id"], "COMMITTED_LOSS"),
    ]  # fmt: skip
    (change,) = past["changes"]
    assert [step["verdict"] for step in change["verdicts"]] == ["CONSISTENT", "COMMITTED_LOSS"]
    first_seen = {finding["code"]: finding["first_audit_id"] for finding in past["findings"]}
    assert {"HWM-LOSS", "TRN-BELOW-HW", "DIV-EPOCH"} <= set(first_seen)
    assert set(first_seen.values()) == {after["audit_id"]}
    lines = history(scheduler.warehouse).splitlines()
    assert any("HWM-LOSS" in line for line in lines) and any("COMMITTED_LOSS" in line for line in lines)


def test_the_commands_of_the_page_set_it_up_and_run_it(scheduler):
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```console\n(\$ airflow connections.*?)```", text, re.DOTALL)
    commands = [line.removeprefix("$ ") for line in block.splitlines()]
    places = {"/opt/replica-audit": "clone", "/backup/kafka": "snapshots", "/srv/replica-audit": "page"}
    script = "\n".join(commands)
    for told, own in places.items():
        assert told in script
        script = script.replace(told, str(scheduler.directory / own))
    # The variables come from the commands, into a database of their own, in which the report's Asset has no other place;
    # only the JARs are those of the installation.
    kept = "AIRFLOW_VAR_REPLICA_AUDIT_PROPERTIES"
    own = {name: value for name, value in scheduler.environment.items() if name == kept or "_VAR_" not in name}
    del own["AIRFLOW_CONN_SPARK_DEFAULT"]
    own["PATH"] = f"{own['PATH']}:{PYTHON.parent}"
    own["AIRFLOW_HOME"] = str(scheduler.directory / "airflow of the page")
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", f"airflow db migrate\n{script}"],
        env=own, cwd=scheduler.directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert "COMMITTED_LOSS; findings: 2 critical; " in said and "; report: " in said, said[-4000:]
    (report,) = (scheduler.directory / "page" / "reports").iterdir()
    assert json.loads((report / "verdict.json").read_text())["verdict"] == "COMMITTED_LOSS"
    assert (report / "index.html").is_file()


def test_evidence_of_two_nights_by_ssh_the_second_with_what_is_wanted(scheduler, hosts, tmp_path):
    brokers, evidence = write_brokers(tmp_path / "brokers"), tmp_path / "evidence"
    places = [f"{broker}@up={brokers}/broker-{broker}" for broker in (1, 2)]
    # So many days that no file's turn to be read again is today.
    variables = {
        "PATH": f"{hosts.tools}:{scheduler.environment['PATH']}",
        "AIRFLOW_VAR_REPLICA_AUDIT_EVIDENCE": str(evidence),
        "AIRFLOW_VAR_REPLICA_AUDIT_CAPTURE_OPTIONS": "--sudo kafka --collect-options '--again-days 1000000'",
        "AIRFLOW_VAR_REPLICA_AUDIT_EVIDENCE_DAYS": "7",
        "AIRFLOW_VAR_REPLICA_AUDIT_WAREHOUSE": str(tmp_path / "warehouse"),
    }
    reports = set(scheduler.reports.iterdir()) if scheduler.reports.exists() else set()
    unreachable = f"3@down={brokers}/broker-3"
    evidence.mkdir()
    for path in brokers.iterdir():
        if path.is_file():
            shutil.copy(path, evidence)

    given = shlex.join([*places, unreachable])
    first = scheduler.run({**variables, "AIRFLOW_VAR_REPLICA_AUDIT_BROKERS": given})
    states = {name: (task["state"], task["tries"]) for name, task in first["tasks"].items()}
    assert states == {
        "brokers": ("success", 1), "collect[0]": ("success", 1), "collect[1]": ("success", 1), "collect[2]": ("failed", 2),
        "not_collected": ("success", 1), "arguments": ("success", 1), "audit": ("success", 1), "wanted": ("success", 1),
        "bring": ("skipped", 0), "not_brought": ("skipped", 1), "audit_again": ("skipped", 0), "publish": ("success", 1),
        "gate": ("failed", 1), "prune": ("upstream_failed", 0),
    }, scheduler.log[-4000:]  # fmt: skip
    assert "there is no evidence in" in scheduler.log and "broker 3: no evidence, exit status 255" in scheduler.log
    assert f"CONSISTENT; {unreachable} could not be collected; report: " in scheduler.log
    (report,) = set(scheduler.reports.iterdir()) - reports
    assert json.loads((report / "verdict.json").read_text())["verdict"] == "CONSISTENT"
    assert not (report / "wanted.json").exists()
    archives = sorted(path.name for path in evidence.glob("*.tar"))
    assert [name.split("-after-")[0] for name in archives] == ["evidence-1", "evidence-2"]

    append_other_records(brokers)
    second = scheduler.run({**variables, "AIRFLOW_VAR_REPLICA_AUDIT_BROKERS": shlex.join(places)})
    states = {name: (task["state"], task["tries"]) for name, task in second["tasks"].items()}
    done = (
        "brokers", "collect[0]", "collect[1]", "not_collected", "arguments", "audit", "wanted", "bring[0]", "bring[1]",
        "not_brought", "audit_again", "publish",
    )  # fmt: skip
    stopped = {"gate": ("failed", 1), "prune": ("upstream_failed", 0)}
    assert states == {**dict.fromkeys(done, ("success", 1)), **stopped}, scheduler.log[-4000:]
    (report,) = set(scheduler.reports.iterdir()) - {report, *reports}
    found = json.loads((report / "audit.json").read_text())
    codes = {finding["code"] for finding in found["findings"]}
    assert "DIV-CONTENT" in codes and "CAP-NOT-CAPTURED" not in codes
    assert not (report / "wanted.json").exists()
    past = json.loads(history(tmp_path / "warehouse", "--format", "json"))
    assert [audit["verdict"] for audit in past["audits"]][:2] == ["CONSISTENT", "INCONCLUSIVE"]
    assert past["audits"][2]["verdict"] not in ("CONSISTENT", "INCONCLUSIVE")
    # Closed segments are named, and the evidence that has them stays.
    now = sorted(path.name for path in evidence.glob("*.tar"))
    assert set(archives) < set(now) and sum("-wanted-" in name for name in now) == 2
    lines = [line for name in now if "-after-" in name and name not in archives for line in lines_of(evidence / name)]
    assert sum(line["as"] == "same" for line in lines) == 2
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in evidence.glob("*.tar"))


def history(warehouse: Path, *options: str) -> str:
    """Output of `replica-audit history`."""
    program = "from replica_audit.cli.main import entry_point; entry_point()"
    shown = subprocess.run(
        [sys.executable, "-c", program, "history", "--warehouse", str(warehouse), *options],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_a_tool_error_is_tried_again_and_a_wrong_place_is_not(scheduler):
    reports = set(scheduler.reports.iterdir()) if scheduler.reports.exists() else set()
    broken = scheduler.run({"AIRFLOW_VAR_REPLICA_AUDIT_PROPERTIES": "/nowhere/spark.conf"}, snapshot="/any")
    assert (broken["state"], broken["tasks"]["audit"]) == ("failed", {"state": "failed", "tries": 3})
    assert broken["tasks"]["gate"]["state"] == "upstream_failed"
    assert broken["assets"] == []

    nowhere = scheduler.run(snapshot=str(scheduler.directory / "no-such-snapshot"))
    assert (nowhere["state"], nowhere["tasks"]["audit"]) == ("failed", {"state": "failed", "tries": 1})
    assert "does not exist" in scheduler.log
    assert "status 2: usage, configuration or no such snapshot" in scheduler.log
    assert nowhere["tasks"]["gate"]["state"] == "upstream_failed"
    assert (set(scheduler.reports.iterdir()) if scheduler.reports.exists() else set()) == reports

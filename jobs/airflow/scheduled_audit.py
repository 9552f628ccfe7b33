"""A daily audit under Airflow 3.3: evidence of the brokers or a snapshot of the day, `spark-submit`, and a gate.

    brokers  →  collect (one task for each)  →  not_collected  →  arguments  →  audit (spark-submit jobs/run.py)
    wanted  →  bring (one task for each)  →  not_brought  →  audit_again        where the audit asks for bytes
    publish (asset events)  →  gate (reads verdict.json)  →  prune

The audit runs with `--fail-on never`, so that it fails only where it could not do its work; that is tried again. What
it found is judged by the gate, which fails at once and for good: another try would find the same. The gate also says
which brokers could not be collected: the audit then has what is known of them, which is of an earlier night. Old
evidence is deleted only where the gate lets the run pass.

Where `replica_audit_brokers` is empty, or a run is given a snapshot, nothing is collected.

Places are Airflow Variables (in the environment: `AIRFLOW_VAR_` and the name in capitals), read when a task runs:

| Variable | what it is | default |
|---|---|---|
| `replica_audit_home` | the clone, after `make install zip` | `/opt/replica-audit` |
| `replica_audit_brokers` | brokers to collect, as capture-plan takes them: `1@kafka1=/data 2@kafka2=/data` | none |
| `replica_audit_evidence` | directory of all evidence, on storage that workers and executors share | `/srv/replica-audit/evidence` |
| `replica_audit_capture_options` | more of capture-plan, such as `--sudo kafka` | `--collect-options '--again-days 30'` |
| `replica_audit_evidence_days` | evidence that is older is deleted, unless later evidence names files of it | none is |
| `replica_audit_snapshots` | directory or URI; a snapshot for each day, `2025-01-31` | `/srv/replica-audit/snapshots` |
| `replica_audit_warehouse` | directory or URI of the Delta tables | `/srv/replica-audit/warehouse` |
| `replica_audit_reports` | local or mounted directory; a run gets one in it; the asset's URI if in the environment | `/srv/replica-audit/reports` |
| `replica_audit_deploy_mode` | client or cluster; in the environment only | `client` |
| `replica_audit_properties` | Spark's properties for your cluster | `.venv/share/replica-audit/spark-cluster.conf` of the clone |

Evidence comes by the `ssh` of the worker that runs the task, without a password (docs/evidence.md). A collection that
reaches its limit of time goes on at the next try, or the next night.

The cluster is the connection `spark_default`. The driver runs on Airflow's worker, in client mode: there the report
stays, and there the exit status is the job's own. A worker that dies takes the driver along, and the next try audits
anew; it adds an audit, and nothing of the broken one counts. In cluster mode (`replica_audit_deploy_mode` = cluster) the
driver outlives the worker; `replica_audit_reports` then has to be storage that the cluster mounts at the same place.

Each asset event says in `extra` what came of the audit: audit_id, verdict, counts, the report's directory, the
versions of the Delta tables, and the brokers that could not be collected (`not_collected`) or asked (`not_brought`). A
scheduled run's events have the snapshot's day, 2025-01-31, as partition key.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Collection
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Asset, CronPartitionTimetable, Param, RetryDecision, RetryPolicy, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

SEVERITIES = ("critical", "high", "medium", "low", "info")

#: Tables of answers that a finished audit has added to; a DAG of yours can be scheduled on any of them.
TABLES = ("partitions", "replicas", "high_watermarks", "divergences", "truncations", "findings")


def _variable(name: str, default: str) -> str:
    """Jinja expression of an Airflow Variable; `default` is an expression too."""
    return f"var.value.get('replica_audit_{name}', {default})"


def _template(*expressions: str) -> str:
    return "{{ " + " ~ ".join(expressions) + " }}"


_HOME = _variable("home", "'/opt/replica-audit'")
_SNAPSHOTS = _variable("snapshots", "'/srv/replica-audit/snapshots'")
_EVIDENCE = _variable("evidence", "'/srv/replica-audit/evidence'")
_BROKERS = _variable("brokers", "''")

HOME = _template(_HOME)
PROPERTIES = _template(_variable("properties", f"{_HOME} ~ '/.venv/share/replica-audit/spark-cluster.conf'"))
#: Not a template of the operator: in the environment only.
DEPLOY_MODE = os.environ.get("AIRFLOW_VAR_REPLICA_AUDIT_DEPLOY_MODE", "client")
BROKERS = _template(f"'' if params.snapshot else {_BROKERS}")
EVIDENCE = _template(_EVIDENCE)
SNAPSHOT = _template(
    f"params.snapshot or ({_EVIDENCE} if {_BROKERS} else {_SNAPSHOTS} ~ '/' ~ (dag_run.run_after | ds))"
)
WAREHOUSE = _template(_variable("warehouse", "'/srv/replica-audit/warehouse'"))
REPORT = _template(_variable("reports", "'/srv/replica-audit/reports'"), "'/'", "(dag_run.run_after | ts_nodash)")

#: Where the reports are has to be known when the file is read, since an asset has one URI: in the environment only.
REPORTS = os.environ.get("AIRFLOW_VAR_REPLICA_AUDIT_REPORTS", "/srv/replica-audit/reports")

ASSETS = [
    *(Asset(f"replica_audit.{name}") for name in TABLES),
    Asset("replica_audit.report", uri=Path(REPORTS).absolute().as_uri()),
]

#: The exit status of an audit that cannot be trusted whole, as where bytes are wanted.
INCOMPLETE = 3

#: Exit statuses of the job that another try cannot change.
LASTING = {
    2: "usage, configuration or no such snapshot",
    INCOMPLETE: "nothing was audited: the last lines of its log and verdict.json say what could not be read",
}


#: How the commands of the clone are called. @task.bash takes its arguments for templates once more, when they are filled in: options,
#: which may have braces, are encoded.
CAPTURE = {
    "tool": HOME + "/.venv/bin/replica-audit",
    "evidence": EVIDENCE,
    "options": _template(_variable("capture_options", "\"--collect-options '--again-days 30'\"") + " | urlencode"),
}


def _as_is(command: str) -> str:
    """The command as a template, which @task.bash takes it for."""
    return _template(ascii(command))


class ToolErrorsOnly(RetryPolicy):
    """Tries again what may pass (a lost executor, storage that does not answer), but no status of `LASTING`."""

    def evaluate(self, exception: BaseException, try_number: int, max_tries: int, context: Any = None) -> RetryDecision:
        status = re.search(r"Error code is: (\d+)", str(exception))
        reason = LASTING.get(int(status[1])) if status else None
        return RetryDecision.fail(f"status {status[1]}: {reason}") if status and reason else RetryDecision.default()


class Audit(SparkSubmitOperator):
    """`spark-submit jobs/run.py`, done also where it audited and says itself that not all can be trusted: the gate judges that."""

    template_fields = (*SparkSubmitOperator.template_fields, "report")

    def __init__(self, *, report: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.report = report

    def execute(self, context: Any) -> None:
        before = self._verdict()
        try:
            super().execute(context)
        except Exception:
            # In cluster mode the exit status is lost. That of an audit before is of no use.
            found = self._verdict()
            if found == before or found.get("exit_status") != INCOMPLETE or not found.get("audit_id"):
                raise
            self.log.warning("the audit cannot be trusted whole: %s", found["untrusted"])

    def _verdict(self) -> dict:
        path = Path(self.report) / "verdict.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


with DAG(
    dag_id="replica_audit",
    description="What diverged between Kafka's replicas, what a truncation would drop, what was committed",
    doc_md=__doc__,
    schedule=CronPartitionTimetable("0 4 * * *", timezone="UTC", key_format="%Y-%m-%d"),
    start_date=datetime(2025, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    # One writer to a warehouse: two audits at a time would only wait for each other.
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=23),
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["kafka", "audit"],
    params={
        "snapshot": Param(None, type=["null", "string"], minLength=1, description="Directory or URI; null: today's"),
        "topics": Param([], type="array", items={"type": "string", "minLength": 1}, description="Shell patterns"),
        "protocol": Param(
            None,
            enum=[None, "high-watermark", "kip-101", "kip-279", "fetch"],
            description="Truncation that findings use; null: that of the manifest's Kafka version, else fetch (2.8 and later)",
        ),
        "fail_on": Param("high", enum=[*SEVERITIES, "never"], description="Least severity that the gate stops at"),
        "baseline": Param(
            None, type=["null", "string"], minLength=1, description="audit.json whose findings are known already"
        ),
        "quality": Param(True, type="boolean", description="Check the quality of the tables too"),
    },
) as dag:

    @task
    def brokers(given: str) -> list[str]:
        """The brokers to collect evidence of, each as capture-plan takes it."""
        return shlex.split(given)

    @task.bash(map_index_template="{{ broker }}", retries=1, execution_timeout=timedelta(hours=4))
    def collect(broker: str, tool: str, evidence: str, options: str, wanted: str = "") -> str:
        """Collect what is new on a broker, or with `wanted` bring the bytes that this file names; fails where not all was read."""
        how = ["--wanted", wanted] if wanted else ["--after"]
        plan = shlex.join([tool, "capture-plan", *how, *shlex.split(unquote(options)), "--to", evidence, broker])
        return _as_is(f"{plan} >collect.sh && bash collect.sh && echo {shlex.quote(broker)}")

    @task(trigger_rule="all_done")
    def not_collected(asked: list[str], done: Collection[str] | None) -> list[str]:
        """The brokers of `asked` for which a mapped task has failed."""
        return sorted(set(asked or ()).difference(done or ()))

    @task
    def arguments(snapshot: str, warehouse: str, report: str, params: Any = None) -> list[str]:
        """Command line of jobs/run.py."""
        given = [snapshot, "--warehouse", warehouse, "--report", report, "--fail-on", "never"]
        given += ["--protocol", params["protocol"]] if params["protocol"] else []
        given += [f"--topic={topic}" for topic in params["topics"]]
        given += [f"--baseline={params['baseline']}"] if params["baseline"] else []
        given += [] if params["quality"] else ["--no-quality"]
        return given

    @task
    def wanted(report: str, asked: list[str]) -> list[str]:
        """The brokers of `asked` of which the audit wants bytes."""
        path = Path(report) / "wanted.json"
        found = json.loads(path.read_text(encoding="utf-8"))["wanted"] if path.exists() else []
        ids = {str(one["broker_id"]) for one in found}
        return [broker for broker in asked if re.split("[@=]", broker)[0] in ids]

    @task(trigger_rule="all_done")
    def not_brought(asked: list[str] | None, done: Collection[str] | None) -> list[str]:
        """The brokers of `asked` for which a mapped task has failed; skipped, with the second audit, where there are none to ask."""
        if not asked:
            raise AirflowSkipException("nothing is wanted")
        return sorted(set(asked).difference(done or ()))

    @task(execution_timeout=timedelta(minutes=5), outlets=ASSETS, trigger_rule="none_failed")
    def publish(
        report: str, not_collected: list[str] | None, not_brought: list[str] | None, outlet_events: Any = None
    ) -> None:
        """An event of each asset, with what came of the audit: also when the gate then stops the run."""
        verdict = json.loads((Path(report) / "verdict.json").read_text(encoding="utf-8"))
        told = ("audit_id", "verdict", "status", "findings", "partitions", "quality", "table_versions", "untrusted")
        extra = {name: verdict.get(name) for name in told}
        lacking = {"not_collected": not_collected or [], "not_brought": not_brought or []}
        for asset in ASSETS:
            outlet_events[asset].extra = {**extra, "report": report, **lacking}

    @task(execution_timeout=timedelta(minutes=5), trigger_rule="none_failed")
    def gate(
        report: str, fail_on: str, not_collected: list[str] | None = None, not_brought: list[str] | None = None
    ) -> dict:
        """The verdict, when no new finding and no failed quality check is as severe as `fail_on`, and all brokers were collected.

        Otherwise the run fails here, without another try. A verdict that cannot be read is an ordinary failure, though:
        a shared file system may show it late.
        """
        verdict = json.loads((Path(report) / "verdict.json").read_text(encoding="utf-8"))
        stopping = SEVERITIES[: SEVERITIES.index(fail_on) + 1] if fail_on in SEVERITIES else ()
        counted = {"findings": verdict["findings"], "quality": (verdict.get("quality") or {}).get("failed", {})}
        reasons = [
            f"{kind}: " + ", ".join(f"{counts[name]} {name}" for name in stopping if counts.get(name))
            for kind, counts in counted.items()
            if any(counts.get(name) for name in stopping)
        ]
        lacking = {"could not be collected": not_collected, "could not bring what was wanted": not_brought}
        reasons += [f"{', '.join(names)} {what}" for what, names in lacking.items() if names]
        if verdict["exit_status"] != 0:
            reasons.insert(0, f"status {verdict['exit_status']}: {verdict['untrusted']}")
        if reasons:
            raise AirflowFailException(f"{'; '.join([verdict['verdict'], *reasons])}; report: {report}")
        return verdict

    @task.bash(execution_timeout=timedelta(hours=1))
    def prune(tool: str, evidence: str, days: str, asked: list[str]) -> str:
        """Delete old evidence that nothing needs."""
        if not days or not asked:
            raise AirflowSkipException("all evidence is kept")
        return _as_is(shlex.join([tool, "evidence", evidence, "--prune", days]))

    def submitted(task_id: str, given: Any) -> Audit:
        """A task that audits, into the report of the run."""
        return Audit(
            task_id=task_id,
            report=REPORT,
            application=HOME + "/jobs/run.py",
            application_args=given,
            py_files=HOME + "/build/replica_audit.zip",
            properties_file=PROPERTIES,
            conf={"spark.pyspark.driver.python": HOME + "/.venv/bin/python"},
            # For executors that see the clone; spark.pyspark.python in your properties goes before it.
            env_vars={"PYSPARK_PYTHON": HOME + "/.venv/bin/python"},
            name="replica-audit {{ dag_run.run_after | ts_nodash }}",
            deploy_mode=DEPLOY_MODE,
            execution_timeout=timedelta(hours=2),
            retry_policy=ToolErrorsOnly(),
        )

    asked = brokers(BROKERS)
    uncollected = not_collected(asked, collect.partial(**CAPTURE).expand(broker=asked))
    given = arguments(snapshot=SNAPSHOT, warehouse=WAREHOUSE, report=REPORT)
    [asked, uncollected] >> given
    audit = submitted("audit", given)

    wanting = wanted(REPORT, asked)
    audit >> wanting
    bring = collect.override(task_id="bring", execution_timeout=timedelta(hours=1))
    brought = bring.partial(**CAPTURE, wanted=REPORT + "/wanted.json").expand(broker=wanting)
    unbrought = not_brought(wanting, brought)
    again = submitted("audit_again", given)
    unbrought >> again

    published = publish(report=REPORT, not_collected=uncollected, not_brought=unbrought)
    [audit, again] >> published
    judged = gate(report=REPORT, fail_on="{{ params.fail_on }}", not_collected=uncollected, not_brought=unbrought)
    days = _template(_variable("evidence_days", "''"))
    published >> judged
    judged >> prune(CAPTURE["tool"], EVIDENCE, days, asked)

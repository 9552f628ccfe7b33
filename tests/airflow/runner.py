"""Runs the DAG once with `dag.test()`; started by test_scheduled_runs.py with the Python that has Airflow.

Reads one JSON object from stdin: `dags` (directory of the DAG file), `conf` (of the run), `retry_seconds`. Prints one
JSON object as its last line: state of the run, and for each task its state and tries, with its number where it is mapped.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta

asked = json.load(sys.stdin)
sys.path.insert(0, asked["dags"])

from scheduled_audit import dag  # noqa: E402

for task in dag.tasks:
    task.retry_delay = timedelta(seconds=asked["retry_seconds"])

run = dag.test(run_conf=asked["conf"])

from airflow.models.asset import AssetEvent  # noqa: E402
from airflow.settings import Session  # noqa: E402

with Session() as session:
    events = session.query(AssetEvent).filter_by(source_run_id=run.run_id).all()
    assets = sorted(event.asset.name for event in events)
    tasks = {
        instance.task_id + (f"[{instance.map_index}]" if instance.map_index >= 0 else ""): {
            "state": str(instance.state),
            "tries": instance.try_number,
        }
        for instance in run.get_task_instances(session=session)
    }
json.dump({"state": str(run.state), "tasks": tasks, "assets": assets, "run_id": run.run_id}, sys.stdout)
print()

"""Brokers' own logs in the main job: ingested as events, and `run` tells what `show` tells."""

from __future__ import annotations

import json
from collections import Counter

from tests.auditing.test_broker_logs import with_logs

from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_one


def test_run_tells_what_show_tells(run_stages, tmp_path):
    from replica_audit.warehouse.delta_tables import Warehouse

    snapshot = with_logs("kip101-restart-3-lost", tmp_path)
    with (snapshot / "logs" / "broker-1" / "server.log").open("a") as file:
        file.write("[run 3] 09:14:11,000 INFO Truncating log elsewhere-7 to offset 5. (Log)\n")
    audited = run_stages(snapshot)
    assert [row["topic"] for row in audited.results.rows("partitions")] == ["kip101r"]
    shown = audit_one(str(snapshot), TopicPartition("kip101r", 0), audited.settings)
    for table in ("findings", "high_watermarks", "partitions"):
        assert json.loads(json.dumps(audited.results.rows(table))) == json.loads(json.dumps(shown.tables[table])), table
    assert {"TRN-LOGGED", "META-UNCLEAN-ELECTION"} <= {row["code"] for row in audited.results.rows("findings")}
    events = Warehouse(audited.settings.warehouse).read("broker_log_events", snapshot_id=audited.snapshot_id)
    kinds = Counter(row["kind"] for row in events)
    assert kinds["cut"] == 5 and kinds["elected"] == 3

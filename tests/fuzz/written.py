"""Seeds of what the captures have little or nothing of, written by hand: one of each shape."""

from __future__ import annotations

WRITTEN: dict[str, list[str]] = {
    "accepted_yaml": [
        'accepted:\n  - finding: "0123456789abcdef"\n    reason: known\n    until: 2030-01-01\n',
        "accepted: []\n",
    ],
    "config_yaml": [
        "topic: [a*, 'b']\nfail_on: high\nspark:\n  spark.driver.memory: 4g\nkeep_days: 3\nquality: false\nkafka_version: '3.9'\n",
        "a: &a [1, 2]\nb: *a\n<<: {c: 0x1F, d: 1.5e3, e: 2001-12-14t21:59:43.10-05:00, f: !!binary aGFsbG8=, g: ~, ? [k] : v}\n",
    ],
    "remote_listing": [
        '{"listed": "2026-01-31T12:00:00Z"}\n{"path": "kafka-tiered-storage/orders-0-AAAAAAAAAAAAAAAAAAAAAA/00000000000000000040-'
        'BBBBBBBBBBBBBBBBBBBBBB.log", "size_bytes": 1024, "modified": "2026-01-31 11:59:58.1234567+00:00"}\n',
        '{"path": "p-orders-AAAAAAAAAAAAAAAAAAAAAA/0/00000000000000000040-BBBBBBBBBBBBBBBBBBBBBB.rsm-manifest", "size_bytes": 0}\n'
        '{"path": "p-orders-AAAAAAAAAAAAAAAAAAAAAA/0/00000000000000000040-BBBBBBBBBBBBBBBBBBBBBB.log", "size_bytes": 9}\n',
    ],
    "suites_yaml": [
        "suites:\n- name: own\n  table: partitions\n  expectations:\n  - type: expect_column_values_to_be_in_set\n"
        "    kwargs: {column: verdict, value_set: [CONSISTENT]}\n    severity: warning\nactions:\n- {name: a, type: slack}\n"
    ],
    "baseline_json": [
        '{"schema_version": 1, "audit": {"audit_id": "a", "finished": "2026-01-01T00:00:00Z"}, "partitions": [{"topic": '
        '"t", "partition": 0, "verdict": "CONSISTENT"}], "findings": [{"finding_id": "1", "code": "LOG-GAP", "severity": "high", '
        '"confidence": "proven", "topic": "t", "partition": 0, "broker_id": 1, "start_offset": 0, "end_offset": 5, "message": "m", '
        '"evidence": [{"kind": "k", "broker_id": 1, "path": "p", "position": 1, "value": "v", "text": "t"}], "status": "new"}], '
        '"quality": [{"suite": "s", "name": "n"}]}'
    ],
    "client_properties": [
        "bootstrap=x\nsecurity.protocol=SASL_SSL\n# c\nsasl.jaas.config=org.apache.kafka.common.security.plain.Plain"
        "LoginModule required \\\n username=\"u\" password='p';\n"
    ],
    "leadership_json": [
        '[{"topic": "t", "partition": 0, "leader": 1, "leader_epoch": 3, "isr": [1, 2], "replicas": [1, 2, 3]}]'
    ],
    "zookeeper_json": [
        '{"/brokers/topics/a-b/partitions/0/state": {"leader": 1, "leader_epoch": 12, "isr": [2, 1]}, "/brokers/topics/a-b":'
        ' {"version": 3, "topic_id": "abc", "partitions": {"0": [1, 2]}}, "/config/topics/a-b": {"config": {"a": "2"}}}',
        '[{"topic": "a-b", "partition": 0, "state": {"leader": -1, "leader_epoch": 1, "isr": []}}]',
    ],
    "manifest_json": [
        '{"schema_version": 1, "kafka_version": "3.9.1", "quiesced": true, "brokers": [{"broker_id": 1, "log_dir":'
        ' "broker-1", "kind": "live", "started": "2026-01-01T00:00:00Z", "finished": 1700000000000}]}'
    ],
    "broker_log": [
        f"[2026-01-01 00:00:00,000] INFO {line}\n"
        for line in (
            "Leader orders-0 starts at leader epoch 7 from offset 5 with high watermark 4 ISR [1,2]",
            "[Log partition=orders-0, dir=/x] Truncating to offset 1 (kafka.log.Log)",
            "Truncating log orders-0 to offset 7",
            "Truncating partition orders-0 with TruncationState(offset=1, completed=true) due to leader epoch and offset "
            "EpochEndOffset(errorCode=0, partition=0, leaderEpoch=1, endOffset=2)",
            "Non-monotonic update of high watermark from (offset=5 segment=[0:1]) to (offset=4 segment=[0:1])",
            "Expanding ISR for partition orders-0 from 1,2 to 1,2,3",
            "Shrinking ISR from 1,2 to 1. Leader: (highWatermark: 1, endOffset: 2). (kafka.cluster.Partition)",
            "[Partition orders-0 broker=1] ISR updated to 1,2",
            'New leader and ISR for partition [orders,0] is {"leader":1,"isr":[1],"leader_epoch":7}',
            "No broker in ISR is alive for orders-0. Elect leader 2 from live brokers 2. There's potential data loss.",
            "partition orders-0 state from OfflinePartition to OnlinePartition with state LeaderAndIsr(leader=1, leaderEpoch=1, "
            "isr=List(1, 2), zkVersion=3)",
            "truncation is not allowed for partition orders-0, Current leader 1's latest offset 1 is less than replica 2's",
        )
    ],
}

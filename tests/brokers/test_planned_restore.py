"""A plan carried out on real brokers, and what it lost put back: a consumer sees every acknowledged record once."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.brokers.captured_cluster import JARS
from tests.brokers.carrying_out import PUT_BACK, Operator
from tests.brokers.clients import received, run, run_json, start
from tests.brokers.elections_seen import brokers_up
from tests.brokers.steered_cluster import SETTLE_SECONDS, SteeredCluster
from tests.support.fixtures import FIXTURES, truth
from tests.support.salvaged_captures import acknowledged, short_hash

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(1200)]

CAPTURE, TOPIC, PARTITIONS = "diverged-unclean", "ledger", range(3)


def _seen(bootstrap: str, partition: int) -> Counter[str | None]:
    """How often a consumer sees each value."""
    return Counter(short_hash(one.value) for one in received(bootstrap, TOPIC, partition))


def _acknowledged(partition: int) -> Counter[str | None]:
    return Counter(value for _, value in acknowledged(CAPTURE)[f"{TOPIC}-{partition}"])


def test_what_the_plan_loses_is_put_back_and_nothing_twice(tmp_path: Path) -> None:
    kafka = truth(CAPTURE)["kafka"]
    plan, planned, present = (tmp_path / name for name in ("plan.json", "planned", "present"))
    with SteeredCluster(FIXTURES / CAPTURE, tmp_path / "run", JARS[kafka]) as cluster:
        cluster.start_all(*brokers_up(CAPTURE))
        before = str(cluster.snapshot("before"))
        text = run("elect", before, "--plan", str(plan), "--topic", TOPIC, "--kafka-version", kafka)
        run("salvage", before, "--plan", str(plan), "--to", str(planned), "--payloads", "--topic", TOPIC)
        run("salvage", before, "--to", str(present), "--payloads", "--topic", TOPIC)

        # The leaders of now hold what the plan is going to lose.
        restore = ("restore", str(planned), "--to-original", "--bootstrap-servers")
        told = run(*restore, cluster.bootstrap, "--yes", status=2)
        assert "18 of 35 records are not lost" in told and "ledger-0 18 of 18" in told
        operator = Operator(cluster, kafka, Path(before))
        assert operator.carry_out(text, json.loads(plan.read_text()), without=PUT_BACK) == []
        time.sleep(SETTLE_SECONDS)
        lost = {partition: _acknowledged(partition) - _seen(cluster.bootstrap, partition) for partition in PARTITIONS}
        assert {partition: one.total() for partition, one in lost.items()} == {0: 18, 1: 17, 2: 0}

        # What the leaders of then lacked is the wrong set now: most of it is there again.
        wrong = ("restore", str(present), "--to-original", "--bootstrap-servers", cluster.bootstrap)
        told = run(*wrong, "--yes", status=2)
        assert "67 of 84 records are not lost" in told and "ledger-0 45 of 45; ledger-2 22 of 22" in told
        assert run_json(*wrong, "--dry-run", "--skip-present")["left"] == 17

        # Killed on its way, and started again, it ends with each record once.
        options = (*restore, cluster.bootstrap, "--yes", "--transaction-records", "1")
        process = start(*options)
        time.sleep(3)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        run(*options)
        assert run(*options, "--check").count("OK: ") == 2
        for partition in PARTITIONS:
            assert _seen(cluster.bootstrap, partition) == _acknowledged(partition)

        # Neither a second run nor the other salvage puts anything there twice.
        run(*options)
        run(*wrong, "--yes", "--skip-present")
        for partition in PARTITIONS:
            assert _seen(cluster.bootstrap, partition) == _acknowledged(partition)

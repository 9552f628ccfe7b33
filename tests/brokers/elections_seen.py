"""Results of real brokers when plans of `elect` were carried out: recorded by test_elections.py, replayed without brokers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.fixtures import truth

from replica_audit.verify.verification import Verification

SEEN_FILE = Path(__file__).parent / "elections_seen.json"


def recorded() -> list[dict[str, Any]]:
    """One entry for each capture and candidate."""
    return json.loads(SEEN_FILE.read_text()) if SEEN_FILE.exists() else []


def brokers_up(capture: str) -> list[int]:
    """The brokers that ran when a capture was made, those that led most partitions first."""
    known = truth(capture)
    leads = Counter(one["leader"] for name, one in known["leader_isr"].items() if not name.startswith("__"))
    running = [
        int(name.removeprefix("broker-"))
        for name, state in known["process_state"].items()
        if name.startswith("broker-") and state.startswith("running")
    ]
    return sorted(running, key=lambda broker: (-leads[broker], broker))


def entry(capture: str, kafka: str, candidate: int, up: list[int], found: Verification) -> dict[str, Any]:
    """Record of one run: leaders, and for each replica its log end before, the offset it kept, and its log end after."""
    partitions: dict[str, dict[str, Any]] = {}
    for row in found.verifications:
        leader, _ = found.of_partitions[row.topic, row.partition].leader
        one = partitions.setdefault(f"{row.topic}-{row.partition}", {"leader": leader, "replicas": {}})
        one["replicas"][str(row.broker_id)] = [row.end_before, row.kept_to, row.end_after]
    return {"capture": capture, "kafka": kafka, "candidate": candidate, "up": up, "partitions": partitions}


def record(found: Mapping[str, Any]) -> None:
    """Put an entry in the place of the one of the same capture, version and candidate."""

    def key(one: Mapping[str, Any]) -> tuple:
        return one["capture"], one["kafka"], one["candidate"]

    entries = sorted([*(one for one in recorded() if key(one) != key(found)), found], key=key)
    lines = ",\n".join(json.dumps(one) for one in entries)
    SEEN_FILE.write_text(f"[\n{lines}\n]\n")

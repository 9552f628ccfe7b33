"""Positions of consumer groups after elections on real brokers: recorded by test_elections.py, replayed without brokers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replica_audit.results import Results

SEEN_FILE = Path(__file__).parent / "groups_seen.json"


def recorded_groups() -> list[dict[str, Any]]:
    """One entry for each candidate."""
    return json.loads(SEEN_FILE.read_text()) if SEEN_FILE.exists() else []


def group_entries(
    before: Results,
    after: Results,
    standing: Mapping[tuple[str, int], tuple[int, int]],
    read: Mapping[str, Mapping[int, int]],
) -> dict[str, Any]:
    """What is kept of one run: the leaders' logs afterwards and what they lack, and of each group what it committed and where it stands.

    `standing` and `read` are what Kafka's tools said afterwards: committed offset and log end, and the first record read.
    """
    lost = [run for run in after.rows("divergences") if run["lost_records"]]
    leaders = {
        str(row["partition"]): {
            "epochs": [list(pair) for pair in row["epochs"]],
            "log_end_offset": row["log_end_offset"],
            "lost": [[run["start_offset"], run["end_offset"]] for run in lost if run["partition"] == row["partition"]],
        }
        for row in after.rows("replicas")
        if row["role"] in ("leader", "reference")
    }
    later = {(row["group"], row["partition"]): row for row in after.rows("group_offsets")}
    groups = []
    for row in sorted(before.rows("group_offsets"), key=lambda row: (row["group"], row["partition"])):
        key = (row["group"], row["partition"])
        one = {name: row[name] for name in ("group", "topic", "partition", "committed_offset", "leader_epoch")}
        # Groups that the capture has itself are not those of the run.
        if row["group"] not in read:
            continue
        groups.append(
            {
                **one,
                "committed_after": later[key]["committed_offset"],
                "effect_after": later[key]["effect"],
                "parted_after": later[key]["parted_at"],
                "described": list(standing[key]),
                "first_read": read[row["group"]].get(row["partition"]),
            }
        )
    return {"leaders_after": dict(sorted(leaders.items())), "groups": groups}


def record_groups(found: Mapping[str, Any]) -> None:
    """Put an entry in the place of the one of the same candidate."""
    entries = sorted(
        [*(one for one in recorded_groups() if one["candidate"] != found["candidate"]), found],
        key=lambda one: one["candidate"],
    )
    lines = ",\n".join(_lines(one) for one in entries)
    SEEN_FILE.write_text(f"[\n{lines}\n]\n")


def _lines(one: Mapping[str, Any]) -> str:
    head = json.dumps({name: value for name, value in one.items() if name != "groups"})
    groups = ",\n  ".join(json.dumps(group) for group in one["groups"])
    return f'{head[:-1]}, "groups": [\n  {groups}\n]}}'

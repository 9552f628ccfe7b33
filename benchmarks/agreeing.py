"""CPU time of comparing replicas that agree, or nearly: `.venv/bin/python benchmarks/agreeing.py [--beside CHECKOUT]`.

One partition of three replicas, 60,000 batches of one record each, by what the functions of a task do once its segments are scanned:
the plan, the conclusion from the batches that it asked for, and the report rows with the costs of an election. Nothing is read or
written. With --beside the same by the code of another checkout of this repository, in turns, each round in processes of its
own. Prints milliseconds of CPU of each stage, of the fastest round, and ends with status 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STAGES = ("plan", "conclude", "rows")
#: Milliseconds of a conclusion with its rows.
GOALS = {"agree": 5, "agree, mark 5 below": 20, "agree, mark 30 % below": 60, "5 differ": 40, "half differ": 600}


def log(count: int, start: int, epoch: int, mark: int) -> Any:
    """`BATCH_DTYPE` rows of batches of one record at the offsets from `start` to `count`; equal marks, equal records."""
    import numpy as np

    from replica_audit.segments.record_batch import BATCH_DTYPE

    rows = np.zeros(count - start, BATCH_DTYPE)
    offsets = np.arange(start, count)
    rows["base_offset"] = rows["last_offset"] = offsets
    rows["position"], rows["size"] = offsets * 80, 80
    rows["crc"], rows["crc_valid"] = (offsets * 2_654_435_761 + mark) % 2**32, True
    rows["leader_epoch"], rows["magic"], rows["record_count"] = epoch, 2, 1
    rows["base_timestamp"] = rows["max_timestamp"] = 1_700_000_000_000 + offsets
    for name in ("producer_id", "producer_epoch", "base_sequence"):
        rows[name] = -1
    return rows


def logs_of(case: str, count: int) -> tuple[list[Any], int, int]:
    """The batches of the leader and its followers, the followers' high watermark and the leader's epoch."""
    import numpy as np

    shared = log(count, 0, 0, 0)
    half = count // 2
    marks = {"agree, mark 5 below": count - 5, "agree, mark 30 % below": count - count * 3 // 10}
    if case == "5 differ":
        # Throughout the log: records that only one follower has instead of the leader's.
        changed = shared.copy()
        changed["crc"][np.linspace(count // 10, count - 5, 5).astype(int)] ^= 1
        return [shared, shared, changed], count, 0
    if case == "half differ":
        mine = np.concatenate((shared[:half], log(count, half, 1, 1)))
        return [mine, shared, shared], half, 1
    return [shared, shared, shared], marks.get(case, count), 0


def evidence_of(logs: list[Any], mark: int, epoch: int) -> tuple[Any, dict[Any, Any]]:
    """The partition's evidence, and all batches by copy."""
    from replica_audit.auditing.evidence import PartitionEvidence
    from replica_audit.model import CheckpointFile, Leadership, ReplicaDir, TopicPartition
    from replica_audit.segments.summary import Summariser

    name = TopicPartition("orders", 0)
    replicas, batches = [], {}
    for broker, rows in enumerate(logs):
        place = f"broker-{broker}"
        summariser = Summariser(f"{place}/{name}/{0:020d}.log", 0, int(rows["size"].sum()))
        summariser.add(rows)
        file = CheckpointFile("present", f"{place}/file")
        directory = ReplicaDir(
            broker_id=broker,
            log_dir=place,
            topic=name.topic,
            partition=name.partition,
            path=f"{place}/{name}",
            topic_id="one",
            clean_shutdown=False,
            directory_id=None,
            epoch_file=file,
            checkpoint_epochs=tuple(
                (number, int((rows["leader_epoch"] < number).sum()))
                for number in range(int(rows["leader_epoch"][-1]) + 1)
            ),
            high_watermark_file=file,
            recovery_point_file=file,
            log_start_file=file,
            cleaner_file=file,
            high_watermark_checkpoint=mark,
            recovery_point_checkpoint=0,
            segment_bases=(0,),
        )
        replicas.append((directory, (summariser.finish(),)))
        batches[broker, place] = rows
    isr = tuple(range(len(logs))) if epoch == 0 else (0,)
    leadership = Leadership(name.topic, name.partition, "topics_describe", 0, epoch, isr)
    return PartitionEvidence(name, tuple(replicas), leadership), batches


def measure(case: str, count: int) -> dict[str, float]:
    """Milliseconds of CPU by stage."""
    from replica_audit.auditing.comparison_plan import ComparisonPlan
    from replica_audit.auditing.conclude import conclude
    from replica_audit.elect.choice import decided_rows

    evidence, batches = evidence_of(*logs_of(case, count))
    took: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        begin = time.process_time()
        found = work()
        took[stage] = (time.process_time() - begin) * 1000
        return found

    plan = ComparisonPlan(evidence)
    wanted = timed("plan", lambda: plan.batches)
    given = {key: batches[key] for key in wanted}
    audit = timed("conclude", lambda: conclude(plan, given))
    timed("rows", lambda: decided_rows(audit, given))
    return took


def in_process(checkout: Path, count: int) -> dict[str, dict[str, float]]:
    """The times of all cases by the code of a checkout, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "lib")}
    command = [sys.executable, __file__, "--batches", str(count), "--measure"]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", type=Path, help="another checkout")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure("agree", 1_000)  # imports
        print(json.dumps({case: measure(case, arguments.batches) for case in GOALS}))
        return 0
    checkouts = [ROOT] if arguments.beside is None else [ROOT, arguments.beside.resolve()]
    rounds: dict[Path, list[dict[str, dict[str, float]]]] = {checkout: [] for checkout in checkouts}
    for _ in range(arguments.rounds):
        for checkout, found in rounds.items():
            found.append(in_process(checkout, arguments.batches))
    missed = []
    for case, goal in GOALS.items():
        fastest = [min((one[case] for one in found), key=lambda took: sum(took.values())) for found in rounds.values()]
        totals = [took["conclude"] + took["rows"] for took in fastest]
        stages = ", ".join(f"{stage} {fastest[0][stage]:.1f}" for stage in STAGES)
        beside = f", beside {totals[1]:.1f}: {totals[0] / totals[1]:.3f}" if len(totals) > 1 else ""
        print(f"{case}: {totals[0]:.1f} ms (goal {goal}; {stages}){beside}")
        missed += [case] if totals[0] > goal else []
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())

"""Measures a whole audit of large logs beside the official tool: `run --no-quality`, and `kafka-dump-log` of every file with `diff`.

`.venv/bin/python benchmarks/large.py [--kafka JARS] [--mib 3072] [--batch-bytes 16384] [--partitions N] [--runs N]`: JARS is a directory with
Kafka's tools and what they need (`mvn dependency:copy-dependencies` of org.apache.kafka:kafka_2.13 and kafka-tools). Three equal
replicas of a topic are written to a temporary directory (--directory), in segments of 128 MiB at most. Files are dumped two at a
time, each by a JVM of its own as the shell script does, and the dumps of the followers are compared with the leader's. Both read
from the page cache, in turns. Prints seconds of wall time, and the ratio of the fastest runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scan import MIB, make_segment

REPLICAS = 3
GREATEST_SEGMENT = 128 * MIB
DUMP = ("-Xmx256M", "org.apache.kafka.tools.DumpLogSegments")


def write_snapshot(directory: Path, total_bytes: int, batch_bytes: int, partitions: int = 0) -> list[str]:
    """Three equal brokers with a segment in each partition, as few as possible unless `partitions` says how many; returns
    the segments' paths within a broker.
    """
    of_one = total_bytes // REPLICAS
    partitions = partitions or max(2, -(-of_one // GREATEST_SEGMENT))
    data, starts = make_segment(batch_bytes, of_one // partitions)
    names = [f"orders-{number}/{0:020d}.log" for number in range(partitions)]
    for broker in range(REPLICAS):
        root = directory / f"broker-{broker}"
        for name in names:
            (root / name).parent.mkdir(parents=True)
            (root / name).write_bytes(data)
            (root / name).with_name("leader-epoch-checkpoint").write_text("0\n1\n3 0\n" if starts else "0\n0\n")
        (root / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=benchmark\n")
        for file in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
            lines = "".join(f"orders {number} {len(starts)}\n" for number in range(partitions))
            (root / file).write_text(f"0\n{partitions}\n{lines}")
    return names


def audit(snapshot: Path) -> float:
    """Seconds of one audit with an empty warehouse; SystemExit when it finds anything wrong with equal replicas."""
    with tempfile.TemporaryDirectory() as directory:
        places = ["--warehouse", f"{directory}/warehouse", "--report", f"{directory}/report"]
        command = [Path(sys.executable).with_name("replica-audit"), "run", snapshot, "--no-quality", "--quiet", *places]
        before = time.perf_counter()
        ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        if ran.returncode:
            raise SystemExit(f"the audit ended with {ran.returncode}:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        return time.perf_counter() - before


def dump_and_diff(snapshot: Path, names: list[str], jars: Path) -> float:
    """Seconds until every file is dumped and every follower compared."""
    with tempfile.TemporaryDirectory() as directory:

        def dump(broker: int, name: str) -> Path:
            out = Path(directory, f"{broker}-{name.replace('/', '-')}")
            with out.open("wb") as stream:
                command = ["java", "-cp", f"{jars}/*", *DUMP, "--files", name]
                subprocess.run(
                    command, cwd=snapshot / f"broker-{broker}", stdout=stream, stderr=subprocess.PIPE, check=True
                )
            return out

        before = time.perf_counter()
        with ThreadPoolExecutor(2) as pool:
            outs = {(b, name): pool.submit(dump, b, name) for name in names for b in range(REPLICAS)}
            made = {key: future.result() for key, future in outs.items()}
            pairs = [(made[0, name], made[b, name]) for name in names for b in range(1, REPLICAS)]
            for done in [pool.submit(subprocess.run, ["diff", "-q", *map(str, pair)], check=True) for pair in pairs]:
                done.result()
        return time.perf_counter() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--kafka", type=Path, help="a directory with the JARs of Kafka's tools; without, the audit alone"
    )
    parser.add_argument("--partitions", type=int, default=0)
    parser.add_argument("--mib", type=int, default=3072, help="size of all replicas together")
    parser.add_argument("--batch-bytes", type=int, default=16 * 1024)
    parser.add_argument("--runs", type=int, default=1, help="pairs of runs")
    parser.add_argument("--directory", type=Path, help="where the snapshot is made, and removed again")
    arguments = parser.parse_args()
    snapshot = Path(tempfile.mkdtemp(dir=arguments.directory))
    found: dict[str, list[float]] = {"audit": [], "dump and diff": []}
    try:
        names = write_snapshot(snapshot, arguments.mib * MIB, arguments.batch_bytes, arguments.partitions)
        print(
            f"{REPLICAS} replicas, {len(names)} partitions, {arguments.mib} MiB, batches of {arguments.batch_bytes} bytes"
        )
        # Or the first audit would share the machine with the writing of what it reads.
        os.sync()
        for _ in range(arguments.runs):
            found["audit"].append(audit(snapshot))
            print(f"audit {found['audit'][-1]:.1f} s", flush=True)
            if arguments.kafka is None:
                continue
            found["dump and diff"].append(dump_and_diff(snapshot, names, arguments.kafka))
            print(f"dump and diff {found['dump and diff'][-1]:.1f} s", flush=True)
    finally:
        shutil.rmtree(snapshot)
    if arguments.kafka is None:
        return
    fastest = {name: min(seconds) for name, seconds in found.items()}
    print(f"ratio {fastest['audit'] / fastest['dump and diff']:.2f}")


if __name__ == "__main__":
    main()

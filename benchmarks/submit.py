"""Measures what spark-submit costs: `.venv/bin/python benchmarks/submit.py [--runs N] [--cluster]`.

The sample by `replica-audit run`, and by spark-submit as docs/operations.md has it for this machine; with --cluster also as
it is there for a standalone cluster, of two workers of this machine: with the archive of `make environment` unpacked on them, and
handed to the executors. In turns, each with an empty warehouse. Prints the seconds, the median of the ratios, and ends with
status 1 when one is above its goal.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "data" / "samples" / "last-replica-standing"
GOALS = {"this machine": 1.2, "two workers": 1.6}


class Modes:
    """The commands by name, each up to the snapshot."""

    def __init__(self, directory: Path) -> None:
        import pyspark

        from replica_audit.install.environment import find_java
        from replica_audit.install.setup import submit_settings

        self.directory, self.home = directory, Path(pyspark.__file__).parent
        self.environment = {
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ},
            "HOME": str(directory),
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        local, self.cluster_settings = map(str, submit_settings())
        self.commands = {
            "replica-audit": [str(Path(sys.executable).with_name("replica-audit")), "run"],
            "this machine": self._submit("local[*]", local),
        }

    def _submit(self, master: str, settings: str, *options: str) -> list[str]:
        submit, job = str(self.home / "bin" / "spark-submit"), str(ROOT / "jobs" / "run.py")
        return [submit, "--master", master, "--properties-file", settings, *options, job]

    def start_cluster(self, started: ExitStack) -> None:
        """A standalone master and two workers of a core each on loopback; adds the commands that submit to them."""
        master = self._start(
            started, "master.Master", ["--host", "127.0.0.1", "--port", "0"], r"Starting Spark master at (\S+)"
        )
        for number in range(2):
            place = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / f"work-{number}"), master]
            self._start(started, "worker.Worker", place, r"(Successfully registered) with master")
        archive, python = ROOT / "build" / "environment.tar.gz", self.directory / "python"
        python.mkdir()
        subprocess.run(["tar", "-xzf", archive, "-C", python], check=True)
        for name, place, options in (
            ("two workers", python, ()),
            ("two workers, archive", "./environment", ("--archives", f"{archive}#environment")),
        ):
            code = ("--py-files", str(ROOT / "build" / "replica_audit.zip"))
            chosen = ("--conf", f"spark.pyspark.python={place}/bin/python")
            self.commands[name] = self._submit(master, self.cluster_settings, *code, *options, *chosen)

    def _start(self, started: ExitStack, daemon: str, arguments: list[str], sign: str) -> str:
        log = Path(tempfile.mkstemp(dir=self.directory, suffix=".log")[1])
        command = [
            str(self.home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{daemon}",
            *arguments,
            "--webui-port",
            "0",
        ]
        with log.open("wb") as stream:
            process = subprocess.Popen(command, env=self.environment, cwd=self.directory, stdout=stream, stderr=stream)
        started.callback(process.wait, 30)
        started.callback(process.terminate)
        for _ in range(1200):
            if found := re.search(sign, log.read_text(errors="replace")):
                return found[1]
            time.sleep(0.1)
        raise SystemExit(f"{daemon} did not start:\n{log.read_text(errors='replace')[-2000:]}")

    def seconds(self, name: str) -> float:
        """Wall time of one run."""
        environment = self.environment
        if name.startswith("two workers"):
            environment = {
                key: value for key, value in environment.items() if key not in ("PYTHONPATH", "PYSPARK_PYTHON")
            }
        with tempfile.TemporaryDirectory(dir=self.directory) as place:
            command = [
                *self.commands[name],
                str(SAMPLE),
                "--warehouse",
                f"{place}/warehouse",
                "--report",
                f"{place}/report",
            ]
            before = time.perf_counter()
            ran = subprocess.run(command, env=environment, cwd=place, capture_output=True, text=True, check=False)
            # Spark ends with 1 too where it does not start.
            if ran.returncode != 1 or not Path(place, "report", "verdict.json").is_file():
                raise SystemExit(f"{name} ended with {ran.returncode}:\n{ran.stdout[-2000:]}{ran.stderr[-3000:]}")
            return time.perf_counter() - before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cluster", action="store_true", help="needs build/environment.tar.gz (make environment)")
    parser.add_argument("--only", help="beside replica-audit only this one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, ExitStack() as started:
        modes = Modes(Path(directory))
        if arguments.cluster:
            modes.start_cluster(started)
        names = [name for name in modes.commands if arguments.only in (None, name) or name == "replica-audit"]
        found: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(arguments.runs):
            for name in names:
                found[name].append(modes.seconds(name))
                print(f"{name}: {found[name][-1]:.1f} s", flush=True)
    own, missed = found.pop("replica-audit"), False
    for name, seconds in found.items():
        ratio = statistics.median(one / other for one, other in zip(seconds, own, strict=True))
        goal = GOALS.get(name)
        missed |= goal is not None and ratio > goal
        print(f"{name}: {ratio:.2f} times replica-audit run" + (f" (goal {goal})" if goal else ""))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

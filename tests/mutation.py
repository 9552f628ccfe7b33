"""Mutates the protocol and the rules, one change at a time, and says which changes no test notices: `make mutation`.

cosmic-ray makes the changes, in a copy of the tree below build/mutation. What runs against each is the fast tests of its
room. Types in annotations are left alone: `int | None` decides nothing at run time.

    make mutation MUTATION_ARGS="protocol --sample 100"
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TREE = ROOT / "build" / "mutation" / "tree"
TARGET = 0.9


class Room(NamedTuple):
    """What is mutated, and the tests that have to notice."""

    module: str
    tests: tuple[str, ...]


_HISTORIES = ("truncation", "timeline", "leaders")
_SCENES = ("timeline", "rules_watermark", "killed_brokers", "leadership_history", "sole_isr")
ROOMS = {
    "protocol": Room(
        "lib/replica_audit/protocol",
        (
            "tests/protocol",
            *(f"tests/property/test_{name}.py" for name in _HISTORIES),
            *(f"tests/auditing/test_{name}.py" for name in _SCENES),
        ),
    ),
    "rules": Room("lib/replica_audit/auditing/findings/families", ("tests/auditing",)),
}
#: Pytest ends at the first failure; histories are as few as show every case, since hundreds of mutants are tried.
PYTEST = "-x -q -p no:cacheprovider -m 'not spark and not slow'"
HISTORIES = "100"


def configure(room: Room, config: Path) -> None:
    """Write cosmic-ray's configuration for one room."""
    config.write_text(
        "[cosmic-ray]\n"
        f'module-path = "{room.module}"\n'
        "timeout = 300.0\n"
        "excluded-modules = []\n"
        f'test-command = "{sys.executable} -m pytest {PYTEST} {" ".join(room.tests)}"\n\n'
        '[cosmic-ray.distributor]\nname = "local"\n',
        encoding="utf-8",
    )


def choose(session: Path, sample: int | None, seed: int) -> int:
    """Leave in the session what is worth a run, or a sample of it; returns how many mutants that are."""
    with sqlite3.connect(session) as database:
        rows = database.execute(
            "SELECT job_id FROM mutation_specs WHERE operator_name NOT LIKE '%BitOr%' ORDER BY job_id"
        )
        jobs = [job for (job,) in rows]
        places = dict(
            database.execute(
                "SELECT job_id, module_path || start_pos_row || operator_name || occurrence FROM mutation_specs"
            )
        )
        jobs.sort(key=places.__getitem__)
        kept = jobs if sample is None else random.Random(seed).sample(jobs, min(sample, len(jobs)))
        database.execute("CREATE TEMP TABLE kept (job_id)")
        database.executemany("INSERT INTO kept VALUES (?)", [(job,) for job in kept])
        for table in ("mutation_specs", "work_items"):
            database.execute(f"DELETE FROM {table} WHERE job_id NOT IN (SELECT job_id FROM kept)")
    return len(kept)


def survivors(session: Path) -> tuple[int, list[str]]:
    """How many mutants were tried, and where the ones are that no test noticed."""
    with sqlite3.connect(session) as database:
        (tried,) = database.execute("SELECT count(*) FROM work_results").fetchone()
        rows = database.execute(
            "SELECT module_path, start_pos_row, operator_name, diff FROM work_results JOIN mutation_specs USING (job_id) "
            "WHERE lower(test_outcome) LIKE '%survived%' ORDER BY module_path, start_pos_row"
        ).fetchall()
    changed = []
    for path, line, operator, diff in rows:
        new = [text[1:].strip() for text in (diff or "").splitlines() if text[:1] == "+" and text[:3] != "+++"]
        changed.append(f"{path}:{line} {operator}: {' '.join(new)}")
    return tried, changed


def main() -> int:
    """Mutate, run, list the survivors; the exit status says whether nine in ten were noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("--sample", type=int, metavar="N", help="N mutants, not all")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    shutil.rmtree(TREE, ignore_errors=True)
    for name in ("lib", "tests", "data", "conf", "docs", "jobs"):
        shutil.copytree(ROOT / name, TREE / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", TREE)
    session, config = TREE / "session.sqlite", TREE / "mutation.toml"
    configure(ROOMS[arguments.room], config)
    paths = os.pathsep.join([str(TREE / "lib"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "PROPERTY_HISTORIES": HISTORIES, "PYTHONDONTWRITEBYTECODE": "1"}
    ray = [sys.executable, "-m", "cosmic_ray.cli"]
    subprocess.run([*ray, "init", str(config), str(session)], cwd=TREE, env=environment, check=True)
    print(f"{choose(session, arguments.sample, arguments.seed)} mutants of {arguments.room}", flush=True)
    subprocess.run([*ray, "baseline", str(config)], cwd=TREE, env=environment, check=True)
    subprocess.run([*ray, "exec", str(config), str(session)], cwd=TREE, env=environment, check=True)
    tried, left = survivors(session)
    print("\n".join(left))
    share = 1 - len(left) / tried
    print(f"{tried} mutants, {len(left)} not noticed: {share:.0%} killed (target: {TARGET:.0%})")
    return 0 if share >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())

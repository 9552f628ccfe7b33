"""How much index.html weighs and how long it takes to write, for audits of many partitions.

Run as `python benchmarks/page.py [--partitions 10000] [--write FILE]`; ends with status 1 when the page of either audit
weighs 5 MB or more. `--write` leaves the page of the first audit for a look at it.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.large_audit import BAD, CALM, audit_models, large_results  # noqa: E402

from replica_audit.report.facts.verdict import build_verdict  # noqa: E402
from replica_audit.report.page.document import render_page  # noqa: E402
from replica_audit.schema import REPORT_TABLES  # noqa: E402

TARGET = 5_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--write", metavar="FILE")
    arguments = parser.parse_args()
    bad, calm = (audit_models(models) for models in (BAD, CALM))
    worst = 0
    for title, share in (("one in twenty is bad", 0.05), ("every one is bad", 1.0)):
        results = large_results(arguments.partitions, bad, calm, share)
        verdict = build_verdict(results, "high")
        started = time.process_time()
        page = render_page(results, verdict)
        seconds = time.process_time() - started
        size = len(page.encode("utf-8"))
        worst = max(worst, size)
        rows = sum(len(results.rows(table)) for table in REPORT_TABLES)
        print(
            f"{arguments.partitions} partitions, {title}: {size / 1e6:.2f} MB from {rows} rows "
            f"in {seconds:.1f} s of processor time"
        )
        if arguments.write and share < 1:
            Path(arguments.write).write_text(page, encoding="utf-8")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:.0f} MiB; target: less than {TARGET / 1e6:.0f} MB each")
    return int(worst >= TARGET)


if __name__ == "__main__":
    sys.exit(main())

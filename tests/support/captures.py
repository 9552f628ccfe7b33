"""The captures of real clusters, each audited once per run of the tests: as a whole, and partition by partition."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from pathlib import Path

from tests.support.fixtures import ATTACKS, CAPTURES, EXPECTED, FIXTURES, truth
from tests.support.scanned import batches_of, scan_file

from replica_audit.auditing.opened_snapshot import OpenedSnapshot, audit_options
from replica_audit.config import Settings
from replica_audit.errors import InputError, UsageError
from replica_audit.model import TopicPartition
from replica_audit.progress import Progress
from replica_audit.results import Results, place_of
from replica_audit.runner.audit_stage import audit
from replica_audit.runner.executor import Executor, InProcess
from replica_audit.runner.in_process import InMemory, SnapshotSource, audit_all
from replica_audit.schema import REPORT_ROWS, ReportRows
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.opening import open_snapshot
from replica_audit.snapshot.storage import Snapshot
from replica_audit.text import now

__all__ = [
    "CAPTURES",
    "EXPECTED",
    "FIXTURES",
    "audit_by_listing",
    "audit_capture",
    "audit_opened",
    "audit_whole",
    "batch_keys",
    "told",
    "truth",
]


def audit_opened(
    snapshot: Snapshot,
    inventory: Inventory,
    settings: Settings,
    asked: Collection[TopicPartition] = (),
    executor: Executor | None = None,
) -> Results:
    """The answers of `audit_all`, without looking into the snapshot again."""
    source = SnapshotSource(OpenedSnapshot.read(snapshot, inventory, audit_options(inventory, settings), ()))
    kept = InMemory(source, settings, now())
    return audit(executor or InProcess(), source, kept, Progress(), frozenset(asked))


@cache
def audit_whole(snapshot: Path) -> Results:
    """The answers of a capture, an attack or a sample, which nobody may change."""
    return audit_all(str(snapshot), Settings())


@cache
def audit_capture(capture: str, protocol: str = "fetch", leadership_source: str | None = None) -> dict[str, Results]:
    """The answers on every partition of a capture, by name, each with the rows that belong to no partition."""
    settings = Settings(protocol=protocol, leadership_source=leadership_source)
    whole = audit_whole(FIXTURES / capture) if settings == Settings() else audit_all(str(FIXTURES / capture), settings)
    found = {place_of(row): ReportRows() for row in whole.partitions}
    for table in REPORT_ROWS:
        for row in whole.table(table):
            of_partition = found.get((getattr(row, "topic", None), getattr(row, "partition", None)))
            for rows in found.values() if of_partition is None else (of_partition,):
                rows.table(table).append(row)
    return {f"{topic}-{number}": Results.of(whole.audit, rows) for (topic, number), rows in found.items()}


def audit_by_listing(capture: str) -> dict[str, Results]:
    """Audit without the metadata log: leadership comes from the describe listing alone, and has no history."""
    return audit_capture(capture, leadership_source="topics_describe")


def told(results: Results) -> str:
    """Verdict and findings, one a line, for the message of a failed assertion."""
    rows = results.rows("findings")
    lines = [f"{row['severity']} {row['code']} broker {row['broker_id']}: {row['message']}" for row in rows]
    return "\n".join([results.rows("partitions")[0]["verdict"], *lines])


def batch_keys(log_dir: Path, partition: str) -> list[tuple[int, int, int, int, int]]:
    """(base, last, epoch, crc, size) of every batch of one replica, in file order."""
    keys = []
    for path in sorted((log_dir / partition).glob("*.log")):
        rows = batches_of(scan_file(path))
        columns = (rows[name].tolist() for name in ("base_offset", "last_offset", "leader_epoch", "crc", "size"))
        keys += list(zip(*columns, strict=True))
    return keys


SNAPSHOTS = [FIXTURES / name for name in CAPTURES] + sorted(path for path in ATTACKS.glob("*/*") if path.is_dir())


def audited(snapshot: Path) -> Results | None:
    """The answers, with what each choice of leader costs; None where the part has nothing to audit."""
    try:
        opened, inventory = open_snapshot(str(snapshot), (), None)
    except (InputError, UsageError):
        return None
    asked = {TopicPartition(one.topic, one.partition) for one in (*inventory.replicas, *inventory.leaderships)}
    return audit_opened(opened, inventory, Settings(), asked=asked)


@cache
def whole(snapshot: Path) -> Results:
    """The answers of the whole snapshot, once per run."""
    results = audited(snapshot)
    assert results is not None
    return results


#: Healthy, lagging, and clusters of 2.8 and later after everybody came back: nothing is wrong any more.
QUIET = (
    *(name for name in CAPTURES if name.startswith(("healthy", "lagging"))),
    "live-copy",
    *("diverged-healed", "diverged-healed-running", "diverged-multi-healed", "diverged-multi2-healed"),
    *("diverged-clean-healed", "elr-healed", "quorum3-2-healed", "txn-failover-2-healed"),
    *("kafka-3.6-diverged-healed", "kafka-3.9-diverged-healed", "zk-2.8-diverged-healed"),
    *("last-replica-standing-3-healed", "last-replica-elr-3-healed"),
    *("compacted-skewed-1", "compacted-skewed-2", "recreated-1-before", "recreated-2-back"),
    *("jbod-moving", "jbod-killed", "jbod-moved"),
    *("reassigned-1-moving", "reassigned-2-done", "reassigned-3-back"),
    *("retention-skewed", "retention-passed-1-down", "retention-passed-2-back"),
    *("tiered-1", "tiered-2-follower", "tiered-3-last-tiered"),
    *("quorum3-3-uncommitted", "quorum3-4-back"),
    *("old-formats", "old-upgraded"),
)

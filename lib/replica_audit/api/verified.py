"""The answer of `verify`: whether every follower kept between two snapshots exactly what it should have."""

from __future__ import annotations

from collections.abc import Sequence

from replica_audit.api.argument_settings import of_snapshot, resolved
from replica_audit.api.typed_table import Tables
from replica_audit.elect.plan_model import read_plan
from replica_audit.paths import check_files
from replica_audit.progress import Progress
from replica_audit.report.verify_text import render_verification
from replica_audit.schema import VERIFICATION_ROWS
from replica_audit.verify.verification import Verification, verify_snapshots


class Verified(Tables):
    """Tables of the comparison of two snapshots: `verifications`, `gone_records`, `surprises`, `not_verified`."""

    def __init__(self, found: Verification) -> None:
        super().__init__(VERIFICATION_ROWS, lambda table: getattr(found, table))
        self.verification = found

    @property
    def exit_status(self) -> int:
        """0 if every replica kept exactly what it should; 1 if one did not; 3 if something could not be judged."""
        return self.verification.exit_status

    def __str__(self) -> str:
        """The text that `verify` prints."""
        return render_verification(self.verification)


def verify(
    before: str,
    after: str,
    *,
    plan: str | None = None,
    topics: Sequence[str] = (),
    leadership: str | None = None,
    leadership_source: str | None = None,
    protocol: str | None = None,
    kafka_version: str | None = None,
    config: str | None = None,
    progress: Progress | None = None,
) -> Verified:
    """Compare two snapshots of one cluster and, given a `plan.json` as `plan`, its predictions.

    Raises UsageError and InputError.
    """
    given = of_snapshot(topics, leadership, leadership_source, protocol, kafka_version)
    settings = resolved(given, config)
    check_files(settings)
    predicted = None if plan is None else read_plan(plan, "plan")
    return Verified(verify_snapshots(before, after, settings, progress, predicted))

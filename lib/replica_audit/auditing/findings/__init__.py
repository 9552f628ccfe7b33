"""The families of findings: each module holds the texts of its codes, and the rules that find them (docs/semantics.md F.2 to F.7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.findings import (
    cap_doubts,
    cap_files,
    chk,
    div_records,
    div_storage,
    epo_file,
    epo_lineage,
    grp,
    hwm_loss,
    hwm_marks,
    hwm_timeline,
    log_batches,
    log_damage,
    meta_copies,
    meta_elections,
    meta_identity,
    rep,
    tier,
    trn_cuts,
    trn_replay,
    txn,
)

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.finding import Finding

#: In the order of the catalogue. A module is named after the prefix of its codes, and after what they are about.
MODULES = (
    log_damage,
    log_batches,
    epo_file,
    epo_lineage,
    div_records,
    div_storage,
    hwm_loss,
    hwm_marks,
    hwm_timeline,
    rep,
    txn,
    tier,
    chk,
    trn_cuts,
    trn_replay,
    grp,
    meta_elections,
    meta_identity,
    meta_copies,
    cap_files,
    cap_doubts,
)


def judge(case: Case) -> Iterator[Finding]:
    """Every finding of one partition, family by family."""
    for module in MODULES:
        yield from module.judge(case)

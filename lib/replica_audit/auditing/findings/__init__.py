"""The families of findings: modules with the codes and their rules, the prose in Markdown beside them (docs/semantics.md F.2 to F.7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.findings import (
    cap,
    chk,
    div,
    epo,
    grp,
    hwm_loss,
    hwm_marks,
    hwm_timeline,
    log,
    meta_copies,
    meta_elections,
    meta_identity,
    rep,
    tier,
    trn,
    txn,
)

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.finding import Finding

#: In the order of the catalogue. A module is named after the prefix of its codes, and after what they are about.
MODULES = (
    log,
    epo,
    div,
    hwm_loss,
    hwm_marks,
    hwm_timeline,
    rep,
    txn,
    tier,
    chk,
    trn,
    grp,
    meta_elections,
    meta_identity,
    meta_copies,
    cap,
)


def judge(case: Case) -> Iterator[Finding]:
    """Every finding of one partition, family by family."""
    for module in MODULES:
        yield from module.judge(case)

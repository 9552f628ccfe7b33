"""What a finding code is, and the order of severities and verdicts."""

from __future__ import annotations

from dataclasses import dataclass

#: Worst first.
SEVERITIES = ("critical", "high", "medium", "low", "info")

#: Worst first (the order decides a partition's verdict when its findings ask for several).
VERDICTS = (
    "COMMITTED_LOSS",
    "COMMITTED_DIVERGENCE",
    "LATENT_CORRUPTION",
    "WILL_LOSE_ON_TRUNCATION",
    "INCONCLUSIVE",
    "UNCOMMITTED_DIVERGENCE",
    "LAGGING",
    "CONSISTENT",
)


@dataclass(frozen=True, slots=True)
class Code:
    """What a finding code means, how it is proven and what to do about it."""

    code: str
    severities: tuple[str, ...]
    """Every severity that the code can have, worst first."""
    verdicts: tuple[str, ...]
    """Every verdict that it can bring on its partition, worst first; empty when it never moves the verdict."""
    summary: str
    """One line, without a full stop."""
    meaning: str
    proof: str
    remedy: str
    traps: str
    """Harmless explanations that were considered, or have to be; '' when there is none."""

    def __post_init__(self) -> None:
        for severity in self.severities:
            SEVERITIES.index(severity)
        for verdict in self.verdicts:
            VERDICTS.index(verdict)

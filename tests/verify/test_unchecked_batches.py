"""Batches whose checksums nobody computed: where one differs, damage may be all that is different, and nothing is judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.collected import collect_snapshot, copy_snapshot
from tests.support.encoder import encode_batch, flip
from tests.support.snapshots import Replica, write_pair

from replica_audit.config import Settings
from replica_audit.verify.verification import Verification, verify_snapshots

HEADERS = ("--headers", "always")
BATCHES = [encode_batch(base, 5, 0, mark=f"{base}") for base in range(0, 30, 5)]


def _changed(position: int) -> list[bytes]:
    return [*BATCHES[:2], flip(BATCHES[2], position), *BATCHES[3:]]


CRC = _changed(17)


def _verify(
    path: Path, before: list[list[bytes]], after: list[list[bytes]], *options: tuple[str, ...] | None
) -> Verification:
    """The verification of two snapshots of the logs of brokers 1, which leads, and 2; each is collected, or copied where its options
    are None."""
    given = []
    for name, logs, collected in zip(("before", "after"), (before, after), options, strict=True):
        sides = (Replica(log, high_watermark=30, recovery_point=10) for log in logs)
        snapshot = write_pair(path / name, *sides)
        target = path / "given" / name
        given.append(
            copy_snapshot(snapshot, target) if collected is None else collect_snapshot(snapshot, target, *collected)
        )
    return verify_snapshots(*map(str, given), Settings(quiet=True))


@pytest.mark.parametrize("options", [(None, HEADERS), ((), HEADERS), (HEADERS, HEADERS)])
@pytest.mark.parametrize("after", [[CRC, BATCHES], [CRC, CRC]], ids=["the leader's alone", "that of both"])
def test_a_changed_checksum_field_is_no_loss(after: list[list[bytes]], options: tuple, tmp_path: Path) -> None:
    found = _verify(tmp_path, [BATCHES] * 2, after, *options)
    assert not found.verifications and not found.gone_records and found.exit_status == 3
    reasons = [row.reason for row in found.not_verified]
    assert (
        "the log of broker 1 differs in 1 batch of the later snapshot whose checksum nobody computed: collect it again "
        "without --headers, or copy it"
    ) in reasons


def test_a_follower_damaged_before_is_not_called_cut(tmp_path: Path) -> None:
    found = _verify(tmp_path, [BATCHES, CRC], [BATCHES] * 2, HEADERS, HEADERS)
    assert [(row.broker_id, row.verdict) for row in found.verifications] == [(1, "correct")]
    assert not found.gone_records and found.exit_status == 3


def test_what_checksums_show_is_judged_as_before(tmp_path: Path) -> None:
    """Records that are known to be sound, and headers that all agree."""
    cut = _verify(tmp_path / "cut", [BATCHES] * 2, [BATCHES[:4]] * 2, (), HEADERS)
    assert [row.verdict for row in cut.verifications] == ["lost_committed"] * 2 and cut.exit_status == 1
    assert [(one.start_offset, one.end_offset) for one in cut.gone_records] == [(20, 30)]
    same = _verify(tmp_path / "same", [BATCHES] * 2, [BATCHES] * 2, HEADERS, HEADERS)
    assert [row.verdict for row in same.verifications] == ["correct"] * 2 and same.exit_status == 0

"""One replica's segment files edited at random: the audit says so, of that replica, and never calls it a second history."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.support.scenario import Answer, audit, written
from tests.support.snapshots import Replica

LOG = [*written(0, 40, 0), *written(40, 70, 1), *written(70, 100, 3)]
SEEDS = range(150)


def _edit(dice: random.Random, path: Path) -> str:
    """Change one segment file; what was done, or nothing when the bytes stayed the same."""
    file = dice.choice(sorted(path.glob("*.log")))
    before = file.read_bytes()
    content, at = bytearray(before), dice.randrange(len(before))
    kind = dice.choice(["bit", "bit", "bit", "zeros", "inserted", "removed"])
    length = dice.choice([1, 61, 131, 300])
    if kind == "bit":
        content[at] ^= 1 << dice.randrange(8)
    elif kind == "zeros":
        content[at : at + length] = bytes(len(content[at : at + length]))
    elif kind == "inserted":
        content[at:at] = dice.randbytes(length)
    else:
        # Not from a batch's first byte: to lose a batch whole is a hole, and no damage.
        del content[at : at + length]
    file.write_bytes(content)
    return "" if bytes(content) == before else f"{kind} {length} at byte {at} of {file.name}"


def _audit(path: Path, seed: int) -> tuple[str, int, Answer]:
    dice = random.Random(seed)
    damaged, clean, source = dice.choice([2, 3]), dice.random() < 0.5, dice.choice(["topics_describe", "inferred"])
    brokers = {number: Replica(LOG, per_segment=dice.choice([3, 7, 100]), clean_shutdown=clean) for number in (1, 2, 3)}
    done = []
    answer = audit(
        path,
        brokers,
        # Out of the ISR: what an unreadable end means for a member has tests of its own.
        isr={1, 2, 3} - {damaged},
        source=source,
        in_order=True,
        before_audit=lambda: done.append(_edit(dice, path / f"broker-{damaged}" / "orders-0")),
    )
    return done[0], damaged, answer


@pytest.mark.parametrize("seed", SEEDS)
def test_random_damage_is_found_on_the_replica_that_has_it(tmp_path, seed):
    done, damaged, answer = _audit(tmp_path, seed)
    told = f"seed {seed}: {done} of broker {damaged}\n{answer}"
    findings = [row for row in answer.tables["findings"] if row["severity"] != "info" and row["broker_id"] is not None]
    if done:
        assert findings, told
    assert {row["broker_id"] for row in findings} <= {damaged}, told
    holes = [row for row in answer.tables["divergences"] if row["replica_epoch"] is None]
    assert answer.tables["divergences"] == holes, told
    if answer.verdict != "LATENT_CORRUPTION":
        # The bytes that were removed were exactly a batch, or nothing was changed.
        assert not done or (holes and "removed 131" in done), told

"""The same records stored at random: other batches, codecs and formats are no divergence, a changed record is one."""

from __future__ import annotations

import os
import random

import pytest
from tests.support.encoder import CODECS, Record, encode_batch, encode_legacy, encode_wrapper
from tests.support.scenario import audit
from tests.support.snapshots import OF_BATCHES, Replica

HISTORIES = int(os.environ.get("PROPERTY_HISTORIES", "60"))
_PARTS = 6
END = 40


def _stored(dice: random.Random, odd: int | None, magics: tuple[int, ...]) -> list[bytes]:
    """The same records every time, except one that is changed; new formats come after old ones."""
    entries, offset, magic = [], 0, 0
    while offset < END:
        magic = max(magic, dice.choice(magics))
        count = min(END - offset, dice.randrange(1, 9))
        codec = dice.choice([name for name in CODECS if magic == 2 or name != "zstd"])
        records = [
            Record(f"k{one % 7}".encode(), None if one % 5 == 4 else b"changed" if one == odd else f"v{one}".encode())
            for one in range(offset, offset + count)
        ]
        if odd is not None and odd % 5 == 4 and offset <= odd < offset + count:
            records[odd - offset] = Record(b"another key", None)
        if magic == 2:
            entries.append(encode_batch(offset, records, 0, codec=codec, xerial=dice.random() < 0.5))
        elif codec == "none":
            entries += [
                encode_legacy(offset + place, record.value, record.key, magic=magic)
                for place, record in enumerate(records)
            ]
        else:
            messages = [(record.key, record.value) for record in records]
            entries.append(encode_wrapper(offset, messages, codec, magic=magic, xerial=dice.random() < 0.5))
        offset += count
    return entries


def _check(path, seed: int) -> None:
    dice = random.Random(seed)
    odd = dice.randrange(END - 1) if dice.random() < 0.6 else None
    magics = dice.choice(((2,), (0, 1), (0, 1, 2)))
    logs = {1: _stored(dice, None, magics), 2: _stored(dice, odd, magics)}
    brokers = {
        number: Replica(log, first_base_offset=0, high_watermark=END, epochs=None if magics == (0, 1) else OF_BATCHES)
        for number, log in logs.items()
    }
    answer = audit(path, brokers, configs={"cleanup.policy": "delete"})
    rows = answer.tables["divergences"]
    if odd is None:
        assert rows == [], f"seed {seed}\n{answer}"
        assert answer.codes("high") == set(), f"seed {seed}\n{answer}"
        assert not [code for code in answer.codes("medium") if code.startswith("DIV-")], f"seed {seed}\n{answer}"
    else:
        assert [row["start_offset"] for row in rows] == [odd], f"seed {seed}, changed {odd}\n{answer}"
        assert rows[0]["end_offset"] > odd
        assert answer.verdict in ("COMMITTED_DIVERGENCE", "COMMITTED_LOSS"), f"seed {seed}\n{answer}"
    open_ones = [
        row for row in answer.tables["findings"] if row["confidence"] == "suspect" and row["code"].startswith("DIV-")
    ]
    assert not open_ones, f"seed {seed}\n{answer}"


@pytest.mark.parametrize("part", range(_PARTS))
def test_only_a_changed_record_is_a_divergence(tmp_path, part):
    for seed in range(part, HISTORIES, _PARTS):
        _check(tmp_path / str(seed), seed)

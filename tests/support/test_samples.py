"""The sample directories: written anew they are the same, and they hold what their table says."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import google_crc32c
import pytest
from tests.support.archives import read_directory
from tests.support.samples import SAMPLES, TEXTBOOK, TOPIC, answer_text, write_sample
from tests.support.some import some

CAPTURES = ("diverged-unclean", "kip279-1-before", "tiered-unclean")


def _batches(partition_dir: Path) -> list[tuple[int, int, int, bytes]]:
    """(base, last, epoch, whole batch) of each batch, by a walk of its own that shares nothing with the library."""
    found = []
    for segment in sorted(partition_dir.glob("*.log")):
        content, position = segment.read_bytes(), 0
        assert int(segment.stem) == (struct.unpack(">q", content[:8])[0] if content else 0)
        while position < len(content):
            base, length, epoch, magic, crc = struct.unpack_from(">qiibI", content, position)
            batch = content[position : position + 12 + length]
            assert magic == 2 and crc == google_crc32c.value(batch[21:])
            found.append((base, base + struct.unpack_from(">i", batch, 23)[0], epoch, batch))
            position += len(batch)
    return found


@pytest.mark.parametrize("name", sorted(TEXTBOOK))
def test_writing_a_sample_anew_changes_no_byte(name, tmp_path):
    write_sample(name, tmp_path)
    kept = read_directory(SAMPLES / name)
    assert kept.pop("README.md")
    assert read_directory(tmp_path) == kept


@pytest.mark.parametrize("name", sorted(TEXTBOOK))
def test_a_samples_logs_end_where_its_table_says_and_begin_each_epoch_there(name):
    for broker_id, broker in some(TEXTBOOK[name].brokers.items()):
        batches = _batches(SAMPLES / name / f"broker-{broker_id}" / f"{TOPIC}-0")
        assert [batch[0] for batch in batches] == [0, *(batch[1] + 1 for batch in batches[:-1])]
        assert batches[-1][1] + 1 == broker.log_end
        starts = {epoch: base for base, _, epoch, _ in reversed(batches)}
        with_records = [(epoch, start) for epoch, start in broker.epochs if start < broker.log_end]
        assert sorted(starts.items()) == with_records


@pytest.mark.parametrize("name", sorted(TEXTBOOK))
def test_a_samples_replicas_differ_exactly_where_it_says(name):
    sample = TEXTBOOK[name]
    path = SAMPLES / name
    leader = _batches(path / f"broker-{sample.leader}" / f"{TOPIC}-0")
    for broker_id, broker in some(sample.brokers.items()):
        follower = _batches(path / f"broker-{broker_id}" / f"{TOPIC}-0")
        differing = [batch for batch in follower if batch not in leader]
        leader_end = leader[-1][1] + 1
        if not broker.divergences:
            assert not differing or differing[0][0] >= leader_end
            continue
        (start, end), *others = broker.divergences
        assert not others
        assert (differing[0][0], differing[-1][1] + 1) == (start, end)
        assert [batch[1] + 1 for batch in differing[:-1]] == [batch[0] for batch in differing[1:]]


@pytest.mark.parametrize("name", sorted(TEXTBOOK))
def test_no_truncation_point_of_a_sample_lies_inside_a_batch(name):
    for broker_id, broker in some(TEXTBOOK[name].brokers.items()):
        bases = {batch[0] for batch in _batches(SAMPLES / name / f"broker-{broker_id}" / f"{TOPIC}-0")}
        assert set(broker.truncate_to or ()) <= bases | {broker.log_end}


@pytest.mark.parametrize("name", [*sorted(TEXTBOOK), *CAPTURES])
def test_each_sample_says_what_happened_and_what_the_answer_is(name):
    answer = json.loads((SAMPLES / name / "expected.json").read_text())
    story = (SAMPLES / name / "README.md").read_text()
    assert story.startswith(f"# {name}: ")
    assert f"Exit status {answer['exit_status']}" in story
    for partition in answer["partitions"].values():
        assert partition["verdict"] in story
    assert f"({name}/README.md)" in (SAMPLES / "README.md").read_text()


def test_the_directory_of_samples_holds_nothing_else():
    assert sorted(path.name for path in SAMPLES.iterdir()) == sorted(["README.md", "lost-quorum", *TEXTBOOK, *CAPTURES])


def test_an_answer_is_written_with_one_line_for_each_field_of_a_partition():
    answer = {"exit_status": 0, "partitions": {"t-0": {"isr": [1, 2], "truncate_to": {"2": {"fetch": 1}}}}}
    text = answer_text(answer)
    assert json.loads(text) == answer
    assert '      "isr": [1, 2],\n' in text and '        "2": {"fetch": 1}\n' in text

"""`--verify-remote`: segments read where they lie, beside their metadata and the local log (F.7, T9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.collected import collect_snapshot
from tests.support.encoder import flip
from tests.support.remote_log import LEADS, copied, leader, with_remote
from tests.support.remote_stores import chunked_path, compressed, manifest, plain_path, put, segment_id
from tests.support.scenario import written
from tests.support.snapshots import TOPIC, Replica

from replica_audit.auditing import remote_reading
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.paths import check_files
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all
from replica_audit.schema import FindingRow
from replica_audit.snapshot.chunked_segments import parse_manifest
from replica_audit.snapshot.file_tree import TreeEntry

Span = tuple[int, int, tuple[int, int]]
SPANS: tuple[Span, ...] = ((0, 40, (0, 0)), (40, 60, (0, 40)), (60, 100, (1, 60)))
WHOLE = {span: written(*span[:2], span[2][0]) for span in SPANS}
LOCAL_FROM_40 = Replica(
    [*written(40, 60, 0), *written(60, 120, 1)], epochs=((0, 0), (1, 60)), log_start=0, first_base_offset=40
)


def verified(
    path: Path,
    segments: dict[Span, list[bytes]],
    leads: Replica = LEADS,
    *,
    verify: bool = True,
    was: list[bytes] | None = None,
    **options: Any,
) -> Results:
    """An audit with a store that has these segments, each of the size that its broker copied; `was` is that of SPANS[1] before it
    was cut there.
    """
    told = []
    for (start, end, epoch), batches in segments.items():
        data = b"".join(batches)
        put(path / "tier", plain_path(segment_id(start, end, epoch), start), data)
        size = len(data if was is None or start != SPANS[1][0] else b"".join(was))
        told.append(copied(start, end, epoch, size=size))
    with_remote(path / "snapshot", leads, *told, **options)
    return audit_all(str(path / "snapshot"), Settings(topics=(TOPIC,), remote=str(path / "tier"), verify_remote=verify))


def of_store(results: Results) -> list[FindingRow]:
    return [row for row in results.findings if row.code.startswith("TIER-OBJECT")]


def broken(batches: list[bytes], at: int) -> list[bytes]:
    return [batch if number != at else flip(batch) for number, batch in enumerate(batches)]


@pytest.mark.parametrize("leads", [LEADS, LOCAL_FROM_40], ids=["remote only", "local too"])
def test_sound_segments_are_nothing_to_tell(tmp_path: Path, leads: Replica) -> None:
    assert of_store(verified(tmp_path, WHOLE, leads)) == []


def test_a_wrong_checksum_where_only_the_store_has_the_records(tmp_path: Path) -> None:
    segments = {**WHOLE, SPANS[1]: broken(WHOLE[SPANS[1]], 1)}
    results = verified(tmp_path, segments)
    (row,) = of_store(results)
    assert (row.code, row.severity, row.confidence) == ("TIER-OBJECT-DAMAGED", "critical", "proven")
    assert (row.start_offset, row.end_offset) == (
        40,
        60,
    ) and "offsets 45 to 49 are nowhere else in the log" in row.message
    assert results.partitions[0].verdict == "COMMITTED_LOSS"


def test_nothing_is_read_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert of_store(verified(tmp_path, {**WHOLE, SPANS[1]: broken(WHOLE[SPANS[1]], 1)}, verify=False)) == []


def test_damage_of_what_the_log_has_too_is_no_loss(tmp_path: Path) -> None:
    results = verified(tmp_path, {**WHOLE, SPANS[1]: broken(WHOLE[SPANS[1]], 1)}, LOCAL_FROM_40)
    (row,) = of_store(results)
    assert (row.code, row.severity) == ("TIER-OBJECT-DAMAGED", "medium")
    assert results.partitions[0].verdict == "LATENT_CORRUPTION"


def test_damage_of_what_another_segment_has_is_no_loss(tmp_path: Path) -> None:
    """KAFKA-15168: segments of one epoch may overlap."""
    again = (40, 65, (0, 40))
    overlap = [*written(40, 60, 0), *written(60, 65, 0)]
    results = verified(
        tmp_path, {**WHOLE, SPANS[1]: broken(WHOLE[SPANS[1]], 1), again: overlap}, leader((0, 0), (1, 65))
    )
    damaged = [row for row in of_store(results) if row.code == "TIER-OBJECT-DAMAGED"]
    assert [row.severity for row in damaged] == ["medium"]


def test_damage_of_what_only_a_segment_of_another_history_has_is_a_loss(tmp_path: Path) -> None:
    left = (40, 60, (2, 40))
    results = verified(
        tmp_path,
        {**WHOLE, SPANS[1]: broken(WHOLE[SPANS[1]], 1), left: written(40, 60, 2, "lost ")},
        leader((0, 0), (3, 60)),
    )
    damaged = [row for row in of_store(results) if row.code == "TIER-OBJECT-DAMAGED"]
    assert [row.severity for row in damaged] == ["critical"], damaged


def test_damage_of_what_a_segment_may_have_that_could_not_be_read_is_no_proven_loss(tmp_path: Path) -> None:
    again = (40, 65, (0, 40))
    name = segment_id(again[0], again[1], again[2])
    put(tmp_path / "tier", chunked_path(name, 40))
    put(tmp_path / "tier", chunked_path(name, 40, "rsm-manifest"), manifest(100, encryption={"aad": "AA=="}))

    def write() -> None:
        place = tmp_path / "tier" / plain_path(name, 40)
        place.unlink()

    results = verified(
        tmp_path,
        {**WHOLE, SPANS[1]: broken(WHOLE[SPANS[1]], 1), again: [b"x" * 100]},
        leader((0, 0), (1, 65)),
        then=write,
    )
    damaged = [row for row in of_store(results) if row.code == "TIER-OBJECT-DAMAGED"]
    assert [row.severity for row in damaged] == ["medium"], damaged
    assert "or in a segment that could not be read" in damaged[0].message


@pytest.mark.parametrize(
    "batches",
    [WHOLE[SPANS[1]][:-1], [*WHOLE[SPANS[1]][:-1], WHOLE[SPANS[1]][-1][:30]], [*WHOLE[SPANS[1]][:3], b"\0" * 80]],
    ids=["cut between batches", "cut in a batch", "zeros"],
)
def test_a_segment_that_ends_early(tmp_path: Path, batches: list[bytes]) -> None:
    found = of_store(verified(tmp_path, {**WHOLE, SPANS[1]: batches}, was=WHOLE[SPANS[1]]))
    (row,) = [one for one in found if one.code == "TIER-OBJECT-DAMAGED"]
    assert row.severity == "critical" and "[55, 60)" in row.message


@pytest.mark.parametrize("kept", [WHOLE[SPANS[1]][:-1], WHOLE[SPANS[1]][1:3]], ids=["its end", "beginning and end"])
def test_a_segment_that_was_cleaned_before_it_was_copied_has_all_that_was_copied(
    tmp_path: Path, kept: list[bytes]
) -> None:
    """A topic that was compacted once and is tiered now: its local log may be dense."""
    results = verified(tmp_path, {**WHOLE, SPANS[1]: kept})
    assert of_store(results) == [] and results.partitions[0].verdict == "LAGGING"


def test_damage_in_a_segment_that_was_cleaned_before_is_of_its_own_offsets_only(tmp_path: Path) -> None:
    (row,) = of_store(verified(tmp_path, {**WHOLE, SPANS[1]: broken(WHOLE[SPANS[1]][:-1], 1)}))
    assert row.code == "TIER-OBJECT-DAMAGED" and "offsets 45 to 49 are nowhere else" in row.message


@pytest.mark.parametrize("headers", ["never", "always"])
def test_a_local_batch_of_which_no_checksum_was_computed_accuses_no_segment(tmp_path: Path, headers: str) -> None:
    """The stored checksum is what is damaged in the local log; with checksums its batch does not count, either."""
    local = [
        batch if number != 1 else batch[:20] + b"\x77" + batch[21:] for number, batch in enumerate(written(40, 60, 0))
    ]
    leads = Replica([*local, *written(60, 120, 1)], epochs=((0, 0), (1, 60)), log_start=0, first_base_offset=40)
    assert of_store(verified(tmp_path, WHOLE, leads)) == []
    evidence = collect_snapshot(tmp_path / "snapshot", tmp_path / "evidence", "--raw", "--headers", headers)
    settings = Settings(topics=(TOPIC,), remote=str(tmp_path / "tier"), verify_remote=True)
    assert of_store(audit_all(str(evidence), settings)) == []


def test_batches_of_another_epoch_than_the_metadata_has(tmp_path: Path) -> None:
    results = verified(tmp_path, {**WHOLE, SPANS[1]: written(40, 60, 3)})
    (row,) = of_store(results)
    assert (row.code, row.severity) == ("TIER-OBJECT-DIFFERS", "high")
    assert "its batch at 40 is of epoch 3, and its metadata has epoch 0 there" in row.message


def test_batches_of_other_offsets_than_the_metadata_has(tmp_path: Path) -> None:
    (row,) = of_store(verified(tmp_path, {**WHOLE, SPANS[1]: written(40, 70, 0)}))
    assert row.code == "TIER-OBJECT-DIFFERS" and "it has offsets 40 to 69, and not 40 to 59" in row.message


def test_other_records_than_the_local_log_has(tmp_path: Path) -> None:
    other = [*WHOLE[SPANS[1]][:2], *written(50, 55, 0, "other "), WHOLE[SPANS[1]][3]]
    results = verified(tmp_path, {**WHOLE, SPANS[1]: other}, LOCAL_FROM_40)
    (row,) = of_store(results)
    assert row.code == "TIER-OBJECT-DIFFERS"
    assert "its batch at 50 is not the one that broker 1 has there in the same epoch" in row.message
    assert results.partitions[0].verdict == "COMMITTED_DIVERGENCE"


def test_segments_of_a_history_that_was_left_differ_from_the_log_and_that_is_another_matter(tmp_path: Path) -> None:
    left = (60, 75, (0, 60))
    leads = Replica(written(60, 120, 1), epochs=((0, 0), (1, 60)), log_start=0, first_base_offset=60)
    results = verified(tmp_path, {**WHOLE, left: written(60, 75, 0, "lost ")}, leads)
    assert of_store(results) == [] and {row.code for row in results.findings} >= {"TIER-ORPHAN"}


@pytest.mark.parametrize("broken_chunk", [None, 5], ids=["sound", "a broken chunk"])
def test_compressed_chunks_are_read(tmp_path: Path, broken_chunk: int | None) -> None:
    told = []
    for start, end, epoch in SPANS:
        data = b"".join(WHOLE[start, end, epoch])
        stored, head = compressed(data)
        if broken_chunk is not None and start == SPANS[1][0]:
            at = parse_manifest(head, "").ends[broken_chunk - 1]
            stored = stored[:at] + bytes(8) + stored[at + 8 :]
        put(tmp_path / "tier", chunked_path(segment_id(start, end, epoch), start), stored)
        put(tmp_path / "tier", chunked_path(segment_id(start, end, epoch), start, "rsm-manifest"), head)
        told.append(copied(start, end, epoch, size=len(data)))
    with_remote(tmp_path / "snapshot", LEADS, *told)
    settings = Settings(topics=(TOPIC,), remote=str(tmp_path / "tier"), verify_remote=True)
    results = audit_all(str(tmp_path / "snapshot"), settings)
    if broken_chunk is None:
        assert of_store(results) == []
        return
    (row,) = of_store(results)
    assert (row.code, row.severity, row.start_offset) == ("TIER-OBJECT-DAMAGED", "critical", 40)
    assert "[50, 55) cannot be read" in row.message, row.message


def test_encrypted_chunks_are_not_captured_and_that_is_said_once(tmp_path: Path) -> None:
    for start, end, epoch in SPANS:
        put(tmp_path / "tier", chunked_path(segment_id(start, end, epoch), start), b"?" * 50)
        content = manifest(100, encryption={"aad": "AA=="})
        put(tmp_path / "tier", chunked_path(segment_id(start, end, epoch), start, "rsm-manifest"), content)
    with_remote(tmp_path / "snapshot", LEADS, *(copied(*span) for span in SPANS))
    settings = Settings(topics=(TOPIC,), remote=str(tmp_path / "tier"), verify_remote=True)
    results = audit_all(str(tmp_path / "snapshot"), settings)
    (row,) = of_store(results)
    assert (row.code, row.severity) == ("TIER-OBJECT-UNREAD", "info")
    assert "3 segments with offsets 0 to 99 in the remote store: not captured: its chunks are encrypted" in row.message
    assert results.partitions[0].verdict == "LAGGING"


@pytest.mark.parametrize("is_there", [True, False], ids=["unreadable", "deleted since"])
def test_a_segment_that_cannot_be_read_leaves_the_answer_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    class Refusing:
        def open_file(self, path: str) -> None:
            raise OSError(f"{path}: could not be opened: access denied")

        def list_directory(self, folder: str, prefix: str) -> list[TreeEntry]:
            return [TreeEntry(f"{folder}/{prefix}", 1, False)] if is_there else []

    monkeypatch.setattr(remote_reading, "open_store", lambda location: Refusing())
    results = verified(tmp_path, {SPANS[2]: WHOLE[SPANS[2]]}, leader((1, 60), log_start=60))
    found = [(row.code, row.severity) for row in of_store(results)]
    assert found == ([("TIER-OBJECT-UNREAD", "medium")] if is_there else [])
    assert (results.partitions[0].verdict == "INCONCLUSIVE") == is_there


def test_a_link_out_of_a_store_is_not_followed(tmp_path: Path) -> None:
    place = tmp_path / "tier" / plain_path(segment_id(*SPANS[1]), 40)
    elsewhere = tmp_path / "elsewhere.log"
    elsewhere.write_bytes(b"".join(WHOLE[SPANS[1]]))

    def link() -> None:
        place.unlink()
        place.symlink_to(elsewhere)

    with pytest.raises(UsageError, match="it has to be listed as a whole"):
        verified(tmp_path, WHOLE, then=link)


def test_without_a_store_there_is_nothing_to_read() -> None:
    with pytest.raises(UsageError, match="--verify-remote: there is no store to read: name it with --remote"):
        check_files(Settings(verify_remote=True))

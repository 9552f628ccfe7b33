"""What proves records committed: each condition decides once for and once against."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.histories import history
from tests.support.made_cases import batch, case, compared, divergent, leadership, log

from replica_audit.auditing.compare.alignment import Alignment
from replica_audit.auditing.compare.comparison import Comparison
from replica_audit.auditing.compare.divergent_ranges import CommitProof, DivergentRange
from replica_audit.auditing.leadership.commitment import (
    LostMark,
    SoleTerm,
    committed_stretch,
    lost_marks,
    orphaned_marks,
    sole_terms,
    with_lost_marks,
    with_proofs,
    with_unproven_below_start,
)
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.model import ChunkDigest, OffsetRange
from replica_audit.protocol.lineage import Lineage
from replica_audit.schema import SoleIsr
from replica_audit.segments.batch_rows import Batches
from replica_audit.snapshot.log_dir_names import HIGH_WATERMARKS


def run(start: int, end: int, epoch: int | None = 1, proven: int | None = None, **changes: Any) -> DivergentRange:
    """A run of batches of five records; `crcs` of its first ones."""
    crcs = {**dict.fromkeys(range(start, end, 5), 7), **changes.pop("crcs", {})}
    written = -1 if epoch is None else epoch
    batches = [batch(base, base + 4, crc, written) for base, crc in crcs.items() if crc is not None]
    proof = None if proven is None else CommitProof("checkpoint", 2, "its own high watermark", str(proven))
    made = divergent("epoch", replica=epoch, batches=batches, start_offset=start, end_offset=end)
    return made._replace(**{"committed_end": proven, "proof": proof, **changes})


def follower(
    broker: int, *runs: DivergentRange, end: int = 40, outside: int | None = None, **changes: Any
) -> Comparison:
    """A follower with the runs; `outside`: and with a batch there that the reference has, too."""
    bases = ([] if outside is None else [outside], range(0, 30, 5), *(one.batches.starts for one in runs))
    own = Batches.of([batch(int(base), int(base) + 4) for part in bases for base in part])
    return compared(log(broker, (0, 0), (1, 30), end=end, **changes), *runs, alignment=Alignment(own=own))


def ends(comparisons: tuple[Comparison, ...]) -> list[list[int | None]]:
    return [[one.committed_end for one in item.runs] for item in comparisons]


@pytest.mark.parametrize(
    ("one", "other", "compacted", "end"),
    [
        (run(30, 40), run(30, 40, proven=38), False, 38),
        (run(30, 35), run(30, 40, proven=38), False, 35),
        (run(30, 40, 2), run(30, 40, proven=38), False, None),
        # They part, or one has nothing there.
        (run(30, 40), run(30, 40, proven=38, crcs={35: 8}), False, 35),
        (run(30, 40), run(30, 40, proven=38, crcs={30: 8}), False, None),
        (run(30, 40), run(30, 40, proven=38, crcs={30: None}), False, None),
        (run(30, 40, crcs={30: None}), run(30, 40, proven=38), False, 38),
        # A cleaner removes batches, and writes others anew.
        (run(30, 40), run(30, 40, proven=38, crcs={30: None}), True, 38),
        (run(30, 40), run(30, 40, proven=38, crcs={35: 8}), True, 38),
        (run(30, 40), run(30, 40, proven=38, batches=Batches.of([batch(30, 39, 7, 1)])), True, None),
        # A transaction that the reference has again still tells the logs apart.
        (run(30, 40), run(30, 40, proven=38, written_again=Batches.of([batch(30, 34, 8, 1)])), False, None),
        (run(30, 40, kind="hole_here"), run(30, 40, proven=38), False, None),
        # Without epochs only equal batches tell, from the first one on.
        (run(30, 40, None), run(30, 40, None, proven=38), False, 38),
        (run(30, 40, None), run(30, 40, None, proven=35), False, 35),
        (run(30, 40, None), run(30, 40, None, proven=38, crcs={35: 8}), False, 35),
        (run(30, 40, None), run(30, 40, None, proven=38, crcs={30: 8}), False, None),
        (run(30, 40, None), run(30, 40, None, proven=38, crcs={30: 8}), True, None),
        (run(30, 40, None), run(30, 40, proven=38), False, None),
        # What is proven already may be further.
        (run(30, 40, proven=34), run(30, 40, proven=38), False, 38),
        (run(30, 40, proven=39), run(30, 40, proven=38), False, 39),
    ],
)
def test_a_proof_holds_on_another_replica_with_the_same_records(
    one: DivergentRange, other: DivergentRange, compacted: bool, end: int | None
) -> None:
    (first, _) = ends(with_proofs([follower(3, one, compacted=compacted), follower(2, other, compacted=compacted)], ()))
    assert first == [end]


def test_what_another_replica_never_had_or_removed_parts_no_logs() -> None:
    later = follower(2, run(35, 40, proven=38), log_start_offset=35, local_start_offset=35)
    assert ends(with_proofs([follower(3, run(30, 40)), later], ()))[0] == [38]
    epochless = later._replace(runs=(run(35, 40, None, proven=38),))
    assert ends(with_proofs([follower(3, run(30, 35, None)), epochless], ()))[0] == [None]
    shorter = follower(2, run(30, 35, proven=35), end=35)
    assert ends(with_proofs([follower(3, run(30, 40)), shorter], ()))[0] == [35]
    more = follower(3, run(25, 30, kind="hole_here"), run(30, 40))
    assert ends(with_proofs([more, follower(2, run(30, 40, proven=38))], ()))[0] == [None, 38]
    # It agrees with the reference where the other conflicts.
    assert ends(with_proofs([follower(3, run(30, 40)), follower(2, run(35, 40, proven=38))], ()))[0] == [None]


@pytest.mark.parametrize(
    ("runs", "outside", "found"),
    [
        ((run(30, 35), run(35, 40, 2, proven=38)), None, [35, 38]),
        ((run(30, 35), run(35, 40, proven=38)), None, [35, 38]),
        ((run(30, 35, proven=33), run(35, 40, 2)), None, [33, None]),
        ((run(20, 25), run(25, 30, 2), run(30, 35, 3), run(35, 40, 4, proven=38)), None, [25, 30, 35, 38]),
        # What both have between them may part two histories.
        ((run(30, 35), run(40, 45, 2, proven=43)), None, [35, 43]),
        ((run(30, 35), run(40, 45, 2, proven=43)), 35, [None, 43]),
        ((run(30, 35), run(40, 45, 2, proven=43)), 45, [35, 43]),
        ((run(30, 35), run(35, 40, kind="hole_here"), run(40, 45, 2, proven=43)), None, [None, None, 43]),
    ],
)
def test_what_lies_below_a_committed_record_of_its_own_log(runs: tuple, outside: int | None, found: list) -> None:
    assert ends(with_proofs([follower(3, *runs, outside=outside, end=45)], ())) == [found]
    alone = [follower(3, runs[0]), follower(2, *runs[1:])]
    assert ends(with_proofs(alone, ()))[0] == [runs[0].committed_end]


def test_what_follows_from_a_shared_proof() -> None:
    """The proof of the second run is below the first of both replicas, also where the one with the checkpoint has it no more."""
    both = follower(3, run(30, 35), run(35, 40, 2))
    assert ends(with_proofs([both, follower(2, run(30, 35), run(35, 40, 2, proven=38))], ()))[0] == [35, 38]
    begun = follower(2, run(35, 40, 2, proven=38), log_start_offset=35, local_start_offset=35)
    assert ends(with_proofs([both, begun], ()))[0] == [35, 38]


def test_whose_high_watermark_it_was() -> None:
    own, other = with_proofs([follower(2, run(30, 35), run(35, 40, 2, proven=38)), follower(3, run(30, 35))], ())
    texts = [one.proof.text for item in (own, other) for one in item.runs if one.proof]
    assert texts[:2] == ["its own high watermark"] * 2
    assert texts[2] == "the high watermark of broker 2, which has the same records, reached 38"
    told = [one._replace(proof=CommitProof("sole_isr", 2, "alone", "1")) for one in own.runs]
    shared = with_proofs([own._replace(runs=tuple(told)), follower(3, run(30, 35))], ())[1].runs[0].proof
    assert shared is not None and shared.text == "alone"


def term(epoch: int = 1, *, proven: bool = True) -> SoleTerm:
    """Broker 2 was alone in the ISR."""
    return SoleTerm(epoch, 2, proven, CommitProof("sole_isr", 2, f"alone in {epoch}", str(epoch)))


@pytest.mark.parametrize(
    ("facts", "end"),
    [
        (log(3, (0, 0), (1, 30)), 40),
        (log(3, (0, 0), (1, 20), (2, 30), (3, 35)), 30),
        (log(3, (0, 0), (2, 30)), 0),
        (log(3, (0, 0)), 0),
        (log(3, (0, 0), checkpoint_epochs=((0, 0), (1, 40))), 0),
        # The leader wrote nothing in its epoch, or has lost it.
        (log(2, (0, 0), checkpoint_epochs=((0, 0), (1, 40))), 40),
        (log(2, (0, 0), checkpoint_epochs=((0, 0), (1, 50))), 40),
        (log(2, (0, 0)), 0),
        (log(2, (0, 0), checkpoint_epochs=None), 0),
        (log(2, (0, 0), checkpoint_epochs=((3, 0), (1, 40))), 0),
        # Its log was copied before it was cut to 25, and led.
        (log(2, (0, 0), end=30, checkpoint_epochs=((0, 0), (1, 25), (2, 35))), 25),
    ],
)
def test_as_far_as_a_log_is_that_of_the_leader(facts: ReplicaFacts, end: int) -> None:
    epoch = 2 if (facts.file_entries or ((0, 0),))[-1] == (2, 35) else 1
    assert committed_stretch(facts, term(epoch)) == end


@pytest.mark.parametrize(
    ("broker", "one", "terms", "end", "likely"),
    [
        (3, run(30, 40), [term()], 40, None),
        (3, run(30, 40), [term(proven=False)], None, "alone in 1"),
        (3, run(30, 40, proven=35), [term(proven=False)], 35, "alone in 1"),
        (3, run(30, 40, proven=40), [term(proven=False)], 40, None),
        (3, run(30, 40), [term(0)], None, None),
        # Epoch and offset identify no record where two logs differ in content: only the leader's own are known.
        (3, run(30, 40, kind="content"), [term()], None, None),
        (2, run(30, 40, kind="content"), [term()], 40, None),
        (2, run(30, 40, kind="hole_here"), [term()], None, None),
        (3, run(30, 40), [term(0), term()], 40, None),
        # Of records that the reference has again none is lost.
        (3, run(30, 40, batches=Batches.of(())), [term()], None, None),
        (3, run(30, 40, crcs={30: None}), [term()], 40, None),
    ],
)
def test_a_leader_alone_in_the_isr_committed_its_log(
    broker: int, one: DivergentRange, terms: list[SoleTerm], end: int | None, likely: str | None
) -> None:
    (found,) = with_proofs([follower(broker, one)], terms)[0].runs
    assert found.committed_end == end
    assert (found.likely and found.likely.text) == likely
    if end == 40 and one.committed_end is None:
        assert found.committed_records == found.data_records
        assert found.proof is not None and found.proof.text == "alone in 1"


#: Its last record is of the moment at which it was alone.
CHUNK = ChunkDigest(0, 1, 1, 1, 0, 0, 0, 1000, 1002)
ALONE = SoleIsr(1, "throughout", "its copy goes on")


@pytest.mark.parametrize(
    ("alone", "changes", "facts", "version", "proven"),
    [
        ({}, {}, {}, None, True),
        (None, {}, {}, None, None),
        ({}, {}, {"checkpoint_epochs": ((0, 0),)}, None, None),
        # One in sync has to be enough.
        ({"min_isr": 2}, {}, {}, (3, 7), None),
        ({"min_isr": 2}, {}, {}, None, None),
        ({"min_isr": None}, {}, {}, None, None),
        ({"min_isr": 2}, {}, {}, (3, 6), True),
        ({"min_isr": None}, {}, {}, (3, 6), True),
        ({}, {}, {}, (3, 5), False),
        ({"others_fenced": "later"}, {}, {}, None, False),
        ({"others_fenced": "no"}, {}, {}, None, None),
        # Nothing but times shows that it knew: it was not fenced for longer than a session, or wrote.
        ({"applied": None}, {}, {}, None, None),
        ({"applied": None}, {"time_ms": 99_000}, {}, None, False),
        ({"applied": None}, {"time_ms": 10_001}, {}, None, None),
        ({"applied": None}, {"states": slice(3)}, {}, None, None),
        ({"applied": None}, {}, {"chunks": {0: CHUNK}}, None, False),
        ({"applied": None}, {}, {"chunks": {0: CHUNK._replace(last_timestamp_ms=1001)}}, None, None),
        ({"applied": None}, {}, {"chunks": {0: CHUNK._replace(last_timestamp_ms=None)}}, None, None),
        # It was elected alone, so that its file shows it.
        ({"applied": None}, {"states": slice(0, 4, 2)}, {}, None, True),
        ({"applied": None}, {"states": slice(2, 4)}, {}, None, True),
        ({"applied": None}, {"states": slice(2, 4), "occasion": "snapshot"}, {}, None, None),
    ],
)
def test_terms_of_leaders_alone_in_the_isr(
    alone: dict[str, Any] | None, changes: dict[str, Any], facts: dict[str, Any], version: Any, proven: bool | None
) -> None:
    """Broker 2 leads in epoch 1 from second 1 on, then alone; broker 1 in epoch 2."""
    created, elected, shrunk, last = history(
        {"leader_id": 2}, {"isr": (2,), "occasion": changes.get("occasion", "changed")}, {"leader_id": 1}
    )
    shrunk = shrunk._replace(sole_isr=None if alone is None else ALONE._replace(**alone))
    states = (created, elected, shrunk, last._replace(time_ms=changes.get("time_ms", 1003)))
    own = log(2, (0, 0), **{"checkpoint_epochs": ((0, 0), (1, 40)), **facts})
    said = leadership(source="metadata_log", history=states[changes.get("states", slice(4))])
    found = sole_terms([log(1, (0, 0)), own], said, version)
    assert [(one.leader_epoch, one.leader_id, one.proven) for one in found] == (
        [] if proven is None else [(1, 2, proven)]
    )
    assert not sole_terms([own], None, version)
    assert not sole_terms([log(1, (0, 0), (1, 30))], said, version)


def lost(proven_end: int = 38, *entries: tuple[int, int]) -> LostMark:
    """Broker 2 ends at 30, and had come to 38."""
    facts = log(2, (0, 0), end=30)
    return LostMark(facts, 38, proven_end, Lineage(entries or ((0, 0), (1, 30))), certain=True)


@pytest.mark.parametrize(
    ("one", "mark", "end"),
    [
        (run(30, 40), lost(), 38),
        (run(30, 35), lost(), 35),
        (run(30, 40), lost(30), None),
        (run(30, 40), lost(33), 33),
        (run(30, 40, 2), lost(), None),
        (run(30, 40, None), lost(), None),
        (run(30, 40), lost(38, (0, 0), (1, 30), (2, 35)), 35),
        (run(30, 40), lost(38, (0, 0), (1, 35)), 38),
        (run(30, 40, None), lost(38, (1, 45)), None),
        (run(30, 40, kind="content"), lost(), None),
        (run(30, 40, kind="hole_here"), lost(), None),
        (run(30, 40, proven=39), lost(), 39),
    ],
)
def test_a_mark_past_the_end_of_its_log_proves_what_others_have(
    one: DivergentRange, mark: LostMark, end: int | None
) -> None:
    (item,) = with_lost_marks([follower(3, one)], [mark])
    assert item.runs[0].committed_end == end
    if end == 38:
        own = with_lost_marks([follower(2, one)._replace(follower=mark.facts)], [mark])[0].runs[0].proof
        assert own is not None and own.text == "its own high watermark reached 38, before it lost its log from 30 on"
        assert (
            item.runs[0].proof is not None
            and "broker 2, which had the same records, reached" in item.runs[0].proof.text
        )


LOST: dict[str, Any] = {"high_watermark_checkpoint": 45, "recovery_point_checkpoint": 42}


@pytest.mark.parametrize(
    ("facts", "end"),
    [
        (log(2, (0, 0), end=30, **LOST), 45),
        (log(2, (0, 0), end=30, recovery_point_checkpoint=42, high_watermark_checkpoint=30), None),
        (log(2, (0, 0), end=30, **LOST, checkpoint_epochs=None), None),
        (log(2, (0, 0), end=30, **LOST, in_any_order=True), None),
        # From the epoch on that began uncleanly it may be of before.
        (log(2, (0, 0), end=30, **LOST, checkpoint_epochs=((0, 0), (1, 35))), 45),
        (log(2, (0, 0), end=30, **LOST, checkpoint_epochs=((0, 0), (1, 35), (2, 38))), 38),
    ],
)
def test_marks_of_logs_that_lost_their_end(facts: ReplicaFacts, end: int | None) -> None:
    states = history({"leader_id": 2}, {"leader_id": 3, "isr": (3,), "recovering": True})
    states = (states[0], states[1], states[2]._replace(isr=(3,)))
    unclean = (states[0], states[1]._replace(isr=(2,)), states[2])
    made = case(log(1, (0, 0), (1, 35), end=45), compared(facts), history=unclean)
    found = lost_marks(made.reference, (made.reference.facts, facts))
    assert [one.proven_end for one in found] == ([] if end is None else [end])


MARKED = {(2, "broker-2", HIGH_WATERMARKS): 38}


@pytest.mark.parametrize(
    ("orphans", "said", "of_reference", "found"),
    [
        ({}, {}, {}, (30, 38, 1)),
        ({(2, "broker-2", HIGH_WATERMARKS): 30}, {}, {}, None),
        ({(2, "broker-2", "recovery-point-offset-checkpoint"): 38}, {}, {}, None),
        ({}, {"topic_id": None}, {}, None),
        ({}, {}, {"outdated": leadership()}, None),
        # It may have followed since; is no replica any more; or never was in sync before it went.
        ({}, {"fenced_since": {}}, {}, None),
        ({}, {"fenced_since": {2: 12}}, {}, None),
        ({}, {"replicas": (1, 3)}, {}, None),
        ({}, {"replicas": None}, {}, None),
        ({}, {"fenced_since": {2: 10}}, {}, None),
        # Nobody was elected since, or not in the reference's log.
        ({}, {"history": history()}, {}, None),
        ({}, {}, {"facts": log(3, (0, 0))}, None),
        # The leader wrote nothing since, or its first records are compacted away: only its epoch file says where the epoch began.
        ({}, {}, {"facts": log(3, (0, 0), end=33, checkpoint_epochs=((0, 0), (1, 33)))}, (33, 38, 1)),
        ({}, {}, {"facts": log(3, (0, 0), (1, 37), compacted=True, checkpoint_epochs=((0, 0), (1, 33)))}, (33, 38, 1)),
        # A damaged epoch file does not.
        ({}, {}, {"facts": log(3, (0, 0), end=33, checkpoint_epochs=((1, 33), (0, 0)))}, None),
        ({}, {}, {"facts": log(3, (0, 0), (1, 36), checkpoint_epochs=((0, 0), (1, 33)))}, (36, 38, 1)),
        ({}, {}, {"facts": log(3, (0, 0), (1, 36), compacted=True, checkpoint_epochs=((1, 0), (2, 9)))}, (36, 38, 1)),
    ],
)
def test_marks_of_brokers_without_the_partition(
    orphans: dict, said: dict[str, Any], of_reference: dict[str, Any], found: tuple | None
) -> None:
    """Broker 2 was in sync, and is fenced since broker 3 was elected in epoch 1 at 30, which led on in epoch 2."""
    states = history({"leader_id": 3, "isr": (3,)})
    known = leadership(**{"topic_id": "one", "history": states, "fenced_since": {2: 11}, **said})
    own = log(3, (0, 0), (1, 30), (2, 35))
    reference = case(own, **of_reference).reference
    marks = orphaned_marks(orphans or MARKED, known, reference)
    assert [one[2:] for one in marks] == ([] if found is None else [found])
    assert not list(orphaned_marks(MARKED, None, reference))


def below(
    broker: int, *starts: tuple[int, int], mark: int = 0, common_prefix_end: int = 20, **changes: Any
) -> Comparison:
    """A follower whose log begins at 0; the reference's at 20."""
    return compared(
        log(broker, *starts, high_watermark_checkpoint=mark, **changes), common_prefix_end=common_prefix_end
    )


BEHIND = log(1, (2, 20), log_start_offset=20, local_start_offset=20, high_watermark_checkpoint=None)


@pytest.mark.parametrize(
    ("item", "others", "marks", "found"),
    [
        (below(2, (0, 0)), (), (), (0, 20)),
        # It agrees with the reference, or begins there, too.
        (below(2, (0, 0), common_prefix_end=25), (), (), None),
        (below(2, (0, 20)), (), (), None),
        (below(2, (0, 0), end=15, log_start_checkpoint=25), (), (), None),
        (below(2, (0, 10)), (), (), (10, 20)),
        (below(2, (-1, 0), common_prefix_end=25), (), (), None),
        # Its own mark, or that of another log of its history, proves a part; one past the end of its log none.
        (below(2, (0, 0), mark=15), (), (), (15, 20)),
        (below(2, (0, 0), mark=20), (), (), None),
        (below(2, (0, 0), mark=45), (), (), (0, 20)),
        (below(2, (0, 0)), (below(3, (0, 0), mark=15),), (), (15, 20)),
        (below(2, (0, 0)), (below(3, (1, 0), mark=15),), (), (0, 20)),
        (below(2, (0, 0), (1, 10)), (below(3, (0, 0), mark=15),), (), (10, 20)),
        # The other agrees with the reference.
        (below(2, (0, 0)), (below(3, (0, 0), common_prefix_end=25),), (), None),
        (below(2, (0, 0)), (), (lost(12, (0, 0)),), (12, 20)),
        # A cleaner left nothing of an epoch, which the file still has.
        (
            below(2, (1, 10), log_start_offset=0, checkpoint_epochs=((0, 0), (1, 10))),
            (below(3, (0, 0), mark=15),),
            (),
            (10, 20),
        ),
        (below(2, (1, 10), log_start_offset=0, checkpoint_epochs=None), (below(3, (0, 0), mark=15),), (), (0, 20)),
    ],
)
def test_records_below_the_log_start_that_nothing_proves_committed(
    item: Comparison, others: tuple, marks: tuple, found: tuple[int, int] | None
) -> None:
    made = case(BEHIND, item, *others)
    replicas = (BEHIND, *(one.follower for one in made.comparisons))
    first, *_ = with_unproven_below_start(made.comparisons, made.reference, replicas, marks)
    assert first.unproven_below_start == (None if found is None else OffsetRange(*found))


@pytest.mark.parametrize(
    ("alone", "version", "allowed", "noted", "others"),
    [
        ({}, None, "min.insync.replicas was 1", "its copy goes on", "every other assigned"),
        ({"min_isr": 2}, (3, 6), "Kafka 3.6 moves", "its copy goes on", "every other assigned"),
        ({"others_fenced": "later"}, (3, 6), "min.insync.replicas was 1", "its copy goes on", "not from that batch on"),
        ({"applied": None}, None, "min.insync.replicas was 1", "nothing but times", "every other assigned"),
    ],
)
def test_what_is_told_of_a_term(alone: dict[str, Any], version: Any, allowed: str, noted: str, others: str) -> None:
    created, led, shrunk, last = history({"leader_id": 2}, {"isr": (2,)}, {"leader_id": 1})
    shrunk = shrunk._replace(sole_isr=ALONE._replace(**alone))
    said = leadership(source="metadata_log", history=(created, led, shrunk, last))
    (found,) = sole_terms([log(2, (0, 0), (1, 30), chunks={0: CHUNK})], said, version)
    assert all(map(str.__contains__, found.proof.evidence, ("ISR 2 alone: 1970", allowed, noted, others)))
    assert len(found.proof.evidence) == 4 and ("likely" in found.proof.text) is not found.proven

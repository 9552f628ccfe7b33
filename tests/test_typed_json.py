"""Dataclasses and named tuples as JSON objects and back: what was written is read, and anything else is refused with its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

import pytest

from replica_audit.model import TopicPartition
from replica_audit.typed_json import Names, ShapeError, from_object, to_object


class Inner(NamedTuple):
    word: Literal["yes", "no"]
    epochs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Outer:
    inner: tuple[Inner, ...]
    one: Inner | None
    place: TopicPartition
    places: tuple[Annotated[tuple[str, int, int | None], Names(("topic", "partition", "leader_id"))], ...]
    isr: tuple[int, ...] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    counted: bool = False


WHOLE = Outer(
    (Inner("yes", ((0, 5), (1, 7))),), None, TopicPartition("t", 3), (("t", 3, None),), (1, 2), {"a": "b"}, True
)
OBJECT = {
    "inner": [{"word": "yes", "epochs": [[0, 5], [1, 7]]}],
    "one": None,
    "place": {"topic": "t", "partition": 3},
    "places": [{"topic": "t", "partition": 3, "leader_id": None}],
    "isr": [1, 2],
    "files": {"a": "b"},
    "counted": True,
}


def test_what_is_written_is_read() -> None:
    assert json.loads(json.dumps(to_object(WHOLE))) == to_object(WHOLE) == OBJECT
    assert from_object(Outer, {**OBJECT, "more": 1}) == WHOLE


def test_fields_with_a_default_may_be_missing() -> None:
    needed = {name: OBJECT[name] for name in ("inner", "one", "place", "places")}
    assert from_object(Outer, needed) == Outer(WHOLE.inner, None, ("t", 3), WHOLE.places)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"inner": {}}, "inner"),
        ({"inner": [{"word": "maybe"}]}, "inner[0].word"),
        ({"inner": [{}]}, "inner[0].word"),
        ({"inner": [{"word": "no", "epochs": [[0]]}]}, "inner[0].epochs[0]"),
        ({"inner": [{"word": "no", "epochs": [[0, 2**63]]}]}, "inner[0].epochs[0][1]"),
        ({"one": 5}, "one"),
        ({"place": {"topic": "t"}}, "place.partition"),
        ({"place": {"topic": "t", "partition": True}}, "place.partition"),
        ({"isr": [1, "2"]}, "isr[1]"),
        ({"files": {"a": None}}, "files.a"),
        ({"counted": 1}, "counted"),
    ],
)
def test_anything_else_is_refused_with_its_place(change: dict, place: str) -> None:
    with pytest.raises(ShapeError) as told:
        from_object(Outer, {**OBJECT, **change})
    assert told.value.place == place


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(ShapeError, match="^expected an object"):
        from_object(Outer, [])

"""Sets of offsets beside the same question asked of every offset."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from replica_audit.model import OffsetRange, OffsetSet

_RANGES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda pair: OffsetRange(*pair)), max_size=5)


def _offsets(ranges: list[OffsetRange]) -> list[int]:
    return [offset for one in ranges for offset in range(one.start_offset, one.end_offset)]


@settings(deadline=None)
@given(_RANGES, _RANGES)
def test_what_ranges_share_with_a_set_and_what_they_have_beside_it(
    ranges: list[OffsetRange], taken: list[OffsetRange]
) -> None:
    found = OffsetSet.of(taken)
    assert _offsets(found.shared_with(ranges)) == [one for one in _offsets(ranges) if one in _offsets(taken)]
    assert _offsets(found.missing_from(ranges)) == [one for one in _offsets(ranges) if one not in _offsets(taken)]
    assert all(one.size for one in (*found.shared_with(ranges), *found.missing_from(ranges)))

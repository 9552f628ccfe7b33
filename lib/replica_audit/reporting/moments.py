"""Times as text: ISO 8601 in UTC."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def render_time(time_ms: int | None) -> str:
    """Milliseconds since the epoch as 2023-11-14T22:13:20.000Z; - for None, the bare number outside years 1 to 9999.

    Producers choose timestamps, so any int64 may come.
    """
    if time_ms is None:
        return "-"
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"

"""Times as text: ISO 8601 in UTC."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def now() -> str:
    """The present moment, with milliseconds."""
    return _render(datetime.now(timezone.utc), "milliseconds")


def render_time(time_ms: int | None, timespec: str = "milliseconds") -> str:
    """Milliseconds since the epoch as 2023-11-14T22:13:20.000Z; - for None, the bare number outside years 1 to 9999.

    Producers choose timestamps and a damaged record may hold any, so every int64 is taken.
    """
    if time_ms is None:
        return "-"
    try:
        return _render(_EPOCH + timedelta(milliseconds=time_ms), timespec)
    except OverflowError:
        return f"{time_ms} ms"


def _render(moment: datetime, timespec: str) -> str:
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")

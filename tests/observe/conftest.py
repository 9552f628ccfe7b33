"""These tests do not wait for a broker to come back."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pause before something is tried again takes no time; there are as many as ever."""
    from replica_audit.observe import kafka_brokers, observing, planning, reading

    for module, name in ((kafka_brokers, "RECONNECT_SECONDS"), (observing, "CONNECT_AGAIN_SECONDS")):
        monkeypatch.setattr(module, name, tuple(0.0 for _ in getattr(module, name)))
    for module in (planning, reading):
        monkeypatch.setattr(module, "THROTTLED_SECONDS", 0.0)

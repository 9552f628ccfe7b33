"""The bits of a batch's attributes (Kafka: `DefaultRecordBatch`, `LegacyRecord`)."""

from __future__ import annotations

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
KNOWN_ATTRIBUTES = 0x7F

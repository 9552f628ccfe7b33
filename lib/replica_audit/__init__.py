"""Offline audit of Kafka replica logs: high watermark, divergence, truncation replay."""

__version__ = "0.1.0"

"""Audits beside each other: earlier ones, what came and went between them, baselines."""

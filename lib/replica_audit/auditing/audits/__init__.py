"""Audits compared: earlier ones, what came and went between them, baselines."""

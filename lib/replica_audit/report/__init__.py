"""Answers in, text out: terminal, JSON, page, metrics, JUnit."""

"""Results in, text out: JSON, status line, terminal. Nothing here reads a snapshot or a warehouse."""

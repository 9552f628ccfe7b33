"""A directory or store, and what it holds: log dirs, checkpoints, listings, tables, coordinators' logs."""

"""A directory or store, and its contents: log dirs, checkpoints, listings, tables, coordinators' logs."""

"""Where the pure functions run on many files and partitions at once: session, warehouse, and one module per stage."""

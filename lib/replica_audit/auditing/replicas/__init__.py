"""Facts of each replica of a partition, and the reference that the others are compared with."""

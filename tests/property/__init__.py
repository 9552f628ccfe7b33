"""A simulated cluster of one partition, and what must hold of the audit on every history that it can have."""

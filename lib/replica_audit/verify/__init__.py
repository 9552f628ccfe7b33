"""Two snapshots of one cluster: whether every follower kept exactly what it should have."""

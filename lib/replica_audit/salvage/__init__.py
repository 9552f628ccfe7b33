"""Records that other replicas hold and the leader's log does not, and how they are taken out."""

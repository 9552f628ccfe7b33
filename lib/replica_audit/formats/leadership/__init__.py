"""Who leads, in every form but the metadata log: listings, ZooKeeper states, broker logs, the coordinator's log."""

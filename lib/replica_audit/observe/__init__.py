"""What an ordinary client may know of a running cluster, as a snapshot: the only room that reads one."""

"""A running cluster read as an ordinary client, as a snapshot; the only room that reads one."""

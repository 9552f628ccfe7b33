"""What is known of each replica of a partition, and which one the others are compared with."""

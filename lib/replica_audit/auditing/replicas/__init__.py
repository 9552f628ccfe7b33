"""What is known of each replica of a partition: its facts, the copies sorted out, and which one the others are compared with."""
